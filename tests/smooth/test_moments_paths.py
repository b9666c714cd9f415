"""Cells and blocks: as close to the exact sums as they say, for every kind of column; and what the planner takes."""

import datetime as dt
import re
from fractions import Fraction

import numpy as np
import pytest

from duckdp.core.types import Neighbours
from duckdp.errors import InternalError, ParameterError
from duckdp.smooth.basis import Basis
from duckdp.smooth.summary import make_basis
from duckdp.smooth.sums import blocks, limbs
from duckdp.smooth.sums.cells import CellSums, make_grid
from duckdp.smooth.sums.moments import PATHS, plan_moments
from duckdp.smooth.sums.split import Factors, choose_split
from tests.smooth.tables import column, connect, reference, table
from tests.smooth.test_smooth_moments import columns, fill

ONE = Fraction(1)


@pytest.fixture
def con():
    connection = connect()
    yield connection
    connection.close()


def arrays(con, query):
    """A streamed query's rows as the engine hands them over: tuples of arrays."""
    for batch in con.sql(query.sql, params=list(query.parameters)).to_arrow_table().to_batches(max_chunksize=700):
        yield tuple(c.to_numpy(zero_copy_only=False) for c in batch.columns)


def collect(con, plan, *, streamed=True):
    query = plan.query()
    if streamed and query.rows is None:
        return plan.collect(arrays(con, query))
    return plan.collect(con.execute(query.sql, list(query.parameters)).fetchall())


def check(con, plan, wanted, rows):
    """Every sum within rows * row_error (and half a unit) of the exact one, and degree 0 exact."""
    off = np.abs(np.array(collect(con, plan), dtype=object) - wanted * 2 ** (plan.bits - 40))
    assert max(off) <= 2**plan.bits * plan.row_error * rows + 1
    assert off[0] == 0


@pytest.mark.parametrize("path", ["sums", "cells", "blocks"])
@pytest.mark.parametrize(("d", "t"), [(1, 3), (1, 40), (2, 6), (3, 4)])
def test_every_path_gives_the_same_sums(con, path, d, t):
    clean, _ = fill(con)
    cols = columns(d)
    kept = ~np.isnan(clean[:, :d]).any(axis=1)
    basis = make_basis(cols, t)
    plan = plan_moments(table(*cols, expected_rows=10**5), cols, basis, epsilon=ONE, path=path)
    wanted = reference(clean[kept, :d], basis, 40).sum(axis=0).astype(float)
    assert plan.path == path
    check(con, plan, wanted, kept.sum())


@pytest.mark.parametrize("path", ["sums", "blocks"])
@pytest.mark.parametrize("shape", ["total_degree", "hyperbolic_cross"])
@pytest.mark.parametrize("order", [None, 2])
def test_other_index_sets(con, path, shape, order):
    clean, _ = fill(con, n=400)
    cols = columns(3)
    kept = ~np.isnan(clean).any(axis=1)
    basis = make_basis(cols, 6, shape, order)
    plan = plan_moments(table(*cols), cols, basis, epsilon=ONE, path=path)
    check(con, plan, reference(clean[kept], basis, 40).sum(axis=0).astype(float), kept.sum())


@pytest.mark.parametrize("shape", ["tensor", "total_degree", "hyperbolic_cross"])
@pytest.mark.parametrize("order", [None, 1, 2])
def test_functions_on_blocks_whose_space_is_used_again(shape, order):
    """Powers of a column are views of the space where its lines allow it; the product overwrites them all."""
    basis, rng = make_basis(tuple(column(c) for c in "abc"), 5, shape, order), np.random.default_rng(1)
    split = choose_split(basis)
    for degrees, space in ((f.degrees, f.space(64)) for f in (split.left, split.right, Factors(basis.indices))):
        for rows in (64, 17):
            units = rng.uniform(-1, 1, (3, rows))
            powers = [np.polynomial.chebyshev.chebvander(u, 4)[:, k].T for u, k in zip(units, degrees.T, strict=True)]
            found = space.fill(list(units))
            assert found == pytest.approx(np.prod(powers, axis=0), abs=1e-13)
            found *= 3.7


