"""core/momentbars.py: intervals by draws, against laws that are known exactly; slopes; what is not defined."""

from __future__ import annotations

import math

import numpy as np
import pytest

from duckdp.core.errorbars import Noise, linear_half_width
from duckdp.core.momentbars import (
    count_draws,
    cube_draws,
    gaussian_draws,
    laplace_draws,
    statistic_deviation,
    statistic_interval,
)
from duckdp.core.ratiobars import ratio_interval

EYE = np.eye(2)


def linear(moments: np.ndarray) -> np.ndarray:
    return moments @ np.array([[1.0], [-2.0]])


def quotient(moments: np.ndarray) -> np.ndarray:
    return np.where(moments[:, 1:] > 0, moments[:, :1] / moments[:, 1:], np.nan)


def test_of_a_linear_statistic_the_interval_is_its_noise_s_own() -> None:
    draws = laplace_draws(EYE, 100.0)
    low, high = statistic_interval(np.array([5.0, 7.0]), draws, linear)
    half = float(linear_half_width(np.array([[1.0], [2.0]]), [Noise("laplace", 100.0)] * 2)[0])
    assert (low[0] + high[0]) / 2 == pytest.approx(-9, abs=0.06 * half)
    assert half < (high[0] - low[0]) / 2 < 1.12 * half
    assert statistic_deviation(np.array([5.0, 7.0]), draws, linear) == pytest.approx([math.sqrt(10) * 100], rel=0.05)


def test_of_a_quotient_it_is_fieller_s() -> None:
    draws = laplace_draws(EYE, 10.0)
    noises = [Noise("laplace", 1000.0)] * 2
    for above, below in ((30.0, 200.0), (100.0, 150.0), (-50.0, 90.0)):
        low, high = statistic_interval(np.array([above, below]), draws, quotient)
        exact = ratio_interval(
            np.array([above * 100]), np.array([below * 100]), EYE[0], EYE[1], noises, -math.inf, math.inf
        )
        first, last = float(exact[0][0]), float(exact[1][0])
        assert low[0] == pytest.approx(first, abs=0.12 * (last - first))
        assert high[0] == pytest.approx(last, abs=0.25 * (last - first))
        assert low[0] < first + 0.02 * (last - first)
        assert high[0] > last - 0.02 * (last - first)


def test_where_too_many_draws_are_not_defined_there_is_no_end() -> None:
    draws = laplace_draws(EYE, 10.0)
    low, high = statistic_interval(np.array([30.0, 5.0]), draws, quotient)
    assert (low[0], high[0]) == (-math.inf, math.inf)
    assert math.isnan(statistic_deviation(np.array([30.0, -5.0]), draws, quotient)[0])


@pytest.mark.parametrize(
    ("draws", "deviation", "tail"),
    [
        (laplace_draws(np.eye(3), 4.0), 4 * math.sqrt(2), 4 * math.log(20)),
        (gaussian_draws(np.eye(3), 4.0), 4.0, 4 * 1.96),
        (cube_draws(3, 4.0), 4 * math.sqrt(20 / 3), None),
        (laplace_draws(np.ones((1, 2)), 4.0), 8.0, None),
    ],
    ids=["laplace", "gaussian", "cube", "sum"],
)
def test_draws_have_the_law_they_stand_for(draws: np.ndarray, deviation: float, tail: float | None) -> None:
    assert len(draws) == count_draws(3)
    assert draws.std(axis=0) == pytest.approx(np.full(draws.shape[1], deviation), rel=0.05)
    assert draws.mean(axis=0) == pytest.approx(np.zeros(draws.shape[1]), abs=0.05 * deviation)
    if tail is not None:
        assert np.mean(np.abs(draws) > tail) == pytest.approx(0.05, abs=0.006)
        assert np.mean(np.abs(1.25 * draws) > tail) > 0.07  # a twin
    if draws.shape[1] == 3:
        apart = np.corrcoef(draws, rowvar=False) - np.eye(3)
        assert np.abs(apart).max() < 0.06


def test_draws_are_the_same_each_time() -> None:
    assert (laplace_draws(EYE, 1.0) == laplace_draws(EYE, 1.0)).all()
