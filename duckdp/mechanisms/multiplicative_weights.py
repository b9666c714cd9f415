"""Counts answered from public weights over cells, which are mended where the data say that they are off (PMW).

A noisy total N is bought first. A question is a set F of cells; weights w over all cells, which sum to 1, are public,
and give a = N w(F). Two noisy comparisons (``sparse_vector``, for counts that move both ways) ask whether the true
count q is T or more above a, and if not, whether it is T or more below. If neither, the answer is a. If one, a fresh
noisy count v is the answer, and the weights are moved to w(F) = v / N, each by the same factor within F and without.
After c such answers it ends. A question may be any f of a cell with values from 0 to 1 as well, of which a set is the
case 0 and 1: w(f) = sum of w f, q is the sum of f over units rounded to a whole number (``unit_counts.py``), and the
weights are moved to w(f) = v / N by factors exp(h f) of each cell.

Privacy:      epsilon = e0 + e', pure: e0 of N, discrete Laplace noise of scale 1 / e0; e' of the sparse vector with c
              hits and their values. Questions may be chosen in view of all answers, whatever their number.
Assumes:      between neighbours every q, rounded, changes by at most 1, up or down. The cells, T, c and f are public.
Proof sketch: w follows from N and the answers before, which are released, so a does, and T + a and T - a are public
              thresholds: the comparisons are questions q >= T + a and -q >= T - a to one sparse vector, chosen one
              after the other, each of a count that changes by at most 1; both are looked at, the second is told only
              where the first is a miss. Its proof holds for them, at what they cost together; N composes with it.
Sensitivity:  of a set the number of units in it: 1 in any norm of one question; no norm of several is used, as each
              comparison is paid for by itself. Of f the sum S over units of values from 0 to 1, so S moves by at most
              1, and rounding to the nearest integer keeps that: |S - S'| <= 1 gives |q - q'| <= 1. As f >= 0, every
              q moves up where a unit comes and down where it goes, as counts do; nothing here rests on that, as -q is
              asked about too: noise is that of counts which move both ways. So f costs what a set does, with the same
              T, R, noise and shares. Values over 1 would not: of values up to 2 q moves by 2.
Utility:      after two misses |q - a| <= T + m + R + 1, and R is below its bound for all questions of a release
              together (``miss_error``): so the intervals of all answers that were not measured hold at once, whatever
              the weights are. A measured one has that of its fresh noise. How many hits there will be depends on the
              data and the questions: a step to the true share of F brings the weights nearer to the data, in relative
              entropy, by that of the two shares (for f by at least that: the weights it gives are the nearest ones of
              that share, and a coin of chance f cannot tell more than the cell). No number of questions is promised,
              and the intervals need none. The sum itself is off q by the rounding: whoever tells the interval of an f
              adds that (``rounding``), to a measured one and to one of the weights.
Numerics:     weights are floats and public: rounding moves a public threshold, no loss. Thresholds are rounded up to
              integers, which widens the interval by 1. Noise is in whole units, so q has to be a whole number: of a
              sum with parts of units, noise in whole ones would leave the parts to be read off a measured answer.
Source:       Hardt, Rothblum, "A multiplicative weights mechanism for privacy-preserving data analysis", FOCS 2010;
              Hardt, Ligett, McSherry, "A simple and practical algorithm for differentially private data release", NIPS
              2012 (measured updates); Lyu, Su, Li 2017 for the comparisons. Interval and step are our own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
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
Asked = Cells | Weights  # of each cell whether it counts, or how much of a unit it counts, 0 to 1
Move = Callable[[Weights, float, float], Weights]  # weights, a share to meet, the least one that is taken for possible
_TOTAL = 10  # one part in so many of epsilon is for the total
_EXPECTED = 1_000  # questions among which by default no hit is one by noise alone, with 95%
_SWEEPS = 5  # over all that was measured, so that an early answer still fits after later ones
_LEAST = 1e-200  # of a cell's weight: far above what floats can no longer divide by
_STEPS = 200  # of a search for a factor: far more than doubling and halving need to meet any share in floats
_CLOSE = 1e-9  # of log-odds: of a billion units a quarter of one


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


def share_of(weights: Weights, asked: Asked) -> float:
    """w(F), or w(f): which part of all units a question counts by the weights, 0 to 1."""
    return float((weights[asked] if asked.dtype == np.bool_ else weights * asked).sum())


def mended(cells: int, total: int, measured: Iterable[tuple[Asked, float]]) -> Weights:
    """The weights after what was measured: uniform at first, then moved to each in turn, several times over.

    Args:
        cells: how many there are.
        total: N.
        measured: (bool or float[cells], noisy count or sum) in the order of the answers; public.

    Returns:
        float[cells], at least 0, of sum 1.
    """
    weights = np.full(cells, 1 / cells)
    least = min(0.5 / total, 0.5)  # nothing is taken for impossible
    moves = [((_to_set if asked.dtype == np.bool_ else _to_values)(asked), value) for asked, value in measured]
    for _ in range(_SWEEPS):
        for move, value in moves:
            weights = move(weights, value / total, least)
        weights = weights / weights.sum()
    return weights


def _to_set(members: Asked) -> Move:
    """Moves w(F) to a share: one factor within F, one without."""

    def move(weights: Weights, share: float, least: float) -> Weights:
        inside = float(weights[members].sum())
        if not 0 < inside < 1:  # a set of no cell, or of all, has no factor
            return weights
        share = min(max(share, least), 1 - least)
        moved = np.where(members, weights * (share / inside), weights * ((1 - share) / (1 - inside)))
        return np.maximum(moved, _LEAST)  # a cell in many sets that are all but empty stays a number

    return move


def _to_values(values: Asked) -> Move:
    """Moves w(f) to a share: factors exp(h f). What is alike in f is looked at once: a column has few values."""
    levels, places = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True)
    width = float(levels[-1] - levels[0])

    def move(weights: Weights, share: float, least: float) -> Weights:
        if not width:  # of f alike in all cells no weights are nearer than others
            return weights
        inner = min(max((share - float(levels[0])) / width, least), 1 - least)
        mass: Weights = np.bincount(places, weights).astype(np.float64)
        return np.maximum(weights * _factors(mass, (levels - levels[0]) / width, inner)[places], _LEAST)

    return move


def _factors(mass: Weights, levels: Weights, share: float) -> Weights:
    """Factors exp(h level) / Z of masses, after which they sum to 1 and have a share as their mean level.

    Newton's steps on the log-odds of the mean, of which two levels need one, within what is known of h.

    Args:
        mass: float[k], above 0.
        levels: float[k], ascending from 0 to 1.
        share: strictly between 0 and 1.
    """
    logs, goal = np.log(mass), math.log(share / (1 - share))
    low, high, h = -math.inf, math.inf, 0.0
    for _ in range(_STEPS):
        raised = logs + h * levels
        tilted = np.exp(raised - raised.max())
        up, down = float(tilted @ levels), float(tilted @ (1 - levels))
        odds = (math.log(up) if up else -math.inf) - (math.log(down) if down else math.inf) - goal
        if abs(odds) <= _CLOSE:
            break
        low, high = (low, h) if odds > 0 else (h, high)
        middle = up / (up + down)
        slope = float(tilted @ (levels - middle) ** 2) * (up + down) / (up * down) if up and down else 0.0
        step = h - odds / slope if slope else math.nan
        h = step if low < step < high and abs(step) <= 2 * abs(h) + 10 else _between(low, high)
    top = float((logs + h * levels).max())
    return np.asarray(np.exp(h * levels - top) / np.exp(logs + h * levels - top).sum())


def _between(low: float, high: float) -> float:
    """A number between two, either of which may be infinite."""
    if math.isfinite(low) and math.isfinite(high):
        return (low + high) / 2
    return 2 * max(low, 0.0) + 1 if math.isfinite(low) else 2 * min(high, 0.0) - 1
