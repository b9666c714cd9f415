"""The program on the whole grid by column generation, with a certified gap.

Algorithm 3's program has a column for each of N_1 ... N_d grid points; an optimal u needs R of them. So it is solved
over few columns, and all others are priced with its dual y::

    restricted  a coarse subgrid (its columns exist as products only) and a list of points: interior points
    price       (y W)_k on the whole grid, by contraction; LB = y b - max_k (y W)_k for y in the dual unit ball
    stop        F <= enough, or F - LB <= gap F
    exchange    the local maxima of y W that lie above the restricted maximum join the list; points that no optimum
                needs leave it: F(u) >= LB + sum_k u_k s_k, s_k = max (y W) - (y W)_k, so u_k <= (F - LB) / s_k

Bound:        F(u) = max |y|* <= 1 of y (b - W u) >= y b - max_k (y W)_k for every distribution u and every such y: weak
              duality needs no optimal y, so the bound holds for the duals of half-solved programs too. It is lowered by
              a bound of the rounding errors of its own evaluation.
Stabilised:   restricted programs are solved only to a part of the gap that is left, so their duals stay in the middle
              of the optimal face; the bound is also taken at the mean of the newest and the best dual.
Theorem:      with F <= enough, for a public ``enough`` of the order of the noise's expected norm, the error bound of
              Theorem 17 holds with F in place of the optimum (``parameters.theorem_17_bound``).
Memory:       one float per grid point and a few masks, in slabs of at most ``pricing.SLAB`` points.
Source:       Wang et al., JMLR 17(51), 2016, Algorithm 3, step 20.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.errors import InternalError, NumericalError
from duckdp.synthetic.lp.make.columns import Floats, Grid, Integers, JoinedColumns, ListedColumns, TensorColumns
from duckdp.synthetic.lp.make.interior import Objective, solve_interior

MAX_ROUNDS = 200  # of column generation; the gap is told where they do not do
START_POINTS = 40_000  # of the coarse subgrid
START_LISTED = 4_000  # of the same, when its columns have to be formed
START_DENSITY = 4  # points per function and axis
PATIENCE = 3  # rounds a listed point may stay idle:
IDLE = 1e-3  # while an optimum can give it at most this mass
DROPPED = 1e-9  # mass that may be left out of a result
LEAST_LOSS = 1e-10  # per unit of weight: an F below this is a perfect fit
PRECISION = 0.1  # of the gap that is left: how far restricted programs are solved
_ULP = 2.0**-53  # relative rounding error of one operation on DOUBLEs
Progress = Callable[[int, float, float], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class GridDistribution:
    """A distribution on few points of a grid, and how good it is.

    Attributes:
        points: int[C, d], positions on the axes.
        weights: float[C], above 0, sum 1.
        loss: F, the norm of the weighted residual.
        bound: no distribution on the grid has a smaller F.
        rounds: of column generation.
        status: why it ended: "enough" (or a perfect fit), "gap", "stopped", "rounds" (as many as allowed), "stalled"
            (rounding errors).
    """

    points: Integers
    weights: Floats
    loss: float
    bound: float
    rounds: int
    status: str

    @property
    def gap(self) -> float:
        """F - bound: F is at most this above the optimum."""
        return self.loss - self.bound


@dataclass(kw_only=True, eq=False)
class State:
    """Where column generation stands; kept by the caller, changed once per round, so an interrupt leaves it whole.

    Attributes:
        listed: int[C, d], points beside the coarse subgrid.
        idle: int[C], rounds each has been of no use.
        points, weights, loss: the best distribution.
        dual, bound: the best lower bound and its y.
        rounds: done.
        degree: functions per column of the program that this is of, where they grow (``levels``).
        below: the last level that was finished, and its distribution; or None.
    """

    listed: Integers | None = None
    idle: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    points: Integers = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    weights: Floats = field(default_factory=lambda: np.zeros(0))
    loss: float = math.inf
    dual: Floats | None = None
    bound: float = 0.0
    rounds: int = 0
    degree: int = 0
    below: tuple[int, GridDistribution] | None = None

    @property
    def gap(self) -> float:
        """How far the objective may be from the best, relative to it: (F - bound) / F."""
        return 1.0 if math.isinf(self.loss) else (self.loss - self.bound) / max(self.loss, 1e-300)


def generate(
    grid: Grid,
    objective: Objective,
    *,
    enough: float = 0.0,
    gap: float = 0.01,
    most_rounds: int = MAX_ROUNDS,
    state: State | None = None,
    progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> GridDistribution:
    """Minimise F over all distributions on a grid.

    Args:
        grid: the columns.
        objective: F: noisy moments over the noisy count, norm, weights.
        enough: stop when F is at most this; public, such as the expected norm of the noise.
        gap: stop when F - bound is at most this share of F.
        most_rounds: stop after so many rounds.
        state: resume from here; also holds the last finished round when an exception, an interrupt too, ends the call.
        progress: told (round, F, bound) after each round.
        should_stop: asked between steps; the result is then the best so far.

    Raises:
        NumericalError: N101, not one distribution was found.
    """
    if len(objective.target) != grid.rows or len(objective.weights) != grid.rows - 1 or grid.rows < 2:
        raise InternalError("the moments do not fit the grid")
    state = State() if state is None else state
    least = LEAST_LOSS * float(np.max(objective.weights))
    master = _make_master(grid)
    ended: str | None = None
    while True:
        status = _status(state, max(enough, least), gap) or ended
        if status is None and state.rounds and should_stop is not None and should_stop():
            status = "stopped"
        if status is None and state.rounds >= most_rounds:
            status = "rounds"
        if status is not None:
            break
        level = max(enough, least) * (1 - 1e-6)
        ended = _play_round(master, objective, state, enough=level, gap=gap, should_stop=should_stop)
        if progress is not None:
            progress(state.rounds, state.loss, state.bound)
    if not len(state.weights):
        raise NumericalError(
            "N101",
            "the linear program was not solved (stalled).",
            status="stalled",
            advice="Take a summary of a smaller degree.",
        )
    return GridDistribution(
        points=state.points,
        weights=state.weights,
        loss=state.loss,
        bound=state.bound,
        rounds=state.rounds,
        status=status,
    )


def go_on(state: State, grid: Grid, degree: int) -> None:
    """Turn a state into the start of a program with more functions, from the points that it has."""
    base = np.ravel_multi_index(tuple(_make_master(grid).points.T), grid.shape)
    fresh = State(degree=degree, below=state.below)
    if len(state.weights):
        new = ~np.isin(np.ravel_multi_index(tuple(state.points.T), grid.shape), base)
        fresh.listed = state.points[new]
        fresh.idle = np.zeros(int(new.sum()), dtype=np.int64)
    vars(state).update(vars(fresh))


def _status(state: State, enough: float, gap: float) -> str | None:
    """Whether it is done."""
    if not state.rounds:
        return None
    if state.loss <= enough:
        return "enough"
    return "gap" if state.loss - state.bound <= gap * state.loss else None


@dataclass(frozen=True, kw_only=True, eq=False)
class _Master:
    """The restricted program's columns: a coarse subgrid, always there, and the listed points."""

    grid: Grid
    axes: tuple[Integers, ...]

    @property
    def points(self) -> Integers:
        """int[C, d], the subgrid's points."""
        return np.stack(np.meshgrid(*self.axes, indexing="ij"), axis=-1).reshape(-1, len(self.axes))

    @cached_property
    def columns(self) -> TensorColumns | ListedColumns:
        """The subgrid's columns."""
        sub = self.grid.subgrid(self.axes)
        return TensorColumns(sub) if TensorColumns.fits(sub) else ListedColumns(self.grid.columns(self.points))


