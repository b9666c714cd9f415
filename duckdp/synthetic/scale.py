"""How many rows a table gets where nobody said, and what a row of it stands for: from released counts alone."""

from __future__ import annotations

from duckdp.catalog.table import Table
from duckdp.synthetic.asked import MAX_CELLS

MOST = 100_000  # rows, unless a number is asked for: a few seconds to make, some megabytes in the ledger


def default_rows(count: float, columns: int) -> int:
    """As many rows as the noisy count says, within bounds."""
    return max(1, min(round(count), MOST, MAX_CELLS // columns))


def counted_things(table: Table, *, units: bool) -> str:
    """What the rows of a table stand for: units, where one row of each counts."""
    return f"values of {table.unit_key}" if units and table.unit_key is not None else "rows"


def tell_default() -> str:
    """A line of ``explain`` for calls that leave the number of rows to the release."""
    return f"rows: as many as the noisy count says, at most {MOST:,}"


def tell_scale(rows: int, count: float, things: str, table: str) -> str:
    """A sentence for who counts the rows.

    >>> tell_scale(10_000, 48_871.0, "rows", "adult")
    'each row stands for 4.887 of the about 48,871 rows of adult: counts and sums are to be multiplied by that'
    >>> tell_scale(48_871, 48_871.0, "rows", "adult")
    'as many rows as adult has rows, by the noisy count'
    """
    if rows == round(count):
        return f"as many rows as {table} has {things}, by the noisy count"
    each = f"each row stands for {count / rows:.4g} of the about {round(count):,} {things} of {table}"
    return f"{each}: counts and sums are to be multiplied by that"
