"""Summaries per group: exact separation, one charge for all groups, and nothing but rounding in other groups."""

import dataclasses
import datetime as dt
import itertools
from fractions import Fraction

import numpy as np
import pytest

from duckdp.core.types import NANO, Neighbours
from duckdp.errors import CatalogError, ParameterError
from duckdp.smooth.answer import answer
from duckdp.smooth.basis import chebyshev
from duckdp.smooth.buy.per_group import _LEFT as LEFT
from duckdp.smooth.buy.per_group import MOST_GROUPS, largest_change, left_over, plan_grouped, separation
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.grouped import GroupedSummary
from duckdp.smooth.payloads import open_stored
from duckdp.smooth.summary import SmoothSummary
from tests.smooth.tables import column, connect, holds, table

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
SEX = column("sex", None, None, "VARCHAR", domain=("f", "m", "x"), other="x", nullable=False)
AGE = column("age", 0, 100, nullable=False)
PEOPLE = table(SEX, AGE, column("pay", 0, 10, nullable=False), name="people", expected_rows=30_000)


def plan(columns=("age",), by="sex", tab=PEOPLE, epsilon=1.0, neighbours=ADD_REMOVE, delta_atto=0, **wishes):
    return plan_grouped(
        tab,
        columns,
        by,
        epsilon_nano=round(epsilon * NANO),
        neighbours=neighbours,
        delta_atto=delta_atto,
        wishes=Wishes(**{"degree": 6, **wishes}),
    )


def fill(con, rows):
    con.execute("CREATE OR REPLACE TABLE people (sex VARCHAR, age DOUBLE, pay DOUBLE)")
    if rows:
        con.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)


def exact(con, task):
    """The sums of each group before the noise, int[G, R]."""
    query = task.query(0)
    found = task.whole.collect(iter(con.execute(query.sql, list(query.parameters)).fetchall()))
    size, matrix = task.basis.size, separation(task.whole.basis)
    blocks = np.array(found, dtype=object).reshape(len(matrix), size)
    return np.array(
        [
            [(sum(w * b for w, b in zip(row, blocks[:, r], strict=True)) + 2**59) >> 60 for r in range(size)]
            for row in matrix
        ],
        dtype=object,
    )


@pytest.fixture
def con():
    connection = connect()
    yield connection
    connection.close()


@pytest.mark.parametrize("shape", ["tensor", "total_degree"])
def test_each_group_has_the_sums_of_its_own_rows(con, shape):
    rng = np.random.default_rng(2)
    rows = [
        (s, a, p)
        for s, a, p in zip(
            rng.choice(list("fmz"), 600).tolist(),
            rng.uniform(0, 100, 600).tolist(),
            rng.uniform(0, 10, 600).tolist(),
            strict=True,
        )
    ]
    fill(con, rows)
    task = plan(("age", "pay"), degree=4, shape=shape)
    found = exact(con, task).astype(float) / 2**task.whole.bits
    for g, names in enumerate(("f", "m", "xz")):
        u = np.array([[a / 50 - 1, p / 5 - 1] for s, a, p in rows if s in names])
        near = len(u) * task.one.moments.row_error
        assert near < 0.05 * len(u)
        np.testing.assert_allclose(found[g], task.basis.evaluate(u).sum(axis=0), rtol=0, atol=near)


def test_one_row_moves_the_groups_by_no_more_than_the_bound(con):
    """The bound on the groups' changes added up, over rows at the ends of everything; without its slack it breaks."""
    task = plan(degree=5)
    bound = largest_change(task.whole)
    base = [("f", 3.0, 1.0), ("m", 97.0, 9.0)]
    fill(con, base)
    before, most = exact(con, task), 0
    for sex, age in itertools.product(("f", "m", "x", "other"), (0.0, 100.0, -5.0, 33.3, 50.0, 99.99999, 1e300)):
        fill(con, [*base, (sex, age, 0.0)])
        change = np.abs(exact(con, task) - before)
        most = max(most, int(change.max(axis=1).sum()))
    assert 2**task.whole.bits <= most <= bound
    assert bound < 2**task.whole.bits * (1.001 + 10 * task.whole.row_error)


def grouped_by(groups, **wishes):
    """A plan over so many values, each a text."""
    by = column("g", None, None, "VARCHAR", domain=tuple(f"v{i}" for i in range(groups)), nullable=False)
    return plan(by="g", tab=table(by, AGE, column("pay", 0, 10, nullable=False), name="people"), **wishes)


def rational_left(basis):
    """G times the largest entry of A T - 1, T by the recurrence in rational numbers."""
    matrix = [[Fraction(w, 2**60) for w in row] for row in separation(basis)]
    most = Fraction(0)
    for h, node in enumerate(basis.axes[0].nodes.tolist()):
        u = Fraction(node)
        values = [Fraction(1), u]
        while len(values) < len(matrix):
            values.append((2 * u * values[-1] - values[-2]).limit_denominator(2**200))
        for g, row in enumerate(matrix):
            found = sum((w * v for w, v in zip(row, values, strict=False)), Fraction(0))
            most = max(most, abs(found - (g == h)))
    return len(matrix) * most


