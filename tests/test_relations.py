"""dp_covariance, dp_correlation(s), dp_linear_regression: what a unit changes, values, intervals, faces, refusals."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler.pair_moments import PairMoments
from duckdp.compiler.pair_statistics import correlations, covariances, least_squares
from duckdp.functions.moment_answers import found_numbers
from duckdp.functions.regressions import _in_units
from duckdp.mechanisms.second_moments import SecondMoments
from tests.gate import clinic, load, shared
from tests.privacy.draws import HIGH, KEYED, LOW, NONE, ODD, REPLACE, ROWS, _random_row
from tests.privacy.neighbouring import neighbouring
from tests.privacy.pair_moments import pair_moments, pairs_of

Rows = list[tuple[Any, ...]]
THREE = ("age", "cost", "income")
TASKS = {
    "pair of units": lambda: pair_moments(KEYED, ("age", "cost")),
    "pair of units, in groups": lambda: pair_moments(KEYED, ("age", "cost"), "age > 3", "sex, town"),
    "cells of units, in groups": lambda: pair_moments(KEYED, THREE, keys="smoker"),
    "cube of units, in groups": lambda: pair_moments(KEYED, (*THREE, "cost * age", "smoker"), keys="sex, level"),
    "rows": lambda: pair_moments(ROWS, ("smoker", "cost"), pairs="target"),
    "cube of rows, replaced": lambda: pair_moments(ROWS, (*THREE, "age * age", "smoker"), neighbours=REPLACE),
    "cells of rows, replaced": lambda: pair_moments(ROWS, THREE, keys="sex", neighbours=REPLACE),
}


def exact(task: PairMoments, rows: Rows, sql: str | None = None) -> list[list[int]]:
    """The exact numbers that meet the noise, group by group."""
    met: list[list[int]] = []
    with shared() as con, pytest.MonkeyPatch.context() as patch:
        load(con, clinic(), rows)
        patch.setattr(SecondMoments, "release", lambda _, group: met.append(list(group)) or list(group))
        query = task.query(7)
        task.release(con.execute(sql or query.sql, list(query.parameters)).fetchall())
    return met


# ---- what a unit can change


def spent(task: PairMoments, one: Rows, other: Rows, sql: str | None = None) -> float:
    """The part of epsilon that a pair of tables uses: pure noise."""
    first, second = np.array(exact(task, one, sql), dtype=object), np.array(exact(task, other, sql), dtype=object)
    moved = np.abs(first - second).astype(np.float64)
    way = task.way
    found = moved.max(axis=1).sum() * float(way.rate) if way.noise is None else moved.sum() / way.noise.scale
    return float(found / float(way.loss.epsilon))


@pytest.mark.parametrize("name", TASKS)
def test_a_unit_changes_no_more_than_is_charged(name: str) -> None:
    task = TASKS[name]()
    pairs = list(neighbouring(task.table, task.neighbours, 3, 3))
    far = [(99, *HIGH), (99, *LOW)] * 9
    base = [(i % 5, *_random_row(random.Random(i))) for i in range(9)]
    if task.neighbours is not REPLACE:
        pairs.append((base, base + (far if task.table.unit_key else far[:1])))
    else:
        pairs.append(([*base, far[0]], [*base, far[1]]))
    found = [spent(task, one, other) for one, other in pairs]
    assert max(found) <= 1 + 1e-9
    assert max(found) > 0.4


def test_twins_that_bound_less_are_caught() -> None:
    """Rows of a unit that are not scaled; groups of a unit that are not chosen."""
    rows = [(1, *_random_row(random.Random(i))) for i in range(40)]
    task = TASKS["pair of units, in groups"]()
    for old, new in (("CASE WHEN n > 3 THEN", "CASE WHEN n > 300 THEN"), ("WHERE place <= 2", "WHERE place <= 200")):
        sql = task.query(7).sql
        assert old in sql
        assert spent(task, [], rows) <= 1 < spent(task, [], rows, sql.replace(old, new)), old


def test_one_unit_with_all_rows_counts_as_max_rows() -> None:
    task = TASKS["pair of units"]()
    rows = [(1, *_random_row(random.Random(3)))] * 500
    ((count, *_),) = task.way.moments(exact(task, rows))
    assert count == pytest.approx(3, abs=1e-6)


# ---- values


def plain(sql: str, rows: Rows) -> list[Any]:
    with shared() as con:
        load(con, clinic(), rows)
        return con.execute(sql).fetchall()


def matrix(task: PairMoments, rows: Rows, texts: Any, kind: Any) -> np.ndarray:
    """S of every group, without noise."""
    return pairs_of(task.table, texts, kind).matrix(task.way.moments(exact(task, rows)))


@pytest.mark.parametrize("texts", [THREE, (*THREE, "cost * age", "smoker")], ids=["cells", "products"])
def test_statistics_are_those_of_plain_sql(texts: tuple[str, ...]) -> None:
    rows = [(i, *_random_row(random.Random(i))) for i in range(300)]
    task = pair_moments(ROWS, texts, "smoker OR age > 40", "sex")
    sums = matrix(task, rows, texts, "all")
    half = np.array([(s.upper - s.lower) / 2 for s in task.rows.spans])
    where = f"(smoker OR age > 40) AND {' AND '.join(f'({t}) IS NOT NULL' for t in texts)}"
    as_number = [f"(({t})::INT)" if t == "smoker" else f"({t})" for t in texts]
    places = [(i, j) for i in range(len(texts)) for j in range(i + 1)]
    asked = ", ".join(
        f"covar_samp({as_number[i]}, {as_number[j]}), corr({as_number[i]}, {as_number[j]})" for i, j in places
    )
    found = plain(f"SELECT {asked} FROM clinic WHERE {where} GROUP BY sex ORDER BY sex", rows)
    for group, figures in enumerate(found):
        for (i, j), covariance, correlation in zip(places, figures[::2], figures[1::2], strict=True):
            assert covariances(sums)[group, i, j] * half[i] * half[j] == pytest.approx(covariance, rel=1e-5)
            assert correlations(sums)[group, i, j] == pytest.approx(correlation, abs=1e-6)


def test_least_squares_are_those_of_numpy_and_of_plain_sql() -> None:
    rows = [(i, *_random_row(random.Random(i))) for i in range(200)]
    task = pair_moments(ROWS, ("age", "smoker", "cost"), pairs="target")
    sums = matrix(task, rows, ("age", "smoker", "cost"), "target")
    (found,) = _in_units(task, least_squares(sums))
    data = np.array(plain("SELECT age, smoker::INT, cost FROM clinic", rows), dtype=float)
    features = np.column_stack([np.ones(len(data)), data[:, :2]])
    assert found == pytest.approx(np.linalg.lstsq(features, data[:, 2], rcond=None)[0], rel=1e-6)
    ridged = _in_units(task, least_squares(sums, 0.5))[0]
    penalty = 0.5 * len(data) * np.diag([0, 55.0**2, 0.5**2])
    assert ridged[1:] == pytest.approx(_ridge(data, penalty[1:, 1:]), rel=1e-6)
    one = pair_moments(ROWS, ("age", "cost"), pairs="target")
    (line,) = _in_units(one, least_squares(matrix(one, rows, ("age", "cost"), "target")))
    (known,) = plain("SELECT regr_intercept(cost, age), regr_slope(cost, age) FROM clinic", rows)
    assert line == pytest.approx(known, rel=1e-6)


def _ridge(data: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    centred = data - data.mean(axis=0)
    x, y = centred[:, :2], centred[:, 2]
    return np.linalg.solve(x.T @ x + penalty, x.T @ y)


def test_rows_without_a_value_do_not_count_and_others_are_clamped() -> None:
    rows = [(i, *row) for i, row in enumerate((HIGH, LOW, ODD, NONE, _random_row(random.Random(1))))]
    task = pair_moments(ROWS, ("age", "cost"))
    ((count, v, w, vw),) = task.way.moments(exact(task, rows))
    assert count == pytest.approx(3, abs=1e-6)  # NaN is NULL
    assert max(abs(v), abs(w), abs(vw)) <= 3 + 1e-6


# ---- intervals


def data(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Values in [-1, 1], the last the target."""
    common = rng.normal(size=(n, 1))
    if kind == "spread":
        return rng.uniform(-1, 1, (n, d))
    if kind == "related":
        return np.clip(0.3 * (common + rng.normal(size=(n, d))), -1, 1)
    return np.clip(-1 + 0.15 * rng.exponential(size=(n, d)) + 0.1 * np.abs(common), -1, 1)


