"""Which noise a summary gets, and what it does to answers.

``laplace`` noises each sum on its own (scale = l1 / epsilon); ``cube`` noises sums jointly in l-infinity balls (rate =
epsilon / linf, mechanisms/cube.py). Both are pure epsilon, and so is ``kernels`` (``kernel_noise``), which is for full
tensors. ``gaussian`` needs delta > 0 (sigma = l2 / sqrt(2 rho), rho from epsilon and delta by core/accountant). Kernels
would give it nothing: independent Gaussian noise of Fejer kernels is independent noise of the functions, of some
division of rho among them, and the best division is that of ``shares``.

The budget may be divided among levels, the functions of equal total degree (``shares``): smooth queries have
small coefficients at high degrees, so noise is better spent there. With weights "uniform" there is one level.
The law with the least expected error is taken, sum_r s_r^2 Var Z_r with s_r = (1 + |r|)^-K the size of coefficient that
K derivatives leave; a formula over public figures only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duckdp.core.accountant import no_gaussian, pure_rho, rho_for
from duckdp.core.cubebars import cube_half_width
from duckdp.core.errorbars import Noise, check_level, linear_half_width
from duckdp.core.jointbars import joint_factor, laplace_variates
from duckdp.core.mixbars import FAST, mixed_half_width, mixed_half_widths
from duckdp.core.noise import gaussian_noise, gaussian_scale, laplace_noise, laplace_scale
from duckdp.core.types import NANO, PICO, Loss, Sensitivity
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms.cube import MAX_PRODUCT, cube_noise, cube_rate, cube_standard_error
from duckdp.smooth.kernel_noise import KernelNoise, share_kernels
from duckdp.smooth.product_kernels import Kernels
from duckdp.smooth.shares import Shares, share_cube, share_gaussian

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Family = Literal["laplace", "cube", "gaussian"]
Choice = Literal["auto", "laplace", "cube", "gaussian"]
FAMILIES: tuple[Family, ...] = ("laplace", "cube", "gaussian")
_CONTINUOUS = 50.0  # sigma from which a discrete Gaussian is taken as continuous (core/errorbars)


@dataclass(frozen=True, kw_only=True, eq=False)
class SumNoise:
    """The law of the noise of R sums, in grid steps: independent between groups, one law within each.

    Attributes:
        family: "laplace", "cube" or "gaussian".
        scales: per group: b of each sum (laplace), 1 / rate (cube), or sigma (gaussian).
        groups: int[R], the group of every noisy sum, from 0.
    """

    family: Family
    scales: tuple[float, ...]
    groups: Ints

    @property
    def size(self) -> int:
        """R, the number of noisy sums."""
        return len(self.groups)

    @cached_property
    def sizes(self) -> Ints:
        """int[k], sums per group."""
        return np.bincount(self.groups, minlength=len(self.scales)).astype(np.int64)

    @cached_property
    def deviations(self) -> Floats:
        """Standard deviation of every sum, float[R]; sums are uncorrelated."""
        each = []
        for scale, size in zip(self.scales, self.sizes.tolist(), strict=True):
            if self.family == "cube":
                each.append(cube_standard_error(Fraction(1) / Fraction(scale), size))
            else:
                each.append(math.sqrt(Noise(self.family, scale).variance()))
        return np.array(each)[self.groups]

    @property
    def deviation(self) -> float:
        """The largest of :attr:`deviations`."""
        return float(self.deviations.max(initial=0.0))

    def standard_error(self, coefficients: Floats) -> float:
        """Standard deviation of a combination, in units of the coefficients times grid steps."""
        each = self.deviations * coefficients
        largest = float(np.max(np.abs(each), initial=0.0))  # scaled to 1: squares of large numbers are no floats
        return largest * float(np.linalg.norm(each / largest)) if 0 < largest < math.inf else largest

    def standard_errors(self, coefficients: Floats) -> Floats:
        """As :meth:`standard_error`, of every row: float[m] for float[m, R]."""
        largest = np.max(np.abs(coefficients), axis=1, initial=0.0)
        scaled = coefficients / np.where(largest > 0, largest, 1.0)[:, None]
        return np.asarray(largest * np.sqrt((scaled * scaled) @ self.deviations**2))

    def half_widths(self, coefficients: Floats, level: float) -> Floats:
        """As :meth:`half_width`, of every row: float[m] for float[m, R]. Rows are scaled to 1 first."""
        largest = np.max(np.abs(coefficients), axis=1, initial=0.0)
        scaled = coefficients / np.where(largest > 0, largest, 1.0)[:, None]
        if self.family == "cube" and len(self.scales) > 1 and FAST[0] <= level <= FAST[1]:
            each = scaled * scaled
            squares, fourths = each @ self._members, (each * each) @ self._members
            return np.asarray(
                largest * mixed_half_widths(squares, fourths, 1 / np.array(self.scales), self.sizes, level)
            )
        if self.family == "gaussian" and min(self.scales) >= _CONTINUOUS and self.size:
            alone = np.eye(1, self.size)[0]
            per_deviation = self.half_width(alone, level) / float(self.deviations[0])
            return np.asarray(self.standard_errors(coefficients) * per_deviation, dtype=np.float64)
        alike = [w * self.half_width(c, level) for w, c in zip(largest.tolist(), scaled, strict=True)]
        return np.array(alike, dtype=np.float64)

    def joint_factor(self, coefficients: Floats, level: float) -> float:
        """At how many standard deviations the error bars of all rows of float[m, R] hold together (``jointbars``)."""
        return joint_factor(coefficients, self.deviations, self._simulated, self.size + len(self.scales), level)

    def _simulated(self, u: Floats) -> Floats:
        """The noise up to a grid step in every sum, float[n, R], from uniform numbers float[n, R + groups]."""
        from scipy.special import gammaincinv, ndtri

        if self.family == "gaussian":
            return np.asarray(ndtri(u[:, : self.size]) * np.array(self.scales)[self.groups])
        if self.family == "laplace":
            return np.asarray(laplace_variates(u[:, : self.size]) * np.array(self.scales)[self.groups])
        radii = gammaincinv(self.sizes + 1.0, u[:, self.size :]) * np.array(self.scales)
        return np.asarray((2 * u[:, : self.size] - 1) * radii[:, self.groups])

    def steps(self, coefficients: Floats) -> Floats:
        """What one grid step in every sum may come to, of every row: float[m] for float[m, R]."""
        return np.asarray(np.abs(coefficients).sum(axis=1))

    @cached_property
    def _members(self) -> Floats:
        """Whether a sum is in a group: float[R, k]."""
        members: Floats = (self.groups[:, None] == np.arange(len(self.scales))).astype(np.float64)
        return members

    def half_width(self, coefficients: Floats, level: float) -> float:
        """Level-quantile of the absolute value of a combination."""
        check_level(level)
        if not self.size or not np.any(coefficients):
            return 0.0
        if self.family == "gaussian" and min(self.scales) >= _CONTINUOUS:
            from scipy.special import ndtri

            return float(ndtri((1 + level) / 2)) * self.standard_error(coefficients) * (1 + 0.06 / min(self.scales))
        if self.family != "cube":
            used = np.flatnonzero(coefficients)
            laws = [Noise(self.family, self.scales[g]) for g in self.groups[used].tolist()]
            return float(linear_half_width(coefficients[used, None], laws, level)[0])
        if len(self.scales) == 1 and 0.5 <= level <= FAST[1]:
            return cube_half_width(coefficients, 1 / self.scales[0], self.size, level)
        count = len(self.scales)
        squares: Floats = np.bincount(self.groups, coefficients**2, minlength=count).astype(np.float64)
        fourths: Floats = np.bincount(self.groups, coefficients**4, minlength=count).astype(np.float64)
        parts = [] if FAST[0] <= level <= FAST[1] else [coefficients[self.groups == g] for g in range(count)]
        return mixed_half_width(squares, fourths, 1 / np.array(self.scales), self.sizes, level, parts)


Law = SumNoise | KernelNoise


@dataclass(frozen=True, kw_only=True)
class NoisePlan:
    """A chosen law, with the budget of each group.

    Attributes:
        noise: the law.
        loss: what the release costs.
        budgets: per scale, its epsilon (laplace, cube, kernels) or rho (gaussian); they add up to at most the whole.
        linf: of the sums, grid steps.
    """

    noise: Law
    loss: Loss
    budgets: tuple[Fraction, ...]
    linf: int


def choose_noise(
    choice: Choice,
    sensitivity: Sensitivity,
    *,
    levels: Ints,
    epsilon_nano: int,
    delta_atto: int = 0,
    smoothness: int | None = None,
) -> NoisePlan:
    """The law for the stated sensitivity and charge, and what it costs (delta only where it is used).

    Privacy:      every group is released with its own budget on its own coordinates: epsilon adds up, and so does rho
                  (basic composition of the groups, each a K-norm or Gaussian mechanism on a part of one vector; a part
                  changes by no more than linf, and by no more than linf sqrt(size) in l2).

    Args:
        choice: "auto" takes the least expected error.
        sensitivity: of the vector of noisy sums, grid steps.
        levels: int[R], total degree of each noisy sum.
        epsilon_nano: the charge, in 1e-9.
        delta_atto: in 1e-18; for Gaussian noise.
        smoothness: K of the expected coefficients, for dividing the budget among levels; None: one level for all.

    Raises:
        ParameterError: P107, choice; P102, Gaussian noise without delta; P103, the grid is too coarse for a cube.
    """
    if choice not in ("auto", *FAMILIES):
        raise ParameterError("P107", "noise", choice, "must be auto, laplace, cube or gaussian.")
    epsilon = Fraction(epsilon_nano, NANO)
    rho = rho_for(epsilon_nano, delta_atto) if delta_atto else 0
    plain = np.zeros(len(levels), dtype=np.int64)
    pure = Loss(epsilon_nano=epsilon_nano, rho_pico=pure_rho(epsilon_nano))
    plans: list[NoisePlan] = []
    if choice in ("auto", "laplace"):
        law = SumNoise(family="laplace", scales=(laplace_scale(epsilon, sensitivity.l1),), groups=plain)
        plans.append(NoisePlan(noise=law, loss=pure, budgets=(epsilon,), linf=sensitivity.linf))
    if choice == "cube" or (choice == "auto" and epsilon * len(levels) <= MAX_PRODUCT * sensitivity.linf):
        plans.append(_plan_cube(share_cube(levels, epsilon, smoothness), sensitivity.linf, pure))
    if rho and choice in ("auto", "gaussian"):
        loss = Loss(epsilon_nano=epsilon_nano, delta_atto=delta_atto, rho_pico=rho)
        for k in {smoothness, None}:  # one group is bounded as a whole, which may be less than its parts
            plans.append(_plan_gaussian(share_gaussian(levels, Fraction(rho, PICO), k), sensitivity, loss))
    elif choice == "gaussian":
        raise no_gaussian(delta_atto)
    return min(plans, key=lambda plan: expected_error(plan.noise, levels, smoothness))


def expected_error(noise: Law, levels: Ints, smoothness: int | None) -> float:
    """sqrt(sum_r s_r^2 Var Z_r), s_r = (1 + |r|)^-K: grid steps; K = 0 without a smoothness."""
    return math.sqrt(float(noise.deviations**2 @ level_weights(levels, smoothness)))


def level_weights(levels: Ints, smoothness: int | None) -> Floats:
    """Expected squares of a question's coefficients, s_r^2 by total degree: float[R]."""
    return np.asarray((1.0 + levels) ** (-2.0 * (smoothness or 0)))


