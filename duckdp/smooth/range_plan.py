"""Which tables of counts a summary holds for questions about ranges, and what each may spend: by public figures alone.

A question about a range [a, b) of a column of L cells adds up about as many cells of each level as there are in two
cells of the level before; its error is the noise of these, and where a or b lies within a cell that cell's rows::

    in one column     1.96 sd  +  n / L                       no second term where a cell is one value
    in two            1.96 sd  +  (n / 3) (1 / L_1 + 1 / L_2)  of a table over both; 0.125 n without one

n is ``expected_rows`` (else ``row_cap``), sd the standard deviation of the best linear estimate, over ranges of all
lengths. Each column's cells are those of the least error, each pair's table too; how much of the charge goes to pairs
(all alike) is that of the least product of both errors. Between the tables of one column the charge is divided evenly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from duckdp.core.nested_tables import Estimator, Levels, NestedTables
from duckdp.mechanisms.noisy_tables import divide
from duckdp.smooth.axes import Axis
from duckdp.smooth.range_cells import MOST_CELLS, RangeAxis, whole_values

RANGES = 32  # of a column, on which an error is predicted
MOST_PAIRS = 15  # tables over two columns
MOST_PAIR = 2**14  # cells of one of them
MOST_ALL = 2**17  # cells of all tables
WITHOUT = 0.125  # of n: error of a question in two columns where no table is over both
ROUND = 0.8  # of an error: what cells with round ends are worth
HALF = 1.96  # 95% half-widths in deviations
_PAIR_SHARES = (0.15, 0.3, 0.45, 0.6, 0.75)  # of the charge, that are tried
_BRANCHES = (2, 4, 5, 8, 10, 16, 20)  # cells that a cell is divided into, that are tried
# finest cells of a column, that are tried
_FINEST = (8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 400, 500, 512, 1000, 1024, 2000, 2048, 4000, 4096)
_ROUND_STEPS = (1.0, 2.0, 2.5, 5.0)  # widths of cells that end at round numbers, up to a power of ten


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a table's noise is at a share of the charge: its deviation is ``unit / share^power`` rows.

    Attributes:
        unit: deviation of a cell of a table that has the whole charge, in rows.
        power: 1 of Laplace noise, 0.5 of Gaussian.
    """

    unit: float
    power: float

    def variance(self, share: float) -> float:
        """The variance of a cell's noise in a table with that share, in rows squared."""
        return float((self.unit / share**self.power) ** 2)


@dataclass(frozen=True, kw_only=True)
class RangePlan:
    """Tables, what each may spend, and the errors that are expected.

    Attributes:
        axes: the cells of each column.
        nested: the tables.
        shares: of each table.
        deviation: expected deviation of the noise of a range in one column, in rows.
        one: expected half-width of a question in one column, in rows.
        two: of one in two columns; infinite where there is none.
        pairs: whether columns are counted in pairs.
    """

    axes: tuple[RangeAxis, ...]
    nested: NestedTables
    shares: tuple[Fraction, ...]
    deviation: float
    one: float
    two: float
    pairs: bool


@lru_cache(maxsize=64)
def plan_ranges(axes: tuple[Axis, ...], rows: int, cost: Cost) -> RangePlan:
    """The tables of the least predicted error.

    Args:
        axes: the summary's columns.
        rows: expected.
        cost: of the noise.
    """
    count = len(axes)
    pairs = list(itertools.combinations(range(count), 2))
    shares = (0.0, *_PAIR_SHARES) if 0 < len(pairs) <= MOST_PAIRS else (0.0,)
    return min((_planned(axes, rows, cost, share) for share in shares), key=_score)


def _score(plan: RangePlan) -> float:
    return plan.one if math.isinf(plan.two) else math.sqrt(plan.one * plan.two)


