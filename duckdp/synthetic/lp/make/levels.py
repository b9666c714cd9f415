"""The program from low degrees up, and whether what it ended with follows its release.

A program of thousands of sums may run out of time far from any aim, and its best points so far would be rows that have
nothing of the table. So functions below 4, 8, 16, ... per column are fitted first, each from the points of the one
before. Time may then end a level, but the last one that was finished stands: its rows follow the release in all
functions of that level.

"Follows": the weighted l2 distance F of its moments from the released ones is at most ``FOLLOWS`` times the root mean
square of the noise there, a public figure. Then they are within 1 + FOLLOWS of these of the true ones, where noise is
what it is expected to be. A program that was solved to its certified gap and is still further off says so.

Privacy: post-processing of a release, by a time limit on the processor time of the thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from duckdp.core.watch import Watch
from duckdp.errors import NumericalError
from duckdp.synthetic.lp.make.columns import Grid
from duckdp.synthetic.lp.make.fitted import FOLLOWS, Fitted, as_fitted
from duckdp.synthetic.lp.make.generation import GridDistribution, State, generate, go_on
from duckdp.synthetic.lp.make.interior import Objective
from duckdp.synthetic.lp.make.support import Support

TIME_LIMIT = 20.0  # seconds of processor time, unless asked
GAP = 0.02  # certified distance from the optimum, relative
_AT_ONCE = 250  # sums that are fitted without levels: a second or so
_FIRST = 4  # functions per column of the first level; each has twice as many as the one before


def solve_levels(support: Support, objective: Objective, expected: float, watch: Watch, state: State) -> Fitted:
    """The distribution whose moments come closest, or that of the highest level that was reached.

    Args:
        support: the grid.
        objective: F, in l2.
        expected: root mean square of F for the noise alone.
        watch: told of progress; may end the work.
        state: to go on from; holds the last finished round when the call ends.

    Raises:
        NumericalError: N101, nothing that follows the release was found in time; the state is kept.
    """
    watch.start(TIME_LIMIT)
    grid = support.grid
    for degree in _degrees(grid):
        if degree < state.degree:
            continue
        inside = grid.indices.max(axis=1) < degree
        noise = expected * math.sqrt((inside.sum() - 1) / (grid.rows - 1))
        whole = bool(inside.all())
        part = grid if whole else Grid(axes=tuple(v[:degree] for v in grid.axes), indices=grid.indices[inside])
        aim = Objective(target=objective.target[inside], norm=objective.norm, weights=objective.weights[inside[1:]])
        if degree > state.degree:
            go_on(state, part, degree)
        try:
            found = _level(part, aim, noise, watch, state, whole=whole)
        except NumericalError:
            if state.below is None:
                raise
            found = None
        if whole and found is not None:
            return _fitted(found, support, objective, expected)
        if found is None:
            break
        state.below = (degree, found)
    if state.below is None:
        raise NumericalError(
            "N101",
            "in its time the program found no rows that follow their release.",
            status="time limit",
            advice="What was released is kept and the work goes on where it stood: ask again, free, with a longer "
            "time_limit.",
        )
    degree, found = state.below
    return _fitted(found, support, objective, expected, below=degree)


def solve(support: Support, objective: Objective, watch: Watch, state: State, *, enough: float = 0.0) -> Fitted:
    """Column generation under a watch: until F is ``enough``, the certified gap is 2%, or time is out.

    Raises:
        NumericalError: N101, not one distribution was found.
    """
    watch.start(TIME_LIMIT)
    watch.tell("program", 0.05)
    found = generate(
        support.grid,
        objective,
        enough=enough,
        gap=GAP,
        state=state,
        should_stop=watch.out_of_time,
        progress=lambda done, *_: watch.tell("program", 0.05 + 0.9 * (1 - 0.8**done)),
    )
    if not len(found.weights):
        raise NumericalError(
            "N101",
            "the program found no distribution in time.",
            status="time limit",
            advice="Take a summary of a smaller degree or fewer columns.",
        )
    return _fitted(found, support, objective)


def _degrees(grid: Grid) -> Iterator[int]:
    """Functions per column of each level; the last has all."""
    most = max(grid.degrees)
    if grid.rows > _AT_ONCE:
        degree = _FIRST
        while degree < most:
            yield degree
            degree *= 2
    yield most


def _level(
    grid: Grid, objective: Objective, noise: float, watch: Watch, state: State, *, whole: bool
) -> GridDistribution | None:
    """A level's distribution; None where time ended it far from its release."""
    watch.tell("program", 0.05)
    found = generate(
        grid,
        objective,
        enough=0.0 if whole else noise,
        gap=GAP,
        state=state,
        should_stop=watch.out_of_time,
        progress=lambda done, *_: watch.tell("program", 0.05 + 0.9 * (1 - 0.8**done)),
    )
    return found if found.status in ("enough", "gap") or found.loss <= FOLLOWS * noise else None


def _fitted(
    found: GridDistribution, support: Support, objective: Objective, expected: float = 0.0, *, below: int = 0
) -> Fitted:
    """To be stored; of a level, its F and bound are of the functions of that level, the residual is of all."""
    mass = np.zeros(support.grid.size)
    mass[np.ravel_multi_index(tuple(found.points.T), support.shape)] = found.weights
    moments = support.grid.moments(mass)
    residual = float(np.abs(moments - objective.target).sum())
    return as_fitted(found, support.shape, residual, expected=expected, below=below)
