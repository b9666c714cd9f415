"""The linear program: a distribution u on the support whose moments W u are closest to the noisy ones.

    min sum_{r > 0} w_r (p_r + q_r)   with   W u + p - q = b,   sum u = 1,   u, p, q >= 0

b_r is a noisy sum over the noisy count; row r = 0 is the mass and holds exactly. b is not clipped: clipping changes the
law of the noise. l1 is maximum likelihood for Laplace noise; l2 and linf, for the others, have the same form.

Two ways: ``solve_interior`` takes columns that exist as products only, ten thousands of them, and any of the norms;
``fit_distribution`` gives HiGHS the whole matrix, for l1.

Numerics: interior points without crossover: among the best distributions they give one in the middle, spread over many
points, where a vertex would sit on as few points as there are moments.
Source:   [J] Algorithm 3, step 20; without its rounding to a grid, which only bounds the number of bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import highspy
import numpy as np
from scipy import linalg, sparse

from duckdp.errors import NumericalError
from duckdp.synthetic.lp.make.columns import Floats

TIME_LIMIT = 60.0  # seconds
MAX_STEPS = 150  # of the interior-point method, which stops before where DOUBLEs say no more
EXHAUSTED = 1e-18  # of the first gap: below it all is rounding
Norm = Literal["l1", "l2", "linf"]
_STATUS = {
    highspy.HighsModelStatus.kTimeLimit: ("time limit", "Take a summary of a smaller degree or fewer columns."),
    highspy.HighsModelStatus.kInterrupt: ("interrupted", "Call again."),
}


@dataclass(frozen=True)
class Distribution:
    """A distribution on the grid that the program found.

    Attributes:
        weights: float[C], at least 0, sum 1.
        residual: l1 distance of its moments from the noisy ones, as means.
    """

    weights: Floats
    residual: float


def fit_distribution(moments: Floats, target: Floats) -> Distribution:
    """Find the distribution whose moments come closest, by interior points.

    Args:
        moments: W, float[R, C]; row 0 is all ones.
        target: b, float[R]; target[0] is 1.

    Raises:
        NumericalError: N101, the solver did not reach an answer.
    """
    solver = highspy.Highs()
    for name, value in (
        ("output_flag", False),
        ("solver", "ipm"),
        ("run_crossover", "off"),
        ("threads", 1),
        ("time_limit", TIME_LIMIT),
    ):
        solver.setOptionValue(name, value)
    solver.passModel(_model(moments, target))
    solver.run()
    status = solver.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        known, advice = _STATUS.get(status, (solver.modelStatusToString(status), "Take a summary of a smaller degree."))
        raise NumericalError("N101", f"the linear program was not solved ({known}).", status=known, advice=advice)
    weights = np.clip(np.array(solver.getSolution().col_value)[: moments.shape[1]], 0, None)
    weights /= weights.sum()
    return Distribution(weights, float(np.sum(np.abs(moments @ weights - target))))


def _model(moments: Floats, target: Floats) -> highspy.HighsLp:
    rows, points = moments.shape
    slack = sparse.vstack([sparse.csc_array((1, rows - 1)), sparse.eye_array(rows - 1)])
    matrix = sparse.hstack([sparse.csc_array(moments), slack, -slack], format="csc")
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = matrix.shape
    model.col_cost_ = np.concatenate([np.zeros(points), np.ones(2 * (rows - 1))])
    model.col_lower_ = np.zeros(matrix.shape[1])
    model.col_upper_ = np.full(matrix.shape[1], highspy.kHighsInf)
    model.row_lower_ = model.row_upper_ = target
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    return model


class Columns(Protocol):
    """Columns of the program, W float[R, C], by what is needed of them."""

    size: int

    def values(self, dual: Floats) -> Floats:
        """The dual's value at each column of the program, y W, float[C]."""

    def moments(self, weights: Floats) -> Floats:
        """The moments of weights on the columns, W u, float[R]."""

    def gram(self, diagonal: Floats) -> Floats:
        """W diag(x) W', float[R, R]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Objective:
    """What is minimised: F(u) = |w (W u - b)| over the rows r > 0, in one of three norms.

    l1 is maximum likelihood for Laplace noise, l2 for Gaussian, linf for cube noise, with w_r = 1 / (sd of row r).

    Attributes:
        target: b, float[R]; target[0] is 1, the mass.
        norm: of the weighted residual.
        weights: w, float[R - 1], above 0.
    """

    target: Floats
    norm: Norm
    weights: Floats

    def loss(self, moments: Floats) -> float:
        """What is minimised, F, from the moments W u."""
        residual = self.weights * np.abs(moments - self.target)[1:]
        if self.norm == "l1":
            return float(residual.sum())
        return float(np.sqrt(residual @ residual) if self.norm == "l2" else residual.max(initial=0.0))

    def shrink(self, dual: Floats) -> Floats:
        """The nearest useful y with y_0 = 0 and |y / w| at most 1 in the dual norm (linf, l2, l1).

        For l2 the scale does not matter, so y is brought to norm 1; rounding is outweighed by a factor 1 - 1e-12.
        """
        scaled = dual[1:] / self.weights
        if self.norm == "l1":
            return np.concatenate([[0.0], self.weights * np.clip(scaled, -1, 1)])
        size = float(np.sqrt(scaled @ scaled) if self.norm == "l2" else max(1.0, np.abs(scaled).sum()))
        return np.concatenate([[0.0], dual[1:] * ((1 - 1e-12) / size if size > 0 else 0.0)])


@dataclass(frozen=True, kw_only=True, eq=False)
class Restricted:
    """A solution over some columns.

    Attributes:
        weights: u, float[C], at least 0, sum 1.
        dual: y, float[R]; y_0 is minus the largest y W over the columns, when solved.
        loss: F(u).
        bound: lower bound of F over these columns only.
        iterations: steps of the method.
        status: "gap", "enough", "stopped", "stalled".
    """

    weights: Floats
    dual: Floats
    loss: float
    bound: float
    iterations: int
    status: str


def solve_interior(
    columns: Columns,
    objective: Objective,
    *,
    tolerance: float,
    enough: float = 0.0,
    should_stop: Callable[[], bool] | None = None,
) -> Restricted:
    """Minimise F over a set of columns: a primal-dual interior point method that never needs W itself.

        min c x + y'Q y / 2   with   A x + Q y = b,  x >= 0;   A = [W E], dual A'y + s = c, s >= 0

    E holds the few columns that measure the residual (``_frame``). Each step solves (A diag(x / s) A' + Q) dy = ...,
    where W diag(.) W' comes from ``columns.gram``: R x R, whatever the number of columns. Both sides start feasible
    and stay so, so every step has a distribution and a bound, and may be the last.

    Numerics: rounding may leave A x slightly off b and y slightly infeasible; u is scaled to mass 1 and F is computed
    from it anew, and no bound over a whole grid relies on this method (``generation`` certifies its own).
    Source: Mehrotra, "On the implementation of a primal-dual interior point method", SIAM J. Optimization 2(4), 1992.

    Args:
        columns: the columns.
        objective: F.
        tolerance: stop when F - bound <= tolerance F.
        enough: stop when F is at most this.
        should_stop: asked before every step.
    """
    frame = _frame(columns, objective)
    x, y, s = frame.x, frame.y, frame.s
    best: tuple[float, Floats] = (np.inf, x[: columns.size])
    bound, dual, small = -np.inf, y, 0
    least = EXHAUSTED * float(x @ s)
    status = "stalled"
    for steps in range(MAX_STEPS):  # noqa: B007
        moments = columns.moments(x[: columns.size])
        loss = objective.loss(moments / moments[0])
        if loss < best[0]:
            best = loss, x[: columns.size]
        found = frame.bound(y, s)
        if found > bound:
            bound, dual = found, y
        if best[0] - bound <= tolerance * best[0] or best[0] <= enough:
            status = "enough" if best[0] <= enough else "gap"
            break
        if should_stop is not None and should_stop():
            status = "stopped"
            break
        moved = _step(frame, x, y, s, moments) if float(x @ s) > least else None
        if moved is None:
            break
        x, y, s, length = moved
        small = small + 1 if length < 1e-5 else 0
        if small == 3:
            break
    weights = best[1] / best[1].sum()
    return Restricted(
        weights=weights,
        dual=dual[: len(objective.target)],
        loss=objective.loss(columns.moments(weights)),
        bound=bound,
        iterations=steps,
        status=status,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Frame:
    """The program around W: extra columns E, costs, Q, right-hand side, and a strictly feasible start."""

    columns: Columns
    objective: Objective
    extra: sparse.csc_array
    quadratic: Floats
    right: Floats
    x: Floats
    y: Floats
    s: Floats

    def apply(self, x: Floats) -> Floats:
        """A x."""
        return self.joined(self.columns.moments(x[: self.columns.size]), x)

    def joined(self, moments: Floats, x: Floats) -> Floats:
        """A x, when W u is known."""
        found = np.asarray(self.extra @ x[self.columns.size :])
        found[: len(moments)] += moments
        return found

    def transposed(self, y: Floats) -> Floats:
        """A' y."""
        return np.concatenate([self.columns.values(y[: len(self.objective.target)]), self.extra.T @ y])

    def normal(self, diagonal: Floats) -> Floats:
        """A diag(.) A' + Q."""
        size = self.columns.size
        found: Floats = (self.extra.multiply(diagonal[size:]) @ self.extra.T).toarray()
        rows = len(self.objective.target)
        found[:rows, :rows] += self.columns.gram(diagonal[:size])
        found[np.diag_indices(len(found))] += self.quadratic
        return found

    def bound(self, y: Floats, s: Floats) -> float:
        """A lower bound of F over the columns: shrunk y . b - max y W, the maximum read off s = -(y W)."""
        rows = len(self.objective.target)
        shrunk = self.objective.shrink(y[:rows])
        place = int(np.argmax(np.abs(y[1:rows])))
        whole = float(y[1 + place])
        scale = 1.0 if self.objective.norm == "l1" or whole == 0 else float(shrunk[1 + place]) / whole
        return float(shrunk @ self.objective.target) + scale * float(y[0] + s[: self.columns.size].min())


def _frame(columns: Columns, objective: Objective) -> _Frame:
    """Set up a norm.

    l1:   W u + p - q = b, p and q cost w.
    l2:   W u + y / w^2 = b in the rows r > 0: the dual variable is the weighted residual, the cost F^2 / 2.
    linf: W u + (p - q) / 2 = b and p_r + q_r - 2 z / w_r = 0, z costs 1.
    """
    target, w, count = objective.target, objective.weights, len(objective.target) - 1
    u = np.full(columns.size, 1.0 / columns.size)
    gap = (target - columns.moments(u))[1:]
    eye = sparse.vstack([sparse.csc_array((1, count)), sparse.eye_array(count)], format="csc")
    quadratic, right = np.zeros(count + 1), target
    if objective.norm == "l1":
        start = 0.1 * float(np.mean(np.abs(gap))) + 1e-9 / float(np.mean(w))
        extra = sparse.hstack([eye, -eye], format="csc")
        cost = np.concatenate([w, w])
        x = np.concatenate([np.maximum(gap, 0) + start, np.maximum(-gap, 0) + start])
        y = np.concatenate([[-float(np.mean(w))], np.zeros(count)])
    elif objective.norm == "l2":
        extra, cost, x = sparse.csc_array((count + 1, 0)), np.zeros(0), np.zeros(0)
        quadratic = np.concatenate([[0.0], w**-2])
        y = np.concatenate([[0.0], w**2 * gap])
        values = columns.values(y)
        y[0] = -float(values.max()) - 0.3 * float(np.ptp(values)) - 1e-9
    else:
        below = sparse.vstack([sparse.csc_array((count + 1, count)), sparse.eye_array(count)])
        half = sparse.vstack([eye / 2, sparse.csc_array((count, count))])
        last = np.concatenate([np.zeros(count + 1), -2 / w])
        extra = sparse.hstack([half + below, below - half, sparse.csc_array(last[:, None])], format="csc")
        quadratic, right = np.zeros(2 * count + 1), np.concatenate([target, np.zeros(count)])
        largest = 1.5 * float(np.max(w * np.abs(gap), initial=0.0)) + 1e-9
        cost = np.concatenate([np.zeros(2 * count), [1.0]])
        x = np.concatenate([largest / w + gap, largest / w - gap, [largest]])
        spread = 1 / (4 * float(np.sum(1 / w)))
        y = np.concatenate([[-float(np.mean(w)) / count], np.zeros(count), np.full(count, -spread)])
    frame = _Frame(
        columns=columns,
        objective=objective,
        extra=extra,
        quadratic=quadratic,
        right=right,
        x=np.concatenate([u, x]),
        y=y,
        s=np.zeros(0),
    )
    return replace(frame, s=np.concatenate([np.zeros(columns.size), cost]) - frame.transposed(y))


def _step(
    frame: _Frame, x: Floats, y: Floats, s: Floats, moments: Floats
) -> tuple[Floats, Floats, Floats, float] | None:
    """One predictor and corrector step; None when the matrix cannot be factored any more."""
    mean = float(x @ s) / len(x)
    residual = frame.right - frame.joined(moments, x) - frame.quadratic * y
    matrix = frame.normal(x / s)
    matrix[np.diag_indices(len(matrix))] += 1e-14 * np.trace(matrix) / len(matrix)
    try:  # NumPy's, as its products: NumPy and SciPy bring a thread pool each, and the two get in each other's way
        factor = np.linalg.cholesky(matrix), True
    except np.linalg.LinAlgError:
        return None

    def solve(products: Floats) -> tuple[Floats, Floats, Floats]:
        dy = linalg.cho_solve(factor, residual - frame.apply(products / s))
        ds = -frame.transposed(dy)
        return (products - x * ds) / s, dy, ds

    dx, _, ds = solve(-x * s)
    ahead = float((x + _length(x, dx) * dx) @ (s + _length(s, ds) * ds)) / len(x)
    dx, dy, ds = solve((ahead / mean) ** 3 * mean - x * s - dx * ds)
    primal, dual = _length(x, dx), _length(s, ds)
    keep = 0.9995 if min(primal, dual) > 0.9 else 0.99
    primal, dual = min(1.0, keep * primal), min(1.0, keep * dual)
    if frame.objective.norm == "l2":  # x and y share an equation
        primal = dual = min(primal, dual)
    return x + primal * dx, y + dual * dy, s + dual * ds, min(primal, dual)


def _length(value: Floats, change: Floats) -> float:
    """The longest step, at most 1, that keeps all values at least 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steps = np.where(change < 0, -value / change, 1.0)
    return float(min(1.0, steps.min()))
