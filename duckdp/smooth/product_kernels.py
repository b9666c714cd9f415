"""The kernels of a full tensor basis: all products of the kernels of its columns (mechanisms/kernels.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.mechanisms.kernels import ColumnKernels, Floats, fejer_kernels, indicator_kernels
from duckdp.smooth.axes import Axis
from duckdp.smooth.basis import Basis

MOST_NODES = 256  # kernels of one column: errors of floats, which are counted, grow with them
MOST_PRODUCTS = 1 << 22  # of whole numbers, to go from functions to kernels: half a second

_ZERO = 1e-12  # of rounding, against the largest entry


@dataclass(frozen=True, eq=False)
class Kernels:
    """As many kernels as functions; both stand in lexicographic order, the last column's fastest.

    Attributes:
        columns: the kernels of each column.
    """

    columns: tuple[ColumnKernels, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Kernels of each column, (t_1, ..., t_d)."""
        return tuple(len(column.to_kernels) for column in self.columns)

    @property
    def size(self) -> int:
        """How many kernels there are, R."""
        return math.prod(self.shape)

    @cached_property
    def squares(self) -> Floats:
        """Variance of each function's sum where the sums of kernels have independent noise of variance 1: float[R]."""
        found = np.ones(1)
        for column in self.columns:
            found = np.multiply.outer(found, (column.to_functions**2).sum(axis=1)).reshape(-1)
        return found

    def weights(self, coefficients: Floats) -> Floats:
        """What combinations of functions are in kernels: float[m, R] from float[m, R]."""
        return np.asarray(self.along(coefficients, lambda column: column.to_functions.T), dtype=np.float64)

    @cached_property
    def uncorrelated(self) -> bool:
        """Whether noise of functions is, where that of kernels is independent: of numbers, and of two values."""
        each = [column.to_functions @ column.to_functions.T for column in self.columns]
        return all(np.abs(found - np.diag(np.diag(found))).max() <= _ZERO * found.max() for found in each)

    def along(self, values: NDArray[Any], matrix: Callable[[ColumnKernels], NDArray[Any]]) -> NDArray[Any]:
        """Values, [m, R], with each column's index multiplied by its matrix, [t_i, t_i]; exact where these are."""
        found, left, right = np.asarray(values), len(values), self.size
        for column, count in zip(self.columns, self.shape, strict=True):
            right //= count
            found = np.matmul(matrix(column), found.reshape(left, count, right))
            left *= count
        return found.reshape(len(values), self.size)


@lru_cache(maxsize=64)
def kernels_of(axes: tuple[Axis, ...], size: int) -> Kernels | None:
    """The kernels of a basis of so many functions over these columns; none where it is not a full tensor, or large."""
    degrees = [axis.degree for axis in axes]
    if size != math.prod(degrees) or max(degrees) > MOST_NODES or size * sum(degrees) > MOST_PRODUCTS:
        return None
    return Kernels(tuple(_column(axis) for axis in axes))


def kernels_of_basis(basis: Basis) -> Kernels | None:
    """The kernels of a basis; none where it is not a full tensor, is large, or has a column that divides the rows."""
    return None if any(axis.partition for axis in basis.axes) else kernels_of(basis.axes, basis.size)


def _column(axis: Axis) -> ColumnKernels:
    return fejer_kernels(axis.degree) if axis.values is None else indicator_kernels(axis.degree)
