"""Coefficients by the generalized Jackson kernel, with sparse-grid quadrature.

H(s) = (sin(t' s/2) / sin(s/2))^(2r) / lambda, r = ceil((K+3)/2), t' = floor(n/r) + 1, integrates to 1 and has degree
r (t'-1) <= n, n = t - 1 the largest degree of the basis. The operator, per variable of the even function
g(theta) = f(cos theta)::

    I g(x) = -int H(s) sum_(l=1)^(K+1) (-1)^l C(K+1, l) g(x + l s) ds

Formula: if g = sum_m g_m cos(m theta), then I g = sum_m g_m L_m cos(m theta) with
         L_m = -sum_(l=1)^(K+1) (-1)^l C(K+1, l) h_(lm), h_j = int H(s) cos(j s) ds (0 beyond n; L_0 = 1).
         So a coefficient is an integral of f times a number known beforehand ([J] Fact 9 with l_i = k_i n_i).
Error:   g - I g = (-1)^K int H(s) Delta_s^(K+1) g ds up to sign, and |Delta_s^(K+1) g| <= 2 |s|^K max|g^(K)|, so one
         variable errs by at most 2 max|g^(K)| int H |s|^K (the tests compare), which is O(n^-K); K bounded derivatives
         do not give n^-(K+1), as [J] Theorem 8 prints.
Source:  [J] sections 3.3.1 to 3.3.4. Its quadrature is not usable as printed: nodes are zeros, weights belong to
         extrema, 2^k points are not nested. Here: nested Clenshaw-Curtis, m(1) = 1, m(k) = 2^(k-1)+1, in the angles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from duckdp.compiler.expression import Expr
from duckdp.errors import NumericalError
from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.fit.interpolation import rule_for
from duckdp.smooth.fit.points import Points, evaluate

DEFAULT_SMOOTHNESS = 4  # derivatives, where nothing else is asked
MAX_POINTS = 100_000  # of all sparse grids together
MAX_LEVEL = 14  # of a sparse grid: 2^14 points in one column
ENOUGH = 1e-10  # change of the coefficients from level to level, of f's largest value


def coefficients(function: Expr, axes: Sequence[Axis], smoothness: int) -> Floats:
    """Coefficients of I f over the full tensor set: float[t_1, ..., t_k].

    Columns of few values are interpolated: they have no angle to smooth over.

    Args:
        function: a number over the columns.
        axes: the columns.
        smoothness: K.

    Raises:
        NumericalError: N102, f is not finite on a node, or reads too many columns for the quadrature.
    """
    found: Floats | None = None
    for level in range(1, MAX_LEVEL + 1):
        grids = list(_grids(axes, level))
        if sum(math.prod(len(x) for x, _ in grid) for _, grid in grids) > MAX_POINTS:
            break
        now, scale = _integrate(function, axes, grids)
        resolved = level > math.log2(4 * max((a.degree for a in axes if a.values is None), default=1)) + 1
        if found is not None and resolved and float(np.max(np.abs(now - found))) <= ENOUGH * scale:
            return _smoothed(now, axes, smoothness)
        found = now
        if all(axis.values is not None for axis in axes):
            break
    if found is None:
        raise NumericalError(
            "N102",
            "the function reads too many columns for the Jackson kernel's quadrature.",
            status="too many nodes",
            advice="Take method 'interpolation'.",
        )
    return _smoothed(found, axes, smoothness)


@lru_cache(maxsize=256)
def multipliers(t: int, smoothness: int) -> Floats:
    """The factors of the terms of a series, L_0 ... L_(t-1), float[t]."""
    kernel = _kernel(t - 1, smoothness)
    order = smoothness + 1
    found = np.zeros(t)
    for m in range(t):
        for i in range(1, order + 1):
            if i * m < len(kernel):
                found[m] -= (-1) ** i * math.comb(order, i) * kernel[i * m]
    return found


def _kernel_sizes(n: int, smoothness: int) -> tuple[int, int]:
    r = math.ceil((smoothness + 3) / 2)
    return r, n // r + 1


def _kernel(n: int, smoothness: int) -> Floats:
    """h_0 = 1, ..., h_n: the cosine coefficients of H, by convolving the box of t' ones 2r times."""
    r, length = _kernel_sizes(n, smoothness)
    box, found = np.ones(length), np.ones(1)
    for _ in range(2 * r):
        found = np.convolve(found, box)
    middle = len(found) // 2
    half = found[middle:] / found[middle]
    return np.concatenate([half, np.zeros(n + 1 - len(half))])


