"""Wide synthetic tables: what they keep, what they depend on, what they refuse."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from duckdp.bench.tables import area_table, by_path, error_table
from duckdp.bench.tables_data import Data
from duckdp.bench.tables_queries import KERNELS, SIGMAS, area_under_curve, draw_queries, learn
from duckdp.core.types import Neighbours
from duckdp.errors import ParameterError
from duckdp.synthetic.moments.buy.links import collect
from duckdp.synthetic.moments.make import first_rows as start
from duckdp.synthetic.moments.make.denoise import shrink_matrix, shrink_means, shrink_scaled
from duckdp.synthetic.moments.make.newton import Goal, fit_rows
from duckdp.synthetic.moments.make.rows import make_rows
from duckdp.synthetic.moments.plan import make_plan
from duckdp.synthetic.unit import uniforms as numbers
from duckdp.synthetic.unit.buy import purse as release
from duckdp.synthetic.unit.features import ONE, RADIAL, Features
from duckdp.synthetic.unit.stages import Noisy
from duckdp.synthetic.unit.unit_rows import round_groups, round_signs
from tests.synthetic.in_memory import memory_products, memory_sums
from tests.synthetic.plans import make_psi_table, make_table, open_purse, request

D = 8


def people(n=4000, seed=5):
    """Linked columns, one of two values last that depends on the others."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1))
    unit = np.clip(rng.uniform(-0.6, 0.6, D) + 0.3 * common + 0.2 * rng.normal(size=(n, D)), -1, 1)
    unit[:, -1] = np.where(common[:, 0] + 0.3 * rng.normal(size=n) > 0.4, 1.0, -1.0)
    return unit


def ask(epsilon="4", **more):
    more = {"neighbours": Neighbours.REPLACE, "rows": 400, "expected_rows": 4000, **more}
    return request(D, epsilon=epsilon, **more)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_means_squares_and_links_are_kept(neighbours):
    unit = people()
    made = make_table(ask("20", neighbours=neighbours), memory_sums(unit)).unit
    assert made.shape == (400, D)
    assert np.abs(made).max() <= 1
    assert np.abs(made.mean(axis=0) - unit.mean(axis=0)).max() < 0.02
    squares = [(x**2).sum(axis=1) for x in (made, unit)]
    assert abs(squares[0].mean() - squares[1].mean()) < 0.1
    assert abs(squares[0].std() - squares[1].std()) < 0.25
    assert np.abs(np.corrcoef(made.T) - np.corrcoef(unit.T)).mean() < 0.1  # correlations are about 0.8


def test_independent_columns_would_fail_the_same_test():
    unit = people()
    shuffled = np.column_stack([np.random.default_rng(i).permutation(unit[:, i]) for i in range(D)])
    assert np.abs(np.corrcoef(shuffled.T) - np.corrcoef(unit.T)).mean() > 0.3


def test_delta_is_used_where_it_helps():
    assert not open_purse(ask("1")).gaussian
    assert not open_purse(ask("1", delta="1e-9")).gaussian  # 8 columns: cube noise is smaller
    assert open_purse(request(300, epsilon="1", delta="1e-6", expected_rows=1000)).gaussian


@pytest.mark.parametrize("target", [None, D - 1])
def test_rows_depend_on_released_figures_only(target, monkeypatch):
    """Same figures and same fresh randomness: same rows, whatever became of the data."""
    asked, unit = ask(target=target), people()
    purse = open_purse(asked)
    plan = make_plan(asked, purse)
    released = collect(asked, plan, purse, memory_sums(unit))
    unit[:] = 0.0  # the data are gone

    def rows(figures):
        draw = np.random.default_rng(1)
        for module in (start, numbers):
            monkeypatch.setattr(module, "uniforms", lambda m, k: draw.random((m, k)))
        return make_rows(asked, plan, figures).unit

    first = rows(released)
    assert np.array_equal(first, rows(released))
    assert first.std() > 0.1
    moved = replace(released.means, means=released.means.means + 0.05)
    assert not np.array_equal(first, rows(replace(released, means=moved)))


def output_log_ratio(draws=200):
    """ln of P(a synthetic column's mean > 0) for a table of one row of ones against one of minus ones."""
    asked = request(2, epsilon="2", expected_rows=1, neighbours=Neighbours.REPLACE, rows=10)
    high, low = (
        sum(make_table(asked, memory_sums(np.full((1, 2), x))).unit[:, 0].mean() > 0 for _ in range(draws))
        for x in (1.0, -1.0)
    )
    return np.log((high + 1) / (low + 1))


@pytest.mark.slow
def test_tables_of_neighbours_are_alike():
    assert output_log_ratio() < 2.0  # about 0.7, standard error 0.15