def test_order_two_over_many_columns_is_one_product():
    cols = tuple(column(f"c{i}") for i in range(60))
    basis = make_basis(cols, 3, "tensor", 2)
    split = choose_split(basis)
    assert basis.size == 1 + 120 + 60 * 59 * 2
    assert max(len(split.left.degrees), len(split.right.degrees)) <= 121
    left, right = split.left.degrees[split.at_left], split.right.degrees[split.at_right]
    assert np.array_equal(left + right, basis.indices)


def test_a_tensor_set_is_split_into_halves():
    split = choose_split(make_basis(tuple(column(c) for c in "abcd"), 4))
    assert (len(split.left.degrees), len(split.right.degrees)) == (16, 16)


MIXED = (
    column("sex", None, None, "VARCHAR", domain=("F", "M", None)),
    column("town", None, None, "VARCHAR", domain=tuple(f"t{i}" for i in range(30)), other="t7"),
    column("day", dt.date(2020, 1, 1), dt.date(2020, 12, 31), "DATE"),
    column("stamp", dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1), "TIMESTAMP"),
    column("ok", None, None, "BOOLEAN"),
    column("kids", 0, 3, "INTEGER"),
    column("code", None, None, "INTEGER", domain=(5, 3, 9)),
    column("level", None, None, "INTEGER", domain=(*range(40), None, *range(100, 110))),
)


def fill_mixed(con, n=500):
    con.execute(
        f"CREATE TABLE t AS SELECT CASE i % 4 WHEN 0 THEN 'F' WHEN 1 THEN 'M' WHEN 2 THEN 'f' END AS sex, "
        "CASE WHEN i % 11 > 0 THEN 't' || (i % 33) END AS town, "
        "CASE i % 13 WHEN 0 THEN 'infinity'::DATE WHEN 1 THEN NULL ELSE DATE '2019-12-01' + (i * 7 % 430)::INTEGER END "
        "AS day, "
        "CASE i % 17 WHEN 0 THEN '-infinity'::TIMESTAMP ELSE TIMESTAMP '2020-01-01' + INTERVAL (i * 977) MINUTE END "
        "AS stamp, "
        "CASE i % 3 WHEN 0 THEN true WHEN 1 THEN false END AS ok, (i % 8 - 2)::INTEGER AS kids, "
        "(i % 10)::INTEGER AS code, CASE WHEN i % 5 > 0 THEN (i % 120)::INTEGER END AS level "
        f"FROM range({n}) r(i)"
    )


def value_of(col, axis, value):
    """A raw value as a number or place of its axis, NaN when its row does not count."""
    if axis.values is None:
        if value is None:
            return np.nan
        low, high = col.lower, col.upper
        return axis.numbers([min(max(value, low), high)])[0]
    if col.lower is not None and value is not None:
        value = min(max(value, col.lower), col.upper)
    if value not in axis.values:
        value = col.other if value is not None and col.other is not None else "absent"
    return axis.values.index(value) if value in axis.values and (value is not None or None in axis.values) else np.nan


@pytest.mark.parametrize("path", ["sums", "cells", "blocks"])
@pytest.mark.parametrize(
    "names", [("sex", "town"), ("day", "ok"), ("stamp", "kids"), ("code", "level"), ("level", "town")]
)
def test_kinds_of_columns(con, path, names):
    fill_mixed(con)
    cols = tuple(next(c for c in MIXED if c.name == name) for name in names)
    basis = make_basis(cols, 5)
    raw = con.execute(f"SELECT {', '.join(names)} FROM t").fetchall()  # infinite dates come as the calendar's ends
    x = np.array([[value_of(c, a, v) for c, a, v in zip(cols, basis.axes, row, strict=True)] for row in raw])
    kept = ~np.isnan(x).any(axis=1)
    assert 20 < kept.sum() < len(x) or names == ("stamp", "kids")
    plan = plan_moments(table(*cols), cols, basis, epsilon=ONE, path=path)
    check(con, plan, reference(x[kept], basis, 40).sum(axis=0).astype(float), kept.sum())


