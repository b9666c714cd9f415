"""Least squares for functions that read too many columns for a grid.

f and the functions of low total degree are evaluated at points that follow the arcsine law (the zeros' density, of the
values of a listed column the weights of its transform), where the basis is orthogonal; so the normal equations are well
conditioned and conjugate gradients solve them in a few steps. The points are a Kronecker sequence, fixed once and for
all: answers do not vary.

The error is the largest residual on other points and on corners, times SAFETY, plus how far f's interval bound lies
beyond all the values seen: no grid of a size that can be evaluated is dense in many dimensions, so what f can be and
was not seen to be counts as missed. It is an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.sparse.linalg import lsqr

from duckdp.compiler.expression import Expr
from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.basis import chebyshev
from duckdp.smooth.fit.boxes import span_width
from duckdp.smooth.fit.parts import Part
from duckdp.smooth.fit.points import Points, evaluate

MAX_FITTED = 1500  # functions, those of the lowest total degree
PER_FUNCTION = 4  # points
CHECKED = 20_000  # random points at which residuals are taken
SAFETY = 1.5  # factor on the largest residual, since the largest error may lie between the points
_STEPS = 60  # iterations of LSQR


def fit(function: Expr, part: Part) -> tuple[Floats, float]:
    """(coefficients float[S], estimated error) of a term.

    Raises:
        NumericalError: N102, f is not finite somewhere.
    """
    level = part.indices.astype(np.int64).sum(axis=1)
    order = np.argsort(level, kind="stable")[:MAX_FITTED]
    if len(level) > MAX_FITTED:  # whole levels only
        order = order[level[order] < level[order[-1]]] if level[order[-1]] > 1 else order
    points = arcsine_points(part.axes, max(2000, PER_FUNCTION * len(order)), first=1)
    values = evaluate(function, points)
    chosen = part.indices[order]
    scale = np.sqrt(2.0) ** np.count_nonzero(chosen, axis=1)  # orthonormal where the law is continuous
    found = lsqr(_matrix(part.axes, points, chosen) * scale, values, atol=1e-12, btol=1e-12, iter_lim=_STEPS)[0] * scale
    kept = np.zeros(len(part.rows))
    kept[order] = found
    largest, least, most = _largest_residual(function, part.axes, chosen, found)
    seen = min(least, float(values.min())), max(most, float(values.max()))
    return kept, SAFETY * largest + span_width(function, seen)


def arcsine_points(axes: Sequence[Axis], n: int, *, first: int) -> Points:
    """Points of low discrepancy for the arcsine law: fractional parts of multiples of roots of x^(k+1) = x + 1."""
    k = len(axes)
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (k + 1))
    steps = root ** -(np.arange(k) + 1.0)
    angles = np.pi * ((0.5 + (np.arange(first, first + n)[:, None]) * steps) % 1)
    return Points(tuple(axes), tuple(_places(axis, angles[:, i]) for i, axis in enumerate(axes)))


def _places(axis: Axis, angles: Floats) -> Floats:
    if axis.values is not None:  # position j has weight 1, the two ends 1/2
        return np.rint(angles / np.pi * (len(axis.values) - 1))
    return axis.from_unit(np.cos(angles))


def _matrix(axes: Sequence[Axis], points: Points, indices: np.ndarray[tuple[int, int], np.dtype[np.int16]]) -> Floats:
    values = np.ones((len(points.x[0]), len(indices)))
    for i, axis in enumerate(axes):
        values *= chebyshev(axis.to_unit(points.x[i]), axis.degree)[:, indices[:, i]]
    return values


def _largest_residual(
    function: Expr, axes: Sequence[Axis], indices: np.ndarray[tuple[int, int], np.dtype[np.int16]], found: Floats
) -> tuple[float, float, float]:
    """(largest residual, least value, largest value) of f."""
    largest, least, most = 0.0, math.inf, -math.inf
    for start in range(0, CHECKED, 2000):
        points = arcsine_points(axes, 2000, first=10**6 + start)
        if start % 4000 == 0:  # every second time pushed to the ends of the columns
            points = Points(points.axes, tuple(_pushed(a, x) for a, x in zip(axes, points.x, strict=True)))
        values = evaluate(function, points)
        least, most = min(least, float(values.min())), max(most, float(values.max()))
        largest = max(largest, float(np.max(np.abs(values - _matrix(axes, points, indices) @ found))))
    return largest if math.isfinite(largest) else math.inf, least, most


def _pushed(axis: Axis, x: Floats) -> Floats:
    """Three quarters of the points to the nearer end."""
    low, high = (0.0, len(axis.values) - 1.0) if axis.values is not None else (axis.lower, axis.upper)
    ends = np.where(x * 2 < low + high, low, high)
    return np.where(np.modf(np.abs(np.sin(x * 1e3 + np.arange(len(x)))) * 97)[0] < 0.75, ends, x)
