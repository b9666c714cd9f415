"""An index set as products of left and right functions, and their evaluation on blocks of rows.

Two ways to split (degrees r of d columns): at a column, the first h columns left and the others right, which fits full
tensor sets; or by activity, the first half of the columns with r_i > 0 left, which fits sets of few interacting columns
out of many. The cheaper one by operations is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from duckdp.smooth.axes import Floats
from duckdp.smooth.basis import Basis, Indices

_POINTWISE = 24.0  # operations of a matrix product that take the time of one elementwise pass


@dataclass(frozen=True)
class Factors:
    """Functions to evaluate, closed downwards in their last column.

    Attributes:
        degrees: int16[L, d].
    """

    degrees: Indices

    def space(self, rows: int) -> Evaluation:
        """Memory and order of evaluation for blocks of that many rows."""
        return Evaluation(self.degrees, rows)


@dataclass(frozen=True, kw_only=True)
class Split:
    """Function k of the basis is left function at_left[k] times right function at_right[k]."""

    left: Factors
    right: Factors
    at_left: NDArray[np.int64]
    at_right: NDArray[np.int64]

    @property
    def cost(self) -> float:
        """Arithmetic operations per row, to compare splits by."""
        a, b = len(self.left.degrees), len(self.right.degrees)
        return 2.0 * a * b + _POINTWISE * (a + b)


@dataclass(frozen=True)
class _Run:
    """Lines from ``start`` on: line ``prefix`` (None: no factor) times T_degree, T_(degree+1), ... of a column."""

    start: int
    count: int
    prefix: int | None
    column: int
    degree: int


class Evaluation:
    """Evaluates functions on blocks of rows, one function per line of ``values``."""

    def __init__(self, degrees: Indices, rows: int) -> None:
        functions = [tuple(r) for r in degrees.tolist()]
        lines = {r: i for i, r in enumerate(functions)}
        for r in functions:
            prefix = _prefix(r)
            while prefix not in lines:
                lines[prefix] = len(lines)
                prefix = _prefix(prefix)
        self._count = len(functions)
        self._values = np.empty((len(lines), rows))
        self._constant = lines[(0,) * degrees.shape[1]]
        most = {i: m for i, m in enumerate(degrees.max(axis=0).tolist()) if m}
        inside = {i: at for i, m in most.items() if (at := _even_lines(lines, i, m)) is not None}
        self._tables = {i: np.empty((m + 1, rows)) for i, m in most.items() if i not in inside}
        self._tables |= {i: self._values[at] for i, at in inside.items()}  # views
        self._runs = [run for run in _runs(lines) if run.prefix is not None or run.column not in inside]

    @property
    def lines(self) -> int:
        """How many functions there are, L."""
        return self._count

    def fill(self, units: list[Floats]) -> Floats:
        """Evaluate on one block: float[L, n], a view that the next overwrites."""
        n = len(units[0])
        values = self._values[:, :n]
        for i, table in self._tables.items():
            _fill_powers(table[:, :n], units[i])
        values[self._constant] = 1.0
        for run in self._runs:
            powers = self._tables[run.column][run.degree : run.degree + run.count, :n]
            out = values[run.start : run.start + run.count]
            if run.prefix is None:
                out[:] = powers
            else:
                np.multiply(powers, values[run.prefix], out=out)
        return values[: self._count]


def _fill_powers(table: Floats, u: Floats) -> None:
    """T_0, T_1, ... at u, T_(m+i) = (2 T_m) T_i - T_(m-i): ``Basis.float_error`` bounds it."""
    table[0], table[1] = 1.0, u
    known, last = 1, len(table) - 1
    while known < last:
        count = min(known, last - known)
        new = table[known + 1 : known + 1 + count]
        np.multiply(table[1 : count + 1], 2.0 * table[known], out=new)
        new -= table[known - count : known][::-1]
        known += count


def _even_lines(lines: dict[tuple[int, ...], int], column: int, degree: int) -> slice | None:
    """Lines of T_0, T_1, ..., T_degree of one column, if all are there, in even steps: then they need no copy."""
    dimensions = len(next(iter(lines)))
    at = [lines.get(tuple(k * (i == column) for i in range(dimensions)), -1) for k in range(degree + 1)]
    step = at[1] - at[0]
    even = step > 0 and at == list(range(at[0], at[0] + step * len(at), step))
    return slice(at[0], at[-1] + 1, step) if even else None


def _prefix(r: tuple[int, ...]) -> tuple[int, ...]:
    """The function without its last column."""
    last = max((i for i, k in enumerate(r) if k), default=0)
    return (*r[:last], 0, *r[last + 1 :])


def _runs(lines: dict[tuple[int, ...], int]) -> list[_Run]:
    """All functions but the constant, prefixes first, neighbours together."""
    found: list[_Run] = []
    for r, line in sorted(lines.items(), key=lambda item: (sum(k > 0 for k in item[0]), item[1])):
        if not any(r):
            continue
        column = max(i for i, k in enumerate(r) if k)
        before = _prefix(r)
        prefix = lines[before] if any(before) else None
        last = found[-1] if found else None
        follows = last is not None and (last.prefix, last.column) == (prefix, column)
        if follows and last is not None and (line, r[column]) == (last.start + last.count, last.degree + last.count):
            found[-1] = replace(last, count=last.count + 1)
        else:
            found.append(_Run(line, 1, prefix, column, r[column]))
    return found


def choose_split(basis: Basis) -> Split:
    """The cheaper split; of columns, those near the middle of the tensor set are tried."""
    indices = basis.indices
    sizes = np.cumsum(np.log([max(2, t) for t in basis.degrees]))
    middle = int(np.searchsorted(sizes, sizes[-1] / 2))
    positions = np.arange(basis.dimensions)
    tried = {min(max(h, 1), basis.dimensions) for h in (middle, middle + 1, middle + 2)}
    candidates = [_split(indices, positions[None, :] < h) for h in sorted(tried)]
    active = indices > 0
    candidates.append(_split(indices, np.cumsum(active, axis=1) * 2 <= active.sum(axis=1, keepdims=True) + 1))
    return min(candidates, key=lambda s: s.cost)


def _split(indices: Indices, mask: NDArray[np.bool_]) -> Split:
    left, at_left = _distinct(np.where(mask, indices, 0).astype(np.int16))
    right, at_right = _distinct(np.where(mask, 0, indices).astype(np.int16))
    return Split(left=Factors(left), right=Factors(right), at_left=at_left, at_right=at_right)


def _distinct(rows: Indices) -> tuple[Indices, NDArray[np.int64]]:
    """Distinct rows in order of appearance, and which of them each row is."""
    places: dict[bytes, int] = {}
    at = [places.setdefault(row.tobytes(), len(places)) for row in rows]
    where = np.array(at, dtype=np.int64)
    first = np.unique(where, return_index=True)[1]
    return rows[first], where
