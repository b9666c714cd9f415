"""Tables of counts over bins, their SQL, and their release: all that a tree sees of private rows.

A :class:`Tables` lists one- and two-way tables over merged bins; a row adds 1 to exactly one cell of each. k tables:

    relation      l1      l2 squared   linf    of the vector of all cells' counts
    ADD_REMOVE    k       k            1       one row is added or taken: one cell of each table moves by 1
    REPLACE       2 k     2 k          1       at most two cells of each table move by 1

A pair's score is sum over cells |16 N - E| - E, plus public constants, E >= 0 a public table of whole numbers (16 times
what is expected). One cell that moves by 1 moves it by at most 16: linf = 16 (ADD_REMOVE) or 32 (REPLACE).

Privacy:      tables: share * rho of zCDP by discrete Gaussian noise, or share * epsilon by discrete Laplace noise, on
              every cell of the public list, whether a row fell into it or not. Choices: ``tree_select``. The purse
              adds the shares up and refuses more than 1.
Assumes:      a privacy unit is one row of the relation; merges and expected tables are public constants or earlier
              releases.
Proof sketch: the norms above; |16 N - E| is 16-Lipschitz in N. Which keys exist is not released: cells that are absent
              from the result are 0 and are noised like the others.
Numerics:     integers throughout; the scale of a share is rounded up by core/noise, an epsilon is rounded down. Under
              REPLACE the number of rows is public and exact, so the sum of a table is.
Source:       Dwork, McSherry, Nissim, Smith 2006 (histograms); Canonne, Kamath, Steinke 2020 (discrete Gaussian). The
              use of scores against a model: McKenna, Miklau, Sheldon, "Winning the NIST contest", 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from duckdp.compiler.printing import Parameters
from duckdp.core.accountant import rho_for
from duckdp.core.noise import discrete_gaussian, discrete_laplace, gaussian_scale, laplace_scale
from duckdp.core.types import NANO, PICO, Neighbours, Sensitivity
from duckdp.errors import InternalError
from duckdp.synthetic.wide.features import Floats
from duckdp.synthetic.wide.release import Purse
from duckdp.synthetic.wide.tree_bins import Ints

GRID = 16  # of scores, per row


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
        """Counts of rows in memory, int[cells]: for tables that were made."""
        found = np.zeros(self.cells, dtype=np.int64)
        for start, shape, columns in zip(self.starts[:-1], self.shapes, self.sets, strict=True):
            merged = [self.merges[i][codes[:, i]] for i in columns]
            flat = merged[0] if len(merged) == 1 else merged[0] * shape[1] + merged[1]
            size = math.prod(shape)
            found[start : start + size] = np.bincount(flat, minlength=size)
        return found

    def print_keys(self, relation: str, names: Sequence[str], parameters: Parameters) -> str:
        """A parenthesised SELECT of (place of the table, cell) of every row and table."""
        merged = ", ".join(self._print_merged(i, name, parameters) for i, name in enumerate(names))
        rows = f"(SELECT system.main.list_value({merged}) AS g FROM {relation} AS s)"
        listed = [
            f"({place}, {start}, {columns[0] + 1}, {0 if len(columns) == 1 else shape[1]}, {columns[-1] + 1})"
            for place, (start, shape, columns) in enumerate(zip(self.starts[:-1], self.shapes, self.sets, strict=True))
        ]
        first = "system.main.list_extract(r.g, p.i) * p.width"
        cell = f"p.start + {first} + system.main.list_extract(r.g, p.j)"
        tables = f"(VALUES {', '.join(listed)}) AS p(place, start, i, width, j)"
        return f"(SELECT p.place, {cell} AS cell FROM {rows} AS r, {tables})"

    def print_counts(self, relation: str, names: Sequence[str], parameters: Parameters) -> str:
        """(cell, rows) of every cell that is not empty."""
        keys = self.print_keys(relation, names, parameters)
        return f"SELECT k.cell, system.main.count_star() FROM {keys} AS k GROUP BY k.cell"

    def print_scores(self, expected: Ints, relation: str, names: Sequence[str], parameters: Parameters) -> str:
        """(place of the table, its score without public constants) of every table that has a row."""
        keys = self.print_keys(relation, names, parameters)
        bound = f"CAST({parameters.bind([int(e) for e in expected])} AS BIGINT[])"
        counted = f"SELECT k.place, k.cell, system.main.count_star() AS n FROM {keys} AS k GROUP BY k.place, k.cell"
        e = f"system.main.list_extract({bound}, c.cell + 1)"
        wanted = f"SELECT c.place, c.n * CAST({GRID} AS BIGINT) AS n, {e} AS e"
        sums = "CAST(system.main.sum(system.main.abs(c.n - c.e) - c.e) AS HUGEINT)"
        return f"SELECT c.place, {sums} FROM ({wanted} FROM ({counted}) AS c) AS c GROUP BY c.place"

    def _print_merged(self, column: int, name: str, parameters: Parameters) -> str:
        merge = self.merges[column]
        if np.array_equal(merge, np.arange(len(merge))):
            return f"s.{name}"
        bound = parameters.bind([int(v) for v in merge])
        return f"system.main.list_extract(CAST({bound} AS INTEGER[]), s.{name} + 1)"


ReadCounts = Callable[[Tables, Ints | None], Iterable[tuple[int, int]]]
"""(tables, expected) -> (cell, rows), or (place of a table, score) where something is expected; exact, private."""


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
        InternalError: the purse is empty, or a cell is not one of the tables'.
    """
    change, cost = sensitivity(len(tables.sets), purse.neighbours), purse.take(share)
    exact = [0] * tables.cells
    for cell, rows in read(tables, None):
        if not 0 <= cell < tables.cells:
            raise InternalError("a cell lies outside its tables")
        exact[cell] = int(rows)
    if purse.gaussian:
        sigma = gaussian_scale(Fraction(cost, PICO), change.l2_squared)
        noisy, deviation = discrete_gaussian(exact, sigma), sigma
    else:
        scale = laplace_scale(Fraction(cost, NANO), change.l1)
        noisy, deviation = discrete_laplace(exact, scale), math.sqrt(2) * scale
    if purse.neighbours is Neighbours.REPLACE:
        purse.rows = float(sum(exact[: math.prod(tables.shapes[0])]))
    found = tables.split(np.array(noisy, dtype=np.float64))
    return Measured(tables=tables, counts=[np.asarray(f, dtype=np.float64) for f in found], deviation=deviation)


def exact_scores(tables: Tables, expected: Ints, read: ReadCounts) -> list[int]:
    """Distances of the tables from what is expected, int[tables], in 1/16 rows: private."""
    scores = [int(e.sum()) for e in tables.split(expected)]
    for place, part in read(tables, expected):
        scores[place] += int(part)
    return scores


def choice_epsilon(purse: Purse, share: Fraction) -> Fraction:
    """Charge a share for one exponential mechanism: its epsilon, sqrt(8 rho) under a Gaussian purse."""
    cost = purse.take(share)
    return Fraction(math.isqrt(8 * cost * PICO), PICO) if purse.gaussian else Fraction(cost, NANO)
