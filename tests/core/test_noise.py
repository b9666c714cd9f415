"""Scales against OpenDP's own map, arguments, ranges; the laws are in tests/privacy/test_noise_distribution.py."""

import inspect
import math
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckdp.core import noise
from duckdp.core.noise_arrays import geometrics
from duckdp.errors import InternalError, ParameterError

EPSILONS = st.integers(1_000, 10**11).map(lambda n: Fraction(n, 10**9))


@settings(max_examples=60, deadline=None)
@given(epsilon=EPSILONS, l1=st.one_of(st.integers(1, 10), st.integers(1, 2**40)))
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


@pytest.mark.parametrize("sampler", [noise.discrete_laplace, noise.discrete_gaussian])
@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan, 1])
def test_bad_scales_of_samplers_are_refused(sampler, scale):
    with pytest.raises(ParameterError) as caught:
        sampler([1], scale)
    assert caught.value.code == "P103"


@pytest.mark.parametrize("sampler", [noise.discrete_laplace, noise.discrete_gaussian])
def test_range_is_checked_before_the_sampler_saturates_and_shows_no_value(sampler):
    for values, scale in (([7, 2**62], 1.0), ([-(2**62)], 1.0), ([2**61], 1e17), ([0], 1e18)):
        with pytest.raises(InternalError) as caught:
            sampler(values, scale)
        assert not any(character.isdigit() for character in caught.value.message)
    assert len(sampler([2**61, -(2**61), 0], 1e15)) == 3
    assert sampler([], 1.0) == []


def test_values_must_be_integers():
    with pytest.raises(TypeError):
        noise.discrete_laplace([1.5], 1.0)


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), 1.5, True])
def test_exact_samplers_refuse_bad_scales(scale):
    for sampler in (noise.floor_laplace, noise.floor_student2):
        with pytest.raises(InternalError):
            sampler(scale)


def test_exact_samplers_refuse_bad_rates():
    with pytest.raises(InternalError):
        noise.bernoulli_exp(Fraction(-1, 2))
    with pytest.raises(InternalError):
        noise.geometric(Fraction(0))
    with pytest.raises(InternalError):
        geometrics(Fraction(0), 2)


def scripted_bits(monkeypatch, *answers):
    queue = list(answers)
    monkeypatch.setattr(noise, "random_bits", lambda count: queue.pop(0)(count))


@pytest.mark.parametrize("scale", [Fraction(1, 7), Fraction(1), Fraction(22, 7), Fraction(10**6), Fraction(10**20, 3)])
@pytest.mark.parametrize("q", [Fraction(0), Fraction(1, 1000), Fraction(2, 7), Fraction(1, 2), Fraction(99, 100)])
@pytest.mark.parametrize("negative", [0, 1])
def test_floor_student2_is_the_floor_of_the_quantile(monkeypatch, scale, q, negative):
    # the bits of q, then the sign; no |T| of these is rational unless it is 0, so one word of bits settles the floor
    scripted_bits(monkeypatch, lambda n: int(q * 2**n), lambda n: negative)
    drawn = noise.floor_student2(scale)
    p = (1 - q) / 2 if negative else (1 + q) / 2
    square = scale**2 * (2 * p - 1) ** 2 / (2 * p * (1 - p))  # exact square of the quantile
    floor = math.isqrt(square.numerator // square.denominator)
    assert drawn == (-floor - 1 if negative else floor)


def test_floor_student2_asks_for_more_bits_until_the_floor_is_known(monkeypatch):
    # all ones: q -> 1, where the quantile is infinite; then zeros settle it; q = sqrt(1/3) puts t on 1
    scripted_bits(monkeypatch, lambda n: 2**n - 1, lambda n: 0, lambda n: 0)
    far = noise.floor_student2(Fraction(1))
    assert far == math.isqrt(2 * (2**128 - 2**64) ** 2 // (2**256 - (2**128 - 2**64) ** 2))
    border = lambda n: math.isqrt(2 ** (2 * n) // 3)  # noqa: E731
    for last, floor in ((lambda n: 0, 0), (lambda n: 2**n - 1, 1)):
        scripted_bits(monkeypatch, border, last, lambda n: 0)
        assert noise.floor_student2(Fraction(1)) == floor


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
