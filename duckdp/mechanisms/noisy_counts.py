"""The k largest of several counts by noise that is drawn once for each of them.

Discrete Laplace noise of scale g / epsilon, or discrete Gaussian noise of variance g / (2 rho), is added to every
count. The k largest sums are told, the largest first, without their values.

Privacy:      pure: epsilon; Gaussian noise: rho of zCDP, so (epsilon, delta). For ADD_REMOVE and REPLACE of a unit.
Assumes:      a unit counts in at most g of the candidates, 1 in each.
Sensitivity:  of the vector of counts, where a unit comes or goes: l1 <= g, l2^2 <= g; where it is replaced, twice that,
              as its candidates lose it and others get it.
Proof sketch: the noisy vector is private as additive noise is (additive.py); which of its entries are the largest
              follows from it alone. The order of equal sums follows from their places, which are public.
Utility:      a count is picked although another, larger by more than 2 t, is left, only if the noise of one of the m
              candidates is beyond t. :meth:`NoisyCounts.shortfall` bounds that by the sum over all.
Beside picks: one after the other (top_k.py) a pick has epsilon / k, or sqrt(8 rho / k), whatever g is: better of few
              picks. :func:`choose_way` takes what is surely short by less.
Numerics:     scales are rounded up; samplers are exact, one draw for each candidate, whatever the counts.
Source:       Dwork, Roth, "The algorithmic foundations of differential privacy", 2014, 3.3; Bun, Steinke 2016.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from duckdp.core.accountant import pure_rho, rho_for
from duckdp.core.errorbars import Noise
from duckdp.core.noise import gaussian_noise, gaussian_scale, laplace_noise, laplace_scale
from duckdp.core.types import NANO, PICO, Loss
from duckdp.mechanisms.top_k import TopK, require_picks


@dataclass(frozen=True, kw_only=True)
class NoisyCounts:
    """The mechanism; the module says how and why.

    Attributes:
        picks: k, at least 1.
        candidates: how many counts, at least k.
        groups: g, candidates in which one unit counts at most.
        epsilon_nano: in 1e-9.
        delta_atto: in 1e-18; 0: Laplace noise.
        monotone: a unit comes or goes; else it is replaced.

    Raises:
        ParameterError: P103, so little epsilon that no scale is large enough.
    """

    picks: int
    candidates: int
    groups: int
    epsilon_nano: int
    delta_atto: int
    monotone: bool

    @property
    def moved(self) -> int:
        """Sensitivity of all counts, in l1 and, squared, in l2."""
        return self.groups * (1 if self.monotone else 2)

    @cached_property
    def _rho(self) -> int:
        """Of Gaussian noise, in 1e-12; 0: none."""
        return rho_for(self.epsilon_nano, self.delta_atto) if self.delta_atto else 0

    @cached_property
    def noise(self) -> Noise:
        """The law of the noise of each count: the one by which what is told is short by less."""
        laws = [Noise("laplace", laplace_scale(Fraction(self.epsilon_nano, NANO), self.moved))]
        if self._rho:
            laws.append(Noise("gaussian", gaussian_scale(Fraction(self._rho, PICO), self.moved)))
        return min(laws, key=lambda law: either_way(law, self.candidates, 0.95))

    @property
    def is_pure(self) -> bool:
        """Whether delta is not spent."""
        return self.noise.family == "laplace"

    @property
    def loss(self) -> Loss:
        """What all picks cost together."""
        if self.is_pure:
            return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))
        return Loss(epsilon_nano=self.epsilon_nano, delta_atto=self.delta_atto, rho_pico=self._rho)

    def choose(self, scores: Sequence[int]) -> list[int]:
        """Indices of k large scores, the largest first.

        Args:
            scores: int[candidates]. Exact private counts: must not be logged, stored or raised.

        Raises:
            ParameterError: P107, fewer scores than picks.
        """
        require_picks(self.picks, len(scores))
        draw = laplace_noise if self.is_pure else gaussian_noise
        noisy = [n + z for n, z in zip(scores, draw(len(scores), self.noise.scale), strict=True)]
        return sorted(range(len(noisy)), key=lambda i: -noisy[i])[: self.picks]

    def shortfall(self, level: float = 0.95) -> int:
        """How far each picked count may be below the largest that was left, all k at once, with that probability."""
        return math.ceil(2 * either_way(self.noise, self.candidates, level))


def either_way(noise: Noise, many: int, level: float) -> float:
    """What none of so many noise terms is beyond, up or down, with that probability."""
    log = math.log(max(2, many) / (1 - level))
    return beyond(noise, log + (math.log(2) if noise.family == "gaussian" else 0))


def beyond(noise: Noise, log: float) -> float:
    """What noise reaches, one way, with a chance of at most about exp(-log)."""
    return noise.scale * (log if noise.family == "laplace" else math.sqrt(2 * log))


def choose_way(picks: TopK | None, at_once: NoisyCounts) -> TopK | NoisyCounts:
    """Take the way that is surely short by less: picks one after the other, or noise for all counts at once.

    It follows from public figures alone.

    Args:
        picks: None where too little epsilon is left for each.
        at_once: the other way.
    """
    return at_once if picks is None or at_once.shortfall() < picks.shortfall() else picks
