"""Relations are local to a unit, their claims hold, cells move by no more than is claimed, and they mean the text.

Oracles and generated statements are those of tests/relational.py; broken twins of each printer must be caught by them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from duckdp.compiler.plan import Plan
from duckdp.compiler.relations import joined, joining, matched, unit_groups
from duckdp.compiler.relations.relation import Relation
from duckdp.errors import QueryError
from tests.compiler.test_fixtures import _blocks
from tests.gate import clinic, plan_for
from tests.relational import (
    COLUMNS,
    Statements,
    broken_claim,
    difference,
    largest_share,
    load_data,
    plan_of,
    random_data,
    rows_of,
    tables,
    violation,
)

USUAL, WIDE = tables(), tables(max_rows=64, max_groups=64)


@pytest.fixture
def worlds(con: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    con.execute("CREATE SCHEMA reference")
    yield con


def _check(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    rng = random.Random(seed)
    text = Statements(rng).statement()
    plan = plan_of(text, USUAL)
    assert violation(con, plan, rng, 1) is None, text
    assert broken_claim(con, plan, rng, 1) is None, text
    assert largest_share(con, plan, rng, 2) <= 1, text
    assert difference(con, text, WIDE, random_data(rng, wild=False)) is None


@pytest.mark.parametrize("part", range(4))
def test_generated_statements(part: int, worlds: duckdb.DuckDBPyConnection) -> None:
    for seed in range(5):
        _check(worlds, 100 * part + seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_generated_statements(part: int, worlds: duckdb.DuckDBPyConnection) -> None:
    for seed in range(500):
        _check(worlds, 10_000 + 500 * part + seed)


# ---- what each question means


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("SELECT avg(a) FROM (SELECT cost AS a FROM visits)", "SELECT avg(cost) FROM visits"),
        (
            "WITH v AS (SELECT * FROM visits WHERE day > 2) SELECT dept, sum(cost) FROM v WHERE paid GROUP BY dept",
            "SELECT dept, sum(cost) FROM visits WHERE day > 2 AND paid GROUP BY dept",
        ),
        (
            "SELECT count(DISTINCT who) FROM (SELECT pid AS who, day FROM visits ORDER BY day) AS v WHERE v.day = 1",
            "SELECT count(DISTINCT pid) FROM visits WHERE day = 1",
        ),
        (
            "SELECT n, count(*) FROM (SELECT count(*) AS n FROM visits GROUP BY pid) GROUP BY n",
            "WITH a AS (FROM visits), b AS (SELECT count(*) m FROM a GROUP BY pid) "
            "SELECT m, count(*) FROM b GROUP BY m",
        ),
        (
            "SELECT sum(x) FROM (SELECT c + 1 AS x FROM (SELECT cost * 2 AS c FROM main.visits))",
            "SELECT sum(cost * 2 + 1) FROM visits",
        ),
    ],
)
def test_equal_questions_are_one(text: str, same: str) -> None:
    """Names, wrapping and CTEs are no part of a question."""
    assert plan_of(text, USUAL).canonical() == plan_of(same, USUAL).canonical()


@pytest.mark.parametrize("called", ["accept", "reject", "plan"])
def test_wrapping_changes_nothing(called: str) -> None:
    """Every statement of the fixtures, with the table in a subquery: the same question, or as refused as before."""
    for block in _blocks(called):
        wrapped = re.sub(r"\bFROM clinic\b", "FROM (SELECT * FROM clinic) AS clinic", block["text"])
        wrapped = wrapped.replace("AS clinic AS ", "AS ").replace("AS clinic c(", "AS c(")
        if wrapped == block["text"]:
            continue
        try:
            plain = plan_for(block["text"], clinic())
        except QueryError:
            with pytest.raises(QueryError):
                plan_for(wrapped, clinic())
            continue
        assert plan_for(wrapped, clinic()).canonical() == plain.canonical(), wrapped


def test_a_cte_shadows_a_table() -> None:
    text = "WITH labs AS (SELECT pid, cost AS level FROM visits) SELECT avg(level) FROM labs"
    assert plan_of(text, USUAL).canonical() == plan_of("SELECT avg(cost) FROM visits", USUAL).canonical()
    inside = "SELECT avg(level) FROM (WITH visits AS (SELECT * FROM labs) SELECT level FROM visits)"
    assert plan_of(inside, USUAL).canonical() == plan_of("SELECT avg(level) FROM labs", USUAL).canonical()
    own = "WITH labs AS (SELECT * FROM labs) SELECT avg(level) FROM labs"  # its own name is not yet known inside
    assert plan_of(own, USUAL).canonical() == plan_of("SELECT avg(level) FROM labs", USUAL).canonical()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT count(*) FROM (SELECT day AS pid, cost FROM visits) GROUP BY pid + 1000000", None),
        (
            "SELECT avg(n) FROM (SELECT day AS pid, count(*) AS n FROM (SELECT day AS day FROM visits) GROUP BY day)",
            "Q204",
        ),
        ("SELECT avg(n) FROM (SELECT pid, count(*) AS n FROM (SELECT day AS pid FROM visits) GROUP BY pid)", "Q204"),
        ("SELECT avg(n) FROM (SELECT count(*) AS n FROM visits GROUP BY pid % 2)", "Q204"),
        ("SELECT avg(n) FROM (SELECT count(*) AS n FROM visits GROUP BY CASE WHEN paid THEN pid END)", "Q204"),
        ("SELECT count(DISTINCT pid) FROM (SELECT day AS pid FROM visits)", None),  # days, not units: counted as values
        ("SELECT avg(pid) FROM (SELECT pid, day FROM visits)", "Q301"),
        ("SELECT who, count(*) FROM (SELECT pid AS who FROM visits) GROUP BY who", "Q301"),
        ("SELECT avg(n) FROM (SELECT count(*) AS n FROM visits)", "Q204"),
        ("SELECT avg(n) FROM (SELECT count(*) AS n FROM visits GROUP BY ALL)", "Q204"),
        ("SELECT count(*) FROM (SELECT DISTINCT dept FROM visits)", "Q204"),
        ("SELECT count(*) FROM (SELECT DISTINCT ON (pid) pid, dept FROM visits)", "Q204"),
        ("SELECT count(*) FROM (SELECT day FROM visits ORDER BY cost LIMIT 3)", "Q204"),
        ("SELECT count(*) FROM (SELECT day FROM visits OFFSET 3)", "Q204"),
        ("SELECT count(*) FROM (SELECT day FROM visits ORDER BY nothing)", "Q207"),
        ("SELECT count(*) FROM (SELECT day, row_number() OVER () AS r FROM visits)", "Q204"),
        ("SELECT count(*) FROM (SELECT day FROM visits QUALIFY true)", "Q201"),
        ("SELECT count(*) FROM (SELECT day FROM visits USING SAMPLE 3)", "Q201"),
        ("WITH RECURSIVE a AS (SELECT day FROM visits) SELECT count(*) FROM a", "Q204"),
        ("WITH a AS (SELECT day FROM visits), a AS (SELECT day FROM labs) SELECT count(*) FROM a", "Q203"),
        ("WITH a AS (SELECT 1 WHERE TRUE) SELECT count(*) FROM visits", "Q205"),
        ("WITH a AS (INSERT INTO x SELECT 1 RETURNING *) SELECT count(*) FROM visits", "Q204"),
        ("SELECT count(*) FROM (SELECT day, cost AS day FROM visits)", "Q203"),
        ("SELECT avg(n) FROM (SELECT any_value(day) AS n FROM visits GROUP BY pid)", "Q206"),
        ("SELECT avg(n) FROM (SELECT sum(DISTINCT day) AS n FROM visits GROUP BY pid)", "Q206"),
        ("SELECT avg(n) FROM (SELECT cost AS n FROM visits GROUP BY pid)", "Q301"),
        ("SELECT avg(n) FROM (SELECT max(count(*)) AS n FROM visits GROUP BY pid)", "Q301"),
        ("SELECT count(*) FROM (VALUES (1))", "Q205"),
        ("SELECT count(*) FROM (SELECT day FROM visits) AS v(a, b)", "Q203"),
        ("SELECT visits.day, count(*) FROM (SELECT day FROM visits) AS v GROUP BY 1", "Q205"),
    ],
)
def test_what_is_of_several_units_is_refused(text: str, code: str | None) -> None:
    if code is None:
        plan_of(text, USUAL)
        return
    with pytest.raises(QueryError) as caught:
        plan_of(text, USUAL)
    assert caught.value.code == code, str(caught.value)


def test_tables_whose_rows_are_units() -> None:
    """Rows are computed and chosen as anywhere; nothing groups them."""
    rows = tables(unit_key=None, unit_type=None, max_rows=1, max_groups=1)
    text = "SELECT dept, avg(c) FROM (SELECT dept, cost * 2 AS c FROM visits WHERE paid) GROUP BY dept"
    assert not isinstance(plan_of(text, rows).query.table, Relation)
    with pytest.raises(QueryError) as caught:
        plan_of("SELECT avg(n) FROM (SELECT dept, count(*) AS n FROM visits GROUP BY dept)", rows)
    assert caught.value.code == "Q204"


def test_one_row_per_unit_counts_once() -> None:
    """A histogram of visits per person moves by 1 for a person, whatever max_rows and max_groups are."""
    text = "SELECT n, count(*) FROM (SELECT pid, count(*) AS n FROM visits GROUP BY pid) GROUP BY n"
    plan = plan_of(text, tables(max_rows=9, max_groups=5))
    assert plan.measures[0].sensitivity.l1 == 1
    assert plan.query.keys[0].domain == tuple(range(1, 10))
    more = text.replace("count(*) AS n", "least(count(*), 30) AS n")
    assert plan_of(more, USUAL).query.keys[0].domain == tuple(range(1, 31))


def test_a_key_of_the_subquery_leaves_one_row_in_each_group() -> None:
    inner = "(SELECT pid, dept, sum(cost) AS s FROM visits GROUP BY pid, dept)"
    by_key = plan_of(f"SELECT dept, avg(s) FROM {inner} GROUP BY dept", tables(max_rows=9, max_groups=3))
    assert (by_key.query.table.max_rows, by_key.groups) == (1, 3)
    together = plan_of(f"SELECT avg(s) FROM {inner}", tables(max_rows=9, max_groups=3))
    assert together.query.table.max_rows == 3


def test_statements_that_unfold_are_refused() -> None:
    twice = "WITH a0 AS (SELECT cost AS x FROM visits)" + "".join(
        f", a{i} AS (SELECT x + x AS x FROM a{i - 1})" for i in range(1, 40)
    )
    deep = "WITH a0 AS (SELECT pid, cost AS x FROM visits)" + "".join(
        f", a{i} AS (SELECT pid, max(x) AS x FROM a{i - 1} GROUP BY pid)" for i in range(1, 40)
    )
    for text in (f"{twice} SELECT avg(x) FROM a39", f"{deep} SELECT avg(x) FROM a39"):
        with pytest.raises(QueryError) as caught:
            plan_of(text, USUAL)
        assert caught.value.code == "Q104"


@pytest.mark.parametrize("inner", ["sum(cost)", "avg(cost)", "avg(level)"])
def test_sums_and_averages_of_a_units_rows(inner: str, worlds: duckdb.DuckDBPyConnection) -> None:
    """In whatever order rows come; over the rows that have a value."""
    text = f"SELECT avg(x) FROM (SELECT pid, {inner} AS x FROM {'labs' if 'level' in inner else 'visits'} GROUP BY pid)"
    rng = random.Random(1)
    assert violation(worlds, plan_of(text, USUAL), rng, 20) is None
    assert all(difference(worlds, text, WIDE, random_data(rng, wild=False)) is None for _ in range(4))


COMPARED = [
    "SELECT count(*) FROM (SELECT pid, sum(cost) AS s, max(cost) AS m FROM visits GROUP BY pid) WHERE s = m",
    "SELECT count(*) FROM (SELECT pid, avg(cost) AS s, min(cost) AS m FROM visits GROUP BY pid, dept) WHERE s = m",
    "SELECT count(*) FROM (SELECT cost, sum(cost) OVER (PARTITION BY pid ORDER BY day, cost) AS s FROM visits) "
    "WHERE s = cost",
    "SELECT count(*) FROM (SELECT cost, avg(cost) OVER (PARTITION BY pid) AS a FROM visits) WHERE cost > a",
    "SELECT count(*) FROM (SELECT pid, sum(cost) FILTER (WHERE paid) AS s, max(cost) FILTER (WHERE paid) AS m "
    "FROM visits GROUP BY pid) WHERE s = m",
]


def differences_where_values_are_compared(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Of sums and averages, with the column that they are of, which no grid holds: tenths, most units with one row."""
    rng, found = random.Random(5), []
    for _ in range(4):
        data = random_data(rng, wild=False, units=range(9))
        at = 1 + [c.name for c in COLUMNS["visits"]].index("cost")
        data["visits"] = [
            (*row[:at], None if row[at] is None else rng.choice([0.1, 0.7, 12.3, 20.0]), *row[at + 1 :])
            for row in data["visits"]
        ]
        found += [d for text in COMPARED if (d := difference(con, text, WIDE, data)) is not None]
    return found


