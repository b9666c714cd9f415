"""The program of Algorithm 3: time to its stop and to a certified gap, and against HiGHS.

Three columns, 100 values each (10^6 points), t functions per column, l1; rows of a smooth density or of six places,
Laplace noise of the right scale for epsilon 1 (t^3 for the sums, rows added or removed). ::

    stop       F <= expected l1 norm of the noise            gap   certified F - bound <= 1 % of F
    whole      interior points over all points at once, no column generation
    simplex    the same column generation with restricted programs in HiGHS, warm from round to round; smoothed: priced
               at the middle of the newest and the best dual
    512 x 10^4 a program small enough to be written out, against HiGHS's interior points and simplex

Words after the module's name choose tables: columns, ways (with the other ways: minutes), written, errors, theorem.
Times are processor seconds of one thread; run with OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import highspy
import numpy as np
from scipy import sparse
from scipy.special import ndtri

from duckdp.core.noise import laplace_noise
from duckdp.smooth.angles import angle_nodes, round_to_angles
from duckdp.synthetic.lp.make.columns import Floats, Grid, Integers, ListedColumns, TensorColumns
from duckdp.synthetic.lp.make.generation import GridDistribution, generate, price
from duckdp.synthetic.lp.make.interior import Norm, Objective, solve_interior
from duckdp.synthetic.theorem.parameters import theorem_17_bound

Table = list[tuple[str, ...]]
HEAD = ("program", "way", "until", "cpu s", "F", "bound", "gap %", "rounds", "points")
DIMENSIONS = 3  # columns
VALUES = 100  # of the grid, per column
DEGREES = (4, 6, 8)  # functions per column
SMOOTH, PLACES = "smooth", "six places"
# (what the rows are like, how many there are).
CASES = ((SMOOTH, 2_000), (SMOOTH, 20_000), (SMOOTH, 1_000_000), (PLACES, 20_000))
LIMIT = 60.0  # seconds for the ways that may not get there
GAP = 0.01  # relative distance from the optimum at which a solver may stop
OTHER_NORMS: tuple[Norm, ...] = ("l2", "linf")
_BITS = 20  # fixed point of the sums


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """A program and the level at which it may stop."""

    name: str
    grid: Grid
    target: Floats
    enough: float

    def objective(self, norm: Norm = "l1") -> Objective:
        """What the linear program minimises, every moment with the same weight."""
        return Objective(target=self.target, norm=norm, weights=np.ones(self.grid.rows - 1))


def make_problem(degree: int, rows: int, kind: str = SMOOTH, *, values: tuple[int, ...] = (VALUES,) * 3) -> Problem:
    """Noisy means of made-up rows, rounded to the grid."""
    columns = len(values)
    indices = np.stack(np.unravel_index(np.arange(degree**columns), (degree,) * columns), axis=1)
    functions = [np.polynomial.chebyshev.chebvander(angle_nodes(n), degree - 1).T for n in values]
    grid = Grid(axes=tuple(np.ascontiguousarray(v) for v in functions), indices=indices.astype(np.int64))
    data = _points(6 if kind == PLACES else rows)[:, :columns]
    counts = np.zeros(grid.size)
    positions = [np.searchsorted(angle_nodes(n), round_to_angles(data[:, i], n)) for i, n in enumerate(values)]
    np.add.at(counts, np.ravel_multi_index(tuple(positions), grid.shape), rows / len(data))
    scale = float(grid.rows)
    drawn = laplace_noise(grid.rows, scale * 2**_BITS)
    fixed = [round(s * 2**_BITS) + z for s, z in zip(grid.moments(counts).tolist(), drawn, strict=True)]
    noisy = np.array(fixed, dtype=np.float64)
    name = f"t = {degree}, n = {rows:,}, {kind}"
    return Problem(name=name, grid=grid, target=noisy / noisy[0], enough=scale * grid.rows / rows)


def _points(count: int) -> Floats:
    """Evenly spread rows of a correlated normal density, cut at -1 and 1: float[count, 3]."""
    root = 1.2207440846057596  # x^4 = x + 1: the additive recurrence that spreads best in three dimensions
    even = (0.5 + np.arange(1, count + 1)[:, None] * root ** -np.arange(1.0, DIMENSIONS + 1)) % 1
    mixing = 0.3 * np.eye(DIMENSIONS) + 0.1
    return np.asarray(np.clip(ndtri(np.clip(even, 1e-9, 1 - 1e-9)) @ mixing + 0.1, -1, 1))


def table(
    degrees: tuple[int, ...] = DEGREES, cases: tuple[tuple[str, int], ...] = CASES, *, slow_ways: bool = True
) -> Table:
    """Header and rows: column generation on every case; the other ways on 20,000 smooth rows."""
    found: Table = [HEAD]
    for degree in degrees:
        for kind, rows in cases:
            problem = make_problem(degree, rows, kind)
            found.append(_timed(problem, "columns", "stop", _to_the_stop))
            found.append(_timed(problem, "columns", "1 %", _to_the_gap))
        if slow_ways:
            found += _other_ways(make_problem(degree, 20_000))
    problem = make_problem(6, 20_000)
    for norm in OTHER_NORMS:
        found.append(_timed(problem, f"columns, {norm}", "1 %", partial(_to_the_gap, norm=norm)))
    return found


def written_out(*, simplex: bool = True) -> Table:
    """Header and rows: 512 functions x 10,164 points, solved to 1e-7 by interior points here and in HiGHS."""
    found: Table = [("way", "cpu s", "F", "of HiGHS's best")]
    for rows in (2_000, 20_000):
        problem = make_problem(8, rows, values=(22, 22, 21))
        matrix = problem.grid.columns(_every_point(problem.grid))
        times: list[tuple[str, float, float]] = []
        for name, columns in (("tensor", TensorColumns(problem.grid)), ("listed", ListedColumns(matrix))):
            start = time.process_time()
            solved = solve_interior(columns, problem.objective(), tolerance=1e-7)
            times.append((f"n = {rows:,}: {name} columns", time.process_time() - start, solved.loss))
        theirs = []
        for solver in ("ipm", "simplex") if simplex else ("ipm",):
            start = time.process_time()
            loss = _highs_whole(matrix, problem.target, solver)
            theirs.append(time.process_time() - start)
            times.append((f"n = {rows:,}: HiGHS {solver}", theirs[-1], loss))
        found += [(name, f"{s:.2f}", f"{loss:.6f}", f"{s / min(theirs):.3f}") for name, s, loss in times]
    return found


def _to_the_stop(problem: Problem) -> GridDistribution:
    return generate(problem.grid, problem.objective(), enough=problem.enough)


def _to_the_gap(problem: Problem, norm: Norm = "l1") -> GridDistribution:
    return generate(problem.grid, problem.objective(norm), gap=GAP)


def query_errors(cases: tuple[tuple[int, int], ...] = ((4, 20_000), (6, 2_000), (6, 20_000), (8, 20_000))) -> Table:
    """Header and rows: error of 300 Gaussian kernels (widths 0.7 to 2) on the fitted distribution, 3 draws of noise."""
    ways: tuple[tuple[str, Norm, bool], ...] = (
        ("l1, stop", "l1", True),
        ("l1, 1 %", "l1", False),
        ("l2, 1 %", "l2", False),
        ("linf, 1 %", "linf", False),
    )
    found: Table = [("program", "way", "largest error", "root mean square")]
    queries = _Kernels(dimensions=DIMENSIONS, least=0.7)
    for degree, rows in cases:
        true = queries.answers(_points(rows), np.full(rows, 1 / rows))
        errors: dict[str, list[Floats]] = {way: [] for way, _, _ in ways}
        for problem in [make_problem(degree, rows) for _ in range(3)]:
            for way, norm, stop in ways:
                made = _to_the_stop(problem) if stop else _to_the_gap(problem, norm)
                errors[way].append(queries.answers(angle_nodes(VALUES)[made.points], made.weights) - true)
        for way, rest in errors.items():
            largest = np.mean([np.abs(e).max() for e in rest])
            found.append((problem.name, way, f"{largest:.4f}", f"{math.sqrt(np.mean(np.square(rest))):.4f}"))
    return found


def theorem_errors(rows: int = 1_000_000) -> Table:
    """Header and rows: bound (22), for all functions of two bounded derivatives, and the error of 300 kernels."""
    found: Table = [("columns", "t", "moved", "approximation", "noise", "fit", "M", "bound", "largest error")]
    for columns, degree in ((1, 8), (1, 32), (2, 8), (2, 12), (3, 4), (3, 6)):
        problem = make_problem(degree, rows, values=(VALUES,) * columns)
        made = _to_the_gap(problem)
        bound = theorem_17_bound(
            rows=rows,
            dimensions=columns,
            smoothness=2,
            size=1.0,
            degree=degree,
            values=VALUES,
            scale=float(problem.grid.rows),
            fit=made.loss,
            failure=0.01,
        )
        queries = _Kernels(dimensions=columns, least=1.0)
        error = queries.answers(angle_nodes(VALUES)[made.points], made.weights)
        error -= queries.answers(_points(rows)[:, :columns], np.full(rows, 1 / rows))
        terms = (bound.discretization, bound.approximation, bound.noise, bound.fit, bound.coefficient, bound.total)
        cells = [f"{term:.3g}" for term in (*terms, float(np.abs(error).max()))]
        found.append((str(columns), str(degree), *cells))
    return found


@dataclass(frozen=True, kw_only=True)
class _Kernels:
    """300 queries exp(-|x - c|^2 / (2 w^2)), evenly spread centres, widths from ``least`` to ``least`` + 1.3."""

    dimensions: int
    least: float

    def answers(self, x: Floats, weights: Floats) -> Floats:
        """Weighted sums over rows: float[300]."""
        steps = np.arange(1, 301)
        centres = 2 * (steps[:, None] * np.sqrt([2, 3, 5])[: self.dimensions] % 1) - 1
        widths = self.least + 1.3 * (steps * math.sqrt(7) % 1)
        return np.array(
            [weights @ np.exp(-((x - c) ** 2).sum(axis=1) / (2 * w * w)) for c, w in zip(centres, widths, strict=True)]
        )


def _timed(problem: Problem, way: str, until: str, run: Callable[[Problem], GridDistribution]) -> tuple[str, ...]:
    start = time.process_time()
    made = run(problem)
    seconds = time.process_time() - start
    return _line(problem, way, until, seconds, made.loss, made.bound, made.rounds, len(made.weights))


def _line(
    problem: Problem, way: str, until: str, seconds: float, loss: float, bound: float, rounds: int, points: int
) -> tuple[str, ...]:
    gap = 100 * (loss - bound) / loss
    name = f"{problem.name}, level {problem.enough:.4g}"
    return (name, way, until, f"{seconds:.2f}", f"{loss:.5g}", f"{bound:.5g}", f"{gap:.2f}", str(rounds), str(points))


def _other_ways(problem: Problem) -> Table:
    lines = []
    for until, enough, gap in (("stop", problem.enough, 0.0), ("1 %", 0.0, GAP)):
        for way, smoothing in (("simplex", 0.0), ("simplex, smoothed", 0.5)):
            start = time.process_time()
            loss, bound, rounds, points = generate_by_simplex(problem, enough, gap, smoothing)
            seconds = time.process_time() - start
            missed = "" if loss <= enough or loss - bound <= gap * loss else f" (not in {LIMIT:.0f} s)"
            lines.append(_line(problem, way, until + missed, seconds, loss, bound, rounds, points))
        start = time.process_time()
        whole = solve_interior(TensorColumns(problem.grid), problem.objective(), tolerance=gap, enough=enough)
        seconds = time.process_time() - start
        points = int(np.sum(whole.weights > 0))
        lines.append(_line(problem, "whole", until, seconds, whole.loss, whole.bound, whole.iterations, points))
    return lines


def generate_by_simplex(
    problem: Problem, enough: float, gap: float, smoothing: float, *, most: int = 200, patience: int = 10
) -> tuple[float, float, int, int]:
    """Column generation with HiGHS: one instance, columns added and deleted, each round warm from the last basis.

    Args:
        problem: the program.
        enough: stop at this F.
        gap: or at this relative gap, or after LIMIT seconds.
        smoothing: share of the best dual in the one that is priced.
        most: columns added per round.
        patience: rounds a column may have a positive reduced cost before it is deleted.

    Returns:
        (F, bound, rounds, columns).
    """
    grid, objective = problem.grid, problem.objective()
    count = grid.rows - 1
    solver = _empty_master(problem.target)
    idle: Integers = np.zeros(0, dtype=np.int64)
    _add(solver, grid, _every_point(grid)[:: max(1, grid.size // (2 * grid.rows))])
    idle = np.zeros(solver.getNumCol() - 2 * count, dtype=np.int64)
    best, loss, bound, rounds = np.zeros(grid.rows), math.inf, 0.0, 0
    start = time.process_time()
    while time.process_time() - start < LIMIT:
        solver.run()
        solution = solver.getSolution()
        loss, rounds = float(solver.getInfo().objective_function_value), rounds + 1
        y = objective.shrink(np.array(solution.row_dual))
        inside = -float(solution.row_dual[0]) + 1e-9
        points = np.zeros((0, DIMENSIONS), dtype=np.int64)
        for priced in ([(1 - smoothing) * y + smoothing * best] if smoothing and rounds > 1 else []) + [y]:
            found, points = price(grid, objective, priced, inside)
            if found > bound:
                bound, best = found, priced
            if len(points):
                break
        if loss <= enough or loss - bound <= gap * loss or not len(points):
            break
        idle = np.where(np.array(solution.col_dual)[2 * count :] > 1e-9, idle + 1, 0)
        old = np.flatnonzero(idle >= patience)
        if len(old):
            solver.deleteCols(len(old), (old + 2 * count).astype(np.int32))
            idle = np.delete(idle, old)
        _add(solver, grid, points[:most])
        idle = np.concatenate([idle, np.zeros(len(points[:most]), dtype=np.int64)])
    return loss, bound, rounds, len(idle)


def _empty_master(target: Floats) -> highspy.Highs:
    """The residual's columns only."""
    count = len(target) - 1
    solver = highspy.Highs()
    for name, value in (("output_flag", False), ("threads", 1), ("solver", "simplex"), ("time_limit", LIMIT)):
        solver.setOptionValue(name, value)
    eye = sparse.vstack([sparse.csc_array((1, count)), sparse.eye_array(count)])
    solver.passModel(_model(sparse.hstack([eye, -eye], format="csc"), np.ones(2 * count), target))
    return solver


