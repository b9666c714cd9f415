"""Rows counted in cells inside DuckDB, with local moments, then expanded to all sums: the path for high degrees.

With u = cos(theta), T_r(u) = cos(r theta). Each column has K cells: of listed values and of whole numbers in a short
range one per value, of other columns equal ones in theta, c + h s with s in [-1, 1]. DuckDB adds up prod_i T_(a_i)(s_i)
for |a| <= P per cell. All sums follow by cos(r (c + h s)) = sum_k (2 - [k = 0]) J_k(r h) cos(r c + k pi / 2) T_k(s).

Privacy:      a row adds the vector q(row), a function of that row alone and its unit's weight W, with |q - W Phi| <=
              W tau, hence |q| <= W (1 + tau), tau = ``CellSums.row_error``: enters by ``MomentPlan.norms``.
Proof sketch: after the row's own rounding all is exact and linear: local moments are multiples of 2^-20, coefficients
              of 2^-24, and their sums are matrix products of 16-bit limbs (``limbs``). So no error grows with the rows.
              tau = truncation + offsets + coefficients + angles. Truncation: |J_k(z)| <= (z/2)^k / k!, so terms with
              |a| = m add up to at most 2^d (rho/2)^m / m!, rho = max_r sum r_i h_i, over d columns with offsets; from
              m = P + 1 on to at most the first of them times a geometric series of ratio rho / (2 (P + 2)). Offsets:
              half a unit each, times the coefficients (and s leaves [-1, 1] by rounding, below 2^-38). Angles: theta
              from acos and one product, within 2^-49 (assumed of the C library; only REPLACE rests on it). Degree 0 is
              exact: of its coefficients only one, 1, is not 0.
Numerics:     a cell's sums are doubles on the grid 2^-20 (x + C - C, C = 1.5 2^52, rounds to whole numbers), so exact
              in every order for up to 2^33 rows per cell: the path is taken for a row_cap of at most that. Weights
              in units of 2^-20 stay within 2^53, so int64 holds whatever crosses.
Source:       Jacobi-Anger expansion; DLMF 10.12.3 and 10.14.4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler.printing import Parameters, number
from duckdp.core.reads import AddInLists, PrivateQuery, one_row
from duckdp.smooth.axes import Axis
from duckdp.smooth.basis import ULP, Basis
from duckdp.smooth.sums.limbs import contract, from_limbs, to_limbs
from duckdp.smooth.sums.scan import WEIGHT, print_number, print_place, print_scan, print_unit

OFFSET_BITS = 20  # of the grid that offsets within a cell are rounded to
COEFFICIENT_BITS = 24  # of the integer coefficients from offsets to functions
MOST_ROWS = 1 << 33  # of row_cap: 20 + 33 = 53 bits
MOST_CELLS = 1 << 18  # whose offsets are kept in memory
MOST_PLACES = 1 << 12  # of one column
MOST_TENSOR = 1 << 18  # functions of the enclosing tensor set
_ANGLE_ERROR = 2.0**-49  # of a unit value's angle, by degree: rounding of acos
_ROUNDER = 1.5 * 2.0**52  # adding and subtracting it rounds a DOUBLE to a whole number
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The cells of one column.

    Attributes:
        axis: of the basis.
        places: K.
        exact: whether a cell is one value.
    """

    axis: Axis
    places: int
    exact: bool

    @property
    def half(self) -> float:
        """h, half a cell's width in theta."""
        return 0.0 if self.exact else math.pi / (2 * self.places)

    def coefficients(self, order: int) -> Floats:
        """2^24 times the factor of T_order(s), rounded: float[t, K] of whole numbers."""
        if self.exact:
            return np.rint(_powers(self._units(), self.axis.degree) * 2.0**COEFFICIENT_BITS)
        r, quarter = np.arange(self.axis.degree), 4 * self.places
        turns = (r[:, None] * (2 * np.arange(self.places) + 1) + order * self.places) % quarter
        cosines = np.cos(np.pi * np.minimum(turns, quarter - turns) / (2 * self.places))
        scale = (1 + (order > 0)) * _bessel(order, (r * self.half).astype(np.float64)) * 2.0**COEFFICIENT_BITS
        return np.asarray(np.rint(scale[:, None] * cosines), dtype=np.float64)

    def largest(self, order: int) -> float:
        """Bound of the factors of T_order(s)."""
        size = ((self.axis.degree - 1) * self.half / 2) ** order / math.factorial(order)
        return min(1.2, 2 * size) if order else 1.0  # |J_1| < 0.6, and less for higher orders

    def _units(self) -> Floats:
        if self.axis.values is not None:
            return self.axis.nodes
        return self.axis.to_unit(self.axis.lower + np.arange(self.places, dtype=np.float64))


