"""All columns of the linear program at once: products of functions of one axis each, on the whole tensor grid.

The program's matrix is W[r, k] = prod_i V_i[r_i, k_i], R rows by N_1 ... N_d columns, and is never formed::

    values    (y W)_k = sum_r y_r W_rk     one axis after the other, the last first
    moments   (W u)_r                      the same backwards, the first axis first
    gram      W diag(x) W'                 the moments of x under the products V_i[r] V_i[s] of every axis; these span
                                           few dimensions (2 t - 1 for polynomials of degree below t), so this too is
                                           a contraction

Cost of ``values`` and ``moments``: 2 t_1 N_1 ... N_d operations and lower terms. ``gram``: about twice that.
Memory: one float per grid point; ``values`` of more than ``SLAB`` points come in slabs along the first axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.errors import InternalError, NumericalError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
SLAB = 8_000_000  # points evaluated at once
CANDIDATES = 1_000_000  # points of a slab that are looked at as local maxima
MAX_POINTS = 1_000_000_000  # of a grid: pricing once takes some ten seconds
MAX_PRODUCTS = 4_000_000  # entries of the expanded tensor of ``gram``
_ULP = 2.0**-53  # relative rounding error of one operation on DOUBLEs
_RANK = 1e-13  # singular values below this share of the largest are rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class Priced:
    """Which grid points would improve the program, by their reduced costs.

    Attributes:
        largest: max_k (y W)_k over the whole grid.
        points: int[n, d], local maxima, the highest first.
    """

    largest: float
    points: Integers


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """The columns of the program.

    Attributes:
        axes: V_i, float[t_i, N_i] per axis: the functions of axis i (rows) at its N_i values; row 0 is all ones.
        indices: int[R, d], distinct; row r of W is the product of V_i[indices[r, i]]. indices[0] is 0: the mass.
    """

    axes: tuple[Floats, ...]
    indices: Integers

    def __post_init__(self) -> None:
        if self.indices.ndim != 2 or self.indices.shape[1] != len(self.axes) or self.indices[0].any():
            raise InternalError("the index set does not fit the axes")
        if any((v[0] != 1).any() for v in self.axes) or len(np.unique(self.places)) != len(self.indices):
            raise InternalError("the first function of an axis is not 1, or an index comes twice")
        if self.size > MAX_POINTS:
            raise NumericalError(
                "N101",
                f"a grid of {self.size} points is too large for a linear program.",
                status="too large",
                advice="Take fewer columns or a coarser grid.",
            )

    @property
    def rows(self) -> int:
        """How many functions there are, R: rows of the program."""
        return len(self.indices)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each column has, (N_1, ..., N_d)."""
        return tuple(v.shape[1] for v in self.axes)

    @property
    def size(self) -> int:
        """Number of points, the product of ``shape``."""
        return math.prod(self.shape)

    @property
    def degrees(self) -> tuple[int, ...]:
        """How many functions each column has, (t_1, ..., t_d)."""
        return tuple(len(v) for v in self.axes)

    @cached_property
    def places(self) -> Integers:
        """int[R]: where the functions lie in the tensor of all of them, C order."""
        return np.asarray(np.ravel_multi_index(tuple(self.indices.T), self.degrees), dtype=np.int64)

    @cached_property
    def largest(self) -> float:
        """A bound of |W[r, k]|."""
        return math.prod(float(np.max(np.abs(v))) for v in self.axes)

    def error(self, dual: Floats) -> float:
        """Bound of the rounding error of one entry of ``values(dual)``, whatever the order of summation.

        Proof sketch: an entry is a sum of products of one y_r and d numbers, formed by nested sums of t_i terms: each
        term passes through at most sum_i (t_i + 1) roundings, so it is off by a relative 1.01 ULP times as many.
        """
        roundings = sum(t + 1 for t in self.degrees)
        return 1.01 * roundings * _ULP * self.largest * float(np.sum(np.abs(dual)))

    def columns(self, points: Integers) -> Floats:
        """Columns of W at given points.

        Args:
            points: int[C, d], positions per axis.

        Returns:
            float[R, C].
        """
        found = np.ones((self.rows, len(points)))
        for i, values in enumerate(self.axes):
            found *= values[self.indices[:, i]][:, points[:, i]]
        return found

    def slabs(self, dual: Floats) -> Iterator[tuple[int, Floats]]:
        """Y W in parts along the first axis: (first position, float[n, N_2, ..., N_d])."""
        head: Any = np.zeros(math.prod(self.degrees))
        head[self.places] = dual
        for i in range(len(self.axes) - 1, 0, -1):
            rest = math.prod(self.shape[i + 1 :])
            head = head.reshape(-1, self.degrees[i], rest)
            head = head[:, :, 0] @ self.axes[i] if rest == 1 else np.matmul(self.axes[i].T, head)
        head = head.reshape(self.degrees[0], -1)
        step = max(1, SLAB // head.shape[1])
        for first in range(0, self.shape[0], step):
            part = np.ascontiguousarray(self.axes[0][:, first : first + step].T)
            yield first, (part @ head).reshape(-1, *self.shape[1:])

    def values(self, dual: Floats) -> Floats:
        """Y W at every point, float[N_1 ... N_d] in C order; for grids whose points fit into memory."""
        return np.concatenate([part.ravel() for _, part in self.slabs(dual)])

    def price(self, dual: Floats, above: float, most: int) -> Priced:
        """The largest entry of y W on the grid, and its highest local maxima.

        A point is a local maximum when none of its neighbours along an axis is higher, so that the points are well
        apart; at the border of two slabs only the neighbours within the slab count.

        Args:
            dual: y, float[R].
            above: only points with a larger entry are wanted.
            most: at most so many points.
        """
        largest = -np.inf
        points, heights = np.zeros((0, len(self.axes)), dtype=np.int64), np.zeros(0)
        for first, part in self.slabs(dual):
            largest = max(largest, float(part.max()))
            flat = np.flatnonzero(part.ravel() > above)
            if len(flat) > CANDIDATES:
                height = part.ravel()[flat]
                flat = flat[height >= np.partition(height, -CANDIDATES)[-CANDIDATES]]
            here = np.stack(np.unravel_index(flat, part.shape), axis=1)
            tops = here[_are_tops(part, here)]
            height = part[tuple(tops.T)]
            tops[:, 0] += first
            points, heights = np.concatenate([points, tops]), np.concatenate([heights, height])
            order = np.argsort(-heights, kind="stable")[:most]
            points, heights = points[order], heights[order]
        return Priced(largest=largest, points=points)

    def moments(self, weights: Floats) -> Floats:
        """W u: float[R], from float[N_1 ... N_d] in C order."""
        found = contract(self.axes, weights)
        return np.asarray(found.ravel()[self.places])

    def subgrid(self, positions: Sequence[Integers]) -> Grid:
        """The grid of some positions of each axis."""
        return Grid(axes=tuple(v[:, p] for v, p in zip(self.axes, positions, strict=True)), indices=self.indices)


def contract(matrices: Sequence[Floats], tensor: Floats) -> Floats:
    """Apply one matrix to every axis of a tensor.

    Args:
        matrices: float[m_i, N_i] per axis.
        tensor: N_1 ... N_d floats in C order.

    Returns:
        float[m_1, ..., m_d].
    """
    found, before = tensor, 1
    rest = tensor.size
    for matrix in matrices:
        rest //= matrix.shape[1]
        found = found.reshape(before, matrix.shape[1], rest)
        found = found[:, :, 0] @ matrix.T if rest == 1 else np.matmul(matrix, found)
        before *= len(matrix)
    return found.reshape([len(m) for m in matrices])


class TensorColumns:
    """All points of a grid as columns of a program, without the matrix."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self.size = grid.size
        split = [_products(v) for v in grid.axes]
        self._spans = [span for span, _ in split]
        self._expansions = [expansion for _, expansion in split]
        place = np.zeros((grid.rows, grid.rows), dtype=np.int64)
        for i, t in enumerate(grid.degrees):
            low = np.minimum.outer(grid.indices[:, i], grid.indices[:, i])
            high = np.maximum.outer(grid.indices[:, i], grid.indices[:, i])
            place = place * (t * (t + 1) // 2) + high * (high + 1) // 2 + low
        self._place = place

    @staticmethod
    def fits(grid: Grid) -> bool:
        """Whether ``gram`` is cheap: the products of each axis, and their tensor, stay few."""
        pairs = [t * (t + 1) // 2 for t in grid.degrees]
        tables = [p * n for p, n in zip(pairs, grid.shape, strict=True)]
        return math.prod(pairs) <= MAX_PRODUCTS and max(tables) <= MAX_PRODUCTS

    def values(self, dual: Floats) -> Floats:
        """The dual's value at each column of the program, y W, float[C]."""
        return self._grid.values(dual)

    def moments(self, weights: Floats) -> Floats:
        """The moments of weights on the columns, W u, float[R]."""
        return self._grid.moments(weights)

    def gram(self, diagonal: Floats) -> Floats:
        """W diag(x) W', float[R, R]."""
        reduced = contract(self._spans, diagonal)
        return np.asarray(contract(self._expansions, reduced).ravel()[self._place])


class ListedColumns:
    """A list of columns: a matrix float[R, C]."""

    def __init__(self, matrix: Floats) -> None:
        self._matrix = np.ascontiguousarray(matrix)
        self.size = matrix.shape[1]

    def values(self, dual: Floats) -> Floats:
        """The dual's value at each column of the program, y W, float[C]."""
        return dual @ self._matrix

    def moments(self, weights: Floats) -> Floats:
        """The moments of weights on the columns, W u, float[R]."""
        return self._matrix @ weights

    def gram(self, diagonal: Floats) -> Floats:
        """W diag(x) W', float[R, R]."""
        scaled = self._matrix * np.sqrt(diagonal)
        return scaled @ scaled.T


class JoinedColumns:
    """Two sets of columns side by side."""

    def __init__(self, first: TensorColumns | ListedColumns, second: ListedColumns) -> None:
        self._first, self._second = first, second
        self.size = first.size + second.size

    def values(self, dual: Floats) -> Floats:
        """The dual's value at each column of the program, y W, float[C]."""
        return np.concatenate([self._first.values(dual), self._second.values(dual)])

    def moments(self, weights: Floats) -> Floats:
        """The moments of weights on the columns, W u, float[R]."""
        split = self._first.size
        return self._first.moments(weights[:split]) + self._second.moments(weights[split:])

    def gram(self, diagonal: Floats) -> Floats:
        """W diag(x) W', float[R, R]."""
        split = self._first.size
        return self._first.gram(diagonal[:split]) + self._second.gram(diagonal[split:])


def _are_tops(values: Floats, points: Integers) -> NDArray[np.bool_]:
    """Whether no neighbour along an axis is higher: bool[n] for int[n, d]."""
    own = values[tuple(points.T)]
    found = np.ones(len(points), dtype=np.bool_)
    for i, count in enumerate(values.shape):
        for by in (-1, 1):
            beside = points.copy()
            beside[:, i] = np.clip(points[:, i] + by, 0, count - 1)
            found &= own >= values[tuple(beside.T)]
    return found


def _products(values: Floats) -> tuple[Floats, Floats]:
    """Split the products V[r] V[s], s <= r, into float[q, N] (orthonormal rows that span them) and float[pairs, q]."""
    high, low = np.tril_indices(len(values))
    products = values[high] * values[low]
    _, sizes, span = np.linalg.svd(products, full_matrices=False)
    span = span[sizes > _RANK * sizes[0]]
    return np.ascontiguousarray(span), products @ span.T