@pytest.mark.parametrize("path", ["sums", "cells", "blocks"])
def test_a_null_rule_outside_the_bounds_is_clamped(con, path):
    con.execute(
        "CREATE TABLE t AS SELECT CASE WHEN i > 4 THEN i / 10 END::DOUBLE AS a, i::INTEGER AS b FROM range(10) r(i)"
    )
    cols = (column("a", null_value=7.0, nullable=False), column("b", 2, 5, "INTEGER", null_value=9))
    basis = make_basis(cols, 3)
    plan = plan_moments(table(*cols), cols, basis, epsilon=ONE, path=path)
    a = np.array([1.0] * 5 + [i / 10 for i in range(5, 10)])
    b = np.clip(np.arange(10), 2, 5).astype(float)
    b = b if basis.axes[1].values is None else b - 2
    check(con, plan, reference(np.stack([a, b], axis=1), basis, 40).sum(axis=0).astype(float), 10)


@pytest.mark.parametrize("path", ["sums", "cells", "blocks"])
@pytest.mark.parametrize("condition", ["false", "a IS NULL", "isnan(a)", "a IS NULL AND b IS NOT NULL"])
def test_nothing_gives_zeros(con, path, condition):
    fill(con)
    con.execute(f"CREATE TABLE u AS FROM t WHERE {condition}")
    cols = columns(2)
    plan = plan_moments(table(*cols, name="u"), cols, make_basis(cols, 4), epsilon=ONE, path=path)
    assert collect(con, plan) == collect(con, plan, streamed=False) == [0] * 16


@pytest.mark.parametrize("path", ["sums", "cells", "blocks"])
@pytest.mark.parametrize("key", [None, "k"])
def test_planted_macros_change_nothing_and_functions_are_qualified(con, path, key):
    fill(con)
    con.execute(
        "ALTER TABLE t ALTER a TYPE INTEGER USING CASE WHEN isnan(a) THEN NULL ELSE greatest(-9, least(9, a)) END"
    )
    cols = (column("a", -9, 9, "INTEGER"), *columns(2)[1:])[: 1 if key else 2]
    plan = plan_moments(table(*cols, unit_key=key), cols, make_basis(cols, 3), epsilon=ONE, path=path)
    before = collect(con, plan)
    called = {"sum", "floor", "acos", "isnan", "count_star", "list", "list_extract", "epoch_us", "list_position"}
    assert set(re.findall(r"system\.main\.([a-z_]+)\(", plan.query().sql)) <= called
    assert not set(re.findall(r"(?<![\w.])([a-z_]+)\(", plan.query().sql))
    for name in called:
        con.execute(f"CREATE MACRO main.{name}(x) AS 0")
    assert collect(con, plan) == before


def test_blocks_give_the_same_integers_whatever_the_batches(con):
    fill(con)
    cols = columns(2)
    plan = plan_moments(table(*cols, unit_key="k", max_rows=2), cols, make_basis(cols, 5), epsilon=ONE, path="blocks")
    assert collect(con, plan) == collect(con, plan, streamed=False)


def test_blocks_without_rounding_depend_on_the_order(con, monkeypatch):
    """The broken twin of the test above: what the rounding is for."""
    fill(con)
    monkeypatch.setattr(blocks, "_ROUNDER", 0.0)
    cols = columns(2)
    plan = plan_moments(table(*cols), cols, make_basis(cols, 5), epsilon=ONE, path="blocks")
    query = plan.query()
    rows = con.execute(query.sql, list(query.parameters)).fetchall()
    found = plan.program.collect(rows)
    again = [plan.program.collect(rows[k:] + rows[:k]) for k in (1, 500, 901)]
    assert any(other != found for other in again)


def test_limbs_are_exact():
    rng = np.random.default_rng(3)
    x = rng.integers(-(2**62), 2**62, (5, 200, 3))
    m = rng.integers(-(2**24), 2**24, (7, 200))
    found = limbs.from_limbs(limbs.contract(limbs.to_limbs(x), m.astype(float), 1))
    wanted = np.einsum("akb,rk->arb", x.astype(object), m.astype(object))
    assert found == wanted.reshape(-1).tolist()
    assert limbs.from_limbs(limbs.to_limbs(x)) == x.reshape(-1).tolist()


def test_coefficients_are_those_of_the_expansion():
    grid = make_grid(column("a"), make_basis((column("a"),), 30).axes[0], 64)
    s = np.linspace(-1, 1, 41)
    centre = (np.arange(64) + 0.5) * np.pi / 64
    theta = centre[:, None] + grid.half * s
    found = sum(grid.coefficients(k)[:, :, None] / 2**24 * np.cos(k * np.arccos(s)) for k in range(9))
    assert np.abs(found - np.cos(np.arange(30)[:, None, None] * theta)).max() < 9 * 2.0**-24


