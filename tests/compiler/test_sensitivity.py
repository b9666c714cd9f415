"""Sensitivities by brute force: exact cells of neighbouring tables differ by at most what the plan claims.

Each neighbour is a real table in DuckDB; the cells come from the emitted SQL. Broken twins (the clamp, the scaling, the
choice of groups or the claim taken away) must be caught by the same search.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from duckdp.compiler.measures import Measure
from duckdp.compiler.plan import Plan
from duckdp.core.types import Neighbours
from tests.gate import COLUMNS, Row, clinic, exact_cells, exact_rows, load, own_steps, plan_for

INF, NAN = math.inf, math.nan
NUMBERS = [None, 0.0, -0.0, 2.5, -10.0, 20.0, 1e308, -1e308, INF, -INF, NAN, 4999.0, 9e9]
STATEMENTS = [
    "SELECT count(*) FROM clinic",
    "SELECT count(*), count(score), sum(cost), avg(age) FROM clinic",
    "SELECT avg(cost), count(*) FROM clinic WHERE age > 40",
    "SELECT var_samp(income), sum(income), count(*) FROM clinic",
    "SELECT stddev_pop(cost) FROM clinic",
    "SELECT sex, count(*), sum(income) FROM clinic GROUP BY sex",
    "SELECT sex, town, sum(income), avg(income) FROM clinic GROUP BY sex, town",
    "SELECT town, count(*) FILTER (WHERE smoker), count(DISTINCT pid) FROM clinic GROUP BY town",
    "SELECT age, sum(age) FROM clinic GROUP BY age",
    "SELECT floor(income), sum(income), count(*), avg(income) FROM clinic GROUP BY 1",
    "SELECT level, count(*), count(DISTINCT pid) FILTER (WHERE income > 0) FROM clinic GROUP BY level",
    "SELECT smoker, sum(least(greatest(score, -3), 7)) FROM clinic GROUP BY smoker",
    "SELECT sum(CASE WHEN sex = 'F' THEN income END), avg(CASE WHEN smoker THEN cost END), count(*) FROM clinic",
    "SELECT name, count(*) FROM clinic GROUP BY name",
    "SELECT visits, sum(income), count(*) FROM clinic GROUP BY visits",
    "SELECT name, sex, avg(cost), count(DISTINCT pid) FROM clinic WHERE income IS NOT NULL GROUP BY name, sex",
    "SELECT floor(score), count(*) FROM clinic GROUP BY 1",
    "SELECT sum(-3), sum(age - 50), avg(income * income) FROM clinic",
    "SELECT count_if(smoker), sum(smoker) FROM clinic",
    "SELECT year(born), count(born), count(*) FROM clinic GROUP BY 1",
    "SELECT sum(income) FROM clinic",
    "SELECT sum(income), sex FROM clinic WHERE income < 3 GROUP BY sex",
    "SELECT sex, sum(least(greatest(score, -5), 5)) FROM clinic GROUP BY sex",
    "SELECT count(DISTINCT visits), count(DISTINCT town), count(*) FROM clinic",
    "SELECT sex, count(DISTINCT score), count(DISTINCT name) FILTER (WHERE smoker), avg(age) FROM clinic GROUP BY sex",
    "SELECT name, count(DISTINCT visits), sum(income) FROM clinic GROUP BY name",
    "SELECT median(age), min(income), max(born), mode(town) FROM clinic",
    "SELECT visits, quantile_cont(cost, 0.9), min(age) FILTER (WHERE smoker), count(*) FROM clinic GROUP BY visits",
    "SELECT sex, corr(income, cost), regr_slope(cost, age) FROM clinic GROUP BY sex",
]
ROW_ONLY = [s for s in STATEMENTS if "DISTINCT pid" not in s]


def _row(rng: random.Random, unit: int | None) -> Row:
    return (
        unit,
        rng.choice([None, 0, 41, 110, 999, -7]),
        rng.choice(NUMBERS),
        rng.choice(NUMBERS),
        rng.choice(["F", "M", "X", None]),
        rng.choice(["Bern", "Genf", "Uri", "Rom", None]),
        rng.choice([None, "a", "b", "c", "d", "e"]),
        rng.choice([None, dt.date(1991, 5, 5), dt.date(1, 1, 1)]),
        None,
        rng.choice([True, False, None]),
        rng.choice([None, 1, 2, 3, 4]),
        rng.choice([None, 1, 2, 7]),
        rng.choice(NUMBERS),
    )


def _cells(plan: Plan, con: duckdb.DuckDBPyConnection, rows: list[Row], salt: int) -> dict[Row, tuple[int, ...]]:
    load(con, plan.query.table, rows, "clinic")
    return exact_cells(plan, exact_rows(plan, con, salt))


def worst(plan: Plan, before: dict[Row, tuple[int, ...]], after: dict[Row, tuple[int, ...]]) -> list[float]:
    """Per measure: the largest ratio of a norm of the change to what is claimed for it (above 1: a violation)."""
    found, start = [], 0
    zeros = (0,) * plan.cells
    keys = before.keys() | after.keys()
    if plan.domain_size is None:
        for one, other in ((before, after), (after, before)):
            new = [one[k][0] for k in one.keys() - other.keys()]
            least = next(
                (steps for keys, steps in own_steps(plan) if keys >= len(new)), -1
            )  # of more than may be: none
            assert all(0 < v <= least for v in new), "threshold: too many new keys"
    for measure in plan.measures:
        change = [
            after.get(k, zeros)[j] - before.get(k, zeros)[j]
            for k in keys
            for j in range(start, start + measure.noisy_cells)
        ]
        start += measure.cells
        if not measure.noisy_cells:
            continue
        s = measure.sensitivity
        norms = (
            sum(map(abs, change)) / s.l1,
            sum(c * c for c in change) / s.l2_squared,
            max(map(abs, change), default=0) / s.linf,
        )
        found.append(max(norms))
    return found


def search(
    con: duckdb.DuckDBPyConnection, plan: Plan, rng: random.Random, tries: int, runs: Plan | None = None
) -> float:
    """The largest ratio over random neighbours: a unit with all its rows added, or a row replaced.

    ``runs`` is the plan whose SQL runs, where it is not ``plan``, whose claims are checked.
    """
    runs = runs or plan
    largest = 0.0
    keyed = plan.query.table.unit_key is not None
    for _ in range(tries):
        rows = [_row(rng, rng.choice([1, 2, 3, None])) for _ in range(rng.randint(0, 6))]
        own = [_row(rng, 9) for _ in range(rng.choice([1, 2, 3, 4, 9]) if keyed else 1)]
        if rng.random() < 0.5 and keyed:  # one row many times: max_rows bites
            own = own[:1] * len(own)
        salt = rng.randrange(2**64)
        before = rows if plan.neighbours is Neighbours.ADD_REMOVE else [*rows, _row(rng, 8)]
        largest = max(largest, 0, *worst(plan, _cells(runs, con, before, salt), _cells(runs, con, [*rows, *own], salt)))
    return largest


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_unit_with_all_its_rows(text: str, con: duckdb.DuckDBPyConnection) -> None:
    rng = random.Random(text)
    for max_rows, max_groups in ((1, 1), (3, 2)):
        table = clinic(max_rows=max_rows, max_groups=max_groups)
        assert search(con, plan_for(text, table), rng, 6) <= 1


@pytest.mark.parametrize("text", ROW_ONLY)
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_row(text: str, neighbours: Neighbours, con: duckdb.DuckDBPyConnection) -> None:
    rng = random.Random(text)
    assert search(con, plan_for(text, clinic(unit_key=None), neighbours=neighbours), rng, 10) <= 1


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("row_cap", [1, 1000, 10**6, 10**9])
@pytest.mark.parametrize("epsilon", ["0.000064", "0.01", "1", "50"])
def test_sums_and_their_noise_keep_62_bits(epsilon: str, row_cap: int, neighbours: Neighbours) -> None:
    """The grid leaves room for as many rows as there may be and for 100 scales of noise, so nothing is refused."""
    for unit_key in ("pid", None) if neighbours is Neighbours.ADD_REMOVE else (None,):
        table = clinic(row_cap=row_cap, unit_key=unit_key)
        for text in ("SELECT sum(cost), avg(age) FROM clinic", "SELECT sex, variance(income) FROM clinic GROUP BY sex"):
            plan = plan_for(text, table, epsilon=epsilon, neighbours=neighbours)
            for measure, noise in zip(plan.measures, plan.noises, strict=True):
                assert noise is not None
                assert row_cap * measure.largest + 100 * noise.scale < 2**62
                assert measure.largest >= 2**6  # steps of the largest value


def test_views_filter_before_bounding(con: duckdb.DuckDBPyConnection) -> None:
    table = clinic(filter="age > 40 OR score IS NULL", base=clinic().columns)
    rng = random.Random(3)
    for text in STATEMENTS[:6]:
        assert search(con, plan_for(text, table), rng, 5) <= 1


def test_a_views_rows_are_those_of_its_predicate(con: duckdb.DuckDBPyConnection) -> None:
    rng, predicate = random.Random(4), "age > 40 OR score IS NULL"
    rows = [_row(rng, rng.randint(1, 9)) for _ in range(60)]
    view = plan_for("SELECT count(*), sum(income) FROM clinic", clinic(filter=predicate, base=clinic().columns))
    all_rows = plan_for("SELECT count(*), sum(income) FROM clinic", clinic())
    asked = plan_for(f"SELECT count(*), sum(income) FROM clinic WHERE {predicate}", clinic())
    assert _cells(view, con, rows, 1) == _cells(asked, con, rows, 1) != _cells(all_rows, con, rows, 1)


def test_the_public_count_under_replace_is_a_constant(con: duckdb.DuckDBPyConnection) -> None:
    """A fixed total is not noised, so it must not depend on the rows' values."""
    rng = random.Random(5)
    rows = [_row(rng, 1) for _ in range(7)]
    for text in (
        "SELECT count(*) FROM clinic",
        "SELECT avg(income), count(*) FROM clinic",
        "SELECT var_pop(income) FROM clinic",
        "SELECT avg(exp(income) - exp(income)) FROM clinic",
        "SELECT avg(greatest(least(income / income, 1), 0)) FROM clinic",
        "SELECT avg(greatest(least(1 % income, 1), 0)) FROM clinic",
    ):
        plan = plan_for(text, clinic(unit_key=None), neighbours=Neighbours.REPLACE)
        if not plan.measures[0].fixed_total:
            continue
        for _ in range(20):
            rows[rng.randrange(7)] = _row(rng, 1)
            [cells] = _cells(plan, con, rows, 1).values()
            assert sum(cells[: plan.measures[0].cells]) == 7 * plan.measures[0].steps


