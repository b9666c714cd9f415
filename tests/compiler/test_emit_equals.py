"""Exact cells decoded without noise equal the same statement run by DuckDB on the clamped data.

``emit`` and ``evaluate`` are called directly; nothing between them draws noise. Contribution bounds are wide here, so
that they do not bite; test_sensitivity.py is about them.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from duckdp.compiler.emit import emit
from duckdp.core.types import Neighbours
from tests.gate import clinic, column, exact_answer, load, plan_for

# what the declarations of tests.gate.clinic make of the base table
CLEAN = """
CREATE OR REPLACE VIEW reference.clinic AS SELECT pid,
  least(greatest(age, 0), 110) + CASE WHEN age IS NULL THEN NULL ELSE 0 END AS age,
  CASE WHEN isnan(cost) THEN NULL WHEN cost < 0 THEN 0 WHEN cost > 5000 THEN 5000 ELSE cost END AS cost,
  CASE WHEN isnan(score) THEN NULL ELSE score END AS score,
  sex, CASE WHEN town IN ('Bern', 'Genf', 'Uri') OR town IS NULL THEN town ELSE 'elsewhere' END AS town, name,
  CASE WHEN born < DATE '1990-01-01' THEN DATE '1990-01-01' WHEN born > DATE '1992-12-31' THEN DATE '1992-12-31'
       ELSE born END AS born,
  seen, smoker, CAST(visits AS BIGINT) AS visits, level,
  coalesce(CASE WHEN isnan(income) THEN NULL ELSE least(greatest(income, -10), 20) +
       CASE WHEN income IS NULL THEN NULL ELSE 0 END END, 0) AS income
