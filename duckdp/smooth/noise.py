"""Which noise a summary gets, and what it does to answers: one law for all its noisy sums.

``laplace`` noises each sum on its own (scale = l1 / epsilon); ``cube`` noises all in one l-infinity ball (rate =
epsilon / linf, mechanisms/cube.py). Both are pure epsilon. ``gaussian`` needs delta > 0 (sigma = l2 / sqrt(2 rho), rho
from epsilon and delta by core/accountant). The one with the smallest standard deviation is taken, by formula, so from
public figures only: sqrt(2) l1 / epsilon, (linf / epsilon) sqrt((R+1)(R+2)/3), l2 / sqrt(2 rho).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duckdp.core.accountant import pure_rho, rho_for
from duckdp.core.cubebars import cube_half_width
from duckdp.core.errorbars import Noise, linear_half_width
from duckdp.core.noise import discrete_gaussian, discrete_laplace, gaussian_scale, laplace_scale
from duckdp.core.types import NANO, PICO, Loss, Sensitivity
from duckdp.errors import ParameterError
from duckdp.mechanisms.cube import MAX_PRODUCT, add_cube_noise, cube_rate, cube_standard_error

Floats = NDArray[np.float64]
Family = Literal["laplace", "cube", "gaussian"]
Choice = Literal["auto", "laplace", "cube", "gaussian"]
FAMILIES: tuple[Family, ...] = ("laplace", "cube", "gaussian")


@dataclass(frozen=True, kw_only=True)
class SumNoise:
    """The law of the noise of R sums, in grid steps.

    Attributes:
        family: "laplace", "cube" or "gaussian".
        scale: b of each sum (laplace), 1 / rate (cube), or sigma (gaussian).
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
        return math.sqrt(self._each.variance())

    @property
    def _each(self) -> Noise:
        """Law of one sum where sums are independent."""
        return Noise("gaussian" if self.family == "gaussian" else "laplace", self.scale)

    def standard_error(self, coefficients: Floats) -> float:
        """Standard deviation of a combination, in units of the coefficients times grid steps."""
        return self.deviation * float(np.linalg.norm(coefficients))

    def half_width(self, coefficients: Floats, level: float) -> float:
        """Level-quantile of the absolute value of a combination."""
        if not self.size or not np.any(coefficients):
            return 0.0
        if self.family == "cube":
            return cube_half_width(coefficients, 1 / self.scale, self.size, level)
        return float(linear_half_width(coefficients[:, None], [self._each] * self.size, level)[0])


def choose_noise(
    choice: Choice, sensitivity: Sensitivity, *, size: int, epsilon_nano: int, delta_atto: int = 0
) -> tuple[SumNoise, Loss]:
    """The law for the stated sensitivity and charge, and what it costs (delta only where it is used).

    Args:
        choice: "auto" takes the smallest standard deviation.
        sensitivity: of the vector of noisy sums, grid steps.
        size: number of noisy sums.
        epsilon_nano: the charge, in 1e-9.
        delta_atto: in 1e-18; for Gaussian noise.

    Raises:
        ParameterError: P107, choice; P102, Gaussian noise without delta; P103, the grid is too coarse for a cube.
    """
    if choice not in ("auto", *FAMILIES):
        raise ParameterError("P107", "noise", choice, "must be auto, laplace, cube or gaussian.")
    epsilon = Fraction(epsilon_nano, NANO)
    laws = {"laplace": SumNoise(family="laplace", scale=laplace_scale(epsilon, sensitivity.l1), size=size)}
    if choice == "cube" or epsilon * size <= MAX_PRODUCT * sensitivity.linf:
        rate = cube_rate(epsilon, sensitivity.linf, size)
        laws["cube"] = SumNoise(family="cube", scale=float(1 / rate), size=size)
    rho = rho_for(epsilon_nano, delta_atto) if delta_atto else 0
    if rho:
        sigma = gaussian_scale(Fraction(rho, PICO), sensitivity.l2_squared)
        laws["gaussian"] = SumNoise(family="gaussian", scale=sigma, size=size)
    elif choice == "gaussian":
        raise ParameterError("P102", "delta", delta_atto, "Gaussian noise needs delta > 0, for example 1e-8.")
    law = min(laws.values(), key=lambda n: n.deviation) if choice == "auto" else laws[choice]
    if law.family == "gaussian":
        return law, Loss(epsilon_nano=epsilon_nano, delta_atto=delta_atto, rho_pico=rho)
    return law, Loss(epsilon_nano=epsilon_nano, rho_pico=pure_rho(epsilon_nano))


def add_noise(exact: Sequence[int], noise: SumNoise, *, epsilon_nano: int, linf: int) -> list[int]:
    """Release sums. ``exact``: int[R], grid steps, private. A cube is drawn at the exact rational rate."""
    if noise.family == "cube":
        return add_cube_noise(exact, cube_rate(Fraction(epsilon_nano, NANO), linf, noise.size))
    sampler = discrete_laplace if noise.family == "laplace" else discrete_gaussian
    return sampler(exact, noise.scale)
