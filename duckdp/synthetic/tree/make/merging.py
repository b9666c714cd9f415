"""Merged bins of an ordered column for tables of two: a pile stands by itself.

A merged bin is so wide that a cell of two, were nothing to link them, stands out of the noise. But where one column
tells the other, all rows of a bin are in one cell, and a price that few rows have is told for certain. Where it is
merged with the bins beside it, that is lost. So a pile stands alone: ``piles`` of the rows, three times as many as each
bin beside it; what lies between two piles and is too little for a merged bin goes with the smaller of both. What empty
cells of such tables get of noise is taken off (``empty_cells``).

Columns without piles are merged as before (``estimates.merge_bins``): finer bins of a smooth law would cost noise and
tell nothing that their neighbours do not (docs/benchmarks.md, "Empty cells, and piles in tables of two columns").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duckdp.synthetic.tree.bins import Ints
from duckdp.synthetic.tree.make.estimates import merge_bins
from duckdp.synthetic.unit.features import Floats

_BESIDE = 3.0  # times the rows of each bin beside it, that make a pile


def merge_around_piles(shares: Floats, least: float, piles: float, *, free: int) -> Ints:
    """Merged bins of ordered ones, int[B]: piles alone, and neighbours between them up to a share of ``least``.

    Args:
        shares: float[B], released.
        least: wanted share.
        piles: share that a pile has at least.
        free: bins from here on (NULL) stand alone.
    """
    padded = np.concatenate([[0.0], shares[:free], [0.0]])
    alone = (shares[:free] >= piles) & (shares[:free] >= _BESIDE * np.maximum(padded[:-2], padded[2:]))
    groups = _joined(_groups(shares[:free], alone, least), shares, min(least, piles)) if alone.any() else []
    if len(groups) < 2:
        return merge_bins(shares, least, ordered=True, free=free)
    found = np.empty(len(shares), dtype=np.int64)
    for place, group in enumerate(groups):
        found[group] = place
    found[free:] = len(groups) + np.arange(len(shares) - free)
    return found


def _groups(shares: Floats, alone: NDArray[np.bool_], least: float) -> list[list[int]]:
    """Piles, and neighbours between them up to the least share."""
    found: list[list[int]] = []
    waiting: list[int] = []
    for i, pile in enumerate(alone.tolist()):
        if pile and waiting:
            found.append(waiting)
            waiting = []
        waiting.append(i)
        if pile or shares[waiting].sum() >= least:
            found.append(waiting)
            waiting = []
    return [*found, waiting] if waiting else found


def _joined(groups: list[list[int]], shares: Floats, least: float) -> list[list[int]]:
    """The groups, those with less than the least share in the smaller of both beside them; of several, two are left."""
    groups = list(groups)
    held = [float(shares[g].sum()) for g in groups]
    while len(groups) > 2 and min(held) < least:
        k = int(np.argmin(held))
        beside = [j for j in (k - 1, k + 1) if 0 <= j < len(groups)]
        first = min(k, min(beside, key=held.__getitem__))
        groups[first : first + 2] = [groups[first] + groups[first + 1]]
        held[first : first + 2] = [held[first] + held[first + 1]]
    return groups
