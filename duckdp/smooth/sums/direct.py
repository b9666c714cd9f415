"""One SUM per function, in SQL: the general path, and the only one without any error besides the rounding of a summand.

Stages over the rows' units (``scan``)::

    powers    T_(m+i) = 2 T_m T_i - T_(m-i), doubling the degree each time
    products  a function of k columns from one of k - 1 columns: index sets are closed downwards
    sums      sum of round(product * W), as integers

Privacy:      what ``Basis.norms`` assumes: the integers q of one row satisfy |q| <= W, so those of one unit add up to
              at most max_rows 2^f.
Proof sketch: a computed function is within e = ``Basis.float_error`` of [-1, 1], and f is so small that 2^f e <= 1/4.
              So |product * W| <= W (1 + e)(1 + ULP) < W + 1/2, and W is whole: rounding to nearest gives at most W.
              The cast meets numbers below 2^41 only; integer sums (HUGEINT) are exact in every order.
              Where ``relative``: round(2^20 product) times W, in units of 2^-20, which is whole: at most W by the same,
              and off by W (2^-21 + e) at most, however little W is (``kernel_sums`` asks for that). The total, in units
              of 2^-40, is rounded to the grid once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from duckdp.catalog.table import Column, Table
from duckdp.compiler.printing import Parameters, number
from duckdp.core.reads import Add, PrivateQuery, one_row
from duckdp.smooth.basis import Basis, Indices
from duckdp.smooth.sums.limbs import round_shift
from duckdp.smooth.sums.scan import WEIGHT, print_scan, print_unit

MOST_BITS = 40  # fractional bits of a sum that DuckDB adds up
FACTOR_BITS = 20  # of these, of a product and of a weight where errors are relative
Function = tuple[tuple[int, int], ...]  # (column, degree > 0), columns ascending


@dataclass(frozen=True, kw_only=True)
class DirectSums:
    """The query of all sums, and how its one row is read.

    Attributes:
        table: the protected table.
        columns: its columns, in the basis' order.
        basis: the functions.
        bits: sums come in units of 2^-bits.
        relative: whether a product is rounded before it is multiplied by its row's weight, and not after it.
    """

    table: Table
    columns: tuple[Column, ...]
    basis: Basis
    bits: int
    relative: bool = False

    def query(self) -> PrivateQuery:
        """One row of R integers; zeros for an empty table."""
        parameters = Parameters()
        points = [print_unit(c, a, parameters) for c, a in zip(self.columns, self.basis.axes, strict=True)]
        weight_bits = FACTOR_BITS if self.relative else self.bits
        sql = print_scan(self.table, self.columns, points, parameters, weight_bits=weight_bits)
        functions = list_functions(self.basis)
        sql = print_products(print_powers(sql, self.basis.indices), functions)
        weight = number(1 << weight_bits) if self.table.unit_key is None else f"s.{WEIGHT}"
        sums = ", ".join((_print_factors if self.relative else _print_sum)(f, weight) for f in functions)
        sql = f"SELECT {sums} FROM {sql} AS s"
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=1, parts=Add())

    def collect(self, rows: Iterable[Sequence[object]]) -> list[int]:
        """int[R] from the one row."""
        shift = 2 * FACTOR_BITS - self.bits if self.relative else 0
        return [round_shift(int(str(value)), shift) for value in one_row(rows, self.basis.size)]


def bits_without_clamp(basis: Basis, most: int) -> int:
    """The largest f <= most with 2^f float_error <= 1/4, so that rounding brings every summand back to |q| <= W."""
    bits = most
    while basis.float_error() * 2.0**bits > 0.25:
        bits -= 1
    return bits


def list_functions(basis: Basis) -> list[Function]:
    """The functions of a basis, in its order."""
    return [tuple((i, k) for i, k in enumerate(row) if k) for row in basis.indices.tolist()]


def print_function(function: Function) -> str:
    """A function's value over the rows ``s`` of :func:`print_products`; the mass has none."""
    return f"s.{_name(function)}"


def print_powers(sql: str, indices: Indices) -> str:
    """Add a{i}_{k} = T_k of column i, 1 <= k <= its highest degree; a{i} is T_1 itself."""
    highest = indices.max(axis=0).tolist()
    known = 1
    while known < max(highest):
        items = []
        for i, last in enumerate(highest):
            for k in range(known + 1, min(2 * known, last) + 1):
                before = f"s.{_power(i, 2 * known - k)}" if k < 2 * known else number(1)
                double = f"{number(2)} * s.{_power(i, known)}"
                items.append(f"({double} * s.{_power(i, k - known)} - {before}) AS {_power(i, k)}")
        sql, known = f"(SELECT s.*, {', '.join(items)} FROM {sql} AS s)", 2 * known
    return sql


def print_products(sql: str, functions: Sequence[Function]) -> str:
    """Add the functions of two and more columns, by their number of columns."""
    for k in range(2, max(len(f) for f in functions) + 1):
        items = [f"s.{_name(f[:-1])} * s.{_name(f[-1:])} AS {_name(f)}" for f in functions if len(f) == k]
        sql = f"(SELECT s.*, {', '.join(items)} FROM {sql} AS s)"
    return sql


def _print_sum(function: Function, weight: str) -> str:
    value = f"{print_function(function)} * {weight}" if function else weight
    return f"CAST(COALESCE(system.main.sum(CAST({value} AS BIGINT)), 0) AS HUGEINT)"


def _print_factors(function: Function, weight: str) -> str:
    """The sum of round(2^20 product) times the weight, both whole."""
    value = number(1 << FACTOR_BITS)
    if function:
        value = f"{print_function(function)} * {value}"
    summand = f"CAST({value} AS BIGINT) * CAST({weight} AS BIGINT)"
    return f"CAST(COALESCE(system.main.sum({summand}), 0) AS HUGEINT)"


def _name(function: Function) -> str:
    if len(function) == 1:
        return _power(*function[0])
    return "p" + "_".join(f"{i}_{k}" for i, k in function)


def _power(column: int, degree: int) -> str:
    return f"a{column}" if degree == 1 else f"a{column}_{degree}"
