"""mechanisms/noisy_tables.py: what neighbours change, by all small tables; shares; the law; half-widths."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from duckdp.core.nested_tables import NestedTables
from duckdp.core.types import Neighbours
from duckdp.errors import InternalError
from duckdp.mechanisms.noisy_tables import BITS, TableNoise, change, divide, plan_gaussian, plan_laplace
from tests.privacy.statistics import fits

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
NESTED = NestedTables(sizes=((1, 2, 4), (1, 3)), tables=((1, 0), (2, 0), (0, 1), (1, 1)))
SHARES = divide([1, 2, 3, 4])


def cells(rows: list[tuple[int, int]], weights: list[int]) -> list[np.ndarray]:
    """Exact tables of rows (finest cells), in units of 2^-20."""
    found = [np.zeros(NESTED.shape(t), dtype=object) for t in NESTED.tables]
    for row, weight in zip(rows, weights, strict=True):
        for table, t in zip(found, NESTED.tables, strict=True):
            at = [x // (own[-1] // own[k]) for x, own, k in zip(row, NESTED.sizes, t, strict=True)]
            table[tuple(at)] += weight
    return found


def moved(first: list[np.ndarray], second: list[np.ndarray]) -> tuple[int, int]:
    """Largest l1 and squared l2 of one table's change."""
    gaps = [np.abs(a - b) for a, b in zip(first, second, strict=True)]
    return max(int(g.sum()) for g in gaps), max(int((g * g).sum()) for g in gaps)


@pytest.mark.parametrize("most", [1, 2])
def test_no_unit_changes_a_table_by_more_than_is_said(most: int) -> None:
    """All units of up to three rows on all finest cells, beside rows of others; attained."""
    places = list(itertools.product(range(4), range(3)))
    others, worst = cells(places[:2], [1 << BITS] * 2), (0, 0)
    for count in (1, 2, 3):
        weight = (1 << BITS) if count <= most else (most << BITS) // count
        for unit in itertools.combinations_with_replacement(places, count):
            with_unit = cells([*places[:2], *unit], [1 << BITS] * 2 + [weight] * count)
            worst = tuple(map(max, worst, moved(others, with_unit)))  # type: ignore[assignment]
    one = change(most, ADD_REMOVE)
    assert worst == (one.l1, one.l2_squared)
    # the broken twin lets every row of a unit count whole
    loose = cells([*places[:2], *places[:1] * 3], [1 << BITS] * 5)
    assert moved(others, loose)[0] > one.l1


def test_no_replaced_row_changes_a_table_by_more_than_is_said() -> None:
    places, worst = list(itertools.product(range(4), range(3))), (0, 0)
    for before, after in itertools.product([None, *places], repeat=2):
        first, second = (cells([] if p is None else [p], [1 << BITS] * (p is not None)) for p in (before, after))
        worst = tuple(map(max, worst, moved(first, second)))  # type: ignore[assignment]
    one = change(1, REPLACE)
    assert worst == (one.l1, one.l2_squared)
    assert worst[0] > change(1, ADD_REMOVE).l1  # the broken twin: a row that is replaced leaves no cell
    with pytest.raises(InternalError):
        change(2, REPLACE)


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(7)])
def test_scales_spend_no_more_than_the_charge(epsilon: Fraction, neighbours: Neighbours) -> None:
    one = change(1, neighbours)
    laplace = plan_laplace(NESTED, SHARES, one, epsilon)
    spent = sum(one.l1 / Fraction(scale) for scale in laplace.scales)
    assert epsilon * Fraction(999, 1000) < spent <= epsilon
    gaussian = plan_gaussian(NESTED, SHARES, one, epsilon)
    rho = sum(one.l2_squared / (2 * Fraction(scale) ** 2) for scale in gaussian.scales)
    assert epsilon * Fraction(999, 1000) < rho <= epsilon
    with pytest.raises(InternalError):
        plan_laplace(NESTED, (*SHARES[:-1], Fraction(1)), one, epsilon)


@pytest.mark.parametrize("ideal", [[1], [1, 1, 1], [1e-12, 1.0], [0.3, 0.3, 0.4], [1e9] * 7])
def test_shares_add_up_to_at_most_one(ideal: list[float]) -> None:
    shares = divide(ideal)
    assert 1 - Fraction(len(ideal) + 1, 10**5) < sum(shares) <= 1 and min(shares) > 0
    assert [float(s) for s in shares] == pytest.approx([p / sum(ideal) for p in ideal], abs=1e-4)


def _draws(law: TableNoise, times: int) -> np.ndarray:
    return np.array([law.draw() for _ in range(times)], dtype=float)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_draws_follow_the_laws_of_their_tables(family: str) -> None:
    one = change(1, ADD_REMOVE)
    plan = plan_laplace if family == "laplace" else plan_gaussian
    law = plan(NESTED, SHARES, one, Fraction(1))
    drawn = _draws(law, 900)
    assert len(drawn[0]) == NESTED.cells == 2 + 4 + 3 + 6

    def p_value(twin: float) -> float:
        each = np.repeat(law.scales, np.diff(NESTED.starts)) * twin
        cdf = stats.laplace.cdf if family == "laplace" else stats.norm.cdf
        return float(stats.kstest((drawn / each).ravel(), cdf).pvalue)

    assert fits(p_value(1.0))
    assert not fits(p_value(0.8)) and not fits(p_value(1.25))  # the broken twins


def test_half_widths_are_quantiles() -> None:
    """Of sums of Laplace and Gaussian terms; a part of 2^-16 of the largest coefficient is rounded up."""
    one, rng = change(1, ADD_REMOVE), np.random.default_rng(2)
    coefficients = rng.uniform(-1, 1, NESTED.cells)
    for plan, draw in ((plan_laplace, rng.laplace), (plan_gaussian, rng.normal)):
        law = plan(NESTED, SHARES, one, Fraction(1))
        scales = np.repeat(law.scales, np.diff(NESTED.starts)) / (1 << BITS)
        sums = np.abs((draw(size=(200_000, NESTED.cells)) * scales) @ coefficients)
        inside = float(np.mean(sums <= law.half_width(coefficients, 0.95)))
        assert abs(inside - 0.95) < 6 * math.sqrt(0.95 * 0.05 / len(sums)) + 1e-4
        assert float(np.sqrt(np.mean(sums**2))) == pytest.approx(law.standard_error(coefficients), rel=0.02)
    assert law.half_width(np.zeros(NESTED.cells), 0.95) == 0
