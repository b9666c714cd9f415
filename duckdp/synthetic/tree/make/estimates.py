"""Noisy tables of counts -> shares: post-processing, with public priors.

One column: y = n p + noise. Where the noise is a large part of n, p is the posterior mean under a public prior, of
ordered bins three parts mixtures of three normal laws and one part Dirichlet laws, by 4 x 8192 prior draws; where few
of them weigh anything, or bins are more than 400, the nearest point of the simplex; in between both, by the effective
number of draws. The draws are the same in every process (``prior_points``), so the estimates are functions of what was
released: a purchase that goes on elsewhere has the bins that its stored stages are of.

Two columns: of the gap between the noisy table and the product of its margins, the part that is orthogonal to the
margins is kept, its singular values shrunk by what noise alone would give, cells that are likely empty are emptied
(``empty_cells``), and the margins restored by scaling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv, ndtr

from duckdp.synthetic.tree.bins import Ints
from duckdp.synthetic.tree.make.empty_cells import without_empty_cells
from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.prior_points import prior_points

Mean = tuple[Floats, float, float] | None
"""Middles of bins, a released mean of them, and the deviation of its noise; or None."""

DRAWS = 8192  # distributions of the prior, drawn once for each number of bins
_FEW = 2.0  # effective draws of the prior, up to which the nearest point of the simplex is taken
_ENOUGH = 30.0  # effective draws beyond those, from which the posterior mean is
_CLEAR = 0.004  # of the rows: less noise than this leaves no work to a prior
_SHIFTS = 20.0  # of the rows, over the range of the values: more than puts all into one bin
_HALVINGS = 50  # of that
_MOST_LEAN = 50.0  # exponent over the range of the values
_SCALINGS = 40  # rounds of proportional fitting of a joint distribution to its margins
_UNSURE = 1.2  # times the noise that singular values keep: their vectors err as well
_LEAST = 1e-3  # of a cell's rows if nothing linked its columns, that it holds at least
MOST_BINS = 400  # with a prior: its draws are 8192 numbers a bin


def to_simplex(values: Floats, total: float) -> Floats:
    """The nearest vector of non-negative values with this sum."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    return np.asarray(np.maximum(values - excess[last], 0.0))


def estimate_shares(counts: Floats, deviation: float, rows: float, *, ordered: bool, mean: Mean = None) -> Floats:
    """Shares of a column's bins, float[B], that sum to 1.

    Args:
        counts: float[B], noisy.
        deviation: of their noise, rows; > 0.
        rows: n, noisy or public.
        ordered: whether neighbouring bins are alike.
        mean: what is known of a mean of values at the bins, as float[B].
    """
    near = nearest_shares(counts, deviation, rows, mean)
    if not 3 <= len(counts) <= MOST_BINS or deviation < _CLEAR * rows:
        return near
    prior = np.concatenate([smooth_laws(len(counts)), rough_laws(len(counts))]) if ordered else rough_laws(len(counts))
    fit = np.sum((counts / rows - prior) ** 2, axis=1) * (rows / deviation) ** 2 / -2
    weights = np.exp(fit - fit.max())
    weights /= weights.sum()
    trust = float(np.clip((1 / float(weights @ weights) - _FEW) / _ENOUGH, 0, 1))
    posterior = np.asarray(weights @ prior)
    if mean is not None:
        means = prior @ mean[0]
        own = float(weights @ means**2) - float(weights @ means) ** 2
        posterior = leaning(posterior, mean[0], likely_mean(float(posterior @ mean[0]), own, mean))
    return np.asarray(trust * posterior + (1 - trust) * near)


def likely_mean(now: float, own: float, mean: tuple[Floats, float, float]) -> float:
    """A mean of variance ``own`` and the released one, by inverse variances."""
    return now + (mean[1] - now) * own / (own + mean[2] ** 2 + 1e-300)


def nearest_shares(counts: Floats, deviation: float, rows: float, mean: Mean) -> Floats:
    """Shares of the nearest point of the simplex, and of those whose mean is the wanted one, where it is known.

    The nearest point with a mean is the nearest one to counts that are shifted along the values: the shift is found by
    halving. The mean that is wanted errs least of all between that of the nearest point and the released one.
    """
    near = to_simplex(counts, rows)
    if mean is None:
        return near / rows
    values = mean[0] - float(mean[0].mean())
    inside = near > 0
    own = (deviation / rows) ** 2 * float(((values - values[inside].mean())[inside] ** 2).sum())
    goal = likely_mean(float(near @ mean[0]) / rows, own, mean)
    if not own or not float(mean[0].min()) < goal < float(mean[0].max()):
        return near / rows
    low, high = -_SHIFTS * rows, _SHIFTS * rows
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        near = to_simplex(counts + middle * values, rows)
        low, high = (middle, high) if float(near @ mean[0]) < goal * rows else (low, middle)
    return near / rows