@dataclass(frozen=True, kw_only=True)
class CellSums:
    """Cells and order of an expansion.

    Attributes:
        table: the protected table.
        columns: its columns, in the basis' order.
        basis: the functions.
        grids: the cells of each column.
        order: P, total degree of the local moments; 0 when every cell is one value.
        bits: sums come in units of 2^-bits.
    """

    table: Table
    columns: tuple[Column, ...]
    basis: Basis
    grids: tuple[Grid, ...]
    order: int
    bits: int = 30

    @property
    def cells(self) -> int:
        """Number of cells, and the most rows that cross."""
        return math.prod(g.places for g in self.grids)

    @cached_property
    def exponents(self) -> list[tuple[int, ...]]:
        """All alpha, the count first."""
        ranges = [range(1 if g.exact else self.order + 1) for g in self.grids]
        return sorted((a for a in product(*ranges) if sum(a) <= self.order), key=lambda a: (sum(a), a))

    @property
    def row_error(self) -> float:
        """tau; the proof is the module's."""
        return max(self.level_errors)

    @cached_property
    def level_errors(self) -> tuple[float, ...]:
        """Tau of the functions of each total degree, from 0 on: truncation grows with the degree."""
        each = 2.0 ** -(COEFFICIENT_BITS + 1) + self.basis.float_error() + 16 * ULP
        offsets = coefficients = 0.0
        for alpha in self.exponents:
            sizes = [g.largest(a) for g, a in zip(self.grids, alpha, strict=True)]
            whole = math.prod(size + each for size in sizes)
            coefficients += whole - math.prod(sizes)
            offsets += whole * (2.0 ** -(OFFSET_BITS + 1) + 2.0**-30) if any(alpha) else 0.0
        return tuple(1.001 * (offsets + coefficients + e) for e in self.level_truncations.tolist())

    @cached_property
    def level_truncations(self) -> Floats:
        """Truncation and angles of each total degree, none where every cell is one value: float[levels]."""
        found = np.zeros(int(self.basis.levels.max()) + 1)
        loose = np.array([not g.exact for g in self.grids])
        if not loose.any():
            return found
        rho = (self.basis.indices * np.array([g.half for g in self.grids])).sum(axis=1)
        ratio = rho / (2 * (self.order + 2))
        if ratio.max() >= 1:
            return np.full(len(found), math.inf)
        first = 2.0 ** int(loose.sum()) * (rho / 2) ** (self.order + 1) / math.factorial(self.order + 1)
        degrees = np.where(loose, self.basis.indices, 0).sum(axis=1, dtype=np.int64)
        np.maximum.at(found, self.basis.levels, first / (1 - ratio) + degrees * _ANGLE_ERROR)
        return np.maximum.accumulate(found)

    def query(self) -> PrivateQuery:
        """One row of lists: cells that are not empty (-1 holds the rows that do not count), weights, local sums ..."""
        parameters = Parameters()
        pairs = zip(self.columns, self.grids, strict=True)
        points = [_print_point(c, g, parameters) for c, g in pairs]
        scan = print_scan(self.table, self.columns, points, parameters, weight_bits=OFFSET_BITS, every_row=True)
        sql = _print_places(scan, self.grids, self.order, weighted=self.table.unit_key is not None)
        place, stride = [], self.cells
        for i, grid in enumerate(self.grids):
            stride //= grid.places
            place.append(f"CAST(s.j{i} AS INTEGER) * {stride}")
        if self.table.unit_key is None:
            items = ["CAST(system.main.count_star() AS BIGINT)"] + [_print_local(a) for a in self.exponents[1:]]
        else:
            items = [f"CAST(system.main.sum(CAST(s.{WEIGHT} AS BIGINT)) AS BIGINT)"]
        named = [f"COALESCE({' + '.join(place)}, -1) AS place", *(f"{item} AS v{k}" for k, item in enumerate(items))]
        sql = f"(SELECT {', '.join(named)} FROM {sql} AS s GROUP BY place)"
        lists = ", ".join(f"system.main.list(g.{name})" for name in ["place", *(f"v{k}" for k in range(len(items)))])
        sql = f"SELECT {lists} FROM {sql} AS g"
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=1, parts=AddInLists())

    def collect(self, rows: Iterable[Sequence[Any]]) -> list[int]:
        """int[R] from the one row; its lists are in the same, any order."""
        places, *sums = one_row(rows, 1 + len(self.exponents))
        local = np.zeros((len(self.exponents), self.cells + 1), dtype=np.int64)
        if places is not None:  # not an empty table
            local[:, np.array(places, dtype=np.int64)] = np.array(sums, dtype=np.int64)
        local = local[:, :-1]
        if self.table.unit_key is None:
            local[0] <<= OFFSET_BITS
        shape = [g.places for g in self.grids]
        tensors = {a: to_limbs(local[k].reshape(shape)) for k, a in enumerate(self.exponents)}
        for i, grid in enumerate(self.grids):
            tensors = _contract_axis(tensors, grid, i)
        (limbs,) = tensors.values()
        totals = from_limbs([limb[tuple(self.basis.indices.T)] for limb in limbs])
        shift = OFFSET_BITS + COEFFICIENT_BITS * len(self.grids) - self.bits
        half = 1 << (shift - 1)
        return [(total + half) >> shift for total in totals]