def _smoothed(tensor: Floats, axes: Sequence[Axis], smoothness: int) -> Floats:
    for i, axis in enumerate(axes):
        if axis.values is None:
            shape = [1] * tensor.ndim
            shape[i] = axis.degree
            tensor = tensor * multipliers(axis.degree, smoothness).reshape(shape)
    return tensor


def _integrate(
    function: Expr, axes: Sequence[Axis], grids: list[tuple[int, list[tuple[Floats, Floats]]]]
) -> tuple[Floats, float]:
    """(Chebyshev coefficients of f by the combination of the grids, largest |f| found)."""
    flat = [np.meshgrid(*(x for x, _ in grid), indexing="ij") for _, grid in grids]
    joined = [np.concatenate([f[i].ravel() for f in flat]) for i in range(len(axes))]
    values = evaluate(function, Points(tuple(axes), tuple(joined)))
    total = np.zeros(tuple(axis.degree for axis in axes))
    start = 0
    for sign, grid in grids:
        shape = tuple(len(x) for x, _ in grid)
        here = values[start : start + math.prod(shape)].reshape(shape)
        start += math.prod(shape)
        for _, matrix in grid:  # contract the first axis, append the new one at the end
            here = np.tensordot(here, matrix, axes=(0, 1))
        total += sign * here
    return total, float(np.max(np.abs(values)))


def _grids(axes: Sequence[Axis], level: int) -> Iterator[tuple[int, list[tuple[Floats, Floats]]]]:
    """The sparse grid as signed tensor grids: (-1)^j C(d-1, j) Q_k1 ... Q_kd for |k| = level + d - 1 - j, 0 <= j < d.

    Each grid is given per column as (places, matrix from values to coefficients).
    """
    free = [i for i, axis in enumerate(axes) if axis.values is None]
    d = len(free)
    rules = {i: [_quadrature(axes[i], k) for k in range(1, level + 1)] for i in free}
    for below in range(min(d, level) if d else 1):
        weight = (-1) ** below * math.comb(max(d - 1, 0), below)
        for ks in _compositions(level + d - 1 - below, d):
            chosen = dict(zip(free, ks, strict=True))
            yield (
                weight,
                [
                    rules[i][chosen[i] - 1] if i in chosen else (rule_for(axis).x, rule_for(axis).matrix)
                    for i, axis in enumerate(axes)
                ],
            )


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write total as a sum of positive parts."""
    if parts <= 1:
        yield (total,) if parts else ()
        return
    for first in range(1, total - parts + 2):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


@lru_cache(maxsize=256)
def _quadrature(axis: Axis, k: int) -> tuple[Floats, Floats]:
    """Places and matrix of (1 or 2)/pi int_0^pi f(cos a) cos(m a) da by Clenshaw-Curtis of level k in a, m < t."""
    s, weights = clenshaw_curtis(k)
    angles = np.pi * (1 + s) / 2
    matrix = np.cos(np.arange(axis.degree)[:, None] * angles) * weights
    matrix[0] /= 2
    return axis.from_unit(np.cos(angles)), matrix


@lru_cache(maxsize=64)
def clenshaw_curtis(k: int) -> tuple[Floats, Floats]:
    """Nested nodes and weights on [-1, 1]: the midpoint, then 2^(k-1) + 1 extrema; weights add up to 2."""
    if k == 1:
        return np.zeros(1), np.full(1, 2.0)
    n = 2 ** (k - 1)
    around = np.fft.irfft(2 / (1 - 4.0 * np.arange(n // 2 + 1) ** 2), n)  # the integrals of cos(2 j a) sin a
    weights = np.append(around, around[0])
    weights[[0, -1]] /= 2
    return np.asarray(-np.cos(np.arange(n + 1) * (np.pi / n))), np.asarray(weights, dtype=np.float64)