def _make_master(grid: Grid) -> _Master:
    """Some positions of every axis, equally spaced, ends included."""
    counts = np.minimum(grid.shape, START_DENSITY * np.array(grid.degrees))
    most = START_POINTS
    while True:
        while math.prod(counts.tolist()) > most and counts.max() > 1:
            counts[np.argmax(counts)] -= 1
        spread = [np.rint(np.linspace(0, n - 1, c)) for n, c in zip(grid.shape, counts.tolist(), strict=True)]
        master = _Master(grid=grid, axes=tuple(np.unique(v).astype(np.int64) for v in spread))
        if most == START_LISTED or TensorColumns.fits(grid.subgrid(master.axes)):
            return master
        most = START_LISTED


def _play_round(
    master: _Master,
    objective: Objective,
    state: State,
    *,
    enough: float,
    gap: float,
    should_stop: Callable[[], bool] | None,
) -> str | None:
    """Solve, price, exchange; why it cannot go on: "stopped", or "stalled" when no column improves."""
    grid, base = master.grid, master.points
    listed = base[:0] if state.listed is None else state.listed
    columns = JoinedColumns(master.columns, ListedColumns(grid.columns(listed)))
    tolerance = max(gap / 4, PRECISION * state.gap)
    solved = solve_interior(columns, objective, tolerance=tolerance, enough=enough, should_stop=should_stop)
    weights = _prune(solved.weights)
    new: dict[str, Any] = {"rounds": state.rounds + 1}
    loss = objective.loss(columns.moments(weights))
    if loss < state.loss:
        kept = weights > 0
        new |= {"points": np.concatenate([base, listed])[kept], "weights": weights[kept], "loss": loss}
    own = objective.shrink(solved.dual)
    inside = float(columns.values(own).max()) + 2 * grid.error(own)
    found, tops = price(grid, objective, own, inside)
    gap_left = loss - found
    fresh = len(tops) > 0
    bound, dual = state.bound, state.dual
    if dual is None or found > bound:
        bound, dual = max(bound, found), own
    else:
        between = (own + dual) / 2
        found, more = price(grid, objective, between, inside)
        tops = np.concatenate([tops, more])
        if found > bound:
            bound, dual = found, between
    room = columns.values(own)[len(base) :] + gap_left / IDLE
    known = np.ravel_multi_index(tuple(base.T), grid.shape)
    tops = tops[~np.isin(np.ravel_multi_index(tuple(tops.T), grid.shape), known)]
    new |= {"bound": bound, "dual": dual} | _exchange(grid, state, listed, room < inside, tops)
    vars(state).update(new)  # one step, so that an interrupt leaves one round or the next
    if solved.status == "stopped":
        return "stopped"
    return None if fresh or (solved.status == "gap" and tolerance > gap / 4) else "stalled"


