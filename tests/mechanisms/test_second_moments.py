"""mechanisms/second_moments.py: what rows add, by brute force; moments, and the law of their noise; choice."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import duckdb
import numpy as np
import pytest
from scipy import stats

from duckdp.compiler.moment_rows import _factor, _grid
from duckdp.compiler.pair_statistics import Pairs, all_pairs, one_pair, target_pairs
from duckdp.core.interval import Interval
from duckdp.core.types import ATTO, NANO
from duckdp.errors import ParameterError
from duckdp.mechanisms.second_moments import Reach, SecondMoments, plan_second_moments, possible_ways
from tests.gate import shared
from tests.privacy.statistics import fits

ROW, REPLACED = Reach(rows=1, groups=1, replaced=False), Reach(rows=1, groups=1, replaced=True)
DRAWS = 4_000
ASKED = {
    "one of two": one_pair(),
    "all of two": all_pairs([False, False]),
    "all of two, one binary": all_pairs([True, False]),
    "on one": target_pairs([False, False]),
    "on two": target_pairs([False, True, False]),
    "all of three": all_pairs([False, False, False]),
}


def ways(pairs: Pairs, reach: Reach, delta: bool = False) -> list[SecondMoments]:
    """Both shapes of a release, whichever is chosen."""
    given = {"reach": reach, "epsilon_nano": NANO, "delta_atto": ATTO // 10**5 if delta else 0}
    found = [w for w in possible_ways(pairs.wanted, **given) if (w.family == "gaussian") == delta]
    assert [way.shape for way in found] == ["cells", "products"]
    return found


def _plan(pairs: Pairs, reach: Reach, delta: bool = False, epsilon: int = 1) -> SecondMoments:
    return plan_second_moments(
        pairs.wanted, reach=reach, epsilon_nano=epsilon * NANO, delta_atto=ATTO // 10**5 if delta else 0
    )


def rows_of(way: SecondMoments, pairs: Pairs, places: int = 5) -> np.ndarray:
    """The integers that one row adds, of rows at all combinations of places in [-1, 1], as DuckDB computes them."""
    grid = [i / (places - 1) for i in range(places)]
    values = list(product(*([0.0, 1.0] if binary else grid for binary in pairs.binary)))
    names = ", ".join(f"x{i}" for i in range(pairs.count))
    listed = ", ".join(f"({', '.join(map(repr, row))})" for row in values)
    factors = ", ".join(_factor(way, i, f"x{i}", Interval(0.0, 1.0)) for i in range(pairs.count))
    cells = ", ".join(_grid(way, j) for j in range(len(way.released)))
    with shared() as con:
        sql = f"SELECT {cells} FROM (SELECT {factors} FROM (VALUES {listed}) AS t({names}))"
        return np.array(con.execute(sql).fetchall(), dtype=np.float64)


def loss(way: SecondMoments, first: np.ndarray, second: np.ndarray) -> float:
    """The largest loss over all pairs of rows: epsilon, or rho of Gaussian noise."""
    moved = np.abs(first[:, None, :] - second[None, :, :])
    if way.noise is None:
        return float(moved.max() * float(way.rate))
    if way.noise.family == "laplace":
        return float(moved.sum(axis=2).max() / way.noise.scale)
    return float((moved**2).sum(axis=2).max() / 2 / way.noise.scale**2)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("delta", [False, True], ids=["pure", "gaussian"])
def test_no_pair_of_rows_loses_more_than_is_charged(name: str, delta: bool) -> None:
    pairs = ASKED[name]
    for way in ways(pairs, ROW, delta):
        rows = rows_of(way, pairs)
        charged = float(way.loss.rho if delta else way.loss.epsilon)
        assert 0.99 * charged < loss(way, rows, np.zeros_like(rows[:1])) <= charged * (1 + 1e-9)
        assert loss(way, rows, rows) > 1.2 * charged  # the twin: noise for a row that comes, where one is replaced
    for way in ways(pairs, REPLACED, delta):
        rows = np.vstack([rows_of(way, pairs), np.zeros((1, len(way.released)))])
        charged = float(way.loss.rho if delta else way.loss.epsilon)
        assert 0.4 * charged < loss(way, rows, rows) <= charged * (1 + 1e-9)


def test_a_twin_with_the_noise_of_another_shape_is_caught() -> None:
    pairs = ASKED["all of two"]
    cells, products = ways(pairs, ROW, delta=True)
    twin = replace(products, noise=cells.noise)
    assert loss(twin, rows_of(products, pairs), np.zeros((1, 6))) > 2 * float(cells.loss.rho)


def test_places_outside_and_nan_stay_within() -> None:
    odd = (-1e300, 1e300, math.inf, -math.inf, math.nan, -0.0, 5e-324)
    for way in ways(one_pair(), ROW):
        with duckdb.connect() as con:
            factors = ", ".join(_factor(way, i, f"x{i}", Interval(-2.0, 3.0)) for i in range(2))
            cells = ", ".join(_grid(way, j) for j in range(4))
            listed = ", ".join(f"('{a}'::DOUBLE, '{b}'::DOUBLE)" for a in odd for b in odd)
            sql = f"SELECT {cells} FROM (SELECT {factors} FROM (VALUES {listed}) AS t(x0, x1))"
            found = con.execute(sql).fetchall()
        most = 2**way.bits
        assert all(abs(cell) <= most for row in found for cell in row)
        assert way.shape == "products" or all(min(row) >= 0 and sum(row) <= most + 4 for row in found)


@pytest.mark.parametrize("name", ASKED)
def test_moments_of_a_row_are_its_products(name: str) -> None:
    pairs = ASKED[name]
    places = [
        2 * np.array(p) - 1 for p in product(*([0.0, 1.0] if b else [i / 4 for i in range(5)] for b in pairs.binary))
    ]
    for way in ways(pairs, ROW):
        found = way.moments(rows_of(way, pairs).astype(int).tolist())
        expected = [[math.prod(v**p) for p in np.array(pairs.wanted)] for v in places]
        assert found == pytest.approx(np.array(expected), abs=len(way.released) * 2.0**-way.bits)


def test_units_and_groups_share_the_charge() -> None:
    for rows, groups in ((1, 1), (3, 1), (1, 4), (5, 7)):
        reach = Reach(rows=rows, groups=groups, replaced=False)
        for way in ways(one_pair(), reach):
            step = 2**way.bits
            exact = Fraction(way.noise.scale) if way.noise else 1 / way.rate
            own = rows * groups * (step + (4 if way.shape == "cells" else 0))
            assert exact >= own
            assert float(exact / own) == pytest.approx(1, abs=1e-9)
        for way in ways(one_pair(), reach, delta=True):
            assert way.noise is not None
            size = (2**way.bits + 4) ** 2 if way.shape == "cells" else 4 * 4**way.bits
            rho = Fraction(groups * rows**2 * size) / (2 * Fraction(way.noise.scale) ** 2)
            assert float(way.loss.rho) * (1 - 1e-9) < rho <= way.loss.rho


# ---- the law of the noise


def noises(way: SecondMoments, draws: int) -> np.ndarray:
    zeros = [0] * len(way.released)
    return way.moments([way.release(zeros) for _ in range(draws)])


@pytest.mark.parametrize("delta", [False, True], ids=["pure", "gaussian"])
def test_drawn_noise_follows_the_public_law_and_twins_do_not(delta: bool) -> None:
    for way in ways(ASKED["all of two"], ROW, delta):
        drawn, law = noises(way, 600 if delta else 2 * DRAWS), way.draws()
        assert law.std(axis=0) == pytest.approx(way.deviations, rel=0.05)

        def held(scale: float) -> bool:
            sides = [(drawn[:, place] * scale, law[:, place]) for place in range(len(way.wanted))]  # noqa: B023
            return all(fits(float(stats.ks_2samp(one, other).pvalue)) for one, other in sides)

        assert held(1.0)
        assert delta or not held(0.8)
        assert delta or not held(1.25)


def test_the_choice_is_by_formula() -> None:
    assert _plan(one_pair(), ROW).shape == "cells"
    assert _plan(one_pair(), ROW).deviations == pytest.approx([math.sqrt(8)] * 4, rel=1e-6)
    many = all_pairs([False] * 8)
    assert (_plan(many, ROW).shape, _plan(many, ROW).family) == ("products", "cube")
    assert _plan(many, ROW).deviations == pytest.approx([math.sqrt(46 * 47 / 3)] * 45, rel=1e-6)
    assert _plan(all_pairs([False] * 20), ROW, delta=True).family == "gaussian"
    assert _plan(all_pairs([False] * 20), ROW, delta=True).loss.delta_atto > 0
    assert _plan(one_pair(), ROW, delta=True).loss.delta_atto == 0  # what is not needed is not charged


def test_too_small_an_epsilon_for_its_units_is_refused() -> None:
    reach = Reach(rows=2**30, groups=1000, replaced=False)
    with pytest.raises(ParameterError, match="P101"):
        plan_second_moments(one_pair().wanted, reach=reach, epsilon_nano=1000, delta_atto=0)