def make_grid(column: Column, axis: Axis, places: int) -> Grid:
    """The cells of a column: one per value where it has few, else ``places`` in theta."""
    if axis.values is not None:
        return Grid(axis=axis, places=len(axis.values), exact=True)
    whole = column.kind is Kind.DATE or (column.kind is Kind.NUMBER and column.integral)
    if whole and axis.upper - axis.lower < MOST_PLACES:
        return Grid(axis=axis, places=int(axis.upper - axis.lower) + 1, exact=True)
    return Grid(axis=axis, places=places, exact=False)


def _print_point(column: Column, grid: Grid, parameters: Parameters) -> str:
    """A place as a number, or theta K / pi."""
    axis = grid.axis
    if axis.values is not None:
        return print_place(column, axis, parameters)
    if grid.exact:
        x, last = print_number(column), number(grid.places - 1)
        place = f"({x} - CAST({parameters.bind(axis.lower)} AS DOUBLE))"
        return f"CASE WHEN {place} < {number(0)} THEN {number(0)} WHEN {place} > {last} THEN {last} ELSE {place} END"
    return f"system.main.acos({print_unit(column, axis, parameters)}) * {number(grid.places / math.pi)}"


def _print_places(sql: str, grids: Sequence[Grid], order: int, *, weighted: bool) -> str:
    """Add places j0, j1, ..., and T_k(s) as s0_k, ... of the columns that have offsets s."""
    weight = [f"s.{WEIGHT}"] if weighted else []
    places, firsts = [], []
    for i, grid in enumerate(grids):
        if grid.exact:
            places.append(f"s.a{i} AS j{i}")
            continue
        last = number(grid.places - 1)
        places.append(f"s.a{i}, CASE WHEN s.a{i} >= {last} THEN {last} ELSE system.main.floor(s.a{i}) END AS j{i}")
        firsts.append(f"({number(2)} * (s.a{i} - s.j{i}) - {number(1)}) AS s{i}_1")
    listed = [f"s.j{i}" for i in range(len(grids))]
    sql = f"(SELECT {', '.join(places + weight)} FROM {sql} AS s)"
    sql = f"(SELECT {', '.join(listed + firsts + weight)} FROM {sql} AS s)"
    loose = [i for i, grid in enumerate(grids) if not grid.exact]
    for k in range(2, order + 1):
        before = (f"s.s{i}_{k - 2}" if k > 2 else number(1) for i in loose)
        twice = f"{number(2)} * s.s"
        items = [f"{twice}{i}_1 * s.s{i}_{k - 1} - {b} AS s{i}_{k}" for i, b in zip(loose, before, strict=True)]
        sql = f"(SELECT s.*, {', '.join(items)} FROM {sql} AS s)"
    return sql


def _print_local(alpha: tuple[int, ...]) -> str:
    """The sum of prod T_a(s) in units of 2^-20, every summand rounded to them."""
    factors = [f"s.s{i}_{a}" for i, a in enumerate(alpha) if a]
    value = " * ".join([*factors, number(1 << OFFSET_BITS)])
    total = f"system.main.sum({value} + {number(_ROUNDER)} - {number(_ROUNDER)})"
    return f"CAST(COALESCE({total}, {number(0)}) AS BIGINT)"


def _contract_axis(
    tensors: dict[tuple[int, ...], list[Ints]], grid: Grid, axis: int
) -> dict[tuple[int, ...], list[Ints]]:
    """Replace one axis of cells by one of degrees, adding up over its exponents."""
    found: dict[tuple[int, ...], list[Ints]] = {}
    for alpha, limbs in tensors.items():
        part = contract(limbs, grid.coefficients(alpha[0]), axis)
        rest = alpha[1:]
        if rest in found:
            longer, shorter = sorted((found[rest], part), key=len, reverse=True)
            part = [limb + shorter[k] if k < len(shorter) else limb for k, limb in enumerate(longer)]
        found[rest] = part
    return found


def _bessel(order: int, z: Floats) -> Floats:
    """J_order(z) for 0 <= z <= 8 by its power series, within 16 ULP of the largest term."""
    term = (z / 2) ** order / math.factorial(order)
    total = term.copy()
    for m in range(1, 40):
        term = term * -((z / 2) ** 2) / (m * (m + order))
        total += term
    return total


def _powers(u: Floats, degree: int) -> Floats:
    """T_0 ... T_(degree-1) by doubling, as ``Basis.float_error`` bounds it: float[t, n]."""
    found = [np.ones_like(u), u]
    for k in range(2, degree):
        half = 1 << ((k - 1).bit_length() - 1)
        found.append(2 * found[half] * found[k - half] - found[2 * half - k])
    return np.stack(found[:degree])
