"""The law of sums that are made of noisy sums of kernels, helped by a small cube; and how the budget is shared.

The R kernels of a full tensor basis (``product_kernels``) get Laplace noise of scale l1 / epsilon_k, whatever R is;
the sums of the functions of total degree at most c (c = 0, 1 or 2: a few of R) get a cube of their own for epsilon_c.
What is released of such a function is the mean of the two weighted by their inverse variances::

    Z_r = (1 - h_r) (A L)_r + h_r C_r,   L independent Laplace, C the cube, A from kernels to functions

c and the shares epsilon_c / epsilon = k / 32 are those of the least expected error sum_r s_r^2 Var Z_r (``sum_noise``),
which is Var = 1 / (1 / V_r + 1 / W), V_r and W known in closed form: a formula over public figures.

Privacy:      kernels and cube are two releases of one vector: epsilon_k + epsilon_c (mechanisms/kernels and cube).
              The mean of the two is post-processing. A cube of degree 0 alone (c = 0) has the linf of ADD_REMOVE under
              REPLACE too: of two rows each adds between 0 and its weight to that sum, so it moves by one at most.
Numerics:     h_r is a multiple of 2^-30, computed from public figures when a summary is made and when it is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duckdp.core.errorbars import Noise, check_level
from duckdp.core.jointbars import joint_factor, laplace_variates
from duckdp.core.kernelbars import Terms, summed_half_widths
from duckdp.mechanisms.cube import MAX_PRODUCT, cube_standard_error
from duckdp.smooth.product_kernels import Kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
CUTS = (0, 1, 2)  # largest total degree of the cube's functions
STEPS = 32  # a cube's share of epsilon is a whole number of these parts
MOST_STEPS = 24  # of the cube's share
_WEIGHT_BITS = 30  # fraction of the weights of cube and kernels


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelNoise:
    """The law of the noise of sums of functions, in grid steps; those of one column or of numbers are uncorrelated.

    Attributes:
        kernels: of the basis.
        scales: 1 / rate of the cube, where there is one; last, b of each kernel's sum.
        groups: int[n], 0 of the noisy sums that the cube helps with, 1 of the others; all 0 without a cube.
    """

    kernels: Kernels
    scales: tuple[float, ...]
    groups: Ints

    @property
    def family(self) -> Literal["kernels"]:
        """The name of the law in payloads and in the ledger."""
        return "kernels"

    @property
    def size(self) -> int:
        """How many sums are noisy: all functions, or all but degree 0."""
        return len(self.groups)

    @cached_property
    def helped(self) -> Ints:
        """Which noisy sums the cube helps with, ascending."""
        found: Ints = np.flatnonzero(self.groups == 0) if len(self.scales) > 1 else np.zeros(0, dtype=np.int64)
        return found

    @cached_property
    def whole_weights(self) -> list[int]:
        """2^30 h_r of the helped sums."""
        if not len(self.helped):
            return []
        ours = self._kernel_variance * self.kernels.squares[self._first :][self.helped]
        share = ours / (ours + self._cube_deviation**2)
        return [int(w) for w in np.rint(share * 2.0**_WEIGHT_BITS)]

    @cached_property
    def deviations(self) -> Floats:
        """Standard deviation of every noisy sum, float[n]."""
        squares = self._kernel_variance * self.kernels.squares[self._first :] * self._unhelped**2
        squares[self.helped] += (self._help * self._cube_deviation) ** 2
        return np.asarray(np.sqrt(squares))

    @property
    def deviation(self) -> float:
        """The largest of :attr:`deviations`."""
        return float(self.deviations.max(initial=0.0))

    def standard_error(self, coefficients: Floats) -> float:
        """Standard deviation of a combination, in units of the coefficients times grid steps."""
        return float(self.standard_errors(np.asarray(coefficients)[None])[0])

    def standard_errors(self, coefficients: Floats) -> Floats:
        """As :meth:`standard_error`, of every row: float[m] for float[m, n]."""
        if self.kernels.uncorrelated:
            largest = np.max(np.abs(coefficients), axis=1, initial=0.0)
            scaled = coefficients / np.where(largest > 0, largest, 1.0)[:, None]
            return np.asarray(largest * np.sqrt((scaled * scaled) @ self.deviations**2))
        largest, of_kernels, of_cube = self._apart(coefficients)
        squares = self._kernel_variance * (of_kernels**2).sum(axis=1)
        return np.asarray(largest * np.sqrt(squares + self._cube_deviation**2 * (of_cube**2).sum(axis=1)))

    def half_width(self, coefficients: Floats, level: float) -> float:
        """Level-quantile of the absolute value of a combination."""
        return float(self.half_widths(np.asarray(coefficients, dtype=np.float64)[None], level)[0])

    def half_widths(self, coefficients: Floats, level: float) -> Floats:
        """As :meth:`half_width`, of every row: float[m] for float[m, n]."""
        check_level(level)
        largest = np.max(np.abs(coefficients), axis=1, initial=0.0)
        scaled = coefficients / np.where(largest > 0, largest, 1.0)[:, None]
        return np.asarray(largest * summed_half_widths([self.terms(scaled)], level))

    def terms(self, coefficients: Floats) -> Terms:
        """Combinations as terms of the noise that is drawn: for float[m, n]."""
        largest, of_kernels, of_cube = self._apart(coefficients)
        rate = 1 / self.scales[0] if len(self.scales) > 1 else 1.0
        return Terms(of_kernels * largest[:, None], self.scales[-1], of_cube * largest[:, None], rate)

    @property
    def drawn_deviations(self) -> Floats:
        """Standard deviations of the noise that is drawn, of kernels and of the cube's sums."""
        counts = [self.kernels.size, len(self.helped)]
        return np.repeat([math.sqrt(self._kernel_variance), self._cube_deviation], counts)

    def simulated(self, u: Floats) -> Floats:
        """The noise that is drawn, up to a grid step, from uniform numbers: float[m, drawn] for float[m, drawn + 1]."""
        return self._simulated(u)

    def joint_factor(self, coefficients: Floats, level: float) -> float:
        """At how many standard deviations the error bars of all rows of float[m, n] hold together (``jointbars``)."""
        _, of_kernels, of_cube = self._apart(coefficients)
        ours, cube = of_kernels.shape[1], of_cube.shape[1]
        deviations = np.repeat([math.sqrt(self._kernel_variance), self._cube_deviation], [ours, cube])
        both = np.concatenate([of_kernels, of_cube], axis=1)
        return joint_factor(both, deviations, self._simulated, ours + cube + 1, level)

    def steps(self, coefficients: Floats) -> Floats:
        """What one grid step in every noisy figure may come to: float[m]."""
        largest, of_kernels, of_cube = self._apart(coefficients)
        return np.asarray(largest * sum(np.abs(each).sum(axis=1) for each in (of_kernels, of_cube)))

    def _simulated(self, u: Floats) -> Floats:
        """The noise of kernels and cube up to a grid step, float[m, R + |cube|], from uniform numbers, one more."""
        from scipy.special import gammaincinv

        ours = np.asarray(laplace_variates(u[:, : self.kernels.size]) * self.scales[-1])
        if not len(self.helped):
            return ours
        radii = gammaincinv(len(self.helped) + 1.0, u[:, -1:]) * self.scales[0]
        return np.concatenate([ours, (2 * u[:, self.kernels.size : -1] - 1) * radii], axis=1)

    def _apart(self, coefficients: Floats) -> tuple[Floats, Floats, Floats]:
        """Combinations scaled to 1 as their largest coefficients, and weights of kernels and of the cube's sums."""
        largest = np.max(np.abs(coefficients), axis=1, initial=0.0)
        scaled = coefficients / np.where(largest > 0, largest, 1.0)[:, None]
        full = scaled * self._unhelped
        if self._first:
            full = np.concatenate([np.zeros((len(full), 1)), full], axis=1)
        return largest, self.kernels.weights(full), scaled[:, self.helped] * self._help

    @property
    def _first(self) -> int:
        """1 where degree 0 is public and has no noise."""
        return self.kernels.size - self.size

    @cached_property
    def _help(self) -> Floats:
        """h_r of the helped sums."""
        return np.array(self.whole_weights, dtype=np.float64) / 2.0**_WEIGHT_BITS

    @cached_property
    def _unhelped(self) -> Floats:
        """1 - h_r of all noisy sums."""
        found = np.ones(self.size)
        found[self.helped] -= self._help
        return found

    @cached_property
    def _kernel_variance(self) -> float:
        return Noise("laplace", self.scales[-1]).variance()

    @cached_property
    def _cube_deviation(self) -> float:
        if not len(self.helped):
            return 0.0
        return cube_standard_error(1 / Fraction(self.scales[0]), len(self.helped))


