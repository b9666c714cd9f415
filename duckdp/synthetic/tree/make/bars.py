"""Error bars of a tree's table, from the deviations of its stages and from what was released: public.

One column    its bins' counts err by noise of a known deviation s, so a band of k of them, of ten at most, errs by
              noise of deviation s sqrt(k) / n; n, from the totals of the same tables, errs too, by e, and a band of
              share p by p e. Half the sum of their absolute values, as if they were apart (what they have in common
              makes it less), is shown as it is reached with 95%: the larger of that sum's quantiles for noise of
              Laplace's law (a Gamma law) and of the normal one (by mean, deviation and skewness of |normal|: .798, .603
              and .995). Estimates take noise off: projecting on the simplex, pooling with tables of pairs, a prior.
A mean        its scaled function's noise times its width, what the noise of the count of NULLs and of n moves it by,
              what scaling long rows may have taken off it beyond what was added (``buy.missed``; in releases that do
              not say, half of what was added), how far the rows miss it, and what lies beyond the width (or half of the
              bound on a row's norm): noise of those bins, a quarter of a bin's width for their share, and what cutting
              noise off at 0 leaves of it in empty bins, half of its mean absolute value each; where values have weights
              (``single_values``), how far the rows miss the released mean for that. In the column's own units, for rows
              that have a value; None where these are not told from none.
Two columns   over the merged cells of a table that was bought: the bars of both margins; of what is left of the table
              beside them, its noise N; and what its estimate took off, D: singular values that noise may have made are
              set to 0, and links of that size with them. The sum of |D| is at most sqrt(cells) times its norm
              (Frobenius), which is public. Where all was taken off, what lacks is the link G itself, and D = G + noise:
              |G| follows from |D| and the law of the noise, and where that bounds it better, it does. Where no table
              was bought, nothing is promised: the link is what a product or other links imply.

Hidden NULLs  a column whose count of NULLs may be noise has none in the rows that are made, so its histogram errs by
              their true share q too: q <= h + 1.645 s / n with 95%, h their noisy share or 0; that is added, to both
              of a pair's columns. Values take the place of these NULLs. If h stands out of its noise
              (``Tree.hidden``), they do by their own shares, and a NULL's part is taken off the mean; then |h - q| is
              noise, which the mean's bar counts. If not, a mean moves by q |mean - g(NULL)|, and in a histogram every
              bin that has rows gets as much of q: h of that is added, what noise may hide beyond it is in the term for
              noise.

They compare with the rows that were counted (one of each unit), and say nothing of bins coarser than a question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from duckdp.catalog.table import Kind
from duckdp.synthetic.tree.make.forest import COARSE, Pair, Tree
from duckdp.synthetic.tree.scales import bin_values, unit_values
from duckdp.synthetic.unit.features import Floats

BANDS = 10  # of a column, that a histogram is judged by
_FOLDED, _FOLDED_SPREAD, _FOLDED_SKEW = 0.798, 0.603, 0.995  # of |normal|: mean, deviation, skewness
_ONE_SIDE = 1.645  # deviations of a normal law below which 95% are
_BOTH = 2.12  # deviations within which 95% are: ln 20 / sqrt 2 of Laplace's law, 1.96 of a normal one
_PRESENT = 5.0  # deviations of its noise, by which a share of rows must stand out for a mean over them to be told
_ALONE = 0.5  # of the bound on a row's norm, from which a column by itself is taken to make rows too long
_CUT = 0.5  # of what scaling long rows took off a mean (``buy.averages``), in releases that do not say more
_SURE = 2.0  # deviations of a square of noise, and of its product with a link: each with 97.5%


def error_bars(
    tree: Tree, deviations: Mapping[Pair, float], taken: Mapping[Pair, tuple[float, float]]
) -> dict[str, Any] | None:
    """What is reached with 95%, as JSON values; None for releases of earlier versions, which do not tell.

    Args:
        tree: as it was bought.
        deviations: of a cell's noise, per two-way table.
        taken: what the estimate of each took off and what it left, as in ``estimates.shrink_gap``; tables of which this
            is not known have no bar.

    Returns:
        "columns": [name, total variation, error of the mean or None] each; "pairs": [name, name, cells of their table,
        total variation] of those whose table was bought.
    """
    if not tree.rows or not tree.deviation:
        return None
    names = [b.part.column.name for b in tree.binnings]
    columns = [[name, _column(tree, i), _mean(tree, i)] for i, name in enumerate(names)]
    pairs = []
    for i, j in sorted(deviations):
        if (i, j) in taken:
            first, second = tree.pairs[i, j].shape
            bar = _pair(tree, (i, j), deviations, *taken[i, j])
            pairs.append([names[i], names[j], f"{first} x {second}", bar])
    return {"columns": columns, "pairs": pairs}


def _table(deviations: Floats) -> float:
    """Half the sum of |noise| of cells of these deviations, reached with 95%; at most 1."""
    root = float(np.linalg.norm(deviations))
    skewed = _FOLDED_SKEW * float((deviations**3).sum()) / root**3 * (_ONE_SIDE**2 - 1) / 6
    normal = _FOLDED * float(deviations.sum()) + _FOLDED_SPREAD * root * (_ONE_SIDE + skewed)
    equal = float(gammaincinv(len(deviations), 0.95)) / math.sqrt(2) * root / math.sqrt(len(deviations))
    return min(1.0, max(normal, equal) / 2)


def _pair(tree: Tree, pair: Pair, deviations: Mapping[Pair, float], taken: float, left: float) -> float:
    joint, noise = tree.pairs[pair], deviations[pair] / tree.rows
    cells, free = joint.size, (joint.shape[0] - 1) * (joint.shape[1] - 1)
    margins = np.concatenate([_margin(tree, i, deviations) for i in pair])
    centred = joint - joint.mean(axis=0) - joint.mean(axis=1)[:, None] + joint.mean()
    scaled = tree.deviation / tree.rows * math.sqrt(_count_noise(tree)) * np.abs(centred).sum()  # by the error of n
    beside = np.append(margins, scaled)
    raw = np.full(cells, noise * math.sqrt(free / cells))
    unseen = _hidden(tree, pair[0]) + _hidden(tree, pair[1])
    bar = _table(np.concatenate([raw, beside])) + math.sqrt(cells) * taken / 2 + unseen
    if (
        not left
    ):  # taken^2 = |G|^2 + 2 <G, noise> + |noise|^2, the last of mean free s^2 and variance at most 5 free s^4
        square = taken**2 - noise**2 * (free - _SURE * math.sqrt(5 * free))
        link = _SURE * noise + math.sqrt(max(0.0, square) + (_SURE * noise) ** 2)
        bar = min(bar, math.sqrt(cells) * link / 2 + _table(beside) + unseen)
    return min(1.0, bar)


def _margin(tree: Tree, column: int, deviations: Mapping[Pair, float]) -> Floats:
    """Deviations of the shares of a column's merged bins, pooled from all tables it is in."""
    own = np.bincount(tree.merges[column]) * tree.deviation**2
    precision = 1 / own
    for pair, deviation in deviations.items():
        if column in pair:
            precision += 1 / (tree.pairs[pair].shape[1 - pair.index(column)] * deviation**2)
    share = np.bincount(tree.merges[column], weights=tree.shares[column])
    return np.asarray(np.sqrt(1 / precision + share**2 * _count_noise(tree) * tree.deviation**2) / tree.rows)


