"""Weighing error against noise: optimal against an independent solver, never worse than interpolation."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from duckdp.smooth.answer import answer
from duckdp.smooth.fit import tradeoff
from duckdp.smooth.fit.tradeoff import Problem, improve
from tests.smooth.tables import column, connect, summarize, table


def problem(weight, t=7, points=40):
    u = np.cos(np.linspace(0, np.pi, points))
    return Problem(np.exp(-((u - 0.3) ** 2) * 9), np.polynomial.chebyshev.chebvander(u, t - 1), np.full(t, weight))


def interpolant(p):
    return np.linalg.lstsq(p.matrix, p.values, rcond=None)[0]


def test_without_noise_it_is_the_minimax_polynomial():
    p = problem(0.0)
    n, r = p.matrix.shape
    rows = np.block([[p.matrix, -np.ones((n, 1))], [-p.matrix, -np.ones((n, 1))]])
    exact = linprog(np.eye(r + 1)[r], rows, np.concatenate([p.values, -p.values]), bounds=(None, None))
    assert p.total(improve(p, interpolant(p))) == pytest.approx(exact.fun, rel=2e-3)


@pytest.mark.parametrize("weight", [0.001, 0.05, 0.3, 1.0])
def test_totals_are_near_the_optimum_of_an_independent_solver(weight):
    p, start = problem(weight), interpolant(problem(weight))
    found = p.total(improve(p, start))
    cone = minimize(
        lambda z: z[-1] + np.sqrt(np.sum((weight * z[:-1]) ** 2) + 1e-18),
        np.append(start, p.error(start)),
        constraints=[
            {"type": "ineq", "fun": lambda z: z[-1] - (p.values - p.matrix @ z[:-1])},
            {"type": "ineq", "fun": lambda z: z[-1] + (p.values - p.matrix @ z[:-1])},
        ],
        method="SLSQP",
        options={"maxiter": 500},
    )
    assert found <= min(p.total(start), 1.02 * p.total(cone.x[:-1]))


def test_an_l1_surrogate_is_caught():
    """The broken twin: sum |w c| in place of |w c|_2 smooths more than it should."""
    p = problem(0.3, t=12)
    n, r = p.matrix.shape
    rows = np.block([[p.matrix, -p.matrix, -np.ones((n, 1))], [-p.matrix, p.matrix, -np.ones((n, 1))]])
    cost = np.concatenate([p.weights, p.weights, [1.0]])
    solved = linprog(cost, rows, np.concatenate([p.values, -p.values]))
    surrogate = solved.x[:r] - solved.x[r : 2 * r]
    assert p.total(improve(p, interpolant(p))) < 0.995 * p.total(surrogate)


def test_large_problems_and_failing_solvers_leave_the_start(monkeypatch):
    p = problem(0.1)
    start = interpolant(p)
    monkeypatch.setattr(tradeoff._Program, "solve", lambda _: None)
    assert improve(p, start) is start
    monkeypatch.setattr(tradeoff, "MAX_FUNCTIONS", 3)
    assert improve(p, start) is start


@pytest.mark.parametrize("epsilon", [0.1, 5.0])
@pytest.mark.parametrize("statistic", ["mean", "sum"])
def test_answers_are_never_wider_than_by_interpolation(epsilon, statistic):
    known = column("x", nullable=False), column("y", nullable=False)
    with connect() as con:
        con.execute("CREATE TABLE t AS SELECT random() AS x, random() AS y FROM range(4000)")
        summary = summarize(con, table(*known), ["x", "y"], degree=6, epsilon=epsilon)
        gains = []
        for text in ("exp(-power((x - 0.3) / 0.25, 2))", "x * y", "abs(x - 0.4)", "exp(-3 * x * y)", "x > 0.5"):
            true = con.execute(f"SELECT {'avg' if statistic == 'mean' else 'sum'}(CAST({text} AS DOUBLE)) FROM t")
            plain, best = (
                answer(summary, text, statistic=statistic, method=m, level=0.95) for m in ("interpolation", "best")
            )
            gains.append((best.high - best.low) / (plain.high - plain.low))
            truth, reach = true.fetchone()[0], 5 * (best.high - best.low) / 2  # noise that far: below 1e-9
            assert abs(best.value - truth) <= reach
    assert max(gains) <= 1
    assert min(gains) < 0.9  # 0.75 to 0.845, with a deviation of 0.001 over tables and noise
