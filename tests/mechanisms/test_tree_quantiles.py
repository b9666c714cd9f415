"""mechanisms/tree_quantiles.py: what noise is added to, its scale, where quantiles are found, what intervals hold."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from duckdp.mechanisms import tree_quantiles as mechanism
from duckdp.mechanisms.tree_quantiles import Levels, QuantileTree
from tests.privacy.statistics import fits


def exact(tree: QuantileTree, values: list[int], monkeypatch: pytest.MonkeyPatch) -> Levels:
    with monkeypatch.context() as patch:
        patch.setattr(mechanism, "laplace_noise", lambda count, _: [0] * count)
        return tree.release(Counter(values))


def test_a_row_changes_every_level_by_one_and_noise_pays_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """By brute force: the l1 change of all counts, over the scale, is at most epsilon, and no less than nearly."""
    for leaves, unit in product((1, 2, 7, 111, 5000), (1, 3)):
        tree = QuantileTree(leaves=leaves, epsilon=Fraction(1, 3), l1=unit)
        branches, depth = tree.shape
        assert branches**depth >= leaves
        assert tree.nodes == sum(branches**level for level in range(1, depth + 1))
        rng = random.Random(leaves)
        values = [rng.randrange(leaves) for _ in range(20)]
        more = [rng.randrange(leaves) for _ in range(unit)]
        one, other = exact(tree, values, monkeypatch), exact(tree, values + more, monkeypatch)
        change = sum(float(np.abs(a - b).sum()) for a, b in zip(one, other, strict=True))
        assert 0.999 / 3 < change / tree.scale <= 1 / 3 + 1e-12
        assert all(level.sum() == 20 for level in one)


@pytest.mark.parametrize("leaves", [1, 5, 64, 300])
def test_without_noise_quantiles_are_those_of_the_rows(leaves: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(leaves)
    tree = QuantileTree(leaves=leaves, epsilon=Fraction(10**6), l1=1)
    for size in (1, 2, 9, 400):
        values = sorted(rng.randrange(leaves) for _ in range(size))
        levels = exact(tree, values, monkeypatch)
        for share in (0.1, 0.25, 0.5, 0.9, 0.99):
            true = values[max(0, math.ceil(share * size - 1e-9) - 1)]
            assert int(tree.quantile(levels, share) - 1e-9) == true
            low, high = tree.interval(levels, share)
            assert low <= true <= high


def law(scale_factor: float, draws: int = 2_000) -> float:
    """p-value of the noise of one leaf, as released, at a factor of the scale that is claimed."""
    tree = QuantileTree(leaves=4, epsilon=Fraction(1, 2), l1=1)
    seen = Counter(round(float(tree.release({1: 5})[-1][1])) - 5 for _ in range(draws))
    r = math.exp(-1 / (tree.scale * scale_factor))
    chances = {k: (1 - r) / (1 + r) * r ** abs(k) for k in range(-8, 9)}
    observed = [seen[k] for k in chances]
    expected = [draws * c for c in chances.values()]
    return float(stats.chisquare([*observed, draws - sum(observed)], [*expected, draws - sum(expected)]).pvalue)


def test_noise_has_the_scale_that_is_claimed() -> None:
    assert fits(law(1))
    assert not fits(law(0.8, 4_000))  # the broken twins
    assert not fits(law(1.25, 4_000))


def missed(runs: int, share: float, factor: float = 1.0) -> int:
    """How often an end of the interval misses, on rows as hard as they come: all in one leaf, or spread."""
    found = 0
    tree = QuantileTree(leaves=256, epsilon=Fraction(1, 5), l1=1)
    rows = Counter({100: 50, 101: 50} if share == 0.5 else dict.fromkeys(range(200), 3))
    values = sorted(rows.elements())
    true = values[max(0, math.ceil(share * len(values)) - 1)]
    for _ in range(runs):
        levels = tree.release(rows)
        low, high = QuantileTree(leaves=256, epsilon=tree.epsilon / Fraction(factor), l1=1).interval(levels, share)
        found += not low <= true <= high
    return found


def test_intervals_hold_their_quantiles() -> None:
    for share in (0.0, 0.5, 0.7):
        assert stats.binom.sf(missed(50, share) - 1, 50, 0.05) > 1e-9
    assert stats.binom.sf(missed(400, 0.5, 0.001) - 1, 400, 0.05) < 1e-7  # the twin: hardly any margins


def test_errors_are_about_what_is_predicted() -> None:
    tree = QuantileTree(leaves=256, epsilon=Fraction(1, 5), l1=1)
    rows = dict.fromkeys(range(256), 400)
    off = [abs(tree.quantile(tree.release(rows), 0.5) - 128) * 400 for _ in range(60)]
    assert 0.4 < float(np.mean(off)) / tree.error(0.5) < 1.6


def test_the_number_of_draws_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = mechanism.laplace_noise
    monkeypatch.setattr(mechanism, "laplace_noise", lambda n, scale: asked.append(n) or real(n, scale))
    tree = QuantileTree(leaves=100, epsilon=Fraction(1), l1=2)
    for rows in ({}, {3: 10**9}, dict.fromkeys(range(100), 1)):
        levels = tree.release(rows)
        for share in (0.0, 0.5, 1.0):
            assert 0 <= tree.quantile(levels, share) <= 100
            low, high = tree.interval(levels, share)
            assert 0 <= low <= 99
            assert 0 <= high <= 99
    assert asked == [tree.nodes] * 3
