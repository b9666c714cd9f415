"""Where a function that bends or jumps is farthest from its polynomial: a search between the points of a grid.

Along every column the steps of the grid over which f - p changes most, and those at its largest values, are divided
into PARTS; of each the part over which it changes most is divided again, ROUNDS times. A jump is so found to within
PARTS^-ROUNDS of a step, and f - p is seen on both sides of it. This is a search, not a proof: what is narrower than a
step of the grid is left to ``cells``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.fit.interpolation import count_values

STEPS, TOPS = 16, 8  # of a column: steps of largest change, and beside the largest values
PARTS = 40  # of a step of the grid, in each round
ROUNDS = 3  # so a jump is found to within 1 / 64,000 of a step
Residual = Callable[[tuple[Floats, ...]], Floats]  # places per column float[n] -> f - p, float[n]


def largest_between(residual: Residual, axes: Sequence[Axis], x: Sequence[Floats], known: Floats) -> float:
    """Largest |f - p| found between the points of a grid, at least that on the grid.

    Args:
        residual: f - p at given points.
        axes: the columns.
        x: per column float[m_i], the grid, in increasing order.
        known: float[m_1 * ... * m_d], f - p on it.
    """
    values = known.reshape([len(at) for at in x])
    largest = float(np.max(np.abs(values)))
    for i, axis in enumerate(axes):
        if axis.values is None and len(x[i]) > 1:
            largest = max(largest, _along(residual, axes, x, values, i))
    return largest


def _along(residual: Residual, axes: Sequence[Axis], x: Sequence[Floats], values: Floats, i: int) -> float:
    """The search along one column."""
    others, place = _steps(np.moveaxis(values, i, -1))
    left, right = x[i][place], x[i][place + 1]
    rest = [np.asarray(at) for at in x]
    fixed = [rest[j][others[j if j < i else j - 1]] if j != i else left for j in range(len(x))]
    whole = count_values(axes[i]) is not None
    largest, inner = 0.0, np.arange(PARTS + 1) / PARTS
    for _ in range(ROUNDS):
        along = left[:, None] + (right - left)[:, None] * inner
        along = np.rint(along) if whole else along
        points = tuple(along.ravel() if j == i else np.repeat(fixed[j], PARTS + 1) for j in range(len(x)))
        found = residual(points).reshape(along.shape)
        largest = max(largest, float(np.max(np.abs(found))))
        best = np.argmax(np.abs(np.diff(found, axis=1)), axis=1)
        rows = np.arange(len(along))
        left, right = along[rows, best], along[rows, best + 1]
    return largest


def _steps(values: Floats) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """(positions in the other columns, step along the last one) of the steps to divide."""
    changes = np.abs(np.diff(values, axis=-1))
    per_step = changes.reshape(-1, changes.shape[-1])
    at = per_step.argmax(axis=0)  # for each step, where across the others it is largest
    chosen = np.argsort(-per_step[at, np.arange(len(at))])[:STEPS]
    lines, steps = [at[chosen]], [chosen]
    flat = np.abs(values).reshape(-1, values.shape[-1])
    for top in np.argsort(-flat, axis=None)[:TOPS]:
        line, column = divmod(int(top), flat.shape[1])
        for step in (column - 1, column):
            if 0 <= step < changes.shape[-1]:
                lines.append(np.array([line]))
                steps.append(np.array([step]))
    found = np.unravel_index(np.concatenate(lines), values.shape[:-1]) if values.ndim > 1 else ()
    return [np.asarray(f) for f in found], np.concatenate(steps)
