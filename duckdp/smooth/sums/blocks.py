"""Streamed rows, summed block by block as matrix products that make no rounding error: the path for many functions.

Every function is a product of a left and a right one (``split``), so that all sums are entries of A^T B, a row of A
holding all left functions of a table's row times its weight, a row of B the right ones. Both are first rounded to
multiples of 2^-20; a block has at most 8,192 rows.

Privacy:      the integers q of one row satisfy |q| <= W: what ``Basis.norms`` assumes.
Proof sketch: 20 bits: W is a multiple of 2^-20. A computed function is within e = ``Basis.float_error`` of [-1, 1] and
              2^20 e <= 1/4, so rounding to nearest gives at most W for A and at most 1 for B. Every product is a
              multiple of 2^-40 and at most 1, so every partial sum of 8,192 of them, in any order, with or without
              fused operations, is a multiple of 2^-40 of at most 2^13: 53 bits, exact. Blocks are added as integers.
              |a + C - C - a| <= 2^-21 for C = 1.5 2^32, the addition rounding to the multiples of 2^-20 that the
              floats near C are. Two factors rounded: an error of 2^-20 (1 + 2^-20) at most, plus the recurrence's.
Numerics:     a total is rounded to nearest to the released grid at the end, once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Column, Table
from duckdp.compiler.printing import Parameters
from duckdp.core.reads import Gather, PrivateQuery
from duckdp.smooth.axes import Floats
from duckdp.smooth.basis import Basis
from duckdp.smooth.sums.limbs import round_shift
from duckdp.smooth.sums.scan import print_scan, print_unit
from duckdp.smooth.sums.split import Split, choose_split

FACTOR_BITS = 20  # of the grid that products of functions are rounded to
ROW_ERROR = 2.0**-20 * (1 + 2.0**-20)  # of two rounded factors
_BLOCK = 1 << 13  # rows: 2 * 20 + 13 = 53 bits
_CACHE = 1 << 18  # doubles: measured, 2 MB
_SINGLE = 1 << 18  # multiplications up to which OpenBLAS uses one thread
_FEWEST = 256  # rows
_ROUNDER = 1.5 * 2.0 ** (52 - FACTOR_BITS)  # adding and subtracting it rounds a DOUBLE to that grid
_BATCH = 1 << 17  # rows: at most 2^9 blocks of 256, of 2^53 each, which an int64 holds
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class BlockSums:
    """Rows cross as columns of numbers, in batches.

    Attributes:
        table: the protected table.
        columns: its columns, in the basis' order.
        basis: the functions.
        bits: sums come in units of 2^-bits, at most 40.
        threads: that add at the same time.
    """

    table: Table
    columns: tuple[Column, ...]
    basis: Basis
    bits: int
    threads: int = field(default_factory=lambda: min(8, os.cpu_count() or 1))

    @cached_property
    def split(self) -> Split:
        """How the functions are split into products of a left and a right one."""
        return choose_split(self.basis)

    def query(self) -> PrivateQuery:
        """Units, NULL in rows that do not count, and weights in units of 2^-20 with a unit_key."""
        parameters = Parameters()
        points = [print_unit(c, a, parameters) for c, a in zip(self.columns, self.basis.axes, strict=True)]
        sql = print_scan(self.table, self.columns, points, parameters, weight_bits=FACTOR_BITS, every_row=True)
        sql = f"SELECT s.* FROM {sql} AS s"
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=None, arrays=True, parts=Gather())

    def collect(self, rows: Iterable[Sequence[Any]]) -> list[int]:
        """The exact sums of all rows, int[R], added up as they come.

        Args:
            rows: tuples of numbers, or (faster) tuples of arrays, one per column, NULL being NaN.
        """
        left, right = len(self.split.left.degrees), len(self.split.right.degrees)
        total = np.zeros((left, right), dtype=object)
        running: list[Future[Ints]] = []
        alone = left * right * _FEWEST > _SINGLE  # then BLAS has threads of its own
        threads = 1 if alone else self.threads
        with ThreadPoolExecutor(threads) as pool:
            for batch in batches(rows):
                running.append(pool.submit(self._add, batch))
                if len(running) > 2 * threads:
                    total += running.pop(0).result()
            for each in running:
                total += each.result()
        picked = total[self.split.at_left, self.split.at_right]
        return [round_shift(int(value), 2 * FACTOR_BITS - self.bits) for value in picked]

    def _add(self, columns: tuple[Floats, ...]) -> Ints:
        """Sums over a batch of at most 2^9 blocks, int64 in units of 2^-40."""
        step = _rows_per_block(self.split)
        a, b = self.split.left.space(step), self.split.right.space(step)
        total = np.zeros((a.lines, b.lines), dtype=np.int64)
        if any(np.isnan(np.sum(column)) for column in columns):
            missing = np.isnan(np.sum(columns, axis=0))
            columns = tuple(column[~missing] for column in columns)
        for start in range(0, len(columns[0]), step):
            part = [column[start : start + step] for column in columns]
            weight = part.pop() if self.table.unit_key is not None else None
            total += _product(a.fill(part), b.fill(part), weight)
        return total


def batches(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[Floats, ...]]:
    """Columns of at most 2^17 rows each, from tuples of arrays or from plain rows."""
    plain: list[Sequence[float]] = []
    for row in rows:
        if isinstance(row[0], np.ndarray):
            for start in range(0, len(row[0]), _BATCH):
                yield tuple(column[start : start + _BATCH] for column in row)
            continue
        plain.append(row)
        if len(plain) == 1 << 16:
            yield tuple(np.array(plain, dtype=np.float64).T)
            plain = []
    if plain:
        yield tuple(np.array(plain, dtype=np.float64).T)


def _rows_per_block(split: Split) -> int:
    """At most 8,192, and so few that the factors fit a core's cache."""
    factors = len(split.left.degrees) + len(split.right.degrees)
    return max(256, min(_BLOCK, _CACHE // factors // 256 * 256))


def _product(a: Floats, b: Floats, weight: Floats | None) -> Ints:
    """Add up a[:, row] b[:, row], rounded: int64[La, Lb] in units of 2^-40; a and b are overwritten."""
    if weight is not None:
        a *= weight * 2.0**-FACTOR_BITS
    for factor in (a, b):
        factor += _ROUNDER
        factor -= _ROUNDER
    rows, step = a.shape[1], _SINGLE // (len(a) * len(b))
    if step < _FEWEST:  # large: BLAS has threads of its own
        step = rows
    sums = a[:, :step] @ b[:, :step].T
    for start in range(step, rows, step):  # exact, as all of the block is
        sums += a[:, start : start + step] @ b[:, start : start + step].T
    sums *= 2.0 ** (2 * FACTOR_BITS)
    return sums.astype(np.int64)
