"""Columns whose count of NULLs is what noise alone may give (``unit.completeness``): taken to have none.

Where the plan counts them once more (``null_counts``), this is the first of two tests, with half of the chance.

Privacy: post-processing of the first stage.
"""

from __future__ import annotations

from collections.abc import Collection

from duckdp.synthetic.tree.doubtful import TESTS, first_doubt
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.unit.charge_terms import Terms


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
    tests = TESTS if tree.plan.nulls else 1
    doubt = first_doubt(tree.deviation, tests * len(doubtful), gaussian=terms.gaussian)
    tree.complete = tuple(i for i, null in doubtful.items() if tree.counts[i][null] < doubt)
    shares = {i: float(tree.counts[i][doubtful[i]]) / tree.rows for i in tree.complete}
    tree.null_shares = {i: share for i, share in shares.items() if i not in determined}
