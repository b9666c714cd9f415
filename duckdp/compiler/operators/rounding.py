"""Functions that jump from one whole number to the next."""

from __future__ import annotations

import math

import numpy as np
from sqlglot import exp

from duckdp.compiler.number_types import DOUBLE, always_of, of_rounded, whole_type
from duckdp.compiler.operators import spans as sp
from duckdp.compiler.operators.row import (
    Digits,
    N,
    Operator,
    always,
    function,
    spans,
    within,
)
from duckdp.compiler.vectors import stepped
from duckdp.core import interval as iv
from duckdp.core.interval import Interval
from duckdp.core.rectangles import Floats


def _away(x: Floats) -> Floats:
    """The nearest whole number; halves go away from 0."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _even(x: Floats) -> Floats:
    """The next even whole number, away from 0."""
    return np.copysign(np.ceil(np.abs(x) / 2) * 2.0, x)


def _near(a: Interval) -> Interval:
    return Interval(a.lower - 0.5, a.upper + 0.5)


ROUNDING: tuple[Operator, ...] = (
    Operator(
        name="floor",
        takes=(N,),
        gives=N,
        sql=function("floor"),
        nodes=(exp.Floor,),
        offered=("floor",),
        interval=spans(lambda a: iv.monotone(math.floor, a)),
        integral=always,
        keeps_finite=True,
        exact=True,
        number_type=of_rounded(DOUBLE),
        digits=Digits.STEPS,
        released=stepped(np.floor),
        encloses=sp.rises(np.floor),
    ),
    Operator(
        name="ceil",
        takes=(N,),
        gives=N,
        sql=function("ceil"),
        nodes=(exp.Ceil,),
        offered=("ceil",),
        interval=spans(lambda a: iv.monotone(math.ceil, a)),
        integral=always,
        keeps_finite=True,
        exact=True,
        number_type=of_rounded(DOUBLE),
        digits=Digits.STEPS,
        released=stepped(np.ceil),
        encloses=sp.rises(np.ceil),
    ),
    Operator(
        name="round",
        takes=(N,),
        gives=N,
        sql=function("round"),
        offered=("round",),
        interval=spans(_near),
        integral=always,
        keeps_finite=True,
        number_type=of_rounded(),
        digits=Digits.STEPS,
        released=stepped(_away),
        encloses=sp.rises(_away),
    ),
    Operator(
        name="round_even",
        takes=(N,),
        gives=N,
        sql=lambda a, _: f"system.main.round_even({a[0]}, 0)",
        interval=spans(_near),
        integral=always,
        keeps_finite=True,
        by_value=True,
        as_cast=True,
        digits=Digits.STEPS,
        released=stepped(np.rint),
        encloses=sp.rises(np.rint),
    ),
    Operator(
        name="even",
        takes=(N,),
        gives=N,
        sql=function("even"),
        words=("even",),
        offered=("even",),
        interval=spans(lambda a: Interval(a.lower - 2, a.upper + 2)),
        integral=always,
        keeps_finite=True,
        digits=Digits.STEPS,
        encloses=sp.rises(_even),
    ),
    Operator(
        name="trunc",
        takes=(N,),
        gives=N,
        sql=function("trunc"),
        nodes=(exp.Trunc,),
        offered=("trunc",),
        interval=spans(lambda a: iv.monotone(math.trunc, a)),
        integral=always,
        keeps_finite=True,
        by_value=True,
        number_type=of_rounded(),
        digits=Digits.STEPS,
        released=stepped(np.trunc),
        encloses=sp.rises(np.trunc),
    ),
    Operator(
        name="sign",
        takes=(N,),
        gives=N,
        sql=lambda a, _: f"CAST(system.main.sign({a[0]}) AS DOUBLE)",
        nodes=(exp.Sign,),
        offered=("sign",),
        interval=within(-1, 1),
        integral=always,
        number_type=always_of(whole_type("TINYINT")),
        digits=Digits.STEPS,
        encloses=sp.rises(np.sign),
    ),
)
