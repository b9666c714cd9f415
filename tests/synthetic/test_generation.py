"""Column generation on whole grids: certified bounds, stops, norms, resuming, general index sets."""

import math
from itertools import pairwise

import numpy as np
import pytest

from duckdp.errors import InternalError, NumericalError
from duckdp.synthetic.lp.make import columns as pricing
from duckdp.synthetic.lp.make import generation
from duckdp.synthetic.lp.make.columns import Grid, TensorColumns
from duckdp.synthetic.lp.make.generation import State, generate, price
from duckdp.synthetic.lp.make.interior import Objective, fit_distribution, solve_interior
from tests.synthetic.programs import make_grid, make_program


def plain(program, norm="l1"):
    return Objective(target=program.target, norm=norm, weights=np.ones(program.grid.rows - 1))


def every_point(grid):
    return np.stack(np.unravel_index(np.arange(grid.size), grid.shape), axis=1)


def check(grid, objective, found):
    """What a result says of itself, measured anew by the plain matrix."""
    assert found.points.min() >= 0
    assert (found.points < grid.shape).all()
    assert len(np.unique(found.points, axis=0)) == len(found.points)
    assert found.weights.min() > 0
    assert found.weights.sum() == pytest.approx(1, abs=1e-12)
    assert objective.loss(grid.columns(found.points) @ found.weights) == pytest.approx(found.loss, rel=1e-9, abs=1e-11)
    assert found.gap == found.loss - found.bound
    assert 0 <= found.bound <= found.loss


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_the_bound_encloses_the_optimum_of_the_whole_grid(norm, monkeypatch):
    monkeypatch.setattr(generation, "START_DENSITY", 1)  # little to start from: the rounds do the work
    program = make_program(2, 5, 41, rows=400, seed=6)
    objective = plain(program, norm)
    best = solve_interior(TensorColumns(program.grid), objective, tolerance=1e-8)
    seen = []
    found = generate(program.grid, objective, gap=1e-5, progress=lambda *step: seen.append(step))
    check(program.grid, objective, found)
    assert found.status == "gap"
    assert found.gap <= 1e-5 * found.loss
    assert found.bound <= best.loss * (1 + 1e-8)
    assert found.loss >= best.bound * (1 - 1e-8)
    assert found.rounds == len(seen) > 3
    assert [k for k, _, _ in seen] == list(range(1, found.rounds + 1))
    for (_, loss, bound), (_, later, higher) in pairwise(seen):
        assert loss >= later
        assert bound <= higher
        assert bound <= best.loss <= loss * (1 + 1e-9)
    # broken twin: the optimum over the columns of the start is no bound for the grid
    coarse = solve_interior(generation._make_master(program.grid).columns, objective, tolerance=1e-6)
    assert coarse.bound > 1.001 * best.loss


def test_against_the_plain_program():
    program = make_program(2, 4, 25, rows=300, seed=1)
    objective = plain(program)
    oracle = fit_distribution(program.grid.columns(every_point(program.grid)), program.target)
    found = generate(program.grid, objective, gap=1e-4)
    assert found.bound <= oracle.residual * (1 + 1e-6)
    assert found.loss <= oracle.residual * (1 + 1.1e-4)


def test_enough_is_enough():
    program = make_program(3, 4, 40, rows=5000, seed=2)
    objective = plain(program)
    found = generate(program.grid, objective, enough=program.enough)
    check(program.grid, objective, found)
    assert (found.status, found.rounds) == ("enough", 1)
    assert found.loss <= program.enough
    tight = generate(program.grid, objective, gap=0.01)
    assert tight.loss < found.loss
    between = tight.loss * 1.05  # below what the first round gives by chance, above the optimum
    assert generate(program.grid, objective, enough=between, gap=0.0).status == "enough"


def test_a_level_below_the_optimum_ends_at_the_gap():
    program = make_program(2, 6, 40, rows=200, seed=3)
    found = generate(program.grid, plain(program), enough=1e-3, gap=0.01)
    assert found.status == "gap"
    assert found.bound > 1e-3