def leaning(shares: Floats, values: Floats, goal: float) -> Floats:
    """Shares leaned exponentially, so that they change least by relative entropy, until values have the wanted mean."""
    found, low, high = shares, -_MOST_LEAN, _MOST_LEAN
    for _ in range(_HALVINGS):  # Newton's steps overshoot where nearly all is in one bin
        lean = (low + high) / 2
        found = shares * np.exp(lean * (values - goal))
        found = found / found.sum()
        low, high = (lean, high) if float(found @ values) < goal else (low, lean)
    return np.asarray(found)


def estimate_rows(tables: list[Floats]) -> float:
    """The number of rows from the totals of tables that count the same rows, by inverse variances."""
    weights = np.array([1 / t.size for t in tables])
    return max(1.0, float(weights @ [t.sum() for t in tables] / weights.sum()))


def pool_counts(
    counts: Floats, deviation: float, merge: Ints, others: list[tuple[Floats, float]]
) -> tuple[Floats, float]:
    """A column's counts, corrected by the margins of two-way tables, by inverse variances.

    Args:
        counts: float[B], noisy.
        deviation: of their noise.
        merge: int[B], merged bins of the tables.
        others: margins over the merged bins, and the deviation of their noise.

    Returns:
        float[B], and the root mean square deviation of its noise.
    """
    width = np.bincount(merge).astype(np.float64)
    own = np.bincount(merge, weights=counts)
    precision = 1 / (width * deviation**2)
    total, weight = own * precision, precision.copy()
    for margin, noise in others:
        total, weight = total + margin / noise**2, weight + 1 / noise**2
    corrected = counts + ((total / weight - own) / width)[merge]
    variance = deviation**2 * (1 - 1 / width) + 1 / weight / width**2
    return corrected, float(np.sqrt(np.mean(variance[merge])))


def merge_bins(shares: Floats, least: float, *, ordered: bool, free: int, stands: float = math.inf) -> Ints:
    """Merged bins with a share of at least about ``least`` each, int[B]: neighbours of ordered bins, else the rarest.

    Of a domain of many values none may be frequent: as one merged bin they would lose all that tells them apart. So
    those with a share of ``stands`` stay alone as long as the others hold more than twice ``least``.

    Args:
        shares: float[B], released.
        least: wanted share.
        ordered: whether only neighbours may share one.
        free: ordered bins from here on (NULL) stand alone.
        stands: share of a value whose rows, all in one cell, stand out of the noise.
    """
    size = len(shares)
    if not ordered:
        order = np.argsort(-shares, kind="stable")
        alone = max(1, int(np.sum(shares[order] >= least)))
        while alone < size and shares[order[alone]] >= stands and shares[order[alone:]].sum() > 2 * least:
            alone += 1
        places = np.minimum(np.arange(size), alone)
        rest = shares[order[alone:]].sum()
        if alone < size and rest < least / 2 and alone > 1:  # too few for a merged bin of their own
            places = np.minimum(places, alone - 1)
        found = np.empty(size, dtype=np.int64)
        found[order] = places
        return found
    found, place, held = np.zeros(size, dtype=np.int64), 0, 0.0
    for i in range(free):
        found[i] = place
        held += shares[i]
        ahead = shares[i + 1 : free].sum()
        if held >= least and ahead >= least:
            place, held = place + 1, 0.0
    if place == 0 and free > 1:
        cut = int(np.argmin(np.abs(np.cumsum(shares[: free - 1]) - shares[:free].sum() / 2)))
        found[cut + 1 : free] = place = 1
    found[free:] = place + 1 + np.arange(size - free)
    return found


def most_frequent(counts: Floats, null: int | None) -> Ints:
    """The most frequent bin of a column for each bin of one that determines it, int[a] of noisy counts float[a, b].

    Never that of NULL: a row without a value agrees with any.
    """
    counts = counts.copy()
    if null is not None and counts.shape[1] > 1:
        counts[:, null] = -np.inf
    return np.asarray(counts.argmax(axis=1), dtype=np.int64)


def split_merge(merge: Ints, classes: Ints) -> Ints:
    """Merged bins so split that each is of one class, int[B]."""
    return np.asarray(np.unique(np.stack([merge, classes]), axis=1, return_inverse=True)[1], dtype=np.int64).reshape(-1)


def merged(shares: Floats, merge: Ints) -> Floats:
    """Shares of bins, added up into merged bins."""
    return np.asarray(np.bincount(merge, weights=shares), dtype=np.float64)


