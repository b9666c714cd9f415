"""The sign of zero: DuckDB's whole numbers and DECIMALs have none, our DOUBLEs in their place may be -0.

-0 equals 0 and is shown as it; what tells them apart are the operators whose row names ``signed`` arguments: ``1 / x``
is the other infinity, ``atan2(x, -1)`` pi or its negative.
"""

from __future__ import annotations

from dataclasses import replace

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call, Case, Expr, Literal, NumberType
from duckdp.compiler.facts import facts
from duckdp.compiler.types import type_of, typed


def without_minus_zero(expr: Expr) -> Expr:
    """The same number, and 0 where DuckDB's is 0: each part of a type without -0 has a 0 added."""
    if not isinstance(expr, (Call, Case)) or expr.kind is not Kind.NUMBER or not facts(expr).interval.contains(0):
        return expr
    if _unsigned(type_of(expr)):
        return typed(Call("add", (expr, Literal(0, Kind.NUMBER)), Kind.NUMBER), type_of(expr))
    if isinstance(expr, Call):
        return replace(expr, arguments=tuple(without_minus_zero(a) for a in expr.arguments), type=type_of(expr))
    arms = tuple((c, without_minus_zero(v)) for c, v in expr.branches)
    return replace(expr, branches=arms, default=expr.default and without_minus_zero(expr.default), type=type_of(expr))


def cast_type(number: Expr, target: NumberType) -> NumberType:
    """The type of a number after a cast: that it was whole, or a DECIMAL, is kept."""
    return replace(target, unsigned=_unsigned(type_of(number)))


def _unsigned(number_type: NumberType) -> bool:
    return number_type.unsigned or number_type.name in ("INTEGER", "DECIMAL")
