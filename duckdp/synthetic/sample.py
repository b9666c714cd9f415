"""Exactly m rows from a distribution on the support, in random order.

Systematic sampling: one offset o, uniform below the total weight T, and point k gets
floor((m C_k + o) / T) - floor((m C_(k-1) + o) / T) rows, C the cumulated weights. The counts add up to m, each lies
within one of m w_k / T, and each has that mean. Weights are integers, the randomness is the operating system's.

Numerics: weights are rounded to multiples of 2^-40, at most 20,000 of them, so m C_k + T < 2^62 for m <= 10^6.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duckdp.core.noise import random_bits, uniform_below
from duckdp.smooth.basis import Floats

_UNIT = 2**40


def draw_points(weights: Floats, rows: int) -> NDArray[np.int64]:
    """Draw rows.

    Args:
        weights: float[C], at least 0, sum 1.
        rows: m, 1 to 10^6.

    Returns:
        int[m], indices of points, shuffled.
    """
    cumulated = np.cumsum(np.rint(weights * _UNIT).astype(np.int64))
    total = int(cumulated[-1])
    reached = (rows * cumulated + uniform_below(total)) // total
    counts = np.diff(reached, prepend=0)
    points = np.repeat(np.arange(len(weights), dtype=np.int64), counts)
    keys = np.frombuffer(random_bits(64 * rows).to_bytes(8 * rows, "little"), dtype=np.uint64)
    shuffled: NDArray[np.int64] = points[np.argsort(keys, kind="stable")]
    return shuffled
