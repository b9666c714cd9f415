"""The task and its release: refusals, ranges, the public count, the payload."""

import dataclasses
import json
from fractions import Fraction

import numpy as np
import pytest

from duckdp.catalog import dump_table, load_table
from duckdp.core.types import NANO, Neighbours, Sensitivity
from duckdp.errors import CatalogError, DuckDPError, InternalError, ParameterError, QueryError
from duckdp.smooth.noise import add_noise, choose_noise
from duckdp.smooth.summary import SmoothSummary, plan_summary
from tests.smooth.tables import column, connect, run, summarize, table

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
AGE, COST = column("age", 0, 110, "INTEGER"), column("cost", 0.0, 5000.0)
VISITS = table(
    AGE, COST, column("name", None, None, "VARCHAR"), column("day", None, None, "DATE"), column("open", None, None),
    column("sex", None, None, "INTEGER", domain=(0, 1)), expected_rows=200_000, name="visits",
)  # fmt: skip


def plan(columns=("age", "cost"), tab=VISITS, epsilon=1.0, neighbours=ADD_REMOVE, **more):
    return plan_summary(tab, columns, epsilon_nano=round(epsilon * NANO), neighbours=neighbours, **more)


@pytest.fixture
def con():
    connection = connect()
    rows = "SELECT i % 100 AS age, (i * 7 % 5000)::DOUBLE AS cost FROM range(1000) r(i)"
    connection.execute(f"CREATE TABLE visits AS {rows}")
    yield connection
    connection.close()


@pytest.mark.parametrize(
    ("columns", "code", "kind"),
    [
        (["nope"], "C102", CatalogError),
        (["age", "nope"], "C102", CatalogError),
        (["name"], "P107", ParameterError),
        (["day"], "P107", ParameterError),
        (["open"], "Q401", QueryError),
        (["sex"], "Q401", QueryError),
        ([], "P107", ParameterError),
        ("age", "P107", ParameterError),
        (["age", "AGE"], "P107", ParameterError),
        ([1], "P107", ParameterError),
        (None, "P107", ParameterError),
    ],
)
def test_columns_that_have_no_summary_are_refused(columns, code, kind):
    with pytest.raises(kind) as caught:
        plan(columns)
    assert caught.value.code == code


def test_an_unknown_column_is_answered_with_near_names():
    with pytest.raises(CatalogError, match='Did you mean "cost"'):
        plan(["costs"])


@pytest.mark.parametrize(
    "more",
    [
        {"smoothness": 0}, {"smoothness": -4}, {"smoothness": 2.5}, {"smoothness": True}, {"degree": 1}, {"degree": 65},
        {"degree": "4"}, {"degree": 10**9}, {"degree": 4, "smoothness": 4},
    ],
)  # fmt: skip
def test_degree_and_smoothness_are_checked(more):
    with pytest.raises(ParameterError) as caught:
        plan(**more)
    assert caught.value.code == "P107"


def test_degree_comes_from_public_figures():
    assert plan(smoothness=4).basis.degree == 5  # 200_000^(1/8) = 4.6
    assert plan().basis.degree == 5
    assert plan(tab=dataclasses.replace(VISITS, expected_rows=None)).basis.degree == 6  # row_cap 10^6
    assert plan(degree=9).basis.degree == 9


def test_replace_needs_the_row_as_unit():
    with pytest.raises(CatalogError) as caught:
        plan(tab=dataclasses.replace(VISITS, unit_key="id", unit_type="INTEGER"), neighbours=REPLACE)
    assert caught.value.code == "C105"


def test_bounds_that_floats_cannot_tell_apart_are_refused():
    tab = table(column("a", 2**60, 2**60 + 1, "BIGINT"))
    with pytest.raises(ParameterError) as caught:
        plan(["a"], tab)
    assert caught.value.code == "P104"


