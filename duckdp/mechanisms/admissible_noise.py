"""Noise whose width may follow the data: f(D) + S(D) / alpha * Z for a smooth bound S, and the laws of Z that allow it.

    family      density h of Z               privacy           constants
    student2    ~ (2 + z**2)**(-3/2)         epsilon           loss(alpha, beta) <= epsilon, nu = 2
    student4    ~ (4 + z**2)**(-5/2)         epsilon           loss(alpha, beta) <= epsilon, nu = 4
    laplace     exp(-|z|) / 2                epsilon, delta    alpha = epsilon / 2, beta <= epsilon / 2 by delta

    loss(alpha, beta) = (nu - 1) beta / 2 + sqrt((A alpha)**2 + ((nu + 1) beta / 2)**2),  A = (nu + 1) / (2 sqrt(nu))

Released is round(f + S / alpha * Z), clamped to [0, top], for whole numbers f in [0, top].

Privacy:      (epsilon, delta), for every relation for which the assumptions hold.
Assumes:      for neighbours D, D':  |f(D) - f(D')| <= S(D) and <= S(D'), and S(D') <= e**beta S(D) ("S is a beta-smooth
              bound"). Distances are steps of one privacy unit, whatever a step does; the caller proves it. As computed,
              in floating point, S may be off by 2**-43 of itself where it is smooth for :attr:`AdmissibleNoise.decay`.
Proof sketch: 1. Student. Move the centre c and the width w of h((y - c) / w) / w from D to D' with dc/dt = a w and
              d(ln w)/dt = l constant: |a| <= |f(D) - f(D')| / min(w) <= alpha and |l| <= beta. At z = (y - c) / w the
              log-density changes at the rate ((nu + 1) z a + nu (z**2 - 1) l) / (nu + z**2), at z = sqrt(nu) tan(v / 2)
              equal to A a sin(v) + l (nu - 1) / 2 - l (nu + 1) / 2 cos(v), A = sup |(ln h)'|. So the loss is at most
              loss(alpha, beta). (Dilation alone: max(1, nu) beta. The known sum A alpha + B beta <= epsilon is cruder.)
              2. Laplace. Dilation by e**-l, 0 <= l <= beta: the log-ratio is -l + |z| (e**l - 1), above epsilon / 2
              only where |z| > (epsilon / 2 + l) / (e**l - 1), which has probability exp(-(epsilon / 2 + l) / (e**l -
              1)), at most delta because the exponent falls with l and beta is chosen so. Dilation by e**l: the
              log-ratio is at most l <= beta <= epsilon / 2. Then the shift costs alpha = epsilon / 2 and multiplies no
              delta, since the dilation is compared first.
              3. Rounding and clamping act on the noisy real number alone: post-processing. Lifting S to a constant
              below which no bound is taken keeps both assumptions.
Choice:       for noise that grows as S(beta) / alpha the families differ: on evenly spread values S(beta) is about
              1 / beta gaps, and at epsilon = 1 the half-width of 95% is 10.4 gaps for student2, 14.5 for student4; at
              epsilon = 10, 0.48 and 0.40. ``choose`` takes the least for a bound that the caller predicts. What is not
              here is never less: Cauchy (nu = 1) has 17.4 at epsilon = 1; the sources' 1 / (1 + |z|**g) have
              sup |(ln h)'| = (g - 1)**((g - 1) / g), dilation max(1, g - 1), and 16.7 (g = 3) and 21.1 (g = 4) by the
              sum above; their constants (epsilon / 4 g, epsilon / g) fail the definition of an admissible law that they
              are printed with, and the mechanism is epsilon-private up to g = 6.2 only. Laplace log-normal noise
              X e**(s Y) is ((beta / s + e**(3 s**2 / 2) alpha)**2 / 2)-zCDP: at rho = 1/2, what epsilon = 1 costs, its
              best alpha beta is 0.0875 against 0.210, and e**(s Y) has no exact sampler on a grid.
Numerics:     alpha and beta are fractions rounded down; b = beta - 2**-40 is left to the computing of S.
              Z is drawn first, with a fixed number of bits (core/variates), then scaled and rounded exactly: neither
              success nor the number of draws depends on f or S. That moves the chance of an outcome by little. Let s =
              2 S / alpha (the noise is floor(s Z), halved), h the density of |Z|; an outcome is at most 2**50 steps of
              s Z away, s < 2**72. student2, S >= 2**-160: h falls to no less than h / 9 over one step from the second
              on, so an outcome's chance moves by a relative 36 s 2**-320 < 2**-242, and by 2**-641 where it is at least
              h(2**50 / s) / 2 s > 2**-484. student4, S >= 2**-40: h / 32, relative 128 s 2**-320 < 2**-240, and 2**-641
              where it is at least 2**-430. The loss moves by less than 2**-150. Laplace: by a relative
              8 (s + 1) 2**-320 < 2**-244, and by 2**-640 in absolute terms for each of 2**50 outcomes: epsilon by less
              than 2**-242, delta by less than (1 + e**epsilon) 2**-590 < 2**-440. The 2**-41 of beta that floating
              point leaves over covers all: the pure loss grows by at least half of what beta does, and delta falls by
              more than a factor 1 - 2**-114 with it, at a loss 2**-43 less.
Source:       Nissim, Raskhodnikova, Smith, "Smooth Sensitivity and Sampling in Private Data Analysis", 2007;
              Student's t and Laplace log-normal noise: Bun, Steinke, "Average-Case Averages", 2019. The joint bound of
              1 is ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from duckdp.core.types import ATTO
from duckdp.core.variates import scaled_floor, standard_laplace, standard_student2, standard_student4
from duckdp.errors import InternalError

_RESOLUTION = 2**80  # alpha and beta are whole multiples of 1 / _RESOLUTION
_FLOAT_MARGIN = Fraction(1, 2**40)  # see Numerics
_LEAST = {"student2": 2.0**-160, "student4": 2.0**-40, "laplace": 2.0**-160}  # of S, grid steps
_MEAN = {"student2": math.sqrt(2), "student4": 1.0, "laplace": 1.0}  # of |Z|
_CONTEXT = Context(prec=60)
MISSED = 0.05  # chance that noise exceeds its stated half-width

Growth = Callable[[float], float]
"""S as a function of beta, predicted from public figures."""


@dataclass(frozen=True, kw_only=True)
class AdmissibleNoise:
    """One law with its constants; the module says what they allow.

    Attributes:
        family: "student2", "student4" or "laplace".
        alpha: shift allowed in units of S: the noise is S / alpha * Z.
        beta: smoothness: S of neighbours differs by a factor of at most e**beta.

    >>> noise = student(Fraction(1), degrees=2, beta=Fraction(1, 3))
    >>> round(float(noise.alpha), 4), round(noise.quantile(0.05), 3)
    (0.6285, 4.303)
    """

    family: str
    alpha: Fraction
    beta: Fraction

    @property
    def named(self) -> list[str]:
        """Text of all that tells it from others."""
        return [self.family, str(self.alpha), str(self.beta)]

    @cached_property
    def decay(self) -> float:
        """Rate b for which S must be smooth: beta less the margin for floating point, rounded down."""
        below = float(self.beta - _FLOAT_MARGIN)
        while Fraction(below) > self.beta - _FLOAT_MARGIN:
            below = math.nextafter(below, 0.0)
        return below

    @property
    def least(self) -> float:
        """Bounds below it count as it, grid steps."""
        return _LEAST[self.family]

    def lifted(self, bound: float, top: float) -> float:
        """S within its range; what is not a number, too."""
        return min(bound if bound > self.least else self.least, top)

    def add(self, value: int, bound: float, top: int) -> int:
        """The grid integer nearest to value + bound / alpha * Z, clamped to [0, top].

        Rounding centres the law on the value: floor(y + 1/2) = floor((floor(2 y) + 1) / 2), so floor(2 S / alpha * Z)
        gives it. Whatever value and bound are, the same bits are drawn and a number is released; both are moved into
        their ranges, which brings no two of them further apart.

        Args:
            value: exact f, grid steps. Private: must not be logged, stored or raised.
            bound: S, grid steps. Private as well.
            top: the largest value, public.

        Raises:
            InternalError: value or bound is of another type.
        """
        if not isinstance(value, int) or not isinstance(bound, float):
            raise InternalError("a smooth bound's computation gave something other than an integer and a double")
        variate = _STANDARD[self.family]()
        twice = 2 * Fraction(self.lifted(bound, float(top))) / self.alpha
        noise = scaled_floor(variate, twice)
        return min(max(min(max(value, 0), top) + (noise + 1) // 2, 0), top)

    @property
    def mean(self) -> float:
        """The mean of |Z|, dimensionless: how far noise of width 1 is off."""
        return _MEAN[self.family]

    def quantile(self, missed: float) -> float:
        """The z with P(|Z| > z) = missed, in (0, 1)."""
        return _quantile(self.family, missed)


def tails(family: str, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(|Z| > z) of a family, z >= 0."""
    if family == "laplace":
        return np.exp(-z)
    degrees = int(family.removeprefix("student"))
    root = np.sqrt(degrees + z * z)
    short = degrees / (root * (root + z))  # 1 - s, s = z / root; P(|Z| <= z) is s, or (3 s - s**3) / 2
    return np.asarray(short if degrees == 2 else short * short * (3 - short) / 2)


