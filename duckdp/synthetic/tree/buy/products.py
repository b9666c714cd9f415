"""The stage of a tree that buys averages of products of two scaled columns, of all pairs.

Privacy: ``Purse.draw`` and ``Purse.draw_normed``; scales and the bound of a row's norm follow from earlier releases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from duckdp.synthetic.tree.bins import spread_rows
from duckdp.synthetic.tree.buy.resumed import fits_means, fits_normed, run_stage, with_scales
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.tree.scales import (
    ENOUGH,
    Scale,
    find_scale,
    normed_products,
    normed_scale,
    product_features,
    unit_column,
)
from duckdp.synthetic.unit.buy.purse import Purse, Sums
from duckdp.synthetic.unit.charge_terms import predicted
from duckdp.synthetic.unit.stages import Noisy

TRIAL_ROWS = 20_000  # made by the tree so far, to see what it misses and how long rows are
_SHORTEST = 1e-3  # bound on the norm of a row's products


def find_scales(tree: Tree, columns: Sequence[int], reach: float, least: float = 0.0) -> dict[int, Scale]:
    """The functions of columns, from released tables: see ``scales.find_scale``."""
    noise = tree.deviation / tree.rows
    return {i: find_scale(tree.binnings[i], tree.shares[i], noise, reach, least) for i in columns}


def buy_products(tree: Tree, purse: Purse, sums: Sums) -> None:
    """Products of all pairs of scaled columns, as plans of before buy them."""
    columns = [i for i, b in enumerate(tree.binnings) if unit_column(b.part) is not None]
    if not purse.rows:
        return
    usual = predicted(len(columns) * (len(columns) - 1) // 2, tree.plan.products, purse, tree.rows)
    tree.product_scales = find_scales(tree, columns, (ENOUGH / (usual * tree.rows**0.5)) ** 0.5)
    features = product_features(tree.binnings, tree.product_scales)
    share, scales = tree.plan.products, tree.product_scales
    stored = run_stage(
        purse,
        share,
        lambda: (purse.draw(sums, features, share), scales),
        lambda found: fits_means(found, features.count),
    )
    found, tree.product_scales = with_scales(stored, scales)
    tree.products, tree.product_deviation = found.means, found.deviation
    tree.stages.append(("products", features.count, tree.plan.products))


def buy_normed(tree: Tree, purse: Purse, sums: Sums) -> None:
    """The same with a bound on a row's norm (``unit.normed``): its average over rows made by the tree so far."""
    columns = [i for i, b in enumerate(tree.binnings) if unit_column(b.part) is not None]
    if not purse.rows:
        return
    share, squared, apart = tree.plan.products, purse.gaussian, tree.plan.bounded

    def draw() -> tuple[Noisy, dict[int, Scale], float]:
        scales = {i: normed_scale(tree.binnings[i], tree.shares[i], apart=apart) for i in columns}
        products = normed_products(tree.binnings, scales, 1.0, squared=squared, apart=apart)
        made = spread_rows(tree.binnings, tree.make(TRIAL_ROWS), tree.leans())
        bound = max(_SHORTEST, float(products.norms(products.functions(made)).mean()))
        return purse.draw_normed(sums, replace(products, bound=bound), share), scales, bound

    count = len(columns) * (len(columns) - 1) // 2
    found, tree.product_scales, tree.product_bound = run_stage(purse, share, draw, lambda f: fits_normed(f, count))
    tree.products, tree.product_deviation, tree.product_apart = found.means, found.deviation, apart
    tree.stages.append(("products", count, share))
