"""Cells of a public grid, cut finer and finer: which there are, and how fine by what is expected.

All of it follows from public figures and released counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from duckdp.compiler.cluster_rows import BITS, PLACES, Center, Cut

_FIRST_BITS, _LATER_BITS = 12, 8  # a level of cells: 4,096 of them; 256 within each that was kept
_FINEST = 6  # bits of a column, of several; a single one has up to 12
_PER_CELL = 10  # rows times epsilon


@dataclass(frozen=True, kw_only=True)
class Held:
    """A cell with so many rows, by noisy count."""

    cell: Center
    rows: int


def point(held: Held, cut: Cut) -> tuple[list[float], int]:
    """The middle of a cell, in places, and its rows."""
    return [(place + 0.5) * (PLACES >> bits) for place, bits in zip(held.cell, cut, strict=True)], held.rows


def cell_bits(rows: float, columns: int, k: int) -> int:
    """Bits of each column that cells are cut by, of so many rows times epsilon: the module says why."""
    most = BITS if columns == 1 else _FINEST
    most = min(most, _FIRST_BITS) if columns == 1 else most
    bits = round(2 / (2 + columns) * math.log2(max(rows / _PER_CELL, 1.0)))
    while bits * columns < math.log2(4 * k):
        bits += 1
    return max(1, min(bits, most))


def levels(bits: int, columns: int) -> tuple[Cut, ...]:
    """Cuts, from coarse to fine: of all columns alike but for one bit, the first by up to 12 bits, later ones by 8."""
    total = bits * columns
    later = math.ceil(max(0, total - _FIRST_BITS) / _LATER_BITS)
    ends = [total - _LATER_BITS * left for left in range(later, -1, -1)]
    return tuple(tuple(end // columns + (i < end % columns) for i in range(columns)) for end in ends)


def within(cells: Sequence[Center], coarser: Cut, cut: Cut) -> list[Center]:
    """All cells of a cut within cells of a coarser one."""
    more = [bits - before for bits, before in zip(cut, coarser, strict=True)]
    offsets = list(product(*(range(2**bits) for bits in more)))
    return [
        tuple((place << bits) + at for place, bits, at in zip(cell, more, offset, strict=True))
        for cell in cells
        for offset in offsets
    ]
