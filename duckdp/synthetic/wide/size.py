"""Where |u|^2 lies: its median, chosen privately among public marks.

A noisy average of |u|^2 / d has the noise of a function of range d, though rows' sizes differ by a small part of d; the
median needs only the order of the rows. A wrong mark costs much, so it is asked for only where epsilon times the rows
tells MARKS marks apart (``plan``). The window of z (``features``) is laid about it.

Privacy:      ``choose_best`` on the scores q_k = -|sum of sign(|u|^2 - t_k)|, marks t_k public.
Assumes:      a privacy unit is one row.
Proof sketch: a row adds -1 or 1 to each sum: replacing it moves q_k by at most 2, adding or removing it by at most 1.
Numerics:     integers; the comparison is a function of one row alone, whatever floating point did to |u|^2.
Source:       the exponential mechanism for quantiles (Smith 2011), with the noisy maximum of ``choose``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from duckdp.core.types import Neighbours
from duckdp.synthetic.wide.choose import choose_best
from duckdp.synthetic.wide.features import Floats, print_square
from duckdp.synthetic.wide.release import BITS, Purse, Sums

MARKS = 16


@dataclass(frozen=True, kw_only=True)
class Marks:
    """The functions sign(|u|^2 - t_k), used like ``Features``; t_k = d (k + 1/2) / MARKS."""

    dimensions: int

    @property
    def count(self) -> int:
        """R."""
        return MARKS

    @cached_property
    def places(self) -> Floats:
        """t, float[R]."""
        return np.asarray((np.arange(MARKS) + 0.5) * (self.dimensions / MARKS), dtype=np.float64)

    def rows(self, u: Floats) -> Floats:
        """-1 or 1 for every row, float[n, R]."""
        return np.where(np.einsum("ij,ij->i", u, u)[:, None] > self.places, 1.0, -1.0)

    def print_sql(self, relation: str, columns: Sequence[str], bits: int) -> str:
        """One SELECT that gives R integers, as ``Features.print_sql`` does."""
        scan = f"(SELECT {print_square(columns)} AS dp_s FROM {relation} AS s)"
        steps = (
            f"CASE WHEN s.dp_s > CAST({float(t)!r} AS DOUBLE) THEN {1 << bits} ELSE {-(1 << bits)} END"
            for t in self.places
        )
        sums = ", ".join(f"coalesce(system.main.sum(CAST({step} AS HUGEINT)), 0)" for step in steps)
        return f"SELECT {sums} FROM {scan} AS s"


def choose_size(dimensions: int, purse: Purse, sums: Sums, share: Fraction) -> float:
    """A mark near the median of |u|^2.

    Args:
        dimensions: d.
        purse: pays ``share`` of the charge.
        sums: exact sums of the marks' functions; called once.
        share: of the charge.
    """
    marks = Marks(dimensions=dimensions)
    _, exact = sums(marks, BITS)
    linf = (2 if purse.neighbours is Neighbours.REPLACE else 1) << BITS
    at = choose_best([-abs(q) for q in exact], epsilon=purse.take_epsilon(share), linf=linf)
    return float(marks.places[at])
