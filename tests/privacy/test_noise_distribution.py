"""Laws of the samplers of duckdp.core.noise, and an audit of the release that uses the heavy-tailed one.

The laws pass at the true scale and fail at 0.8 and 1.25 times it.

False alarms: FALSE_ALARM = 1e-9 per check, about 30 checks that must pass, so 3e-8 per run. Sizes make a wrong
scale pass with probability below 1e-9 as well: at 60,000 draws a factor of 0.8 moves the chi-square by thousands.
"""

import math
from fractions import Fraction

import duckdb
import numpy as np
import pytest

from duckdp.core import noise
from duckdp.core.noise_arrays import geometrics
from duckdp.core.types import ATTO, NANO
from duckdp.core.variates import scaled_floor, standard_laplace, standard_student2
from duckdp.mechanisms.smooth_sensitivity import SmoothQuantile
from tests.privacy.statistics import (
    FALSE_ALARM,
    chi_square_p,
    clopper_pearson,
    epsilon_lower_bound,
    fits,
    ks_p,
    point_epsilon_lower_bound,
)

pytestmark = pytest.mark.slow

DRAWS = 60_000
WRONG = (0.8, 1.25)


def floor_laplace(scale):
    return scaled_floor(standard_laplace(), scale)


def floor_student2(scale):
    return scaled_floor(standard_student2(), scale)


def discrete_laplace_cdf(scale):
    q = math.exp(-1 / scale)
    return lambda k: 1 - q ** (k + 1) / (1 + q) if k >= 0 else q**-k / (1 + q)


def discrete_gaussian_cdf(sigma):
    reach = int(40 * sigma) + 40
    mass = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    total = np.cumsum(mass / mass.sum())
    return lambda k: float(total[min(max(k + reach, 0), 2 * reach)]) if k >= -reach else 0.0


def floor_laplace_cdf(scale):
    # floor(scale L) <= k exactly when scale L < k + 1
    return lambda k: 1 - math.exp(-(k + 1) / scale) / 2 if k >= -1 else math.exp((k + 1) / scale) / 2


def floor_student2_cdf(scale):
    def cdf(k):
        t = (k + 1) / scale
        return (
            1 / (math.sqrt(2 + t * t) * (math.sqrt(2 + t * t) - t)) if t < 0 else 0.5 + t / (2 * math.sqrt(2 + t * t))
        )

    return cdf


def samples(sampler, scale):
    if sampler in (noise.laplace_noise, noise.gaussian_noise):
        return sampler(DRAWS, float(scale))
    return [sampler(scale) for _ in range(DRAWS)]


CASES = [
    (noise.laplace_noise, discrete_laplace_cdf, Fraction(3, 2)),
    (noise.laplace_noise, discrete_laplace_cdf, Fraction(500)),
    (noise.gaussian_noise, discrete_gaussian_cdf, Fraction(3, 2)),
    (noise.gaussian_noise, discrete_gaussian_cdf, Fraction(300)),
    (floor_laplace, floor_laplace_cdf, Fraction(4, 3)),
    (floor_laplace, floor_laplace_cdf, Fraction(10**6 + 1, 997)),
    (floor_student2, floor_student2_cdf, Fraction(1, 3)),
    (floor_student2, floor_student2_cdf, Fraction(4, 3)),
    (floor_student2, floor_student2_cdf, Fraction(10**6 + 1, 997)),
]


@pytest.mark.parametrize(("sampler", "law", "scale"), CASES)
def test_law_holds_at_the_true_scale_and_at_no_other(sampler, law, scale):
    drawn = samples(sampler, scale)
    assert fits(chi_square_p(drawn, law(float(scale))))
    for factor in WRONG:
        assert not fits(chi_square_p(drawn, law(float(scale) * factor)))
        wrong = samples(sampler, scale * Fraction(factor))
        assert not fits(chi_square_p(wrong, law(float(scale))))


@pytest.mark.parametrize("rate", [Fraction(1, 50), Fraction(7, 3)])
@pytest.mark.parametrize(
    "draw", [lambda rate: [noise.geometric(rate) for _ in range(DRAWS)], lambda rate: geometrics(rate, DRAWS)]
)
def test_geometric_law(rate, draw):
    drawn = draw(rate)
    law = lambda r: lambda k: 1 - math.exp(-r * (k + 1)) if k >= 0 else 0.0  # noqa: E731
    assert fits(chi_square_p(drawn, law(float(rate))))
    assert not fits(chi_square_p(drawn, law(float(rate) * 0.8)))
    assert not fits(chi_square_p(drawn, law(float(rate) * 1.25)))


