"""Many exact samples at once: the recipes of ``core/noise`` on arrays of integers, with its bits. No float.

Apart from ``core/noise``, which numpy may not slow down when it is imported.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from duckdp.core.noise import geometric, random_bits
from duckdp.errors import InternalError

_WORD = 2**62  # integers below it are drawn in arrays
Ints = NDArray[np.int64]


def geometrics(rate: Fraction, count: int) -> list[int]:
    """Independent samples of ``core/noise.geometric``, P(V = k) = (1 - exp(-rate)) * exp(-rate * k) exactly, rate > 0.

    Proof sketch: as there. Its event "uniform below b k falls below u" is here "uniform below b falls below u" and
    "uniform below k is 0" together, two independent ones: the same probability u / (b k).

    Timing: the number of draws depends on the noise and on ``rate``, as there.
    Source: Canonne, Kamath, Steinke 2020, Algorithms 1 and 2.
    """
    if rate <= 0:
        raise InternalError("a geometric law needs a positive rate")
    a, b = rate.numerator, rate.denominator
    if b >= _WORD:
        return [geometric(rate) for _ in range(count)]
    start = _uniforms(b, count)
    refused = np.flatnonzero(~_bernoullis_exp(start, b))
    while len(refused):
        start[refused] = _uniforms(b, len(refused))
        refused = refused[~_bernoullis_exp(start[refused], b)]
    laps, going = np.zeros(count, dtype=np.int64), np.arange(count)
    while len(going):
        going = going[_bernoullis_exp(np.ones(len(going), dtype=np.int64), 1)]
        laps[going] += 1
    return [(u + b * w) // a for u, w in zip(start.tolist(), laps.tolist(), strict=True)]


def bernoullis_exp(rate: Fraction, count: int) -> NDArray[np.bool_]:
    """Independent events of probability exp(-rate) exactly, rate >= 0: ``core/noise.bernoulli_exp`` on arrays.

    Args:
        rate: with a denominator below 2**62.
        count: how many.
    """
    if rate < 0 or rate.denominator >= _WORD:
        raise InternalError("a probability above one was asked for, or of a rate that is too fine")
    whole, rest = divmod(rate, 1)
    found, going = np.zeros(count, dtype=np.bool_), np.arange(count)
    for _ in range(whole):  # a rate above 1 is a product of factors exp(-1)
        going = going[_bernoullis_exp(np.ones(len(going), dtype=np.int64), 1)]
    numerators = np.full(len(going), rest.numerator, dtype=np.int64)
    found[going[_bernoullis_exp(numerators, rest.denominator)]] = True
    return found


def uniforms_below(limit: int, count: int) -> Ints:
    """Independent uniform integers in [0, limit), 0 < limit < 2**62: ``core/noise.uniform_below`` on arrays."""
    if not 0 < limit < _WORD:
        raise InternalError("a range of integers is empty or too wide")
    return _uniforms(limit, count)


def _bernoullis_exp(numerators: Ints, denominator: int) -> NDArray[np.bool_]:
    """Of each whether an event of probability exp(-numerator / denominator) happens, 0 <= numerator <= denominator."""
    last, going, k = np.zeros(len(numerators), dtype=np.int64), np.arange(len(numerators)), 1
    while len(going):
        last[going] = k
        below = _uniforms(denominator, len(going)) < numerators[going]
        going = going[below & (_uniforms(k, len(going)) == 0)]
        k += 1
    return np.asarray(last % 2 == 1)


def _uniforms(limit: int, count: int) -> Ints:
    """Independent uniform integers in [0, limit), 0 < limit < 2**62."""
    bits = (limit - 1).bit_length()
    found, wrong = np.zeros(count, dtype=np.int64), np.arange(count if bits else 0)
    while len(wrong):
        words = np.frombuffer(random_bits(64 * len(wrong)).to_bytes(8 * len(wrong), "little"), dtype="<u8")
        found[wrong] = (words >> np.uint64(64 - bits)).astype(np.int64)
        wrong = wrong[found[wrong] >= limit]
    return found
