"""Audit of the smooth-query summary on neighbouring tables, and of twins of it that are broken on purpose.

The statistic is the log-likelihood ratio of the two tables under noise of the stated law and scale, the best one for
telling them apart. An audit never exceeds the charge by more than FALSE_ALARM = 1e-9 per call (20 calls: 2e-8 per run);
the twins exceed it by so much that they pass with a far smaller probability.
"""

import dataclasses

import duckdb
import numpy as np
import pytest

import duckdp
from duckdp.core.accountant import rho_for
from duckdp.core.types import Neighbours
from duckdp.smooth.buy.counted import plan_counted
from duckdp.smooth.buy.summary_task import plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.summary import SmoothSummary
from duckdp.smooth.sums import scan
from tests.privacy.statistics import epsilon_lower_bound
from tests.smooth.tables import column, connect, table

pytestmark = pytest.mark.slow

DRAWS = 12_000
DELTA = 10**15  # 1e-3, so that 12,000 draws see it
ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
SHARED = "SELECT (i % 10) / 10.0 AS a, i + 100 AS k FROM range(20) r(i)"


def exact_rows(task, sql):
    with connect() as con:
        con.execute(f"CREATE TABLE t AS SELECT a::DOUBLE AS a, k::INTEGER AS k FROM ({sql})")
        query = task.query(1)
        return con.execute(query.sql, list(query.parameters)).fetchall()


def loss(noise, y, b, c):
    """log p(y | b) / p(y | c) of the stated law, float[draws]."""
    total = np.zeros(len(y))
    for group, scale in enumerate(noise.scales):
        mine = noise.groups == group
        near, far = np.abs(y[:, mine] - b[mine]), np.abs(y[:, mine] - c[mine])
        if noise.family == "gaussian":
            total += ((far**2).sum(axis=1) - (near**2).sum(axis=1)) / (2 * scale**2)
        else:
            norm = np.sum if noise.family == "laplace" else np.max
            total += (norm(far, axis=1) - norm(near, axis=1)) / scale
    return total


def audit(task, first, second):
    """Lower bound of epsilon for releases of two tables given as SQL."""
    rows = [exact_rows(task, sql) for sql in (first, second)]
    kept = 1 if task.count_public else 0
    b, c = (np.array(task.moments.collect(iter(r))[kept:], dtype=float) for r in rows)
    samples = []
    for exact in rows:
        found = [SmoothSummary.load(task.release(iter(exact))).moments[kept:] for _ in range(DRAWS)]
        ratio = loss(task.plan.noise, np.array(found, dtype=float), b, c)
        samples.append(np.rint(1e6 * ratio).astype(np.int64).tolist())
    return epsilon_lower_bound(*samples, delta=task.loss.delta_atto / 1e18)


def plan(degree, neighbours=ADD_REMOVE, epsilon_nano=10**9, nullable=False, noise="laplace", **more):
    wishes = {k: more.pop(k) for k in ("weights", "path") if k in more}
    tab = table(column("a", nullable=nullable), row_cap=1000, **more)
    return plan_summary(
        tab,
        ["a"],
        epsilon_nano=epsilon_nano,
        neighbours=neighbours,
        delta_atto=DELTA if noise == "gaussian" else 0,
        wishes=Wishes(degree=degree, noise=noise, **{"weights": "uniform", **wishes}),
    )


