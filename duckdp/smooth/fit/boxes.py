"""What f can be between the points of a grid: branch and bound on boxes that cover all values rows can have.

On a box f lies in a range (``enclosure``), and p near its value at the box' centre: with a_i the angles, k_i the
degrees and d_i the half-widths of the box in the angles::

    |p(a) - p(centre)|  <=  sum_i d_i |dp/da_i (centre)|  +  (sum_i d_i k_i)^2 / 2 max|p|

(Taylor along the line to the centre; the derivatives of a trigonometric polynomial are at most k times its largest
value, Bernstein.) So |f - p| has an upper bound on every box, which is proved. What may be hidden in a box is the
lesser of two: how far that bound is above the error seen, and how far f's range reaches beyond its values at the box'
corners. Boxes that may hide much are divided, along the column that is widest in the angle. A spike that no grid sees
lies in a box whose range shows it; a point that differs keeps its two values in one box, however narrow.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duckdp.compiler.expression import Expr, walk
from duckdp.compiler.facts import facts
from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.fit.enclosure import enclose
from duckdp.smooth.fit.interpolation import count_values
from duckdp.smooth.fit.parts import Part

FIRST = 1024  # boxes to begin with
MAX_BOXES = 60_000  # looked at
MAX_WORK = 2**24  # boxes times nodes of f, which may be long
MAX_TOGETHER = 4096  # boxes in one array
MAX_ROUNDS = 40  # halvings of the boxes that decide the bound
MAX_COLUMNS = 3  # of a function that is enclosed box by box
PIECES = 4  # of a box that is divided
_NARROW = 2.0**-44  # of a column's range: not divided further
Boxes = tuple[Floats, Floats]  # ends, float[n, d]


@dataclass(frozen=True, eq=False)
class Polynomial:
    """p on a part's columns.

    Attributes:
        axes: the columns.
        tensor: float[t_1, ..., t_d], its coefficients.
        largest: bound on |p|.
    """

    axes: tuple[Axis, ...]
    tensor: Floats
    largest: float

    def ranges(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """(value at the centre of each box, how far from it p goes inside): float[n] each."""
        first, last = self.angles(low), self.angles(high)
        centre, half = (first + last) / 2, np.abs(last - first) / 2
        value = self._contract(centre, None)
        steps = sum(
            (half[:, i] * np.abs(self._contract(centre, i)) for i in range(len(self.axes)) if np.any(half[:, i])),
            start=np.zeros(len(low)),
        )
        degrees = np.array([axis.degree - 1 for axis in self.axes])
        return value, steps + (half @ degrees) ** 2 / 2 * self.largest

    def at(self, x: tuple[Floats, ...]) -> Floats:
        """Values at points, per column float[n]: the coefficients contracted column by column."""
        return self._contract(self.angles(np.stack(x, axis=1)), None)

    def angles(self, x: Floats) -> Floats:
        """float[n, d] of places."""
        return np.stack([np.arccos(np.clip(a.to_unit(x[:, i]), -1, 1)) for i, a in enumerate(self.axes)], axis=1)

    def _contract(self, angles: Floats, along: int | None) -> Floats:
        """p, or its derivative along one angle, at points."""
        found = np.broadcast_to(self.tensor.reshape(1, -1), (1, self.tensor.size))
        for i, axis in enumerate(self.axes):
            r = np.arange(axis.degree)
            turned = angles[:, i, None] * r
            factor = -r * np.sin(turned) if i == along else np.cos(turned)
            if i == 0:
                found = factor @ self.tensor.reshape(axis.degree, -1)
            else:
                found = np.einsum("nr,nrm->nm", factor, found.reshape(len(angles), axis.degree, -1))
        return found.reshape(len(angles))


@dataclass(frozen=True)
class Hidden:
    """What boxes show, units of f; infinite where f is not shown to be bounded.

    Attributes:
        bound: no |f - p| is larger.
        seen: the largest |f - p| found, and what was known before.
        beyond: how much larger than that it may be, at most.
    """

    bound: float
    seen: float
    beyond: float


def search(function: Expr, part: Part, kept: Floats, seen: float, tolerance: float, own: float) -> Hidden | None:
    """Look into the boxes, or None for many columns.

    Args:
        function: f, a number.
        part: the functions of its columns.
        kept: coefficients of p.
        seen: an estimate of the largest |f - p|.
        tolerance: what may stay hidden.
        own: how far computing f in floats may err, and so the ends of its values; inf if unknown.
    """
    boxes = first_boxes(part.axes)
    if boxes is None:
        return None
    p = polynomial(part, kept)
    found = _look_into(function, p, boxes, seen, own)
    left, looked, done = found, len(boxes[0]), Hidden(0.0, seen, 0.0)
    most = min(MAX_BOXES, MAX_WORK // sum(1 for _ in walk(function)))
    for _ in range(MAX_ROUNDS):
        done = Hidden(done.bound, _largest(done.seen, found.seen), done.beyond)
        closed = (left.beyond <= tolerance) | _whole(part.axes, left.boxes) | (left.beyond <= done.beyond)
        done = Hidden(_largest(done.bound, left.bounds[closed]), done.seen, _largest(done.beyond, left.beyond[closed]))
        left = left.select(~closed)
        room = min(MAX_TOGETHER, (most - looked) // PIECES)
        if not len(left.bounds) or room < 1:
            break
        order = np.argsort(-left.beyond, kind="stable")
        found = _look_into(function, p, _divided(p, left.select(order[:room]).boxes), done.seen, own)
        looked += len(found.bounds)
        left = _joined(left.select(order[room:]), found)
    return Hidden(_largest(done.bound, left.bounds), _largest(done.seen, left.seen), _largest(done.beyond, left.beyond))


def span_width(function: Expr, seen: tuple[float, float]) -> float:
    """How far f can lie beyond the least and the largest value seen."""
    known = facts(function).interval
    return max(0.0, known.upper - seen[1], seen[0] - known.lower)


def polynomial(part: Part, kept: Floats) -> Polynomial:
    """A combination of a part's functions."""
    return Polynomial(part.axes, part.tensor(kept[None, :])[0], float(np.sum(np.abs(kept))))


