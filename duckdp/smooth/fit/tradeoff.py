"""Coefficients that weigh the approximation error against the noise: min_c sup |f - p_c| + sd(c . noise).

Solved is the convex problem over a grid of points u_j, with w_r the error bar that one unit of c_r brings::

    minimise   e + |w c|_2     subject to   |f(u_j) - sum_r c_r Phi_r(u_j)| <= e   for all j

by cutting planes: |w c|_2 is the largest of its tangents g . c, g = w^2 a / |w a|, so a linear program with a variable
s above the tangents found so far bounds the optimum from below, and its solution, put into the true objective, from
above. Each round adds the tangent at the solution and the grid points it violates most; the simplex method resumes.

Why this: replacing |w c|_2 by the sum of |w_r c_r| overstates the noise by up to sqrt(R) and smooths too much. The
quadratic program for |w c|^2 / 2s, with s in turn, has the right optimum, but HiGHS's active-set solver gives up on
dense ones of 100 variables. Tangents suffice because the solution lies near the interpolant, where the first tangent is
off by a square only; where the noise is larger than f itself they close slowly, and the rounds are limited.

What is returned is never worse than where it started: both are compared on the same grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import NDArray

from duckdp.smooth.axes import Floats

MAX_FUNCTIONS = 150  # beyond, rounds take seconds each
MAX_ROUNDS = 12  # of cutting planes; what is found by then is taken
SETTLED = 1e-3  # gap between the bounds, relative
_OVER = 1e-4  # violation of a point, relative, that adds it


@dataclass(frozen=True, eq=False)
class Problem:
    """One choice of coefficients: approximation error against noise.

    Attributes:
        values: float[n], f on the grid.
        matrix: float[n, R], the functions there.
        weights: float[R], w: error bar per unit of each coefficient, units of f.
    """

    values: Floats
    matrix: Floats
    weights: Floats

    def error(self, c: Floats) -> float:
        """Largest |f - p| on the grid."""
        return float(np.max(np.abs(self.values - self.matrix @ c)))

    def noise(self, c: Floats) -> float:
        """The error bar that coefficients cause: the l2 norm of w c."""
        return float(np.linalg.norm(self.weights * c))

    def total(self, c: Floats) -> float:
        """What is minimised: approximation error and noise together."""
        return self.error(c) + self.noise(c)


def improve(problem: Problem, start: Floats) -> Floats:
    """Coefficients of a total at most that of ``start``, and near the optimum where the rounds suffice: float[R]."""
    best, least = start, problem.total(start)
    if len(start) > MAX_FUNCTIONS or not least > 0:
        return best
    program = _Program(problem)
    program.add_points(_first_points(problem, start))
    program.add_tangent(start)
    for _ in range(MAX_ROUNDS):
        solved = program.solve()
        if solved is None:
            break
        c, level, lower = solved
        total = problem.total(c)
        if total < least:
            best, least = c, total
        if least - lower <= SETTLED * least:
            break
        residual = np.abs(problem.values - problem.matrix @ c)
        over = np.flatnonzero(residual > level * (1 + _OVER))
        program.add_points(over[np.argsort(-residual[over])][: len(c) // 2 + 1])
        program.add_tangent(c)
    return best


def _first_points(problem: Problem, start: Floats) -> NDArray[np.int64]:
    """An even choice, and those of the largest error."""
    n, r = problem.matrix.shape
    even = np.linspace(0, n - 1, min(n, 2 * r)).astype(np.int64)
    worst = np.argsort(-np.abs(problem.values - problem.matrix @ start))[:r]
    return np.unique(np.concatenate([even, worst]))


class _Program:
    """The linear program in (c / scale, e / scale, s / scale), scale the largest |f|."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.size = problem, problem.matrix.shape[1]
        self.scale = max(float(np.max(np.abs(problem.values))), 1e-300)
        r, inf = self.size, highspy.kHighsInf
        self.solver = highspy.Highs()
        self.solver.silent()
        self.solver.setOptionValue("threads", 1)
        self.solver.addVars(r + 2, np.concatenate([np.full(r, -inf), np.zeros(2)]), np.full(r + 2, inf))
        self.solver.changeColsCost(2, np.array([r, r + 1], dtype=np.int32), np.ones(2))

    def add_points(self, chosen: NDArray[np.int64]) -> None:
        """Demand e >= |f - p| at some grid points."""
        if not len(chosen):
            return
        matrix, values = self.problem.matrix[chosen], self.problem.values[chosen] / self.scale
        one, none = np.ones((len(chosen), 1)), np.zeros((len(chosen), 1))
        rows = np.concatenate([np.hstack([matrix, one, none]), np.hstack([-matrix, one, none])])
        self._add(rows, np.concatenate([values, -values]))

    def add_tangent(self, at: Floats) -> None:
        """Demand s >= g . c, g the gradient of |w c| at a point."""
        length = self.problem.noise(at)
        if length > 0:
            slope = self.problem.weights**2 * at / length
            self._add(np.concatenate([-slope, np.zeros(1), np.ones(1)])[None], np.zeros(1))

    def solve(self) -> tuple[Floats, float, float] | None:
        """(c, e, lower bound of the optimum), or None when the solver does not reach an answer."""
        self.solver.run()
        if self.solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        x = np.array(self.solver.getSolution().col_value) * self.scale
        lower = float(self.solver.getInfo().objective_function_value) * self.scale
        return x[: self.size], float(x[self.size]), lower

    def _add(self, rows: Floats, lower: Floats) -> None:
        count, width = rows.shape
        starts = np.arange(0, count * width, width, dtype=np.int32)
        columns = np.tile(np.arange(width, dtype=np.int32), count)
        above = np.full(count, highspy.kHighsInf)
        self.solver.addRows(count, lower, above, rows.size, starts, columns, rows.ravel())
