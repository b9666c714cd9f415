"""What quantiles read of private rows: order statistics near given ranks, and counts between given cells.

Values are cells 0, ..., steps of a public grid between a column's bounds: a whole number's own, if these are few.
Groups are numbered 0, 1, ... in the order of the product of their keys' domains. Counts tell, block by block of the
grid and then within blocks, where ranks are: nothing is sorted but what is near them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, Generic, Protocol, TypeVar

from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler.emit import key_codes, print_keyed
from duckdp.compiler.expression import ColumnRef, Expr
from duckdp.compiler.printing import SQL_TYPES, UNIT, Parameters, number, print_chosen
from duckdp.compiler.query import Key, Query
from duckdp.core.reads import AddByKey, OfAllRows, PrivateQuery
from duckdp.errors import CatalogError, QueryError
from duckdp.mechanisms.exponential_quantiles import PLACES, below_terms

ORDER = "which values have given ranks among all"  # what parts do not tell
_BITS = 11  # of a cell's number: a block of the grid is cut into 2^11

_WINDOWS = """\
WITH cells AS {kept} (SELECT * FROM {rows} AS source(g, x)),
blocks0 AS MATERIALIZED (SELECT g, x >> {block} AS b, system.main.count_star() AS c FROM cells GROUP BY ALL),
ends0 AS MATERIALIZED (
  SELECT g, b, c, system.main.sum(c) OVER (PARTITION BY g ORDER BY b) AS last FROM blocks0),
sizes AS (SELECT g, system.main.max(last) AS n FROM ends0 GROUP BY g),
{marks}
parts AS (
  SELECT p.*, {below} AS below, {upto} AS upto
  FROM (SELECT {columns}) AS p LEFT JOIN sizes ON sizes.g = p.g{joins}),
