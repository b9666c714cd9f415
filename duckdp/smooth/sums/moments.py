"""Exact sums of a basis over the rows of a protected table, and the path that computes them.

    sums      one SUM per function inside DuckDB (``direct``)
    cells     cells counted inside DuckDB with local moments, and an expansion (``cells``)
    blocks    rows streamed, exact matrix products (``block_values``)
    grid      rows moved to a grid and counted by cell inside DuckDB (``grid``); never chosen, only asked for

The path, its cells and its grid follow from public figures alone (``paths``).

Privacy:      :meth:`MomentPlan.norms` bounds what neighbours change in the integers of :meth:`MomentPlan.collect`.
Source:       ours; each path has its proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from duckdp.catalog.table import Column, Table
from duckdp.core.reads import PrivateQuery
from duckdp.core.types import Neighbours, Sensitivity
from duckdp.errors import InternalError, ParameterError
from duckdp.smooth.axes import Floats
from duckdp.smooth.basis import Basis
from duckdp.smooth.sums.blocks import FACTOR_BITS, ROW_ERROR, BlockSums
from duckdp.smooth.sums.cells import CellSums, Grid
from duckdp.smooth.sums.direct import MOST_BITS, DirectSums, bits_without_clamp
from duckdp.smooth.sums.grid import GridSums
from duckdp.smooth.sums.paths import block_cost, choose_cells, sums_cost

MIN_BITS = 10  # fractional bits of the grid; a coarser one is refused
CELL_BITS = 30  # a cell's rounding is coarser than a finer grid
RELATIVE_COST = 0.25  # seconds, estimated, that errors relative to weights may take
RELATIVE_ERROR = 0.005  # of a row's weight, in l2 over all functions: what lets l1 of kernels grow by about as much
PATHS = ("auto", "sums", "cells", "blocks")
_RANGE = 2**62  # of core/noise


class Program(Protocol):
    """A path: its query, and the sums from the rows that the query gives."""

    def query(self) -> PrivateQuery:
        """The one private read, as SQL of our own."""

    def collect(self, rows: Iterable[tuple[Any, ...]]) -> list[int]:
        """The exact sums, int[R], from the rows of the read."""


@dataclass(frozen=True, kw_only=True)
class MomentPlan:
    """How the sums of a summary are computed. Public.

    Attributes:
        path: name of the way.
        bits: the integers are in units of 2^-bits.
        row_error: bound on |computed - exact| of one function at one row (rounding, truncation, recurrence).
        level_errors: the same for the functions of each total degree, from 0 on; empty where all have the same.
        excess: bound on (|computed| - 1) of one function at one row, 0 where the path keeps to [-1, 1].
        basis: the functions.
        max_rows: rows of one unit that count.
        program: the path itself.
        relative: whether row_error is of the row's own weight, however little it weighs, and not of a whole row's.
    """

    path: str
    bits: int
    row_error: float
    level_errors: tuple[float, ...] = ()
    excess: float
    basis: Basis
    max_rows: int
    program: Program
    relative: bool = False

    def norms(self, neighbours: Neighbours, *, count_public: bool) -> Sensitivity:
        """Bounds of the change of the integers between neighbours, in units of 2^-bits.

        Proof sketch: let q be what one row adds, before the total is rounded to the grid, times S = 2^bits; u rows of
                      one unit weigh. |q| <= W (1 + excess), |q - W Phi| <= W row_error (one row, W = S, for REPLACE).
                      ADD_REMOVE: a coordinate moves by at most u S (1 + excess), rounded up; rounding a total commutes
                      with whole shifts, so it adds nothing. REPLACE: by the same with a 2, and in the norms by at most
                      that of the exact vectors, of which ``Basis.norms`` bounds S times the norm plus the rounding and
                      the error of the recurrence, plus 2 S (row_error - that error) per coordinate.
        """
        base = self.basis.norms(neighbours, bits=self.bits, max_rows=self.max_rows, count_public=count_public)
        unit = self.max_rows << self.bits
        above = math.ceil(unit * Fraction(self.excess))
        if neighbours is Neighbours.REPLACE:
            above *= 2
            known = Fraction(self.basis.float_error())
            wide = max(above, math.ceil(2 * unit * max(Fraction(0), Fraction(self.row_error) - known)))
        else:
            wide = above
        if not wide:
            return base
        size = self.basis.size
        longest = math.isqrt(base.l2_squared) + 1 + (math.isqrt(size) + 1) * wide
        return Sensitivity(l1=base.l1 + size * wide, l2_squared=longest**2, linf=base.linf + above)

    def query(self) -> PrivateQuery:
        """The one private read, as SQL of our own."""
        return self.program.query()

    def collect(self, rows: Iterable[tuple[Any, ...]]) -> list[int]:
        """Exact integers, in the basis' order: private until the noise is added.

        Raises:
            InternalError: the rows are not what :meth:`query` gives.
        """
        found = self.program.collect(rows)
        if len(found) != self.basis.size:
            raise InternalError("the moments query gave something other than its sums")
        return found


def plan_moments(
    table: Table,
    columns: tuple[Column, ...],
    basis: Basis,
    *,
    epsilon: Fraction,
    path: str = "auto",
    relative: bool = False,
) -> MomentPlan:
    """Choose how the sums are computed, from public figures only.

    Args:
        table: the protected table.
        columns: its columns that the basis is over, in the same order.
        basis: the functions.
        epsilon: the charge, for the range of the noise.
        path: one of ``PATHS``.
        relative: wish for errors of a row relative to its weight, where the path can.

    Raises:
        ParameterError: P107, no grid of at least 10 bits keeps sums and noise in range; or an unknown path.
    """
    if len(columns) != basis.dimensions:
        raise InternalError("the columns do not fit the basis")
    if path not in PATHS:
        raise ParameterError("P107", "path", path, f"must be one of {', '.join(PATHS)}.")
    grids, order, cost = choose_cells(table, columns, basis, epsilon)
    coarse = cost < math.inf and _cells(table, columns, basis, grids, order).row_error >= 1  # a row's error is the row
    costs = {"sums": sums_cost(table, basis), "cells": math.inf if coarse else cost, "blocks": block_cost(table, basis)}
    keyed = table.unit_key is not None
    if path == "auto":
        path = min(costs, key=lambda name: costs[name])
        if relative:
            path = _closer(path, costs, table, columns, basis, grids, order)
    if costs[path] == math.inf:
        rule = f"{path!r} does not fit these columns and this degree. Take 'auto' or 'sums'."
        raise ParameterError("P107", "path", path, rule)
    program: Program
    if path == "sums":
        bits = _grid_bits(table, basis, epsilon, bits_without_clamp(basis, MOST_BITS))
        apart = relative and keyed and basis.float_error() * 2.0**FACTOR_BITS <= 0.25
        program = DirectSums(table=table, columns=columns, basis=basis, bits=bits, relative=apart)
        error, excess = basis.float_error() + 2.0 ** -((FACTOR_BITS if apart else bits) + 1), 0.0
    elif path == "cells":
        bits = _grid_bits(table, basis, epsilon, CELL_BITS)
        cells = CellSums(table=table, columns=columns, basis=basis, grids=grids, order=order, bits=bits)
        program, error, excess = cells, cells.row_error, cells.row_error
    else:
        bits = _grid_bits(table, basis, epsilon, 2 * FACTOR_BITS)
        program = BlockSums(table=table, columns=columns, basis=basis, bits=bits)
        error, excess = ROW_ERROR + 2 * basis.float_error(), 0.0
    return MomentPlan(
        path=path,
        bits=bits,
        row_error=error,
        excess=excess,
        basis=basis,
        max_rows=_max_rows(table),
        program=program,
        level_errors=program.level_errors if isinstance(program, CellSums) else (),
        relative=not keyed or path == "cells" or (isinstance(program, DirectSums) and program.relative),
    )


def _cells(table: Table, columns: tuple[Column, ...], basis: Basis, grids: tuple[Grid, ...], order: int) -> CellSums:
    return CellSums(table=table, columns=columns, basis=basis, grids=grids, order=order)


def _closer(
    path: str,
    costs: dict[str, float],
    table: Table,
    columns: tuple[Column, ...],
    basis: Basis,
    grids: tuple[Grid, ...],
    order: int,
) -> str:
    """The fastest path whose errors are small beside each row's own weight, where it takes hardly longer."""
    wide = {"blocks"} if table.unit_key is not None else set()
    if costs["cells"] < math.inf:
        cells = _cells(table, columns, basis, grids, order)
        if cells.row_error * math.sqrt(basis.size) > RELATIVE_ERROR:
            wide.add("cells")
    other = min((name for name in costs if name not in wide), key=lambda name: costs[name])
    return other if costs[other] <= costs[path] + RELATIVE_COST else path