def estimate_pair(counts: Floats, deviation: float, rows: float, first: Floats, second: Floats) -> Floats:
    """A joint distribution of two columns with the given margins.

    Args:
        counts: float[a, b], noisy.
        deviation: of their noise, rows.
        rows: n.
        first: shares of the merged bins, float[a].
        second: the same, float[b].
    """
    product = np.outer(first, second)
    gap = _shrunk_gap(counts, deviation, rows, first, second)
    table = product + gap.kept
    noise = _UNSURE * deviation / rows * math.sqrt(gap.free)
    return scale_margins(np.maximum(without_empty_cells(table, product, noise), product * _LEAST), first, second)


def shrink_gap(counts: Floats, deviation: float, rows: float, first: Floats, second: Floats) -> tuple[Floats, float]:
    """What is kept of a table's distance from the product of its margins, and the norm (Frobenius) of what is not.

    Args:
        counts: float[a, b], noisy.
        deviation: of their noise, rows.
        rows: n.
        first: shares of the merged bins, float[a].
        second: the same, float[b].
    """
    gap = _shrunk_gap(counts, deviation, rows, first, second)
    return gap.kept, gap.off


@dataclass(frozen=True, kw_only=True)
class _Gap:
    """What is kept of a table's distance from the product of its margins.

    Attributes:
        kept: float[a, b].
        off: the norm of what is not.
        free: share of the directions of such a gap in which noise was kept, by what singular values lost.
    """

    kept: Floats
    off: float
    free: float


def _shrunk_gap(counts: Floats, deviation: float, rows: float, first: Floats, second: Floats) -> _Gap:
    gap = counts / rows - np.outer(first, second)
    gap = gap - gap.mean(axis=0) - gap.mean(axis=1)[:, None] + gap.mean()
    left, values, right = np.linalg.svd(gap, full_matrices=False)
    a, b = len(first) - 1, len(second) - 1
    noise = (deviation / rows) ** 2
    kept = np.sqrt(np.maximum(0.0, values**2 - noise * max(a, b)) * np.maximum(0.0, values**2 - noise * min(a, b)))
    shrunk = np.where(values**2 > noise * (a**0.5 + b**0.5) ** 2, kept / np.maximum(values, 1e-300), 0.0)
    if min(a, b) == 1:
        shrunk = np.maximum(0.0, values**2 - noise * max(a, b)) / np.maximum(values, 1e-300)
    directions = np.maximum(0, a + b - 1 - 2 * np.arange(len(values)))  # of matrices of rank k + 1 beyond those of k
    free = float((shrunk / np.maximum(values, 1e-300)) @ directions) / max(1, a * b)
    return _Gap(kept=np.asarray((left * shrunk) @ right), off=float(np.linalg.norm(values - shrunk)), free=free)


def tilt_pair(first: Floats, second: Floats, values: tuple[Floats, Floats], covariance: float) -> Floats:
    """A joint distribution of two columns with the given margins and, where it fits, covariance of their values.

    Args:
        first: shares, float[a].
        second: the same, float[b].
        values: of each column's bins, float[a], float[b].
        covariance: wanted.
    """
    one, two = values[0] - first @ values[0], values[1] - second @ values[1]
    spread = float(first @ one**2) * float(second @ two**2)
    product = np.outer(first, second)
    if spread <= 0:
        return product
    tilted = product * np.maximum(1 + covariance / spread * np.outer(one, two), 1e-3)
    return scale_margins(tilted, first, second)


def scale_margins(joint: Floats, first: Floats, second: Floats) -> Floats:
    """Iterative proportional fitting of a table to two margins."""
    for _ in range(_SCALINGS):
        joint = joint * (second / np.maximum(joint.sum(axis=0), 1e-300))
        joint = joint * (first / np.maximum(joint.sum(axis=1), 1e-300))[:, None]
    return joint


@lru_cache(maxsize=64)
def smooth_laws(size: int) -> Floats:
    """Mixtures of three normal laws over equal bins of [0, 1], tails in the end bins, float[3 draws, size]."""
    edges, draws = np.linspace(0, 1, size + 1), 3 * DRAWS
    weights = gammaincinv(0.3, prior_points("smooth: weights", draws, 3)) + 1e-12
    weights /= weights.sum(axis=1, keepdims=True)
    centres = 1.6 * prior_points("smooth: centres", draws, 3) - 0.3
    widths = 0.01 * 100 ** prior_points("smooth: widths", draws, 3)
    found = np.zeros((draws, size))
    for j in range(3):
        below = ndtr((edges - centres[:, [j]]) / widths[:, [j]])
        below[:, 0], below[:, -1] = 0.0, 1.0
        found += weights[:, [j]] * np.diff(below, axis=1)
    return found


@lru_cache(maxsize=64)
def rough_laws(size: int) -> Floats:
    """Symmetric Dirichlet laws of a random concentration, float[draws, size]."""
    concentration = 0.05 * 60 ** prior_points("rough: concentration", DRAWS, 1)
    found = gammaincinv(concentration, prior_points("rough: shares", DRAWS, size)) + 1e-12
    return np.asarray(found / found.sum(axis=1, keepdims=True))
