"""Distributions of bought pairs tilted to the released products of their columns: post-processing.

A table of two columns has noise in every cell, and cut off at 0 it leaves a few rows in many cells that have none: far
from where most lie, these weaken the link. A released product knows the link better. Of all joint distributions q with
the margins of the pair's p and a wanted average of f g, that one is taken which differs least from p in relative
entropy: q = p u v exp(t f g), u and v restoring the margins, t found by halving. It takes from cells by how far they
are from the line, where to change places among all rows (``matching``) draws those near it closer.

Of the wanted average cells hold one part; within them values are dealt independently of each other. What cells hold is
what they would hold of a pair of normal variables, in the ranks of the columns' values, whose products have the wanted
average; the rest is left to ``matching``.

Products in a vector with a bound (``unit.normed``) are those of rows scaled down: what is missing of them is taken as
the share ``told`` of what is missing of plain products.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import ndtr, ndtri

from duckdp.synthetic.tree.bins import Ints
from duckdp.synthetic.tree.make.estimates import scale_margins
from duckdp.synthetic.tree.make.forest import Pair, Tree
from duckdp.synthetic.tree.scales import may_be_null, unit_column
from duckdp.synthetic.unit.features import Floats

_STEEPEST = 60.0  # t: of two columns of which no row is more than e^-60 from the line
_HALVINGS = 30  # of that, and of a correlation
_LEAST = 1e-6  # gap of an average of products of numbers in [-1, 1], of which less is none
_POINTS = (np.arange(64) + 0.5) / 64  # of each of two normal variables, in their ranks


@dataclass(frozen=True, kw_only=True, eq=False)
class _Column:
    """What rows have of a column that is in products.

    Attributes:
        values: its function in each row, float[m]; 0 where it is NULL and stands apart.
        present: rows with a value, bool[m].
        averages: of the function in each merged bin.
        ranked: values of rows that have one, in ascending order.
        cells: averages of their bins, in that order.
    """

    values: Floats
    present: np.ndarray
    averages: Floats
    ranked: Floats
    cells: Floats

    def at(self, place: Floats) -> tuple[Floats, Floats]:
        """Values and averages of their bins at places of [0, 1) in the ranks."""
        rank = np.minimum((place * len(self.ranked)).astype(np.int64), len(self.ranked) - 1)
        return self.ranked[rank], self.cells[rank]


def tilt_pairs(tree: Tree, codes: Ints, unit: Floats, missing: Floats) -> dict[Pair, Floats]:
    """The tree's pairs, those of columns in products tilted by what is missing of these.

    Args:
        tree: with what was released.
        codes: bins of rows, int[m, columns].
        unit: the same rows, float[m, d].
        missing: of the average of each pair of columns of ``product_scales``, in order.
    """
    found, fixed = dict(tree.pairs), {(min(p), max(p)) for p in tree.functions}
    columns = {i: _column(tree, codes, unit, i) for i in tree.product_scales}
    for value, (i, j) in zip(missing, combinations(sorted(columns), 2), strict=True):
        if (i, j) not in found or (i, j) in fixed or abs(value) < _LEAST:
            continue
        one, two = columns[i], columns[j]
        if min(len(one.ranked), len(two.ranked)):
            goal = _held(one, two, float(np.mean(one.values * two.values) + value))
            found[i, j] = _tilted(found[i, j], one.averages, two.averages, goal)
    return found


def _column(tree: Tree, codes: Ints, unit: Floats, column: int) -> _Column:
    part, (offset, width) = tree.binnings[column].part, tree.product_scales[column]
    at = unit_column(part)
    assert at is not None
    values = np.clip((unit[:, at] - offset) / width, -1, 1)
    present = ~(unit[:, part.start + 1] > 0) if may_be_null(part) else np.ones(len(unit), dtype=bool)
    if tree.product_apart:
        values = np.where(present, values, 0.0)
    bins = tree.merges[column][codes[:, column]]
    size = int(tree.merges[column].max()) + 1
    averages = np.bincount(bins, weights=values, minlength=size) / np.maximum(np.bincount(bins, minlength=size), 1)
    order = np.flatnonzero(present)[np.argsort(values[present], kind="stable")]
    return _Column(values=values, present=present, averages=averages, ranked=values[order], cells=averages[bins[order]])


def _held(one: _Column, two: _Column, wanted: float) -> float:
    """What cells hold of a wanted average of products: all but what normal ranks with this average have within them."""
    both = float(np.mean(one.present & two.present))
    first, second = (ndtri(p).ravel() for p in np.meshgrid(_POINTS, _POINTS))
    value, cell = one.at(ndtr(first))

    def within(correlation: float) -> tuple[float, float]:
        """The average of products, and that of their bins' averages."""
        place = ndtr(correlation * first + np.sqrt(1 - correlation**2) * second)
        other, its_cell = two.at(place)
        return both * float(np.mean(value * other)), both * float(np.mean(cell * its_cell))

    low, high = -1.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle)[0] < wanted else (low, middle)
    whole, cells = within((low + high) / 2)
    return wanted + cells - whole


def _tilted(joint: Floats, one: Floats, two: Floats, goal: float) -> Floats:
    """The joint distribution of the same margins whose average of products is the goal, or as near as can be."""
    first, second, both = joint.sum(axis=1), joint.sum(axis=0), np.outer(one, two)
    found, low, high = joint, -_STEEPEST, _STEEPEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = scale_margins(joint * np.exp(middle * both), first, second)
        low, high = (middle, high) if float((found * both).sum()) < goal else (low, middle)
    return found
