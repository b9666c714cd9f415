"""NULLs that one-way tables leave in doubt: a stage that counts them once more, and what it costs. Public figures.

A count of NULLs in one of k tables has the noise of a row that is in a cell of each. Rows with a NULL mostly have few:
with a row's vector over the doubtful columns scaled to norm 1, noise is that of a single count. Together with the first
count it tells a column that has NULLs from one that has none (``unit.completeness.both_doubt``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from duckdp.synthetic.tree.contingency import predicted_deviation
from duckdp.synthetic.unit.charge_terms import Terms
from duckdp.synthetic.unit.completeness import both_doubt, gaussian_doubt, laplace_doubt

TESTS = 2  # that may take noise for NULLs, each with half of the chance
_TOLD = 0.1  # share of NULLs in the rows that is to be told from none,
_MOST_TOLD = 0.2  # and the largest that it is worth to buy
_LEAST, _MOST = 1, 5  # percents of the charge
_GAIN = 0.75  # of the share that is told without: at most this is told with it


@dataclass(frozen=True, kw_only=True)
class Noises:
    """Deviations of both counts of a column's NULLs, rows.

    Attributes:
        first: of one-way tables.
        second: of the stage.
        gaussian: whether they are Gaussian; else Laplace.
        grid: of the second's noise, rows.
    """

    first: float
    second: float
    gaussian: bool
    grid: float = 0.0

    @property
    def weights(self) -> tuple[float, float]:
        """What each count is multiplied by in the sum that is compared with the doubt."""
        if self.gaussian:
            precisions = self.first**-2, self.second**-2
            whole = math.sqrt(sum(precisions))
            return precisions[0] / whole, precisions[1] / whole
        return math.sqrt(2) / self.first, math.sqrt(2) / self.second

    def doubt(self, columns: int) -> float:
        """What that sum reaches by noise alone, but with half of the chance that is allowed."""
        first, second = self.weights
        return both_doubt(TESTS * columns, gaussian=self.gaussian, coarse=first + second * self.grid)


def first_doubt(deviation: float, columns: int, *, gaussian: bool) -> float:
    """Rows that a first count of NULLs reaches by noise alone, but with the chance that is allowed."""
    if gaussian:
        return gaussian_doubt(deviation, columns)
    return laplace_doubt(deviation / math.sqrt(2), columns)


def planned_share(columns: int, tables: int, ones: Fraction, terms: Terms, rows: int) -> Fraction:
    """Share of the charge for the stage; 0 where first counts tell as much as matters, or it would tell little.

    Args:
        columns: that may show NULL.
        tables: one-way ones.
        ones: their share of the charge.
        terms: of the charge.
        rows: expected.
    """
    if not columns:
        return Fraction(0)
    first = predicted_deviation(tables, float(ones), terms)
    alone = first_doubt(first, columns, gaussian=terms.gaussian) / rows

    def told(share: Fraction) -> float:
        second = predicted_deviation(1, float(share), terms)
        noises = Noises(first=first, second=second, gaussian=terms.gaussian)
        return noises.doubt(columns) / sum(noises.weights) / rows

    shares = [Fraction(s, 100) for s in range(_LEAST, _MOST + 1)]
    if alone <= _TOLD:
        return Fraction(0)
    share = next((s for s in shares if told(s) <= _TOLD), shares[-1])
    return share if told(share) <= min(_MOST_TOLD, _GAIN * alone) else Fraction(0)
