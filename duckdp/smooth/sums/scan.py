"""Rows as points of a basis, in SQL: units u_i in [-1, 1], places of listed values, and the rows' weights.

Stages, each a subquery over the one before it::

    rows      print_rows: typed, clamped columns, NULL rule, view filter
    points    per column its unit u_i, or its place; then rows with a NULL (or outside a domain) are left out
    weights   with a unit_key: W = 2^b for units of at most max_rows rows, else floor(2^b max_rows / rows of the unit)

Privacy:      a point is a function of its own row alone, and the weights of one unit add up to at most max_rows 2^b.
Proof sketch: u of an interval axis lies in [-1, 1] without a clamp: x lies between the float bounds, rounding is
              monotone, so fl(x - lower) lies in [0, fl(upper - lower)], its ratio in [0, 1], and 2 ratio - 1 in
              [-1, 1]. A column whose NULL rule puts a value outside its bounds is clamped anew. Units with c <=
              max_rows rows weigh c 2^b in all, others at most c floor(2^b max_rows / c), c being the unit's rows that
              are left. Totality: lower < upper are finite floats, so nothing is divided by 0; casts meet whole numbers
              in range only; days and microseconds are differences of clamped, finite dates.
"""

from __future__ import annotations

from duckdp.catalog.table import Column, Kind, Scalar, Table
from duckdp.compiler.printing import UNIT, Parameters, number, print_double, print_literal, print_rows, quote
from duckdp.smooth.axes import Axis, as_number

FEW_VALUES = 24  # up to here a CASE finds a value's place as fast as a list does
WEIGHT = "w"
LISTS = {Kind.NUMBER: "DOUBLE[]", Kind.TEXT: "VARCHAR[]", Kind.DATE: "DATE[]", Kind.TIMESTAMP: "TIMESTAMP[]"}


def print_scan(
    table: Table,
    columns: tuple[Column, ...],
    points: list[str],
    parameters: Parameters,
    *,
    weight_bits: int,
    every_row: bool = False,
    keep_all: bool = False,
) -> str:
    """The points of all rows that count, as a parenthesised SELECT of a0, a1, ... and, with a unit_key, w.

    Args:
        table: the protected table.
        columns: the columns that ``points`` read, as ``r.name``.
        points: SQL of each column's point (:func:`print_unit`, :func:`print_place`); NULL leaves the row out.
        parameters: bound values.
        weight_bits: b; w is a whole DOUBLE in units of 2^-b.
        every_row: keep rows with a NULL point (without a unit_key only): DuckDB computes a point twice to filter by it.
        keep_all: no row is left out, and all weigh, whatever their columns hold: the points are never NULL.
    """
    rows = print_rows(table, columns, parameters, unit=True)
    names = [f"a{i}" for i in range(len(points))]
    items = [f"{point} AS {name}" for point, name in zip(points, names, strict=True)]
    keyed = table.unit_key is not None
    items += [f"r.{UNIT}"] if keyed else []
    sql = f"(SELECT {', '.join(items)} FROM {rows} AS r"
    if every_row and not keyed:
        return f"{sql})"
    if keep_all:
        return _print_weights(f"{sql})", names, table.max_rows, weight_bits) if keyed else f"{sql})"
    closed = [c.domain is not None and c.lower is None for c in columns]
    filled = [f"r.{quote(c.name)} IS NOT NULL" for c, by_domain in zip(columns, closed, strict=True) if not by_domain]
    sql += f" WHERE {' AND '.join(filled)})" if filled else ")"
    listed = [f"s.{name} IS NOT NULL" for name, by_domain in zip(names, closed, strict=True) if by_domain]
    if listed:
        sql = f"(SELECT s.* FROM {sql} AS s WHERE {' AND '.join(listed)})"
    return _print_weights(sql, names, table.max_rows, weight_bits) if keyed else sql


