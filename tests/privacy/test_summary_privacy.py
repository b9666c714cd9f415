"""Audit of the smooth-query summary on neighbouring tables, and of twins of it that are broken on purpose.

The statistic is the log-likelihood ratio of the two tables under noise of the stated law and scale, the best one for
telling them apart. An audit never exceeds the charge by more than FALSE_ALARM = 1e-9 per call (10 calls: 1e-8 per run);
the twins exceed it by so much that they pass with a far smaller probability.
"""

import dataclasses

import numpy as np
import pytest

from duckdp.core.types import Neighbours
from duckdp.smooth import moments
from duckdp.smooth.summary import SmoothSummary, plan_summary
from tests.privacy.statistics import epsilon_lower_bound
from tests.smooth.tables import column, connect, run, table

pytestmark = pytest.mark.slow

DRAWS = 12_000
ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
SHARED = "SELECT (i % 10) / 10.0 AS a, i + 100 AS k FROM range(20) r(i)"


def exact_rows(task, sql):
    with connect() as con:
        con.execute(f"CREATE TABLE t AS SELECT a::DOUBLE AS a, k::INTEGER AS k FROM ({sql})")
        return run(con, task.query(salt=1))


def audit(task, first, second):
    """Lower bound of epsilon for releases of two tables given as SQL."""
    rows = [exact_rows(task, sql) for sql in (first, second)]
    b, c = (np.array(r[0], dtype=float) for r in rows)
    samples = []
    for exact in rows:
        y = np.array([SmoothSummary.load(task.release(exact)).moments for _ in range(DRAWS)], dtype=float)
        norm = np.sum if task.noise.family == "laplace" else np.max
        ratio = (norm(np.abs(y - b), axis=1) - norm(np.abs(y - c), axis=1)) / task.noise.scale
        samples.append(np.rint(1e6 * ratio).astype(np.int64).tolist())
    return epsilon_lower_bound(*samples)


def plan(degree, neighbours=ADD_REMOVE, epsilon_nano=10**9, nullable=False, noise="laplace", **more):
    tab = table(column("a", nullable=nullable), row_cap=1000, **more)
    return plan_summary(tab, ["a"], epsilon_nano=epsilon_nano, neighbours=neighbours, degree=degree, noise=noise)


WORST = -0.25  # u of the row furthest from u = 1 for t = 3: there sin a + 2 sin 2a = 0
CASES = {
    "a row added": (plan(2), SHARED, f"{SHARED} UNION ALL SELECT 1.0, 7"),
    "a row added, larger epsilon": (plan(2, epsilon_nano=2 * 10**9), SHARED, f"{SHARED} UNION ALL SELECT 1.0, 7"),
    "a heavy unit added": (
        plan(2, unit_key="k", max_rows=3), SHARED, f"{SHARED} UNION ALL SELECT 1.0, 7 FROM range(50)"
    ),
    "a row added, cube": (plan(2, noise="cube"), SHARED, f"{SHARED} UNION ALL SELECT 1.0, 7"),
    "a heavy unit added, cube": (
        plan(3, noise="cube", unit_key="k", max_rows=3), SHARED, f"{SHARED} UNION ALL SELECT 1.0, 7 FROM range(50)"
    ),
    "a row replaced, cube": (
        plan(2, REPLACE, noise="cube"), f"{SHARED} UNION ALL SELECT 1.0, 7", f"{SHARED} UNION ALL SELECT 0.0, 7"
    ),
    "a row replaced": (
        plan(3, REPLACE), f"{SHARED} UNION ALL SELECT 1.0, 7", f"{SHARED} UNION ALL SELECT {(WORST + 1) / 2}, 7"
    ),
    "a row replaced by NULL": (
        plan(2, REPLACE, nullable=True), f"{SHARED} UNION ALL SELECT 1.0, 7", f"{SHARED} UNION ALL SELECT NULL, 7"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_neighbours_cannot_be_told_apart_beyond_epsilon(name):
    task, first, second = CASES[name]
    found = audit(task, first, second)
    epsilon = task.epsilon_nano / 1e9
    assert found <= epsilon
    assert found > (0.35 if "NULL" in name else 0.6) * epsilon  # the audit has power; a dropped row moves 2 of l1 = 3


def test_a_unit_that_is_not_weighed_is_caught(monkeypatch):
    monkeypatch.setattr(
        moments, "_print_weights",
        lambda sql, m, bits: f"(SELECT s.*, CAST({1 << bits} AS DOUBLE) AS w FROM {sql} AS s)",
    )  # fmt: skip
    task, first, second = CASES["a heavy unit added"]
    assert audit(task, first, second) > 2


@pytest.mark.parametrize("name", ["a row added", "a row replaced"])
def test_too_small_a_scale_is_caught(name):
    task, first, second = CASES[name]
    assert (
        audit(
            dataclasses.replace(task, noise=dataclasses.replace(task.noise, scale=task.noise.scale / 3)), first, second
        )
        > 1.3
    )


def test_a_cube_of_half_the_sensitivity_is_caught():
    task, first, second = CASES["a row added, cube"]
    twin = dataclasses.replace(
        task,
        sensitivity=dataclasses.replace(task.sensitivity, linf=task.sensitivity.linf // 3),
        noise=dataclasses.replace(task.noise, scale=task.noise.scale / 3),
    )
    assert audit(twin, first, second) > 1.3


def test_a_count_wrongly_taken_as_public_gives_the_row_away():
    task, first, second = CASES["a row replaced by NULL"]
    twin = dataclasses.replace(task, count_public=True)
    counts = {SmoothSummary.load(twin.release(exact_rows(twin, sql))).count for sql in (first, second)}
    assert counts == {20, 21}
