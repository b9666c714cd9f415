"""Exact sums -> noisy means: the only step of a wide synthetic table that sees private values.

A :class:`Purse` holds one (epsilon, delta) and hands out shares of it, stage by stage; stages may depend on earlier
releases, each stored before the next is read (:meth:`Purse.stage`). Releasing a stage of R functions in [-1, 1] adds to
each integer sum (grid 2^-bits) noise for

    relation      l1       l2 squared    linf     of the R sums of one row's integers, times 2^bits
    ADD_REMOVE    R        R             1        the first stage carries the count: as one more function, or with
                                                  Laplace noise for a share of its own, as it changes by 1
    REPLACE       2 R      4 R           2        n is public and exact

Privacy:      pure: each stage is share * epsilon with cube noise (Laplace noise of l1 = R linf is never smaller, and
              the same for R = 1); shares sum to at most 1, so all stages together are epsilon-DP (adaptive basic
              composition).
              With delta > 0 and Gaussian noise: each stage is share * rho zCDP, rho from (epsilon, delta); they add to
              rho. One kind is used throughout, chosen by the caller from public figures.
Assumes:      each row adds integers of absolute value at most 2^bits to each sum (``features`` clamps last), a privacy
              unit is one row, and no row is dropped under REPLACE. Units of several rows would need
              their integers scaled before the sum, as in smooth/sums/moments (and ``collect`` another bound for its
              centred products).
Proof sketch: ADD_REMOVE adds or takes one vector in the box [-1, 1]^R; REPLACE the difference of two: 2 per
              coordinate. Norms of the box. Functions chosen from earlier releases are public when a stage runs.
Numerics:     exact: integers in, the samplers of core/noise and mechanisms/cube, shares as fractions of integers,
              epsilon and rho of a stage rounded down.
Source:       mechanisms/cube.py; core/accountant.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, TypeVar

import numpy as np

from duckdp.core.accountant import pure_rho, rho_for
from duckdp.core.noise import gaussian_noise, gaussian_scale, laplace_noise, laplace_scale
from duckdp.core.types import NANO, PICO, Loss, Neighbours, Sensitivity
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms.cube import cube_noise, cube_rate, cube_standard_error
from duckdp.synthetic.wide.features import Floats

BITS = 24  # grid 2^-24; a cube of R sums at epsilon needs epsilon R <= 2^(BITS + 1)


class Bought(Protocol):
    """Functions of a row with values in [-1, 1], clamped last: ``features`` and ``marginals``."""

    @property
    def count(self) -> int:
        """R."""

    def rows(self, u: Floats) -> Floats:
        """Values of rows in memory, float[n, R]."""

    def print_sql(self, relation: str, columns: Sequence[str], bits: int) -> str:
        """One SELECT that gives R integers."""


Sums = Callable[[Any, int], tuple[int, Sequence[int]]]
"""(functions, bits) -> (number of rows, R exact integer sums): what DuckDB computes; private."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Noisy:
    """Released means of one stage: public.

    Attributes:
        means: float[R], noisy sums over the (noisy or public) number of rows.
        deviation: standard deviation of each, the count taken as exact.
        family: "cube" or "gaussian".
        count: R of the stage, of which these may be a part.
    """

    means: Floats
    deviation: float
    family: str
    count: int


Drawn = TypeVar("Drawn")
Keep = Callable[[Callable[[], Any]], Any]


