"""Rows moved, as little as possible, until their moments are the wanted ones.

Gauss-Newton on the rows themselves: with J the derivative of the moments of all rows, the step is J^T l, (J J^T + damp)
l = what is missing: the smallest move that mends it to first order. J J^T comes from a few matrix products
(``slopes``); with all pairs of columns among the moments it would be too large, and conjugate gradients find l. Entries
at -1 or 1 that would leave stay.

Numerics: a step is halved until the misfit falls; the loop ends when it no longer does, or is small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duckdp.core.watch import Watch
from duckdp.synthetic.moments.make.slopes import Slopes
from duckdp.synthetic.unit.features import Features, Floats, inner, outer

_ROUNDS = 14  # Gauss-Newton steps, at most
_INNER = 30  # steps of conjugate gradients within one, at most
_HALVINGS = 7  # of a step that does not lower the misfit, before the loop ends
_ONE_THREAD = 100  # rows of a matrix
_DAMP = 1e-3  # of the moments' own scale
_GOOD = 1e-4  # root mean square misfit that ends the loop
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Goal:
    """Wanted moments. ``weights``: float[R], how much each counts (1 if all alike)."""

    features: Features
    means: Floats
    weights: Floats

    def misfit(self, u: Floats) -> Floats:
        """float[R + 1]: what is missing, weighted; the last entry keeps |u|^2 inside the window of z."""
        missing = self.weights * (self.means - self.features.means(u))
        return np.append(missing, -float(np.mean(self.features.outside(u) ** 2)))

    def slopes(self, u: Floats) -> Slopes:
        """The derivative of what there is; weights apart."""
        penalty = 4 / self.features.width * self.features.outside(u)
        return Slopes(features=self.features, u=u, penalty=penalty)


def fit_rows(start: Floats, goal: Goal, *, fixed: NDArray[np.intp] | None = None, watch: Watch | None = None) -> Floats:
    """Move rows until they have the wanted moments.

    Args:
        start: float[m, d] in [-1, 1].
        goal: the wanted moments.
        fixed: columns that stay as they are.
        watch: may end the work; rows as they are when its time is over.

    Returns:
        float[m, d] in [-1, 1].
    """
    u = start.copy()
    missing = goal.misfit(u)
    error = float(np.mean(missing**2))
    for turn in range(_ROUNDS):
        if watch is not None:
            watch.tell("rows", turn / _ROUNDS)
        if error < _GOOD**2 or (watch is not None and watch.out_of_time()):
            break
        move = _newton_step(u, goal, missing, fixed)
        for halving in range(_HALVINGS):
            tried = np.clip(u + move * 0.5**halving, -1, 1)
            found = goal.misfit(tried)
            if np.mean(found**2) < error * (1 - 1e-3):
                break
        else:
            break
        u, missing, error = tried, found, float(np.mean(found**2))
    return u


def _newton_step(u: Floats, goal: Goal, missing: Floats, fixed: NDArray[np.intp] | None) -> Floats:
    slopes, weights = goal.slopes(u), np.append(goal.weights, 1.0)
    first = slopes.adjoint(weights * missing)
    stuck: Mask = ((u >= 1) & (first > 0)) | ((u <= -1) & (first < 0))
    if fixed is not None:
        stuck[:, fixed] = True

    free = (~stuck).astype(np.float64)

    def along(lagrange: Floats) -> Floats:
        return free * slopes.adjoint(weights * lagrange)

    def apply(lagrange: Floats) -> Floats:
        return weights * slopes.forward(along(lagrange)) + _DAMP * lagrange

    if goal.features.pairs:
        return along(_conjugate_gradients(apply, missing))
    gram = slopes.gram(free) * np.outer(weights, weights)
    gram.flat[:: len(gram) + 1] += _DAMP
    return along(solve_positive(gram, missing[:, None])[:, 0])


def solve_positive(matrix: Floats, right: Floats) -> Floats:
    """Solve matrix x = right, the matrix positive definite, by halves that take one thread (``features.block``)."""
    if len(matrix) <= _ONE_THREAD:
        return np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)
    half = len(matrix) // 2
    corner, rest = matrix[:half, half:], len(matrix) - half
    upper = solve_positive(matrix[:half, :half], np.concatenate([corner, right[:half]], axis=1))
    across, above = upper[:, :rest], upper[:, rest:]
    below = solve_positive(matrix[half:, half:] - inner(corner, across), right[half:] - inner(corner, above))
    return np.concatenate([above - outer(across, below), below])


def _conjugate_gradients(apply: Callable[[Floats], Floats], right: Floats) -> Floats:
    found, rest, direction = np.zeros_like(right), right.copy(), right.copy()
    size = start = float(rest @ rest)
    for _ in range(_INNER):
        image = apply(direction)
        curvature = float(direction @ image)
        if curvature <= 0 or size <= 1e-3 * start:
            break
        found += size / curvature * direction
        rest -= size / curvature * image
        smaller = float(rest @ rest)
        direction, size = rest + smaller / size * direction, smaller
    return found
