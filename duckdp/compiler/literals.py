"""Constants of the analyst's text: small numbers, patterns, text."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from duckdp.compiler.expression import ColumnRef, Expr, Literal
from duckdp.compiler.operators import OPERATORS


def small_int(node: object) -> int | None:
    """Value of a literal of at most nine plain digits, else None."""
    name = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    return int(name) if name.isascii() and name.isdigit() and len(name) <= 9 else None


def listed(members: Sequence[exp.Expression]) -> list[exp.Expression]:
    """The members of a list after IN; of VALUES with one column, its rows."""
    if len(members) != 1 or not isinstance(members[0], exp.Values):
        return list(members)
    rows = members[0].expressions
    plain = all(isinstance(row, exp.Tuple) and len(row.expressions) == 1 for row in rows)
    return [row.expressions[0] for row in rows] if plain and not members[0].args.get("alias") else list(members)


def label_met(operator: str, arguments: Sequence[Expr]) -> str:
    """What is wrong with comparing a column with its own label for others, or "": rows hold their own values.

    >>> from duckdp.catalog.table import Kind
    >>> label_met("eq_number", [Literal(1, Kind.NUMBER)])
    ''
    """
    if not OPERATORS[operator].meets:
        return ""
    given = [a.value for a in arguments if isinstance(a, Literal)]
    for column in (a.column for a in arguments if isinstance(a, ColumnRef)):
        label = column.other
        if label is not None and label in given and label not in (column.domain or ()):
            return (
                f'"{label}" is what answers call values of "{column.name}" outside its domain; a row keeps its own. '
                f"Use GROUP BY {column.name} and take that group, or {column.name} NOT IN (...)."
            )
    return ""


def encodable(value: str) -> bool:
    """Whether a text has no lone surrogate."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
