"""Rows counted by cells of their columns, inside DuckDB: what tables of counts beside a summary are read from.

Privacy:      a row is in one cell of each table, and weighs 2^20, or with a unit_key floor(2^20 max_rows / rows of the
              unit) where there are more than max_rows: what ``mechanisms/noisy_tables`` assumes. Every table is a sum
              over cells of the finest one that is read for its columns, which moves no row to two cells.
Proof sketch: the rows and weights are those of ``scan``. The cell of a number x is the number of edges E_1 .. E_(L-1)
              at most x: g = floor((x - lower) L / (upper - lower)), cut to 0 .. L - 1, is off by at most 1 where floats
              tell the edges apart, as every edge and g itself err by less than half a cell, and comparing x with the
              edges on both sides of cell g mends that. Whatever g was, the cell follows from the row's own value.
              Totality: g is cut to whole numbers from 0 to L - 1, so the lists have the entries asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Column, Table
from duckdp.compiler.printing import Parameters, number
from duckdp.core.nested_tables import Levels, NestedTables
from duckdp.core.reads import AddByKey, PrivateQuery
from duckdp.errors import InternalError
from duckdp.mechanisms.noisy_tables import BITS
from duckdp.smooth.range_cells import RangeAxis
from duckdp.smooth.sums.scan import WEIGHT, print_number, print_place, print_scan

Ints = NDArray[np.object_]


@dataclass(frozen=True, kw_only=True)
class RangeRead:
    """The read of all tables.

    Attributes:
        table: protected.
        columns: of the tables, in their order.
        axes: their cells.
        nested: the tables.
    """

    table: Table
    columns: tuple[Column, ...]
    axes: tuple[RangeAxis, ...]
    nested: NestedTables

    @cached_property
    def finest(self) -> tuple[Levels, ...]:
        """What is read: of the tables with the same columns the finest levels of each column, at one time."""
        found: dict[tuple[bool, ...], Levels] = {}
        for table in self.nested.tables:
            used = tuple(at > 0 for at in table)
            found[used] = tuple(map(max, found.get(used, table), table))
        return tuple(found.values())

    @cached_property
    def _keys(self) -> tuple[tuple[int, int], ...]:
        """(column, level) of every key."""
        return tuple(sorted({(i, at) for table in self.finest for i, at in enumerate(table) if at > 0}))

    def query(self) -> PrivateQuery:
        """(keys ..., weight): a row for each cell that is not empty; keys of other tables' are NULL."""
        parameters = Parameters()
        pairs = zip(self.columns, self.axes, strict=True)
        points = [_print_cell(column, own, parameters) for column, own in pairs]
        scan = print_scan(self.table, self.columns, points, parameters, weight_bits=BITS)
        keyed = self.table.unit_key is not None
        items = []
        for i, at in self._keys:
            divisor = self.axes[i].cells // self.nested.sizes[i][at]
            items.append(f"s.a{i}{f' // {divisor}' if divisor > 1 else ''} AS {_key(i, at)}")
        items.append(f"s.{WEIGHT}" if keyed else f"1 AS {WEIGHT}")  # columns of one cell each have no keys
        cells = f"(SELECT {', '.join(items)} FROM {scan} AS s)"
        # the set () has a row where there are none to add
        weight = f"coalesce(system.main.sum(CAST(c.{WEIGHT} AS BIGINT)), 0)" if keyed else "system.main.count_star()"
        names = [f"c.{_key(i, at)}" for i, at in self._keys]
        sets = ["(" + ", ".join(f"c.{_key(i, at)}" for i, at in enumerate(t) if at > 0) + ")" for t in self.finest]
        listed = ", ".join([*(f"CAST({name} AS INTEGER)" for name in names), f"CAST({weight} AS HUGEINT)"])
        sql = f"SELECT {listed} FROM {cells} AS c GROUP BY GROUPING SETS ({', '.join(sets)})"
        rows = sum(math.prod(self.nested.shape(t)) for t in self.finest)
        parts = AddByKey(keys=len(names), ordered=False)
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=rows, parts=parts)

    def collect(self, rows: Iterable[Sequence[Any]]) -> list[int]:
        """Exact cells of all tables, int[cells], in units of 2^-20 of a row: private."""
        found: dict[Levels, Ints] = {t: np.zeros(self.nested.shape(t), dtype=object) for t in self.finest}
        by_keys = {frozenset((i, at) for i, at in enumerate(t) if at): t for t in self.finest}
        shift = 0 if self.table.unit_key is not None else BITS
        try:
            for *keys, weight in rows:
                known = {key: int(v) for key, v in zip(self._keys, keys, strict=True) if v is not None}
                table = by_keys[frozenset(known)]
                place = np.ravel_multi_index([known.get(key, 0) for key in enumerate(table)], found[table].shape)
                flat = found[table].reshape(-1)  # a view
                flat[int(place)] = int(flat[int(place)]) + (int(weight) << shift)
        except (ValueError, TypeError, KeyError):
            raise InternalError("the read of ranges gave something other than its cells") from None
        cells: list[int] = []
        for t in self.nested.tables:
            own = next(f for f in self.finest if all((a > 0) == (b > 0) for a, b in zip(f, t, strict=True)))
            cells += [int(v) for v in _added(found[own], self.nested.shape(t)).ravel()]
        return cells


def _added(cells: Ints, shape: Sequence[int]) -> Ints:
    """The same rows by larger cells."""
    for column, size in enumerate(shape):
        each = list(cells.shape)
        each[column : column + 1] = [size, each[column] // size]
        cells = cells.reshape(each).sum(axis=column + 1)
    return cells


def _key(column: int, level: int) -> str:
    return f"k{column}_{level}"


def _print_cell(column: Column, own: RangeAxis, parameters: Parameters) -> str:
    """Cell 0 .. L-1 of a row's value, as INTEGER."""
    if own.axis.values is not None:
        return print_place(column, own.axis, parameters)
    if own.cells == 1:
        return f"CASE WHEN {print_number(column)} IS NULL THEN NULL ELSE CAST(0 AS INTEGER) END"
    x, last = print_number(column), number(own.cells - 1)
    lower, width = own.axis.lower, own.edges[0] - own.axis.lower if own.step else own.axis.upper - own.axis.lower
    lower_, width_ = (f"CAST({parameters.bind(float(v))} AS DOUBLE)" for v in (lower, width))
    scaled = f"({x} - {lower_}) / {width_}" + ("" if own.step else f" * {number(own.cells)}")
    near = f"system.main.floor({scaled})"
    cut = f"CASE WHEN {scaled} < {number(0)} THEN {number(0)} WHEN {near} > {last} THEN {last} ELSE {near} END"
    guess = f"CAST({cut} AS INTEGER)"
    edges = f"CAST({parameters.bind([-math.inf, *own.edges.tolist(), math.inf])} AS DOUBLE[])"
    above = f"CASE WHEN {x} >= system.main.list_extract({edges}, {guess} + 2) THEN 1 ELSE 0 END"
    below = f"CASE WHEN {x} < system.main.list_extract({edges}, {guess} + 1) THEN 1 ELSE 0 END"
    return f"({guess} + {above} - {below})"