def predict_deviations(
    choice: Choice | Literal["kernels"],
    sensitivity: Sensitivity,
    *,
    levels: Ints,
    epsilon_nano: int,
    delta_atto: int = 0,
    smoothness: int | None = None,
    kernels: Kernels | None = None,
    count_linf: int | None = None,
) -> Floats:
    """Standard deviation of every sum under the law of least expected error, by formulas alone: float[R], grid steps.

    Within a few percent of what is drawn, in a hundredth of the time.

    Args:
        choice: as for :func:`choose_noise`, or "kernels".
        sensitivity: as there.
        levels: as there.
        epsilon_nano: as there.
        delta_atto: as there.
        smoothness: as there.
        kernels: of the basis, where they are allowed; all R sums are noisy then.
        count_linf: of the sum of degree 0 alone, where that is less.
    """
    epsilon, size = Fraction(epsilon_nano, NANO), len(levels)
    linf = float(sensitivity.linf)
    found: list[Floats] = []
    if choice in ("auto", "laplace"):
        found.append(np.full(size, math.sqrt(2) * sensitivity.l1 / float(epsilon)))
    if choice in ("auto", "cube"):
        shares = share_cube(levels, epsilon, smoothness)
        sizes = np.bincount(shares.groups)
        each = np.sqrt((sizes + 1) * (sizes + 2) / 3) * linf / np.array([float(part) for part in shares.budgets])
        found.append(np.asarray(each[shares.groups]))
    rho = rho_for(epsilon_nano, delta_atto) if delta_atto and choice in ("auto", "gaussian") else 0
    for k in {smoothness, None} if rho else ():
        shares = share_gaussian(levels, Fraction(rho, PICO), k)
        squares = np.minimum(float(sensitivity.l2_squared), np.bincount(shares.groups) * linf**2)
        each = np.sqrt(squares / 2 / np.array([float(part) for part in shares.budgets]))
        found.append(np.asarray(each[shares.groups]))
    weights = level_weights(levels, smoothness)
    if kernels is not None and choice in ("auto", "kernels"):
        norms = {"l1": linf, "linf": linf, "count_linf": float(count_linf or linf), "epsilon": float(epsilon)}
        divided = share_kernels(kernels.squares, levels, weights, **norms)
        found.append(divided.deviations)
    if not found:
        raise no_gaussian(delta_atto)
    return min(found, key=lambda deviations: float(deviations**2 @ weights))


