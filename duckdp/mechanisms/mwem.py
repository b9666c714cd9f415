"""Weights over cells from the questions of a workload that they answer worst: multiplicative weights, offline (MWEM).

A noisy total N is bought first. Weights w over all cells, uniform at first and of sum 1, are public. In each of T
rounds one question F of those not yet measured is chosen by the exponential mechanism, with the score |q - a|, q its
count and a = N w(F) rounded to a whole number; its count is measured with fresh noise v, and the weights are mended to
all that was measured (``multiplicative_weights.mended``).

Privacy:      epsilon = e0 + T (e + e), pure: e0 of N, discrete Laplace noise of scale 1 / e0; in each round e of the
              choice and e of v, of scale 1 / e. As zCDP e0^2 / 2 + T (e^2 / 8 + e^2 / 2): a choice has bounded range.
Assumes:      between neighbours every q changes by at most 1, up or down. Cells and questions are public. A question
              may be a number f of cells from 0 to 1: q is its sum over units, rounded to whole ones, a = N w(f).
Proof sketch: w follows from N and the rounds before, which are released, so a does, and which questions are left. For
              public a the score |q - a| moves by at most as much as q does: by 1, up or down, so the choice is the
              exponential mechanism of linf 1 for scores that move both ways. Then v is one count with noise. Rounds
              are chosen in view of those before: epsilons add up, and so does what each costs of zCDP.
Utility:      a choice is short of the worst question by at most 2 ln(m / 0.05) / e with 95%, of m left: ``short``; a
              round that measures F moves the weights nearer to the data, in relative entropy, by that of the two
              shares of F. What all questions err by at the end depends on the data; nothing is promised of it.
Numerics:     weights are floats and public; scores are whole numbers. Shares are rounded down, samplers are exact.
Deviations:   the source averages the weights of all rounds, splits epsilon evenly over rounds alone, for a known
              total, and takes one step a round; here every step goes all the way to v, and is gone over again.
Source:       Hardt, Ligett, McSherry, "A simple and practical algorithm for differentially private data release", NIPS
              2012; bounded range: Dong, Durfee, Rogers, ICML 2020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from duckdp.core.accountant import pure_rho
from duckdp.core.errorbars import Noise
from duckdp.core.noise import laplace_noise, laplace_scale
from duckdp.core.types import NANO, Loss
from duckdp.errors import ParameterError
from duckdp.mechanisms.exponential import choose_exponential

_TOTAL = 10  # one part in so many of epsilon is for the total


@dataclass(frozen=True, kw_only=True)
class WorstQuestions:
    """The mechanism; the module says how and why.

    Attributes:
        rounds: T, at least 1.
        epsilon_nano: of the total and all rounds together, in 1e-9.

    Raises:
        ParameterError: P101, nothing is left for a round.
    """

    rounds: int
    epsilon_nano: int

    def __post_init__(self) -> None:
        if self.each_nano == 0 or self.epsilon_nano // _TOTAL == 0:
            rule = f"is too small for {self.rounds} rounds."
            raise ParameterError("P101", "epsilon", self.epsilon_nano / NANO, rule)

    @property
    def each_nano(self) -> int:
        """Epsilon of a choice, and of a measured count, in 1e-9."""
        return (self.epsilon_nano - self.epsilon_nano // _TOTAL) // (2 * self.rounds)

    @property
    def loss(self) -> Loss:
        """What the total and all rounds cost together."""
        bounded = -(-pure_rho(self.each_nano) // 4)
        rho = pure_rho(self.epsilon_nano // _TOTAL) + self.rounds * (bounded + pure_rho(self.each_nano))
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=min(rho, pure_rho(self.epsilon_nano)))

    @property
    def noise(self) -> Noise:
        """Law of the noise on a measured count, in units."""
        return Noise("laplace", laplace_scale(Fraction(self.each_nano, NANO), 1))

    def short(self, questions: int, level: float = 0.95) -> int:
        """By how much what is chosen may be nearer to right than the worst one, with that probability, in units."""
        return math.ceil(2 * math.log(questions / (1 - level)) * NANO / self.each_nano)

    def total(self, count: int) -> int:
        """A noisy number of all units, at least 1. ``count``: exact and private."""
        scale = laplace_scale(Fraction(self.epsilon_nano // _TOTAL, NANO), 1)
        return max(1, count + laplace_noise(1, scale)[0])

    def measure(self, counts: Sequence[int], guesses: Sequence[int]) -> tuple[int, int]:
        """(place of a question, its noisy count): of one that is answered badly.

        Args:
            counts: q of each question that is left. Exact private values: must not be logged, stored or raised.
            guesses: a of each, rounded; public.
        """
        scores = [abs(count - guess) for count, guess in zip(counts, guesses, strict=True)]
        place = choose_exponential(scores, epsilon=Fraction(self.each_nano, NANO), linf=1)
        return place, counts[place] + laplace_noise(1, self.noise.scale)[0]
