"""Polynomials below and above a function of one column: U >= g at every value that rows can have, and L <= g.

A function that jumps, bends or is narrower than the basis is far from every polynomial somewhere, and its mean far from
none: with L <= g <= U everywhere, mean(L) <= mean(g) <= mean(U), and both are answers of the summary. Of a jump the two
means differ by about 2 / t, where the largest error is nearly the whole jump.

U solves a linear program: the least mean over a public weight (half uniform in the column's own units, half in the
angle) with U >= G on a grid of angles, G being the largest value of g around each place. The program's solution is only
a proposal. It is moved up (or down) by what makes this true::

    values listed    U - g at every value that the column can have, as computed, less what computing may err
    else             on each cell [a_j, a_(j+1)] of a finer grid, h wide, a polynomial of degree k in cos a is at least
                     min(U(a_j), U(a_(j+1))) - h^2 k^2 max|U - c| / 8, c any number (Bernstein, twice), and g at most
                     the upper end of its range over the cell (``enclosure``)

Source: one-sided approximation: Selberg's and Vaaler's majorants are its closed forms for intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Expr
from duckdp.errors import NumericalError
from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.basis import chebyshev
from duckdp.smooth.fit.enclosure import enclose
from duckdp.smooth.fit.interpolation import MAX_LISTED, count_values, places
from duckdp.smooth.fit.points import Points, evaluate
from duckdp.smooth.fit.proved import own_error

PLACES = 16  # of the program's grid, per function
FINER = 8  # cells for each of them
MAX_DEGREE = 128  # functions of a program: a tenth of a second
_TURN = 1e-7  # of an angle: arccos near the ends loses half its digits
_ROOM = 1e-11  # of a polynomial's largest value: rounding, of its values and of places


@dataclass(frozen=True, eq=False)
class OneSided:
    """Coefficients of T_0 .. T_(k-1) of polynomials on both sides of a function.

    Attributes:
        under, over: float[k].
    """

    under: Floats
    over: Floats


@lru_cache(maxsize=512)
def one_sided(function: Expr, axis: Axis, count: int) -> OneSided | None:
    """Polynomials of so many functions on both sides of a function of one column, or None.

    Args:
        function: a number that reads this column.
        axis: the column, not one whose values are listed in the basis.
        count: k, at most the axis' own.
    """
    try:
        cells = _cells(function, axis, count)
    except NumericalError:
        return None
    if cells is None:
        return None
    over, under = cells.above(1.0), cells.above(-1.0)
    return None if over is None or under is None else OneSided(-under, over)


def reference(axis: Axis, count: int) -> Floats:
    """Means of T_0 .. T_(count-1) under the weight: half uniform, half in the angle; of listed values all alike."""
    if axis.values is not None:
        return np.asarray(chebyshev(axis.nodes, axis.degree)[:, :count].mean(axis=0))
    r = np.arange(count)
    uniform = np.where(r % 2 == 0, 1.0 / (1.0 - r.astype(np.float64) ** 2 + (r % 2)), 0.0)
    return np.asarray((uniform + (r == 0)) / 2)


@dataclass(frozen=True, eq=False)
class _Cells:
    """A function on a grid of angles.

    Attributes:
        axis: the column.
        width: of the widest cell, in the angle.
        nodes: float[m + 1, k], the functions at the ends of cells; every ``FINER``-th is a place of the program.
        low, high: float[m], the function's range over each cell; infinities of opposite sign where it has no value.
        listed: float[n, k] and float[n], the functions and values at all values the column can have, if these are few.
        own: what computing those may err.
    """

    axis: Axis
    width: float
    nodes: Floats
    low: Floats
    high: Floats
    listed: tuple[Floats, Floats] | None
    own: float

    def above(self, sign: float) -> Floats | None:
        """Coefficients of a polynomial of the least mean that is at least g, or for sign -1 at least -g."""
        from scipy.optimize import linprog

        high = self.high if sign > 0 else -self.low
        edge = np.full(FINER // 2, -np.inf)  # around each place: as many cells on either side as lie nearest to it
        beside = np.concatenate([edge, high, edge]).reshape(-1, FINER).max(axis=1)
        used = np.isfinite(beside)
        least, count = float(beside[used].min()), self.nodes.shape[1]
        scale = max(float(np.ptp(beside[used])), 1e-300)
        solved = linprog(
            reference(self.axis, count),
            A_ub=-self.nodes[::FINER][used],
            b_ub=-(beside[used] - least) / scale,
            bounds=(None, None),
            method="highs",
        )
        if solved.x is None or not np.isfinite(solved.x).all():
            return None
        found = np.asarray(solved.x, dtype=np.float64) * scale
        found[0] += least
        found[0] += self._lacking(found, high, sign) + _ROOM * float(np.abs(found).sum())
        return found

    def _lacking(self, found: Floats, high: Floats, sign: float) -> float:
        """By how much it must be moved up."""
        if self.listed is not None:
            functions, values = self.listed
            return float(np.max(sign * values - functions @ found)) + self.own
        at, degree = self.nodes @ found, self.nodes.shape[1] - 1
        largest = (float(at.max()) - float(at.min())) / 2 / math.cos(degree * self.width / 2)
        dip: float = (self.width * degree) ** 2 * largest / 8
        return float(np.max(high - np.minimum(at[1:], at[:-1]))) + dip


def _cells(function: Expr, axis: Axis, count: int) -> _Cells | None:
    cells = PLACES * FINER * count
    x = axis.from_unit(np.cos(np.linspace(0, np.pi, cells + 1)))  # from the upper bound down
    nodes, width = chebyshev(axis.to_unit(x), count), _width(axis, x)
    whole = count_values(axis)
    if whole is not None and whole <= MAX_LISTED:
        x, _ = places(axis, MAX_LISTED)
        values = evaluate(function, Points((axis,), (x,)))
        own = own_error(function, Points((axis,), (x,)), complete=True)
        at = np.clip((np.arccos(axis.to_unit(x)) / np.pi * cells).astype(np.int64), 0, cells - 1)
        low, high = np.full(cells, np.inf), np.full(cells, -np.inf)
        np.minimum.at(low, at, values)
        np.maximum.at(high, at, values)
        functions = chebyshev(axis.to_unit(x), count)
        return _Cells(axis, width, nodes, low, high, (functions, values), own) if math.isfinite(own) else None
    if axis.kind is not Kind.NUMBER or (count - 1) * width > 1:
        return None
    found = enclose(function, [axis], [x[1:]], [x[:-1]])
    finite = np.isfinite(found.low).all() and np.isfinite(found.high).all()
    return _Cells(axis, width, nodes, found.low, found.high, None, 0.0) if finite else None


def _width(axis: Axis, x: Floats) -> float:
    """The widest cell as rows have it: a column of few floats has its places where they are."""
    return float(np.max(np.diff(np.arccos(axis.to_unit(x))))) + _TURN
