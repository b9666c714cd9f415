"""Laws of single columns from a few noisy moments, all columns at once, smooth where the moments leave it open.

min |W p - b|_2 over the simplex, W the Chebyshev polynomials on a grid that is even in the angle (its rows are almost
orthogonal, so first-order steps converge fast): accelerated projected gradient from the damped Chebyshev series of the
density. An interior-point or simplex solver gives one of the many optima, with as few atoms as moments; the series
gives a density, and the projection keeps spikes where the moments demand them.

Numerics: ``ROUNDS`` steps; the tests compare with the certified optimum.
Source:   Beck, Teboulle 2009 (acceleration, with restarts); Held, Wolfe, Crowder 1974 (projection on the simplex);
          Weisse et al. 2006 (Jackson damping of Chebyshev series).
"""

from __future__ import annotations

import numpy as np

from duckdp.smooth.basis import chebyshev
from duckdp.synthetic.unit.features import Floats

ROUNDS = 400  # gradient steps for the laws of all columns


def fit_laws(moments: Floats, nodes: Floats) -> Floats:
    """Distributions on nodes that have given moments, as shares of the nodes.

    Args:
        moments: float[c, M + 1], of T_0 .. T_M; the first is 1.
        nodes: float[G] in [-1, 1], even in the angle.

    Returns:
        float[c, G], at least 0, sum 1.
    """
    matrix = chebyshev(nodes, moments.shape[1])
    step = 1 / float(np.linalg.eigvalsh(matrix.T @ matrix)[-1])
    law = _project(_series(moments, matrix))
    ahead, pace = law, np.ones((len(law), 1))
    for _ in range(ROUNDS):
        moved = _project(ahead - step * (ahead @ matrix - moments) @ matrix.T)
        back = np.sum((ahead - moved) * (moved - law), axis=1, keepdims=True) > 0  # such columns start anew
        after = np.where(back, 1.0, (1 + np.sqrt(1 + 4 * pace**2)) / 2)
        ahead = moved + np.where(back, 0.0, (pace - 1) / after) * (moved - law)
        law, pace = moved, after
    return law


def _series(moments: Floats, matrix: Floats) -> Floats:
    """Shares by the damped series 1 + 2 sum g_k b_k T_k, which has no overshoot."""
    size = moments.shape[1]
    k, turn = np.arange(size), np.pi / (size + 1)
    damping = ((size - k + 1) * np.cos(turn * k) + np.sin(turn * k) / np.tan(turn)) / (size + 1)
    factors = np.where(k == 0, 1.0, 2.0) * damping
    return np.asarray(np.maximum(0, (moments * factors) @ matrix.T) / len(matrix))


def _project(points: Floats) -> Floats:
    """Nearest points of the simplex, row by row."""
    ordered = -np.sort(-points, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1
    count = np.arange(1, points.shape[1] + 1)
    last = np.sum(ordered * count > excess, axis=1)
    level = excess[np.arange(len(points)), last - 1] / last
    return np.asarray(np.maximum(0, points - level[:, None]))
