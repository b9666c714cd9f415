"""Covariances, correlations and least squares from moments of arguments in [-1, 1]. Post-processing only.

Moments come as one float[n, R] for many releases (or draws of noise) at once; ``Pairs`` lays them out as matrices S[n,
d+1, d+1], the sums of (1, v)(1, v)^T over rows. What is not defined is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from duckdp.mechanisms.second_moments import Powers

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Which moments of d arguments are wanted, and where each stands in the matrix.

    Attributes:
        binary: of each argument whether its square is 1 in every row.
        squares: of which arguments squares are wanted.
        products: of which pairs i < j products are wanted.
    """

    binary: tuple[bool, ...]
    squares: tuple[int, ...]
    products: tuple[tuple[int, int], ...]

    @cached_property
    def wanted(self) -> tuple[Powers, ...]:
        """Powers in each moment: the count, sums, squares that are not known, products."""
        places = [(), *((i,) for i in range(self.count))]
        places += [(i, i) for i in self.squares if not self.binary[i]]
        return tuple(tuple(place.count(i) for i in range(self.count)) for place in [*places, *self.products])

    @property
    def count(self) -> int:
        """How many arguments there are."""
        return len(self.binary)

    def matrix(self, moments: Floats) -> Floats:
        """float[n, d+1, d+1] from float[n, R]; NaN where nothing is wanted."""
        found = np.full((len(moments), self.count + 1, self.count + 1), np.nan)
        for r, powers in enumerate(self.wanted):
            i, j = ([0, 0] + [k + 1 for k, power in enumerate(powers) for _ in range(power)])[-2:]
            found[:, i, j] = found[:, j, i] = moments[:, r]
        for i in self.squares:
            if self.binary[i]:
                found[:, i + 1, i + 1] = found[:, 0, 0]
        return found


def all_pairs(binary: Sequence[bool]) -> Pairs:
    """Every moment of degree at most 2."""
    count = len(binary)
    products = tuple((i, j) for i in range(count) for j in range(i + 1, count))
    return Pairs(binary=tuple(binary), squares=tuple(range(count)), products=products)


def one_pair() -> Pairs:
    """What the covariance of two arguments follows from."""
    return Pairs(binary=(False, False), squares=(), products=((0, 1),))


def target_pairs(binary: Sequence[bool]) -> Pairs:
    """What least squares follow from, the target being the last argument: all but its square."""
    every = all_pairs(binary)
    return Pairs(binary=every.binary, squares=every.squares[:-1], products=every.products)


def covariances(sums: Floats) -> Floats:
    """Sample covariances float[n, d, d]; NaN where the count is not above 1."""
    count = np.where(sums[:, :1, :1] > 1, sums[:, :1, :1], np.nan)
    first = sums[:, 0, 1:]
    found = (sums[:, 1:, 1:] - first[:, :, None] * first[:, None, :] / count) / (count - 1)
    return np.asarray(found)


def correlations(sums: Floats) -> Floats:
    """Correlations float[n, d, d]; NaN where a variance is not above 0."""
    found = covariances(sums)
    variances = np.einsum("nii->ni", found)
    roots = np.sqrt(np.where(variances > 0, variances, np.nan))
    found = found / roots[:, :, None] / roots[:, None, :]
    diagonal = np.arange(found.shape[1])
    found[:, diagonal, diagonal] = np.where(np.isfinite(roots), 1.0, np.nan)
    return np.asarray(found)


def least_squares(sums: Floats, ridge: float = 0.0, floor: float = 0.0) -> Floats:
    """Coefficients of the last argument on the others, the intercept first: float[n, d].

    They minimise the sum of squares plus ``ridge`` times the count times the squared coefficients but the intercept.

    Args:
        sums: float[n, d+1, d+1].
        ridge: penalty, per row.
        floor: directions of the features whose squared spread, added up over rows, is below it are taken to have it.
            0: NaN where no direction may be left out and one has no spread above 0.
    """
    count = np.where(sums[:, 0, 0] > 0, sums[:, 0, 0], np.nan)[:, None, None]
    first = sums[:, :1, 1:]
    spread = sums[:, 1:, 1:] - np.swapaxes(first, 1, 2) * first / count
    features, target = spread[:, :-1, :-1], spread[:, :-1, -1]
    usable = np.asarray(np.isfinite(features).all(axis=(1, 2)))
    values, vectors = np.linalg.eigh(np.where(usable[:, None, None], features, 0.0))
    values = values + ridge * count[:, :, 0]
    values = np.maximum(values, floor) if floor else np.where(values > 0, values, np.nan)
    slopes = np.einsum("nij,nj,nkj,nk->ni", vectors, 1 / values, vectors, target)
    means = first[:, 0] / count[:, 0]
    intercept = means[:, -1] - (means[:, :-1] * slopes).sum(axis=1)
    return np.where(usable[:, None], np.column_stack([intercept, slopes]), np.nan)
