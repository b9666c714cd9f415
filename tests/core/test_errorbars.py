"""Error bars against brute-force laws and simulation; twins with a wrong scale must be seen."""

import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pytest

import duckdp.core.errorbars as errorbars
from duckdp.core.errorbars import (
    Noise,
    half_width,
    linear_half_width,
    linear_standard_error,
    rounded_half_width,
    smallest_epsilon,
)
from duckdp.errors import ParameterError

SCALES = [0.001, 0.02, 0.1, 0.3, 0.5, 0.9, 1.0, 1.5, 3.0, 10.0, 31.7, 63.9, 64.0, 100.0, 400.0]
LEVELS = [0.01, 0.5, 0.9, 0.95, 0.99, 0.999999]
FAMILIES = ["laplace", "gaussian"]
LARGE = [2.0**13 + 0.1, 1e9, 2.0**40, 2.0**55]


def L(scale: float) -> Noise:
    return Noise("laplace", scale)


def G(scale: float) -> Noise:
    return Noise("gaussian", scale)


def law(noise: Noise) -> tuple[np.ndarray, np.ndarray]:
    """Support and masses, by summing the unnormalised masses (never by a closed form)."""
    s = noise.scale
    k = np.arange(
        -int((40 if noise.family == "laplace" else 9) * s) - 3, int((40 if noise.family == "laplace" else 9) * s) + 4
    )
    mass = np.exp(-np.abs(k) / s) if noise.family == "laplace" else np.exp(-(k**2) / (2 * s * s))
    return k, mass / mass.sum()


def sum_law(coefficients: Sequence[float], noises: Sequence[Noise]) -> tuple[np.ndarray, np.ndarray]:
    """Sorted |S| and its distribution function, by listing all atoms above 1e-13."""
    values, masses = np.zeros(1), np.ones(1)
    for c, noise in zip(coefficients, noises, strict=True):
        k, p = law(noise)
        k, p = k[p > 1e-13], p[p > 1e-13]
        values, masses = np.add.outer(values, c * k).ravel(), np.multiply.outer(masses, p).ravel()
        keep = masses > 1e-16
        values, masses = values[keep], masses[keep]
    order = np.argsort(np.abs(values))
    return np.abs(values)[order], np.cumsum(masses[order])


def covered(values: np.ndarray, below: np.ndarray, t: float) -> float:
    index = int(np.searchsorted(values, t * (1 + 1e-12) + 1e-12, side="right"))
    return float(below[index - 1]) if index else 0.0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", SCALES)
def test_one_term_against_the_summed_law(family: str, scale: float):
    noise = Noise(family, scale)
    k, p = law(noise)
    assert noise.variance() == pytest.approx(float(np.sum(k**2 * p)), rel=1e-11, abs=1e-300)
    for w in {0, 1, int(scale), int(3 * scale), int(7 * scale)}:
        assert float(errorbars._coverage(noise, w)) == pytest.approx(float(p[np.abs(k) <= w].sum()), rel=1e-12)
    assert errorbars._coverage(noise, -1) == 0
    for level in LEVELS:
        w = half_width(noise, level)
        assert errorbars._coverage(noise, w) >= level
        assert w == 0 or errorbars._coverage(noise, w - 1) < level


@pytest.mark.parametrize("level", [*LEVELS, 1e-12, 1 - 1e-12, 1 - 2.0**-53])
@pytest.mark.parametrize("scale", [*SCALES, *LARGE])
def test_half_width_is_the_smallest(scale: float, level: float):
    for family in FAMILIES:
        noise = Noise(family, scale)
        w = half_width(noise, level)
        assert errorbars._coverage(noise, w) >= level
        assert w == 0 or errorbars._coverage(noise, w - 1) < level


@pytest.mark.parametrize("scale", [*SCALES, *LARGE, 1e-300, 2.0**62])
def test_half_width_where_a_level_is_all_but_met(scale: float):
    """At the doubles next to a coverage the closed form and the coverages must agree to the last of 53 bits."""
    noise = L(scale)
    for w in (0, 1, 2, int(scale), int(3 * scale)):
        met = float(errorbars._coverage(noise, w))
        for level in (math.nextafter(met, 0), met, math.nextafter(met, 1)):
            if 0 < level < 1:
                found = half_width(noise, level)
                assert errorbars._coverage(noise, found) >= Decimal(level)
                assert found == 0 or errorbars._coverage(noise, found - 1) < Decimal(level)


