"""mechanisms/tree_quantiles.py: what noise is added to, its scale, where quantiles are found, what intervals hold."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from duckdp.core.noise import laplace_noise
from duckdp.mechanisms import tree_quantiles as mechanism
from duckdp.mechanisms.tree_quantiles import NoisyTree, QuantileTree
from tests.privacy.statistics import fits


def noised(tree: QuantileTree, values: Iterable[int], *, exactly: bool = False) -> NoisyTree:
    """A tree's nodes, of which as many as one likes may be looked at; on demand without noise."""
    noise = [0] * tree.nodes if exactly else laplace_noise(tree.nodes, tree.scale)
    return NoisyTree(tree, Counter(values), noise)


def levels(noisy: NoisyTree, tree: QuantileTree) -> list[np.ndarray]:
    """The rows of all nodes, level by level."""
    branches, depth = tree.shape
    return [np.concatenate([noisy.children(i, n) for n in range(branches**i)]) for i in range(depth)]


def test_a_row_changes_every_level_by_one_and_noise_pays_for_all() -> None:
    """By brute force: the l1 change of all counts, over the scale, is at most epsilon, and no less than nearly."""
    for leaves, unit in product((1, 2, 7, 111, 5000), (1, 3)):
        tree = QuantileTree(leaves=leaves, epsilon=Fraction(1, 3), l1=unit)
        branches, depth = tree.shape
        assert branches**depth >= leaves
        assert tree.nodes == sum(branches**level for level in range(1, depth + 1))
        rng = random.Random(leaves)
        values = [rng.randrange(leaves) for _ in range(20)]
        more = [rng.randrange(leaves) for _ in range(unit)]
        one, other = (levels(noised(tree, v, exactly=True), tree) for v in (values, values + more))
        change = sum(float(np.abs(a - b).sum()) for a, b in zip(one, other, strict=True))
        assert 0.999 / 3 < change / tree.scale <= 1 / 3 + 1e-12
        assert all(level.sum() == 20 for level in one)
        plain = Counter(values)
        assert one[-1].tolist() == [plain[leaf] for leaf in range(branches**depth)]


def test_nodes_are_noised_once_each_and_by_draws_of_their_own() -> None:
    """Whoever looks first: so what is looked at has the law of a tree that was noised as a whole."""
    tree = QuantileTree(leaves=64, epsilon=Fraction(1), l1=1)
    branches, depth = tree.shape
    noise = [1000 * i for i in range(1, tree.nodes + 1)]
    noisy = NoisyTree(tree, {}, noise)
    nodes = [(i, n) for i in range(depth) for n in range(branches**i)]
    rng = random.Random(4)
    first = {place: noisy.children(*place).tolist() for place in rng.sample(nodes, len(nodes))}
    assert sorted(z for found in first.values() for z in found) == noise
    assert all(noisy.children(*place).tolist() == first[place] for place in nodes)


@pytest.mark.parametrize("leaves", [1, 5, 64, 300])
def test_without_noise_quantiles_are_those_of_the_rows(leaves: int) -> None:
    rng = random.Random(leaves)
    tree = QuantileTree(leaves=leaves, epsilon=Fraction(10**6), l1=1)
    for size in (1, 2, 9, 400):
        values = sorted(rng.randrange(leaves) for _ in range(size))
        noisy = noised(tree, values, exactly=True)
        for share in (0.1, 0.25, 0.5, 0.9, 0.99):
            true = values[max(0, math.ceil(share * size - 1e-9) - 1)]
            assert int(tree.quantile(noisy, share) - 1e-9) == true
            low, high = tree.interval(noisy, share)
            assert low <= true <= high


def law(scale_factor: float, draws: int = 2_000) -> float:
    """p-value of the noise of one leaf, as released, at a factor of the scale that is claimed."""
    tree = QuantileTree(leaves=4, epsilon=Fraction(1, 2), l1=1)
    seen = Counter(round(float(levels(noised(tree, [1] * 5), tree)[-1][1])) - 5 for _ in range(draws))
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
        noisy = noised(tree, values)
        low, high = QuantileTree(leaves=256, epsilon=tree.epsilon / Fraction(factor), l1=1).interval(noisy, share)
        found += not low <= true <= high
    return found


def test_intervals_hold_their_quantiles() -> None:
    for share in (0.0, 0.5, 0.7):
        assert stats.binom.sf(missed(50, share) - 1, 50, 0.05) > 1e-9
    assert stats.binom.sf(missed(400, 0.5, 0.001) - 1, 400, 0.05) < 1e-7  # the twin: hardly any margins


def test_errors_are_about_what_is_predicted() -> None:
    tree = QuantileTree(leaves=256, epsilon=Fraction(1, 5), l1=1)
    rows = dict.fromkeys(range(256), 400)
    off = [abs(tree.release(rows, [0.5])[0][0] - 128) * 400 for _ in range(60)]
    assert 0.4 < float(np.mean(off)) / tree.error(0.5) < 1.6


def test_the_number_of_draws_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = mechanism.laplace_noise
    monkeypatch.setattr(mechanism, "laplace_noise", lambda n, scale: asked.append(n) or real(n, scale))
    tree, shares = QuantileTree(leaves=100, epsilon=Fraction(1), l1=2), (0.0, 0.5, 0.7, 1.0)
    for rows in ({}, {3: 10**9}, dict.fromkeys(range(100), 1)):
        places, ends = tree.release(rows, shares)
        assert all(0 <= place <= 100 for place in places)
        assert all(0 <= low <= 99 and 0 <= high <= 99 for low, high in ends)
    assert asked == [tree.draws(len(shares))] * 3


@pytest.mark.parametrize(("leaves", "count"), [(1, 1), (2, 3), (100, 1), (100, 9), (4000, 2)])
def test_draws_are_enough_where_no_way_shares_a_node(leaves: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At huge noise ways part at once, so nearly all draws are used; they never run out."""
    used: list[int] = []
    real = NoisyTree.children

    def counted(self: NoisyTree, level: int, node: int) -> np.ndarray:
        found = real(self, level, node)
        used.append(sum(map(len, self._known.values())))
        return found

    monkeypatch.setattr(NoisyTree, "children", counted)
    tree = QuantileTree(leaves=leaves, epsilon=Fraction(1, 10**6), l1=1)
    for _ in range(20):
        tree.release({0: 5}, [(i + 1) / (count + 1) for i in range(count)])
    assert max(used) <= tree.draws(count)
    assert max(used) > 0.25 * tree.draws(count)  # some ways share nodes by chance
