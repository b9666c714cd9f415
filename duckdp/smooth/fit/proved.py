"""Errors that are proved without looking between points: of polynomials, and where all values of f are listed.

One answer and many at once decide here alone what is proved so. f means its value in exact arithmetic. What DuckDB
computes differs from it, by cancellation much: ((x + 1e6) - 1e6) errs by 1e-10 for x in [0, 1]. How much is bounded by
interval arithmetic at each point (``rectangles``), from the numbers of the text and the values of the columns up to f.
Where an operation jumps or has no rule there, DuckDB's value is what f means, as far as only listed values are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call, ColumnRef, Expr, Literal, columns
from duckdp.compiler.operators import row_of
from duckdp.core import rectangles as rc
from duckdp.core.rectangles import Rectangle, Span
from duckdp.smooth.axes import Floats
from duckdp.smooth.basis import ULP
from duckdp.smooth.fit.bernstein import Evaluator, Fixed, NotAnalyticError
from duckdp.smooth.fit.interpolation import Rule, rounding_of
from duckdp.smooth.fit.parts import Part
from duckdp.smooth.fit.points import SLOT, Points, raw_values

UNDERFLOW = 1e-300  # more than what any few products lose below the smallest floats
_OWN = 2.0**-46  # relative error of an operation of DuckDB's that has no rule here


def proved_error(
    part: Part,
    *,
    polynomial: bool,
    complete: bool,
    error: float,
    scales: tuple[float, float],
    lost: float,
    own: tuple[float, float],
) -> float | None:
    """A proved bound on |f - p|, p the interpolant less what the basis lacks, or None.

    Args:
        part: the functions of f's columns.
        polynomial: whether f is a polynomial that interpolation meets exactly.
        complete: whether the grid on which f and p were compared holds every value that rows can have.
        error: largest |f - p| there.
        scales: largest |f| at the nodes of interpolation, and on the grid.
        lost: sum of the coefficients that the basis lacks.
        own: bounds on what computing f adds (:func:`own_errors`), at the nodes and on the grid.
    """
    if polynomial and math.isfinite(own[0]):
        return lost + rounding(part, scales[0], own[0])
    if complete and math.isfinite(own[1]):
        return error + rounding(part, max(scales), None) + own[1]
    return None


def rounding(part: Part, scale: float, exact: float | None = None, rules: Sequence[Rule] | None = None) -> float:
    """Bound on what floating point adds: to the coefficients, to f on the nodes, to the place of u.

    Args:
        part: the columns and how they are interpolated.
        scale: largest |f| found.
        exact: bound on the error of f's values on the nodes, where known.
        rules: of interpolation, if not the part's.
    """
    rules = part.rules if rules is None else rules
    grown = math.prod(rule.lebesgue for rule in rules)
    own = 2.0**-44 * scale if exact is None else exact + 2.0**-46 * scale
    moved = sum(4 * ULP * axis.degree**2 for axis in part.axes if axis.values is None)  # |T_r'| <= r^2, u within 4 ULP
    return grown * own + (rounding_of(rules) + grown * moved) * scale + UNDERFLOW


def own_error(function: Expr, points: Points, *, complete: bool = False) -> float:
    """Bound on |f computed - f at the exact point| over points; inf where none is found. Units of f.

    Args:
        function: a number.
        points: nodes, or a grid.
        complete: every value that rows can have is among them: they are exact.
    """
    return float(own_errors(function, points, np.zeros((1, 0)), complete=complete)[0])


def own_errors(shape: Expr, points: Points, constants: Floats, *, complete: bool = False) -> Floats:
    """As :func:`own_error` for every row of constants, the values of the slots: float[m]."""
    try:
        with np.errstate(all="ignore"):
            found = _AtPoints(points, constants, complete=complete)(shape).re
            width = np.broadcast_to(np.atleast_2d(found.high - found.low), (len(constants), max(1, _count(points))))
    except NotAnalyticError:
        return np.full(len(constants), np.inf)
    worst = width.max(axis=1)
    return np.where(np.isnan(worst), np.inf, worst)


def _count(points: Points) -> int:
    return len(points.x[0]) if points.x else 1


class _Listed(dict[Expr, Any]):
    """What DuckDB computes of parts that read columns of listed values only, when it is asked for: float[m, n]."""

    def __init__(self, find: Callable[[Expr], Floats | None]) -> None:
        super().__init__()
        self._find = find

    def get(self, key: Expr, default: object = None) -> Any:  # noqa: ARG002 - None, as it is used
        if key not in self:
            self[key] = self._find(key)
        return self[key]


class _AtPoints(Evaluator):
    """Intervals that hold both f computed and f in exact arithmetic, at points."""

    def __init__(self, points: Points, constants: Floats, *, complete: bool) -> None:
        self.points, self.constants = points, constants
        self.listed = {a.name for a in points.axes if complete or a.values is not None}
        rects = {}
        for axis, x in zip(points.axes, points.x, strict=True):
            if axis.kind is not Kind.NUMBER:
                continue
            if axis.values is not None:
                values = np.array([math.nan if v is None else float(v) for v in axis.values])  # type: ignore[arg-type]
                rects[axis.name] = rc.point(values[x.astype(np.int64)])
                continue
            room = 0.0 if complete else 2.0**-46 * max(abs(axis.lower), abs(axis.upper), axis.upper - axis.lower)
            rects[axis.name] = Rectangle(Span(x - room, x + room), Span(np.zeros(()), np.zeros(())))
        super().__init__(Fixed(frozenset(), 0, _Listed(self._known)), rects, 2)

    def __call__(self, expr: Expr) -> Rectangle:
        match expr:
            case Literal(value=int() | float() as value) if not isinstance(value, bool):
                return rc.point(float(value))
            case ColumnRef(column=c) if c.name.startswith(SLOT):
                return rc.point(self.constants[:, [int(c.name.removeprefix(SLOT))]])
        try:
            found = self._bent(expr) if isinstance(expr, Call) else None
            found = self.rule(expr) if found is None else found
        except NotAnalyticError:
            found = None
        if found is not None and not np.isnan(found.re.low + found.re.high).any():
            return found
        known = self.fixed.values.get(expr)
        if known is None:
            if found is None:
                raise NotAnalyticError
            return found
        room = _OWN * np.abs(known)
        return Rectangle(Span(known - room, known + room), Span(np.zeros(()), np.zeros(())))

    def _bent(self, expr: Call) -> Rectangle | None:
        """Operations that bend, of real numbers."""
        row = row_of(expr)
        if row.encloses is None or not row.continuous:
            return None
        found = row.encloses(expr, [self(argument).re for argument in expr.arguments])
        return Rectangle(found, Span(np.zeros(()), np.zeros(())))

    def _spread(self, values: Floats) -> Floats:
        return values

    def _known(self, expr: Expr) -> Floats | None:
        names = {c.name for c in columns(expr)}
        if expr.kind not in (Kind.NUMBER, Kind.BOOLEAN) or not all(
            n in self.listed or n.startswith(SLOT) for n in names
        ):
            return None
        return np.asarray(np.ma.filled(raw_values(expr, self.points, self.constants), np.nan))
