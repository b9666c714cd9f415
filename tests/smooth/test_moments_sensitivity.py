"""What one row can change in the integers of each path, against ``MomentPlan.norms``: brute force over pairs."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from duckdp.core.types import Neighbours
from duckdp.smooth.summary import make_basis
from duckdp.smooth.sums import blocks, cells
from duckdp.smooth.sums.cells import CellSums, make_grid
from duckdp.smooth.sums.direct import MOST_BITS, bits_without_clamp
from duckdp.smooth.sums.moments import MomentPlan, plan_moments
from tests.smooth.tables import column, connect, table
from tests.smooth.test_moments_paths import collect

ONE = Fraction(1)
PATHS = ("sums", "cells", "blocks")


@pytest.fixture
def con():
    connection = connect()
    yield connection
    connection.close()


def nasty(places=64):
    """Numbers near the bounds 0 and 1, at cells' edges, and such as no column of numbers should hold."""
    edges = (1 - np.cos(np.pi * np.arange(places + 1) / places)) / 2
    chosen = [*edges[[1, 2, places // 2, places - 1]], *np.linspace(0, 1, 7)]
    near = [np.nextafter(v, v + s) for v in chosen for s in (-1, 1)]
    return [None, math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, *map(float, chosen), *map(float, near)]


def singles(con, plan, rows, width):
    """The integers of a table of one row, for each row: int[n, R], at least one of them all zeros."""
    found = []
    for row in rows:
        con.execute("DELETE FROM t")
        con.execute(f"INSERT INTO t VALUES ({', '.join(['?'] * width)})", list(row))
        found.append(collect(con, plan))
    return np.array(found, dtype=object)


def worst(vectors):
    """Largest l1, l2 squared and linf over pairs."""
    found = [0, 0, 0]
    for a, b in itertools.combinations(vectors, 2):
        gap = [abs(int(v)) for v in a - b]
        found = [max(f, g) for f, g in zip(found, (sum(gap), sum(g * g for g in gap), max(gap)), strict=True)]
    return found


def largest(vectors):
    """Largest norms of one vector: what adding or removing its row changes."""
    return worst_of([abs(v) for v in vectors])


def worst_of(vectors):
    return [max(int(sum(v)) for v in vectors), max(int(sum(v * v)) for v in vectors), max(int(max(v)) for v in vectors)]


def plan_of(path, cols, t, **more):
    basis = make_basis(cols, t)
    plan = plan_moments(table(*cols, expected_rows=10**5, **more), cols, basis, epsilon=ONE, path=path)
    if path != "cells":
        return plan
    grids = tuple(make_grid(c, a, 64 if len(cols) == 1 else 8) for c, a in zip(cols, basis.axes, strict=True))
    program = CellSums(table=table(*cols, **more), columns=cols, basis=basis, grids=grids, order=3, bits=plan.bits)
    return replace(plan, program=program, row_error=program.row_error, excess=program.row_error)


def holds(plan, vectors):
    """Whether both relations' norms bound the vectors."""
    replaced = plan.norms(Neighbours.REPLACE, count_public=False)
    added = plan.norms(Neighbours.ADD_REMOVE, count_public=False)
    bounds = [(worst(vectors), replaced), (largest(vectors), added)]
    return all(
        l1 <= bound.l1 and square <= bound.l2_squared and linf <= bound.linf for (l1, square, linf), bound in bounds
    )


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("t", [3, 8])
def test_one_column(con, path, t):
    con.execute("CREATE TABLE t (a DOUBLE)")
    cols = (column("a"),)
    plan = plan_of(path, cols, t)
    extreme = (1 + math.cos(3 * math.pi / (2 * t - 1))) / 2  # nearly the farthest point from x = 1
    vectors = singles(con, plan, [(v,) for v in (*nasty(), extreme)], 1)
    assert holds(plan, vectors)
    assert worst(vectors)[0] > 0.93 * plan.norms(Neighbours.REPLACE, count_public=False).l1  # and not by far


@pytest.mark.parametrize("path", PATHS)
def test_two_columns(con, path):
    con.execute("CREATE TABLE t (a DOUBLE, b INTEGER)")
    cols = (column("a"), column("b", 0, 40, "INTEGER"))
    plan = plan_of(path, cols, 4)
    rows = [(a, b) for a in (0.0, 1.0, 5e-324, 1 - 2**-53, 0.3, 2.0, None) for b in (0, 40, 41, 7, None)]
    assert holds(plan, singles(con, plan, rows, 2))


@pytest.mark.parametrize("path", PATHS)
def test_the_vector_of_a_row_is_within_row_error_of_the_exact_one(con, path):
    con.execute("CREATE TABLE t (a DOUBLE)")
    cols = (column("a"),)
    plan = plan_of(path, cols, 12)
    x = np.clip([v for v in nasty() if v is not None and v == v], 0, 1)
    vectors = singles(con, plan, [(float(v),) for v in x], 1)
    exact = np.cos(np.arange(12) * np.arccos(np.clip(2 * x - 1, -1, 1))[:, None])
    error = np.abs((vectors / 2**plan.bits).astype(float) - exact).max()
    assert error <= plan.row_error + 2.0**-plan.bits + 1e-14
    assert path == "sums" or plan.row_error < 1e-3


@pytest.mark.parametrize("path", ["sums", "blocks", "cells"])
@pytest.mark.parametrize("max_rows", [1, 3])
@pytest.mark.parametrize("rows", [1, 2, 4, 997])
def test_a_unit_adds_at_most_max_rows(con, path, max_rows, rows):
    cols = (column("a", 0, 50, "INTEGER"),)
    plan = plan_of(path, cols, 6, unit_key="k", max_rows=max_rows)
    bound = plan.norms(Neighbours.ADD_REMOVE, count_public=False)
    for value in ("0", "50", "i % 51", "60"):
        con.execute(f"CREATE OR REPLACE TABLE t AS SELECT {value}::INTEGER AS a, 1 AS k FROM range({rows}) r(i)")
        found = [abs(v) for v in collect(con, plan)]
        assert max(found) <= bound.linf
        assert sum(found) <= bound.l1
        assert found[0] <= max_rows << plan.bits


def test_too_few_cells_for_the_stated_error_are_caught(con, monkeypatch):
    """Broken twin: an expansion one order short of what its error says."""
    con.execute("CREATE TABLE t (a DOUBLE)")
    cols = (column("a"),)
    plan = plan_of("cells", cols, 12)
    short = replace(plan.program, order=1)
    lying = replace(plan, program=short)
    x = np.linspace(0, 1, 40)
    vectors = singles(con, lying, [(float(v),) for v in x], 1)
    exact = np.cos(np.arange(12) * np.arccos(2 * x - 1)[:, None])
    assert np.abs((vectors / 2**plan.bits).astype(float) - exact).max() > plan.row_error


def test_cells_that_lose_the_first_order_leave_the_norms(con, monkeypatch):
    """Broken twin: offsets counted with the wrong sign move rows apart further than the norms say."""
    con.execute("CREATE TABLE t (a DOUBLE)")
    honest = cells.Grid.coefficients
    monkeypatch.setattr(cells.Grid, "coefficients", lambda self, k: honest(self, k) * (-8.0) ** k)
    cols = (column("a"),)
    plan = plan_of("cells", cols, 8)
    assert not holds(plan, singles(con, plan, [(v,) for v in nasty()], 1))


def test_blocks_without_the_weights_leave_the_norms(con, monkeypatch):
    """Broken twin: every row of a unit counts in full."""
    honest = blocks._product
    monkeypatch.setattr(blocks, "_product", lambda a, b, weight: honest(a, b, None))
    cols = (column("a", 0, 50, "INTEGER"),)
    plan = plan_of("blocks", cols, 6, unit_key="k", max_rows=3)
    con.execute("CREATE TABLE t AS SELECT 50 AS a, 1 AS k FROM range(9) r(i)")
    assert max(map(abs, collect(con, plan))) > plan.norms(Neighbours.ADD_REMOVE, count_public=False).linf


def test_norms_that_forget_the_excess_are_caught():
    """Broken twin: a path that may exceed 1 but says so must be charged for it."""
    cols = (column("a"),)
    plan = plan_of("cells", cols, 8)
    assert isinstance(plan, MomentPlan)
    silent = replace(plan, excess=0.0, row_error=0.0)
    for relation in Neighbours:
        honest, less = plan.norms(relation, count_public=False), silent.norms(relation, count_public=False)
        assert honest.l1 > less.l1
        assert honest.l2_squared > less.l2_squared
        assert honest.linf > less.linf


@pytest.mark.parametrize(("row_error", "excess"), [(0.0, 0.0), (2.0**-4, 0.0), (2.0**-4, 2.0**-6), (2.0**-4, 2.0**-4)])
def test_norms_bound_all_that_a_path_may_give_by_what_it_states(row_error, excess):
    """Two rows as far apart as errors within ``row_error`` bring them, in -(1 + excess) to 1 + excess."""
    for t in (2, 3, 8):
        plan = replace(plan_of("sums", (column("a"),), t), row_error=row_error, excess=excess)
        u = np.cos(np.linspace(0, np.pi, 241))
        phi, allowed = np.polynomial.chebyshev.chebvander(u, t - 1), np.full(t, row_error)
        allowed[0] = 0  # rows are counted exactly
        up, down = (np.clip(phi + s * allowed, -1 - excess, 1 + excess) for s in (1, -1))
        gap = np.maximum(np.abs(up[:, None] - down[None, :]), np.abs(down[:, None] - up[None, :])) * 2.0**plan.bits
        bound = plan.norms(Neighbours.REPLACE, count_public=True)
        assert gap.sum(axis=2).max() <= bound.l1
        assert (gap**2).sum(axis=2).max() <= bound.l2_squared
        assert gap.max() <= bound.linf
        for max_rows in (1, 3):
            added = np.maximum(np.abs(up), np.abs(down)) * (max_rows << plan.bits)
            bound = replace(plan, max_rows=max_rows).norms(Neighbours.ADD_REMOVE, count_public=False)
            assert added.sum(axis=1).max() <= bound.l1
            assert (added**2).sum(axis=1).max() <= bound.l2_squared
            assert added.max() <= bound.linf


def test_a_public_count_is_a_whole_number_on_every_path(con):
    con.execute("CREATE TABLE t AS SELECT (i % 97) / 97 AS a, i % 12 AS b FROM range(5000) r(i)")
    cols = (column("a"), column("b", 0, 11, "INTEGER"))
    for path in PATHS:
        plan = plan_of(path, cols, 5)
        assert collect(con, plan)[0] == 5000 << plan.bits


@pytest.mark.parametrize("t", [3, 20, 60, 200])
def test_the_grid_is_so_coarse_that_rounding_brings_every_summand_back(t):
    """A computed function is within the recurrence's error of [-1, 1]; on the grid it must not stand beyond 1."""
    basis = make_basis((column("x", 0.0, 1.0),), t)
    bits = bits_without_clamp(basis, MOST_BITS)
    assert Fraction(basis.float_error()) * 2**bits <= Fraction(1, 4)
    assert bits == MOST_BITS or Fraction(basis.float_error()) * 2 ** (bits + 1) > Fraction(1, 4)
    assert (bits < MOST_BITS) == (t >= 20)