def test_a_sum_of_one_value_is_equal_to_it(worlds: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    assert differences_where_values_are_compared(worlds) == []
    monkeypatch.setattr(unit_groups, "_rounds", lambda _: False)  # the twin: from the grid, whatever it holds
    assert len(differences_where_values_are_compared(worlds)) > len(COMPARED)


# ---- broken twins

SUMS = "SELECT avg(x) FROM (SELECT pid, sum(cost) AS x FROM visits GROUP BY pid)"
COUNTS = (
    "SELECT n, count(*) FROM (SELECT pid, count(*) AS n, sum(day) AS s FROM visits GROUP BY pid) WHERE s > 0 GROUP BY n"
)
EXTREMES = "SELECT avg(x) FROM (SELECT pid, min(level) AS x FROM labs GROUP BY pid)"


def _double_sums(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unit_groups, "print_values", lambda i, _, value: [f"{value} AS v{i}"])
    patch.setattr(unit_groups, "print_aggregate", lambda i, taken: f"system.main.{taken.function}(v{i})")


def _null_units(patch: pytest.MonkeyPatch) -> None:
    honest = unit_groups.print_rows

    def kept(*given: Any, **named: Any) -> str:
        return honest(*given, **named).replace('base."pid" IS NOT NULL', "TRUE")

    patch.setattr(unit_groups, "print_rows", kept)


def _no_clamps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unit_groups, "print_derived", lambda _, value, __: value)


