"""Moments of rows u in [-1, 1]^d that a wide table may buy: values, derivatives and SQL, from one description.

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

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """A vector of moments.

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
        """Columns of the products."""
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
        """Values of every row: float[n, R] in [-1, 1]."""
        s = np.einsum("ij,ij->i", u, u)
        z = np.clip((s - self.centre) / self.width, -1, 1)
        blocks = [(2 * s / self.dimensions - 1)[:, None]] if self.size else []
        if self.degree:
            blocks.append(chebyshev(z, self.degree))
        blocks.extend(u[:, self.chosen] * self._factor(f, u, z)[:, None] for f in self.factors)
        blocks.extend((self._factor(f, u, z) * self._factor(g, u, z))[:, None] for f, g in self.crosses)
        if self.pairs:
            blocks.append(u[:, self.upper[0]] * u[:, self.upper[1]])
        return np.asarray(np.clip(np.concatenate(blocks, axis=1), -1, 1))

    def means(self, u: Floats) -> Floats:
        """Averages over rows: float[R]."""
        n, s = len(u), np.einsum("ij,ij->i", u, u)
        z = np.clip((s - self.centre) / self.width, -1, 1)
        blocks = [np.atleast_1d(np.mean(2 * s / self.dimensions - 1))] if self.size else []
        if self.degree:
            blocks.append(chebyshev(z, self.degree).mean(axis=0))
        blocks.extend((self._factor(f, u, z) @ u / n)[self.chosen] for f in self.factors)
        blocks.extend(np.atleast_1d(self._factor(f, u, z) @ self._factor(g, u, z) / n) for f, g in self.crosses)
        if self.pairs:
            blocks.append((u.T @ u)[self.upper] / n)
        return np.concatenate(blocks)

    def adjoint(self, u: Floats, weights: Floats) -> Floats:
        """Gradient of sum_r weights_r phi_r(u) in every row: float[n, d]."""
        d, at = self.dimensions, 0
        s = np.einsum("ij,ij->i", u, u)
        inner = (np.abs(s - self.centre) < self.width) / self.width
        z = np.clip((s - self.centre) / self.width, -1, 1)
        gradient, by_z = np.zeros_like(u), np.zeros(len(u))
        if self.size:
            gradient += 4 * u * weights[0] / d
            at = 1
        if self.degree:
            by_z += chebyshev_slope(z, self.degree) @ weights[at : at + self.degree]
            at += self.degree
        for factor in self.factors:
            part = np.zeros(d)
            part[self.chosen] = weights[at : at + len(self.chosen)]
            at += len(self.chosen)
            gradient += self._factor(factor, u, z)[:, None] * part
            by_z += self._add_slope(gradient, factor, u, u @ part)
        for first, second in self.crosses:
            by_z += self._add_slope(gradient, first, u, weights[at] * self._factor(second, u, z))
            by_z += self._add_slope(gradient, second, u, weights[at] * self._factor(first, u, z))
            at += 1
        gradient += 2 * u * (by_z * inner)[:, None]
        if self.pairs:
            square = np.zeros((d, d))
            square[self.upper] = weights[at:]
            gradient += u @ (square + square.T)
        return gradient

    def _add_slope(self, gradient: Floats, factor: Factor, u: Floats, times: Floats) -> Floats:
        """Add times * (gradient of a factor), but for z: what is to be added to the weight of z, float[n]."""
        if factor.radial:
            return times
        if factor.weights is not None:
            raw = (u @ factor.weights - factor.offset) / factor.width
            gradient += (times * (np.abs(raw) < 1) / factor.width)[:, None] * factor.weights
        return np.zeros(len(u))

    def outside(self, u: Floats) -> Floats:
        """How far |u|^2 lies beyond the window of z, in widths: float[n], 0 inside; its square is a penalty."""
        s = np.einsum("ij,ij->i", u, u)
        off = (s - self.centre) / self.width
        return np.asarray(np.sign(off) * np.maximum(np.abs(off) - 1, 0))

    def _factor(self, factor: Factor, u: Floats, z: Floats) -> Floats:
        if factor.radial:
            return z
        if factor.weights is None:
            return np.ones(len(u))
        return np.clip((u @ factor.weights - factor.offset) / factor.width, -1, 1)

    def print_sql(self, relation: str, columns: Sequence[str], bits: int) -> str:
        """One SELECT that gives R integers: sums of floor(2^bits phi + 1/2), each phi clamped to [-1, 1] after it.

        The clamp comes last, so a row adds at most 2^bits in absolute value whatever floating point did before it:
        the sensitivities in ``release`` need nothing else. No row: zeros. HUGEINT sums are exact in any order.

        Args:
            relation: a quoted relation or subquery with unit columns: doubles in [-1, 1], never NULL.
            columns: d quoted identifiers.
            bits: fixed-point bits, at most 40.
        """
        if len(columns) != self.dimensions:
            raise ValueError("one identifier per dimension")
        scan = f"(SELECT s.*, {print_square(columns)} AS dp_s FROM {relation} AS s)"
        z = _clamp(f"(s.dp_s - {_number(self.centre)}) / {_number(self.width)}")
        parts = [f"{z} AS dp_z"]
        for k, factor in enumerate(self._listed):
            if factor.weights is not None:
                terms = zip(factor.weights, columns, strict=True)
                dot = " + ".join(f"{_number(w)} * s.{c}" for w, c in terms if w) or "CAST(0 AS DOUBLE)"
                parts.append(f"{_clamp(f'({dot} - {_number(factor.offset)}) / {_number(factor.width)}')} AS dp_g{k}")
        sql = f"(SELECT s.*, {', '.join(parts)} FROM {scan} AS s)"
        sums = ", ".join(clamped_sum(e, bits) for e in self._expressions(columns))
        return f"SELECT {sums} FROM {sql} AS s"

    @property
    def _listed(self) -> tuple[Factor, ...]:
        """Factors of the products, then those of the crosses, two by two."""
        return (*self.factors, *(f for pair in self.crosses for f in pair))

    def _expressions(self, columns: Sequence[str]) -> list[str]:
        found = [f"{_number(2 / self.dimensions)} * s.dp_s - {_number(1)}"] if self.size else []
        found.extend(_print_chebyshev(k) for k in range(1, self.degree + 1))
        values = [
            "s.dp_z" if f.radial else "" if f.weights is None else f"s.dp_g{k}" for k, f in enumerate(self._listed)
        ]
        for value in values[: len(self.factors)]:
            found.extend(f"s.{columns[i]}{value and ' * ' + value}" for i in self.chosen)
        crossed = zip(values[len(self.factors) :: 2], values[len(self.factors) + 1 :: 2], strict=True)
        found.extend(" * ".join(filter(None, pair)) or _number(1) for pair in crossed)
        if self.pairs:
            found.extend(f"s.{columns[i]} * s.{columns[j]}" for i, j in zip(*self.upper, strict=True))
        return found


