"""Exact sums of a tensor basis over the rows of a protected table: one SQL query, one row.

Stages, each a subquery over the one before it::

    scan      print_rows: typed, clamped columns, NULL rule, view filter; then rows with a NULL are left out
    unit      u in [-1, 1] per column
    weight    W = 2^f, or floor(2^f max_rows / rows of the unit) for a unit with more rows than max_rows
    powers    T_(m+i) = 2 T_m T_i - T_(m-i), doubling the degree each time; at last clamped to [-1, 1]
    products  one column after the other
    sums      sum of floor(product * W + 1/2), as integers

Privacy:      what ``TensorBasis.sensitivity`` assumes holds for every table:
              the integers q of one row satisfy |q| <= W, and those of one unit add up to at most max_rows 2^f.
Proof sketch: factors lie in [-1, 1] after their clamp; rounding to nearest is monotone and +-1 and +-W (an integer,
              W <= 2^40) are floats, so a product lies in [-1, 1], times W in [-W, W], and floor(. + 1/2) of it too.
              A unit with c <= max_rows rows adds at most c 2^f, one with more at most c floor(2^f max_rows / c).
              c counts the unit's own rows after the NULL rule. No NULL, NaN, overflow or failing cast can occur:
              u is a finite number because lower < upper are finite floats, NaN compares false and lands on 1.
              Integer sums (HUGEINT) are exact in every order.
"""

from __future__ import annotations

from duckdp.catalog import Column, Table
from duckdp.compiler.printing import UNIT, Parameters, print_rows, quote
from duckdp.core.task import PrivateQuery
from duckdp.errors import InternalError
from duckdp.smooth.basis import TensorBasis

MAX_BITS = 40
Index = tuple[int, ...]


def moments_sql(table: Table, columns: tuple[Column, ...], basis: TensorBasis, bits: int) -> PrivateQuery:
    """Print the query of all sums.

    Args:
        table: the protected table.
        columns: its columns that the basis is over, in the same order.
        basis: the functions.
        bits: fixed-point bits f, 0 to 40; sums come in units of 2^-f.

    Returns:
        A query that gives exactly one row of R integers, in the basis' order; zeros for an empty table.
    """
    if not 0 <= bits <= MAX_BITS or len(columns) != basis.dimensions:
        raise InternalError("the fixed point or the columns do not fit the basis")
    parameters = Parameters()
    weighted = table.unit_key is not None
    sql = _print_units(table, columns, basis, parameters)
    weight = _number(1 << bits)
    if weighted:
        sql = _print_weights(sql, table.max_rows, bits)
        weight = "w"
    sql = _print_powers(sql, basis, weighted=weighted)
    sql, names = _print_products(sql, basis)
    sums = ", ".join(_print_sum(name, weight) for name in names.values())
    return PrivateQuery(sql=f"SELECT {sums} FROM {sql} AS s", parameters=tuple(parameters.values), rows=1)


def _print_units(table: Table, columns: tuple[Column, ...], basis: TensorBasis, parameters: Parameters) -> str:
    """Rows without NULL as t0_1, t1_1, ... in [-1, 1] (degree 1 is u itself), and the privacy unit."""
    rows = print_rows(table, columns, parameters, unit=True)
    items, present = [], []
    for i, column in enumerate(columns):
        x = f"r.{quote(column.name)}"
        lower, upper = (f"CAST({parameters.bind(b)} AS DOUBLE)" for b in basis.columns[i][1:])
        u = f"({_number(2)} * (({x} - {lower}) / ({upper} - {lower})) - {_number(1)})"
        items.append(f"{_clamp(u)} AS {_power(i, 1)}")
        present.append(f"{x} IS NOT NULL")
    if table.unit_key is not None:
        items.append(f"r.{UNIT}")
    return f"(SELECT {', '.join(items)} FROM {rows} AS r WHERE {' AND '.join(present)})"


def _print_weights(sql: str, max_rows: int, bits: int) -> str:
    """Add w, the rows' integer weight, from the number of rows of their unit."""
    counted = f"(SELECT s.*, system.main.count_star() OVER (PARTITION BY s.{UNIT}) AS c FROM {sql} AS s)"
    share = f"CAST(CAST({max_rows << bits} AS HUGEINT) // s.c AS DOUBLE)"
    weight = f"CASE WHEN s.c <= {max_rows} THEN {_number(1 << bits)} ELSE {share} END"
    return f"(SELECT s.*, {weight} AS w FROM {counted} AS s)"


def _print_powers(sql: str, basis: TensorBasis, *, weighted: bool) -> str:
    """Add ti_k = T_k of column i, 1 <= k < t, clamped."""
    known, last = 1, basis.degree - 1
    while known < last:
        items = []
        for i in range(basis.dimensions):
            for k in range(known + 1, min(2 * known, last) + 1):
                before = f"s.{_power(i, 2 * known - k)}" if k < 2 * known else _number(1)
                double = f"{_number(2)} * s.{_power(i, known)}"
                items.append(f"({double} * s.{_power(i, k - known)} - {before}) AS {_power(i, k)}")
        sql = f"(SELECT s.*, {', '.join(items)} FROM {sql} AS s)"
        known = min(2 * known, last)
    powers = [_power(i, k) for i in range(basis.dimensions) for k in range(1, basis.degree)]
    items = [f"{_clamp(f's.{name}')} AS {name}" for name in powers] + (["s.w"] if weighted else [])
    return f"(SELECT {', '.join(items)} FROM {sql} AS s)"


def _print_products(sql: str, basis: TensorBasis) -> tuple[str, dict[Index, str | None]]:
    """Add the products; returns the names of all functions in the basis' order, None for the constant."""
    names: dict[Index, str | None] = {(k,): _power(0, k) if k else None for k in range(basis.degree)}
    for i in range(1, basis.dimensions):
        items: list[str] = []
        longer: dict[Index, str | None] = {}
        for index, name in names.items():
            for k in range(basis.degree):
                product = name
                if k:
                    product = _power(i, k)
                    if name is not None:
                        product = "p" + "_".join(map(str, (*index, k)))
                        items.append(f"s.{name} * s.{_power(i, k)} AS {product}")
                longer[(*index, k)] = product
        sql, names = f"(SELECT s.*, {', '.join(items)} FROM {sql} AS s)", longer
    return sql, names


def _print_sum(name: str | None, weight: str) -> str:
    value = weight if name is None else f"system.main.floor(s.{name} * {weight} + {_number(0.5)})"
    return f"CAST(COALESCE(system.main.sum(CAST({value} AS BIGINT)), 0) AS HUGEINT)"


def _power(column: int, degree: int) -> str:
    return f"t{column}_{degree}"


def _number(value: float) -> str:
    """A DOUBLE constant; whole and half numbers print exactly."""
    return f"CAST({value!r} AS DOUBLE)"


def _clamp(value: str) -> str:
    """To [-1, 1]; a NaN, which cannot come here, would become 1."""
    one, minus_one = _number(1), _number(-1)
    above = f"CASE WHEN {value} > {minus_one} THEN {value} ELSE {minus_one} END"
    return f"(CASE WHEN {value} < {one} THEN {above} ELSE {one} END)"