def _planned(axes: tuple[Axis, ...], rows: int, cost: Cost, for_pairs: float) -> RangePlan:
    count = len(axes)
    each = (1 - for_pairs) / count
    counted = [_column(axis, rows, cost, each).sizes for axis in axes]
    columns = [
        RangeAxis(axis=axis, sizes=own if axis.values is not None else _refined(own))
        for axis, own in zip(axes, counted, strict=True)
    ]
    sizes = [own.sizes for own in columns]
    tables: list[Levels] = []
    ideal: list[float] = []
    for i, levels in enumerate(counted):
        for size in levels[1:]:
            at = sizes[i].index(size)
            tables.append(tuple(at if k == i else 0 for k in range(count)))
            ideal.append(each / (len(levels) - 1))
    two, pairs = math.inf, list(itertools.combinations(range(count), 2))
    if pairs:
        two = WITHOUT * rows
    if for_pairs:
        share, errors = for_pairs / len(pairs), []
        for i, j in pairs:
            error, both = _pair(columns[i], columns[j], rows, cost.variance(share), MOST_ALL // len(pairs))
            errors.append(error)
            if both is not None:
                tables.append(tuple(both[0] if k == i else both[1] if k == j else 0 for k in range(count)))
                ideal.append(share)
        two = float(np.mean(errors))
    if not tables:  # columns of one value: the number of rows alone
        tables, ideal = [(0,) * count], [1.0]
    divided = divide(ideal)
    nested = NestedTables(sizes=tuple(sizes), tables=tuple(tables))
    known = Estimator(nested, tuple(cost.variance(float(share)) for share in divided))
    deviations = [_deviation(known, i) for i in range(count)]
    lacking = [0.0 if own.exact else rows / own.cells for own in columns]
    one = float(np.mean([HALF * d + part for d, part in zip(deviations, lacking, strict=True)]))
    return RangePlan(
        axes=tuple(columns),
        nested=nested,
        shares=divided,
        deviation=float(np.sqrt(np.mean(np.square(deviations)))),
        one=one,
        two=two,
        pairs=bool(for_pairs),
    )


def _deviation(known: Estimator, column: int) -> float:
    """Of the noise of ranges of one column: root mean square, in rows."""
    sizes = known.nested.sizes[column]
    table = tuple(len(sizes) - 1 if k == column else 0 for k in range(len(known.nested.sizes)))
    shape = known.nested.shape(table)
    each = [known.variance(wanted.reshape(shape), table) for wanted in _ranges(sizes[-1])]
    return math.sqrt(float(np.mean(each)))


@lru_cache(maxsize=64)
def _ranges(cells: int) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], ...]:
    """Ranges of all lengths and places, spread evenly."""
    found = []
    for k in range(RANGES):
        a, b = ((k + 0.5) * step % 1.0 for step in (0.7548776662466927, 0.5698402909980532))  # plastic number
        first, last = sorted((int(a * (cells + 1)), int(b * (cells + 1))))
        wanted = np.zeros(cells)
        wanted[first : max(last, first + 1)] = 1.0
        found.append(wanted)
    return tuple(found)


@lru_cache(maxsize=256)
def _column(axis: Axis, rows: int, cost: Cost, share: float) -> RangeAxis:
    """The cells of one column, with that share of the charge."""
    if axis.values is not None:
        count = len(axis.values)
        return RangeAxis(axis=axis, sizes=(1, count) if count > 1 else (1,))
    best: tuple[float, tuple[int, ...]] | None = None
    whole = whole_values(axis)
    for sizes in _candidates(axis):
        deviation = _unit_deviation(sizes) * math.sqrt(cost.variance(share / (len(sizes) - 1)))
        exact = whole is not None and sizes[-1] >= whole
        error = HALF * deviation + (0.0 if exact else rows / sizes[-1])
        error *= ROUND if exact or _is_round(axis, sizes[-1], whole) else 1.0
        if best is None or error < best[0]:
            best = error, sizes
    return RangeAxis(axis=axis, sizes=(1,) if best is None else best[1])


@lru_cache(maxsize=4096)
def _unit_deviation(sizes: tuple[int, ...]) -> float:
    """Of ranges of a column, where every level is counted and a cell's noise has deviation 1."""
    nested = NestedTables(sizes=(sizes,), tables=tuple((at,) for at in range(1, len(sizes))))
    return _deviation(Estimator(nested, (1.0,) * len(nested.tables)), 0)