aims AS MATERIALIZED (
  SELECT p.*, (CASE WHEN inward = 0 THEN below + (a * (upto - below)) // d
    WHEN a = 0 THEN below + system.main.least(inward, (upto - below) // 2)
    ELSE upto - system.main.least(inward, (upto - below) // 2) END) AS middle FROM parts AS p),
ranks AS MATERIALIZED (
  SELECT part, g, below, upto, system.main.greatest(below, middle - reach - 1) AS first,
    system.main.least(upto, middle + reach + 2) AS final FROM aims),
{levels}
SELECT -1 - part, below, upto, 0 FROM ranks
UNION ALL
SELECT DISTINCT e.g, e.b, e.last - e.c, e.c FROM {deepest} AS e JOIN ranks AS r
ON e.g = r.g AND e.last > r.first AND e.last - e.c < r.final"""

_NOTHING, _EVERYTHING = -1, -2  # marks of cuts before and after all rows
_RANK = f"(CASE WHEN {{mark}} = {_EVERYTHING} THEN COALESCE(n, 0) WHEN {{mark}} >= 0 THEN {{known}} ELSE 0 END)"
_JOINED = " LEFT JOIN marks AS lower ON lower.mark = p.m1 LEFT JOIN marks AS upper ON upper.mark = p.m2"

_LEVEL = """\
near{i} AS MATERIALIZED (
  SELECT DISTINCT e.g, e.b, e.last - e.c AS before FROM ends{i} AS e JOIN ranks AS r
  ON e.g = r.g AND e.last > r.first AND e.last - e.c < r.final),
kept{j} AS MATERIALIZED (
  SELECT k.g, k.x, n.b AS parent, n.before
  FROM {kept} AS k JOIN near{i} AS n ON k.g = n.g AND k.x >> {coarser} = n.b),
blocks{j} AS (
  SELECT g, parent, x >> {block} AS b, system.main.any_value(before) AS before, system.main.count_star() AS c
  FROM kept{j} GROUP BY ALL),
ends{j} AS MATERIALIZED (
  SELECT g, b, c, before + system.main.sum(c) OVER (PARTITION BY g, parent ORDER BY b) AS last FROM blocks{j}),"""

_MARKS = """\
counted AS MATERIALIZED (
  SELECT {bucket} AS bucket, system.main.count_star() AS c
  FROM (SELECT {number} AS y FROM cells) AS cells GROUP BY ALL),
cells_at AS MATERIALIZED (
  SELECT m.mark, COALESCE(system.main.sum(c) FILTER (bucket >= m.base AND bucket < m.here), 0) AS before,
    COALESCE(system.main.sum(c) FILTER (bucket = m.here), 0) AS rows
  FROM (SELECT {marked}) AS m CROSS JOIN (SELECT * FROM counted UNION ALL SELECT -1, 0) AS counted GROUP BY m.mark),
marks AS MATERIALIZED (
  SELECT t.mark, system.main.any_value(before)
    + system.main.sum(system.main.greatest(0, (rows - remainder + step - 1) // step)) AS below
  FROM (SELECT {terms}) AS t JOIN cells_at ON cells_at.mark = t.mark GROUP BY t.mark),"""


class Ranks(Protocol):
    """Which ranks of a part are looked at; public."""

    @property
    def a(self) -> int:
        """With b: the one in the middle is n a / b, rounded down."""

    @property
    def b(self) -> int:
        """By which n a is divided: the rank is a share a / b of all."""

    @property
    def inward(self) -> int:
        """Rows; where a is 0 or b, so many from that end, but not beyond the middle."""

    @property
    def reach(self) -> int:
        """How many rows on either side of that rank are read as well."""


Aimed = TypeVar("Aimed", bound=Ranks, covariant=True)


@dataclass(frozen=True, kw_only=True)
class WantedPart(Generic[Aimed]):
    """A part of one group's rows, and the rank in it that is wanted; public.

    Attributes:
        group: its number.
        low, high: cuts (mechanisms/exponential_quantiles.py).
        aim: which ranks are near.
    """

    group: int
    low: int
    high: int
    aim: Aimed


@dataclass(frozen=True, kw_only=True)
class OrderRows:
    """A column's values on a grid, by groups, each unit's rows bounded.

    Attributes:
        table: protected.
        column: with bounds.
        where: predicate, or None.
        keys: each with a domain; none: one group.
        steps: of the grid.
    """

    table: Table
    column: Column
    where: Expr | None
    keys: tuple[Key, ...]
    steps: int

    @cached_property
    def groups(self) -> tuple[tuple[object, ...], ...]:
        """Keys of each group, as they cross."""
        return tuple(product(*map(key_codes, self.keys)))

    @property
    def shared(self) -> int:
        """Groups that one unit may have rows in."""
        return 1 if self.table.unit_key is None else min(self.table.max_groups, len(self.groups))

    @property
    def unit(self) -> int:
        """Rows of one unit in one group that count."""
        return 1 if self.table.unit_key is None else self.table.max_rows

    def windows(self, wanted: Sequence[WantedPart[Ranks]], salt: int) -> PrivateQuery:
        """Rows (-1 - part, rows before it, up to its end, 0) and, near ranks, (group, cell, rows before it, rows)."""
        parameters = Parameters()
        rows = self._print(salt, parameters)
        shifts, deepest = self._shifts(), len(self._shifts()) - 1
        whole = (self.steps + 1) * PLACES
        cuts = {(p.group, cut) for p in wanted for cut in (p.low, p.high) if 0 < cut < whole}
        marks = {place: i for i, place in enumerate(sorted(cuts))}

        def marked(group: int, cut: int) -> int:
            return marks.get((group, cut), _NOTHING if cut <= 0 else _EVERYTHING)

        # kept between the passes over them, where there are three or more than arithmetic makes them
        again = marks or self.keys or self.table.unit_key is not None
        aims = [p.aim for p in wanted]
        listed = {
            "part": list(range(len(wanted))),
            "g": [p.group for p in wanted],
            "m1": [marked(p.group, p.low) for p in wanted],
            "m2": [marked(p.group, p.high) for p in wanted],
            "a": [aim.a for aim in aims],
            "d": [aim.b for aim in aims],
            "inward": [aim.inward for aim in aims],
            "reach": [aim.reach for aim in aims],
        }
        levels = [
            _LEVEL.format(i=i, j=i + 1, kept=f"kept{i}" if i else "cells", block=shifts[i + 1], coarser=shifts[i])
            for i in range(len(shifts) - 1)
        ]
        sql = _WINDOWS.format(
            rows=rows,
            kept="MATERIALIZED" if again else "NOT MATERIALIZED",
            block=shifts[0],
            marks=self._print_marks(marks, parameters) if marks else "",
            below=_RANK.format(mark="p.m1", known="lower.below" if marks else "0"),
            upto=_RANK.format(mark="p.m2", known="upper.below" if marks else "0"),
            columns=_unnested(listed, parameters),
            joins=_JOINED if marks else "",
            levels="\n".join(levels).rstrip(",") if levels else "none AS (SELECT 0)",
            deepest=f"ends{deepest}",
        )
        most = sum(1 + min(2 * aim.reach + 8, self.steps + 1) for aim in aims)
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=most, parts=OfAllRows(ORDER))

    def counts(self, ends: Sequence[Sequence[int]], salt: int) -> PrivateQuery:
        """Rows (place, rows): how many lie between neighbouring ends, in all groups one after the other.

        Args:
            ends: for each group cells, ascending: rows up to each of them, and after the last, are counted.
            salt: chooses each unit's rows.
        """
        parameters = Parameters()
        rows = self._print(salt, parameters)
        width = self.steps + 1
        cuts = [g * width + end for g, own in enumerate(ends) for end in (0, *(e + 1 for e in own))][1:]
        source = f"(SELECT {self._number} AS y FROM {rows} AS source(g, x)) AS cells"
        sql = f"SELECT {_bucket(cuts)} AS place, system.main.count_star() FROM {source} GROUP BY ALL"
        return PrivateQuery(
            sql=sql,
            parameters=tuple(parameters.values),
            rows=len(cuts) + 1,
            parts=AddByKey(keys=1, ordered=False),
        )

    def leaves(self, width: int, most: int, salt: int) -> PrivateQuery:
        """Rows (group * most + leaf, rows) of leaves with so many cells each, where there are rows."""
        parameters = Parameters()
        rows = self._print(salt, parameters)
        place = f"g * {most} + x // {width}"
        sql = f"SELECT {place} AS place, system.main.count_star() FROM {rows} AS source(g, x) GROUP BY ALL"
        parts = AddByKey(keys=1, ordered=False)
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=most * len(self.groups), parts=parts)

    @property
    def _number(self) -> str:
        """SQL of a cell's number among those of all groups."""
        return f"g * {self.steps + 1} + x" if self.keys else "x"

    def _shifts(self) -> list[int]:
        """Bits of a cell's number that blocks leave out, from coarse to single cells."""
        shifts = [0]
        while 1 << (shifts[0] + _BITS) <= self.steps:
            shifts.insert(0, shifts[0] + _BITS)
        return shifts

    def _print_marks(self, marks: dict[tuple[int, int], int], parameters: Parameters) -> str:
        """Rows below each cut: those of cells before its own, and those of its own at places below it."""
        width, at = self.steps + 1, {}
        cuts = sorted({y for g, cut in marks for c in [g * width + cut // PLACES] for y in (g * width, c, c + 1)})
        cuts = [y for y in cuts if y > 0]
        for number_of, y in enumerate(cuts, 1):
            at[y] = number_of
        marked = {
            "mark": list(marks.values()),
            "base": [at.get(g * width, 0) for g, _ in marks],
            "here": [at.get(g * width + cut // PLACES, 0) for g, cut in marks],
        }
        terms = [(i, r, w) for (_, cut), i in marks.items() for r, w in below_terms(cut % PLACES) or [(0, 0)]]
        listed = {
            "mark": [t[0] for t in terms],
            # a cut between two cells has no row of its own cell below
            "remainder": [r if w else 2 * PLACES for _, r, w in terms],
            "step": [w or 1 for _, _, w in terms],
        }
        return _MARKS.format(
            bucket=_bucket(cuts),
            number=self._number,
            marked=_unnested(marked, parameters),
            terms=_unnested(listed, parameters),
        )

    def _print(self, salt: int, parameters: Parameters) -> str:
        """(g, x) of the rows that count, as a parenthesised SELECT."""
        query = Query(table=self.table, where=self.where, keys=self.keys, outputs=())
        names, rows = print_keyed(query, ColumnRef(self.column), parameters)
        g, join = "CAST(0 AS BIGINT)", ""
        if names:
            g, join = (
                "d.g",
                f" JOIN {self._domain(parameters)} ON "
                + " AND ".join(f"d.{name} IS NOT DISTINCT FROM prepared.{name}" for name in names),
            )
        keyed = self.table.unit_key is not None
        unit = f"prepared.{UNIT} AS {UNIT}, " if keyed else ""
        rows = f"(SELECT {unit}{g} AS g, {self.cell('prepared.x')} AS x FROM {rows}{join} WHERE prepared.x IS NOT NULL)"
        if not keyed:
            return rows
        if not names:
            return f"(SELECT CAST(0 AS BIGINT), r.x FROM {print_chosen(rows, ['x'], salt, self.unit)} AS r)"
        if self.shared < len(self.groups):
            draw = f"system.main.hash(system.main.hash(r.{UNIT}, r.g, CAST({salt} AS UBIGINT)))"
            place = f"system.main.dense_rank() OVER (PARTITION BY r.{UNIT} ORDER BY {draw}, r.g)"
            rows = (
                f"(SELECT r.* FROM (SELECT r.*, {place} AS place FROM {rows} AS r) AS r WHERE r.place <= {self.shared})"
            )
        each = f"(SELECT system.main.struct_pack(u := r.{UNIT}, g := r.g) AS {UNIT}, r.g, r.x FROM {rows} AS r)"
        return f"(SELECT r.g, r.x FROM {print_chosen(each, ['g', 'x'], salt, self.unit)} AS r)"

    def cell(self, value: str) -> str:
        """SQL of the grid cell that a value, printed as SQL, lies in."""
        span = self.column.interval
        share = f"({value} - {number(span.lower)}) / {number(span.upper - span.lower)}"
        raw = f"system.main.floor({share} * {number(self.steps)} + 0.5e0)"
        top = self.steps
        return f"CAST((CASE WHEN {raw} >= {top} THEN {top} WHEN {raw} > 0 THEN {raw} ELSE 0 END) AS BIGINT)"

    def _domain(self, parameters: Parameters) -> str:
        """The groups as a relation named ``d``: their numbers and keys."""
        items = [f"system.main.unnest(CAST({parameters.bind(list(range(len(self.groups))))} AS BIGINT[])) AS g"]
        for i, key in enumerate(self.keys):
            codes = [codes[i] for codes in self.groups]
            kind = "BIGINT" if key.listed else SQL_TYPES[key.expr.kind]
            if not key.listed and key.expr.kind is Kind.NUMBER:
                codes = [None if c is None else float(c) for c in codes]  # type: ignore[arg-type]
            items.append(f"system.main.unnest(CAST({parameters.bind(codes)} AS {kind}[])) AS k{i}")
        return f"(SELECT {', '.join(items)}) AS d"


def sort_windows(
    rows: Iterable[tuple[Any, ...]], parts: int
) -> tuple[list[tuple[int, int]], dict[int, list[tuple[int, int, int]]]]:
    """Ranks of the parts' ends, and runs by group. ``rows``: of :meth:`OrderRows.windows`; exact and private."""
    ends, runs = [(0, 0)] * parts, {}  # type: ignore[var-annotated]
    for row in rows:
        kind, *figures = (int(value) for value in row)
        if -parts <= kind < 0:
            ends[-1 - kind] = (figures[0], figures[1])
        else:
            runs.setdefault(kind, []).append(tuple(figures))
    return ends, runs


def bounded_column(table: Table, name: object) -> Column:
    """A column with bounds, of numbers.

    Raises:
        CatalogError: C102. QueryError: Q203, Q401.
    """
    column = table.column(name) if isinstance(name, str) else None
    if column is None:
        raise CatalogError("C102", f'"{table.name}" has no declared column "{str(name)[:63]}".', table=table.name)
    if column.kind is not Kind.NUMBER:
        raise QueryError("Q203", f'a quantile needs a number; "{column.name}" is a {column.kind.value}.')
    if not column.interval.finite:
        raise QueryError(
            "Q401", f'"{column.name}" has no bounds. The data owner declares them with protect(bounds=...).'
        )
    return column


def group_count(keys: Sequence[Key]) -> int:
    """How many groups the domains of keys have."""
    return prod(len(key.domain or ()) for key in keys)


def _unnested(listed: dict[str, list[int]], parameters: Parameters) -> str:
    return ", ".join(
        f"system.main.unnest(CAST({parameters.bind(values)} AS BIGINT[])) AS {name}" for name, values in listed.items()
    )


def _bucket(cuts: Sequence[int]) -> str:
    """How many of the cuts, ascending, are at or below y, group * width + cell: a search that is written out."""

    def search(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        return f"CASE WHEN y < {cuts[middle]} THEN {search(low, middle)} ELSE {search(middle + 1, high)} END"

    return f"({search(0, len(cuts))})"
