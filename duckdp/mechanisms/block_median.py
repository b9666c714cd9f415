"""A median of the values of blocks by the exponential mechanism on ranks: exact over all cells of the range, one draw.

One cell r of {0, ..., cells} is drawn with a chance proportional to exp(-rate (max u - u_r)), with

    u_r = max(q_r, max q - G),  q_r = -max(#{i : z_i < r}, #{i : z_i > r}),  rate = epsilon / (2 changed)

Privacy:      epsilon, pure, for the relation of ``changed``.
Assumes:      between neighbours at most ``changed`` of the m values differ (compiler/block_values.py); m is public.
Proof sketch: each value that differs moves both counts of any r by at most 1, so q_r by at most ``changed``, for every
              r, as do the maximum of all q and u_r. The rest is the proof of ``exponential``, with cells for indices.
Utility:      a median of z has q of at least -m / 2, and all of the at most cells + 1 others together are drawn with a
              chance of at most (cells + 1) exp(-rate t) if their q is lower by more than t: :meth:`BlockMedian.ranks`.
Numerics:     cells between two neighbouring values have the same q: a run is weighed once, times its length, in whole
              numbers, and the draw falls on a run and on a cell of it in one. Weights are those of ``exponential``: at
              least 2^163 of at most 2^256, so a cell has at least 2^-142 of the chance (cells < 2^48), and one draw of
              640 bits that is scaled to their sum moves its logarithm by less than 2^-490. The factor 1 - 2^-64 of the
              rate covers both, for epsilon >= 1e-9. How many bits are drawn is the same for all values.
Source:       McSherry, Talwar, "Mechanism design via differential privacy", FOCS 2007; Smith, STOC 2011.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from duckdp.core.noise import random_bits
from duckdp.core.types import NANO
from duckdp.mechanisms.exponential import exponential_weights

_DRAWN = 640  # bits of the one draw
_SAFE = 1 - Fraction(1, 2**64)  # of the rate: the rest pays for rounding


@dataclass(frozen=True, kw_only=True)
class BlockMedian:
    """The mechanism; the module says how and why.

    Attributes:
        epsilon_nano: what it costs, in 1e-9.
        changed: how many values differ between neighbours, at most.
        cells: the largest value, below 2^48.
    """

    epsilon_nano: int
    changed: int
    cells: int

    @property
    def rate(self) -> Fraction:
        """How fast a cell's chance falls with the ranks between it and the median."""
        return Fraction(self.epsilon_nano, NANO) / (2 * self.changed)

    def release(self, values: Sequence[int]) -> int:
        """A cell near the median.

        Args:
            values: int[m] in [0, cells], m > 0. Exact private values: must not be logged, stored or raised.
        """
        weighed = self.weights(values)
        draw = random_bits(_DRAWN) * sum(length * weight for _, length, weight in weighed) >> _DRAWN
        for first, length, weight in weighed:
            if draw < length * weight:
                return first + draw // weight
            draw -= length * weight
        return self.cells

    def weights(self, values: Sequence[int]) -> list[tuple[int, int, int]]:
        """The law as (first cell, number of cells, integer weight of each): exact, and as private as the values."""
        runs = list(self._runs([min(max(value, 0), self.cells) for value in values]))
        found = exponential_weights([score for _, _, score in runs], self.rate * _SAFE)
        return [(first, length, weight) for (first, length, _), weight in zip(runs, found, strict=True)]

    def ranks(self, level: float = 0.95) -> int:
        """By how much the larger of the two sides of what is drawn exceeds that of a median, with that probability."""
        return math.ceil(math.log((self.cells + 1) / (1 - level)) / float(self.rate))

    def _runs(self, values: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """(first cell, cells, q) of each run of cells with the same ranks; together they are all cells."""
        number, below, free = len(values), 0, 0
        for value, equal in sorted(Counter(values).items()):
            if value > free:
                yield free, value - free, -max(below, number - below)
            yield value, 1, -max(below, number - below - equal)
            below, free = below + equal, value + 1
        if free <= self.cells:
            yield free, self.cells + 1 - free, -max(below, number - below)