def covered(kind: str, n: int, d: int, runs: int, shorter: float = 1.0) -> float:
    """The part of intervals of coefficients, covariances and correlations that hold the truth, with drawn noise."""
    rng, hits, total = np.random.default_rng([n, d]), 0, 0
    texts = ("age", "cost", "income", "least(age, 50)")[:d]
    task = pair_moments(ROWS, texts, pairs="all")
    pairs, way = pairs_of(ROWS, texts, "all"), task.way
    draws = way.draws() * shorter

    def lower_part(found: np.ndarray) -> np.ndarray:
        return found[:, *np.tril_indices(d)]

    statistics = (
        lambda m: least_squares(pairs.matrix(m)),
        lambda m: lower_part(covariances(pairs.matrix(m))),
        lambda m: correlations(pairs.matrix(m))[:, 0, 1:],
    )
    for _ in range(runs):
        values = data(kind, n, d, rng)
        powers = np.array(pairs.wanted)
        true = np.array([np.prod(values**p, axis=1).sum() for p in powers])
        noisy = true + way.moments([way.release([0] * len(way.released))])[0]
        for statistic in statistics:
            found = found_numbers(noisy, draws, statistic, lower=-np.inf, upper=np.inf)
            real = statistic(true[None])[0]
            hits += int(np.sum((found.low <= real) & (real <= found.high)))
            total += len(real)
    return hits / total


