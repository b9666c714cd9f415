"""All that a column can be, where that is a short list: what functions of it are computed on, in place of rows.

A DATE is read clamped to its bounds, and is one of the days between them. A TIMESTAMP is one of very many moments, but
of what tells no hours (its year, its weekday, the month that it is in, days between dates) every moment of a day gives
the same: there the days stand for all moments. Each operator that is passed is either a function of the day alone, or
moves days to days (an INTERVAL of whole days or months), so by induction the whole is a function of the day.
"""

from __future__ import annotations

import datetime as dt

from duckdp.catalog.table import Column, Kind, Scalar
from duckdp.compiler.expression import Call, ColumnRef, Expr, children, columns
from duckdp.compiler.operators import row_of
from duckdp.compiler.operators.dates import UNITS

MOST_DAYS = 10_000  # 27 years: computed in some milliseconds
_PARTS = ("year", "month", "day", "quarter", "week", "dayofweek", "isodow", "dayofyear", "isoyear", "decade", "century")
_BY_DAY = frozenset((*_PARTS, "millennium", "era", "yearweek", "to_date"))  # families that look at the day alone
_LONG = frozenset(unit for unit, days in UNITS.items() if days >= 1)


def days_between(column: Column) -> tuple[Scalar, ...] | None:
    """The days that a DATE or TIMESTAMP with bounds can be, or be in, as values of its type; None: too many."""
    low, high = column.lower, column.upper
    if not isinstance(low, dt.date) or not isinstance(high, dt.date) or column.null_value is not None:
        return None
    first, last = (d.date() if isinstance(d, dt.datetime) else d for d in (low, high))
    count = (last - first).days + 1
    if column.domain is not None or not 0 < count <= MOST_DAYS:
        return None
    days = [first + dt.timedelta(days=i) for i in range(count)]
    return tuple(dt.datetime.combine(d, dt.time()) for d in days) if column.kind is Kind.TIMESTAMP else tuple(days)


def by_day(expr: Expr, column: Column) -> bool:
    """Whether an expression is a function of the day of a TIMESTAMP, and of other columns."""
    if column.kind is not Kind.TIMESTAMP or column not in columns(expr):
        return True
    if expr == ColumnRef(column):
        return False
    if isinstance(expr, Call):
        family, inner = row_of(expr).family, expr.arguments
        daily = family in _BY_DAY or (family in ("trunc", "date_diff") and expr.option in _LONG)
        if daily and all(_to_days(part, column) for part in inner):
            return True
    return all(by_day(child, column) for child in children(expr))


def _to_days(expr: Expr, column: Column) -> bool:
    """Whether the day of a moment that is computed is a function of the column's day."""
    if expr == ColumnRef(column):
        return True
    if isinstance(expr, Call) and row_of(expr).family == "shifted":
        return expr.option.endswith(",0") and _to_days(expr.arguments[0], column)
    return by_day(expr, column)
