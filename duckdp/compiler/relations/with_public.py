"""Rows of a protected table together with rows of a public one, which are no one's.

Unit-local, whatever is asked: what a row becomes is a function of that row and of public rows. So any condition will
do; nothing is compared with the privacy unit.

Sensitivity does need figures: a row that is joined with F public rows counts F times. F is the most public rows that
are alike in the columns that the condition says are equal to something (``Public.most_alike``), or all of them::

    inner   F times as many rows of a unit, and as many that count
    left    max(1, F) times; columns of the public side may be NULL
    semi, anti, not in   as many as before: rows are chosen, none is repeated
    found, listed        as many as before: a column tells what "semi" and "not in" would choose by

Where each row is a unit there is no unit to bound rows by, so F must be 1 (relations/joining_public.py): then a row is
still a row, and replacing one replaces one.

Work: rows times the public rows that are looked at for each, F of them, has a public bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from duckdp.catalog.table import Column, Table
from duckdp.compiler.bound_values import Parameters
from duckdp.compiler.expression import Call, ColumnRef, Expr, columns, show
from duckdp.compiler.notation import pretty
from duckdp.compiler.operators import row_of
from duckdp.compiler.printing import UNIT, print_expr, quote
from duckdp.compiler.relations.constant_rows import ConstantRows
from duckdp.compiler.relations.implied import without_unit
from duckdp.compiler.relations.joined import MOST_ROWS, Part
from duckdp.compiler.relations.narrowed import conjuncts_of
from duckdp.compiler.relations.relation import Node, Relation, describe_below
from duckdp.compiler.relations.whole_keys import compared_whole, marked

How = Literal["inner", "left", "semi", "anti", "not in", "found", "listed"]
LISTS = ("not in", "listed")  # whose condition is a value of the row
_WORDS = {
    "inner": "join with public",
    "left": "left join with public",
    "semi": "rows with a match in public",
    "anti": "rows without a match in public",
    "not in": "rows whose value is not in public",
    "found": "told of each row: a match in public",
    "listed": "told of each row: its value is in public",
}


@dataclass(frozen=True, kw_only=True)
class WithPublic(Node):
    """Rows with those of a public table.

    Attributes:
        how: what becomes of a row.
        rows: of a protected table or relation.
        public: of a public table; no two columns of both have one name.
        on: what must hold of a row and a public row, or None. Of "not in" and "listed": the value of a row.
        flag: of "found" and "listed" the column that tells it.
    """

    how: How
    rows: Part
    public: Part
    on: Expr | None
    flag: Column | None = None

    @property
    def inputs(self) -> tuple[Table, ...]:
        """The protected side, and the public one."""
        return (self.rows.table, self.public.table)

    def sides(self) -> tuple[tuple[Table, dict[str, Expr]], ...]:
        """The protected side alone: the unit is its rows'."""
        return ((self.rows.table, self.rows.named()),)

    def without_unit(self) -> WithPublic | None:
        """The same over rows of a linked table without their unit, which it reads nowhere."""
        table = without_unit(self.rows.table)
        return None if table is None else replace(self, rows=replace(self.rows, table=table))

    def printed(self) -> dict[str, Column]:
        """The columns of both sides as they are printed."""
        return {c.name: c for part in (self.rows, self.public) for c, _ in part.items}

    def passed(self) -> dict[str, tuple[Table, str]]:
        """Columns of both sides that are printed as the sides print them."""
        return self.rows.passed() | self.public.passed()

    def identity(self) -> dict[str, Any]:
        """By the protected side, and by what the public rows contain."""
        public = self.public.table.public
        assert public is not None
        told = {"columns": [[c.name, c.source, c.type] for c in self.public.table.columns], "digest": public.digest}
        side = {**self.public.identity(), "rows": {**told, "filter": self.public.table.filter}}
        flag = {} if self.flag is None else {"flag": self.flag.name}
        return {"with public": self.how, **flag, "rows": self.rows.identity(), "public": side, "on": show(self.on)}

    def pruned(self, names: set[str]) -> WithPublic:
        """The same without columns that nobody needs."""
        needed = names | {c.name for c in columns(self.on)}
        if self.how in LISTS:
            needed |= {c.name for c, _ in self.public.items}
        return replace(self, rows=self.rows.pruned(needed), public=self.public.pruned(needed))

    def print(self, columns_: tuple[Column, ...], parameters: Parameters) -> str:
        """Both sides; the unit is the row's."""
        wanted = {c.name for c in columns_}
        met = self.on if self.how in LISTS else compared_whole(self.on, self.passed())
        needed = wanted | {c.name for c in columns(met)}
        own = {name for c, _ in self.rows.items for name in (c.name, marked(c.name))}
        if self.how in LISTS:
            needed |= {c.name for c, _ in self.public.items}

        def place(column: Column) -> str:
            return f"{'l' if column.name in own else 'r'}.{quote(column.name)}"

        rows, flag = self.rows.print(needed, parameters), None if self.flag is None else self.flag.name
        items = [f"l.{UNIT} AS {UNIT}"] if self.rows.table.unit_key is not None else []
        items += [f"{place(c)} AS {quote(c.name)}" for c in columns_ if c.name != flag]
        if flag is not None and flag not in wanted:  # nobody reads it: what it is made of is not printed, nor bound
            return f"(SELECT {', '.join(items) or '1 AS one'} FROM {rows} AS l)"
        public = self.public.print(needed, parameters)
        on = "TRUE" if met is None else print_expr(met, place, parameters)
        if flag is not None:
            items.append(f"{self._told(place, public, on)} AS {quote(flag)}")
        head = f"SELECT {', '.join(items) or '1 AS one'} FROM {rows} AS l"
        if self.how in ("inner", "left"):
            return f"({head} {'LEFT JOIN' if self.how == 'left' else 'JOIN'} {public} AS r ON {on})"
        if self.how == "not in":
            (column, _), *_ = self.public.items
            return f"({head} WHERE {on} NOT IN (SELECT r.{quote(column.name)} FROM {public} AS r))"
        if self.flag is not None:
            return f"({head})"
        found = f"EXISTS (SELECT 1 FROM {public} AS r WHERE {on})"
        return f"({head} WHERE {found if self.how == 'semi' else f'NOT {found}'})"

    def _told(self, place: Callable[[Column], str], public: str, on: str) -> str:
        """What the flag is: TRUE or FALSE; of a list NULL too, as IN is."""
        if self.how == "found":
            return f"EXISTS (SELECT 1 FROM {public} AS r WHERE {on})"
        (column, _), *_ = self.public.items
        return f"({on} IN (SELECT {place(column)} FROM {public} AS r))"

    def describe(self) -> list[str]:
        """The public rows, and what they are joined on."""
        table = self.public.table
        where = f" where {pretty(self.public.where)}" if self.public.where is not None else ""
        on = f" on {pretty(self.on)}" if self.on is not None else ""
        rows = f"{table.row_cap:,} row{'s' if table.row_cap > 1 else ''}"
        name = f"{table.name} ({rows})" if isinstance(table, ConstantRows) else table.name
        return [f"{_WORDS[self.how]} {name}{where}{on}", *describe_below(self.rows.table, self.rows.where)]

    def notes(self) -> list[str]:
        """What the protected side tells."""
        return self.rows.table.node.notes() if isinstance(self.rows.table, Relation) else []


