"""Counts, sums, and sums of products of two, of several bounded arguments from one release.

A row with arguments v_1 ... v_d in [-1, 1] adds its products v^p, p a vector of powers of total degree at most 2, to
the moments that are wanted; degree 0 is the count. They are released in one of two shapes, on the grid 2^-bits:

    products  the R wanted products themselves, each in [-1, 1]
    cells     the J products, one factor of each argument, of Bernstein polynomials

              degree 1:  (1-v)/2, (1+v)/2            degree 2:  (1-v)^2/4, (1-v^2)/2, (1+v)^2/4

              degree 2 where v^2 is wanted. Moments follow by signs: 1 = sum of all, v = last - first, v^2 = last +
              first - middle; a product takes the product of the signs. So a moment costs the noise of J cells at most,
              of those alone whose sign is not 0.

Privacy:      cells are >= 0 and sum to 1, so a row's l1 norm is 1, and its l2 norm at most 1, however many moments
              follow; products have l-infinity norm 1 and l2 norm at most sqrt(R).
              cells: Laplace noise of scale l1 / epsilon (pure), or Gaussian of sigma = l2 / sqrt(2 rho).
              products: one cube (``cube``) of rate epsilon / linf in each group (pure), or Gaussian noise.
              ADD_REMOVE, a unit of at most u rows in each of at most g groups, S = 2^bits: cells l1 = g u (S + J), l2^2
              = g (u (S + J))^2; products l2^2 = g R (u S)^2, and each of the g cubes a unit reaches costs epsilon / g.
              REPLACE (unit = row): cells l1 = 2 (S + J), l2^2 = 2 (S + J)^2; products l2^2 = 2 F S^2, F = (d+1)(d+2)/2,
              and a cube costs epsilon at linf = 2 S, two cubes epsilon / 2 each at linf = S.
Assumes:      a unit's row sums are scaled to u rows where it has more (compiler/moment_rows.py), and it is in at most g
              groups; a row's integer is its value times S, rounded, within 1/2 (cells) or in [-S, S] (products).
Proof sketch: the Bernstein factors of one argument are >= 0 and sum to 1, hence so do their products. Each integer cell
              is at most S times the cell + 1/2 + its float error (below 2^-48 S <= 2^-8), and there are J. REPLACE, in
              one group: of vectors a, b without negative entries |a - b|^2 <= |a|^2 + |b|^2, and l1 adds. Products:
              with all F products of degree at most 2, <f(v), f(w)> = 1 + A + (A^2 + sum a_i^2) / 2 >= 1/2, a_i = v_i
              w_i, A = sum a_i, so |f(v) - f(w)|^2 <= 2 F - 1; wanted ones are a part of them. Rounding moves each
              coordinate of a difference by at most 1 and its norm by sqrt(F): (S sqrt(2F - 1) + sqrt(F))^2 <= 2 F S^2
              where S >= 3 F, which the grid keeps. In different groups, or where one of the rows does not count,
              squares of the two vectors add: at most 2 R S^2. Scaling by at most u / rows and flooring shrinks no less
              than it must: entries keep their bounds.
Numerics:     grids and sensitivities are integers; noise is exact (core/noise.py, mechanisms/cube.py).
Choice:       the smallest mean variance of the wanted moments, by formula: cells for few arguments, a cube or Gaussian
              products for many. Covariance of two: cells 8 / epsilon^2, a cube of the 4 products 10 / epsilon^2.
Source:       Laplace mechanism: Dwork, McSherry, Nissim, Smith 2006. K-norm: Hardt, Talwar 2010. The shapes are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duckdp.core.accountant import pure_rho, rho_for
from duckdp.core.errorbars import Noise
from duckdp.core.momentbars import cube_draws, gaussian_draws, laplace_draws
from duckdp.core.noise import gaussian_scale, laplace_scale
from duckdp.core.types import NANO, PICO, Loss
from duckdp.errors import ParameterError
from duckdp.mechanisms.additive import add_noise
from duckdp.mechanisms.cube import cube_noise, cube_rate, cube_standard_error

Floats = NDArray[np.float64]
Powers = tuple[int, ...]
Shape = Literal["cells", "products"]

MOST_CELLS = 243  # of one group: each is a sum over all rows
_MOST_BITS, _LEAST_BITS = 40, 16  # of the grid; 2^16 is more than 3 F of any number of columns that is taken
_LARGEST = 54  # bits of a noise scale
_SIGNS = {1: ((1.0, 1.0), (-1.0, 1.0)), 2: ((1.0, 1.0, 1.0), (-1.0, 0.0, 1.0), (1.0, -1.0, 1.0))}


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What a unit can change: rows in a group, groups, and whether one is replaced by another (unit = row)."""

    rows: int
    groups: int
    replaced: bool

    @property
    def times(self) -> int:
        """How often what one row adds may change in all groups together."""
        return self.rows * self.groups * (2 if self.replaced else 1)