@pytest.mark.parametrize("scale", LARGE)
def test_large_scales_approach_the_continuous_laws(scale: float):
    assert half_width(L(scale)) == pytest.approx(scale * math.log(20), rel=1e-4)
    assert half_width(G(scale)) == pytest.approx(1.959963984540054 * scale, rel=1e-4)
    assert L(scale).variance() == pytest.approx(2 * scale**2, rel=1e-6)


def test_both_gaussian_sums_agree_where_they_meet():
    below, above = G(math.nextafter(64, 0)), G(64.0)
    for w in (0, 3, 60, 125, 300, 500):
        assert abs(errorbars._coverage(below, w) - errorbars._coverage(above, w)) < 1e-15


LATTICE = [
    ([1.0, 1.0], [L(0.3), L(0.3)]),
    ([1.0, -1.0], [L(5.0), G(3.0)]),
    ([2.0, 3.0], [L(1.0), G(0.4)]),
    ([0.1, 0.3], [L(20.0), L(0.05)]),
    ([1.0, 1.0, 2.0], [G(0.7), L(2.0), L(0.5)]),
    ([1.0, 1.0, 1.0, 1.0], [L(0.9)] * 4),
]


@pytest.mark.parametrize(("coefficients", "noises"), LATTICE)
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_sums_on_a_lattice_are_exact(coefficients: list[float], noises: list[Noise], level: float):
    values, below = sum_law(coefficients, noises)
    exact = values[np.searchsorted(below, level)]
    found = linear_half_width(np.array(coefficients)[:, None], noises, level)[0]
    assert found == pytest.approx(exact, rel=1e-12)


REAL = [
    ([0.7, -1.3], [L(60.0), L(55.0)], 1e-4),
    ([1.0, 0.9999], [L(60.0), L(60.0)], 4.2e-4),  # almost a lattice: half a step is 0.025 / 60
    ([0.7, -1.3], [G(60.0), G(80.0)], 1e-4),
    ([0.7, -1.3], [L(60.0), G(55.0)], 1e-4),
    ([0.7, -1.3], [L(60.0), G(12.0)], 1e-4),
    ([0.7, -13.0], [L(60.0), L(4.0)], 1e-4),
    ([1000.3, 1.0], [L(50.0), L(50.0)], 5e-4),  # steps of 1000: half a step is 5e-4
]


@pytest.mark.parametrize(("coefficients", "noises", "tolerance"), REAL)
def test_sums_of_large_terms(coefficients: list[float], noises: list[Noise], tolerance: float):
    values, below = sum_law(coefficients, noises)
    t = linear_half_width(np.array(coefficients)[:, None], noises)[0]
    assert abs(covered(values, below, t) - 0.95) <= tolerance
    for twin in (0.8, 1.25):
        wrong = linear_half_width(np.array(coefficients)[:, None], [Noise(n.family, n.scale * twin) for n in noises])[0]
        assert abs(covered(values, below, wrong) - 0.95) > 0.015


@pytest.mark.parametrize("scales", [(0.3, 0.7), (1.0, 3.0), (10.0, 2.0)])
def test_incommensurable_steps_are_never_missed(scales: tuple[float, float]):
    coefficients, noises = [1.0, math.sqrt(2)], [L(scales[0]), G(scales[1])]
    values, below = sum_law(coefficients, noises)
    t = linear_half_width(np.array(coefficients)[:, None], noises)[0]
    assert covered(values, below, t) >= 0.95 - 1e-4
    assert t <= values[np.searchsorted(below, 0.95 - 1e-9)] + 1e-4 * 2 * errorbars._reach(
        Counter(zip(coefficients, noises, strict=True))
    )


def test_closed_form_equals_inversion():
    generator = np.random.default_rng(11)
    c = np.exp(generator.uniform(-4, 4, size=(3, 100)))
    c[:, :6] = np.array([[1, 1, 1, 1, 1, 1], [1, 1 + 1e-9, 1 + 1e-5, 1.001, 2, 1], [1, 1, 1 + 1e-5, 1, 2, 1e-8]])
    noises = [L(1e9)] * 3
    for rows in (2, 3):
        closed = linear_half_width(c[:rows], noises[:rows])
        inverted = [errorbars._quantile(column.tolist(), noises[:rows], 0.95) for column in c[:rows].T]
        np.testing.assert_allclose(closed, inverted, rtol=2e-6)


