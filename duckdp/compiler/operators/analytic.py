"""Functions that are analytic: roots, powers, exponentials, logarithms, angles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from sqlglot import exp

from duckdp.compiler.expression import Call, Expr
from duckdp.compiler.operators import spans as sp
from duckdp.compiler.operators.arithmetic import constant_of
from duckdp.compiler.operators.row import Args, Facts, N, Operator, always, function, outward, spans
from duckdp.compiler.vectors import of_one, of_two
from duckdp.core import discs as ds
from duckdp.core import interval as iv
from duckdp.core import rectangles as rc
from duckdp.core.discs import Discs
from duckdp.core.interval import REALS, Interval
from duckdp.core.rectangles import Floats, Rectangle, Span

MAX_EXPONENT = 1024  # of a whole power on intervals
TINY = 5e-324  # the smallest DOUBLE above 0
POSITIVE = Interval(TINY, math.inf)
TURNS = Interval(-1e15, 1e15)  # of angles: beyond them DuckDB's library knows no digit


def _grown(
    of: Callable[[float], float], low: float = -math.inf, high: float = math.inf
) -> Callable[[Interval], Interval]:
    """Image under an increasing function of another mathematics library."""
    return lambda a: outward(iv.monotone(of, a), low=low, high=high)


def _logarithm(of: Callable[[Floats], Floats]) -> sp.Rule:
    def rule(_: Call, a: Sequence[Span]) -> Span:
        low, high = of(np.maximum(a[0].low, 0.0)), of(np.maximum(a[0].high, 0.0))
        return Span(low - 1e-14 * (1 + np.abs(low)), high + 1e-14 * (1 + np.abs(high)))

    return rule


_natural = _logarithm(np.log)


def _exponential(_: Call, a: Sequence[Span]) -> Span:
    found = sp.widened(np.exp(a[0].low), np.exp(a[0].high))
    return Span(np.maximum(found.low, 0), found.high)


def _real(of: Callable[[Rectangle], Rectangle]) -> sp.Rule:
    """A rule of rectangles, on the real line."""
    return lambda _, a: of(Rectangle(a[0], Span(np.zeros(()), np.zeros(())))).re


def _power_image(args: Args, _: str) -> Interval:
    base, exponent = args[0].interval, args[1].interval
    found = iv.power(base, exponent.lower) if base.finite and exponent.lower == exponent.upper else REALS
    return outward(found) if found.finite else REALS


def _no_power(a: Facts, b: Facts) -> bool:
    return a.interval.lower < 0 and not b.integral


def _power_is_entire(call: Call) -> bool:
    exponent = constant_of(call.arguments[1])
    return exponent is not None and exponent.is_integer() and exponent >= 0


def _power_span(call: Call, args: Sequence[Span]) -> Span:
    base, exponent = args
    known = constant_of(call.arguments[1])
    if known is not None and known.is_integer() and abs(known) <= MAX_EXPONENT:
        n = int(abs(known))
        low, high = (base.low, base.high) if n % 2 else (base.least, base.size)
        found = _power_ends(low, high, float(n)) if n else sp.point(1.0)
        return found if known >= 0 else sp.quotient(sp.point(1.0), found)
    if known is not None and known > 0:
        ends = _power_ends(np.maximum(base.low, 0), base.high, known)
        return Span(np.where(base.low < 0, -math.inf, ends.low), np.where(base.low < 0, math.inf, ends.high))
    log = _natural(call, [base])
    with_log = Span(np.where(base.low < 0, -math.inf, log.low), np.where(base.low < 0, math.inf, log.high))
    whole = _exponential(call, [sp.product(exponent, with_log)])
    return Span(np.where(base.low < 0, -math.inf, whole.low), whole.high)


def _power_ends(low: Floats, high: Floats, n: float) -> Span:
    return sp.widened(np.power(low, n), np.power(high, n))


def _by_logarithm(base: float) -> Callable[[Call, Sequence[Rectangle]], Rectangle]:
    return lambda _, z: rc.logarithm(z[0]) * rc.reciprocal(rc.point(math.log(base)))


def _disc_logarithm(base: float) -> Callable[[Call, Sequence[Discs]], Discs]:
    return lambda _, z: ds.logarithm(z[0]) * ds.reciprocal(ds.logarithm(ds.point(base)))


def _disc_power(call: Call, z: Sequence[Discs]) -> Discs:
    known = constant_of(call.arguments[1])
    if known is not None and known.is_integer() and abs(known) <= MAX_EXPONENT:
        found = ds.whole_power(z[0], int(abs(known)))
        return found if known >= 0 else ds.reciprocal(found)
    return ds.exponential(z[1] * ds.logarithm(z[0]))


def _power_tells(args: Sequence[Expr]) -> tuple[int, ...]:
    known = constant_of(args[1]) if len(args) == 2 else None
    return () if known is not None and known >= 0 else (0,)


ANALYTIC: tuple[Operator, ...] = (
    Operator(
        name="power",
        takes=(N, N),
        gives=N,
        sql=function("pow"),
        nodes=(exp.Pow,),
        offered=("power",),
        interval=_power_image,
        signed=_power_tells,
        undefined=_no_power,
        bends=False,
        released=of_two(lambda a, b: (a**b, b * a ** (b - 1), a**b * np.log(a))),
        analytic=lambda _, z: rc.exponential(z[1] * rc.logarithm(z[0])),
        discs=_disc_power,
        entire=_power_is_entire,
        encloses=_power_span,
    ),
    Operator(
        name="sqrt",
        takes=(N,),
        gives=N,
        sql=function("sqrt"),
        nodes=(exp.Sqrt,),
        offered=("sqrt",),
        interval=spans(lambda a: iv.monotone(math.sqrt, a)),
        domain=Interval(0, math.inf),
        bends=False,
        released=of_one(lambda a: (np.sqrt(a), 0.5 / np.sqrt(a))),
        analytic=lambda _, z: rc.exponential(rc.point(0.5) * rc.logarithm(z[0])),
        discs=lambda _, z: ds.exponential(ds.point(0.5) * ds.logarithm(z[0])),
        encloses=lambda _, a: sp.widened(np.sqrt(np.maximum(a[0].low, 0)), np.sqrt(np.maximum(a[0].high, 0))),
    ),
    Operator(
        name="exp",
        takes=(N,),
        gives=N,
        sql=function("exp"),
        nodes=(exp.Exp,),
        offered=("exp",),
        interval=spans(_grown(math.exp, low=0)),
        bends=False,
        released=of_one(lambda a: (np.exp(a), np.exp(a))),
        analytic=lambda _, z: rc.exponential(z[0]),
        discs=lambda _, z: ds.exponential(z[0]),
        entire=always,
        encloses=_exponential,
    ),
    Operator(
        name="ln",
        takes=(N,),
        gives=N,
        sql=function("ln"),
        nodes=(exp.Ln,),
        offered=("ln",),
        interval=spans(_grown(math.log)),
        domain=POSITIVE,
        bends=False,
        released=of_one(lambda a: (np.log(a), 1 / a)),
        analytic=lambda _, z: rc.logarithm(z[0]),
        discs=lambda _, z: ds.logarithm(z[0]),
        encloses=_natural,
    ),
    Operator(
        name="log10",
        takes=(N,),
        gives=N,
        sql=function("log10"),
        offered=("log",),
        interval=spans(_grown(math.log10)),
        domain=POSITIVE,
        bends=False,
        analytic=_by_logarithm(10),
        discs=_disc_logarithm(10),
        encloses=_logarithm(np.log10),
    ),
    Operator(
        name="log2",
        takes=(N,),
        gives=N,
        sql=function("log2"),
        interval=spans(_grown(math.log2)),
        domain=POSITIVE,
        bends=False,
        analytic=_by_logarithm(2),
        discs=_disc_logarithm(2),
        encloses=_logarithm(np.log2),
    ),
    Operator(
        name="sin",
        takes=(N,),
        gives=N,
        sql=function("sin"),
        nodes=(exp.Sin,),
        offered=("sin",),
        interval=spans(lambda _: Interval(-1, 1)),
        domain=TURNS,
        bends=False,
        analytic=lambda _, z: rc.sine(z[0]),
        discs=lambda _, z: ds.sine(z[0]),
        entire=always,
        encloses=_real(rc.sine),
    ),
    Operator(
        name="cos",
        takes=(N,),
        gives=N,
        sql=function("cos"),
        nodes=(exp.Cos,),
        offered=("cos",),
        interval=spans(lambda _: Interval(-1, 1)),
        domain=TURNS,
        bends=False,
        analytic=lambda _, z: rc.cosine(z[0]),
        discs=lambda _, z: ds.cosine(z[0]),
        entire=always,
        encloses=_real(rc.cosine),
    ),
    Operator(
        name="tanh",
        takes=(N,),
        gives=N,
        sql=function("tanh"),
        nodes=(exp.Tanh,),
        offered=("tanh",),
        interval=spans(_grown(math.tanh, low=-1, high=1)),
        bends=False,
        analytic=lambda _, z: rc.hyperbolic_tangent(z[0]),
        discs=lambda _, z: ds.hyperbolic_tangent(z[0]),
        encloses=sp.grows(np.tanh),
    ),
    Operator(
        name="atan",
        takes=(N,),
        gives=N,
        sql=function("atan"),
        nodes=(exp.Atan,),
        offered=("atan",),
        interval=spans(_grown(math.atan)),
        bends=False,
        analytic=lambda _, z: rc.arc_tangent(z[0]),
        discs=lambda _, z: ds.arc_tangent(z[0]),
        encloses=sp.grows(np.arctan),
    ),
    Operator(  # of a DuckDB with another library the last digits differ
        name="atan2",
        takes=(N, N),
        gives=N,
        sql=function("atan2"),
        nodes=(exp.Atan2,),
        offered=("atan2",),
        signed=lambda _: (0, 1),
        interval=lambda _, __: outward(Interval(-math.pi, math.pi)),
    ),
    Operator(
        name="asinh",
        takes=(N,),
        gives=N,
        sql=function("asinh"),
        nodes=(exp.Asinh,),
        offered=("asinh",),
        interval=spans(_grown(math.asinh)),
        bends=False,
        released=of_one(lambda a: (np.arcsinh(a), 1 / np.sqrt(a * a + 1))),
    ),
)
