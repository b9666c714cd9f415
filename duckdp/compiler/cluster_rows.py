"""What k-means reads of private rows: counts of cells of a public grid, and counts and sums of what is nearest.

Each column is a place u of {0, ..., 2^20 - 1} between its bounds. All is arithmetic of whole numbers, so what a row
adds to a read follows from that row and public figures alone: no order, thread or other row moves it. Distances are
those of places, so each column counts by its bounds' width; a row as near to two centres is the first one's.

A row counts that fulfils the predicate and has a number in every column. Of a unit's rows at most ``max_rows`` do, the
same ones in every read (``printing.print_chosen``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from duckdp.catalog.table import Column, Table
from duckdp.compiler.expression import ColumnRef, Expr, columns
from duckdp.compiler.printing import UNIT, Parameters, number, print_chosen, print_expr, print_rows, quote
from duckdp.core.reads import AddByKey, PrivateQuery

BITS = 20  # of the place of a value between the bounds of its column
PLACES = 2**BITS  # of a column
SIDE = PLACES - 1  # v = 2 u - SIDE is between -SIDE and SIDE

Center = Sequence[int]  # a place of each column
Cut = tuple[int, ...]  # how many bits of each column's place tell a cell


@dataclass(frozen=True, kw_only=True)
class ClusterRows:
    """Rows of some columns on the grid.

    Attributes:
        table: protected.
        columns: numbers with bounds.
        where: predicate, or None.
    """

    table: Table
    columns: tuple[Column, ...]
    where: Expr | None

    @property
    def unit(self) -> int:
        """Rows of one unit that count."""
        return 1 if self.table.unit_key is None else self.table.max_rows

    @property
    def names(self) -> list[str]:
        """Names of the places in SQL, one for each column."""
        return [f"c{i}" for i in range(len(self.columns))]

    def value(self, column: int, place: float) -> float:
        """A place in a column's units: the middle of what is rounded to it."""
        span = self.columns[column].interval
        inner = span.lower + (place + 0.5) / PLACES * (span.upper - span.lower)
        return float(min(max(inner, span.lower), span.upper))

    def cells(self, cut: Cut, coarser: Cut, known: Sequence[int], salt: int) -> PrivateQuery:
        """Rows (cell, rows): of the cells of a cut that lie within known cells of a coarser one.

        Args:
            cut: of the cells.
            coarser: bits of the known ones, none more than the cut's.
            known: their codes (:func:`code_of`); public.
            salt: chooses each unit's rows.
        """
        parameters = Parameters()
        inside = f"{_code(self.names, coarser)} IN ({', '.join(map(str, known))})" if any(coarser) else "TRUE"
        rows = self.rows(parameters, salt)
        sql = (
            f"SELECT {_code(self.names, cut)} AS cell, system.main.count_star() FROM {rows} AS q "
            f"WHERE {inside} GROUP BY ALL"
        )
        most = len(known) << (sum(cut) - sum(coarser))
        return self._query(sql, parameters, most)

    def sums(self, centers: Sequence[Center], salt: int) -> PrivateQuery:
        """Rows (place of a centre, rows, sums of v): of the rows that are nearest to each centre."""
        parameters = Parameters()
        sums = ", ".join(f"system.main.sum(2 * q.{name} - {SIDE})" for name in self.names)
        near = print_nearest(self.rows(parameters, salt), self.names, centers)
        sql = f"SELECT q.near, system.main.count_star(), {sums} FROM {near} AS q GROUP BY q.near"
        return self._query(sql, parameters, len(centers))

    def counts(self, centers: Sequence[Center], salt: int) -> PrivateQuery:
        """Rows (place of a centre, rows): how many are nearest to each centre."""
        parameters = Parameters()
        near = print_nearest(self.rows(parameters, salt), self.names, centers)
        sql = f"SELECT q.near, system.main.count_star() FROM {near} AS q GROUP BY q.near"
        return self._query(sql, parameters, len(centers))

    def rows(self, parameters: Parameters, salt: int, *, unit: bool = False) -> str:
        """(c0, c1, ...) of the rows that count, with ``unit`` as ``__unit`` too, as a parenthesised SELECT.

        Args:
            parameters: values are bound to them.
            salt: chooses each unit's rows.
            unit: all rows of a unit count, and come with it.
        """
        base = print_rows(self.table, columns(*map(ColumnRef, self.columns), self.where), parameters, unit=True)
        keyed = self.table.unit_key is not None
        items = [f"r.{UNIT} AS {UNIT}"] if keyed else []
        read = [f"r.{quote(column.name)}" for column in self.columns]
        items += [
            f"{_placed(value, column)} AS {name}"
            for value, column, name in zip(read, self.columns, self.names, strict=True)
        ]
        kept = [f"{value} IS NOT NULL" for value in read]
        if self.where is not None:
            kept.append(print_expr(self.where, lambda c: f"r.{quote(c.name)}", parameters))
        found = f"(SELECT {', '.join(items)} FROM {base} AS r WHERE {' AND '.join(kept)})"
        if keyed and not unit:
            return print_chosen(found, self.names, salt, self.unit)
        return found

    def _query(self, sql: str, parameters: Parameters, most: int) -> PrivateQuery:
        parts = AddByKey(keys=1, ordered=False)
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=most, parts=parts)


def code_of(cell: Sequence[int], cut: Cut) -> int:
    """The code of a cell: the bits of each column's, side by side."""
    code, shift = 0, 0
    for place, bits in zip(cell, cut, strict=True):
        code |= place << shift
        shift += bits
    return code


def print_nearest(rows: str, names: Sequence[str], centers: Sequence[Center]) -> str:
    """Rows with ``near``, the place of the nearest centre, as a parenthesised SELECT of all of their columns.

    |x - c|^2 less |x|^2 is compared: the sum of c (c - 2 x).
    """
    scores = [" + ".join(f"{p} * ({p} - 2 * q.{name})" for name, p in zip(names, c, strict=True)) for c in centers]
    return print_least(rows, scores)


def print_least(rows: str, scores: Sequence[str]) -> str:
    """Rows with ``near``, the place of the first of the least scores, as a parenthesised SELECT."""
    listed = ", ".join(f"CAST({score} AS BIGINT) AS s{j}" for j, score in enumerate(scores))
    least = f"system.main.least({', '.join(f'q.s{j}' for j in range(len(scores)))})"
    scored = f"(SELECT q.*, {listed} FROM {rows} AS q)"
    compared = f"(SELECT q.*, {least} AS least FROM {scored} AS q)"
    arms = " ".join(f"WHEN q.s{j} = q.least THEN {j}" for j in range(len(scores)))
    return f"(SELECT q.*, (CASE {arms} END) AS near FROM {compared} AS q)"


def _code(names: Sequence[str], cut: Cut) -> str:
    parts, shift = [], 0
    for name, bits in zip(names, cut, strict=True):
        if bits:
            parts.append(f"(q.{name} // {2 ** (BITS - bits)}) * {2**shift}")
        shift += bits
    return f"CAST({' + '.join(parts)} AS BIGINT)"


def _placed(value: str, column: Column) -> str:
    """A place of the grid; total."""
    span = column.interval
    raw = f"system.main.floor(({value} - {number(span.lower)}) / {number(span.upper - span.lower)} * {PLACES})"
    bounded = f"WHEN {raw} >= {SIDE} THEN {SIDE} WHEN {raw} > 0 THEN CAST({raw} AS BIGINT) ELSE 0"
    return f"CAST((CASE {bounded} END) AS BIGINT)"