def test_the_planner_goes_by_public_figures():
    def path(d, t, rows, **more):
        cols = tuple(column(f"c{i}") for i in range(d))
        tab = table(*cols, row_cap=10 * rows, expected_rows=rows, **more)
        return plan_moments(tab, cols, make_basis(cols, t), epsilon=ONE).path

    assert path(1, 4, 10**4) == "sums"
    assert path(1, 64, 10**7) == "cells"
    assert path(2, 64, 10**6) == "cells"
    assert path(2, 64, 10**6, unit_key="k") in ("sums", "blocks")
    assert [path(d, t, 10**7) for d, t in ((2, 16), (3, 6), (4, 4))] == ["blocks"] * 3


@pytest.mark.parametrize("path", PATHS)
def test_the_grid_leaves_room_for_the_noise(path):
    cols = (column("a", 0, 9, "INTEGER"),)
    basis = make_basis(cols, 4)
    for cap, epsilon in ((10**3, ONE), (10**9, ONE), (2**40, ONE), (10**6, Fraction(1, 10**6))):
        if path == "cells" and cap > 2**33:  # its sums in doubles are exact up to there
            with pytest.raises(ParameterError, match="P107"):
                plan_moments(table(*cols, row_cap=cap), cols, basis, epsilon=epsilon, path=path)
            continue
        plan = plan_moments(table(*cols, row_cap=cap), cols, basis, epsilon=epsilon, path=path)
        l1 = plan.norms(Neighbours.REPLACE, count_public=False).l1
        assert plan.bits >= 10
        assert (cap << plan.bits) + 100 * l1 / epsilon < 2**62
    with pytest.raises(ParameterError, match="P107"):
        plan_moments(table(*cols, row_cap=2**53), cols, basis, epsilon=ONE, path=path)


def test_paths_that_do_not_fit_are_refused():
    cols = (column("a"),)
    for path in ("cells", "nonsense"):
        with pytest.raises(ParameterError, match="P107"):
            plan_moments(table(*cols, unit_key="k"), cols, make_basis(cols, 4), epsilon=ONE, path=path)


def test_rows_of_the_wrong_shape_are_an_internal_error():
    cols = (column("a"),)
    for path in ("sums", "cells"):
        plan = plan_moments(table(*cols), cols, make_basis(cols, 4), epsilon=ONE, path=path)
        with pytest.raises(InternalError):
            plan.collect([])
        with pytest.raises(InternalError):
            plan.collect([(1,)])


def test_cells_of_few_values_have_no_truncation():
    cols = (column("a", 0, 99, "INTEGER"), column("b", None, None, "BOOLEAN"))
    basis = make_basis(cols, 6)
    assert isinstance(basis, Basis)
    grids = tuple(make_grid(c, a, 8) for c, a in zip(cols, basis.axes, strict=True))
    cells = CellSums(table=table(*cols), columns=cols, basis=basis, grids=grids, order=0)
    assert (cells.cells, float(cells.level_truncations.max())) == (200, 0.0)
    assert cells.row_error < 2.0**-22


def test_errors_of_every_level_hold_and_grow_with_it(con):
    """Coarse cells: each degree's sums are within its own bound, and the highest ones really need the largest."""
    cols = (column("a"), column("b"))
    tab = table(*cols, row_cap=10**6, expected_rows=300)
    basis = make_basis(cols, 24)
    grids = tuple(make_grid(c, a, 16) for c, a in zip(cols, basis.axes, strict=True))
    cells = CellSums(table=tab, columns=cols, basis=basis, grids=grids, order=4)
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 1, (300, 2))
    con.register("frame", {"a": x[:, 0], "b": x[:, 1]})
    con.execute("CREATE TABLE t AS FROM frame")
    query = cells.query()
    found = np.array(cells.collect(con.execute(query.sql, list(query.parameters)).fetchall()), dtype=float) / 2**30
    off = np.abs(found - basis.evaluate(2 * x - 1).sum(axis=0)) / 300
    bound = np.array(cells.level_errors)[basis.levels]
    assert np.all(off <= bound + 1e-8)
    assert cells.level_errors[0] < 1e-4 < cells.row_error == cells.level_errors[-1]
    assert off.max() > cells.level_errors[8]  # one bound for all that held at low degrees would not at high ones
