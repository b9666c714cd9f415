"""Bounds of a column found privately: histograms of its values, each finer where the one before saw rows.

A public ladder orders the values by edges e_0 < e_1 < ...; cells are the single edges and the open gaps between them.
From the counts n of cells, at most one row of each privacy unit, four histograms are released one after the other, each
of which joins neighbouring cells to bins and adds Z to every bin, P(Z = k) ~ exp(-|k| / b_i), b_i = l1 / epsilon_i::

    1 magnitude   bins that follow from the column's type: 1, 2, 5, 10, ... to both sides of 0; of dates decades
    2, 3 range    at most MOST bins of one round width across the range where the histogram before is not empty
    4 clipped     bins between the ends of the suggested ranges: how many rows each would clip

Privacy:      epsilon = epsilon_1 + ... + epsilon_4, pure. ADD_REMOVE of a unit: one row, so one cell, and one bin of
              each histogram, by 1: l1 = 1. REPLACE of a row (unit = row): at most two bins by 1 each: l1 = 2.
Assumes:      the rows hold at most one of each unit, which depends on that unit's rows alone (compiler/printing.py,
              print_chosen; without a unit_key each row is a unit). The ladder is public.
Proof sketch: a bin is a set of cells and the bins of one histogram are disjoint, so a row lies in exactly one of them:
              the norms above, and the Laplace mechanism for each histogram. Which bins the next one has
              follows from the noisy counts before it: adaptive basic composition. What is suggested is post-processing.
              Each histogram has a public number of bins (empty ones fill up) and a public scale, so the draws are
              public.
Accuracy:     the widest range ends with magnitudes whose noisy count, or the noisy count of them and all beyond, is
              at least what empty bins reach with probability FAILURE in the whole histogram: exactly for one bin, by
              Chernoff's bound min over s of exp(-s t) E[exp(s Z)]^j for j bins. So with probability 1 - FAILURE there
              are rows at the lower end or below it, and at the upper end or above it: it reaches no further than
              magnitudes that hold rows, and where the ends cross none is suggested. A magnitude of twice what one bin
              reaches is seen as surely. The
              next histograms narrow it while what they cut off cannot be told from nothing (at level TRIMMED, the same
              bound): some 10 to 50 / epsilon rows a side. The least error of a clamped sum clips of the order of
              1 / epsilon rows, so that is not far off. What each range clips is measured, not guessed.
Numerics:     integers; epsilon_i are whole 1e-9, rounded down. Floats place edges and thresholds only.
Source:       Dwork, McSherry, Nissim, Smith, TCC 2006 (histograms); magnitudes first: Wilson, Zhang, Lam, Desfontaines,
              Simmons-Marengo, Gipson, PoPETs 2020, section 5; where to clip: Amin, Kulesza, Munoz, Vassilvitskii, ICML
              2019. The refinement by rounds, its thresholds and the proof are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from duckdp.core.accountant import pure_rho
from duckdp.core.errorbars import Noise, linear_half_width
from duckdp.core.noise import laplace_noise, laplace_scale
from duckdp.core.types import NANO, Loss, Neighbours

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST = 30  # bins of the second and third histogram, without the two outer ones
FAILURE = 0.01  # chance that a range reaches beyond all rows
SHARES = (35, 30, 15, 20)  # of epsilon, in hundredths: finding the magnitudes decides what the others can see
TAILS = (0.001, 0.01, 0.05)  # shares of rows that the narrower ranges are to clip, half on each side
RANGES = 2 + len(TAILS)  # that are released: two wide ones, and one for each of TAILS
MOST_CLIPPED = 0.2  # of the rows; narrower ranges that clip more follow noise, not the column
TRIMMED = 0.01  # chance that a narrower range keeps so many empty bins at one end that it could be narrower still


class Ladder(Protocol):
    """A public order of a column's values."""

    @property
    def edges(self) -> Floats:
        """Ends of the ranges, float[E], ascending, in the column's units."""

    def coarse(self) -> tuple[Ints, int]:
        """Places of the edges between the magnitudes, and which of these bins is the middle one."""

    def split(self, first: int, last: int, most: int) -> Ints:
        """Places of at least two edges that cover the range, in at most so many steps of one round width."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The ranges that were found: public.

    Attributes:
        ranges: (first, last) places of edges, widest first, nested; none where no bin is clear of the noise.
        cells: noisy counts, int[2 RANGES + 1]: below the widest range, between the lower ends, inside the narrowest,
            between the upper ends, above.
        scale: of their noise.
    """

    ranges: tuple[tuple[int, int], ...]
    cells: tuple[int, ...]
    scale: float

    def clipped(self, place: int) -> tuple[int, int]:
        """Noisy numbers of rows below and above a range."""
        return sum(self.cells[: place + 1]), sum(self.cells[len(self.cells) - place - 1 :])

    def half_width(self, place: int) -> float:
        """95% half-width of either number."""
        noises = [Noise("laplace", self.scale)] * (place + 1)
        return float(linear_half_width(np.ones((place + 1, 1)), noises)[0])

    def deviation(self, place: int) -> float:
        """Standard deviation of either number."""
        return math.sqrt((place + 1) * Noise("laplace", self.scale).variance())