@dataclass(frozen=True, kw_only=True)
class SecondMoments:
    """One way to release moments, with its noise.

    Attributes:
        wanted: powers of the arguments in each moment; the first is the count.
        shape: what is released.
        bits: of the grid.
        noise: of every released number; None: one cube in each group, of ``rate``.
        rate: of the cube, per grid step; 0 without one.
        loss: what all groups cost together.
    """

    wanted: tuple[Powers, ...]
    shape: Shape
    bits: int
    noise: Noise | None
    rate: Fraction
    loss: Loss

    @property
    def family(self) -> str:
        """Name of the noise, for the ledger."""
        return "cube" if self.noise is None else self.noise.family

    @cached_property
    def released(self) -> tuple[Powers, ...]:
        """What is released of a group: powers of each product, or numbers of the Bernstein polynomials of each cell."""
        return self.wanted if self.shape == "products" else tuple(product(*(range(d + 1) for d in self.degrees)))

    @cached_property
    def degrees(self) -> tuple[int, ...]:
        """The degree of each argument's Bernstein polynomials."""
        return degrees_of(self.wanted)

    @cached_property
    def signs(self) -> Floats:
        """Moments from what is released, float[R, J], times 2^bits."""
        if self.shape == "products":
            return np.eye(len(self.wanted))
        return np.array([_signs(powers, self.degrees) for powers in self.wanted])

    @cached_property
    def deviations(self) -> Floats:
        """Standard deviation of the noise of every moment, in rows: float[R]."""
        one = cube_standard_error(self.rate, len(self.wanted)) if self.noise is None else _deviation(self.noise)
        return np.asarray(np.sqrt((self.signs**2).sum(axis=1)) * one / 2.0**self.bits)

    def release(self, exact: Sequence[int]) -> list[int]:
        """One group with its noise.

        Args:
            exact: int[J], grid units. Exact private values: must not be logged, stored or raised.
        """
        if self.noise is not None:
            return add_noise(exact, self.noise)
        return [value + z for value, z in zip(exact, cube_noise(len(self.wanted), self.rate), strict=True)]

    def draws(self) -> Floats:
        """Draws of the moments' noise, in rows, from a public stream: float[n, R] (``core/momentbars``)."""
        step = 2.0**self.bits
        if self.noise is None:
            return cube_draws(len(self.wanted), 1 / float(self.rate) / step)
        draws = laplace_draws if self.noise.family == "laplace" else gaussian_draws
        return draws(self.signs, self.noise.scale / step)

    def moments(self, released: Sequence[Sequence[int]]) -> Floats:
        """Noisy moments of groups, in rows: float[groups, R]."""
        return np.asarray(np.array(released, dtype=np.float64).reshape(-1, self.signs.shape[1]) @ self.signs.T) / (
            2.0**self.bits
        )


