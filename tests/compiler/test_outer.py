"""Queries over private answers: what is released, and that the rest means what DuckDB means by it."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from duckdp.compiler import ways
from duckdp.compiler.evaluate import describe_outputs
from duckdp.compiler.outer import outer_print
from duckdp.compiler.outer.apart import Apart, take_apart
from duckdp.compiler.outer.block import MOST_PARTS, column_name
from duckdp.compiler.outer.outer_bars import with_bars
from duckdp.compiler.outer.outer_print import print_common
from duckdp.compiler.outer.outer_text import printed_outer, with_tables
from duckdp.compiler.outer.several import SeveralTask, payloads_of, plan_parts, task_of
from duckdp.compiler.outer.trees import rebuilt
from duckdp.compiler.outer.whole import read_whole
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.pricing import Terms
from duckdp.compiler.query import Query
from duckdp.core.types import Neighbours
from duckdp.errors import DuckDPError, QueryError
from tests.gate import column, exact_answer, exact_payload, exact_rows
from tests.relational import COLUMNS, load_data, tables

FOLDER = Path(__file__).parents[1] / "fixtures" / "outer"


def statements(name: str) -> list[str]:
    """The lines of a fixture."""
    lines = (FOLDER / name).read_text().splitlines()
    return [line.removesuffix(";") for line in lines if line and not line.startswith("--")]


TABLES = tables(max_rows=50, max_groups=50)
#: Within the bounds, no more rows of a unit than count; every unit has rows, no NULL key.
DATA = {
    "visits": [
        (i % 7, i % 10, 0.25 * (i % 40), -2 + (i % 5), "abc"[i % 3], i % 4 == 0, "2024-01-02") for i in range(60)
    ],
    "labs": [(i % 7, i % 8, 0.5 * (i % 9) - 2, "abc"[(i // 2) % 3], i % 5 < 2) for i in range(45)],
}
COUNTS = "SELECT dept, count(*) AS n, sum(cost) AS s FROM visits GROUP BY dept"
OUTER = statements("over.sql")


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        load_data(made, DATA)
        made.execute("CREATE SCHEMA reference")
        for name in COLUMNS:
            made.execute(f"CREATE VIEW reference.{name} AS FROM memory.main.{name} WHERE pid IS NOT NULL")
        yield made


def apart(text: str, parameters: Sequence[object] = ()) -> Apart:
    found = take_apart(parse_statement(text), TABLES, text, parameters)
    assert found is not None, text
    return found


def planned(found: Apart, **terms: Any) -> list[Any]:
    given = Terms(**({"epsilon": 1, "delta": "1e-8"} | terms))
    return [price.plan for price in plan_parts(found.parts, given, Neighbours.ADD_REMOVE)]


def over_exact(con: duckdb.DuckDBPyConnection, text: str, *, bars: bool) -> list[tuple[Any, ...]]:
    """The outer part over exact figures: what an analyst would get without any noise."""
    found = apart(text)
    selects, released, bars_of = [], [], []
    for number, plan in enumerate(planned(found)):
        shape = describe_outputs(plan)
        columns = exact_answer(plan, con)
        names = [column_name(i) for i in range(len(columns))]
        rows = list(zip(*(c.values for c in columns), strict=True))
        more = [f"{n}_{s}" for n in names for s in ("standard_error", "low", "high")]
        items = ", ".join([f'"{n}" {kind}' for n, (_, kind, _) in zip(names, shape, strict=True)])
        con.execute(f"CREATE OR REPLACE TEMP TABLE part_{number} ({items})")
        if rows:
            con.executemany(f"INSERT INTO part_{number} VALUES ({', '.join('?' * len(names))})", rows)
        bars_of.append(more)
        released.append([noisy for _, _, noisy in shape])
    barred = with_bars(found.outer, released)
    for number, more in enumerate(bars_of):
        more += dict.fromkeys(name for one in barred.beside if one.part == number for name in one.names)
        zeros = ", ".join(f'0.0 AS "{name}"' for name in more)
        selects.append(f"SELECT *, {zeros} FROM temp.main.part_{number}")
    outer = barred.outer if bars else found.outer
    cursor = con.execute(with_tables(printed_outer(outer), selects))
    width = len(cursor.description or ()) - 3 * len(barred.figures) * bars
    return [row[:width] for row in cursor.fetchall()]


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, (int, float)) and isinstance(other, (int, float)) and not isinstance(one, bool):
        return math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


@pytest.mark.parametrize("text", OUTER)
def test_over_exact_figures_it_is_duckdbs_own_answer(con: duckdb.DuckDBPyConnection, text: str) -> None:
    con.execute("SET schema = 'reference'")
    try:
        wanted = con.execute(text).fetchall()
    finally:
        con.execute("SET schema = 'main'")
    wanted = [tuple(float(v) if hasattr(v, "as_tuple") else v for v in row) for row in wanted]
    for bars in (False, True):
        found = over_exact(con, text, bars=bars)
        found = [tuple(float(v) if hasattr(v, "as_tuple") else v for v in row) for row in found]
        if "ORDER BY" not in text.rpartition(")")[2] or "ROW" in text:
            found, wanted = sorted(found, key=repr), sorted(wanted, key=repr)
        assert len(found) == len(wanted) > 0, text
        assert all(alike(a, b) for row, own in zip(found, wanted, strict=True) for a, b in zip(row, own, strict=True))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"SELECT (SELECT sum(n) FROM ({COUNTS})) - (SELECT sum(n) FROM ({COUNTS}))", 1),
        ("SELECT count(*) - (SELECT count(*) FROM visits AS other) FROM visits AS v", 1),
        ("SELECT count(*) - (SELECT count(*) FROM visits WHERE 5 < day) FROM visits WHERE day > 5", 2),
        ("SELECT avg(cost) * (SELECT count(*) FROM visits) - (SELECT sum(cost) FROM visits) FROM visits", 1),
        (
            "WITH a AS (SELECT pid, count(*) AS n FROM visits GROUP BY pid), b AS (SELECT pid, count(*) AS m FROM "
            "visits GROUP BY pid) SELECT (SELECT sum(n) FROM a) - (SELECT sum(m) FROM b)",
            1,
        ),
        ("SELECT (SELECT count(*) FROM visits) - (SELECT count(*) FROM labs)", 2),
    ],
)
def test_equal_questions_are_one_release(text: str, parts: int) -> None:
    found = apart(text)
    assert len(found.parts) == parts
    plans = planned(found)
    assert len({plan.canonical() for plan in plans}) == parts


OPEN = "dept || CAST(CAST(cost * 1000 AS INTEGER) AS VARCHAR)"


@pytest.mark.parametrize(
    ("text", "thresholds"),
    [
        (f"SELECT dept, min({OPEN}), count(*) FROM visits GROUP BY dept", [False, True]),
        (f"SELECT min({OPEN}), max({OPEN}) FROM visits", [True]),
        (f"SELECT min({OPEN}) FILTER (WHERE paid), max({OPEN}) FROM visits", [True, True]),
        (f"SELECT dept, min({OPEN}) FROM visits GROUP BY dept HAVING max({OPEN}) > 'a'", [True]),
        (f"SELECT {OPEN} AS k, min({OPEN}), count(*) FROM visits GROUP BY k", [True]),
    ],
)
def test_least_values_are_of_releases_with_a_threshold(text: str, thresholds: list[bool]) -> None:
    """Each pair of key and value is a group of open keys, with a share of delta; equal ones are one release."""
    plans = planned(apart(text))
    assert [plan.tau is not None for plan in plans] == thresholds
    assert all(plan.loss.delta_atto > 0 for plan in plans if plan.tau is not None)


def test_values_that_are_declared_have_no_threshold() -> None:
    """So the least of them is no answer: it would be that of the list."""
    wide = {
        "visits": replace(TABLES["visits"], columns=(column("town", "VARCHAR", domain=tuple(map(str, range(999)))),))
    }
    text = "SELECT min(town), count(*) FROM visits"
    with pytest.raises(QueryError, match=r"Q206.*min would show a value"):
        take_apart(parse_statement(text), wide, text)


def test_shares_add_up_to_what_was_typed() -> None:
    one, two = "SELECT count(*) FROM visits", "SELECT avg(cost) FROM visits WHERE paid"
    three, none = "SELECT sum(level) FROM labs", "SELECT count(*) FROM labs WHERE false"
    text = f"SELECT ({one}), ({two}), ({three}), ({none})"
    plans = planned(apart(text), epsilon="1.000000001")
    task = task_of(plans)
    assert isinstance(task, SeveralTask)
    assert task.loss.epsilon_nano == 1_000_000_001
    assert len(task.plans) == 3  # nothing is read for the last
    assert len(task.parameters["parts"]) == 3


def test_the_order_of_parts_in_the_text_is_none_of_the_question() -> None:
    one = "SELECT (SELECT count(*) FROM visits) + (SELECT count(*) FROM labs)"
    two = "SELECT (SELECT count(*) FROM labs) - (SELECT count(*) FROM visits)"
    tasks = [task_of(planned(apart(text))) for text in (one, two)]
    assert tasks[0] is not None
    assert tasks[1] is not None
    assert tasks[0].canonical == tasks[1].canonical


def test_one_part_is_the_plain_question() -> None:
    plain = "SELECT dept, count(*), sum(cost) FROM visits GROUP BY dept"
    task = task_of(planned(apart(f"SELECT max(n) FROM ({COUNTS})")))
    query = read_whole(parse_statement(plain), TABLES, plain)
    assert isinstance(query, Query)
    assert task is not None
    assert (
        task.canonical == plan_parts([query], Terms(epsilon=1, delta="1e-8"), Neighbours.ADD_REMOVE)[0].plan.canonical()
    )


def test_payloads_come_back_to_their_parts(con: duckdb.DuckDBPyConnection) -> None:
    text = (
        "SELECT (SELECT count(*) FROM visits) + (SELECT count(*) FROM labs) + (SELECT count(*) FROM labs WHERE false)"
    )
    plans = planned(apart(text))
    task = task_of(plans)
    assert isinstance(task, SeveralTask)
    joint = json.dumps([exact_payload(plan, exact_rows(plan, con)) for plan in task.plans])
    wanted = [exact_payload(plan, exact_rows(plan, con)) for plan in plans]
    assert payloads_of(plans, joint) == wanted


@pytest.mark.parametrize("line", statements("refused.sql"))
def test_what_is_refused(line: str) -> None:
    code, way, text = line.split(" | ", 2)
    with pytest.raises(QueryError) as caught:
        read_whole(parse_statement(text), TABLES, text)
    assert caught.value.code.startswith(code), caught.value
    assert way == "-" or way in str(caught.value)
    assert "__dp_1" not in str(caught.value)


def _bare(tree: exp.Expression) -> exp.Expression:
    """A tree without brackets."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return rebuilt(tree, _bare)


