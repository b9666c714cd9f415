"""A small database with nearly the same answers, chosen by the exponential mechanism (the net mechanism, SmallDB).

The net holds all multisets of m cells of a small universe. For counts q_j of the data, a noisy total N (public by now)
and e_j of m members that fulfil question j, the score of a multiset is -max_j |m q_j - N e_j|: whole numbers, in units
of 1/m of a count. One is drawn, and answers every question by N e_j / m.

Privacy:      epsilon, pure (``exponential``).
Assumes:      between neighbours every q_j moves by at most 1, up or down (``unit_counts``); questions and m are public,
              and N is released before.
Proof sketch: N is fixed, so m q_j - N e_j moves by at most m, its absolute value by no more, and the maximum of values
              that move by at most m moves by at most m: linf of every score is m. Scores are not monotone. Counts are
              cut to 0 .. 2^40 first, which moves none by more. The net follows from public figures, all of it is looked
              at, and one is drawn.
Utility:      let C be the size of the net. With probability 1 - beta the drawn score is below the best by at most
              (2 m / epsilon) ln(C / beta). Of m rows drawn from the data, n of them, some multiset has all
              |q_j / n - e_j / m| <= s = sqrt(ln(2 k) / (2 m)) for k questions, where every unit is in one cell: the
              chance that one is above t is at most 2 k exp(-2 m t^2) (Hoeffding), below 1 for every t > s, and the
              differences have finitely many values. N e_j / m is within |N - n| of n e_j / m. So all answers err by
              at most n s + |N - n| + (2 / epsilon) ln(C / beta): :meth:`Net.error`.
Numerics:     m <= 60, counts and N are at most 2^40, so scores are whole numbers below 2^46. The draw is
              that of ``exponential``, over the whole net, which is enumerated.
Source:       Blum, Ligett, Roth, "A learning theory approach to noninteractive database privacy", J. ACM 60(2), 2013;
              Dwork, Roth 2014, section 4.1. The exact draw of a net that is enumerated is ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from duckdp.errors import ParameterError
from duckdp.mechanisms.exponential import choose_exponential

MOST_NET = 200_000  # multisets of a net, all of which are looked at
MOST_SIZE = 60  # rows of a small database
LARGEST = 2**40  # a count or a total: what is above counts as this
BETA = 0.05  # how often the bound on the error may fail


@dataclass(frozen=True, eq=False)
class Net:
    """All multisets of ``size`` cells, and what they answer.

    Attributes:
        members: which cells fulfil each question, bool[k, cells].
        size: m, rows of a small database.

    Raises:
        ParameterError: P107, the net is too large.
    """

    members: NDArray[np.bool_]
    size: int

    def __post_init__(self) -> None:
        cells = self.members.shape[1]
        if not 1 <= self.size <= MOST_SIZE or not 1 <= count_net(cells, self.size) <= MOST_NET:
            rule = (
                f"must be 1 to {MOST_SIZE}, and makes at most {MOST_NET:,} databases, of {cells:,} cells. "
                "Take fewer rows, or columns of fewer values."
            )
            raise ParameterError("P107", "size", self.size, rule)

    def databases(self) -> NDArray[np.int32]:
        """Every multiset, as ascending places of cells: int[C, m]."""
        cells = range(self.members.shape[1])
        return np.array(list(combinations_with_replacement(cells, self.size)), dtype=np.int32)

    def choose(self, counts: Sequence[int], total: int, epsilon: Fraction) -> list[int]:
        """A multiset with a large score, as ascending places of its cells.

        Args:
            counts: int[k]. Exact private values: must not be logged, stored or raised.
            total: N, public, 0 to 2^40.
            epsilon: pure.
        """
        listed = self.databases()
        place = choose_exponential(self.scores(counts, total, listed), epsilon=epsilon, linf=self.size)
        return [int(cell) for cell in listed[place]]

    def scores(self, counts: Sequence[int], total: int, listed: NDArray[np.int32]) -> list[int]:
        """The score of every multiset, as private as the counts."""
        worst, cells = np.zeros(len(listed), dtype=np.int64), self.members.shape[1]
        few = cells <= self.size  # then how often each stands there is shorter than the places
        often = np.stack([(listed == cell).sum(axis=1) for cell in range(cells)], axis=1) if few else None
        for own, count in zip(self.members, counts, strict=True):
            fulfilled = own[listed].sum(axis=1, dtype=np.int64) if often is None else often @ own.astype(np.int64)
            np.maximum(worst, np.abs(self.size * min(max(0, count), LARGEST) - total * fulfilled), out=worst)
        return [-int(score) for score in worst]

    def answers(self, database: Sequence[int], total: int) -> list[float]:
        """What a small database answers: N e_j / m."""
        return [total * int(own[list(database)].sum()) / self.size for own in self.members]

    def error(self, rows: float, margin: float, epsilon: Fraction) -> float:
        """How far all answers are from the counts at most, in rows (the module's Utility).

        Args:
            rows: n, at most.
            margin: of the total.
            epsilon: of the choice.
        """
        return best_error(len(self.members), self.members.shape[1], self.size, rows, float(epsilon)) + margin


def count_net(cells: int, size: int) -> int:
    """How many multisets of so many cells there are, C."""
    return math.comb(cells + size - 1, size)


def best_error(questions: int, cells: int, size: int, rows: float, epsilon: float) -> float:
    """The error bound of a net where the total is known, in rows."""
    near = rows * math.sqrt(math.log(2 * questions) / (2 * size))
    return near + 2 / epsilon * math.log(count_net(cells, size) / BETA)


def best_size(questions: int, cells: int, rows: float, epsilon: float) -> int:
    """The m of the least error bound, of those whose net is not too large; 1 if none is."""
    sizes = [m for m in range(1, MOST_SIZE + 1) if count_net(cells, m) <= MOST_NET]
    return min(sizes, key=lambda m: best_error(questions, cells, m, rows, epsilon), default=1)
