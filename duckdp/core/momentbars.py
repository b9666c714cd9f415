"""Intervals of what follows from noisy moments: by draws of the noise's public law.

True moments M are released as m = M + Z. For a statistic T the interval holds T(M) in about ``level`` of all releases:
its ends are the outer quantiles of T(m - z) over draws z of Z's law. Of a linear T that is exact, and of a quotient of
linear forms it is Fieller's set (``ratiobars``): P(T(m - z) < t) = P(z_1 - t z_2 > a - t b), so that t is an end where
a - t b is a quantile of its own noise. Of others it is so to first order in the noise. Where T is not defined (a
variance that is not positive, features whose moments are no longer those of any data) a draw counts as beyond both
ends: an interval has no end on a side that too many draws leave.

Numerics: draws come from a public stream (``jointbars.uniform_stream``), so the same release has the same intervals
          each time; of the sorted values an end is the one that is beyond the quantile but for one stream in a million
          (``jointbars.upper_rank``), less than one percent of level. Noise is drawn as real numbers: grids are far
          finer.
Coverage: measured on unseen data sets by bench/regression_accuracy.py; see docs/benchmarks.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from duckdp.core.jointbars import laplace_variates, uniform_stream, upper_rank

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]  # moments float[n, R] -> float[n, T]; NaN where it is not defined
DRAWS = (4_000, 10_000)  # of the noise, the fewest and the most
_WORK = 2**23  # numbers of all draws together that are aimed at
_STEP = 1e-5  # of a moment's noise: of the slopes of a statistic


def laplace_draws(signs: Floats, scale: float) -> Floats:
    """Draws of moments' noise that follows from independent Laplace noise: float[n, R].

    Args:
        signs: float[R, J], how moments follow from what is noised.
        scale: of each, in rows.
    """
    size = signs.shape[1]
    return np.asarray(laplace_variates(uniform_stream(count_draws(size), size)) * scale @ signs.T)


def gaussian_draws(signs: Floats, sigma: float) -> Floats:
    """As :func:`laplace_draws`, of Gaussian noise. Moments that are uncorrelated are drawn themselves."""
    from scipy.special import ndtri

    size = signs.shape[1]
    return np.asarray(ndtri(uniform_stream(count_draws(size), size)) * sigma @ signs.T)


def cube_draws(size: int, half: float) -> Floats:
    """Draws of a cube's noise, float[n, size]; ``half``: 1 / rate, in rows."""
    from scipy.special import gammaincinv

    u = uniform_stream(count_draws(size), size + 1)
    radius = gammaincinv(size + 1.0, u[:, 0]) * half
    return np.asarray((2 * u[:, 1:] - 1) * radius[:, None])


def count_draws(size: int) -> int:
    """How many draws of so many numbers are made."""
    return min(DRAWS[1], max(DRAWS[0], _WORK // max(1, size)))


def statistic_interval(
    moments: Floats, draws: Floats, statistic: Statistic, level: float = 0.95
) -> tuple[Floats, Floats]:
    """Ends of the interval of each number of a statistic, float[T] each; infinite where there is none.

    Args:
        moments: float[R], released.
        draws: float[n, R], of the noise.
        statistic: of moments.
        level: wanted coverage.
    """
    with np.errstate(all="ignore"):
        found = statistic(moments - draws)
    count, beyond = len(draws), (1 - level) / 2
    k = upper_rank(count, 1 - beyond)  # of the ascending values, the k-th is the upper end
    low = np.sort(np.where(np.isnan(found), -math.inf, found), axis=0)[count - k]
    high = np.sort(np.where(np.isnan(found), math.inf, found), axis=0)[k - 1]
    return low, high


def statistic_deviation(moments: Floats, draws: Floats, statistic: Statistic) -> Floats:
    """Standard deviation of each number of a statistic to first order in the noise, float[T]; NaN where there is none.

    The slope in the direction of every moment, applied to the draws' covariance.
    """
    covariance = np.cov(draws, rowvar=False).reshape(draws.shape[1], draws.shape[1])
    steps = _STEP * np.sqrt(np.diag(covariance))
    moved = np.diag(steps)
    with np.errstate(all="ignore"):
        slopes = (statistic(moments + moved) - statistic(moments - moved)) / (2 * steps[:, None])
        return np.asarray(np.sqrt(np.einsum("rt,rs,st->t", slopes, covariance, slopes)))
