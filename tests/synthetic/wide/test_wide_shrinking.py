"""Noisy counts of ordered bins are pulled to public laws before they are cut at 0: means, far bins, what stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from duckdp.synthetic.tree.make.estimates import MOST_BINS, Mean, nearest_shares
from duckdp.synthetic.tree.make.shrinking import _ENOUGH, _laws, _weigh, shrink_shares
from duckdp.synthetic.unit.features import Floats

Estimate = Callable[[Floats, float, float, Mean], Floats]
_ROWS, _BINS = 4000.0, 20
_VALUES = (np.arange(_BINS) + 0.5) / _BINS
_STEEP = 0.4 ** np.arange(_BINS) / np.sum(0.4 ** np.arange(_BINS))


def _gaps(estimate: Estimate, truth: Floats, noise: float, turns: int = 60) -> tuple[float, float, float]:
    """Average error of the mean, in deviations; rows in the far half beyond those there are; total variation."""
    rng, found = np.random.default_rng(7), []
    spread = float(truth @ _VALUES**2 - (truth @ _VALUES) ** 2) ** 0.5
    for _ in range(turns):
        counts = _ROWS * truth + rng.laplace(0, noise / 2**0.5, _BINS)
        shares = estimate(counts, noise, _ROWS, None)
        assert shares.sum() == pytest.approx(1)
        assert shares.min() >= 0
        far = float((shares - truth)[_BINS // 2 :].sum())
        found.append((abs(float((shares - truth) @ _VALUES)) / spread, far, float(np.abs(shares - truth).sum()) / 2))
    mean, far, variation = np.mean(found, axis=0)
    return float(mean), float(far), float(variation)


@pytest.mark.parametrize("noise", [20.0, 60.0])
def test_far_bins_of_a_skewed_column_stay_rare(noise: float) -> None:
    """The twin, counts that are cut at 0 as they are, leaves rows there and moves the mean."""
    mean, far, variation = _gaps(shrink_shares, _STEEP, noise)
    cut_mean, cut_far, cut_variation = _gaps(nearest_shares, _STEEP, noise)
    assert mean < 0.65 * cut_mean  # .39 to .5, by the prior's draws
    assert far < 0.45 * cut_far
    assert variation < 0.85 * cut_variation


def test_what_no_law_foresees_stays() -> None:
    """Two far piles and a gap: the counts stand out of their noise. The twin is the reference by itself."""
    truth = np.zeros(_BINS)
    truth[[2, 11, 12, 17]] = 0.4, 0.2, 0.1, 0.3
    assert _gaps(shrink_shares, truth, 30.0)[2] < 1.3 * _gaps(nearest_shares, truth, 30.0)[2]

    def reference(counts: Floats, deviation: float, rows: float, _: Mean) -> Floats:
        laws, _ = _laws(_BINS)
        fit = ((counts / rows - laws) ** 2).sum(axis=1) * (rows / deviation) ** 2 / -2
        return np.asarray(_weigh(fit) @ laws)

    assert _gaps(reference, truth, 30.0, turns=5)[2] > 2 * _gaps(nearest_shares, truth, 30.0, turns=5)[2]


def test_nulls_are_no_bin_of_a_law() -> None:
    """Half of the rows have none; the twin takes their bin for the far end of the values."""
    rng, gaps = np.random.default_rng(9), []
    truth = np.append(_STEEP[:-1] / _STEEP[:-1].sum() / 2, 0.5)
    for _ in range(40):
        counts = _ROWS * truth + rng.laplace(0, 40, _BINS)
        gaps.append([np.abs(shrink_shares(counts, 57.0, _ROWS, null=told) - truth).sum() for told in (True, False)])
    told, untold = np.mean(gaps, axis=0)
    assert told < 0.8 * untold


def test_counts_without_noise_are_their_shares() -> None:
    for truth in (_STEEP, np.full(_BINS, 1 / _BINS), np.eye(_BINS)[13]):
        assert shrink_shares(_ROWS * truth, 1e-3, _ROWS) == pytest.approx(truth, abs=1e-6)


def test_a_known_mean_is_met() -> None:
    rng = np.random.default_rng(1)
    counts, wanted = _ROWS * _STEEP + rng.laplace(0, 60, _BINS), float(_STEEP @ _VALUES) + 0.05
    known = shrink_shares(counts, 85.0, _ROWS, (_VALUES, wanted, 1e-5))
    assert float(known @ _VALUES) == pytest.approx(wanted, abs=1e-4)
    assert abs(float(shrink_shares(counts, 85.0, _ROWS) @ _VALUES) - wanted) > 0.02


@pytest.mark.parametrize("size", [1, 2, _BINS, MOST_BINS + 1])
@pytest.mark.parametrize("scale", [0.0, 1e-3, 1e6, 1e12])
def test_whatever_noise_made_of_the_counts_they_become_shares(size: int, scale: float) -> None:
    counts = np.random.default_rng(size).normal(0, 1, size) * scale
    shares = shrink_shares(counts, max(scale, 1e-9), 1.0, (np.linspace(-1, 1, size), 0.3, 0.1))
    assert np.isfinite(shares).all()
    assert shares.sum() == pytest.approx(1)
    assert shares.min() >= 0


def test_laws_are_shares_and_enough_of_them_count() -> None:
    laws, _ = _laws(_BINS)
    assert laws.min() >= 0
    assert laws.sum(axis=1) == pytest.approx(1)
    weights = _weigh(-1e9 * np.arange(1000.0))  # one stands out of all others
    assert weights.sum() == pytest.approx(1)
    assert 1 / float(weights @ weights) >= _ENOUGH
    flat = _weigh(np.zeros(1000))
    assert 1 / float(flat @ flat) == pytest.approx(1000)
