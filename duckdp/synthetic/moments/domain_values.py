"""How many rows have each value of every domain: functions of which a row has one per domain, 0 or 1.

A value as a unit column is -1 or 1, so a row fills a whole cube of k of them: what noise must hide grows as the number
of all values, K. As counts a row is one 1 in each of B domains, so the noise need hide B of them (``unit.buy.purse``).

Mean of a column and count tell the same: u = 2 [value] - 1, so an error of a count, over n, is half of that of a mean.
Where the counts are bought beside the other means, for the share s of the charge for both (m other functions in all,
V = (m + 1) (m + 2) / 3 of a cube, doubled moves of REPLACE left out, as they are in both), the sums of squared errors
of means are, times (n epsilon)^2 or 2 rho n^2::

    cube and Laplace     m V / (1 - s)^2 + K 4 2 B^2 / s^2         least at s : 1 - s = roots of 3 of the two
    Gaussian             m m / (1 - s)   + K 4 B / s               (REPLACE: K 4 B / 2), least at the square roots
    all in one           (m + K) V(m + K)   or   (m + K)^2

``split`` takes the least of these: two formulas over public figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from duckdp.core.types import Neighbours
from duckdp.synthetic.unit.charge_terms import Terms
from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.request import Request

PAYS = 0.9  # sum of squared errors with counts over that without: above, all means are bought in one
_PARTS = 1000  # shares are whole numbers of these


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Indicators of the values of domains: used like ``Features``.

    Attributes:
        dimensions: d, unit columns.
        groups: the unit columns of each domain's values, disjoint; the first that is above 0 is a row's value.
    """

    dimensions: int
    groups: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        """K, how many values there are."""
        return sum(map(len, self.groups))

    def rows(self, u: Floats) -> Floats:
        """Values of every row, float[n, K]: at most one is 1 in each group, whatever the row is."""
        found = []
        for group in self.groups:
            above = u[:, list(group)] > 0
            found.append(above & (np.cumsum(above, axis=1) == 1))
        return np.concatenate(found, axis=1).astype(np.float64)


def split(request: Request, terms: Terms, *, counted: bool) -> Fraction:
    """The share of the means' charge for counts of values; 0 where all means are better bought in one.

    Args:
        request: public parameters.
        terms: the relation and the kind of noise.
        counted: whether the number of rows has a share of its own, so that it is no function of the means' stage.
    """
    inside = sum(map(len, request.groups))
    if not request.groups:
        return Fraction(0)
    more = 1 + (terms.neighbours is Neighbours.ADD_REMOVE and not counted)  # |u|^2, and the count
    others, every = request.columns - inside, request.columns + more
    replaced = terms.neighbours is Neighbours.REPLACE
    if terms.gaussian:
        power, whole = 2, float(every * every)
        moved = len(request.groups) / (2 if replaced else 1)
        apart = float((others + more) ** 2), 4 * inside * moved
    else:
        power, whole = 3, every * _cube(every)
        apart = (others + more) * _cube(others + more), inside * 4 * 2 * float(len(request.groups)) ** 2
    roots = [float(part) ** (1 / power) for part in apart]
    if sum(roots) ** power > PAYS * whole:
        return Fraction(0)
    return Fraction(min(_PARTS - 1, max(1, round(_PARTS * roots[1] / sum(roots)))), _PARTS)


def _cube(size: int) -> float:
    """Variance of one of so many sums with cube noise, linf / epsilon being 1."""
    return (size + 1) * (size + 2) / 3


def consistent(means: Floats, groups: Sequence[Sequence[int]]) -> Floats:
    """Means of the groups' columns, one group after the other, moved so that each row has one value of every domain.

    Shares (1 + u) / 2 of a domain's values add up to 1: what they lack is divided among them alike, which takes part of
    their noise away.
    """
    found, at = means.copy(), 0
    for group in groups:
        own = found[at : at + len(group)]
        own += (2 - float((1 + own).sum())) / len(group)
        at += len(group)
    return found