def plan_grid_moments(
    table: Table, columns: tuple[Column, ...], basis: Basis, nodes: tuple[Floats, ...], *, epsilon: Fraction
) -> MomentPlan:
    """Sums over rows that are moved to a grid.

    Args:
        table: the protected table.
        columns: its columns that the basis is over, in the same order.
        basis: the functions.
        nodes: per column, float[N], ascending in [-1, 1].
        epsilon: the charge, for the range of the noise.

    Raises:
        ParameterError: P107, no grid of at least 10 bits keeps sums and noise in range.
    """
    bits = _grid_bits(table, basis, epsilon, bits_without_clamp(basis, MOST_BITS))
    program = GridSums(table=table, columns=columns, basis=basis, nodes=nodes, bits=bits)
    return MomentPlan(
        path="grid",
        bits=bits,
        row_error=program.row_error,
        excess=0.0,
        basis=basis,
        max_rows=_max_rows(table),
        program=program,
    )


def _max_rows(table: Table) -> int:
    return 1 if table.unit_key is None else table.max_rows


def _grid_bits(table: Table, basis: Basis, epsilon: Fraction, most: int) -> int:
    """The finest grid, at most ``most`` bits, on which sums and noise stay in range whatever the relation."""
    max_rows = _max_rows(table)
    relation = Neighbours.REPLACE if table.unit_key is None else Neighbours.ADD_REMOVE  # the larger norms
    for bits in range(most, MIN_BITS - 1, -1):
        found = basis.norms(relation, bits=bits, max_rows=max_rows, count_public=False)
        if (table.row_cap << bits) + 101 * math.ceil(found.l1 / epsilon) < _RANGE:
            return bits
    rule = f"with row_cap={table.row_cap}, max_rows={max_rows} and epsilon={float(epsilon):g} these many sums leave "
    smaller = "degree or row_cap" if basis.degree > 2 else "row_cap"
    rule += f"fewer than {MIN_BITS} fractional bits. Take a smaller {smaller}, or a larger epsilon."
    raise ParameterError("P107", "degree", basis.degree, rule)
