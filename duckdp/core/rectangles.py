"""Arithmetic of complex rectangles [a, b] + i [c, d], on arrays of them, rounded outward.

For rectangles z, w the result of an operation contains the operation of any of their points. An operation that is not
analytic on its whole argument (a quotient by a rectangle that holds 0, a logarithm across the negative half-line) gives
NaN in all four numbers, and NaN stays NaN.

Numerics: every result is widened by MARGIN = 2^-48 of its size and by TINY. One operation here is at most four float
          operations or library calls, each off by at most 4 units in the last place (2^-50 relative), and intermediate
          sums of terms of unlike sign are widened by the terms' sizes, not by the sum's.
Source:   usual interval arithmetic; the ranges of Re and Im of 1/z are harmonic, so they are taken on the edges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duckdp.core.powers import by_squaring

Floats = NDArray[np.float64]
MARGIN = 2.0**-48  # relative widening of every result: its proof is in the docstring
TINY = 1e-290  # absolute widening of every result
_LARGEST_EXPONENT = 700.0  # of exp; it does not overflow there


@dataclass(frozen=True, eq=False)
class Span:
    """Real intervals: ``low`` and ``high``, arrays of one shape (or broadcast together)."""

    low: Floats
    high: Floats

    def __add__(self, other: Span) -> Span:
        return _widened(self.low + other.low, self.high + other.high, self.size + other.size)

    def __sub__(self, other: Span) -> Span:
        return _widened(self.low - other.high, self.high - other.low, self.size + other.size)

    def __mul__(self, other: Span) -> Span:
        products = (self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high)
        low, high = np.minimum.reduce(products), np.maximum.reduce(products)
        return _widened(low, high, np.maximum(np.abs(low), np.abs(high)))

    def __neg__(self) -> Span:
        return Span(-self.high, -self.low)

    @property
    def size(self) -> Floats:
        """The largest absolute value in each."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def least(self) -> Floats:
        """The smallest absolute value in each."""
        return np.maximum(0.0, np.maximum(self.low, -self.high))

    def square(self) -> Span:
        """The squares of what is in each."""
        return _widened(self.least**2, self.size**2, self.size**2, floor=0.0)

    def only(self, valid: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Span:
        """The same where ``valid``, and NaN elsewhere."""
        return Span(np.where(valid, self.low, np.nan), np.where(valid, self.high, np.nan))


@dataclass(frozen=True, eq=False)
class Rectangle:
    """Rectangles of the complex plane, side by side in arrays."""

    re: Span
    im: Span

    def __add__(self, other: Rectangle) -> Rectangle:
        return Rectangle(self.re + other.re, self.im + other.im)

    def __sub__(self, other: Rectangle) -> Rectangle:
        return Rectangle(self.re - other.re, self.im - other.im)

    def __mul__(self, other: Rectangle) -> Rectangle:
        return Rectangle(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    def __neg__(self) -> Rectangle:
        return Rectangle(-self.re, -self.im)

    def size(self) -> Floats:
        """A bound on the absolute value of what is in each."""
        return np.asarray(np.hypot(self.re.size, self.im.size) * (1 + MARGIN))


def point(value: Floats | float) -> Rectangle:
    """Real numbers as rectangles of no size."""
    at, zero = np.asarray(value, dtype=np.float64), np.zeros(())
    return Rectangle(Span(at, at), Span(zero, zero))


def square(z: Rectangle) -> Rectangle:
    """z^2, tighter than z * z."""
    cross = z.re * z.im
    return Rectangle(z.re.square() - z.im.square(), cross + cross)


def whole_power(z: Rectangle, exponent: int) -> Rectangle:
    """z^n for n >= 0, by repeated squaring."""
    return by_squaring(z, exponent, one=point(1.0), square=square)


def reciprocal(z: Rectangle) -> Rectangle:
    """1/z, where 0 is outside the rectangle."""
    valid = (z.re.low > 0) | (z.re.high < 0) | (z.im.low > 0) | (z.im.high < 0)
    return Rectangle(_over_square(z.re, z.im).only(valid), (-_over_square(z.im, z.re)).only(valid))


def exponential(z: Rectangle) -> Rectangle:
    """The exponential function of rectangles."""
    low, high = np.exp(z.re.low), np.exp(z.re.high)
    radius = _widened(low, high, high)
    return Rectangle(radius * _cosine(z.im), radius * _sine(z.im))


def logarithm(z: Rectangle) -> Rectangle:
    """Principal ln z, off the half-line of the reals <= 0."""
    valid = (z.re.low > 0) | (z.im.low > 0) | (z.im.high < 0)
    near, far = np.hypot(z.re.least, z.im.least), z.size()
    low, high = np.log(near), np.log(far)
    corners = [np.arctan2(y, x) for x in (z.re.low, z.re.high) for y in (z.im.low, z.im.high)]
    angle = _widened(np.minimum.reduce(corners), np.maximum.reduce(corners), np.full_like(corners[0], math.pi))
    return Rectangle(_widened(low, high, np.abs(low) + np.abs(high) + 1).only(valid), angle.only(valid))


def sine(z: Rectangle) -> Rectangle:
    """sin(x + iy) = sin x cosh y + i cos x sinh y."""
    return Rectangle(_sine(z.re) * _cosh(z.im), _cosine(z.re) * _sinh(z.im))


def cosine(z: Rectangle) -> Rectangle:
    """cos(x + iy) = cos x cosh y - i sin x sinh y."""
    return Rectangle(_cosine(z.re) * _cosh(z.im), -(_sine(z.re) * _sinh(z.im)))


def hyperbolic_tangent(z: Rectangle) -> Rectangle:
    """Return tanh z = 1 - 2 / (e^(2z) + 1), off its poles.

    Beyond |2 Re z| = 700 the exponential is taken at 700, where the quotient is below TINY: covered by the margin.
    """
    twice = z + z
    low, high = (np.clip(end, -_LARGEST_EXPONENT, _LARGEST_EXPONENT) for end in (twice.re.low, twice.re.high))
    inverse = reciprocal(exponential(Rectangle(Span(low, high), twice.im)) + point(1.0))
    return point(1.0) - (inverse + inverse)


def arc_tangent(z: Rectangle) -> Rectangle:
    """Return atan z = (i/2) (ln(1 - iz) - ln(1 + iz)), off its two cuts."""
    turned = Rectangle(-z.im, z.re)  # iz
    found = logarithm(point(1.0) - turned) - logarithm(point(1.0) + turned)
    half = point(0.5)
    return half * Rectangle(-found.im, found.re)


def _over_square(x: Span, y: Span) -> Span:
    """Range of x / (x^2 + y^2): on the edges, at corners, at y = 0, or at x = +-y."""
    found = []
    for at_y in (y.low, y.high, np.clip(0.0, y.low, y.high)):
        for at_x in (x.low, x.high, np.clip(np.abs(at_y), x.low, x.high), np.clip(-np.abs(at_y), x.low, x.high)):
            found.append(at_x / (at_x**2 + at_y**2))
    low, high = np.minimum.reduce(found), np.maximum.reduce(found)
    return _widened(low, high, np.maximum(np.abs(low), np.abs(high)))


def _cosine(x: Span) -> Span:
    slack = 2.0**-44 * (1 + x.size)
    turn = 2 * math.pi
    high = np.ceil((x.low - slack) / turn) * turn <= x.high + slack
    low = np.ceil((x.low - slack) / turn - 0.5) * turn + math.pi <= x.high + slack
    ends = np.cos(x.low), np.cos(x.high)
    one = np.ones(())
    found = _widened(np.minimum(*ends), np.maximum(*ends), one)
    return Span(np.where(low, -1.0, np.maximum(found.low, -1.0)), np.where(high, 1.0, np.minimum(found.high, 1.0)))


def _sine(x: Span) -> Span:
    shift = math.pi / 2
    slack = MARGIN * (1 + x.size)
    return _cosine(Span(x.low - shift - slack, x.high - shift + slack))


def _cosh(y: Span) -> Span:
    low, high = np.cosh(y.least), np.cosh(y.size)
    return _widened(low, high, high, floor=1.0)


def _sinh(y: Span) -> Span:
    low, high = np.sinh(y.low), np.sinh(y.high)
    return _widened(low, high, np.maximum(np.abs(low), np.abs(high)))


def _widened(low: Floats, high: Floats, size: Floats, floor: float = -math.inf) -> Span:
    room = MARGIN * size + TINY
    return Span(np.maximum(low - room, floor), high + room)