def test_the_table_equals_inversion():
    generator = np.random.default_rng(12)
    for noises in ([L(100.0), L(10.0)], [L(300.0), G(100.0), L(10.0)]):
        c = generator.normal(size=(len(noises), 600))
        np.testing.assert_allclose(linear_half_width(c, noises)[:20], linear_half_width(c[:, :20], noises), rtol=2e-3)


def test_the_table_sorts_out_zeros():
    c = np.random.default_rng(13).normal(size=(3, 700))
    c[0, :300] = 0
    c[1, 200:400] = 0
    c[:, 0] = 0
    noises = [L(100.0), G(60.0), L(10.0)]
    found = linear_half_width(c, noises)
    columns = [0, 1, 199, 250, 350, 500]
    np.testing.assert_allclose(found[columns], linear_half_width(c[:, columns], noises), rtol=2e-3)
    assert found[0] == 0


def test_many_terms_approach_a_normal_variable():
    generator = np.random.default_rng(14)
    for c in (generator.normal(size=(300, 2)), np.ones((300, 1))):
        noises = [L(10.0)] * 300
        np.testing.assert_allclose(linear_half_width(c, noises), 1.96 * linear_standard_error(c, noises), rtol=3e-3)


def test_zero_and_single_columns():
    found = linear_half_width(np.array([[0.0, -2.5, 0.0], [0.0, 0.0, 1.0]]), [L(10.0), G(3.0)])
    assert found.tolist() == [0.0, 2.5 * half_width(L(10.0)), float(half_width(G(3.0)))]
    assert linear_half_width(np.zeros((0, 3)), []).tolist() == [0.0, 0.0, 0.0]
    assert linear_half_width(np.zeros((2, 0)), [L(1.0), L(1.0)]).shape == (0,)


def test_standard_error():
    noises = [L(1.0), G(3.0)]
    found = linear_standard_error(np.array([[1.0, 0.0, 2.0], [0.0, -2.0, 1.0]]), noises)
    expected = [noises[0].variance() ** 0.5, 6.0, (4 * noises[0].variance() + 9) ** 0.5]
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("twin", [0.8, 1.0, 1.25])
def test_against_simulation(family: str, twin: float):
    """400,000 draws: the standard error of the coverage is 3.5e-4; 7 of them, false alarm 3e-12."""
    generator, draws = np.random.default_rng(15), 400_000
    noise = Noise(family, 20.0)
    k, p = law(noise)
    samples = generator.choice(k, size=(2, draws), p=p)
    c = np.array([1.0, -0.618])
    t = linear_half_width(c[:, None], [Noise(family, 20.0 * twin)] * 2)[0]
    off = abs(float(np.mean(np.abs(c @ samples) <= t)) - 0.95)
    assert (off <= 0.0025 + 0.001) if twin == 1.0 else (off > 0.015)


