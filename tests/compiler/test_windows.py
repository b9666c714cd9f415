"""Windows over the rows of each unit: local to it, within what they claim, with DuckDB's own figures.

Oracles are those of tests/relational.py; a broken twin of each claim must be caught by them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from duckdp.catalog.table import Kind
from duckdp.compiler.emit import emit
from duckdp.compiler.expression import Call, ColumnRef, Literal
from duckdp.compiler.relations import window_calls, windowed
from duckdp.compiler.relations.narrowed import most_left
from duckdp.compiler.relations.relation import Relation
from duckdp.compiler.relations.windowed import Windowed
from duckdp.errors import QueryError
from tests.relational import broken_claim, difference, largest_share, plan_of, random_data, tables, violation

USUAL, WIDE = tables(), tables(max_rows=64, max_groups=64)
BY = "OVER (PARTITION BY pid ORDER BY day)"
ALL = "OVER (PARTITION BY pid ORDER BY day DESC, cost, score, dept, paid, visits.at)"
JOINT = (
    "SELECT sum(a * b) FROM (SELECT row_number() OVER (PARTITION BY pid ORDER BY day) AS a, "
    "least(row_number() OVER (PARTITION BY pid ORDER BY paid DESC), 7) AS b FROM visits)"
)
RUNNING = f"SELECT sum(x), avg(n) FROM (SELECT sum(cost) {BY} AS x, count(*) {BY} AS n FROM visits)"
FIRST = f"SELECT count(*), avg(cost) FROM (SELECT pid, cost FROM visits QUALIFY row_number() {ALL} = 1)"
MOVING = "SELECT avg(x), sum(n) FROM (SELECT avg(cost) OVER w AS x, count(*) OVER w AS n FROM visits)".replace(
    "w AS", "(PARTITION BY pid ORDER BY day, cost ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS"
)
LINES = [
    line.removesuffix(";").split(" | ", 1)
    for line in (Path(__file__).parents[1] / "fixtures" / "windows.sql").read_text().splitlines()[1:]
]


@pytest.fixture
def worlds(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute("CREATE SCHEMA reference")
    return con


def test_windows_are_local_bounded_and_mean_the_text(worlds: duckdb.DuckDBPyConnection) -> None:
    for seed, (told, text) in enumerate(LINES):
        plan, rng = plan_of(text, USUAL), random.Random(seed)
        assert violation(worlds, plan, rng, 1) is None, text
        assert broken_claim(worlds, plan, rng, 1) is None, text
        assert largest_share(worlds, plan, rng, 1) <= 1, text
        assert told != "told" or difference(worlds, text, WIDE, random_data(rng, wild=False)) is None


@pytest.mark.parametrize(
    "inner",
    [
        *(f"SELECT {f}(cost, 0{d} IGNORE NULLS) {ALL} AS x FROM visits" for f in ("lag", "lead") for d in ("", ", 7")),
        f"SELECT median(score) {BY} AS x FROM visits",
        "SELECT pid, median(score) AS x FROM visits GROUP BY pid",
        "SELECT pid, median(score - 0.01) AS x FROM visits GROUP BY pid",
    ],
)
def test_what_duckdb_means_by_no_row_away_and_by_half_a_cent(inner: str, worlds: duckdb.DuckDBPyConnection) -> None:
    """A row that is no row away is the row itself, NULL or not; of short DECIMALs halves are rounded toward 0."""
    rng, text = random.Random(inner), f"SELECT sum(x), count(x) FROM ({inner}) t"
    for _ in range(8):
        assert difference(worlds, text, WIDE, random_data(rng, wild=False)) is None


def test_a_condition_on_the_number_of_a_row_bounds_a_unit() -> None:
    inner = "SELECT pid, dept, row_number() OVER (PARTITION BY pid ORDER BY day) AS r FROM visits"
    many = tables(max_rows=9, max_groups=5)
    bounds = {"r = 1": (1, 1), "r <= 3": (3, 3), "r BETWEEN 2 AND 3": (2, 2), "2 > r": (1, 1), "r IN (1, 4)": (2, 2)}
    for where, (most, groups) in {**bounds, "r > 1": (9, 5), "r = 1 OR dept = 'a'": (9, 5)}.items():
        plan = plan_of(f"SELECT dept, count(*) FROM ({inner}) WHERE {where} GROUP BY dept", many)
        assert (plan.query.table.max_rows, plan.groups) == (most, min(groups, 3)), where
    parted = inner.replace("BY pid ORDER", "BY pid, dept ORDER")
    plan = plan_of(f"SELECT dept, count(*) FROM ({parted}) WHERE r <= 2 GROUP BY dept", many)
    assert (plan.query.table.max_rows, plan.groups) == (2, 3)
    joined = plan_of(f"SELECT count(*) FROM (SELECT * FROM ({inner}) WHERE r = 1) a JOIN labs USING (pid)", many)
    assert joined.query.table.node.most == (None, None)  # one row on a side: nothing is left out


def test_a_condition_that_leaves_no_row_has_a_plan() -> None:
    """Of no row there would be no noise, and no logarithm of the rows that there are."""
    number = "row_number() OVER (PARTITION BY pid ORDER BY day)"
    for where in ("r <= 0", "r BETWEEN 5 AND 3"):
        none = f"SELECT pid, day FROM (SELECT pid, day, {number} AS r FROM visits) WHERE {where}"
        for inner in (
            none,
            f"SELECT pid, {number} AS n FROM ({none})",
            f"SELECT pid, count(*) FROM ({none}) GROUP BY 1",
        ):
            plan = plan_of(f"SELECT count(*), count(DISTINCT pid) FROM ({inner})", USUAL)
            assert all(m.sensitivity.l1 > 0 for m in plan.measures), inner


def test_what_a_condition_leaves_is_known_of_the_rows_that_are_apart_alone() -> None:
    table = plan_of(f"SELECT count(*), avg(r) FROM (SELECT row_number() {BY} AS r FROM visits)", USUAL).query.table
    assert isinstance(table, Relation)
    (r,) = (c for c in table.columns if c.name in table.apart)
    one = Call("eq_number", (ColumnRef(r), Literal(1, Kind.NUMBER)), Kind.BOOLEAN)
    assert (most_left(table, one), most_left(table, None)) == (1, None)
    assert most_left(replace(table, apart=None), one) is None


@pytest.mark.parametrize(
    ("window", "code", "way"),
    [
        ("row_number() OVER (ORDER BY day)", "Q204", "PARTITION BY pid"),
        ("rank() OVER (PARTITION BY dept ORDER BY day)", "Q204", "PARTITION BY pid"),
        ("row_number() OVER (PARTITION BY pid + 1)", "Q204", "PARTITION BY pid"),
        ("row_number() OVER (PARTITION BY CASE WHEN paid THEN pid END)", "Q204", "PARTITION BY pid"),
        ("count(*) OVER ()", "Q204", "PARTITION BY pid"),
        ("rank() OVER w", "Q203", "WINDOW gives no window"),
        ("sum(day) OVER (PARTITION BY pid ORDER BY day, cost RANGE 1 PRECEDING)", "Q201", "takes one number"),
        ("sum(day) OVER (PARTITION BY pid RANGE 1 PRECEDING)", "Q201", "takes one number"),
        ("sum(day) OVER (PARTITION BY pid ORDER BY dept RANGE 1 PRECEDING)", "Q201", "takes one number"),
        ("sum(day) OVER (PARTITION BY pid ORDER BY visits.at RANGE 1 PRECEDING)", "Q201", "takes one number"),
        ("sum(day) OVER (PARTITION BY pid ORDER BY day RANGE INTERVAL 1 DAY PRECEDING)", "Q201", "takes one number"),
        ("sum(day) OVER (PARTITION BY pid ORDER BY visits.at RANGE INTERVAL 1 MONTH PRECEDING)", "Q201", "takes one"),
        ("sum(day) OVER (PARTITION BY pid ORDER BY visits.at ROWS INTERVAL 1 DAY PRECEDING)", "Q201", "takes one"),
        ("sum(day) OVER (PARTITION BY pid GROUPS 1 PRECEDING)", "Q201", "ROWS BETWEEN"),
        ("nth_value(day, 2) OVER (PARTITION BY pid ORDER BY day RANGE 1 PRECEDING)", "Q201", "for aggregates"),
        ("nth_value(day, 2) OVER (PARTITION BY pid ORDER BY day GROUPS 1 PRECEDING)", "Q201", "for aggregates"),
        ("rank(day IGNORE NULLS) OVER (PARTITION BY pid ORDER BY day)", "Q201", "ROWS BETWEEN"),
        ("sum(day IGNORE NULLS) OVER (PARTITION BY pid ORDER BY day)", "Q201", "ROWS BETWEEN"),
        ("sum(day) OVER (PARTITION BY pid ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES)", "Q201", "ROWS"),
        ("sum(day) OVER (PARTITION BY pid ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING)", "Q201", "ROWS BETWEEN"),
        ("sum(day) OVER (PARTITION BY pid ROWS BETWEEN 5000 PRECEDING AND CURRENT ROW)", "Q201", "up to 1000"),
        ("rank() OVER (PARTITION BY pid ORDER BY day ROWS 2 PRECEDING)", "Q201", "ROWS BETWEEN"),
        ("last_value(day) OVER (PARTITION BY pid ORDER BY day)", "Q201", "UNBOUNDED FOLLOWING"),
        ("lag(day, -1) OVER (PARTITION BY pid)", "Q203", "lag(x, 1)"),
        ("ntile(0) OVER (PARTITION BY pid)", "Q203", "ntile(4)"),
        ("lag(day, 1, 'a') OVER (PARTITION BY pid)", "Q203", "lag(x, 1, 0)"),
        ("lag(pid) OVER (PARTITION BY pid)", "Q301", "Select pid itself"),
        ("count(DISTINCT day) OVER (PARTITION BY pid)", "Q206", "GROUP BY the unit"),
        ("any_value(day) OVER (PARTITION BY pid)", "Q206", "Take count"),
        ("row_number() OVER (PARTITION BY pid ORDER BY lag(day) OVER (PARTITION BY pid))", "Q201", "subquery"),
        ("row_number() OVER (PARTITION BY pid ORDER BY random())", "Q202", "Allowed are"),
    ],
)
def test_what_has_no_rule_is_refused(window: str, code: str, way: str) -> None:
    for text in (
        f"SELECT avg(x) FROM (SELECT {window} AS x FROM visits)",
        f"SELECT count(*) FROM (SELECT day FROM visits QUALIFY {window} = 1)",
    ):
        with pytest.raises(QueryError) as caught:
            plan_of(text, USUAL)
        assert (caught.value.code, way in str(caught.value)) == (code, True), str(caught.value)


@pytest.mark.parametrize(
    ("windows", "used", "code"),
    [
        ("w AS (ORDER BY day)", "OVER w", "Q204"),
        ("w AS (PARTITION BY dept)", "OVER (w ORDER BY day)", "Q204"),
        ("w AS (PARTITION BY pid)", "OVER (w PARTITION BY pid)", "Q201"),
        ("w AS (PARTITION BY pid ORDER BY day)", "OVER (w ORDER BY day)", "Q201"),
        ("w AS (PARTITION BY pid ROWS 1 PRECEDING)", "OVER (w ROWS 1 PRECEDING)", "Q201"),
        ("w AS (PARTITION BY pid), w AS (PARTITION BY pid)", "OVER w", "Q203"),
        ("w AS (v), v AS (PARTITION BY pid)", "OVER w", "Q203"),
        ("w AS (w)", "OVER w", "Q203"),
    ],
)
def test_named_windows_are_of_each_unit(windows: str, used: str, code: str) -> None:
    with pytest.raises(QueryError) as caught:
        plan_of(f"SELECT avg(x) FROM (SELECT sum(day) {used} AS x FROM visits WINDOW {windows})", USUAL)
    assert caught.value.code == code, str(caught.value)


def test_a_name_for_a_window_changes_no_question() -> None:
    written = plan_of(RUNNING, USUAL).canonical()
    named = RUNNING.replace(BY, "OVER w").replace(
        " FROM visits)", " FROM visits WINDOW w AS (PARTITION BY pid ORDER BY day))"
    )
    assert plan_of(named, USUAL).canonical() == written
    frames = [
        RUNNING.replace("day)", f"day {frame})")
        for frame in ("RANGE 2 PRECEDING", "GROUPS 2 PRECEDING", "ROWS 2 PRECEDING")
    ]
    assert len({plan_of(text, USUAL).canonical() for text in frames} | {written}) == 4
    framed = (
        "SELECT sum(x) FROM (SELECT sum(cost) OVER w AS x FROM visits WINDOW w AS (PARTITION BY pid ORDER BY day{}))"
    )
    named = [plan_of(framed.format(frame), USUAL).canonical() for frame in ("", " ROWS 2 PRECEDING")]
    alone = (
        framed.replace("OVER w", "OVER (PARTITION BY pid ORDER BY day ROWS 2 PRECEDING)").partition(" WINDOW")[0] + ")"
    )
    assert named[0] != named[1] == plan_of(alone, USUAL).canonical()


def test_places_of_windows() -> None:
    """They stand in the SELECT and QUALIFY of a subquery without groups, where units are known, up to sixteen."""
    for text, code in [
        ("SELECT count(*) FROM visits WHERE row_number() OVER (PARTITION BY pid) = 1", "Q201"),
        ("SELECT count(*) FROM (SELECT day FROM visits WHERE rank() OVER (PARTITION BY pid) = 1)", "Q201"),
        ("SELECT avg(day) FROM (SELECT day FROM visits QUALIFY day = 1)", "Q201"),
        ("SELECT avg(day) FROM (SELECT day FROM visits WINDOW w AS (PARTITION BY pid))", "Q201"),
        (
            "SELECT avg(day) FROM (SELECT pid, max(day) AS day FROM visits GROUP BY pid WINDOW w AS (ORDER BY 1))",
            "Q201",
        ),
        ("SELECT avg(day) FROM visits WINDOW w AS (PARTITION BY pid)", "Q201"),
        ("SELECT dept, count(*) FROM visits GROUP BY dept QUALIFY rank() OVER (ORDER BY dept) = 1", "Q201"),
        ("SELECT avg(n) FROM (SELECT count(*) AS n FROM visits GROUP BY pid QUALIFY n > 1)", "Q201"),
        ("SELECT avg(n) FROM (SELECT count(*) AS n, rank() OVER (PARTITION BY pid) FROM visits GROUP BY pid)", "Q201"),
        (
            "SELECT avg(x0) FROM (SELECT "
            + ", ".join(f"lag(day, {i}) OVER (PARTITION BY pid) AS x{i}" for i in range(17))
            + " FROM visits)",
            "Q403",
        ),
    ]:
        with pytest.raises(QueryError) as caught:
            plan_of(text, USUAL)
        assert caught.value.code == code, text
    rows = tables(unit_key=None, unit_type=None, max_rows=1, max_groups=1)
    with pytest.raises(QueryError, match="each row is a unit of its own"):
        plan_of("SELECT avg(x) FROM (SELECT row_number() OVER () AS x FROM visits)", rows)


def test_a_name_tells_no_unit() -> None:
    text = "SELECT count(*) FROM (SELECT day AS pid, cost FROM visits) QUALIFY row_number() OVER (PARTITION BY pid) = 1"
    inner = f"SELECT avg(cost) FROM ({text.replace('count(*)', 'cost')})"
    with pytest.raises(QueryError, match="rows of several units"):
        plan_of(inner, USUAL)


# ---- broken twins


def _reprinted(cut: str, instead: str) -> Callable[[pytest.MonkeyPatch], None]:
    honest = Windowed.print

    def breaks(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Windowed, "print", lambda self, *given: honest(self, *given).replace(cut, instead))

    return breaks


def _own_orders(patch: pytest.MonkeyPatch) -> None:
    """Rows that tie are put in an order by each window alone."""
    _reprinted(", w.place", "")(patch)


def _double_sums(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(windowed, "print_values", lambda i, _, value: [f"{value} AS v{i}"])
    patch.setattr(window_calls, "print_aggregate", lambda i, taken, over: f"system.main.{taken.function}(v{i}){over}")


def _no_clamps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(windowed, "print_derived", lambda _, value, __: value)


@pytest.mark.parametrize(
    ("text", "breaks", "oracle"),
    [
        (JOINT, _own_orders, violation),
        (RUNNING, _reprinted("PARTITION BY w.__unit", "PARTITION BY 1"), violation),
        ("SELECT avg(x) FROM (SELECT sum(cost) OVER (PARTITION BY pid) AS x FROM visits)", _double_sums, violation),
        (RUNNING, _no_clamps, broken_claim),
    ],
)
def test_a_broken_window_is_caught(
    text: str,
    breaks: Callable[[pytest.MonkeyPatch], None],
    oracle: Callable[..., str | None],
    con: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of(text, USUAL)
    for found in (violation, broken_claim):
        assert found(con, plan, random.Random(1), 2) is None
    breaks(monkeypatch)
    assert oracle(con, plan, random.Random(1), 12) is not None


def test_counts_of_frames_that_may_be_empty() -> None:
    table = plan_of(MOVING, USUAL).query.table
    average, count = (next(c for c in table.columns if c.name.startswith(n)) for n in ("avg", "count"))
    assert (average.nullable, count.lower, count.upper) == (True, 0, 2)


def _seconds(con: duckdb.DuckDBPyConnection, sql: str, given: str) -> float:
    """Processor time of a SELECT over 150,000 rows of one unit, the better of two runs."""
    con.execute(
        f"CREATE OR REPLACE TABLE visits AS SELECT 1 AS pid, i AS day, {given} AS cost FROM range(150_000) t(i)"
    )
    found = []
    for _ in range(2):
        start = time.process_time()
        con.execute(sql).fetchall()
        found.append(time.process_time() - start)
    return min(found)


def test_rows_that_are_passed_over_take_no_more_time_than_others(con: duckdb.DuckDBPyConnection) -> None:
    """The twin, DuckDB's own way, looks at all of them for each row."""
    plan = plan_of(
        "SELECT sum(x) FROM (SELECT lag(cost IGNORE NULLS) OVER (PARTITION BY pid ORDER BY day) AS x FROM visits)",
        USUAL,
    )
    for text in ("lag(cost)", "lead(cost, 2)", "first_value(cost)", "last_value(cost)", "nth_value(cost, 3)"):
        frame = "" if text[0] == "l" and "_" not in text else "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
        over = f"OVER (PARTITION BY pid ORDER BY day {frame})"
        statement = f"SELECT sum(x) FROM (SELECT {text[:-1]} IGNORE NULLS) {over} AS x FROM visits)"
        assert "IGNORE NULLS" not in emit(plan_of(statement, USUAL), 7).sql
    query = emit(plan, 7)
    assert not query.parameters
    theirs = "SELECT sum(x) FROM (SELECT lag(cost IGNORE NULLS) OVER (PARTITION BY pid ORDER BY day) AS x FROM visits)"
    (ours, twin) = (
        _seconds(con, sql, "CAST(NULL AS DOUBLE)") / _seconds(con, sql, "i / 1e5") for sql in (query.sql, theirs)
    )
    assert ours < 1.8 < twin
