"""Counts, sums, averages and variances of one argument from a single l1 ball: Bernstein cells.

A row whose argument is x in [lower, upper], u = (x - lower) / (upper - lower), adds to degree + 1 cells::

    degree 0:  1                        degree 1:  u, 1 - u                  degree 2:  u^2, 2u(1-u), (1-u)^2

times ``steps`` (the public grid, 2**bits), rounded to integers that sum to ``steps`` exactly. A row whose argument is
NULL adds ``steps`` to one more cell when count(*) is wanted too. With S_j the cell sums and T their total,

    count = T / steps        sum u = (S_1/2 + S_2) / steps        sum u^2 = S_2 / steps

Privacy:      the cells are >= 0 and sum to ``steps``, so a row's contribution has l1 norm exactly ``steps`` and l2
              norm at most ``steps``, whatever x: count, sum, avg and variance of x cost one release, not one each.
              ADD_REMOVE, units of at most m rows: l1 = m steps. REPLACE (unit = row): two points of the same simplex,
              l1 <= 2 steps, l2 <= sqrt(2) steps; where the count is public and exact, the last cell is not released
              but computed as steps * n - the others, and l1 <= steps (degree 1), 2 steps (degree 2).
Assumes:      a unit of w > m rows is scaled to m / w of its cells in exact integers: floor(S_j m / w), the last cell
              taking the rest to m steps (compiler/emit.py); it then is a point of m steps times the simplex.
Proof sketch: u^i (1-u)^(p-i) C(p,i) >= 0 and their sum is (u + 1 - u)^p = 1. The integer cells are built by rounding
              all but the last, each clamped to what is left, and giving the rest to the last.
Numerics:     u is computed in floating point from a clamped x, and the integers are clamped after it, so no float
              error reaches the sensitivity. It is at most half a step of error per row and cell.
Source:       Laplace mechanism: Dwork, McSherry, Nissim, Smith (TCC 2006), Theorem 1 with the l1 norm. Two cells
              beat halving epsilon between count and sum: sd of the average is (upper-lower)/(eps n) in the middle of
              the range, against sqrt(2) times that with a centred sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Released moments with their gradients by cell: each ``value`` float[n], ``gradient`` float[cells, n]."""

    count: Floats
    mean: Floats
    square: Floats
    count_gradient: Floats
    mean_gradient: Floats
    square_gradient: Floats


def moments(cells: Floats, degree: int, steps: float, arguments: int) -> Moments:
    """Count of arguments, mean of u and mean of u^2 from noisy cells, with first derivatives.

    Args:
        cells: float[k, n], noisy cell sums, highest power first; only the first ``arguments`` are the argument's.
        degree: 0, 1 or 2.
        steps: grid steps of one row.
        arguments: degree + 1.

    Returns:
        Moments; mean and square are NaN where the noisy count is not positive.
    """
    k, n = cells.shape
    total = cells[:arguments].sum(axis=0)
    safe = np.where(total > 0, total, np.nan)
    count_gradient = np.zeros((k, n))
    count_gradient[:arguments] = 1.0 / steps
    first, second = np.zeros((k, n)), np.zeros((k, n))
    if degree == 1:
        first[0] = 1.0
    elif degree == 2:
        first[0], first[1], second[0] = 1.0, 0.5, 1.0
    mean, square = (first * cells).sum(axis=0) / safe, (second * cells).sum(axis=0) / safe
    inside = count_gradient * steps  # 1 on the argument's cells
    return Moments(
        count=total / steps,
        mean=mean,
        square=square,
        count_gradient=count_gradient,
        mean_gradient=(first - inside * mean) / safe,
        square_gradient=(second - inside * square) / safe,
    )
