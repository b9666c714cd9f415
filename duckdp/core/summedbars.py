"""Error bars of what several releases tell together: laws that are sums of independent noise terms.

A figure that is made of cells of several releases has the noise sum_i c_i (Z_i1 + ... + Z_in_i), with coefficients that
are public figures. That is a law like any other: its characteristic function is the product of theirs, so quantiles are
found as for every other sum of terms (core/errorbars, "exact" or "inverted": coverage to 1e-6, terms of scale 50 and
more taken as continuous), with each kind of term counted once however often it is there. Nothing here assumes a normal
law, and nothing depends on data.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duckdp.core import errorbars
from duckdp.core.errorbars import Noise

Floats = NDArray[np.float64]
_NEAR = 1e-9  # of a grid step: a quantile so near to a whole number is that number


@dataclass(frozen=True)
class Summed:
    """The law of a sum of independent terms.

    Attributes:
        terms: (coefficient, law of one, how many there are) each.
    """

    terms: tuple[tuple[float, Noise, int], ...]

    def variance(self) -> float:
        """Give the variance of the sum.

        >>> Summed(((0.5, Noise("gaussian", 2.0), 4),)).variance()
        4.0
        """
        return sum(c * c * n * noise.variance() for c, noise, n in self.terms)


Law = Noise | Summed


def half_width(law: Law, level: float = 0.95) -> float:
    """The level-quantile of the size of one term, in its units."""
    if isinstance(law, Noise):
        return errorbars.half_width(law, level)
    return float(linear_half_width(np.ones((1, 1)), [law], level)[0])


def rounded_half_width(laws: Sequence[Law], unit: int, level: float = 0.95) -> int:
    """As :func:`duckdp.core.errorbars.rounded_half_width`, of laws of either kind.

    >>> rounded_half_width([Summed(((1.0, Noise("laplace", 10.0 * 2**20), 1),))], 2**20)
    30
    """
    plain = [law for law in laws if isinstance(law, Noise)]
    if len(plain) == len(laws):
        return errorbars.rounded_half_width(plain, unit, level)
    reach = float(linear_half_width(np.ones((len(laws), 1)), laws, level)[0]) / unit
    return max(0, math.ceil(reach - 0.5 - _NEAR))  # |S| <= (w + 1/2) unit holds wherever |S| <= reach does


def linear_standard_error(coefficients: Floats, laws: Sequence[Law]) -> Floats:
    """Give the standard deviation of sum_i c_i Z_i for each column, float[n]; see core/errorbars."""
    rows = [
        (coefficients[i] * c * math.sqrt(n), noise)
        for i, law in enumerate(laws)
        for c, noise, n in (law.terms if isinstance(law, Summed) else ((1.0, law, 1),))
    ]
    return errorbars.linear_standard_error(np.array([row for row, _ in rows]), [noise for _, noise in rows])


def linear_half_width(coefficients: Floats, laws: Sequence[Law], level: float = 0.95) -> Floats:
    """Give the level-quantile of |sum_i c_i Z_i| for each column, float[n]; see core/errorbars.

    Args:
        coefficients: float[m, n]; columns that are equal are looked at once.
        laws: the m independent laws.
        level: wanted coverage.
    """
    plain = [law for law in laws if isinstance(law, Noise)]
    if len(plain) == len(laws):
        return errorbars.linear_half_width(coefficients, plain, level)
    errorbars.check_level(level)
    each, places = np.unique(np.abs(coefficients), axis=1, return_inverse=True)
    widths = np.array([_one(column, laws, level) for column in each.T])
    return widths[places.ravel()]


def _one(column: Floats, laws: Sequence[Law], level: float) -> float:
    largest = float(column.max(initial=0.0))
    if largest == 0:
        return 0.0
    terms: Counter[tuple[float, Noise]] = Counter()
    for size, law in zip((column / largest).tolist(), laws, strict=True):
        for c, noise, n in law.terms if isinstance(law, Summed) else ((1.0, law, 1),):
            if size * abs(c) > 0:
                terms[size * abs(c), noise] += n
    if len(terms) == 1 and terms.total() == 1:
        ((c, noise),) = terms
        return largest * c * errorbars.half_width(noise, level)
    return largest * errorbars.half_width_of(terms, level)