def draw_noise(plan: NoisePlan) -> list[int]:
    """The noise of all sums, int[R], grid steps, drawn at zero. Cubes are drawn at exact rational rates."""
    noise = plan.noise
    if isinstance(noise, KernelNoise):
        raise InternalError("kernels have noise of their own")
    found = [0] * noise.size
    for group, (scale, budget) in enumerate(zip(noise.scales, plan.budgets, strict=True)):
        members = np.flatnonzero(noise.groups == group).tolist()
        if noise.family == "cube":
            drawn = cube_noise(len(members), cube_rate(budget, plan.linf, len(members)))
        else:
            drawn = (laplace_noise if noise.family == "laplace" else gaussian_noise)(len(members), scale)
        for member, value in zip(members, drawn, strict=True):
            found[member] = value
    return found


def draw_kernel_noise(plan: NoisePlan) -> tuple[list[int], list[int]]:
    """The noise of all sums of kernels, and of the cube's sums: grid steps, drawn at zero."""
    noise = plan.noise
    if not isinstance(noise, KernelNoise):
        raise InternalError("the law of kernels was not chosen")
    of_kernels, count = laplace_noise(noise.kernels.size, noise.scales[-1]), len(noise.helped)
    of_cube = cube_noise(count, cube_rate(plan.budgets[0], plan.linf, count)) if count else []
    return of_kernels, of_cube


def _plan_cube(shares: Shares, linf: int, loss: Loss) -> NoisePlan:
    sizes = np.bincount(shares.groups).tolist()
    rates = [cube_rate(epsilon, linf, size) for epsilon, size in zip(shares.budgets, sizes, strict=True)]
    law = SumNoise(family="cube", scales=tuple(float(1 / rate) for rate in rates), groups=shares.groups)
    return NoisePlan(noise=law, loss=loss, budgets=shares.budgets, linf=linf)


def _plan_gaussian(shares: Shares, sensitivity: Sensitivity, loss: Loss) -> NoisePlan:
    """A group of R_l sums changes by at most linf sqrt(R_l) in l2, and by no more than the whole vector."""
    sizes = np.bincount(shares.groups).tolist()
    squares = [min(sensitivity.l2_squared, size * sensitivity.linf**2) for size in sizes]
    scales = [gaussian_scale(rho, square) for rho, square in zip(shares.budgets, squares, strict=True)]
    law = SumNoise(family="gaussian", scales=tuple(scales), groups=shares.groups)
    return NoisePlan(noise=law, loss=loss, budgets=shares.budgets, linf=sensitivity.linf)
