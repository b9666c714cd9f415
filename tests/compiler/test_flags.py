"""EXISTS and IN under OR, in CASE, in aggregates and as keys, and IN of pairs: columns that tell of each row."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from duckdp.catalog.table import Kind, Table
from duckdp.compiler.emit import emit
from duckdp.compiler.printing import Parameters, print_rows
from duckdp.compiler.relations import joining, matched, with_public
from duckdp.compiler.relations.relation import Relation
from duckdp.errors import QueryError
from tests.relational import (
    COLUMNS,
    PUBLIC,
    broken_claim,
    differs,
    largest_share,
    load_reference,
    plan_of,
    random_data,
    relations_of,
    table,
    tables,
    violation,
)

USUAL, WIDE = tables(), tables(max_rows=64, max_groups=64)
V, L = "SELECT count(*) FROM visits v WHERE", "labs l WHERE l.pid = v.pid"
OR = f"{V} day > 5 OR EXISTS (SELECT 1 FROM {L} AND ok)"
PAIRED = f"{V} NOT (day > 5 OR EXISTS (SELECT 1 FROM {L} AND l.level < v.cost))"
PAIR = f"{V} (pid, day) NOT IN (SELECT pid, day FROM labs)"
OPEN_PAIR = f"{V} ((day, pid) NOT IN (SELECT day, pid FROM labs WHERE ok)) IS NULL OR paid"
LISTED = f"{V} (v.day NOT IN (SELECT day FROM days)) IS NULL OR paid"
FOUND = f"{V} paid OR EXISTS (SELECT 1 FROM days d WHERE d.day = v.day AND rate > cost)"
TEXTS = [
    OR,
    PAIRED,
    PAIR,
    OPEN_PAIR,
    LISTED,
    FOUND,
    f"{V} day > 5 OR pid IN (SELECT pid FROM labs WHERE ok) OR dept NOT IN (SELECT dept FROM depts WHERE site = 1)",
    f"{V} (pid, day) IN (SELECT pid, day FROM labs)",
    f"{V} (day, v.pid, dept) NOT IN (SELECT day, pid, dept FROM labs WHERE ok)",
    f"{V} paid OR (pid, day) IN (SELECT pid, max(day) FROM labs GROUP BY pid)",
    f"{V} day IN (SELECT day FROM {L} AND ok)",
    f"{V} day NOT IN (SELECT day + 1 FROM {L} AND l.dept = v.dept)",
    f"{V} (day IN (SELECT day FROM {L})) IS NULL",
    f"SELECT EXISTS (SELECT 1 FROM {L} AND ok) AS e, count(*), sum(cost) FILTER (WHERE pid IN (SELECT pid FROM labs)) "
    "FROM visits v GROUP BY e",
    f"SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM {L}) THEN 'none' ELSE 'some' END, count(*) FROM visits v GROUP BY 1",
    f"SELECT sum(CASE WHEN EXISTS (SELECT 1 FROM {L}) THEN cost ELSE 1 END) FROM visits v",
    "SELECT avg(x) FROM (SELECT CASE WHEN day IN (SELECT day FROM days WHERE label = 'x') THEN 1 ELSE 0 END AS x "
    "FROM visits)",
    f"SELECT count(*) FROM (SELECT pid, count(*) FILTER (WHERE EXISTS (SELECT 1 FROM {L} AND l.day < v.day)) AS n "
    "FROM visits v GROUP BY pid) WHERE n > 1",
    f"{V} EXISTS (SELECT 1 FROM {L} AND (ok OR l.day IN (SELECT day FROM days)))",
    f"SELECT count(*) FROM (SELECT *, NOT EXISTS (SELECT 1 FROM {L}) AS none FROM visits v) WHERE none OR day > 8",
    "SELECT sum(r) FROM (SELECT row_number() OVER (PARTITION BY pid ORDER BY day, cost, score, dept, paid, v.at) AS r "
    "FROM visits v WHERE day > 3 OR pid IN (SELECT pid FROM labs))",
    "SELECT count(DISTINCT pid) FROM visits v JOIN labs l USING (pid) WHERE l.ok OR EXISTS (SELECT 1 FROM visits w "
    "WHERE w.pid = v.pid AND w.day > v.day)",
    "SELECT count(*) FROM (SELECT day, pid IN (SELECT pid FROM labs) AS x FROM visits UNION ALL SELECT day, ok "
    "FROM labs) WHERE x",
]


@pytest.fixture(scope="module")
def world() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute("CREATE SCHEMA reference")
        yield con


@pytest.mark.parametrize("text", TEXTS)
def test_tests_mean_what_duckdb_means_and_are_of_each_unit_alone(text: str, world: duckdb.DuckDBPyConnection) -> None:
    rng, wide, plan = random.Random(text), plan_of(text, WIDE), plan_of(text, USUAL)
    for _ in range(3):
        load_reference(world, random_data(rng, wild=False))
        assert differs(world, text, wide) is None
    assert violation(world, plan, rng, 1) is None
    assert broken_claim(world, plan, rng, 1) is None
    assert largest_share(world, plan, rng, 2) <= 1


def test_rows_that_are_units_have_tests_of_public_rows() -> None:
    rows = tables(unit_key=None, unit_type=None)
    found = plan_of("SELECT count(*) FROM visits WHERE paid OR day IN (SELECT day FROM days)", rows)
    assert isinstance(found.query.table, Relation)
    with pytest.raises(QueryError, match="Q204"):
        plan_of(OR, rows)


FILLED = "FROM days d LEFT JOIN visits v ON v.day = d.day GROUP BY d.day"


def test_a_public_row_that_nobody_has_is_told_of_too(world: duckdb.DuckDBPyConnection) -> None:
    """EXISTS is FALSE of it, so count(EXISTS ...) is 1 in DuckDB where nobody has a row; a test in FILTER is right."""
    for told in (f"NOT EXISTS (SELECT 1 FROM {L})", "v.day IN (SELECT day FROM days)", "pid IN (SELECT pid FROM labs)"):
        for text in (f"count({told})", f"sum(CAST({told} AS INTEGER))"):
            with pytest.raises(QueryError, match="Q204"):
                plan_of(f"SELECT d.day, {text} {FILLED}", USUAL)
    text = f"SELECT d.day, count(v.cost) FILTER (WHERE NOT EXISTS (SELECT 1 FROM {L})) {FILLED}"
    plan, rng = plan_of(text, WIDE), random.Random(3)
    for _ in range(3):
        load_reference(world, random_data(rng, wild=False))
        assert differs(world, text, plan) is None


def test_no_row_is_lost_or_repeated_by_a_column() -> None:
    world = USUAL | {"labs": tables(row_cap=5)["labs"]}
    whole = plan_of("SELECT count(*) FROM visits", USUAL).query.table
    for text in (OR, LISTED, FOUND, PAIRED):
        table = plan_of(text, world).query.table
        assert isinstance(table, Relation)
        assert table.units_cap == whole.row_cap
        assert (table.row_cap, table.max_rows, table.max_groups) == (whole.row_cap, whole.max_rows, whole.max_groups)


def test_a_column_costs_nothing_where_nobody_reads_it() -> None:
    """Two spellings are one question; another test is another."""
    one = plan_of(OR, USUAL).canonical()
    assert plan_of(OR.replace("labs l", "labs AS x").replace("l.pid", "x.pid"), USUAL).canonical() == one
    assert plan_of(OR.replace("ok", "NOT ok"), USUAL).canonical() != one
    assert (
        plan_of(LISTED, USUAL).canonical() != plan_of(LISTED.replace("days)", "days WHERE day > 1)"), USUAL).canonical()
    )


UNREAD = (
    f"SELECT pid, EXISTS (SELECT 1 FROM {L} AND l.dept = 'a') AS e FROM visits v",
    f"SELECT pid, cost IN (SELECT level FROM {L} AND (l.dept = 'a' OR ok)) AS e FROM visits v",
    f"SELECT pid, EXISTS (SELECT 1 FROM {L} AND l.level < v.cost AND coalesce(l.dept, 'z') > 'b') AS e FROM visits v",
    "SELECT pid, dept IN (SELECT dept FROM depts WHERE dept <> 'a') AS e FROM visits",
    "SELECT pid, EXISTS (SELECT 1 FROM depts d WHERE d.dept = v.dept AND d.dept <> 'a') AS e FROM visits v",
)


@pytest.mark.parametrize("text", UNREAD)
def test_a_column_that_nobody_reads_leaves_no_value_behind(text: str, world: duckdb.DuckDBPyConnection) -> None:
    """Constants of what is not printed were bound all the same: DuckDB refused the read, after the charge."""
    load_reference(world, random_data(random.Random(text), wild=False))
    question = f"SELECT count(*) FROM ({text}) t"
    query = emit(plan_of(question, WIDE), 7)
    assert len(query.parameters) == len(set(re.findall(r"\$\d+", query.sql)))
    assert differs(world, question, plan_of(question, WIDE)) is None
    read = question.replace("count(*)", "count(e)")
    assert differs(world, read, plan_of(read, WIDE)) is None


def test_pairs_without_equality_alone_have_a_bound_on_work() -> None:
    def most(text: str) -> list[tuple[int | None, int | None]]:
        found = relations_of(plan_of(text, USUAL).query.table)
        return [r.node.most for r in found if isinstance(r.node, matched.Matched)]

    assert most(PAIR.replace("NOT ", "")) == [(None, None)]
    assert most(PAIR) == most(PAIRED) == [(128, 128)]


COMPUTED = [
    f"{V} EXISTS (SELECT 1 FROM {L} AND l.day % 2 = v.day % 2)",
    f"{V} NOT EXISTS (SELECT 1 FROM {L} AND l.level = -abs(v.cost) AND l.day = v.day)",
    f"{V} paid OR EXISTS (SELECT 1 FROM {L} AND least(l.day, 0) = least(v.day, 0) "
    "AND left(l.dept, 0) = left(v.dept, 0))",
    f"{V} cost > 1 AND (pid, least(day, 0)) IN (SELECT pid, least(day, 0) FROM labs WHERE ok)",
    f"{V} day > 99 OR (pid, round(day / 100)) IN (SELECT pid, round(day / 100) FROM labs)",
    "SELECT count(*) FROM visits v SEMI JOIN labs l ON v.pid = l.pid AND least(v.day, 0) = least(l.day, 0)",
    "SELECT count(*) FROM visits v ANTI JOIN labs l ON v.pid = l.pid AND least(v.day, 0) = 1 + least(l.day, 0)",
]


@pytest.mark.parametrize("text", COMPUTED)
def test_what_is_computed_means_what_duckdb_means(text: str, world: duckdb.DuckDBPyConnection) -> None:
    rng, wide = random.Random(text), plan_of(text, WIDE)
    for _ in range(3):
        load_reference(world, random_data(rng, wild=False))
        assert differs(world, text, wide) is None
    assert violation(world, plan_of(text, USUAL), rng, 1) is None


@pytest.mark.parametrize("text", [*COMPUTED, *TEXTS])
def test_no_step_makes_pairs_of_all_rows_of_one_unit(text: str, world: duckdb.DuckDBPyConnection) -> None:
    """1,000 rows on both sides, different in every column: pairs of all would be a million."""
    rows = 1000
    values = {"INTEGER": "i", "DOUBLE": "i / 7.5", "DECIMAL(9,2)": "i", "VARCHAR": "'a' || i", "BOOLEAN": "i % 2 = 0"}
    for name, columns in COLUMNS.items():
        items = [f"({values.get(c.type, 'DATE $$2024-01-01$$')})::{c.type} AS {c.name}" for c in columns]
        world.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT 1 AS pid, {', '.join(items)} FROM range({rows}) t(i)")
    for name, rows_of in PUBLIC.items():
        world.execute(f"CREATE OR REPLACE TABLE {name} AS {rows_of}")
    table = plan_of(text, unbounded()).query.table
    parameters = Parameters(key=7)
    sql = f"SELECT bit_xor(hash(t)) FROM {print_rows(table, table.columns, parameters, unit=True)} AS t"
    told = world.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", parameters.values).fetchall()[0][1]
    made = [n for step in json.loads(told)["operator"] for n in _rows_made(step)]
    assert rows <= max(made) <= max(20 * rows, 128 * 128)


def unbounded() -> dict[str, Table]:
    """The tables with columns of numbers whose values are all told apart."""
    wide = [replace(c, upper=10_000.0) if c.kind is Kind.NUMBER else replace(c, domain=None) for c in COLUMNS["visits"]]
    more = [replace(c, upper=10_000.0) if c.kind is Kind.NUMBER else replace(c, domain=None) for c in COLUMNS["labs"]]
    return USUAL | {"visits": table("visits", columns=tuple(wide)), "labs": table("labs", columns=tuple(more))}


def _rows_made(step: dict[str, Any]) -> Iterator[int]:
    yield step["intermediate_rows"]
    for below in step.get("children", ()):
        yield from _rows_made(below)


@pytest.mark.parametrize(
    "text",
    [
        f"{V} paid OR EXISTS (SELECT 1 FROM labs)",
        f"{V} paid OR EXISTS (SELECT 1 FROM labs l WHERE l.day = v.day)",
        f"{V} paid OR EXISTS (SELECT 1 FROM labs l WHERE l.pid = v.pid OR l.ok)",
        f"{V} paid OR day IN (SELECT day FROM labs)",
        f"{V} paid OR pid IN (SELECT day FROM labs)",
        f"{V} paid OR pid NOT IN (SELECT l.pid FROM visits x LEFT JOIN labs l USING (pid))",
        f"{V} (day, day) IN (SELECT pid, day FROM labs)",
        f"{V} (pid, day) IN (SELECT day, pid FROM labs)",
        f"{V} (pid, day) IN (SELECT pid, day, ok FROM labs)",
        f"{V} (pid, day) IN (SELECT pid + 1, day FROM labs)",
        f"{V} (day, paid) NOT IN (SELECT day, ok FROM labs)",
        f"{V} day IN (SELECT day FROM labs l WHERE l.day = v.day)",
        f"{V} day IN (SELECT max(day) FROM {L})",
        f"{V} day IN (SELECT day FROM {L} LIMIT 1)",
        f"SELECT EXISTS (SELECT 1 FROM {L}) FROM visits v",
        "SELECT pid IN (SELECT pid FROM labs), pid FROM visits v",
        f"SELECT count(*) FROM visits v JOIN labs x ON v.pid = x.pid AND EXISTS (SELECT 1 FROM {L})",
        "SELECT count(*) FROM days d WHERE paid OR EXISTS (SELECT 1 FROM labs l WHERE l.day = d.day)",
        f'{V} "__dp_found_1" OR EXISTS (SELECT 1 FROM {L})',
        'SELECT count(*) FROM (SELECT day AS "__dp_found_1" FROM visits)',
    ],
)
def test_what_asks_of_other_units_is_refused(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        plan_of(text, USUAL)
    assert caught.value.code in ("Q203", "Q204", "Q205", "Q207", "Q301"), str(caught.value)


def test_a_star_shows_no_column_of_ours() -> None:
    inner = f"SELECT * FROM visits v WHERE paid OR EXISTS (SELECT 1 FROM {L})"
    plan_of(f"SELECT count(*) FROM ({inner} UNION ALL SELECT * FROM visits)", USUAL)  # as many columns
    text = f"SELECT count(*) FROM ({inner}) WHERE has_match_1"
    with pytest.raises(QueryError, match="Q207"):
        plan_of(text, USUAL)


@pytest.mark.parametrize(
    ("text", "cut", "instead"),
    [
        (OR, "WHERE other.__unit = base.__unit", "WHERE TRUE"),
        (OPEN_PAIR, "WHERE other.__unit = base.__unit", "WHERE TRUE"),
        (PAIR, "WHERE other.__unit = base.__unit", "WHERE TRUE"),
    ],
)
def test_units_that_are_not_compared_are_caught(
    text: str, cut: str, instead: str, world: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken twins: a printer that pairs people."""
    honest, plan = matched.Matched.print, plan_of(text, USUAL)
    monkeypatch.setattr(matched.Matched, "print", lambda self, *given: honest(self, *given).replace(cut, instead))
    assert violation(world, plan, random.Random(1), 20) is not None


def _found_wrong(text: str, con: duckdb.DuckDBPyConnection) -> bool:
    plan, rng = plan_of(text, WIDE), random.Random(2)
    for _ in range(20):
        load_reference(con, random_data(rng, wild=False))
        if differs(con, text, plan) is not None:
            return True
    return False


def test_other_meanings_are_caught(world: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken twins: IN that is never NULL, and pairs that differ where one is NULL."""
    assert not _found_wrong(LISTED, world)
    honest = with_public.WithPublic.print
    with monkeypatch.context() as patch:
        patch.setattr(
            with_public.WithPublic,
            "print",
            lambda self, *given: honest(self, *given).replace(" IN (", " IS NOT NULL AND 1 IN ("),
        )
        assert _found_wrong(LISTED, world)
    read = joining.Pairs.condition
    with monkeypatch.context() as patch:
        patch.setattr(
            joining.Pairs,
            "condition",
            lambda self, *given: read(joining.Pairs(values=self.values, asks="true"), *given),
        )
        assert _found_wrong(PAIR, world)
        assert _found_wrong(OPEN_PAIR, world)
