"""Error bars of linear combinations of cube noise (mechanisms/cube.py).

Z is, up to one grid step, G V with V_1..V_R independent and uniform on [-1, 1] and G * rate a Gamma(R + 1) variable. So
c . Z = G |c|_2 / sqrt(3) * W with W of unit variance, and W's law lies between that of one uniform variable (one large
coefficient) and the normal law (many alike), according to its excess kurtosis -1.2 sum c^4 / (sum c^2)^2.

The level-quantile of |G W| is tabulated for sums of n equal uniforms (excess kurtosis -1.2 / n) and interpolated; the
result is widened by 1.2%, more than the largest shortfall that the tests find over coefficient vectors of all shapes,
at levels from 0.5 to 0.96; for others see ``mixbars``.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from duckdp.core.errorbars import check_level

Floats = NDArray[np.float64]

WIDENED = 1.012  # of the half-width: why, and what was measured, is in the docstring
_TERMS = (1, 2, 3, 4, 6, 10, 0)  # equal uniforms; 0 stands for the normal law
_NODES = 400  # of the midpoint rule, over the radii that matter


def cube_half_width(coefficients: Floats, rate: float, size: int, level: float) -> float:
    """Half-width w with P(|c . Z| <= w) >= level.

    Args:
        coefficients: float[m] of the m <= size coordinates used.
        rate: of the cube, per grid step.
        size: R.
        level: wanted coverage.

    Returns:
        w in units of the coefficients times grid steps.

    Raises:
        ParameterError: P107, level.
    """
    check_level(level)
    largest = float(np.max(np.abs(coefficients), initial=0.0))
    if largest == 0:
        return 0.0
    scaled = coefficients / largest  # squares of tiny coefficients would underflow
    square = float(np.sum(scaled**2))
    share = float(np.sum(scaled**4)) / square**2  # 1 / (number of equal terms)
    shares, quantiles = _table(size, level)
    z = float(np.interp(share, shares, quantiles))
    return WIDENED * z * largest * math.sqrt(square / 3) / rate


def uniform_quantile(n: int, level: float) -> float:
    """Level-quantile of |W|, W the standardised sum of n equal uniform variables."""
    from scipy.optimize import brentq

    return float(brentq(lambda x: float(_within(n, np.array([x]))[0]) - level, 0.0, math.sqrt(3 * n)))


@lru_cache(maxsize=512)
def _table(size: int, level: float) -> tuple[Floats, Floats]:
    """Quantiles of |Gamma(R + 1) W| for each number of equal uniforms, by increasing 1/n."""
    from scipy import stats
    from scipy.optimize import brentq

    law, tail = stats.gamma(size + 1), 1e-3 * (1 - level)  # radii to far beyond the level: they make the tails
    low, high = law.ppf(tail), law.isf(tail)
    radii = low + (high - low) * (np.arange(_NODES) + 0.5) / _NODES
    weights = law.pdf(radii)
    weights /= weights.sum()
    found = []
    for n in _TERMS:

        def excess(x: float, n: int = n) -> float:
            return float(weights @ _within(n, x / radii)) - level

        found.append((1 / n if n else 0.0, float(brentq(excess, 0.0, 60.0 * (size + 40)))))
    found.sort()
    return np.array([f[0] for f in found]), np.array([f[1] for f in found])


def _within(n: int, x: Floats) -> Floats:
    """P(|W| <= x), W the standardised sum of n uniforms on [-1, 1]; n = 0: normal."""
    from scipy import special

    if n == 0:
        return np.asarray(special.erf(x / math.sqrt(2)), dtype=np.float64)
    s = np.clip(x * math.sqrt(n / 3), 0.0, n)  # |sum of n uniforms| <= s
    y = (s + n) / 2  # sum of n uniforms on [0, 1]
    k = np.arange(n + 1)
    terms = (-1.0) ** k * special.comb(n, k) * np.maximum(y[:, None] - k, 0.0) ** n
    return np.asarray(np.clip(2 * terms.sum(axis=1) / math.factorial(n) - 1, 0.0, 1.0), dtype=np.float64)