@dataclass(frozen=True, kw_only=True)
class BoundsFinder:
    """The mechanism; the module says how and why.

    Attributes:
        epsilon_nano: epsilon in 1e-9, at least 1,000.
        neighbours: the relation.
        ladder: public order of the values.
    """

    epsilon_nano: int
    neighbours: Neighbours
    ladder: Ladder

    @property
    def loss(self) -> Loss:
        """What it costs: all histograms together."""
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))

    @property
    def cells(self) -> int:
        """Number of cells: the edges, the gaps between them, what is below and above all."""
        return 2 * len(self.ladder.edges) + 1

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """Noise of the four histograms, rows."""
        return tuple(self._scale(share) for share in SHARES)

    def places(self, values: Floats) -> Ints:
        """The cell of each value, int[n]; NaN has none and must not be there."""
        edges = self.ladder.edges
        below = np.searchsorted(edges, values)
        return np.asarray(2 * below + (edges[np.minimum(below, len(edges) - 1)] == values), dtype=np.int64)

    def seen_from(self) -> int:
        """Rows of one magnitude that are noticed for certain, but for FAILURE."""
        return 2 * _alone(FAILURE / (3 * len(self.ladder.coarse()[0])), self.scales[0])

    def release(self, counts: Ints) -> Bounds:
        """Find bounds, and count what each range clips.

        Args:
            counts: int[cells], at most one row of each unit. Exact: must not be logged, stored or raised.
        """
        sums = np.concatenate([[0], np.cumsum(counts)])
        marks, middle = self.ladder.coarse()
        noisy = _noisy(sums, _cuts(marks, middle), len(marks) + 1, self.scales[0])
        bins = _occupied(noisy, self.scales[0])
        seen = None if bins is None else (marks, middle, noisy, bins)
        widest = [] if bins is None else [(int(marks[bins[0]]), int(marks[bins[1] + 1]))]
        for turn in (1, 2):
            finer = None if seen is None else self._finer(seen[0], seen[2], seen[3])
            cuts = [] if finer is None else _cuts(*finer)
            if finer is not None and turn == 1:  # ends that are small beside the width become round, mostly 0
                widest = [(int(finer[0][0]), int(finer[0][-1]))]
            noisy = _noisy(sums, cuts, MOST + 2, self.scales[turn])
            if finer is not None:
                noisy = noisy[: len(cuts) + 1]
                seen = (*finer, noisy, _trimmed(noisy, finer[1], self.scales[turn]))
        scale = self.scales[3]  # also where the third could not be finer: every draw's law is public
        ranges = () if seen is None else _nested(widest + _ranges(*seen))
        filled = [*ranges, *[ranges[-1] if ranges else (0, 0)] * (RANGES - len(ranges))]
        ends = [2 * first + 1 for first, _ in filled] + [2 * last + 2 for _, last in reversed(filled)]
        cells = _noisy(sums, ends, 2 * RANGES + 1, scale)
        found = Bounds(ranges=ranges, cells=tuple(cells), scale=scale)
        kept = [i for i in range(len(ranges)) if not i or sum(found.clipped(i)) <= MOST_CLIPPED * sum(cells)]
        return replace(found, ranges=ranges[: len(kept)])

    def _finer(self, marks: Ints, noisy: list[int], found: tuple[int, int]) -> tuple[Ints, int] | None:
        """Edges and middle bin of a finer histogram across the range found; None where there is none."""
        first, last = int(marks[found[0]]), int(marks[found[1] + 1])
        finer = self.ladder.split(first, last, MOST)
        if set(finer.tolist()) <= set(marks.tolist()):
            return None
        inner = np.maximum(noisy[1 + found[0] : 2 + found[1]], 0)
        heavy = found[0] + int(np.searchsorted(np.cumsum(inner), inner.sum() / 2))
        at = int(np.searchsorted(finer, marks[min(heavy, len(marks) - 2)], side="right")) - 1
        return finer, min(max(at, 0), len(finer) - 2)

    def _scale(self, share: int) -> float:
        change = 2 if self.neighbours is Neighbours.REPLACE else 1
        return laplace_scale(Fraction(self.epsilon_nano * share // 100, NANO), change)


def _cuts(marks: Ints, middle: int) -> list[int]:
    """First cells of the bins after the lowest: an edge up to the middle bin begins a bin, one behind it ends one.

    So what lies on a round figure is inside the range that ends there, on either side; the middle bin has both ends.
    """
    return [2 * int(m) + (1 if i <= middle else 2) for i, m in enumerate(marks)]


def _noisy(sums: Ints, cuts: Sequence[int], size: int, scale: float) -> list[int]:
    """Counts of the bins between the cuts with noise, int[size]; bins that there are not are empty."""
    ends = [0, *cuts, len(sums) - 1] if cuts else []
    exact = [int(sums[b] - sums[a]) for a, b in pairwise(ends)]
    exact += [0] * (size - len(exact))
    return [n + z for n, z in zip(exact, laplace_noise(size, scale), strict=True)]


def _occupied(noisy: Sequence[int], scale: float) -> tuple[int, int] | None:
    """Lowest and highest inner bin that are not empty, as far as can be told; the outer two have no end to give."""
    inner = np.array(noisy[1:-1], dtype=np.int64)
    count = len(inner)
    share = FAILURE / (3 * count)
    beyond = np.array([_together(j, share, scale) for j in range(1, count + 1)])
    single = inner >= _alone(share, scale)
    low = single | (np.cumsum(inner) >= beyond)
    high = single | (np.cumsum(inner[::-1])[::-1] >= beyond[::-1])
    if not low.any() or not high.any():
        return None
    first, last = int(np.argmax(low)), count - 1 - int(np.argmax(high[::-1]))
    # All that is known: rows lie at or below the first, and at or above the last. Crossed, either may be beyond them.
    return (first, last) if first <= last else None


def _trimmed(noisy: Sequence[int], middle: int, scale: float) -> tuple[int, int]:
    """Lowest and highest inner bin without outer ones that cannot be told from nothing; the middle one stays."""
    inner = np.array(noisy[1:-1], dtype=np.int64)
    low, high = 0, len(inner) - 1
    while low < middle and inner[: low + 1].sum() < _together(low + 1, TRIMMED, scale):
        low += 1
    while high > middle and inner[high:].sum() < _together(len(inner) - high, TRIMMED, scale):
        high -= 1
    return low, high


def _alone(chance: float, scale: float) -> int:
    """What the noise of an empty bin reaches with at most that chance."""
    p = math.exp(-1 / scale)  # P(Z >= t) = p^t / (1 + p)
    return max(1, math.ceil(scale * (-math.log(chance) - math.log1p(p))))


@lru_cache(maxsize=4096)
def _together(bins: int, chance: float, scale: float) -> int:
    """What the noise of so many empty bins together reaches with at most that chance."""
    p = math.exp(-1 / scale)
    s = np.linspace(0.01, 0.99, 99) / scale
    moment = 2 * np.log1p(-p) - np.log1p(-p * np.exp(s)) - np.log1p(-p * np.exp(-s))
    return max(1, math.ceil(float(np.min((bins * moment - math.log(chance)) / s))))


def _ranges(marks: Ints, middle: int, noisy: list[int], found: tuple[int, int]) -> list[tuple[int, int]]:
    """The range found, and narrower ones that clip about the shares TAILS."""
    inner, (low, high) = noisy[1:-1], found
    rows = sum(inner[low : high + 1])
    chosen = [(low, high + 1)]
    for tail in TAILS:
        most, first, last = tail * rows / 2, low, high + 1
        while first < min(middle, high) and sum(inner[low : first + 1]) <= most:
            first += 1
        while last > max(middle + 1, low + 1) and sum(inner[last - 1 : high + 1]) <= most:
            last -= 1
        chosen.append((first, last))
    return [(int(marks[a]), int(marks[b])) for a, b in chosen]


def _nested(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Each range within the one before, without repeats."""
    kept = ranges[:1]
    for first, last in ranges[1:]:
        first, last = max(first, kept[-1][0]), min(last, kept[-1][1])
        if first < last and (first, last) != kept[-1]:
            kept.append((first, last))
    return tuple(kept)
