"""Moments of rows u in [-1, 1]^d that a wide table may buy: values and derivatives, from one description.

``unit.buy.sums_sql`` prints them for private rows.

With s = |u|^2 and z = clamp((s - centre) / width), a :class:`Features` is a list of functions with values in [-1, 1]::

    size       2 s / d - 1                                  1       where the rows lie on average
    radial     T_1(z) .. T_K(z)                             K       the law of |u|^2
    products   u_i g(u) for chosen i and one factor g       d each  g = 1, z, the label, or a direction
    crosses    g(u) h(u) of two factors                     1 each
    pairs      u_i u_j, i <= j, or some of them             d (d+1) / 2

A Gaussian kernel exp(-|u - c|^2 / 2 sigma^2) sees a row through s and c.u only, which is why the law of s and its link
with each u_i are worth more than any other second moment.

The factor of a label y is (y - mean) / (1 + |mean|), that of a direction v is clamp((u - origin).v / width): both in
[-1, 1], with public constants that earlier releases gave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Reals = TypeVar("Reals", Floats, Singles)
_ONE_THREAD = 600_000  # multiplications of a matrix product that BLAS leaves to one thread
_ONE_THREAD_VECTOR = 9_000  # the same of a product of a matrix and a vector
_LEAST_BLOCK = 32  # rows of a block; where fewer would do, there are no blocks
_NO_BLOCKS = 2**40  # rows: more than any product has


@dataclass(frozen=True, kw_only=True, eq=False)
class Factor:
    """g(u) of a product moment: clamp((u . weights - offset) / width), or 1 when ``weights`` is None, or z.

    Attributes:
        weights: float[d], or None.
        offset, width: public constants; width > 0.
        radial: g is z; the others are not used.
    """

    weights: Floats | None = None
    offset: float = 0.0
    width: float = 1.0
    radial: bool = False


ONE = Factor()
RADIAL = Factor(radial=True)


class Moments(Protocol):
    """Functions of a row with values in [-1, 1], clamped last: what a stage buys the sums of."""

    @property
    def count(self) -> int:
        """R, how many there are."""

    def rows(self, u: Floats) -> Floats:
        """Their values at rows in memory, float[n, R]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """Functions of a row whose means are bought: a vector of moments.

    Attributes:
        dimensions: d.
        centre, width: of z; width > 0.
        size: whether 2 s / d - 1 is one of them.
        degree: K of the radial moments, 0 for none.
        factors: one block of products each.
        columns: the columns i of the products u_i g(u); None for all.
        crosses: products of two factors.
        pairs: whether all u_i u_j are.
        some: the index pairs, if not all.
    """

    dimensions: int
    centre: float = 0.0
    width: float = 1.0
    size: bool = False
    degree: int = 0
    factors: tuple[Factor, ...] = ()
    columns: tuple[int, ...] | None = None
    crosses: tuple[tuple[Factor, Factor], ...] = ()
    pairs: bool = False
    some: tuple[tuple[int, int], ...] | None = None

    @cached_property
    def chosen(self) -> NDArray[np.intp]:
        """The unit columns that the products are of."""
        return np.arange(self.dimensions) if self.columns is None else np.array(self.columns, dtype=np.intp)

    @cached_property
    def upper(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Index pairs i <= j, in the order of the pair moments."""
        if self.some is not None:
            given = np.array(self.some, dtype=np.intp).reshape(-1, 2)
            return given[:, 0], given[:, 1]
        i, j = np.triu_indices(self.dimensions)
        return i, j

    @property
    def count(self) -> int:
        """R, the number of moments."""
        pairs = len(self.upper[0]) if self.pairs else 0
        return int(self.size) + self.degree + len(self.chosen) * len(self.factors) + len(self.crosses) + pairs

    def rows(self, u: Floats) -> Floats:
        """Values of every row: float[n, R] in [-1, 1], each a function of its own row alone to the last bit.

        So sums of them over real rows change by what a row adds, wherever it stands among the others.
        """
        found, at = np.empty((len(u), self.count)), 0

        def add(values: Floats) -> None:
            nonlocal at
            np.clip(values, -1, 1, out=found[:, at : at + values.shape[1]])
            at += values.shape[1]

        s = in_order(u, list(u.T))
        z = np.clip((s - self.centre) / self.width, -1, 1)
        if self.size:
            add((2 * s / self.dimensions - 1)[:, None])
        if self.degree:
            add(chebyshev(z, self.degree))
        for f in self.factors:
            add(u[:, self.chosen] * self.factor(f, u, z, alone=True)[:, None])
        for f, g in self.crosses:
            add((self.factor(f, u, z, alone=True) * self.factor(g, u, z, alone=True))[:, None])
        if self.pairs and self.some is None:
            for i in range(self.dimensions):  # slices: picking single columns takes twice as long
                add(u[:, i : i + 1] * u[:, i:])
        elif self.pairs:
            add(u[:, self.upper[0]] * u[:, self.upper[1]])
        return found

    def means(self, u: Floats) -> Floats:
        """Averages over rows: float[R]."""
        n, s = len(u), np.einsum("ij,ij->i", u, u)
        z = np.clip((s - self.centre) / self.width, -1, 1)
        blocks = [np.atleast_1d(np.mean(2 * s / self.dimensions - 1))] if self.size else []
        if self.degree:
            blocks.append(chebyshev(z, self.degree).mean(axis=0))
        if self.factors:
            values = np.stack([self.factor(f, u, z) for f in self.factors], axis=1)
            blocks.append((inner(values, u) / n)[:, self.chosen].ravel())
        blocks.extend(np.atleast_1d(self.factor(f, u, z) @ self.factor(g, u, z) / n) for f, g in self.crosses)
        if self.pairs:
            blocks.append(inner(u, u)[self.upper] / n)
        return np.concatenate(blocks)

    def outside(self, u: Floats) -> Floats:
        """How far |u|^2 lies beyond the window of z, in widths: float[n], 0 inside; its square is a penalty."""
        s = np.einsum("ij,ij->i", u, u)
        off = (s - self.centre) / self.width
        return np.asarray(np.sign(off) * np.maximum(np.abs(off) - 1, 0))

    def factor(self, factor: Factor, u: Floats, z: Floats, *, alone: bool = False) -> Floats:
        """g(u) of every row, float[n]; ``alone``: to the last bit by that row alone, as real rows need it."""
        if factor.radial:
            return z
        if factor.weights is None:
            return np.ones(len(u))
        along = in_order(u, factor.weights.tolist()) if alone else u @ factor.weights
        return np.clip((along - factor.offset) / factor.width, -1, 1)


def in_order(u: Floats, weights: Sequence[Floats | float]) -> Floats:
    """The sum of columns times weights, added from the first to the last: float[n].

    A matrix product rounds a row's sum by where the row stands in its block, so it would move when another row leaves.
    """
    total = u[:, 0] * weights[0]
    for j in range(1, u.shape[1]):
        total = total + u[:, j] * weights[j]
    return np.asarray(total)


def chebyshev(z: Floats, degree: int) -> Floats:
    """T_1 .. T_K: float[n, K]."""
    return np.asarray(np.polynomial.chebyshev.chebvander(z, degree)[:, 1:], dtype=np.float64)


def chebyshev_slope(z: Floats, degree: int) -> Floats:
    """T_1' .. T_K', T_k' = k U_(k-1): float[n, K]."""
    u = [np.ones_like(z), 2 * z]
    for _ in range(2, degree):
        u.append(2 * z * u[-1] - u[-2])
    return np.stack([(k + 1) * u[k] for k in range(degree)], axis=1)


def inner(first: Reals, second: Reals) -> Reals:
    """Product of the first's transpose, float[n, p], and float[n, q], in blocks of rows: see :func:`block`."""
    n, size = len(first), block(first.shape[1], second.shape[1])
    whole, second = n - n % size, second.copy() if second is first else second  # its square would take threads
    found = first[whole:].T @ second[whole:]
    if whole:
        left = first[:whole].reshape(whole // size, size, first.shape[1]).transpose(0, 2, 1)
        found += (left @ second[:whole].reshape(whole // size, size, second.shape[1])).sum(axis=0)
    return found


def outer(rows: Reals, matrix: Reals) -> Reals:
    """Product of float[n, p] and float[p, q], in blocks of rows: see :func:`block`."""
    n, (p, q), size = len(rows), matrix.shape, block(*matrix.shape)
    whole, found = n - n % size, np.empty((n, q), dtype=rows.dtype)
    matrix = np.ascontiguousarray(matrix)  # transposed, it would take threads all the same
    np.matmul(rows[:whole].reshape(whole // size, size, p), matrix, out=found[:whole].reshape(whole // size, size, q))
    np.matmul(rows[whole:], matrix, out=found[whole:])
    return found


def block(p: int, q: int) -> int:
    """Rows of a block of a product of p and q columns that BLAS computes on one thread; no blocks for large p and q.

    On two cores threads hardly help with matrices as small as these, and one that waits for a busy core costs a hundred
    times what it saves.
    """
    rows = (_ONE_THREAD if min(p, q) > 1 else _ONE_THREAD_VECTOR) // max(1, p * q)
    return rows if rows >= _LEAST_BLOCK else _NO_BLOCKS


def label_factor(column: int, mean: float, dimensions: int) -> Factor:
    """(y - mean) / (1 + |mean|) for the label column, mean in [-1, 1]."""
    weights = np.zeros(dimensions)
    weights[column] = 1.0
    return Factor(weights=weights, offset=mean, width=1 + abs(mean))
