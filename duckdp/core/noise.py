"""The only source of randomness of duckdp: exact samplers on integers.

::

    discrete_laplace(values, scale)    P(Z = k) ~ exp(-|k| / scale)             OpenDP
    discrete_gaussian(values, sigma)   P(Z = k) ~ exp(-k**2 / (2 sigma**2))     OpenDP
    floor_laplace(scale)               floor(scale * L), L standard Laplace     here, in integers
    floor_student2(scale)              floor(scale * T), T Student t, 2 degrees here, in integers

Nothing here takes a seed, a generator or a switch. Every bit comes from the operating system: OpenDP and ``secrets``
both read it there. No sampler of this file touches a float; the scales of OpenDP are floats by its interface and are
rounded up until its own privacy map, read as an exact fraction, gives at most what is charged.

Timing:  the number of draws depends on the noise (and on public scales), never on the value that is noised.
Source:  discrete samplers: Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", 2020, as
         implemented in OpenDP; ``bernoulli_exp`` and ``geometric`` are the rational-number recipes of the same paper.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from operator import index
from typing import Any

from duckdp.errors import InternalError, ParameterError

# OpenDP works on int64 and saturates silently; a sum beyond this would change the law of the noise.
_RANGE = 2**62
# |Z| > 100 scale has probability e**-100 for Laplace noise and less for Gaussian noise.
_TAIL_SCALES = 100
# The float nearest to the wanted scale is at most a few steps from one that OpenDP's rounded-up map accepts.
_MAX_STEPS = 64
_EXTRA_BITS = 64


def laplace_scale(epsilon: Fraction, l1: int) -> float:
    """Smallest found scale whose discrete Laplace noise costs at most epsilon.

    Args:
        epsilon: > 0, pure differential privacy of the whole vector.
        l1: sensitivity of the vector in l1, > 0, grid units.

    Returns:
        Scale in grid units; at least l1 / epsilon, rounded up.

    Raises:
        ParameterError: P103.

    >>> laplace_scale(Fraction(1, 2), 1)
    2.0
    """
    _check_positive(epsilon=epsilon, l1=l1)
    return _laplace_scale(Fraction(epsilon), l1)


def gaussian_scale(rho: Fraction, l2_squared: int) -> float:
    """Smallest found standard deviation whose discrete Gaussian noise costs at most rho of zCDP.

    Args:
        rho: > 0, zero-concentrated differential privacy of the whole vector.
        l2_squared: square of the sensitivity of the vector in l2, > 0, squared grid units.

    Returns:
        sigma in grid units; at least sqrt(l2_squared / (2 rho)), rounded up.

    Raises:
        ParameterError: P103.

    >>> gaussian_scale(Fraction(1, 2), 4)
    2.0
    """
    _check_positive(rho=rho, l2_squared=l2_squared)
    return _gaussian_scale(Fraction(rho), l2_squared)


def discrete_laplace(values: Sequence[int], scale: float) -> list[int]:
    """Add independent discrete Laplace noise to each value, P(Z = k) ~ exp(-|k| / scale).

    Args:
        values: int[n], grid units. Exact private values: must not be logged, stored or raised.
        scale: > 0, grid units; the standard deviation is about scale * sqrt(2).

    Returns:
        int[n], grid units.

    Raises:
        ParameterError: P103.
        InternalError: a value may leave the range of the sampler.
    """
    return _add(values, scale, _laplace)


def discrete_gaussian(values: Sequence[int], sigma: float) -> list[int]:
    """Add independent discrete Gaussian noise to each value, P(Z = k) ~ exp(-k**2 / (2 sigma**2)).

    Args:
        values: int[n], grid units. Exact private values: must not be logged, stored or raised.
        sigma: > 0, grid units; about the standard deviation.

    Returns:
        int[n], grid units.

    Raises:
        ParameterError: P103.
        InternalError: a value may leave the range of the sampler.
    """
    return _add(values, sigma, _gaussian)


def random_bits(count: int) -> int:
    """Uniform integer in [0, 2**count)."""
    return secrets.randbits(count)


def uniform_below(limit: int) -> int:
    """Uniform integer in [0, limit), limit > 0."""
    return secrets.randbelow(limit)


def bernoulli_exp(rate: Fraction) -> bool:
    """Return True with probability exp(-rate) exactly, rate >= 0.

    Proof sketch: for rate <= 1 the loop passes step k with probability rate / k, so it stops at an odd k with
    probability sum_k (-rate)**k / k! = exp(-rate). A larger rate is a product of factors at most e.
    Source: Canonne, Kamath, Steinke 2020, Algorithm 1.
    """
    if rate < 0:
        raise InternalError("a probability above one was asked for")
    whole, rest = divmod(rate, 1)
    for _ in range(whole):  # stops after 1.6 rounds on average
        if not _bernoulli_exp_below_one(1, 1):
            return False
    return _bernoulli_exp_below_one(rest.numerator, rest.denominator)


def geometric(rate: Fraction) -> int:
    """Sample V >= 0 with P(V = k) = (1 - exp(-rate)) * exp(-rate * k) exactly, rate > 0.

    Proof sketch: with rate = a / b, U + b W has P(U + b W = k) ~ exp(-k / b) when U in [0, b) is accepted with
    exp(-U / b) and W counts successes of exp(-1); the floor of its a-th part is geometric with rate a / b.
    Source: Canonne, Kamath, Steinke 2020, Algorithm 2.
    """
    if rate <= 0:
        raise InternalError("a geometric law needs a positive rate")
    a, b = rate.numerator, rate.denominator
    start = uniform_below(b)
    while not _bernoulli_exp_below_one(start, b):
        start = uniform_below(b)
    laps = 0
    while _bernoulli_exp_below_one(1, 1):
        laps += 1
    return (start + b * laps) // a


def floor_laplace(scale: Fraction) -> int:
    """Sample floor(scale * L) exactly, L with density exp(-|z|) / 2, scale > 0.

    Proof sketch: |L| is exponential, so floor(scale |L|) >= k with probability exp(-k / scale): geometric of rate
    1 / scale. The sign is an independent bit, and floor(-y) = -floor(y) - 1 with probability one.

    Args:
        scale: > 0, grid units, exact.

    Returns:
        A grid integer.
    """
    _check_scale(scale)
    return _with_sign(geometric(1 / Fraction(scale)))


def floor_student2(scale: Fraction) -> int:
    """Sample floor(scale * T) exactly, T Student's t with 2 degrees of freedom, scale > 0.

    T has distribution function F(t) = 1/2 + t / (2 sqrt(2 + t**2)), so |T| = sqrt(2 q**2 / (1 - q**2)) for q uniform
    in (0, 1): the quantile at p is (2 p - 1) / sqrt(2 p (1 - p)) with q = |2 p - 1|.

    Proof sketch: q is drawn bit by bit. After n bits q lies in [a, a + 1) / 2**n; |T| grows with q, so
    floor(scale |T|) lies between its values at both ends, which isqrt gives exactly (floor(sqrt(r)) =
    isqrt(floor(r))). Bits are added until both agree: the result is the floor of the one real number that all
    further bits would have completed. It ends with probability one. The sign is an independent bit.

    Args:
        scale: > 0, grid units, exact.

    Returns:
        A grid integer; its law has a mean and no variance.
    """
    _check_scale(scale)
    scale = Fraction(scale)
    bits = _EXTRA_BITS + max(0, scale.numerator.bit_length() - scale.denominator.bit_length())
    a = random_bits(bits)
    while True:
        low = _student2_magnitude(scale, a, bits)
        if low is not None and low == _student2_magnitude(scale, a + 1, bits):
            return _with_sign(low)
        a = a << _EXTRA_BITS | random_bits(_EXTRA_BITS)
        bits += _EXTRA_BITS


def _student2_magnitude(scale: Fraction, a: int, bits: int) -> int | None:
    """floor(scale * sqrt(2 q**2 / (1 - q**2))) at q = a / 2**bits; None at q = 1."""
    rest = (1 << 2 * bits) - a * a
    if rest == 0:
        return None
    return isqrt(2 * (scale.numerator * a) ** 2 // (scale.denominator**2 * rest))


def _with_sign(magnitude: int) -> int:
    return -magnitude - 1 if random_bits(1) else magnitude


def _bernoulli_exp_below_one(numerator: int, denominator: int) -> bool:
    k = 1
    while uniform_below(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def _add(values: Sequence[int], scale: float, build: Any) -> list[int]:
    if not isinstance(scale, float) or not math.isfinite(scale) or scale <= 0:
        raise ParameterError("P103", "scale", scale, "must be a positive and finite number of grid units.")
    exact = [index(value) for value in values]
    room = _RANGE - _TAIL_SCALES * Fraction(scale)
    if any(abs(value) >= room for value in exact):
        raise InternalError("a value may leave the range of the noise sampler")
    if not exact:
        return []
    return [int(value) for value in build(scale)(exact)]


@lru_cache(maxsize=256)
def _laplace(scale: float) -> Any:
    from opendp import prelude as dp  # late: it takes longer to import than duckdp may

    dp.enable_features("contrib")
    return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale)


@lru_cache(maxsize=256)
def _gaussian(sigma: float) -> Any:
    from opendp import prelude as dp  # late: it takes longer to import than duckdp may

    dp.enable_features("contrib")
    domain, metric = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return dp.m.make_gaussian(domain, metric, sigma, MO="ZeroConcentratedDivergence")


@lru_cache(maxsize=1024)
def _laplace_scale(epsilon: Fraction, l1: int) -> float:
    start = _float_above("l1 / epsilon", l1 / epsilon)
    return _raise_until(start, lambda scale: Fraction(_laplace(scale).map(l1)) <= epsilon)


@lru_cache(maxsize=1024)
def _gaussian_scale(rho: Fraction, l2_squared: int) -> float:
    l2 = _sqrt_above("l2_squared", Fraction(l2_squared))
    start = _sqrt_above("l2_squared / rho", l2_squared / (2 * rho))
    return _raise_until(start, lambda sigma: Fraction(_gaussian(sigma).map(l2)) <= rho)


def _raise_until(scale: float, admitted: Any) -> float:
    for _ in range(_MAX_STEPS):
        if admitted(scale):
            return scale
        scale = math.nextafter(scale, math.inf)
    raise InternalError("no scale satisfies the sampler's privacy map")


def _float_above(name: str, exact: Fraction) -> float:
    """Smallest float that is at least ``exact`` > 0."""
    try:
        near = float(exact)
    except OverflowError:
        near = math.inf
    above = near if near == math.inf or Fraction(near) >= exact else math.nextafter(near, math.inf)
    if not 0 < above < _RANGE:
        raise ParameterError("P103", name, f"{above:g}", "must give a noise scale below 2**62 grid units.")
    return above


def _sqrt_above(name: str, exact: Fraction) -> float:
    """A float that is at least sqrt(``exact``), by less than 2**-60 of it before rounding up."""
    shift = max(0, 128 - exact.numerator.bit_length() + exact.denominator.bit_length())
    shift += shift % 2
    root = isqrt((exact.numerator << shift) // exact.denominator)
    whole = root if Fraction(root**2, 1 << shift) == exact else root + 1
    return _float_above(name, Fraction(whole, 1 << shift // 2))


def _check_positive(**numbers: object) -> None:
    for name, value in numbers.items():
        kind = (int,) if name in ("l1", "l2_squared") else (int, Fraction)
        bits = 124 if name == "l2_squared" else 62
        if isinstance(value, bool) or not isinstance(value, kind) or not 0 < value < 1 << bits:
            rule = f"must be a positive {'integer' if kind == (int,) else 'exact fraction'} below 2**{bits}."
            raise ParameterError("P103", name, value, rule)


def _check_scale(scale: object) -> None:
    # The scale of these samplers may depend on the data, so no message shows it.
    if isinstance(scale, bool) or not isinstance(scale, (int, Fraction)) or scale <= 0:
        raise InternalError("a noise scale is not a positive exact fraction")
