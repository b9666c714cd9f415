"""Error bars of sums of independent cubes (mechanisms/cube.py), one per level of a summary's budget.

Cube i adds c_i . Z_i with Z_i = G_i V_i, the V_i independent and uniform on [-1, 1] and G_i * rate_i a Gamma(R_i + 1)
variable (up to one grid step). The sum X is symmetric, with variances and excess kurtoses known exactly.

    level 0.93 to 0.96  the quantile of a law of the same variance and kurtosis k: a Laplace and a normal term for
                        k >= 0 (Laplace share of the variance sqrt(k/3)), uniform terms for k < 0; widened by 2%, more
                        than the largest shortfall (1.5%) that the tests find over cubes of all sizes. Microseconds.
    other levels        the characteristic function, E exp(i u c . Z) = E_G prod_j sinc(u G c_j), inverted numerically;
                        of each cube the 12 largest coefficients as they are, the others as one normal term. Widened by
                        1%, more than its error (0.7%). Hundredths of a second.

Everything here is a function of public figures: it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from duckdp.core.cubebars import uniform_quantile
from duckdp.core.errorbars import check_level

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Of a half-width, from the table or from an inversion: what was measured is in the docstring.
WIDENED = 1.02
WIDENED_INVERTED = 1.01
FAST = (0.93, 0.96)  # levels between which the table of quantiles holds
_SHARES = np.linspace(0.0, 1.0, 33)
_KEPT = 12  # largest uniform terms that are not taken as normal
_NODES = 128  # of the quadrature
_STEPS = 512  # of the inversion
_BLOCK = 512  # quantiles that are looked up at a time
_FARTHEST = 12.0  # deviations: beyond any quantile of 0.9999


def mixed_half_width(
    squares: Floats, fourths: Floats, rates: Floats, sizes: Ints, level: float, coefficients: Sequence[Floats]
) -> float:
    """Half-width w with P(|X| <= w) >= level.

    Args:
        squares: float[k], of each cube, sum of c^2.
        fourths: float[k], sum of c^4.
        rates: float[k], per grid step.
        sizes: int[k], R_i.
        level: wanted coverage.
        coefficients: one float[m_i] per cube; read only at levels outside 0.93 to 0.96.

    Returns:
        w in units of the coefficients times grid steps.

    Raises:
        ParameterError: P107, level.
    """
    check_level(level)
    used = squares > 0
    if not used.any():
        return 0.0
    if not FAST[0] <= level <= FAST[1]:
        kept = [c for c, use in zip(coefficients, used, strict=True) if use]
        return WIDENED_INVERTED * _inverted(kept, rates[used], sizes[used], level)
    share = fourths[used] / squares[used] ** 2
    variances = squares[used] * (sizes[used] + 1.0) * (sizes[used] + 2) / 3 / rates[used] ** 2
    total = float(variances.sum())
    excess = float(variances**2 @ cube_kurtosis(share, sizes[used])) / total**2
    at, quantiles = _table(level)
    return WIDENED * float(np.interp(excess, at, quantiles)) * math.sqrt(total)


def mixed_half_widths(squares: Floats, fourths: Floats, rates: Floats, sizes: Ints, level: float) -> Floats:
    """:func:`mixed_half_width` for many combinations, at levels from 0.93 to 0.96: float[m].

    Args:
        squares: float[m, k], of each combination and cube, sum of c^2.
        fourths: float[m, k], sum of c^4.
        rates: float[k], per grid step.
        sizes: int[k], R_i.
        level: wanted coverage.
    """
    check_level(level)
    share = fourths / np.where(squares > 0, squares, 1.0) ** 2
    variances = squares * (sizes + 1.0) * (sizes + 2) / 3 / rates**2
    total = variances.sum(axis=1)
    some = np.where(total > 0, total, 1.0)
    excess = (variances**2 * cube_kurtosis(share, sizes)).sum(axis=1) / some**2
    at, quantiles = _table(level)
    return np.asarray(WIDENED * np.interp(excess, at, quantiles) * np.sqrt(total))


def cube_kurtosis(share: Floats, sizes: Ints) -> Floats:
    """Excess kurtosis of c . Z for a cube of R coordinates; share = sum c^4 / (sum c^2)^2.

    E G^4 / (E G^2)^2 = (R+3)(R+4) / ((R+1)(R+2)), and the kurtosis of c . V is 3 - 1.2 share.

    >>> float(cube_kurtosis(np.array([1.0]), np.array([1]))[0])  # one coordinate: a Laplace variable
    3.0
    """
    r = sizes.astype(np.float64)
    return np.asarray((3 - 1.2 * share) * (r + 3) * (r + 4) / ((r + 1) * (r + 2)) - 3)


@lru_cache(maxsize=64)
def _table(level: float) -> tuple[Floats, Floats]:
    """Quantiles of |X|, var X = 1, by excess kurtosis."""
    below = [(-1.2 / n, uniform_quantile(n, level)) for n in (1, 2, 3, 4, 6, 10)]
    above = [(3 * s**2, _laplace_normal_quantile(float(s), level)) for s in _SHARES]
    table = np.array(sorted([*below, *above]))
    return table[:, 0], table[:, 1]


def _laplace_normal_quantile(share: float, level: float) -> float:
    """Quantile of |L + N|, var L = share, var N = 1 - share."""
    from scipy import special
    from scipy.optimize import brentq

    b, s = math.sqrt(share / 2), math.sqrt(1 - share)
    if share < 1e-9:
        return float(special.ndtri((1 + level) / 2))
    if s < 1e-6:
        return -b * math.log(1 - level)

    def tail(x: float) -> float:
        near = math.exp(s**2 / (2 * b**2) - x / b + special.log_ndtr(x / s - s / b))
        far = math.exp(s**2 / (2 * b**2) + x / b + special.log_ndtr(-x / s - s / b))
        return float(special.ndtr(-x / s)) + (near - far) / 2

    return float(brentq(lambda x: 2 * tail(x) - (1 - level), 0.0, 60.0))


def _inverted(coefficients: Sequence[Floats], rates: Floats, sizes: Ints, level: float) -> float:
    """Level-quantile of |X| by its characteristic function."""
    squares = np.array([float(c @ c) for c in coefficients])
    deviations = np.sqrt(squares * (sizes + 1.0) * (sizes + 2) / 3) / rates
    scale = math.sqrt(float(deviations @ deviations))
    return inverted_quantile(lambda u: cube_characteristic(coefficients, rates, sizes, u), scale, level)


def inverted_quantile(characteristic: Callable[[Floats], Floats], scale: float, level: float) -> float:
    """Level-quantile of |X| by the characteristic function of a symmetric law of that standard deviation."""
    from scipy.optimize import brentq

    reach = 40.0
    while characteristic(np.array([reach / scale]))[0] > 1e-7 * reach and reach < 3000:
        reach *= 1.5  # what is cut off oscillates: about the last value over reach
    steps = max(_STEPS, math.ceil(_FARTHEST * reach))
    u = (np.arange(steps) + 0.5) * (reach / steps)
    mass = characteristic(np.asarray(u / scale, dtype=np.float64))

    def excess(w: float) -> float:
        return float(np.sum(np.sin(u * w) / u * mass)) * 2 / math.pi * (reach / steps) - level

    return scale * float(brentq(excess, 1e-9, _FARTHEST))


def quantiles_by_kurtosis(excess: Floats, level: float) -> Floats:
    """Half-widths of symmetric laws of variance 1, at levels from 0.93 to 0.96, by their excess kurtosis; widened."""
    at, quantiles = _table(level)
    return np.asarray(WIDENED * np.interp(excess, at, quantiles))


def cube_characteristic(coefficients: Sequence[Floats], rates: Floats, sizes: Ints, u: Floats) -> Floats:
    """E exp(i u X): float[n] for float[n]."""
    if len(u) > _BLOCK:
        parts = np.array_split(u, -(-len(u) // _BLOCK))
        return np.concatenate([cube_characteristic(coefficients, rates, sizes, part) for part in parts])
    found = np.ones(len(u))
    for c, rate, size in zip(coefficients, rates, sizes, strict=True):
        ordered = -np.sort(-np.abs(c))
        radii, weights = _radii(int(size))
        x = np.outer(radii / rate, u)
        term = np.exp(x**2 * (-float(np.sum(ordered[_KEPT:] ** 2)) / 6))
        for value in ordered[:_KEPT]:
            term *= np.sinc(x * (value / np.pi))
        found *= weights @ term
    return found


@lru_cache(maxsize=256)
def _radii(size: int) -> tuple[Floats, Floats]:
    """Nodes, in even steps, and weights of the Gamma(size + 1) law; nodes of Gauss-Laguerre are few in its tail."""
    from scipy import stats

    law = stats.gamma(size + 1)
    low, high = law.ppf(1e-7), law.isf(1e-8)  # beyond the tails of any level
    nodes = low + (high - low) * (np.arange(_NODES) + 0.5) / _NODES
    weights = law.pdf(nodes)
    return nodes, weights / weights.sum()
