"""Which grouping keys may be shown when they have no public domain: a threshold on the noisy number of units.

Shows a key iff its noisy number of distinct units is at least tau = 1 + t.

Privacy:      (epsilon, delta) together with the noise of the count: a key that only one of two neighbouring data sets
              has, has there one unit, and is shown with probability P(1 + Z >= tau) = P(Z >= t) <= delta / groups.
Assumes:      a unit reaches at most ``groups`` keys (bounded in compiler/emit.py), counts 1 in each, and keys with no
              unit never appear. REPLACE: the argument holds in each direction for the keys only that side has.
Proof sketch: let E be the event that no key of the one-sided set is shown; P(not E) <= groups * delta / groups.
              On E both outputs are functions of the noisy vector over common keys: additive.py's guarantee. The other
              way, the side with more keys shows none of them with a chance of at least 1 - delta, whatever the rest.
              With P and P' the chances of a set of outputs by the noise over common keys, P <= e^epsilon P' + delta_0:
              to be bounded is P - e^epsilon (1 - delta) P'. Where e^epsilon P' <= P <= 1 it is at most delta_0 + delta,
              else at most P - (1 - delta) P <= delta. (REPLACE: one key on each side has the same chance on both.)
Numerics:     P(Z >= t) = p^t / (1 + p), p = exp(-1/scale), for discrete Laplace. For discrete Gaussian, with s = scale,
              P(Z >= t) <= exp(-t^2 / (2 s^2)) / (max(1, s sqrt(2 pi)) (1 - exp(-(2t + 1) / (2 s^2)))): in the sum of
              exp(-k^2 / (2 s^2)) over k >= t each term is at most exp(-(2t + 1) / (2 s^2)) times the one before, so
              it is below a geometric one; the sum over all k is s sqrt(2 pi) sum_n exp(-2 pi^2 s^2 n^2) >= s sqrt(2 pi)
              (Poisson), and its term k = 0 is 1. Or exp(-t^2 / (2 s^2)) (subgaussian: Canonne, Kamath, Steinke 2020,
              Corollary 17), where that is less. t is rounded up and one is added against rounding of the logarithms.
Source:       Korolova, Kenthapadi, Mishra, Ntoulas (WWW 2009); Wilson et al. (PoPETs 2020), section 3.
"""

from __future__ import annotations

import math

from duckdp.core.errorbars import Noise
from duckdp.core.types import ATTO


def threshold(noise: Noise, *, delta_atto: int, groups: int) -> int:
    """The smallest threshold at which a group of one unit stays secret, but with probability delta.

    Args:
        noise: of the number of units.
        delta_atto: delta for the keys, in 1e-18, > 0.
        groups: most keys a unit reaches.

    >>> threshold(Noise("laplace", 1.0), delta_atto=10**10, groups=1)
    21
    """
    t = room(noise, math.log(delta_atto) - math.log(ATTO) - math.log(groups))
    return 1 + max(1, math.ceil(t)) + 1


def room(noise: Noise, log_share: float) -> float:
    """How far noise reaches but with a chance of exp(log_share): of a Gaussian the least whole number by its bounds."""
    if noise.family == "laplace":
        t = noise.scale * (-log_share - math.log1p(math.exp(-1 / noise.scale)))
        return t
    most = math.ceil(noise.scale * math.sqrt(-2 * log_share))
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _log_gaussian_tail(noise.scale, middle) <= log_share else (middle, high)
    return high


def log_tail(noise: Noise, t: int) -> float:
    """An upper bound of log P(Z >= t), t >= 1; of Laplace noise it is exact."""
    if noise.family == "laplace":
        return -t / noise.scale - math.log1p(math.exp(-1 / noise.scale))
    return _log_gaussian_tail(noise.scale, t)


def _log_gaussian_tail(scale: float, t: int) -> float:
    """An upper bound of log P(Z >= t) for a discrete Gaussian, t >= 1; it falls as t grows."""
    falls = -math.expm1(-(2 * t + 1) / (2 * scale * scale))
    return -(t * t) / (2 * scale * scale) - math.log(max(1.0, scale * math.sqrt(2 * math.pi))) - math.log(falls)
