"""When an answer leaves: on a grid of times that is public, so that how long a private read took shows hardly.

A call that may read private rows is answered ``grid`` seconds after it came, or a quarter later than that as often as
is needed: grid, 1.25 grid, 1.25^2 grid, ... Whoever measures it learns one of a few steps (32 between 50 ms and a
minute) in place of a time in microseconds; two tables whose reads fall on the same step cannot be told apart by it.
It costs at most the first step, and a quarter of what takes longer.

No proof of privacy rests on it: near the edge of a step a time still tells (see docs/server.md).
"""

from __future__ import annotations

GRID = 0.05  # seconds: the first step
GROWTH = 1.25  # of one step over the one before


def due(took: float, grid: float) -> float:
    """Seconds, from when a call came, until its answer leaves.

    Args:
        took: seconds until it was there.
        grid: the first step in seconds; 0: no grid.

    >>> due(0.003, 0.05), due(0.0501, 0.05), round(due(1.0, 0.05), 3), due(0.003, 0)
    (0.05, 0.0625, 1.137, 0.003)
    """
    if grid <= 0:
        return took
    step = grid
    while step < took:
        step *= GROWTH
    return step
