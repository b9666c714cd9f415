"""Coefficients of any size: brought near 1 by powers of two, which change no digit, so that nothing overflows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duckdp.errors import ParameterError

Floats = NDArray[np.float64]
Powers = NDArray[np.int64]
LEAST = 2.0**-900  # of the largest coefficient: what is smaller is 0 beside it, as its square is


def near_one(coefficients: Floats, terms: int) -> tuple[Floats, Powers]:
    """Columns whose largest coefficient has a size from 1/2 to 1, and the powers of two that give the old ones back.

    Args:
        coefficients: float[terms, n].
        terms: how many rows there must be.

    Raises:
        ParameterError: P107, another shape, or coefficients that are not finite.

    >>> found, powers = near_one(np.array([[3e200, 0.0], [-6e200, 2.0]]), 2)
    >>> np.allclose(np.ldexp(found, powers), [[3e200, 0.0], [-6e200, 2.0]]), found[:, 1]
    (True, array([0. , 0.5]))
    """
    c = np.asarray(coefficients, dtype=np.float64)
    if c.ndim != 2 or c.shape[0] != terms or not np.isfinite(c).all():
        raise ParameterError("P107", "coefficients", c.shape, f"must be finite, of shape ({terms}, n).")
    powers = np.frexp(np.abs(c).max(axis=0, initial=0.0))[1].astype(np.int64)
    found = np.ldexp(c, -powers)
    return np.where(np.abs(found) < LEAST, 0.0, found), powers


def times_power(values: Floats, powers: Powers | int) -> Floats:
    """Values times powers of two; an infinity where that is beyond a DOUBLE."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(values, powers), dtype=np.float64)
