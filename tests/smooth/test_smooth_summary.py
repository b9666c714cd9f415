"""The task and its release: refusals, ranges, the public count, the payload."""

import dataclasses
import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from duckdp.catalog.table import dump_table, load_table
from duckdp.core.task import Stages
from duckdp.core.types import NANO, Neighbours, Sensitivity
from duckdp.errors import CatalogError, DuckDPError, InternalError, ParameterError, QueryError
from duckdp.smooth.answer import answer
from duckdp.smooth.buy.counted import plan_counted
from duckdp.smooth.buy.summary_task import plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.sum_noise import choose_noise, draw_noise
from duckdp.smooth.summary import SmoothSummary
from tests.smooth.tables import column, connect, holds, run, summarize, table

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
AGE, COST = column("age", 0, 110, "INTEGER"), column("cost", 0.0, 5000.0)
VISITS = table(
    AGE,
    COST,
    column("name", None, None, "VARCHAR"),
    column("day", None, None, "DATE"),
    column("open", None, None),
    column("sex", None, None, "INTEGER", domain=(0, 1)),
    expected_rows=200_000,
    name="visits",
)


def plan(columns=("age", "cost"), tab=VISITS, epsilon=1.0, neighbours=ADD_REMOVE, delta_atto=0, **wishes):
    return plan_summary(
        tab,
        columns,
        epsilon_nano=round(epsilon * NANO),
        neighbours=neighbours,
        delta_atto=delta_atto,
        wishes=Wishes(**wishes),
    )


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
        (["name"], "Q401", QueryError),
        (["day"], "Q401", QueryError),
        (["open"], "Q401", QueryError),
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
        {"smoothness": 0},
        {"smoothness": -4},
        {"smoothness": 2.5},
        {"smoothness": True},
        {"degree": 1},
        {"degree": 700},
        {"degree": "4"},
        {"degree": 10**9},
        {"degree": 4, "smoothness": 4},
        {"shape": "round", "degree": 4},
        {"order": 0, "degree": 4},
        {"weights": "heavy", "degree": 4},
        {"noise": "loud", "degree": 4},
        {"path": "winding", "degree": 4},
    ],
)
def test_degree_and_smoothness_are_checked(more):
    with pytest.raises(ParameterError) as caught:
        plan(**more)
    assert caught.value.code == "P107"


@pytest.mark.parametrize("path", ["auto", "cells"])
@pytest.mark.parametrize("row_cap", [1, 100, 20_000])
def test_what_is_bought_can_be_read(path, row_cap):
    """A path whose error of a row is the row itself would be charged for, and its summary refused for ever."""
    tab = table(*(column(f"x{i}", 0, 10, nullable=False) for i in range(3)), name="p", row_cap=row_cap)
    for columns, degree in itertools.product((["x0"], ["x0", "x1"], ["x0", "x1", "x2"]), (4, 8, 16)):
        try:
            task = plan(columns, tab, degree=degree, path=path)
        except ParameterError as error:
            assert path == "cells"
            assert "'cells' does not fit" in str(error)
        else:
            assert task.moments.row_error < 0.99


def test_degree_comes_from_public_figures():
    assert plan(smoothness=4).basis.degree == 5  # 200_000^(1/8) = 4.6
    assert plan(smoothness=4, tab=dataclasses.replace(VISITS, expected_rows=None)).basis.degree == 6  # row_cap 10^6
    assert plan(degree=9).basis.degree == 9
    assert plan(smoothness=4, delta_atto=10**10).basis.degree == 5  # Theorem 21: (200_000^2 / ln(1e8))^(1/14) = 4.64


