"""Intervals for quantiles that were released: cells on either side of each, and noisy counts of the rows between them.

For a released cell c of a group, ``Aside`` rows below it and as many above a further cell each is drawn
(``exponential_quantiles``, on the part between c and the next released cell). Then the rows between all of these cells
are counted, with discrete Laplace noise: B bins of a group that share no row. The **low end** for a quantile p is found
upwards from the grid's lower end: a cell x is passed as long as

    p N - (rows below x) > margin          N: all rows, both figures from the noisy counts

and the **high end** downwards alike, as long as (rows up to x) - p N > margin.

Claim:        for every table with a row, chances of at least 97.5% each, so at least 95% together: the low end is at
              most, the high end at least the quantile: the least value that at least p N of the N rows do not exceed.
Privacy:      the draws: of one unit rows lie in parts that share none; between two quantiles each part is drawn from
              twice (:func:`draws_of_a_part`). The counts: a unit with at most u rows changes them by u in l1. Both are
              charged; all else is post-processing.
Proof sketch: which cells there are does not depend on the noise of the counts. Going upwards let x be the first cell
              above the quantile: at least p N rows lie below it, so p N - (rows below) <= 0, and it is passed only if
              the noise of this one sum exceeds the margin. It is the only way to a low end that is too large, as none
              after it is looked at otherwise: one sum, so one margin, however many cells there are. Downwards alike.
              The sum's noise is sum c_i Z_i with c_i = p - 1 for the bins below x and p for the others, and the margin
              the width that holds |sum| with 95% (``core.errorbars``), so that either side exceeds it with 2.5%. Of
              many bins by Chernoff: P(sum > t) <= exp(-s t) prod E exp(s c_i Z_i) for every s > 0; Z is symmetric, and
              E exp(s Z) = (1 - r)^2 / ((1 - r e^s) (1 - r e^-s)), r = e^(-1 / scale): the least t over a list of s.
Numerics:     margins are floats, increased by 1e-9 of themselves.
Source:       ours; tests that are passed in a fixed order at one level: Rosenbaum, "Testing hypotheses in order",
              Biometrika 2008.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np

from duckdp.core.errorbars import Noise, linear_half_width

MISSED = 0.025  # chance of either end to miss
MOST_EXACT = 41  # bins: of more a margin is a bound, which takes less time
ASIDE = 3.0  # of 1 / rate: how far a draw may be off, for cells aside to be passed


@dataclass(frozen=True, kw_only=True)
class Counted:
    """The noisy counts of one group; released.

    Attributes:
        cells: ascending; the bins are the rows up to the first, between neighbours, and after the last.
        counts: noisy rows in each bin, int[len(cells) + 1].
        scale: of the noise.
    """

    cells: Sequence[int]
    counts: Sequence[int]
    scale: float

    def interval(self, share: float, steps: int) -> tuple[int, int]:
        """Cells between which the quantile lies.

        Args:
            share: p, which quantile.
            steps: the last cell of the grid.
        """
        upto, bins = list(accumulate(self.counts)), len(self.counts)
        low, high, goal = 0, steps, share * upto[-1]
        for i, cell in enumerate(self.cells):  # rows below cell + 1
            if not goal - upto[i] > margin(i + 1, bins, share, self.scale):
                break
            low = cell + 1
        for i in reversed(range(len(self.cells))):
            if not upto[i] - goal > margin(i + 1, bins, share, self.scale):
                break
            high = self.cells[i]
        return min(low, high), max(low, high)


@lru_cache(maxsize=4096)
def margin(below: int, bins: int, share: float, scale: float, missed: float = MISSED) -> float:
    """What the noise of p N less the count of the first bins exceeds with a chance of at most ``missed``, rows.

    Args:
        below: how many bins come first.
        bins: all of them.
        share: p, in [0, 1].
        scale: of the noise of a bin.
        missed: the chance.
    """
    if bins <= MOST_EXACT:
        weights = np.array([[share - 1]] * below + [[share]] * (bins - below))
        return float(linear_half_width(weights, [Noise("laplace", scale)] * bins, 1 - 2 * missed)[0]) * (1 + 1e-9)
    r = math.exp(-1 / scale)
    s = np.geomspace(1e-4, 0.999, 400) / scale / max(share, 1 - share)

    def moments(weight: float) -> np.ndarray:
        t = s * weight
        return 2 * math.log1p(-r) - np.log1p(-r * np.exp(t)) - np.log1p(-r * np.exp(-t))

    total = below * moments(1 - share) + (bins - below) * moments(share)
    return float(np.min((total - math.log(missed)) / s)) * (1 + 1e-9)


def draws_of_a_part(quantiles: int) -> int:
    """How many cells are drawn aside from each part: two between two quantiles, one beside a quantile alone."""
    return 1 if quantiles == 1 else 2


def aside(quantiles: int, share: float, *, rate: float, own_rate: float, scale: float) -> int:
    """How many rows aside cells are aimed at, so that most of them are passed.

    Args:
        quantiles: of a group.
        share: p, which quantile.
        rate: of the draws aside, per row.
        own_rate: of the quantile's own draw.
        scale: of the noise of a bin.
    """
    bins = 4 * quantiles + 1
    noise = margin(max(1, round(share * bins)), bins, share, scale)
    return math.ceil(2 * noise + ASIDE / rate + ASIDE / own_rate)


def parts_aside(cells: Sequence[int], steps: int) -> list[tuple[int, int, int, bool]]:
    """(index, first cell, last cell, whether it is below) of the parts that cells are drawn from; empty ones are none.

    Args:
        cells: released, ascending.
        steps: the last cell of the grid.
    """
    found = []
    for i, cell in enumerate(cells):
        below = cells[i - 1] + 1 if i else 0
        above = cells[i + 1] - 1 if i + 1 < len(cells) else steps
        found += [(i, below, cell - 1, True)] if below < cell else []
        found += [(i, cell + 1, above, False)] if cell < above else []
    return found


def bin_ends(cells: Sequence[int], aside: Sequence[int], steps: int) -> list[int]:
    """The last cell of each bin but the last one.

    Args:
        cells: released quantiles.
        aside: cells that were drawn aside.
        steps: the last cell of the grid.
    """
    return sorted({end for cell in (*cells, *aside) for end in (cell - 1, cell) if 0 <= end < steps})
