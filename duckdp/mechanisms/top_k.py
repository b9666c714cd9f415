"""The k largest of several scores, privately: chosen one after the other, each from those that are left (peeling).

Each pick is either permute-and-flip (``noisy_maximum``) with epsilon / k, or, where delta allows more, the exponential
mechanism (``exponential``) with epsilon' = sqrt(8 rho / k): whichever has the larger epsilon for a pick. (Adding Gumbel
noise once and taking the k largest sums has the same law as k exponential mechanisms.)

Privacy:      pure: epsilon; else rho of zCDP, which is (epsilon, delta). For the relation of the scores.
Assumes:      between neighbours every score changes by at most 1; ``monotone``: all of them up, or all of them down.
Proof sketch: what is left after a pick follows from the picks before, which are released, so the k mechanisms compose
              adaptively: pure ones add their epsilons, ones of bounded range cost epsilon'^2 / 8 of zCDP each. Scores
              that are left change as all of them do, and stay monotone.
Utility:      let m scores be left and s be the largest of them, rate the epsilon of a pick, or half of it where scores
              are not monotone. A score q < s - t is picked by the exponential mechanism with a chance of at most
              exp(-rate (s - q)), and by permute-and-flip only if its own noise is at least s - q, the same chance: in
              all less than m exp(-rate t). Over all k picks: :meth:`TopK.shortfall`.
Numerics:     shares are rounded down; the samplers are exact, and the number of draws is k's and m's alone.
Source:       Durfee, Rogers, "Practical differentially private top-k selection with pay-what-you-get composition",
              NeurIPS 2019; Dong, Durfee, Rogers, "Optimal differential privacy composition for exponential mechanisms",
              ICML 2020 (bounded range); McKenna, Sheldon, "Permute-and-flip", NeurIPS 2020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from duckdp.core.accountant import pure_rho, rho_for
from duckdp.core.types import NANO, PICO, Loss
from duckdp.errors import ParameterError
from duckdp.mechanisms.exponential import Seen, choose_exponential
from duckdp.mechanisms.noisy_maximum import choose_best


@dataclass(frozen=True, kw_only=True)
class TopK:
    """The mechanism; the module says how and why.

    Attributes:
        picks: k, at least 1.
        candidates: how many scores, at least k.
        epsilon_nano: of all picks, in 1e-9.
        delta_atto: of all picks, in 1e-18.
        monotone: between neighbours no score goes up while another goes down.

    Raises:
        ParameterError: P101, nothing is left for one pick.
    """

    picks: int
    candidates: int
    epsilon_nano: int
    delta_atto: int
    monotone: bool

    def __post_init__(self) -> None:
        if self.picks < 1:
            raise ParameterError("P107", "k", self.picks, "must be at least 1.")
        if self.share == 0:  # before anything is charged for it
            raise ParameterError("P101", "epsilon", self.epsilon_nano / NANO, f"is too small for {self.picks} picks.")

    @cached_property
    def _rho(self) -> int:
        """Of all picks, in 1e-12; 0: they are pure, which leaves each of them no less."""
        rho = rho_for(self.epsilon_nano, self.delta_atto) if self.delta_atto else 0
        return rho if self._exponential_share(rho) > self._pure_share else 0

    @property
    def _pure_share(self) -> Fraction:
        return Fraction(self.epsilon_nano // self.picks, NANO)

    def _exponential_share(self, rho: int) -> Fraction:
        return Fraction(math.isqrt(8 * (rho // self.picks) * PICO), PICO)

    @property
    def is_pure(self) -> bool:
        """Whether delta is not spent."""
        return self._rho == 0

    @cached_property
    def share(self) -> Fraction:
        """The epsilon that one pick spends."""
        return self._exponential_share(self._rho) if self._rho else self._pure_share

    @property
    def loss(self) -> Loss:
        """What all picks cost together."""
        if self._rho:
            return Loss(epsilon_nano=self.epsilon_nano, delta_atto=self.delta_atto, rho_pico=self._rho)
        each = self.epsilon_nano // self.picks
        rho = min(pure_rho(self.epsilon_nano), self.picks * pure_rho(each))
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=rho)

    def choose(self, scores: Sequence[int]) -> list[int]:
        """Indices of k large scores, the largest first.

        Args:
            scores: int[candidates]. Exact private values: must not be logged, stored or raised.

        Raises:
            ParameterError: P107, fewer scores than picks.
        """
        require_picks(self.picks, len(scores))
        left, found, seen = list(range(len(scores))), [], Seen()
        for _ in range(self.picks):
            exact = [scores[i] for i in left]
            if self._rho:
                place = choose_exponential(exact, epsilon=self.share, linf=1, monotone=self.monotone, seen=seen)
            else:
                place = choose_best(exact, epsilon=self.share, linf=1, monotone=self.monotone)
            found.append(left.pop(place))
        return found

    def shortfall(self, level: float = 0.95) -> int:
        """How far each picked score may be below the largest that was left, all k at once, with that probability."""
        rate = float(self.share) / (1 if self.monotone else 2)
        return math.ceil(math.log(self.picks * self.candidates / (1 - level)) / rate)


def require_picks(picks: int, scores: int) -> None:
    """Refuse more picks than there are scores, or none; P107."""
    if not 1 <= picks <= scores:
        raise ParameterError("P107", "k", picks, f"must be between 1 and {scores}.")
