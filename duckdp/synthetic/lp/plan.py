"""What ``method := 'lp'`` is good for, and how its charge is divided: from public figures only."""

from __future__ import annotations

from duckdp.catalog.table import Column
from duckdp.synthetic.asked import Asked

MOST_COLUMNS = 3  # a grid of four has at most 37 values a column within its two million points (``make.support``)
MOST_VALUES = 30  # of a domain
PART = 20  # one part of epsilon in this many buys the patterns of NULLs
CLEAR = 3.0  # half-widths of the noisy count: it is lost with a chance of 2 half-widths, below 1 in 500


def fits_program(asked: Asked) -> bool:
    """Whether the linear program is a good default, by declaration: few columns and values, and none of them NULL.

    It is fitted to rows that have a value in every column; where one is missing, the others' laws would suffer.
    """
    columns = [asked.table.column(name) for name in asked.names]
    listed = [c.domain for c in columns if c is not None and c.domain is not None and c.lower is None]
    complete = not any(c is not None and may_miss(c) for c in columns)
    return complete and 1 <= len(columns) <= MOST_COLUMNS and all(len(domain) <= MOST_VALUES for domain in listed)


def may_miss(column: Column) -> bool:
    """Whether a declared column may be NULL, and its domain does not list NULL."""
    return column.nullable and None not in (column.domain or ())