@pytest.mark.parametrize("kind", ["spread", "related", "near an end"])
def test_intervals_hold_in_short(kind: str) -> None:
    found = covered(kind, 3000, 2, 25)
    assert found > 0.8  # 0.96 expected; of the 25 draws together 20 would have to fail to hold
    assert covered(kind, 3000, 2, 25, shorter=0.2) < 0.8  # a twin


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["spread", "related", "near an end"])
@pytest.mark.parametrize(("n", "d"), [(300, 2), (3000, 2), (2000, 3), (20_000, 4)])
def test_intervals_hold(kind: str, n: int, d: int) -> None:
    found = covered(kind, n, d, 400)
    print(f"{kind}, n={n}, d={d}: {found:.4f}")
    assert found >= 0.945


# ---- as users have them


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[duckdp.Curator]:
    rng, n = np.random.default_rng(7), 4000
    x = rng.normal(50, 20, n).clip(0, 100)
    z = rng.integers(0, 2, n)
    y = (0.5 * x + 20 * z + rng.normal(10, 5, n)).clip(0, 100)
    rows = pa.table(
        {
            "x": x,
            "y": y,
            "z": z,
            "town": rng.choice(["Bern", "Genf"], n),
            "name": ["n"] * n,
            "free": x,
            "tiny": x * 1e-300,
            "person": np.arange(n),
        }
    )
    with duckdp.open({"t": rows}, ledger=str(tmp_path / "t.ledger")) as owner:
        owner.protect(
            "t",
            unit_key="person",
            max_rows=1,
            row_cap=10_000,
            expected_rows=n,
            bounds={"x": (0, 100), "y": (0, 100), "z": (0, 1), "tiny": (0, 1e-250)},
            domains={"town": ["Bern", "Genf"]},
            columns=["name", "free"],
        )
        owner.budget(epsilon=500, delta="1e-4")
        owner.grant("ana", epsilon=400, delta="1e-5")
        yield owner


