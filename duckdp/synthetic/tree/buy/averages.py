"""The stage of a tree that buys averages of all numbers in one vector with a bound on a row's norm.

A number's function is g_i = (u_i - offset) / width, offset its released mean, width its released deviation times what
lets no value be cut; 0 where it is NULL. In deviations, the vector of a usual row has a norm of .6 to .8 of their
number (l1) or its root (l2), where a box pays four deviations and more for each. The bound is what few made rows are
longer than, or, where that is more, what leaves noise of ENOUGH of the sampling error. Rows longer than it are scaled
to it (``unit.normed``); what that takes off the averages follows from rows that the released tables make, and is
added. As averages lean the histograms, that is done a few times.

Privacy: ``Purse.draw_normed``; scales and the bound follow from earlier releases. The rest is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from duckdp.synthetic.tree.bins import spread_rows
from duckdp.synthetic.tree.buy.missed import most_missed
from duckdp.synthetic.tree.buy.products import TRIAL_ROWS
from duckdp.synthetic.tree.buy.resumed import fits_cuts, fits_normed, run_stage
from duckdp.synthetic.tree.make.forest import Tree, refit
from duckdp.synthetic.tree.scales import ENOUGH, Scale, normed_functions, whole_scales
from duckdp.synthetic.unit.buy.purse import Purse, Sums
from duckdp.synthetic.unit.charge_terms import predicted
from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.stages import Noisy

_LONGEST = 3.0  # deviations of the norm of made rows, beyond their mean: few rows are longer
_SHORTEST = 1e-6  # bound on a row's norm
_CORRECTIONS = 3  # rounds, after which means and what scaling takes off them agree
Released = tuple[Noisy, dict[int, Scale], float]
"""Means of functions of scaled rows, the functions' scales, and the bound on a row's norm."""


def buy_bounded_means(tree: Tree, columns: Sequence[int], purse: Purse, sums: Sums) -> None:
    """Means of these numbers, in place."""
    share, squared = tree.plan.means, purse.gaussian

    def draw() -> Released:
        scales, reach = whole_scales(tree.binnings, tree.shares, columns)
        functions = normed_functions(tree.binnings, scales, 1.0, squared=squared)
        enough = ENOUGH / tree.rows**0.5 / predicted(1, share, purse, tree.rows) / reach
        norms = functions.norms(functions.functions(_made(tree)))
        bound = max(_SHORTEST, float(norms.mean() + _LONGEST * norms.std()), enough)
        functions = normed_functions(tree.binnings, scales, bound, squared=squared)
        return purse.draw_normed(sums, functions, share), scales, bound

    found: Released = run_stage(purse, share, draw, lambda stored: fits_normed(stored, len(columns)))
    # made rows are random: what follows from them is stored too, for a purchase that goes on elsewhere
    cut = partial(_cuts, tree, columns, found, squared=squared)
    cuts = run_stage(purse, Fraction(0), cut, lambda stored: fits_cuts(stored, columns))
    _take(tree, columns, found, cuts)
    tree.missed = most_missed(tree, columns, squared=squared)
    tree.stages.append(("means", len(columns), share))


def _take(tree: Tree, columns: Sequence[int], found: Released, cuts: Mapping[int, float]) -> None:
    """Means of the functions as they are, those of scaled rows and what scaling took off, and the shares by them."""
    noisy, tree.scales, tree.mean_bound = found
    tree.mean_deviation, tree.means_apart, tree.cuts = noisy.deviation, True, dict(cuts)
    tree.means = {i: float(np.clip(m + cuts[i], -1, 1)) for i, m in zip(columns, noisy.means, strict=True)}
    refit(tree)


def _cuts(tree: Tree, columns: Sequence[int], found: Released, *, squared: bool) -> dict[int, float]:
    """What scaling takes off the averages, by rows that a copy of the tree makes with these."""
    functions = normed_functions(tree.binnings, found[1], found[2], squared=squared)
    trial = replace(tree, shares=list(tree.shares), pairs=dict(tree.pairs))
    cuts: dict[int, float] = {}
    for round_ in range(_CORRECTIONS):
        if round_:
            _take(trial, columns, found, cuts)
        cut = functions.cut(_made(trial))
        cuts = {i: float(cut[k]) for k, i in enumerate(columns)}
    return cuts


def _made(tree: Tree) -> Floats:
    return spread_rows(tree.binnings, tree.make(TRIAL_ROWS), tree.leans())