def test_the_count_is_public_only_when_every_row_counts():
    full = table(column("a", nullable=False), column("b", nullable=False))
    assert plan(["a"], full, neighbours=REPLACE).count_public
    assert not plan(["a"], full).count_public
    assert not plan(["a"], table(column("a")), neighbours=REPLACE).count_public
    view = dataclasses.replace(full, filter="b > 0.5", base=full.columns)
    assert not plan(["a"], view, neighbours=REPLACE).count_public
    assert plan(["a"], table(column("a", null_value=0.0, nullable=False)), neighbours=REPLACE).count_public
    half = table(column("a", nullable=False), column("b"))
    assert plan(["a"], half, neighbours=REPLACE).count_public
    assert not plan(["a", "b"], half, neighbours=REPLACE).count_public


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("row_cap", [1, 10**6, 2**40])
@pytest.mark.parametrize("max_rows", [1, 1000])
def test_sums_and_noise_stay_in_range(epsilon, row_cap, max_rows):
    tab = dataclasses.replace(VISITS, row_cap=row_cap, unit_key="id", unit_type="INTEGER", max_rows=max_rows)
    task = plan(tab=tab, epsilon=epsilon, degree=6, noise="laplace")
    assert 10 <= task.bits <= 40
    assert (row_cap << task.bits) + 100 * Fraction(task.noise.scale) < 2**62
    assert Fraction(task.noise.scale) >= task.sensitivity.l1 / Fraction(round(epsilon * NANO), NANO)
    assert task.sensitivity.l1 == max_rows * 36 << task.bits
    assert task.bits == 40 or (row_cap << (task.bits + 1)) + 101 * 2 * Fraction(task.noise.scale) >= 2**62


def test_no_room_for_the_fixed_point_is_refused():
    tab = dataclasses.replace(VISITS, unit_key="id", unit_type="INTEGER", max_rows=2**40)
    with pytest.raises(ParameterError, match="fractional bits"):
        plan(tab=tab, epsilon=1e-6, degree=60)