WORST = -0.25  # u of the row furthest from u = 1 for t = 3: there sin a + 2 sin 2a = 0
ADDED = (SHARED, f"{SHARED} UNION ALL SELECT 1.0, 7")
REPLACED = (f"{SHARED} UNION ALL SELECT 1.0, 7", f"{SHARED} UNION ALL SELECT 0.0, 7")
HEAVY = (SHARED, f"{SHARED} UNION ALL SELECT 1.0, 7 FROM range(50)")
CASES = {
    "a row added": (plan(2), *ADDED),
    "a row added, larger epsilon": (plan(2, epsilon_nano=2 * 10**9), *ADDED),
    "a heavy unit added": (plan(2, unit_key="k", max_rows=3), *HEAVY),
    "a row added, cube": (plan(2, noise="cube"), *ADDED),
    "a row added, cube, levels": (plan(5, noise="cube", weights="smooth"), *ADDED),
    "a row added, gaussian": (plan(4, noise="gaussian"), *ADDED),
    "a row added, gaussian, levels": (plan(5, noise="gaussian", weights="smooth"), *ADDED),
    "a row added, cells": (plan(4, noise="cube", path="cells"), *ADDED),
    "a row added, blocks": (plan(4, noise="cube", path="blocks"), *ADDED),
    "a heavy unit added, cube": (plan(3, noise="cube", unit_key="k", max_rows=3), *HEAVY),
    "a heavy unit added, gaussian, levels": (
        plan(4, noise="gaussian", weights="smooth", unit_key="k", max_rows=3),
        *HEAVY,
    ),
    "a row replaced, cube": (plan(2, REPLACE, noise="cube"), *REPLACED),
    "a row replaced, gaussian": (plan(4, REPLACE, noise="gaussian"), *REPLACED),
    "a row replaced": (
        plan(3, REPLACE),
        f"{SHARED} UNION ALL SELECT 1.0, 7",
        f"{SHARED} UNION ALL SELECT {(WORST + 1) / 2}, 7",
    ),
    "a row replaced by NULL": (
        plan(2, REPLACE, nullable=True),
        f"{SHARED} UNION ALL SELECT 1.0, 7",
        f"{SHARED} UNION ALL SELECT NULL, 7",
    ),
}
POWER = {"a row replaced by NULL": 0.35, "heavy unit added, cube": 0.5, "gaussian": 0.0}  # see the test of rho


@pytest.mark.parametrize("name", CASES)
def test_neighbours_cannot_be_told_apart_beyond_epsilon(name):
    task, first, second = CASES[name]
    found = audit(task, first, second)
    epsilon = task.epsilon_nano / 1e9
    assert found <= epsilon
    assert found >= next((p for key, p in POWER.items() if key in name), 0.6) * epsilon  # the audit has power