def mean_of_both(noise: KernelNoise, estimates: list[int], cube: list[int]) -> list[int]:
    """Noisy sums from those that kernels give, all of them, and from the cube's: post-processing.

    Args:
        noise: the law.
        estimates: int[n], by the kernels.
        cube: int[|helped|].
    """
    found, one = list(estimates), 1 << _WEIGHT_BITS
    for place, weight, value in zip(noise.helped.tolist(), noise.whole_weights, cube, strict=True):
        found[place] = ((one - weight) * found[place] + weight * value + one // 2) >> _WEIGHT_BITS
    return found


@dataclass(frozen=True)
class KernelShares:
    """How epsilon is divided, and what comes of it.

    Attributes:
        cut: largest total degree of the cube's functions; None: no cube.
        steps: the cube's share of epsilon, in parts of STEPS.
        deviations: of every noisy sum, float[n], by formulas; grid steps.
        error: sqrt(sum_r s_r^2 Var Z_r), grid steps.
    """

    cut: int | None
    steps: int
    deviations: Floats
    error: float

    def budgets(self, epsilon: Fraction) -> tuple[Fraction, ...]:
        """Epsilon of the cube, where there is one, and of the kernels."""
        cube = epsilon * Fraction(self.steps, STEPS)
        return (epsilon,) if self.cut is None else (cube, epsilon - cube)


def share_kernels(
    squares: Floats,
    levels: Ints,
    weights: Floats,
    *,
    l1: float,
    linf: float,
    count_linf: float,
    epsilon: float,
) -> KernelShares:
    """The shares of the least expected error.

    Args:
        squares: of the kernels (``Kernels.squares``), float[n], of each noisy sum.
        levels: int[n], total degree of each noisy sum.
        weights: s_r^2, float[n].
        l1: of the kernels' sums, grid steps.
        linf: of the functions' sums, grid steps.
        count_linf: of the sum of degree 0 by itself, which under REPLACE moves half as far.
        epsilon: the whole.
    """
    alone = 2 * (l1 / epsilon) ** 2 * squares  # variances
    best: tuple[float, int | None, int] = (float(alone @ weights), None, 0)
    for cut in CUTS:
        low = levels <= cut
        count = int(low.sum())
        norm = linf if cut else count_linf
        if not count or count == len(levels) or epsilon * count > MAX_PRODUCT * norm:
            continue
        cube = (count + 1) * (count + 2) / 3 * (norm / epsilon) ** 2
        rest = float(alone[~low] @ weights[~low])
        for steps in range(1, MOST_STEPS + 1):
            ours, theirs = 1 - steps / STEPS, steps / STEPS
            both = 1 / (ours**2 / alone[low] + theirs**2 / cube)
            error = rest / ours**2 + float(both @ weights[low])
            if error < best[0]:
                best = error, cut, steps
    square, cut_taken, taken = best
    variances = alone / (1 - taken / STEPS) ** 2
    if cut_taken is not None:
        low, norm = levels <= cut_taken, linf if cut_taken else count_linf
        cube = (int(low.sum()) + 1) * (int(low.sum()) + 2) / 3 * (norm / epsilon * STEPS / taken) ** 2
        variances[low] = 1 / (1 / variances[low] + 1 / cube)
    return KernelShares(cut_taken, taken, np.asarray(np.sqrt(variances)), math.sqrt(square))
