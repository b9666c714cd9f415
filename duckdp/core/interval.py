"""Closed real intervals, the abstract values of bound propagation.

A bound found here decides the clamp of an expression, and the clamp is enforced in the emitted SQL. So privacy never
rests on the rounding of these floats; a bound that is an ulp too tight only moves the clamp by an ulp.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass

LARGEST = 1e100  # beyond it a bound counts as infinite: fixed point needs room


@dataclass(frozen=True, slots=True)
class Interval:
    """All reals from ``lower`` to ``upper``, both included; either may be infinite."""

    lower: float
    upper: float

    @property
    def finite(self) -> bool:
        """Whether both ends can be clamped to."""
        return abs(self.lower) <= LARGEST and abs(self.upper) <= LARGEST

    @property
    def largest(self) -> float:
        """The largest absolute value in it."""
        return max(abs(self.lower), abs(self.upper))

    def contains(self, x: float) -> bool:
        """Whether a number lies in it."""
        return self.lower <= x <= self.upper


REALS = Interval(-math.inf, math.inf)


def hull(*parts: Interval) -> Interval:
    """Smallest interval that holds all parts.

    >>> hull(Interval(0, 1), Interval(5, 6))
    Interval(lower=0, upper=6)
    """
    return Interval(min(p.lower for p in parts), max(p.upper for p in parts))


def add(a: Interval, b: Interval) -> Interval:
    """The sum of two intervals, rounded outwards."""
    return _clean(a.lower + b.lower, a.upper + b.upper)


def subtract(a: Interval, b: Interval) -> Interval:
    """The difference of two intervals, rounded outwards."""
    return _clean(a.lower - b.upper, a.upper - b.lower)


def multiply(a: Interval, b: Interval) -> Interval:
    """The product of two intervals, rounded outwards.

    >>> multiply(Interval(-1, 2), Interval(3, 4))
    Interval(lower=-4, upper=8)
    """
    corners = [_times(x, y) for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
    return Interval(min(corners), max(corners))


def divide(a: Interval, b: Interval) -> Interval:
    """Quotient; unbounded when b may be 0."""
    if b.contains(0.0):
        return REALS
    corners = [_clean_quotient(x, y) for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
    return Interval(min(corners), max(corners))


def monotone(f: Callable[[float], float], a: Interval) -> Interval:
    """Image under an increasing function; overflow counts as infinite."""
    return Interval(_safely(f, a.lower, -math.inf), _safely(f, a.upper, math.inf))


def power(a: Interval, exponent: float) -> Interval:
    """``x ** exponent`` for a constant exponent; unbounded where it is not defined everywhere.

    >>> power(Interval(-2, 3), 2)
    Interval(lower=0.0, upper=9.0)
    """
    whole = float(exponent).is_integer()
    if not whole and a.lower < 0:
        return REALS
    if exponent < 0 and a.contains(0.0):
        return REALS
    ends = [_safely(lambda x: math.pow(x, exponent), x, math.inf) for x in (a.lower, a.upper)]
    if whole and exponent > 0 and exponent % 2 == 0 and a.contains(0.0):
        ends.append(0.0)
    return Interval(min(ends), max(ends))


def absolute(a: Interval) -> Interval:
    """The absolute values of an interval."""
    return Interval(0.0 if a.contains(0.0) else min(abs(a.lower), abs(a.upper)), a.largest)


def nearest_float(x: float) -> float:
    """The FLOAT (32 bits) nearest to x; infinite beyond its range.

    >>> nearest_float(0.1)
    0.10000000149011612
    """
    try:
        return float(struct.unpack("f", struct.pack("f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def _safely(f: Callable[[float], float], x: float, overflow: float) -> float:
    try:
        y = f(x)
    except (OverflowError, ValueError):
        return overflow
    return overflow if math.isnan(y) else y


def _clean_quotient(x: float, y: float) -> float:
    return x / y if math.isfinite(x) or math.isfinite(y) else math.copysign(math.inf, x) * math.copysign(1, y)


def _times(x: float, y: float) -> float:
    return 0.0 if x == 0 or y == 0 else x * y


def _clean(lower: float, upper: float) -> Interval:
    return Interval(-math.inf if math.isnan(lower) else lower, math.inf if math.isnan(upper) else upper)