def _count_noise(tree: Tree) -> float:
    """The variance of n, known from the totals of all one-way tables, in variances of a cell."""
    return 1 / sum(1 / b.size for b in tree.binnings)


def _column(tree: Tree, column: int) -> float:
    binning, shares = tree.binnings[column], tree.shares[column]
    bands = min(BANDS, binning.bins) if binning.ordered else binning.size
    if not binning.ordered:
        widths, share = np.ones(bands), shares
    else:
        place = np.arange(binning.bins) * bands // binning.bins
        alone = binning.size - binning.bins
        widths = np.concatenate([np.full(bands, max(1.0, binning.bins / bands)), np.ones(alone)])
        share = np.concatenate([np.bincount(place, weights=shares[: binning.bins]), shares[binning.bins :]])
    noise = tree.deviation / tree.rows * np.sqrt(widths + share**2 * _count_noise(tree))
    return min(1.0, _table(noise) + _hidden(tree, column))


def _hidden(tree: Tree, column: int) -> float:
    """What the true share of NULLs that no row shows is at most, with 95%; 0 where NULLs show or there are none."""
    if column not in tree.null_shares:
        return 0.0
    return max(0.0, tree.null_shares[column]) + _ONE_SIDE * tree.deviation / tree.rows


def _spread_evenly(tree: Tree, column: int) -> float:
    """The share of hidden NULLs that was not taken for what it is, by which values' shares are moved evenly."""
    return max(0.0, tree.null_shares.get(column, 0.0)) if not tree.hidden(column) else 0.0