def test_without_smoothness_the_noise_sets_the_degree():
    """The largest t whose cube's standard deviation, t^2 / sqrt(3) at epsilon 1, is 1% of the rows: 58 for 200,000."""
    assert plan().basis.degree == 58
    assert plan(epsilon=0.01).basis.degree == 5
    assert plan(tab=dataclasses.replace(VISITS, expected_rows=100)).basis.degree == 2
    assert plan(["cost"]).basis.degree == 64
    keyed = dataclasses.replace(VISITS, unit_key="id", unit_type="INTEGER", max_rows=100)
    assert plan(tab=keyed).basis.degree == 5


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
    flag = column("f", None, None, "BOOLEAN", nullable=False)
    assert plan(["f"], table(flag), neighbours=REPLACE).count_public
    only = dataclasses.replace(flag, domain=(True,))  # a row with the other value is left out
    assert not plan(["f"], table(only), neighbours=REPLACE).count_public
    label = column("s", None, None, "VARCHAR", domain=("x", "y"), nullable=False)
    assert not plan(["s"], table(label), neighbours=REPLACE).count_public
    assert plan(["s"], table(dataclasses.replace(label, other="y")), neighbours=REPLACE).count_public


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("row_cap", [1, 10**6, 2**40])
@pytest.mark.parametrize("max_rows", [1, 1000])
def test_sums_and_noise_stay_in_range(epsilon, row_cap, max_rows):
    tab = dataclasses.replace(VISITS, row_cap=row_cap, unit_key="id", unit_type="INTEGER", max_rows=max_rows)
    for family in ("laplace", "auto"):
        task = plan(tab=tab, epsilon=epsilon, degree=6, noise=family)
        bits, scales = task.moments.bits, [Fraction(s) for s in task.plan.noise.scales]
        assert 10 <= bits <= 52
        assert (row_cap << bits) + 100 * task.plan.noise.deviation < 2**62
        whole = max_rows << bits  # kernels add up to 1 in a row, but for roundings; functions are 36
        assert task.sensitivity.l1 == 36 * whole if family == "laplace" else whole < task.sensitivity.l1 < 1.001 * whole
    task = plan(tab=tab, epsilon=epsilon, degree=6, noise="laplace")
    assert Fraction(task.plan.noise.scales[0]) >= task.sensitivity.l1 / Fraction(round(epsilon * NANO), NANO)
    assert scales


def test_no_room_for_the_fixed_point_is_refused():
    tab = dataclasses.replace(VISITS, unit_key="id", unit_type="INTEGER", max_rows=2**40)
    with pytest.raises(ParameterError, match="fractional bits"):
        plan(tab=tab, epsilon=1e-6, degree=60)


