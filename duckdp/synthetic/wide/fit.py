"""Rows moved, as little as possible, until their moments are the wanted ones.

Gauss-Newton on the rows themselves: with J the derivative of the moments of all rows, the step is J^T l, (J J^T + damp)
l = what is missing: the smallest move that mends it to first order. l is found by conjugate gradients; J and J^T are
never formed (``Features.adjoint``, and a difference quotient along the step). Entries at -1 or 1 that would leave stay.

Numerics: a step is halved until the misfit falls; the loop ends when it no longer does, or is small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duckdp.core.task import Watch
from duckdp.synthetic.wide.features import Features, Floats

_ROUNDS, _INNER, _HALVINGS = 14, 30, 7
_DAMP = 1e-3  # of the moments' own scale
_GOOD = 1e-4  # root mean square misfit that ends the loop
_STEP = 1e-4
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

    def adjoint(self, u: Floats, lagrange: Floats) -> Floats:
        """J^T l, rows not divided by m: float[m, d]."""
        slope = 4 * lagrange[-1] / self.features.width * self.features.outside(u)
        return np.asarray(self.features.adjoint(u, self.weights * lagrange[:-1]) + slope[:, None] * u)


def fit_rows(
    start: Floats, goal: Goal, *, fixed: NDArray[np.intp] | None = None, watch: Watch | None = None
) -> Floats:  # fmt: skip
    """Move the rows.

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
    first = goal.adjoint(u, missing)
    stuck: Mask = ((u >= 1) & (first > 0)) | ((u <= -1) & (first < 0))
    if fixed is not None:
        stuck[:, fixed] = True

    def along(lagrange: Floats) -> Floats:
        move = goal.adjoint(u, lagrange)
        move[stuck] = 0
        return move

    def apply(lagrange: Floats) -> Floats:
        move = along(lagrange)
        h = _STEP / max(1e-12, float(np.max(np.abs(move))))
        change = goal.misfit(u - h * move) - goal.misfit(u + h * move)
        return np.asarray(change / (2 * h) + _DAMP * lagrange)

    return along(_conjugate_gradients(apply, missing))


def _conjugate_gradients(apply: object, right: Floats) -> Floats:
    assert callable(apply)
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