def plan_second_moments(
    wanted: tuple[Powers, ...], *, reach: Reach, epsilon_nano: int, delta_atto: int
) -> SecondMoments:
    """The way with the smallest mean variance, by public figures alone.

    Args:
        wanted: powers of the arguments in each moment, of total degree at most 2; the first is the count.
        reach: what a unit can change.
        epsilon_nano: the charge, in 1e-9.
        delta_atto: what it may cost too, in 1e-18; above 0 Gaussian noise is looked at.

    Raises:
        ParameterError: P101, epsilon is too small for the grid, or leaves Gaussian noise nothing.
    """
    found = possible_ways(wanted, reach=reach, epsilon_nano=epsilon_nano, delta_atto=delta_atto)
    return min(found, key=lambda way: float(np.mean(way.deviations**2)))


def possible_ways(
    wanted: tuple[Powers, ...], *, reach: Reach, epsilon_nano: int, delta_atto: int
) -> list[SecondMoments]:
    """All ways for the charge; see :func:`plan_second_moments`."""
    rho = rho_for(epsilon_nano, delta_atto) if delta_atto else 0
    size, cells = len(wanted), math.prod(d + 1 for d in degrees_of(wanted))
    pure = Loss(epsilon_nano=epsilon_nano, rho_pico=pure_rho(epsilon_nano))
    mixed = Loss(epsilon_nano=epsilon_nano, delta_atto=delta_atto, rho_pico=rho)
    epsilon, ways = Fraction(epsilon_nano, NANO), list[SecondMoments]()
    shapes: tuple[tuple[Shape, int], ...] = (("cells", cells), ("products", size))
    for shape, numbers in shapes:
        if numbers > MOST_CELLS and shape == "cells":
            continue
        bits = _bits(max(numbers, _full(wanted)) * reach.times, epsilon_nano, rho)
        step = 2**bits
        laws: list[tuple[Noise | None, Fraction, Loss]] = []
        if shape == "cells":
            scale = laplace_scale(epsilon, reach.times * (step + cells))
            laws.append((Noise("laplace", scale), Fraction(0), pure))
        else:
            laws.append((None, cube_rate(epsilon, reach.times * step, size), pure))
        if rho > 0:
            sigma = gaussian_scale(Fraction(rho, PICO), _square(shape, numbers, wanted, reach, step))
            laws.append((Noise("gaussian", sigma), Fraction(0), mixed))
        for noise, rate, loss in laws:
            ways.append(SecondMoments(wanted=wanted, shape=shape, bits=bits, noise=noise, rate=rate, loss=loss))
    return ways


def degrees_of(wanted: Sequence[Powers]) -> tuple[int, ...]:
    """The largest power of each argument, at least 1."""
    return tuple(max(1, *column) for column in zip(*wanted, strict=True))


def _full(wanted: Sequence[Powers]) -> int:
    """F, the number of all products of degree at most 2."""
    count = len(wanted[0])
    return (count + 1) * (count + 2) // 2


def _square(shape: Shape, numbers: int, wanted: Sequence[Powers], reach: Reach, step: int) -> int:
    """Square of the l2 sensitivity."""
    if shape == "cells":
        return reach.groups * (2 if reach.replaced else 1) * (reach.rows * (step + numbers)) ** 2
    if reach.replaced:
        return 2 * _full(wanted) * step**2
    return reach.groups * numbers * (reach.rows * step) ** 2


def _bits(spread: int, epsilon_nano: int, rho_pico: int) -> int:
    """The finest grid on which noise of that many rows at once stays within the samplers' range."""
    share = min(epsilon_nano / NANO, math.sqrt(2 * rho_pico / PICO) if rho_pico else math.inf)
    bits = min(_MOST_BITS, math.floor(_LARGEST - math.log2(spread / share)))
    if bits < _LEAST_BITS:
        rule = "is too small for so many rows and groups of one unit: noise would leave 64 bits."
        raise ParameterError("P101", "epsilon", epsilon_nano / NANO, rule)
    return bits


def _signs(powers: Powers, degrees: Sequence[int]) -> list[float]:
    """A moment's coefficient at each cell."""
    factors = [_SIGNS[degree][power] for power, degree in zip(powers, degrees, strict=True)]
    return [math.prod(found) for found in product(*factors)]


def _deviation(noise: Noise) -> float:
    return math.sqrt(noise.variance())
