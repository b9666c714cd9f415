"""Where an operator is not defined: by facts of its arguments as they are read, and as comparisons read them.

A comparison, a rounding or a key reads an expression to the last digit (``types.exact``): FLOATs as FLOAT, sums of
DECIMALs with their decimals. That moves an end of an interval by a last digit, and so over an end of a domain.
"""

from __future__ import annotations

from duckdp.compiler.expression import Call, Expr
from duckdp.compiler.facts import facts, undefined
from duckdp.compiler.operators import row_of
from duckdp.compiler.types import exact
from duckdp.core.interval import Interval


def leaves(expr: Expr, domain: Interval) -> bool:
    """Whether a number may lie outside a domain."""
    spans = [facts(e).interval for e in (expr, exact(expr))]
    return any(span.lower < domain.lower or span.upper > domain.upper for span in spans)


def may_be_nan(call: Call) -> bool:
    """Whether a call may be NaN for arguments that are not."""
    if undefined(call):
        return True
    found = exact(call)
    while row_of(call).role == "quotient" and isinstance(found, Call) and found.operator != call.operator:
        found = found.arguments[0]  # what rounds the quotient stands around it
    return isinstance(found, Call) and undefined(found)