def print_unit(column: Column, axis: Axis, parameters: Parameters) -> str:
    """U in [-1, 1] of a row ``r``, as DOUBLE; the same operations as ``Axis.to_unit``."""
    if axis.values is not None:
        nodes = [float(u) for u in axis.nodes]
        if len(nodes) > FEW_VALUES or _is_range(column):
            place = print_place(column, axis, parameters)
            return f"system.main.list_extract(CAST({parameters.bind(nodes)} AS DOUBLE[]), {place} + 1)"
        return _print_cases(column, axis, [number(u) for u in nodes], parameters)
    lower, upper = (f"CAST({parameters.bind(b)} AS DOUBLE)" for b in (axis.lower, axis.upper))
    x = print_number(column)
    u = f"({number(2)} * (({x} - {lower}) / ({upper} - {lower})) - {number(1)})"
    filled = column.null_value
    if filled is not None and not axis.lower <= as_number(filled) <= axis.upper:
        return f"CASE WHEN {u} > {number(1)} THEN {number(1)} WHEN {u} < {number(-1)} THEN {number(-1)} ELSE {u} END"
    return u


def print_number(column: Column) -> str:
    """A number, or days or microseconds since 1970, of a row ``r``, as DOUBLE."""
    return print_double(column, f"r.{quote(column.name)}")


def print_place(column: Column, axis: Axis, parameters: Parameters) -> str:
    """Place 0 .. k-1 of a row's value in a values axis, as INTEGER; NULL outside a domain that names no other."""
    assert axis.values is not None
    x = f"r.{quote(column.name)}"
    if _is_range(column):
        first, last = as_number(axis.values[0]), as_number(axis.values[-1])
        if column.null_value is not None and column.null_value not in axis.values:
            low, high = number(first), number(last)
            x = f"CASE WHEN {x} < {low} THEN {low} WHEN {x} > {high} THEN {high} ELSE {x} END"
        return f"CAST({x} - {number(first)} AS INTEGER)"
    if len(axis.values) <= FEW_VALUES or column.kind not in LISTS:
        return _print_cases(column, axis, [f"CAST({i} AS INTEGER)" for i in range(len(axis.values))], parameters)
    listed = [v if v is None or column.kind is not Kind.NUMBER else as_number(v) for v in axis.values]
    bound = parameters.bind([v for v in listed if v is not None])
    found = f"system.main.list_position(CAST({bound} AS {LISTS[column.kind]}), {x})"
    null = listed.index(None) if None in listed else len(listed)
    place = f"CAST({found} - 1 AS INTEGER)"
    if null < len(listed) - 1:  # places behind the NULL move on by one
        place = f"CASE WHEN {place} >= {null} THEN {place} + 1 ELSE {place} END"
    arms = [f"WHEN {x} IS NULL THEN {_place_of(None, axis)}", f"WHEN {found} > 0 THEN {place}"]
    other = "NULL" if column.other is None else _place_of(column.other, axis)
    return f"(CASE {' '.join(arms)} ELSE {other} END)"


def _is_range(column: Column) -> bool:
    """Whether a values axis lists the whole numbers between a column's bounds."""
    return column.lower is not None and column.kind is Kind.NUMBER


def _place_of(value: Scalar, axis: Axis) -> str:
    """A value's place, or NULL when it has none (None: the place of NULL)."""
    assert axis.values is not None
    return f"CAST({axis.values.index(value) if value in axis.values else 'NULL'} AS INTEGER)"


def _print_cases(column: Column, axis: Axis, results: list[str], parameters: Parameters) -> str:
    """CASE over the values; NULL and values outside the domain as ``print_place`` says."""
    assert axis.values is not None
    x = f"r.{quote(column.name)}"
    by_value = dict(zip(axis.values, results, strict=True))
    missing = by_value.get(None, "NULL")
    other = by_value[column.other] if column.other is not None else "NULL"
    arms = [f"WHEN {x} IS NULL THEN {missing}"] + [
        f"WHEN {x} = {print_literal(value, column.kind, parameters)} THEN {result}"
        for value, result in by_value.items()
        if value is not None
    ]
    return f"(CASE {' '.join(arms)} ELSE {other} END)"


def _print_weights(sql: str, names: list[str], max_rows: int, bits: int) -> str:
    """Add w, the rows' whole weight, from the number of rows of their unit."""
    listed = ", ".join(f"s.{name}" for name in names)
    counted = f"(SELECT {listed}, system.main.count_star() OVER (PARTITION BY s.{UNIT}) AS c FROM {sql} AS s)"
    share = f"CAST(CAST({max_rows << bits} AS HUGEINT) // s.c AS DOUBLE)"
    weight = f"CASE WHEN s.c <= {max_rows} THEN {number(1 << bits)} ELSE {share} END"
    return f"(SELECT {listed}, {weight} AS {WEIGHT} FROM {counted} AS s)"
