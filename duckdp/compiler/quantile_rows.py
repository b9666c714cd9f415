"""What a question for quantiles says: which ones, and of which rows on which grid."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from duckdp.catalog.table import Table
from duckdp.compiler.expression import Expr
from duckdp.compiler.order_rows import OrderRows, bounded_column
from duckdp.compiler.query import Key, group_count
from duckdp.errors import ParameterError

FINEST = 2**32  # grid steps of a column of fractions
MOST_QUANTILES = 100  # of one question, in each group
MOST_PARTS = 2_000  # quantiles times groups


def plan_rows(
    table: Table, name: str, quantiles: Sequence[float], where: Expr | None, keys: tuple[Key, ...]
) -> tuple[OrderRows, tuple[Fraction, ...]]:
    """The rows that are read, and the quantiles.

    Raises:
        CatalogError: C102. QueryError: Q203, Q401. ParameterError: P107.
    """
    column = bounded_column(table, name)
    span, asked = column.interval, read_quantiles(quantiles)
    if len(asked) * group_count(keys) > MOST_PARTS:
        rule = f"are {len(asked) * group_count(keys):,} in all groups, more than {MOST_PARTS:,}. Ask for fewer."
        raise ParameterError("P107", "quantiles", len(asked), rule)
    whole = column.integral and span.upper - span.lower <= 2**46
    steps = int(span.upper - span.lower) if whole else FINEST
    return OrderRows(table=table, column=column, where=where, keys=keys, steps=max(1, steps)), asked


def read_quantiles(quantiles: Sequence[float]) -> tuple[Fraction, ...]:
    """Quantiles as fractions, as they are written.

    Raises:
        ParameterError: P107: none or too many, outside [0, 1], not ascending.
    """
    if not 0 < len(quantiles) <= MOST_QUANTILES:
        raise ParameterError("P107", "quantiles", len(quantiles), f"must be 1 to {MOST_QUANTILES} numbers.")
    found = []
    for q in quantiles:
        if not 0 <= q <= 1:  # of NaN too
            raise ParameterError("P107", "quantiles", q, "must lie between 0 and 1.")
        found.append(Fraction(str(q)).limit_denominator(10**6))
    if any(a >= b for a, b in pairwise(found)):
        raise ParameterError("P107", "quantiles", list(quantiles), "must ascend, each once.")
    return tuple(found)