def _signs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unit_groups, "print_values", lambda i, _, value: [f"{value} AS v{i}"])
    patch.setattr(unit_groups, "print_derived", lambda _, value, __: value)


@pytest.mark.parametrize(
    ("text", "breaks", "oracle"),
    [
        (SUMS, _double_sums, violation),
        (SUMS, _null_units, violation),
        (COUNTS, _no_clamps, broken_claim),
        (EXTREMES, _signs, broken_claim),
    ],
)
def test_a_broken_printer_is_caught(
    text: str,
    breaks: Callable[[pytest.MonkeyPatch], None],
    oracle: Callable[..., str | None],
    con: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of(text, USUAL)
    assert oracle(con, plan, random.Random(1), 3) is None
    breaks(monkeypatch)
    assert oracle(con, plan, random.Random(1), 12) is not None


def _with_rows(plan: Plan, rows: int) -> Plan:
    return replace(plan, query=replace(plan.query, table=replace(plan.query.table, max_rows=rows)))


def test_unbounded_rows_of_a_relation_are_caught(con: duckdb.DuckDBPyConnection) -> None:
    plan = plan_of("SELECT count(*) FROM (SELECT DISTINCT pid, day FROM visits)", USUAL)
    assert largest_share(con, plan, random.Random(1), 12) <= 1
    assert largest_share(con, plan, random.Random(1), 12, runs=_with_rows(plan, 50)) > 1


# ---- joins


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM visits JOIN labs USING (day)",
        "SELECT count(*) FROM visits, labs",
        "SELECT count(*) FROM visits CROSS JOIN labs",
        "SELECT count(*) FROM visits NATURAL JOIN labs",
        "SELECT count(*) FROM visits POSITIONAL JOIN labs",
        "SELECT count(*) FROM visits v ASOF JOIN labs l ON v.pid = l.pid AND v.day >= l.day",
        "SELECT count(*) FROM visits v JOIN labs l ON v.pid = l.pid OR v.day = l.day",
        "SELECT count(*) FROM visits v JOIN labs l ON NOT v.pid = l.pid",
        "SELECT count(*) FROM visits v JOIN labs l ON v.pid IS NOT DISTINCT FROM l.pid",
        "SELECT count(*) FROM visits v JOIN labs l ON v.pid + 1 = l.pid",
        "SELECT count(*) FROM visits v JOIN labs l ON v.pid = v.pid",
        "SELECT count(*) FROM visits v JOIN labs l ON pid = pid",
        "SELECT count(*) FROM visits v JOIN (SELECT day AS pid FROM labs) l ON v.pid = l.pid",
        "SELECT count(*) FROM visits v JOIN (SELECT day AS pid FROM labs) l USING (pid)",
        "SELECT count(*) FROM visits v LEFT JOIN labs l ON v.day = l.day WHERE v.pid = l.pid",
        "SELECT count(*) FROM visits v FULL JOIN labs l ON TRUE WHERE v.pid = l.pid",
        "SELECT count(*) FROM visits v, labs l WHERE v.pid = l.pid OR v.day = 1",
        "SELECT count(*) FROM visits v, LATERAL (SELECT * FROM labs l WHERE l.pid = v.pid) l",
        "SELECT avg(n) FROM (SELECT v.pid, count(*) n FROM visits v FULL JOIN labs l ON v.pid = l.pid GROUP BY 1)",
        "SELECT avg(n) FROM (SELECT l.pid, count(*) AS n FROM visits v LEFT JOIN labs l USING (pid) GROUP BY l.pid)",
        "SELECT count(*) FROM visits v SEMI JOIN labs l ON v.day = l.day",
        "SELECT count(*) FROM visits v ANTI JOIN labs l USING (day)",
        "SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM labs)",
        "SELECT count(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM labs l WHERE l.day = v.day)",
        "SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM labs WHERE pid = pid)",
        "SELECT count(*) FROM visits v WHERE EXISTS (SELECT count(*) FROM labs l WHERE l.pid = v.pid)",
        "SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM labs l WHERE l.pid = v.pid LIMIT 0)",
        "SELECT count(*) FROM visits v WHERE paid OR EXISTS (SELECT 1 FROM labs l WHERE l.day = v.day)",
        "SELECT count(*) FROM visits WHERE day IN (SELECT day FROM labs)",
        "SELECT count(*) FROM visits WHERE pid IN (SELECT day FROM labs)",
        "SELECT count(*) FROM visits WHERE pid NOT IN (SELECT l.pid FROM visits v LEFT JOIN labs l USING (pid))",
        "SELECT count(*) FROM visits WHERE (pid, day) IN (SELECT day, level FROM labs)",
        "SELECT count(*) FROM visits WHERE pid = (SELECT max(pid) FROM labs)",
    ],
)
def test_what_pairs_two_units_is_refused(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        plan_of(text, USUAL)
    assert caught.value.code in ("Q204", "Q205", "Q301", "Q202"), str(caught.value)


def test_joined_names() -> None:
    """A name that two relations have is asked for; an alias hides its table's own name, inside EXISTS too."""
    for text in (
        "SELECT avg(day) FROM visits JOIN labs USING (pid)",
        "SELECT count(*) FROM visits JOIN visits USING (pid)",
        "SELECT avg(visits.cost) FROM visits a JOIN visits b ON a.pid = b.pid",
        "SELECT sum(day) FROM visits v RIGHT JOIN labs l USING (pid, day)",
    ):
        with pytest.raises(QueryError) as caught:
            plan_of(text, USUAL)
        assert caught.value.code in ("Q203", "Q205")
    inner = "SELECT 1 FROM visits b WHERE b.pid = visits.pid AND b.day > visits.day"
    outer = f"SELECT count(*) FROM visits WHERE EXISTS ({inner})"
    assert "gt_number" in plan_of(outer, USUAL).canonical()


def test_units_of_two_types_are_not_compared() -> None:
    two = {**USUAL, "labs": replace(USUAL["labs"], unit_type="VARCHAR")}
    for text in (
        "SELECT count(*) FROM visits JOIN labs USING (pid)",
        "SELECT count(*) FROM visits WHERE pid IN (SELECT pid FROM labs)",
    ):
        with pytest.raises(QueryError, match="keys are compared as they are"):
            plan_of(text, two)
    rows = tables(unit_key=None, unit_type=None, max_rows=1, max_groups=1)
    with pytest.raises(QueryError, match="pairs rows"):
        plan_of("SELECT count(*) FROM visits a JOIN visits b ON a.day = b.day", rows)


def test_figures_of_joins() -> None:
    known = tables(max_rows=3, max_groups=2, row_cap=50)
    visits = "(SELECT pid, count(*) AS n FROM visits GROUP BY pid)"
    for text, rows, counted, units in (
        ("visits v JOIN labs l USING (pid)", 128 * 128, 9, 50),
        (f"{visits} v JOIN labs l USING (pid)", None, 3, 50),
        (f"{visits} v JOIN {visits} l USING (pid)", 1, 1, 50),
        (f"{visits} v LEFT JOIN {visits} l USING (pid)", 1, 1, 50),
        (f"{visits} v FULL JOIN {visits} l USING (pid)", 2, 2, 100),
        ("visits v SEMI JOIN labs l USING (pid)", None, 3, 50),
    ):
        found = plan_of(f"SELECT count(*) FROM {text}", known).query.table
        assert isinstance(found, Relation)
        assert (found.rows, found.max_rows, found.units_cap) == (rows, counted, units), text


JOINS = "SELECT count(*), sum(cost) FROM visits JOIN labs USING (pid)"
FULL = "SELECT count(*), count(DISTINCT pid) FROM visits FULL JOIN labs USING (pid)"
ABSENT = "SELECT count(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM labs l WHERE l.pid = v.pid AND ok)"
SELF = "SELECT sum(a.cost) FROM visits a JOIN visits b ON a.pid = b.pid AND a.day < b.day"


def test_a_value_that_stands_for_null_is_not_unique(con: duckdb.DuckDBPyConnection) -> None:
    """What is unique may be NULL often: read as one value, rows of it met all of a unit's others, without a bound."""
    text = (
        "SELECT count(*) FROM labs JOIN (SELECT pid, day FROM visits QUALIFY row_number() OVER (PARTITION BY pid "
        "ORDER BY day) <= 2) v ON labs.pid = v.pid AND labs.day = v.day"
    )
    day, *others = USUAL["labs"].columns
    data = random_data(random.Random(1), wild=False, units=(1, 2))
    data["visits"] = [(1, 0, 1.0, 1, "a", True, None)] * 2
    data["labs"] = [(1, None, 1.0, "a", True)] * 7
    for null, single in ((None, True), (0, False)):
        labs = replace(USUAL["labs"], unique=("day",), columns=(replace(day, null_value=null), *others))
        table = plan_of(text, USUAL | {"labs": labs}).query.table
        assert isinstance(table, Relation) and table.node.single == (single, False)
        load_data(con, data)
        met = sum(rows_of(con, table).values())
        assert table.rows is not None and met <= table.rows


PAIRS = "SELECT count(*), sum(cost) FROM visits v SEMI JOIN visits w ON v.pid = w.pid AND v.day < w.day AND w.paid"
EARLIER = "SELECT 1 FROM visits w WHERE w.pid = v.pid AND w.day < v.day"
NO_PAIRS = f"SELECT count(*) FROM visits v WHERE paid AND NOT EXISTS ({EARLIER})"
AROUND = "SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.pid = v.pid AND v.paid)"


@pytest.mark.parametrize("text", [JOINS, FULL, SELF, PAIRS, NO_PAIRS, AROUND])
def test_joins_of_many_rows_keep_some(
    text: str, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which rows are joined where there are too many is each unit's own affair."""
    monkeypatch.setattr(joined, "JOIN_ROWS", 2)
    plan = plan_of(text, USUAL)
    assert violation(con, plan, random.Random(3), 6) is None
    assert largest_share(con, plan, random.Random(3), 6) <= 1


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (PAIRS, (128, 128)),
        (NO_PAIRS, (128, 128)),
        (AROUND, (128, 128)),
        (ABSENT, (None, None)),
        ("SELECT count(*) FROM visits WHERE pid IN (SELECT pid FROM visits WHERE paid)", (None, None)),
        ("SELECT count(*) FROM visits v SEMI JOIN labs l ON l.pid = v.pid AND l.ok", (None, None)),
    ],
)
def test_matches_of_pairs_have_a_bound_on_work(text: str, most: tuple[int | None, int | None]) -> None:
    """A condition that reads both sides is looked at for pairs: both keep as many rows of a unit as a join's do."""
    table = plan_of(text, USUAL).query.table
    assert isinstance(table, Relation) and isinstance(table.node, matched.Matched)
    assert table.node.most == most
    assert table.rows == most[0]
    assert any("do not count" in note for note in table.node.notes()) == (most[0] is not None)


