"""Order statistics and modes from counts of values in bins, as one release has them. Post-processing only.

Rows of a group fall into B bins of equal width over the argument's public range; the measure releases the noisy number
of rows in each (compiler/measures.py). With S(e) the rows below edge e less q times all rows, the q-quantile lies in
bin j where S(j) <= 0 <= S(j + 1).

**value** Where the counts below the edges, made monotone (the mean of their running maximum and running minimum), reach
q times all, straight within a bin. Least and greatest: the outer end of the first bin, from that end on, before whose
inner edge the rows are more than noise.

**present** How many bins have rows: compiler/listed_values.py.

**ends** From the first to the last bin that a test at 95% allows: S(j) - w <= 0 <= S(j + 1) + w, w the half-width of
the noise in S, and one row more, as quantiles between two rows are either's. At the bin of the true quantile both hold
with probability 0.95 at least, whatever the rows: the noise of S(e) is a public linear form of the cells' (each of the
two fails on one side only). So it is no approximation, but for the width of a bin. A quantile that DuckDB would
interpolate between two rows of different bins lies between them: both are allowed with at least 0.90, by the sum of
what either may miss, and no more than that is claimed there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from duckdp.core.errorbars import Noise, linear_half_width

Floats = NDArray[np.float64]
LEVEL = 0.95  # at which something is more than noise, as of all intervals
MOST_BINS = 128  # one for each whole number, or each value of a domain, where they are no more
BINS = 64  # of wider ranges: each is a number to release, and a sum to compute


@dataclass(frozen=True)
class Bins:
    """Released counts of the bins in all groups.

    Attributes:
        counts: float[B, n], rows.
        lower: where the first bin begins, in the argument's units.
        width: of a bin.
        whole: every value is a whole number.
        share: q of the quantile.
        noise: of each cell, or None.
        steps: of a row.
    """

    counts: Floats
    lower: float
    width: float
    whole: bool
    share: float
    noise: Noise | None
    steps: float

    @property
    def below(self) -> Floats:
        """Rows below each edge, float[B + 1, n]."""
        return np.concatenate([np.zeros((1, self.counts.shape[1])), np.cumsum(self.counts, axis=0)])

    def room(self, share: float, level: float) -> Floats:
        """Half-width of the noise in the rows below each edge less a share of all, float[B + 1, 1]."""
        return _room(self.noise, len(self.counts), share, self.steps, level)[:, None]


def bins_of(lower: float, upper: float, *, whole: bool) -> tuple[int, float, float]:
    """How many bins, where they begin and where they end, for values in [lower, upper]."""
    if whole:
        first, last = float(np.ceil(lower)), float(np.floor(upper))
        span = last - first + 1
        width = 1.0 if span <= MOST_BINS else float(np.ceil(span / BINS))
        count = max(1, int(np.ceil(span / width)))
        return count, first, first + count * width
    return BINS, lower, upper if upper > lower else lower + max(1.0, abs(lower))


def quantile(of: Bins) -> tuple[Floats, Floats]:
    """The quantile of each group, and its gradient by bin, in rows."""
    below, total = of.below, of.counts.sum(axis=0)
    up = np.maximum.accumulate(below, axis=0)
    down = np.minimum.accumulate(below[::-1], axis=0)[::-1]
    fit = (up + down) / 2
    wanted = np.clip(of.share * total, fit[0], fit[-1])
    found = np.clip((fit <= wanted).sum(axis=0) - 1, 0, len(of.counts) - 1)
    at = np.arange(len(total))
    rise = fit[found + 1, at] - fit[found, at]
    rise = np.where(rise > 0, rise, np.nan)
    part = np.where(np.isnan(rise), 0.5, (wanted - fit[found, at]) / rise)
    value = of.lower + of.width * (found + part)
    inside = np.arange(len(of.counts))[:, None]
    slope = of.share - (inside < found) - np.where(inside == found, part, 0.0)
    gradient = np.where(np.isnan(rise), 0.0, of.width * slope / np.where(np.isnan(rise), 1.0, rise))
    value = np.where(total > 0, np.floor(value) if of.whole else value, np.nan)
    return value, gradient


def extreme(of: Bins) -> tuple[Floats, Floats]:
    """The least (share 0) or greatest (share 1) value that is more than noise."""
    turned = of.counts[::-1] if of.share == 1 else of.counts
    below = np.cumsum(turned, axis=0)
    room = of.room(0.0, LEVEL)[1:]
    seen = below > room
    first = np.argmax(seen, axis=0)
    inner = of.width - 1 if of.whole else of.width
    low = of.lower + of.width * first
    high = of.lower + of.width * (len(of.counts) - 1 - first) + inner
    value = high if of.share == 1 else low
    return np.where(seen.any(axis=0), value, np.nan), np.zeros_like(of.counts)


def mode(of: Bins) -> tuple[Floats, Floats]:
    """The place of the bin with most rows; of equal ones the first."""
    return of.lower + of.width * np.argmax(of.counts, axis=0), np.zeros_like(of.counts)


def present(of: Bins) -> tuple[Floats, Floats]:
    """How many bins have more rows than noise has where there are none."""
    return (of.counts > _apart(of.noise, LEVEL, of.steps)).sum(axis=0).astype(np.float64), np.zeros_like(of.counts)


def present_ends(of: Bins, level: float) -> tuple[Floats, Floats]:
    """From how many bins have rows beyond doubt, all at once (compiler/listed_values.py), to all."""
    count = len(of.counts)
    room = _apart(of.noise, max(1 - 2 * (1 - level) / count, 0.5), of.steps)
    return (of.counts > room).sum(axis=0).astype(np.float64), np.full(of.counts.shape[1], float(count))


def ends(of: Bins, level: float) -> tuple[Floats, Floats]:
    """Ends of the interval of the quantile, of the least and of the greatest value, at a level."""
    count = len(of.counts)
    apart = of.below - of.share * of.counts.sum(axis=0)
    room = of.room(of.share, level) + 1
    allowed = (apart[:-1] - room[:-1] <= 0) & (apart[1:] + room[1:] >= 0)
    some = allowed.any(axis=0)
    first = np.where(some, np.argmax(allowed, axis=0), 0)
    last = np.where(some, count - 1 - np.argmax(allowed[::-1], axis=0), count - 1)
    outer = of.width - 1 if of.whole else of.width
    return of.lower + of.width * first, of.lower + of.width * last + outer


@lru_cache(maxsize=256)
def _apart(noise: Noise | None, level: float, steps: float) -> float:
    """Half-width of the noise in the rows of a bin."""
    return 0.0 if noise is None else float(linear_half_width(np.full((1, 1), 1 / steps), [noise], level)[0])


@lru_cache(maxsize=256)
def _room(noise: Noise | None, count: int, share: float, steps: float, level: float) -> Floats:
    if noise is None:
        return np.zeros(count + 1)
    edges = np.arange(count + 1)
    coefficients = np.where(np.arange(count)[:, None] < edges, 1 - share, -share) / steps
    return linear_half_width(coefficients, [noise] * count, level)


Ends = Callable[[Bins, float], tuple[Floats, Floats]]