def _mean(tree: Tree, column: int) -> float | None:
    """In the column's own units: of numbers, and the share of true of booleans."""
    binning, shares = tree.binnings[column], tree.shares[column]
    part, noise = binning.part, tree.deviation / tree.rows
    if part.form == "choice" or part.column.kind not in (Kind.NUMBER, Kind.BOOLEAN):
        return None
    own = shares[: binning.valued]
    present = float(own.sum()) if part.nullable else 1.0
    if present <= _PRESENT * noise:
        return None
    present -= noise + tree.hidden(column) if part.nullable else 0.0
    if part.form == "sign":  # c1 / (c0 + c1) moves by (1 - p) of the one noise and by p of the other
        larger = min(1.0, float(own.max() / own.sum()) + noise / present)
        error = _BOTH * noise * math.hypot(larger, 1 - larger, (larger - 0.5) * (column in tree.null_shares))
        return min(1.0, (error + _spread_evenly(tree, column) * (larger - 0.5)) / present)
    half = (part.axis.upper - part.axis.lower) / 2
    if column not in tree.means:
        values = unit_values(binning)[: binning.valued]
        off = values - float(own @ values) / float(own.sum())
        error = noise * float(np.linalg.norm(off)) + _spread_evenly(tree, column) * float(np.abs(off).max()) / _BOTH
    else:
        width, unsure = tree.scale(column)[1], _CUT * abs(tree.cuts.get(column, 0.0))
        known = column in tree.missed
        moved = math.hypot(tree.mean_deviation, _moved(tree, column, noise), 0.0 if known else unsure) * width
        error = math.hypot(moved, _beyond(tree, column, noise))
        error = max(error, moved + tree.missed.get(column, 0.0) * width / _BOTH)
    sharp = 0.0 if binning.exact else COARSE * 2 / binning.bins
    told = column in tree.means and (tree.means_apart or binning.law is not None)
    sharp += _unmatched(tree, column) if told else 0.0
    return min(2 * half, (_BOTH * error + sharp) * half / present)


def _unmatched(tree: Tree, column: int) -> float:
    """How far rows that are made miss a released mean, where values that piled up keep their places."""
    binning, scale, shares = tree.binnings[column], tree.scale(column), tree.shares[column]
    own = float(shares @ bin_values(binning, scale, tree.leans()[column], apart=tree.means_apart))
    return abs(tree.mean(column) - own) * scale[1]


def _moved(tree: Tree, column: int, noise: float) -> float:
    """What noise in the count of NULLs, and in n, moves the mean of a scaled function by, over rows with a value."""
    binning, nothing = tree.binnings[column], tree.nothing(column)
    present = float(tree.shares[column][: binning.valued].sum())
    mean = float(np.clip((tree.mean(column) - (1 - present) * nothing) / max(present, noise), -1, 1))
    missing = noise * abs(mean - nothing) if binning.part.nullable else 0.0
    hidden = _spread_evenly(tree, column) * abs(mean - nothing)
    return math.hypot(missing, noise * math.sqrt(_count_noise(tree)) * abs(mean)) + hidden / _BOTH


def _beyond(tree: Tree, column: int, noise: float) -> float:
    """What a mean errs by for values beyond its scaled function's width, or that make a row longer than the bound."""
    binning, shares, (offset, width) = tree.binnings[column], tree.shares[column], tree.scale(column)
    width *= min(1.0, _ALONE * tree.mean_bound) if tree.mean_bound else 1.0
    far = np.maximum(0.0, np.abs(unit_values(binning) - offset) - width)[: binning.valued]
    coarse = 0.0 if binning.exact else float(shares[: binning.bins][far[: binning.bins] > 0].sum()) / 2 / binning.bins
    pushed = noise * _FOLDED / 2 * float(far.sum())
    there = shares[: binning.valued] > 0
    pushed += _spread_evenly(tree, column) * float(far[there].mean()) if there.any() else 0.0
    return math.hypot(noise * float(np.linalg.norm(far)), coarse, pushed / _BOTH)
