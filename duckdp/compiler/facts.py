"""What is known of an expression without data: bounds, whole numbers, NULL and NaN, from the facts of its operators."""

from __future__ import annotations

import datetime as dt

from duckdp.catalog.table import Kind
from duckdp.compiler.aggregates import COUNT, aggregate_row
from duckdp.compiler.expression import Aggregate, Call, Case, ColumnRef, Expr, KeyRef, Literal, is_null, remembered
from duckdp.compiler.operators import OPERATORS, Facts, row_of
from duckdp.core import interval as iv
from duckdp.core.interval import REALS, Interval

N = Kind.NUMBER


@remembered
def facts(expr: Expr) -> Facts:
    """What is known of an expression: the one composition rule.

    >>> facts(Call("mul", (Literal(2, N), Literal(3, N)), N)).interval
    Interval(lower=6.0, upper=6.0)
    """
    match expr:
        case ColumnRef(column=c):
            whole = c.integral or c.type.upper().startswith("DECIMAL")
            days = (c.lower, c.upper) if isinstance(c.lower, dt.date) and isinstance(c.upper, dt.date) else None
            return Facts(c.interval, c.integral, c.nullable, whole, days)
        case Literal(value=value, kind=kind):
            if kind is N and isinstance(value, (int, float)):
                return Facts(Interval(float(value), float(value)), float(value).is_integer(), False)
            day = (value, value) if isinstance(value, dt.date) else None
            return Facts(nullable=value is None, integral=value is None, bounded=value is None, dates=day)
        case Case(branches=branches, default=default):
            parts = [facts(v) for _, v in branches] + ([facts(default)] if default is not None else [])
            spans = [p.interval for p, v in zip(parts, _values(expr), strict=True) if not is_null(v)]
            nullable = default is None or any(p.nullable for p in parts)
            finite = all(p.finite for p in parts)
            return Facts(iv.hull(*spans) if spans else REALS, all(p.integral for p in parts), nullable, finite)
        case Call(operator=name, arguments=arguments, option=option):
            row, args = OPERATORS[name], [facts(a) for a in arguments]
            known = args[0].dates if row.dates is not None else None
            return Facts(
                row.interval(args, option),
                row.integral(args),
                row.nullable(args),
                row.keeps_finite and all(a.finite for a in args),
                None if row.dates is None or known is None else row.dates(known),
            )
        case Aggregate():
            return Facts(integral=aggregate_row(expr).type == COUNT)
        case KeyRef():
            return Facts()


def undefined(call: Call) -> bool:
    """Whether an operation on numbers that are not NaN may give NaN: 0 / 0, infinities against each other.

    Such an operation is read as NULL there (operator ``defined``), as a NaN in a column is; all others pass on what
    they get, so no expression over rows is ever NaN.
    """
    rule = row_of(call).undefined
    return rule is not None and rule(*(facts(x) for x in call.arguments))


def date_bounds(expr: Expr) -> tuple[dt.date, dt.date] | None:
    """First and last date an expression can be, when known."""
    return facts(expr).dates


def _values(case: Case) -> list[Expr]:
    return [v for _, v in case.branches] + ([case.default] if case.default is not None else [])
