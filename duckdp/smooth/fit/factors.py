"""Factors of a function: their interpolants and proved errors, for many numbers at once (``expansion``)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.compiler.expression import ColumnRef, Expr, walk
from duckdp.core.discs import Discs
from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.fit.interpolation import Rule, coefficients_from, zeros_lebesgue
from duckdp.smooth.fit.parts import Part
from duckdp.smooth.fit.points import SLOT
from duckdp.smooth.fit.programs import Program, compile_discs, cover_of, joined, nodes_of
from duckdp.smooth.fit.proved import UNDERFLOW, rounding
from duckdp.smooth.fit.terms import degrees

MAX_PLACES = 2**20  # discs of one evaluation
MAX_READ = 2  # columns of a factor
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Factor:
    """A function of few columns.

    Attributes:
        axes: its columns.
        program: its values.
        exact: it is a polynomial that interpolation meets.
    """

    axes: tuple[Axis, ...]
    program: Program
    exact: bool


@dataclass(frozen=True, eq=False)
class Known:
    """A factor for m rows of numbers.

    Attributes:
        coefficients: float[m, t_1, ...], of its interpolant.
        error: float[m], how far that may be from it.
        size: float[m], no value is larger.
    """

    coefficients: Floats
    error: Floats
    size: Floats

    def select(self, chosen: Rows) -> Known:
        """The same of some rows of numbers."""
        return Known(self.coefficients[chosen], self.error[chosen], self.size[chosen])


def factor_of(expr: Expr, axes: Sequence[Axis]) -> Factor | None:
    """A factor ready for any numbers, or None where it is not known to be analytic."""
    program = compile_discs(expr)
    if program is None or len(axes) > MAX_READ:
        return None
    slots = frozenset(n.column.name for n in walk(expr) if isinstance(n, ColumnRef) and n.column.name.startswith(SLOT))
    listed = frozenset(a.name for a in axes if a.values is not None)
    found = degrees(expr, slots | listed)
    exact = found is not None and all(found.get(a.name, 0) < a.degree for a in axes)
    return Factor(tuple(axes), program, exact)


@lru_cache(maxsize=256)
def _tensor(axes: tuple[Axis, ...]) -> Part:
    """The full tensor set of some columns."""
    shape = tuple(a.degree for a in axes)
    indices = np.stack([i.ravel() for i in np.indices(shape)], axis=1).astype(np.int16) if axes else np.zeros((1, 0))
    return Part(axes, np.arange(len(indices)), indices.astype(np.int16))


@dataclass(frozen=True, eq=False)
class _Ready:
    """What the values of a factor at ``times`` as many zeros need beside them, for one cover.

    Attributes:
        axes: of so many zeros.
        rules: of interpolation there.
        places: discs per column of every product of places: nodes, real values, rings of each column in turn.
        rings: per column that has any: (its place, rhos, numbers of real discs, weights of the theorem, the other
            columns' Lebesgue constants).
        one: rounding per unit of the function's size.
        grown: the same per unit of what evaluating adds.
    """

    axes: tuple[Axis, ...]
    rules: tuple[Rule, ...]
    places: tuple[tuple[Discs, ...], ...]
    rings: tuple[tuple[int, Floats, list[int], Floats, float], ...]
    one: float
    grown: float

    @cached_property
    def joined(self) -> tuple[Discs, list[int]]:
        """All discs of one column side by side, and where each kind begins."""
        ends = np.cumsum([0, *(own[0].centre.size for own in self.places)]).tolist()
        return joined([own[0] for own in self.places]), ends


@lru_cache(maxsize=4096)
def _ready(factor: Factor, rhos: tuple[float, ...], arcs: int, times: int) -> _Ready:
    axes = tuple(a if a.values is not None else replace(a, degree=times * a.degree) for a in factor.axes)
    part = _tensor(axes)
    covers = [cover_of(axis, rhos, arcs) for axis in axes]
    places = [tuple(nodes_of(axis) for axis in axes), tuple(c.real for c in covers)]
    rings = []
    lebesgue = [1.0 if c.edges is None else zeros_lebesgue(a.degree) for a, c in zip(axes, covers, strict=True)]
    for i, (axis, cover) in enumerate(zip(axes, covers, strict=True)):
        if cover.edges is None or cover.inside is None or factor.exact:
            continue
        ring = cover.edges if factor.program.entire else cover.inside
        places.append(tuple(ring if j == i else c.real for j, c in enumerate(covers)))
        others = math.prod(v for j, v in enumerate(lebesgue) if j != i)
        rings.append((i, cover.rhos, [c.real.centre.size for c in covers], _weights(rhos, axis.degree), others))
    one = rounding(part, 1.0, 0.0)  # linear in the size, and in what evaluating adds
    return _Ready(axes, part.rules, tuple(places), tuple(rings), one, math.prod(r.lebesgue for r in part.rules))


def interpolated(factor: Factor, constants: Floats, rhos: tuple[float, ...], arcs: int, times: int = 1) -> Known:
    """A factor's interpolant at ``times`` as many zeros, and its error."""
    ready = _ready(factor, rhos, arcs, times)
    at, everywhere, *rings = _evaluate(factor, ready, constants)
    real = at.centre.real.reshape(-1, *(len(n.centre) for n in ready.places[0]))
    if len(ready.axes) == 1:
        coefficients = real @ ready.rules[0].matrix.T
    else:
        coefficients = coefficients_from(real, ready.rules) if ready.axes else real
    own, scale = at.radius.max(axis=1), np.abs(at.centre.real).max(axis=1)
    error = ready.one * scale + ready.grown * own
    for values, (column, at_rhos, counts, weights, others) in zip(rings, ready.rings, strict=True):
        largest = _by_ring(values, column, at_rhos, counts)
        error = error + (largest * weights).min(axis=1) * others
    error = np.where(np.isnan(error), np.inf, error * (1 + 1e-9) + UNDERFLOW)
    return Known(coefficients, error, _worst(everywhere))


def _evaluate(factor: Factor, ready: _Ready, constants: Floats) -> list[Discs]:
    """Values over the products of places: discs[m, n] for each; those of one column in one evaluation."""
    if len(ready.axes) != 1:
        return [_run(factor, places, constants) for places in ready.places]
    all_, ends = ready.joined
    found = _run(factor, [all_], constants)
    return [Discs(found.centre[:, a:b], found.radius[:, a:b]) for a, b in itertools.pairwise(ends)]


def _run(factor: Factor, places: Sequence[Discs], constants: Floats) -> Discs:
    """The values over a product of places: discs[m, n]."""
    d = len(places)
    grid = {}
    for i, (axis, z) in enumerate(zip(factor.axes, places, strict=True)):
        shape = (1, *(-1 if j == i else 1 for j in range(d)))
        grid[axis.name] = Discs(z.centre.reshape(shape), z.radius.reshape(shape) if z.radius.ndim else z.radius)
    m, n = len(constants), math.prod(z.centre.size for z in places)
    step = max(1, MAX_PLACES // max(1, n))
    parts = []
    for start in range(0, m, step):
        some = constants[start : start + step]
        found = factor.program(grid, some, d)
        whole = (len(some), *(z.centre.size for z in places))
        parts.append(Discs(_spread(found.centre, whole), _spread(found.radius, whole)))
    if len(parts) == 1:
        return parts[0]
    return Discs(np.concatenate([p.centre for p in parts]), np.concatenate([p.radius for p in parts]))


def _spread(values: np.ndarray[tuple[int, ...], Any], shape: tuple[int, ...]) -> np.ndarray[tuple[int, int], Any]:
    return (values if values.shape == shape else np.broadcast_to(values, shape)).reshape(shape[0], -1)


def _worst(z: Discs) -> Floats:
    """The largest absolute value of each row, infinite where one is unknown: float[m]."""
    size = z.size().max(axis=1)
    return np.where(np.isnan(size), np.inf, size)


def _by_ring(z: Discs, column: int, rhos: Floats, shape_of: list[int]) -> Floats:
    """The largest absolute value on each ellipse of one column: float[m, rhos], infinite from where f has none."""
    size = z.size()
    shape_of = list(shape_of)
    shape_of[column] = -1
    whole = np.moveaxis(size.reshape(len(size), *shape_of), column + 1, 1)
    worst = whole.reshape(len(size), len(rhos), -1).max(axis=2)
    worst = np.where(np.isnan(worst), np.inf, worst)
    return np.where(np.maximum.accumulate(np.isinf(worst), axis=1), np.inf, worst)


def _weights(rhos: tuple[float, ...], t: int) -> Floats:
    """The theorem of ``bernstein`` in one column: 4 rho^-(t-1) / (rho - 1) of each ellipse, rounded up."""
    at = np.array(rhos)
    return np.asarray(np.exp(np.log(4 / (at - 1)) - (t - 1) * np.log(at)) * (1 + 1e-13 * (t + 10)) + 1e-290)


def telescoped(term: Sequence[Known]) -> tuple[Floats, Floats]:
    """(prod (S + e) - prod S, prod S), rounded up."""
    error, size = term[0].error, term[0].size
    for factor in term[1:]:
        error = error * (factor.size + factor.error) + size * factor.error
        size = size * factor.size
    return error * (1 + 1e-12), size * (1 + 1e-12)


def outer(axes: Sequence[Axis], reads_of: Sequence[Sequence[Axis]], arrays: Sequence[Floats], m: int) -> Floats:
    """The product of arrays over some columns each, 1 long in those that none has."""
    names = [axis.name for axis in axes]
    found = np.ones((m, *(1 for _ in axes)))
    for own, array in zip(reads_of, arrays, strict=True):
        shape = [m, *(1 for _ in axes)]
        for axis, length in zip(own, array.shape[1:], strict=True):
            shape[names.index(axis.name) + 1] = length
        found = found * array.reshape(shape)
    return found
