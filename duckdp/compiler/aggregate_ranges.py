"""The public range of an aggregate, from the range of what it is of."""

from __future__ import annotations

import math
from collections.abc import Callable

Range = Callable[[float, float], tuple[float, float]]


def largest_variance(parts: int) -> Range:
    """The variance of values half at each end, where parts is 4; of two values in a sample, 2."""
    return lambda lower, upper: (0.0, (upper - lower) ** 2 / parts)


def largest_deviation(parts: int) -> Range:
    """The square root of :func:`largest_variance`."""
    return lambda lower, upper: (0.0, math.sqrt((upper - lower) ** 2 / parts))


def within(lower: float, upper: float) -> tuple[float, float]:
    """The range of the values themselves."""
    return lower, upper
