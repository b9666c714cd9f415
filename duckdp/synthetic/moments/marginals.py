"""The law of each numeric column, bought beside the moments that link columns.

The method moves rows until a few moments fit; that leaves the law of one column open beyond its mean. So a part of the
charge buys T_2 .. T_M of every numeric column, one cube for all. A distribution on a fine grid is fitted to each
column's moments (``make.given``): the rows start from it.

Privacy:      a release of its own, with its own part of epsilon: ``Purse.buy`` (each T_k(u_i), clamped, lies in
              [-1, 1]). Fitting is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from duckdp.smooth.basis import chebyshev
from duckdp.synthetic.unit.charge_terms import Terms, predicted
from duckdp.synthetic.unit.features import Floats

SHARE = Fraction(3, 10)  # of epsilon
DEGREES = (16, 12, 8, 6, 4, 3, 2)  # M that are tried, the finest first
_FINE = 0.03  # deviation of a moment
_COARSEST = 0.15  # of all moments of one degree together, where only two or three degrees can be had


@dataclass(frozen=True, kw_only=True)
class Marginals:
    """T_2 .. T_M of some unit columns; used like ``Features``.

    Attributes:
        dimensions: d, all unit columns.
        columns: which of them.
        degree: M.
    """

    dimensions: int
    columns: tuple[int, ...]
    degree: int

    @property
    def count(self) -> int:
        """R, how many there are."""
        return len(self.columns) * (self.degree - 1)

    def rows(self, u: Floats) -> Floats:
        """Values of every row, float[n, R], column by column."""
        return np.concatenate([chebyshev(u[:, i], self.degree + 1)[:, 2:] for i in self.columns], axis=1)


def choose_marginals(columns: Sequence[int], dimensions: int, terms: Terms, rows: float) -> Marginals | None:
    """The largest degree whose noise is fine; a coarse one, or none, where even few moments drown. Public figures."""
    if not columns:
        return None
    for degree in DEGREES:
        noise = predicted(len(columns) * (degree - 1), Fraction(1), terms, rows)
        if noise <= (_FINE if degree > 3 else _COARSEST / len(columns) ** 0.5):
            return Marginals(dimensions=dimensions, columns=tuple(columns), degree=degree)
    return None