def test_any_dual_gives_a_bound():
    program = make_program(2, 4, 30, rows=200, seed=4)
    objective = plain(program)
    best = generate(program.grid, objective, gap=1e-6)
    rng = np.random.default_rng(2)
    for _ in range(100):
        bound, points = price(program.grid, objective, rng.normal(size=16) * rng.choice([0.1, 1, 10]))
        assert bound <= best.loss
        assert not len(points)


def test_general_axes_and_indices(monkeypatch):
    """Integer and categorical axes with few values, functions that are no polynomials, a sparse index set."""
    monkeypatch.setattr(generation, "START_DENSITY", 1)
    rng = np.random.default_rng(7)
    angles = np.polynomial.chebyshev.chebvander(np.cos(np.linspace(np.pi, 0, 60)), 5).T
    indicators = np.concatenate([np.ones((1, 4)), np.eye(4)[1:]])
    integers = np.polynomial.chebyshev.chebvander(np.linspace(-1, 1, 9), 2).T
    axes = (angles, indicators, integers)
    everything = np.stack(np.unravel_index(np.arange(6 * 4 * 3), (6, 4, 3)), axis=1)
    indices = everything[(everything > 0).sum(axis=1) <= 2]
    grid = Grid(axes=tuple(np.ascontiguousarray(a) for a in axes), indices=indices.astype(np.int64))
    true = grid.columns(np.stack([rng.integers(0, n, 50) for n in grid.shape], axis=1)).mean(axis=1)
    target = true + np.concatenate([[0], rng.laplace(scale=0.3, size=grid.rows - 1)])
    weights = rng.uniform(0.5, 2, grid.rows - 1)
    for norm in ("l1", "l2", "linf"):
        objective = Objective(target=target, norm=norm, weights=weights)
        best = solve_interior(TensorColumns(grid), objective, tolerance=1e-8)
        found = generate(grid, objective, gap=1e-4)
        check(grid, objective, found)
        assert found.bound <= best.loss * (1 + 1e-8)
        assert found.loss <= best.loss * (1 + 1.1e-4)
    monkeypatch.setattr(pricing, "MAX_PRODUCTS", 1)  # the same with columns that have to be formed
    assert generate(grid, objective, gap=1e-4).loss == pytest.approx(found.loss, rel=2e-4)


def test_weights_decide_what_is_fitted():
    program = make_program(1, 6, 50, rows=60, seed=12)
    target = program.target + np.array([0, 0.5, 0, 0, 0, -0.9])
    heavy = {}
    for place in (1, 5):
        weights = np.ones(5)
        weights[place - 1] = 100.0
        found = generate(program.grid, Objective(target=target, norm="l1", weights=weights), gap=1e-4)
        heavy[place] = np.abs(program.grid.columns(found.points) @ found.weights - target)
    assert heavy[1][1] < heavy[5][1] + 1e-9
    assert heavy[5][5] < heavy[1][5]


def test_resuming_goes_on_where_it_stood(monkeypatch):
    monkeypatch.setattr(generation, "START_DENSITY", 1)
    program = make_program(2, 5, 41, rows=400, seed=6)
    objective = plain(program)
    whole = generate(program.grid, objective, gap=1e-4)
    state = State()
    part = generate(program.grid, objective, gap=1e-4, most_rounds=2, state=state)
    assert (part.status, part.rounds, state.rounds) == ("rounds", 2, 2)
    check(program.grid, objective, part)
    rest = generate(program.grid, objective, gap=1e-4, state=state)
    assert (rest.rounds, rest.loss, rest.bound) == (whole.rounds, whole.loss, whole.bound)
    again = generate(program.grid, objective, gap=1e-4, state=state)
    assert again.rounds == whole.rounds  # done already: nothing is done


