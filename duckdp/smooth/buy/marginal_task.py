"""All k-way marginal tables of listed columns from one release, by whichever of two ways is expected to err less.

    basis    noisy sums of the products of at most k functions of one column each (of booleans: the Fourier basis of
             conjunctions), ``SummaryTask``; cells are combinations of those of their columns, so all tables agree
    tables   every k-way table with noise of its own (``mechanisms/noisy_tables``), made to agree by least squares

Cube noise of the whole vector makes the basis the better one for pure epsilon and booleans, tables are where columns
have more values or delta allows Gaussian noise.

Privacy:      the charge, as of whichever is released.
Choice:       the least root mean square of the cells' expected standard errors: a formula over public figures.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from duckdp.catalog.table import Column, Scalar, Table
from duckdp.compiler.query import told_count
from duckdp.core.accountant import pure_rho, rho_for
from duckdp.core.nested_tables import Levels, NestedTables
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import NANO, PICO, Loss, Neighbours
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms.noisy_tables import BITS, TableNoise, change, divide, plan_gaussian, plan_laplace
from duckdp.smooth.axes import Floats
from duckdp.smooth.basis import chebyshev
from duckdp.smooth.buy.summary_task import SummaryTask, plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.range_cells import RangeAxis
from duckdp.smooth.summary import SmoothSummary
from duckdp.smooth.sums.range_read import RangeRead

MOST_CELLS = 100_000  # of all tables together
MOST_COLUMNS = 32  # each is a dimension of arrays, and numpy has no more
MOST_VALUES = 64  # of one column
_TOGETHER = 512  # cells whose half-widths are found at a time


@dataclass(frozen=True)
class MarginalCell:
    """One cell of one table: its columns, their values, the estimate, and its 95% half-width, in rows."""

    columns: tuple[str, ...]
    values: tuple[Scalar, ...]
    count: float
    half_width: float


@dataclass(frozen=True, kw_only=True)
class MarginalTask(OneRead):
    """All k-way tables of some columns; implements ``core.task.Task``.

    Attributes:
        summary: the way by the basis; its columns and charge hold for the other one too.
        read: of the tables.
        noise: of the tables.
        loss_of_tables: what they would cost.
        errors: expected standard errors of a cell, by the basis and by the tables, in rows.
        k: columns of a table.
    """

    summary: SummaryTask
    read: RangeRead
    noise: TableNoise
    loss_of_tables: Loss
    errors: tuple[float, float]
    k: int

    @property
    def table(self) -> Table:
        """The protected table that is read."""
        return self.summary.table

    @property
    def neighbours(self) -> Neighbours:
        """The relation that the charge holds for."""
        return self.summary.neighbours

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns whose tables are released."""
        return self.summary.columns

    @property
    def by_basis(self) -> bool:
        """Whether the basis is expected to err less."""
        return self.errors[0] <= self.errors[1]

    @property
    def loss(self) -> Loss:
        """What the release costs, by whichever way."""
        return self.summary.loss if self.by_basis else self.loss_of_tables

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        terms = [self.summary.canonical, self.noise.family, self.noise.scales, str(self.loss)]
        return json.dumps(["marginals", self.k, self.by_basis, *terms])

    @property
    def mechanism(self) -> str:
        """The mechanism's name in the ledger."""
        return self.summary.mechanism if self.by_basis else self.noise.family

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        found = {"columns": [c.name for c in self.columns], "k": self.k, "by": "basis" if self.by_basis else "tables"}
        scales = self.summary.plan.noise.scales if self.by_basis else self.noise.scales
        return {**found, "scales": list(scales), "neighbours": self.neighbours.value}

    def describe(self) -> list[str]:
        """What ``explain`` prints of it, line by line."""
        nested, functions = self.noise.nested, self.summary.basis.size
        ways = (
            f"{functions:,} products of functions of at most {self.k} columns, {self.summary.mechanism} noise",
            f"{len(nested.tables):,} tables by themselves, {self.noise.family} noise, least squares",
        )
        chosen, other = ways if self.by_basis else ways[::-1]
        best, next_best = sorted(self.errors)
        return [
            f"all {len(nested.tables):,} tables over {self.k} of {len(self.columns)} columns, {nested.cells:,} cells",
            f"released: {chosen}; expected standard error of a cell: {best:.3g} rows",
            f"instead of: {other}: {next_best:.3g} rows",
        ]

    def query(self, salt: int) -> PrivateQuery:
        """The one private read, as SQL of our own."""
        return self.summary.query(salt) if self.by_basis else self.read.query()

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Noise what was read. ``rows``: exact and private."""
        if self.by_basis:
            return self.summary.release(rows)
        drawn = self.noise.draw()
        return json.dumps([value + z for value, z in zip(self.read.collect(rows), drawn, strict=True)])

    def cells(self, payload: str) -> list[MarginalCell]:
        """Every cell of every table, from the stored payload."""
        if self.by_basis:
            return list(self._of_basis(SmoothSummary.load(payload)))
        return list(self._of_tables(json.loads(payload)))

    def _of_tables(self, values: Sequence[int]) -> Iterator[MarginalCell]:
        nested, noisy = self.noise.nested, np.array([v / (1 << BITS) for v in values])
        if len(noisy) != nested.cells:
            raise InternalError("other tables were released")
        for table in nested.tables:
            width = None
            for place in np.ndindex(nested.shape(table)):
                wanted = np.zeros(nested.shape(table))
                wanted[place] = 1.0
                coefficients = self.noise.estimator.coefficients(wanted, table)
                width = self.noise.half_width(coefficients, 0.95) if width is None else width  # cells are alike
                yield self._cell(table, place, float(coefficients @ noisy), width + self._rounding)

    @property
    def _rounding(self) -> float:
        """Rows of units with many weigh less, rounded down to 2^-20 each; whole rows are exact."""
        return 0.0 if self.table.unit_key is None else 2.0**-BITS * self.table.row_cap

    def _of_basis(self, summary: SmoothSummary) -> Iterator[MarginalCell]:
        first, step = 0 if summary.count is None else 1, float(1 << summary.bits)
        listed = [(t, place) for t in self.noise.nested.tables for place in np.ndindex(self.noise.nested.shape(t))]
        for start in range(0, len(listed), _TOGETHER):
            some = listed[start : start + _TOGETHER]
            rows = np.array([self.combination(table, place) for table, place in some])
            widths = summary.noise.half_widths(rows[:, first:] / step, 0.95)
            most = float(max(summary.row_cap, 1)) if summary.weighted else max(1.0, float(summary.sums[0]) * 1.5)
            widths = widths + most * (np.abs(rows) @ summary.row_errors)  # what sums are rounded by
            for (table, place), count, width in zip(some, rows @ summary.sums, widths, strict=True):
                yield self._cell(table, place, float(count), float(width))

    def combination(self, table: Levels, place: Sequence[int]) -> Floats:
        """What a cell's count is in sums of the basis: float[R]."""
        basis = self.summary.basis
        found = np.ones(basis.size)
        for i, (at, own) in enumerate(zip(table, place, strict=True)):
            factor = self._inverses[i][own] if at else np.eye(1, basis.axes[i].degree)[0]
            found *= factor[basis.indices[:, i]]
        return found

    @cached_property
    def _inverses(self) -> list[Floats]:
        """Per column what each value's indicator is in its functions: float[values, functions]."""
        axes = self.summary.basis.axes
        return [np.linalg.inv(chebyshev(a.nodes, a.degree).T).astype(np.float64) for a in axes]

    def _cell(self, table: Levels, place: Sequence[int], count: float, width: float) -> MarginalCell:
        used = [i for i, at in enumerate(table) if at]
        values = tuple((self.read.axes[i].axis.values or ())[place[i]] for i in used)
        return MarginalCell(tuple(self.columns[i].name for i in used), values, count, width)


