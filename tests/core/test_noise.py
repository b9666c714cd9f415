"""Scales against OpenDP's own map, arguments, ranges; the laws are in tests/privacy/test_noise_distribution.py."""

import inspect
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckdp.core import noise
from duckdp.core.noise_arrays import geometrics
from duckdp.errors import InternalError, ParameterError
from tests.privacy.statistics import chi_square_p, fits

EPSILONS = st.integers(1_000, 10**11).map(lambda n: Fraction(n, 10**9))


@settings(max_examples=60, deadline=None)
@given(epsilon=EPSILONS, l1=st.one_of(st.integers(1, 10), st.integers(1, 2**36)))
def test_laplace_scale_costs_at_most_epsilon_and_is_tight(epsilon, l1):
    scale = noise.laplace_scale(epsilon, l1)
    assert Fraction(scale) >= l1 / epsilon
    assert Fraction(noise._laplace(scale).map(l1)) <= epsilon
    assert scale <= float(l1 / epsilon) * (1 + 1e-14)


@settings(max_examples=60, deadline=None)
@given(rho=st.integers(1, 10**14).map(lambda n: Fraction(n, 10**12)), l2_squared=st.integers(1, 2**40))
def test_gaussian_scale_costs_at_most_rho_and_is_tight(rho, l2_squared):
    sigma = noise.gaussian_scale(rho, l2_squared)
    assert Fraction(sigma) ** 2 >= l2_squared / (2 * rho)
    assert Fraction(noise._gaussian(sigma).map(math.nextafter(math.sqrt(l2_squared), math.inf))) <= rho * (
        1 + Fraction(1, 10**13)
    )
    assert sigma <= math.sqrt(l2_squared / (2 * rho)) * (1 + 1e-14)


def test_perfect_squares_need_no_rounding():
    assert noise.gaussian_scale(Fraction(1, 2), 4) == 2.0
    assert noise.laplace_scale(Fraction(1, 2), 1) == 2.0


@pytest.mark.parametrize("function", [noise.laplace_scale, noise.gaussian_scale])
@pytest.mark.parametrize(
    ("loss", "sensitivity"),
    [
        (Fraction(0), 1),
        (Fraction(-1), 1),
        (Fraction(1), 0),
        (Fraction(1), -1),
        (0.5, 1),
        (Fraction(1), 1.0),
        (Fraction(1), True),
        (Fraction(1), 2**124),
        (Fraction(1, 2**100), 2**60),
    ],
)
def test_bad_scales_are_refused(function, loss, sensitivity):
    with pytest.raises(ParameterError) as caught:
        function(loss, sensitivity)
    assert caught.value.code == "P103"


SAMPLERS = (noise.laplace_noise, noise.gaussian_noise)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan, 1, 2.0**57])
def test_bad_scales_of_samplers_are_refused(sampler, scale):
    with pytest.raises(ParameterError) as caught:
        sampler(1, scale)
    assert caught.value.code == "P103"


def test_every_scale_that_is_planned_can_be_drawn():
    """What a plan accepts no release refuses: one bound for both, below the range of the sampler by 100 scales."""
    assert 100 * noise.LARGEST_SCALE < 2**63
    for scale_of, most in ((noise.laplace_scale, 2**56), (noise.gaussian_scale, 2**112)):
        loss = Fraction(1, 2) if scale_of is noise.gaussian_scale else Fraction(1)
        for sensitivity in (most - 1, most, most + 1, 4 * most):
            try:
                scale = scale_of(loss, sensitivity)
            except ParameterError:
                assert sensitivity >= most * (1 - 2**-40)
            else:
                assert [len(s(2, scale)) for s in SAMPLERS] == [2, 2]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samplers_see_no_value(sampler):
    assert list(inspect.signature(sampler).parameters) in (["count", "scale"], ["count", "sigma"])
    assert sampler(0, 1.0) == []
    assert all(type(z) is int for z in sampler(5, 1e15))


def test_no_function_of_the_module_takes_what_is_noised():
    """Arguments are scales, rates and counts: public. ``complete`` sees draws."""
    public = {"epsilon", "rho", "l1", "l2_squared", "count", "scale", "sigma", "limit", "rate"}
    for name, function in vars(noise).items():
        if inspect.isfunction(function) and function.__module__ == noise.__name__ and not name.startswith("_"):
            assert name == "complete" or set(inspect.signature(function).parameters) <= public, name


def test_draws_beyond_the_end_follow_the_law():
    """A law that was cut close to its middle and completed is the whole law again; a heap at the ends is not."""
    end, draws = 4, 40_000
    laplace = [max(-end, min(end, z)) for z in noise.laplace_noise(draws, 5.0)]
    gauss = [max(-end, min(end, z)) for z in noise.gaussian_noise(draws, 5.0)]
    whole = {
        "laplace": noise.complete(laplace, -end, end, lambda _: noise.geometric(Fraction(1, 5))),
        "gaussian": noise.complete(gauss, -end, end, lambda m: noise._gaussian_beyond(m, Fraction(25))),
    }
    for family, drawn in whole.items():
        weights = {k: math.exp(-abs(k) / 5 if family == "laplace" else -k * k / 50) for k in range(-300, 301)}
        total = sum(weights.values())
        law = np.cumsum([w / total for w in weights.values()])
        cdf = lambda k, law=law: 0.0 if k < -300 else float(law[min(k, 300) + 300])  # noqa: E731
        assert fits(chi_square_p(drawn, cdf))
        assert not fits(chi_square_p(laplace if family == "laplace" else gauss, cdf))  # the twin


def test_opendp_stops_at_the_ends_of_64_bits(monkeypatch):
    """What ``complete`` relies on; and that it is asked."""
    drawn = noise._laplace(1e25)([0] * 40)
    assert {min(drawn), max(drawn)} == {noise._LOWEST, noise._HIGHEST}
    monkeypatch.setattr(noise, "_draw", lambda *_: [noise._HIGHEST, 0, noise._LOWEST])
    for sampler in SAMPLERS:
        high, middle, low = sampler(3, 2.0**56)
        assert middle == 0
        assert high >= noise._HIGHEST
        assert low <= noise._LOWEST
        assert high > noise._HIGHEST or low < noise._LOWEST  # each stays with a chance below 2**-48


def test_exact_samplers_refuse_bad_rates():
    with pytest.raises(InternalError):
        noise.bernoulli_exp(Fraction(-1, 2))
    with pytest.raises(InternalError):
        noise.geometric(Fraction(0))
    with pytest.raises(InternalError):
        geometrics(Fraction(0), 2)


def test_import_of_noise_does_not_import_opendp():
    code = "import sys, duckdp.core.noise; raise SystemExit('opendp' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_seed_generator_or_switch():
    public = [f for name, f in vars(noise).items() if inspect.isfunction(f) and f.__module__ == noise.__name__]
    names = {parameter for function in public for parameter in inspect.signature(function).parameters}
    assert not names & {"rng", "seed", "generator", "random_state", "enabled", "noise"}
    assert "random" not in vars(noise)
    assert len({noise.random_bits(64) for _ in range(100)}) == 100
    assert {noise.uniform_below(3) for _ in range(300)} == {0, 1, 2}
