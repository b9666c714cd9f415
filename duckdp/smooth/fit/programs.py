"""An expression compiled for discs: read once, evaluated for many constants at once, at points and off the real line.

One evaluation gives everything: at a point the centre is f's value and the radius bounds what computing it may err; on
discs that cover an ellipse's edge, centre and radius bound |f| there (``bernstein`` has the theorem that uses it). No
engine is asked. Parts that the rules have in common are evaluated once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call, ColumnRef, Expr, Literal
from duckdp.compiler.operators import row_of
from duckdp.core import discs as ds
from duckdp.core.discs import Discs
from duckdp.core.rectangles import MARGIN, Floats
from duckdp.smooth.axes import Axis
from duckdp.smooth.fit.interpolation import rule_for
from duckdp.smooth.fit.points import SLOT
from duckdp.smooth.fit.separate import reads

_PLACE = 2.0**-46  # of a column's bounds: how far a node may lie from where it should (proved.own_errors)
_SINGULAR = {"div": 1}  # operators that are entire where this argument is constant
Rule = Callable[[Call, Sequence[Discs]], Discs]


@dataclass(frozen=True, slots=True)
class Step:
    """One value of a program: a column, a slot, a number, or a rule applied to earlier values."""

    column: str = ""
    slot: int = -1
    value: float = 0.0
    rule: Rule | None = None
    call: Call | None = None
    of: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """An expression as steps, the last its value.

    Attributes:
        steps: each reads earlier ones.
        entire: whether it has no singularity, whatever its numbers are.
    """

    steps: tuple[Step, ...]
    entire: bool

    def __call__(self, places: Mapping[str, Discs], constants: Floats, dimensions: int) -> Discs:
        """Values: discs[m, ...] for float[m, k] constants, places having ``dimensions`` axes after the first."""
        shape = (-1, *(1,) * dimensions)
        found: list[Discs] = []
        for step in self.steps:
            if step.rule is not None and step.call is not None:
                found.append(step.rule(step.call, [found[i] for i in step.of]))
            elif step.column:
                found.append(places[step.column])
            elif step.slot >= 0:
                found.append(ds.point(constants[:, step.slot].reshape(shape)))
            else:
                found.append(ds.point(step.value))
        return found[-1]


def compile_discs(function: Expr) -> Program | None:
    """The program of a number, or None where an operation has no rule on discs."""
    steps: list[Step] = []
    known: dict[Expr, int] = {}
    entire = True

    def add(expr: Expr) -> int | None:
        nonlocal entire
        if expr in known:
            return known[expr]
        step: Step | None = None
        match expr:
            case Literal(value=int() | float() as value, kind=Kind.NUMBER) if not isinstance(value, bool):
                step = Step(value=float(value))
            case ColumnRef(column=c) if c.name.startswith(SLOT):
                step = Step(slot=int(c.name.removeprefix(SLOT)))
            case ColumnRef(column=c) if c.kind is Kind.NUMBER:
                step = Step(column=c.name)
            case Call():
                row, of = row_of(expr), [add(a) for a in expr.arguments]
                if row.discs is not None and None not in of:
                    entire = entire and (row.entire(expr) or not reads(_singular(expr)))
                    step = Step(rule=row.discs, call=expr, of=tuple(i for i in of if i is not None))
        if step is None:
            return None
        steps.append(step)
        known[expr] = len(steps) - 1
        return known[expr]

    return None if add(function) is None else Program(tuple(steps), entire)


@dataclass(frozen=True, eq=False)
class Cover:
    """Discs that cover real or complex places of a column, in its own units.

    Attributes:
        real: cover every value that rows can have.
        edges: cover the upper half of each ellipse's edge, [rhos * arcs]; None for a column of few values.
        inside: cover all of them, ring by ring: the discs of ring j lie between ellipses j - 1 and j.
        rhos: of the ellipses.
    """

    real: Discs
    edges: Discs | None = None
    inside: Discs | None = None
    rhos: Floats = field(default_factory=lambda: np.zeros(0))


@lru_cache(maxsize=256)
def nodes_of(axis: Axis) -> Discs:
    """The nodes of a column's interpolation: exact where values are listed, else within the rounding of their place."""
    x = rule_for(axis).x
    if axis.values is not None:
        return ds.point(_listed(axis)[x.astype(np.int64)])
    room = _PLACE * max(abs(axis.lower), abs(axis.upper), axis.upper - axis.lower)
    return Discs(x.astype(np.complex128), np.full(len(x), room))


@lru_cache(maxsize=256)
def cover_of(axis: Axis, rhos: tuple[float, ...], arcs: int) -> Cover:
    """Discs over a column's ellipses, ``arcs`` along each upper half.

    Proof: z = cosh(t + i a) runs over the ellipse rho = e^t. In a cell of half-sides h, k about (t, a) no place is
           farther from its middle's image than sqrt(h^2 + k^2) times the largest |sinh| there, and |sinh(t + i a)|^2 =
           sinh^2 t + sin^2 a <= sinh^2(t + h) + min(1, |sin a| + k)^2.
    """
    if axis.values is not None:
        return Cover(ds.point(_listed(axis)))
    half = math.pi / arcs / 2
    angles = np.asarray((2.0 * np.arange(arcs) + 1) * half, dtype=np.float64)
    logs = np.log(np.array(rhos))
    starts = np.concatenate([[0.0], logs[:-1]])
    edges = _cells(logs[:, None], np.zeros((len(logs), 1)), angles, half)
    inside = _cells((starts + logs)[:, None] / 2, (logs - starts)[:, None] / 2, angles, half)
    real = _cells(np.zeros((1, 1)), np.zeros((1, 1)), angles, half)
    return Cover(_placed(axis, real), _placed(axis, edges), _placed(axis, inside), np.array(rhos))


def joined(parts: Sequence[Discs]) -> Discs:
    """Discs side by side: one dimension."""
    return Discs(np.concatenate([p.centre.ravel() for p in parts]), np.concatenate([_radii(p) for p in parts]))


def _radii(part: Discs) -> Floats:
    return np.broadcast_to(part.radius, part.centre.shape).ravel()


def _cells(logs: Floats, tall: Floats, angles: Floats, half: float) -> Discs:
    """The discs about cells of (t, a): [n, arcs] raveled."""
    centre = np.cosh(logs + 1j * angles)
    slope = np.hypot(np.sinh(logs + tall), np.minimum(1.0, np.abs(np.sin(angles)) + half))
    radius = np.hypot(tall, half) * slope * (1 + 1e-9)
    return Discs(centre.ravel(), radius.ravel())


def _placed(axis: Axis, u: Discs) -> Discs:
    """From [-1, 1] to the column's units, with room for rounding."""
    scale = (axis.upper - axis.lower) / 2
    room = 2.0**-44 * max(abs(axis.lower), abs(axis.upper), 2 * scale) * (1 + np.abs(u.centre))
    return Discs(np.asarray(axis.lower + scale * (u.centre + 1)), np.asarray(scale * u.radius * (1 + MARGIN) + room))


def _listed(axis: Axis) -> Floats:
    return np.array([float(v) for v in axis.values or ()])  # type: ignore[arg-type]


def _singular(call: Call) -> Expr:
    """What must be constant for an operation that has singularities to have none in the columns."""
    return call.arguments[_SINGULAR[call.operator]] if call.operator in _SINGULAR else call