def plan_marginals(
    table: Table, columns: Sequence[str], k: int, *, epsilon_nano: int, neighbours: Neighbours, delta_atto: int
) -> MarginalTask:
    """Plan all k-way tables; arguments and errors as ``plan_summary``.

    Raises:
        ParameterError: P107, k, a column without listed values, or too many cells.
    """
    count = len(columns)
    if count > MOST_COLUMNS:
        raise ParameterError("P107", "columns", count, f"must be at most {MOST_COLUMNS}. Ask for fewer at once.")
    if count and not 1 <= k <= count:
        raise ParameterError("P107", "k", k, f"must be from 1 to {count}, the number of columns.")
    charge: dict[str, Any] = {"epsilon_nano": epsilon_nano, "neighbours": neighbours, "delta_atto": delta_atto}
    sizes: list[int] = []
    for name in columns:
        alone = plan_summary(table, [name], **charge, wishes=Wishes(degree=2, noise="sums"))
        values = alone.basis.axes[0].values
        if values is None or not 2 <= len(values) <= MOST_VALUES:
            rule = f'"{name}" must be a boolean or have a domain of 2 to {MOST_VALUES} values.'
            raise ParameterError("P107", "columns", name, rule)
        sizes.append(len(values))
    cells = _cells_together(sizes, k)
    if cells > MOST_CELLS:
        raise ParameterError(
            "P107", "k", k, f"makes {told_count(cells)} cells, more than {MOST_CELLS:,}. Take fewer columns."
        )
    wishes = Wishes(degree=2, shape="tensor", order=k, noise="sums", weights="uniform")
    summary = plan_summary(table, columns, **charge, wishes=wishes)
    axes = tuple(RangeAxis(axis=axis, sizes=(1, axis.degree)) for axis in summary.basis.axes)
    tables = tuple(tuple(int(i in some) for i in range(count)) for some in itertools.combinations(range(count), k))
    nested = NestedTables(sizes=tuple(own.sizes for own in axes), tables=tables)
    noise, loss = _noise(table, nested, epsilon_nano, delta_atto, neighbours)
    read = RangeRead(table=table, columns=summary.columns, axes=axes, nested=nested)
    task = MarginalTask(summary=summary, read=read, noise=noise, loss_of_tables=loss, errors=(0.0, 0.0), k=k)
    errors = _basis_error(task), _tables_error(task)
    return MarginalTask(summary=summary, read=read, noise=noise, loss_of_tables=loss, errors=errors, k=k)