def mean_loss(task, first, second):
    """Average of the loss over releases of the first table, and its standard error: rho for Gaussian noise."""
    b, c = (
        np.array(task.moments.collect(iter(exact_rows(task, sql)))[task.count_public :], dtype=float)
        for sql in (first, second)
    )
    rows = exact_rows(task, first)
    found = [SmoothSummary.load(task.release(iter(rows))).moments[task.count_public :] for _ in range(DRAWS // 4)]
    losses = loss(task.plan.noise, np.array(found, dtype=float), b, c)
    return float(losses.mean()), float(losses.std() / np.sqrt(len(losses)))


@pytest.mark.parametrize("name", [n for n in CASES if "gaussian" in n])
def test_gaussian_noise_costs_its_rho(name):
    """The mean loss is the sum of the groups' Delta^2 / (2 sigma^2): below rho; three times narrower, above."""
    task, first, second = CASES[name]
    rho = task.loss.rho_pico / 1e12
    mean, error = mean_loss(task, first, second)
    assert mean <= rho + 6 * error
    assert mean >= (0.2 if "levels" in name or "replaced" in name else 0.8) * rho - 6 * error
    mean, error = mean_loss(narrowed(task, 3), first, second)
    assert mean - 6 * error > 1.5 * rho


def narrowed(task, factor):
    """The same with noise of a fraction of its scale, drawn by the real samplers."""
    noise = dataclasses.replace(task.plan.noise, scales=tuple(s / factor for s in task.plan.noise.scales))
    budgets = tuple(b * factor for b in task.plan.budgets)  # a cube's rate is budget / linf
    return dataclasses.replace(task, plan=dataclasses.replace(task.plan, noise=noise, budgets=budgets))


def test_a_unit_that_is_not_weighed_is_caught(monkeypatch):
    task, first, second = CASES["a heavy unit added"]
    monkeypatch.setattr(
        scan,
        "_print_weights",
        lambda sql, names, m, bits: f"(SELECT {', '.join(names)}, CAST({1 << bits} AS DOUBLE) AS w FROM {sql} AS s)",
    )
    assert audit(task, first, second) > 2


@pytest.mark.parametrize(
    "name",
    ["a row added", "a row replaced", "a row added, cube", "a row added, cube, levels", "a row added, cells"],
)
def test_too_small_a_scale_is_caught(name):
    task, first, second = CASES[name]
    assert audit(narrowed(task, 3), first, second) > 1.3


def test_a_count_wrongly_taken_as_public_gives_the_row_away():
    task, first, second = CASES["a row replaced by NULL"]
    noise = dataclasses.replace(task.plan.noise, groups=task.plan.noise.groups[1:])
    twin = dataclasses.replace(task, count_public=True, plan=dataclasses.replace(task.plan, noise=noise))
    counts = {SmoothSummary.load(twin.release(iter(exact_rows(twin, sql)))).count for sql in (first, second)}
    assert counts == {20, 21}


def test_the_degree_from_a_noisy_count_does_not_tell_neighbours_apart():
    """Tables of 8 and 9 rows, where the degree changes from 2 to 3: how often each degree comes out."""
    task = plan_counted(
        table(column("a", nullable=False), row_cap=1000),
        ["a"],
        epsilon_nano=10**9,
        neighbours=ADD_REMOVE,
        delta_atto=0,
        wishes=Wishes(smoothness=1),
    )
    samples = []
    for n in (8, 9):
        rows = exact_rows(task, f"SELECT 0.5 AS a, 1 AS k FROM range({n})")
        exact = task.largest.exact(iter(rows))
        samples.append([task._degree(task._noisy_count(exact[0])) for _ in range(DRAWS)])
    assert epsilon_lower_bound(*samples) <= 1 / 20
    assert {2, 3} <= set(samples[0])


def through_sql(path, ledger, noise, delta, runs):
    """Noisy sums of so many charged runs of dp_smooth_summary, from text to stored release, and their law."""
    found = []
    with duckdp.open(path, ledger=ledger) as owner:
        owner.protect("t", row_cap=1000, bounds={"a": (0, 1)})
        owner.budget(epsilon=100_000, delta="0.9")
        owner.grant("ana", epsilon=100_000, delta="0.9")
        con, session = owner.connect("ana"), owner.session("ana")
        for i in range(runs):
            con.execute(
                f"FROM dp_smooth_summary('t', ['a'], epsilon := 1, delta := '{delta}', degree := 3, "
                f"noise := '{noise}', weights := 'uniform', name := 's{i}')"
            )
            summary = session.desk.summary(f"s{i}")
            found.append(summary.moments)
        assert len(owner.ledger.charges()) == runs
    return np.array(found, dtype=float), summary


@pytest.mark.parametrize(("noise", "delta"), [("laplace", "0"), ("cube", "0"), ("gaussian", "1e-3")])
def test_through_the_sql_function(noise, delta, tmp_path):
    samples = []
    rows = "SELECT (i / 10.0)::DOUBLE AS a FROM range(10) r(i)"
    for which, sql in enumerate((rows, f"{rows} UNION ALL SELECT 1.0")):
        path = str(tmp_path / f"{which}.duckdb")
        with duckdb.connect(path) as con:
            con.execute(f"CREATE TABLE t AS {sql}")
        runs = 3000 if delta == "0" else 800  # 0.8 of delta in all
        found, summary = through_sql(path, str(tmp_path / f"{which}.ledger"), noise, delta, runs)
        samples.append(found)
    u = np.arange(10) / 5 - 1
    b = np.stack([np.ones(10), u, 2 * u**2 - 1]).sum(axis=1) * 2.0**summary.bits
    c = b + 2.0**summary.bits
    losses = [loss(summary.noise, y, b, c) for y in samples]
    found = epsilon_lower_bound(*(np.rint(1e6 * x).astype(np.int64).tolist() for x in losses), delta=float(delta))
    assert found <= 1
    if noise != "gaussian":
        apart = losses[0].mean() - losses[1].mean()
        assert apart > 10 * sum(x.var() / len(x) for x in losses) ** 0.5  # it sees the row: 18 at least in 200 runs
        return
    rho = float(((b - c) ** 2).sum() / (2 * summary.noise.scales[0] ** 2))  # the mean of the loss, either way round
    assert rho <= rho_for(10**9, 10**15) / 1e12 * (1 + 1e-9)
    for losses_of, sign in zip(losses, (1, -1), strict=True):
        error = float(losses_of.std() / np.sqrt(len(losses_of)))
        assert abs(sign * float(losses_of.mean()) - rho) < 6 * error
