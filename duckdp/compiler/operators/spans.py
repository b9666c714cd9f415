"""Rules on real intervals that rows share: for every box of arguments the range found holds the value at each point.

A condition is a range of truth values, [0, 1] where it is not decided. Where nothing is known the range is all reals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from duckdp.compiler.expression import Call
from duckdp.core import rectangles as rc
from duckdp.core.rectangles import Floats, Span

Bools = NDArray[np.bool_]
Rule = Callable[[Call, Sequence[Span]], Span]


def point(value: float) -> Span:
    """The interval of one number."""
    return Span(np.asarray(value), np.asarray(value))


def everything() -> Span:
    """The interval of all real numbers."""
    return Span(np.asarray(-math.inf), np.asarray(math.inf))


def undecided() -> Span:
    """The interval of a truth value that may be either."""
    return Span(np.zeros(()), np.ones(()))


def reduced(of: Callable[[Floats, Floats], Floats], parts: Sequence[Floats]) -> Floats:
    """Arrays put together one by one."""
    found = parts[0]
    for part in parts[1:]:
        found = of(found, part)
    return found


def hull(args: Sequence[Span]) -> Span:
    """From the least lower end to the largest upper one."""
    return Span(reduced(np.minimum, [a.low for a in args]), reduced(np.maximum, [a.high for a in args]))


def smallest(args: Sequence[Span]) -> Span:
    """The least of the arguments; of truth values, whether all hold."""
    return Span(reduced(np.minimum, [a.low for a in args]), reduced(np.minimum, [a.high for a in args]))


def largest(args: Sequence[Span]) -> Span:
    """The largest of the arguments; of truth values, whether any holds."""
    return Span(reduced(np.maximum, [a.low for a in args]), reduced(np.maximum, [a.high for a in args]))


def negation(a: Span) -> Span:
    """NOT of a truth value, by interval."""
    return Span(1 - a.high, 1 - a.low)


def below(a: Span, b: Span) -> Span:
    """Whether a < b, by interval."""
    return _truth(a.high < b.low, a.low < b.high)


def ordered(a: Span, b: Span) -> Span:
    """Whether a <= b, by interval."""
    return _truth(a.high <= b.low, a.low <= b.high)


def equal(a: Span, b: Span) -> Span:
    """Whether a = b, by interval."""
    same = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
    return _truth(same, (a.low <= b.high) & (b.low <= a.high))


def widened(low: Floats, high: Floats) -> Span:
    """Widened for the last digits."""

    def room(end: Floats) -> Floats:
        return rc.MARGIN * np.abs(end) + rc.TINY

    return Span(low - room(low), high + room(high))


def grows(of: Callable[[Floats], Floats]) -> Rule:
    """A function that grows with its argument."""
    return lambda _, a: widened(of(a[0].low), of(a[0].high))


def rises(of: Callable[[Floats], Floats]) -> Rule:
    """The same, of steps: computed exactly."""
    return lambda _, a: Span(of(a[0].low), of(a[0].high))


def product(a: Span, b: Span) -> Span:
    """A * b, where 0 times anything is 0."""
    found = a * b
    zero = ((a.low == 0) & (a.high == 0)) | ((b.low == 0) & (b.high == 0))
    return Span(np.where(zero, 0.0, found.low), np.where(zero, 0.0, found.high))


def quotient(a: Span, b: Span) -> Span:
    """A / b; all reals where b may be 0."""
    safe = (b.low > 0) | (b.high < 0)
    parts = [x / y for x in (a.low, a.high) for y in (b.low, b.high)]
    found = widened(reduced(np.minimum, parts), reduced(np.maximum, parts))
    return Span(np.where(safe, found.low, -math.inf), np.where(safe, found.high, math.inf))


def _truth(sure: Bools, possible: Bools) -> Span:
    return Span(np.where(sure, 1.0, 0.0), np.where(possible, 1.0, 0.0))
