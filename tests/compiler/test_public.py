"""Joins with public tables: what is refused, what repeats a unit, and that broken printers are caught.

Generated statements with public tables are those of tests/compiler/test_relations.py.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from duckdp.catalog.table import load_table
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.plan import make_plan
from duckdp.compiler.relations import joining_public, with_public
from duckdp.compiler.relations.relation import Relation
from duckdp.compiler.select import read_select
from duckdp.core.types import Neighbours
from duckdp.errors import QueryError
from tests.compiler.test_sensitivity import worst
from tests.gate import exact_cells, exact_rows
from tests.relational import difference, largest_share, load_data, plan_of, public, random_data, tables, violation

USUAL = tables()
ROWS = tables(unit_key=None, unit_type=None, max_rows=1, max_groups=1)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM days SEMI JOIN visits USING (day)",
        "SELECT count(*) FROM days d ANTI JOIN visits v ON d.day = v.day",
        "SELECT count(*) FROM days WHERE day IN (SELECT day FROM visits)",
        "SELECT count(*) FROM days d WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.day = d.day)",
        "SELECT count(*) FROM visits v FULL JOIN days d ON d.day = v.day",
        "SELECT count(*) FROM visits v RIGHT JOIN days d ON d.day = v.day",
        "SELECT count(v.cost) FROM days d LEFT JOIN visits v ON d.day = v.day",
        "SELECT d.day, count(*) FROM days d LEFT JOIN visits v ON d.day = v.day GROUP BY d.day",
        "SELECT d.day, count(d.label) FROM days d LEFT JOIN visits v ON d.day = v.day GROUP BY d.day",
        "SELECT d.day, count_if(v.paid IS NULL) FROM days d LEFT JOIN visits v ON d.day = v.day GROUP BY d.day",
        "SELECT d.day, sum(coalesce(v.cost, 1)) FROM days d LEFT JOIN visits v ON d.day = v.day GROUP BY d.day",
        "SELECT d.day, count(v.cost) FROM days d LEFT JOIN visits v ON d.day = v.day WHERE v.day IS NULL GROUP BY 1",
        "SELECT v.day, count(v.cost) FROM days d LEFT JOIN visits v ON d.day = v.day GROUP BY v.day",
        "SELECT count(v.x) FROM (SELECT d.day, v.cost AS x FROM days d LEFT JOIN visits v ON d.day = v.day) v",
        "SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM days d LEFT JOIN labs l ON l.day = d.day)",
        "SELECT count(*) FROM days a JOIN days b USING (day)",
        "SELECT count(*) FROM days",
        "SELECT count(*) FROM visits v JOIN days d ON v.pid = d.day",
        "SELECT count(*) FROM visits WHERE pid IN (SELECT day FROM days)",
        "SELECT count(*) FROM visits v NATURAL JOIN days",
        "SELECT count(*) FROM visits v ASOF JOIN days d ON v.day >= d.day",
        "SELECT count(*) FROM visits v JOIN labs l ON v.day = l.day JOIN days d ON d.day = v.day",
        "SELECT avg(n) FROM (SELECT label, count(*) AS n FROM days GROUP BY label)",
    ],
)
def test_public_rows_tell_of_nobody(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        plan_of(text, USUAL)
    assert caught.value.code in ("Q204", "Q205", "Q301", "Q203"), str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT d.label, count(*) FROM visits v JOIN days d ON v.day = d.day GROUP BY d.label",
        "SELECT d.day, count(v.cost), count(v.pid), sum(v.cost * 2) FROM days d LEFT JOIN visits v ON d.day = v.day "
        "GROUP BY d.day",
        "SELECT p.site, count(*) FROM depts p JOIN visits v USING (dept) JOIN days d ON d.day = v.day AND d.rate < 2 "
        "GROUP BY 1",
        "SELECT site, count(*) FROM depts JOIN days ON site = day JOIN visits v ON v.day = days.day GROUP BY site",
        "SELECT p.site, count(*) FROM depts p, visits v, labs l WHERE p.dept = v.dept AND v.pid = l.pid GROUP BY 1",
        "SELECT count(*) FROM visits v WHERE v.day NOT IN (SELECT day FROM days WHERE day IS NOT NULL)",
        "SELECT count(*) FROM visits v WHERE v.day NOT IN (SELECT day FROM days)",
        "SELECT count(*) FROM visits v ANTI JOIN days d USING (day)",
        "SELECT count(*) FROM visits v JOIN (SELECT day * 1 AS d2 FROM days WHERE rate > 0) d ON v.day = d.d2",
    ],
)
def test_joins_with_public_tables_mean_the_text(con: duckdb.DuckDBPyConnection, text: str) -> None:
    con.execute("CREATE SCHEMA reference")
    rng = random.Random(5)
    plan = plan_of(text, USUAL)
    assert violation(con, plan, rng, 2) is None
    assert largest_share(con, plan, rng, 4) <= 1
    for _ in range(3):
        assert difference(con, text, tables(max_rows=64, max_groups=64), random_data(rng, wild=False)) is None


def test_how_often_a_row_is_repeated() -> None:
    """The most public rows that are alike where the condition says equal; a text that says less has more."""
    one = "(SELECT pid, max(day) AS day, max(dept) AS dept FROM visits GROUP BY pid) v"
    for on, rows in (
        ("v.day = d.day", 2),
        ("v.day = d.day AND d.label = 'x'", 1),
        ("v.day = d.day + 0", 10),
        ("v.day >= d.day", 10),
        ("v.day = d.day OR d.label = 'x'", 10),
        ("v.dept = d.label", 2),
    ):
        found = plan_of(f"SELECT count(*) FROM {one} JOIN days d ON {on}", USUAL).query.table
        assert isinstance(found, Relation) and (found.rows, found.max_rows) == (rows, rows), on
    filtered = plan_of(f"SELECT count(*) FROM {one} JOIN (FROM days SELECT day WHERE label = 'x') d USING (day)", USUAL)
    assert isinstance(filtered.query.table, Relation) and filtered.query.table.rows == 1
    left = plan_of(f"SELECT count(*) FROM {one} LEFT JOIN days d USING (day)", USUAL).query.table
    assert next(c for c in left.columns if c.name.endswith("rate")).nullable if left.columns else True


def _without_a_row(con: duckdb.DuckDBPyConnection, text: str) -> float:
    """The largest share of what is claimed that one row of visits moves, rows being units."""
    plan, shares = plan_of(text, ROWS), [0.0]
    for day in range(9):
        row = (1, day, 2.0, 1, "a", True, None)
        cells = []
        for rows in ([row], []):
            load_data(con, {"visits": rows, "labs": []})
            cells.append(exact_cells(plan, exact_rows(plan, con, 1)))
        shares += worst(plan, *cells)
    return max(shares)


def test_rows_that_are_units_are_not_repeated(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    once = "SELECT p.site, count(*), sum(cost) FROM visits v JOIN depts p ON v.dept = p.dept GROUP BY 1"
    assert 0 < _without_a_row(con, once) <= 1
    twice = "SELECT count(*) FROM visits v JOIN days d ON v.day = d.day"
    with pytest.raises(QueryError, match="EXISTS or IN"):
        plan_of(twice, ROWS)
    plan_of("SELECT count(*) FROM visits v WHERE day IN (SELECT day FROM days)", ROWS)
    monkeypatch.setattr(joining_public, "most_joined", lambda *_: 1)
    assert _without_a_row(con, twice) > 1


def test_a_joined_total_is_not_public() -> None:
    """Where a row may be replaced their number is public; how many of them have a match is not."""
    for text, public_total in (
        ("SELECT count(*) FROM visits", True),
        ("SELECT count(*) FROM visits v JOIN depts p ON v.dept = p.dept", False),
        ("SELECT count(*) FROM visits WHERE dept IN (SELECT dept FROM depts)", False),
    ):
        query = read_select(parse_statement(text), ROWS, text, ())
        plan = make_plan(query, epsilon_nano=10**9, neighbours=Neighbours.REPLACE)
        assert any(m.fixed_total for m in plan.measures) == public_total, text


def test_repeated_rows_of_a_unit_are_caught(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    once = "(SELECT pid, least(max(day), 1) AS day FROM visits GROUP BY pid)"
    text = f"SELECT count(*) FROM {once} v JOIN days d USING (day)"
    assert violation(con, plan_of(text, USUAL), random.Random(1), 8) is None
    monkeypatch.setattr(joining_public, "most_joined", lambda *_: 1)
    assert violation(con, plan_of(text, USUAL), random.Random(1), 8) == "a unit has more rows than is claimed"


def test_public_rows_without_a_match_are_caught(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of("SELECT d.day, count(v.cost) FROM days d LEFT JOIN visits v ON d.day = v.day GROUP BY 1", USUAL)
    assert violation(con, plan, random.Random(1), 3) is None
    honest = with_public.WithPublic.print

    def kept(self: with_public.WithPublic, *given: Any) -> str:
        return honest(self, *given).replace(" AS l JOIN ", " AS l RIGHT JOIN ")

    monkeypatch.setattr(with_public.WithPublic, "print", kept)
    assert violation(con, plan, random.Random(1), 8) is not None


def test_what_public_rows_contain_is_part_of_the_question() -> None:
    text = "SELECT count(*) FROM visits v WHERE day IN (SELECT day FROM days)"
    known = USUAL["days"].public
    assert known is not None
    other = {**USUAL, "days": replace(USUAL["days"], public=replace(known, digest="another"))}
    again = {**USUAL, "days": replace(USUAL["days"], public=replace(known, source="read again"))}
    assert plan_of(text, USUAL).canonical() != plan_of(text, other).canonical()
    assert plan_of(text, USUAL).canonical() == plan_of(text, again).canonical()


def test_a_declaration_is_read_as_it_was_stored() -> None:
    for name in ("days", "depts"):
        assert load_table(public(name).declaration) == public(name)


EITHER = (
    "SELECT count(*), sum(v.cost) FROM visits v, days d WHERE (v.day = d.day AND d.rate > 1) OR "
    "(v.day = d.day AND d.rate < 1 AND v.paid) OR (d.label IS NULL AND v.day = d.day)"
)


def test_what_each_branch_says_changes_no_answer(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE SCHEMA reference")
    known = tables(max_rows=64, max_groups=64)
    units = (
        "SELECT count(*), sum(l.level) FROM visits v, labs l WHERE (v.pid = l.pid AND v.day > 2) OR "
        "(l.day < 3 AND v.pid = l.pid)"
    )
    for text in (EITHER, units):
        for seed in range(3):
            assert difference(con, text, known, random_data(random.Random(seed), wild=False)) is None
    with pytest.raises(QueryError):
        plan_of(units.replace("AND v.pid = l.pid", "AND v.day = l.day"), known)


def test_work_with_public_rows_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining_public, "MOST_LOOKED_AT", 5000)
    plan_of("SELECT count(*) FROM visits v JOIN days d ON v.day = d.day", USUAL)
    plan_of(EITHER, USUAL)  # what each branch of OR says is said
    for text in (
        EITHER.replace("v.day = d.day AND d.rate < 1", "d.rate < 1"),
        "SELECT count(*) FROM visits v JOIN days d ON v.day > d.day",
        "SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM days d WHERE v.day > d.day)",
    ):
        with pytest.raises(QueryError, match="may be compared") as caught:
            plan_of(text, USUAL)
        assert caught.value.code == "Q403"
