"""Noise whose width follows the data: constants by integration, samplers by counting, the bought bound's coverage."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from duckdp.core.types import ATTO
from duckdp.errors import InternalError
from duckdp.mechanisms import admissible_noise, scale_bound
from duckdp.mechanisms.admissible_noise import AdmissibleNoise, candidates, choose, half_width, laplace, student
from duckdp.mechanisms.scale_bound import ScaleBound, choose_with_bound, predicted_width
from duckdp.mechanisms.smooth_error import even_growth, mean_rank_error, rank_error
from tests.privacy.statistics import FALSE_ALARM, clopper_pearson, fits, ks_p

LAWS = {"student2": stats.t(2), "student4": stats.t(4), "laplace": stats.laplace()}
ONE = Fraction(1)


def noise_of(family: str, epsilon: Fraction = ONE) -> AdmissibleNoise:
    if family == "laplace":
        return laplace(epsilon, ATTO // 10**6)
    degrees = int(family[-1])
    return student(epsilon, degrees=degrees, beta=epsilon / (degrees + 1))


# ---- constants


def student_loss(degrees: int, alpha: float, beta: float) -> float:
    """Largest log-ratio between the density and its dilation and shift, over a grid of both."""
    z = np.concatenate([np.linspace(-60, 60, 60_001), np.geomspace(60, 1e9, 300), -np.geomspace(60, 1e9, 300)])

    def log_density(y: np.ndarray) -> np.ndarray:
        return np.asarray(-(degrees + 1) / 2 * np.log(degrees + y * y))

    worst = 0.0
    for grow in np.linspace(-beta, beta, 5):
        for shift in np.linspace(-alpha, alpha, 5):
            width = math.exp(grow)
            other = log_density((z - shift * min(1, width)) / width)
            worst = max(worst, float(np.abs(log_density(z) + grow - other).max()))
    return worst


@pytest.mark.parametrize("degrees", [2, 4])
@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(5), Fraction(50)])
def test_every_candidate_costs_at_most_epsilon(degrees: int, epsilon: Fraction) -> None:
    own = [n for n in candidates(epsilon) if n.family == f"student{degrees}"]
    losses = [student_loss(degrees, float(n.alpha), float(n.beta)) / float(epsilon) for n in own[::3]]
    assert max(losses) <= 1 + 1e-9
    assert max(losses) > 0.9 or epsilon > 1  # for small steps the joint bound is met


@pytest.mark.parametrize("degrees", [2, 4])
def test_twins_with_larger_constants_are_caught(degrees: int) -> None:
    noise = noise_of(f"student{degrees}", Fraction(1, 100))
    assert student_loss(degrees, 2 * float(noise.alpha), float(noise.beta)) > 0.012
    assert student_loss(degrees, float(noise.alpha), 2 * float(noise.beta)) > 0.012


def test_constants_are_rounded_down_and_nothing_is_left_beyond() -> None:
    for degrees in (2, 4):
        for noise in candidates(Fraction(123_456_789, 10**9)):
            if noise.family == f"student{degrees}":
                rest = Fraction(123_456_789, 10**9) - noise.beta * (degrees - 1) / 2
                square = (degrees + 1) ** 2 * noise.alpha**2 / (4 * degrees) + (noise.beta * (degrees + 1) / 2) ** 2
                assert square <= rest**2 < square + Fraction(1, 2**70)
    with pytest.raises(InternalError):
        student(ONE, degrees=2, beta=Fraction(1, 2))


# ---- samplers


def drawn(noise: AdmissibleNoise, bound: float, count: int) -> np.ndarray:
    """Noise in units of bound / alpha, from a value in the middle of a grid that does not clamp it."""
    middle = 2**47
    found = np.array([noise.add(middle, bound, 2**48) - middle for _ in range(count)], dtype=float)
    return found * float(noise.alpha) / bound


@pytest.mark.parametrize("family", ["student2", "student4", pytest.param("laplace", marks=pytest.mark.slow)])
def test_noise_has_its_law_and_its_scale(family: str) -> None:
    """Twins at 0.8 and 1.25 of the scale are caught: of 8,000 draws they pass with a chance below 1e-9."""
    noise = noise_of(family)
    sample = drawn(noise, 1e6, 8_000)
    assert fits(ks_p(sample, LAWS[family].cdf))
    for wrong in (0.8, 1.25):
        assert not fits(ks_p(sample * wrong, LAWS[family].cdf))


def test_tails_and_quantiles_are_those_of_the_laws() -> None:
    z = np.array([0.0, 0.3, 1.0, 7.0, 1e5])
    for family, law in LAWS.items():
        assert admissible_noise.tails(family, z) == pytest.approx(2 * law.sf(z), rel=1e-6)
        assert noise_of(family).quantile(0.05) == pytest.approx(law.ppf(0.975), rel=1e-9)
        assert noise_of(family).mean == pytest.approx(2 * law.expect(lambda z: z, lb=0), rel=1e-6)


def test_a_bound_is_lifted_to_where_the_numerics_hold() -> None:
    for family, least in (("student2", 2.0**-160), ("student4", 2.0**-40), ("laplace", 2.0**-160)):
        noise = noise_of(family)
        for bad in (0.0, -1.0, math.nan, 5e-324):
            assert noise.lifted(bad, 10.0) == least
        assert noise.lifted(math.inf, 10.0) == 10.0 == noise.lifted(11.0, 10.0)


# ---- the choice


def test_the_choice_has_the_least_predicted_width() -> None:
    for epsilon in (Fraction(1, 10), ONE, Fraction(10)):

        def even(decay: float) -> float:
            return even_growth(1, decay)

        best = choose(epsilon, even)
        assert half_width(best, even) <= min(half_width(n, even) for n in candidates(epsilon))
        assert best.family == ("student4" if epsilon == 10 else "student2")
        k = np.arange(0, 3000)
        wanted = LAWS[best.family].ppf(0.975) * np.max((k + 1) * np.exp(-best.decay * k)) / float(best.alpha)
        assert rank_error(epsilon) == pytest.approx(wanted, rel=1e-6)
        assert mean_rank_error(best, 2) == pytest.approx(2 * wanted * best.mean / best.quantile(0.05), rel=1e-6)
    assert rank_error(ONE, 3) == pytest.approx(3 * rank_error(ONE))


def test_the_choice_with_a_bound_has_the_least_predicted_width() -> None:
    def even(decay: float) -> float:
        return even_growth(1, decay)

    best = choose_with_bound(ONE, even)
    for share in (Fraction(1, 10), Fraction(1, 4), Fraction(1, 2)):
        for noise in candidates(1 - share):
            assert predicted_width(best, even) <= predicted_width(ScaleBound(epsilon=share, noise=noise), even)
    assert rank_error(ONE, interval=True) == predicted_width(best, even)


# ---- the bound on the scale


def missed(bound: ScaleBound, factor: float) -> float:
    """P(|Z| > factor exp((N - 1/2) / G)) by quadrature, N of its continuous law."""
    law, scale = LAWS[bound.noise.family], bound.scale / bound.grid

    def inner(u: float) -> float:
        return float(2 * law.sf(factor * math.exp(u * scale - 0.5 / bound.grid))) * math.exp(-abs(u)) / 2

    return sum(integrate.quad(inner, *ends, limit=200)[0] for ends in ((-40, 0), (0, 40)))


BOUNDS = [
    ScaleBound(epsilon=epsilon * share, noise=noise_of(family, epsilon * (1 - share)))
    for family in LAWS
    for epsilon in (Fraction(1, 100), ONE, Fraction(20))
    for share in (Fraction(1, 10), Fraction(1, 2))
]


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_factor_covers_and_is_not_larger_than_it_must(bound: ScaleBound) -> None:
    assert 0.0485 < missed(bound, bound.factor) <= 0.05
    assert missed(bound, 0.8 * bound.factor) > 0.05  # the twin


@pytest.mark.parametrize("bound", BOUNDS)
def test_what_is_noised_moves_by_no_more_than_its_sensitivity(
    bound: ScaleBound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbours at the edge: S and e**b S; the scale pays for so many steps, and for no more than one besides."""
    monkeypatch.setattr(scale_bound, "laplace_noise", lambda count, scale: [0] * count)
    beta, top, moved = bound.noise.beta, 2**48, 0
    for s in np.geomspace(1e-11, 1e14 / math.exp(float(beta)), 400):
        exact, other = bound.release(float(s), top), bound.release(float(s) * math.exp(bound.noise.decay), top)
        moved = max(moved, abs(exact - other))
    steps = math.ceil(bound.grid * beta) + 1
    assert steps - 2 <= moved <= steps
    assert Fraction(bound.scale) * bound.epsilon >= steps
    assert 2**12 <= bound.grid * beta < 2**13


