"""Rules of the gate that each have a line: what would pass without it, and be computed as something else."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from duckdp.compiler.facts import facts
from duckdp.compiler.operators import OPERATORS
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.printing import Parameters, print_expr
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.compiler.tokens import read_tokens
from duckdp.errors import CatalogError, QueryError
from duckdp.vault.views import read_view
from tests.gate import clinic, plan_for


def read(text: str) -> Any:
    """An expression over the rows of the clinic."""
    return Scalars(RowScope(clinic(), None, text).leaf, text)(parse_scalar(text))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM clinic WHERE elsewhere.age > 3",
        "SELECT sum(elsewhere.age) FROM clinic",
        "SELECT elsewhere.sex, count(*) FROM clinic GROUP BY 1",
        "SELECT avg(age) FILTER (WHERE elsewhere.smoker) FROM clinic",
    ],
)
def test_a_column_is_one_of_this_table(text: str) -> None:
    with pytest.raises(QueryError, match=r"^Q205"):
        plan_for(text, clinic())
    for name in ("clinic", "CLINIC"):
        plan_for(text.replace("elsewhere", name), clinic())


@pytest.mark.parametrize("text", ["ceil(cost, 2)", "floor(cost, 1)", "length(name, 1)"])
def test_an_argument_that_has_no_rule_is_not_left_out(text: str) -> None:
    """It would be another function, in silence."""
    with pytest.raises(QueryError, match=r"^Q202"):
        read(text)
    read(text.partition(",")[0] + ")")


@pytest.mark.parametrize("name", sorted(n for n, o in OPERATORS.items() if o.domain is not None))
def test_a_function_that_fails_somewhere_wants_bounds(name: str) -> None:
    """For a row outside of them DuckDB would raise, and whether it does is an answer that nobody paid for."""
    with pytest.raises(QueryError, match=r"^Q402"):
        read(f"{name}(score)")
    assert facts(read(f"{name}(greatest(least(score, 9), 1))")).interval.upper < 10


@pytest.mark.parametrize(
    "text",
    [
        "score - score",
        "score * 10 - score",
        "score + score",
        "score * 0",
        "score / score",
        "score % 3",
        "7 % (age * 0)",
    ],
)
def test_what_is_undefined_is_null(text: str) -> None:
    """No NaN reaches a clamp, which would take it for the upper bound."""
    expr, parameters = read(text), Parameters()
    assert facts(expr).nullable
    values = ", ".join(f"({v}, 1)" for v in ("'inf'::DOUBLE", "'-inf'::DOUBLE", "'nan'::DOUBLE", "1e308", "0", "2.5"))
    printed = print_expr(expr, lambda c: f"base.{c.name}", parameters)
    with duckdb.connect() as con:
        rows = con.execute(f"SELECT {printed} FROM (VALUES {values}) AS base(score, age)", parameters.values).fetchall()
    assert len(rows) == 6
    # a NaN of the column itself is NULL before it comes here
    assert [v for i, (v,) in enumerate(rows) if v != v and i != 2] == []


@pytest.mark.parametrize("text", ["CASE WHEN smoker THEN 1 END", "CASE WHEN age > 1 THEN 1 WHEN age > 0 THEN 2 END"])
def test_case_without_else_may_be_null(text: str) -> None:
    """Else its rows would be as many as are public."""
    assert facts(read(text)).nullable
    assert not facts(read(text.replace("END", "ELSE 0 END"))).nullable


def test_coalesce_leaves_no_null() -> None:
    """A group that no row can be in would be released, and noise shown as people."""
    for text, domain in (
        ("coalesce(level, 5)", {1, 2, 5}),
        ("coalesce(level, 2)", {1, 2}),
        ("level", {1, 2, None}),
    ):
        (key,) = plan_for(f"SELECT {text}, count(*) FROM clinic GROUP BY 1", clinic()).query.keys
        assert set(key.domain or ()) == domain, text


def test_a_domain_that_is_implied_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it keys are not listed, but pass a threshold."""
    text = "SELECT age * 3 + level, count(*) FROM clinic GROUP BY 1"
    (key,) = plan_for(text, clinic()).query.keys
    size = len(key.domain or ())
    assert size > 200
    for most in (size, size - 1):
        monkeypatch.setattr("duckdp.compiler.domains.MAX_IMPLIED", most)
        plan = plan_for(text, clinic())
        assert ((plan.query.keys[0].domain is None), plan.tau is None) == (most < size, most == size)


@pytest.mark.parametrize("option", ["EXCLUDE", "EXCEPT", "REPLACE", "RENAME"])
def test_a_star_with_options_after_a_type_is_not_parsed(option: str) -> None:
    """The parser would take what follows for a type's, and go back, once for each."""
    for kind in ("DATE", "INTEGER", "VARCHAR"):
        with pytest.raises(QueryError, match=r"^Q104"):
            read_tokens(f"SELECT {kind} * {option} (a) FROM t")
    read_tokens(f"SELECT * {option} (a) FROM t")
    read_tokens("SELECT DATE * 3 FROM t")


@pytest.mark.parametrize(
    "clauses",
    [
        "LIMIT 5",
        "OFFSET 5",
        "ORDER BY a",
        "GROUP BY a",
        "WHERE a > 1 GROUP BY ALL",
        "HAVING a > 1",
        "QUALIFY row_number() OVER (ORDER BY a) < 3",
        "USING SAMPLE 10",
        "WINDOW w AS (ORDER BY a)",
        "LIMIT 10%",
    ],
)
def test_a_view_of_rows_has_no_clause_but_where(clauses: str) -> None:
    """Which rows it has would follow from other rows: one person's would move another's in or out."""
    relations = {"t": ("data", "main", "t")}
    for text in ("CREATE VIEW v AS SELECT a FROM t", "CREATE VIEW v AS SELECT a FROM t WHERE a > 1"):
        assert read_view("v", text, relations)
    for select in ("SELECT a", "SELECT *"):
        with pytest.raises(CatalogError, match=r"^C106"):
            read_view("v", f"CREATE VIEW v AS {select} FROM t {clauses}", relations)
    with pytest.raises(CatalogError, match=r"^C106"):
        read_view("v", "CREATE VIEW v AS SELECT DISTINCT a FROM t", relations)
