"""A summary answers a SELECT only where both read the same rows and values, and where its error is proved."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.catalog.table import Column, Kind
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, Literal
from duckdp.compiler.operators import OPERATORS, Operator, operator_sql
from duckdp.compiler.printing import SQL_TYPES
from duckdp.functions import routing
from tests.databases import write_database

VALUES: dict[Kind, list[str]] = {
    Kind.NUMBER: ["1", "2", "0.5", "9"],
    Kind.TEXT: ["'a'", "'b'", "''"],
    Kind.BOOLEAN: ["TRUE", "FALSE"],
    Kind.DATE: ["DATE '2020-01-31'", "DATE '1999-02-01'", "DATE '2024-12-31'"],
    Kind.TIMESTAMP: ["TIMESTAMP '2020-01-31 10:00:00'", "TIMESTAMP '1999-02-01'", "TIMESTAMP '2024-12-31'"],
}
OPTIONS = {"left": "2", "right": "2", "substring": "1,2", "to_integer": "INTEGER", "units": "2"} | {
    name: "month" for name in OPERATORS if name.startswith(("trunc_", "date_diff", "date_sub"))
}
OPTIONS |= {
    "text_decimal": "38,2",
    "read_integer": "INTEGER",
    "split_part": "1",
    "lpad": "3",
    "rpad": "3",
    "regexp_extract": "0",
    "strftime_date": "%Y",
    "strftime_timestamp": "%Y",
    "shifted": "1,0,0",
    "bucket_date": "20160 minutes",
    "bucket_timestamp": "5 months",
}


def kinds_of(operator: Operator) -> tuple[Kind, ...]:
    return (*operator.takes, *[operator.takes[-1]] * (3 - len(operator.takes))) if operator.variadic else operator.takes


def reads(kinds: tuple[Kind, ...], name: str = "c{}") -> tuple[Expr, ...]:
    return tuple(
        ColumnRef(Column(name=name.format(i), source="s", type=SQL_TYPES[k], kind=k)) for i, k in enumerate(kinds)
    )


def is_null(con: duckdb.DuckDBPyConnection, call: Call, rows: list[tuple[str, ...]], kinds: tuple[Kind, ...]) -> set:
    """Of each row of arguments, whether DuckDB gives NULL."""
    columns = [f"CAST(a{i} AS {SQL_TYPES[k]})" for i, k in enumerate(kinds)]
    names = ", ".join(f"a{i}" for i in range(len(kinds)))
    listed = ", ".join(f"({', '.join(row)})" for row in rows)
    sql = f"SELECT {operator_sql(call, columns)} IS NULL FROM (VALUES {listed}) AS t({names})"
    return {bool(row[0]) for row in con.execute(sql).fetchall()}


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_duckdb_agrees_where_a_null_argument_makes_null(name: str) -> None:
    operator = OPERATORS[name]
    kinds = kinds_of(operator)
    call = Call(name, reads(kinds), operator.gives or kinds[-1], OPTIONS.get(name, ""))
    found = routing.null_with(call)
    every = list(itertools.product(*([*VALUES[k], "NULL"] for k in kinds)))
    with duckdb.connect(":memory:") as con:
        for i in range(len(kinds)):
            always = is_null(con, call, [row for row in every if row[i] == "NULL"], kinds) == {True}
            assert (f"c{i}" in found) == always, f"argument {i}"
        together = is_null(con, call, [("NULL",) * len(kinds)], kinds) == {True}
    one = Call(name, reads(kinds, "c"), call.kind, call.option)
    assert ("c" in routing.null_with(one)) == together


def test_a_case_and_a_constant_promise_no_null() -> None:
    (x,) = reads((Kind.NUMBER,))
    one = Literal(1, Kind.NUMBER)
    assert routing.null_with(Case(((Call("is_null_number", (x,), Kind.BOOLEAN), one),), x, Kind.NUMBER)) == set()
    assert routing.null_with(Call("coalesce_number", (x, one), Kind.NUMBER)) == set()
    assert routing.null_with(Call("add", (x, one), Kind.NUMBER)) == {"c0"}


TABLES = {
    "labels": "SELECT [1, 2, 57, 57][1 + i % 4]::INTEGER AS k, ['a', 'bb', 'zzzzzz', 'zzzzzz'][1 + i % 4] AS s, "
    "CASE WHEN i % 4 > 0 THEN 'a' END AS n, (i % 2 = 0) AS b, [0, 1, 7][1 + i % 3]::INTEGER AS few "
    "FROM range(4000) t(i)",
    "gaps": "SELECT CASE WHEN i % 2 = 0 THEN 1 END::INTEGER AS x, CASE WHEN i % 2 = 0 THEN 5 ELSE 9 END::INTEGER AS y "
    "FROM range(4000) t(i)",
}


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    folder: Path = tmp_path_factory.mktemp("rows")
    path = write_database(folder / "t.duckdb", TABLES, never_null={"labels": ("k", "s", "b", "few")})
    with duckdp.open(path, ledger=str(folder / "t.ledger")) as found:
        found.protect(
            "labels",
            row_cap=10_000,
            bounds={"few": (0, 7)},
            domains={"k": [1, 2], "s": ["a", "bb"], "n": ["a", "b"], "b": [True, False]},
            other={"k": 3, "s": "zz", "n": "b"},
            nulls={"n": "nn"},
        )
        found.protect("gaps", row_cap=10_000, bounds={"x": (0, 10), "y": (0, 10)})
        found.budget(epsilon=1000)
        found.grant("ana", epsilon=900)
        ana = found.session("ana")
        for column in ("k", "s", "n", "b", "few"):
            ana.smooth_summary("labels", [column], epsilon=50, degree=12, name=f"of_{column}")
        ana.smooth_summary("labels", ["k", "few"], epsilon=50, degree=12, name="of_both")
        ana.smooth_summary("gaps", ["x", "y"], epsilon=50, degree=12, name="of_xy")
        yield found


@pytest.mark.parametrize(
    ("statement", "truth"),
    [
        ("SELECT avg(k > 40) AS v FROM labels", 0.5),
        ("SELECT avg(length(s)) AS v FROM labels", 3.75),
        ("SELECT avg(n = 'nn') AS v FROM labels", 0.25),
        ("SELECT avg(CAST(y BETWEEN x AND 7 AS DOUBLE)) AS v FROM gaps", 0.5),
        ("SELECT avg(CAST(y < 7 AND x < 7 AS DOUBLE)) AS v FROM gaps", 0.5),
        ("SELECT avg(greatest(x, y)) AS v FROM gaps", 7.0),
        ("SELECT avg(nullif(few, 7)) AS v FROM labels", 0.5),
        ("SELECT avg(CASE WHEN few < 7 THEN few END) AS v FROM labels", 0.5),
    ],
)
def test_other_rows_or_values_are_not_taken_for_the_same(statement: str, truth: float, owner: duckdp.Curator) -> None:
    result = owner.session("ana").sql(statement, tolerance=1e9, epsilon=40)
    assert result.source.startswith("charge")
    assert result.rows()[0][0] == pytest.approx(truth, abs=0.5 if truth > 1 else 0.05)


@pytest.mark.parametrize(
    ("statement", "truth", "source"),
    [
        ("SELECT avg(b) AS v FROM labels", 0.5, "of_b"),  # both values listed: none can lie outside
        ("SELECT avg(few > 3) AS v FROM labels", 1 / 3, "of_few"),
        ("SELECT avg(x + y) AS v FROM gaps", 6.0, "of_xy"),
    ],
)
def test_the_same_rows_and_values_still_are_free(
    statement: str, truth: float, source: str, owner: duckdp.Curator
) -> None:
    result = owner.session("ana").sql(statement, tolerance=1e9)
    assert result.source == f'summary "{source}"'
    assert result.rows()[0][0] == pytest.approx(truth, abs=0.05)


def test_labels_that_are_not_read_leave_no_row_out(owner: duckdp.Curator) -> None:
    text = str(owner.session("ana").explain("SELECT avg(few) AS v FROM labels", tolerance=1e9))
    assert 'summary "of_both": v ±' in text  # its k has a label for every value outside the domain


def test_an_error_that_is_only_estimated_is_not_taken(owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("duckdp.smooth.answer")  # the package has a function of that name
    real = module.answer

    def guessed(*given: Any, **more: Any) -> Any:
        return dataclasses.replace(real(*given, **more), estimated=True)

    monkeypatch.setattr(module, "answer", guessed)
    result = owner.session("ana").sql("SELECT avg(few) AS v FROM labels", tolerance=1e9, epsilon=1)
    assert result.source.startswith("charge")
    text = str(owner.session("ana").explain("SELECT avg(few) AS v FROM labels", tolerance=1e9, epsilon=1))
    assert "only an estimate" in text


def test_a_smooth_answer_says_whether_its_error_is_proved(owner: duckdp.Curator) -> None:
    ana, con = owner.session("ana"), owner.connect("ana")
    result = ana.smooth_answer("of_few", "few")
    assert [c.name for c in result.columns] == [
        "value",
        "standard_error",
        "approximation_error",
        "low",
        "high",
        "estimated",
    ]
    assert result.rows()[0][5] is False
    assert con.execute("SELECT estimated FROM dp_smooth_answer('of_few', 'few')").fetchall() == [(False,)]
    found = con.execute("SELECT dp_smooth_answer('of_few', 'few')").fetchone()
    assert found is not None
    assert list(found[0]) == [c.name for c in result.columns]
    listed = ana.smooth_answers("of_few", ["few"])
    assert [c.name for c in listed.columns] == ["function", *(c.name for c in result.columns)]
