"""Quantiles from noisy counts in a tree: all that are wanted from one release, with intervals; it adds up over parts.

Values lie in leaves 0, ..., branches^depth - 1. The rows in every node of each level but the root get discrete Laplace
noise. What the rows up to a leaf are short of p N, N all rows, is then

    D = (1 - p) (rows of nodes before it) - p (rows of nodes after it)

over the earlier and later siblings of the leaf and of each of its ancestors: (branches - 1) depth + 1 nodes that share
no row and hold all of them. On a level above the leaves D stands for all rows up to the end of a node.

A **quantile** is where D passes 0 on the way down (the least and the largest value: where it passes ``inward`` rows,
which noise alone does not); within the leaf it is interpolated. The **low end** of an interval is found on a way down
of its own, to the first child that is not passed, or the last one: a child is passed where -D > margin behind it, the
width that the noise of D there exceeds with a chance of at most its level's part of 2.5% (quantile_intervals.margin).
The **high end** is found alike, to the last child for which the one before it has D <= margin, or the first one.

Privacy:      epsilon, pure: a level's counts change by l1 where a unit comes or goes (or is replaced: say so in l1).
Assumes:      l1 bounds the change of one level's counts, in l1, between neighbours.
Claim:        interval: for every table with a row, at least 97.5% for either end, so 95% together, that the least value
              that at least p N rows do not exceed lies between them. It costs nothing more.
Proof sketch: levels compose: depth l1 in l1, and discrete Laplace noise of scale depth l1 / epsilon. Each node's noise
              is its own, whoever looks first; so what leaves has the law that it has where all nodes are noised and a
              few are looked at, and that is post-processing. Which ones follows from noisy counts alone, and how many
              draws are made from public figures: as many as there would be if no two ways shared a node.
              Leaf of the quantile: j. The way to the low end leaves that to j for a later node only where, on one
              level, the node with j is passed: the true D behind it counts at least the rows up to j and is >= 0, so
              only if the noise of this sum exceeds its margin. One sum of each level, which no noise chooses: their
              chances add to 2.5% (a level's is a third of the next one's, whose sum has more nodes). The high end
              alike: it is too low only if D > margin behind the node before that with j, where the true D is below 0.
              A last child that is taken though it would be passed, and a first one, err to the safe side.
Shape:        Var D = (branches - 1) depth p (1 - p) 2 scale^2 or so, scale ~ depth: least (branches - 1) depth^3.
Numerics:     counts and noise are integers and added exactly; floats come after that, and serve no claim of privacy.
              Margins are increased by 1e-9 of all rows for them.
Source:       Hay, Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially private histograms through
              consistency", VLDB 2010 (trees of counts); siblings in place of a least-squares fit, and intervals: ours.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from duckdp.core.noise import laplace_noise, laplace_scale
from duckdp.mechanisms.quantile_intervals import MISSED, margin

MOST_DEPTH = 8  # levels that are tried: of more the noise is larger, however many leaves there are
_FAR = 2.0  # deviations of noise that the extremes keep from the ends

_LESS = 3.0  # times: the chance that a level's margins miss against the next one's, so that their widths are alike


@dataclass(frozen=True, kw_only=True)
class QuantileTree:
    """The mechanism; the module says how and why.

    Attributes:
        leaves: how many are wanted; there are at least so many.
        epsilon: of the whole tree, > 0.
        l1: change of one level's counts between neighbours, > 0.
    """

    leaves: int
    epsilon: Fraction
    l1: int

    @cached_property
    def shape(self) -> tuple[int, int]:
        """(branches, depth), with the least error."""
        found = [(max(2, _root_above(self.leaves, depth)), depth) for depth in range(1, MOST_DEPTH + 1)]
        return min(found, key=lambda s: (s[0] - 1) * s[1] ** 3)

    @cached_property
    def scale(self) -> float:
        """The scale of the noise of each count, in rows."""
        return laplace_scale(self.epsilon, self.shape[1] * self.l1)

    @property
    def nodes(self) -> int:
        """How many counts there are, of all levels together."""
        branches, depth = self.shape
        return sum(branches**level for level in range(1, depth + 1))

    def draws(self, quantiles: int) -> int:
        """How much noise is drawn: for the root's children, and for three ways down to each quantile."""
        branches, depth = self.shape
        return min(branches + 3 * quantiles * (depth - 1) * branches, self.nodes)

    def release(self, counts: Mapping[int, int], shares: Sequence[float]) -> tuple[list[float], list[tuple[int, int]]]:
        """Where quantiles are, as leaves and how far within them; and their intervals' first and last leaves.

        Args:
            counts: rows by leaf. Exact and private: must not be logged, stored or raised.
            shares: which quantiles, each in [0, 1].
        """
        noisy = NoisyTree(self, counts, laplace_noise(self.draws(len(shares)), self.scale))
        places = [self.quantile(noisy, share) for share in shares]
        return places, [self.interval(noisy, share) for share in shares]

    def deviation(self, share: float) -> float:
        """The standard deviation of D in the middle of the tree, in rows."""
        branches, depth = self.shape
        weights = max(share * (1 - share), 1 / 4 if share in (0, 1) else 0)
        return math.sqrt((branches - 1) * depth * weights * 2) * self.scale

    def error(self, share: float) -> float:
        """About how far the rank of a released quantile is off, rows; without what one leaf holds."""
        return self.deviation(share) * (_FAR if share in (0, 1) else math.sqrt(2 / math.pi))

    def quantile(self, noisy: NoisyTree, share: float) -> float:
        """Where it is: a leaf's number and how far within it."""
        branches, depth = self.shape
        inward = min(_FAR * self.deviation(share), max(float(noisy.children(0, 0).sum()), 0.0) / 2)
        goal = {0.0: inward, 1.0: -inward}.get(share, 0.0)
        before, after, node, rows = 0.0, 0.0, 0, 0.0
        for level in range(depth):
            own = noisy.children(level, node)
            upto = np.cumsum(own)
            passed = (1 - share) * (before + upto) - share * (after + upto[-1] - upto)
            child = int(np.argmax(passed >= goal)) if bool((passed >= goal).any()) else branches - 1
            rows = float(own[child])
            before += float(upto[child]) - rows
            after += float(upto[-1] - upto[child])
            node = node * branches + child
        short = goal - ((1 - share) * before - share * (after + rows))
        within = short / rows if rows > 0 else 0.5
        return min(node, self.leaves - 1) + (min(max(within, 0.0), 1.0) if node < self.leaves else 1.0)

    def interval(self, noisy: NoisyTree, share: float) -> tuple[int, int]:
        """The first and the last leaf between which it is."""
        low, high = (self._end(noisy, share, upwards=upwards) for upwards in (True, False))
        return min(low, self.leaves - 1), min(high, self.leaves - 1)

    def _end(self, noisy: NoisyTree, share: float, *, upwards: bool) -> int:
        """The leaf of one end."""
        branches, depth = self.shape
        before, after, node, earlier = 0.0, 0.0, 0, 0  # earlier: nodes whose rows are in before
        rounding = 1e-9 * float(np.abs(noisy.children(0, 0)).sum())
        for level in range(depth):
            own = noisy.children(level, node)
            upto = np.cumsum(own)
            behind = (1 - share) * (before + upto) - share * (after + upto[-1] - upto)
            beyond = -behind if upwards else behind  # of a child: above its margin where the end is not near it
            child = self._first(beyond[:-1] - rounding, level, earlier, share, upwards=upwards)
            before += float(upto[child] - own[child])
            after += float(upto[-1] - upto[child])
            node, earlier = node * branches + child, earlier + child
        return node

    def _first(self, beyond: NDArray[np.float64], level: int, earlier: int, share: float, *, upwards: bool) -> int:
        """The child where a way goes on: upwards the first that is not passed, downwards that after the last such."""
        branches, depth = self.shape
        bins = (branches - 1) * (level + 1) + 1
        missed = MISSED * _LESS**level / sum(_LESS**i for i in range(depth))
        for i in range(branches - 1) if upwards else reversed(range(branches - 1)):
            if not beyond[i] > margin(earlier + i + 1, bins, share, self.scale, missed):
                return i if upwards else i + 1
        return branches - 1 if upwards else 0


