"""The mean of the values of blocks, with Laplace noise: one unit changes one of m values.

Releases sum(z) + Z of z in {0, ..., cells}^m, with P(Z = k) ~ exp(-|k| / scale) on the integers; m is public, so what
is made of it, (sum + Z) / m, costs nothing more.

Privacy:      epsilon, pure, for the relation of ``changed``.
Assumes:      between neighbours at most ``changed`` of the m values differ (compiler/block_values.py): 1 where a
              unit comes or goes, 2 where one is replaced. Every value lies in {0, ..., cells}, and may move anywhere.
Proof sketch: the sum changes by at most changed * cells, the l1 sensitivity that the noise is scaled to.
Numerics:     whole numbers; scale and sampler as in ``additive``.
Source:       Smith, "Privacy-preserving statistical estimation with optimal convergence rates", STOC 2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from duckdp.core.errorbars import Noise
from duckdp.core.noise import laplace_scale
from duckdp.core.types import NANO
from duckdp.mechanisms.additive import add_noise


@dataclass(frozen=True, kw_only=True)
class BlockMean:
    """The mechanism; the module says how and why.

    Attributes:
        epsilon_nano: what it costs, in 1e-9.
        changed: how many values differ between neighbours, at most.
        cells: the largest value.
    """

    epsilon_nano: int
    changed: int
    cells: int

    @cached_property
    def noise(self) -> Noise:
        """The law of what is added to the sum, in cells.

        Raises:
            ParameterError: P103, epsilon is too small.
        """
        return Noise("laplace", laplace_scale(Fraction(self.epsilon_nano, NANO), self.changed * self.cells))

    def release(self, values: Sequence[int]) -> int:
        """The noisy sum of the values, in cells; any whole number.

        Args:
            values: int[m] in [0, cells]. Exact private values: must not be logged, stored or raised.
        """
        return add_noise([sum(min(max(value, 0), self.cells) for value in values)], self.noise)[0]
