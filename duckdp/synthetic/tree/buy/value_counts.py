"""The stage that buys single values of whole numbers: see ``tree.single_values``.

Privacy: tables as those of ``counts``: a row is in one cell of each, that of rows without a value included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from duckdp.compiler.printing import Parameters, number, quote
from duckdp.smooth.sums.scan import print_unit
from duckdp.synthetic.tree.bins import Binning, Ints
from duckdp.synthetic.tree.buy.counts import Measured
from duckdp.synthetic.tree.contingency import Tables
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.tree.single_values import clear, count_cells, find_law, with_law
from duckdp.synthetic.unit.charge_terms import Terms

Moduli = Sequence[tuple[int, int]]
"""As ``TreePlan.moduli``."""
ReadValues = Callable[[Tables, Moduli], Ints]
"""Exact counts of all cells of tables of these columns' values, int[cells]: private."""


def value_tables(tree: Tree, moduli: Moduli) -> Tables:
    """Tables of these columns, in order: one-way ones."""
    merges = tuple(np.arange(count_cells(tree.binnings[i], m)) for i, m in moduli)
    return Tables(merges=merges, sets=tuple((k,) for k in range(len(merges))))


def find_laws(tree: Tree, moduli: Moduli, found: Measured, terms: Terms) -> None:
    """Set the laws of columns, from the tables that were bought: post-processing."""
    least = clear(found.deviation, found.tables.cells, terms)
    bins = list(tree.binnings)
    for (i, modulus), counts in zip(moduli, found.counts, strict=True):
        binning, own = bins[i], tree.counts[i]
        alone = [k for k in range(binning.bins, binning.valued) if k not in tree.flat.get(i, ())]
        apart = {round((binning.spikes[k - binning.bins] + 1) / 2 * binning.span): float(own[k]) for k in alone}
        law = find_law(binning, own[: binning.bins], counts, modulus, found.deviation, least, apart)
        bins[i] = with_law(bins[i], law)
    tree.binnings = bins


def print_value(binning: Binning, modulus: int, parameters: Parameters) -> str:
    """SQL of a row's cell over a row ``r``: INTEGER in [0, cells), never NULL."""
    part, x = binning.part, f"r.{quote(binning.part.column.name)}"
    place = f"({print_unit(part.column, part.axis, parameters)} + {number(1)}) / {number(2)}"
    value = f"system.main.round({place} * {number(binning.span)}, 0)"
    if modulus:
        shifted = f"({value} + {number(int(part.axis.lower) % modulus)})"
        value = f"({shifted} - {number(modulus)} * system.main.floor({shifted} / {number(modulus)}))"
    none = f"CAST({count_cells(binning, modulus) - 1} AS INTEGER)"
    return f"CASE WHEN {x} IS NULL THEN {none} ELSE CAST({value} AS INTEGER) END"
