"""Tables of counts or sums over some of several keys, each with noise of its own, made to add up: least squares.

Of a table x over keys 1..d with n_i values each, set s of keys gives y_s = M_s x + Z_s, where M_s adds up over the keys
that are not in s and Z_s has independent entries of variance v_s. The estimates here are those of generalised least
squares: linear, unbiased, of the least variance among all such, and they add up, as they are sums of one estimate of x.

Proof sketch: with C_i = I - J / n_i the space of tables is the orthogonal sum of V_A, A a set of keys: tables that are
constant over the keys outside of A and sum to 0 over each key of A. M_s maps V_A to 0 unless A is within s, and else
onto the V_A of its own tables, distances all multiplied by the same number. As Z_s has the same variance in all
directions, the least squares fall apart into one problem for each A, in which every set s above A has seen the same
vector r_A = (C_i for i in A) M_A x with noise of covariance v_s (N_s / N_A) times one projection, independent of the
others', N_s the product of n_i over s: M_A x is what is left of M_s x when it is added up to A. So the best estimate of
r_A is their mean, weighted by w_s = 1 / (v_s N_s), over the sum of these; and

    M_t x = sum over A within t of (N_A / N_t) r_A, repeated over the keys of t outside of A.

A cell of that is a linear form of the cells of y_s: with B the keys of both t and s in which the two cells agree, the
coefficient is the sum over A within both of (N_A / N_t) w_s (1 - 1/n_i for i in A and B, -1/n_i for i in A alone), and
(n_i - 1 over both without B) (n_i over s without t) cells have it. All of it follows from sizes and variances, so the
noise of an estimate is a sum of independent terms of a known law (core/summedbars.py).

Source: the decomposition is that of the analysis of variance; for noisy marginals McKenna, Miklau, Hay,
        Machanavajjhala, "Optimizing error of high-dimensional statistical queries", VLDB 2018; Xiao, He, Zhang, Kifer,
        "An optimal and scalable matrix mechanism for noisy marginals", NeurIPS 2023; consistency: Hay, Rastogi, Miklau,
        Suciu, "Boosting the accuracy of differentially private histograms through consistency", VLDB 2010.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

_NOTHING = 1e-13  # a coefficient that is left by rounding: the largest are near 1
Floats = NDArray[np.float64]
Keys = frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Marginals:
    """Noisy tables over sets of the same keys.

    Attributes:
        sizes: how many values each key has.
        sets: the keys of each table, places in ``sizes``.
        variances: of a cell of each; infinite where a table was not released.
    """

    sizes: tuple[int, ...]
    sets: tuple[Keys, ...]
    variances: tuple[float, ...]

    def size(self, keys: Iterable[int]) -> int:
        """How many cells a table over some keys has."""
        return math.prod(self.sizes[i] for i in keys)

    @cached_property
    def weights(self) -> Mapping[Keys, tuple[float, ...]]:
        """How much each table weighs in the estimate of a part, for each set of keys that a released table has."""
        known = [s for s, v in zip(self.sets, self.variances, strict=True) if math.isfinite(v)]
        found = {}
        for part in {a for s in known for a in _below(s)}:
            raw = [
                1 / (v * self.size(s)) if part <= s and math.isfinite(v) else 0.0
                for s, v in zip(self.sets, self.variances, strict=True)
            ]
            found[part] = tuple(w / sum(raw) for w in raw)
        return found

    def terms(self, target: int) -> list[tuple[float, int, int]]:
        """What a cell of a table's estimate is made of: (coefficient, table, how many of its cells have it) each."""
        keys, found = self.sets[target], []
        for place, own in enumerate(self.sets):
            both = keys & own
            for agreed in _below(both):
                times = math.prod(self.sizes[i] - 1 for i in both - agreed) * self.size(own - keys)
                c = math.fsum(self._coefficient(place, keys, part, agreed) for part in _below(both))
                if abs(c) > _NOTHING and times:
                    found.append((c, place, times))
        return found

    def _coefficient(self, place: int, keys: Keys, part: Keys, agreed: Keys) -> float:
        share = self.size(part) / self.size(keys) * self.weights[part][place]
        return share * math.prod((i in agreed) - 1 / self.sizes[i] for i in part)

    def variance(self, target: int) -> float:
        """The variance of a cell of a table's estimate.

        >>> sets = (frozenset({0}), frozenset())
        >>> round(Marginals(sizes=(4,), sets=sets, variances=(1.0, 1.0)).variance(1), 9)
        0.8
        """
        return math.fsum(c * c * n * self.variances[place] for c, place, n in self.terms(target))

    def estimates(self, tables: Sequence[Floats | None]) -> list[Floats]:
        """All tables, so that they add up; the keys of each are within those of a table that was released.

        Args:
            tables: of each set float[n_i for i in the set, ascending]; None where it was not released.
        """
        return [self.estimate(target, tables) for target in range(len(self.sets))]

    def estimate(self, target: int, tables: Sequence[Floats | None]) -> Floats:
        """One of these tables; of the others nothing need be known.

        Args:
            target: its place; its keys are within those of a table that was released.
            tables: as of :meth:`estimates`.
        """
        released = {
            place: table.reshape([n if i in own else 1 for i, n in enumerate(self.sizes)])
            for place, (own, table) in enumerate(zip(self.sets, tables, strict=True))
            if table is not None
        }
        keys = self.sets[target]
        made = np.zeros([n if i in keys else 1 for i, n in enumerate(self.sizes)])
        for part in _below(keys):
            made = made + self._part(part, released) * (self.size(part) / self.size(keys))
        return made.reshape([self.sizes[i] for i in sorted(keys)])

    def _part(self, part: Keys, released: Mapping[int, Floats]) -> Floats:
        """The estimate of r_A."""
        made = np.zeros([n if i in part else 1 for i, n in enumerate(self.sizes)])
        for place, table in released.items():
            if (weight := self.weights[part][place]) > 0:
                gone = tuple(i for i in range(len(self.sizes)) if i not in part)
                made = made + weight * table.sum(axis=gone, keepdims=True)
        for i in part:
            made = made - made.mean(axis=i, keepdims=True)
        return made


def _below(keys: Keys) -> list[Keys]:
    """All sets of keys within a set, itself included."""
    ordered = sorted(keys)
    return [frozenset(s) for s in chain.from_iterable(combinations(ordered, n) for n in range(len(ordered) + 1))]
