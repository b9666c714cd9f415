"""What is known of an expression without data: bounds, whole numbers, NULL and NaN, from the facts of its operators."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence

from duckdp.catalog.table import INTEGER_RANGES, Kind
from duckdp.compiler.allowed import OPERATORS, UNITS, Facts, outward
from duckdp.compiler.expression import Aggregate, Call, Case, ColumnRef, Expr, KeyRef, Literal
from duckdp.core import interval as iv
from duckdp.core.interval import REALS, Interval

__all__ = ["OPERATORS", "UNITS", "Facts", "date_bounds", "facts", "operator_sql", "undefined"]

N = Kind.NUMBER
KEEPS_FINITE = {"neg", "abs", "defined", "floor", "ceil", "round", "round_even", "trunc", "greatest", "least"}
KEEPS_FINITE |= {"coalesce_number", "nullif_number"}
SHORTEST = {"year": 365, "quarter": 90, "month": 28}  # days of the shortest such unit


def facts(expr: Expr) -> Facts:
    """What is known of an expression: the one composition rule.

    >>> facts(Call("mul", (Literal(2, N), Literal(3, N)), N)).interval
    Interval(lower=6.0, upper=6.0)
    """
    match expr:
        case ColumnRef(column=c):
            whole = c.integral or c.type.upper().startswith("DECIMAL")
            return Facts(c.interval, c.integral, c.nullable, whole)
        case Literal(value=value, kind=kind):
            if kind is N and isinstance(value, (int, float)):
                return Facts(Interval(float(value), float(value)), float(value).is_integer(), False)
            return Facts(nullable=value is None, integral=value is None, bounded=value is None)
        case Case(branches=branches, default=default):
            parts = [facts(v) for _, v in branches] + ([facts(default)] if default is not None else [])
            spans = [p.interval for p, v in zip(parts, _values(expr), strict=True) if not _is_null(v)]
            nullable = default is None or any(p.nullable for p in parts)
            finite = all(p.finite for p in parts)
            return Facts(iv.hull(*spans) if spans else REALS, all(p.integral for p in parts), nullable, finite)
        case Call(operator=name, arguments=arguments):
            operator, args = OPERATORS[name], [facts(a) for a in arguments]
            bounded = name in KEEPS_FINITE and all(a.finite for a in args)
            return Facts(_image(expr, args), operator.integral(args), operator.nullable(args), bounded)
        case Aggregate(function=function):
            return Facts(integral=function.startswith("count"))
        case KeyRef():
            return Facts()


def undefined(call: Call) -> bool:
    """Whether an operation on numbers that are not NaN may give NaN: 0 / 0, infinities against each other.

    Such an operation is read as NULL there (operator ``defined``), as a NaN in a column is; all others pass on what
    they get, so no expression over rows is ever NaN.
    """
    if call.operator not in ("add", "sub", "mul", "div", "mod", "power"):
        return False
    a, b = (facts(x) for x in call.arguments)
    zero_a, zero_b = a.interval.contains(0), b.interval.contains(0)
    match call.operator:
        case "add":
            return not a.finite and not b.finite and not _one_sided(a.interval, b.interval)
        case "sub":
            return not a.finite and not b.finite
        case "mul":
            return (zero_a and not b.finite) or (zero_b and not a.finite)
        case "div":
            return (zero_a and zero_b) or (not a.finite and not b.finite)
        case "mod":
            return zero_b or not a.finite
    return a.interval.lower < 0 and not b.integral


def _one_sided(a: Interval, b: Interval) -> bool:
    """Whether both can only be infinite in the same direction."""
    return (a.lower > -math.inf and b.lower > -math.inf) or (a.upper < math.inf and b.upper < math.inf)


def operator_sql(call: Call, arguments: list[str]) -> str:
    """Print a call; its arguments are already printed."""
    return OPERATORS[call.operator].sql(arguments, call.option)


def _image(call: Call, args: list[Facts]) -> Interval:
    spans = [a.interval for a in args]
    if call.operator == "power":
        base, exponent = spans
        found = iv.power(base, exponent.lower) if base.finite and exponent.lower == exponent.upper else REALS
        return outward(found) if found.finite else REALS
    if call.operator == "units":
        return iv.monotone(lambda x: float(round(x * float(f"1e{int(call.option)}"))), spans[0])
    if call.operator == "to_integer":
        low, high = INTEGER_RANGES[call.option]
        return Interval(min(max(spans[0].lower - 0.5, low), high), max(min(spans[0].upper + 0.5, high), low))
    if call.operator in ("greatest", "least"):
        return _extreme_interval(call.operator, args)
    if call.operator.startswith(("year_", "trunc_")):
        return _year_interval(call)
    if call.operator.startswith("date_diff"):
        return _difference_interval(call)
    return OPERATORS[call.operator].interval(spans)


def _extreme_interval(name: str, args: Sequence[Facts]) -> Interval:
    """Of those arguments that are not NULL: DuckDB skips the others."""
    spans, sure = [a.interval for a in args], [a.interval for a in args if not a.nullable]
    lowest, highest = min(s.lower for s in spans), max(s.upper for s in spans)
    if name == "greatest":
        return Interval(max((s.lower for s in sure), default=lowest), highest)
    return Interval(lowest, min((s.upper for s in sure), default=highest))


def date_bounds(expr: Expr) -> tuple[dt.date, dt.date] | None:
    """First and last date an expression can be, when known."""
    match expr:
        case ColumnRef(column=c) if isinstance(c.lower, dt.date) and isinstance(c.upper, dt.date):
            return c.lower, c.upper
        case Literal(value=dt.date() as value):
            return value, value
        case Call(operator="to_date" | "to_timestamp", arguments=(inner,)):
            found = date_bounds(inner)
            if found is None:
                return None
            convert = _as_date if expr.operator == "to_date" else _as_timestamp
            return convert(found[0]), convert(found[1])
    return None


def _year_interval(call: Call) -> Interval:
    found = date_bounds(call.arguments[0])
    return Interval(found[0].year, found[1].year) if found is not None else Interval(1, 9999)


def _difference_interval(call: Call) -> Interval:
    first, second = date_bounds(call.arguments[0]), date_bounds(call.arguments[1])
    if first is None or second is None:
        return REALS
    least = (_as_timestamp(second[0]) - _as_timestamp(first[1])).total_seconds() / 86400
    most = (_as_timestamp(second[1]) - _as_timestamp(first[0])).total_seconds() / 86400
    shortest = SHORTEST.get(call.option, UNITS[call.option])
    return Interval(
        math.floor(least / shortest) - 1 if least < 0 else -1, math.ceil(most / shortest) + 1 if most > 0 else 1
    )


def _as_timestamp(d: dt.date) -> dt.datetime:
    return d if isinstance(d, dt.datetime) else dt.datetime(d.year, d.month, d.day)


def _as_date(d: dt.date) -> dt.date:
    return d.date() if isinstance(d, dt.datetime) else d


def _values(case: Case) -> list[Expr]:
    return [v for _, v in case.branches] + ([case.default] if case.default is not None else [])


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None
