"""DuckDB's number types: what a text means depends on them, though every number is computed as DOUBLE here.

``//`` cuts to a whole number where both sides are of integer type, not where their values happen to be whole; a
DECIMAL is exact and rounds halves away from 0; what meets a FLOAT is compared as FLOAT. The rules are DuckDB's: the
tests compare them with its own ``typeof``. Widths are carried as digits before the point: they matter where DuckDB
raises, and where it has no DECIMAL for a remainder.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal

from duckdp.catalog.table import INTEGER_RANGES, Kind
from duckdp.compiler.aggregates import ARGUMENT, aggregate_row
from duckdp.compiler.expression import Aggregate, Call, Case, ColumnRef, Expr, Literal, NumberType, is_null
from duckdp.compiler.facts import facts
from duckdp.compiler.number_types import (
    DOUBLE,
    FLOAT,
    INTEGER,
    MAX_DIGITS,
    chosen_type,
    is_bare,
    met_remainder,
    met_type,
    whole_type,
)
from duckdp.compiler.operators import Digits, row_of
from duckdp.core.interval import nearest_float

_CONTEXT = Context(prec=400)  # digits of any number here
_SURE_DIGITS = 15  # decimals from which a DOUBLE's own are as coarse
ROUNDED = (Digits.SUM, Digits.QUOTIENT)  # of FLOATs: to FLOAT


class TypedFloat(float):
    """A number that stands for a literal of an analyst's text, with the literal's type."""

    type: NumberType = DOUBLE


def type_of(expr: Expr) -> NumberType:
    """DuckDB's type of a NUMBER expression.

    >>> type_of(Call("div", (Literal(1, Kind.NUMBER), Literal(2, Kind.NUMBER)), Kind.NUMBER)).name
    'DOUBLE'
    """
    match expr:
        case ColumnRef(type=None, column=c):
            return declared_type(c.type)
        case Literal(type=None, value=value):
            return INTEGER if value is None or (isinstance(value, int) and abs(value) < 2**127) else DOUBLE
        case Case(type=None, branches=branches, default=default):
            return case_type([v for _, v in branches], default)
        case Call(type=None):
            return row_of(expr).number_type(expr, type_of)
        case Aggregate():
            return _of_aggregate(expr)
    assert not isinstance(expr, Aggregate)
    return expr.type or DOUBLE


def declared_type(duckdb_type: str) -> NumberType:
    """The type of a column declared with a DuckDB type.

    >>> declared_type("DECIMAL(9,2)")
    NumberType(name='DECIMAL', scale=2)
    """
    base = duckdb_type.upper()
    if base in INTEGER_RANGES:
        return whole_type(base)
    if match := re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", base):
        return NumberType("DECIMAL", int(match[2]), int(match[1]) - int(match[2]))
    return FLOAT if base in ("FLOAT", "REAL") else DOUBLE


def literal_type(raw: str) -> NumberType:
    """The type of a number as it is written.

    >>> literal_type("0.50"), literal_type("5e-1").name
    (NumberType(name='DECIMAL', scale=2), 'DOUBLE')
    """
    raw = raw.replace("_", "")
    whole, point, fraction = raw.partition(".")
    if not point and whole.isdigit():
        held = next((n for n in ("INTEGER", "BIGINT", "HUGEINT") if int(whole) <= INTEGER_RANGES[n][1]), None)
        return whole_type(held) if held else DOUBLE
    if "e" in raw.lower() or len(whole + fraction) > MAX_DIGITS:  # DuckDB counts zeros in front too
        return DOUBLE
    return NumberType("DECIMAL", len(fraction), len(whole))


def common_type(exprs: Sequence[Expr]) -> NumberType:
    """The type that numbers are brought to where they are compared or added."""
    return met_type(exprs, type_of)


def choice_type(exprs: Sequence[Expr]) -> NumberType:
    """The type of one of several numbers, where one is chosen."""
    return chosen_type(exprs, type_of)


def case_type(values: Sequence[Expr], default: Expr | None) -> NumberType:
    """The type of a CASE: DuckDB begins with what stands after ELSE."""
    return choice_type([*([] if default is None else [default]), *values])


def chosen(exprs: Sequence[Expr], made: NumberType) -> list[Expr]:
    """Values of which one will be chosen, with the decimals of the type they meet in: where it has fewer, rounded.

    >>> wide, half = Literal(7, Kind.NUMBER, type=NumberType("DECIMAL", 0, 38)), Literal(0.5, Kind.NUMBER, type=DOUBLE)
    >>> exprs = [wide, typed(half, NumberType("DECIMAL", 1, 1))]
    >>> [e.value for e in chosen(exprs, choice_type(exprs))]
    [7, 1]
    """
    if made.name != "DECIMAL":
        return list(exprs)
    return [e if type_of(e).scale <= made.scale else rounded(exact(e), type_of(e), made.scale) for e in exprs]


def untyped(exprs: Sequence[Expr]) -> bool:
    """Whether a sum, product or remainder has no type in DuckDB: the constant NULL meets a DECIMAL in it."""
    return any(is_bare(e) for e in exprs) and common_type(exprs).name == "DECIMAL"


def rounded(expr: Expr, number_type: NumberType, scale: int) -> Expr:
    """A DECIMAL with fewer decimals; halves are told by its whole units: 1.005 has none as a DOUBLE."""
    found = NumberType("DECIMAL", scale, number_type.digits + number_type.scale - scale)
    if scale > _SURE_DIGITS:
        return typed(expr, found)
    if isinstance(expr, Literal):
        return cast_constant(expr, found)
    tens = divided(units(expr, number_type.scale), number_type.scale - scale, DOUBLE)
    whole = Call("round", (tens,), Kind.NUMBER)
    return divided(typed(whole, type_of(whole)), scale, found)


def cast_constant(constant: Literal, number_type: NumberType) -> Literal:
    """A constant number as DuckDB casts it to a type; NULL where that type does not hold it.

    >>> cast_constant(Literal(0.5, Kind.NUMBER, type=literal_type("0.5")), INTEGER).value
    1
    >>> cast_constant(Literal(2.5, Kind.NUMBER, type=DOUBLE), INTEGER).value  # a DOUBLE goes to the even one
    2
    >>> [cast_constant(Literal(1e300, Kind.NUMBER), t).value for t in (FLOAT, INTEGER)]
    [None, None]
    """
    value, own = constant.value, type_of(constant)
    if not isinstance(value, (int, float)) or number_type.name == "DOUBLE":
        return replace(constant, type=number_type)
    if number_type.name == "FLOAT":
        single = nearest_float(float(value))
        return Literal(single if math.isfinite(single) else None, constant.kind, type=number_type)
    if own.name in ("DOUBLE", "FLOAT"):
        units_of = Decimal(float(value) * 10.0**number_type.scale)
        whole = units_of.to_integral_value(ROUND_HALF_EVEN if number_type == INTEGER else ROUND_HALF_UP)
    else:
        whole = Decimal(repr(value)).scaleb(number_type.scale, _CONTEXT).to_integral_value(ROUND_HALF_UP)
    if abs(whole) >= 10 ** (number_type.digits + number_type.scale):
        return Literal(None, constant.kind)
    near = whole.scaleb(-number_type.scale, _CONTEXT)
    exactly = near == Decimal(repr(value)) and not (isinstance(value, float) and value == 0)
    return Literal(
        value if exactly else int(near) if near == int(near) else float(near), constant.kind, type=number_type
    )


def remainder_type(exprs: Sequence[Expr]) -> NumberType:
    """The type of a remainder: where no DECIMAL holds both numbers, DuckDB computes it as DOUBLE.

    >>> types = NumberType("DECIMAL", 2, 7), NumberType("DECIMAL", 2, 36), whole_type("HUGEINT")
    >>> short, wide, huge = (Literal(1, Kind.NUMBER, type=t) for t in types)
    >>> remainder_type([short, wide]).name, remainder_type([short, huge]).name
    ('DECIMAL', 'DOUBLE')
    """
    return met_remainder(exprs, type_of)


def typed(expr: Expr, number_type: NumberType) -> Expr:
    """The same expression, of another type."""
    return expr if isinstance(expr, Aggregate) else replace(expr, type=number_type)


def exact(expr: Expr) -> Expr:
    """An expression whose value is DuckDB's to the last digit, for what looks at last digits: comparisons, floor, keys.

    Sums of DECIMALs are brought back to their decimals (0.1 + 0.2 is 0.3), those of FLOATs to FLOAT. Expressions of
    whole numbers and DOUBLEs stay as they are.
    """
    if expr.kind is not Kind.NUMBER:
        return expr
    match expr:
        case Call(arguments=arguments) if not (row := row_of(expr)).steps:
            found = _with_arguments(expr, arguments)
            made = type_of(expr)
            if made.name == "DECIMAL" and made.scale and row.digits is Digits.SUM:
                return decimal(found, made.scale)
            return as_float(found) if made == FLOAT and row.digits in ROUNDED else found
        case Case(branches=branches, default=default):
            made = type_of(expr)
            arms = tuple((c, as_type(v, made)) for c, v in branches)
            return Case(arms, None if default is None else as_type(default, made), expr.kind, type=made)
    return expr


def as_type(expr: Expr, number_type: NumberType) -> Expr:
    """``expr`` to the last digit, as DuckDB's implicit cast to a common type gives it."""
    return as_float(exact(expr)) if number_type == FLOAT else exact(expr)