def unlike(texts: list[str]) -> tuple[int, list[str]]:
    """How many outer parts our own printer prints, and which of these are read as another tree than was printed."""
    printed, wrong = 0, []
    for text in texts:
        found = apart(text)
        tree = with_bars(found.outer, [[True] * 64 for _ in found.parts]).outer
        assert isinstance(tree, exp.Expression)
        own = print_common(tree)
        if own is not None:
            printed += 1
            again = parse_statement(tree.sql(dialect="duckdb", comments=False))
            wrong += [own] if _bare(parse_statement(own)) != _bare(again) else []
    return printed, wrong


def test_what_our_printer_prints_is_read_as_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    printed, wrong = unlike([*OUTER, *SHAPES])
    assert wrong == [] and printed > len(OUTER) / 2
    monkeypatch.setitem(outer_print.BINARY, exp.Sub, "+")  # the broken twins: another sign, and no order of NULLs
    monkeypatch.setattr(outer_print, "_ordered", lambda node: str(node.this.name))
    assert len(unlike([*OUTER, *SHAPES])[1]) >= 2


def test_no_protected_table_is_left_in_any_outer_part() -> None:
    """Each relation that an outer part names is a released table, one of its CTEs, or made of constants."""
    for text in OUTER:
        printed = printed_outer(apart(text).outer)
        tree = sqlglot.parse_one(printed, read="duckdb")
        ctes = {c.alias.lower() for c in tree.find_all(exp.CTE)}
        named = {t.name.lower() for t in tree.find_all(exp.Table) if isinstance(t.this, exp.Identifier)}
        assert {n for n in named - ctes if not n.startswith("__dp_")} <= set(), printed
        assert not {c.name.lower() for c in tree.find_all(exp.Column)} & {"pid", "cost", "level"}, printed


