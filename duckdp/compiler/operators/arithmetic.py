"""Signs of arithmetic, on DOUBLE: they never raise, overflow is an infinity."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np
from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call, Expr, Literal
from duckdp.compiler.number_types import of_first, of_product, of_quotient, of_remainder, of_sum
from duckdp.compiler.operators import spans as sp
from duckdp.compiler.operators.row import (
    Args,
    Digits,
    Facts,
    N,
    Operator,
    always,
    between,
    function,
    infix,
    keeps_whole,
    spans,
)
from duckdp.compiler.vectors import of_one, of_two
from duckdp.core import discs as ds
from duckdp.core import interval as iv
from duckdp.core import rectangles as rc
from duckdp.core.discs import Discs
from duckdp.core.interval import REALS, Interval
from duckdp.core.rectangles import Rectangle, Span


def constant_of(expr: Expr) -> float | None:
    """Value of a constant made of literals and signs, or None."""
    match expr:
        case Literal(value=value) if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        case Call(operator="neg", arguments=(inner,)):
            found = constant_of(inner)
            return None if found is None else -found
    return None


def _one_sided(a: Interval, b: Interval) -> bool:
    """Whether both can only be infinite in the same direction."""
    return (a.lower > -math.inf and b.lower > -math.inf) or (a.upper < math.inf and b.upper < math.inf)


def _zero(a: Facts) -> bool:
    return a.interval.contains(0)


def _remainder_image(a: Interval, b: Interval) -> Interval:
    """Of the sign of the dividend, and no larger than it."""
    if b.contains(0):
        return REALS
    return Interval(-min(b.largest, max(-a.lower, 0)), min(b.largest, max(a.upper, 0)))


def _product(call: Call, z: Sequence[Rectangle]) -> Rectangle:
    return rc.square(z[0]) if call.arguments[0] == call.arguments[1] else z[0] * z[1]


def _disc_product(call: Call, z: Sequence[Discs]) -> Discs:
    return ds.square(z[0]) if call.arguments[0] == call.arguments[1] else z[0] * z[1]


def _product_span(call: Call, a: Sequence[Span]) -> Span:
    return a[0].square() if call.arguments[0] == call.arguments[1] else sp.product(a[0], a[1])


def _remainder(_: Call, args: Sequence[Span]) -> Span:
    """Of the sign of the dividend; grows with it between two multiples of a constant divisor."""
    a, b = args
    size = b.size
    low, high = np.where(a.low >= 0, 0.0, -size), np.where(a.high <= 0, 0.0, size)
    first, last = np.trunc(a.low / b.low), np.trunc(a.high / b.low)
    edge = 2.0**-40 * np.maximum(np.abs(a.low), np.abs(a.high))
    near = np.abs(np.abs(a.high - np.rint(a.high / b.low) * b.low)) <= edge
    sure = (b.low == b.high) & (first == last) & ~near & ((a.low >= 0) | (a.high <= 0))
    found = sp.widened(np.fmod(a.low, b.low), np.fmod(a.high, b.low))
    single = (a.low == a.high) & (b.low == b.high)
    low, high = np.where(sure, found.low - edge, low), np.where(sure, found.high + edge, high)
    exact = np.fmod(a.low, b.low)
    return Span(np.where(single, exact, low), np.where(single, exact, high))


def _without_sign(call: Call, args: Args) -> Expr | None:
    low, high = args[0].interval.lower, args[0].interval.upper
    if low >= 0:
        return call.arguments[0]
    return Call("neg", call.arguments, Kind.NUMBER) if high <= 0 else None


ARITHMETIC: tuple[Operator, ...] = (
    Operator(
        name="add",
        takes=(N, N),
        gives=N,
        sql=infix("+"),
        nodes=(exp.Add,),
        words=("add",),
        shown=between("+"),
        interval=spans(iv.add),
        integral=keeps_whole,
        exact=True,
        whole=operator.add,
        signs=(1.0, 1.0),
        undefined=lambda a, b: not a.finite and not b.finite and not _one_sided(a.interval, b.interval),
        number_type=of_sum,
        digits=Digits.SUM,
        cancels=True,
        bends=False,
        released=of_two(lambda a, b: (a + b, np.ones_like(a), np.ones_like(b))),
        analytic=lambda _, z: z[0] + z[1],
        discs=lambda _, z: z[0] + z[1],
        entire=always,
        encloses=lambda _, a: a[0] + a[1],
    ),
    Operator(
        name="sub",
        takes=(N, N),
        gives=N,
        sql=infix("-"),
        nodes=(exp.Sub,),
        words=("subtract",),
        shown=between("-"),
        interval=spans(iv.subtract),
        integral=keeps_whole,
        exact=True,
        whole=operator.sub,
        signs=(1.0, -1.0),
        undefined=lambda a, b: not a.finite and not b.finite,
        number_type=of_sum,
        digits=Digits.SUM,
        cancels=True,
        bends=False,
        released=of_two(lambda a, b: (a - b, np.ones_like(a), -np.ones_like(b))),
        analytic=lambda _, z: z[0] - z[1],
        discs=lambda _, z: z[0] - z[1],
        entire=always,
        encloses=lambda _, a: a[0] - a[1],
    ),
    Operator(
        name="mul",
        takes=(N, N),
        gives=N,
        sql=infix("*"),
        nodes=(exp.Mul,),
        words=("multiply",),
        shown=between("*"),
        interval=spans(iv.multiply),
        integral=keeps_whole,
        exact=True,
        whole=operator.mul,
        role="product",
        undefined=lambda a, b: (_zero(a) and not b.finite) or (_zero(b) and not a.finite),
        number_type=of_product,
        digits=Digits.SUM,
        cancels=True,
        bends=False,
        released=of_two(lambda a, b: (a * b, b, a)),
        analytic=_product,
        discs=_disc_product,
        entire=always,
        encloses=_product_span,
    ),
    Operator(
        name="div",
        takes=(N, N),
        gives=N,
        sql=infix("/"),
        nodes=(exp.Div,),
        shown=between("/"),
        signed=lambda _: (1,),
        role="quotient",
        interval=spans(iv.divide),
        undefined=lambda a, b: (_zero(a) and _zero(b)) or (not a.finite and not b.finite),
        number_type=of_quotient,
        digits=Digits.QUOTIENT,
        cancels=True,
        bends=False,
        released=of_two(lambda a, b: (a / b, 1 / b, -a / b**2)),
        analytic=lambda _, z: z[0] * rc.reciprocal(z[1]),
        discs=lambda _, z: z[0] * ds.reciprocal(z[1]),
        entire=lambda call: isinstance(call.arguments[1], Literal),
        encloses=lambda _, a: sp.quotient(a[0], a[1]),
    ),
    Operator(
        name="mod",
        takes=(N, N),
        gives=N,
        sql=infix("%"),
        shown=between("%"),
        interval=spans(_remainder_image),
        integral=keeps_whole,
        undefined=lambda a, b: _zero(b) or not a.finite,
        number_type=of_remainder,
        digits=Digits.STEPS,
        encloses=_remainder,
    ),
    Operator(
        name="neg",
        takes=(N,),
        gives=N,
        sql=lambda a, _: f"(- {a[0]})",
        nodes=(exp.Neg,),
        interval=spans(lambda a: Interval(-a.upper, -a.lower)),
        integral=keeps_whole,
        keeps_finite=True,
        exact=True,
        whole=operator.neg,
        signs=(-1.0,),
        number_type=of_first,
        cancels=True,
        bends=False,
        released=of_one(lambda a: (-a, -np.ones_like(a))),
        analytic=lambda _, z: -z[0],
        discs=lambda _, z: -z[0],
        entire=always,
        encloses=lambda _, a: -a[0],
    ),
    Operator(
        name="abs",
        takes=(N,),
        gives=N,
        sql=function("abs"),
        nodes=(exp.Abs,),
        offered=("abs",),
        interval=spans(iv.absolute),
        integral=keeps_whole,
        keeps_finite=True,
        exact=True,
        number_type=of_first,
        released=of_one(lambda a: (np.abs(a), np.sign(a))),
        settled=_without_sign,
        continuous=True,
        encloses=lambda _, a: Span(a[0].least, a[0].size),
    ),
)
