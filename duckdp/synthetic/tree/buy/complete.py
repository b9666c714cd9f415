"""Columns whose count of NULLs is what noise alone may give (``unit.completeness``): taken to have none.

Privacy: post-processing of the first stage.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.unit.charge_terms import Terms
from duckdp.synthetic.unit.completeness import gaussian_doubt, laplace_doubt


def find_complete(tree: Tree, terms: Terms, determined: Collection[int]) -> None:
    """Set them, and what their noisy shares of NULLs are all the same: error bars tell of these.

    Args:
        tree: its counts, their deviation and its rows are known.
        terms: of the noise.
        determined: columns by others, of which no NULL is counted by itself, and no bar is told.
    """
    doubtful = {i: b.null for i, b in enumerate(tree.binnings) if b.null is not None}
    if not doubtful:
        return
    if terms.gaussian:
        doubt = gaussian_doubt(tree.deviation, len(doubtful))
    else:
        doubt = laplace_doubt(tree.deviation / math.sqrt(2), len(doubtful))
    tree.complete = tuple(i for i, null in doubtful.items() if tree.counts[i][null] < doubt)
    shares = {i: float(tree.counts[i][doubtful[i]]) / tree.rows for i in tree.complete}
    tree.null_shares = {i: share for i, share in shares.items() if i not in determined}