@dataclass(frozen=True, eq=False)
class _Looked:
    """Boxes, upper bounds on |f - p|, |f - p| at corners, how much may be hidden: float[n] each."""

    boxes: Boxes
    bounds: Floats
    seen: Floats
    beyond: Floats

    def select(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> _Looked:
        boxes = self.boxes[0][chosen], self.boxes[1][chosen]
        return _Looked(boxes, self.bounds[chosen], self.seen[chosen], self.beyond[chosen])


def _joined(*parts: _Looked) -> _Looked:
    low, high = (np.concatenate([p.boxes[i] for p in parts]) for i in (0, 1))
    bounds, seen, beyond = (
        np.concatenate([p.bounds for p in parts]),
        np.concatenate([p.seen for p in parts]),
        np.concatenate([p.beyond for p in parts]),
    )
    return _Looked((low, high), bounds, seen, beyond)


def _look_into(function: Expr, p: Polynomial, boxes: Boxes, seen: float, own: float) -> _Looked:
    return _joined(
        *(
            _look_into_some(function, p, (boxes[0][i : i + MAX_TOGETHER], boxes[1][i : i + MAX_TOGETHER]), seen, own)
            for i in range(0, len(boxes[0]), MAX_TOGETHER)
        )
    )


def _look_into_some(function: Expr, p: Polynomial, boxes: Boxes, seen: float, own: float) -> _Looked:
    low, high = boxes
    found = enclose(function, p.axes, list(low.T), list(high.T))
    known = facts(function).interval
    least, most = np.maximum(found.low, known.lower - own), np.minimum(found.high, known.upper + own)
    value, room = p.ranges(low, high)
    bounds = np.asarray(np.maximum(most - value, value - least) + room)
    lowest, highest, error = _corners(function, p, boxes)
    with np.errstate(invalid="ignore"):
        outside = np.maximum(0.0, np.maximum(most - highest, lowest - least))
    above = np.maximum(0.0, bounds - max(seen, float(np.max(error))))
    return _Looked(boxes, bounds, error, np.minimum(above, np.where(np.isnan(outside), np.inf, outside)))


def _corners(function: Expr, p: Polynomial, boxes: Boxes) -> tuple[Floats, Floats, Floats]:
    """(least value, largest value, largest |f - p|) at the corners of each box, as far as they are sure."""
    low, high = boxes
    free = [i for i, axis in enumerate(p.axes) if axis.values is None]
    lowest, highest, error = np.full(len(low), math.inf), np.full(len(low), -math.inf), np.zeros(len(low))
    for ends in itertools.product((False, True), repeat=len(free)):
        corner = low.copy()
        for i, end in zip(free, ends, strict=True):
            corner[:, i] = high[:, i] if end else low[:, i]
        at, own = enclose(function, p.axes, list(corner.T), list(corner.T)), p.at(tuple(corner.T))
        lowest, highest = np.minimum(lowest, at.high), np.maximum(highest, at.low)
        error = np.maximum(error, np.maximum(at.low - own, own - at.high))
    return lowest, highest, np.where(np.isfinite(error), error, 0.0)


def _largest(known: float, found: Floats) -> float:
    return float(np.max(found, initial=known))


def first_boxes(axes: tuple[Axis, ...]) -> Boxes | None:
    """Boxes of equal angle, and every value of columns that have few."""
    listed = math.prod(len(a.values) for a in axes if a.values is not None)
    free = sum(a.values is None for a in axes)
    if not axes or free > MAX_COLUMNS or listed > MAX_BOXES // 8:
        return None
    each = max(2, int((FIRST / listed) ** (1 / max(1, free)) if free else 1))
    ends = [_ends(axis, each) for axis in axes]
    places = np.meshgrid(*(np.arange(len(low)) for low, _ in ends), indexing="ij")
    low = np.stack([e[0][k.ravel()] for e, k in zip(ends, places, strict=True)], axis=1)
    high = np.stack([e[1][k.ravel()] for e, k in zip(ends, places, strict=True)], axis=1)
    return low, high


def _ends(axis: Axis, count: int) -> tuple[Floats, Floats]:
    if axis.values is not None:
        places = np.arange(len(axis.values), dtype=np.float64)
        return places, places
    edges = axis.from_unit(-np.cos(np.linspace(0, np.pi, count + 1)))
    edges[[0, -1]] = axis.lower, axis.upper
    if count_values(axis) is None:
        return edges[:-1], edges[1:]
    edges = np.unique(np.concatenate([np.ceil(edges[:-1]), [math.floor(axis.upper) + 1.0]]))
    return edges[:-1], edges[1:] - 1


def _splittable(axis: Axis, low: Floats, high: Floats) -> NDArray[np.bool_]:
    if count_values(axis) is not None:
        return np.asarray(high > low)
    return np.asarray(high - low > _NARROW * max(abs(axis.lower), abs(axis.upper), axis.upper - axis.lower))


def _whole(axes: tuple[Axis, ...], boxes: Boxes) -> NDArray[np.bool_]:
    """Boxes that cannot be divided."""
    free = [_splittable(axis, boxes[0][:, i], boxes[1][:, i]) for i, axis in enumerate(axes)]
    return np.asarray(~np.logical_or.reduce(free))


def _divided(p: Polynomial, boxes: Boxes) -> Boxes:
    """Every box in PIECES along its widest column."""
    low, high = boxes
    width = np.abs(p.angles(high) - p.angles(low))
    free = np.stack([_splittable(a, low[:, i], high[:, i]) for i, a in enumerate(p.axes)], axis=1)
    widest = np.argmax(np.where(free, width, -1.0), axis=1)
    lows, highs = [], []
    for i, axis in enumerate(p.axes):
        left, right = low[widest == i], high[widest == i]
        if not len(left):
            continue
        for piece in range(PIECES):
            one, other = left.copy(), right.copy()
            gap = right[:, i] - left[:, i]
            if count_values(axis) is None:
                one[:, i] = left[:, i] + gap * (piece / PIECES)
                other[:, i] = left[:, i] + gap * ((piece + 1) / PIECES) if piece < PIECES - 1 else right[:, i]
            else:
                one[:, i] = left[:, i] + np.floor((gap + 1) * piece / PIECES)
                other[:, i] = left[:, i] + np.floor((gap + 1) * (piece + 1) / PIECES) - 1
            some = other[:, i] >= one[:, i]
            lows.append(one[some])
            highs.append(other[some])
    return np.concatenate(lows), np.concatenate(highs)
