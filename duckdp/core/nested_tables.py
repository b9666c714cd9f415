"""Tables of counts at several levels of detail, and the best linear estimates from all of them together.

Each column has levels 0 .. h of cells: level 0 is one cell that holds everything, and every cell of a level is divided
into as many cells of the next. A table is a choice of one level per column, and counts rows by the product of these
cells; a column at level 0 is not in the table. Noise of variance v_t is added to every cell of table t, independently.
What is asked for is a sum w . x over the counts x of the finest cells, w constant on the cells of some table.

Estimate:     the unbiased linear one of least variance, from all tables at once (weighted least squares): any two
              estimates add up as true counts do, whatever table they seem to be of.
Proof sketch: let A_t add up x to the cells of t, n_t of them, and P_t average over each, so A_t' A_t = s_t P_t, s_t the
              finest cells in one of t, proportional to 1 / n_t. Gauss and Markov: the estimate is sum_t c_t . y_t with
              c_t = A_t m / v_t and (sum_t A_t' A_t / v_t) m = w. All P_t commute: averages over nested cells, column by
              column. With Q_k = prod_i (P_(k_i) - P_(k_i - 1)), the part of level vector k, P_t = sum_(k <= t) Q_k. So
              m = sum_k Q_k w / lambda_k with lambda_k = sum_(t >= k) s_t / v_t, and c_t is (s_t / v_t) m averaged
              over its cells: sum_(k <= t) Q_k w (s_t / v_t) / lambda_k. Only parts with Q_k w != 0 need lambda_k > 0:
              those of levels at or below the table that w is of. The scale of s_t cancels.
Numerics:     floats, of public and released figures only; relative errors of about 2^-50 times the number of levels.
Source:       Hay, Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially private histograms through
              consistency", VLDB 2010 (one column, one variance); the closed form for all columns and variances is ours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from duckdp.errors import InternalError

Floats = NDArray[np.float64]
Levels = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class NestedTables:
    """Which tables of counts there are, over which cells.

    Attributes:
        sizes: per column, the number of cells at each level: 1 first, each a multiple of the one before.
        tables: one level per column each, no two alike.

    >>> two = NestedTables(sizes=((1, 2), (1, 3, 6)), tables=((1, 0), (0, 2), (1, 1)))
    >>> [two.shape(t) for t in two.tables], two.cells
    ([(2, 1), (1, 6), (2, 3)], 14)
    """

    sizes: tuple[tuple[int, ...], ...]
    tables: tuple[Levels, ...]

    def __post_init__(self) -> None:
        for own in self.sizes:
            if not own or own[0] != 1 or any(a < 1 or b % a or b == a for a, b in itertools.pairwise(own)):
                raise InternalError("the cells of a column are not nested")
        for table in self.tables:
            if len(table) != len(self.sizes) or not all(
                0 <= at < len(own) for at, own in zip(table, self.sizes, strict=True)
            ):
                raise InternalError("a table has levels that its columns lack")
        if not self.tables or len(set(self.tables)) != len(self.tables):
            raise InternalError("no tables, or a table twice")

    def shape(self, table: Levels) -> tuple[int, ...]:
        """How many cells a table has along each column."""
        return tuple(own[at] for own, at in zip(self.sizes, table, strict=True))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the cells of each table begin in a vector of all, and how many there are."""
        return (0, *itertools.accumulate(math.prod(self.shape(t)) for t in self.tables))

    @property
    def cells(self) -> int:
        """How many cells all tables have together."""
        return self.starts[-1]

    def split(self, values: Floats) -> list[Floats]:
        """A vector over all cells as one array per table."""
        parts = zip(self.tables, self.starts[:-1], self.starts[1:], strict=True)
        return [values[a:b].reshape(self.shape(t)) for t, a, b in parts]

    def answers(self, table: Levels) -> bool:
        """Whether sums over cells of such a table can be estimated: every part of it is in some table."""
        return any(all(a <= b for a, b in zip(table, known, strict=True)) for known in self.tables)


