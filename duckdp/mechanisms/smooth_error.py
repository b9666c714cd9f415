"""How far a quantile by smooth sensitivity is off, predicted from public figures: for choosing, never for a claim.

The figure is in **rows of rank**: a value that is off by d rows of rank is off by d gaps between values near it. What
is assumed is that values lie evenly near the rank, where S is what (k + 1) u gaps come to at the best k. Where values
are tied, or there are few of them, it is less or more; the release itself assumes none of this.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from duckdp.mechanisms.admissible_noise import AdmissibleNoise, choose, half_width
from duckdp.mechanisms.scale_bound import choose_with_bound, predicted_width


def even_growth(unit: int, decay: float, most: float = np.inf) -> float:
    """S on evenly spread values, in gaps: the largest exp(-b k) least((k + 1) u, most) over k >= 0.

    Args:
        unit: u, most rows of one privacy unit.
        decay: b.
        most: rows in all, beyond which a window has no more values.
    """
    best = max(1.0, 1 / decay)  # (k + 1) exp(-b k) is largest where k + 1 = 1 / b
    k = np.array([0.0, np.floor(best) - 1, np.floor(best)])
    return float((np.exp(-decay * k) * np.minimum((k + 1) * unit, most)).max())


@lru_cache(maxsize=1024)
def rank_error(epsilon: Fraction, unit: int = 1, *, interval: bool = False) -> float:
    """Predicted half-width of 95% of one quantile, rows of rank.

    Args:
        epsilon: of the release in one group, pure.
        unit: u, most rows of one privacy unit.
        interval: whether a part of epsilon buys an interval, whose half-width it then is.

    >>> round(rank_error(Fraction(1)), 1), round(rank_error(Fraction(1, 10)))
    (10.4, 780)
    """

    def growth(decay: float) -> float:
        return even_growth(unit, decay)

    if interval:
        return predicted_width(choose_with_bound(epsilon, growth), growth)
    return half_width(choose(epsilon, growth), growth)


def mean_rank_error(noise: AdmissibleNoise, unit: int) -> float:
    """Predicted mean distance of the rank of one quantile with this noise, rows.

    Args:
        noise: of the release in one group.
        unit: u, most rows of one privacy unit.
    """
    return noise.mean * even_growth(unit, noise.decay) / float(noise.alpha)
