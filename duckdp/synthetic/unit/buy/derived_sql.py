"""Columns of the model that the table has not, as SQL over a row: calendar parts, gaps (``structure``).

Privacy: each is a function of its own row alone. Total: logarithms of at least 1, differences of clamped, finite
numbers; NULL where the column is.
"""

from __future__ import annotations

from duckdp.catalog.constraints import Order, step_of
from duckdp.catalog.values import as_number
from duckdp.compiler.printing import number, print_double, quote
from duckdp.synthetic.unit.structure import Derived, Structure, shift_of

_FUNCTIONS = {"hour": "hour", "weekday": "dayofweek", "month": "month"}


def print_derived(structure: Structure, rows: str) -> str:
    """Rows of what is modelled, as a parenthesised SELECT.

    Args:
        structure: what that is.
        rows: the table's own columns, clean and clamped to ``structure.by_name``: a parenthesised SELECT.
    """
    found = {d.column.name: d for d in structure.derived}
    items = []
    for column in structure.modelled:
        derived = found.get(column.name)
        sql = f"r.{quote(column.name)}" if derived is None else _print(structure, derived)
        items.append(f"{sql} AS {quote(column.name)}")
    return f"(SELECT {', '.join(items)} FROM {rows} AS r)"


def _print(structure: Structure, derived: Derived) -> str:
    column = structure.by_name[derived.of]
    own = f"r.{quote(derived.of)}"
    if derived.what != "gap":
        return f"CAST(system.main.{_FUNCTIONS[derived.what]}({own}) AS DOUBLE)"
    x = print_double(column, own)
    least = [number(as_number(column.lower)), *(_print_low(structure, order) for order in derived.below)]
    away = f"{x} - system.main.greatest({', '.join(least)})"  # which passes over NULL
    scaled = f"system.main.ln({number(1 + shift_of(column))} + system.main.greatest({away}, {number(0)})"
    scaled = f"{scaled} / {number(derived.unit)})"
    most = number(as_number(derived.column.upper))
    return f"CASE WHEN {own} IS NULL THEN NULL ELSE system.main.least({scaled}, {most}) END"


def _print_low(structure: Structure, order: Order) -> str:
    column = structure.by_name[order.low]
    x = print_double(column, f"r.{quote(order.low)}")
    return f"{x} + {number(step_of(column))}" if order.strict else x