def test_units_without_a_key_change_nothing(con: duckdb.DuckDBPyConnection) -> None:
    plan = plan_for("SELECT count(*), sum(income) FROM clinic", clinic())
    rng = random.Random(1)
    rows = [_row(rng, 1)]
    assert _cells(plan, con, rows, 1) == _cells(plan, con, [*rows, _row(rng, None)], 1)


# ---- broken twins: what runs is emitted from another plan than the one that makes the claim ------------------------


def _caught(con: duckdb.DuckDBPyConnection, claims: Plan, runs: Plan) -> bool:
    try:
        return search(con, claims, random.Random(2), 25, runs) > 1
    except AssertionError:
        return True


def _with_table(plan: Plan, **changed: Any) -> Plan:
    return replace(plan, query=replace(plan.query, table=replace(plan.query.table, **changed)))


@pytest.mark.parametrize("text", ["SELECT sum(income) FROM clinic", "SELECT sum(age - 50), sum(cost) FROM clinic"])
def test_twin_without_a_clamp(text: str, con: duckdb.DuckDBPyConnection) -> None:
    wide = tuple(
        replace(c, lower=c.lower * 9, upper=c.upper * 9) if isinstance(c.lower, (int, float)) else c for c in COLUMNS
    )
    plan, other = plan_for(text, clinic()), plan_for(text, clinic(columns=wide))
    measures = tuple(replace(w, bits=m.bits) for m, w in zip(plan.measures, other.measures, strict=True))
    assert not _caught(con, plan, plan)
    assert _caught(con, plan, replace(other, measures=measures))