def test_sql_and_session_give_the_same_and_pay_once(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    first = ana.covariance("t", "x", "y", epsilon=4)
    (found,) = con.execute("FROM dp_covariance('t', 'x', 'y', epsilon := 4)").fetchall()
    (estimate,) = first.columns[0].estimates or []
    assert found[:4] == (estimate.value, estimate.standard_error, estimate.low, estimate.high)
    assert con.execute("SELECT dp_covariance('t', 'x', 'y', epsilon := 4)").fetchall() == [(estimate.value,)]
    assert abs((estimate.value or 0) - 192) < 12  # noise of deviation 0.45
    assert con.execute("SELECT dp_correlation('t', 'x', 'y', epsilon := 4) > 0.4").fetchall() == [(True,)]
    lines = con.execute("FROM dp_linear_regression('t', 'y', ['x', 'z'], epsilon := 4)").fetchall()
    assert [row[0] for row in lines] == ["intercept", "x", "z"]
    for row, true in zip(lines[1:], (0.49, 19.5), strict=True):
        assert row[3] - 0.3 * true < true < row[4] + 0.3 * true
    assert ana.linear_regression("t", "y", ["x", "z"], epsilon=4).rows() == [row[:2] for row in lines]
    assert len(ana.ledger().rows()) == 3


def test_a_matrix_has_a_row_for_each_pair_in_each_group(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    found = ana.correlations("t", ["x", "y", "x * z"], epsilon=20, groups="town")
    assert [c.name for c in found.columns] == ["town", "x", "y", "correlation", "covariance"]
    assert [row[:3] for row in found.rows()][6:8] == [("Genf", "x", "x"), ("Genf", "x", "y")]
    assert len(found) == 12
    again = con.execute("FROM dp_correlations('t', ['x', 'y', 'x * z'], epsilon := 20, groups := 'town')").fetchall()
    assert [row[:5] for row in again] == found.rows()
    for row in found.estimates():
        same = row["x"] == row["y"]
        assert -1 <= row["correlation"].low <= row["correlation"].value <= row["correlation"].high <= 1
        assert row["covariance"].low <= row["covariance"].value <= row["covariance"].high
        assert not same or row["correlation"].value == row["correlation"].low == 1
    taken = ana.correlation("t", "x", "y", epsilon=1, groups=["z", "town"])
    assert [c.name for c in taken.columns] == ["z", "town", "value"]


def test_explain_costs_nothing_and_predicts(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    lines = [r[0] for r in ana.explain_covariance("t", "x", "y", epsilon=1).rows()]
    assert lines == [r[0] for r in con.execute("FROM dp_explain_covariance('t', 'x', 'y', epsilon := 1)").fetchall()]
    assert "  protects: all rows of one person (add_remove)" in lines
    assert f"  value: ± {1.96 * math.sqrt(8) * 2500 / 4000:g}" in lines
    wide = str(ana.explain_correlations("t", ["x", "y", "z", "x*y", "x*z", "y*z"], epsilon=1, delta="1e-6"))
    assert "sums of products, cube noise, epsilon=1\n" in wide
    assert "ridge" not in str(ana.explain_linear_regression("t", "y", ["x"], epsilon=1))
    assert ana.remaining_text().startswith("epsilon=400")


def test_intervals_hold_what_is_shown_and_end_where_noise_lets_them(curator: duckdp.Curator) -> None:
    ana = curator.session("ana")
    drowned = ana.linear_regression("t", "y", ["x", "x * z", "z"], epsilon="0.0001").columns[1].estimates or []
    assert all(math.isinf(e.low) and math.isinf(e.high) for e in drowned)  # type: ignore[arg-type]
    assert all(e.low <= (e.value or 0) <= e.high for e in drowned)  # type: ignore[operator]
    assert "no end" in str(drowned[0].note)
    (wide,) = ana.correlation("t", "x", "y", epsilon="0.0001").columns[0].estimates or []
    assert (wide.low, wide.high) == (-1, 1)


def test_collinear_features_have_no_interval_and_a_ridge_gives_one(curator: duckdp.Curator) -> None:
    """Noise alone gives the two features a spread of their own, and so an interval, in one release of a hundred."""
    ana = curator.session("ana")
    doubled = ("t", "y", ["x", "2 * x"])
    releases = [ana.linear_regression(*doubled, epsilon=20, fresh=True).columns[1].estimates or [] for _ in range(9)]
    assert sum(all(math.isinf(e.high) for e in twice[1:]) for twice in releases) > 4  # type: ignore[arg-type]
    held = ana.linear_regression(*doubled, epsilon=20, ridge=0.05).columns[1].estimates or []
    assert all(math.isfinite(e.low) and math.isfinite(e.high) for e in held)  # type: ignore[arg-type]


BAD: dict[str, list[float]] = {
    "empty": [],
    "one row": [3.0],
    "constant": [4.0] * 500,
    "nan": [math.nan] * 50,
    "infinite": [math.inf, -math.inf] * 300,
}


def test_bad_columns_are_answered_like_any(tmp_path: Path) -> None:
    for name, values in BAD.items():
        rows = pa.table({"x": pa.array(values, pa.float64()), "y": pa.array([1.0] * len(values), pa.float64())})
        with duckdp.open({"t": rows}, ledger=str(tmp_path / f"{name}.ledger")) as owner:
            owner.protect("t", row_cap=1000, bounds={"x": (0, 10), "y": (0, 10)})
            owner.budget(epsilon=100)
            owner.grant("ana", epsilon=100)
            ana = owner.session("ana")
            answers = [ana.covariance("t", "x", "y", epsilon=1), ana.correlation("t", "x", "y", epsilon=1)]
            answers += [ana.correlations("t", ["x", "y"], epsilon=1), ana.linear_regression("t", "y", ["x"], epsilon=1)]
            for found in answers:
                assert all(e is not None for row in found.estimates() for e in row.values())
            assert len(ana.ledger().rows()) == 3  # all correlations of two columns are the one of them
            (correlation,) = answers[1].columns[0].estimates or []
            assert (correlation.high or 0) - (correlation.low or 0) > 0.5 or name == "infinite"


REFUSED = [
    ("dp_covariance('t', 'x', 'nobody', epsilon := 1)", "Q207"),
    ("dp_covariance('t', 'x', 'person', epsilon := 1)", "Q301"),
    ("dp_covariance('t', 'x', 'free', epsilon := 1)", "Q401"),
    ("dp_covariance('t', 'x', 'free * 2', epsilon := 1)", "Q402"),
    ("dp_covariance('t', 'x', 'town', epsilon := 1)", "Q203"),
    ("dp_covariance('t', 'x', 'sum(y)', epsilon := 1)", "Q301"),
    ("dp_covariance('t', 'x', 'tiny', epsilon := 1)", "P107"),
    ("dp_covariance('t', 'x', 'x * 1e200', epsilon := 1)", "Q402"),
    ("dp_covariance('t', 'x', '', epsilon := 1)", "Q1"),
    ("dp_covariance('t', 'x', 'y; SELECT 1', epsilon := 1)", "Q1"),
    ("dp_covariance('t', 'x', 'y')", "P101"),
    ("dp_covariance('t', 'x', 'y', epsilon := 0.0000001)", "P101"),
    ("dp_covariance('t', 'x', 'y', epsilon := 1, delta := 2)", "P102"),
    ("dp_covariance('t', 'x', 'y', epsilon := 1, groups := 'name')", "P107: groups='name': has no declared domain"),
    ("dp_correlation('t', 'x', 'y', epsilon := 1, predicate := 'x')", "Q203"),
    ("dp_correlation('nobody', 'x', 'y', epsilon := 1)", "C101"),
    ("dp_correlations('t', ['x'], epsilon := 1)", "P107: columns=1: must be 2 to 30"),
    ("dp_correlations('t', [], epsilon := 1)", "P107: columns=0"),
    ("dp_correlations('t', ['x', 'X'], epsilon := 1)", "stands twice"),
    ("dp_correlations('t', list_transform(range(31), lambda i: 'x + ' || i), epsilon := 1)", "P107: columns=31"),
    ("dp_linear_regression('t', 'y', [], epsilon := 1)", "P107: features=0: must be 1 to 29"),
    ("dp_linear_regression('t', 'y', ['x', 'y'], epsilon := 1)", "must differ"),
    ("dp_linear_regression('t', 'y', ['x'], epsilon := 1, ridge := -1)", "P107: ridge=-1"),
    ("dp_linear_regression('t', 'y', ['x'], epsilon := 1, ridge := 'nan'::DOUBLE)", "P107: ridge="),
    ("dp_linear_regression('t', 'town', ['x'], epsilon := 1)", "Q203"),
]


def test_refusals_are_coded_and_free(curator: duckdp.Curator) -> None:
    con = curator.connect("ana")
    for call, words in REFUSED:
        for form in (call, call.replace("dp_", "dp_explain_", 1)):
            with pytest.raises(duckdb.Error) as error:
                con.execute(f"FROM {form}").fetchall()
            assert words in str(error.value), form
    assert curator.session("ana").remaining_text().startswith("epsilon=400")
