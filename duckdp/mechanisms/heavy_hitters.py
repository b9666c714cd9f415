"""The k keys that most privacy units have, of keys that nobody declared: only those far enough above a threshold.

By the one of three ways that leaves out the fewest, for its threshold tau and its noise (:meth:`HeavyHitters.sure`):

    one shot   discrete Laplace noise, of scale g / epsilon, or discrete Gaussian noise, of variance g / (2 rho), for
               each key; those whose sum is at least tau, k at most, the largest first; f = 1
    peeling    k picks by the exponential mechanism, of epsilon / k or what zCDP allows (``top_k``), from the keys of at
               least f units that are left and from nobody, whose score is tau; where nobody is picked it ends

Privacy:      (epsilon, delta), for ADD_REMOVE and REPLACE of a unit.
Assumes:      a unit has at most g keys and counts once for each (compiler/common_keys.py bounds it); so counts change
              by at most 1, all one way where a unit comes or goes.
Proof sketch: call keys of f units that only one of two neighbours has its own: at most g, and exactly f units each.
              One shot: ``threshold.py``, where tau = f + t; counts of common keys change by l1 <= g and l2^2 <= g
              (REPLACE: 2 g each, of keys that go and keys that come). Peeling: let D have keys of its own, D* be
              without them. (1) An own key's weight is exp(-rate (tau - f)) of nobody's, so all of them, over k picks,
              are picked with a chance of at most k g exp(-rate (tau - f)) =: d. (2) They add as much to the sum that
              others' weights are divided by: D's chance of a list without own keys is at most D*'s, and at least
              (1 - d) times it. (3) D* and the other one, D' (REPLACE: D'*, alike), have the same candidates, scores
              that move as ``top_k`` assumes: factor e^epsilon (or rho). So P_D(S) <= d + e^epsilon P_D'(S) / (1 - d):
              as x - (1 - d) x <= d for every chance x, at most d more than e^epsilon P_D'(S) where only one side has
              own keys, 2 d where both have: d is delta, or half of it under REPLACE. With zCDP (picks, or Gaussian
              noise) the delta is divided: half for its conversion, half for d (approximate zCDP: D's law is one part
              1 - d of D*'s and one part d of another). exp(-63) of every own key and pick is for weights that are cut.
Floor:        f = 1 + (tau - f) / 10 or so: rare keys are left out, for a threshold that is a tenth higher. It bounds
              what is held where keys are many.
Numerics:     tau is rounded up, and one is added against rounding of logarithms; samplers are exact. k
              draws, or one for each key that there is, as with all keys that are not declared: time tells about how
              many that is (docs/privacy.md).
Utility:      Laplace noise is beyond t either way with a chance of about exp(-t / scale), Gaussian noise of at most
              2 exp(-t^2 / (2 sigma^2)), for one key; what is told can be short only if one of two is beyond half of it.
Which way:    few picks peel (tau grows as k, or as sqrt(k) by zCDP, and hardly with g); of more, Laplace noise where
              a unit has few keys (as g), else Gaussian noise (as sqrt(g), and not with k): at epsilon 0.1, delta 1e-8
              and g = 50 tau is 2,789 for any k, and by peeling 2,730 for k = 10 and 9,411 for k = 100.
Source:       Korolova and others, WWW 2009 (threshold); Durfee, Rogers, "Practical differentially private top-k
              selection with pay-what-you-get composition", NeurIPS 2019 (a pick that is nobody's). The floor, and the
              proof for units with few keys, are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from duckdp.core.accountant import pure_rho, rho_for
from duckdp.core.errorbars import Noise
from duckdp.core.noise import gaussian_noise, gaussian_scale, laplace_noise, laplace_scale
from duckdp.core.types import ATTO, NANO, PICO, Loss
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms.exponential import Seen, choose_exponential
from duckdp.mechanisms.noisy_counts import beyond, either_way
from duckdp.mechanisms.threshold import threshold
from duckdp.mechanisms.top_k import TopK

_FLOOR = 10  # part of the threshold below which keys are none
_LEAST_WEIGHT = math.exp(-63)  # above the chance that the exponential mechanism leaves to each of the last


@dataclass(frozen=True, kw_only=True)
class HeavyHitters:
    """The mechanism; the module says how and why.

    Attributes:
        picks: k, at least 1.
        groups: g, most keys of a unit.
        epsilon_nano: in 1e-9.
        delta_atto: in 1e-18, at least 2.
        monotone: a unit comes or goes; else it is replaced.

    Raises:
        ParameterError: P101, P102: too little is left.
    """

    picks: int
    groups: int
    epsilon_nano: int
    delta_atto: int
    monotone: bool

    def __post_init__(self) -> None:
        if self.delta_atto < 2:
            raise ParameterError(
                "P102", "delta", self.delta_atto / ATTO, "must be above 0 where keys are not declared."
            )
        _ = self._noise

    @cached_property
    def _top(self) -> TopK:
        """The picks; a candidate more than there are does not matter to it."""
        given = {"picks": self.picks, "candidates": self.picks, "epsilon_nano": self.epsilon_nano}
        return TopK(**given, delta_atto=self.delta_atto // 2, monotone=self.monotone)

    @property
    def _rate(self) -> float:
        """How fast chances of a pick fall, per unit."""
        return float(self._top.share) / (1 if self.monotone else 2)

    @cached_property
    def _laws(self) -> list[Noise]:
        """What one shot may draw from, units. A replaced unit's keys go, and others come."""
        moved = self.groups * (1 if self.monotone else 2)
        laws = [Noise("laplace", laplace_scale(Fraction(self.epsilon_nano, NANO), moved))]
        if self._rho and self._delta_of("gaussian"):
            laws.append(Noise("gaussian", gaussian_scale(Fraction(self._rho, PICO), moved)))
        return laws

    @cached_property
    def _rho(self) -> int:
        """Of Gaussian noise, in 1e-12; 0: too little."""
        return rho_for(self.epsilon_nano, self.delta_atto // 2)

    def _delta_of(self, family: str) -> int:
        """What of delta is for the threshold of one shot, in 1e-18."""
        delta = self.delta_atto if family == "laplace" else self.delta_atto // 2
        return delta if self.monotone else delta // 2

    def _above_shot(self, noise: Noise) -> int:
        """How far above 1 the threshold of one shot is."""
        return threshold(noise, delta_atto=self._delta_of(noise.family), groups=self.groups) - 1

    @cached_property
    def _above_picks(self) -> int:
        delta = self.delta_atto if self._top.is_pure else self.delta_atto // 2
        left = (delta if self.monotone else delta // 2) / ATTO - self.picks * self.groups * _LEAST_WEIGHT
        if left <= 0:
            raise ParameterError("P102", "delta", self.delta_atto / ATTO, "is too small.")
        return math.ceil(math.log(self.picks * self.groups / left) / self._rate) + 1

    @cached_property
    def _noise(self) -> Noise | None:
        """Of one shot; None: picks, where they leave out fewer."""
        best = min(self._laws, key=self._sure)
        try:
            return None if self._sure(None) < self._sure(best) else best
        except ParameterError:  # too little epsilon for so many picks
            return best

    @property
    def family(self) -> Literal["laplace", "gaussian"] | None:
        """The law of the noise that is drawn at once for all keys; None: they are picked, one after the other."""
        return None if self._noise is None else self._noise.family

    @cached_property
    def _above(self) -> int:
        return self._above_picks if self._noise is None else self._above_shot(self._noise)

    @property
    def floor(self) -> int:
        """f: keys with fewer units are none."""
        return 1 if self._noise is not None else 1 + self._above // _FLOOR

    @property
    def tau(self) -> int:
        """The score of nobody, or what a noisy count has to reach; units."""
        return self.floor + self._above

    @property
    def loss(self) -> Loss:
        """What all picks cost together."""
        given, half = {"epsilon_nano": self.epsilon_nano}, self.delta_atto // 2
        if self.family == "gaussian":
            return Loss(**given, delta_atto=2 * half, rho_pico=self._rho, delta_zcdp_atto=half)
        if self.family == "laplace" or self._top.is_pure:
            rho = pure_rho(self.epsilon_nano)
            return Loss(**given, delta_atto=self.delta_atto, rho_pico=rho, delta_zcdp_atto=self.delta_atto)
        return Loss(**given, delta_atto=2 * half, rho_pico=self._top.loss.rho_pico, delta_zcdp_atto=half)

    def noised(self, counts: Sequence[int]) -> list[int]:
        """One shot: noisy counts of some keys, of which those of at least ``tau`` may be told; a draw for each.

        Args:
            counts: exact and private: must not be logged, stored or raised.
        """
        noise = self._noise
        if noise is None:
            raise InternalError("keys are picked one after the other")
        drawn = (laplace_noise if noise.family == "laplace" else gaussian_noise)(len(counts), noise.scale)
        return [n + z for n, z in zip(counts, drawn, strict=True)]

    def pick(self, counts: Sequence[int]) -> list[int]:
        """Peeling: indices of at most k large counts, the largest first; k draws whatever the counts.

        Args:
            counts: of all keys with at least ``floor`` units. Exact and private: must not be logged, stored or raised.
        """
        left, seen, ended = list(range(len(counts))), Seen(), False
        found: list[int] = []
        for _ in range(self.picks):
            scores = [self.tau] if ended else [*(counts[i] for i in left), self.tau]
            place = choose_exponential(scores, epsilon=self._top.share, linf=1, monotone=self.monotone, seen=seen)
            ended = ended or place == len(left)
            if not ended:
                found.append(left.pop(place))
        return found

    def sure(self, level: float = 0.95) -> int:
        """Units from which on keys are not left out for the threshold, with that probability for all k of them."""
        return self._sure(self._noise, level)

    def _sure(self, noise: Noise | None, level: float = 0.95) -> int:
        """The same of one of the ways."""
        log = math.log(self.picks / (1 - level))
        if noise is None:
            above = self._above_picks
            return 1 + above // _FLOOR + above + math.ceil(log / self._rate)
        return 1 + self._above_shot(noise) + math.ceil(beyond(noise, log))

    def shortfall(self, keys: int, level: float = 0.95) -> int:
        """How far what is told may be below the best of at most so many keys that is not, with that probability."""
        if self._noise is not None:
            return math.ceil(2 * either_way(self._noise, keys, level))
        return math.ceil(math.log(self.picks * max(2, keys) / (1 - level)) / self._rate)