@pytest.mark.parametrize("unit", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_rounded_counts_against_the_convolved_law(family: str, scale: float, unit: int):
    noise = Noise(family, scale)
    mass, total = law(noise)[1], np.ones(1)
    for terms in range(1, 5):
        total = np.convolve(total, mass)
        steps = np.abs(np.arange(len(total)) - len(total) // 2)
        for level in (0.5, 0.95, 0.999):
            w = rounded_half_width([noise] * terms, unit, level)
            # ties outside: |S| < (w + 1/2) unit
            assert total[2 * steps < (2 * w + 1) * unit].sum() >= level - 1e-9
            assert w == 0 or total[2 * steps < (2 * w - 1) * unit].sum() < level + 1e-9


@pytest.mark.parametrize("terms", [1, 2, 3, 4])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [0.05, 0.7, 3.0, 40.0])
def test_rounded_counts_on_a_fine_grid_approach_the_continuous_law(family: str, terms: int, scale: float):
    """A grid 2^10 times coarser has the same law up to 1e-3; both numeric paths are taken."""
    fine = rounded_half_width([Noise(family, scale * 2**40)] * terms, 2**40)
    assert fine == rounded_half_width([Noise(family, scale * 2**20)] * terms, 2**20)
    assert abs(fine - rounded_half_width([Noise(family, scale * 2**10)] * terms, 2**10)) <= 1


def test_smooth_and_lattice_paths_agree(monkeypatch: pytest.MonkeyPatch):
    cases = [[L(700.0)] * 2, [L(900.0), G(400.0)], [G(300.0)] * 3, [L(800.0)] * 4]
    exact = [rounded_half_width(noises, 1) for noises in cases]
    monkeypatch.setattr(errorbars, "_LATTICE", 0)
    assert [rounded_half_width(noises, 1) for noises in cases] == exact


def test_smallest_epsilon():
    def width(epsilon_nano: int) -> float:
        return 3e9 / epsilon_nano

    assert smallest_epsilon(6, width) == 500_000_000
    assert smallest_epsilon(width(1_234_567_000), width) == 1_234_567_000
    assert smallest_epsilon(math.nextafter(width(1_234_567_000), 0), width) == 1_234_568_000
    assert smallest_epsilon(1e9, width) == 1_000
    assert smallest_epsilon(0.03, width) == 100_000_000_000
    assert smallest_epsilon(0.0299, width) is None
    assert smallest_epsilon(0, lambda _: 0) == 1_000
    assert smallest_epsilon(5, lambda _: math.nan) is None
    assert smallest_epsilon(5, lambda epsilon: half_width(L(1e9 / epsilon))) is not None


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: Noise("cauchy", 1.0), "P107"),
        (lambda: L(0.0), "P103"),
        (lambda: L(math.nan), "P103"),
        (lambda: G(math.inf), "P103"),
        (lambda: half_width(L(1.0), 1.0), "P107"),
        (lambda: half_width(L(1.0), math.nan), "P107"),
        (lambda: linear_half_width(np.ones((2, 1)), [L(1.0)]), "P107"),
        (lambda: linear_half_width(np.full((1, 1), np.nan), [L(1.0)]), "P107"),
        (lambda: rounded_half_width([L(1.0)], 0), "P107"),
        (lambda: smallest_epsilon(-1, lambda _: 0), "P106"),
        (lambda: smallest_epsilon(math.nan, lambda _: 0), "P106"),
    ],
)
def test_misuse_is_refused(call, code: str):
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.code == code


def test_no_noise_no_width():
    assert rounded_half_width([], 5) == 0


MIXED = [[L(2.0)], [L(0.3), G(8.0)], [L(1e13), L(60.0)], [G(1e6), G(70.0)], [L(1e13), L(2e13), L(3e13), L(8.0)]]


@pytest.mark.parametrize("noises", MIXED, ids=str)
@pytest.mark.parametrize("power", [-1000, -700, -540, 3, 540, 900])
def test_coefficients_of_any_size_have_bars(noises: list[Noise], power: int):
    """An analyst may multiply a sum by 1e300: their squares are no DOUBLE."""
    generator = np.random.default_rng(abs(power))
    c = generator.uniform(0.5, 2, (len(noises), 4))
    for of in (linear_half_width, linear_standard_error):
        assert np.array_equal(of(np.ldexp(c, power), noises), np.ldexp(of(c, noises), power))


@pytest.mark.parametrize("noises", [n for n in MIXED if len(n) > 1], ids=str)
@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-150, 1e-80])
def test_what_is_far_below_another_term_changes_nothing(noises: list[Noise], size: float):
    for first in (np.eye(len(noises))[0], np.eye(len(noises))[-1]):
        alone, beside = (first + size * (1 - first) * use for use in (0.0, 1.0))
        for of in (linear_half_width, linear_standard_error):
            found, wanted = of(beside[:, None], noises), of(alone[:, None], noises)
            assert np.allclose(found, wanted, rtol=0.1), (found, wanted)


def test_equal_columns_are_worked_out_once(monkeypatch: pytest.MonkeyPatch):
    noises, asked = [L(8.0), L(1e9), L(2e9), L(3e9)], []
    whole = errorbars._quantile
    monkeypatch.setattr(errorbars, "_quantile", lambda c, *rest: asked.append(c) or whole(c, *rest))
    c = np.array([[1.0, 0.5, 1.0, 1.0], [1e-9] * 4, [1e-9] * 4, [2e-9] * 4])
    found = linear_half_width(c, noises)
    assert len(asked) == 2
    assert found.tolist() == [float(linear_half_width(column[:, None], noises)[0]) for column in c.T]