@pytest.mark.parametrize("rate", [Fraction(10**9 + 7, 2**61 - 1), Fraction(10**9 + 7, 2**62 + 1)])
def test_fine_geometric_laws_in_arrays(rate):
    """Just inside 64 bits, and beyond them."""
    drawn = np.array(geometrics(rate, DRAWS), dtype=float) * float(rate)
    assert fits(ks_p(drawn, lambda x: -np.expm1(-x)))
    assert not fits(ks_p(0.8 * drawn, lambda x: -np.expm1(-x)))
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 6.2 / math.sqrt(DRAWS)


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(9, 4)])
def test_bernoulli_exp_probability(rate):
    hits = sum(noise.bernoulli_exp(rate) for _ in range(DRAWS))
    low, high = clopper_pearson(hits, DRAWS, FALSE_ALARM / 2)
    assert low <= math.exp(-rate) <= high
    assert not low <= math.exp(-rate) * 0.9 <= high


def test_coordinates_are_independent_of_each_other():
    drawn = np.array(noise.laplace_noise(2 * DRAWS, 20.0)).reshape(-1, 2)
    bound = 6.2 / math.sqrt(DRAWS)  # 1e-9 two-sided for a normal correlation
    assert abs(np.corrcoef(drawn.T)[0, 1]) < bound
    assert abs(np.corrcoef(drawn[1:, 0], drawn[:-1, 0])[0, 1]) < bound
    assert fits(chi_square_p(drawn[:, 1].tolist(), discrete_laplace_cdf(20.0)))


def test_large_scales_keep_their_law():
    scale = Fraction(10**18 + 7, 3)
    for sampler, law in ((floor_laplace, floor_laplace_cdf), (floor_student2, floor_student2_cdf)):
        drawn = [sampler(scale) for _ in range(20_000)]
        cdf = np.vectorize(law(float(scale)))
        assert fits(ks_p(drawn, cdf))
        assert not fits(ks_p([0.8 * z for z in drawn], cdf))


def test_the_tools_catch_a_broken_sampler_and_pass_a_good_one():
    assert not fits(chi_square_p([min(z, 0) for z in noise.laplace_noise(DRAWS, 5.0)], discrete_laplace_cdf(5.0)))
    zero, one, two = ([value + z for z in noise.laplace_noise(DRAWS, 1.0)] for value in (0, 1, 2))
    for bound in (epsilon_lower_bound, point_epsilon_lower_bound):
        assert 0.8 < bound(zero, one) <= 1.0
    assert epsilon_lower_bound(zero, two) > 1.0
    assert epsilon_lower_bound(zero, noise.laplace_noise(DRAWS, 1.0)) < 0.1


# ---- smooth quantiles: two neighbours at the edge of what the proof allows, 100,000 releases on each


RUNS = 100_000
TOP = 10**7


def median(epsilon, delta=0.0):
    return SmoothQuantile(
        epsilon_nano=round(epsilon * NANO), delta_atto=round(delta * ATTO), max_rows=1, grid_cells=TOP
    )


def worst_pair(mechanism):
    """(m, s) of two hypothetical neighbours at the edge of what steps 2 and 3 of the proof allow."""
    small = 1000.0
    return (TOP // 2, small), (TOP // 2 + 1000, small * math.exp(float(mechanism.beta)))


def runs(release, pair):
    return [[release(m, s) for _ in range(RUNS)] for m, s in pair]


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (4.0, 0.0), (1.0, 1e-3)])
def test_audit_of_release(epsilon, delta):
    mechanism = median(epsilon, delta)
    bound = epsilon_lower_bound(*runs(mechanism.release, worst_pair(mechanism)), delta=delta)
    assert 0.2 * epsilon < bound <= epsilon


def test_audit_of_release_on_neighbouring_data():
    mechanism = median(2.0)
    data = [0] * 3 + [TOP // 2] + [TOP // 2 + 1000 * i for i in range(1, 8)]
    values = [f"(SELECT unnest({rows}::BIGINT[]))" for rows in (data, data[:-1])]
    with duckdb.connect() as con:
        pair = [con.execute(mechanism.sql(relation)).fetchone() for relation in values]
    assert pair[0] != pair[1]
    assert epsilon_lower_bound(*runs(mechanism.release, pair)) <= 2.0


def test_audit_catches_twice_the_shift_constant():
    mechanism = median(1.0)

    def broken(m, s):
        return mechanism.release(m, s / 2)  # the same as twice alpha

    assert epsilon_lower_bound(*runs(broken, worst_pair(mechanism))) > 1.0


def test_audit_catches_laplace_noise_sold_as_pure():
    epsilon = 4.0
    mechanism = median(epsilon)

    def broken(m, s):
        return m + floor_laplace(Fraction(s) / mechanism.alpha)

    assert epsilon_lower_bound(*runs(broken, worst_pair(mechanism))) > epsilon
