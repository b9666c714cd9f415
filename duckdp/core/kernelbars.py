"""Error bars of sums of many Laplace terms of one scale, and of one cube (smooth/kernel_noise.py).

X = sum_j v_j L_j + x . C, the L_j independent Laplace variables of scale b (50 grid steps or more: taken as
continuous), C a cube. Levels from 0.93 to 0.96 as in ``mixbars``, by the variance and the kurtosis of X, to which the
Laplace terms add 3 sum v^4 / (sum v^2)^2. The largest shortfall found for sums of Laplace terms is 1.5% (two equal
ones); the widening there is 2%. Other levels by inverting the characteristic function, prod_j 1 / (1 + (b v_j u)^2)
times the cube's; of the Laplace terms the 256 largest as they are, the others, each below a 256th of the variance, as
one normal term.

Everything here is a function of public figures: it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from duckdp.core.mixbars import (
    FAST,
    WIDENED_INVERTED,
    cube_characteristic,
    cube_kurtosis,
    inverted_quantile,
    quantiles_by_kurtosis,
)

Floats = NDArray[np.float64]

_KEPT = 256  # largest Laplace terms that are not taken as normal


@dataclass(frozen=True, eq=False)
class Terms:
    """Combinations of one noise: Laplace terms and a cube, as :func:`summed_half_widths` takes them."""

    laplace: Floats
    scale: float
    cube: Floats
    rate: float

    @cached_property
    def cumulants(self) -> tuple[Floats, Floats]:
        """Variance and fourth cumulant of each combination: float[m] both."""
        return _cumulants(self.laplace, self.scale, self.cube, self.rate)


def summed_half_widths(parts: Sequence[Terms], level: float) -> Floats:
    """The same of sums of combinations of independent noises, whose cumulants add up: float[m]."""
    total = np.asarray(sum(part.cumulants[0] for part in parts), dtype=np.float64)
    some = np.where(total > 0, total, 1.0)
    excess = np.asarray(sum(part.cumulants[1] for part in parts), dtype=np.float64) / some**2
    if FAST[0] <= level <= FAST[1]:
        return np.asarray(quantiles_by_kurtosis(excess, level) * np.sqrt(total))
    found = np.zeros(len(total))
    for i in np.flatnonzero(total > 0):
        law = partial(_product, [(p.laplace[i] * p.scale, p.cube[i], p.rate) for p in parts])
        found[i] = WIDENED_INVERTED * inverted_quantile(law, float(np.sqrt(total[i])), level)
    return found


def _cumulants(laplace: Floats, scale: float, cube: Floats, rate: float) -> tuple[Floats, Floats]:
    squares, ours = cube**2, laplace**2
    size = np.array([cube.shape[1]])
    of_cube = squares.sum(axis=1) * (size + 1.0) * (size + 2) / 3 / rate**2
    of_laplace = 2 * scale**2 * ours.sum(axis=1)
    share = (squares**2).sum(axis=1) / np.where(of_cube > 0, squares.sum(axis=1), 1.0) ** 2
    fourth = 12 * scale**4 * (ours**2).sum(axis=1)  # the fourth cumulant
    return of_cube + of_laplace, fourth + of_cube**2 * np.where(of_cube > 0, cube_kurtosis(share, size), 0.0)


def _product(parts: Sequence[tuple[Floats, Floats, float]], u: Floats) -> Floats:
    """The characteristic function of a sum of independent parts."""
    return np.asarray(np.prod([_characteristic(*part, u) for part in parts], axis=0))


def _characteristic(laplace: Floats, cube: Floats, rate: float, u: Floats) -> Floats:
    """E exp(i u X), ``laplace`` being b v: float[n] for float[n]."""
    ordered = np.sort(laplace**2)[::-1]
    found = np.exp(-float(ordered[_KEPT:].sum()) * u**2)
    for square in ordered[:_KEPT]:
        found /= 1 + square * u**2
    if np.any(cube):
        found *= cube_characteristic([cube], np.array([rate]), np.array([len(cube)]), u)
    return np.asarray(found)