FROM memory.main.clinic WHERE pid IS NOT NULL
"""

ROWS = [
    "count(*)",
    "count(age), count(name), count(smoker), count(born)",
    "sum(age), avg(age), count(age)",
    "sum(cost), count(*), count(cost)",
    "avg(cost), var_samp(cost), var_pop(cost), stddev_samp(cost), stddev_pop(cost)",
    "avg(income), sum(income), count(income)",
    "sum(smoker), count_if(smoker)",
    "sum(-3), sum(age - 200)",
    "sum(age * cost)",
    "avg(age % 7)",
    "sum(floor(cost / 100))",
    "sum(round(cost, 1))",
    "sum(age // 10), sum((age - 50) // 7)",
    "sum(CAST(cost AS INTEGER))",
    "sum(CAST(income AS BIGINT))",
    "sum(round(income))",
    "avg(sqrt(cost))",
    "avg(ln(greatest(cost, 1)))",
    "avg(exp(income / 10))",
    "avg(power(income, 3))",
    "sum(least(greatest(score, -3), 7))",
    "sum(abs(income))",
    "avg(sign(income))",
    "avg(CASE WHEN age > 40 THEN cost END)",
    "sum(CASE sex WHEN 'F' THEN 1 WHEN 'M' THEN 2 ELSE 3 END)",
    "sum(coalesce(age, 7))",
    "avg(nullif(age, 41))",
    "sum(if(smoker, income, 0))",
    "avg(length(name))",
    "avg(year(born)), sum(month(born)), avg(week(born))",
    "sum(date_diff('month', born, DATE '1992-06-01')), sum(date_diff('week', born, DATE '1991-06-01'))",
    "avg(dayofyear(born)), sum(isodow(born)), sum(dayofweek(born)), sum(quarter(born))",
    "avg(hour(seen)), avg(minute(seen))",
    "sum(age) FILTER (WHERE sex = 'F'), count(*) FILTER (WHERE sex = 'M'), avg(age) FILTER (WHERE age > 30)",
    "sum(age) / count(*), avg(cost) - avg(age), 2 * count(*) + 1, -sum(age)",
    "round(avg(cost), 2), floor(avg(cost)), ceil(avg(cost))",
    "greatest(avg(cost), 10, count(*)), least(sum(age), 100)",
    "CASE WHEN count(*) > 10 THEN avg(age) ELSE 0 END",
    "coalesce(avg(cost) FILTER (WHERE age > 1000), -1)",
    "count(*) > 10, avg(age) BETWEEN 0 AND 200, count(*) IN (1, 2)",
    "sqrt(avg(cost)), ln(count(*)), exp(avg(income) / 10), power(avg(age), 2), power(2, avg(income) / 10)",
    "CAST(count(*) AS DOUBLE) // 1, count(*) // 7, round(-2.5 * count(*))",
]
FILTERS = [
    "age > 40",
    "name LIKE 'a%'",
    "name LIKE '%b'",
    "name LIKE '%b%'",
    "name LIKE '_b%'",
    "name LIKE 'ab'",
    "name LIKE '%'",
    "name LIKE '%a%c_'",
    "name ILIKE 'A%'",
    "name NOT ILIKE '%É'",
    "name LIKE ''",
    "starts_with(name, 'a')",
    "contains(name, 'b')",
    "name IN ('ab', 'é.c', NULL)",
    "sex IS NULL",
    "sex IS DISTINCT FROM 'F'",
    "sex IS NOT DISTINCT FROM NULL",
    "smoker",
    "NOT smoker",
    "smoker IS TRUE",
    "smoker IS NOT TRUE",
    "born >= '1991-01-01'",
    "born BETWEEN DATE '1990-05-01' AND '1991-01-01'",
    "seen < TIMESTAMP '2020-06-01 12:00:00'",
    "CAST(seen AS DATE) = DATE '2020-02-29'",
    "date_trunc('month', born) = '1991-02-01'",
    "born < seen",
    "upper(name) = 'AB'",
    "left(name, 1) = 'a'",
    "right(name, 1) = 'c'",
    "substring(name, 2, 1) = 'b'",
    "trim(name) = 'x'",
    "length(name) = 2",
    "age = 41 OR cost IS NULL AND smoker",
    "age NOT IN (41, 30)",
    "(cost + 1) / 0 > 1",
    "name NOT LIKE 'a%b_'",
    "score > 1e300",
    "age + NULL > 3",
    "CASE WHEN smoker THEN age > 40 ELSE cost < 1000 END",
    "extract(year FROM born) = 1991",
    "date_part('month', born) = 2",
    "greatest(age, visits) > 50",
    "town <> 'Bern'",
    "suffix(name, 'c')",
    "visits = 3",
    "isodow(born) IN (6, 7)",
    "coalesce(smoker, FALSE)",
]
KEYED = [
    "SELECT sex, count(*), avg(age) FROM clinic GROUP BY sex",
    "SELECT town, sum(income), count(*) FROM clinic GROUP BY 1",
    "SELECT level, count(*), sum(age) FROM clinic GROUP BY level",
    "SELECT sex, town, avg(income) FROM clinic GROUP BY ALL",
    "SELECT floor(age / 10) * 10 AS band, count(*), sum(age) FROM clinic GROUP BY band",
    "SELECT age // 25, count(*) FROM clinic GROUP BY 1",
    "SELECT year(born), count(*) FROM clinic GROUP BY 1",
    "SELECT date_trunc('month', born) AS m, avg(cost) FROM clinic GROUP BY m",
    "SELECT born, count(*) FROM clinic GROUP BY born",
    "SELECT smoker, count(*), avg(income) FROM clinic GROUP BY smoker",
    "SELECT age > 40 AS old, sum(age) FROM clinic GROUP BY old",
    "SELECT CASE WHEN age < 30 THEN 'a' WHEN age < 60 THEN 'b' ELSE 'c' END AS c, count(*) FROM clinic GROUP BY c",
    "SELECT CASE WHEN age < 30 THEN 1 WHEN age < 60 THEN 2.5 END AS c, count(*) FROM clinic GROUP BY c",
    "SELECT name, count(*) FROM clinic GROUP BY name",
    "SELECT visits, sum(income), count(*) FROM clinic GROUP BY visits",
    "SELECT name, sex, avg(cost) FROM clinic GROUP BY name, sex",
    "SELECT age, sum(age) FROM clinic WHERE sex = 'F' GROUP BY age",
    "SELECT round(cost / 1000), count(*) FROM clinic GROUP BY 1",
    "SELECT -age AS m, count(*) FROM clinic GROUP BY m",
    "SELECT CAST(income AS INTEGER) AS i, count(*) FROM clinic GROUP BY i",
    "SELECT left(name, 1), count(*) FROM clinic GROUP BY 1",
    "SELECT week(born), count(*) FROM clinic GROUP BY 1",
    "SELECT isodow(born), dayofweek(born), count(*) FROM clinic GROUP BY 1, 2",
    "SELECT sex, count(*) AS n FROM clinic GROUP BY sex HAVING count(*) > 0 ORDER BY n DESC",
    "SELECT date_trunc('week', born) AS w, count(*) FROM clinic GROUP BY w",
    "SELECT quarter(born) + 1 AS q, count(*) FROM clinic GROUP BY q",
    "SELECT sign(income), count(*) FROM clinic GROUP BY 1",
    "SELECT age % 7, count(*) FROM clinic GROUP BY 1",
    "SELECT coalesce(smoker, FALSE) AS s, count(*) FROM clinic GROUP BY s",
    "SELECT least(visits, 3) * 2 AS v, count(*) FROM clinic WHERE visits >= 0 GROUP BY v",
]


def _rows(rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    day = dt.date(1989, 6, 1)
    pick = rng.choice
    return [
        (
            pick([*range(1, 30), None]),
            pick([None, -4, 130, *range(18, 95)]),
            pick([None, math.nan, -1.0, 9e9, rng.uniform(0, 5000), 2.5]),
            pick([None, math.nan, 1e308, -1e308, math.inf, rng.uniform(-9, 9)]),
            pick(["F", "M", None]),
            pick(["Bern", "Genf", "Uri", "Rom", None]),
            pick([None, "ab", "abc", "b", "é.c", "AB", " x ", "", "a\nbc", "aé"]),
            pick([None, day + dt.timedelta(rng.randrange(1500))]),
            pick(
                [
                    None,
                    dt.datetime(2020, 2, 29, 1, 2, 3),
                    dt.datetime(2020, 6, 1, 12),
                    dt.datetime(1999, 12, 31, 23, 59, 59),
                ]
            ),
            pick([True, False, None]),
            pick([None, -2, 0, 3, 4, 2**31 - 1]),
            pick([1, 2, None]),
            pick([None, math.nan, 2.5, -2.5, 0.5, 1.5, 99.0, -99.0, rng.uniform(-10, 20)]),
        )
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def data() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect(":memory:")
    load(con, clinic(), _rows(random.Random(4), 300))
    con.execute("CREATE SCHEMA reference")
    con.execute(CLEAN)
    yield con
    con.close()


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and not math.isfinite(wanted):
        return found is None  # released values that are not finite are shown as undefined
    if found is None or wanted is None:
        return found is None and wanted is None
    if isinstance(wanted, dt.datetime) and not isinstance(found, dt.datetime):
        return bool(wanted == dt.datetime.combine(found, dt.time()))  # date_trunc of a DATE is a DATE here
    if isinstance(wanted, (bool, str, dt.date)) or isinstance(found, bool):
        return bool(found == wanted)
    return math.isclose(float(found), float(wanted), rel_tol=1e-6, abs_tol=1e-6)


def compare(con: duckdb.DuckDBPyConnection, text: str, **options: Any) -> None:
    """Every group DuckDB finds is answered alike, but those of a NULL key; every other group has no rows."""
    table = clinic(max_rows=1000, max_groups=1000, row_cap=10_000)
    if options.pop("by_row", False):
        table = clinic(unit_key=None, filter="pid IS NOT NULL", base=(*clinic().columns, _pid()), row_cap=10_000)
    plan = plan_for(text, table, **options)
    columns = exact_answer(plan, con)
    found = list(zip(*(c.values for c in columns), strict=True))
    con.execute("USE memory.reference")
    wanted = con.execute(text).fetchall()
    con.execute("USE memory.main")
    keys = [i for i, o in enumerate(plan.query.outputs) if type(o.expr).__name__ == "KeyRef"]
    shown = {tuple(r[i] for i in keys): r for r in found}
    for row in wanted:
        key = tuple(v.date() if isinstance(v, dt.datetime) else v for v in (row[i] for i in keys))
        if None in key and "level" not in text:
            continue
        assert key in shown, (text, key)
        answer = shown.pop(key)
        assert all(_same(a, w) for a, w in zip(answer, row, strict=True)), (text, answer, row)
    counts = [i for i, o in enumerate(plan.query.outputs) if o.name in ("count(*)", "n")]
    assert all(rest[i] == 0 for rest in shown.values() for i in counts)


def _pid() -> Any:
    return column("pid", "INTEGER")


@pytest.mark.parametrize("items", ROWS)
def test_aggregates(items: str, data: duckdb.DuckDBPyConnection) -> None:
    compare(data, f"SELECT {items} FROM clinic")
    compare(data, f"SELECT {items} FROM clinic WHERE age IS NOT NULL AND sex = 'F'", by_row=True)
    compare(data, f"SELECT {items} FROM clinic", by_row=True, neighbours=Neighbours.REPLACE)


@pytest.mark.parametrize("where", FILTERS)
def test_predicates(where: str, data: duckdb.DuckDBPyConnection) -> None:
    compare(data, f"SELECT count(*), count(*) FILTER (WHERE {where}) FROM clinic WHERE {where}")


@pytest.mark.parametrize("text", KEYED)
def test_groups(text: str, data: duckdb.DuckDBPyConnection) -> None:
    compare(data, text)
    compare(data, text, by_row=True)


def test_units_are_counted_once(data: duckdb.DuckDBPyConnection) -> None:
    for tail in ("", " WHERE age > 60", " WHERE FALSE"):
        compare(data, f"SELECT count(DISTINCT pid), count(*) FROM clinic{tail}")
    compare(data, "SELECT sex, count(DISTINCT pid) FILTER (WHERE smoker) FROM clinic GROUP BY sex")


def test_an_empty_table(con: duckdb.DuckDBPyConnection) -> None:
    load(con, clinic(), [])
    columns = exact_answer(
        plan_for("SELECT count(*), sum(age), avg(age), stddev_samp(cost) FROM clinic", clinic()), con
    )
    assert [c.values for c in columns] == [[0], [0], [None], [None]]
    columns = exact_answer(plan_for("SELECT town, count(*) FROM clinic GROUP BY town", clinic()), con)
    assert columns[0].values == ["Bern", "Genf", "Uri", "elsewhere"]
    assert columns[1].values == [0, 0, 0, 0]
    assert [
        c.values for c in exact_answer(plan_for("SELECT name, count(*) FROM clinic GROUP BY name", clinic()), con)
    ] == [[], []]


def test_open_groups_come_by_ascending_keys() -> None:
    """What is released comes in the order that is read; as rows are found would tell how they lie on the disk."""
    sql = emit(plan_for("SELECT name, level, count(*) FROM clinic GROUP BY ALL", clinic()), 7).sql
    assert sql.endswith(" GROUP BY k0, k1 ORDER BY k0 NULLS LAST, k1 NULLS LAST")
