"""Tables of counts over bins, and their release: all that a tree sees of private rows.

A :class:`Tables` lists one- and two-way tables over merged bins; a row adds 1 to exactly one cell of each. k tables:

    relation      l1      l2 squared   linf    of the vector of all cells' counts
    ADD_REMOVE    k       k            1       one row is added or taken: one cell of each table moves by 1
    REPLACE       2 k     2 k          1       at most two cells of each table move by 1

A pair's score is sum over cells |16 N - E|, minus public constants, E >= 0 a public table of whole numbers (16 times
what is expected). One cell that moves by 1 moves it by at most 16: linf = 16 (ADD_REMOVE) or 32 (REPLACE).

Privacy:      tables: share * rho of zCDP by discrete Gaussian noise, or share * epsilon by discrete Laplace noise, on
              every cell of the public list, whether a row fell into it or not. Choices: ``tree_select``. The purse
              adds the shares up and refuses more than 1.
Assumes:      a privacy unit is one row of the relation; merges and expected tables are public constants or earlier
              releases.
Proof sketch: the norms above; |16 N - E| is 16-Lipschitz in N. Every cell is counted, from 0, and noised.
Numerics:     integers throughout, of 64 bits for counts and scores: up to 2^58 rows. The scale of a share is rounded up
              by core/noise, an epsilon is rounded down. Under REPLACE the number of rows is public and exact, so the
              sum of a table is.
Source:       Dwork, McSherry, Nissim, Smith 2006 (histograms); Canonne, Kamath, Steinke 2020 (discrete Gaussian). The
              use of scores against a model: McKenna, Miklau, Sheldon, "Winning the NIST contest", 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.core.accountant import rho_for
from duckdp.core.noise import gaussian_noise, gaussian_scale, laplace_noise, laplace_scale
from duckdp.core.types import NANO, PICO, Neighbours, Sensitivity
from duckdp.errors import InternalError
from duckdp.synthetic.wide.features import Floats
from duckdp.synthetic.wide.release import Purse
from duckdp.synthetic.wide.tree_bins import Ints

GRID = 16  # of scores, per row
_BLOCK = 1 << 14  # rows that are counted at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """One- and two-way tables.

    Attributes:
        merges: per column, the merged bin of each bin, int[size].
        sets: one or two columns each.
    """

    merges: tuple[Ints, ...]
    sets: tuple[tuple[int, ...], ...]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Merged bins per column."""
        return tuple(int(m.max()) + 1 for m in self.merges)

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of each table."""
        return tuple(tuple(self.sizes[i] for i in columns) for columns in self.sets)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First cell of each table, and the number of all cells."""
        return tuple(int(s) for s in np.concatenate([[0], np.cumsum([math.prod(s) for s in self.shapes])]))

    @property
    def cells(self) -> int:
        """Cells of all tables."""
        return self.starts[-1]

    def split(self, values: NDArray[np.generic]) -> list[NDArray[np.generic]]:
        """A vector over all cells as one array per table."""
        return [
            values[a:b].reshape(s) for a, b, s in zip(self.starts[:-1], self.starts[1:], self.shapes, strict=True)
        ]  # fmt: skip

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


ReadCounts = Callable[[Tables], Ints]
"""Exact counts of all cells, int[cells]: private."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """Released tables: public.

    Attributes:
        tables: which.
        counts: float[...] each, with noise in every cell.
        deviation: standard deviation of that noise, rows.
    """

    tables: Tables
    counts: list[Floats]
    deviation: float


def sensitivity(tables: int, neighbours: Neighbours) -> Sensitivity:
    """Norms of the change of the counts of so many tables, in rows."""
    move = 2 if neighbours is Neighbours.REPLACE else 1
    return Sensitivity(l1=tables * move, l2_squared=tables * move, linf=1)


def score_change(neighbours: Neighbours) -> int:
    """Largest change of one score, in 1/16 rows."""
    return GRID * (2 if neighbours is Neighbours.REPLACE else 1)


def predicted_deviation(tables: int, share: float, purse: Purse) -> float:
    """Standard deviation of a cell, rows, from public figures."""
    change = sensitivity(max(1, tables), purse.neighbours)
    if purse.gaussian:
        rho = rho_for(purse.epsilon_nano, purse.delta_atto) / PICO * share
        return math.sqrt(change.l2_squared / (2 * rho))
    return math.sqrt(2) * change.l1 / (purse.epsilon_nano / NANO * share)


def measure(tables: Tables, purse: Purse, share: Fraction, read: ReadCounts) -> Measured:
    """Release tables for a share of the purse.

    Raises:
        InternalError: the purse is empty, or the counts are not the tables'.
    """
    change, cost = sensitivity(len(tables.sets), purse.neighbours), purse.take(share)
    exact = [int(n) for n in read(tables)]
    if len(exact) != tables.cells:
        raise InternalError("the counts are not those of the tables' cells")
    if purse.gaussian:
        deviation = gaussian_scale(Fraction(cost, PICO), change.l2_squared)
        drawn = gaussian_noise(tables.cells, deviation)
    else:
        scale = laplace_scale(Fraction(cost, NANO), change.l1)
        drawn, deviation = laplace_noise(tables.cells, scale), math.sqrt(2) * scale
    if purse.neighbours is Neighbours.REPLACE:
        purse.rows = float(sum(exact[: math.prod(tables.shapes[0])]))
    noisy = [value + z for value, z in zip(exact, drawn, strict=True)]
    found = tables.split(np.array(noisy, dtype=np.float64))
    return Measured(tables=tables, counts=[np.asarray(f, dtype=np.float64) for f in found], deviation=deviation)


def exact_scores(tables: Tables, expected: Ints, read: ReadCounts) -> list[int]:
    """Distances of the tables from what is expected, int[tables], in 1/16 rows: private."""
    return [int(part.sum()) for part in tables.split(np.abs(GRID * read(tables) - expected))]


def choice_epsilon(purse: Purse, share: Fraction) -> Fraction:
    """Charge a share for one exponential mechanism: its epsilon, sqrt(8 rho) under a Gaussian purse."""
    cost = purse.take(share)
    return Fraction(math.isqrt(8 * cost * PICO), PICO) if purse.gaussian else Fraction(cost, NANO)
