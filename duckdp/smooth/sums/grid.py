"""Exact sums over rows that are moved to a grid: counted by cell, and added up, inside DuckDB.

    points    u of every row's columns (``scan``), and the place of the nearest node by comparisons (``angles``)
    cells     GROUP BY the places: the weight of the rows in each
    sums      sum over cells of weight times round(2^f Phi(node)), in integers

One row of R integers crosses; neither a row nor a cell ever does.

Privacy:      what ``Basis.norms`` assumes, for the rows as they stand on the grid: the integers q of one row satisfy
              |q| <= W, those of one unit add up to at most max_rows 2^f.
Proof sketch: A cell's node is a function of the row alone, so the total is sum over rows of W(row) q(node(row)) with
              q = round(2^f Phi(node)): the same for any grouping, since integer sums are exact and associative. A
              node lies in [-1, 1]^d, so neighbours differ by what Phi can differ at two points of the box, the bound
              of ``Basis.norms``; moving rows brings no new points into it. A computed function is within e =
              ``Basis.float_error`` of [-1, 1] and 2^f e <= 1/4, so |q| <= 2^f. Without a unit_key W = 1: the total is
              in units of 2^-f at once. With one, W counts 2^-f too, the total comes in units of 2^-2f and is rounded
              once: a unit adds at most max_rows 2^f whole steps, and rounding commutes with whole steps.
Numerics:     HUGEINT: row_cap 2^f < 2^62 by the choice of f <= 40, times 2^f below 2^103.
Source:       [J] Algorithm 3, steps 3 to 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from duckdp.catalog.table import Column, Table
from duckdp.compiler.printing import Parameters, number
from duckdp.core.reads import Add, PrivateQuery, one_row
from duckdp.smooth.angles import middles_between
from duckdp.smooth.axes import Floats
from duckdp.smooth.basis import Basis
from duckdp.smooth.sums.direct import list_functions, print_function, print_powers, print_products
from duckdp.smooth.sums.scan import WEIGHT, print_scan, print_unit


@dataclass(frozen=True, kw_only=True)
class GridSums:
    """The query of all sums at grid points, and how its one row is read.

    Attributes:
        table: the protected table.
        columns: its columns, in the basis' order.
        basis: the functions.
        nodes: per column, float[N], ascending in [-1, 1]: where rows are moved to.
        bits: f; sums come in units of 2^-bits.
    """

    table: Table
    columns: tuple[Column, ...]
    basis: Basis
    nodes: tuple[Floats, ...]
    bits: int

    @property
    def row_error(self) -> float:
        """Bound on |computed - exact| of one function at one row on the grid; moving the row is not counted."""
        return self.basis.float_error() + 2.0**-self.bits

    def query(self) -> PrivateQuery:
        """One row of R integers; zeros for an empty table."""
        parameters = Parameters()
        functions = list_functions(self.basis)
        sql = print_products(print_powers(self._cells(parameters), self.basis.indices), functions)
        scale, whole = number(1 << self.bits), f"CAST({1 << self.bits} AS HUGEINT)"
        values = [f"CAST(CAST({print_function(f)} * {scale} AS BIGINT) AS HUGEINT)" if f else whole for f in functions]
        sums = ", ".join(f"CAST(COALESCE(system.main.sum({v} * s.n), 0) AS HUGEINT)" for v in values)
        sql = f"SELECT {sums} FROM {sql} AS s"
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=1, parts=Add())

    def collect(self, rows: Iterable[Sequence[object]]) -> list[int]:
        """int[R] from the one row."""
        totals = [int(str(value)) for value in one_row(rows, self.basis.size)]
        if self.table.unit_key is None:
            return totals
        half = 1 << (self.bits - 1)
        return [(total + half) >> self.bits for total in totals]

    def _cells(self, parameters: Parameters) -> str:
        """a0, a1, ...: the cell's node; n: the weight of its rows."""
        axes, places = self.basis.axes, [f"s.k{i}" for i in range(self.basis.dimensions)]
        points = [print_unit(c, a, parameters) for c, a in zip(self.columns, axes, strict=True)]
        scan = print_scan(self.table, self.columns, points, parameters, weight_bits=self.bits)
        found = [_print_place(f"s.a{i}", nodes) for i, nodes in enumerate(self.nodes)]
        keyed = self.table.unit_key is not None
        items = [f"{place} AS k{i}" for i, place in enumerate(found)] + [f"s.{WEIGHT}"] * keyed
        count = f"system.main.sum(CAST(s.{WEIGHT} AS BIGINT))" if keyed else "system.main.count_star()"
        sql = f"(SELECT {', '.join(items)} FROM {scan} AS s)"
        listed = ", ".join(places)
        sql = f"(SELECT {listed}, CAST({count} AS HUGEINT) AS n FROM {sql} AS s GROUP BY {listed})"
        bound = [f"CAST({parameters.bind([float(u) for u in nodes])} AS DOUBLE[])" for nodes in self.nodes]
        pairs = zip(bound, places, strict=True)
        nodes = [f"system.main.list_extract({b}, {p} + 1) AS a{i}" for i, (b, p) in enumerate(pairs)]
        return f"(SELECT {', '.join(nodes)}, s.n FROM {sql} AS s)"


def _print_place(u: str, nodes: Floats) -> str:
    """Place of the nearest node, as INTEGER."""
    return print_search(u, middles_between(nodes), [f"CAST({i} AS INTEGER)" for i in range(len(nodes))])


def print_search(u: str, middles: Floats, leaves: Sequence[str]) -> str:
    """SQL that finds the interval u lies in and gives what stands for it.

    A search tree of comparisons with the same doubles as ``searchsorted``, so that both agree to the last bit:
    libraries differ in the last bits of acos and cos. The expression is total: NaN ends at the last leaf, NULL stays
    NULL.

    Args:
        u: a DOUBLE expression; best a column, as it is repeated once per middle and evaluated log2 N times.
        middles: float[N - 1], ascending.
        leaves: N expressions of one type.
    """
    limits = middles.tolist()

    def search(first: int, last: int) -> str:
        if first == last:
            return leaves[first]
        middle = (first + last) // 2
        below, above = search(first, middle), search(middle + 1, last)
        return f"CASE WHEN {u} < {_print_double(limits[middle])} THEN {below} ELSE {above} END"

    return f"(CASE WHEN {u} IS NULL THEN NULL ELSE {search(0, len(leaves) - 1)} END)"


def _print_double(value: float) -> str:
    """A DOUBLE literal: without an exponent DuckDB reads a DECIMAL."""
    text = repr(value)
    return text if "e" in text else text + "e0"
