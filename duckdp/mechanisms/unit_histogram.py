"""How many rows, or groups, a privacy unit has: a noisy histogram of units.

Every unit with c >= 1 rows (or groups) adds 1 to the bin of c; the bins end at 1, 2, 5, 10, ..., 10**6, and the last
has no end. Released: every bin + Z, P(Z = k) ~ exp(-|k| / scale), scale = 1 / epsilon. Sums of the last bins tell how
many units have more than some figure of a declaration, which is what that figure would scale or drop.

Privacy:      epsilon, pure, ADD_REMOVE of a unit with all its rows, whatever their number: it is in one bin, so l1 = 1.
              (Under REPLACE a unit is a row, and there is nothing to ask.)
Assumes:      c depends on the unit's own rows alone; a unit without a row that counts is in no bin.
Proof sketch: adding a unit adds 1 to one bin and leaves the others; Laplace mechanism. Bins are public, and so is the
              number of draws.
Numerics:     integers.
Source:       Dwork, McSherry, Nissim, Smith, TCC 2006, on the histogram of a histogram.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from duckdp.core.accountant import pure_rho
from duckdp.core.errorbars import Noise, linear_half_width
from duckdp.core.noise import laplace_scale
from duckdp.core.types import NANO, Loss
from duckdp.mechanisms.additive import add_noise

# The largest count of each bin: 1, 2, 5, 10, ..., a million.
ENDS = (*(m * 10**k for k in range(6) for m in (1, 2, 5)), 10**6)
CLEAR = 0.01  # chance that a bin without a unit is taken for one that has some


@dataclass(frozen=True)
class UnitHistogram:
    """The mechanism; the module says how and why.

    Attributes:
        epsilon_nano: epsilon in 1e-9, at least 1,000.
    """

    epsilon_nano: int

    @property
    def loss(self) -> Loss:
        """What the release costs: the whole epsilon."""
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))

    @cached_property
    def noise(self) -> Noise:
        """The noise of each bin, in units."""
        return Noise("laplace", laplace_scale(Fraction(self.epsilon_nano, NANO), 1))

    def release(self, counts: Sequence[int]) -> list[int]:
        """Noisy units per bin, int[len(ENDS) + 1]. ``counts``: exact; must not be logged, stored or raised."""
        return add_noise(list(counts), self.noise)

    def half_width(self, bins: int) -> float:
        """95% half-width of the sum of so many bins."""
        return float(linear_half_width(np.ones((bins, 1)), [self.noise] * bins)[0])

    def deviation(self, bins: int) -> float:
        """Standard deviation of the sum of so many bins."""
        return math.sqrt(bins * self.noise.variance())

    def lost(self, noisy: Sequence[int]) -> list[float | None]:
        """Share of rows (or groups) beyond each end, int[len(ENDS)], from the bins that are clear of the noise.

        A unit counts at the middle of its bin, in the last one at its beginning: an estimate, without an interval. None
        where no bin is clear.
        """
        least = self.noise.scale * math.log(len(noisy) / CLEAR)
        units = np.where(np.array(noisy) > least, np.array(noisy, dtype=np.float64), 0.0)
        begins = np.array([0, *ENDS]) + 1
        middles = (begins + np.array([*ENDS, 10**6 + 1])) / 2
        whole = float(units @ middles)
        return [float(units @ np.maximum(middles - end, 0)) / whole if whole else None for end in ENDS]
