"""How far a sum of products is from its polynomial: by interpolation at more zeros (``expansion``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.basis import chebyshev
from duckdp.smooth.fit.factors import Factor, Known, Rows, interpolated, outer, telescoped
from duckdp.smooth.fit.parts import Part
from duckdp.smooth.fit.proved import UNDERFLOW

RHOS = (1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.2, 5.0)  # ellipses
ARCS = 48  # discs along each
FINER = (2, 3, 4, 6)  # times as many zeros
SAMPLES = {1: 4, 2: 3}  # points of the grid per zero and column, by the number of columns
MAX_GRID = 100_000  # points of it
MAX_TOGETHER = 2**17  # values on grids at a time: what a processor keeps near
TAIL = 0.25  # of the bound: what |f - q| may be


@dataclass(frozen=True, eq=False)
class Block:
    """Terms whose columns are among those of one of them: their coefficients and errors are looked at together.

    Attributes:
        part: the basis' functions of these columns.
        terms: products of factors, as places in ``Expansion.factors``.
    """

    part: Part
    terms: tuple[tuple[int, ...], ...]

    @property
    def whole(self) -> bool:
        """Whether the basis lacks no product of these columns' functions."""
        return len(self.part.rows) == math.prod(self.part.degrees)


@dataclass(frozen=True, eq=False)
class First:
    """What the first proof has made for a block.

    Attributes:
        constants: float[m, k].
        kept: float[m, S], coefficients of the block's part of the basis.
        known: its factors.
    """

    constants: Floats
    kept: Floats
    known: dict[int, Known]

    def select(self, chosen: Rows) -> First:
        """The same of some rows of numbers."""
        known = {i: own.select(chosen) for i, own in self.known.items()}
        return First(self.constants[chosen], self.kept[chosen], known)


def closely(factors: Sequence[Factor], block: Block, first: First, enough: Floats) -> Floats:
    """The error of a block by the second way, infinite where it shows too little: float[m]."""
    m = len(first.constants)
    found, open_ = np.full(m, np.inf), np.arange(m)
    samples = SAMPLES.get(len(block.part.axes), 0)
    for times in FINER if samples else ():
        lengths = [samples * times * a.degree + 1 for a in block.part.axes if a.values is None]
        points = math.prod(lengths)
        if not len(open_) or points > MAX_GRID:
            break
        step = max(1, MAX_TOGETHER // points)
        pairs = [_on_grid(factors, block, first.select(open_[i : i + step]), times) for i in range(0, len(open_), step)]
        bound, tail = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        done = (bound <= enough[open_]) | (tail <= TAIL * bound)
        found[open_[done]] = bound[done]
        open_ = open_[~done]
    return found


def _on_grid(factors: Sequence[Factor], block: Block, first: First, times: int) -> tuple[Floats, Floats]:
    """(bound on |f - p|, the part of it that bounds |f - q|), q of ``times`` as many zeros: float[m] each."""
    m, part = len(first.constants), block.part
    used = sorted({i for term in block.terms for i in term})
    known = {i: interpolated(factors[i], first.constants, RHOS, ARCS, times) for i in used}
    grids = {axis.name: _grid(axis, times, SAMPLES[len(part.axes)]) for axis in part.axes}

    def values(i: int, of: Known, own: bool) -> Floats:
        vanders = [grids[a.name][0][:, : a.degree] if own else grids[a.name][0] for a in factors[i].axes]
        return _contract(of.coefficients, vanders)

    q = {i: values(i, known[i], own=False) for i in used}
    made = [(-1.0, [(factors[i].axes, q[i]) for i in term]) for term in block.terms]
    if block.whole:  # then p is a sum of products too
        p = {i: values(i, first.known[i], own=True) for i in used}
        made += [(1.0, [(factors[i].axes, p[i]) for i in term]) for term in block.terms]
        difference = _added(part.axes, made, m)
    else:
        tensor = part.tensor(first.kept)
        difference = _contract(tensor, [grids[a.name][0][:, : a.degree] for a in part.axes])
        difference = difference + _added(part.axes, made, m)
    tail, total = np.zeros(m), np.abs(first.kept).sum(axis=1)
    for term in block.terms:
        tail = tail + telescoped([known[i] for i in term])[0]
        total = total + math.prod(np.abs(known[i].coefficients).reshape(m, -1).sum(axis=1) for i in term)
    shrunk = math.prod(grids[a.name][1] for a in part.axes)
    flat = difference.reshape(m, -1)
    seen = np.maximum(flat.max(axis=1), -flat.min(axis=1))
    bound = seen / shrunk * (1 + 1e-9) + 1e-13 * total + tail + UNDERFLOW
    return np.where(np.isnan(bound), np.inf, bound), tail


def _added(axes: Sequence[Axis], made: Sequence[tuple[float, list[tuple[tuple[Axis, ...], Floats]]]], m: int) -> Floats:
    """Signed products of values over the columns of a grid, added: float[m, n_1, ...]."""
    found: Floats | float = 0.0
    pairs: tuple[list[Floats], list[Floats]] = ([], [])
    for sign, factors in made:
        if len(axes) == 2 and all(len(own) == 1 for own, _ in factors):  # all of these by one product of matrices
            along = {own[0].name: values for own, values in factors}
            for i, axis in enumerate(axes):
                one = along.get(axis.name)
                pairs[i].append(np.ones((m, 1)) if one is None else one if i else sign * one)
            if axes[0].name not in along:
                pairs[0][-1] = pairs[0][-1] * sign
        else:
            found = found + sign * outer(axes, [own for own, _ in factors], [values for _, values in factors], m)
    if not pairs[0]:
        return np.asarray(found)
    widest = [max(array.shape[1] for array in side) for side in pairs]
    left, right = (
        np.stack([np.broadcast_to(array, (m, n)) for array in side], axis=1)
        for side, n in zip(pairs, widest, strict=True)
    )
    return np.asarray(np.matmul(left.transpose(0, 2, 1), right) + found)


@lru_cache(maxsize=256)
def _grid(axis: Axis, times: int, samples: int) -> tuple[Floats, float]:
    """(T_0 ... T_(T-1) on the grid, by how much the largest value there may be less) of one column."""
    if axis.values is not None:
        return chebyshev(axis.nodes, axis.degree), 1.0
    degree = times * axis.degree
    points = samples * degree
    angles = np.linspace(0, np.pi, points + 1)
    return np.cos(np.arange(degree) * angles[:, None]), math.cos(math.pi * (degree - 1) / (2 * points))


def _contract(coefficients: Floats, vanders: Sequence[Floats]) -> Floats:
    """Values on a grid, float[m, n_1, ...], from coefficients float[m, t_1, ...]."""
    if len(vanders) == 1:
        return coefficients @ vanders[0].T
    for i, vander in enumerate(vanders):
        coefficients = np.moveaxis(np.tensordot(coefficients, vander, axes=(i + 1, 1)), -1, i + 1)
    return coefficients
