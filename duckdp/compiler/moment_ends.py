"""Where a computed moment begins and ends: of constants the one moment that it is, of bounded columns first and last.

:func:`facts.date_bounds` knows less on purpose: what follows from it (bounds of parts, domains of keys) is part of
questions that were answered before. This is asked where a moment is moved, which was refused where it is not known.
"""

from __future__ import annotations

import datetime as dt

from duckdp.compiler.expression import Call, Expr, Literal, columns, remembered
from duckdp.compiler.facts import date_bounds
from duckdp.compiler.operators import row_of


@remembered
def moment_ends(expr: Expr) -> tuple[dt.date, dt.date] | None:
    """First and last moment of a date or timestamp; None where they are not known, or beyond the calendar."""
    if isinstance(expr, Call) and (moved := row_of(expr).moved) is not None:
        known = moment_ends(expr.arguments[0])
        if known is None:
            return None
        first, last = (moved(end, expr.option) for end in known)
        return None if first is None or last is None else (first, last)
    return date_bounds(expr)


def constant_moment(expr: Expr) -> Literal | None:
    """The constant that a date or timestamp computed from constants alone is; None of others."""
    ends = moment_ends(expr) if not columns(expr) else None
    return Literal(ends[0], expr.kind) if ends is not None and ends[0] == ends[1] else None
