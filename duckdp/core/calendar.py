"""Ranges of dates: what a part, a truncation or a difference can be between two days or two microseconds.

A part of a date grows within a longer period (the day within its month): between two ends in one such period it lies
between their parts, otherwise anywhere. Truncations and the periods' numbers grow all along.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
DAY = 86_400_000_000  # microseconds
_HOUR = 3_600_000_000  # microseconds
_MINUTE = 60_000_000  # microseconds
_MONDAY = 3  # 1970-01-01 was a Thursday
_FIRST_MONTH = 360  # months from 1970 to 2000-01-01, from which buckets of months are counted
_FIRST_MONDAY = 10_959 * DAY  # 2000-01-03, from which those of minutes and days are
EARLIEST = -719_162 * DAY  # 0001-01-01


def _months(t: Whole) -> Whole:
    days = np.floor_divide(t, DAY).astype("datetime64[D]")
    return days.astype("datetime64[M]").astype(np.int64)


def _first_day(months: Whole) -> Whole:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


# Number of the period that holds a moment (microseconds from 1970), per unit.
PERIODS: dict[str, Callable[[Whole], Whole]] = {
    "year": lambda t: np.floor_divide(_months(t), 12),
    "quarter": lambda t: np.floor_divide(_months(t), 3),
    "month": _months,
    "week": lambda t: np.floor_divide(np.floor_divide(t, DAY) + _MONDAY, 7),
    "day": lambda t: np.floor_divide(t, DAY),
    "hour": lambda t: np.floor_divide(t, _HOUR),
    "minute": lambda t: np.floor_divide(t, _MINUTE),
    "second": lambda t: np.floor_divide(t, 10**6),
    "millisecond": lambda t: np.floor_divide(t, 1000),
    "microsecond": lambda t: t,
}
_STARTS: dict[str, Callable[[Whole], Whole]] = {
    "year": lambda n: _first_day(n * 12) * DAY,
    "quarter": lambda n: _first_day(n * 3) * DAY,
    "month": lambda n: _first_day(n) * DAY,
    "week": lambda n: (n * 7 - _MONDAY) * DAY,
    "day": lambda n: n * DAY,
    "hour": lambda n: n * _HOUR,
    "minute": lambda n: n * _MINUTE,
}


def _iso_year(t: Whole) -> Whole:
    thursday = PERIODS["week"](t) * 7 - _MONDAY + 3
    return np.asarray(PERIODS["year"](thursday * DAY))


def _week(t: Whole) -> Whole:
    thursday = PERIODS["week"](t) * 7 - _MONDAY + 3
    return np.asarray(np.floor_divide(thursday - _first_day(_iso_year(t) * 12), 7) + 1)


def _sunday_week(t: Whole) -> Whole:
    return np.asarray(np.floor_divide(np.floor_divide(t, DAY) + 4, 7))


# Part: (least, largest, the period within which it grows, its value).
_PARTS: dict[str, tuple[int, int, Callable[[Whole], Whole], Callable[[Whole], Whole]]] = {
    "year": (1, 9999, lambda t: t * 0, lambda t: PERIODS["year"](t) + 1970),
    "quarter": (1, 4, PERIODS["year"], lambda t: PERIODS["quarter"](t) % 4 + 1),
    "month": (1, 12, PERIODS["year"], lambda t: _months(t) % 12 + 1),
    "day": (1, 31, _months, lambda t: np.floor_divide(t, DAY) - _first_day(_months(t)) + 1),
    "week": (1, 53, _iso_year, _week),
    "dayofweek": (0, 6, _sunday_week, lambda t: (np.floor_divide(t, DAY) + 4) % 7),
    "isodow": (1, 7, PERIODS["week"], lambda t: (np.floor_divide(t, DAY) + _MONDAY) % 7 + 1),
    "dayofyear": (1, 366, PERIODS["year"], lambda t: np.floor_divide(t, DAY) - _first_day(_months(t) // 12 * 12) + 1),
    "hour": (0, 23, PERIODS["day"], lambda t: PERIODS["hour"](t) % 24),
    "minute": (0, 59, PERIODS["hour"], lambda t: PERIODS["minute"](t) % 60),
}


def part_range(name: str, low: Whole, high: Whole) -> tuple[Floats, Floats] | None:
    """Least and largest part between two moments, or None for an unknown part."""
    if name not in _PARTS:
        return None
    least, largest, period, value = _PARTS[name]
    same = period(low) == period(high)
    return np.where(same, value(low), least).astype(float), np.where(same, value(high), largest).astype(float)


def truncated(unit: str, moment: Whole) -> Whole:
    """The start of the period that holds a moment."""
    return _STARTS[unit](PERIODS[unit](moment))


def bucket_number(width: str, moment: Whole) -> Whole:
    """Number of the bucket that holds a moment (microseconds from 1970), as DuckDB's ``time_bucket`` counts them.

    Args:
        width: months (``"6 months"``), counted from 2000-01-01, or minutes (``"15 minutes"``), from Monday 2000-01-03.
        moment: microseconds from 1970.
    """
    size, unit = read_width(width)
    if unit == "months":
        return np.asarray(np.floor_divide(_months(moment) - _FIRST_MONTH, size))
    return np.asarray(np.floor_divide(moment - _FIRST_MONDAY, size * _MINUTE))


def bucket_start(width: str, number: Whole) -> Whole:
    """Where a bucket of that number begins, in microseconds from 1970; one may begin before year 1."""
    size, unit = read_width(width)
    if unit == "months":
        return _first_day(number * size + _FIRST_MONTH) * DAY
    return number * (size * _MINUTE) + _FIRST_MONDAY


def read_width(width: str) -> tuple[int, str]:
    """How many, and of what: months or minutes.

    Raises:
        KeyError: no such width.
    """
    found = re.fullmatch(r"([1-9][0-9]{0,8}) (months|minutes)", width)
    if found is None:
        raise KeyError(width)
    return int(found[1]), found[2]
