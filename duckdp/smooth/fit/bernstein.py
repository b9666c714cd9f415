"""A proved bound on the interpolation error of analytic functions.

Theorem. Let f on [-1, 1]^d, in each variable separately and for any real values of the others, be analytic inside the
ellipse E_rho_i (foci +-1, half-axes (rho_i +- 1/rho_i)/2) and at most M_i there in absolute value. Interpolation I at
the tensor grid of the zeros of T_t_1, ..., T_t_d errs by at most::

    sum_i  L_1 ... L_(i-1)  4 M_i rho_i^-(t_i - 1) / (rho_i - 1)

with L_j the Lebesgue constant of the t_j zeros. A column of few values, all of them nodes, has no error and L = 1.

Proof: one variable. The Chebyshev coefficients satisfy |a_k| <= 2 M rho^-k (shift the contour of the Laurent series
       of f((w + 1/w)/2) to |w| = rho). At the zeros cos a_j, a_j = (2j - 1) pi / 2t, of T_t we have
       cos((2tm +- k) a_j) = (-1)^m cos(k a_j) and cos(t a_j) = 0, so every T_k, k >= t, equals 0 or +- some T_m, m < t,
       there: |T_k - I T_k| <= 2, and the error is at most sum_(k>=t) 2 |a_k| <= 4 M rho^-t / (1 - 1/rho).
       Several: f - I_1...I_d f = sum_i I_1...I_(i-1) (f - I_i f), and each I_j multiplies a largest absolute value by
       at most L_j.

M_i is found by complex interval arithmetic (``rectangles``): arcs that cover the ellipse's upper half (f is conjugate
symmetric), times pieces that cover the real values of the other variables. By the maximum principle the arcs are enough
for M; where an operation is not entire, rectangles that cover the inside too show that f is analytic there. The best
rho of a list is taken. Functions that bend or jump have no such bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, columns, walk
from duckdp.compiler.facts import facts
from duckdp.compiler.operators import row_of
from duckdp.compiler.operators.arithmetic import constant_of
from duckdp.core import rectangles as rc
from duckdp.core.rectangles import Rectangle, Span
from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.fit.interpolation import zeros_lebesgue
from duckdp.smooth.fit.points import raw_values, tensor_points
from duckdp.smooth.fit.terms import is_arithmetic

RHOS = np.array([1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 25.0, 60.0])
MAX_CASES = 64  # combinations of the values of columns that have few
MAX_PIECES = 2**18  # rectangles that the proof of one function looks at
MAX_EXPONENT = 1024  # of a whole power, beyond which nothing is proved
MAX_KINDS = 4  # exponents of functions that are looked at together
_ARCS = 64  # pieces of an ellipse's edge
_STRIPS, _LAYERS = 24, 6  # pieces of its inside, along and across
_LOG_ERROR = 1e-13  # per degree, relative, of an exponential of such a logarithm


class NotAnalyticError(Exception):
    """The expression has a part without a rule here."""


@dataclass(frozen=True, eq=False)
class Fixed:
    """Every combination of the values of columns that have few, and what parts of the function are there.

    Attributes:
        names: the columns.
        count: number of combinations.
        values: part of the function -> float[count]; NaN where it is not finite.
    """

    names: frozenset[str]
    count: int
    values: dict[Expr, Floats]


@dataclass(frozen=True, eq=False)
class Growth:
    """How fast a function grows off the real line: what the theorem needs for every degree.

    Attributes:
        axes: the columns.
        largest: per column float[len(RHOS)], M of the theorem for each rho; inf where f is not shown to be analytic.
            None for a column of few values.
    """

    axes: tuple[Axis, ...]
    largest: tuple[Floats | None, ...]

    def bound(self, degrees: Sequence[int]) -> float:
        """The theorem's bound for t_1, ..., t_d zeros, for the best rho; inf where there is none. Units of f."""
        errors = []
        for found, t in zip(self.largest, degrees, strict=True):
            if found is not None:
                with np.errstate(all="ignore"):  # in logarithms: rho^-(t-1) may be below the smallest float
                    bounds = np.exp(np.log(4 * found / (RHOS - 1)) - (t - 1) * np.log(RHOS))
                known = np.where(np.isfinite(found), bounds * (1 + _LOG_ERROR * t) + rc.TINY, np.inf)
                errors.append((float(np.min(np.where(found == 0, 0.0, known))), zeros_lebesgue(t)))
        total, grown = 0.0, 1.0
        for error, lebesgue in sorted(errors, key=lambda pair: -pair[0]):  # any order of the variables will do
            total += grown * error
            grown *= lebesgue
        return total * (1 + 1e-9)


def growth(function: Expr, axes: Sequence[Axis]) -> Growth | None:
    """How a function of these columns grows, or None where it has a part that is not known to be analytic.

    Args:
        function: a number.
        axes: interval columns of numbers, and values columns.
    """
    free = [axis for axis in axes if axis.values is None]
    if any(axis.kind is not Kind.NUMBER for axis in free):
        return None
    try:
        fixed = fix_values(function, axes)
        found = {axis.name: _growth_along(function, free, i, fixed) for i, axis in enumerate(free)}
    except NotAnalyticError:
        return None
    return Growth(tuple(axes), tuple(found.get(axis.name) for axis in axes))


