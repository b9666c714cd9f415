"""Tables of counts over bins: their cells, how far one row can move them, and the noise that a cell will have.

A :class:`Tables` lists one- and two-way tables over merged bins. Every row has exactly one bin in every column, so it
adds 1 to exactly one cell of each table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.core.accountant import rho_for
from duckdp.core.types import NANO, PICO, Neighbours, Sensitivity
from duckdp.synthetic.tree.bins import Ints
from duckdp.synthetic.unit.charge_terms import Terms

_BLOCK = 1 << 14  # rows that are counted at a time: their codes stay in the processor's cache


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """One-way and two-way tables of the same rows.

    Attributes:
        merges: per column, the merged bin of each bin, int[size].
        sets: one or two columns each.
    """

    merges: tuple[Ints, ...]
    sets: tuple[tuple[int, ...], ...]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many bins each column has after merging."""
        return tuple(int(m.max()) + 1 for m in self.merges)

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each table, (bins of its columns)."""
        return tuple(tuple(self.sizes[i] for i in columns) for columns in self.sets)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First cell of each table, and the number of all cells."""
        return tuple(int(s) for s in np.concatenate([[0], np.cumsum([math.prod(s) for s in self.shapes])]))

    @property
    def cells(self) -> int:
        """How many cells all tables have together."""
        return self.starts[-1]

    def split(self, values: NDArray[np.generic]) -> list[NDArray[np.generic]]:
        """A vector over all cells as one array per table."""
        return [values[a:b].reshape(s) for a, b, s in zip(self.starts[:-1], self.starts[1:], self.shapes, strict=True)]

    def count(self, codes: Ints) -> Ints:
        """Counts of rows in memory, int[cells], of int[n, columns]."""
        found = np.zeros(self.cells, dtype=np.int64)
        for first in range(0, len(codes), _BLOCK):
            self.add(found, [codes[first : first + _BLOCK, i] for i in range(codes.shape[1])])
        return found

    def add(self, counts: Ints, codes: Sequence[NDArray[np.integer[Any]]]) -> None:
        """Add rows, one array of bins per column, to the counts, in place. Total: whatever a code, it has a cell."""
        used = {i for columns in self.sets for i in columns}
        merged = {i: np.take(self.merges[i], codes[i], mode="clip") for i in used}
        for start, shape, columns in zip(self.starts[:-1], self.shapes, self.sets, strict=True):
            flat = merged[columns[0]]
            flat = flat if len(columns) == 1 else flat * shape[1] + merged[columns[1]]
            size = math.prod(shape)
            counts[start : start + size] += np.bincount(flat, minlength=size)

    def count_batches(self, batches: Iterable[Sequence[NDArray[np.integer[Any]]]]) -> Ints:
        """Counts of rows that cross in batches of columns, int[cells]; none of them is kept."""
        found = np.zeros(self.cells, dtype=np.int64)
        for batch in batches:
            for first in range(0, len(batch[0]), _BLOCK):
                self.add(found, [codes[first : first + _BLOCK] for codes in batch])
        return found


def sensitivity(tables: int, neighbours: Neighbours) -> Sensitivity:
    """Norms of the change of the counts of so many tables, in rows."""
    move = 2 if neighbours is Neighbours.REPLACE else 1
    return Sensitivity(l1=tables * move, l2_squared=tables * move, linf=1)


def predicted_deviation(tables: int, share: float, terms: Terms) -> float:
    """Standard deviation of a cell, rows, from public figures."""
    change = sensitivity(max(1, tables), terms.neighbours)
    if terms.gaussian:
        rho = rho_for(terms.epsilon_nano, terms.delta_atto) / PICO * share
        return math.sqrt(change.l2_squared / (2 * rho))
    return math.sqrt(2) * change.l1 / (terms.epsilon_nano / NANO * share)
