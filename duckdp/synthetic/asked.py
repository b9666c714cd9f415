"""What a call asks of a synthetic table: public figures, the same for every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from duckdp.catalog.table import Kind, Table
from duckdp.core.types import Neighbours

TABLES = "tables"  # histograms, pairs, means, correlations, models: what people do with rows
KERNELS = "kernels"  # broad smooth queries over all columns, those of the paper
ROWS = 10_000  # rows that are planned for, unless a number is asked for
MAX_ROWS = 10**7  # rows of one table
MAX_CELLS = 4_000_000  # values (rows x columns) of one table: 0.5 GB as Python objects


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A call of ``dp_synthesize`` over a protected table.

    Attributes:
        table: the protected table.
        columns: names, or None for all with bounds, a domain, or two values.
        epsilon_nano: the charge, in 1e-9.
        delta_atto: in 1e-18; spent only where Gaussian noise is taken.
        neighbours: the data set's relation.
        rows: wanted, or None for as many as are counted, or as the method makes.
        smoothness: K, derivatives of later queries, or None.
        degree: t, functions per column, or None.
        purpose: ``TABLES`` or ``KERNELS``, what the method is chosen for, and a tree's plan. No part of the question: a
            purchase that was begun, and what is stored, stay as they are.
        calendar: whether timestamps have calendar parts beside them; False for what was bought before they had.
        settled: whether a tree's noise is settled by what a stage has; False for what was bought before it was.
        target: name of the column that others are to be linked with; None or "" for none: nobody pays unasked.
    """

    table: Table
    columns: Sequence[str] | None
    epsilon_nano: int
    delta_atto: int
    neighbours: Neighbours
    rows: int | None = None
    smoothness: int | None = None
    degree: int | None = None
    target: str | None = None
    purpose: str = TABLES
    calendar: bool = True
    settled: bool = True

    @property
    def names(self) -> list[str]:
        """The columns' names: those that were given, or all that can be had."""
        return usable_columns(self.table, self.columns)

    @property
    def wanted(self) -> int:
        """Rows that were asked for, or ``ROWS``: to plan with."""
        return ROWS if self.rows is None else self.rows

    @property
    def sets_degree(self) -> bool:
        """Whether a smoothness or a degree was given."""
        return self.smoothness is not None or self.degree is not None


def usable_columns(table: Table, columns: Sequence[str] | None) -> list[str]:
    """The named columns, or all with bounds, a domain, or two values."""
    usable = (c.name for c in table.columns if c.lower is not None or c.domain is not None or c.kind is Kind.BOOLEAN)
    return list(columns or usable)