def as_float(expr: Expr) -> Expr:
    """The nearest FLOAT; FLOATs and small whole numbers are one already."""
    done = isinstance(expr, Call) and row_of(expr).digits is Digits.FLOAT
    if done or is_null(expr) or (isinstance(expr, ColumnRef) and type_of(expr) == FLOAT):
        return expr
    if isinstance(expr, Literal) and isinstance(expr.value, (int, float)):
        return Literal(nearest_float(float(expr.value)), expr.kind, type=FLOAT)
    known = facts(expr)
    if type_of(expr) == INTEGER and known.integral and known.interval.largest <= 2**24:
        return expr
    return Call("to_float", (expr,), Kind.NUMBER, type=FLOAT)


def decimal(expr: Expr, scale: int) -> Expr:
    """The nearest number with so many decimals."""
    return divided(units(expr, scale), scale, replace(type_of(expr), name="DECIMAL", scale=scale))


def units(expr: Expr, scale: int) -> Expr:
    """How many units of 10**-scale a DECIMAL has: a whole number."""
    return Call("units", (expr,), Kind.NUMBER, str(scale), type=INTEGER) if scale else expr


def divided(expr: Expr, digits: int, number_type: NumberType) -> Expr:
    """An expression divided by 10**digits."""
    if digits <= 0:
        return typed(expr, number_type)
    return Call("div", (expr, Literal(10**digits, Kind.NUMBER)), Kind.NUMBER, type=number_type)


def _with_arguments(call: Call, arguments: tuple[Expr, ...]) -> Call:
    change: Callable[[Expr], Expr] = exact
    digits = row_of(call).digits
    if type_of(call) == FLOAT and digits in ROUNDED:
        change = lambda e: as_type(e, FLOAT)  # noqa: E731
    if digits is Digits.CHOSEN:
        made = type_of(call)
        return replace(call, arguments=tuple(as_type(a, made) for a in arguments), type=made)
    if type_of(call).name == "DECIMAL" and digits is Digits.SUM:
        change = _unrounded  # one rounding at the end is enough
    return replace(call, arguments=tuple(change(a) for a in arguments), type=type_of(call))


def _unrounded(expr: Expr) -> Expr:
    if isinstance(expr, Call) and row_of(expr).digits is Digits.SUM:
        return _with_arguments(expr, expr.arguments)
    return exact(expr)


def _of_aggregate(aggregate: Aggregate) -> NumberType:
    row = aggregate_row(aggregate)
    if row.counts:
        return INTEGER
    if row.type != ARGUMENT or aggregate.argument is None:
        return DOUBLE
    found = type_of(aggregate.argument)
    return DOUBLE if found == FLOAT else found