@pytest.mark.parametrize("bits", [6, 12, 20, 29])
@pytest.mark.parametrize("groups", [3, 7])
def test_whole_totals_on_a_coarse_grid_are_in_the_bound(groups, bits):
    """A row's own share is as exact as the path states, and each total of all rows is rounded on top of it."""
    whole = dataclasses.replace(grouped_by(groups, degree=2).whole, row_error=2.0**-40, bits=bits)
    matrix = np.array(separation(whole.basis), dtype=float) / 2.0**60
    told = chebyshev(whole.basis.axes[0].nodes, groups)
    signs = np.array(list(itertools.product((-1, 1), repeat=groups)))
    moved = [np.abs((2.0**bits * row + signs) @ matrix.T) for row in told]
    worst = max(float(part.sum(axis=1).max()) for part in moved) + groups  # whose own rounding moves each by 1
    assert worst <= largest_change(whole)


@pytest.mark.parametrize("groups", [3, 5, 7])
def test_errors_of_one_row_reach_every_group_and_are_in_the_bound(groups):
    """Errors of either sign in each function that tells the groups apart, as large as the path states."""
    error = 2.0**-5
    whole = dataclasses.replace(grouped_by(groups, degree=2).whole, row_error=error)
    matrix = np.array(separation(whole.basis), dtype=float) / 2.0**60
    told = chebyshev(whole.basis.axes[0].nodes, groups)
    signs = np.array(list(itertools.product((-1, 1), repeat=groups)))
    worst = max(float(np.abs((row + error * signs) @ matrix.T).sum(axis=1).max()) for row in told)
    assert worst > 1 + error * float(np.abs(matrix).sum(axis=1).max())  # more than in any one group
    assert worst * 2.0**whole.bits <= largest_change(whole)


def test_a_public_number_of_rows_makes_no_groups_count_public():
    """Of all rows it is known; how many have which value is what the row's owner would hide."""
    task = plan(neighbours=REPLACE)
    assert (task.count_public, task.one.count_public) == (True, False)
    payload = task.one.noised([0] * task.basis.size)
    assert len(SmoothSummary.load(payload).cuts) == len(SmoothSummary.load(payload).scales) > 0
    assert SmoothSummary.load(payload).count is None


@pytest.mark.parametrize("groups", range(2, MOST_GROUPS + 1))
def test_every_number_of_groups_is_planned_and_told_apart(groups):
    task = grouped_by(groups, degree=2)
    assert len(task.whole.basis.axes[0].nodes) == groups
    values = chebyshev(task.whole.basis.axes[0].nodes, groups).T
    assert left_over(np.array(separation(task.whole.basis), dtype=float) / 2.0**60, values) <= LEFT
    assert "one summary for each of the" in task.describe()[0]


@pytest.mark.parametrize("groups", [2, 3, 17])
def test_the_separation_is_as_exact_as_the_bound_says(groups):
    task = grouped_by(groups, degree=2)
    assert rational_left(task.whole.basis) <= LEFT
    coarse = [[(w >> 30) << 30 for w in row] for row in separation(task.whole.basis)]
    values = chebyshev(task.whole.basis.axes[0].nodes, groups).T
    assert groups == 2 or left_over(np.array(coarse, dtype=float) / 2.0**60, values) > LEFT  # the broken twin: 2^-30


@pytest.mark.slow
@pytest.mark.parametrize("groups", [48, 51, 59, 61, 63, 64])
def test_the_separation_of_many_groups_is_as_exact(groups):
    assert rational_left(grouped_by(groups, degree=2).whole.basis) <= LEFT


@pytest.mark.parametrize("groups", [1, MOST_GROUPS + 1, 200])
def test_other_numbers_of_groups_are_refused_by_name(groups):
    with pytest.raises(ParameterError, match=f"2 to {MOST_GROUPS} values") as refused:
        grouped_by(groups, degree=2)
    assert refused.value.code == "P107"


@pytest.mark.parametrize("interactions", [1, 2, None])
@pytest.mark.parametrize("shape", ["tensor", "total_degree", "hyperbolic_cross"])
def test_the_group_is_a_factor_of_every_function(shape, interactions):
    """What a computed function errs by grows with its factors: those of an index, and the group's."""
    basis = plan(("age", "pay"), degree=4, shape=shape, order=interactions).whole.basis
    factors = int((basis.indices > 0).sum(axis=1).max())
    assert factors == min(3, 1 + (interactions or 2))
    bound, known = 0.0, 1
    while known < max(basis.degrees) - 1:
        bound, known = 5 * bound + 2 * bound**2 + 4 * 2.0**-53, 2 * known
    assert basis.float_error() >= factors * bound + (factors + 1) * 2.0**-53


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
def test_every_group_has_the_noise_of_the_whole_charge(neighbours):
    task = plan(neighbours=neighbours, weights="uniform", noise="cube")
    change = largest_change(task.whole) * (2 if neighbours is REPLACE else 1)
    assert Fraction(task.one.plan.noise.scales[0]) == change  # epsilon 1
    assert (task.loss.epsilon_nano, task.loss.delta_atto) == (NANO, 0)
    gaussian = plan(neighbours=neighbours, delta_atto=10**10, noise="gaussian", weights="uniform")
    sigma = gaussian.one.plan.noise.scales[0]
    assert task.basis.size * change**2 / (2 * sigma**2) <= gaussian.loss.rho_pico / 1e12 * (1 + 1e-9)


