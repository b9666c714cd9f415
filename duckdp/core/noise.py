"""The only source of randomness of duckdp: exact samplers on integers. None of them sees a private value.

::

    laplace_noise(count, scale)     P(Z = k) ~ exp(-|k| / scale)             OpenDP
    gaussian_noise(count, sigma)    P(Z = k) ~ exp(-k**2 / (2 sigma**2))     OpenDP
    geometric(rate)                 P(V = k) ~ exp(-rate k), k >= 0          here, in integers

Noise is drawn at zero, from public scales alone, and added outside to exact integers, which have no range: no draw, no
number of draws and no error can depend on what is noised. (Standard variates for scales that are private themselves:
``core/variates``.)

Nothing here takes a seed, a generator or a switch. Every bit comes from the operating system: OpenDP and ``secrets``
both read it there. No sampler of this file touches a float; the scales of OpenDP are floats by its interface and are
rounded up until its own privacy map, read as an exact fraction, gives at most what is charged.

Numerics: OpenDP stops at the ends of 64 bits; a draw found there (chance below exp(-100) at the largest scale) is
          continued from the law's own tail, so the laws hold on all integers.
Source:   discrete samplers: Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", 2020, as
          implemented in OpenDP; ``bernoulli_exp`` and ``geometric`` are the rational-number recipes of the same paper.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any

from duckdp.errors import InternalError, ParameterError

LARGEST_SCALE = 2.0**56  # 100 of them are below 2**63, where OpenDP stops
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1  # where it does: the ends of int64
_LARGEST_ROOT = 2.0**62  # of an l2 sensitivity
# The float nearest to the wanted scale is at most a few steps from one that OpenDP's rounded-up map accepts.
_MAX_STEPS = 64


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


def laplace_noise(count: int, scale: float) -> list[int]:
    """Independent discrete Laplace noise, P(Z = k) ~ exp(-|k| / scale) on all integers.

    Args:
        count: how many, public.
        scale: in (0, 2**56], grid units, public; the standard deviation is about scale * sqrt(2).

    Returns:
        int[count], grid units: to be added to exact integers.

    Raises:
        ParameterError: P103.
    """
    drawn = _draw(count, scale, _laplace)
    return complete(drawn, _LOWEST, _HIGHEST, lambda _: geometric(1 / Fraction(scale)))


def gaussian_noise(count: int, sigma: float) -> list[int]:
    """Independent discrete Gaussian noise, P(Z = k) ~ exp(-k**2 / (2 sigma**2)) on all integers.

    Args:
        count: how many, public.
        sigma: in (0, 2**56], grid units, public; about the standard deviation.

    Returns:
        int[count], grid units: to be added to exact integers.

    Raises:
        ParameterError: P103.
    """
    drawn = _draw(count, sigma, _gaussian)
    return complete(drawn, _LOWEST, _HIGHEST, lambda end: _gaussian_beyond(end, Fraction(sigma) ** 2))


def complete(drawn: list[int], lowest: int, highest: int, further: Callable[[int], int]) -> list[int]:
    """Draws of a law that was cut at ``lowest`` and ``highest``, its tails heaped there, as draws of the law itself.

    Args:
        drawn: int[n].
        lowest: an end, negative.
        highest: an end, positive.
        further: (m) -> k with probability P(Z = m + k) / P(Z >= m), of a symmetric law.
    """
    if not drawn or (min(drawn) > lowest and max(drawn) < highest):
        return drawn
    whole = []
    for z in drawn:
        if z <= lowest:
            whole.append(lowest - further(-lowest))
        else:
            whole.append(z if z < highest else highest + further(highest))
    return whole


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


def _gaussian_beyond(end: int, variance: Fraction) -> int:
    """G with P(G = k) ~ exp(-(end + k)**2 / (2 variance)), k >= 0.

    exp(-(end + k)**2 / 2v) ~ exp(-k end / v) exp(-k**2 / 2v): geometric of rate end / v, accepted with the second.
    """
    while True:
        k = geometric(end / variance)
        if bernoulli_exp(k * k / (2 * variance)):
            return k


def _bernoulli_exp_below_one(numerator: int, denominator: int) -> bool:
    k = 1
    while uniform_below(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def _draw(count: int, scale: float, build: Any) -> list[int]:
    if not isinstance(scale, float) or not 0 < scale <= LARGEST_SCALE:
        raise ParameterError("P103", "scale", scale, "must be positive and at most 2**56 grid units.")
    return [int(z) for z in build(scale)([0] * count)] if count else []


@lru_cache(maxsize=256)
def _laplace(scale: float) -> Any:
    from opendp import domains, measurements, metrics, mod  # late, and not its prelude: that imports whole data frames

    mod.enable_features("contrib")
    domain, metric = domains.vector_domain(domains.atom_domain(T="i64")), metrics.l1_distance(T="i64")
    return measurements.make_laplace(domain, metric, scale)


@lru_cache(maxsize=256)
def _gaussian(sigma: float) -> Any:
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    domain, metric = domains.vector_domain(domains.atom_domain(T="i64")), metrics.l2_distance(T="f64")
    return measurements.make_gaussian(domain, metric, sigma, MO="ZeroConcentratedDivergence")


@lru_cache(maxsize=1024)
def _laplace_scale(epsilon: Fraction, l1: int) -> float:
    start = _float_above("l1 / epsilon", l1 / epsilon, LARGEST_SCALE)
    return _raise_until(start, lambda scale: Fraction(_laplace(scale).map(l1)) <= epsilon)


@lru_cache(maxsize=1024)
def _gaussian_scale(rho: Fraction, l2_squared: int) -> float:
    l2 = _sqrt_above("l2_squared", Fraction(l2_squared), _LARGEST_ROOT)
    start = _sqrt_above("l2_squared / rho", l2_squared / (2 * rho), LARGEST_SCALE)
    return _raise_until(start, lambda sigma: Fraction(_gaussian(sigma).map(l2)) <= rho)


def _raise_until(scale: float, admitted: Any) -> float:
    for _ in range(_MAX_STEPS):
        if admitted(scale):
            return scale
        scale = math.nextafter(scale, math.inf)
    raise InternalError("no scale satisfies the sampler's privacy map")


def _float_above(name: str, exact: Fraction, most: float) -> float:
    """Smallest float that is at least ``exact`` > 0; it is refused above ``most``."""
    try:
        near = float(exact)
    except OverflowError:
        near = math.inf
    above = near if near == math.inf or Fraction(near) >= exact else math.nextafter(near, math.inf)
    if not 0 < above < most:
        rule = f"must give a noise scale below 2**{math.log2(most):g} grid units."
        raise ParameterError("P103", name, f"{above:g}", rule)
    return above


def _sqrt_above(name: str, exact: Fraction, most: float) -> float:
    """A float that is at least sqrt(``exact``), by less than 2**-60 of it before rounding up."""
    shift = max(0, 128 - exact.numerator.bit_length() + exact.denominator.bit_length())
    shift += shift % 2
    root = isqrt((exact.numerator << shift) // exact.denominator)
    whole = root if Fraction(root**2, 1 << shift) == exact else root + 1
    return _float_above(name, Fraction(whole, 1 << shift // 2), most)


def _check_positive(**numbers: object) -> None:
    for name, value in numbers.items():
        kind = (int,) if name in ("l1", "l2_squared") else (int, Fraction)
        bits = 124 if name == "l2_squared" else 62
        if isinstance(value, bool) or not isinstance(value, kind) or not 0 < value < 1 << bits:
            rule = f"must be a positive {'integer' if kind == (int,) else 'exact fraction'} below 2**{bits}."
            raise ParameterError("P103", name, value, rule)