class NoisyTree:
    """The noisy rows of a tree's nodes, of those that are looked at; what it holds is private, what it gives released.

    Args:
        tree: the mechanism.
        counts: rows by leaf, of leaves that there are. Exact and private.
        noise: at the tree's scale, one for each node that may be looked at.
    """

    def __init__(self, tree: QuantileTree, counts: Mapping[int, int], noise: Sequence[int]) -> None:
        self._shape, self._noise = tree.shape, iter(noise)
        self._leaves = sorted(counts)
        self._below = [0, *accumulate(counts[leaf] for leaf in self._leaves)]  # rows of the leaves before each
        self._known: dict[tuple[int, int], NDArray[np.float64]] = {}

    def children(self, level: int, node: int) -> NDArray[np.float64]:
        """The children of a node of a level, the root's level being 0; always the same ones.

        Returns:
            float[branches], rows.
        """
        known = self._known.get((level, node))
        if known is None:
            branches, depth = self._shape
            width = branches ** (depth - level - 1)  # leaves of a child
            starts = range(node * branches * width, ((node + 1) * branches + 1) * width, width)
            upto = [self._below[bisect_left(self._leaves, start)] for start in starts]
            known = np.array([float(b - a + next(self._noise)) for a, b in pairwise(upto)])
            self._known[level, node] = known
        return known


def _root_above(number: int, degree: int) -> int:
    """The least whole number whose power is at least another."""
    root = max(1, round(number ** (1 / degree)))
    while root**degree < number:
        root += 1
    while root > 1 and (root - 1) ** degree >= number:
        root -= 1
    return int(root)