@dataclass(frozen=True, eq=False)
class Estimator:
    """The best linear estimates from tables whose noise has known variances.

    Attributes:
        nested: the tables.
        variances: of a cell's noise, per table.
    """

    nested: NestedTables
    variances: tuple[float, ...]

    @cached_property
    def _weights(self) -> Floats:
        """What s_t / v_t is, up to a factor: float[tables]."""
        return np.asarray(self._exact_weights / self._largest)

    @cached_property
    def _exact_weights(self) -> Floats:
        sizes = [math.prod(self.nested.shape(t)) for t in self.nested.tables]
        return np.asarray(1.0 / (np.array(sizes, dtype=np.float64) * np.array(self.variances)))

    @cached_property
    def _largest(self) -> float:
        return float(self._exact_weights.max())

    @cached_property
    def _tables(self) -> NDArray[np.int64]:
        return np.array(self.nested.tables, dtype=np.int64)

    def _total(self, part: Levels) -> float:
        """What lambda_k is, in the units of ``_weights``."""
        return float(self._weights[(self._tables >= np.array(part)).all(axis=1)].sum())

    def coefficients(self, wanted: Floats, table: Levels) -> Floats:
        """What each noisy cell counts for: float[cells], all tables one after the other.

        Args:
            wanted: w over the cells of ``table``, in its shape.
            table: a level per column; every part of it must be in some table.

        Raises:
            InternalError: some part is in none.
        """
        parts = self._parts(wanted, table)
        found = np.zeros(self.nested.cells)
        for t, own, begin, end in zip(
            self.nested.tables, self._weights.tolist(), self.nested.starts[:-1], self.nested.starts[1:], strict=True
        ):
            inside = [spread for part, spread in parts if all(a <= b for a, b in zip(part, t, strict=True))]
            shape = self.nested.shape(t)
            total = np.zeros(shape)
            for spread in inside:
                total += _spread(spread, shape)
            found[begin:end] = own * total.ravel()
        return found

    def variance(self, wanted: Floats, table: Levels) -> float:
        """The variance of the estimate's noise: sum_k |Q_k w|^2 / lambda_k; arguments as :meth:`coefficients`."""
        found = 0.0
        for levels, part in self._parts(wanted, table):
            total = self._total(levels)  # the part is divided by it
            cells = math.prod(self.nested.shape(levels))
            found += float(np.square(part).sum()) * total / cells
        return found / self._largest

    def _parts(self, wanted: Floats, table: Levels) -> list[tuple[Levels, Floats]]:
        """Every part Q_k w / lambda_k, on the cells of its own levels."""
        if wanted.shape != self.nested.shape(table):
            raise InternalError("the wanted sum is not over the cells of its table")
        found: list[tuple[Levels, Floats]] = [((), np.asarray(wanted, dtype=np.float64))]
        for column, (own, at) in enumerate(zip(self.nested.sizes, table, strict=True)):
            found = [
                ((*levels, k), part) for levels, whole in found for k, part in enumerate(_along(whole, column, own, at))
            ]
        divided = []
        for levels, part in found:
            total = self._total(levels)
            if total <= 0:
                raise InternalError("no table tells what is asked for")
            divided.append((levels, part / total))
        return divided


def _along(whole: Floats, column: int, sizes: Sequence[int], at: int) -> list[Floats]:
    """Q_0 w, ..., Q_at w along one column, each on the cells of its level."""
    means = [_averaged(whole, column, size) for size in sizes[: at + 1]]
    return [
        mean if k == 0 else mean - np.repeat(means[k - 1], sizes[k] // sizes[k - 1], axis=column)
        for k, mean in enumerate(means)
    ]


def _averaged(whole: Floats, column: int, size: int) -> Floats:
    shape = list(whole.shape)
    shape[column : column + 1] = [size, shape[column] // size]
    return np.asarray(whole.reshape(shape).mean(axis=column + 1))


def _spread(values: Floats, shape: Sequence[int]) -> Floats:
    """The same on the cells of finer levels."""
    for column, size in enumerate(shape):
        if values.shape[column] not in (1, size):
            values = np.repeat(values, size // values.shape[column], axis=column)
    return np.broadcast_to(values, shape)