def chebyshev(z: Floats, degree: int) -> Floats:
    """T_1 .. T_K: float[n, K]."""
    return np.asarray(np.polynomial.chebyshev.chebvander(z, degree)[:, 1:], dtype=np.float64)


def chebyshev_slope(z: Floats, degree: int) -> Floats:
    """T_1' .. T_K', T_k' = k U_(k-1): float[n, K]."""
    u = [np.ones_like(z), 2 * z]
    for _ in range(2, degree):
        u.append(2 * z * u[-1] - u[-2])
    return np.stack([(k + 1) * u[k] for k in range(degree)], axis=1)


def label_factor(column: int, mean: float, dimensions: int) -> Factor:
    """(y - mean) / (1 + |mean|) for the label column, mean in [-1, 1]."""
    weights = np.zeros(dimensions)
    weights[column] = 1.0
    return Factor(weights=weights, offset=mean, width=1 + abs(mean))


def print_square(columns: Sequence[str]) -> str:
    """SQL of |u|^2 over a row ``s``."""
    return " + ".join(f"s.{c} * s.{c}" for c in columns)


def _print_chebyshev(degree: int) -> str:
    coefficients = np.polynomial.chebyshev.cheb2poly(np.eye(degree + 1)[degree])
    text = _number(coefficients[-1])
    for c in coefficients[-2::-1]:
        text = f"({text} * s.dp_z + {_number(c)})"
    return text


def _number(value: float) -> str:
    return f"CAST({float(value)!r} AS DOUBLE)"


def _clamp(text: str) -> str:
    """To [-1, 1]; NaN compares false twice in this order and lands on 1."""
    return (
        f"CASE WHEN {text} <= CAST(-1 AS DOUBLE) THEN CAST(-1 AS DOUBLE) "
        f"WHEN {text} < CAST(1 AS DOUBLE) THEN {text} ELSE CAST(1 AS DOUBLE) END"
    )


def clamped_sum(text: str, bits: int) -> str:
    """The integer sum of a function that is clamped to [-1, 1] last."""
    scaled = f"{_clamp(f'({text})')} * {_number(2.0**bits)} + {_number(0.5)}"
    return f"coalesce(system.main.sum(CAST(system.main.floor({scaled}) AS HUGEINT)), 0)"
