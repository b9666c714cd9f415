"""Randomized response: each person reports one of k values, or a set of them, noised before it leaves their hands.

Direct:  the report is the value itself with probability p = e^epsilon / (e^epsilon + k - 1), each other value with
         probability q = 1 / (e^epsilon + k - 1).
Unary:   the report is a set: the value is in it with probability p = 1/2, each other one with probability
         q = 1 / (e^epsilon + 1), all independently.
A value outside of the k is reported as a uniform one of them, or as a set that each is in with probability q.

Privacy:      epsilon, pure and local: between any two values of the person who reports, for whoever sees the report,
              the collector too. Two reports of one person cost twice as much.
Assumes:      the k values and epsilon are public.
Proof sketch: direct: chances of a report are p or q, or 1/k from outside, and p / q = e^epsilon, q <= 1/k <= p. Unary:
              two values differ in the chances of two members: one is in with p against q, the other with q against p,
              so the ratio is at most p (1 - q) / (q (1 - p)) = (1 - q) / q = e^epsilon; an outside value and one of the
              k differ in one member: at most max(p / q, (1 - q) / (1 - p)) <= e^epsilon.
Estimates:    of n reports, C with a value, (C - n q) / (p - q) has the mean n_v, how many people have the value
              (direct: plus 1/k of those outside). C is a sum of two binomials; the interval is what a normal law of its
              mean and variance does not reject at 95%, half a count wider.
Numerics:     no float decides a chance. Direct: an offset o of 0..k-1 is drawn uniformly and kept if it is 0 or with
              probability exp(-epsilon), else drawn again: P(o = 0) : P(o = j) = e^epsilon : 1; the report is the value
              shifted by o. Unary: a fair coin is drawn, heads kept with probability exp(-epsilon), tails always, else
              again: P(heads) = 1 / (e^epsilon + 1). All is drawn before the value is looked at: neither the number of
              draws nor their time depends on it. Estimates are floats: they follow from reports alone.
Source:       Warner 1965; Kairouz, Oh, Viswanath, "Extremal mechanisms for local differential privacy", 2014 (k-ary);
              Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX
              Security 2017 (optimized unary encoding). What is outside and the samplers are our own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duckdp.core.noise_arrays import bernoullis_exp, uniforms_below
from duckdp.errors import ParameterError

Encoding = Literal["direct", "unary"]
ENCODINGS: tuple[Encoding, ...] = ("direct", "unary")
MOST_VALUES = {"direct": 1_000, "unary": 10_000}  # of a domain: what a report takes to draw is bounded
_CELLS = 4_000_000  # coins that are drawn at once
_DEVIATIONS = 1.959963984540054  # of a normal law, that 95% are within
Ints = NDArray[np.int64]
OUTSIDE = -1  # the place of a value that is none of the k


@dataclass(frozen=True, kw_only=True)
class Counted:
    """An estimate of how many have a value.

    Attributes:
        value: unbiased; below 0 or above n where noise takes it there.
        standard_error: of the value.
        low, high: 95% interval, within 0 and n.
    """

    value: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse:
    """The mechanism; the module says how and why.

    Attributes:
        encoding: "direct" or "unary".
        values: k, at least 2.
        epsilon: of each report, > 0.

    Raises:
        ParameterError: P107, values or encoding.
    """

    encoding: Encoding
    values: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise ParameterError("P107", "encoding", self.encoding, f"must be one of {', '.join(ENCODINGS)}.")
        most = MOST_VALUES[self.encoding]
        if not 2 <= self.values <= most:
            rule = f"must be 2 to {most:,} values of {self.encoding} encoding."
            raise ParameterError("P107", "domain", self.values, rule)

    @property
    def chances(self) -> tuple[float, float]:
        """(p, q): that the report has the value, and that it has another one."""
        few = math.exp(-float(self.epsilon))  # e^-epsilon
        if self.encoding == "unary":
            return 0.5, few / (1 + few)
        return 1 / (1 + (self.values - 1) * few), few / (1 + (self.values - 1) * few)

    def report(self, places: Sequence[int]) -> list[list[int]]:
        """The places that each person's report has: one of direct encoding, any number of unary.

        Args:
            places: int[n], 0..k-1, or OUTSIDE. Exact private values: must not be logged, stored or raised.
        """
        wanted = np.asarray(places, dtype=np.int64)
        if self.encoding == "direct":
            return [[place] for place in self._direct(wanted).tolist()]
        rows = max(1, _CELLS // self.values)
        return [found for start in range(0, len(wanted), rows) for found in self._unary(wanted[start : start + rows])]

    def estimate(self, reported: int, reports: int) -> Counted:
        """How many have a value.

        Args:
            reported: C, reports that have it.
            reports: n, of all.

        Raises:
            ParameterError: P107, more with the value than there are.
        """
        if not 0 <= reported <= reports:
            raise ParameterError("P107", "reports", reports, "must be at least those that have the value.")
        p, q = self.chances
        value = (reported - reports * q) / (p - q)
        have = min(max(value, 0.0), float(reports))
        error = math.sqrt(have * p * (1 - p) + (reports - have) * q * (1 - q)) / (p - q)
        low, high = self._end(reported - 0.5, reports, -1), self._end(reported + 0.5, reports, 1)
        return Counted(value=value, standard_error=error, low=low, high=high)

    def _direct(self, wanted: Ints) -> Ints:
        offsets, anything = np.zeros(len(wanted), dtype=np.int64), uniforms_below(self.values, len(wanted))
        waiting = np.arange(len(wanted))
        while len(waiting):
            drawn = uniforms_below(self.values, len(waiting))
            kept = drawn == 0
            kept[~kept] = bernoullis_exp(self.epsilon, int((~kept).sum()))
            offsets[waiting[kept]] = drawn[kept]
            waiting = waiting[~kept]
        return np.where(wanted == OUTSIDE, anything, (wanted + offsets) % self.values)

    def _unary(self, wanted: Ints) -> list[list[int]]:
        count = len(wanted) * self.values
        members, waiting = np.zeros(count, dtype=np.bool_), np.arange(count)
        while len(waiting):
            heads = uniforms_below(2, len(waiting)) == 1
            kept = ~heads
            kept[heads] = bernoullis_exp(self.epsilon, int(heads.sum()))
            members[waiting[kept]] = heads[kept]
            waiting = waiting[~kept]
        sets = members.reshape(len(wanted), self.values)
        coins = uniforms_below(2, len(wanted)) == 1
        own = np.flatnonzero(wanted != OUTSIDE)
        sets[own, wanted[own]] = coins[own]
        return [np.flatnonzero(row).tolist() for row in sets]

    def _end(self, reported: float, reports: int, side: int) -> float:
        """The count at which so many reports are just not too many (side -1), or not too few (side 1)."""
        p, q = self.chances
        step, over = p - q, reported - reports * q
        more, least = p * (1 - p) - q * (1 - q), reports * q * (1 - q)  # variance: least + x more
        edge = 0.0 if side < 0 else float(reports)
        beyond = side * (step * edge - over)
        if beyond <= _DEVIATIONS * math.sqrt(max(0.0, least + edge * more)):
            return edge  # it is not rejected there
        half = over * step + _DEVIATIONS**2 * more / 2
        root = max(0.0, half**2 - step**2 * (over**2 - _DEVIATIONS**2 * least))
        return min(max((half + side * math.sqrt(root)) / step**2, 0.0), float(reports))
