"""core/nestedbins.py, core/cdfbars.py: least squares of nested counts, levels by formula, bands that hold together."""

from __future__ import annotations

import numpy as np
import pytest

from duckdp.core.cdfbars import distribution_band, isotonic
from duckdp.core.errorbars import Noise
from duckdp.core.nestedbins import best_sizes, blocks, estimate_matrix
from duckdp.core.noise import laplace_noise

RUNS = 60


def test_blocks_of_all_levels() -> None:
    assert blocks(5, (1, 2)).tolist() == [
        [1, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 0, 0, 1],
    ]


@pytest.mark.parametrize(("bins", "sizes"), [(1, (1,)), (7, (1, 3)), (100, (1, 5, 25))])
def test_exact_counts_are_given_back(bins: int, sizes: tuple[int, ...]) -> None:
    counts = np.arange(bins) ** 2 + 3.0
    assert estimate_matrix(bins, sizes) @ (blocks(bins, sizes) @ counts) == pytest.approx(counts)


def prefix_error(bins: int, sizes: tuple[int, ...]) -> float:
    """Mean square of the errors of all prefix sums, by drawn noise that the levels share."""
    draws = np.random.default_rng(1).laplace(size=(1000, len(blocks(bins, sizes)))) * len(sizes)
    return float(np.mean((draws @ np.cumsum(estimate_matrix(bins, sizes), axis=0).T) ** 2))


def test_grouping_sets_are_chosen_where_they_help() -> None:
    assert best_sizes(1) == best_sizes(10) == (1,)
    many = best_sizes(250)
    assert len(many) > 1
    assert prefix_error(250, many) < 0.8 * prefix_error(250, (1,))
    others = ((1,), (1, 10), (1, 2, 4, 8, 16, 32, 64))
    assert prefix_error(100, best_sizes(100)) <= 1.05 * min(prefix_error(100, s) for s in others)


def test_isotonic_is_the_nearest_that_never_falls() -> None:
    assert isotonic(np.array([1.0, 3.0, 2.0, 2.0, 5.0])) == pytest.approx([1, 7 / 3, 7 / 3, 7 / 3, 5])
    values = np.random.default_rng(2).normal(size=40)
    found = isotonic(values)
    assert (np.diff(found) >= 0).all()
    grid = np.sort(np.random.default_rng(3).normal(size=(4000, 40)), axis=1)
    assert ((grid - values) ** 2).sum(axis=1).min() >= ((found - values) ** 2).sum()


def held(rows: int, bins: int, sizes: tuple[int, ...], shrunk: float = 1.0) -> int:
    """How many of the bands hold the whole function, with drawn noise."""
    rng, noise, hits = np.random.default_rng([rows, bins]), Noise("laplace", 2.0**20 * len(sizes)), 0
    matrix = blocks(bins, sizes)
    for _ in range(RUNS):
        exact = rng.multinomial(rows, rng.dirichlet(np.full(bins, 0.3)))
        true = np.cumsum(exact) / rows
        noisy = matrix @ exact + np.array(laplace_noise(len(matrix), noise.scale)) / 2.0**20
        band = distribution_band(bins, sizes, Noise("laplace", shrunk * len(sizes)), counts=noisy)
        hits += bool(np.all((band.low <= true + 1e-9) & (true - 1e-9 <= band.high)))
        assert (np.diff(band.value) >= 0).all()
        assert ((band.low <= band.value) & (band.value <= band.high)).all()
        assert (band.value[-1], band.low[-1], band.high[-1]) == (1, 1, 1)
    return hits


@pytest.mark.parametrize("rows", [300, 20_000])
@pytest.mark.parametrize(("bins", "sizes"), [(8, (1,)), (60, (1, 8))])
def test_bands_hold_as_a_whole_and_those_of_half_the_noise_do_not(rows: int, bins: int, sizes: tuple[int, ...]) -> None:
    assert held(rows, bins, sizes) >= 43  # 57 or more expected; fewer than 43 of 60 once in 10^7
    assert held(rows, bins, sizes, shrunk=0.4) < 43


def test_without_rows_there_is_no_function() -> None:
    band = distribution_band(4, (1,), Noise("laplace", 1.0), counts=np.array([0.5, -1.0, 0.2, 0.0]))
    assert np.isnan(band.value).all()
    assert (band.low[:-1] == 0).all()
    assert (band.high == 1).all()
