"""Neighbouring tables through SQL: sums of products, counts of bins and steps of regressions stay below their epsilon.

As ``audits.py`` says; the tables differ by one unit of many rows, far from all others. Twins: a tenth or a thirtieth of
the noise; rows of a unit that all count. Exact losses: test_losses.py, and the functions' own tests.

Of a regression z is looked at where the unit is. One in ten of the rows there are ones, so at the fit a row of the unit
moves the gradient by 0.9, and the gradient itself is near 0: no step is cut, and noise in the curvature counts for
little. By this the unit's two rows move z by a fifth of a standard deviation of the last stage's noise, and by six of
a thirtieth of it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from tests.privacy.audits import EPSILON, RUNS, TWIN_RUNS, lower_bound

pytestmark = pytest.mark.slow

Rows = list[tuple[int, float, float]]
ROWS: Rows = [(i, 0.0, 0.0) for i in range(6)]
ONE_MORE: Rows = [(99, 10.0, 10.0)] * 20
# where all rows of a unit count: more of them, among others whose own statistic the noise does not hide
CROWD: Rows = [(i, 0.0, 0.0) for i in range(60)]
# of a regression: half of those at one end are ones, a tenth of those at the other
FITTED: Rows = [(i, 0.0, 10.0 * (i % 2)) for i in range(200)] + [
    (i, 10.0, 10.0 * (i % 10 == 0)) for i in range(200, 400)
]
FAR: Rows = [(999, 10.0, 10.0)] * 1600
CALLS = {
    "covariance": "SELECT value FROM dp_covariance('t', 'x', 'y', epsilon := 1, fresh := true)",
    "histogram": "SELECT value FROM dp_histogram('t', 'x', bins := 2, epsilon := 1, fresh := true) WHERE bin_start = 5",
    "regression": "SELECT sum(CASE term WHEN 'x' THEN 10 * value ELSE value END) "
    "FROM dp_logistic_regression('t', 'y > 5', ['x'], epsilon := 1, fresh := true)",  # z at x = 10
}


def _prepare(twin: str | None) -> None:
    """Fewer draws for intervals, which nobody looks at; a part of the package replaced by a broken one."""
    from dataclasses import replace
    from fractions import Fraction

    from duckdp.compiler import bin_counts, logistic_steps, moment_rows
    from duckdp.core import momentbars
    from duckdp.mechanisms import additive, second_moments

    momentbars.DRAWS = (400, 400)
    if twin in ("a tenth of the noise", "a thirtieth of the noise"):
        plain, rates = additive.laplace_scale, logistic_steps.cube_rate
        wider = lambda epsilon, l1: plain(10 * Fraction(epsilon), l1)  # noqa: E731
        additive.laplace_scale = second_moments.laplace_scale = wider  # type: ignore[attr-defined]
        logistic_steps.cube_rate = lambda e, linf, size: rates(30 * Fraction(e), linf, size)  # type: ignore[attr-defined]
    elif twin == "all rows of a unit":
        for kind, name, old in (
            (moment_rows.MomentRows, "read", "WHEN n > 2 THEN"),
            (bin_counts.BinCounts, "query", "greatest(w, 2)"),
            (logistic_steps.LogisticSteps, "step_query", "WHEN n > 2 THEN"),
        ):
            new = "WHEN n > 2000 THEN" if old.startswith("WHEN") else "greatest(2, 2)"
            asked = getattr(kind, name)

            def other(self: Any, *given: Any, asked: Any = asked, old: str = old, new: str = new) -> Any:
                query = asked(self, *given)
                return replace(query, sql=query.sql.replace(old, new))

            setattr(kind, name, other)


def _measure(call: str, runs: int, twin: str | None = None) -> float:
    rows, more = (CROWD, 7 * ONE_MORE) if twin == "all rows of a unit" else (ROWS, ONE_MORE)
    if call == "regression":
        rows, more = FITTED, FAR
    tables = [pa.table(dict(zip(("id", "x", "y"), zip(*r, strict=True), strict=True))) for r in (rows, rows + more)]
    bounds = {"x": (0, 10), "y": (0, 10)}
    name = f"{call}, {twin or 'as shipped'}"
    return lower_bound(
        name,
        (tables[0], tables[1]),
        CALLS[call],
        runs,
        partial(_prepare, twin),
        max_rows=2,
        row_cap=2000,
        bounds=bounds,
    )


@pytest.mark.parametrize("call", CALLS)
def test_the_empirical_epsilon_is_below_the_claim(call: str) -> None:
    assert _measure(call, RUNS) <= EPSILON


@pytest.mark.parametrize(
    ("call", "twin"),
    [
        ("covariance", "a tenth of the noise"),
        ("histogram", "a tenth of the noise"),
        ("regression", "a thirtieth of the noise"),
        *((call, "all rows of a unit") for call in CALLS),
    ],
)
def test_a_broken_twin_is_caught(call: str, twin: str) -> None:
    assert _measure(call, TWIN_RUNS, twin) > EPSILON
