"""Interpolation of one function of few columns, and the error looked at on a finer grid.

Per column: places x where f is evaluated and the matrix from values there to coefficients of T_0 .. T_(t-1)::

    numbers            the zeros of T_t; the matrix is the discrete cosine transform, (2/t) cos(r a_j)
    values             all of them; the transform on the extrema of T_(k-1), exact for every function
    dates, timestamps  the zeros of T_(4t) rounded to whole days (microseconds): least squares at the rounded places

Source: [J] Algorithm 2, step 3, with Chebyshev interpolation in place of the generalized Jackson kernel of its section
        3.3 (for which see ``jackson``): on the zeros of T_t, t equal weights in the angle integrate products of two
        degrees below t exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from duckdp.catalog.table import Kind
from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.basis import ULP, chebyshev

ROUNDED = 4  # zeros per degree, for dates: where rounding lets some of them coincide, enough are left
_CUTOFF = 1e-5  # singular values left out: a column of few days has polynomials that vanish on all of them
_NEAR = 1e-9  # of a column's range: how close to a jump it is looked at
MAX_KEPT = 256  # degree of a rule that is kept: a matrix of t x t
MAX_LISTED = 40_000  # values of a whole-number or date column that are all looked at


@dataclass(frozen=True, eq=False)
class Rule:
    """How a function of one column is interpolated.

    Attributes:
        x: float[m], places (numbers, or positions in the column's values).
        matrix: float[t, m], values to coefficients.
        lebesgue: largest sum of |weights| at a place the column can be at: bounds |p| by the values' largest.
    """

    x: Floats
    matrix: Floats
    lebesgue: float


def rule_for(axis: Axis) -> Rule:
    """The rule of a column; kept for degrees of up to 256."""
    return _kept_rule(axis) if axis.degree <= MAX_KEPT else _make_rule(axis)


@lru_cache(maxsize=128)
def _kept_rule(axis: Axis) -> Rule:
    return _make_rule(axis)


def _make_rule(axis: Axis) -> Rule:
    t = axis.degree
    if axis.values is not None:
        return Rule(np.arange(t, dtype=np.float64), _extrema_matrix(t), 1.0)
    if axis.kind is Kind.NUMBER:
        angles = (np.arange(t) + 0.5) * (np.pi / t)
        matrix = np.cos(np.arange(t)[:, None] * angles) * (2 / t)
        matrix[0] /= 2
        return Rule(axis.from_unit(np.cos(angles)), matrix, zeros_lebesgue(t))
    angles = (np.arange(ROUNDED * t) + 0.5) * (np.pi / (ROUNDED * t))
    x, count = np.unique(axis.from_unit(np.cos(angles)), return_counts=True)
    weights = np.sqrt(count)
    solved = np.linalg.pinv(chebyshev(axis.to_unit(x), t) * weights[:, None], rcond=_CUTOFF)
    matrix = np.asarray(solved * weights, dtype=np.float64)
    everywhere = chebyshev(axis.to_unit(places(axis, 8 * t + 1)[0]), t)
    return Rule(x, matrix, float(np.abs(everywhere @ matrix).sum(axis=1).max()))


def zeros_lebesgue(t: int) -> float:
    """Lebesgue constant of interpolation at the t zeros of T_t: (1/t) sum_k cot((2k-1) pi / 4t), reached at +-1.

    >>> round(zeros_lebesgue(2), 6)
    1.414214
    """
    return float(np.sum(1 / np.tan((2 * np.arange(1, t + 1) - 1) * np.pi / (4 * t)))) / t * (1 + 1e-12)


def count_values(axis: Axis) -> int | None:
    """How many values a column can have, None for a continuum (or microseconds, as good as one)."""
    if axis.values is not None:
        return len(axis.values)
    if axis.kind is Kind.DATE or (axis.kind is Kind.NUMBER and axis.integral):
        return int(min(2.0**62, math.floor(axis.upper) - math.ceil(axis.lower) + 1))
    return None


def places(axis: Axis, most: int, extra: Sequence[float] = ()) -> tuple[Floats, bool]:
    """(places of a column to look at, whether these are all its values).

    Args:
        axis: the column.
        most: about how many, unless all of them are as few.
        extra: numbers at which f may jump: they and their neighbours are looked at too.
    """
    count = count_values(axis)
    if axis.values is not None:
        return np.arange(len(axis.values), dtype=np.float64), True
    if count is not None and count <= most:
        return np.arange(math.ceil(axis.lower), math.floor(axis.upper) + 1, dtype=np.float64), True
    x = axis.from_unit(np.cos(np.linspace(0, np.pi, max(3, most))))  # corners included
    if extra:
        near = _NEAR * (axis.upper - axis.lower)
        jumps = np.array([j + step for j in extra for step in (-max(near, 1.0) if count else -near, 0, near)])
        x = np.concatenate([x, jumps[(jumps >= axis.lower) & (jumps <= axis.upper)]])
    return np.unique(np.rint(x) if count is not None else x), False


def check_grid(
    axes: Sequence[Axis], extra: dict[str, list[float]], *, per_degree: int, most: int
) -> tuple[list[Floats], bool]:
    """(places per column, whether the grid holds every value that rows can have): at most about ``most`` points."""
    share = most ** (1 / max(1, len(axes)))
    counts = [count_values(axis) for axis in axes]
    room = MAX_LISTED if len(axes) == 1 else 10 * share
    wanted = [
        c if c is not None and c <= room else per_degree * a.degree + 1 for a, c in zip(axes, counts, strict=True)
    ]
    if math.prod(wanted) > most:
        wanted = [min(w, max(3, int(share))) for w in wanted]
    found = [places(axis, w, extra.get(axis.name, ())) for axis, w in zip(axes, wanted, strict=True)]
    if math.prod(len(x) for x, _ in found) > 4 * most:  # many jumps, or long lists of values
        found = [places(axis, w) for axis, w in zip(axes, wanted, strict=True)]
    return [x for x, _ in found], all(complete for _, complete in found)


def coefficients_from(values: Floats, rules: Sequence[Rule]) -> Floats:
    """Coefficients float[n, t_1, ..., t_d] from values float[n, m_1, ..., m_d] on the tensor grid of the rules."""
    for i, rule in enumerate(rules):
        values = np.moveaxis(np.tensordot(values, rule.matrix, axes=(i + 1, 1)), -1, i + 1)
    return np.ascontiguousarray(values)


def values_at(coefficients: Floats, axes: Sequence[Axis], x: Sequence[Floats]) -> Floats:
    """Polynomials on a tensor grid: float[n, m_1 * ... * m_d] from float[n, t_1, ..., t_d]."""
    for axis, at in zip(axes, x, strict=True):  # contract the first axis, append the new one at the end
        coefficients = np.tensordot(coefficients, chebyshev(axis.to_unit(at), axis.degree), axes=(1, 1))
    return coefficients.reshape(len(coefficients), -1)


def rounding_of(rules: Sequence[Rule]) -> float:
    """Bound on the rounding of the coefficients' computation: |p computed - p| per largest value of f.

    A product with a matrix of rows of l1 norm A over m values is off by at most (m + 2) ULP A max|f| per entry, and
    each of the t entries counts for at most that much in p, T_r being at most 1.
    """
    steps = [ULP * (len(r.x) + 4) * float(np.abs(r.matrix).sum(axis=1).max()) * len(r.matrix) for r in rules]
    grown = [1 + float(np.abs(r.matrix).sum()) for r in rules]
    return sum(step * math.prod(g for j, g in enumerate(grown) if j != i) for i, step in enumerate(steps))


def _extrema_matrix(k: int) -> Floats:
    """Values at u_j = -cos(pi j / (k-1)) to coefficients (2/(k-1)) w_r sum_j w_j f_j T_r(u_j), w = 1/2 at the ends."""
    if k == 1:
        return np.ones((1, 1))
    weights = np.ones(k)
    weights[[0, -1]] = 0.5
    degree = np.arange(k)
    angles = (degree[:, None] * degree[None, :] % (2 * (k - 1))) * (np.pi / (k - 1))
    signs = np.where(degree % 2, -1.0, 1.0)  # T_r(-u) = (-1)^r T_r(u)
    return np.asarray((2 / (k - 1)) * (weights * signs)[:, None] * np.cos(angles) * weights)
