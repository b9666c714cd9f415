"""Functions of one shape by its factors (``fit/expansion``), as approximations with the values they can have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from duckdp.compiler.expression import Call, ColumnRef, Expr, Literal
from duckdp.compiler.operators import row_of
from duckdp.compiler.operators import spans as sp
from duckdp.core.rectangles import Span
from duckdp.smooth.axes import Floats
from duckdp.smooth.basis import Basis
from duckdp.smooth.fit.coefficients import Approximation
from duckdp.smooth.fit.expansion import Enough, approximate_shape
from duckdp.smooth.fit.points import SLOT
from duckdp.smooth.shapes import Shape

MAX_TOGETHER = 256  # functions in one array
MAX_NUMBERS = 2**22  # coefficients in one array


def by_factors(
    shape: Shape, numbers: Sequence[Floats], basis: Basis, enough: Enough | None
) -> list[Approximation | None]:
    """Approximations with proved errors, None where there is no proof by factors.

    Args:
        shape: a number that reads columns of the basis, and slots.
        numbers: of every function, its slots' values.
        basis: the functions of the summary.
        enough: how small an error need not be looked at more closely.
    """
    found: list[Approximation | None] = [None] * len(numbers)
    groups: dict[tuple[float, ...], list[int]] = {}
    for i, own in enumerate(numbers):
        groups.setdefault(tuple(own[list(shape.fixed)].tolist()), []).append(i)
    step = max(1, min(MAX_TOGETHER, MAX_NUMBERS // basis.size))
    for exponents, members in groups.items():
        whole, expansion = shape.expanded(exponents, basis)
        if expansion is None:
            continue
        for start in range(0, len(members), step):
            some = members[start : start + step]
            constants = np.array([numbers[i] for i in some]).reshape(len(some), -1)
            full, error, sure = approximate_shape(expansion, constants, enough)
            spans = _spans(whole, constants)
            for k in np.flatnonzero(sure).tolist():
                found[some[k]] = Approximation(full[k], float(error[k]), True, spans[k])
    return found


def _spans(shape: Expr, constants: Floats) -> list[tuple[float, float]]:
    """Ends that no value of f goes beyond, for every row of constants."""
    with np.errstate(all="ignore"):
        found = _enclosed(shape, constants)
    ends = np.broadcast_to(found.low, (len(constants),)), np.broadcast_to(found.high, (len(constants),))
    low, high = (np.where(np.isnan(e), sign * np.inf, e) for e, sign in zip(ends, (-1, 1), strict=True))
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _enclosed(expr: Expr, constants: Floats) -> Span:
    """The range of an expression over all values of its columns, per row of constants."""
    match expr:
        case Literal(value=int() | float() as value):
            return sp.point(float(value))
        case ColumnRef(column=c) if c.name.startswith(SLOT):
            own = constants[:, int(c.name.removeprefix(SLOT))]
            return Span(own, own)
        case ColumnRef(column=c):
            return Span(np.asarray(c.interval.lower), np.asarray(c.interval.upper))
        case Call() if (rule := row_of(expr).encloses) is not None:
            return rule(expr, [_enclosed(a, constants) for a in expr.arguments])
    return sp.everything()
