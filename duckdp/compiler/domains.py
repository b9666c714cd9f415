"""Complete public domains of grouping keys: declared, or implied by the expression's type and bounds.

Every value that the key can take (other than NULL) lies in the domain, whatever the data: so all groups can be
released, empty ones included, and which keys exist stays private.
"""

from __future__ import annotations

import datetime as dt
import math
from itertools import product

from duckdp.catalog import Kind, Scalar
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, Literal
from duckdp.compiler.operators import date_bounds, facts

EXACT = 2**53  # whole numbers up to here are exact as DOUBLE
MAX_IMPLIED = 10_000  # values of an implied domain; beyond it keys pass a threshold instead


def derive_domain(expr: Expr) -> tuple[tuple[Scalar, ...] | None, Scalar]:
    """(domain, label for other values) of a key, or (None, None) when only a threshold can protect it.

    >>> derive_domain(Call("is_null_number", (Literal(1, Kind.NUMBER),), Kind.BOOLEAN))[0]
    (False, True)
    """
    if isinstance(expr, ColumnRef) and expr.column.domain is not None:
        column, values = expr.column, expr.column.domain
        assert values is not None
        return (values if column.other is None or column.other in values else (*values, column.other)), column.other
    if expr.kind is Kind.BOOLEAN:
        return (False, True), None
    if isinstance(expr, Case):
        return _of_case(expr), None
    if expr.kind is Kind.NUMBER:
        return _of_number(expr), None
    if expr.kind is Kind.DATE:
        return _of_date(expr), None
    return None, None


def _of_case(expr: Case) -> tuple[Scalar, ...] | None:
    results = [v for _, v in expr.branches] + ([expr.default] if expr.default is not None else [])
    values: list[Scalar] = []
    for result in results:
        if not isinstance(result, Literal):
            return _of_number(expr) if expr.kind is Kind.NUMBER else None
        value = float(result.value) if type(result.value) is int and abs(result.value) > EXACT else result.value
        if value is not None and value not in values:
            values.append(value)
    return tuple(values) or None


def _of_number(expr: Expr) -> tuple[Scalar, ...] | None:
    known = facts(expr)
    if isinstance(expr, Call) and expr.operator in ("add", "sub", "mul", "neg") and known.integral:
        return _of_shifted(expr)
    if not known.integral or not known.interval.largest <= EXACT:
        return None
    low, high = math.ceil(known.interval.lower), math.floor(known.interval.upper)
    return tuple(range(low, high + 1)) if high - low < MAX_IMPLIED else None


def _of_shifted(expr: Call) -> tuple[Scalar, ...] | None:
    """The domain of (x + c), (x - c), (c - x), (x * c) or -x, from that of x: bands like floor(x / 10) * 10."""
    if not facts(expr).interval.largest <= EXACT:
        return None
    parts = [_of_number(a) for a in expr.arguments]
    if any(p is None for p in parts) or sum(len(p or ()) > 1 for p in parts) > 1:
        low, high = facts(expr).interval.lower, facts(expr).interval.upper
        return tuple(range(math.ceil(low), math.floor(high) + 1)) if high - low < MAX_IMPLIED else None
    values = {_shift(expr.operator, *pick) for pick in product(*(p or () for p in parts))}
    return tuple(sorted(values))


def _shift(operator: str, a: Scalar, b: Scalar = 0) -> int:
    assert isinstance(a, int) and isinstance(b, int)
    return {"add": a + b, "sub": a - b, "mul": a * b, "neg": -a}[operator]


def _of_date(expr: Expr) -> tuple[Scalar, ...] | None:
    unit = expr.option if isinstance(expr, Call) and expr.operator == "trunc_date" else "day"
    inner = expr.arguments[0] if isinstance(expr, Call) and expr.operator == "trunc_date" else expr
    bounds = date_bounds(inner)
    if bounds is None:
        return None
    first, last = (d.date() if isinstance(d, dt.datetime) else d for d in bounds)
    values = [_truncate(first, unit)]
    while len(values) <= MAX_IMPLIED and (following := _next(values[-1], unit)) is not None and following <= last:
        values.append(following)
    return tuple(values) if len(values) <= MAX_IMPLIED else None


def _next(start: dt.date, unit: str) -> dt.date | None:
    """Start of the period after the one that starts there; None beyond the calendar."""
    months = {"year": 12, "quarter": 3, "month": 1}.get(unit)
    try:
        if months is None:
            return start + dt.timedelta(days=7 if unit == "week" else 1)
        years, month = divmod(start.month - 1 + months, 12)
        return dt.date(start.year + years, month + 1, 1)
    except (OverflowError, ValueError):
        return None


def _truncate(d: dt.date, unit: str) -> dt.date:
    match unit:
        case "year":
            return dt.date(d.year, 1, 1)
        case "quarter":
            return dt.date(d.year, (d.month - 1) // 3 * 3 + 1, 1)
        case "month":
            return dt.date(d.year, d.month, 1)
        case "week":
            return d - dt.timedelta(days=d.weekday())
    return d