#: Forms that are printed by us, one after the other.
SHAPES = [
    "SELECT n - (n - 1) AS a, -n, - -1, NOT n > 2 AND n < 3 OR n = 1 FROM (SELECT count(*) AS n FROM visits) AS t",
    "SELECT CASE WHEN n IS NULL THEN 'it''s' ELSE CAST(n AS VARCHAR) END AS w FROM (SELECT count(*) n FROM visits) t",
    "SELECT round(n / 2, 1), coalesce(n, 1, 2), n IN (1, 2), n BETWEEN 1 AND 2, n // 2 % 3 FROM (SELECT count(*) n "
    "FROM visits) t ORDER BY 1 DESC NULLS FIRST, n LIMIT 3 OFFSET 1",
    "SELECT paid, lag(n, 1) OVER (PARTITION BY paid ORDER BY n DESC) AS l, rank() OVER () FROM (SELECT paid, count(*) "
    "AS n FROM visits GROUP BY paid) AS t(paid, n) QUALIFY row_number() OVER (ORDER BY n) < 2",
    "SELECT count(*) FROM visits UNION ALL SELECT count(*) FROM labs UNION SELECT sum(cost) FROM visits ORDER BY 1",
    "WITH a AS (SELECT count(*) AS n FROM visits), b(m) AS (SELECT count(*) FROM labs) SELECT a.n / b.m FROM a LEFT "
    "JOIN b ON a.n > b.m, a AS c CROSS JOIN b AS d WHERE a.n = (SELECT max(n) FROM a)",
    "SELECT sum(n) FILTER (WHERE n > 1), count(DISTINCT n) FROM (SELECT paid, count(*) AS n FROM visits GROUP BY paid)"
    " GROUP BY paid HAVING max(n) > 1",
]

