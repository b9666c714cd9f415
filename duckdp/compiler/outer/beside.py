"""Columns that stand beside released figures where several of them are computed with: ends at other levels, and noise.

Public figures and post-processing only. For a figure whose noise in each row is an independent copy of one law:

    reach    q(m) <= reach * sqrt(m) for every m up to the number of rows, q(m) the quantile of the size of a sum of m

so that a sum over m rows is off by more with probability 1 - level at most. Proof: q grows with m (the noises are
symmetric and unimodal, so a sum with one term more is spread wider, Anderson 1955), and between two neighbours of the
numbers that are looked at it is at most that of the larger, which is compared with the smaller's square root.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from duckdp.compiler.evaluate import evaluate, noise_of
from duckdp.compiler.intervals import LEVEL
from duckdp.compiler.outer.block import column_name
from duckdp.compiler.plan import Plan
from duckdp.core.errorbars import Noise
from duckdp.core.summedbars import Summed, linear_half_width

_EACH = 8  # so many sums are looked at one by one, and from there on every half as long again
_STEP = 1.5  # how many times as large the next number of terms is


@dataclass(frozen=True, kw_only=True, order=True)
class Beside:
    """What stands beside a figure.

    Attributes:
        part, place: which figure.
        together: intervals of how many figures hold at once.
        summed: for sums over rows (its value before rounding, and its reach); else its ends.
    """

    part: int
    place: int
    together: int
    summed: bool

    @property
    def names(self) -> tuple[str, str]:
        """The names of the two columns that stand there."""
        stem = column_name(self.place)
        if self.summed:
            return f"{stem}_middle", f"{stem}_reach_{self.together}"
        return f"{stem}_least_{self.together}", f"{stem}_most_{self.together}"


def beside_columns(plan: Plan, payload: str, wanted: Sequence[Beside]) -> list[list[float | None]]:
    """Two columns for each, over the rows of the part's answer; None where there is no such end, or no such reach.

    Args:
        plan: of the part, as it was released.
        payload: what was.
        wanted: of this part.
    """
    answers = {m: evaluate(plan, payload, level=_level(m)) for m in {b.together for b in wanted}}
    found: list[list[float | None]] = []
    for one in wanted:
        column = answers[one.together][one.place]
        rows = len(column.values)
        if not one.summed:
            ends = (column.low, column.high)
            found += [[None] * rows if e is None else [_known(v) for v in e.tolist()] for e in ends]
            continue
        reach = _reach(plan, one.place, rows, one.together)
        middle = column.centre
        found.append([None] * rows if middle is None else [_known(v) for v in middle.tolist()])
        found.append([reach] * rows)
    return found


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _level(together: int) -> float:
    return 1 - (1 - LEVEL) / together


def _reach(plan: Plan, place: int, rows: int, together: int) -> float | None:
    """The reach of a figure; None where rows have noise in common, or were chosen by it."""
    if plan.tau is not None or plan.query.min_units is not None or not plan.measures:
        return None
    found = noise_of(plan, place)
    if found is None or not all(isinstance(law, Noise) for law in plan.shown if law is not None):
        return None
    coefficients, laws = found
    terms = tuple((float(c), law) for c, law in zip(coefficients, laws, strict=True) if c and isinstance(law, Noise))
    return _reach_of(terms, rows, _level(together)) if terms else 0.0


@lru_cache(maxsize=256)
def _reach_of(terms: tuple[tuple[float, Noise], ...], rows: int, level: float) -> float:
    sizes, m = [1], 1
    while m < rows:
        m = m + 1 if m < _EACH else math.ceil(m * _STEP)
        sizes.append(m)
    coefficients = np.array([[abs(c)] for c, _ in terms])
    largest, before = 0.0, 0
    for size in sizes:
        laws = [Summed(((1.0, law, size),)) for _, law in terms]
        width = float(linear_half_width(coefficients, laws, level)[0])
        largest, before = max(largest, width / math.sqrt(before + 1)), size
    return largest
