"""The k keys that most privacy units have, of keys that nobody declared: only those far enough above a threshold.

By the one of two ways with the lower threshold, tau:

    one shot   discrete Laplace noise, of scale g / epsilon, for each key; those whose sum is at least tau, k at most,
               the largest first; f = 1
    peeling    k picks by the exponential mechanism, of epsilon / k or what zCDP allows (``top_k``), from the keys of at
               least f units that are left and from nobody, whose score is tau; where nobody is picked it ends

Privacy:      (epsilon, delta), for ADD_REMOVE and REPLACE of a unit.
Assumes:      a unit has at most g keys and counts once for each (compiler/common_keys.py bounds it); so counts change
              by at most 1, all one way where a unit comes or goes.
Proof sketch: call keys of f units that only one of two neighbours has its own: at most g, and exactly f units each.
              One shot: ``threshold.py``, where tau = f + t. Peeling: let D have keys of its own, D* be without them.
              (1) An own key's weight is exp(-rate (tau - f)) of nobody's, so all of them, over k picks, are picked with
              a chance of at most k g exp(-rate (tau - f)) =: d. (2) They add as much to the sum that others' weights
              are divided by: D's chance of a list without own keys is at most D*'s, and at least (1 - d) times it.
              (3) D* and the other one, D' (REPLACE: D'*, alike), have the same candidates, scores that move as
              ``top_k`` assumes: factor e^epsilon (or rho). So P_D(S) <= d + e^epsilon P_D'(S) / (1 - d): as
              x - (1 - d) x <= d for every chance x, at most d more than e^epsilon P_D'(S) where only one side has own
              keys, 2 d where both have: d is delta, or half of it under REPLACE. With zCDP the delta is divided: half
              for its conversion, half for d (approximate zCDP: D's law is one part 1 - d of D*'s and one part d of
              another). exp(-63) of every own key and pick is for weights that are cut.
Floor:        f = 1 + (tau - f) / 10 or so: rare keys are left out, for a threshold that is a tenth higher. It bounds
              what is held where keys are many.
Numerics:     tau is rounded up, and one is added against rounding of logarithms; samplers are exact. k
              draws, or one for each key that there is, as with all keys that are not declared: time tells about how
              many that is (docs/privacy.md).
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

from duckdp.core.accountant import pure_rho
from duckdp.core.errorbars import Noise
from duckdp.core.noise import laplace_noise, laplace_scale
from duckdp.core.types import ATTO, NANO, Loss
from duckdp.errors import ParameterError
from duckdp.mechanisms.exponential import Seen, choose_exponential
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
        if self.shot:
            _ = self._scale

    @cached_property
    def _top(self) -> TopK:
        """The picks; a candidate more than there are does not matter to it."""
        given = {"picks": self.picks, "candidates": self.picks, "epsilon_nano": self.epsilon_nano}
        return TopK(**given, delta_atto=self.delta_atto // 2, monotone=self.monotone)

    @cached_property
    def _scale(self) -> float:
        """Of the noise of one shot, units."""
        return laplace_scale(Fraction(self.epsilon_nano, NANO), self.groups * (1 if self.monotone else 2))

    @property
    def _rate(self) -> float:
        """How fast chances of a pick fall, per unit."""
        return float(self._top.share) / (1 if self.monotone else 2)

    @cached_property
    def _above_shot(self) -> int:
        delta = self.delta_atto if self.monotone else self.delta_atto // 2
        return threshold(Noise("laplace", self._scale), delta_atto=delta, groups=self.groups) - 1

    @cached_property
    def _above_picks(self) -> int:
        delta = self.delta_atto if self._top.is_pure else self.delta_atto // 2
        left = (delta if self.monotone else delta // 2) / ATTO - self.picks * self.groups * _LEAST_WEIGHT
        if left <= 0:
            raise ParameterError("P102", "delta", self.delta_atto / ATTO, "is too small.")
        return math.ceil(math.log(self.picks * self.groups / left) / self._rate) + 1

    @cached_property
    def shot(self) -> bool:
        """Whether all noise is drawn at once: where its threshold is the lower one."""
        try:
            return self._above_shot <= self._above_picks
        except ParameterError:  # too little epsilon for so many picks
            return True

    @property
    def _above(self) -> int:
        return self._above_shot if self.shot else self._above_picks

    @property
    def floor(self) -> int:
        """f: keys with fewer units are none."""
        return 1 if self.shot else 1 + self._above // _FLOOR

    @property
    def tau(self) -> int:
        """The score of nobody, or what a noisy count has to reach; units."""
        return self.floor + self._above

    @property
    def loss(self) -> Loss:
        """What all picks cost together."""
        top, given = self._top if not self.shot else None, {"epsilon_nano": self.epsilon_nano}
        if top is None or top.is_pure:
            rho = pure_rho(self.epsilon_nano)
            return Loss(**given, delta_atto=self.delta_atto, rho_pico=rho, delta_zcdp_atto=self.delta_atto)
        half = self.delta_atto // 2
        return Loss(**given, delta_atto=2 * half, rho_pico=top.loss.rho_pico, delta_zcdp_atto=half)

    def noised(self, counts: Sequence[int]) -> list[int]:
        """One shot: noisy counts of some keys, of which those of at least ``tau`` may be told; a draw for each.

        Args:
            counts: exact and private: must not be logged, stored or raised.
        """
        return [n + z for n, z in zip(counts, laplace_noise(len(counts), self._scale), strict=True)]

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
        far = math.log(self.picks / (1 - level))
        return self.tau + math.ceil(far * self._scale if self.shot else far / self._rate)

    def shortfall(self, keys: int, level: float = 0.95) -> int:
        """How far what is told may be below the best of at most so many keys that is not, with that probability."""
        if self.shot:
            return math.ceil(2 * self._scale * math.log(max(2, keys) / (1 - level)))
        return math.ceil(math.log(self.picks * max(2, keys) / (1 - level)) / self._rate)
