"""One factor for all error bars of a list, so that all hold together: the noise is shared, and misses come together.

For combinations a_1 . Z, ..., a_m . Z of one noise Z of a public law, with standard deviations s_j, the intervals
+-kappa s_j hold together with probability P(T <= kappa), T = max_j |a_j . Z| / s_j. kappa is the level's quantile of T.

Claim:   P(T <= joint_factor(...)) >= level, unless draws of Z came out as one in a million do (RISK).
Proof:   of B independent draws of T the k-th smallest is below the quantile q only where at least k of them are; that
         many are with the probability P(Bin(B, P(T < q)) >= k) <= P(Bin(B, level) >= k), and k is the smallest for
         which this is at most RISK. No bound is asked of the correlations, as the union bound is not: with m answers
         that bound asks for the 1 - (1 - level) / m quantile of each, and equal answers pay for it m times.
Numerics: Z is drawn as reals; grid steps are the caller's affair. Draws come from a stream of SHAKE-256 with a fixed
         label: they stand for no secret (the law is public, and nothing private is looked at), and the same list has
         the same intervals each time. RISK is over that stream, once for all lists.
Source:  order statistics as confidence bounds of a quantile: Wilks, "Determination of sample sizes for setting
         tolerance limits", 1941.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from duckdp.errors import ParameterError

Floats = NDArray[np.float64]
Draw = Callable[[Floats], Floats]  # uniforms float[n, u] -> noise float[n, R]

RISK = 1e-6  # that draws of ours show too small a quantile
MOST_LEVEL = 0.999  # more would take more draws than are made
DRAWS = (2_000, 40_000)  # of Z: the fewest (or what the level needs, if more), and the most
WORK = 2**32  # multiplications that are aimed at
_TOGETHER = 512  # draws in one array


def joint_factor(combinations: Floats, deviations: Floats, draw: Draw, uniforms: int, level: float) -> float:
    """The factor of standard deviations at which all intervals hold together.

    Args:
        combinations: float[m, R], a_j; rows of zeros have no noise.
        deviations: float[R], standard deviations of Z's coordinates, which are uncorrelated.
        draw: Z from uniform numbers in (0, 1), float[n, u].
        uniforms: u, how many a draw takes.
        level: wanted coverage of all together, at most 0.999.

    Raises:
        ParameterError: P107, level.
    """
    if not 0 < level <= MOST_LEVEL:
        raise ParameterError("P107", "level", level, f"must be above 0 and at most {MOST_LEVEL} for all together.")
    size = np.linalg.norm(combinations * deviations, axis=1)
    scaled = combinations[size > 0] / size[size > 0, None]
    if not len(scaled):
        return 0.0
    scaled = np.unique(scaled, axis=0)  # equal answers count once
    fewest = 1.1 * math.log(RISK) / math.log(level)  # with fewer the largest of all may be below the quantile
    count = int(min(DRAWS[1], max(DRAWS[0], fewest, WORK / scaled.size)))
    largest = []
    for start in range(0, count, _TOGETHER):
        chance = _part(start, min(_TOGETHER, count - start), uniforms)
        largest.append(np.abs(draw(chance) @ scaled.T).max(axis=1))
    ordered = np.sort(np.concatenate(largest))
    return float(ordered[upper_rank(count, level) - 1])


@lru_cache(maxsize=64)
def upper_rank(count: int, level: float) -> int:
    """The smallest k with P(Bin(count, level) >= k) <= RISK: of draws, the k-th reaches the quantile."""
    from scipy.stats import binom

    k = int(binom.isf(RISK, count, level)) + 1
    assert binom.sf(k - 1, count, level) <= RISK
    return min(k, count)


def uniform_stream(count: int, width: int) -> Floats:
    """Public numbers, uniform in (0, 1), the same each time: float[count, width]."""
    return np.concatenate([_part(first, min(_TOGETHER, count - first), width) for first in range(0, count, _TOGETHER)])


def _part(first: int, count: int, width: int) -> Floats:
    """Rows ``first``, first + 1, ... of the stream: float[count, width] in (0, 1), multiples of 2^-53 moved by half."""
    bits = hashlib.shake_256(f"duckdp joint bars {width} {first}".encode()).digest(8 * count * width)
    whole = np.frombuffer(bits, dtype="<u8").reshape(count, width) >> np.uint64(11)
    return np.asarray((whole.astype(np.float64) + 0.5) * 2.0**-53)


def laplace_variates(u: Floats) -> Floats:
    """Laplace variates of scale 1 from uniform numbers."""
    return np.asarray(np.sign(u - 0.5) * -np.log1p(-np.abs(2 * u - 1)))