def student(epsilon: Fraction, *, degrees: int, beta: Fraction) -> AdmissibleNoise:
    """Student's t noise, pure: the largest alpha with loss(alpha, beta) <= epsilon, rounded down.

    Args:
        epsilon: of the release, > 0.
        degrees: nu, 2 or 4.
        beta: smoothness of the bound, > 0; at most epsilon / nu, less a little.

    Raises:
        InternalError: nothing is left for alpha.
    """
    rest = epsilon - beta * (degrees - 1) / 2
    square = (rest**2 - (beta * (degrees + 1) / 2) ** 2) * 4 * degrees / (degrees + 1) ** 2  # proof sketch, 1
    if rest <= 0 or square <= 0:
        raise InternalError("the smoothness leaves nothing for the shift")
    alpha = Fraction(isqrt(square.numerator * _RESOLUTION**2 // square.denominator), _RESOLUTION)
    return AdmissibleNoise(family=f"student{degrees}", alpha=alpha, beta=beta)


def laplace(epsilon: Fraction, delta_atto: int) -> AdmissibleNoise:
    """Laplace noise for (epsilon, delta), half of epsilon for each of shift and dilation."""
    return AdmissibleNoise(family="laplace", alpha=epsilon / 2, beta=_largest_beta(epsilon / 2, delta_atto))


def candidates(epsilon: Fraction) -> Iterable[AdmissibleNoise]:
    """Pure laws with different smoothness, from which one is chosen."""
    for degrees in (2, 4):
        for part in range(1, 16):
            beta = Fraction(int(epsilon * _RESOLUTION * part / (16 * degrees)), _RESOLUTION)
            yield student(epsilon, degrees=degrees, beta=beta)


def half_width(noise: AdmissibleNoise, growth: Growth) -> float:
    """Predicted half-width of 95%: what S / alpha |Z| exceeds with a chance of MISSED, grid steps."""
    return noise.quantile(MISSED) * growth(noise.decay) / float(noise.alpha)


def choose(epsilon: Fraction, growth: Growth) -> AdmissibleNoise:
    """The pure law whose predicted half-width is least; from public figures alone."""
    return min(candidates(epsilon), key=lambda noise: half_width(noise, growth))


@lru_cache(maxsize=64)
def _quantile(family: str, missed: float) -> float:
    low, high = 0.0, 1.0
    while float(tails(family, np.array([high]))[0]) > missed:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if float(tails(family, np.array([middle]))[0]) > missed else (low, middle)
    return high


_STANDARD: dict[str, Callable[[], int]] = {
    "student2": lambda: standard_student2(),
    "student4": lambda: standard_student4(),
    "laplace": lambda: standard_laplace(),
}


def _largest_beta(half: Fraction, delta_atto: int) -> Fraction:
    """Largest multiple of 1 / _RESOLUTION, at most ``half``, with exp(-(half + beta) / (e**beta - 1)) <= delta."""
    inverse = _CONTEXT.ln(_CONTEXT.divide(Decimal(ATTO), Decimal(delta_atto)))
    low, high = 0, half.numerator * _RESOLUTION // half.denominator
    while low < high:
        middle = (low + high + 1) // 2
        if _delta_holds(half, Fraction(middle, _RESOLUTION), inverse):
            low = middle
        else:
            high = middle - 1
    if low == 0:
        raise InternalError("no smoothness satisfies delta")
    return Fraction(low, _RESOLUTION)


def _delta_holds(half: Fraction, beta: Fraction, inverse: Decimal) -> bool:
    # proof sketch, 2: (e**beta - 1) ln(1 / delta) <= half + beta; the factor covers all rounding at 60 digits
    growth = _CONTEXT.subtract(_CONTEXT.exp(_decimal(beta)), Decimal(1))
    left = _CONTEXT.multiply(_CONTEXT.multiply(growth, inverse), Decimal("1.000000000000000000000000000001"))
    return left <= _decimal(half + beta)


def _decimal(value: Fraction) -> Decimal:
    return _CONTEXT.divide(Decimal(value.numerator), Decimal(value.denominator))
