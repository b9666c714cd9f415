"""Rows moved to a grid of few values per column ([J] Algorithm 3, steps 3 to 5); ``sums.grid`` does it in SQL.

Values are equispaced in the angle, ends included, so that a row moved to its nearest value changes degree r by at most
r pi / (2 (N - 1)) for N values; equispaced in x, as the paper has them, the error near the bounds would be of order
r / sqrt(N). Types that cannot hold such values take the nearest that they can; nearest always means in the angle.
"""

from __future__ import annotations

import numpy as np

from duckdp.smooth.axes import Floats


def angle_nodes(count: int) -> Floats:
    """Values of u that are equispaced in the angle, float[N]: -cos(pi k / (N - 1)), ascending, -1 and 1 included."""
    return np.asarray(-np.cos(np.pi * np.arange(count, dtype=np.float64) / (count - 1)))


def angle_middles(count: int) -> Floats:
    """Middles of neighbouring angles, float[N - 1]."""
    return np.asarray(-np.cos(np.pi * (np.arange(count - 1, dtype=np.float64) + 0.5) / (count - 1)))


def middles_between(nodes: Floats) -> Floats:
    """Middles, in the angle, of any ascending nodes: float[N - 1] for float[N] in [-1, 1]."""
    angles = np.arccos(-nodes)
    middles = -np.cos((angles[1:] + angles[:-1]) / 2)
    return np.clip(middles, np.nextafter(nodes[:-1], 2), nodes[1:])  # rounding leaves each node its own


def largest_turn(nodes: Floats) -> float:
    """The largest angle by which a u in [-1, 1] moves to the nearest of ascending nodes, rounding included."""
    angles = np.arccos(-nodes)
    inner = float(np.diff(angles).max(initial=0.0)) / 2
    return max(inner, float(angles[0]), float(np.pi - angles[-1])) + 1e-7  # arccos near the ends loses half its digits


def round_to_angles(u: Floats, count: int) -> Floats:
    """Move u to the nearest of N angles: float[n] for float[n] in [-1, 1]. The middle between two goes up."""
    return np.asarray(angle_nodes(count)[np.searchsorted(angle_middles(count), u, side="right")])
