"""Intervals of ratios: coverage at any number of rows, against the set itself, and twins that must be seen."""

from __future__ import annotations

import math

import numpy as np
import pytest

from duckdp.core import ratiobars
from duckdp.core.errorbars import Noise, linear_half_width
from duckdp.core.ratiobars import can_bound, ratio_interval

DRAWS = 40_000
SLACK = 0.0077  # 7 standard deviations of a share of DRAWS near 0.95: false alarm 3e-12 (and the draws are fixed)
SCALE = {"laplace": 2000.0, "gaussian": 2000.0}  # per row: steps of 1000, so epsilon 0.5


def _draw(family: str, terms: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    shape = (terms, DRAWS)
    return (
        generator.laplace(scale=2000, size=shape) if family == "laplace" else generator.normal(scale=2000, size=shape)
    )


def _average(family: str, rows: float, mean: float, twin: float = 1.0, narrow: bool = False) -> tuple[float, float]:
    """(share of intervals that hold the mean, share that is the whole range): two cells, range [0, 1]."""
    z = _draw(family, 2, 17) / 1000
    first, second = rows * mean + z[0], rows * (1 - mean) + z[1]
    g, h = np.array([0.001, 0.0]), np.array([0.001, 0.001])
    noises = [Noise(family, 2000.0 * twin)] * 2  # type: ignore[arg-type]
    if narrow:  # to first order around the released ratio
        share = first / (first + second)
        width = linear_half_width(np.stack([1 - share, -share]) / (first + second) / 1000, noises)
        return float(np.mean(np.abs(share - mean) <= width)), 0.0
    low, high = ratio_interval(first, first + second, g, h, noises, 0.0, 1.0)
    assert np.all((low >= 0) & (low <= high) & (high <= 1))
    return float(np.mean((low <= mean) & (mean <= high))), float(np.mean((low == 0) & (high == 1)))


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("mean", [0.02, 0.3, 0.5, 0.95])
def test_averages_of_few_rows_are_covered_and_not_more_than_they_should(family: str, mean: float) -> None:
    for rows in (3, 6, 12, 25, 50, 100, 300, 1000):
        share, whole = _average(family, rows, mean)
        assert 0.95 - SLACK <= share <= 0.9725 + SLACK, rows  # at the end of the range one side alone can miss: 97.5%
        assert whole < 0.001 or rows < 50, rows


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_twins_are_seen(family: str) -> None:
    for rows in (12, 25, 100):
        assert _average(family, rows, 0.5, twin=0.8)[0] < 0.95 - SLACK
        assert _average(family, rows, 0.5, twin=1.25)[0] > 0.9725 or rows < 25
    assert abs(_average(family, 12, 0.5, narrow=True)[0] - 0.95) > 2 * SLACK  # to first order


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("span", [(0.0, 1.0), (-3.0, 7.0), (-math.inf, math.inf), (0.0, math.inf)])
def test_ends_against_the_set_itself(family: str, span: tuple[float, float]) -> None:
    """The hull of {r: |a - r b| <= q(r)} on a fine grid, q by core/errorbars at each of its points."""
    generator = np.random.default_rng(18)
    noises = [Noise(family, 500.0), Noise(family, 900.0), Noise(family, 700.0)]  # type: ignore[arg-type]
    g, h = np.array([1.0, 0.5, 0.0]), np.array([0.7, 1.0, 1.0])
    a, b = generator.normal(scale=4e3, size=200), generator.normal(loc=4e3, scale=6e3, size=200)
    low, high = ratio_interval(a, b, g, h, noises, *span)
    first, last = (math.atan(end) for end in span)
    grid = np.tan(np.linspace(first, last, 20_001)[1:-1])
    q = linear_half_width(g[:, None] - np.outer(h, grid), noises)
    within = np.abs(a[:, None] - b[:, None] * grid) <= q
    for i in np.flatnonzero(within.any(axis=1)):
        held = grid[within[i]]
        if not span[0] <= a[i] / b[i] <= span[1]:  # then it may be wider
            assert low[i] <= held[0] * (1 + 1e-9)
            assert high[i] >= held[-1] * (1 - 1e-9)
            continue
        for end, found, public in ((low[i], held[0], grid[0]), (high[i], held[-1], grid[-1])):
            if found == public:
                assert end in span
            else:
                assert abs(math.atan(end) - math.atan(found)) < 3e-4
    assert within.any(axis=1).sum() > 50
    assert np.all(high > low)  # never empty, also where the set is


def test_a_clear_denominator_gives_the_first_order() -> None:
    noises = [Noise("laplace", 1e4)] * 2
    g, h = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    a, b = np.array([3e9]), np.array([1e10])
    low, high = ratio_interval(a, b, g, h, noises, -math.inf, math.inf)
    width = linear_half_width(np.array([[1e-10], [-0.3e-10]]), noises)
    assert low == pytest.approx(0.3 - width, abs=1e-3 * width[0])
    assert high == pytest.approx(0.3 + width, abs=1e-3 * width[0])


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [1.0, 3.0, 20.0])
def test_small_discrete_laws_are_covered(family: str, scale: float) -> None:
    """A share of two counts, whose noise has large steps."""
    generator, noise = np.random.default_rng(19), Noise(family, scale)  # type: ignore[arg-type]
    k = np.arange(-int(40 * scale), int(40 * scale) + 1)
    mass = np.exp(-np.abs(k) / scale) if family == "laplace" else np.exp(-(k**2) / (2 * scale**2))
    z = generator.choice(k, size=(2, DRAWS), p=mass / mass.sum())
    for rows in (10 * scale, 100 * scale):
        true = 0.4 * rows
        low, high = ratio_interval(
            round(true) + z[0].astype(float),
            round(rows) + z[1].astype(float),
            np.array([1.0, 0.0]),
            np.array([0.0, 1.0]),
            [noise] * 2,
            -math.inf,
            math.inf,
        )
        share = np.mean((low <= round(true) / round(rows)) & (round(true) / round(rows) <= high))
        assert 0.95 - SLACK <= share <= 0.995


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.5, 0.7, 0.99, 1.3, 2.2, 5.0])
def test_the_least_discrete_laws_are_covered_by_the_law_itself(family: str, scale: float) -> None:
    """Over every pair of draws, where the noise of a - r b has steps as large as the counts' own: r of 0, 1, -1, 2."""
    k = np.arange(-int(40 * scale), int(40 * scale) + 1)
    mass = np.exp(-np.abs(k) / scale) if family == "laplace" else np.exp(-(k**2) / (2 * scale**2))
    k, mass = k[mass > 1e-7 * mass.sum()].astype(float), mass[mass > 1e-7 * mass.sum()] / mass.sum()
    z, chance = np.stack(np.meshgrid(k, k)).reshape(2, -1), np.outer(mass, mass).ravel()
    for ratio in (0, 1, -1, 2):
        low, high = ratio_interval(
            ratio * 10**6 + z[0],
            10**6 + z[1],
            np.array([1.0, 0.0]),
            np.array([0.0, 1.0]),
            [Noise(family, scale)] * 2,
            -math.inf,
            math.inf,  # type: ignore[arg-type]
        )
        assert chance[(low <= ratio) & (ratio <= high)].sum() >= 0.95, ratio


