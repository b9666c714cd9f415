"""A private bound on how wide noise is whose width depends on the data: what an interval for its value costs.

For a beta-smooth bound S (``admissible_noise``) released is the integer

    l = round(G ln S) + N,   P(N = k) ~ exp(-|k| / scale),  scale >= (ceil(G beta) + 1) / epsilon

and the interval of a released value is value +- (c exp(l / G) / alpha + 1/2), with c such that

    P(|Z| > c exp((N - 1/2) / G)) <= 5%        Z the noise's law, independent of N

Privacy:      epsilon, pure, for the relation of S. The value's own noise is paid for besides.
Assumes:      S' <= e**beta S for neighbours (``admissible_noise``), 2**-41 of beta left over.
Proof sketch: ln S moves by at most beta - 2**-41; its double, of a size below 128, is off by 2**-46, so what is rounded
              moves by at most G beta (G is a power of 2: the product is exact), and the integers by at most ceil(G
              beta) + 1. Discrete Laplace noise of that many steps over the scale is the known mechanism; it and the
              value's noise compose.
Coverage:     at least 95% for every table. |value - f| <= S |Z| / alpha + 1/2 (rounding; a clamp brings nearer), and
              exp(l / G) >= S exp((N - 1/2) / G). The two draws are independent, so the chance that the half-width is
              too short is at most the left side of c's inequality: one public constant, less than what a bound on each
              draw by itself would need.
Numerics:     c is found for the continuous law L of N's scale b: P(N <= k) <= P(L <= k + 1/2) + 1 / (16 b**2), as the
              two tails differ by the factor cosh(1 / 2 b); b >= 40, so that is below 2**-10 of the 5%, by which these
              are lessened. The sum over cells of L takes the tail at each cell's lower end less a step: it errs
              upwards. c and the half-width are increased by 1e-9 of themselves.
Source:       ours. That ln S has sensitivity beta: Nissim, Raskhodnikova, Smith, 2007.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from duckdp.core.noise import laplace_noise, laplace_scale
from duckdp.mechanisms.admissible_noise import MISSED, AdmissibleNoise, Growth, candidates, tails

SHARES = tuple(Fraction(part, 20) for part in range(2, 11))  # of epsilon for the bound, from which one is chosen
_FINE, _COARSE = 4_000, 200  # cells of the bound's noise: for c, and to choose by
_SAFE = 1 - 2.0**-10  # of the 5%: see Numerics


@dataclass(frozen=True, kw_only=True)
class ScaleBound:
    """The bound's release for one noise; the module says how and why.

    Attributes:
        epsilon: what the bound costs, > 0.
        noise: of the value, paid for besides.
    """

    epsilon: Fraction
    noise: AdmissibleNoise

    @property
    def named(self) -> list[str]:
        """Text of all that tells it from others."""
        return [*self.noise.named, str(self.epsilon)]

    @cached_property
    def grid(self) -> int:
        """G, steps of a logarithm's unit: a power of 2 with G beta in [2**12, 2**13)."""
        return 1 << max(0, 13 - math.frexp(float(self.noise.beta))[1])

    @cached_property
    def scale(self) -> float:
        """Scale of the noise of l, in steps of the grid G."""
        return laplace_scale(self.epsilon, math.ceil(self.grid * self.noise.beta) + 1)

    @cached_property
    def factor(self) -> float:
        """c: the half-width is so many exp(l / G) / alpha."""
        return _factor(self.noise.family, self.scale / self.grid, 1 / self.grid, _FINE)

    def release(self, bound: float, top: int) -> int:
        """l, of an exact S. Whatever it is, one draw is made.

        Args:
            bound: S, grid steps. Private: must not be logged, stored or raised.
            top: its public end.
        """
        exact = round(self.grid * math.log(self.noise.lifted(bound, float(top))))
        return exact + laplace_noise(1, self.scale)[0]

    def half_width(self, released: int) -> float:
        """How far the value may be from what was noised, with 95%, grid steps; of a released l."""
        wide = math.exp(min(released / self.grid, 600.0))  # beyond, all of any grid
        return self.factor * wide / float(self.noise.alpha) * (1 + 1e-9) + 0.5


def choose_with_bound(epsilon: Fraction, growth: Growth) -> ScaleBound:
    """The law and the part of epsilon for its bound whose predicted half-width is least; from public figures.

    Args:
        epsilon: of value and bound together.
        growth: S as a function of beta, predicted.
    """
    found = [
        ScaleBound(epsilon=epsilon * share, noise=noise)
        for share in SHARES
        for noise in candidates(epsilon * (1 - share))
    ]
    return min(found, key=lambda one: predicted_width(one, growth))


def predicted_width(bound: ScaleBound, growth: Growth) -> float:
    """Predicted half-width of the interval, of a bound whose noise is 0, grid steps."""
    noise = bound.noise
    factor = _factor(noise.family, round(float(noise.beta / bound.epsilon), 6), 0.0, _COARSE)
    return factor * growth(noise.decay) / float(noise.alpha)


@lru_cache(maxsize=4096)
def _factor(family: str, scale: float, step: float, cells: int) -> float:
    """c, for L of that scale, and a step of the grid, in units of ln S."""
    edges = scale * np.linspace(-30, 30, cells + 1)
    far = np.exp(-np.abs(edges) / scale) / 2
    below = np.where(edges < 0, far, 1 - far)
    chances, lower = np.diff(below), edges[:-1] - step

    def missed(log_c: float) -> float:
        return float(below[0] + np.dot(chances, tails(family, np.exp(log_c + lower))))

    low, high = -5.0, 1.0
    while missed(high) > MISSED * _SAFE:
        high += 1
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if missed(middle) > MISSED * _SAFE else (low, middle)
    return math.exp(high) * (1 + 1e-9)
