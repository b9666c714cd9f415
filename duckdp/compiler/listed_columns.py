"""All that a column can be, where that is a short list: what functions of it are computed on, in place of rows.

A DATE is read clamped to its bounds, and is one of the days between them. A TIMESTAMP is one of very many moments, but
of what tells no hours (its year, its weekday, the month that it is in, days between dates) every moment of a day gives
the same: there the days stand for all moments. Each operator that is passed is either a function of the day alone, or
moves days to days (an INTERVAL of whole days or months), so by induction the whole is a function of the day.

What compares the column itself with constants (``seen >= TIMESTAMP '2024-05-01 12:00:00'``, ``CASE WHEN cost < 10``) is
the same between two neighbouring constants, and may differ at each: a value of each of these pieces, and each constant,
stand for all values. Both together: the pieces that constants cut days into. Of numbers a piece is stood for by its
middle, of whole numbers by both beside it, so that no rounding of a comparison can take one for its end; of texts that
are equal to none, another text.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from duckdp.catalog.table import Column, Kind, Scalar
from duckdp.compiler.expression import Call, ColumnRef, Expr, children, columns
from duckdp.compiler.images import constant
from duckdp.compiler.operators import row_of
from duckdp.compiler.operators.dates import UNITS

MOST_DAYS = 10_000  # 27 years: computed in some milliseconds
_PARTS = ("year", "month", "day", "quarter", "week", "dayofweek", "isodow", "dayofyear", "isoyear", "decade", "century")
_BY_DAY = frozenset((*_PARTS, "millennium", "era", "yearweek", "to_date"))  # families that look at the day alone
_COMPARE = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "distinct", "same", "between", "in", "is_null"))
_MICRO, _DAY = dt.timedelta(microseconds=1), dt.timedelta(days=1)
_SOME = dt.datetime(2000, 1, 1)  # any moment, where nothing tells it from others
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


def few_values(column: Column, exprs: Iterable[Expr], within: Column) -> tuple[Scalar, ...] | None:
    """All that a column can be, as far as expressions tell its values apart, NULL aside; None: that is no short list.

    Args:
        column: without a domain.
        exprs: each of which :func:`tells` of it.
        within: the column, with the bounds that its values are known to lie in.
    """
    read = [e for e in exprs if column in columns(e)]
    found = [cuts(expr, column) for expr in read]
    if column.domain is not None or column.null_value is not None or None in found:
        return None
    at = sorted({c for own in found for c in own or ()})
    if all(is_compared(expr, column) for expr in read):
        return _pieces(within, at)
    days = days_between(within) if column.kind in (Kind.DATE, Kind.TIMESTAMP) else None
    if days is None or column.kind is Kind.DATE:
        return days
    beside = [v for c in at for v in (c, _moved(c, _MICRO)) if v is not None]
    return tuple(_within(within, [*days, *beside]))


def tells(expr: Expr, column: Column) -> bool:
    """Whether few values of a column may stand for all of them in an expression: if it is daily, or compares them."""
    return column.kind is Kind.DATE or cuts(expr, column) is not None


def by_day(expr: Expr, column: Column) -> bool:
    """Whether an expression is a function of the day of a TIMESTAMP, and of other columns."""
    return column.kind is not Kind.TIMESTAMP or cuts(expr, column) == frozenset()


def cuts(expr: Expr, column: Column) -> frozenset[Any] | None:
    """The constants at which an expression may differ within a day of a column, or anywhere; None: it differs more.

    Of a DATE those that it is compared with; what else is made of a DATE has none, as days are told apart anyway.
    """
    if column not in columns(expr):
        return frozenset()
    if expr == ColumnRef(column):
        return frozenset() if column.kind is Kind.DATE else None
    if isinstance(expr, Call):
        if (at := _compared(expr, column)) is not None:
            return at
        family, inner = row_of(expr).family, expr.arguments
        daily = family in _BY_DAY or (family in ("trunc", "date_diff") and expr.option in _LONG)
        if daily and column.kind is Kind.TIMESTAMP and all(_to_days(part, column) for part in inner):
            return frozenset()
    found = [cuts(child, column) for child in children(expr)]
    return None if None in found else frozenset().union(*(own for own in found if own is not None))


def is_compared(expr: Expr, column: Column) -> bool:
    """Whether all that an expression reads of a column is how it compares with constants."""
    if expr == ColumnRef(column):
        return False
    if isinstance(expr, Call) and _compared(expr, column) is not None:
        return True
    return all(is_compared(child, column) for child in children(expr))


def _compared(call: Call, column: Column) -> frozenset[Any] | None:
    """The constants that a call compares a column with; None: it is no such call."""
    own = [a for a in call.arguments if a == ColumnRef(column)]
    others = [a for a in call.arguments if a != ColumnRef(column)]
    row = row_of(call)
    if row.family not in _COMPARE or not own or columns(*others) or column.kind is Kind.BOOLEAN:
        return None
    if column.kind is Kind.TEXT and not row.meets and others:  # which text comes first is not told by pieces
        return None
    return frozenset(value for a in others if (value := constant(a)) is not None)


def _pieces(column: Column, at: Sequence[Any]) -> tuple[Scalar, ...] | None:
    """Constants, and what stands for the values between them, before and after, within the column's bounds."""
    if len(at) > MOST_DAYS:
        return None
    if column.kind is Kind.TEXT:
        return (*at, "~" * (1 + max(map(len, at), default=0)))
    if column.kind is Kind.NUMBER:
        ends = [e for e in (column.lower, column.upper) if e is not None]
        marks = sorted({float(v) for v in (*at, *ends)})
        if not all(map(math.isfinite, marks)):
            return None
        beside = [marks[0] - 1 - abs(marks[0]), marks[-1] + 1 + abs(marks[-1])] if marks else [0.0]
        middles = [low / 2 + high / 2 for low, high in pairwise(marks)] + beside
        if column.integral:
            marks = [float(v) for m in marks for v in (math.floor(m), math.ceil(m))]
            middles = [float(v) for m in middles for v in (math.floor(m), math.ceil(m))]
        return tuple(_within(column, [*marks, *middles]))
    step = _MICRO if column.kind is Kind.TIMESTAMP else _DAY
    ends = [e for e in (column.lower, column.upper) if e is not None]
    beside = [v for c in at for v in (_moved(c, -step), c, _moved(c, step)) if v is not None]
    return tuple(_within(column, [*ends, *beside] or [_SOME if step == _MICRO else _SOME.date()]))


def _within(column: Column, values: Iterable[Any]) -> list[Any]:
    """Each value once, ascending, as the column's bounds leave it."""
    low, high = column.lower, column.upper
    found = ((v if low is None else max(v, low)) for v in values)
    return sorted({v if high is None else min(v, high) for v in found})


def _moved(moment: Any, step: dt.timedelta) -> Any:
    """A moment or day a step later; None beyond the calendar."""
    try:
        return moment + step
    except OverflowError:
        return None


def _to_days(expr: Expr, column: Column) -> bool:
    """Whether the day of a moment that is computed is a function of the column's day."""
    if expr == ColumnRef(column):
        return True
    if isinstance(expr, Call) and row_of(expr).family == "shifted":
        return expr.option.endswith(",0") and _to_days(expr.arguments[0], column)
    return by_day(expr, column)
