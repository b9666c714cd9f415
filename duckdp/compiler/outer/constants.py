"""Values of ? and $1 in a text of which parts are printed: constants in their places."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal

from sqlglot import exp

from duckdp.compiler.outer.trees import rebuilt
from duckdp.compiler.parse import refuse


def with_values(tree: exp.Expression, values: Sequence[object], text: str) -> exp.Expression:
    """A tree with constants in the places of its parameters.

    Args:
        tree: left as it is.
        values: of ?, $1, ...
        text: the statement, for places in messages.

    Raises:
        QueryError: Q203, no such value, or none of a plain type.
    """

    def made(node: exp.Expression) -> exp.Expression:
        if isinstance(node, (exp.Parameter, exp.Placeholder)):
            return _constant(_value(node, values, text), node, text)
        return rebuilt(node, made)

    return made(tree)


def _value(node: exp.Expression, values: Sequence[object], text: str) -> object:
    number = str(node.name)
    if number.isascii() and number.isdigit() and 1 <= int(number[:6]) <= len(values):
        return values[int(number[:6]) - 1]
    refuse("Q203", f"there is no value for this parameter; {len(values)} are given.", node, text)


def _constant(value: object, node: exp.Expression, text: str) -> exp.Expression:
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int() | Decimal() | float() if math.isfinite(value):
            return exp.Paren(this=exp.Literal.number(str(value) if not isinstance(value, float) else repr(value)))
        case str():
            return exp.Literal.string(value)
        case dt.datetime() if value.tzinfo is None:
            return exp.Cast(this=exp.Literal.string(value.isoformat(sep=" ")), to=exp.DataType.build("timestamp"))
        case dt.date() if not isinstance(value, dt.datetime):
            return exp.Cast(this=exp.Literal.string(value.isoformat()), to=exp.DataType.build("date"))
    refuse("Q203", "this parameter's value is no number, text, boolean, date or timestamp.", node, text)
