"""A quantile from candidates that the caller names: the largest of their scores after one-sided noise.

For N values x, of which L(c) are below and E(c) up to a candidate c, a quantile a / b aims at the rank T = N a / b. A
candidate's score, times b, is how far T is from the ranks that it has, or, where it is among them, how deep:

    q(c) = -greatest(b L(c) - a N, a N - b E(c))

One is chosen by ``noisy_maximum`` (permute and flip), with linf = u greatest(a, b - a).

Privacy:      epsilon, pure: a unit's at most u rows come or go. REPLACE takes one away and adds another: twice that.
Assumes:      at most u rows of each unit, which depend on that unit's rows alone. Candidates are public.
Proof sketch: a row more moves a N by a, and b L(c) by 0 or b, so b L(c) - a N by -a or b - a; and a N - b E(c) alike.
              The greatest of numbers that move by at most M moves by at most M: greatest(a, b - a) for each of u rows.
              Scores of candidates on either side of the row move either way, so they are not monotone. (Cut at 0, where
              T is among a candidate's ranks, scores would move by as much, and tell less.)
Utility:      whatever the rows, never farther off than a draw of the exponential mechanism among the same candidates at
              the same epsilon: for every t being off by t or more is no likelier. Let p_r = exp(-rate d_r), where d_r
              is how much less than the best score r's is. With noise of the density rate exp(-rate x) the sum of r is
              at best - ln(u) / rate with density p_r du, 0 < u <= 1, each other one below it with chance 1 - p_s u:
              P(r) = p_r int_0^1 prod_(s != r) (1 - p_s u) du. So P(r) / p_r, which for the draw is the same for all r,
              grows with p_r (the product of all, less one factor 1 - p_r u): it falls with d_r, and a law whose ratio
              to another one falls with d is the nearer one. Scores are whole numbers, so that noise decides by its
              whole part (our geometric law), then by its rest, which is independent of it and alike for all (our random
              order). That is of scores cut at 0, as the draw has them. Not cut, a candidate that has the quantile's
              rank is higher and the others are as they were: with the same noise it wins wherever it did, and more.
              Where candidates lie about a noise apart, 2 greatest(a, b - a) u / (b epsilon) rows, the choice is off by
              .85 to .9 of what a draw among all values is (docs/benchmarks.md): who knows how dense rows are near the
              quantile knows a good distance. Where candidates are farther apart, their distance is the error.
Source:       scores of candidates: Smith, STOC 2011; the choice: ``noisy_maximum``. The integers are ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from duckdp.mechanisms.noisy_maximum import choose_best


@dataclass(frozen=True, kw_only=True)
class CandidateQuantile:
    """The mechanism; the module says how and why.

    Attributes:
        quantile: a / b, in (0, 1).
        candidates: how many there are, at least 1.
        epsilon: of one choice, > 0.
        unit: u, most rows of one privacy unit.
    """

    quantile: Fraction
    candidates: int
    epsilon: Fraction
    unit: int

    @property
    def linf(self) -> int:
        """How far a unit moves a score, at most."""
        a, b = self.quantile.numerator, self.quantile.denominator
        return self.unit * max(a, b - a)

    @property
    def rows(self) -> float:
        """The scale of the noise: by so many rows ranks may be off."""
        return float(2 * self.linf / (self.quantile.denominator * self.epsilon))

    def scores(self, counts: Mapping[int, int]) -> list[int]:
        """The score of each candidate.

        Args:
            counts: rows by place; 2 c + 1 is at candidate c, 2 c just below it, 2 candidates above all. Exact private
                values: must not be logged, stored or raised.
        """
        a, b = self.quantile.numerator, self.quantile.denominator
        upto = list(accumulate(counts.get(place, 0) for place in range(2 * self.candidates + 1)))
        aim = a * upto[-1]
        return [-max(b * upto[2 * c] - aim, aim - b * upto[2 * c + 1]) for c in range(self.candidates)]

    def choose(self, counts: Mapping[int, int]) -> int:
        """A candidate near the quantile; as many draws as there are candidates. ``counts``: of :meth:`scores`."""
        return choose_best(self.scores(counts), epsilon=self.epsilon, linf=self.linf)

    def rank_bound(self, level: float = 0.95) -> float:
        """How much farther than the best candidate's rank the chosen one's may be, rows, with that probability."""
        return math.log(self.candidates / (1 - level)) * self.rows
