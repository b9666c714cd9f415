"""From one kind or type to another, and what DuckDB's types make of a DOUBLE."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

import numpy as np

from duckdp.catalog.table import INTEGER_RANGES, Kind
from duckdp.compiler.expression import Call
from duckdp.compiler.number_types import INTEGER, always_of, of_first
from duckdp.compiler.operators.dates import moments, of_days
from duckdp.compiler.operators.moved import as_day, as_moment
from duckdp.compiler.operators.row import (
    Args,
    B,
    D,
    Days,
    Digits,
    N,
    Operator,
    S,
    T,
    always,
    keeps_whole,
    spans,
    within,
)
from duckdp.compiler.operators.spans import everything
from duckdp.compiler.vectors import Vector, stepped
from duckdp.core import interval as iv
from duckdp.core.calendar import DAY
from duckdp.core.interval import REALS, Interval
from duckdp.core.rectangles import Span


def _integer(name: str) -> str:
    if name not in INTEGER_RANGES:
        raise KeyError(name)
    return name


def _width_scale(option: str) -> str:
    width, scale = (int(n) for n in option.split(","))
    return f"{width}, {scale}"


def _units_image(args: Args, scale: str) -> Interval:
    return iv.monotone(lambda x: float(round(x * float(f"1e{int(scale)}"))), args[0].interval)


def _integer_image(args: Args, name: str) -> Interval:
    (low, high), span = INTEGER_RANGES[name], args[0].interval
    room = 0.0 if args[0].integral else 0.5
    return Interval(min(max(span.lower - room, low), high), max(min(span.upper + room, high), low))


def _truth(args: list[Vector], cells: int) -> Vector:
    value = np.array([np.nan if x is None else float(x) for x in args[0].value])
    return Vector(value, np.zeros((cells, len(value))))


def _at(convert: Callable[[dt.date], dt.date]) -> Callable[[Days], Days]:
    return lambda days: (convert(days[0]), convert(days[1]))


def _converted(call: Call, args: Sequence[Span]) -> Span:
    ends = moments(args[0], call.arguments[0].kind)
    return everything() if ends is None else of_days(ends, DAY if call.kind is D else 1)


def _cut(name: str, low: int) -> Operator:
    """A released number, brought to the range [low, 1] that it must lie in: its error is that of what is cut."""
    return Operator(
        name=name,
        takes=(N,),
        gives=N,
        sql=lambda a, _: f"(CASE WHEN {a[0]} < {low}e0 THEN {low}e0 WHEN {a[0]} > 1e0 THEN 1e0 ELSE {a[0]} END)",
        interval=within(low, 1),
        exact=True,
        bounds=True,
        released=stepped(lambda a: np.clip(a, low, 1)),
        encloses=lambda _, a: Span(np.clip(a[0].low, low, 1), np.clip(a[0].high, low, 1)),
    )


def _text(kind: Kind, sql: str) -> Operator:
    """A value as DuckDB writes it. Of numbers the reader takes whole ones alone, which a BIGINT holds."""
    return Operator(name=f"text_{kind.value}", stem="text", takes=(kind,), gives=T, sql=lambda a, _: sql.format(a[0]))


def _read_image(_: Args, name: str) -> Interval:
    """Bounds of the narrow types; those of wider ones would be no bounds to add up in: whoever does clamps them."""
    low, high = INTEGER_RANGES[name]
    return Interval(low, high) if high - low < 2**16 else REALS


def _within_calendar(cast: str, before: str, after: str) -> str:
    """A moment of a text, NULL where it is not from year 1 to 9999; greatest and least leave NULLs out."""
    cut = f"system.main.greatest(system.main.least({cast}, {after}), {before})"
    return f"nullif(nullif({cut}, {before}), {after})"


# TRY_CAST of a text, as DuckDB reads it: NULL where it is none.
_READ: tuple[Operator, ...] = (
    Operator(
        name="read_integer",
        takes=(T,),
        gives=N,
        sql=lambda a, t: f"CAST(TRY_CAST({a[0]} AS {_integer(t)}) AS DOUBLE)",
        interval=_read_image,
        integral=always,
        nullable=always,
        makes_null=True,
        number_type=always_of(INTEGER),
    ),
    Operator(  # NaN is NULL, as in a column
        name="read_double",
        takes=(T,),
        gives=N,
        sql=lambda a, _: f"NULLIF(TRY_CAST({a[0]} AS DOUBLE), CAST('nan' AS DOUBLE))",
        nullable=always,
        makes_null=True,
    ),
    Operator(
        name="read_date",
        takes=(T,),
        gives=D,
        sql=lambda a, _: _within_calendar(f"TRY_CAST({a[0]} AS DATE)", "DATE '0001-12-31 (BC)'", "DATE '10000-01-01'"),
        nullable=always,
        makes_null=True,
    ),
    Operator(
        name="read_timestamp",
        takes=(T,),
        gives=S,
        sql=lambda a, _: _within_calendar(
            f"TRY_CAST({a[0]} AS TIMESTAMP)",
            "TIMESTAMP '0001-12-31 (BC) 23:59:59.999999'",
            "TIMESTAMP '10000-01-01 00:00:00'",
        ),
        nullable=always,
        makes_null=True,
    ),
)
CASTS: tuple[Operator, ...] = (
    *_READ,
    _text(N, "CAST(TRY_CAST({} AS BIGINT) AS VARCHAR)"),
    Operator(  # a whole number of which no BIGINT is known to hold it; NULL beyond a HUGEINT
        name="text_huge",
        stem="text",
        takes=(N,),
        gives=T,
        sql=lambda a, _: f"CAST(TRY_CAST({a[0]} AS HUGEINT) AS VARCHAR)",
        nullable=always,
        makes_null=True,
    ),
    Operator(  # a DECIMAL of that width and scale; NULL beyond it
        name="text_decimal",
        stem="text",
        takes=(N,),
        gives=T,
        sql=lambda a, t: f"CAST(TRY_CAST({a[0]} AS DECIMAL({_width_scale(t)})) AS VARCHAR)",
        nullable=always,
        makes_null=True,
    ),
    _text(B, "CAST({} AS VARCHAR)"),
    _text(D, "CAST({} AS VARCHAR)"),
    _text(S, "CAST({} AS VARCHAR)"),
    Operator(  # NaN is NULL, as in a column: see Operator.undefined
        name="defined",
        takes=(N,),
        gives=N,
        sql=lambda a, _: f"NULLIF({a[0]}, CAST('nan' AS DOUBLE))",
        interval=lambda a, _: a[0].interval,
        integral=keeps_whole,
        nullable=always,
        keeps_finite=True,
        number_type=of_first,
        makes_null=True,
        bends=False,
    ),
    Operator(  # of 10**-scale each, in a DECIMAL
        name="units",
        takes=(N,),
        gives=N,
        sql=lambda a, s: f"system.main.round_even(({a[0]} * 1e{int(s)}), 0)",
        interval=_units_image,
        integral=always,
        digits=Digits.STEPS,
        bends=False,
    ),
    Operator(  # the nearest FLOAT; NULL beyond its range
        name="to_float",
        takes=(N,),
        gives=N,
        sql=lambda a, _: f"CAST(TRY_CAST({a[0]} AS FLOAT) AS DOUBLE)",
        interval=spans(lambda a: iv.monotone(iv.nearest_float, a)),
        integral=keeps_whole,
        nullable=always,
        digits=Digits.FLOAT,
        bends=False,
    ),
    Operator(  # halves to even; NULL beyond the type's range
        name="to_integer",
        takes=(N,),
        gives=N,
        sql=lambda a, t: f"CAST(TRY_CAST({a[0]} AS {_integer(t)}) AS DOUBLE)",
        interval=_integer_image,
        integral=always,
        nullable=always,
        digits=Digits.STEPS,
        makes_null=True,
        first_or_null=True,
        holds=lambda t: INTEGER_RANGES[_integer(t)],
        bends=False,
    ),
    _cut("within_one", -1),
    _cut("within_share", 0),
    Operator(  # BOOLEAN to 0 or 1
        name="number",
        takes=(B,),
        gives=N,
        sql=lambda a, _: f"CAST({a[0]} AS DOUBLE)",
        shown=lambda a: a[0],
        interval=within(0, 1),
        integral=always,
        exact=True,
        number_type=always_of(INTEGER),
        released=_truth,
        encloses=lambda _, a: a[0],
    ),
    Operator(
        name="to_date",
        label="to",
        takes=(S,),
        gives=D,
        sql=lambda a, _: f"CAST({a[0]} AS DATE)",
        dates=_at(as_day),
        moved=lambda moment, _: as_day(moment),
        encloses=_converted,
    ),
    Operator(
        name="to_timestamp",
        label="to",
        takes=(D,),
        gives=S,
        sql=lambda a, _: f"CAST({a[0]} AS TIMESTAMP)",
        dates=_at(as_moment),
        moved=lambda moment, _: as_moment(moment),
        encloses=_converted,
    ),
)
