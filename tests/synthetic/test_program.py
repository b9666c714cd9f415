"""The grid's contractions against the matrix, and the interior point method against HiGHS and scipy."""

import numpy as np
import pytest
from scipy.optimize import linprog

from duckdp.errors import InternalError, NumericalError
from duckdp.synthetic.lp.make import columns as pricing
from duckdp.synthetic.lp.make.columns import Grid, JoinedColumns, ListedColumns, TensorColumns
from duckdp.synthetic.lp.make.interior import Objective, fit_distribution, solve_interior
from tests.synthetic.programs import make_grid, make_program


def random_grid(rng, degrees, shape, rows=None):
    """General functions (not polynomials), different numbers per axis, any subset of the indices."""
    axes = tuple(
        np.concatenate([np.ones((1, n)), rng.uniform(-1, 1, (t - 1, n))]) for t, n in zip(degrees, shape, strict=True)
    )
    everything = np.stack(np.unravel_index(np.arange(np.prod(degrees)), degrees), axis=1)
    chosen = everything if rows is None else everything[np.sort(rng.permutation(len(everything) - 1)[: rows - 1]) + 1]
    if rows is not None:
        chosen = np.concatenate([everything[:1], chosen])
    return Grid(axes=axes, indices=chosen.astype(np.int64))


def every_point(grid):
    return np.stack(np.unravel_index(np.arange(grid.size), grid.shape), axis=1)


CASES = [((5,), (9,), None), ((3, 4), (7, 5), None), ((2, 4, 3), (2, 9, 6), 11), ((2, 2, 2, 2, 3), (2, 2, 3, 2, 5), 20)]


@pytest.mark.parametrize(("degrees", "shape", "rows"), CASES)
@pytest.mark.parametrize("slab", [1, 20, 10**6])
def test_contractions_equal_the_matrix(degrees, shape, rows, slab, monkeypatch):
    monkeypatch.setattr(pricing, "SLAB", slab)
    rng = np.random.default_rng(len(degrees))
    grid = random_grid(rng, degrees, shape, rows)
    matrix = grid.columns(every_point(grid))
    direct = np.ones((grid.rows, *shape))
    for i, values in enumerate(grid.axes):
        broadcast = [1] * len(shape)
        broadcast[i] = -1
        direct *= values[grid.indices[:, i]].reshape(grid.rows, *broadcast)
    np.testing.assert_allclose(matrix, direct.reshape(grid.rows, -1), atol=1e-14)
    y, u = rng.normal(size=grid.rows), rng.uniform(0, 1, grid.size)
    np.testing.assert_allclose(grid.values(y), y @ matrix, atol=1e-12)
    np.testing.assert_allclose(grid.moments(u), matrix @ u, atol=1e-12)
    assert np.abs(grid.values(y) - y @ matrix).max() <= 2 * grid.error(y)
    assert TensorColumns.fits(grid)
    np.testing.assert_allclose(TensorColumns(grid).gram(u), (matrix * u) @ matrix.T, atol=1e-10)
    joined = JoinedColumns(TensorColumns(grid), ListedColumns(matrix[:, :3]))
    longer = np.concatenate([matrix, matrix[:, :3]], axis=1)
    v = rng.uniform(0, 1, longer.shape[1])
    np.testing.assert_allclose(joined.values(y), y @ longer, atol=1e-12)
    np.testing.assert_allclose(joined.moments(v), longer @ v, atol=1e-12)
    np.testing.assert_allclose(joined.gram(v), (longer * v) @ longer.T, atol=1e-10)


@pytest.mark.parametrize("slab", [1, 40, 10**6])
def test_pricing_finds_the_largest_and_the_tops(slab, monkeypatch):
    monkeypatch.setattr(pricing, "SLAB", slab)
    rng = np.random.default_rng(4)
    grid = make_grid(2, 5, 31)
    y = rng.normal(size=grid.rows)
    table = grid.values(y).reshape(grid.shape)
    priced = grid.price(y, 0.3, 1000)
    assert priced.largest == table.max()
    padded = np.pad(table, 1, constant_values=-np.inf)
    around = np.max([padded[1 + i : 32 + i, 1 + j : 32 + j] for i, j in ((1, 0), (-1, 0), (0, 1), (0, -1))], axis=0)
    expected = {tuple(p) for p in np.argwhere((table >= around) & (table > 0.3)).tolist()}
    found = {tuple(p) for p in priced.points.tolist()}
    assert expected <= found
    assert found == expected or slab < 10**6  # slabs do not see over their border
    heights = table[tuple(priced.points.T)]
    assert (np.diff(heights) <= 0).all()
    assert heights[0] == table.max()
    assert len(grid.price(y, 0.3, 2).points) == 2
    assert not len(grid.price(y, np.inf, 2).points)
    monkeypatch.setattr(pricing, "CANDIDATES", 5)
    assert grid.price(y, 0.3, 1000).points.tolist()[0] == priced.points.tolist()[0]


def test_grids_that_do_not_fit_are_refused():
    values = np.ones((2, 3))
    for indices in ([[0, 0]], [[1]], [[0], [1], [1]]):
        with pytest.raises(InternalError):
            Grid(axes=(values,), indices=np.array(indices))
    with pytest.raises(InternalError):
        Grid(axes=(np.zeros((2, 3)),), indices=np.array([[0]]))
    with pytest.raises(NumericalError) as caught:
        Grid(axes=(np.ones((1, 2000)),) * 3, indices=np.zeros((1, 3), dtype=np.int64))
    assert (caught.value.code, caught.value.status) == ("N101", "too large")


