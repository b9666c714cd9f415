"""Which noise a summary gets, and what it does to answers: one law for all its noisy sums.

``laplace`` noises each sum on its own (scale = l1 / epsilon); ``cube`` noises all in one l-infinity ball (rate =
epsilon / linf, mechanisms/cube.py). Both are pure epsilon. The one with the smaller standard deviation is taken, by
formula, so from public figures only: sqrt(2) l1 / epsilon against (linf / epsilon) sqrt((R+1)(R+2)/3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duckdp.core.cubebars import cube_half_width
from duckdp.core.errorbars import Noise, linear_half_width
from duckdp.core.noise import discrete_laplace, laplace_scale
from duckdp.errors import ParameterError
from duckdp.mechanisms.cube import MAX_PRODUCT, add_cube_noise, cube_rate, cube_standard_error

Floats = NDArray[np.float64]
Family = Literal["laplace", "cube"]
Choice = Literal["auto", "laplace", "cube"]


@dataclass(frozen=True, kw_only=True)
class SumNoise:
    """The law of the noise of R sums, in grid steps.

    Attributes:
        family: "laplace" or "cube".
        scale: b of each sum (laplace), or 1 / rate (cube).
        size: R, the number of noisy sums.
    """

    family: Family
    scale: float
    size: int

    @property
    def deviation(self) -> float:
        """Standard deviation of one sum; sums are uncorrelated."""
        if self.family == "cube":
            return cube_standard_error(Fraction(1) / Fraction(self.scale), self.size)
        return math.sqrt(Noise("laplace", self.scale).variance())

    def standard_error(self, coefficients: Floats) -> float:
        """Standard deviation of a combination, in units of the coefficients times grid steps."""
        return self.deviation * float(np.linalg.norm(coefficients))

    def half_width(self, coefficients: Floats, level: float) -> float:
        """Level-quantile of the absolute value of a combination."""
        if not self.size or not np.any(coefficients):
            return 0.0
        if self.family == "cube":
            return cube_half_width(coefficients, 1 / self.scale, self.size, level)
        return float(linear_half_width(coefficients[:, None], [Noise("laplace", self.scale)] * self.size, level)[0])


def choose_noise(choice: Choice, epsilon: Fraction, *, l1: int, linf: int, size: int) -> SumNoise:
    """The law for the stated sensitivities.

    Args:
        choice: "auto" takes the smaller standard deviation.
        epsilon: the charge.
        l1: sensitivity in l1, grid steps.
        linf: sensitivity in l-infinity, grid steps.
        size: number of noisy sums.

    Raises:
        ParameterError: P107, choice; P103, the grid is too coarse for a cube.
    """
    if choice not in ("auto", "laplace", "cube"):
        raise ParameterError("P107", "noise", choice, "must be auto, laplace or cube.")
    laplace = SumNoise(family="laplace", scale=laplace_scale(epsilon, l1), size=size)
    if choice == "laplace" or (choice == "auto" and epsilon * size > MAX_PRODUCT * linf):
        return laplace
    cube = SumNoise(family="cube", scale=float(1 / cube_rate(epsilon, linf, size)), size=size)
    return cube if choice == "cube" or cube.deviation < laplace.deviation else laplace


def add_noise(exact: Sequence[int], noise: SumNoise, *, epsilon: Fraction, linf: int) -> list[int]:
    """Release sums. ``exact``: int[R], grid steps, private. A cube is drawn at the exact rational rate."""
    if noise.family == "cube":
        return add_cube_noise(exact, cube_rate(epsilon, linf, noise.size))
    return discrete_laplace(exact, noise.scale)
