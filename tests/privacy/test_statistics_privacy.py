"""Neighbouring tables through SQL: sums of products, counts of bins and steps of regressions stay below their epsilon.

Two curators hold tables that differ by one unit of many rows, far from all others; each is asked many times anew. What
tells them apart best on one half of the answers is measured on the other (statistics.epsilon_lower_bound). Twins: a
tenth or a hundredth of the noise; rows of a unit that all count. Exact losses: test_losses.py, and the functions' own
tests.

DUCKDP_RUNS sets how often each table is asked (3,000; of twins at most 600).
"""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pyarrow as pa
import pytest

import duckdp
from tests.privacy.statistics import epsilon_lower_bound

pytestmark = pytest.mark.slow

RUNS = min(20_000, int(os.environ.get("DUCKDP_RUNS", "3000")))
EPSILON = 1
ROWS = [(i, 0.0, 0.0) for i in range(6)]
ONE_MORE = [(99, 10.0, 10.0)] * 20
# where all rows of a unit count: more of them, among others whose own statistic the noise does not hide
CROWD = [(i, 0.0, 0.0) for i in range(60)]
CALLS = {
    "covariance": "SELECT value FROM dp_covariance('t', 'x', 'y', epsilon := 1, fresh := true)",
    "histogram": "SELECT value FROM dp_histogram('t', 'x', bins := 2, epsilon := 1, fresh := true) WHERE bin_start = 5",
    "regression": "SELECT value FROM dp_logistic_regression('t', 'y > 5', ['x'], epsilon := 1, fresh := true) "
    "LIMIT 1 OFFSET 1",  # the slope: a ridge holds the intercept
}


def _break(twin: str | None) -> None:
    """A part of the package replaced by a broken one, in this process."""
    from dataclasses import replace
    from fractions import Fraction

    from duckdp.compiler import bin_counts, logistic_steps, moment_rows
    from duckdp.mechanisms import additive, second_moments

    if twin in ("a tenth of the noise", "a hundredth of the noise"):
        plain, rates = additive.laplace_scale, logistic_steps.cube_rate
        wider = lambda epsilon, l1: plain(10 * Fraction(epsilon), l1)  # noqa: E731
        additive.laplace_scale = second_moments.laplace_scale = wider  # type: ignore[attr-defined]
        logistic_steps.cube_rate = lambda e, linf, size: rates(100 * Fraction(e), linf, size)  # type: ignore[attr-defined]
    elif twin == "all rows of a unit":
        for kind, name, old in (
            (moment_rows.MomentRows, "read", "WHEN n > 2 THEN"),
            (bin_counts.BinCounts, "query", "greatest(w, 2)"),
            (logistic_steps.LogisticSteps, "step_query", "WHEN n > 2 THEN"),
        ):
            new = "WHEN n > 200 THEN" if old.startswith("WHEN") else "greatest(2, 2)"
            asked = getattr(kind, name)

            def other(self: Any, *given: Any, asked: Any = asked, old: str = old, new: str = new) -> Any:
                query = asked(self, *given)
                return replace(query, sql=query.sql.replace(old, new))

            setattr(kind, name, other)


def _answers(rows: list[tuple[int, float, float]], call: str, runs: int, twin: str | None) -> list[float]:
    _break(twin)
    ids, x, y = zip(*rows, strict=True)
    with tempfile.TemporaryDirectory() as folder:
        frame = pa.table({"id": ids, "x": x, "y": y})
        with duckdp.open({"t": frame}, ledger=f"{folder}/ledger") as curator:
            curator.protect("t", unit_key="id", max_rows=2, row_cap=200, bounds={"x": (0, 10), "y": (0, 10)})
            curator.budget(epsilon=1_000_000)
            curator.grant("ana", epsilon=1_000_000)
            curator.engine.schema_cursor().execute("SET threads = 1")
            con = curator.connect("ana")
            found = (con.execute(call).fetchall()[0][0] for _ in range(runs))
            return [1000.0 if value is None else float(value) for value in found]


def _measure(call: str, runs: int, twin: str | None = None) -> float:
    rows, more = (CROWD, 7 * ONE_MORE) if twin == "all rows of a unit" else (ROWS, ONE_MORE)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        waiting: list[Any] = [pool.submit(_answers, r, CALLS[call], runs, twin) for r in (rows, rows + more)]
        first, second = (w.result() for w in waiting)
    return epsilon_lower_bound(first, second)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", CALLS)
def test_the_empirical_epsilon_is_below_the_claim(call: str) -> None:
    found = _measure(call, RUNS)
    print(f"{call}: epsilon of at least {found:.3f}, claimed {EPSILON}, {RUNS} runs a table")
    assert found <= EPSILON


@pytest.mark.parametrize(
    ("call", "twin"),
    [
        ("covariance", "a tenth of the noise"),
        ("histogram", "a tenth of the noise"),
        ("regression", "a hundredth of the noise"),  # of which three steps leave less in a slope
        *((call, "all rows of a unit") for call in CALLS),
    ],
)
def test_a_broken_twin_is_caught(call: str, twin: str) -> None:
    found = _measure(call, min(RUNS, 600), twin)
    print(f"{call}, {twin}: epsilon of at least {found:.3f}, claimed {EPSILON}")
    assert found > EPSILON
