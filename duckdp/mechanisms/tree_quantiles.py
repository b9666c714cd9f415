"""Quantiles from noisy counts in a tree: all that are wanted from one release, with intervals; it adds up over parts.

Values lie in leaves 0, ..., branches^depth - 1. The rows in every node of each level but the root get discrete Laplace
noise. What the rows up to a leaf are short of p N, N all rows, is then

    D = (1 - p) (rows of nodes before it) - p (rows of nodes after it)

over the earlier and later siblings of the leaf and of each of its ancestors: (branches - 1) depth + 1 nodes that share
no row and hold all of them. A **quantile** is where D passes 0 on the way down (the least and the largest value: where
it passes ``inward`` rows, which noise alone does not); within the leaf it is interpolated. An **interval** goes from
the first leaf, upwards, that is not passed, to the first, downwards: upwards a leaf is passed where -D > margin behind
it, the width that the noise of D there exceeds with a chance of at most 2.5% (quantile_intervals.margin).

Privacy:      epsilon, pure: a level's counts change by l1 where a unit comes or goes (or is replaced: say so in l1).
Assumes:      l1 bounds the change of one level's counts, in l1, between neighbours.
Claim:        interval: for every table with a row, at least 97.5% for either end, so 95% together, that the least value
              that at least p N rows do not exceed lies between them. It costs nothing more.
Proof sketch: levels compose: depth l1 in l1, and discrete Laplace noise of scale depth l1 / epsilon. Leaf of the
              quantile: j. Upwards the low end is above j only if j is passed, where the true -D is at most 0: only if
              the noise of this one sum exceeds the margin, 2.5% at most, whatever comes before it. Downwards alike with
              j - 1, up to which there are fewer than p N rows. All else is post-processing.
Shape:        Var D = (branches - 1) depth p (1 - p) 2 scale^2 or so, scale ~ depth: least (branches - 1) depth^3.
Numerics:     counts and noise are integers and added exactly; floats come after that, and serve no claim of privacy.
              Margins are increased by 1e-9 of all rows for them.
Source:       Hay, Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially private histograms through
              consistency", VLDB 2010 (trees of counts); siblings in place of a least-squares fit, and intervals: ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from duckdp.core.noise import laplace_noise, laplace_scale
from duckdp.mechanisms.quantile_intervals import margin

MOST_DEPTH = 8  # levels that are tried: of more the noise is larger, however many leaves there are
_FAR = 2.0  # deviations of noise that the extremes keep from the ends

Levels = list[NDArray[np.float64]]
"""Noisy rows of each level's nodes, the leaves last; released."""


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
        """How many counts are noised, of all levels together."""
        branches, depth = self.shape
        return sum(branches**level for level in range(1, depth + 1))

    def release(self, counts: Mapping[int, int]) -> Levels:
        """The counts of all levels, each with noise of its own.

        Args:
            counts: rows by leaf. Exact and private: must not be logged, stored or raised.
        """
        branches, depth = self.shape
        drawn, found = laplace_noise(self.nodes, self.scale), []
        for level in range(1, depth + 1):
            exact = [0] * branches**level
            for leaf, rows in counts.items():
                exact[min(max(leaf, 0), self.leaves - 1) // branches ** (depth - level)] += rows
            noise, drawn = drawn[: len(exact)], drawn[len(exact) :]
            found.append(np.array([float(n + z) for n, z in zip(exact, noise, strict=True)]))
        return found

    def deviation(self, share: float) -> float:
        """The standard deviation of D in the middle of the tree, in rows."""
        branches, depth = self.shape
        weights = max(share * (1 - share), 1 / 4 if share in (0, 1) else 0)
        return math.sqrt((branches - 1) * depth * weights * 2) * self.scale

    def error(self, share: float) -> float:
        """About how far the rank of a released quantile is off, rows; without what one leaf holds."""
        return self.deviation(share) * (_FAR if share in (0, 1) else math.sqrt(2 / math.pi))

    def quantile(self, levels: Levels, share: float) -> float:
        """Where it is: a leaf's number and how far within it."""
        branches, _ = self.shape
        inward = min(_FAR * self.deviation(share), max(float(levels[0].sum()), 0.0) / 2)
        goal = {0.0: inward, 1.0: -inward}.get(share, 0.0)
        before, after, node = 0.0, 0.0, 0
        for level in levels:
            own = level[node * branches : (node + 1) * branches]
            upto = np.cumsum(own)
            passed = (1 - share) * (before + upto) - share * (after + upto[-1] - upto)
            child = int(np.argmax(passed >= goal)) if bool((passed >= goal).any()) else branches - 1
            before += float(upto[child] - own[child])
            after += float(upto[-1] - upto[child])
            node = node * branches + child
        rows = float(levels[-1][node])
        short = goal - ((1 - share) * before - share * (after + rows))
        within = short / rows if rows > 0 else 0.5
        return min(node, self.leaves - 1) + (min(max(within, 0.0), 1.0) if node < self.leaves else 1.0)

    def interval(self, levels: Levels, share: float) -> tuple[int, int]:
        """The first and the last leaf between which it is."""
        branches, depth = self.shape
        before, after, nodes = np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64)
        for level in levels:
            own = level.reshape(-1, branches)
            upto = own.cumsum(axis=1)
            before = (before[:, None] + upto - own).ravel()
            after = (after[:, None] + upto[:, -1:] - upto).ravel()
            nodes = (nodes[:, None] + np.arange(branches)).ravel()
        behind = (1 - share) * (before + levels[-1]) - share * after
        bins = (branches - 1) * depth + 1
        margins = np.array([margin(i + 1, bins, share, self.scale) for i in range(bins)])[nodes]
        margins += 1e-9 * float(np.abs(levels[0]).sum())
        stays = np.flatnonzero(~(-behind > margins))
        low = int(stays[0]) if len(stays) else self.leaves - 1
        stops = np.flatnonzero(~(behind[:-1] > margins[:-1]))
        high = int(stops[-1]) + 1 if len(stops) else 0
        return min(low, self.leaves - 1), min(high, self.leaves - 1)


def _root_above(number: int, degree: int) -> int:
    """The least whole number whose power is at least another."""
    root = max(1, round(number ** (1 / degree)))
    while root**degree < number:
        root += 1
    while root > 1 and (root - 1) ** degree >= number:
        root -= 1
    return int(root)
