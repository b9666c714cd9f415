"""One of several scores, privately: permute and flip, exact in integers.

Visits the candidates in random order and takes candidate r with probability exp(-rate (max q - q_r)), rate =
epsilon / (2 linf), each once; the best one is taken surely, so it ends.

Privacy:      epsilon, pure, for the relation of ``linf``.
Assumes:      linf bounds the change of every score between neighbours; scores may move both ways (hence the 2).
Proof sketch: P(r wins) = exp(rate (q_r - m)) E_pi prod over earlier s of (1 - exp(rate (q_s - m))), m = max q. It
              depends on the q only through q_r - m and is never increasing in the other differences; moving all scores
              by at most linf is, up to a common shift, raising some differences by at most 2 linf: each probability
              changes by at most the factor exp(2 linf rate) = e^epsilon (the paper's Theorem 1).
Numerics:     integers and rationals; coins by core/noise. The number of coins depends on the scores, so the time does.
Error:        never worse than the exponential mechanism, up to twice as good.
Source:       McKenna, Sheldon, "Permute-and-Flip: a new mechanism for differentially private selection", NeurIPS 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from operator import index

from duckdp.core.noise import bernoulli_exp, uniform_below
from duckdp.errors import ParameterError


def choose_best(scores: Sequence[int], *, epsilon: Fraction, linf: int) -> int:
    """The index of a large score.

    Args:
        scores: int[k], grid units. Exact private values: must not be logged, stored or raised.
        epsilon: > 0.
        linf: largest change of one score between neighbours, > 0, grid units.

    Raises:
        ParameterError: P103, not positive; P107, no scores.
    """
    exact = [index(q) for q in scores]
    if epsilon <= 0 or linf <= 0:
        raise ParameterError("P103", "epsilon / linf", (str(epsilon), linf), "must be positive.")
    if not exact:
        raise ParameterError("P107", "scores", 0, "must not be empty.")
    rate, best, waiting = Fraction(epsilon) / (2 * linf), max(exact), list(range(len(exact)))
    while True:
        at = uniform_below(len(waiting))
        waiting[at], waiting[-1] = waiting[-1], waiting[at]
        candidate = waiting.pop()
        if bernoulli_exp(rate * (best - exact[candidate])):
            return candidate
