"""UNION ALL and UNION of rows: local to a unit, bounded by the sum of the branches, with DuckDB's own figures.

Oracles are those of tests/relational.py; a broken twin of each claim must be caught by them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from duckdp.compiler.outer.whole import read_whole
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.plan import Plan
from duckdp.compiler.relations import joined
from duckdp.compiler.relations.stacked import Stacked
from duckdp.errors import QueryError
from tests.relational import broken_claim, difference, largest_share, plan_of, random_data, tables, violation

USUAL, WIDE = tables(), tables(max_rows=64, max_groups=64)
BOTH = "SELECT pid, day FROM visits UNION ALL SELECT pid, day FROM labs"
TWICE = "SELECT count(*) FROM (SELECT pid FROM visits UNION ALL SELECT pid FROM visits WHERE day > 3)"
MIXED = (
    "SELECT dept, sum(x), avg(x) FROM (SELECT pid, dept, -cost AS x FROM visits WHERE paid UNION ALL "
    "SELECT pid, dept, level FROM labs UNION ALL (SELECT pid, NULL, day FROM labs)) GROUP BY dept"
)
ANSWERED = [
    f"SELECT count(*), count(DISTINCT pid) FROM ({BOTH})",
    TWICE,
    MIXED,
    "SELECT kind, count(*) FROM (SELECT pid, 'visit' AS kind FROM visits UNION ALL SELECT pid, 'lab' FROM labs) "
    "GROUP BY kind",
    "WITH u AS (SELECT dept, score AS x FROM visits UNION ALL SELECT dept, day FROM visits) SELECT floor(x), avg(x) "
    "FROM u GROUP BY 1",
    f"SELECT n, count(*) FROM (SELECT pid, count(*) AS n FROM ({BOTH}) GROUP BY pid) GROUP BY n",
    "SELECT day, count(*) FROM (SELECT pid, day FROM visits UNION SELECT pid, day FROM labs) GROUP BY day",
    "SELECT count(*) FROM labs WHERE pid NOT IN (SELECT pid FROM labs WHERE ok UNION ALL SELECT pid FROM visits)",
    "SELECT count(p), count(*) FROM (SELECT l.pid AS p, v.day FROM visits v LEFT JOIN labs l USING (pid) UNION ALL "
    "SELECT pid, day FROM visits UNION ALL SELECT NULL, day FROM labs)",
    f"SELECT avg(u.day) FROM ({BOTH} ORDER BY day, 1) AS u JOIN labs USING (pid)",
    "SELECT count(*) FROM (WITH a AS (FROM labs) SELECT * FROM a UNION ALL FROM labs)",
    "SELECT t.at, count(*) FROM (SELECT pid, visits.at FROM visits UNION ALL SELECT pid, DATE '2024-02-15' FROM labs) "
    "AS t GROUP BY t.at",
    "SELECT site, count(*) FROM (SELECT d.site FROM visits v JOIN depts d USING (dept) UNION ALL SELECT day FROM labs) "
    "GROUP BY site",
    "SELECT sum(x // 2) FROM (SELECT pid, day AS x FROM visits UNION ALL SELECT pid, CAST(NULL AS DOUBLE) FROM visits)",
    "SELECT sum(floor(x)) FROM (SELECT pid, score AS x FROM visits UNION ALL SELECT pid, day FROM visits UNION ALL "
    f"SELECT pid, 1.{'0' * 37} FROM visits)",
]


@pytest.fixture
def worlds(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute("CREATE SCHEMA reference")
    return con


def test_branches_are_local_bounded_and_mean_the_text(worlds: duckdb.DuckDBPyConnection) -> None:
    for seed, text in enumerate(ANSWERED):
        plan, rng = plan_of(text, USUAL), random.Random(seed)
        assert violation(worlds, plan, rng, 1) is None, text
        assert broken_claim(worlds, plan, rng, 1) is None, text
        assert largest_share(worlds, plan, rng, 2) <= 1, text
        assert difference(worlds, text, WIDE, random_data(rng, wild=False)) is None


def test_what_bounds_a_unit_is_added_up() -> None:
    known = tables() | {"labs": tables(max_rows=3, max_groups=5)["labs"]}
    table = plan_of(f"SELECT day, count(*) FROM ({BOTH}) GROUP BY day", known).query.table
    assert (table.max_rows, table.max_groups, table.row_cap) == (5, 7, 2000)
    groups = "SELECT pid, count(*) AS n FROM visits GROUP BY pid"
    few = plan_of(f"SELECT n, count(*) FROM ({groups} UNION ALL {groups}) GROUP BY n", known)
    assert (few.query.table.max_rows, few.groups) == (2, 2)


def test_what_is_known_of_a_column_is_that_of_all_branches() -> None:
    (column,) = plan_of(
        MIXED.replace("SELECT dept, sum(x), avg(x)", "SELECT sum(x)").rsplit(" GROUP", 1)[0], USUAL
    ).query.table.columns
    assert (column.lower, column.upper, column.nullable, column.integral) == (-20, 9, True, False)
    (key,) = plan_of(MIXED, USUAL).query.keys
    assert key.domain == ("a", "b", "c", None)


def test_labels_for_others_are_kept_where_they_are_one() -> None:
    known = dict(USUAL)
    for name in ("visits", "labs"):
        columns = tuple(replace(c, other="a") if c.name == "dept" else c for c in known[name].columns)
        known[name] = replace(known[name], columns=columns)
    text = (
        "SELECT dept, count(*) FROM (SELECT pid, dept FROM visits UNION ALL SELECT pid, dept FROM labs) GROUP BY dept"
    )
    assert plan_of(text, known).query.keys[0].other == "a"
    assert plan_of(text, known | {"labs": USUAL["labs"]}).query.keys[0].domain is None


@pytest.mark.parametrize(
    ("inner", "code", "way"),
    [
        ("SELECT pid FROM visits UNION ALL SELECT 1", "Q204", "UNION of answers"),
        ("SELECT day FROM visits UNION ALL SELECT day FROM days", "Q204", "Aggregate the private rows first"),
        ("SELECT day FROM days UNION ALL SELECT day FROM visits", "Q204", "Aggregate the private rows first"),
        ("SELECT day FROM visits UNION ALL VALUES (1)", "Q204", "UNION of answers"),
        ("SELECT day FROM visits UNION ALL SELECT count(*) FROM visits", "Q204", "UNION of answers"),
        ("SELECT pid FROM visits UNION ALL SELECT day FROM labs", "Q204", "Select the unit, or NULL"),
        ("SELECT day AS pid FROM visits UNION ALL SELECT pid FROM labs", "Q204", "Select the unit, or NULL"),
        ("SELECT day FROM visits UNION SELECT day FROM labs", "Q204", "SELECT DISTINCT pid, x"),
        ("SELECT pid, day FROM visits EXCEPT SELECT pid, day FROM labs", "Q204", "EXISTS"),
        ("SELECT pid, day FROM visits INTERSECT ALL SELECT pid, day FROM labs", "Q204", "EXISTS"),
        ("SELECT pid, day FROM visits UNION ALL SELECT pid FROM labs", "Q203", "Write as many in each"),
        ("SELECT pid, day FROM visits UNION ALL SELECT pid, dept FROM labs", "Q203", "Write a number"),
        ("SELECT pid, day FROM visits UNION ALL BY NAME SELECT day, pid FROM labs", "Q204", "same order"),
        (f"{BOTH} LIMIT 3", "Q204", "LIMIT 10"),
        (f"{BOTH} ORDER BY cost", "Q203", "Leave it out"),
        ("(SELECT day FROM visits LIMIT 2) UNION ALL SELECT day FROM labs", "Q204", "LIMIT 10"),
    ],
)
def test_what_has_no_rule_is_refused(inner: str, code: str, way: str) -> None:
    text = f"SELECT count(*) FROM ({inner})"
    with pytest.raises(QueryError):
        plan_of(text, USUAL)
    with pytest.raises(QueryError) as caught:
        read_whole(parse_statement(text), USUAL, text)
    assert (caught.value.code, way in str(caught.value)) == (code, True), str(caught.value)


def test_rows_that_are_units_stand_in_no_union() -> None:
    rows = tables(unit_key=None, unit_type=None, max_rows=1, max_groups=1)
    with pytest.raises(QueryError, match="each row is a unit of its own"):
        plan_of("SELECT count(*) FROM (SELECT day FROM visits UNION ALL SELECT day FROM labs)", rows)
    other = USUAL | {"labs": replace(USUAL["labs"], unit_type="VARCHAR")}
    with pytest.raises(QueryError, match="has type INTEGER here and VARCHAR there"):
        plan_of(f"SELECT count(*) FROM ({BOTH})", other)


@pytest.mark.parametrize("names", [("visits", "days"), ("days", "visits"), ("days", "days")])
def test_public_rows_stand_in_no_union(names: tuple[str, str]) -> None:
    """By the rule that they are no one's, before any of units."""
    with pytest.raises(QueryError, match="rows of a public table are no one's"):
        plan_of("SELECT count(*) FROM (SELECT day FROM {} UNION ALL SELECT day FROM {})".format(*names), USUAL)


