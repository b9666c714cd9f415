"""dp_logistic_regression: what a unit changes in every step, values, intervals, faces, refusals, odd data."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler import logistic_steps as module
from duckdp.compiler.logistic_steps import SHARES, LogisticSteps
from duckdp.core.task import Stages
from duckdp.mechanisms.cube import cube_standard_error
from tests.gate import clinic, column, load, shared
from tests.privacy.draws import HIGH, KEYED, LOW, REPLACE, ROWS, _random_row
from tests.privacy.neighbouring import neighbouring
from tests.privacy.pair_moments import logistic

Rows = list[tuple[Any, ...]]
TASKS = {
    "units": lambda: logistic(KEYED, "smoker", ("age", "cost")),
    "rows, where": lambda: logistic(ROWS, "age > 50", ("income", "cost"), "smoker"),
    "rows, replaced": lambda: logistic(ROWS, "smoker", ("age",), neighbours=REPLACE),
}
PLACES = ([0.0, 0.0, 0.0], [0.3, -2.0, 5.0], [-20.0, 9.0, 1.0])


def sums(task: LogisticSteps, rows: Rows, at: list[float], sql: str | None = None) -> list[int]:
    """The exact sums of one step."""
    with shared() as con:
        load(con, clinic(), rows)
        query = task.step_query(at[: len(task.features) + 1])
        (row,) = con.execute(sql or query.sql, list(query.parameters)).fetchall()
    return [int(value or 0) for value in row]


# ---- what a unit can change


@pytest.mark.parametrize("name", TASKS)
def test_a_unit_changes_no_sum_by_more_than_is_noised(name: str) -> None:
    task = TASKS[name]()
    pairs = list(neighbouring(task.table, task.neighbours, 6, 2))
    far = [(99, *HIGH), (99, *LOW)] * 9
    if task.neighbours is REPLACE:
        pairs.append(([far[0]], [far[1]]))
    else:
        pairs.append(([], far if task.table.unit_key else far[:1]))
    for at in PLACES:
        for one, other in pairs:
            moved = max(abs(a - b) for a, b in zip(sums(task, one, at), sums(task, other, at), strict=True))
            spent = [moved * task.rate(stage) for stage in range(len(SHARES))]
            assert sum(spent) <= task.loss.epsilon
    assert sum(task.rate(stage) for stage in range(len(SHARES))) * moved > 0.2 * task.loss.epsilon


def test_twins_are_caught() -> None:
    """Rows of a unit that are not scaled; numbers of a row that are not clamped would show with doubles as these."""
    task, rows = TASKS["units"](), [(1, *_random_row(random.Random(i))) for i in range(40)]
    sql = task.step_query(PLACES[0]).sql
    twin = sql.replace("CASE WHEN n > 3 THEN", "CASE WHEN n > 300 THEN")
    assert twin != sql
    whole = sum(task.rate(stage) for stage in range(len(SHARES)))
    assert max(map(abs, sums(task, rows, PLACES[0]))) * whole <= task.loss.epsilon
    assert max(map(abs, sums(task, rows, PLACES[0], twin))) * whole > task.loss.epsilon


def test_the_shares_are_the_whole_and_no_more() -> None:
    assert sum(SHARES) == 1
    for name, reach in (("units", 3), ("rows, where", 1), ("rows, replaced", 2)):
        task = TASKS[name]()
        whole = sum(task.rate(stage) for stage in range(len(SHARES))) * (reach << module._BITS)
        assert task.loss.epsilon * (1 - 1e-8) < whole <= task.loss.epsilon


def test_every_sum_has_noise_of_its_own() -> None:
    rate = Fraction(1, 2**20)
    drawn = np.array([module._noised([0] * 6, rate) for _ in range(400)], dtype=float)
    assert drawn.std(axis=0) == pytest.approx(np.full(6, cube_standard_error(rate, 6)), rel=0.3)
    assert np.abs(np.corrcoef(drawn, rowvar=False) - np.eye(6)).max() < 0.35
    assert module._noised([None, 2**80], rate)[1] > 2**79


def test_sums_are_those_of_numpy() -> None:
    rows = [(i, *_random_row(random.Random(i))) for i in range(200)]
    task, at = logistic(ROWS, "smoker", ("age", "cost")), np.array(PLACES[1])
    with duckdb.connect() as con:
        load(con, clinic(), rows)
        data = np.array(con.execute("SELECT age, cost, smoker::INT FROM clinic").fetchall(), dtype=float)
    x = np.column_stack([np.ones(len(data)), data[:, 0] / 55 - 1, data[:, 1] / 2500 - 1])
    s = 1 / (1 + np.exp(-(x @ at)))
    curvature = (x * (4 * s * (1 - s))[:, None]).T @ x
    expected = [*(x.T @ (s - data[:, 2])), *curvature[np.triu_indices(3)]]
    assert np.array(sums(task, rows, at.tolist())) / 2.0**module._BITS == pytest.approx(expected, abs=1e-5)


# ---- values and intervals, with sums of numpy and drawn noise


def best(x: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """The exact fit."""
    penalty, found = np.diag([0.0, *[ridge * len(y)] * (x.shape[1] - 1)]), np.zeros(x.shape[1])
    for _ in range(60):
        s = 1 / (1 + np.exp(-(x @ found)))
        step = np.linalg.solve((x * (s * (1 - s))[:, None]).T @ x + penalty, x.T @ (s - y) + penalty @ found)
        found = found - step * min(1.0, 4 / max(np.abs(step).sum(), 1e-300))
    return found


def numbers(kind: str, n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    v = rng.uniform(-1, 1, (n, d))
    if kind == "near an end":
        v = np.clip(-0.6 + 0.25 * rng.gamma(2, 0.6, (n, d)) + 0.1 * rng.normal(size=(n, 1)), -1, 1)
    slopes = np.linspace(2, 5, d) if kind == "steep" else np.linspace(1, 3, d) * np.where(np.arange(d) % 2, 1, -1)
    x = np.column_stack([np.ones(n), v])
    return x, (rng.random(n) < 1 / (1 + np.exp(-(0.3 + v @ slopes)))).astype(float)


def planned(d: int, ridge: float = 1e-3, epsilon_nano: int = 10**9) -> LogisticSteps:
    numbers_ = (column(f"v{i}", "DOUBLE", lower=-1.0, upper=1.0) for i in range(d))
    columns = (*numbers_, column("y", "BOOLEAN"))
    table = clinic(unit_key=None, columns=columns)
    return logistic(table, "y", [f"v{i}" for i in range(d)], ridge=ridge, epsilon_nano=epsilon_nano)


def released(task: LogisticSteps, x: np.ndarray, y: np.ndarray) -> str:
    """A payload, with exact sums of numpy."""
    upper = np.triu_indices(x.shape[1])

    def exact(at: Any) -> list[tuple[int, ...]]:
        s = 1 / (1 + np.exp(-(x @ np.array(at))))
        found = [*(x.T @ (s - y)), *((x * (4 * s * (1 - s))[:, None]).T @ x)[upper]]
        return [tuple(round(float(value) * 2**module._BITS) for value in found)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogisticSteps, "step_query", lambda _, at: at)
        return task.work(7)(Stages(exact))  # type: ignore[arg-type]


def covered(kind: str, n: int, d: int, runs: int, shorter: float = 1.0) -> float:
    rng, task, hits = np.random.default_rng([n, d]), planned(d), 0
    plain = module.cube_draws
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "cube_draws", lambda size, half: plain(size, half * shorter))
        for _ in range(runs):
            x, y = numbers(kind, n, d, rng)
            value, _, low, high = task.read(released(task, x, y))
            true = best(x, y, task.ridge)
            hits += int(np.sum((low <= true) & (true <= high)))
            assert ((low <= value) & (value <= high)).all()
    return hits / (runs * (d + 1))


def test_intervals_hold_in_short() -> None:
    assert covered("spread", 5000, 2, 12) > 0.75  # 0.96 expected
    assert covered("spread", 5000, 2, 12, shorter=0.05) < 0.75  # a twin


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["spread", "steep", "near an end"])
@pytest.mark.parametrize(("n", "d"), [(2000, 1), (10_000, 2), (30_000, 4)])
def test_intervals_hold(kind: str, n: int, d: int) -> None:
    found = covered(kind, n, d, 300)
    print(f"{kind}, n={n}, d={d}: {found:.4f}")
    assert found >= 0.945


def test_with_little_noise_it_is_the_exact_fit() -> None:
    rng = np.random.default_rng(3)
    for kind in ("spread", "near an end"):
        x, y = numbers(kind, 20_000, 2, rng)
        task = planned(2, epsilon_nano=100 * 10**9)
        assert task.read(released(task, x, y))[0] == pytest.approx(best(x, y, 1e-3), abs=0.02)


def test_features_that_tell_all_are_held_by_the_ridge() -> None:
    x = np.column_stack([np.ones(3000), np.linspace(-1, 1, 3000)])
    y = (x[:, 1] > 0).astype(float)
    value = planned(1, ridge=0.01).read(released(planned(1, ridge=0.01), x, y))[0]
    assert np.isfinite(value).all()
    assert 3 < value[1] < 31


# ---- as users have them


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[duckdp.Curator]:
    rng, n = np.random.default_rng(7), 6000
    x, z = rng.normal(50, 20, n).clip(0, 100), rng.integers(0, 2, n)
    yes = rng.random(n) < 1 / (1 + np.exp(-(-3 + 0.05 * x + z)))
    rows = pa.table({"x": x, "z": z, "yes": yes, "town": ["Bern"] * n, "free": x, "person": np.arange(n)})
    with duckdp.open({"t": rows}, ledger=str(tmp_path / "t.ledger")) as owner:
        owner.protect(
            "t",
            unit_key="person",
            max_rows=1,
            row_cap=10_000,
            expected_rows=n,
            bounds={"x": (0, 100), "z": (0, 1)},
            columns=["yes", "town", "free"],
        )
        owner.budget(epsilon=500)
        owner.grant("ana", epsilon=400)
        yield owner


def test_sql_and_session_give_the_same_and_pay_once(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    first = ana.logistic_regression("t", "yes", ["x", "z"], epsilon=8)
    again = con.execute("FROM dp_logistic_regression('t', 'yes', ['x', 'z'], epsilon := 8)").fetchall()
    assert [row[:2] for row in again] == first.rows()
    assert [row[0] for row in again] == ["intercept", "x", "z"]
    for (_, value, _, low, high, *_), true in zip(again, (-3, 0.05, 1), strict=True):
        assert low <= value <= high
        assert abs(value - true) < 0.25 * abs(true)
    assert len(ana.ledger().rows()) == 1
    lines = [row[0] for row in ana.explain_logistic_regression("t", "yes", ["x", "z"], epsilon=1).rows()]
    call = "FROM dp_explain_logistic_regression('t', 'yes', ['x', 'z'], epsilon := 1)"
    assert lines == [row[0] for row in con.execute(call).fetchall()]
    assert "epsilon 0.1, 0.15, 0.25, 0.5" in lines[0]


def test_odd_data_is_answered_like_any(tmp_path: Path) -> None:
    odd: dict[str, tuple[list[float], list[bool | None]]] = {
        "empty": ([], []),
        "one row": ([3.0], [True]),
        "always": ([1.0, 2.0] * 300, [True] * 600),
        "constant": ([4.0] * 500, [True, False] * 250),
        "nan": ([math.nan, math.inf, -math.inf] * 50, [None, True, False] * 50),
    }
    for name, (values, answers) in odd.items():
        rows = pa.table({"x": pa.array(values, pa.float64()), "y": pa.array(answers, pa.bool_())})
        with duckdp.open({"t": rows}, ledger=str(tmp_path / f"{name}.ledger")) as owner:
            owner.protect("t", row_cap=1000, bounds={"x": (0, 10)}, columns=["y"])
            owner.budget(epsilon=100)
            owner.grant("ana", epsilon=100)
            found = owner.session("ana").logistic_regression("t", "y", ["x", "x * x"], epsilon=1).columns[1]
            assert all(e.value is not None and e.low <= e.value <= e.high for e in found.estimates or [])  # type: ignore[operator]


REFUSED = [
    ("dp_logistic_regression('t', 'x', ['z'], epsilon := 1)", "P107: target='x': must be a condition"),
    ("dp_logistic_regression('t', 'town', ['z'], epsilon := 1)", "Q203"),
    ("dp_logistic_regression('t', 'yes', [], epsilon := 1)", "P107: features=0: must be 1 to 20"),
    ("dp_logistic_regression('t', 'yes', ['x', 'X'], epsilon := 1)", "stands twice"),
    ("dp_logistic_regression('t', 'yes', ['free'], epsilon := 1)", "Q401"),
    ("dp_logistic_regression('t', 'yes', ['person'], epsilon := 1)", "Q301"),
    ("dp_logistic_regression('t', 'yes', ['x'], ridge := 0, epsilon := 1)", "P107: ridge=0"),
    ("dp_logistic_regression('t', 'yes', ['x'], ridge := 'nan'::DOUBLE, epsilon := 1)", "P107: ridge="),
    ("dp_logistic_regression('t', 'yes', ['x'])", "P101"),
    ("dp_logistic_regression('t', 'yes', ['x'], epsilon := 0.0000001)", "P101"),
    ("dp_logistic_regression('nobody', 'yes', ['x'], epsilon := 1)", "C101"),
]


def test_refusals_are_coded_and_free(curator: duckdp.Curator) -> None:
    con = curator.connect("ana")
    for call, words in REFUSED:
        for form in (call, call.replace("dp_", "dp_explain_", 1)):
            with pytest.raises(duckdb.Error) as error:
                con.execute(f"FROM {form}").fetchall()
            assert words in str(error.value), form
    assert curator.session("ana").remaining_text().startswith("epsilon=400")
