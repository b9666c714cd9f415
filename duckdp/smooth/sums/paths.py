"""What a path costs, in seconds on two cores, from public figures: rows, functions, cells.

The constants were measured with ``duckdp.bench.moments`` (DuckDB 2.0, two threads, AVX-512). They need not be right,
only in proportion: they choose the way, never the result's guarantee.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np

from duckdp.catalog.table import Column, Table
from duckdp.smooth.basis import Basis, Floats
from duckdp.smooth.sums.blocks import FACTOR_BITS
from duckdp.smooth.sums.cells import MOST_CELLS, MOST_PLACES, MOST_ROWS, MOST_TENSOR, CellSums, Grid, make_grid
from duckdp.smooth.sums.split import choose_split

COLUMN = 5.0  # ns per row: read, clamp and scale one column
FUNCTION = 2.5  # ns per row: one product, its rounding and its SUM, 64 to 256 of them
FUNCTION_PLAN = 3e-4  # s: DuckDB plans one SUM
ANGLE = 9.0  # ns per row: acos, cell and offset of one column
GROUP = 6.0  # ns per row: one lookup in the table of cells
LOCAL, LOCAL_MORE = 2.7, 0.35  # ns per row: one local sum among up to 4,096 cells, and more per doubling
CELL = 8e-8  # s: one number of one cell crosses
EXPANSION = 4e-3  # s: of any cells, to plan and to expand
FLOP = 2.5e-11  # s: of a matrix product
POINTWISE = 0.9  # ns per row: one factor, evaluated and rounded
ARRAY = 5.0  # ns per row and column that crosses
MOST_ORDER = 8  # of the series within a cell
SHARE = 0.5  # truncation, all rows at the worst place, against sqrt(R) / epsilon, below the deviation of any noise


def expected_rows(table: Table) -> int:
    """Public guess of the number of rows."""
    return table.expected_rows or table.row_cap


def sums_cost(table: Table, basis: Basis) -> float:
    """Estimated seconds of the path ``direct``: sums inside DuckDB."""
    powers = int(np.sum(basis.indices.max(axis=0)))
    row = COLUMN * basis.dimensions + FUNCTION * basis.size + 0.5 * powers
    return 1e-9 * expected_rows(table) * row + FUNCTION_PLAN * basis.size


def block_cost(table: Table, basis: Basis) -> float:
    """Estimated seconds of the path ``blocks``: sums over arrays that leave DuckDB."""
    if basis.float_error() * 2.0**FACTOR_BITS > 0.25:
        return math.inf
    split = choose_split(basis)
    a, b = len(split.left.degrees), len(split.right.degrees)
    row = (COLUMN + ARRAY) * basis.dimensions + POINTWISE * (a + b) + 2e9 * FLOP * a * b
    return 1e-9 * expected_rows(table) * row + 5e-3


def choose_cells(
    table: Table, columns: tuple[Column, ...], basis: Basis, epsilon: Fraction
) -> tuple[tuple[Grid, ...], int, float]:
    """(cells, order, seconds) of the cheapest expansion that is exact enough; infinite cost when there is none."""
    first = tuple(make_grid(c, a, 1) for c, a in zip(columns, basis.axes, strict=True))
    loose = sum(not g.exact for g in first)
    fixed = math.prod(g.places for g in first)
    unfit = math.prod(basis.degrees) > MOST_TENSOR or max(g.places for g in first) > MOST_PLACES
    unfit = unfit or table.row_cap > MOST_ROWS
    if unfit or fixed > MOST_CELLS or (loose and table.unit_key is not None) or loose > 3:
        return first, 0, math.inf
    if not loose:
        return first, 0, _cell_cost(table, first, 0)
    allowed = SHARE * math.sqrt(basis.size) / float(epsilon) / expected_rows(table)
    best: tuple[tuple[Grid, ...], int, float] = (first, 0, math.inf)
    for power, order in product(range(2, 13), range(1, MOST_ORDER + 1)):
        if fixed << (power * loose) > MOST_CELLS:
            continue
        grids = tuple(make_grid(c, a, 1 << power) for c, a in zip(columns, basis.axes, strict=True))
        cost = _cell_cost(table, grids, order)
        if cost < best[2]:
            cells = CellSums(table=table, columns=columns, basis=basis, grids=grids, order=order)
            if float(np.max(cells.level_truncations * _smooth_share(basis))) <= allowed:
                best = (grids, order, cost)
    return best


def _smooth_share(basis: Basis) -> Floats:
    """How much the truncation of each total degree counts, float[levels].

    All of it up to half the basis' degree, beyond as little as a function of four derivatives has there. Answers state
    the error of the functions they use, level by level (``answer``).
    """
    middle = 1 + basis.degree / 2
    return np.asarray(np.minimum(1.0, (middle / (1.0 + np.arange(int(basis.levels.max()) + 1))) ** 4))


def _cell_cost(table: Table, grids: tuple[Grid, ...], order: int) -> float:
    loose = sum(not g.exact for g in grids)
    cells = math.prod(g.places for g in grids)
    sums = math.comb(order + loose, loose)
    doublings = max(0.0, math.log2(cells) - 12)
    row = COLUMN * len(grids) + ANGLE * loose + GROUP + doublings + (LOCAL + LOCAL_MORE * doublings) * (sums - 1)
    done, flops = 1, 0.0
    for grid in grids:
        left = cells // math.prod(g.places for g in grids[: grids.index(grid) + 1])
        flops += 2.0 * done * grid.axis.degree * grid.places * left * sums * 3  # three limbs
        done *= grid.axis.degree
    return 1e-9 * expected_rows(table) * row + EXPANSION + CELL * cells * (sums + 1) + FLOP * flops