def test_the_task_says_what_it_costs_and_is():
    task = plan(epsilon=0.5, noise="laplace")
    assert (task.loss.epsilon_nano, task.loss.delta_atto, task.loss.rho_pico) == (NANO // 2, 0, 125 * 10**9)
    assert task.mechanism == "laplace"
    assert json.loads(json.dumps(task.parameters))["moments"] == 25
    assert task.query(1) == task.query(2)
    same = plan(epsilon=0.5, noise="laplace", tab=load_table(dump_table(VISITS)))
    assert task.canonical == same.canonical
    others = [
        plan(), plan(["cost", "age"], epsilon=0.5), plan(epsilon=0.5, degree=6), plan(epsilon=0.5, neighbours=REPLACE),
        plan(epsilon=0.5, tab=dataclasses.replace(VISITS, row_cap=5)),
    ]  # fmt: skip
    assert len({task.canonical, *(o.canonical for o in others)}) == 6


def test_release_is_a_noisy_copy_of_the_sums(con):
    task = plan(epsilon=100.0)
    rows = run(con, task.query(1))
    first, second = SmoothSummary.load(task.release(rows)), SmoothSummary.load(task.release(rows))
    assert first.moments != second.moments
    assert max(abs(a - b) for a, b in zip(first.moments, rows[0], strict=True)) < 40 * task.noise.scale
    assert first.count is None
    assert (first.weighted, first.row_cap, first.table) == (False, 10**6, "visits")


@pytest.mark.parametrize(("degree", "family"), [(1, "laplace"), (2, "cube"), (8, "cube")])
def test_the_noise_with_less_error_is_taken(degree, family):
    """One sum: the same; from two on the cube is narrower, and its exact deviation says so."""
    task = plan(["cost"], degree=degree) if degree > 1 else None
    if task is None:
        same = Sensitivity(l1=2**20, l2_squared=2**40, linf=2**20)
        assert choose_noise("auto", same, size=1, epsilon_nano=NANO)[0].family == family
        return
    other = plan(["cost"], degree=degree, noise="laplace")
    assert (task.noise.family, task.mechanism) == (family, family)
    assert task.noise.deviation < other.noise.deviation
    assert Fraction(task.noise.scale) == task.sensitivity.linf / Fraction(1)
    assert SmoothSummary.load(task.release([(0,) * degree])).family == family
    assert task.canonical != other.canonical


@pytest.mark.parametrize("family", ["laplace", "cube", "gaussian"])
def test_intervals_cover_for_both_kinds_of_noise(family):
    """Combinations of noise alone: 12,000 draws, binomial standard error 0.002; false alarm below 1e-9 (6 sd)."""
    unit = Sensitivity(l1=9 * 2**20, l2_squared=9 * 2**40, linf=2**20)
    noise, loss = choose_noise(family, unit, size=9, epsilon_nano=NANO, delta_atto=10**10)
    assert (loss.epsilon_nano, loss.delta_atto) == (NANO, 10**10 if family == "gaussian" else 0)
    rng = np.random.default_rng(5)
    vectors = [np.eye(9)[2], np.ones(9), rng.normal(size=9), 0.5 ** np.arange(9)]
    draws = np.array([add_noise([0] * 9, noise, epsilon_nano=NANO, linf=2**20) for _ in range(12_000)], dtype=float)
    for c in vectors:
        inside = np.mean(np.abs(draws @ c) <= noise.half_width(c, 0.95))
        assert abs(inside - 0.95) < 0.014
        assert abs((draws @ c).std() / noise.standard_error(c) - 1) < 0.12
        for wrong in (0.8, 1.25):
            assert abs(np.mean(np.abs(draws @ c) <= wrong * noise.half_width(c, 0.95)) - 0.95) > 0.014


def test_gaussian_noise_needs_delta_and_wins_for_many_sums():
    many = plan(["cost"], degree=400, delta_atto=10**12)
    assert (many.noise.family, many.loss.delta_atto) == ("gaussian", 10**12)
    assert many.loss.rho_pico > 0
    few = plan(["cost"], degree=8, delta_atto=10**12)
    assert (few.noise.family, few.loss.delta_atto) == ("cube", 0)  # delta is not spent where it does not help
    with pytest.raises(ParameterError) as refused:
        plan(["cost"], degree=8, noise="gaussian")
    assert refused.value.code == "P102"


def test_a_public_count_is_exact_and_the_rest_is_not(con):
    tab = dataclasses.replace(VISITS, columns=(dataclasses.replace(COST, nullable=False),))
    summary = summarize(con, tab, ["cost"], neighbours=REPLACE, degree=4)
    assert (summary.count, summary.sums[0]) == (1000, 1000.0)
    assert summary.noise.size == 3
    private = summarize(con, dataclasses.replace(VISITS, columns=(COST,)), ["cost"], neighbours=REPLACE, degree=4)
    assert private.count is None
    assert private.sums[0] != 1000.0


def test_a_wrong_row_cap_cannot_overflow(con):
    task = plan(tab=dataclasses.replace(VISITS, row_cap=10))
    summary = SmoothSummary.load(task.release(run(con, task.query(1))))
    assert abs(summary.sums[0] - 10) < 40 * task.noise.scale / 2**task.bits
    huge = [(2**100,) + (-(2**100),) * 24]
    assert max(abs(SmoothSummary.load(task.release(huge)).sums)) < 10 + 40 * task.noise.scale / 2**task.bits


@pytest.mark.parametrize(
    "rows", [[], [(1,) * 24], [(1,) * 25] * 2, [(None,) + (1,) * 24], [(1.0,) * 25], [(True,) * 25]]
)
def test_rows_of_another_shape_are_refused_without_showing_them(rows):
    with pytest.raises(InternalError) as caught:
        plan().release(iter(rows))
    assert not any(digit in caught.value.message for digit in "0123456789")


def test_payload_round_trip(con):
    for neighbours in Neighbours:
        summary = summarize(con, VISITS, ["age", "cost"], neighbours=neighbours, epsilon=0.3)
        assert SmoothSummary.load(summary.dump()) == summary
        assert type(summary.columns[0].lower) is int
        assert type(summary.columns[1].lower) is float


def damaged(text):
    raw = json.loads(text)
    yield from ("", "{", "[]", "null", "5", '"x"')
    for key in raw:
        yield json.dumps({k: v for k, v in raw.items() if k != key})
    for change in (
        {"format": 2}, {"kind": "other"}, {"moments": raw["moments"][:-1]}, {"moments": [0.5] * 25},
        {"moments": [2**63] * 25}, {"moments": 3}, {"scale": 0.0}, {"scale": "1"}, {"scale": float("nan")},
        {"bits": -1}, {"degree": 6}, {"degree": 1}, {"columns": []}, {"columns": [["a", "DOUBLE", False, 0.0]]},
        {"bits": 99}, {"family": "none"},
        {"columns": [["a", "DOUBLE", False, 1.0, 0.0], ["b", "DOUBLE", False, 0.0, 1.0]]},
        {"columns": [[1, "DOUBLE", False, 0.0, 1.0], ["b", "DOUBLE", False, 0.0, 1.0]]}, {"neighbours": "x"},
        {"count": 7}, {"weighted": 1}, {"row_cap": 0}, {"epsilon_nano": 0}, {"table": 5}, {"extra": 1},
    ):  # fmt: skip
        yield json.dumps({**raw, **change})


def test_a_damaged_payload_is_refused(con):
    text = summarize(con, VISITS, ["age", "cost"], degree=5).dump()
    for bad in damaged(text):
        with pytest.raises(DuckDPError) as caught:
            SmoothSummary.load(bad)
        assert caught.value.code == "C105"
