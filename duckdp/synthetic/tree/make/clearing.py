"""Bought pairs of columns cleared of what noise put far from the line, until they have the released products.

A table of two columns has noise of one deviation s in all cells. Cut off at 0 it leaves a few rows in many cells that
have none, and those far from where most lie weaken the link, which a released product knows better. So every cell gives

    min(t d, 2 s)      d: its squared distance from the line on which both columns' functions, standardized, are alike

and the margins are restored by proportional fitting; t is found by halving, such that the cells' average of h, the
product as it was released, is the wanted one, or as near as can be. No cell gives more than noise may have put there,
so that those with many rows stay as they were counted. Where all rows change places instead (``matching``), or a
table is tilted by exp(t f g), the least change in relative entropy, what lies near the line is drawn nearer.

In a vector with a bound (``unit.normed``) rows are scaled down by the norm of all their products: h is the product so
scaled, with the average of other columns in the norm.

Of the wanted average cells hold one part, and what hangs together within them the other; within them values are dealt
independently. That other part is between nothing and what a pair of normal variables would have, in the ranks of the
columns' values, whose products have the wanted average. A table is cleared to the nearest average that leaves so
much, the rest is left to ``matching``: one that holds all of it stays, and so does one of few wide cells.
Post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import ndtr, ndtri

from duckdp.synthetic.tree.bins import Ints
from duckdp.synthetic.tree.make.estimates import scale_margins
from duckdp.synthetic.tree.make.forest import Pair, Tree
from duckdp.synthetic.tree.scales import may_be_null, unit_column
from duckdp.synthetic.unit.features import Floats

_NOISE = 2.0  # deviations of a cell's noise, that a cell gives at most
_KEPT = 1e-3  # of a cell's share, that it keeps
_RANGE = 30.0  # of the logarithm of t
_MARGINS = 1e-3  # l1 distance from the margins, beyond which they count as not restored
_HALVINGS = 30  # of that, and of a correlation
_LEAST = 1e-7  # gap of an average of products, of which less is none
_SPREAD = 1e-18  # of a column from -1 to 1; of one whose rows are all in one cell there is none to divide by
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


@dataclass(frozen=True, kw_only=True)
class _Product:
    """The product h of two columns as it was released, for a row whose other columns are usual.

    Attributes:
        bound: on the norm of a row's products; infinite where they have none.
        squared: whether that norm is l2, else l1.
        single: of other columns, average of the sum of absolute values, or of squares.
        paired: the same of products of two of them.
    """

    bound: float
    squared: bool
    single: float
    paired: float

    def __call__(self, one: Floats, two: Floats) -> Floats:
        size, other = (one**2, two**2) if self.squared else (np.abs(one), np.abs(two))
        norm = size * other + (size + other) * self.single + self.paired
        norm = np.sqrt(norm) if self.squared else norm
        return np.asarray(one * two * np.minimum(1.0, self.bound / np.maximum(norm, _LEAST**2)))


def _product(tree: Tree, columns: dict[int, _Column], i: int, j: int) -> _Product:
    power, rest = 2 if tree.product_squared else 1, [c for k, c in columns.items() if k not in (i, j)]
    sizes = [np.abs(c.values) ** power for c in rest]
    whole = np.sum(sizes, axis=0) if sizes else np.zeros(1)
    paired = (whole**2 - np.sum([size**2 for size in sizes], axis=0)) / 2 if sizes else np.zeros(1)
    return _Product(
        bound=tree.product_bound or np.inf,
        squared=tree.product_squared,
        single=float(whole.mean()),
        paired=float(paired.mean()),
    )


def clear_pairs(
    tree: Tree, codes: Ints, unit: Floats, missing: Floats, deviations: Mapping[Pair, float]
) -> dict[Pair, Floats]:
    """The tree's pairs, those that were bought of columns in products cleared by what is missing of these.

    Args:
        tree: with what was released.
        codes: bins of rows, int[m, columns].
        unit: the same rows, float[m, d].
        missing: of the average of each pair of columns of ``product_scales``, in order, as it was released.
        deviations: of the noise of bought tables, rows.
    """
    found = dict(tree.pairs)
    columns = {i: _column(tree, codes, unit, i) for i in tree.product_scales}
    for value, (i, j) in zip(missing, combinations(sorted(columns), 2), strict=True):
        if (i, j) not in deviations or abs(value) < _LEAST:
            continue
        most = _NOISE * deviations[i, j] / max(tree.rows, 1.0)
        one, two = columns[i], columns[j]
        if min(len(one.ranked), len(two.ranked)):
            product = _product(tree, columns, i, j)
            cells = product(one.averages[:, None], two.averages)
            now = float((found[i, j] * cells).sum())
            wanted = now + float(value)
            low, high = sorted((wanted, wanted - _within(one, two, wanted, product)))
            goal = min(max(now, low), high)
            if abs(goal - now) > _LEAST and goal * (goal - now) > 0:  # noise weakens: what is too strong is chance
                found[i, j] = _cleared(found[i, j], cells, _far(found[i, j], one, two, rising=goal > now), goal, most)
    return found


def _far(joint: Floats, one: _Column, two: _Column, *, rising: bool) -> Floats:
    """Of each cell its squared distance from the rising or the falling line, float[a, b]."""
    first, second = joint.sum(axis=1), joint.sum(axis=0)
    a, b = one.averages - first @ one.averages, two.averages - second @ two.averages
    a, b = a / np.sqrt(first @ a**2 + _SPREAD), b / np.sqrt(second @ b**2 + _SPREAD)
    return np.asarray((a[:, None] - (b if rising else -b)) ** 2)


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


def _within(one: _Column, two: _Column, wanted: float, product: _Product) -> float:
    """What normal ranks with a wanted average of products have of it within cells."""
    both = float(np.mean(one.present & two.present))
    first, second = (ndtri(p).ravel() for p in np.meshgrid(_POINTS, _POINTS))
    value, cell = one.at(ndtr(first))

    def averages(correlation: float) -> tuple[float, float]:
        """Of products, and of those of their bins' averages."""
        other, its_cell = two.at(ndtr(correlation * first + np.sqrt(1 - correlation**2) * second))
        return both * float(np.mean(product(value, other))), both * float(np.mean(product(cell, its_cell)))

    low, high = -1.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if averages(middle)[0] < wanted else (low, middle)
    whole, cells = averages((low + high) / 2)
    return whole - cells


def _cleared(joint: Floats, cells: Floats, far: Floats, goal: float, most: float) -> Floats:
    """A joint distribution of the same margins whose average over cells is the goal, or as near as can be.

    Args:
        joint: shares of cells.
        cells: what is averaged.
        far: of each cell its squared distance from the line.
        goal: the wanted average.
        most: what noise may have put into a cell.
    """
    first, second = joint.sum(axis=1), joint.sum(axis=0)
    now = float((joint * cells).sum())
    found, least, low, high = joint, abs(goal - now), -_RANGE, _RANGE
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        cleared = scale_margins(
            np.maximum(joint - np.minimum(np.exp(middle) * far, most), joint * _KEPT), first, second
        )
        short = (goal - float((cleared * cells).sum())) / (goal - now)  # of the way, what is left
        off = float(np.abs(cleared.sum(axis=0) - second).sum())
        if off <= _MARGINS and abs(short * (goal - now)) < least:
            found, least = cleared, abs(short * (goal - now))
        low, high = (middle, high) if off <= _MARGINS and 0 < short <= 1 else (low, middle)
    return found