def fix_values(function: Expr, axes: Sequence[Axis]) -> Fixed:
    """Evaluate the parts of a function that read columns of few values only, constants included.

    Sums and products of them are left to intervals: what DuckDB computes may have cancelled.
    """
    few = [axis for axis in axes if axis.values is not None]
    count = math.prod(len(axis.values or ()) for axis in few)
    if count > MAX_CASES:
        raise NotAnalyticError
    names = frozenset(axis.name for axis in few)
    points = tensor_points(few, [np.arange(axis.degree, dtype=np.float64) for axis in few])
    parts: list[Expr] = []
    todo = [function]
    while todo:
        expr = todo.pop()
        listed = expr.kind in (Kind.NUMBER, Kind.BOOLEAN) and all(c.name in names for c in columns(expr))
        if listed and not is_arithmetic(expr):
            parts.append(expr)
        else:
            todo += parts_of(expr)
    values = {}
    for part in parts:
        if (known := constant_of(part)) is not None:
            values[part] = np.full(count, known)
        else:
            values[part] = np.ma.filled(raw_values(part, points, np.zeros((1, 0)))[0], np.nan)
    return Fixed(names, count, values)


def _growth_along(function: Expr, free: Sequence[Axis], variable: int, fixed: Fixed) -> Floats:
    """Largest |f| in each ellipse of one variable, the others real: float[len(RHOS)]."""
    if free[variable].name not in {c.name for c in columns(function)}:
        return np.zeros(len(RHOS))
    entire = not any(is_partial(e) for e in walk(function))
    others = len(free) - 1
    room = MAX_PIECES / (fixed.count * len(RHOS) * max(_ARCS, _STRIPS * _LAYERS))
    if room < 1:
        raise NotAnalyticError
    pieces = int(min(16.0, room ** (1 / others))) if others else 1
    largest = _bound(function, free, variable, fixed, _arcs(), pieces)
    if not entire:
        inside = _bound(function, free, variable, fixed, _inside(), pieces)
        largest = np.where(np.isfinite(inside), np.minimum(largest, inside), np.inf)
    return np.where(np.isnan(largest), np.inf, largest)


def _bound(
    function: Expr, free: Sequence[Axis], variable: int, fixed: Fixed, cover: tuple[Span, Span], pieces: int
) -> Floats:
    """Largest |f| over a cover, per rho: float[len(RHOS)], inf where f is not shown to be analytic."""
    dimensions = 3 + len(free) - 1  # combinations, rho, piece of the variable, pieces of the others
    rects = {}
    place = 3
    edges = np.linspace(-1, 1, pieces + 1)
    for i, axis in enumerate(free):
        if i == variable:
            shape = (1, *cover[0].low.shape, *(1,) * (dimensions - 3))
            u = Rectangle(_shaped(cover[0], shape), _shaped(cover[1], shape))
        else:
            shape = tuple(-1 if j == place else 1 for j in range(dimensions))
            u = Rectangle(_shaped(Span(edges[:-1], edges[1:]), shape), Span(np.zeros(()), np.zeros(())))
            place += 1
        half = rc.point((axis.upper - axis.lower) / 2)
        rects[axis.name] = rc.point(axis.lower) + half * (u + rc.point(1.0))
    with np.errstate(all="ignore"):
        size = Evaluator(fixed, rects, dimensions)(function).size()
    size = np.broadcast_to(size, (fixed.count, len(RHOS), *size.shape[2:])) if size.ndim >= 2 else size
    worst = np.max(np.where(np.isnan(size), np.inf, size), axis=tuple(i for i in range(size.ndim) if i != 1))
    return np.asarray(np.broadcast_to(worst, RHOS.shape))


def _shaped(span: Span, shape: tuple[int, ...]) -> Span:
    return Span(span.low.reshape(shape), span.high.reshape(shape))


def _arcs() -> tuple[Span, Span]:
    """Rectangles that cover the upper half of each ellipse's boundary: float[len(RHOS), arcs]."""
    angles = np.linspace(0, np.pi, _ARCS + 1)
    wide, tall = (RHOS + 1 / RHOS) / 2, (RHOS - 1 / RHOS) / 2
    x, y = wide[:, None] * np.cos(angles), tall[:, None] * np.abs(np.sin(angles))
    return _outward(x[:, 1:], x[:, :-1]), _outward(np.minimum(y[:, 1:], y[:, :-1]), np.maximum(y[:, 1:], y[:, :-1]))