def test_the_task_says_what_it_costs_and_is():
    task = plan(epsilon=0.5, noise="laplace")
    assert (task.loss.epsilon_nano, task.loss.delta_atto, task.loss.rho_pico) == (NANO // 2, 0, 125 * 10**9)
    assert task.mechanism == "laplace"
    assert json.loads(json.dumps(task.parameters))["moments"] == 41**2
    assert task.query(1) == task.query(2)
    same = plan(epsilon=0.5, noise="laplace", tab=load_table(dump_table(VISITS)))
    assert task.canonical == same.canonical
    others = [
        plan(),
        plan(["cost", "age"], epsilon=0.5),
        plan(epsilon=0.5, degree=6),
        plan(epsilon=0.5, neighbours=REPLACE),
        plan(epsilon=0.5, tab=dataclasses.replace(VISITS, row_cap=5)),
    ]
    assert len({task.canonical, *(o.canonical for o in others)}) == 6


def test_release_is_a_noisy_copy_of_the_sums(con):
    task = plan(epsilon=100.0, degree=5)
    rows = run(con, task.query(1))
    first, second = SmoothSummary.load(task.release(rows)), SmoothSummary.load(task.release(rows))
    assert first.moments != second.moments
    exact = task.moments.collect(rows)
    assert max(abs(a - b) for a, b in zip(first.moments, exact, strict=True)) < 40 * task.plan.noise.deviation
    assert first.count is None
    assert (first.weighted, first.row_cap, first.table) == (False, 10**6, "visits")


@pytest.mark.parametrize("degree", [2, 8])
def test_the_noise_with_less_error_is_taken(degree):
    """From two sums on the cube is narrower than Laplace, and its exact deviation says so."""
    task = plan(["cost"], degree=degree, weights="uniform")
    other = plan(["cost"], degree=degree, noise="laplace")
    assert (task.plan.noise.family, task.mechanism) == ("cube", "cube")
    assert task.plan.noise.deviation < other.plan.noise.deviation
    assert Fraction(task.plan.noise.scales[0]) == task.sensitivity.linf
    assert SmoothSummary.load(task.release([(0,) * degree])).family == "cube"
    assert task.canonical != other.canonical


@pytest.mark.parametrize("family", ["laplace", "cube", "gaussian"])
def test_intervals_cover_for_all_kinds_of_noise(family):
    """Combinations of noise alone: 12,000 draws, binomial standard error 0.002; false alarm below 1e-9 (6 sd)."""
    unit = Sensitivity(l1=9 * 2**20, l2_squared=9 * 2**40, linf=2**20)
    chosen = choose_noise(family, unit, levels=np.arange(9), epsilon_nano=NANO, delta_atto=10**10)
    noise = chosen.noise
    assert (chosen.loss.epsilon_nano, chosen.loss.delta_atto) == (NANO, 10**10 if family == "gaussian" else 0)
    rng = np.random.default_rng(5)
    vectors = [np.eye(9)[2], np.ones(9), rng.normal(size=9), 0.5 ** np.arange(9)]
    draws = np.array([draw_noise(chosen) for _ in range(12_000)], dtype=float)
    for c in vectors:
        inside = np.mean(np.abs(draws @ c) <= noise.half_width(c, 0.95))
        assert abs(inside - 0.95) < 0.014
        assert abs((draws @ c).std() / noise.standard_error(c) - 1) < 0.12
        for wrong in (0.8, 1.25):
            assert abs(np.mean(np.abs(draws @ c) <= wrong * noise.half_width(c, 0.95)) - 0.95) > 0.014


def test_gaussian_noise_needs_delta_and_wins_for_many_sums():
    many = plan(["cost"], degree=400, delta_atto=10**12, weights="uniform")
    assert (many.mechanism, many.loss.delta_atto) == ("gaussian", 10**12)
    assert many.loss.rho_pico > 0
    few = plan(["cost"], degree=8, delta_atto=10**12)
    assert (few.mechanism, few.loss.delta_atto) == ("kernels", 0)  # delta is not spent where it does not help
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


@pytest.mark.parametrize("scale", [0.0, -1.0, 2.0**62, math.inf, math.nan, 3, "1.0", None])
def test_a_stored_summary_says_its_noise(con, scale):
    """Of a scale that no noise has, error bars would say anything; what is stored is refused (C105)."""
    task = plan(degree=5, path="sums")
    raw = json.loads(task.release(run(con, task.query(1))))
    assert SmoothSummary.load(json.dumps(raw)).scales == tuple(raw["scales"])
    raw["scales"] = [scale] * len(raw["scales"])
    with pytest.raises(DuckDPError, match=r"^C105"):
        SmoothSummary.load(json.dumps(raw))


def test_a_wrong_row_cap_cannot_overflow(con):
    task = plan(tab=dataclasses.replace(VISITS, row_cap=10), degree=5, path="sums")
    summary = SmoothSummary.load(task.release(run(con, task.query(1))))
    noise = 40 * task.plan.noise.deviation / 2**task.moments.bits
    assert abs(summary.sums[0] - 10) < noise
    huge = [(2**100,) + (-(2**100),) * 24]
    assert max(abs(SmoothSummary.load(task.release(huge)).sums)) < 10 + noise


def test_a_public_count_above_row_cap_is_answered_from_all_rows(con):
    """Nothing is cut to row_cap: the number of rows is public and takes its place."""
    con.execute("CREATE TABLE t AS SELECT 0.9 AS a FROM range(100000)")
    tab = table(column("a", nullable=False), row_cap=1000)
    for path in ("sums", "cells", "blocks"):
        summary = summarize(con, tab, ["a"], neighbours=REPLACE, degree=4, path=path)
        assert (summary.count, summary.row_cap) == (100_000, 100_000)
        found = answer(summary, "a", level=0.9999)
        assert found.value == pytest.approx(0.9, abs=0.001)
        assert holds(found, 0.9)
    private = summarize(con, tab, ["a"], degree=4)
    assert (private.count, private.row_cap) == (None, 1000)
    assert abs(private.sums[0] - 1000) < 100  # under ADD_REMOVE row_cap still hides how many rows there are


@pytest.mark.parametrize("family", ["laplace", "cube", "gaussian"])
@pytest.mark.parametrize("rows", [10**7, 2**40])
def test_sums_of_more_rows_than_the_samplers_hold_are_stored_and_read(rows, family):
    tab = table(column("a", nullable=False), row_cap=1000)
    task = plan(["a"], tab, neighbours=REPLACE, degree=4, path="sums", noise=family, delta_atto=10**10)
    mass = rows << task.moments.bits
    assert mass > 2**62
    summary = SmoothSummary.load(task.release([(mass, 0, -mass, 0)]))  # all at 0.5
    assert (summary.count, summary.moments[0]) == (rows, mass)
    assert answer(summary, "a").value == pytest.approx(0.5, abs=0.001)
    assert answer(summary, "(a - 0.5) * (a - 0.5)").value == pytest.approx(0, abs=0.001)
    assert summary.moments[2] != -mass


def test_a_degree_from_a_public_count_above_row_cap(con):
    con.execute("CREATE TABLE t AS SELECT 0.9 AS a FROM range(100000)")
    tab = table(column("a", nullable=False), row_cap=1000)
    task = plan_counted(
        tab, ["a"], epsilon_nano=NANO, neighbours=REPLACE, delta_atto=0, wishes=Wishes(smoothness=4, path="sums")
    )
    summary = SmoothSummary.load(task.work(1)(Stages(lambda query: run(con, query))))
    assert summary.count == 100_000
    assert answer(summary, "a").value == pytest.approx(0.9, abs=0.001)


def test_a_count_that_the_cap_contradicts_is_no_summary(con):
    tab = dataclasses.replace(VISITS, columns=(dataclasses.replace(COST, nullable=False),))
    raw = json.loads(summarize(con, tab, ["cost"], neighbours=REPLACE, degree=4).dump())
    with pytest.raises(CatalogError):
        SmoothSummary.load(json.dumps({**raw, "row_cap": 10}))


@pytest.mark.parametrize(
    "rows", [[], [(1,) * 24], [(1,) * 25] * 2, [(None,) + (1,) * 24], [(1.0,) * 25], [(True,) * 25]]
)
def test_rows_of_another_shape_are_refused_without_showing_them(rows):
    with pytest.raises(InternalError) as caught:
        plan(degree=5, path="sums").release(iter(rows))
    assert not any(digit in caught.value.message for digit in "0123456789")


def test_payload_round_trip(con):
    for neighbours in Neighbours:
        summary = summarize(con, VISITS, ["age", "cost"], neighbours=neighbours, epsilon=0.3, degree=6, order=1)
        again = SmoothSummary.load(summary.dump())
        assert (again.dump(), again.basis, again.columns) == (summary.dump(), summary.basis, summary.columns)
        np.testing.assert_array_equal(again.noise.deviations, summary.noise.deviations)
        assert type(summary.columns[0].lower) is int
        assert type(summary.columns[1].lower) is float


def damaged(text):
    raw = json.loads(text)
    yield from ("", "{", "[]", "null", "5", '"x"')
    for key in raw:
        yield json.dumps({k: v for k, v in raw.items() if k != key})
    columns = json.loads(raw["columns"])
    for change in (
        {"format": 1},
        {"format": 3},
        {"kind": "other"},
        {"moments": raw["moments"][:-1]},
        {"moments": [0.5] * 25},
        {"moments": [2**63] * 25},
        {"moments": 3},
        {"scales": [0.0]},
        {"scales": ["1"]},
        {"scales": [float("nan")]},
        {"scales": []},
        {"cuts": []},
        {"cuts": [0]},
        {"cuts": [8, 8]},
        {"cuts": "x"},
        {"path": 3},
        {"row_error": -1.0},
        {"row_error": 2},
        {"level_errors": [0.5]},
        {"level_errors": ["x"] * 9},
        {"bits": -1},
        {"degree": 6},
        {"degree": 1},
        {"columns": "[]"},
        {"columns": "["},
        {"columns": json.dumps([{**columns[0], "lower": "x"}, columns[1]])},
        {"shape": "round"},
        {"order": 1},
        {"columns": json.dumps([{**columns[0], "name": 1}, columns[1]])},
        {"degrees": [5, 6]},
        {"delta_atto": -1},
        {"columns": json.dumps([{**columns[0], "lower": 111}, columns[1]])},
        {"order": "2"},
        {"columns": json.dumps([{**columns[0], "domain": 5, "lower": None}, columns[1]])},
        {"bits": 99},
        {"family": "none"},
        {"neighbours": "x"},
        {"count": 7},
        {"weighted": 1},
        {"row_cap": 0},
        {"epsilon_nano": 0},
        {"table": 5},
        {"extra": 1},
    ):
        yield json.dumps({**raw, **change})


def test_a_damaged_payload_is_refused(con):
    text = summarize(con, VISITS, ["age", "cost"], degree=5).dump()
    for bad in damaged(text):
        with pytest.raises(DuckDPError) as caught:
            SmoothSummary.load(bad)
        assert caught.value.code == "C105"
