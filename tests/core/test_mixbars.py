"""Half-widths of sums of independent cubes, against their law drawn with a million continuous samples."""

import numpy as np
import pytest

from duckdp.core.cubebars import cube_half_width
from duckdp.core.mixbars import cube_kurtosis, mixed_half_width
from duckdp.errors import ParameterError
from duckdp.smooth.sum_noise import SumNoise

SIZES = (1, 2, 3, 5, 10, 50, 300)


def width(coefficients, rates, sizes, level):
    squares = np.array([float(c @ c) for c in coefficients])
    fourths = np.array([float(np.sum(c**4)) for c in coefficients])
    return mixed_half_width(squares, fourths, np.array(rates), np.array(sizes), level, coefficients)


def draw(rng, coefficients, rates, sizes, count):
    x = np.zeros(count)
    for c, rate, size in zip(coefficients, rates, sizes, strict=True):
        x += rng.gamma(size + 1, size=count) / rate * (rng.uniform(-1, 1, (count, len(c))) @ c)
    return np.abs(x)


def cases(rng, count):
    for _ in range(count):
        groups = int(rng.integers(1, 5))
        sizes = [int(rng.choice(SIZES)) for _ in range(groups)]
        coefficients = [rng.normal(size=min(n, int(rng.integers(1, 8)))) * 10 ** rng.uniform(-1, 0.5) for n in sizes]
        yield coefficients, 10 ** rng.uniform(-5, -3, groups), sizes


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 0.999])
def test_coverage_is_at_least_the_level_and_little_more(level):
    rng = np.random.default_rng(11)
    for coefficients, rates, sizes in cases(rng, 12):
        x = draw(rng, coefficients, rates, sizes, 200_000)
        found = np.mean(x <= width(coefficients, rates, sizes, level))
        slack = 4 * np.sqrt(level * (1 - level) / len(x))
        assert level - slack <= found <= level + 0.02
        assert np.mean(x <= 0.9 * width(coefficients, rates, sizes, level)) < level - slack  # the twin


def outstanding(size, first):
    """One coefficient beside many small ones: its tails are longer than its kurtosis tells."""
    return np.append(first, np.full(size - 1, ((1 - first**2) / (size - 1)) ** 0.5))


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99, 0.999, 0.9999])
def test_one_cube_to_the_tails(level):
    rng, count = np.random.default_rng(12), 100_000
    shapes = [np.eye(1, n)[0] for n in (1, 3, 150)] + [np.ones(n) for n in (2, 5, 40)]
    for c in [*shapes, np.array([1, 0.3, 0.3, 0.1]), outstanding(41, 0.9), outstanding(201, 0.95)]:
        x, slack = draw(rng, [c], [1.0], [len(c)], count), 5 * np.sqrt(level * (1 - level) / count)
        noise = SumNoise(family="cube", scales=(1.0,), groups=np.zeros(len(c), dtype=np.int64))
        w = noise.half_width(c, level)
        assert level - slack <= np.mean(x <= w) <= level + 0.012
        assert np.mean(x <= 0.7 * w) < level - slack  # the twin


def test_a_table_of_kurtoses_is_not_for_the_tails():
    c = outstanding(201, 0.95)
    x = draw(np.random.default_rng(13), [c], [1.0], [201], 100_000)
    assert np.mean(x > cube_half_width(c, 1.0, 201, 0.9999)) > 5e-4


@pytest.mark.parametrize("level", [0.99, 0.999, 0.9999])
def test_one_coefficient_may_outweigh_all_others(level):
    c = [np.array([1.0]), np.array([1e-9, 1e-12])]
    w = width(c, [1.0, 1.0], [1, 2], level)
    assert 0.99 < w / -np.log(1 - level) < 1.08  # a Laplace variable
    rng = np.random.default_rng(5)
    for coefficients, rates, sizes in cases(rng, 8):
        assert width(coefficients, rates, sizes, level) > 0


def test_kurtosis_is_exact():
    rng = np.random.default_rng(3)
    c = np.array([1.0, 0.5, -0.2])
    x = rng.gamma(6, size=10**6) * (rng.uniform(-1, 1, (10**6, 3)) @ c)
    found = np.mean(x**4) / np.mean(x**2) ** 2 - 3
    share = np.array([np.sum(c**4) / np.sum(c**2) ** 2])
    assert cube_kurtosis(share, np.array([5]))[0] == pytest.approx(found, rel=0.05)


def test_nothing_is_no_error():
    assert width([np.zeros(3)], [1.0], [3], 0.95) == 0.0


def test_scale_comes_through():
    one = width([np.array([1.0, 2.0])], [1e-4], [4], 0.95)
    assert width([np.array([10.0, 20.0])], [1e-3], [4], 0.95) == pytest.approx(one)


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, True, "x"])
def test_grouping_sets_are_checked(level):
    with pytest.raises(ParameterError):
        width([np.ones(1)], [1.0], [1], level)
