"""How the budget is divided: optimal by brute force, never more than the whole, and worth it."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from duckdp.catalog.table import Kind
from duckdp.core.types import ATTO, NANO, Neighbours, Sensitivity
from duckdp.errors import ParameterError
from duckdp.smooth.axes import Axis
from duckdp.smooth.basis import Basis
from duckdp.smooth.shares import LEAST, share_cube, share_gaussian
from duckdp.smooth.sum_noise import SumNoise, choose_noise, draw_noise, expected_error


def basis(d, t):
    return Basis(axes=(Axis(name="x", kind=Kind.NUMBER, degree=t),) * d, degree=t)


def levels_of(d, t):
    return basis(d, t).levels


def cube_error(levels, groups, epsilon, k):
    """The expected squared error in units of linf^2, from the definition."""
    sizes = np.bincount(groups)
    v = (sizes + 1) * (sizes + 2) / 3 / np.array([float(e) for e in epsilon]) ** 2
    return float(np.sum((1.0 + levels) ** (-2.0 * k) * v[groups]))


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize(("d", "t"), [(1, 5), (1, 8), (2, 4), (3, 3)])
def test_no_division_into_runs_of_levels_is_better(d, t, k):
    levels = levels_of(d, t)
    found = share_cube(levels, Fraction(1), k)
    ours = cube_error(levels, found.groups, found.budgets, k)
    top = int(levels.max())
    for cuts in itertools.product([False, True], repeat=top):
        group = np.concatenate([[0], np.cumsum(cuts)])[levels]
        ideal = np.array(
            [
                (np.sum((1.0 + levels[group == g]) ** (-2.0 * k)) * (n + 1) * (n + 2)) ** (1 / 3)
                for g, n in enumerate(np.bincount(group))
            ]
        )
        theirs = cube_error(levels, group, ideal / ideal.sum(), k)
        assert ours <= theirs * (1 + 1e-2)


def test_shares_of_epsilon_are_the_best_for_their_groups():
    levels = levels_of(2, 6)
    found = share_cube(levels, Fraction(1), 2)
    budgets = np.array([float(b) for b in found.budgets])
    best = cube_error(levels, found.groups, budgets, 2)
    rng = np.random.default_rng(5)
    for _ in range(200):
        other = budgets * np.exp(0.2 * rng.normal(size=len(budgets)))
        assert cube_error(levels, found.groups, other / other.sum(), 2) >= best * (1 - 1e-6)


@pytest.mark.parametrize("share", [share_cube, share_gaussian])
@pytest.mark.parametrize("whole", [Fraction(1), Fraction(1, 10**9), Fraction(314159, 100_000)])
@pytest.mark.parametrize("k", [None, 1, 4])
def test_shares_never_add_up_to_more_than_the_whole(share, whole, k):
    for levels in (levels_of(1, 64), levels_of(2, 16), levels_of(3, 5), np.zeros(1, dtype=np.int64), np.arange(2000)):
        found = share(levels, whole, k)
        assert whole * Fraction(999, 1000) < sum(found.budgets) <= whole
        assert set(found.groups.tolist()) == set(range(len(found.budgets)))
        assert min(found.budgets) >= whole * Fraction(LEAST) / len(found.budgets) / 2
        assert np.all(np.diff(found.groups[np.argsort(levels, kind="stable")]) >= 0)  # runs of levels


def test_uniform_weights_make_one_group():
    assert share_cube(levels_of(2, 4), Fraction(1), None).budgets == (Fraction(1),)


def plain(levels, linf=2**20):
    r = len(levels)
    return Sensitivity(l1=r * linf, l2_squared=r * linf**2, linf=linf)


def test_grouping_sets_cut_the_noise_of_smooth_queries():
    levels = levels_of(2, 16)
    flat = choose_noise("auto", plain(levels), levels=levels, epsilon_nano=NANO)
    smooth = choose_noise("auto", plain(levels), levels=levels, epsilon_nano=NANO, smoothness=2)
    assert expected_error(smooth.noise, levels, 2) < expected_error(flat.noise, levels, 2) / 3
    assert flat.noise.family == smooth.noise.family == "cube"


def test_gaussian_wins_when_delta_allows_it_and_the_basis_is_large():
    levels = levels_of(2, 16)
    for delta, family in ((0, "cube"), (ATTO // 10**8, "gaussian")):
        plan = choose_noise("auto", plain(levels), levels=levels, epsilon_nano=NANO, delta_atto=delta)
        assert plan.noise.family == family
    assert plan.loss.delta_atto == ATTO // 10**8
    assert choose_noise("auto", plain(np.arange(2)), levels=np.arange(2), epsilon_nano=NANO).loss.delta_atto == 0


def test_one_sum_gets_laplace_noise_whatever_its_name():
    one = np.zeros(1, dtype=np.int64)
    plans = [choose_noise(f, plain(one), levels=one, epsilon_nano=NANO) for f in ("laplace", "cube")]
    assert plans[0].noise.deviation == pytest.approx(plans[1].noise.deviation, rel=1e-6)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_budgets_of_all_groups_cover_the_whole_change(neighbours):
    """Each group's privacy loss on its own part, by its own scale, adds up to no more than the charge."""
    b = basis(2, 6)
    sensitivity = b.norms(neighbours, bits=20, max_rows=1, count_public=False)
    for family, delta in (("cube", 0), ("laplace", 0), ("gaussian", ATTO // 10**8)):
        plan = choose_noise(family, sensitivity, levels=b.levels, epsilon_nano=NANO, delta_atto=delta, smoothness=3)
        scales = [Fraction(s) for s in plan.noise.scales]
        if family == "cube":
            spent = sum(sensitivity.linf / s for s in scales)
        elif family == "laplace":
            spent = sensitivity.l1 / scales[0]
        else:
            sizes = plan.noise.sizes.tolist()
            spent = sum(n * sensitivity.linf**2 / (2 * s**2) for n, s in zip(sizes, scales, strict=True))
            assert spent <= Fraction(plan.loss.rho_pico, 10**12) * Fraction(1 + 10**-12)
            continue
        assert Fraction(999, 1000) < spent <= 1 + Fraction(1, 10**12)


@pytest.mark.parametrize("family", ["cube", "gaussian"])
def test_noise_of_every_group_has_its_law(family):
    """Standard deviations by group, from 3,000 draws of the exact sampler; a group's neighbour law fails."""
    b = basis(1, 6)
    sensitivity = b.norms(Neighbours.ADD_REMOVE, bits=20, max_rows=1, count_public=False)
    plan = choose_noise(
        family,
        sensitivity,
        levels=b.levels,
        epsilon_nano=NANO,
        delta_atto=10**10 if family == "gaussian" else 0,
        smoothness=2,
    )
    draws = np.array([draw_noise(plan) for _ in range(3000)], dtype=float)
    found = draws.std(axis=0)
    assert np.all(np.abs(found / plan.noise.deviations - 1) < 0.12)
    assert len(plan.noise.scales) > 1
    assert np.any(np.abs(found[::-1] / plan.noise.deviations - 1) > 0.3)  # the twin: budgets the other way round
    c = np.array([1.0, -0.5, 0.3, 0.2, 0.0, 0.7])
    assert np.std(draws @ c) == pytest.approx(plan.noise.standard_error(c), rel=0.1)
    width = plan.noise.half_width(c, 0.95)
    assert 0.925 <= np.mean(np.abs(draws @ c) <= width) <= 0.98  # 6 deviations of a share of 3,000 at least
    assert np.mean(np.abs(draws @ c) <= 0.7 * width) < 0.91


def test_laws_are_checked():
    levels = levels_of(1, 4)
    with pytest.raises(ParameterError, match="delta > 0"):
        choose_noise("gaussian", plain(levels), levels=levels, epsilon_nano=NANO)
    with pytest.raises(ParameterError, match="must be auto"):
        choose_noise("loud", plain(levels), levels=levels, epsilon_nano=NANO)
    with pytest.raises(ParameterError, match="level"):
        choose_noise("auto", plain(levels), levels=levels, epsilon_nano=NANO).noise.half_width(np.ones(4), 1.0)


def test_a_cube_of_many_sums_is_2_45_times_narrower_than_laplace():
    levels = np.zeros(400, dtype=np.int64)
    laws = {f: choose_noise(f, plain(levels), levels=levels, epsilon_nano=NANO).noise for f in ("laplace", "cube")}
    ratio = laws["laplace"].deviation / laws["cube"].deviation
    assert ratio == pytest.approx(math.sqrt(6) * 400 / math.sqrt(401 * 402), rel=1e-3)
    assert isinstance(laws["cube"], SumNoise)
