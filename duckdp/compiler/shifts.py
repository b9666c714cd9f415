"""Arguments that differ by a constant, whose aggregates follow from one measure: x, x + 1, 2 + x, x - 0.5.

A measure of x tells of each row where x lies between its bounds. Where x + c lies between its own is the same place: so
the cells of one are those of the other, whatever the data, and only the bounds that they are read with move by c. What
is released, its sensitivity and its cost are those of x alone; the rest is post-processing.
"""

from __future__ import annotations

import math

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call, Expr, Literal, remembered
from duckdp.compiler.operators import row_of

MOST_SHIFT = 2.0**53  # beyond it whole numbers are no longer told apart


@remembered
def unshifted(expr: Expr) -> tuple[Expr, float]:
    """What a constant is added to, and the constant, 0 where there is none.

    >>> square = Call("mul", (Literal(3, Kind.NUMBER), Literal(3, Kind.NUMBER)), Kind.NUMBER)
    >>> more = Call("add", (Literal(2, Kind.NUMBER), square), Kind.NUMBER)
    >>> unshifted(Call("sub", (more, Literal(0.5, Kind.NUMBER)), Kind.NUMBER)) == (square, 1.5)
    True
    """
    signs = row_of(expr).signs if isinstance(expr, Call) else ()
    if not isinstance(expr, Call) or len(signs) != 2:
        return expr, 0.0
    for base, constant, kept, sign in zip(expr.arguments, expr.arguments[::-1], signs, signs[::-1], strict=True):
        value = constant.value if isinstance(constant, Literal) and constant.kind is Kind.NUMBER else None
        if kept != 1 or isinstance(base, Literal) or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        inner, shift = unshifted(base)
        shift += sign * value
        if math.isfinite(shift) and abs(shift) <= MOST_SHIFT:
            return inner, shift
    return expr, 0.0


def shift_between(argument: Expr | None, of: Expr | None) -> float | None:
    """What is added to one argument to give another; None: they differ by more than a constant."""
    if argument == of:
        return 0.0
    if argument is None or of is None:
        return None
    (one, up), (other, down) = unshifted(argument), unshifted(of)
    return up - down if one == other else None
