"""Which of many counts reach a threshold, the sparse vector technique with noise of one side; a value for each hit.

R with P(R = k) ~ exp(-e1 k) is drawn once, N_i with P(N_i = k) ~ exp(-r k) for each question, k >= 0. Question i, of a
count q_i, is a hit if q_i + N_i >= T_i + m + R, else a miss; m is a public whole number. It ends with the c-th hit. A
hit may have a value, q_i + V_i with fresh V_i, P(V_i = k) ~ exp(-|k| e3 / c) on all integers.

Privacy:      epsilon = e1 + e2 + e3, pure, for the relation of the counts, whatever the number of questions; r = e2 / c
              for monotone counts, else e2 / 2c. Questions and thresholds may be chosen in view of all answers before.
Assumes:      between neighbours every count changes by at most 1. Monotone: all of them up, or all of them down
              (counts of units, where a unit comes or goes). Thresholds are public.
Proof sketch: let D and D' be neighbours, d_i = q_i' - q_i, and fix what is answered, and with it all questions. Given
              R = k the chance of it under D is a product: of P(N_i < T_i + m + k - q_i) for each miss, of
              P(N_i >= T_i + m + k - q_i) P(V_i = v_i - q_i) for each hit. Let s be 1, or 0 where all d_i <= 0, and
              compare with R = k + s under D'. P(R = k) = exp(e1 s) P(R = k + s). A miss is no less likely there, as
              d_i <= s: its bound T_i + m + k + s - q_i' is no lower. The bound of a hit is higher by s - d_i, which is
              at least 0 and at most 1 for monotone counts, else at most 2; and P(N >= a) <= exp(r j) P(N >= a + j) for
              every integer a and j >= 0 (below 0 the chance is 1). So a hit costs at most e2 / c, and its value
              e3 / c. There are at most c hits. Sum over k: each k + s is met at most once, and is >= 0.
One side:     only upward shifts of R and N_i are ever compared, so noise of one side will do: a variance half of that
              of Laplace noise of the same rates. R is not drawn anew after a hit: the shift s is the same for all hits.
Split:        e1 : e2 as 1 : k^(2/3), k = e2 / r: the least variance of N_i - R. Values get half of epsilon. The noise
              that decides a hit is not told with it (q_i + N_i - R costs nothing more, by the same proof): given that
              it was a hit it errs upwards, by how much nobody can say. A fresh value's interval holds of each hit.
Utility:      of n questions, P(some N_i > t) <= n exp(-r (t + 1)), P(R > t) = exp(-e1 (t + 1)): SparseVector.hit_error
              and miss_error. m makes a count at the threshold as likely a hit as a miss: the median of N - R.
Numerics:     shares of epsilon are whole nanos, found with integers, so that a release that goes on has the same ones
              ever; samplers are exact, on all integers, and as many draws are made for a miss as for a hit.
Source:       Dwork, Naor, Reingold, Rothblum, Vadhan 2009; Dwork, Roth, "The algorithmic foundations of differential
              privacy", 2014, section 3.6; Lyu, Su, Li, "Understanding the sparse vector technique for differential
              privacy", VLDB 2017 (Algorithm 7: one R, 2c against c for monotone counts, the split); which published
              variants are wrong is said there too. One-sided noise and its proof are our own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from duckdp.core.accountant import pure_rho
from duckdp.core.errorbars import Noise
from duckdp.core.noise import geometric, laplace_noise, laplace_scale
from duckdp.core.noise_arrays import geometrics
from duckdp.core.types import NANO, Loss
from duckdp.errors import ParameterError

_PARTS = 10**6  # of the ratio in which epsilon is split


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a question came to.

    Attributes:
        above: whether it is a hit.
        value: the noisy count of a hit that has one.
    """

    above: bool
    value: int | None = None


