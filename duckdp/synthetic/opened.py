"""A stored synthetic table that was read: what every method gives for a payload of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duckdp.smooth.summary import SmoothSummary
from duckdp.synthetic.decode import SyntheticTable

KIND = "synthesis"  # the "kind" of every stored synthetic table


@dataclass(frozen=True, kw_only=True, eq=False)
class Opened:
    """A stored synthetic table: public.

    Attributes:
        table: its rows.
        facts: (name, value) of what its method says of itself.
        notes: what a reader of the rows must know.
        remarks: what a reader of its report must know.
        summary: the released moments that the rows were made to have; None where they are not those of a summary.
        independent: whether each row was drawn by itself, from moments at grid points: no question is asked of those.
        bars: error bars of columns and pairs, by the method ("columns", "pairs"); None where it has none.
    """

    table: SyntheticTable
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    summary: SmoothSummary | None = None
    independent: bool = False
    bars: dict[str, Any] | None = None
