"""Exact sums of functions of rows -> noisy means, for shares of one charge: the step that sees private sums.

A :class:`Purse` holds one (epsilon, delta) and hands out shares of it, stage by stage; stages may depend on earlier
releases, each stored before the next is read (:meth:`Purse.stage`). Releasing a stage of R functions in [-1, 1] adds to
each integer sum (grid 2^-bits) noise for

    relation      l1       l2 squared    linf     of the R sums of one row's integers, times 2^bits
    ADD_REMOVE    R        R             1        the first stage carries the count: as one more function, or with
                                                  Laplace noise for a share of its own, as it changes by 1
    REPLACE       2 R      4 R           2        n is public and exact

and to counts of the values of B domains, of which a row has at most one each (``buy_counts``), with linf = 1,

    ADD_REMOVE    B        B                      the row's value of every domain: one more, or one less
    REPLACE       2 B      2 B                    one less of the value it had, one more of the one it has

and to functions of a row, or products of them, whose vector has at most the norm N, in integers (``draw_normed``; N^2
its square)

    ADD_REMOVE    N        N^2                    the row's vector; only the norm of the noise's kind is bounded
    REPLACE       2 N      4 N^2                  the difference of two

Privacy:      pure: each stage is share * epsilon with cube noise (Laplace noise of l1 = R linf is never smaller, and
              the same for R = 1), counts and vectors with a norm with Laplace noise;
              shares sum to at most 1, so all stages together are epsilon-DP (adaptive basic composition).
              With delta > 0 and Gaussian noise: each stage is share * rho zCDP, rho from (epsilon, delta); they add to
              rho. One kind is used throughout, chosen by the caller from public figures.
Assumes:      each row adds integers of absolute value at most 2^bits to each sum (``features`` clamps last), a privacy
              unit is one row, and no row is dropped under REPLACE. Units of several rows would need
              their integers scaled before the sum, as in smooth/sums/moments (and ``moments.buy.strongest`` another
              bound for its centred products).
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
from typing import Any, TypeVar

import numpy as np

from duckdp.core.noise import gaussian_noise, gaussian_scale, laplace_noise, laplace_scale
from duckdp.core.types import NANO, PICO, Neighbours, Sensitivity
from duckdp.errors import InternalError
from duckdp.mechanisms.cube import cube_noise, cube_rate, cube_standard_error
from duckdp.synthetic.unit.charge_terms import BITS, Terms
from duckdp.synthetic.unit.features import Moments
from duckdp.synthetic.unit.normed import Normed
from duckdp.synthetic.unit.stages import Noisy

Sums = Callable[[Any, int], tuple[int, Sequence[int]]]
"""(functions, bits) -> (number of rows, R exact integer sums): what DuckDB computes; private."""

Drawn = TypeVar("Drawn")
Keep = Callable[[Callable[[], Any]], Any]


@dataclass(kw_only=True)
class Purse(Terms):
    """One charge, spent in shares.

    Attributes:
        rows: the number of rows: public under REPLACE, else the noisy count once it was released.
        spent: shares that were taken.
        keep: stores what a stage draws, or gives what was stored instead; see ``core.task.Stages.run``.
    """

    rows: float = 0.0
    spent: Fraction = field(default_factory=Fraction)
    keep: Keep = field(default=lambda draw: draw(), repr=False, compare=False)

    @classmethod
    def on(cls, terms: Terms, keep: Keep = lambda draw: draw()) -> Purse:
        """A full purse of these terms; ``keep`` as the attribute."""
        return cls(
            epsilon_nano=terms.epsilon_nano,
            delta_atto=terms.delta_atto,
            neighbours=terms.neighbours,
            gaussian=terms.gaussian,
            keep=keep,
        )

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
            draw: changes nothing but this purse; its result can be packed (``unit.packed``).
        """

        def drawn() -> tuple[Drawn, float, Fraction]:
            return draw(), self.rows, self.spent

        found: Drawn
        found, self.rows, self.spent = self.keep(drawn)
        return found

    def take_epsilon(self, share: Fraction) -> Fraction:
        """Charge a share for one choice; returns its epsilon.

        Pure: of any mechanism. Gaussian purse: of the exponential mechanism, whose loss has a range of epsilon and so
        costs epsilon^2 / 8 of zCDP: a share of rho buys epsilon = sqrt(8 rho).
        """
        cost = self.take(share)
        if not self.gaussian:
            return Fraction(cost, NANO)
        return Fraction(math.isqrt(8 * cost * PICO), PICO)

    def buy(self, sums: Sums, features: Moments, share: Fraction, *, count: Fraction = Fraction(0)) -> Noisy:
        """Release the sums of one stage, paid by a share of the charge.

        Args:
            sums: gives the exact sums; called once, unless the stage is stored.
            features: the functions; built from public constants and earlier releases.
            share: of the charge.
            count: share of the charge for the number of rows by itself; pure, and only where it is not known yet.
        """
        return self.stage(lambda: self.draw(sums, features, share, count))

    def draw(self, sums: Sums, features: Moments, share: Fraction, count: Fraction = Fraction(0)) -> Noisy:
        """What :meth:`buy` draws, for a stage that leaves more beside it."""
        unit, counting = 1 << BITS, self.neighbours is Neighbours.ADD_REMOVE and not self.rows
        found, exact = sums(features, BITS)
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

    def draw_normed(self, sums: Sums, given: Normed, share: Fraction) -> Noisy:
        """What a stage of functions or products with a bound on a row's norm draws, the number of rows being known.

        Args:
            sums: as of :meth:`buy`.
            given: of the norm that the purse's noise needs.
            share: of the charge.

        Raises:
            InternalError: of the other norm.
        """
        if given.squared != self.gaussian:
            raise InternalError("the norm of the functions is not that of the noise")
        _, exact = sums(given, BITS)
        cost, move = self.take(share), 2 if self.neighbours is Neighbours.REPLACE else 1
        if self.gaussian:
            deviation, family = gaussian_scale(Fraction(cost, PICO), move**2 * given.longest), "gaussian"
            drawn = gaussian_noise(len(exact), deviation)
        else:
            scale = laplace_scale(Fraction(cost, NANO), move * given.longest)
            deviation, family = math.sqrt(2) * scale, "laplace"
            drawn = laplace_noise(len(exact), scale)
        values = np.array([float(value + z) for value, z in zip(exact, drawn, strict=True)]) / (1 << BITS)
        rows = max(1.0, self.rows)
        return Noisy(means=values / rows, deviation=deviation / (1 << BITS) / rows, family=family, count=len(exact))

    def buy_counts(self, sums: Sums, features: Moments, groups: int, share: Fraction) -> Noisy:
        """Release counts of values as means of columns of -1 and 1, the number of rows being known.

        Args:
            sums: as of :meth:`buy`.
            features: indicators, 0 or 1; of a row at most one in each group is 1.
            groups: how many there are.
            share: of the charge.
        """
        return self.stage(lambda: self._draw_counts(sums, features, groups, share))

    def _draw_counts(self, sums: Sums, features: Moments, groups: int, share: Fraction) -> Noisy:
        unit = 1 << BITS
        _, exact = sums(features, BITS)
        change, cost = counts_sensitivity(groups, unit, self.neighbours), self.take(share)
        if self.gaussian:
            deviation, family = gaussian_scale(Fraction(cost, PICO), change.l2_squared), "gaussian"
            drawn = gaussian_noise(len(exact), deviation)
        else:
            scale = laplace_scale(Fraction(cost, NANO), change.l1)
            deviation, family = math.sqrt(2) * scale, "laplace"
            drawn = laplace_noise(len(exact), scale)
        rows = max(1.0, self.rows)
        counts = np.array([float(value + z) for value, z in zip(exact, drawn, strict=True)]) / unit
        return Noisy(
            means=2 * counts / rows - 1, deviation=2 * deviation / unit / rows, family=family, count=len(exact)
        )

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


def counts_sensitivity(groups: int, unit: int, neighbours: Neighbours) -> Sensitivity:
    """Norms of the change of counts, in units, of which a row adds to at most one in each group."""
    moves = groups * (2 if neighbours is Neighbours.REPLACE else 1)
    return Sensitivity(l1=moves * unit, l2_squared=moves * unit**2, linf=unit)