def _exchange(grid: Grid, state: State, listed: Integers, useless: NDArray[np.bool_], tops: Integers) -> dict[str, Any]:
    """New points in, points that were of no use for some rounds out: the state's list."""
    idle = np.where(useless, state.idle + 1, 0)
    stay = idle < PATIENCE
    points = np.concatenate([listed[stay], tops])
    ages = np.concatenate([idle[stay], np.zeros(len(tops), dtype=np.int64)])
    once = np.unique(np.ravel_multi_index(tuple(points.T), grid.shape), return_index=True)[1]
    return {"listed": points[once], "idle": ages[once]}


def _prune(weights: Floats) -> Floats:
    """Without the points that together weigh next to nothing; the sum stays 1."""
    order = np.argsort(weights, kind="stable")
    kept = weights.copy()
    kept[order[np.cumsum(weights[order]) <= DROPPED]] = 0
    return np.asarray(kept / kept.sum())


def price(grid: Grid, objective: Objective, dual: Floats, above: float = math.inf) -> tuple[float, Integers]:
    """A lower bound of F over all distributions on the grid, from any y; and the columns that would improve it.

    Args:
        grid: the columns.
        objective: F.
        dual: y, float[R]; shrunk into the dual unit ball first.
        above: local maxima of y W above this are returned.

    Returns:
        (bound, int[n, d] points, at most R).
    """
    y = objective.shrink(dual)
    priced = grid.price(y, above, grid.rows)
    slack = grid.error(y) + 2 * len(y) * _ULP * float(np.abs(y) @ np.abs(objective.target))
    return float(y @ objective.target) - priced.largest - slack, priced.points