def oracle(matrix, target, weights, norm):
    """Optimum by another program of another library (l1, linf), or to optimality conditions (l2)."""
    rows, size = matrix.shape
    a, b = weights[:, None] * matrix[1:], weights * target[1:]
    slack = np.eye(rows - 1) if norm == "l1" else np.ones((rows - 1, 1))
    cost = np.concatenate([np.zeros(size), np.ones(slack.shape[1])])
    upper = np.block([[a, -slack], [-a, -slack]])
    mass = np.concatenate([np.ones(size), np.zeros(slack.shape[1])])[None]
    return linprog(cost, upper, np.concatenate([b, -b]), mass, [1.0], method="highs").fun


@pytest.mark.parametrize("norm", ["l1", "linf"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("d", "t", "n"), [(1, 6, 40), (2, 4, 15), (3, 3, 7)])
def test_interior_reaches_the_optimum(norm, weighted, d, t, n):
    program = make_program(d, t, n, rows=300, seed=t)
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.2, 5, t**d - 1) if weighted else np.ones(t**d - 1)
    objective = Objective(target=program.target, norm=norm, weights=weights)
    matrix = program.grid.columns(every_point(program.grid))
    best = oracle(matrix, program.target, weights, norm)
    for columns in (TensorColumns(program.grid), ListedColumns(matrix)):
        found = solve_interior(columns, objective, tolerance=1e-7)
        assert found.loss == pytest.approx(best, rel=2e-7, abs=1e-10)
        assert found.bound <= best * (1 + 1e-9)
        assert found.weights.min() >= 0
        assert found.weights.sum() == pytest.approx(1)
        y = objective.shrink(found.dual)
        assert y @ program.target - (y @ matrix).max() == pytest.approx(best, rel=1e-6)
    if norm == "l1" and not weighted:
        assert fit_distribution(matrix, program.target).residual == pytest.approx(best, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
def test_interior_l2_meets_the_optimality_conditions(weighted):
    program = make_program(2, 5, 20, rows=300, seed=2)
    weights = np.random.default_rng(1).uniform(0.2, 5, 24) if weighted else np.ones(24)
    objective = Objective(target=program.target, norm="l2", weights=weights)
    matrix = program.grid.columns(every_point(program.grid))
    found = solve_interior(TensorColumns(program.grid), objective, tolerance=1e-8)
    gradient = (weights**2 * (matrix @ found.weights - program.target)[1:]) @ matrix[1:]
    assert found.weights @ gradient - gradient.min() <= 1e-7 * found.loss**2
    assert 0 < found.bound <= found.loss <= found.bound * (1 + 1e-7)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_shrunk_duals_bound_every_distribution(norm):
    """F(u) >= y b - max y W for any y; a y outside the ball (broken twin) breaks it."""
    program = make_program(2, 4, 12, rows=100, seed=3)
    rng = np.random.default_rng(8)
    weights = rng.uniform(0.5, 2, 15)
    objective = Objective(target=program.target, norm=norm, weights=weights)
    matrix = program.grid.columns(every_point(program.grid))
    best = solve_interior(TensorColumns(program.grid), objective, tolerance=1e-9)
    for _ in range(50):
        y = objective.shrink(best.dual + rng.normal(size=16) * rng.choice([1e-3, 1, 100]))
        assert y @ program.target - (y @ matrix).max() <= best.loss
        for u in rng.dirichlet(np.full(matrix.shape[1], 0.05), 5):
            assert y @ (program.target - matrix @ u) <= objective.loss(matrix @ u) * (1 + 1e-12)
    outside = 1.01 * objective.shrink(best.dual)
    assert outside @ program.target - (outside @ matrix).max() > best.loss
    assert not objective.shrink(np.zeros(16)).any()


def test_interior_stops_where_it_is_told():
    program = make_program(2, 4, 12, rows=100, seed=3)
    objective = Objective(target=program.target, norm="l1", weights=np.ones(15))
    columns = TensorColumns(program.grid)
    best = solve_interior(columns, objective, tolerance=1e-6)
    early = solve_interior(columns, objective, tolerance=1e-6, enough=2 * best.loss)
    assert (early.status, best.status) == ("enough", "gap")
    assert best.loss < early.loss <= 2 * best.loss
    assert early.iterations < best.iterations
    asked = iter([False, False, True])
    stopped = solve_interior(columns, objective, tolerance=1e-6, should_stop=lambda: next(asked))
    assert (stopped.status, stopped.iterations) == ("stopped", 2)
    assert stopped.weights.sum() == pytest.approx(1)
    assert stopped.bound <= best.loss <= stopped.loss


def test_a_perfect_fit_ends():
    """Targets that some distribution has exactly: the optimum is 0 and no relative gap can close."""
    grid = make_grid(2, 4, 12)
    rng = np.random.default_rng(0)
    target = grid.moments(rng.dirichlet(np.ones(grid.size)))
    for norm in ("l1", "l2", "linf"):
        objective = Objective(target=target, norm=norm, weights=np.ones(15))
        assert solve_interior(TensorColumns(grid), objective, tolerance=1e-6, enough=1e-9).loss <= 1e-9
