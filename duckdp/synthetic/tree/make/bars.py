"""Error bars of a tree's table, from the deviations of its stages alone: public.

One column    its bins' counts err by noise of a known deviation s, so the histogram of at most ten bands, each of k
              bins, errs by half the sum of |noise| of deviation s sqrt(k) / n. What is shown is reached with 95%,
              by the mean and the deviation of that sum (|normal|: .798 and .603; noise of Laplace's law has less of the
              first, more of the second, which makes up for it). Estimates only take noise off: projecting on the
              simplex, pooling with tables of pairs, a prior.
A mean        its scaled function's noise times its width, and what lies beyond the width: noise of those bins, a
              quarter of a bin's width for their share, and what cutting noise off at 0 leaves of it in empty bins, half
              of its mean absolute value each. In the column's own units, for rows that have a value.
Two columns   the same as of one, over the merged cells of a table that was bought. Where none was, nothing is promised:
              the link is what a product or other links imply.

They compare with the rows that were counted (one of each unit), and say nothing of bins coarser than a question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from duckdp.catalog.table import Kind
from duckdp.synthetic.tree.make.forest import Pair, Tree
from duckdp.synthetic.tree.scales import unit_values

BANDS = 10  # of a column, that a histogram is judged by
_FOLDED, _FOLDED_SPREAD = 0.798, 0.603  # of |normal|: mean and deviation
_ONE_SIDE, _BOTH = 1.645, 1.96  # deviations of a normal law within which 95% are, on one side and on both


def error_bars(tree: Tree, deviations: Mapping[Pair, float]) -> dict[str, Any] | None:
    """What is reached with 95%, as JSON values; None for releases of earlier versions, which do not tell.

    Args:
        tree: as it was bought.
        deviations: of a cell's noise, per two-way table.

    Returns:
        "columns": [name, total variation, error of the mean or None] each; "pairs": [name, name, cells of their table,
        total variation] of those whose table was bought.
    """
    if not tree.rows or not tree.deviation:
        return None
    names = [b.part.column.name for b in tree.binnings]
    columns = [[name, _column(tree, i), _mean(tree, i)] for i, name in enumerate(names)]
    pairs = []
    for (i, j), deviation in sorted(deviations.items()):
        first, second = tree.pairs[i, j].shape
        bar = _table(first * second, deviation / tree.rows)
        pairs.append([names[i], names[j], f"{first} x {second}", bar])
    return {"columns": columns, "pairs": pairs}


def _table(cells: int, noise: float) -> float:
    """Half the sum of |noise| of so many cells, reached with 95%; at most 1."""
    usual, spread = cells * _FOLDED * noise / 2, math.sqrt(cells) * _FOLDED_SPREAD * noise / 2
    return min(1.0, usual + _ONE_SIDE * spread)


def _column(tree: Tree, column: int) -> float:
    binning = tree.binnings[column]
    bands = min(BANDS, binning.bins) if binning.ordered else binning.size
    each = max(1.0, binning.bins / bands)
    return _table(bands + (binning.size - binning.bins), tree.deviation / tree.rows * math.sqrt(each))


def _mean(tree: Tree, column: int) -> float | None:
    """In the column's own units: of numbers, and the share of true of booleans."""
    binning, shares = tree.binnings[column], tree.shares[column]
    part, noise = binning.part, tree.deviation / tree.rows
    if part.form == "choice" or part.column.kind not in (Kind.NUMBER, Kind.BOOLEAN):
        return None
    present = 1 - (float(shares[binning.valued :].sum()) if part.nullable else 0.0)
    if part.form == "sign":
        return min(1.0, _BOTH * noise / math.sqrt(2) / max(present, noise))
    half = (part.axis.upper - part.axis.lower) / 2
    if column not in tree.means:
        error = noise * float(np.linalg.norm(unit_values(binning)[: binning.valued]))
    else:
        error = math.hypot(tree.mean_deviation * tree.scale(column)[1], _beyond(tree, column, noise))
    return min(2 * half, _BOTH * error * half / max(present, noise))


def _beyond(tree: Tree, column: int, noise: float) -> float:
    """What a mean errs by for values beyond its scaled function's width."""
    binning, shares, (offset, width) = tree.binnings[column], tree.shares[column], tree.scale(column)
    far = np.maximum(0.0, np.abs(unit_values(binning) - offset) - width)[: binning.valued]
    coarse = 0.0 if binning.exact else float(shares[: binning.bins][far[: binning.bins] > 0].sum()) / 2 / binning.bins
    pushed = noise * _FOLDED / 2 * float(far.sum())
    return math.hypot(noise * float(np.linalg.norm(far)), coarse, pushed / _BOTH)
