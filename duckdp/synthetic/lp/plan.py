"""What ``method := 'lp'`` is good for, and how its charge is divided: from public figures only."""

from __future__ import annotations

from duckdp.catalog.table import Column

MOST_COLUMNS = 3  # a grid of four has at most 37 values a column within its two million points (``make.support``)
PART = 20  # one part of epsilon in this many buys the patterns of NULLs


def may_miss(column: Column) -> bool:
    """Whether a declared column may be NULL, and its domain does not list NULL."""
    return column.nullable and None not in (column.domain or ())
