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
from typing import Any, Generic, Protocol, TypeVar

from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler import ways
from duckdp.compiler.emit import key_codes, print_keyed
from duckdp.compiler.expression import ColumnRef, Expr
from duckdp.compiler.order_statements import (
    BLOCKS,
    COUNTED,
    EVERYTHING,
    FIRST,
    JOINED,
    LEVEL,
    MARKS,
    NEXT,
    NOTHING,
    RANK,
    WINDOWS,
    bucket,
    least,
    narrow,
    unnested,
)
from duckdp.compiler.printing import SQL_TYPES, UNIT, Parameters, number, print_chosen
from duckdp.compiler.query import Key, Query, group_count
from duckdp.core.reads import AddByKey, Kept, OfAllRows, Parts, PrivateQuery
from duckdp.errors import CatalogError, QueryError
from duckdp.mechanisms.exponential_quantiles import PLACES, below_terms

ORDER = "which values have given ranks among all"  # what parts do not tell
_BITS = 11  # of a cell's number: a block of the grid is cut into 2^11
_COUNTED = 4_094  # blocks in all groups: so many DuckDB counts in an array (its perfect_ht_threshold)
_LEAST_BLOCKS = 256  # in each of many groups


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
        return 1 if self.table.unit_key is None else min(self.table.max_groups, group_count(self.keys))

    @property
    def unit(self) -> int:
        """Rows of one unit in one group that count."""
        return 1 if self.table.unit_key is None else self.table.max_rows

    def windows(self, wanted: Sequence[WantedPart[Ranks]], salt: int) -> PrivateQuery:
        """Rows (-1 - part, rows before it, up to its end, 0) and, near ranks, (group, cell, rows before it, rows)."""
        parameters = Parameters()
        shifts, deepest = self._shifts, len(self._shifts) - 1
        whole = (self.steps + 1) * PLACES
        cuts = {(p.group, cut) for p in wanted for cut in (p.low, p.high) if 0 < cut < whole}
        marks = {place: i for i, place in enumerate(sorted(cuts))}

        def marked(group: int, cut: int) -> int:
            return marks.get((group, cut), NOTHING if cut <= 0 else EVERYTHING)

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
        levels = []
        for i in range(deepest):
            levels.append((NEXT if i else FIRST).format(i=i, j=i + 1, coarser=shifts[i]))
            levels.append(LEVEL.format(j=i + 1, block=shifts[i + 1]))
        body = WINDOWS.format(
            high=self._high,
            marks=self._print_marks(marks, parameters) if marks else "",
            below=RANK.format(mark="p.m1", known="lower.below" if marks else "0"),
            upto=RANK.format(mark="p.m2", known="upper.below" if marks else "0"),
            columns=unnested(listed, parameters),
            joins=JOINED if marks else "",
            levels="\n".join(levels).rstrip(",") if levels else "none AS (SELECT 0)",
            deepest=f"ends{deepest}",
        )
        most = sum(1 + min(2 * aim.reach + 8, self.steps + 1) for aim in aims)
        return self._shared(body, parameters, salt, rows=most, parts=OfAllRows(ORDER))

    def counts(self, ends: Sequence[Sequence[int]], salt: int) -> PrivateQuery:
        """Rows (place, rows): how many lie between neighbouring ends, in all groups one after the other.

        Args:
            ends: for each group cells, ascending: rows up to each of them, and after the last, are counted.
            salt: chooses each unit's rows.
        """
        width = self._high << self._shifts[0]
        cuts = [g * width + end for g, own in enumerate(ends) for end in (0, *(e + 1 for e in own))][1:]
        parts = AddByKey(keys=1, ordered=False)
        body = f"{self._print_counted(cuts)}\nSELECT bucket AS place, c FROM counted"
        return self._shared(body, Parameters(), salt, rows=len(cuts) + 1, parts=parts)

    def leaves(self, width: int, most: int, salt: int) -> PrivateQuery:
        """Rows (group, leaf, rows): leaves of so many cells that are not empty; NULL: rows without a value."""
        parameters = Parameters()
        rows = self._print(salt, parameters)
        group, leaf = (f"CAST({e} AS {least(n)})" for e, n in (("g", len(self.groups)), (f"x // {width}", most)))
        # keys of two bytes are counted soonest; a WHERE x IS NOT NULL would work cells out twice
        sql = f"SELECT {group} AS g, {leaf} AS leaf, system.main.count_star() FROM {rows} AS source(g, x) GROUP BY ALL"
        parts = AddByKey(keys=2, ordered=False)
        most_rows = (most + 1) * len(self.groups)
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=most_rows, parts=parts)

    @cached_property
    def _shifts(self) -> tuple[int, ...]:
        """Bits of a cell's number that blocks leave out, from coarse to single cells."""
        most = max(_LEAST_BLOCKS, _COUNTED // len(self.groups)) - 1
        shifts = [(self.steps // (most + 1)).bit_length()]
        while shifts[-1]:
            shifts.append(max(0, shifts[-1] - _BITS))
        return tuple(shifts)

    @property
    def _high(self) -> int:
        """Blocks of a group at the coarsest level."""
        return (self.steps >> self._shifts[0]) + 1

    def _shared(self, body: str, parameters: Parameters, salt: int, *, rows: int, parts: Parts) -> PrivateQuery:
        """A read of cells and of blocks of them, which the release's other reads start from too."""
        own, count = Parameters(), len(parameters.values)
        cells = Kept(name="cells", sql=self._print_cells(salt, own), parameters=tuple(own.values))
        blocks = Kept(name="blocks", sql=BLOCKS)
        alone = f"cells AS MATERIALIZED ({self._print_cells(salt, parameters)}),\nblocks AS MATERIALIZED ({BLOCKS})"
        return PrivateQuery(
            sql=f"WITH {alone},\n{body}",
            parameters=tuple(parameters.values),
            rows=rows,
            parts=parts,
            kept=(cells, blocks),
            rest=f"WITH {body}",
            rest_count=count,
        )

    def _print_cells(self, salt: int, parameters: Parameters) -> str:
        """(h, l) of the rows that count: the block that a cell lies in, of all groups' blocks, and its place there."""
        low = self._shifts[0]
        block = f"CAST(g * {self._high} + (x >> {low}) AS {narrow(len(self.groups) * self._high)})"
        place = f"CAST(x & {(1 << low) - 1} AS {narrow(1 << low)})"
        return f"SELECT {block} AS h, {place} AS l FROM {self._print(salt, parameters)} AS source(g, x)"

    def _print_counted(self, cuts: Sequence[int]) -> str:
        """How many rows lie between cuts, ascending: of blocks that have one within them, by their cells."""
        low = self._shifts[0]
        within = sorted({cut >> low for cut in cuts if cut & ((1 << low) - 1)})
        inside = f"h IN ({', '.join(map(str, within))})" if within else "false"
        return COUNTED.format(bucket=bucket(cuts), low=low, inside=inside)

    def _print_marks(self, marks: dict[tuple[int, int], int], parameters: Parameters) -> str:
        """Rows below each cut: those of cells before its own, and those of its own at places below it."""
        width, at = self._high << self._shifts[0], {}
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
        return MARKS.format(
            counted=self._print_counted(cuts),
            marked=unnested(marked, parameters),
            terms=unnested(listed, parameters),
        )

    def _print(self, salt: int, parameters: Parameters) -> str:
        """(g, x) of the rows that count, as a parenthesised SELECT; x is NULL of rows without a value."""
        query = Query(table=self.table, where=self.where, keys=self.keys, outputs=())
        names, rows = print_keyed(query, ColumnRef(self.column), parameters)
        g, join = "CAST(0 AS BIGINT)", ""
        if names and all(key.listed and None not in (key.domain or ()) for key in self.keys):
            g = "0"
            for name, key in zip(names, self.keys, strict=True):
                place = f"(CAST(prepared.{name} AS BIGINT) - 1)"  # of a listed value: from 1
                g = place if g == "0" else f"({g} * {len(key.domain or ())} + {place})"
        elif names:
            on = " AND ".join(f"d.{name} IS NOT DISTINCT FROM prepared.{name}" for name in names)
            g, join = "d.g", f" JOIN {self._domain(parameters)} ON {on}"
        keyed = self.table.unit_key is not None
        unit = f"prepared.{UNIT} AS {UNIT}, " if keyed else ""
        where = " WHERE prepared.x IS NOT NULL" if keyed else ""
        rows = f"(SELECT {unit}{g} AS g, {self.cell('prepared.x')} AS x FROM {rows}{join}{where})"
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
        """SQL of the grid cell that a value, printed as SQL, lies in; NULL of NULL."""
        span = self.column.interval
        share = f"({value} - {number(span.lower)}) / {number(span.upper - span.lower)}"
        raw = f"system.main.floor({share} * {number(self.steps)} + 0.5e0)"
        top = self.steps
        return f"CAST((CASE WHEN {raw} >= {top} THEN {top} WHEN {raw} <= 0 THEN 0 ELSE {raw} END) AS BIGINT)"

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
        way = ways.INSTEAD_OF_NUMBERS[column.kind]
        raise QueryError("Q203", f'a column of numbers is needed; "{column.name}" is a {column.kind.value}. {way}')
    if not column.interval.finite:
        raise QueryError(
            "Q401", f'"{column.name}" has no bounds. The data owner declares them with protect(bounds=...).'
        )
    return column