@pytest.mark.parametrize("items", ["avg(income)", "count(*)", "sum(income)", "count(age), count(*)", "var_pop(cost)"])
def test_twin_that_lets_every_row_count(items: str, con: duckdb.DuckDBPyConnection) -> None:
    plan = plan_for(f"SELECT {items} FROM clinic", clinic())
    assert not _caught(con, plan, plan)
    assert _caught(con, plan, _with_table(plan, max_rows=1000))


@pytest.mark.parametrize(
    "text", ["SELECT name, count(*) FROM clinic GROUP BY name", "SELECT town, sum(1) FROM clinic GROUP BY town"]
)
def test_twin_with_more_groups(text: str, con: duckdb.DuckDBPyConnection) -> None:
    plan = plan_for(text, clinic())
    assert not _caught(con, plan, plan)
    assert _caught(con, plan, replace(plan, groups=plan.groups + 1))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM clinic",
        "SELECT avg(cost) FROM clinic",
        "SELECT sum(income) FROM clinic",
        "SELECT town, count(*) FROM clinic GROUP BY town",
    ],
)
def test_twin_with_a_halved_claim(text: str, con: duckdb.DuckDBPyConnection) -> None:
    def halved(m: Measure) -> Measure:
        s = m.sensitivity
        return replace(m, sensitivity=replace(s, l1=s.l1 // 2, l2_squared=s.l2_squared // 4))

    plan = plan_for(text, clinic(max_rows=4))
    assert _caught(con, replace(plan, measures=tuple(halved(m) for m in plan.measures)), plan)


def test_twin_that_trusts_a_public_count(con: duckdb.DuckDBPyConnection) -> None:
    """The claim of REPLACE with every row counting, for a statement whose WHERE chooses rows."""
    public = plan_for("SELECT avg(income) FROM clinic", clinic(unit_key=None), neighbours=Neighbours.REPLACE)
    chosen = plan_for(
        "SELECT avg(income) FROM clinic WHERE age > 40", clinic(unit_key=None), neighbours=Neighbours.REPLACE
    )
    assert public.measures[0].fixed_total
    assert not chosen.measures[0].fixed_total
    claimed = replace(chosen.measures[0], sensitivity=replace(public.measures[0].sensitivity))
    assert _caught(con, replace(chosen, measures=(claimed,)), chosen)