# ---- broken twins


def _reprinted(cut: str, instead: str) -> Callable[[pytest.MonkeyPatch], None]:
    honest = Stacked.print

    def breaks(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Stacked, "print", lambda self, *given: honest(self, *given).replace(cut, instead))

    return breaks


def _no_clamps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joined, "print_derived", lambda _, value, __: value)


@pytest.mark.parametrize(
    ("breaks", "oracle"),
    [
        (_reprinted("b.__unit AS __unit", "1 AS __unit"), violation),
        (_reprinted("b.__unit AS __unit", "nullif(b.__unit, 2) AS __unit"), violation),
        (_no_clamps, broken_claim),
    ],
)
def test_a_broken_union_is_caught(
    breaks: Callable[[pytest.MonkeyPatch], None],
    oracle: Callable[..., str | None],
    con: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of(MIXED, USUAL)
    assert oracle(con, plan, random.Random(1), 2) is None
    breaks(monkeypatch)
    assert oracle(con, plan, random.Random(1), 12) is not None


def test_equal_rows_that_are_left_out_are_noticed(
    worlds: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds_of = [random_data(random.Random(seed), wild=False) for seed in range(4)]
    _reprinted(" UNION ALL ", " UNION ")(monkeypatch)
    assert any(difference(worlds, TWICE, WIDE, data) is not None for data in worlds_of)


def _with_rows(plan: Plan, rows: int) -> Any:
    return replace(plan, query=replace(plan.query, table=replace(plan.query.table, max_rows=rows)))


def test_rows_of_one_branch_alone_are_no_bound(con: duckdb.DuckDBPyConnection) -> None:
    """The sum of both branches' rows, under the noise for those of one."""
    one = plan_of("SELECT count(*) FROM visits", USUAL)
    plan = plan_of(TWICE, USUAL)
    claimed = replace(plan, measures=one.measures)
    assert largest_share(con, plan, random.Random(1), 6) <= 1
    assert largest_share(con, claimed, random.Random(1), 6, runs=_with_rows(plan, 4)) > 1