def join_public(
    how: How,
    rows: Part,
    public: Part,
    on: Expr | None,
    repeats: int,
    output: tuple[Column, ...],
    flag: Column | None = None,
) -> Relation:
    """The relation of rows with public ones.

    Args:
        how: what becomes of a row.
        rows: of a protected table.
        public: of a public one.
        on: as of :class:`WithPublic`.
        repeats: the most public rows that one row is joined with (:func:`most_joined`).
        output: columns as they come out, with the flag.
        flag: as of :class:`WithPublic`.
    """
    first = rows.table
    times = {"inner": repeats, "left": max(1, repeats)}.get(how, 1)
    of_unit = None if rows.rows is None else rows.rows * times
    counted = min(first.max_rows * times, MOST_ROWS, of_unit if of_unit is not None else MOST_ROWS)
    groups = min(first.max_groups * times, MOST_ROWS)
    return Relation(
        name=first.name,
        relation=first.relation,
        columns=output,
        row_cap=first.row_cap * times,
        unit_key=first.unit_key,
        unit_type=first.unit_type,
        max_rows=max(counted, 1),
        max_groups=max(groups if of_unit is None else min(groups, of_unit), 1),
        expected_rows=None,
        unit=first.unit,
        null_units=first.null_units,
        node=WithPublic(how=how, rows=rows, public=public, on=on, flag=flag),
        rows=of_unit,
        apart=rows.apart if times == 1 else None,
        units=first.units_cap,
        once=tuple(sorted(rows.once)) if times == 1 else (),
        told_once=tuple(sorted(rows.told_once)) if times == 1 else (),
    )


def most_joined(public: Part, on: Expr | None) -> int:
    """The most rows of a public side that one row, whatever its values, can be joined with."""
    table = public.table.public
    assert table is not None
    there = {c.name: e for c, e in public.items}
    base: dict[str, Expr] = {c.name: ColumnRef(c) for c in public.table.columns}
    fixed = [n for part in conjuncts_of(on) for n in _fixed(part, there)]
    fixed += [n for part in conjuncts_of(public.where) for n in _fixed(part, base)]
    return table.most_alike(fixed)


def _fixed(part: Expr, there: dict[str, Expr]) -> list[str]:
    """Columns of the public table that a condition makes equal to what is no column there.

    Args:
        part: a condition.
        there: what the columns of the public side are, by name.
    """
    if not isinstance(part, Call) or not row_of(part).equates:
        return []
    found = []
    for one, other in (part.arguments, part.arguments[::-1]):
        of = there.get(one.column.name) if isinstance(one, ColumnRef) else None
        if isinstance(of, ColumnRef) and not {c.name for c in columns(other)} & set(there):
            found.append(of.column.name)
    return found