#: CTEs that a later WITH hides, from a CTE that reads them.
HIDDEN = (
    "SELECT n FROM (WITH visits AS (SELECT 1 AS z) SELECT count(*) AS n FROM b) x",
    "SELECT n FROM (WITH visits AS (SELECT * FROM visits WHERE paid) SELECT count(*) AS n FROM b) x",
    "SELECT n FROM (WITH visits AS (FROM labs) SELECT count(*) AS n FROM visits WHERE pid IN (SELECT pid FROM b)) x",
    "SELECT n FROM (WITH VISITS AS (SELECT 1 AS z), c AS (SELECT * FROM b) SELECT count(*) AS n FROM c) x",
    "SELECT n FROM (WITH visits AS (SELECT * FROM visits WHERE paid) SELECT count(*) AS n FROM visits) x",
)


@pytest.mark.parametrize("text", HIDDEN)
def test_a_cte_means_what_it_meant_where_it_was_written(text: str) -> None:
    whole = f"WITH visits AS (SELECT * FROM visits WHERE day > 4), b AS (SELECT * FROM visits) {text}"
    with pytest.raises(QueryError, match=r"^Q204.*different names"):
        take_apart(parse_statement(whole), TABLES, whole)


def test_a_cte_is_named_once() -> None:
    text = "WITH a AS (SELECT * FROM visits), a AS (SELECT * FROM labs) SELECT n FROM (SELECT count(*) AS n FROM a)"
    with pytest.raises(QueryError, match=r"^Q203.*twice"):
        take_apart(parse_statement(text), TABLES, text)


def scoped(draw: random.Random, depth: int) -> str:
    """A query whose CTEs hide tables and each other."""

    def name() -> str:
        return draw.choice(("visits", "visits", "labs", "a", "b"))

    def rows(deep: int) -> str:
        within = f"WITH {name()} AS ({rows(0)}) " if deep and draw.random() < 0.3 else ""
        more = f" AND pid IN ({rows(0).replace('*', 'pid')})" if deep and draw.random() < 0.3 else ""
        return f"{within}SELECT * FROM {name()} WHERE day > {draw.randrange(8)}{more}"

    def body() -> str:
        kind = draw.random()
        return rows(1) if kind < 0.75 else f"SELECT count(*) AS n FROM {name()}" if kind < 0.85 else "SELECT 1 AS z"

    names = draw.sample(("visits", "labs", "a", "b"), draw.randrange(1, 3))
    ctes = ", ".join(f"{one} AS ({body()})" for one in names)
    more = f" AND pid IN ({rows(1).replace('*', 'pid')})" if draw.random() < 0.3 else ""
    counted = f"SELECT count(*) AS n FROM {name()} WHERE day > {draw.randrange(8)}{more}"
    return f"WITH {ctes} {f'SELECT n FROM ({scoped(draw, depth - 1)}) AS x' if depth else counted}"