@pytest.mark.slow
def test_the_same_test_catches_an_eighth_of_the_noise(monkeypatch):
    real = release.sensitivity
    monkeypatch.setattr(release, "sensitivity", lambda size, unit, kind: real(size, unit // 8, kind))
    assert output_log_ratio() > 2.0


def test_the_plan_is_public_and_fits_the_charge():
    for epsilon in ("0.01", "0.1", "1", "10", "100"):
        for rows in (100, 10_000, 10**6):
            for target in (None, 0):
                asked = ask(epsilon, expected_rows=rows, target=target)
                plan = make_plan(asked, open_purse(asked))
                assert 0 < plan.total <= 1
                assert plan == make_plan(asked, open_purse(asked))
    rich = make_plan(ask("10", expected_rows=10**6), open_purse(ask("10")))
    poor = make_plan(ask("0.01", expected_rows=100), open_purse(ask("0.01")))
    assert rich.pairs
    assert rich.products
    assert not poor.pairs
    assert not poor.products


def test_private_sums_are_asked_for_once_per_stage():
    asked, calls = ask(target=D - 1), []
    sums = memory_sums(people())

    def counted(features, bits):
        calls.append(features.count)
        return sums(features, bits)

    purse = open_purse(asked)
    bought = collect(asked, make_plan(asked, purse), purse, counted).stages
    assert sorted(calls) == sorted(count for _, count, _ in bought)
    assert sum(share for *_, share in bought) == 1


def test_a_target_stays_predictable():
    unit, test = people(), people(seed=6)
    unit_auc = area_under_curve(test[:, :-1] @ learn(unit), test[:, -1])
    for epsilon, loss in (("1", 0.05), ("10", 0.03)):
        made = make_table(ask(epsilon, target=D - 1), memory_sums(unit)).unit
        assert set(made[:, -1].tolist()) == {-1.0, 1.0}
        found = area_under_curve(test[:, :-1] @ learn(made), test[:, -1])
        assert found > unit_auc - loss
        by_chance, rng = [], np.random.default_rng(0)  # one shuffled label may point the right way
        for _ in range(20):
            made[:, -1] = rng.permutation(made[:, -1])
            by_chance.append(area_under_curve(test[:, :-1] @ learn(made), test[:, -1]))
        assert np.mean(by_chance) < unit_auc - loss


def test_one_column_is_chosen_when_all_are_too_dear():
    asked = ask("0.2", expected_rows=100, target=D - 1)
    plan = make_plan(asked, open_purse(asked))
    assert plan.best
    unit = people(100)
    unit[:, 2] = unit[:, -1]
    made = [make_table(ask("20", expected_rows=10, target=D - 1), memory_sums(unit)).unit for _ in range(3)]
    assert all(m.shape == (400, D) for m in made)


def test_psi_keeps_the_means():
    unit = people()
    made = make_psi_table(ask("50"), memory_sums(unit), memory_products(unit)).unit
    assert made.shape == (400, D)
    assert np.abs(made.mean(axis=0) - unit.mean(axis=0)).max() < 0.25


def test_rows_reach_wanted_moments():
    features = Features(dimensions=D, centre=2.0, width=2.0, degree=3, factors=(ONE, RADIAL))
    wanted = features.means(people())
    first = start.start_rows(start.beta_laws(np.zeros(D), np.full(D, 3.0 / D), ()), 500)
    made = fit_rows(first, Goal(features=features, means=wanted, weights=np.ones(len(wanted))))
    assert np.abs(features.means(made) - wanted).max() < 0.003
    assert np.abs(features.means(first) - wanted).max() > 0.1


def test_fixed_columns_stay():
    features = Features(dimensions=D, factors=(ONE,))
    first = start.start_rows(start.beta_laws(np.zeros(D), np.full(D, 3.0 / D), ()), 100)
    made = fit_rows(first, Goal(features=features, means=np.full(D, 0.2), weights=np.ones(D)), fixed=np.array([1]))
    assert np.array_equal(made[:, 1], first[:, 1])
    np.testing.assert_allclose(np.delete(made.mean(axis=0), 1), 0.2, atol=1e-3)


def test_start_has_the_wanted_means_and_square():
    means = np.linspace(-0.9, 0.9, D)
    squares = means**2 + 0.3 * (1 - means**2)
    made = start.start_rows(start.beta_laws(means, squares, (2,)), 2000)
    assert np.abs(made.mean(axis=0) - means).max() < 2e-3
    assert np.abs(np.delete((made**2).mean(axis=0) - squares, 2)).max() < 0.01
    assert set(made[:, 2].tolist()) == {-1.0, 1.0}


def test_linked_start_has_the_wanted_covariances():
    wanted = np.full((D, D), 0.3)
    made = start.linked_rows(start.beta_laws(np.zeros(D), np.full(D, 0.75), ()), 2000, wanted)
    off = ~np.eye(D, dtype=bool)
    assert np.abs(np.cov(made, rowvar=False)[off] - 0.3).mean() < 0.05


def test_shrinking_helps_and_stays_in_the_box():
    rng = np.random.default_rng(2)
    truth = np.where(rng.random(60) < 0.7, -0.95, 0.3)
    noisy = Noisy(means=truth + rng.uniform(-0.6, 0.6, 60), deviation=0.6 / 3**0.5, family="cube", count=60)
    better = shrink_means(noisy)
    assert np.abs(better).max() <= 1
    assert np.mean((better - truth) ** 2) < 0.6 * np.mean((np.clip(noisy.means, -1, 1) - truth) ** 2)
    gap = rng.normal(0, 0.1, (30, 30))
    rank_one = np.outer(np.ones(30), np.ones(30)) * 0.3
    found = shrink_matrix(rank_one + (gap + gap.T) / 2**0.5, 0.1)
    assert np.linalg.norm(found - rank_one) < 0.5 * np.linalg.norm(gap)
    assert np.abs(shrink_scaled(np.array([0.5, -0.5]), np.array([1.0, 0.0]), 0.1))[1] < 1e-6


def test_shrinking_serves_crowds_and_spread_columns():
    """Alike columns crowd; others are spread: neither may lose to clipping, on average of 30 releases."""
    rng = np.random.default_rng(5)
    for truth, most in ((np.tile([-0.9, 0.2], 30), 0.3), (np.linspace(-0.7, 0.7, 60), 1.0), (np.full(60, 0.1), 0.15)):
        ratios = []
        for _ in range(30):
            values = truth + rng.gamma(61, 1 / 61) * rng.uniform(-0.3, 0.3, 60)
            noisy = Noisy(means=values, deviation=0.3 / 3**0.5, family="cube", count=60)
            clipped = np.mean((np.clip(values, -1, 1) - truth) ** 2)
            ratios.append(np.mean((shrink_means(noisy) - truth) ** 2) / clipped)
        assert np.mean(ratios) < most  # 0.13, 0.85, 0.06; beta laws alone give 0.82 in the first


def test_rounding_keeps_means():
    made = round_signs(np.full((1000, 2), 0.5), [1])
    assert set(made[:, 1].tolist()) == {-1.0, 1.0}
    assert abs(made[:, 1].mean() - 0.5) <= 0.002
    assert (made[:, 0] == 0.5).all()


def test_categories_keep_their_shares():
    unit = np.tile([0.0, -0.5, -1.0, 0.7], (1000, 1))  # chances 1/2, 1/4, 0, and a column that is no indicator
    made = round_groups(unit, [[0, 1, 2]])
    assert (made[:, :3].sum(axis=1) == -1).all()
    assert made[:, 0].mean() == pytest.approx(1 / 3, abs=0.01)  # 2/3 of the rows
    assert (made[:, 2] == -1).all()
    assert (made[:, 3] == 0.7).all()


@pytest.mark.parametrize(
    "bad", [{"rows": 0}, {"rows": 10**6}, {"target": D}, {"target": -1}, {"expected_rows": 0}, {"epsilon": "0"}]
)
def test_bad_requests_are_refused(bad):
    with pytest.raises(ParameterError):
        ask(**bad)


def test_queries_answer_as_written_out():
    asked, unit = draw_queries(D, 50), people(300)
    assert Fraction(len(asked.centres), KERNELS) == 50
    gaps = ((unit[:, None] - asked.centres[None, :KERNELS]) ** 2).sum(axis=2)
    for k, sigma in enumerate(SIGMAS):
        wanted = np.exp(-gaps / 2 / sigma**2).mean(axis=0) @ asked.weights[0]
        assert asked.answers(unit)[k, 0] == pytest.approx(wanted, rel=1e-4)
    assert area_under_curve(np.array([1.0, 2, 2, 3]), np.array([-1.0, -1, 1, 1])) == 0.875


def test_bench_prints_its_lines():
    unit = people(600)
    data = Data(name="CTG", unit=unit, columns=tuple("abcdefgh"), label=unit[:, -1], without=("h",))
    lines = error_table(data, ("1",), queries=100, rounds=1, rows=200)
    assert [line.split()[0] for line in lines] == ["CTG", "sample", "paper", "auto", "auto", "auto", "psi"]
    lines = area_table(data, ("1",), rounds=1, rows=200)
    assert all(name in lines[-1] for name in ("with target", "none"))
    for method in ("auto", "psi"):
        assert by_path(method, 100)(unit, "1").shape == (100, D)
