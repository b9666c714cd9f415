"""The exponential mechanism on integer scores: an index, with one draw and no float.

P(r) is proportional to floor(2^F exp(-rate (max u - u_r))), rate = epsilon / (2 linf), with u_r = max(q_r, max q - G).

Privacy:      epsilon, pure, and epsilon^2 / 8 of zCDP, for the relation of ``linf``.
Assumes:      linf bounds the change of every score between neighbours; scores may move both ways.
Proof sketch: the maximum of values that each move by at most linf moves by at most linf, so every u_r does. Then
              log of P(r) / P'(r) lies, over all r, in an interval of length 2 linf rate = epsilon (bounded range): so
              epsilon, as both laws sum to 1, and epsilon^2 / 8 of zCDP.
Numerics:     exp is a decimal of 60 digits (relative error below 2^-190), G stops it at exp(-64), and the floor of a
              weight of at least 2^(F - 93) errs by less than 2^-163 of it: log-ratios move by less than 2^-150, which
              the factor 1 - 2^-64 of the rate covers for epsilon >= 2^-80. One draw of 640 bits is scaled to the sum
              of the weights, whatever they are: each weight's chance errs by less than 2^-640, so its logarithm by less
              than 2^-540, which the same factor covers.
Source:       McSherry, Talwar, "Mechanism design via differential privacy", FOCS 2007; Cesar, Rogers, "Bounding,
              concentrating, and truncating: unifying privacy loss composition for data analytics", ALT 2021 (zCDP of
              bounded range). The truncation and the integer weights are our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from operator import index

from duckdp.core.noise import random_bits
from duckdp.errors import ParameterError

_BITS, _DRAWN = 256, 640
_LARGEST_EXPONENT = 64
_SAFE = 1 - Fraction(1, 2**64)
_LEAST = Fraction(1, 2**80)


def choose_exponential(scores: Sequence[int], *, epsilon: Fraction, linf: int) -> int:
    """The index of a large score.

    Args:
        scores: int[k], grid units. Exact private values: must not be logged, stored or raised.
        epsilon: at least 2^-80.
        linf: largest change of one score between neighbours, > 0, grid units.

    Raises:
        ParameterError: P103, not positive; P107, no scores.
    """
    exact = [index(q) for q in scores]
    if epsilon < _LEAST or linf <= 0:
        raise ParameterError("P103", "epsilon / linf", (str(epsilon), linf), "must be positive.")
    if not exact:
        raise ParameterError("P107", "scores", 0, "must not be empty.")
    weights = exponential_weights(exact, Fraction(epsilon) * _SAFE / (2 * linf))
    draw = random_bits(_DRAWN) * sum(weights) >> _DRAWN
    for place, weight in enumerate(weights):
        draw -= weight
        if draw < 0:
            return place
    return len(weights) - 1


def exponential_weights(scores: Sequence[int], rate: Fraction) -> list[int]:
    """Integer weights, about 2^256 exp(-rate (max - score)); none below 2^163."""
    best, one = max(scores), Decimal(2**_BITS)
    context = Context(prec=60, rounding=ROUND_FLOOR, Emin=-9999, Emax=9999)

    def weight(gap: int) -> int:
        exponent = context.divide(Decimal(-rate.numerator * gap), Decimal(rate.denominator))
        return int(context.multiply(context.exp(exponent), one))

    largest = int(_LARGEST_EXPONENT / rate)  # gaps beyond it are that large
    known: dict[int, int] = {}
    for gap in {min(best - score, largest) for score in scores}:
        known[gap] = weight(gap)
    return [known[min(best - score, largest)] for score in scores]
