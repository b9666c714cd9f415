"""Cube mechanism: one l-infinity ball of noise for a whole integer vector.

Releases x + Z, Z in Z^R, P(Z = z) ~ exp(-s |z|_inf), s = epsilon / sensitivity.linf (the cube's K-norm mechanism).

Privacy:      epsilon, pure, for the relation of the sensitivity: s * linf <= epsilon.
Assumes:      sensitivity.linf bounds |f(D) - f(D')|_inf for every neighbouring pair (smooth/basis.py shows it).
Proof sketch: P(Z = y - x) / P(Z = y - x') = exp(s (|y - x'|_inf - |y - x|_inf)) <= exp(s |x - x'|_inf).
Numerics:     exact in integers. sum_{K >= m} (1 - e^-s) e^(-sK) = e^(-sm), so the law is the mixture over K >= 0 of the
              uniform law on {-K..K}^R with weight w(K) ~ e^(-sK) (2K+1)^R. K is drawn by rejection from the sum of
              R + 1 geometric variates, whose mass is ~ C(K+R, R) e^(-sK), accepted with probability
              prod_{i=1..R} (2K+1) / (2K+2i) <= 1; about e^(-sR/2) of the proposals are accepted, so s R <= 2 is asked.
              s is a rational, rounded down where it must be.
Error:        a coordinate's standard deviation is about (1/s) sqrt((R+1)(R+2)/3), and coordinates are uncorrelated:
              Var(c . Z) = |c|_2^2 sd^2. Against Laplace noise of the same epsilon and l1 = R linf that is up to
              sqrt(6) = 2.45 times less.
Source:       Hardt, Talwar, "On the geometry of differential privacy", STOC 2010 (the K-norm mechanism); the
              geometric sampler: Canonne, Kamath, Steinke 2020, Algorithm 2.
"""

from __future__ import annotations

import math
from fractions import Fraction

from duckdp.core.noise import geometric, uniform_below
from duckdp.errors import InternalError, ParameterError

MAX_PRODUCT = 2  # of s and R: keeps the acceptance above e^-1


def cube_rate(epsilon: Fraction, linf: int, size: int) -> Fraction:
    """The rate s = epsilon / linf of a cube over ``size`` coordinates.

    Raises:
        ParameterError: P103, not positive, or the grid is too coarse for the size (s * size > 2).
    """
    if epsilon <= 0 or linf <= 0:
        raise ParameterError("P103", "epsilon / linf", (str(epsilon), linf), "must be positive.")
    rate = Fraction(epsilon) / linf
    if rate * size > MAX_PRODUCT:
        raise ParameterError(
            "P103", "rate", float(rate), f"times {size} sums must be at most 2; the grid is too coarse."
        )
    return rate


def cube_standard_error(rate: Fraction, size: int) -> float:
    """Standard deviation of one coordinate, exact to a relative (rate size)^2.

    >>> round(cube_standard_error(Fraction(1, 10**6), 1) / 10**6, 4)
    1.4142
    """
    return math.sqrt((size + 1) * (size + 2) / 3) / float(rate)


def cube_noise(size: int, rate: Fraction) -> list[int]:
    """Draw the noise of a vector, at zero: no private value is seen.

    Args:
        size: R, public.
        rate: s, from :func:`cube_rate`.

    Returns:
        int[R], grid units: to be added to exact integers.
    """
    if rate <= 0 or rate * size > MAX_PRODUCT:
        raise InternalError("the cube's rate was not checked")
    half = _half_side(rate, size)
    return [uniform_below(2 * half + 1) - half for _ in range(size)]


def _half_side(rate: Fraction, size: int) -> int:
    """K with P(K) ~ exp(-rate K) (2K+1)^size, exactly."""
    while True:
        k = sum(geometric(rate) for _ in range(size + 1))
        if all(uniform_below(2 * k + 2 * i) < 2 * k + 1 for i in range(1, size + 1)):
            return k