def test_what_has_no_closed_form_is_left() -> None:
    assert can_bound([Noise("gaussian", 3.0)] * 5, [True] * 5)
    assert can_bound([Noise("laplace", 3.0)] * 5, [True, False, True, True, False])
    assert not can_bound([Noise("laplace", 3.0)] * 5, [True] * 5)


@pytest.mark.parametrize("scale", [0.3, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.98, 0.999])
def test_the_width_of_one_small_noise_is_no_less_than_its_law_says(scale: float, level: float) -> None:
    """A discrete law steps over the quantile of the continuous one: P(|Z| > k) = 2 q^(k+1) / (1 + q), q = e^(-1/b)."""
    q, exact = math.exp(-1 / scale), 0
    while 2 * q ** (exact + 1) / (1 + q) > 1 - level:
        exact += 1
    _, widths = ratiobars._table((1.0,), (0.0,), (Noise("laplace", scale),), 0.0, 0.1, level)
    assert exact <= widths[0] <= exact + 2


@pytest.mark.parametrize("up", [-1000, -540, 0, 540, 990])
@pytest.mark.parametrize("down", [-1000, -540, 0, 540, 990])
def test_forms_of_any_size_have_an_interval(up: int, down: int) -> None:
    """A quotient of sums that were multiplied by 1e300, or 1e-300: norms of the forms are no DOUBLE."""
    noises, g, h = [Noise("laplace", 900.0)] * 2, np.array([0.25, -1.5]), np.array([0.75, 1.0])
    above, below = np.array([100.0, -3e5, 12.0, 0.0]), np.array([1e6, 40.0, -1e7, 1e5])
    plain = ratio_interval(above, below, g, h, noises, -math.inf, math.inf)
    sized = ratio_interval(
        np.ldexp(above, up), np.ldexp(below, down), np.ldexp(g, up), np.ldexp(h, down), noises, -math.inf, math.inf
    )
    with np.errstate(over="ignore", under="ignore"):
        for found, wanted in zip(sized, plain, strict=True):
            assert np.array_equal(found, np.ldexp(wanted, up - down))