def _inside() -> tuple[Span, Span]:
    """Rectangles that cover the upper half of each ellipse: float[len(RHOS), strips * layers]."""
    angles = np.linspace(0, np.pi, _STRIPS + 1)  # an even number: the top lies between two strips
    wide, tall = (RHOS + 1 / RHOS) / 2, (RHOS - 1 / RHOS) / 2
    x, y = wide[:, None] * np.cos(angles), tall[:, None] * np.abs(np.sin(angles))
    height = np.maximum(y[:, 1:], y[:, :-1])[:, :, None] * (np.arange(_LAYERS + 1) / _LAYERS)
    rows = len(RHOS)
    left, right = (np.repeat(e, _LAYERS, axis=1) for e in (x[:, 1:], x[:, :-1]))
    return _outward(left, right), _outward(height[:, :, :-1].reshape(rows, -1), height[:, :, 1:].reshape(rows, -1))


def _outward(low: Floats, high: Floats) -> Span:
    room = rc.MARGIN * (1 + np.abs(low) + np.abs(high))
    return Span(low - room, high + room)


class Evaluator:
    """Rectangles of an expression from those of its columns."""

    def __init__(self, fixed: Fixed, rects: dict[str, Rectangle], dimensions: int) -> None:
        """Combinations of fixed values lie along the first of ``dimensions``."""
        self.fixed, self.rects, self.dimensions = fixed, rects, dimensions

    def __call__(self, expr: Expr) -> Rectangle:
        """Rectangles that hold the expression's values."""
        known = self.fixed.values.get(expr)
        if known is not None:
            return rc.point(self._spread(known))
        return self.rule(expr)

    def rule(self, expr: Expr) -> Rectangle:
        """The same from the rectangles of its parts.

        Raises:
            NotAnalyticError: there is no rule for its operation.
        """
        match expr:
            case ColumnRef(column=c) if c.name in self.rects:
                return self.rects[c.name]
            case Call():
                return self._call(expr)
            case Case():
                return self._case(expr)
        raise NotAnalyticError

    def _call(self, expr: Call) -> Rectangle:
        row = row_of(expr)
        if row.analytic is None:  # an operator that chooses, where its choice is settled
            chosen = None if row.settled is None else row.settled(expr, [facts(a) for a in expr.arguments])
            if chosen is None:
                raise NotAnalyticError
            return self(chosen)
        own = self.KNOWING.get(expr.operator)
        if own is not None:
            return own(self, *expr.arguments)
        first = expr.arguments[0]
        parts: list[Rectangle] = []
        for argument in expr.arguments:
            parts.append(parts[0] if parts and argument == first else self(argument))
        return row.analytic(expr, parts)

    def _spread(self, values: Floats) -> Floats:
        return values.reshape(-1, *(1,) * (self.dimensions - 1))

    def _power(self, under: Expr, exponent: Expr) -> Rectangle:
        base, known = self(under), constant_of(exponent)
        if known is not None and known.is_integer() and abs(known) <= MAX_EXPONENT:
            return self._whole_power(base, known)
        values = self.fixed.values.get(exponent)
        if values is not None and len(kinds := np.unique(values)) <= MAX_KINDS and _are_whole(kinds):
            found = None
            for kind in kinds.tolist():
                own = self._whole_power(base, kind)
                here = self._spread(values) == kind
                found = (
                    own
                    if found is None
                    else Rectangle(_chosen(here, own.re, found.re), _chosen(here, own.im, found.im))
                )
            if found is not None:
                return found
        return rc.exponential(self(exponent) * rc.logarithm(base))

    # Operators whose rule here needs more than the rectangles of its arguments.
    KNOWING: ClassVar[dict[str, Callable[..., Rectangle]]] = {"power": _power}

    def _whole_power(self, base: Rectangle, exponent: float) -> Rectangle:
        found = rc.whole_power(base, int(abs(exponent)))
        return found if exponent >= 0 else rc.reciprocal(found)

    def _case(self, expr: Case) -> Rectangle:
        """A CASE whose conditions depend on columns of few values only."""
        if expr.default is None:
            raise NotAnalyticError
        found = self(expr.default)
        for condition, value in reversed(expr.branches):
            known = self.fixed.values.get(condition)
            if known is None:
                raise NotAnalyticError
            holds, branch = self._spread(known) == 1, self(value)  # NULL (NaN) is not true
            found = Rectangle(_chosen(holds, branch.re, found.re), _chosen(holds, branch.im, found.im))
        return found


def _are_whole(values: Floats) -> bool:
    return bool(np.all(np.isfinite(values) & (np.rint(values) == values) & (np.abs(values) <= MAX_EXPONENT)))


def _chosen(holds: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], yes: Span, no: Span) -> Span:
    return Span(np.where(holds, yes.low, no.low), np.where(holds, yes.high, no.high))


def is_partial(expr: Expr) -> bool:
    """Whether an operation is not entire."""
    return isinstance(expr, Call) and (row := row_of(expr)).analytic is not None and not row.entire(expr)


def parts_of(expr: Expr) -> list[Expr]:
    """The expressions that a node is made of: arguments, conditions and values."""
    if isinstance(expr, Call):
        return list(expr.arguments)
    if isinstance(expr, Case):
        parts = [e for branch in expr.branches for e in branch]
        return parts if expr.default is None else [*parts, expr.default]
    return []