def test_answers_per_group(con):
    rng = np.random.default_rng(4)
    ages = {"f": rng.uniform(20, 40, 9000), "m": rng.uniform(50, 90, 6000)}
    fill(con, [])
    for sex, values in ages.items():
        con.register("v", {"a": values})
        con.execute(f"INSERT INTO people SELECT '{sex}', a, 1 FROM v")
    task = plan(epsilon=5)
    query = task.query(0)
    payload = task.release(iter(con.execute(query.sql, list(query.parameters)).fetchall()))
    for sex, values in ages.items():
        found = answer(open_stored(payload, sex), "age", level=0.9999)
        assert holds(found, values.mean())
        assert found.high - found.low < 2
    assert answer(open_stored(payload, "x"), "1", statistic="sum").value == pytest.approx(0, abs=60)
    again = GroupedSummary.load(payload)
    assert (again.values, again.dump()) == (("f", "m", "x"), payload)
    for bad in ("z", "", "F"):
        with pytest.raises(ParameterError, match="must be one of the values"):
            open_stored(payload, bad)
    with pytest.raises(ParameterError, match="must name a value"):
        open_stored(payload, strict=True)
    with pytest.raises(CatalogError):
        open_stored(payload.replace('"format":1', '"format":9'))


@pytest.mark.parametrize("path", ["sums", "cells"])
def test_a_public_number_of_rows_above_row_cap_cuts_no_group(con, path):
    con.execute(
        "CREATE OR REPLACE TABLE people AS SELECT ['f', 'm'][1 + i % 2] AS sex, 90.0 AS age, 1.0 AS pay "
        "FROM range(50000) r(i)"
    )
    small = dataclasses.replace(PEOPLE, row_cap=1000)
    task = plan(tab=small, neighbours=REPLACE, path=path, epsilon=5)
    query = task.query(0)
    rows = con.execute(query.sql, list(query.parameters)).fetchall()
    summary = open_stored(task.release(iter(rows)), "f")
    assert summary.row_cap == 50_000
    assert answer(summary, "1", statistic="sum").value == pytest.approx(25_000, abs=500)
    assert answer(summary, "age").value == pytest.approx(90, abs=1)
    private = plan(tab=small, path=path, epsilon=5)
    rows = con.execute(private.query(0).sql, list(private.query(0).parameters)).fetchall()
    assert open_stored(private.release(iter(rows)), "f").row_cap == 1000


DAY, NOON = dt.date(2020, 1, 31), dt.datetime(2020, 1, 31, 12)


@pytest.mark.parametrize(
    ("kind", "values", "names"),
    [
        ("BOOLEAN", (False, True, None), {"true": 1, "TRUE": 1, "False": 0, "NULL": 2, "1": None, "": None}),
        ("DOUBLE", (0.0, 1.5), {"0": 0, "0.0": 0, "-0": 0, "1.5": 1, "1.50": 1, "15e-1": 1, "nan": None, "x": None}),
        ("INTEGER", (0, 1), {"0": 0, "1": 1, "1.0": 1, "True": None, "NULL": None}),
        ("VARCHAR", ("a", "A"), {"a": 0, "A": 1, "NULL": None, " a": None}),
        ("VARCHAR", ("NULL", None), {"NULL": 0, "<NULL>": 1, "null": None}),
        ("VARCHAR", (None, "<NULL>", "NULL"), {"NULL": 2, "<NULL>": 1, "<<NULL>>": 0}),
        ("VARCHAR", (None, "null"), {"NULL": 0, "null": 1}),
        ("DATE", (DAY,), {"2020-01-31": 0, "20200131": 0, "2020-01-30": None, "today": None}),
        ("TIMESTAMP", (NOON,), {"2020-01-31 12:00:00": 0, "2020-01-31T12:00": 0, "2020-01-31": None}),
    ],
)
def test_a_group_is_named_by_its_value_in_the_columns_kind(kind, values, names):
    by = column("by", None, None, kind, domain=values)
    found = GroupedSummary(by=by, values=values, summaries=tuple(range(len(values))))
    for name, place in names.items():
        if place is not None:
            assert found.of(name) == place, name
            continue
        with pytest.raises(ParameterError) as caught:
            found.of(name)
        assert (caught.value.code, caught.value.name) == ("P107", "category")


@pytest.mark.parametrize("by", ["age", "pay"])
def test_groups_need_a_domain_that_is_not_summarised(by):
    with pytest.raises(ParameterError) as caught:
        plan(by=by)
    assert (caught.value.code, caught.value.name) == ("P107", "per")


def test_units_of_several_rows_have_no_groups():
    keyed = dataclasses.replace(PEOPLE, unit_key="id", unit_type="INTEGER")
    with pytest.raises(ParameterError, match="unit_key"):
        plan(tab=keyed)
