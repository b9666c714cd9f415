"""Rows from a release of ``method := 'tree'``: post-processing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from duckdp.catalog.constraints import Determined
from duckdp.core.watch import Watch
from duckdp.errors import InternalError
from duckdp.synthetic.tree.bins import Ints, make_bins, set_apart, spread_rows
from duckdp.synthetic.tree.make.bars import error_bars
from duckdp.synthetic.tree.make.clearing import clear_pairs
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.tree.make.matching import missing_products, move_to_products
from duckdp.synthetic.tree.plan import make_tree_plan
from duckdp.synthetic.tree.released import CLASSES, Grown
from duckdp.synthetic.tree.single_values import with_law
from duckdp.synthetic.tree.spending import tree_terms
from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.finish import Columns, complete_rows, made_rows, open_rows, shape_of_rows
from duckdp.synthetic.unit.kept import Kept, load_kept
from duckdp.synthetic.unit.layout import UnitColumns
from duckdp.synthetic.unit.structure import Structure

_TURNS = 2  # of clearing pairs, and dealing rows again
DISTANCE = "average l1 distance of its pairs"
open_table, shape = open_rows, shape_of_rows


def complete(raw: dict[str, Any], watch: Watch) -> dict[str, Any]:
    """The payload with its rows, and their error bars; see ``methods.Make``."""
    found = complete_rows(raw, watch, CLASSES, _make, listed=True)
    units, kept = load_kept(raw["wide"], CLASSES, listed=True)
    tree = _grown(units, kept)
    bars = error_bars(tree, kept.released.pair_deviations, kept.released.pair_taken)
    if unseen := unseen_nulls(tree):
        found["unseen"] = unseen
    return found if bars is None else {**found, "bars": _of_columns(bars, units.structure)}


def unseen_nulls(tree: Tree) -> list[tuple[str, float]]:
    """Columns whose NULLs no row shows, though their noisy share stands out by itself; and that share."""
    return [(b.part.column.name, share) for i, b in enumerate(tree.binnings) if (share := tree.hidden(i))]


def _of_columns(bars: dict[str, Any], structure: Structure | None) -> dict[str, Any]:
    """Error bars of the table's own columns: none of what is modelled in their place, or given by others."""
    if structure is None:
        return bars
    gone = {d.column.name for d in structure.derived} | {c.what for c in structure.kept if isinstance(c, Determined)}
    columns = [bar for bar in bars["columns"] if bar[0] not in gone]
    return {"columns": columns, "pairs": [bar for bar in bars["pairs"] if not gone.intersection(bar[:2])]}


def _grown(units: UnitColumns, kept: Kept) -> Tree:
    """The tree that was bought."""
    grown, request = kept.released, kept.request
    if not isinstance(grown, Grown):
        raise InternalError("a release of another method")
    plan = make_tree_plan(request, units, tree_terms(request, len(units.parts)))
    binnings = make_bins(units, plan.bins, spikes=grown.spiked)
    binnings = tuple(with_law(b, grown.laws.get(i)) for i, b in enumerate(set_apart(binnings, grown.flat)))
    target = None if request.target is None else units.part_at(request.target)
    return Tree(
        binnings=binnings,
        plan=plan,
        target=target,
        means=grown.means,
        mean_deviation=grown.mean_deviation,
        shares=grown.shares,
        merges=grown.merges,
        pairs=grown.pairs,
        complete=grown.complete,
        null_shares=grown.null_shares,
        functions=grown.functions,
        flat=grown.flat,
        scales=grown.scales,
        means_apart=grown.means_apart,
        cuts=grown.cuts,
        mean_bound=grown.mean_bound,
        missed=grown.missed,
        product_scales=grown.product_scales,
        products=grown.products,
        product_deviation=grown.product_deviation,
        product_bound=grown.product_bound,
        product_squared=grown.product_squared,
        product_apart=grown.product_apart,
        rows=grown.rows,
        deviation=grown.deviation,
    )


def _make(units: UnitColumns, kept: Kept, watch: Watch) -> tuple[Columns, float]:
    grown = tree = _grown(units, kept)
    assert isinstance(kept.released, Grown)
    deviations = kept.released.pair_deviations
    codes, unit = _dealt(tree, made_rows(kept))
    for turn in range(_TURNS):
        watch.tell("rows", turn / (_TURNS + 1))
        missing = missing_products(unit, tree)
        if missing is None or not tree.pairs:
            break
        pairs = clear_pairs(tree, codes, unit, missing, deviations)
        if all(pairs[pair] is joint for pair, joint in tree.pairs.items()):
            break
        tree = replace(tree, pairs=pairs)
        codes, unit = _dealt(tree, made_rows(kept))
    unit = move_to_products(unit, tree)
    steps = {b.part.column.name: b.bins for b in tree.binnings}
    return units.decode(unit, rounded=True, steps=steps), grown.misfit(codes)


def _dealt(tree: Tree, rows: int) -> tuple[Ints, Floats]:
    """Rows that a tree deals: their bins, and unit rows."""
    codes = tree.make(rows)
    return codes, spread_rows(tree.binnings, codes, tree.leans())