def test_an_interrupt_leaves_the_last_round(monkeypatch):
    monkeypatch.setattr(generation, "START_DENSITY", 1)
    program = make_program(2, 5, 41, rows=400, seed=6)
    objective = plain(program)
    whole = generate(program.grid, objective, gap=1e-4)
    state, calls = State(), [0]

    def interrupt():
        calls[0] += 1
        if calls[0] % 50 == 0:
            raise KeyboardInterrupt
        return False

    rounds = []
    for _ in range(1000):
        try:
            found = generate(program.grid, objective, gap=1e-4, state=state, should_stop=interrupt)
        except KeyboardInterrupt:
            rounds.append(state.rounds)
            continue
        break
    assert rounds[0] < whole.rounds
    assert rounds == sorted(rounds)
    assert (found.rounds, found.loss) == (whole.rounds, whole.loss)


def test_stopping_gives_the_best_so_far():
    program = make_program(2, 5, 41, rows=400, seed=6)
    objective = plain(program)
    for after in (0, 3, 40):
        calls = [0]

        def stop(calls=calls, after=after):
            calls[0] += 1
            return calls[0] > after

        found = generate(program.grid, objective, gap=1e-9, should_stop=stop)
        assert found.status == "stopped"
        check(program.grid, objective, found)


def test_targets_inside_the_polytope_end_with_a_perfect_fit():
    grid = make_grid(2, 4, 30)
    target = grid.moments(np.random.default_rng(0).dirichlet(np.ones(grid.size)))
    found = generate(grid, Objective(target=target, norm="l1", weights=np.ones(15)), gap=0.01)
    assert found.status == "enough"
    assert found.loss <= 1e-10


def test_targets_far_outside():
    program = make_program(2, 5, 30, rows=400, seed=6)
    target = program.target * np.where(np.arange(25) > 0, 1e4, 1)
    for norm in ("l1", "l2", "linf"):
        objective = Objective(target=target, norm=norm, weights=np.ones(24))
        found = generate(program.grid, objective, gap=1e-3)
        check(program.grid, objective, found)
        assert found.status == "gap"


def test_unused_points_leave_the_list(monkeypatch):
    monkeypatch.setattr(generation, "START_DENSITY", 1)
    program = make_program(2, 6, 60, rows=400, seed=5)
    sizes, state = [], State()
    seen = set()

    def look(*_):
        sizes.append(len(state.listed))
        seen.update(map(tuple, state.listed.tolist()))

    generate(program.grid, plain(program), gap=1e-6, state=state, progress=look)
    assert len(seen) > sizes[-1]
    assert state.idle.max() < generation.PATIENCE
    assert len(state.idle) == len(state.listed) == len(np.unique(state.listed, axis=0))


def test_start_is_small_whatever_the_grid():
    for grid in (make_grid(3, 6, 100), make_grid(1, 5, 3), make_grid(2, 30, 100), make_grid(5, 3, 20)):
        master = generation._make_master(grid)
        counts = [len(a) for a in master.axes]
        assert math.prod(counts) <= generation.START_POINTS
        for positions, n in zip(master.axes, grid.shape, strict=True):
            assert positions[0] == 0
            assert positions[-1] == n - 1
            assert (np.diff(positions) > 0).all()


def test_what_does_not_fit_is_refused(monkeypatch):
    program = make_program(1, 4, 10, rows=100, seed=0)
    for target, weights in ((program.target[:3], np.ones(3)), (program.target, np.ones(4))):
        with pytest.raises(InternalError):
            generate(program.grid, Objective(target=target, norm="l1", weights=weights))
    bad = Objective(target=np.array([1.0, np.nan, 0, 0]), norm="l1", weights=np.ones(3))
    with pytest.raises(NumericalError) as caught:
        generate(program.grid, bad)
    assert (caught.value.code, caught.value.status) == ("N101", "stalled")


@pytest.mark.slow
@pytest.mark.parametrize("t", [4, 6, 8])
def test_a_million_columns(t):
    program = make_program(3, t, 100, rows=5000, seed=t)
    objective = plain(program)
    assert generate(program.grid, objective, enough=program.enough).loss <= program.enough
    found = generate(program.grid, objective, gap=0.01)
    check(program.grid, objective, found)
    assert found.gap <= 0.01 * found.loss
