"""Round figures of a column's type, in order: what private bounds are chosen from. Public, from the declaration alone.

Numbers have edges of four digits (1.234, 12.34, 123.4, ...) from 1e-12 to 1e18 and single ones to 1e100; dates
and timestamps the days from 1800 to 2200 and the years from 1 to 9999. A column's type or declared bounds cut them.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import INTEGER_RANGES, Column, Kind, Scalar

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
DIGITS = 4  # decimal digits of a round bound
SMALLEST, LARGEST = -12, 18  # powers of ten between which edges have all their digits
_SPARSE = (21, 24, 30, 38, 50, 75, 100)  # further powers
_DAY = 86_400_000_000  # microseconds
_EPOCH = dt.date(1970, 1, 1)
_MONTHS = (1, 3, 12, 24, 60, 120, 240, 600, 1200, 12_000)  # steps of a calendar beyond days


@dataclass(frozen=True, kw_only=True)
class NumberLadder:
    """Round bounds for a column of numbers.

    Attributes:
        least, most: of the type or the declared bounds.
        integral: whole numbers only.
    """

    least: float
    most: float
    integral: bool

    @cached_property
    def edges(self) -> Floats:
        """float[E], ascending; 0 is among them unless the bounds exclude it."""
        found = _numbers()
        if self.integral:
            found = found[found == np.floor(found)]
        inside = found[(found > self.least) & (found < self.most)]
        return np.unique(np.concatenate([[self.least], inside, [self.most]]))

    def coarse(self) -> tuple[Ints, int]:
        """1, 2, 5, 10, ... on both sides; the middle bin begins at 0, else at the least value."""
        tens = [10.0**k for k in _SPARSE]
        steps = [_decimal(m, k) for k in range(SMALLEST, LARGEST) for m in (1, 2, 5)]
        wanted = np.array([*tens, *steps, _decimal(1, LARGEST)])
        marks = np.unique(np.concatenate([-wanted, [0.0, self.least, self.most], wanted]))
        if self.integral:
            marks = marks[marks == np.floor(marks)]
        marks = marks[(marks >= self.least) & (marks <= self.most)]
        middle = int(np.searchsorted(marks, 0.0)) if self.least <= 0 < self.most else 0
        return np.searchsorted(self.edges, marks).astype(np.int64), middle

    def split(self, first: int, last: int, most: int) -> Ints:
        """Multiples of the least 1, 2 or 5 times a power of ten that is coarse enough."""
        low, high = float(self.edges[first]), float(self.edges[last])
        finest = math.floor(math.log10(max(abs(low), abs(high)))) - DIGITS + 1
        power = 0 if self.integral else SMALLEST
        power = max(power, finest, math.floor(math.log10(high - low)) - 2)
        while True:
            for m in (1, 2, 5):
                step = _decimal(m, power)
                a, b = math.floor(_near_whole(low / step)), math.ceil(_near_whole(high / step))
                if b - a <= most:
                    values = np.array([_decimal(m * k, power) for k in range(a, b + 1)])
                    return _covering(self.edges, values, first, last)
            power += 1

    def value(self, place: int) -> int | float:
        """An edge as a bound of the column."""
        found = float(self.edges[place])
        return int(found) if self.integral else found


@dataclass(frozen=True, kw_only=True)
class CalendarLadder:
    """Dates as days, or timestamps as microseconds, since 1970.

    Attributes:
        unit: of one day.
        least, most: of the declared bounds, or the calendar.
    """

    unit: int
    least: float
    most: float

    @cached_property
    def edges(self) -> Floats:
        """Ends of the ranges, float[E], ascending, in days or microseconds."""
        days = _days() * self.unit
        inside = days[(days > self.least) & (days < self.most)]
        return np.unique(np.concatenate([[self.least], inside, [self.most]]))

    def coarse(self) -> tuple[Ints, int]:
        """Decades since 1900, centuries and thousands of years beyond; the middle bin is that of 2000."""
        years = [1, 1000, 1500, 1600, 1700, 1800, *range(1900, 2101, 10), 2200, 2500, 3000, 9999]
        values = np.array([_day(dt.date(y, 1, 1)) for y in years], dtype=np.float64) * self.unit
        inside = values[(values > self.least) & (values < self.most)]
        marks = np.unique(np.concatenate([[self.least], inside, [self.most]]))
        middle = int(np.searchsorted(marks, _day(dt.date(2000, 1, 1)) * self.unit))
        return np.searchsorted(self.edges, marks).astype(np.int64), min(middle, len(marks) - 2)

    def split(self, first: int, last: int, most: int) -> Ints:
        """Days, months, quarters, years, 2, 5, 10, ... years: the least that is coarse enough."""
        low, high = self.date(first), self.date(last, up=True)
        if (high - low).days <= most:
            days = [_day(low) + i for i in range((high - low).days + 1)]
            return _covering(self.edges, np.array(days, dtype=np.float64) * self.unit, first, last)
        for months in _MONTHS:
            a, b = _month(low) // months, -(-(_month(high) + (high.day > 1)) // months)
            if b - a <= most:
                starts = [_day(_month_start(k * months)) for k in range(a, b + 1)]
                return _covering(self.edges, np.array(starts, dtype=np.float64) * self.unit, first, last)
        return np.array([first, last])

    def date(self, place: int, *, up: bool = False) -> dt.date:
        """The day of an edge; ``up``: the day it ends with."""
        days = self.edges[place] / self.unit
        return _EPOCH + dt.timedelta(days=math.ceil(days) if up and days < _day(dt.date.max) else math.floor(days))

    def value(self, place: int) -> dt.date:
        """An edge as a bound of the column."""
        if self.unit == 1:
            return self.date(place)
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=float(self.edges[place]))


def make_ladder(column: Column) -> NumberLadder | CalendarLadder:
    """The ladder of a number, date or timestamp."""
    if column.kind is Kind.NUMBER:
        least, most = _type_range(column)
        if column.lower is not None and column.upper is not None:
            least, most = float(column.lower), float(column.upper)  # type: ignore[arg-type]
        return NumberLadder(least=least, most=most, integral=column.integral)
    unit = 1 if column.kind is Kind.DATE else _DAY
    lower, upper = column.lower, column.upper
    if lower is None or upper is None:
        lower, upper = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)
    return CalendarLadder(unit=unit, least=_moment(lower, unit), most=_moment(upper, unit))


def _type_range(column: Column) -> tuple[float, float]:
    kind = column.type.upper()
    if kind in INTEGER_RANGES:
        least, most = INTEGER_RANGES[kind]
        nearest = float(most)
        return float(least), nearest if int(nearest) <= most else math.nextafter(nearest, 0.0)
    if found := re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", kind):
        whole = 10.0 ** (int(found[1]) - int(found[2]))
        return -whole, whole
    return -1e100, 1e100


@cache
def _numbers() -> Floats:
    """All edges of numbers of any type."""
    digits = np.arange(10 ** (DIGITS - 1), 10**DIGITS, dtype=np.float64)
    parts = [_scaled(digits, k - DIGITS + 1) for k in range(SMALLEST, LARGEST)]
    tens = [10.0**LARGEST, *(10.0**k for k in _SPARSE)]
    positive = np.concatenate([*parts, tens])
    return np.unique(np.concatenate([-positive, [0.0], positive]))


def _scaled(whole: Floats, power: int) -> Floats:
    """Whole numbers times a power of ten, each the nearest float: one rounding."""
    return np.asarray(whole * 10.0**power if power >= 0 else whole / 10.0**-power, dtype=np.float64)


def _decimal(whole: int, power: int) -> float:
    """The float nearest to whole times ten to the power."""
    return float(f"{whole}e{power}")


def _near_whole(quotient: float) -> float:
    """The whole number that a quotient of round figures is meant to be, if it is one."""
    whole = round(quotient)
    return whole if abs(quotient - whole) <= 1e-9 * max(1.0, abs(quotient)) else quotient


@cache
def _days() -> Floats:
    """Days since 1970 that are edges."""
    years = [_day(dt.date(y, 1, 1)) for y in (*range(1, 1800), *range(2201, 10_000))]
    days = np.arange(_day(dt.date(1800, 1, 1)), _day(dt.date(2201, 1, 1)), dtype=np.float64)
    return np.unique(np.concatenate([years, days]))


def _covering(edges: Floats, values: Floats, first: int, last: int) -> Ints:
    """Places of edges nearest to the values, from ``first`` or below to ``last`` or above."""
    places = np.minimum(np.searchsorted(edges, values), len(edges) - 1)
    places[0], places[-1] = min(places[0], first), max(places[-1], last)
    return np.unique(places).astype(np.int64)


def _moment(value: Scalar, unit: int) -> float:
    when: Any = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())  # type: ignore[arg-type]
    since = when - dt.datetime(1970, 1, 1)
    return float(since.days if unit == 1 else since // dt.timedelta(microseconds=1))


def _day(day: dt.date) -> int:
    return (day - _EPOCH).days


def _month(day: dt.date) -> int:
    return 12 * (day.year - 1) + day.month - 1


def _month_start(month: int) -> dt.date:
    year = month // 12 + 1
    return dt.date(year, month % 12 + 1, 1) if year <= 9999 else dt.date(9999, 12, 31)
