"""What the dp functions give in SQL: names, types and values of every output, memory of answers, closing."""

from __future__ import annotations

import datetime as dt
import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.errors import ParameterError
from duckdp.front import binder
from duckdp.front.front import Front
from duckdp.result import Estimate, Result, ResultColumn

ROWS = {
    "flag": [True, False, None] * 10,
    "kind": ["a", "b", None] * 10,
    "day": [dt.date(2020, 1, 1), None] * 15,
    "at": [dt.datetime(2020, 1, 1, 12, 30), None, None] * 10,
    "level": [1, 2, None] * 10,
    "cost": [1.5, None, 3.0] * 10,
    "share": [0.5, 1.5, None] * 10,
}
TYPES = {
    "flag": pa.bool_(),
    "kind": pa.string(),
    "day": pa.date32(),
    "at": pa.timestamp("us"),
    "level": pa.int32(),
    "cost": pa.float64(),
    "share": pa.float64(),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    frame = pa.table({n: pa.array(v, TYPES[n]) for n, v in ROWS.items()})
    with duckdp.open({"t": frame}, ledger=tmp_path_factory.mktemp("front") / "ledger") as curator:
        curator.protect(
            "t",
            row_cap=100,
            expected_rows=30,
            bounds={"cost": (0, 5), "level": (0, 10)},
            domains={
                "flag": [True, False, None],
                "kind": ["a", "b", None],
                "day": [dt.date(2020, 1, 1), None],
                "at": [dt.datetime(2020, 1, 1, 12, 30), None],
                "level": [1, 2, None],
                "share": [0.5, 1.5, None],
            },
        )
        curator.budget(epsilon=10_000, delta="1e-3")
        curator.grant("ana", epsilon=10_000, delta="1e-3")
        yield curator


@pytest.fixture
def con(world: duckdp.Curator) -> Iterator[duckdb.DuckDBPyConnection]:
    with world.connect("ana") as cursor:
        yield cursor


@pytest.mark.parametrize(
    ("key", "kind", "python"),
    [
        ("flag", "BOOLEAN", bool),
        ("kind", "VARCHAR", str),
        ("day", "DATE", dt.date),
        ("at", "TIMESTAMP", dt.datetime),
        ("level", "BIGINT", int),
        ("share", "DOUBLE", float),
    ],
)
def test_keys_keep_type_and_null(
    key: str, kind: str, python: type, world: duckdp.Curator, con: duckdb.DuckDBPyConnection
) -> None:
    statement = f"SELECT {key}, count(*) AS n FROM t GROUP BY {key} ORDER BY {key} NULLS LAST"
    done = con.execute("FROM dp_query($1, epsilon := 20)", [statement])
    assert [(d[0], str(d[1])) for d in done.description[:2]] == [(key, kind), ("n", "BIGINT")]
    rows = done.fetchall()
    result = world.session("ana").sql(statement, epsilon=20)
    assert [r[:2] for r in rows] == result.rows()
    values = [r[0] for r in rows]
    assert values[-1] is None
    assert all(type(v) is python for v in values[:-1])
    assert set(values) == set(ROWS[key])
    arrow = result.arrow()
    assert arrow.column_names == [key, "n", "n_standard_error", "n_low", "n_high"]
    assert arrow.column(0).to_pylist() == values
    assert arrow.schema.field(0).type == {"level": pa.int64()}.get(key, TYPES[key])


OUTPUTS = {
    "count(*)": ("BIGINT", int),
    "count(cost)": ("BIGINT", int),
    "sum(level)": ("DOUBLE", float),
    "sum(cost)": ("DOUBLE", float),
    "avg(cost)": ("DOUBLE", float),
    "stddev_samp(cost)": ("DOUBLE", float),
    "var_pop(level)": ("DOUBLE", float),
    "count(*) + 0.5": ("DOUBLE", float),
    "2.5": ("DOUBLE", float),
    "count(*) > 3": ("BOOLEAN", bool),
    "'text'": ("VARCHAR", str),
    "round(avg(cost))": ("DOUBLE", float),
    "sum(cost) / count(*)": ("DOUBLE", float),
    "count(*) FILTER (WHERE flag)": ("BIGINT", int),
    "CASE WHEN count(*) > 0 THEN 'many' ELSE 'few' END": ("VARCHAR", str),
    "true": ("BOOLEAN", bool),
}


@pytest.mark.parametrize("expression", OUTPUTS)
def test_outputs_have_one_type_before_and_after(
    expression: str, world: duckdp.Curator, con: duckdb.DuckDBPyConnection
) -> None:
    kind, python = OUTPUTS[expression]
    statement = f"SELECT count(*) AS n, {expression} AS x FROM t"
    call = f"FROM dp_query($${statement}$$, epsilon := 20)"
    described = {r[0]: r[1] for r in con.execute(f"DESCRIBE {call}").fetchall()}
    assert described["x"] == kind
    value = con.execute(f"SELECT x FROM ({call})").fetchone()[0]  # type: ignore[index]
    assert type(value) is python
    result = world.session("ana").sql(statement, epsilon=20)
    assert result.rows()[0][1] == value
    assert [c.type for c in result.columns][1] == kind
    assert result.arrow(intervals=False).column("x").to_pylist() == [value]


def test_what_fails_in_python_is_not_told(
    world: duckdp.Curator, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails between DuckDB and a desk, at the binding or later: one constant text."""
    call = "SELECT * FROM dp_noisy_count('t', epsilon := 1)"

    def fails(*_: object, **__: object) -> None:
        raise ValueError("alice_7f3 has 4242")

    for step in ("_bind", "_answer", "_compute", "_remember"):
        with monkeypatch.context() as patch:
            patch.setattr(f"duckdp.front.binder.Binder.{step}", fails)
            with pytest.raises(duckdb.Error) as caught:
                con.execute(call).fetchall()
        assert "X101" in str(caught.value), step
        assert "4242" not in str(caught.value)
        assert "alice" not in str(caught.value)
    assert len(con.execute(call).fetchall()) == 1


def test_an_undefined_value_is_null_everywhere(world: duckdp.Curator, con: duckdb.DuckDBPyConnection) -> None:
    """An average over nothing, asked until its noisy count is not positive."""
    for epsilon in range(1, 60):
        statement = f"SELECT avg(cost) AS x, stddev_samp(cost) AS s FROM t WHERE cost > 4 AND {epsilon} > 0"
        result = world.session("ana").sql(statement, epsilon=f"0.{epsilon:03}")
        if result.rows()[0][0] is None:
            break
    assert result.rows()[0] == (None, None)
    cell = result.estimates()[0]["x"]
    assert (cell.value, cell.low, str(cell)) == (None, None, "undefined")
    row = con.execute(f"FROM dp_query($${statement}$$, epsilon := 0.{epsilon:03})").fetchone()
    assert row == (None,) * 8
    table = result.arrow()
    assert [str(f.type) for f in table.schema] == ["double"] * 8
    assert "undefined" in str(result)


def test_empty_answers_keep_their_types(world: duckdp.Curator, con: duckdb.DuckDBPyConnection) -> None:
    statement = "SELECT kind, day, at, count(*) AS n, avg(cost) AS a FROM t GROUP BY ALL HAVING count(*) > 1e9"
    result = world.session("ana").sql(statement, epsilon=1)
    assert (len(result), result.rows()) == (0, [])
    assert [str(f.type) for f in result.arrow(intervals=False).schema] == [
        "string",
        "date32[day]",
        "timestamp[us]",
        "int64",
        "double",
    ]
    done = con.execute("FROM dp_query($1, epsilon := 1, intervals := false)", [statement])
    assert [str(d[1]) for d in done.description] == ["VARCHAR", "DATE", "TIMESTAMP", "BIGINT", "DOUBLE"]
    assert done.fetchall() == []
    assert "kind" in str(result)
    assert "<table>" in result._repr_html_()


def test_frames(world: duckdp.Curator) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for result in (
        world.session("ana").sql("SELECT kind, count(*) AS n FROM t GROUP BY kind", epsilon=20),
        world.session("ana").sql("SELECT kind, count(*) AS n FROM t GROUP BY kind HAVING count(*) > 1e9", epsilon=20),
    ):
        assert isinstance(result.df(), pandas.DataFrame)
        frame = result.pl(intervals=False)
        assert isinstance(frame, polars.DataFrame)
        assert frame.rows() == result.rows()
        assert frame.schema == {"kind": polars.String, "n": polars.Int64}


NASTY = [
    "<script>alert(1)</script>",
    "a&b",
    '"><img src=x onerror=alert(1)>',
    "\x1b[2J\x1b[31mred",
    "a\rb\nc\td",
    "\u202eevil",
    "\0",
]


@pytest.mark.parametrize("text", NASTY)
def test_shown_text_is_escaped(text: str) -> None:
    values: list[Any] = [text]
    estimates = [Estimate(value=1.0, note=text)]
    columns = [
        ResultColumn(name=text, type="VARCHAR", values=values),
        ResultColumn(name="n", type="DOUBLE", values=[1.0], estimates=estimates),
    ]
    result = Result(columns=columns, source=text, cost=text, remaining=text, notes=[text])
    shown, page = str(result), result._repr_html_()
    assert not [c for c in shown if not c.isprintable() and c != "\n"]
    assert "<script" not in page
    assert "<img" not in page


def test_answers_are_remembered_within_limits(world: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    front = Front(world.session("ana").desk)
    mind = front._binder
    monkeypatch.setattr(binder, "REMEMBERED", 5)
    with front.connection() as con:
        first = con.execute("FROM dp_noisy_count('t', epsilon := 0.5, fresh := true)")
        assert len(first.fetchall()) == 1
        for i in range(20):
            con.execute(f"FROM dp_noisy_count('t', epsilon := 0.1, predicate := 'cost > 0.{i:02}')").fetchall()
            with pytest.raises(duckdb.Error):
                con.execute(
                    "FROM dp_noisy_count('t', epsilon := 100, predicate := 'cost > 7', fresh := maybe)"
                ).fetchall()
            with pytest.raises(duckdb.Error):
                con.execute("FROM dp_noisy_count('t', error := -1)").fetchall()
        assert len(mind._answers) == 5
        monkeypatch.setattr(binder, "MOST_CELLS", 12)
        con.execute("FROM dp_noisy_count('t', epsilon := 0.25)").fetchall()
        assert len(mind._answers) == 3  # four cells each
    assert not mind._turns
    assert len(mind._refusals) <= 32
    front.close()
    assert not mind._answers


def test_a_huge_token_list_is_refused(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    import re

    text = con.execute("SELECT __dp_bind('dp_noisy_count', ['t', '0.5', NULL, 'false', NULL, 'false'], [])").fetchone()[
        0
    ]  # type: ignore[index]
    token = re.search(r"'([^']+)'", text)[1]  # type: ignore[index]
    assert len(con.execute("SELECT __dp_i64(?, 0) FROM range(100)", [token]).fetchall()) == 100
    monkeypatch.setattr(binder, "MOST_CELLS", 50)
    with pytest.raises(duckdb.InvalidInputException):
        con.execute("SELECT __dp_i64(?, 0) FROM range(100)", [token]).fetchall()


def test_session_variable_epsilon(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("SET VARIABLE dp_epsilon = 0.125")
    plan = "\n".join(r[0] for r in con.execute("FROM dp_explain('SELECT count(*) FROM t')").fetchall())
    assert "epsilon=0.125" in plan
    assert len(con.execute("FROM dp_noisy_count(t)").fetchall()) == 1
    assert len(con.execute("FROM dp_noisy_count('t', error := 30)").fetchall()) == 1  # error goes before the variable
    con.execute("RESET VARIABLE dp_epsilon")


def test_arguments_of_odd_types(con: duckdb.DuckDBPyConnection) -> None:
    for call, code in {
        "dp_noisy_count(NULL, epsilon := 1)": "P107",
        "dp_noisy_count(42, epsilon := 1)": "C101",
        "dp_noisy_count('t', epsilon := 'x')": "P101",
        "dp_noisy_count('t', epsilon := 1, fresh := NULL)": "P107",
        "dp_noisy_count('t', epsilon := 1, unit := 'maybe')": "P107",
        "dp_noisy_count('t', error := 'nan')": "P107",
        "dp_noisy_count('t', epsilon := 1, predicate := 7)": "Q203",
        "dp_noisy_count('t', epsilon := 1, predicate := '')": "Q101",
        "dp_median_smooth('t', NULL, epsilon := 1)": "P107",
        "dp_median_smooth('t', 'cost', epsilon := 1, quantile := 'inf')": "P107",
        "dp_median_smooth('t', 'cost', epsilon := 1, quantile := 'nan')": "P107",
        "dp_median_smooth('t', 'cost', epsilon := 1, quantile := 2)": "P107",
        "dp_median_smooth('t', 'kind', epsilon := 1)": "Q203",
        "dp_median_smooth('t', 'cost', epsilon := 1, quantile := '1e-300')": "P107",
        "dp_smooth_answer('none', 'cost')": "C110",
        "dp_smooth_answer(NULL, NULL)": "P107",
        "dp_smooth_summary('t', [], epsilon := 1, name := 'a')": "P107",
        "dp_synthesize('t', epsilon := 1, rows := NULL)": "P107",
        "dp_smooth_summary('t', NULL, epsilon := 1, name := 'a')": "P107",
        "dp_synthesize('t', epsilon := 1, rows := 'x')": "P107",
        "dp_query(NULL, epsilon := 1)": "P107",
        "dp_query('SELECT count(*) FROM t', epsilon := 1, delta := 'x')": "P102",
        "dp_query('SELECT count(*) FROM t', epsilon := 1, mechanism := NULL)": "P107",
    }.items():
        with pytest.raises(duckdb.InvalidInputException) as caught:
            con.execute(f"FROM {call}")
        assert str(caught.value).startswith(f"Invalid Input Error: {code}"), call


LEAVING = """
import sys
import duckdb, duckdp, pyarrow
curator = duckdp.open({"t": pyarrow.table({"x": [1, 2]})}, ledger=sys.argv[1])
curator.protect("t", row_cap=10); curator.budget(epsilon=10); curator.grant("ana", epsilon=10)
kept = [curator.connect("ana"), duckdb.connect()]
kept.append(kept[0].cursor())
duckdp.register(kept[1], curator, analyst="ana")
for con in kept:
    print(con.execute("FROM dp_noisy_count('t', epsilon := 1)").fetchall())
if sys.argv[2] == "closed":
    curator.close()
if sys.argv[2] == "error":
    raise SystemExit(0)
"""


@pytest.mark.parametrize("how", ["left open", "closed", "error"])
def test_nothing_is_printed_on_leaving(how: str, tmp_path: Path) -> None:
    """No leaked instances of the binding, no traceback of an exit handler."""
    command = [sys.executable, "-W", "error", "-c", LEAVING, str(tmp_path / "ledger"), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("[(") == 3


def test_a_refusal_keeps_nothing_of_whoever_was_refused(curator: duckdp.Curator) -> None:
    """The functions that DuckDB calls are kept for ever, and with them the last refusals: they must know no frames."""

    class Mine:
        pass

    def refused_one() -> weakref.ref[Mine]:
        mine = Mine()
        with pytest.raises(ParameterError) as caught:
            curator.front("ana").sql("SELECT dp_noisy_count('visits', epsilon := -1)")
        assert (caught.value.code, caught.value.name) == ("P101", "epsilon")
        return weakref.ref(mine)

    left = refused_one()
    gc.collect()
    assert left() is None
