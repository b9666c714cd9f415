"""The exponential mechanism on integer scores: an index, with one draw and no float.

P(r) is proportional to floor(2^F exp(-rate (max u - u_r))), rate = epsilon / (2 linf), or epsilon / linf for monotone
scores, with u_r = max(q_r, max q - G).

Privacy:      epsilon, pure, and epsilon^2 / 8 of zCDP, for the relation of ``linf``.
Assumes:      linf bounds the change of every score between neighbours; scores may move both ways. Monotone: all of them
              move up, or all of them down.
Proof sketch: the maximum of values that each move by at most linf moves by at most linf, so every u_r does. Then
              log of P(r) / P'(r) lies, over all r, in an interval of length 2 linf rate = epsilon (bounded range): so
              epsilon, as both laws sum to 1, and epsilon^2 / 8 of zCDP. Monotone: the maximum and every u_r move the
              same way by at most linf, so the interval has length linf rate = epsilon again.
Numerics:     exp is a product of two decimals of 60 digits (relative error below 2^-180), so that of a score is
              computed once for all rounds; G stops it at exp(-64), and the floor of a weight of at least 2^(F - 93)
              errs by less than 2^-163 of it: log-ratios move by less than 2^-150, which the factor 1 - 2^-64 of the
              rate covers for epsilon >= 2^-80. One draw of 640 bits is scaled to the sum of the weights, whatever they
              are: each weight's chance, at least 2^-93 of 1 / k, errs by less than 2^-640, so its logarithm by less
              than k 2^-546, which the same factor covers for k < 2^300 scores.
Source:       McSherry, Talwar, "Mechanism design via differential privacy", FOCS 2007; Cesar, Rogers, "Bounding,
              concentrating, and truncating: unifying privacy loss composition for data analytics", ALT 2021 (zCDP of
              bounded range). The truncation and the integer weights are our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from operator import index

from duckdp.core.noise import random_bits
from duckdp.errors import ParameterError

_BITS = 256  # F of the weights: the largest is 2^F
_DRAWN = 640  # bits of the one draw
_LARGEST_EXPONENT = 64  # G in units of 1 / rate: weights stop at exp(-64)
_SAFE = 1 - Fraction(1, 2**64)  # of the rate: the rest pays for rounding, as Numerics says
_LEAST = Fraction(1, 2**80)
_FAR = 1000  # exponents that two decimals share
_CONTEXT = Context(prec=60, rounding=ROUND_FLOOR, Emin=-9999, Emax=9999)


@dataclass(eq=False)
class Seen:
    """exp(-rate (top - score)) of scores that came before, for one rate: as private as they are."""

    top: int | None = None
    powers: dict[int, Decimal] = field(default_factory=dict, repr=False)


def choose_exponential(
    scores: Sequence[int], *, epsilon: Fraction, linf: int, monotone: bool = False, seen: Seen | None = None
) -> int:
    """The index of a large score.

    Args:
        scores: int[k], grid units. Exact private values: must not be logged, stored or raised.
        epsilon: at least 2^-80.
        linf: largest change of one score between neighbours, > 0, grid units.
        monotone: between neighbours no score goes up while another goes down.
        seen: saves time in rounds with the same epsilon and linf, and much the same scores.

    Raises:
        ParameterError: P103, not positive; P107, no scores.
    """
    exact = [index(q) for q in scores]
    if epsilon < _LEAST or linf <= 0:
        raise ParameterError("P103", "epsilon / linf", (str(epsilon), linf), "must be positive.")
    if not exact:
        raise ParameterError("P107", "scores", 0, "must not be empty.")
    weights = exponential_weights(exact, Fraction(epsilon) * _SAFE / (linf if monotone else 2 * linf), seen)
    draw = random_bits(_DRAWN) * sum(weights) >> _DRAWN
    for place, weight in enumerate(weights):
        draw -= weight
        if draw < 0:
            return place
    return len(weights) - 1


def exponential_weights(scores: Sequence[int], rate: Fraction, seen: Seen | None = None) -> list[int]:
    """Integer weights, about 2^256 exp(-rate (max - score)); none below 2^163."""
    best, seen = max(scores), seen or Seen()
    if seen.top is None or abs(best - seen.top) * rate > _FAR:
        seen.top, seen.powers = best, {}
    top, powers = seen.top, seen.powers

    def power(gap: int) -> Decimal:
        return _CONTEXT.exp(_CONTEXT.divide(Decimal(-rate.numerator * gap), Decimal(rate.denominator)))

    scale = _CONTEXT.multiply(power(best - top), Decimal(2**_BITS))
    least = best - int(_LARGEST_EXPONENT / rate)  # scores below it count as it
    weights: dict[int, int] = {}
    for score in {max(score, least) for score in scores}:
        known = powers.get(score)
        if known is None:
            known = powers[score] = power(top - score)
        weights[score] = int(_CONTEXT.multiply(known, scale))
    return [weights[max(score, least)] for score in scores]
