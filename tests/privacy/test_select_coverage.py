"""Measured coverage and noise of SELECT, through SelectTask.release, on fixed exact rows.

One release over a large public domain draws the noise of tens of thousands of equal groups at once.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache

import numpy as np
import pytest

from duckdp.compiler.evaluate import evaluate
from duckdp.compiler.plan import Plan
from duckdp.compiler.release import SelectTask
from duckdp.core.errorbars import _coverage as coverage
from duckdp.core.types import Neighbours
from tests.gate import clinic, column, crossing, exact_payload, plan_for
from tests.privacy.statistics import chi_square_p, fits

GROUPS = 40_000  # sd of a measured coverage: 0.11%
TOLERANCE = 0.007
COLUMNS = (
    column("g", "INTEGER", domain=tuple(range(GROUPS))),
    column("x", "DOUBLE", lower=-2.0, upper=8.0, null_value=0.0, nullable=False),
    column("y", "DOUBLE", lower=0.0, upper=1.0),
)


@lru_cache(maxsize=8)
def _plan(items: str, epsilon: str, unit_key: str | None = None, mechanism: str = "laplace") -> Plan:
    table = clinic(columns=COLUMNS, unit_key=unit_key, row_cap=10**8)
    return plan_for(f"SELECT {items} FROM clinic GROUP BY g", table, epsilon=epsilon, mechanism=mechanism)


def _rows(plan: Plan, rows: int) -> list[tuple[int, ...]]:
    """Equal groups of ``rows`` rows, spread unevenly over the cells."""
    cells: list[int] = []
    for measure in plan.measures:
        steps = int(measure.steps)
        if measure.kind != "cells":
            cells.append(int(rows * measure.steps * (measure.upper if measure.kind == "sum" else 1) * 0.7))
            continue
        shares = [0.35, 0.4][: measure.degree]
        parts = [int(rows * s * steps) for s in shares]
        cells += [*parts, rows * steps - sum(parts)] + [7 * steps] * measure.null_cell
    return [(g, *cells) for g in range(GROUPS)]


def _measured(items: str, epsilon: str, rows: int, **options: str) -> list[tuple[float, float, np.ndarray]]:
    """(share of intervals that hold the exact value, mean half-width, errors) of each output."""
    plan = _plan(items, epsilon, **options)
    exact = _rows(plan, rows)
    truth = evaluate(plan, exact_payload(plan, exact[:1]))
    found = []
    for true, column_ in zip(truth, evaluate(plan, SelectTask(plan=plan).release(crossing(plan, exact))), strict=True):
        assert column_.half_width is not None
        assert column_.centre is not None
        assert true.centre is not None
        assert column_.low is not None
        assert column_.high is not None
        exact_, slack = true.centre[0], 1e-12 * column_.half_width
        error, defined = column_.centre - exact_, np.isfinite(column_.low)
        found.append(
            (
                float(np.mean(((column_.low - slack <= exact_) & (exact_ <= column_.high + slack))[defined])),
                float(np.mean(column_.half_width)),
                error,
            )
        )
    return found


@pytest.mark.parametrize("unit_key", [None, "pid"])
@pytest.mark.parametrize("epsilon", ["0.05", "0.3", "1", "2.5"])
def test_intervals_of_counts_are_exact(epsilon: str, unit_key: str | None) -> None:
    [(share, width, _)] = _measured("count(*)", epsilon, 1000, unit_key=unit_key)  # type: ignore[arg-type]
    noise = _plan("count(*)", epsilon, unit_key=unit_key).noises[0]
    assert noise is not None
    exact = float(coverage(noise, round(width)))
    assert exact >= 0.95 > coverage(noise, round(width) - 1)
    assert abs(share - exact) <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    "items",
    [
        "sum(x)",
        "count(x), avg(x)",
        "sum(y), count(*)",
        "avg(y), count(*)",
        "var_samp(x), stddev_pop(y)",
        "sum(x) / count(*), avg(x) - avg(y)",
    ],
)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_intervals_of_sums_averages_and_variances(items: str, mechanism: str) -> None:
    for name, (share, _, _) in zip(
        items.split(", "), _measured(items, "0.5", 20_000, mechanism=mechanism), strict=True
    ):
        low, high = 0.95 - TOLERANCE, 0.95 + TOLERANCE + (0.01 if name.startswith("count") else 0)  # counts are whole
        assert low <= share <= high, name


def test_averages_just_above_ten_deviations_of_their_count() -> None:
    plan = _plan("avg(x), count(*)", "1")
    noise = plan.noises[0]
    assert noise is not None
    rows = math.ceil(10.5 * math.sqrt(plan.measures[0].noisy_cells * noise.variance()) / plan.measures[0].steps)
    share = _measured("avg(x), count(*)", "1", rows)[0][0]
    assert 0.95 - TOLERANCE <= share <= 0.95 + TOLERANCE  # Fieller: 95% however few rows


def test_averages_over_a_public_number_of_rows() -> None:
    """REPLACE: the last cell is that number less the others, and so is its noise. 600 releases: 7 sd are 6.2%."""
    table = clinic(columns=COLUMNS, unit_key=None, row_cap=10**6)
    plan = plan_for("SELECT avg(x), sum(x), avg(y) FROM clinic", table, epsilon=1, neighbours=Neighbours.REPLACE)
    exact = _rows(plan, 1000)[0][1:]
    truth = [c.centre[0] for c in evaluate(plan, exact_payload(plan, [exact]))]  # type: ignore[index]
    held = np.zeros(3)
    for _ in range(600):
        found = evaluate(plan, SelectTask(plan=plan).release(crossing(plan, [exact])))
        held += [c.low[0] <= t <= c.high[0] for c, t in zip(found, truth, strict=True)]  # type: ignore[index]
    assert np.all(np.abs(held / 600 - 0.95) < 0.065)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("rows", [3, 6, 12, 25, 50, 100, 1000])
def test_averages_of_few_rows(mechanism: str, rows: int) -> None:
    """Of those that are defined: their noisy count is positive."""
    for items in ("avg(x)", "avg(y), count(*)"):
        [(share, _, _), *_] = _measured(items, "0.5", rows, mechanism=mechanism)
        assert 0.95 - TOLERANCE <= share <= 0.9825, items  # about 0.9485 to 0.97 is seen; six deviations on either side


def test_a_twin_with_narrow_intervals_is_noticed() -> None:
    plan = _plan("sum(x)", "0.5")
    for factor in (0.9, 1.1):
        [true] = evaluate(plan, exact_payload(plan, _rows(plan, 100)[:1]))
        [found] = evaluate(plan, SelectTask(plan=plan).release(crossing(plan, _rows(plan, 100))))
        assert found.centre is not None
        assert found.half_width is not None
        assert true.centre is not None
        share = float(np.mean(np.abs(found.centre - true.centre[0]) <= factor * found.half_width))
        assert abs(share - 0.95) > TOLERANCE


def test_count_of_rows_is_as_good_as_the_best_discrete_laplace() -> None:
    [(_, _, error)] = _measured("count(*)", "1", 500)
    assert abs(float(np.std(error)) - 1.36) <= 0.05 * 1.36


def _laplace(scale: float) -> object:
    p = math.exp(-1 / scale)
    return lambda k: 1 - p ** (k + 1) / (1 + p) if k >= 0 else p**-k / (1 + p)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("items", "epsilon", "unit_key", "l1"),
    [
        ("count(*)", 0.5, None, 1),
        ("count(*)", 0.5, "pid", 6),
        ("count(DISTINCT pid)", 0.25, "pid", 2),
        ("avg(x), count(*)", 0.5, None, 1),
        ("sum(x)", 0.5, "pid", 48),
        ("var_pop(x), count(*)", 2.0, "pid", 6),
    ],
)
def test_noise_has_the_claimed_law(items: str, epsilon: float, unit_key: str | None, l1: int) -> None:
    """l1 is written out here: max_rows 3, max_groups 2, largest |x| 8. The scale must be l1 / epsilon steps."""
    plan = _plan(items, str(epsilon), unit_key=unit_key)
    exact = _rows(plan, 300)
    released = json.loads(SelectTask(plan=plan).release(crossing(plan, exact)))["cells"]
    steps = plan.measures[0].steps
    for j in range(plan.cells):
        sample = [group[j] - exact[0][1 + j] for group in released]
        scale = l1 * steps / epsilon
        unit = max(1, int(scale / 50))  # coarse enough for the cells of a chi-square test
        for factor, wanted in ((1.0, True), (0.8, False), (1.25, False)):
            law = _laplace(scale * factor)
            p = chi_square_p([k // unit for k in sample], lambda k: law(k * unit + unit - 1))  # type: ignore[operator]  # noqa: B023
            assert fits(p) is wanted, (j, factor, p)


def test_a_fixed_total_gets_no_noise_and_the_rest_does() -> None:
    table = clinic(columns=COLUMNS, unit_key=None)
    plan = plan_for("SELECT avg(x), count(*) FROM clinic", table, neighbours=Neighbours.REPLACE)
    steps = 2**40
    rows = crossing(plan, [(10, 3 * steps, 7 * steps)])
    cells = {tuple(json.loads(SelectTask(plan=plan).release(rows))["cells"][0]) for _ in range(20)}
    assert {(count, one + other) for count, one, other in cells} == {(10, 10 * steps)}
    assert len(cells) == 20
