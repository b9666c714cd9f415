"""One of several scores, privately: the largest after one-sided geometric noise, exact in integers.

Adds G_r with P(G_r = k) ~ exp(-rate k), k >= 0, rate = epsilon / (2 linf), or epsilon / linf for monotone scores, to
every score; the largest sum wins, ties by a random order. (With continuous noise this is permute and flip.)

Privacy:      epsilon, pure, for the relation of ``linf``.
Assumes:      linf bounds the change of every score between neighbours; scores may move both ways (hence the 2).
              Monotone: all of them move up, or all of them down (counts, where a unit comes or goes).
Proof sketch: fix the order and the others' sums: r wins if q_r + G_r >= t, t the largest of the others' sums, plus 1
              for those before r in the order. Between neighbours t grows by at most linf and q_r falls by at most linf,
              and P(G >= a + 2 linf) >= exp(-2 linf rate) P(G >= a) for every integer a: a factor e^epsilon at most.
              Monotone: up, q_r falls by nothing and t grows by at most linf; down, q_r falls by at most linf and t
              grows by nothing. Either way linf in place of 2 linf.
Numerics:     integers and rationals; one draw of core/noise per score and 128 bits for its place in the order, whatever
              the scores: their number and time do not depend on the data.
Source:       Ding, Kifer, Steinke, Wang, Xiao, Zhang, "The permute-and-flip mechanism is identical to
              report-noisy-max with exponential noise", 2021; McKenna, Sheldon, NeurIPS 2020. The discrete law and its
              proof are our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from operator import index

from duckdp.core.noise import random_bits
from duckdp.core.noise_arrays import geometrics
from duckdp.errors import ParameterError

_PLACE = 16  # random bytes that break a tie


def choose_best(scores: Sequence[int], *, epsilon: Fraction, linf: int, monotone: bool = False) -> int:
    """The index of a large score.

    Args:
        scores: int[k], grid units. Exact private values: must not be logged, stored or raised.
        epsilon: > 0.
        linf: largest change of one score between neighbours, > 0, grid units.
        monotone: between neighbours no score goes up while another goes down.

    Raises:
        ParameterError: P103, not positive; P107, no scores.
    """
    exact = [index(q) for q in scores]
    if epsilon <= 0 or linf <= 0:
        raise ParameterError("P103", "epsilon / linf", (str(epsilon), linf), "must be positive.")
    if not exact:
        raise ParameterError("P107", "scores", 0, "must not be empty.")
    rate = Fraction(epsilon) / (linf if monotone else 2 * linf)
    drawn = zip(exact, geometrics(rate, len(exact)), strict=True)
    orders = random_bits(8 * _PLACE * len(exact)).to_bytes(_PLACE * len(exact), "big")
    noisy = [(q + noise, orders[_PLACE * k : _PLACE * (k + 1)]) for k, (q, noise) in enumerate(drawn)]
    return max(range(len(noisy)), key=noisy.__getitem__)
