"""Arithmetic of complex discs {z : |z - centre| <= radius}, on arrays of them, rounded outward.

The disc that an operation gives holds the operation of any points of its arguments' discs. Where an operation is not
analytic on all of a disc (a reciprocal where it holds 0, a logarithm across the negative half-line) radius and centre
are NaN, and NaN stays NaN. Discs take an eighth of the time of rectangles (``rectangles``) and are as tight where they
are small; a disc of a real number has the radius of its rounding errors, and so says how far computing may err.

Formula: sums      c + d, r + s
         products  c d, |c| s + |d| r + r s
         1/z       1/c, r / (|c| (|c| - r)), as |1/z - 1/c| = |z - c| / |z c|
         exp       e^c, e^Re(c) (e^r - 1), as |e^(z - c) - 1| <= e^|z - c| - 1
         ln        ln c, -ln(1 - r/|c|), the integral of ds / (|c| - s): the segment from c to z stays in the disc
         sin, cos  r cosh(|Im c| + r), a bound of the derivative on the disc
Numerics: every radius is widened by MARGIN = 2^-48 of itself and of its centre and by TINY. One operation is at most
          four float operations or library calls, each off by at most 4 units in the last place of what it makes (2^-50
          relative to the absolute value). Where the parts of a sum, a product or a sine cancel, the widening is
          relative to the sizes before.
Source:   circular arithmetic (Gargantini and Henrici 1972), with 1/z about the image of the centre.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duckdp.core.powers import by_squaring
from duckdp.core.rectangles import MARGIN, TINY, Floats

Complexes = NDArray[np.complex128]
_GROWN = 1 + MARGIN  # what a radius is widened by, relative


@dataclass(frozen=True, eq=False)
class Discs:
    """Discs of the complex plane, side by side in arrays that broadcast together."""

    centre: Complexes
    radius: Floats

    def __add__(self, other: Discs) -> Discs:
        rounding = np.abs(self.centre) + np.abs(other.centre)
        return _rounded(self.centre + other.centre, self.radius + other.radius, rounding)

    def __sub__(self, other: Discs) -> Discs:
        rounding = np.abs(self.centre) + np.abs(other.centre)
        return _rounded(self.centre - other.centre, self.radius + other.radius, rounding)

    def __mul__(self, other: Discs) -> Discs:
        first, second = np.abs(self.centre), np.abs(other.centre)
        radius = first * other.radius + (second + other.radius) * self.radius
        return _rounded(self.centre * other.centre, radius, first * second)

    def __neg__(self) -> Discs:
        return Discs(-self.centre, self.radius)

    def size(self) -> Floats:
        """A bound on the absolute value of what is in each; NaN where nothing is known."""
        return np.asarray((np.abs(self.centre) + self.radius) * _GROWN)


def point(value: Floats | float) -> Discs:
    """Real numbers as discs of no size."""
    return Discs(np.asarray(value, dtype=np.complex128), np.zeros(()))


def square(z: Discs) -> Discs:
    """Square, tighter than z * z."""
    size = np.abs(z.centre)
    return _rounded(z.centre * z.centre, (2 * size + z.radius) * z.radius, size * size)


def whole_power(z: Discs, exponent: int) -> Discs:
    """z^n for n >= 0, by repeated squaring."""
    return by_squaring(z, exponent, one=point(1.0), square=square)


def reciprocal(z: Discs) -> Discs:
    """1/z, where 0 is outside the disc."""
    size = np.abs(z.centre)
    room = size * (1 - MARGIN) - z.radius
    inverse = 1 / size
    centre = np.asarray(np.conj(z.centre) * inverse * inverse, dtype=np.complex128)
    return _only(room > 0, _rounded(centre, z.radius * inverse / room, inverse))


def exponential(z: Discs) -> Discs:
    """The exponential function of discs."""
    size = np.exp(z.centre.real)
    return _rounded(np.exp(z.centre), size * np.expm1(z.radius), size)


def logarithm(z: Discs) -> Discs:
    """Principal ln z, off the half-line of the reals <= 0."""
    size = np.abs(z.centre)
    away = np.where(z.centre.real >= 0, size, np.abs(z.centre.imag))  # from the half-line
    share = z.radius / size * _GROWN
    length, angle = np.log(size), np.angle(z.centre)
    centre = np.asarray(length + 1j * angle)
    valid = (away * (1 - MARGIN) > z.radius) & (share < 1)
    return _only(valid, _rounded(centre, -np.log1p(-np.minimum(share, 0.999999)) + _beyond(share), np.abs(length) + 4))


def sine(z: Discs) -> Discs:
    """Return sin z: its derivative is at most cosh |Im z|."""
    grown = np.cosh(np.abs(z.centre.imag) + z.radius)
    return _rounded(np.sin(z.centre), grown * z.radius, grown * (1 + np.abs(z.centre)))


def cosine(z: Discs) -> Discs:
    """Return cos z: its derivative is bounded alike."""
    grown = np.cosh(np.abs(z.centre.imag) + z.radius)
    return _rounded(np.cos(z.centre), grown * z.radius, grown * (1 + np.abs(z.centre)))


def hyperbolic_tangent(z: Discs) -> Discs:
    """Return tanh z = 1 - 2 / (e^(2z) + 1), off its poles."""
    inverse = reciprocal(exponential(z + z) + point(1.0))
    return point(1.0) - (inverse + inverse)


def arc_tangent(z: Discs) -> Discs:
    """Return atan z = (i/2) (ln(1 - iz) - ln(1 + iz)), off its two cuts."""
    turned = Discs(np.asarray(1j * z.centre), z.radius)
    found = logarithm(point(1.0) - turned) - logarithm(point(1.0) + turned)
    return Discs(np.asarray(0.5j * found.centre), found.radius / 2)


def _beyond(share: Floats) -> Floats:
    """Infinite where a disc all but reaches 0, where the clipped formula does not hold."""
    return np.where(share > 0.999999, math.inf, 0.0)


def _only(valid: NDArray[np.bool_], z: Discs) -> Discs:
    """The same where ``valid``, and NaN elsewhere."""
    return Discs(z.centre, np.where(valid, z.radius, np.nan))


def _rounded(centre: Complexes, radius: Floats, size: Floats) -> Discs:
    """Widened by the rounding of the centre, of values up to ``size`` on the way, and of the radius itself."""
    return Discs(np.asarray(centre), np.asarray(radius * _GROWN + (MARGIN * size + TINY)))