def test_work_of_pairs_is_refused_where_it_has_no_small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "MOST_PAIRS", 1)
    plan_of(ABSENT, USUAL)
    for text in (PAIRS, NO_PAIRS, AROUND):
        with pytest.raises(QueryError, match="may look at") as caught:
            plan_of(text, USUAL)
        assert caught.value.code == "Q403"


@pytest.mark.parametrize("call", ["min(cost, 3)", "max(cost, 2)"])
def test_more_arguments_of_an_aggregate_inside_are_refused(call: str) -> None:
    with pytest.raises(QueryError, match="of several arguments") as caught:
        plan_of(f"SELECT avg(x) FROM (SELECT pid, {call} AS x FROM visits GROUP BY pid)", USUAL)
    assert caught.value.code == "Q206"


def _reprinted(module: Any, cut: str, instead: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A printer whose text is another."""
    made = {"joined": joined.Joined, "matched": matched.Matched}[module]
    honest = made.print

    def breaks(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(made, "print", lambda self, *given: honest(self, *given).replace(cut, instead))

    return breaks


def _chosen_by_place(patch: pytest.MonkeyPatch) -> None:
    """Rows numbered as they lie, which others' rows move."""
    patch.setattr(joined, "JOIN_ROWS", 2)

    def first(rows: str, names: Any, salt: int, most: int) -> str:
        place = "row_number() OVER (PARTITION BY r.__unit)"
        return f"(SELECT * FROM (SELECT r.*, {place} AS place FROM {rows} AS r) WHERE place <= {most})"

    patch.setattr(joined, "print_chosen", first)


@pytest.mark.parametrize(
    ("text", "breaks"),
    [
        (JOINS, _reprinted("joined", "ON l.__unit = r.__unit", "ON TRUE")),
        (FULL, _reprinted("joined", "COALESCE(l.__unit, r.__unit)", "l.__unit")),
        (ABSENT, _reprinted("matched", "WHERE other.__unit = base.__unit", "WHERE TRUE")),
        (SELF, _chosen_by_place),
    ],
)
def test_a_broken_join_is_caught(
    text: str,
    breaks: Callable[[pytest.MonkeyPatch], None],
    con: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of(text, USUAL)
    assert violation(con, plan, random.Random(1), 2) is None
    breaks(monkeypatch)
    assert violation(con, plan, random.Random(1), 12) is not None
