"""Between which numbers an expression lies on boxes of its columns, operators that jump or bend included.

For every box [a_i, b_i] the range found holds the value at each of its points: usual interval arithmetic, widened after
every operation (``rectangles``). A condition is a range of truth values, [0, 1] where it is not decided. Where nothing
is known the range is all reals: that is always right. The range is that of the values that are no NULL: a function that
is NULL where rows can be is refused when its values are looked at, and an arm of CASE that nothing reaches would be
NULL here. What skips a NULL (greatest, CASE, IS DISTINCT FROM), or turns 0 / 0 into a value (a comparison, for which it
is the largest number), allows for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, Literal, children, columns, remembered
from duckdp.compiler.facts import facts, undefined
from duckdp.compiler.operators import row_of
from duckdp.compiler.operators.spans import Rule, everything, hull, point, undecided
from duckdp.core.rectangles import Span
from duckdp.smooth.axes import Axis, Floats, as_number
from duckdp.smooth.fit.points import Points, raw_values
from duckdp.smooth.fit.terms import is_arithmetic

Bools = NDArray[np.bool_]
_DATES = (Kind.DATE, Kind.TIMESTAMP)


def enclose(function: Expr, axes: Sequence[Axis], low: Sequence[Floats], high: Sequence[Floats]) -> Span:
    """Ranges of a number over boxes.

    Args:
        function: reads these columns only.
        axes: the columns.
        low: per column float[n], lower ends of the boxes.
        high: upper ends; the same for a column of few values (positions in them).

    Returns:
        Float[n] each; infinite where nothing is known.
    """
    with np.errstate(all="ignore"):
        found = _Enclosure(axes, low, high)(function)
    count = len(low[0]) if len(low) else 1
    return Span(np.broadcast_to(found.low, (count,)), np.broadcast_to(found.high, (count,)))


class _Enclosure:
    def __init__(self, axes: Sequence[Axis], low: Sequence[Floats], high: Sequence[Floats]) -> None:
        self.axes = {axis.name: axis for axis in axes}
        self.spans = {a.name: Span(x, y) for a, x, y in zip(axes, low, high, strict=True)}
        self.known: dict[int, Span] = {}  # by identity: the function holds its parts

    def __call__(self, expr: Expr) -> Span:
        if id(expr) not in self.known:
            self.known[id(expr)] = _cleaned(self._find(expr), expr)
        return self.known[id(expr)]

    def _find(self, expr: Expr) -> Span:
        match expr:
            case Literal(value=value):
                return everything() if value is None or isinstance(value, str) else point(_number(value))
            case ColumnRef(column=c) if self.axes[c.name].values is None:
                return self.spans[c.name]
        if self._is_listed(expr):
            found = self._call(expr) if isinstance(expr, Call) and is_arithmetic(expr) else self._listed(expr)
            return self._listed(expr) if np.isnan(found.low + found.high).any() else found
        match expr:
            case Case(branches=branches, default=default):
                return self._case(branches, default)
            case Call():
                return self._call(expr)
        return everything()

    def _listed(self, expr: Expr) -> Span:
        """The values themselves, of what reads columns of few values only."""
        chosen = [self.axes[c.name] for c in columns(expr)]
        points = Points(tuple(chosen), tuple(self.spans[axis.name].low for axis in chosen))
        if expr.kind in (Kind.NUMBER, Kind.BOOLEAN):
            values = np.ma.filled(raw_values(expr, points, np.zeros((1, 0)))[0], np.nan)
            return Span(values, values)
        if isinstance(expr, ColumnRef) and expr.kind in _DATES:
            listed = np.array([math.nan if v is None else as_number(v) for v in chosen[0].values or ()])
            values = listed[points.x[0].astype(np.int64)]
            return Span(values, values)
        return self._call(expr) if isinstance(expr, Call) and expr.kind in _DATES else everything()

    def _case(self, branches: Sequence[tuple[Expr, Expr]], default: Expr | None) -> Span:
        """The hull of the arms that can be taken."""
        found = Span(np.asarray(math.inf), np.asarray(-math.inf))
        open_, decided = np.asarray(True), np.asarray(False)
        for condition, value in branches:
            holds, own = self._holds(condition), self(value)
            reached = open_ & ~decided & (holds.high > 0)
            found = _joined(found, own, reached)
            decided = decided | (open_ & (holds.low > 0))
        if default is not None:
            found = _joined(found, self(default), ~decided)
        nothing = found.low > found.high
        return Span(np.where(nothing, -math.inf, found.low), np.where(nothing, math.inf, found.high))

    def _holds(self, condition: Expr) -> Span:
        """Whether a condition is true; NULL is not."""
        if self._is_listed(condition):
            found = self._listed(condition)
            return Span(np.nan_to_num(found.low), np.nan_to_num(found.high))
        found = self(condition)
        return Span(np.minimum(found.low, 0.0), found.high) if self._may_be_null(condition) else found

    def _is_listed(self, expr: Expr) -> bool:
        return all(self.axes[c.name].values is not None for c in columns(expr))

    def _coalesce(self, arguments: Sequence[Expr]) -> Span:
        """The first that is not NULL."""
        found = self(arguments[-1])
        for argument in reversed(arguments[:-1]):
            own = self(argument)
            if self._is_listed(argument):
                missing = np.isnan(self._listed(argument).low)
                found = Span(np.where(missing, found.low, own.low), np.where(missing, found.high, own.high))
            else:
                found = hull([own, found]) if self._may_be_null(argument) else own
        return found

    def _null(self, arguments: Sequence[Expr]) -> Span:
        """Whether it is NULL."""
        return Span(np.zeros(()), np.ones(()) * self._may_be_null(arguments[0]))

    def _may_be_null(self, expr: Expr) -> bool:
        """Whether NULL is possible: rows have none in a column with bounds, nor where it is no listed value."""
        return _makes_null(expr) or any(None in (self.axes[c.name].values or ()) for c in columns(expr))

    def _call(self, expr: Call) -> Span:
        row = row_of(expr)
        own = self.KNOWING.get(row.family)
        if own is not None and expr.arguments[0].kind is not Kind.TEXT:
            return own(self, expr.arguments)
        if row.encloses is None:
            return everything()
        missing = [self._may_be_null(a) or _may_be_undefined(a) for a in expr.arguments]
        if expr.kind is Kind.BOOLEAN and any(map(_may_be_undefined, expr.arguments)):
            return undecided()
        if row.null_with == "none" and any(missing):
            return undecided()
        found = [self(a) for a in expr.arguments]
        if row.null_with == "all" and any(missing):
            return self._without_some(row.encloses, expr, found, missing)
        return row.encloses(expr, found)

    @staticmethod
    def _without_some(rule: Rule, expr: Call, found: Sequence[Span], missing: Sequence[bool]) -> Span:
        """Of those arguments that are not missing: the more there are, the larger it is, or the smaller."""
        sure = [one for one, absent in zip(found, missing, strict=True) if not absent]
        return hull([rule(expr, found), *([rule(expr, sure)] if sure else found)])

    # Operators, by family, whose rule needs more than the ranges of their arguments: what may be NULL.
    KNOWING: ClassVar[dict[str, Callable[[_Enclosure, Sequence[Expr]], Span]]] = {
        "coalesce": _coalesce,
        "is_null": _null,
    }


def _cleaned(span: Span, expr: Expr) -> Span:
    """All that the expression can be, where an operation gave no number."""
    missing = np.isnan(span.low) | np.isnan(span.high)
    if not missing.any():
        return span
    known = facts(expr).interval
    low, high = (0.0, 1.0) if expr.kind is Kind.BOOLEAN else (known.lower, known.upper)
    return Span(np.where(missing, low, span.low), np.where(missing, high, span.high))


@remembered
def _makes_null(expr: Expr) -> bool:
    """Whether it may be NULL where no column is."""
    if isinstance(expr, Literal):
        return expr.value is None
    makes = isinstance(expr, Case) and expr.default is None
    makes = makes or (isinstance(expr, Call) and row_of(expr).makes_null)
    return makes or any(map(_makes_null, children(expr)))


@remembered
def _may_be_undefined(expr: Expr) -> bool:
    """Whether 0 / 0 or the like is possible."""
    return (isinstance(expr, Call) and undefined(expr)) or any(map(_may_be_undefined, children(expr)))


def _number(value: object) -> float:
    return float(value) if isinstance(value, (bool, int, float)) else as_number(value)  # type: ignore[arg-type]


def _joined(found: Span, own: Span, where: Bools) -> Span:
    return Span(
        np.where(where, np.minimum(found.low, own.low), found.low),
        np.where(where, np.maximum(found.high, own.high), found.high),
    )