@dataclass(kw_only=True)
class Purse:
    """One charge, spent in shares.

    Attributes:
        epsilon_nano, delta_atto: the charge.
        neighbours: the relation.
        gaussian: Gaussian noise throughout (needs delta > 0).
        rows: the number of rows: public under REPLACE, else the noisy count once it was released.
        spent: shares that were taken.
        keep: stores what a stage draws, or gives what was stored instead; see ``core.task.Stages.run``.
    """

    epsilon_nano: int
    delta_atto: int
    neighbours: Neighbours
    gaussian: bool = False
    rows: float = 0.0
    spent: Fraction = field(default_factory=Fraction)
    keep: Keep = field(default=lambda draw: draw(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.epsilon_nano <= 0:
            raise ParameterError("P101", "epsilon", self.epsilon_nano, "must be positive.")
        if self.gaussian and not self.delta_atto:
            raise ParameterError("P102", "delta", 0, "Gaussian noise needs delta > 0, for example 1e-8.")

    @property
    def loss(self) -> Loss:
        """What the whole costs, whatever shares were used."""
        if self.gaussian:
            rho = rho_for(self.epsilon_nano, self.delta_atto)
            return Loss(epsilon_nano=self.epsilon_nano, delta_atto=self.delta_atto, rho_pico=rho)
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))

    def take(self, share: Fraction) -> int:
        """Charge a share; returns it as epsilon in 1e-9 (pure) or rho in 1e-12 (Gaussian), rounded down.

        Raises:
            InternalError: more than everything.
        """
        if share <= 0 or self.spent + share > 1:
            raise InternalError("the stages of a synthetic table cost more than its charge")
        self.spent += share
        return self.cost(share)

    def stage(self, draw: Callable[[], Drawn]) -> Drawn:
        """The noisy figures of a stage: the stored ones, or what ``draw`` reads, pays for and noises now.

        Args:
            draw: changes nothing but this purse; its result can be packed (``kept``).
        """

        def drawn() -> tuple[Drawn, float, Fraction]:
            return draw(), self.rows, self.spent

        found: Drawn
        found, self.rows, self.spent = self.keep(drawn)
        return found

    def cost(self, share: Fraction) -> int:
        """What a share would be, in the units of :meth:`take`; nothing is charged."""
        whole = rho_for(self.epsilon_nano, self.delta_atto) if self.gaussian else self.epsilon_nano
        return math.floor(whole * share)

    def take_epsilon(self, share: Fraction) -> Fraction:
        """Charge a share for a pure mechanism; returns its epsilon.

        Gaussian purse: the share of rho buys epsilon = sqrt(2 rho), as a pure mechanism costs epsilon^2/2 of zCDP.
        """
        cost = self.take(share)
        if not self.gaussian:
            return Fraction(cost, NANO)
        return Fraction(math.isqrt(2 * cost * PICO), PICO)

    def buy(
        self, sums: Sums, features: Bought, share: Fraction, *, count: Fraction = Fraction(0), bits: int = BITS
    ) -> Noisy:  # fmt: skip
        """Release one stage.

        Args:
            sums: gives the exact sums; called once, unless the stage is stored.
            features: the functions; built from public constants and earlier releases.
            share: of the charge.
            count: share of the charge for the number of rows by itself; pure, and only where it is not known yet.
            bits: fixed-point bits.
        """
        return self.stage(lambda: self._draw(sums, features, share, count, bits))

    def _draw(self, sums: Sums, features: Bought, share: Fraction, count: Fraction, bits: int) -> Noisy:
        unit, counting = 1 << bits, self.neighbours is Neighbours.ADD_REMOVE and not self.rows
        found, exact = sums(features, bits)
        if self.neighbours is Neighbours.REPLACE:
            self.rows = float(found)
        elif counting and count:
            self.rows, counting = self._count(found, count), False
        vector = [found * unit, *exact] if counting else list(exact)
        noisy, deviation, family = self._noise(vector, sensitivity(len(vector), unit, self.neighbours), share)
        values = np.array([float(v) for v in noisy]) / unit
        if counting:
            self.rows = max(1.0, float(values[0]))
            values = values[1:]
        rows = max(1.0, self.rows)
        return Noisy(means=values / rows, deviation=deviation / unit / rows, family=family, count=len(vector))

    def _count(self, exact: int, share: Fraction) -> float:
        if self.gaussian:
            raise InternalError("a count by itself has Laplace noise")
        (drawn,) = laplace_noise(1, laplace_scale(Fraction(self.take(share), NANO), 1))
        return max(1.0, float(exact + drawn))

    def _noise(self, exact: list[int], change: Sensitivity, share: Fraction) -> tuple[list[int], float, str]:
        cost = self.take(share)
        if self.gaussian:
            deviation, family = gaussian_scale(Fraction(cost, PICO), change.l2_squared), "gaussian"
            drawn = gaussian_noise(len(exact), deviation)
        else:
            rate = cube_rate(Fraction(cost, NANO), change.linf, len(exact))
            deviation, family = cube_standard_error(rate, len(exact)), "cube"
            drawn = cube_noise(len(exact), rate)
        return [value + z for value, z in zip(exact, drawn, strict=True)], deviation, family


def sensitivity(size: int, unit: int, neighbours: Neighbours) -> Sensitivity:
    """Norms of the change of ``size`` sums of integers in [-unit, unit]."""
    move = unit * (2 if neighbours is Neighbours.REPLACE else 1)
    return Sensitivity(l1=size * move, l2_squared=size * move**2, linf=move)


def predicted_epsilon(share: Fraction, purse: Purse) -> float:
    """What a pure mechanism gets for a share (``Purse.take_epsilon``)."""
    if purse.gaussian:
        return math.sqrt(2 * rho_for(purse.epsilon_nano, purse.delta_atto) / PICO * float(share))
    return purse.epsilon_nano / NANO * float(share)


def predicted(size: int, share: Fraction, purse: Purse, rows: float) -> float:
    """Standard deviation of a noisy mean of a stage of ``size`` functions, from public figures only."""
    move = 2.0 if purse.neighbours is Neighbours.REPLACE else 1.0
    if purse.gaussian:
        rho = rho_for(purse.epsilon_nano, purse.delta_atto) / PICO * float(share)
        return move * math.sqrt(size / (2 * rho)) / rows
    epsilon = purse.epsilon_nano / NANO * float(share)
    return move / epsilon * math.sqrt((size + 1) * (size + 2) / 3) / rows