def _cells_together(sizes: Sequence[int], k: int) -> int:
    """How many cells all tables of k columns have, found without listing the tables, of which there may be 10^17.

    >>> _cells_together([2, 3, 5], 2)
    31
    """
    found = [1] + [0] * k
    for size in sizes:
        found = [1] + [found[j] + size * found[j - 1] for j in range(1, k + 1)]
    return found[k]


def _noise(
    table: Table, nested: NestedTables, epsilon_nano: int, delta_atto: int, neighbours: Neighbours
) -> tuple[TableNoise, Loss]:
    """The law of the tables' noise, and its cost: Laplace, or Gaussian where that is less."""
    one = change(table.max_rows if table.unit_key is not None else 1, neighbours)
    shares = divide([1.0] * len(nested.tables))
    found = [
        (
            plan_laplace(nested, shares, one, Fraction(epsilon_nano, NANO)),
            Loss(epsilon_nano=epsilon_nano, rho_pico=pure_rho(epsilon_nano)),
        )
    ]
    rho = rho_for(epsilon_nano, delta_atto) if delta_atto else 0
    if rho:  # the smallest epsilon and delta leave none
        loss = Loss(epsilon_nano=epsilon_nano, delta_atto=delta_atto, rho_pico=rho)
        found.append((plan_gaussian(nested, shares, one, Fraction(rho, PICO)), loss))
    return min(found, key=lambda pair: pair[0].laws[0].variance())


def _basis_error(task: MarginalTask) -> float:
    """Root mean square of the cells' standard errors, over one cell of each table."""
    noise, bits = task.summary.plan.noise, task.summary.moments.bits
    first = 1 if task.summary.count_public else 0
    squares = []
    for table in task.noise.nested.tables:
        place = tuple(size // 2 for size in task.noise.nested.shape(table))
        squares.append((noise.standard_error(task.combination(table, place)[first:]) / 2.0**bits) ** 2)
    return math.sqrt(float(np.mean(squares)))


def _tables_error(task: MarginalTask) -> float:
    estimator, squares = task.noise.estimator, []
    for table in task.noise.nested.tables:
        wanted = np.zeros(task.noise.nested.shape(table))
        wanted.flat[0] = 1.0
        squares.append(estimator.variance(wanted, table))
    return math.sqrt(float(np.mean(squares))) / (1 << BITS)
