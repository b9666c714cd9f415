"""Intervals of a list hold together as often as they say: against noise as it is drawn."""

from fractions import Fraction

import numpy as np
import pytest

from duckdp.core.jointbars import RISK, joint_factor
from duckdp.core.types import NANO, Sensitivity
from duckdp.errors import ParameterError
from duckdp.smooth.sum_noise import choose_noise, draw_noise

LEVELS = np.array([0, 1, 1, 2, 2, 2, 3, 3, 3, 3])
DRAWS = 2500
LEAST = 0.95 - 5.3 * (0.95 * 0.05 / DRAWS) ** 0.5  # below it once in 10^7 runs


def plan(family: str, smoothness: int | None):  # type: ignore[no-untyped-def]
    size, linf = len(LEVELS), 2**20
    sensitivity = Sensitivity(l1=size * linf, l2_squared=size * linf**2, linf=linf)
    delta = 10**10 if family == "gaussian" else 0
    return choose_noise(
        family,
        sensitivity,
        levels=LEVELS,
        epsilon_nano=int(Fraction(1) * NANO),
        delta_atto=delta,
        smoothness=smoothness,
    )


@pytest.mark.parametrize(("family", "smoothness"), [("laplace", None), ("cube", None), ("cube", 2), ("gaussian", 2)])
def test_all_hold_together_and_each_alone_does_not(family: str, smoothness: int | None) -> None:
    """The broken twin: the half-width of each interval alone."""
    made = plan(family, smoothness)
    rng = np.random.default_rng(3)
    combinations = rng.normal(size=(40, len(LEVELS))) / made.noise.deviations
    factor = made.noise.joint_factor(combinations, 0.95)
    deviations = made.noise.standard_errors(combinations)
    drawn = np.array([draw_noise(made) for _ in range(DRAWS)], dtype=float)
    errors = np.abs(drawn @ combinations.T)
    steps = np.abs(combinations).sum(axis=1)
    assert np.mean((errors <= factor * deviations + steps).all(axis=1)) >= LEAST
    alone = made.noise.half_widths(combinations, 0.95)
    assert np.mean((errors <= alone).all(axis=1)) < LEAST - 0.1
    union = made.noise.half_widths(combinations, 1 - 0.05 / 40)
    assert factor * deviations.max() < 1.1 * union.max()  # never far above what the union bound asks


def test_equal_answers_cost_nothing_and_nothing_has_no_bar() -> None:
    made = plan("gaussian", None)
    one = np.random.default_rng(1).normal(size=(1, len(LEVELS)))
    alone = made.noise.joint_factor(one, 0.95)
    assert made.noise.joint_factor(np.repeat(one, 500, axis=0), 0.95) == alone
    assert made.noise.half_width(one[0], 0.95) == pytest.approx(alone * made.noise.standard_error(one[0]), rel=0.03)
    assert made.noise.joint_factor(np.zeros((3, len(LEVELS))), 0.95) == 0


def test_the_quantile_is_an_upper_bound() -> None:
    """Of draws whose law is known: max of |uniform| is a Beta variable. A middle rank would be below at times."""
    for level in (0.5, 0.9, 0.95, 0.999):
        for m in (1, 3, 20):
            found = joint_factor(np.eye(m), np.ones(m), lambda u: 2 * u - 1, m, level)
            assert level ** (1 / m) <= found <= level ** (1 / m) + 0.02
    assert RISK <= 1e-6


@pytest.mark.parametrize("level", [0.0, 0.9995, 1.0, -1])
def test_grouping_sets_beyond_the_draws_are_refused(level: float) -> None:
    with pytest.raises(ParameterError) as refused:
        joint_factor(np.eye(2), np.ones(2), lambda u: u, 2, level)
    assert (refused.value.code, refused.value.name) == ("P107", "level")
