"""The centre of attention of the values of blocks, with noise scaled to a smooth bound on its sensitivity.

With z[1] <= ... <= z[m] in {0, ..., cells}, s = ``changed`` and t = (m + s) // 2 + 1, in halves of a cell:

    w(k) = min over i of z[i + k - 1] - z[i] for k <= m, and cells for k > m       the shortest range that k values fill
    g(z) = z[i] + z[i + t - 1] for an i at which w(t) is attained (cells, if t > m)           twice the middle of one
    S(z) = max over k >= 0 of exp(-b k) (w(t + k s) + w(t + (k + 1) s))

Releases round(g + S / alpha * T), T of Student's law with 2 degrees of freedom, clamped to [0, 2 cells].

Privacy:      epsilon, pure, for the relation of ``changed``.
Assumes:      between neighbours at most s of the m values differ (compiler/block_values.py says why); m is public.
Proof sketch: let z' differ from z in at most s values.
              1. A range with k + s values of z has at least k of z', so w'(k) <= w(k + s); where k + s > m too, as
              nothing is wider than cells.
              2. The range around g has t values of z, of which t - s are values of z' too, and that around g' has t of
              z'. As 2 t - s > m they share a value of z': the ranges meet. So |g - g'|, twice the distance of their
              middles, is at most w(t) + w'(t) <= w(t) + w(t + s) <= S(z), and <= S(z') by symmetry; whichever of
              several ranges is taken. If t > m, g is the same for all z.
              3. By 1 a term of S(z') is at most e^b times the next one of S(z): S(z') <= e^b S(z).
              4. That is all that ``admissible_noise`` asks of g and S.
Utility:      if t + s of the values lie within r cells of a point, g / 2 is within 2 r of it, and S is at most 4 r, or
              what exp(-b k) leaves of 2 cells from that k on where they end. It does not fall with m.
Numerics:     g and w are whole numbers. S is a maximum of products of a double near exp(-b k) and a whole number below
              2^50, with relative errors below 2^-44 where it is above the 2^-160 to which ``admissible_noise`` lifts
              it (b k <= 146): that is what the margin between b and beta is for. exp(0) is 1: S >= w(t) + w(t + s).
Deviations:   the source has t = (m + s) / 2 + 1 for even m + s and S = 2 max exp(-b k) r(t + (k + 1) s), r half of w in
              cells: that is max exp(-b k) 2 w(t + (k + 1) s) here, which is larger.
Source:       Nissim, Raskhodnikova, Smith, "Smooth sensitivity and sampling in private data analysis", 2007, section 5;
              for values on a line. The proof above is our own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from duckdp.mechanisms.smooth_sensitivity import SmoothQuantile


@dataclass(frozen=True, kw_only=True)
class CenterOfAttention:
    """The mechanism; the module says how and why.

    Attributes:
        epsilon_nano: what it costs, in 1e-9.
        changed: s, how many values differ between neighbours, at most.
        cells: the largest value, at most 2^47.
    """

    epsilon_nano: int
    changed: int
    cells: int

    @cached_property
    def smooth(self) -> SmoothQuantile:
        """The noise, on a grid of half cells."""
        return SmoothQuantile(epsilon_nano=self.epsilon_nano, max_rows=1, grid_cells=2 * self.cells)

    def release(self, values: Sequence[int]) -> int:
        """A number of half cells near twice the centre, in [0, 2 cells].

        Args:
            values: int[m] in [0, cells], m > 0. Exact private values: must not be logged, stored or raised.
        """
        return self.smooth.release(*self.center(values))

    def center(self, values: Sequence[int]) -> tuple[int, float]:
        """(g, S), exact and private."""
        ordered = np.sort(np.clip(np.array(values, dtype=np.int64), 0, self.cells))
        most, step = len(ordered), self.changed
        inner = (most + step) // 2 + 1
        center = self.cells
        if inner <= most:
            first = int(np.argmin(ordered[inner - 1 :] - ordered[: most - inner + 1]))
            center = int(ordered[first] + ordered[first + inner - 1])
        widths = [
            int((ordered[k - 1 :] - ordered[: most - k + 1]).min()) if k <= most else self.cells
            for k in range(inner, max(inner, most) + 2 * step + 1, step)
        ]
        decay = self.smooth.decay
        bound = max(math.exp(-decay * k) * (near + far) for k, (near, far) in enumerate(pairwise(widths)))
        return center, bound