@lru_cache(maxsize=64)
def _candidates(axis: Axis) -> tuple[tuple[int, ...], ...]:
    """Sizes of levels to choose from."""
    whole = whole_values(axis)
    finest = set(_FINEST) if whole is None else {n for n in _FINEST if n < whole}
    if whole is not None and whole <= MOST_CELLS:
        finest.add(whole)
    if whole is None:
        finest |= {n for n in range(8, 1001) if _is_round(axis, n, None) and n % 10 == 0}
    found = set()
    for size in finest:
        for branch in _BRANCHES:
            sizes = _levels(size, branch)
            if sizes[-1] <= MOST_CELLS and _apart(axis, sizes):
                found.add(sizes)
    return tuple(sorted(found))


def _levels(size: int, branch: int) -> tuple[int, ...]:
    """Levels of at least so many cells, dividing by ``branch``, the first by what is left."""
    below = 1
    while below * branch < size:
        below *= branch
    first = -(-size // below)
    return (1, *(first * branch**k for k in range(round(math.log(below, branch)) + 1))) if below > 1 else (1, size)


def _refined(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The same levels and as many as possible between them, for tables over two columns."""
    found = [1]
    for before, after in itertools.pairwise(sizes):
        left, at = after // before, before
        while left > 1:
            factor = next((f for f in (2, 3, 5, 7) if left % f == 0), left)
            left, at = left // factor, at * factor
            found.append(at)
    return tuple(found)


def _apart(axis: Axis, sizes: tuple[int, ...]) -> bool:
    """Whether floats tell the cells apart, by far."""
    if whole_values(axis) is not None:
        return True
    width = (axis.upper - axis.lower) / sizes[-1]
    return width > 2.0**-40 * max(abs(axis.lower), abs(axis.upper))


def _is_round(axis: Axis, cells: int, whole: int | None) -> bool:
    """Whether cells end at round numbers."""
    if axis.kind.value not in ("number", "date"):
        return False
    width = float(-(-whole // cells)) if whole is not None else (axis.upper - axis.lower) / cells
    size = 10.0 ** math.floor(math.log10(width))
    near = any(abs(width / size - step) < 1e-9 for step in _ROUND_STEPS)
    return near and (axis.lower / width).is_integer()


def _pair(
    one: RangeAxis, two: RangeAxis, rows: int, variance: float, most: int
) -> tuple[float, tuple[int, int] | None]:
    """(error of a question in both columns, the levels of the table); no table where none is better than without."""
    best: tuple[float, tuple[int, int] | None] = (WITHOUT * rows, None)
    for a, b in itertools.product(range(1, len(one.sizes)), range(1, len(two.sizes))):
        cells = one.sizes[a], two.sizes[b]
        if math.prod(cells) > min(MOST_PAIR, most):
            continue
        used = [max(1.0, own.listed / 3 or size / 3) for own, size in zip((one, two), cells, strict=True)]
        lacking = sum(
            0.0 if own.exact and at == len(own.sizes) - 1 else rows / 3 / size
            for own, at, size in zip((one, two), (a, b), cells, strict=True)
        )
        error = HALF * math.sqrt(variance * math.prod(used)) + lacking
        if error < best[0]:
            best = error, (a, b)
    return best


def describe_tables(axes: Sequence[RangeAxis], nested: NestedTables) -> list[str]:
    """Each table's cells in words, the levels of one column together."""
    names = [own.axis.name for own in axes]
    said = []
    for i, own in enumerate(axes):
        levels = [own.sizes[t[i]] for t in nested.tables if t[i] and not any(t[:i] + t[i + 1 :])]
        if levels:
            said.append(f"{names[i]} in {', '.join(map(str, levels))}")
    for t in nested.tables:
        used = [i for i, at in enumerate(t) if at]
        if len(used) > 1:
            cells = " x ".join(str(axes[i].sizes[t[i]]) for i in used)
            said.append(f"{' and '.join(names[i] for i in used)} in {cells}")
    return said
