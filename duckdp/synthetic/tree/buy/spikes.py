"""Values that rows may pile up at: which of them rows do pile up at, by the noisy counts of their bins.

Privacy: post-processing of the first stage, whose tables have a cell for each such value in place of none: a row is in
one cell of each table all the same.
"""

from __future__ import annotations

import numpy as np

from duckdp.synthetic.tree.bins import Binning, set_apart
from duckdp.synthetic.tree.contingency import Tables
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.unit.features import Floats

_SPIKE = 5.0  # deviations of noise that stand out, whatever else is in a step
_SEEN = 1.5  # deviations from which a spike's rows are taken to be there at all
_PILED = 2.0  # times the rows of other whole numbers of its step


def find_spikes(tree: Tree, found: list[Floats], *, old: bool) -> None:
    """Set the counts: values where rows pile up have bins from here on, the others join the steps that they lie in.

    Of a whole number there must be more rows than at other values of its step, too. What is not above noise is none.

    Args:
        tree: its deviation is known.
        found: released counts.
        old: whether they know of no spikes.
    """
    tree.counts = [_with_flat_spikes(b, c) for b, c in zip(tree.binnings, found, strict=True)] if old else found
    for i, binning in enumerate(tree.binnings):
        if not binning.spikes:
            continue
        counts = tree.counts[i] = tree.counts[i].copy()
        others = max(1.0, binning.span / binning.bins - 1)  # other values of a step
        flat = []
        for k in range(len(binning.spikes)):
            own, step = binning.bins + k, binning.parent(k)
            usual = _PILED * max(0.0, counts[step]) / others if binning.span else 0.0
            if counts[own] < max(_SPIKE * tree.deviation, usual):
                counts[step] += counts[own] if counts[own] > _SEEN * tree.deviation else 0.0
                counts[own] = 0.0
                flat.append(own)
        tree.flat[i] = tuple(flat)
    tree.binnings = set_apart(tree.binnings, tree.flat)


def without_spikes(tree: Tree, sets: tuple[tuple[int, ...], ...]) -> Tables:
    """The tables that were bought before spikes had bins: the first stage of a purchase that was begun then."""
    return Tables(merges=tuple(np.arange(b.size - len(b.spikes)) for b in tree.binnings), sets=sets)


def _with_flat_spikes(binning: Binning, counts: Floats) -> Floats:
    """Counts that know of no spikes, with a 0 for each: where they lie they count already."""
    return np.insert(counts, [binning.bins] * len(binning.spikes), 0.0) if binning.spikes else counts
