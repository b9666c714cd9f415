"""What many functions of one shape may hide between the points of a grid, by their growth off the real line.

The theorem of ``bernstein`` for one rho at a time, on a coarse cover, all functions in the same arrays: interpolation
at T + 1 extrema of T_T aliases as it does at zeros, so what f has beyond degree T is bounded by 4 M rho^-T / (rho - 1)
per column, times the Lebesgue constants of the others. A small bound says that nothing is narrower than the grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import ColumnRef, Expr, columns, walk
from duckdp.compiler.operators.arithmetic import constant_of
from duckdp.core import rectangles as rc
from duckdp.core.rectangles import Rectangle, Span
from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.fit import bernstein
from duckdp.smooth.fit.bernstein import Fixed, NotAnalyticError
from duckdp.smooth.fit.interpolation import zeros_lebesgue
from duckdp.smooth.fit.points import SLOT, raw_values, tensor_points

RHOS = (2.0, 1.35)  # the second for what the first does not settle
ARCS = 12  # pieces of an ellipse's edge
STRIPS, LAYERS = 8, 3  # pieces of its inside, along and across
PIECES = 3  # of every other column
MAX_COMBINATIONS = 4096  # functions times values of columns that have few


def hidden_together(
    shape: Expr, constants: Floats, axes: Sequence[Axis], steps: Sequence[int], enough: Floats
) -> Floats:
    """Bound on what each function may hide: float[m], inf where none is found.

    Args:
        shape: reads the columns, and slots.
        constants: float[m, k], the slots' values.
        axes: the columns.
        steps: of the grid, per column.
        enough: float[m], bounds that are low enough.
    """
    found = np.full(len(constants), np.inf)
    for rho in RHOS:
        open_ = np.flatnonzero(~(found <= enough))
        if len(open_):
            found[open_] = np.minimum(found[open_], _hidden(shape, constants[open_], axes, steps, rho))
    return found


def _hidden(shape: Expr, constants: Floats, axes: Sequence[Axis], steps: Sequence[int], rho: float) -> Floats:
    free = [axis for axis in axes if axis.values is None]
    none = np.full(len(constants), np.inf)
    if any(axis.kind is not Kind.NUMBER for axis in free):
        return none
    total = np.zeros(len(constants))
    try:
        fixed = _fixed(shape, constants, axes)
        for i, axis in enumerate(free):
            size = _largest(shape, fixed, free, i, rho).reshape(len(constants), -1).max(axis=1)
            others = math.prod(zeros_lebesgue(n + 1) for a, n in zip(axes, steps, strict=True) if a is not axis)
            total += 4 * size * rho ** -float(steps[list(axes).index(axis)]) / (rho - 1) * others
    except NotAnalyticError:
        return none
    return np.where(np.isnan(total), np.inf, total)


def _fixed(shape: Expr, constants: Floats, axes: Sequence[Axis]) -> Fixed:
    """Values of the parts that read slots and columns of few values only: a combination per function and value."""
    few = [axis for axis in axes if axis.values is not None]
    count = math.prod(len(axis.values or ()) for axis in few)
    if count * len(constants) > MAX_COMBINATIONS:
        raise NotAnalyticError
    names = {axis.name for axis in few}
    points = tensor_points(few, [np.arange(axis.degree, dtype=np.float64) for axis in few])
    values: dict[Expr, Floats] = {}
    todo = [shape]
    while todo:
        expr = todo.pop()
        reads = {c.name for c in columns(expr)}
        if isinstance(expr, ColumnRef) and expr.column.name.startswith(SLOT):
            values[expr] = np.repeat(constants[:, int(expr.column.name.removeprefix(SLOT))], count)
        elif (number := constant_of(expr)) is not None:
            values[expr] = np.full(count * len(constants), number)
        elif _is_listed(reads, names) and expr.kind in (Kind.NUMBER, Kind.BOOLEAN):
            values[expr] = np.ma.filled(raw_values(expr, points, constants), np.nan).ravel()
        else:
            todo += bernstein.parts_of(expr)
    return Fixed(frozenset(names), count * len(constants), values)


def _is_listed(reads: set[str], names: set[str]) -> bool:
    """Whether an expression reads columns of few values, and slots at most beside them."""
    return bool(reads & names) and all(name in names or name.startswith(SLOT) for name in reads)


def _largest(shape: Expr, fixed: Fixed, free: Sequence[Axis], variable: int, rho: float) -> Floats:
    """Largest |f| in the ellipse of one column, the others real, per combination; inf where it has none."""
    entire = not any(bernstein.is_partial(e) for e in walk(shape))
    covers = [_arcs(rho)] if entire else [_inside(rho)]
    dimensions = 2 + len(free) - 1
    rects, place, edges = {}, 2, np.linspace(-1, 1, PIECES + 1)
    nothing = Span(np.zeros(()), np.zeros(()))
    for i, axis in enumerate(free):
        along = 1 if i == variable else place
        shape_of = tuple(-1 if j == along else 1 for j in range(dimensions))
        ends = covers[0] if i == variable else (Span(edges[:-1], edges[1:]), nothing)
        real, imaginary = (Span(s.low.reshape(shape_of), s.high.reshape(shape_of)) if s.low.ndim else s for s in ends)
        place += i != variable
        half = rc.point((axis.upper - axis.lower) / 2)
        rects[axis.name] = rc.point(axis.lower) + half * (Rectangle(real, imaginary) + rc.point(1.0))
    with np.errstate(all="ignore"):
        size = bernstein.Evaluator(fixed, rects, dimensions)(shape).size()
    size = np.where(np.isnan(size), np.inf, size)
    worst = size.reshape(size.shape[0], -1).max(axis=1) if size.ndim else size
    return np.asarray(np.broadcast_to(worst, (fixed.count,)))


def _arcs(rho: float) -> tuple[Span, Span]:
    angles = np.linspace(0, np.pi, ARCS + 1)
    x, y = (rho + 1 / rho) / 2 * np.cos(angles), (rho - 1 / rho) / 2 * np.sin(angles)
    top = np.maximum(y[1:], y[:-1])
    top = np.where((angles[:-1] < np.pi / 2) & (angles[1:] > np.pi / 2), (rho - 1 / rho) / 2, top)
    return _outward(x[1:], x[:-1]), _outward(np.minimum(y[1:], y[:-1]), top)


def _inside(rho: float) -> tuple[Span, Span]:
    angles = np.linspace(0, np.pi, STRIPS + 1)
    x, y = (rho + 1 / rho) / 2 * np.cos(angles), (rho - 1 / rho) / 2 * np.sin(angles)
    height = np.maximum(y[1:], y[:-1])[:, None] * (np.arange(LAYERS + 1) / LAYERS)
    real = _outward(np.repeat(x[1:], LAYERS), np.repeat(x[:-1], LAYERS))
    return real, _outward(height[:, :-1].ravel(), height[:, 1:].ravel())


def _outward(low: Floats, high: Floats) -> Span:
    room = rc.MARGIN * (1 + np.abs(low) + np.abs(high))
    return Span(low - room, high + room)
