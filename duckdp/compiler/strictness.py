"""Which columns, where they are NULL, make an expression NULL."""

from __future__ import annotations

from duckdp.compiler.expression import Call, ColumnRef, Expr
from duckdp.compiler.operators import row_of


def null_with(expr: Expr) -> frozenset[str]:
    """Names of columns that each, where NULL, make the expression NULL; a CASE promises nothing."""
    if isinstance(expr, ColumnRef):
        return frozenset([expr.column.name])
    if not isinstance(expr, Call):
        return frozenset()
    parts = [null_with(a) for a in expr.arguments]
    match row_of(expr).null_with:
        case "any":
            return frozenset().union(*parts)
        case "all":
            return frozenset.intersection(*parts)
        case "first":
            return parts[0]
    return frozenset()
