"""Unit columns of the private rows, as SQL: the same values that ``layout`` gives back as a column's own."""

from __future__ import annotations

from dataclasses import replace

from duckdp.compiler.printing import Parameters, number, quote
from duckdp.smooth.sums.scan import print_place, print_unit
from duckdp.synthetic.unit.layout import Part, UnitColumns

_ONE, _MINUS, _ZERO = number(1), number(-1), number(0)


def print_items(units: UnitColumns, parameters: Parameters) -> str:
    """The SELECT list of all unit columns over a row ``r``."""
    items = [sql for part in units.parts for sql in print_units(part, parameters)]
    return ", ".join(f"{sql} AS {name}" for sql, name in zip(items, units.names, strict=True))


def print_units(part: Part, parameters: Parameters) -> list[str]:
    """SQL of a declared column's unit columns over a row ``r``: doubles in [-1, 1], never NULL."""
    x = f"r.{quote(part.column.name)}"
    if part.listed:
        last = len(part.values) - 1
        return [f"CAST({print_choice(part, parameters)} AS DOUBLE) * {number(2)} / {number(last)} - {number(1)}"]
    if part.form == "choice":
        place = print_choice(part, parameters)
        return [f"CASE WHEN {place} = {i} THEN {_ONE} ELSE {_MINUS} END" for i in range(len(part.values))]
    if part.form == "sign":
        printed = [f"CASE WHEN {x} THEN {_ONE} WHEN NOT {x} THEN {_MINUS} ELSE {_ZERO} END"]
    else:
        printed = [f"COALESCE({print_unit(part.column, part.axis, parameters)}, {_ZERO})"]
    return printed + [f"CASE WHEN {x} IS NULL THEN {_ONE} ELSE {_MINUS} END"] * part.nullable


def print_choice(part: Part, parameters: Parameters) -> str:
    """SQL of the place of a row's value among those of a choice, over a row ``r``: INTEGER, never NULL."""
    place = print_place(replace(part.column, lower=None, upper=None), part.axis, parameters)  # clamped before
    outside = part.values.index(None) if None in part.values else len(part.values) - 1
    return f"COALESCE({place}, CAST({outside} AS INTEGER))"
