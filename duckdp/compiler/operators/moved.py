"""Moments that are moved or cut: in Python what DuckDB makes of one moment, for bounds and for constants."""

from __future__ import annotations

import calendar
import datetime as dt

import numpy as np

from duckdp.core.calendar import truncated


def later(day: dt.date, months: int, days: int, micros: int) -> dt.datetime | None:
    """A moment moved as DuckDB does: months first, to the last day of a shorter one. None beyond the calendar.

    >>> later(dt.date(2024, 1, 31), 1, 1, 0)
    datetime.datetime(2024, 3, 1, 0, 0)
    """
    moment = as_moment(day)
    years, month = divmod(moment.month - 1 + months, 12)
    year = moment.year + years
    if not 1 <= year <= 9999:
        return None
    last = calendar.monthrange(year, month + 1)[1]
    moment = moment.replace(year=year, month=month + 1, day=min(moment.day, last))
    try:
        return moment + dt.timedelta(days=days, microseconds=micros)
    except OverflowError:
        return None


def as_moment(day: dt.date) -> dt.datetime:
    """A moment, or the first of a day."""
    return day if isinstance(day, dt.datetime) else dt.datetime(day.year, day.month, day.day)


def as_day(day: dt.date) -> dt.date:
    """A day, or that of a moment."""
    return day.date() if isinstance(day, dt.datetime) else day


def cut_moment(day: dt.date, unit: str) -> dt.datetime:
    """The start of the period that holds a moment.

    >>> cut_moment(dt.date(2024, 5, 31), "quarter")
    datetime.datetime(2024, 4, 1, 0, 0)
    """
    micros = np.array([as_moment(day)], dtype="datetime64[us]").astype(np.int64)
    (found,) = truncated(unit, micros).astype("datetime64[us]").tolist()
    assert isinstance(found, dt.datetime)
    return found


def shifted_moment(day: dt.date, months_days_micros: str) -> dt.datetime | None:
    """A moment so many months, days and microseconds later; None beyond the calendar."""
    months, days, micros = (int(n) for n in months_days_micros.split(","))
    return later(day, months, days, micros)