def test_names_are_looked_up_as_sql_does(con: duckdb.DuckDBPyConnection) -> None:
    """Whatever hides what: what is answered is what DuckDB answers."""
    draw, agreed, refused = random.Random(4), 0, 0
    for _ in range(200):
        text = scoped(draw, draw.randrange(1, 3))
        try:
            if take_apart(parse_statement(text), TABLES, text) is None:
                continue
            found = over_exact(con, text, bars=False)
        except (QueryError, duckdb.Error):
            refused += 1
            continue
        con.execute("SET schema = 'reference'")
        try:
            wanted = con.execute(text).fetchall()
        finally:
            con.execute("SET schema = 'main'")
        assert found == wanted, text
        agreed += 1
    assert agreed > 30, (agreed, refused)


SPELLINGS = (
    "{0}(1)",
    '"{0}"(1)',
    'main."{0}"(1)',
    'system.main."{0}"(1)',
    '"SYSTEM"."main"."{0}"(1)',
    "e'x'.\"{0}\"(1)",
)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_a_function_that_asks_is_let_through(spelling: str) -> None:
    for name in ("dp_noisy_count", "DP_Query", "query", "QUERY", "query_table", "Query_Table", "dp_größe"):
        call = spelling.format(name)
        froms = [] if spelling.startswith("e'") else [f"SELECT * FROM ({COUNTS}) AS x, {call} AS y"]
        for text in (
            *froms,
            f"SELECT {call}, n FROM ({COUNTS}) AS x",
            f"SELECT n FROM ({COUNTS}) AS x WHERE n > (SELECT {call})",
            f"SELECT {call} OVER () FROM ({COUNTS}) AS x",
            f"SELECT [{call} FOR i IN [1]] FROM ({COUNTS}) AS x",
        ):
            with pytest.raises(QueryError, match=r"^Q202"):
                take_apart(parse_statement(text), TABLES, text)


def test_too_little_for_each_part_is_refused_before_anything() -> None:
    text = "SELECT (SELECT count(*) FROM visits) + (SELECT count(*) FROM labs)"
    with pytest.raises(DuckDPError, match=r"^P101"):
        planned(apart(text), epsilon="0.000001")
    with pytest.raises(DuckDPError, match=r"^P106"):
        planned(apart(text), epsilon=None, error={"n": 3})
    plans = planned(apart(text), epsilon=None, error=50)
    assert all(plan.loss.epsilon_nano > 0 for plan in plans)
    assert MOST_PARTS == 16
    assert ways.MIXED


def doubled(how: str, times: int) -> str:
    """A statement whose columns, unfolded, are 2 ** times as large as they look."""
    seed = "SELECT count(*) AS a FROM visits"
    steps = range(times)
    if how == "aliases":
        return f"SELECT count(*) AS a0, {', '.join(f'a{i} + a{i} AS a{i + 1}' for i in steps)} FROM visits"
    if how == "aliases beside a star":
        parts = ", ".join(f"a{i} + a{i} + 0 * count(*) OVER () AS a{i + 1}" for i in steps)
        return f"SELECT a AS a0, {parts} FROM ({seed})"
    if how == "CTEs":
        ctes = ", ".join(f"c{i + 1} AS (SELECT a + a AS a FROM c{i})" for i in steps)
        return f"WITH c0 AS ({seed}), {ctes} SELECT a FROM c{times} WHERE a > 1"
    if how == "unions":
        ctes = ", ".join(f"c{i + 1} AS (SELECT 1 AS a UNION ALL SELECT a + a FROM c{i})" for i in steps)
        return f"WITH c0 AS ({seed}), {ctes} SELECT a FROM c{times} WHERE a > 1"
    if how == "columns":
        ctes = ", ".join(f"c{i + 1} AS (SELECT COLUMNS(*) + COLUMNS(*) FROM c{i})" for i in steps)
        return f"WITH c0 AS ({seed}), {ctes} SELECT * FROM c{times}"
    item, text = ("a + a", seed) if how == "subqueries" else ("b + b", seed)
    for i in steps:
        text = f"SELECT {item} AS a FROM ({text}) AS t{i}" + ("" if how == "subqueries" else "(b)")
    return f"{text} WHERE a > 1"


@pytest.mark.parametrize(
    "how", ["aliases", "aliases beside a star", "CTEs", "unions", "columns", "subqueries", "renamed"]
)
def test_what_unfolds_to_more_than_a_statement_may_be_is_refused(how: str) -> None:
    """DuckDB takes all memory there is while it binds or plans it, before anything is charged."""
    with pytest.raises(QueryError, match=r"^Q104"):
        apart(doubled(how, 24))
    assert apart(doubled(how, 6))
