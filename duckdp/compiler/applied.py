"""Operators on released numbers and on values of blocks: each by its row's own rule."""

from __future__ import annotations

import numpy as np

from duckdp.compiler.expression import Call
from duckdp.compiler.operators import row_of
from duckdp.compiler.vectors import Vector, held
from duckdp.errors import QueryError


def applied(call: Call, args: list[Vector], cells: int) -> Vector:
    """An operator on vectors of numbers, NULL where it has no value.

    Args:
        call: which, with its option.
        args: of its arguments.
        cells: rows of gradients.

    Raises:
        QueryError: Q202, it works on rows only.
    """
    rule, holds = row_of(call).released, row_of(call).holds
    if holds is not None:
        rule = held(*holds(call.option))
    with np.errstate(all="ignore"):
        found = None if rule is None else rule(args, cells)
    if found is None:
        what = f"{call.operator} is outside the allow-list for released values."
        raise QueryError("Q202", f"{what} Apply it to rows, or afterwards.")
    return found
