"""Dates and timestamps; columns are read clamped to years 1 to 9999, so none of these leaves its range."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call
from duckdp.compiler.number_types import INTEGER, always_of
from duckdp.compiler.operators.moved import as_day, as_moment, cut_moment, shifted_moment
from duckdp.compiler.operators.row import Args, D, N, Operator, S, T, always, short, within
from duckdp.compiler.operators.spans import Rule, everything
from duckdp.core.calendar import DAY, EARLIEST, PERIODS, bucket_number, bucket_start, part_range, read_width, truncated
from duckdp.core.interval import REALS, Interval
from duckdp.core.rectangles import Span

# Units to cut at, in days; differences are counted in all of core.calendar's, of which these are cut toward 1970.
_SHORT = ("hour", "minute", "second", "millisecond", "microsecond")
UNITS = {"year": 366, "quarter": 92, "month": 31, "week": 7, "day": 1, "hour": 1 / 24, "minute": 1 / 1440}
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


def _counted(unit: str) -> str:
    if unit not in PERIODS:
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


def _bucket(width: str, moment: str, last: str) -> str:
    """Months or minutes that begin together; NULL where they begin before year 1, at ``last`` or earlier."""
    size, unit = read_width(width)
    interval = f"system.main.to_{unit}(CAST({size} AS {'INTEGER' if unit == 'months' else 'BIGINT'}))"
    return f"nullif(system.main.greatest(system.main.time_bucket({interval}, {moment}), {last}), {last})"


def _early(args: Args) -> bool:
    """Whether a bucket may begin before year 1, or there is no moment: the widest is of a thousand years."""
    return args[0].nullable or args[0].dates is None or args[0].dates[0].year < 1100


def _bucketed(call: Call, args: Sequence[Span]) -> Span:
    ends = moments(args[0], call.arguments[0].kind)
    if ends is None:
        return everything()
    low, high = (np.maximum(bucket_start(call.option, bucket_number(call.option, end)), EARLIEST) for end in ends)
    return of_days((low, high), DAY if call.kind is D else 1)


def _difference(call: Call, args: Sequence[Span]) -> Span:
    first, second = (moments(a, e.kind) for a, e in zip(args, call.arguments, strict=True))
    if first is None or second is None:
        return everything()
    (a, b), (c, d) = first, second
    count = PERIODS[call.option]
    before = (np.minimum(a, c) < 0) & (call.option in _SHORT)
    room = np.where(before | (call.option == "week"), 1.0, 0.0)  # weeks: wherever they are taken to begin
    least, most = (count(c) - count(b)).astype(np.float64), (count(d) - count(a)).astype(np.float64)
    return Span(least - room, most + room)


FORMATS = {  # of strftime: the unit that each part of a format needs
    "Y": "year",
    "y": "year",
    "m": "month",
    "B": "month",
    "b": "month",
    "d": "day",
    "j": "day",
    "A": "day",
    "a": "day",
    "w": "day",
    "u": "day",
    "V": "day",
    "G": "day",
    "H": "hour",
    "I": "hour",
    "p": "hour",
    "M": "minute",
}
_BETWEEN = re.compile(r"(%[A-Za-z]|[-/:._ T,]|[0-9])*")


def _form(form: str) -> str:
    if not _BETWEEN.fullmatch(form) or any(part not in FORMATS for part in re.findall("%(.)", form)):
        raise KeyError(form)
    return form


def _shifted(moment: str, option: str) -> str:
    """A moment so many months, days and microseconds later."""
    months, days, micros = (int(n) for n in option.split(","))
    parts = (
        (months, "to_months", "INTEGER"),
        (days, "to_days", "INTEGER"),
        (micros, "to_microseconds", "BIGINT"),
    )
    return f"({' + '.join([moment, *(f'system.main.{f}(CAST({n} AS BIGINT))' for n, f, t in parts if n)])})"


def _micros(args: Args) -> Interval:
    span = _seconds(args, "")
    return Interval(span.lower * 1e6, span.upper * 1e6)


def _seconds(args: Args, _: str) -> Interval:
    first, last = args[0].dates or (dt.date(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999))
    least, most = ((as_moment(d) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) for d in (first, last))
    return Interval(math.floor(least / 1e6), math.ceil(most / 1e6))


def _epoch(call: Call, args: Sequence[Span]) -> Span:
    ends = moments(args[0], call.arguments[0].kind)
    if ends is None:
        return everything()
    low, high = (np.floor_divide(end, 10**6).astype(float) for end in ends)
    return Span(low, high + 1)


def _years(args: Args, _: str) -> Interval:
    found = args[0].dates
    return Interval(found[0].year, found[1].year) if found is not None else Interval(1, 9999)


def _between(args: Args, unit: str) -> tuple[int, int] | None:
    """The least and the largest number of periods between two moments, by where they begin."""
    if args[0].dates is None or args[1].dates is None:
        return None
    a, b, c, d = (
        np.array(as_moment(end), dtype="datetime64[us]").astype(np.int64) for arg in args for end in arg.dates or ()
    )
    number = PERIODS[unit]
    room = 1 if unit == "week" or (unit in _SHORT and min(a, c) < 0) else 0  # as in _difference
    return int(number(c) - number(b)) - room, int(number(d) - number(a)) + room


def _difference_image(args: Args, unit: str) -> Interval:
    found = _between(args, unit)
    return REALS if found is None else Interval(*found)


def _passed_image(args: Args, unit: str) -> Interval:
    """Whole periods that have passed: as many as begin, or one less, on either side of 0."""
    found = _between(args, unit)
    if found is None:
        return REALS
    least, most = found
    return Interval(least - 1 if least > 0 else least, most + 1 if most < 0 else most)


def _part(
    name: str,
    low: int,
    high: int,
    *nodes: type[exp.Expression],
    kinds: tuple[Kind, ...] = (D, S),
    words: tuple[str, ...] = (),
    interval: Callable[[Args, str], Interval] | None = None,
    known: bool = True,
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
            encloses=_of_part(name) if known else None,
        )
        for k in kinds
    ]


DATES: tuple[Operator, ...] = (
    *_part("year", 1, 9999, exp.Year, interval=_years),
    *_part("month", 1, 12, exp.Month),
    *_part("day", 1, 31, exp.Day, exp.DayOfMonth, words=("dayofmonth",)),
    *_part("quarter", 1, 4, exp.Quarter),
    *_part("week", 1, 53, exp.Week, exp.WeekOfYear, words=("weekofyear",)),
    *_part("dayofweek", 0, 6, exp.DayOfWeek, words=("dow", "weekday")),
    *_part("isodow", 1, 7, exp.DayOfWeekIso, words=("isodow",)),
    *_part("dayofyear", 1, 366, exp.DayOfYear, words=("doy",)),
    *_part("hour", 0, 23, exp.Hour, kinds=(S,)),
    *_part("minute", 0, 59, exp.Minute, kinds=(S,)),
    *_part("second", 0, 59, exp.Second, kinds=(S,), known=False),
    *_part("isoyear", 0, 9999, kinds=(D, S), words=("isoyear",), known=False),
    *_part("decade", 0, 999, kinds=(D, S), words=("decade",), known=False),
    *_part("century", 1, 100, kinds=(D, S), words=("century",), known=False),
    *_part("millennium", 1, 10, kinds=(D, S), words=("millennium",), known=False),
    *_part("era", 1, 1, kinds=(D, S), words=("era",), known=False),
    *_part("yearweek", 0, 999_953, kinds=(D, S), words=("yearweek",), known=False),
    *_part("millisecond", 0, 59_999, kinds=(S,), words=("millisecond",), known=False),
    *_part("microsecond", 0, 59_999_999, kinds=(S,), words=("microsecond",), known=False),
    *(
        Operator(  # whole units that have passed, as in an age
            name=f"date_sub_{k.value}",
            stem="date_sub",
            takes=(k, k),
            gives=N,
            offered=("date_sub",),
            sql=lambda a, unit: f"CAST(system.main.date_sub('{_counted(unit)}', {a[0]}, {a[1]}) AS DOUBLE)",
            interval=_passed_image,
            integral=always,
            number_type=always_of(INTEGER),
        )
        for k in (D, S)
    ),
    *(
        Operator(
            name=f"strftime_{k.value}",
            stem="strftime",
            takes=(k,),
            gives=T,
            offered=("strftime",),
            sql=lambda a, form: short(f"system.main.strftime({a[0]}, '{_form(form)}')"),
        )
        for k in (D, S)
    ),
    Operator(  # exact as a DOUBLE until the year 2255
        name="micros",
        takes=(S,),
        gives=N,
        sql=lambda a, _: f"CAST(system.main.epoch_us({a[0]}) AS DOUBLE)",
        interval=lambda args, _: _micros(args),
        integral=always,
        number_type=always_of(INTEGER),
    ),
    Operator(  # the reader takes columns whose bounds keep it within the calendar
        name="shifted",
        takes=(S,),
        gives=S,
        sql=lambda a, months_days_micros: _shifted(a[0], months_days_micros),
        moved=shifted_moment,
    ),
    *(
        Operator(  # in seconds from 1970
            name=f"epoch_{k.value}",
            stem="epoch",
            takes=(k,),
            gives=N,
            nodes=(exp.TimeToUnix,),
            reading="part",
            words=("epoch",),
            offered=("epoch",),
            sql=lambda a, _: f"system.main.epoch({a[0]})",
            interval=_seconds,
            encloses=_epoch,
        )
        for k in (D, S)
    ),
    Operator(
        name="trunc_date",
        stem="trunc",
        takes=(D,),
        gives=D,
        offered=("date_trunc",),
        period=True,
        sql=lambda a, unit: f"CAST(system.main.date_trunc('{_unit(unit)}', {a[0]}) AS DATE)",
        moved=lambda moment, unit: as_day(cut_moment(moment, unit)),
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
        moved=cut_moment,
        encloses=_truncated,
    ),
    Operator(
        name="bucket_date",
        stem="bucket",
        takes=(D,),
        gives=D,
        offered=("time_bucket",),
        period=True,
        sql=lambda a, width: _bucket(width, a[0], "DATE '0001-12-31 (BC)'"),
        nullable=_early,
        makes_null=True,
        encloses=_bucketed,
    ),
    Operator(
        name="bucket_timestamp",
        stem="bucket",
        takes=(S,),
        gives=S,
        offered=("time_bucket",),
        period=True,
        sql=lambda a, width: _bucket(width, a[0], "TIMESTAMP '0001-12-31 (BC) 23:59:00'"),
        nullable=_early,
        makes_null=True,
        encloses=_bucketed,
    ),
    *(
        Operator(
            name=f"date_diff_{k.value}",
            stem="date_diff",
            takes=(k, k),
            gives=N,
            offered=("date_diff",),
            sql=lambda a, unit: f"CAST(system.main.date_diff('{_counted(unit)}', {a[0]}, {a[1]}) AS DOUBLE)",
            interval=_difference_image,
            integral=always,
            number_type=always_of(INTEGER),
            encloses=_difference,
        )
        for k in (D, S)
    ),
)
