"""What means in one vector may lack for what scaling long rows took off them: for error bars, from noisy counts.

``averages`` adds what scaling takes off rows that the tree makes. Such rows are long together only as far as a table
that was bought says so: where the rows that are long in one number are so in all, and no table tells, more was taken
off than was added. The histograms say how much that can be, whatever the rows have in common: with x_j = |g_j|, C the
bound and S the norm of a row, column i loses

    mean of x_i max(0, 1 - C / S)     over rows above 0, and over those below

and this is computed as if each column's largest x stood in one row, its next ones in the next, and so on, with those of
i on one side alone.

Proof sketch: of l1 norms, what all columns lose together is the mean of max(0, S - C), a convex function of a sum, and
              no rows with these histograms make that larger than rows in this order do (Dhaene, Denuit, Goovaerts,
              Kaas, Vyncke, "The concept of comonotonicity in actuarial science", 2002, theorem 7). That one column
              loses more than in this order, and others less, is not excluded: of a single column, and of l2 norms,
              that bars hold is measured (docs/benchmarks.md).
Numerics:     quantiles at a grid of shares; a value stands for its bin. Of noisy counts negative ones are none, so that
              noise makes more of what is lost than of what is not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.tree.scales import bin_values
from duckdp.synthetic.unit.features import Floats

_SHARES = (np.arange(4096) + 0.5) / 4096  # of the rows, at which quantiles are taken


def most_missed(tree: Tree, columns: Sequence[int], *, squared: bool) -> dict[int, float]:
    """By column, in units of its function: what the mean may lack, on the side where that is more.

    Args:
        tree: with its counts, ``scales``, ``mean_bound`` and ``cuts``.
        columns: whose means were bought.
        squared: whether a row's norm is l2.
    """
    counts = {i: np.maximum(tree.counts[i], 0) for i in columns}
    shares = {i: c / max(1.0, float(c.sum())) for i, c in counts.items()}
    values = {i: bin_values(tree.binnings[i], tree.scale(i), apart=True) for i in columns}
    power = 2 if squared else 1
    powers = {i: _quantiles(np.abs(values[i]), shares[i]) ** power for i in columns}
    total, found = np.sum(list(powers.values()), axis=0), {}
    for i in columns:
        lost = []
        for side in (1.0, -1.0):
            own = _quantiles(np.maximum(side * values[i], 0), shares[i])
            norm = (total - powers[i] + own**power) ** (1 / power)
            lost.append(float((own * (1 - tree.mean_bound / np.maximum(norm, tree.mean_bound))).mean()))
        added = tree.cuts.get(i, 0.0)
        found[i] = max(lost[0] - added, lost[1] + added)
    return found


def _quantiles(x: Floats, shares: Floats) -> Floats:
    order = np.argsort(x, kind="stable")
    place = np.searchsorted(np.cumsum(shares[order]), _SHARES)
    return np.asarray(x[order][np.minimum(place, len(x) - 1)])
