"""core/summedbars.py: coverage of sums of discrete terms, from their exact laws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from duckdp.core.errorbars import Noise
from duckdp.core.errorbars import half_width as plain_half_width
from duckdp.core.ratiobars import can_bound, ratio_interval
from duckdp.core.summedbars import Law, Summed, half_width, linear_half_width, linear_standard_error, rounded_half_width

LAPLACE, GAUSSIAN = Noise("laplace", 4.0), Noise("gaussian", 6.0)
LAWS = [
    Summed(((1.0, LAPLACE, 6),)),
    Summed(((0.8, LAPLACE, 1), (-0.2, LAPLACE, 5), (0.2, GAUSSIAN, 1))),
    Summed(((0.5, GAUSSIAN, 3), (0.25, GAUSSIAN, 4))),
]


def _exact(law: Summed, steps: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Values and chances of a law whose coefficients are multiples of 1 / steps, by convolution."""
    found = np.ones(1)
    for c, noise, times in law.terms:
        k = np.arange(-40 * int(noise.scale), 40 * int(noise.scale) + 1)
        power = -np.abs(k) / noise.scale if noise.family == "laplace" else -(k**2) / (2 * noise.scale**2)
        chances = np.exp(power) / np.exp(power).sum()
        spread = np.zeros((len(k) - 1) * round(abs(c) * steps) + 1)
        spread[:: round(abs(c) * steps)] = chances
        for _ in range(times):
            size = len(found) + len(spread) - 1
            found = np.fft.irfft(np.fft.rfft(found, size) * np.fft.rfft(spread, size), size)
    half = len(found) // 2
    return np.arange(-half, half + 1) / steps, found


@pytest.mark.parametrize("law", LAWS)
def test_half_widths_cover_what_they_say(law: Summed) -> None:
    """Of the law itself: at least the level, and no wider than the step before allows."""
    values, chances = _exact(law)
    width = half_width(law)
    assert chances[np.abs(values) <= width + 1e-9].sum() >= 0.95 - 2e-6
    assert chances[np.abs(values) <= width * 0.97].sum() < 0.95
    assert math.sqrt((chances * values**2).sum()) == pytest.approx(math.sqrt(law.variance()), rel=1e-6)
    # the broken twin takes the noise of one cell for that of all
    assert chances[np.abs(values) <= plain_half_width(law.terms[-1][1]) * abs(law.terms[-1][0])].sum() < 0.95


@pytest.mark.parametrize("law", LAWS)
def test_rounded_counts_are_covered(law: Summed) -> None:
    values, chances = _exact(law)
    width = rounded_half_width([law], 1)
    assert chances[np.abs(np.floor(values + 0.5)) <= width].sum() >= 0.95 - 2e-6
    assert chances[np.abs(np.floor(values + 0.5)) <= width - 1].sum() < 0.95


def test_of_single_terms_it_is_what_it_was() -> None:
    laws: list[Law] = [LAPLACE, GAUSSIAN]
    c = np.array([[1.0, 2.0, 0.0], [0.5, 0.0, 0.0]])
    from duckdp.core import errorbars

    assert linear_half_width(c, laws) == pytest.approx(errorbars.linear_half_width(c, [LAPLACE, GAUSSIAN]))
    assert linear_standard_error(c, laws) == pytest.approx(errorbars.linear_standard_error(c, [LAPLACE, GAUSSIAN]))
    assert half_width(Summed(((2.0, LAPLACE, 1),))) == 2 * plain_half_width(LAPLACE)
    assert linear_half_width(np.zeros((1, 1)), [LAWS[0]])[0] == 0


def test_ratios_of_sums_are_covered() -> None:
    """By draws: numerator and denominator share terms, as the average of a total does."""
    rng = np.random.default_rng(5)
    laws: list[Law] = [Summed(((1.0, Noise("laplace", 60.0), 5),)), Summed(((1.0, Noise("laplace", 60.0), 5),))]
    drawn = rng.laplace(0, 60, (2, 4000, 5)).sum(axis=2)
    g, h = np.array([1.0, 0.0]), np.array([1.0, 1.0])
    a, b = 400 + g @ drawn, 1500 + h @ drawn
    assert can_bound(laws, [True, True])
    low, high = ratio_interval(a, b, g, h, laws, 0.0, 1.0)
    inside = float(np.mean((low <= 400 / 1500) & (high >= 400 / 1500)))
    assert 0.935 < inside < 0.97  # sd .0034
    # the broken twin counts one of five terms
    one: list[Law] = [Noise("laplace", 60.0)] * 2
    low, high = ratio_interval(a, b, g, h, one, 0.0, 1.0)
    assert float(np.mean((low <= 400 / 1500) & (high >= 400 / 1500))) < 0.8
