"""Dates and timestamps; columns are read clamped to years 1 to 9999, so none of these leaves its range."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call
from duckdp.compiler.number_types import INTEGER, always_of
from duckdp.compiler.operators.row import Args, D, N, Operator, S, always, within
from duckdp.compiler.operators.spans import Rule, everything
from duckdp.core.calendar import DAY, PERIODS, part_range, truncated
from duckdp.core.interval import REALS, Interval
from duckdp.core.rectangles import Span

UNITS = {"year": 366, "quarter": 92, "month": 31, "week": 7, "day": 1, "hour": 1 / 24, "minute": 1 / 1440}
SHORTEST = {"year": 365, "quarter": 90, "month": 28}  # days of the shortest such unit
Moments = tuple[NDArray[np.int64], NDArray[np.int64]]


def moments(span: Span, kind: Kind) -> Moments | None:
    """Ends in microseconds from 1970, of days or of microseconds; None where one is not known."""
    if not (np.isfinite(span.low).all() and np.isfinite(span.high).all()):
        return None
    scale = DAY if kind is D else 1
    return np.rint(span.low).astype(np.int64) * scale, np.rint(span.high).astype(np.int64) * scale


def of_days(ends: Moments, scale: int) -> Span:
    """Ends in microseconds as a range of days (scale DAY) or of microseconds (1)."""
    low, high = (np.floor_divide(end, scale).astype(float) for end in ends)
    return Span(low, high)


def _unit(unit: str) -> str:
    if unit not in UNITS:
        raise KeyError(unit)
    return unit


def _of_part(name: str) -> Rule:
    def rule(call: Call, args: Sequence[Span]) -> Span:
        ends = moments(args[0], call.arguments[0].kind)
        found = None if ends is None else part_range(name, *ends)
        return everything() if found is None else Span(*found)

    return rule


def _truncated(call: Call, args: Sequence[Span]) -> Span:
    ends = moments(args[0], call.arguments[0].kind)
    if ends is None:
        return everything()
    low, high = (truncated(call.option, end) for end in ends)
    return of_days((low, high), DAY if call.kind is D else 1)


def _difference(call: Call, args: Sequence[Span]) -> Span:
    first, second = (moments(a, e.kind) for a, e in zip(args, call.arguments, strict=True))
    if first is None or second is None:
        return everything()
    (a, b), (c, d) = first, second
    count = PERIODS[call.option]
    before = (np.minimum(a, c) < 0) & (call.option in ("hour", "minute"))  # cut toward 1970
    room = np.where(before | (call.option == "week"), 1.0, 0.0)  # weeks: wherever they are taken to begin
    least, most = (count(c) - count(b)).astype(np.float64), (count(d) - count(a)).astype(np.float64)
    return Span(least - room, most + room)


def _years(args: Args, _: str) -> Interval:
    found = args[0].dates
    return Interval(found[0].year, found[1].year) if found is not None else Interval(1, 9999)


def _difference_image(args: Args, unit: str) -> Interval:
    first, second = args[0].dates, args[1].dates
    if first is None or second is None:
        return REALS
    least = (_moment(second[0]) - _moment(first[1])).total_seconds() / 86400
    most = (_moment(second[1]) - _moment(first[0])).total_seconds() / 86400
    shortest = SHORTEST.get(unit, UNITS[unit])
    return Interval(
        math.floor(least / shortest) - 1 if least < 0 else -1, math.ceil(most / shortest) + 1 if most > 0 else 1
    )


def _moment(d: dt.date) -> dt.datetime:
    return d if isinstance(d, dt.datetime) else dt.datetime(d.year, d.month, d.day)


def _part(
    name: str,
    low: int,
    high: int,
    *nodes: type[exp.Expression],
    kinds: tuple[Kind, ...] = (D, S),
    words: tuple[str, ...] = (),
    interval: Callable[[Args, str], Interval] | None = None,
) -> list[Operator]:
    """The rows of one part, which ``extract``, ``date_part`` and a function of its name take."""
    return [
        Operator(
            name=f"{name}_{k.value}",
            stem=name,
            takes=(k,),
            gives=N,
            nodes=nodes,
            words=words,
            offered=(name,),
            reading="part",
            sql=lambda a, _: f"CAST(system.main.{name}({a[0]}) AS DOUBLE)",
            interval=interval or within(low, high),
            integral=always,
            number_type=always_of(INTEGER),
            encloses=_of_part(name),
        )
        for k in kinds
    ]


DATES: tuple[Operator, ...] = (
    *_part("year", 1, 9999, exp.Year, interval=_years),
    *_part("month", 1, 12, exp.Month),
    *_part("day", 1, 31, exp.Day, exp.DayOfMonth, words=("dayofmonth",)),
    *_part("quarter", 1, 4, exp.Quarter),
    *_part("week", 1, 53, exp.Week, exp.WeekOfYear, words=("weekofyear",)),
    *_part("dayofweek", 0, 6, exp.DayOfWeek, words=("dow",)),
    *_part("isodow", 1, 7, exp.DayOfWeekIso, words=("isodow",)),
    *_part("dayofyear", 1, 366, exp.DayOfYear, words=("doy",)),
    *_part("hour", 0, 23, exp.Hour, kinds=(S,)),
    *_part("minute", 0, 59, exp.Minute, kinds=(S,)),
    Operator(
        name="trunc_date",
        stem="trunc",
        takes=(D,),
        gives=D,
        offered=("date_trunc",),
        period=True,
        sql=lambda a, unit: f"CAST(system.main.date_trunc('{_unit(unit)}', {a[0]}) AS DATE)",
        encloses=_truncated,
    ),
    Operator(
        name="trunc_timestamp",
        stem="trunc",
        takes=(S,),
        gives=S,
        offered=("date_trunc",),
        period=True,
        sql=lambda a, unit: f"system.main.date_trunc('{_unit(unit)}', {a[0]})",
        encloses=_truncated,
    ),
    *(
        Operator(
            name=f"date_diff_{k.value}",
            stem="date_diff",
            takes=(k, k),
            gives=N,
            offered=("date_diff",),
            sql=lambda a, unit: f"CAST(system.main.date_diff('{_unit(unit)}', {a[0]}, {a[1]}) AS DOUBLE)",
            interval=_difference_image,
            integral=always,
            number_type=always_of(INTEGER),
            encloses=_difference,
        )
        for k in (D, S)
    ),
)