def _add(solver: highspy.Highs, grid: Grid, points: Integers) -> None:
    size = len(points)
    starts, rows = np.arange(size) * grid.rows, np.tile(np.arange(grid.rows), size)
    entries = grid.columns(points).T.ravel()
    zeros = np.zeros(size)
    infinite = np.full(size, highspy.kHighsInf)
    solver.addCols(size, zeros, zeros, infinite, len(entries), starts.astype(np.int32), rows.astype(np.int32), entries)


def _highs_whole(matrix: Floats, target: Floats, method: str) -> float:
    """F of the whole program by HiGHS."""
    count = len(target) - 1
    eye = sparse.vstack([sparse.csc_array((1, count)), sparse.eye_array(count)])
    solver = highspy.Highs()
    for name, value in (("output_flag", False), ("threads", 1), ("solver", method), ("run_crossover", "off")):
        solver.setOptionValue(name, value)
    cost = np.concatenate([np.zeros(matrix.shape[1]), np.ones(2 * count)])
    solver.passModel(_model(sparse.hstack([sparse.csc_array(matrix), eye, -eye], format="csc"), cost, target))
    solver.run()
    return float(solver.getInfo().objective_function_value)


def _model(matrix: sparse.csc_array, cost: Floats, target: Floats) -> highspy.HighsLp:
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = matrix.shape
    model.col_cost_, model.row_lower_, model.row_upper_ = cost, target, target
    model.col_lower_, model.col_upper_ = np.zeros(len(cost)), np.full(len(cost), highspy.kHighsInf)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    return model


def _every_point(grid: Grid) -> Integers:
    return np.stack(np.unravel_index(np.arange(grid.size), grid.shape), axis=1).astype(np.int64)


def main(words: list[str]) -> int:
    """Print the tables named by ``words``: columns, ways, written, errors, theorem; all by default."""
    ways: dict[str, Callable[[], Table]] = {
        "columns": lambda: table(slow_ways=False),
        "ways": table,
        "written": written_out,
        "errors": query_errors,
        "theorem": theorem_errors,
    }
    for word in words or list(ways):
        rows = ways[word]()
        lines = [rows[0], ("---",) * len(rows[0]), *rows[1:]]
        sys.stdout.write("\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
