"""Distribution functions from noisy counts of bins and of blocks of bins, with a band that holds as a whole.

Let x be the bins' least-squares estimates (``nestedbins``), P_j their prefix sums and N = P_k. The function is F_j =
P_j / N at the upper edge of bin j. For draws z of the noise of all counts F_j(y - z) is what the truth may be; with s_j
the size of what moves F_j to first order, the largest |F_j(y - z) - F_j(y)| / s_j over all j is drawn too, and the band
is F_j -+ kappa s_j, kappa its quantile. Truth never falls, and is 0 to 1, so the band may be cut by that: low ends
rise, high ends do not fall.

The value shown is the nearest function that never falls (isotonic regression), cut to [0, 1] and to the band.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from duckdp.core.errorbars import Noise
from duckdp.core.jointbars import laplace_variates, uniform_stream, upper_rank
from duckdp.core.nestedbins import blocks, estimate_matrix

Floats = NDArray[np.float64]
_DRAWS = 2_000  # of the noise of all counts
_LEVEL = 0.95  # with which the band holds as a whole


@dataclass(frozen=True, kw_only=True)
class Band:
    """The function at the bins' upper edges, float[k] each; NaN where there is none."""

    value: Floats
    error: Floats
    low: Floats
    high: Floats


def distribution_band(
    bins: int,
    sizes: Sequence[int],
    noise: Noise,
    *,
    counts: Floats | None = None,
    expected: Floats | None = None,
    off: float = 0.0,
) -> Band:
    """The function and its band.

    Args:
        bins: k.
        sizes: of the blocks of each level.
        noise: of every count, in rows.
        counts: float[blocks], noisy; or
        expected: float[bins], to predict a band by.
        off: rows by which all bins together may be too low; of N they move no F_j by more than off / N.
    """
    prefixes, moved = _prefixes(bins, tuple(sizes), noise.family)
    if counts is None:
        assert expected is not None
        counts = blocks(bins, sizes) @ expected
    found, moved = prefixes @ counts, moved * noise.scale
    count = found[-1]
    with np.errstate(all="ignore"):
        shares = found / count
        drawn = found[None] - moved
        other = drawn / np.where(drawn[:, -1:] > 0, drawn[:, -1:], np.nan)
        error = np.std(moved - moved[:, -1:] * shares, axis=0) / count
        sizes_ = np.maximum(error, 1e-12)
        largest = np.max(np.abs(other - shares) / sizes_, axis=1)
    largest = np.where(np.isnan(largest), np.inf, largest)
    kappa = float(np.sort(largest)[upper_rank(_DRAWS, _LEVEL) - 1])
    if not (count > 0 and np.isfinite(kappa)):
        nothing, everything = np.zeros(bins), np.ones(bins)
        nothing[-1] = 1.0
        return Band(value=np.full(bins, np.nan), error=np.full(bins, np.nan), low=nothing, high=everything)
    wide = kappa * sizes_ + off / float(drawn[largest <= kappa, -1].min())  # above 0, as kappa is finite
    low = np.maximum.accumulate(np.clip(shares - wide, 0.0, 1.0))
    high = np.minimum.accumulate(np.clip(shares + wide, 0.0, 1.0)[::-1])[::-1]
    low[-1] = high[-1] = 1.0
    value = np.clip(np.clip(isotonic(shares), 0.0, 1.0), np.minimum(low, high), np.maximum(low, high))
    return Band(value=value, error=error, low=np.minimum(low, value), high=np.maximum(high, value))


def isotonic(values: Floats) -> Floats:
    """The nearest values, in squares, that never fall: pools of neighbours by their means."""
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        means.append(value)
        sizes.append(1)
        while len(means) > 1 and means[-2] >= means[-1]:
            size = sizes[-2] + sizes[-1]
            means[-2:] = [(means[-2] * sizes[-2] + means[-1] * sizes[-1]) / size]
            sizes[-2:] = [size]
    return np.repeat(np.array(means), sizes)


@lru_cache(maxsize=16)
def _prefixes(bins: int, sizes: tuple[int, ...], family: str) -> tuple[Floats, Floats]:
    """How prefix sums follow from all counts, float[k, blocks], and draws of their noise of scale 1, float[n, k]."""
    from scipy.special import ndtri

    matrix = np.cumsum(estimate_matrix(bins, sizes), axis=0)
    u = uniform_stream(_DRAWS, matrix.shape[1])
    z = laplace_variates(u) if family == "laplace" else np.asarray(ndtri(u))
    return matrix, np.asarray(z @ matrix.T)
