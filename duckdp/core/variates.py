"""Standard variates for noise whose scale is itself private: a fixed number of random bits, then exact scaling.

::

    standard_laplace()          L, density exp(-|z|) / 2
    standard_student2()         T, Student's t with 2 degrees of freedom, density (2 + z**2)**(-3/2)
    standard_student4()         T, with 4 degrees of freedom, density 12 (4 + z**2)**(-5/2)
    scaled_floor(variate, s)    floor(s * variate), exact

A variate is an integer in units of 2**-GRID, drawn before any private value is looked at: BITS + 1 random bits in one
call, and the same work, whatever it will be scaled by. A scale meets it in one exact product, which cannot fail.

What is sampled: with F the distribution function of the magnitude |V|, a uniform in [0, 2**BITS) and p = (2 a + 1) /
        2**(BITS + 1), M = floor(2**GRID F^-1(p)). The variate is M, or -M - 1 (the floor of a negative one), by an
        independent bit.
Claim:  let h, not increasing, be the density of |V|. For every s > 0 and integer k the law of Y = scaled_floor(variate,
        s) and that of Y* = floor(s V) differ by at most
            |P(Y = k) - P(Y* = k)| <= 2**-(BITS + 1) + 2**(1 - GRID) h(z),
        z = min(|k|, |k + 1|) / s less 2**(1 - GRID), at least 0; and P(Y >= 0) = P(Y* >= 0) = 1/2. A tail P(Y >= k),
        k > 0, or P(Y < k), k < 0, differs by at most the same.
Proof sketch: for k > 0, Y >= k iff the variate is M and M >= c = ceil(2**GRID k / s), that is p >= F(c / 2**GRID), as c
        is whole and F^-1 does not decrease. The number of midpoints p there is 2**BITS (1 - F(c / 2**GRID)) up to one
        half, and c / 2**GRID is less than 2**-GRID above k / s, so F is at most 2**-GRID h(k / s) above F(k / s). For
        k < 0, Y < k iff the variate is -M - 1 and M >= floor(2**GRID |k| / s), alike, less than 2**-GRID below |k| / s.
        All of this counts half, for the sign; P(Y = k) is a difference of two such chances, or of one and 1/2. Laplace:
        the logarithm is rounded by far less than 2**-GRID and in order, so c moves as if by one more 2**-GRID, the
        other half of 2**(1 - GRID). Tests count every a, for few bits.
Use:    mechanisms/admissible_noise.py says what this error costs. A sampler that asks for more bits until a private
        floor is known would be exact, but how often it asks would depend on the scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from math import isqrt

from duckdp.core.noise import random_bits

BITS = 640  # of every draw, beside the sign
GRID = 320  # fractional bits of a variate
_CONTEXT = Context(prec=120)  # 10**-120 < 2**-398


def standard_laplace() -> int:
    """One standard Laplace variate, in units of 2**-GRID."""
    return _signed(laplace_magnitude)


def standard_student2() -> int:
    """One variate of Student's t with 2 degrees of freedom, in units of 2**-GRID; it has a mean and no variance."""
    return _signed(student2_magnitude)


def standard_student4() -> int:
    """One variate of Student's t with 4 degrees of freedom, in units of 2**-GRID; its standard deviation is sqrt(2)."""
    return _signed(student4_magnitude)


def scaled_floor(variate: int, scale: Fraction, grid: int = GRID) -> int:
    """The integer floor(scale * variate / 2**grid).

    Args:
        variate: of this module, in units of 2**-grid.
        scale: >= 0, grid units, exact. Private: must not be logged, stored or raised.
        grid: fractional bits of the variate.
    """
    return variate * scale.numerator // (scale.denominator << grid)


def laplace_magnitude(a: int, bits: int = BITS, grid: int = GRID) -> int:
    """floor(2**grid |L|) at p = (2 a + 1) / 2**(bits + 1): F(z) = 1 - exp(-z), so |L| = -ln(1 - p), and 1 - p is as p.

    The quotient and its logarithm are rounded to 120 digits, in order: an error below 10**-117 in all, for |L| < 1000.
    """
    p = _CONTEXT.divide(Decimal(2 * a + 1), Decimal(1 << bits + 1))
    return int(_CONTEXT.multiply(_CONTEXT.minus(_CONTEXT.ln(p)), Decimal(1 << grid)))


def student2_magnitude(a: int, bits: int = BITS, grid: int = GRID) -> int:
    """floor(2**grid |T|) at p = (2 a + 1) / 2**(bits + 1): F(z) = z / sqrt(2 + z**2), |T|**2 = 2 p**2 / (1 - p**2).

    Exact: floor(sqrt(r)) = isqrt(floor(r)), and with p = n / d the square of 2**grid |T| is 2 (2**grid n)**2 over
    d**2 - n**2, whole numbers.
    """
    square = (2 * a + 1) ** 2
    return isqrt((square << 2 * grid + 1) // ((1 << 2 * (bits + 1)) - square))


def student4_magnitude(a: int, bits: int = BITS, grid: int = GRID) -> int:
    """floor(2**grid |T|) at p = (2 a + 1) / 2**(bits + 1): F(z) = (3 s - s**3) / 2 with s = z / sqrt(4 + z**2).

    Exact: the largest M with F(M / 2**grid) <= p. As s**2 = M**2 / (4**(grid + 1) + M**2) =: n / d, that is
    n (3 d - n)**2 2**(2 bits) <= (2 a + 1)**2 d**3, whole numbers. It is looked for near a root by Newton's method, and
    by halving where that is not near: 1 - F(z) < 6 / z**4.
    """
    four, wanted = 1 << 2 * grid + 2, (2 * a + 1) ** 2

    def reached(size: int) -> bool:
        n = size * size
        d = four + n
        return n * (3 * d - n) ** 2 << 2 * bits <= wanted * d**3

    near = _student4_near(a, bits, grid)
    low, high = max(0, near - 1), near + 1
    if not (reached(low) and not reached(high)):
        low, high = 0, 1 << grid + bits // 4 + 2
    while high - low > 1:
        middle = (low + high) >> 1
        low, high = (middle, high) if reached(middle) else (low, middle)
    return low


def _student4_near(a: int, bits: int, grid: int) -> int:
    """About 2**grid |T|: s by Newton's method on 3 s - s**3 = 2 p; how near it comes is not relied on."""
    one = 1 << 2 * bits + 64
    goal = (2 * a + 1) * one >> bits
    s = int(2 * math.sin(math.asin(min(1.0, (2 * a + 1) / (2 << bits))) / 3) * 2**53) * (one >> 53)
    for _ in range(6):
        slope = 3 * (one - s * s // one)
        if slope <= 0:
            break
        s += (goal - 3 * s + s * s // one * s // one) * one // slope
    rest = one * one - s * s
    return isqrt((4 * s * s << 2 * grid) // rest) if rest > 0 else 0


def _signed(magnitude: Callable[[int], int]) -> int:
    drawn = random_bits(BITS + 1)
    found = magnitude(drawn >> 1)
    return -found - 1 if drawn & 1 else found
