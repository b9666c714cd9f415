"""Expressions in ordinary notation: for explanations. For reading only; nothing here is executed."""

from __future__ import annotations

import datetime as dt

from duckdp.compiler.expression import Aggregate, Call, Case, ColumnRef, Expr, KeyRef, Literal
from duckdp.compiler.operators import Operator, row_of
from duckdp.texts import sql_text


def pretty(expr: Expr) -> str:
    """An expression in ordinary notation.

    >>> from duckdp.catalog.table import Kind
    >>> pretty(Call("add", (Literal(1, Kind.NUMBER), Literal(2.5, Kind.NUMBER)), Kind.NUMBER))
    '(1 + 2.5)'
    """
    match expr:
        case ColumnRef(column=c):
            return c.name
        case Literal(value=v):
            return _constant(v)
        case Call(arguments=arguments, option=option):
            return _call(row_of(expr), [pretty(a) for a in arguments], option)
        case Case(branches=branches, default=default):
            arms = " ".join(f"WHEN {pretty(c)} THEN {pretty(v)}" for c, v in branches)
            return f"CASE {arms}{f' ELSE {pretty(default)}' if default is not None else ''} END"
        case Aggregate(function=name, argument=argument):
            return f"{name}({'' if argument is None else pretty(argument)})"
        case KeyRef(index=index):
            return f"key {index + 1}"


def _call(row: Operator, args: list[str], option: str) -> str:
    if row.shown is not None:
        return row.shown(args)
    return f"{row.label or row.family}({', '.join([*args, *([_constant(option)] if option else [])])})"


def _constant(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, dt.date):
        return f"'{value.isoformat()}'"
    return sql_text(value) if isinstance(value, str) else f"{value:g}"
