"""The terms of a release in shares: charge, relation, and kind of noise. Public figures, from which plans are made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from duckdp.core.accountant import pure_rho, rho_for
from duckdp.core.types import NANO, PICO, Loss, Neighbours
from duckdp.errors import ParameterError
from duckdp.synthetic.unit.request import Request

BITS = 24  # of the grid of sums, 2^-24; a cube of R sums at epsilon needs epsilon R <= 2^(BITS + 1)


@dataclass(kw_only=True)
class Terms:
    """What a release costs and which noise it has; a ``buy.purse.Purse`` has them, and spends the charge.

    Attributes:
        epsilon_nano, delta_atto: the charge, in 1e-9 and 1e-18.
        neighbours: the relation.
        gaussian: Gaussian noise throughout (needs delta > 0); else noise of pure epsilon.
    """

    epsilon_nano: int
    delta_atto: int
    neighbours: Neighbours
    gaussian: bool = False

    def __post_init__(self) -> None:
        if self.epsilon_nano <= 0:
            raise ParameterError("P101", "epsilon", self.epsilon_nano / NANO, "must be positive.")
        if self.gaussian and not self.delta_atto:
            raise ParameterError("P102", "delta", 0, "Gaussian noise needs delta > 0, for example 1e-8.")

    @property
    def loss(self) -> Loss:
        """What the whole costs, whatever shares are used."""
        if self.gaussian:
            rho = rho_for(self.epsilon_nano, self.delta_atto)
            return Loss(epsilon_nano=self.epsilon_nano, delta_atto=self.delta_atto, rho_pico=rho)
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))

    def cost(self, share: Fraction) -> int:
        """What a share of the charge is: epsilon in 1e-9 (pure) or rho in 1e-12 (Gaussian), rounded down."""
        whole = rho_for(self.epsilon_nano, self.delta_atto) if self.gaussian else self.epsilon_nano
        return math.floor(whole * share)


def quieter_terms(request: Request, deviation: Callable[[Terms], float]) -> Terms:
    """Pure or, where delta pays for it, Gaussian noise: whichever leaves the smaller deviation, by formula.

    Args:
        request: the charge and the relation.
        deviation: of the noise that decides, under given terms.
    """
    pure = noise_terms(request, gaussian=False)
    if not request.delta_atto or not rho_for(request.epsilon_nano, request.delta_atto):
        return pure
    return min((pure, noise_terms(request, gaussian=True)), key=deviation)


def noise_terms(request: Request, *, gaussian: bool) -> Terms:
    """The charge and the relation, with this kind of noise."""
    return Terms(
        epsilon_nano=request.epsilon_nano,
        delta_atto=request.delta_atto,
        neighbours=request.neighbours,
        gaussian=gaussian,
    )


def moment_terms(request: Request) -> Terms:
    """The terms that leave the means of all unit columns the less noisy, bought for half of the charge."""
    if request.gaussian is not None:
        return noise_terms(request, gaussian=request.gaussian)
    d, half = request.columns, Fraction(1, 2)
    return quieter_terms(request, lambda terms: predicted(d, half, terms, request.expected_rows))


def predicted_epsilon(share: Fraction, terms: Terms) -> float:
    """What a pure mechanism gets for a share; a choice under a Gaussian purse gets twice that, and plans stay."""
    if terms.gaussian:
        return math.sqrt(2 * rho_for(terms.epsilon_nano, terms.delta_atto) / PICO * float(share))
    return terms.epsilon_nano / NANO * float(share)


def predicted(size: int, share: Fraction, terms: Terms, rows: float) -> float:
    """Standard deviation of a noisy mean of a stage of ``size`` functions, from public figures only."""
    move = 2.0 if terms.neighbours is Neighbours.REPLACE else 1.0
    if terms.gaussian:
        rho = rho_for(terms.epsilon_nano, terms.delta_atto) / PICO * float(share)
        return move * math.sqrt(size / (2 * rho)) / rows
    epsilon = terms.epsilon_nano / NANO * float(share)
    return move / epsilon * math.sqrt((size + 1) * (size + 2) / 3) / rows
