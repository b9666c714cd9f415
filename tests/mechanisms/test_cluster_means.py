"""Noisy counts and sums of clusters: what neighbours cost by brute force, draws, intervals; weighted k-means."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from duckdp.mechanisms import cluster_means as module
from duckdp.mechanisms.cluster_means import ClusterMeans
from duckdp.mechanisms.weighted_kmeans import squared_distances, weighted_kmeans
from tests.privacy.statistics import fits, ks_p

Row = tuple[int, ...]  # (cluster, v...)


def exact(rows: list[Row], clusters: int, side: int, size: int) -> np.ndarray:
    found = np.zeros((clusters, 1 + size), dtype=int)
    for cluster, *values in rows:
        found[cluster] += (side, *values)
    return found


def moved(come: int, go: int, *, side: int = 2, size: int = 2, clusters: int = 2) -> int:
    """The most that the sum of |.|_inf over clusters changes by, where so many rows come and so many go."""
    rows = [(c, *v) for c in range(clusters) for v in product((-side, 0, side), repeat=size)]
    worst = 0
    for unit in product(rows, repeat=come + go):
        change = exact(list(unit[:come]), clusters, side, size) - exact(list(unit[come:]), clusters, side, size)
        worst = max(worst, int(np.abs(change).max(axis=1).sum()))
    return worst


@pytest.mark.parametrize(("come", "go"), [(1, 0), (2, 0), (1, 1)])
def test_what_a_unit_changes_is_what_is_noised(come: int, go: int) -> None:
    means = ClusterMeans(epsilon=Fraction(1, 2), rows=come + go, size=2, side=2)
    assert moved(come, go) * means.rate == Fraction(1, 2)
    if come + go > 1:  # the twin that takes a unit for one row
        assert moved(come, go) * ClusterMeans(epsilon=Fraction(1, 2), rows=1, size=2, side=2).rate > Fraction(1, 2)


def test_what_is_noised_is_side_times_the_rows_and_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cube_noise", lambda count, _: [0] * count)
    means = ClusterMeans(epsilon=Fraction(1), rows=1, size=2, side=8)
    found = means.release([[5, 8, -16], [0, 0, 0]])
    assert found == [[40, 8, -16], [0, 0, 0]]
    assert means.mean(found[0], 0) == [8 / 40, -16 / 40]


def test_draws_follow_the_law() -> None:
    means = ClusterMeans(epsilon=Fraction(1), rows=1, size=2, side=2**16)
    drawn = np.array(means.release([[0, 0, 0]] * 3_000))
    radius = np.abs(drawn).max(axis=1) * float(means.rate)
    assert fits(ks_p(list(radius), stats.gamma(3).cdf))
    assert not fits(ks_p(list(radius), stats.gamma(3, scale=0.8).cdf))
    assert not fits(ks_p(list(radius), stats.gamma(3, scale=1.25).cdf))
    assert drawn.std() / 2**16 == pytest.approx(means.standard_error, rel=0.1)
    assert abs(np.corrcoef(np.sign(drawn.T))[0, 1]) < 0.15


@pytest.mark.parametrize("size", [1, 3])
def test_intervals_hold_for_all_coordinates_of_one_centre_together(size: int) -> None:
    means = ClusterMeans(epsilon=Fraction(1, 10), rows=1, size=size, side=2**16)
    rows, v = 900, np.array([0.9, -0.3, 0.0])[:size]
    numbers = [rows, *(int(x * rows * 2**16) for x in v)]
    hits = 0
    for noisy in means.release([numbers] * 600):
        ends = means.interval(noisy)
        hits += all(low <= x <= high for (low, high), x in zip(ends, v, strict=True))
    assert hits >= 530  # 570 expected, or more; it fails once in 10^7
    narrow = means.reach(0.5)
    assert sum(max(map(abs, z)) <= narrow for z in means.release([[0] * (1 + size)] * 600)) < 400


def test_a_mean_of_few_rows_is_none_and_its_interval_all() -> None:
    means = ClusterMeans(epsilon=Fraction(1), rows=1, size=2, side=2**16)
    assert means.mean([2**16, 0, 0], 8) is None
    assert means.interval([-5, 0, 0]) == [(-1.0, 1.0)] * 2
    assert means.standard_errors([0, 1, 1]) is None
    assert means.mean([100 * 2**16, 50 * 2**16, -(300 * 2**16)], 8) == [0.5, -1.0]


# ---- weighted k-means


def cost(points: np.ndarray, weights: np.ndarray, centers: np.ndarray) -> float:
    return float(weights @ squared_distances(points, centers).min(axis=1))


def test_weighted_kmeans_is_near_the_best_of_many_starts() -> None:
    rng = np.random.default_rng(4)
    for k, d in ((1, 1), (4, 2), (7, 3)):
        at = rng.uniform(0, 100, (k, d))
        points = at[rng.integers(0, k, 400)] + rng.normal(0, 4, (400, d))
        weights = rng.integers(1, 50, 400).astype(float)
        found = weighted_kmeans(points, weights, k)
        assert found.shape == (k, d)
        assert cost(points, weights, found) <= 1.05 * cost(points, weights, at)
        assert (weighted_kmeans(points, weights, k) == found).all()


def test_weighted_kmeans_of_as_many_points_as_centres_is_these() -> None:
    points = np.array([[1.0, 2.0], [5.0, 5.0], [1.0, 9.0]])
    assert sorted(map(tuple, weighted_kmeans(points, np.ones(3), 3))) == sorted(map(tuple, points))
    assert weighted_kmeans(np.array([[3.0]] * 5), np.ones(5), 2).tolist() == [[3.0], [3.0]]