def test_the_bound_is_drawn_whatever_the_scale_is() -> None:
    bound = BOUNDS[0]
    for s in (0.0, -1.0, math.nan, math.inf, 1e300, 5e-324):
        assert isinstance(bound.release(s, 100), int)
    assert bound.half_width(10**9 * bound.grid) > 1e250
    assert bound.half_width(-(10**9) * bound.grid) == 0.5


@pytest.mark.parametrize("bound", BOUNDS[2:8:5])
def test_intervals_cover_as_stated(bound: ScaleBound) -> None:
    """Value and bound as released, 1,500 times; a twin of a twentieth of the width is caught."""
    value, s, top, wide, narrow = 2**40, 1e7, 2**41, 0, 0
    for _ in range(1_500):
        off = abs(bound.noise.add(value, s, top) - value)
        half = bound.half_width(bound.release(s, top))
        wide, narrow = wide + (off <= half), narrow + (off <= 0.05 * half)
    assert clopper_pearson(wide, 1_500, FALSE_ALARM)[1] >= 0.95
    assert clopper_pearson(narrow, 1_500, FALSE_ALARM)[1] < 0.95


def test_the_bound_has_the_law_that_is_paid_for() -> None:
    bound = BOUNDS[2]
    sample = [bound.release(1.0, 100) / bound.scale for _ in range(8_000)]
    assert fits(ks_p(sample, stats.laplace.cdf))
    for wrong in (0.8, 1.25):
        assert not fits(ks_p([x * wrong for x in sample], stats.laplace.cdf))
    assert len(Counter(sample)) > 1_000


def test_another_epsilon_is_another_scale() -> None:
    bound = BOUNDS[2]
    assert replace(bound, epsilon=bound.epsilon / 2).scale == pytest.approx(2 * bound.scale)