@dataclass(frozen=True, kw_only=True)
class SparseVector:
    """The mechanism; the module says how and why.

    Attributes:
        hits: c, at least 1: with this one it ends.
        epsilon_nano: of all questions together, in 1e-9.
        monotone: between neighbours no count goes up while another goes down.
        valued: whether hits have values.
    """

    hits: int
    epsilon_nano: int
    monotone: bool
    valued: bool = False

    @cached_property
    def shares(self) -> tuple[int, int, int]:
        """(e1, e2, e3): of the threshold, the hits and their values, in 1e-9.

        Raises:
            ParameterError: P101, nothing is left for one; P107, hits.
        """
        if self.hits < 1:
            raise ParameterError("P107", "hits", self.hits, "must be a whole number above 0.")
        values = self.epsilon_nano // 2 if self.valued else 0
        rest = self.epsilon_nano - values
        threshold = rest * _PARTS // (_PARTS + _two_thirds(self._shifts))
        if threshold == 0 or rest - threshold == 0:
            raise ParameterError("P101", "epsilon", self.epsilon_nano / NANO, f"is too small for {self.hits} hits.")
        return threshold, rest - threshold, values

    @property
    def loss(self) -> Loss:
        """What all questions cost together."""
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))

    @cached_property
    def offset(self) -> int:
        """m: the median of N - R, to the nearest integer."""
        rate, first = float(self._rate), float(self._first)
        return max(0, round(math.log(2 * math.expm1(-first) / math.expm1(-first - rate)) / rate))

    def begin(self) -> int:
        """R: secret noise of the threshold, for all questions of one release."""
        return geometric(self._first)

    def look(self, count: int, threshold: int, shift: int) -> Look:
        """Whether one count is a hit, and the value of a hit that has one.

        Args:
            count: q_i. Exact private value: must not be logged, stored or raised.
            threshold: T_i, public.
            shift: R, as :meth:`begin` gave it; secret.
        """
        value = laplace_noise(1, self._scale)[0] if self.valued else 0
        above = self._reaches(count, threshold, shift, geometric(self._rate))
        return Look(above=above, value=count + value if above and self.valued else None)

    def look_through(self, counts: Sequence[int], threshold: int) -> list[Look]:
        """Which counts are hits, in their order, up to the last hit that was paid for.

        Args:
            counts: int[n]. Exact private values: must not be logged, stored or raised.
            threshold: of all of them, public.
        """
        shift, noises = self.begin(), geometrics(self._rate, len(counts))
        values = laplace_noise(self.hits, self._scale) if self.valued else []
        found: list[Look] = []
        hits = 0
        for count, noise in zip(counts, noises, strict=True):
            if hits == self.hits:
                break
            above = self._reaches(count, threshold, shift, noise)
            found.append(Look(above=above, value=count + values[hits] if above and self.valued else None))
            hits += above
        return found

    def hit_error(self, questions: int, level: float = 0.95) -> int:
        """How far below the threshold the count of a hit may be, for all of n questions with that probability."""
        far = math.ceil(math.log(questions / (1 - level)) / float(self._rate)) - 1
        return max(0, far - self.offset)

    def miss_error(self, level: float = 0.95) -> int:
        """How far above the threshold the count of a miss may be, for all questions with that probability."""
        far = math.ceil(-math.log(1 - level) / float(self._first)) - 1
        return max(0, far + self.offset - 1)

    @property
    def value_noise(self) -> Noise:
        """The law of a value's noise."""
        return Noise("laplace", self._scale)

    def _reaches(self, count: int, threshold: int, shift: int, noise: int) -> bool:
        return count + noise >= threshold + self.offset + shift

    @property
    def _shifts(self) -> int:
        """By how much all noise of hits together may have to shift: c, or 2c."""
        return self.hits if self.monotone else 2 * self.hits

    @cached_property
    def _first(self) -> Fraction:
        return Fraction(self.shares[0], NANO)

    @cached_property
    def _rate(self) -> Fraction:
        return Fraction(self.shares[1], NANO * self._shifts)

    @cached_property
    def _scale(self) -> float:
        return laplace_scale(Fraction(self.shares[2], NANO * self.hits), 1)


def _two_thirds(number: int) -> int:
    """Its power 2/3 in parts of 1 / _PARTS, rounded down, by integers alone."""
    cube = number**2 * _PARTS**3
    root = 1 << -(-cube.bit_length() // 3)  # from above; Newton's steps go down to the floor
    while (step := (2 * root + cube // root**2) // 3) < root:
        root = step
    return root
