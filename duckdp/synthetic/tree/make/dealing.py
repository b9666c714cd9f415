"""Rows from shares and pair distributions: every column after its parents, by controlled rounding.

A column without a parent gets m p(b) rows of each bin, rounded. With parents, whose rows exist, the joint distribution
of (the parents' merged bins, its own merged bin) is the one of largest entropy with the parents' joint shares, as the
rows have them, and the wanted pairs: iterative proportional fitting; where noisy pairs contradict each other, its own
shares hold in the end. Each parents' cell deals out its rows by it; what
rounding leaves over is carried to the next cell, so that a bin's total is m p(b) to about one row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from duckdp.synthetic.tree.bins import Ints
from duckdp.synthetic.tree.make.estimates import merged, scale_margins
from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.uniforms import uniforms

_FITTINGS = 30  # rounds of proportional fitting for a column of several parents
_PARENTS = 3  # columns that a column follows, at most
_MOST_CELLS = 200_000  # of a column's bins with those of its parents (half a second), unless there is one
_FLOOR = 1e-12  # added to shares, so that none is 0 where fitting divides


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """What rows are made from: public.

    Attributes:
        shares: per column, float[B].
        merges: per column, int[B].
        pairs: (i, j), i < j -> joint distribution of their merged bins.
    """

    shares: Sequence[Floats]
    merges: Sequence[Ints]
    pairs: Mapping[tuple[int, int], Floats]

    def pair(self, first: int, second: int) -> Floats:
        """The joint distribution, the columns in this order."""
        return self.pairs[first, second] if first < second else self.pairs[second, first].T


def order_columns(sizes: Sequence[int], pairs: Sequence[tuple[int, int]], root: int) -> list[tuple[int, list[int]]]:
    """Columns with their parents, parents first; from the root along the pairs in their order.

    Args:
        sizes: merged bins per column.
        pairs: linked columns, the most important first.
        root: where to start.
    """
    order, waiting = [root], [c for c in range(len(sizes)) if c != root]
    while waiting:
        known = set(order)
        linked = next((q if p in known else p for p, q in pairs if (p in known) != (q in known)), waiting[0])
        order.append(linked)
        waiting.remove(linked)
    place = {c: i for i, c in enumerate(order)}
    parents: dict[int, list[int]] = {c: [] for c in order}
    for p, q in pairs:
        early, late = (p, q) if place[p] < place[q] else (q, p)
        cells = math.prod(sizes[c] for c in (late, early, *parents[late]))
        if len(parents[late]) < _PARENTS and (cells <= _MOST_CELLS or not parents[late]):
            parents[late].append(early)
    return [(c, parents[c]) for c in order]


def make_codes(model: Model, order: Sequence[tuple[int, list[int]]], rows: int) -> Ints:
    """Bins of m rows, int[m, columns]."""
    codes = np.zeros((rows, len(model.shares)), dtype=np.int64)
    for column, parents in order:
        shares, merge = model.shares[column], model.merges[column]
        if not parents:
            cells = np.zeros(rows, dtype=np.int64)
            codes[:, column] = _deal(cells, shares[None, :])
            continue
        states = [model.merges[p][codes[:, p]] for p in parents]
        sizes = [len(merged(model.shares[p], model.merges[p])) for p in parents]
        cells = np.ravel_multi_index(tuple(states), tuple(sizes))
        joint = _joint(model, column, parents, cells, sizes)
        own = _deal(cells, joint)
        codes[:, column] = _deal(own, (merge == np.arange(int(merge.max()) + 1)[:, None]) * shares)
    return codes


def _joint(model: Model, column: int, parents: Sequence[int], cells: Ints, sizes: Sequence[int]) -> Floats:
    """Distribution of (the parents' cell, the column's merged bin), float[cells, bins]."""
    own = merged(model.shares[column], model.merges[column])
    present = np.bincount(cells, minlength=int(np.prod(sizes))) / len(cells)
    joint = (present[:, None] * own).reshape(*sizes, len(own))
    wanted = []
    for axis, parent in enumerate(parents):
        others = tuple(k for k in range(len(sizes)) if k != axis)
        have = present.reshape(sizes).sum(axis=others)
        wanted.append(scale_margins(model.pair(parent, column) + _FLOOR, have, own))
    for _ in range(1 if len(parents) == 1 else _FITTINGS):
        for axis, pair in enumerate(wanted):
            others = tuple(k for k in range(len(sizes)) if k != axis)
            ratio = pair / np.maximum(joint.sum(axis=others), 1e-300)
            shape = [1] * len(sizes) + [len(own)]
            shape[axis] = sizes[axis]
            joint = joint * ratio.reshape(shape)
    return scale_margins(joint.reshape(-1, len(own)) + _FLOOR * np.outer(present, own), present, own)


def _deal(cells: Ints, weights: Floats) -> Ints:
    """A value for every row by its cell's weights, in random order within a cell: int[m].

    Args:
        cells: int[m].
        weights: float[cells, values]; a cell without weight deals its rows out evenly.
    """
    rows, values = len(cells), weights.shape[1]
    order = np.lexsort((uniforms(rows, 1)[:, 0], cells))
    counts = np.bincount(cells, minlength=len(weights))
    found, carried, start = np.empty(rows, dtype=np.int64), np.zeros(values), 0
    for cell in np.flatnonzero(counts):
        weight, count = weights[cell] + 1e-300, int(counts[cell])
        wanted = count * weight / weight.sum()
        goal = np.where(wanted > 1e-9, wanted + carried, 0.0)
        dealt = _round_to(goal, count, wanted)
        carried += wanted - dealt
        found[order[start : start + count]] = np.repeat(np.arange(values), dealt)
        start += count
    return found


def _round_to(goal: Floats, count: int, wanted: Floats) -> Ints:
    """Whole numbers, at least 0, near the goal, that sum to count; ties at random."""
    whole = np.maximum(0, np.floor(goal)).astype(np.int64)
    gap = count - int(whole.sum())
    noise = uniforms(1, len(goal))[0] * 1e-6
    if gap > 0:
        left = np.where(wanted > 1e-9, goal - whole + noise, -np.inf)
        best = np.argsort(-left)
        usable = best[: max(1, int(np.sum(wanted > 1e-9)))]
        np.add.at(whole, np.resize(usable, gap), 1)
    while gap < 0:
        loss = np.where(whole > 0, goal - whole + noise, np.inf)
        take = np.argsort(loss)[: min(-gap, int(np.sum(whole > 0)))]
        whole[take] -= 1
        gap += len(take)
    return whole
