"""Counts answered from public weights over cells, which are mended where the data say that they are off (PMW).

A noisy total N is bought first. A question is a set F of cells; weights w over all cells, which sum to 1, are public,
and give a = N w(F). Two noisy comparisons (``sparse_vector``, for counts that move both ways) ask whether the true
count q is T or more above a, and if not, whether it is T or more below. If neither, the answer is a. If one, a fresh
noisy count v is the answer, and the weights are moved to w(F) = v / N, each by the same factor within F and without.
After c such answers it ends.

Privacy:      epsilon = e0 + e', pure: e0 of N, discrete Laplace noise of scale 1 / e0; e' of the sparse vector with c
              hits and their values. Questions may be chosen in view of all answers, whatever their number.
Assumes:      between neighbours every count changes by at most 1, up or down. The cells, T and c are public.
Proof sketch: w follows from N and the answers before, which are released, so a does, and T + a and T - a are public
              thresholds: the comparisons are questions q >= T + a and -q >= T - a to one sparse vector, chosen one
              after the other, each of a count that changes by at most 1; both are looked at, the second is told only
              where the first is a miss. Its proof holds for them, at what they cost together; N composes with it.
Utility:      after two misses |q - a| <= T + m + R + 1, and R is below its bound for all questions of a release
              together (``miss_error``): so the intervals of all answers that were not measured hold at once, whatever
              the weights are. A measured one has that of its fresh noise. How many hits there will be depends on the
              data and the questions: a step to the true share of F brings the weights nearer to the data, in relative
              entropy, by that of the two shares. No number of questions is promised, and the intervals need none.
Numerics:     weights are floats and public: rounding moves a public threshold, no loss. Thresholds are rounded up to
              integers, which widens the interval by 1.
Source:       Hardt, Rothblum, "A multiplicative weights mechanism for privacy-preserving data analysis", FOCS 2010;
              Hardt, Ligett, McSherry, "A simple and practical algorithm for differentially private data release", NIPS
              2012 (measured updates); Lyu, Su, Li 2017 for the comparisons. Interval and step are our own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from duckdp.core.accountant import pure_rho
from duckdp.core.errorbars import half_width
from duckdp.core.noise import laplace_noise, laplace_scale
from duckdp.core.types import NANO, Loss
from duckdp.errors import ParameterError
from duckdp.mechanisms.sparse_vector import SparseVector

Cells = NDArray[np.bool_]
Weights = NDArray[np.float64]
_TOTAL = 10  # one part in so many of epsilon is for the total
_EXPECTED = 1_000  # questions among which by default no hit is one by noise alone, with 95%
_SWEEPS = 5  # over all that was measured, so that an early answer still fits after later ones
_LEAST = 1e-200  # of a cell's weight: far above what floats can no longer divide by


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a question came to.

    Attributes:
        value: the answer, in units.
        measured: whether it is a fresh noisy count; else it is that of the weights.
    """

    value: float
    measured: bool


@dataclass(frozen=True, kw_only=True)
class MultiplicativeWeights:
    """The mechanism; the module says how and why.

    Attributes:
        hits: c, at least 1.
        epsilon_nano: of the total and all questions together, in 1e-9.
        threshold: T, units; None: so large that noise alone makes no hit of a thousand questions, with 95%.
    """

    hits: int
    epsilon_nano: int
    threshold: int | None = None

    @cached_property
    def vector(self) -> SparseVector:
        """The comparisons and the values of hits.

        Raises:
            ParameterError: P101, P107.
        """
        rest = self.epsilon_nano - self.epsilon_nano // _TOTAL
        vector = SparseVector(hits=self.hits, epsilon_nano=rest, monotone=False, valued=True)
        if self.epsilon_nano // _TOTAL == 0 or vector.shares[0] == 0:
            raise ParameterError("P101", "epsilon", self.epsilon_nano / NANO, f"is too small for {self.hits} hits.")
        return vector

    @property
    def loss(self) -> Loss:
        """What the total and all questions cost together."""
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))

    @cached_property
    def off(self) -> int:
        """T: from how far on the weights are mended."""
        return self.vector.hit_error(2 * _EXPECTED) if self.threshold is None else self.threshold

    @property
    def unmeasured_error(self) -> int:
        """How far an answer of the weights may be off, all of a release together with 95%."""
        return self.off + self.vector.miss_error() + 1

    @property
    def measured_error(self) -> int:
        """How far a measured answer may be off, with 95%."""
        return half_width(self.vector.value_noise)

    def begin(self) -> int:
        """R: secret noise of the thresholds, for all questions of one release."""
        return self.vector.begin()

    def total(self, count: int) -> int:
        """A noisy number of all units, at least 1. ``count``: exact and private."""
        return max(1, count + laplace_noise(1, self._total_scale)[0])

    def reply(self, count: int, guess: float, shift: int) -> Reply:
        """The answer of the weights, or a fresh one where the count is far from it.

        Args:
            count: q. Exact private value: must not be logged, stored or raised.
            guess: a, of the weights, public.
            shift: R, secret.
        """
        above = self.vector.look(count, math.ceil(self.off + guess), shift)
        below = self.vector.look(-count, math.ceil(self.off - guess), shift)
        if above.value is not None:
            return Reply(value=above.value, measured=True)
        if below.value is not None:
            return Reply(value=-below.value, measured=True)
        return Reply(value=guess, measured=False)

    @cached_property
    def _total_scale(self) -> float:
        return laplace_scale(Fraction(self.epsilon_nano // _TOTAL, NANO), 1)


def mended(cells: int, total: int, measured: Iterable[tuple[Cells, float]]) -> Weights:
    """The weights after what was measured: uniform at first, then moved to each in turn, several times over.

    Args:
        cells: how many there are.
        total: N.
        measured: (bool[cells], noisy count) in the order of the answers; public.

    Returns:
        float[cells], at least 0, of sum 1.
    """
    weights, known = np.full(cells, 1 / cells), list(measured)
    for _ in range(_SWEEPS):
        for members, value in known:
            inside = float(weights[members].sum())
            if 0 < inside < 1:  # a set of no cell, or of all, has no factor
                least = min(0.5 / total, 0.5)
                share = min(max(value / total, least), 1 - least)  # nothing is taken for impossible
                moved = np.where(members, weights * (share / inside), weights * ((1 - share) / (1 - inside)))
                weights = np.maximum(moved, _LEAST)  # a cell in many sets that are all but empty stays a number
        weights = weights / weights.sum()
    return weights
