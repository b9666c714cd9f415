"""Dates and timestamps of a model moved to the weekday, hour and month that were made beside them. Post-processing.

A row keeps the step of the range that it was counted in: rows near its ends would else leave it, and as more may leave
on one side than come from the other (a day on which nothing happens beside one on which much does), histograms would
err by more than their noise. Where steps are shorter than a week (a day, where only hours are made) they may lack such
a day, and two, four or eight of them are kept as one, or tenths of the range. Where months are made, rows change places
or months (``calendar_months``, ``calendar_links``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from duckdp.catalog.table import Column, Kind
from duckdp.catalog.values import as_number
from duckdp.synthetic.unit.calendar_links import dates_tell_more
from duckdp.synthetic.unit.calendar_months import Days, Ints, place_months, weekday_of
from duckdp.synthetic.unit.mending import Values

DAY = 86_400_000_000  # microseconds
HOUR = DAY // 24  # microseconds
TENTHS = 10  # steps of a range that rows keep at the least
What = Literal["hour", "weekday", "month", "gap"]
_EDGE = 1e-9  # of a step: so little below an edge is at it, as where rows are counted


def with_parts(
    values: Values, column: Column, parts: Sequence[tuple[What, Any]], steps: int, others: Sequence[Any] = ()
) -> Values:
    """Values at a near day of the weekday and month, and at the hour, that were made for them.

    Args:
        values: days of a DATE, microseconds of a TIMESTAMP.
        column: with its bounds.
        parts: what was made, by kind; None or a negative number: nothing.
        steps: equal ones of the range, which rows keep where they can.
        others: values of other columns, which may hang together with dates or months.
    """
    if not parts or not len(values.numbers):
        return values
    codes = {what: np.array([-1 if v is None else int(v) for v in np.asarray(p).tolist()]) for what, p in parts}
    none = np.full(len(values.numbers), -1)
    weekday, hour, month = (codes.get(what, none) for what in ("weekday", "hour", "month"))
    per_day = DAY if column.kind is Kind.TIMESTAMP else 1
    period = 7 if "weekday" in codes else 1
    lower, upper = as_number(column.lower), as_number(column.upper)
    steps = _long_enough(steps, (upper - lower) / per_day / period)
    old = np.asarray(values.numbers, dtype=np.int64)
    step = _step(old, lower, upper, steps)
    day, rest = np.divmod(old, per_day)
    rest = np.where(hour < 0, rest, hour * HOUR + rest % HOUR)
    if "month" in codes:
        where = ~values.missing
        found, time = old.copy(), rest[where]

        def step_of(day: Ints) -> Ints:
            number = day * per_day + time
            return np.where((number >= lower) & (number <= upper), _step(number, lower, upper, steps), -1)

        days, tenth = _whole_days(lower, upper, per_day, steps), _step(old[where], lower, upper, TENTHS)
        dates = dates_tell_more(tenth, np.maximum(month[where], 0), [np.asarray(o)[where] for o in others])
        placed = place_months(days, step[where], day[where], month[where] - 1, weekday[where], step_of, dates=dates)
        found[where] = placed * per_day + time
        return replace(values, numbers=np.clip(found, int(lower), int(upper)))
    turned = day + np.where(weekday < 0, 0, (weekday - weekday_of(day) + 3) % 7 - 3)
    best, least = old, np.full(len(old), np.inf)
    for periods in (0, -1, 1, -2, 2):  # two at the ends of the range
        number = (turned + periods * period) * per_day + rest
        inside = (number >= lower) & (number <= upper)
        cost = 4.0 * (_step(number, lower, upper, steps) != step) + np.abs(number - old) / per_day / 1e6
        better = inside & (cost < least) & (abs(periods) < 2 or np.isinf(least))
        best, least = np.where(better, number, best), np.where(better, cost, least)
    return replace(values, numbers=np.where(values.missing, values.numbers, best))


def _long_enough(steps: int, most: float) -> int:
    """Steps that are no more than ``most``: several as one, such that tenths are kept, or tenths."""
    while steps > most and steps % (2 * TENTHS) == 0:
        steps //= 2
    return steps if steps <= most else min(steps, TENTHS)


def _step(numbers: Ints, lower: float, upper: float, steps: int) -> Ints:
    place = np.floor((numbers - lower) / (upper - lower) * steps + _EDGE)
    return np.asarray(np.clip(place, 0, steps - 1).astype(np.int64))


def _whole_days(lower: float, upper: float, per_day: int, steps: int) -> Days:
    """The days of a range of which no part lies in another step."""
    day = np.arange(-(-int(lower) // per_day), int(upper) // per_day + (per_day == 1))
    first = _step(day * per_day, lower, upper, steps)
    whole = first == _step(day * per_day + per_day - 1, lower, upper, steps)
    return Days(day=day[whole], step=first[whole], steps=steps)
