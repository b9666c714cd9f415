"""Rows of which the same unit has, or has not, a matching row elsewhere: SEMI and ANTI JOIN, EXISTS and IN.

Unit-local: the printer always compares the units, so whether a row stays is a function of its own unit's rows. No row
is made or repeated: all that is known of the columns stays what it is, and a unit has no more rows than before.

A flag: instead of leaving rows out, a column may tell the same of each row, TRUE or FALSE and never NULL. All rows stay
then, and whatever is asked of the column (OR, CASE, a group) is a function of the row and of its unit's rows.

Work: a match on the unit alone, with conditions on the other side alone, or where something of a row equals something
of the other side, is found in one pass. DuckDB looks for a match of all different values that EXISTS reads of the rows
around it, so what is compared is computed first, and is all that EXISTS reads: of ``b.x % 2 = a.x % 2`` each row of b
would else meet every different a.x of the unit. Any other condition that reads the rows is looked at for each pair of a
unit's rows, so both sides keep ``JOIN_ROWS`` rows of a unit then, chosen as those of a join are (relations/joined.py).
Rows that are not chosen do not stay and match nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler.bound_values import Parameters
from duckdp.compiler.expression import Call, ColumnRef, Expr, columns, show
from duckdp.compiler.notation import pretty
from duckdp.compiler.operators import Facts, operator_sql, row_of
from duckdp.compiler.printing import UNIT, print_chosen, print_expr, print_rows, quote
from duckdp.compiler.relations.derived import column_of, print_derived
from duckdp.compiler.relations.implied import names_owner
from duckdp.compiler.relations.joined import Part, kept_rows
from duckdp.compiler.relations.narrowed import conjuncts_of
from duckdp.compiler.relations.relation import (
    Node,
    Relation,
    describe_below,
    names_once,
    names_told_once,
    pruned,
    rows_of_unit,
)


@dataclass(frozen=True, kw_only=True)
class Matched(Node):
    """Some rows of a table or relation.

    Attributes:
        table: whose.
        where: which of them are looked at.
        other: where a match is looked for; none of its columns has the name of one of the table's.
        on: what else must hold of a match, over the columns of both.
        exists: rows with a match stay, or else rows without.
        flag: all rows stay, and this column tells whether they have a match.
    """

    table: Table
    where: Expr | None
    other: Part
    on: Expr | None
    exists: bool
    flag: Column | None = None

    @property
    def inputs(self) -> tuple[Table, ...]:
        """The table whose rows stay, and the one where matches are."""
        return (self.table, self.other.table)

    @property
    def conditions(self) -> tuple[list[Expr], list[Expr]]:
        """What must hold of a row of the other side alone, and what must hold of a pair."""
        there = {c.name for c, _ in self.other.items}
        parts = conjuncts_of(self.on)
        alone = [{c.name for c in columns(part)} <= there for part in parts]
        return [p for p, a in zip(parts, alone, strict=True) if a], [
            p for p, a in zip(parts, alone, strict=True) if not a
        ]

    @property
    def most(self) -> tuple[int | None, int | None]:
        """Rows of a unit that each side keeps; None: all."""
        if all(self._is_hashed(part) for part in self.conditions[1]):
            return None, None
        return kept_rows(rows_of_unit(self.table), self.other.rows)

    def _is_hashed(self, part: Expr) -> bool:
        """Whether a condition says that something of one side equals something of the other: found in one pass."""
        if not isinstance(part, Call) or not row_of(part).equates:
            return False
        there = {c.name for c, _ in self.other.items}
        sides = [{c.name in there for c in columns(argument)} for argument in part.arguments]
        return sides in ([{True}, {False}], [{False}, {True}])

    @property
    def linked(self) -> bool:
        """Whether the others need no units of their own, as a match is one that their link names."""
        own: dict[str, Expr] = {c.name: ColumnRef(c) for c in self.table.columns}
        found = names_owner(self.other.table, self.other.named(), self.table, own, self.on)
        return found and self.most == (None, None)

    def sides(self) -> tuple[tuple[Table, dict[str, Expr]], ...]:
        """The table whose rows stay, its columns as they are."""
        return ((self.table, {c.name: ColumnRef(c) for c in self.table.columns}),)

    def printed(self) -> dict[str, Column]:
        """The columns of the table whose rows stay."""
        return {c.name: c for c in self.table.columns}

    def identity(self) -> dict[str, Any]:
        """By the rows, by where matches are looked for, by what must hold, and by the rows that are kept of a unit."""
        own = {"rows": self.table._declared, "where": show(self.where)}
        kept = {"most": list(self.most)} if any(self.most) else {}
        told = {} if self.flag is None else {"flag": self.flag.name}
        return {"matched": self.exists, **told, **own, "other": self.other.identity(), "on": show(self.on), **kept}

    def pruned(self, names: set[str]) -> Matched:
        """The same without columns of its sides that nobody needs."""
        used = {c.name for c in columns(self.on)}
        other = self.other.pruned(used)
        kept = [self.where, *((self.on and [self.on]) or [])]
        return replace(self, other=other, table=pruned(self.table, kept, names))

    def print(self, columns_: tuple[Column, ...], parameters: Parameters) -> str:
        """The rows, their units compared with those of the others."""
        own = {c.name for c in self.table.columns}
        _, pairs = self.conditions
        flag = "" if self.flag is None else self.flag.name
        shown_columns = tuple(c for c in columns_ if c.name != flag)
        later = {c.name: c for c in (*shown_columns, *(c for c in columns(*pairs) if c.name in own))}
        read = {c.name: c for c in (*later.values(), *columns(self.where))}
        rows = print_rows(self.table, tuple(read[n] for n in sorted(read)), parameters, unit=True)

        def place(column: Column) -> str:
            return f"{'base' if column.name in own else 'other'}.{quote(column.name)}"

        def shown(exprs: list[Expr]) -> list[str]:
            return [print_expr(e, place, parameters) for e in exprs]

        conditions = [] if self.where is None else shown([self.where])
        here, _ = self.most
        told = self.flag is None or len(shown_columns) < len(columns_)  # else nobody reads whether there is a match
        compared = [self._compared(i, part, shown) for i, part in enumerate(pairs)] if told and here is None else []
        keys = [key for key, _ in compared if key]
        if here is not None or keys:  # a condition of pairs reads a column of the rows: there is one
            names = [quote(n) for n in sorted(later)]
            listed = ", ".join([*(f"base.{n} AS {n}" for n in (UNIT, *names)), *keys])
            where = f" WHERE {conditions.pop()}" if conditions else ""
            rows = f"(SELECT {listed} FROM {rows} AS base{where})"
            rows = rows if here is None else print_chosen(rows, names, parameters.salt, here)
        items = [
            f"base.{UNIT} AS {UNIT}",
            *(f"{print_derived(c, place(c), parameters)} AS {quote(c.name)}" for c in shown_columns),
        ]
        if told:
            found = self._found(shown(pairs) if here is not None else [c for _, c in compared], shown, parameters)
            conditions += [] if self.flag is not None else [found if self.exists else f"NOT {found}"]
            items += [] if self.flag is None else [f"{found} AS {quote(flag)}"]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"(SELECT {', '.join(items)} FROM {rows} AS base{where})"

    def _found(self, met: list[str], shown: Callable[[list[Expr]], list[str]], parameters: Parameters) -> str:
        """Whether a row has a match: a condition on ``base``.

        Args:
            met: conditions on the pair.
            shown: expressions over both sides.
            parameters: of the statement.
        """
        there, pairs = self.conditions
        own, (_, most) = {c.name for c in self.table.columns}, self.most
        linked, wanted = self.linked, {c.name for c in columns(*there, *pairs) if c.name not in own}
        other = self.other.print(wanted, parameters, linked=linked)
        if there or most is not None:
            names = [quote(c.name) for c in columns(*pairs) if c.name not in own]
            listed = ", ".join(
                [f"other.{n} AS {n}" for n in (*([] if linked else [UNIT]), *names)] + ([] if names else ["1 AS one"])
            )
            where = f" WHERE {' AND '.join(shown(there))}" if there else ""
            other = f"(SELECT {listed} FROM {other} AS other{where})"
            if most is not None:
                other = print_chosen(other, names or ["one"], parameters.salt, most)
        on = " AND ".join([*([] if linked else [f"other.{UNIT} = base.{UNIT}"]), *met])
        return f"EXISTS (SELECT 1 FROM {other} AS other WHERE {on})"

    def _compared(self, i: int, part: Expr, shown: Callable[[list[Expr]], list[str]]) -> tuple[str, str]:
        """What a row has to equal in a match, as a column of the rows, and the condition that reads that column alone.

        No column where it is one already.
        """
        if not isinstance(part, Call) or not self._is_hashed(part):  # a side has one row of a unit
            return "", shown([part])[0]
        there = {c.name for c, _ in self.other.items}
        sides, key = shown(list(part.arguments)), f"{UNIT}_key_{i}"
        own = next(p for p, a in enumerate(part.arguments) if not {c.name for c in columns(a)} <= there)
        if isinstance(part.arguments[own], ColumnRef):
            return "", operator_sql(part, sides)
        computed, sides[own] = f"{sides[own]} AS {key}", f"base.{key}"
        return computed, operator_sql(part, sides)

    def describe(self) -> list[str]:
        """The rows, and what they must, or must not, have."""
        on = f" and {pretty(self.on)}" if self.on is not None else ""
        head, *more = describe_below(self.table, self.where, "rows of")
        word = "told of each:" if self.flag is not None else "with" if self.exists else "without"
        return [head, *more, *describe_below(self.other.table, self.other.where, f"{word} a match on the unit{on} in")]

    def notes(self) -> list[str]:
        """What the notes of both sides tell, and which rows are not looked at."""
        found = [n for t in self.inputs if isinstance(t, Relation) for n in t.node.notes()]
        most = next((m for m in self.most if m is not None), None)
        if most is not None:
            of = f"of a {self.table.unit_key} with more than {most} rows on a side {most}"
            found.append(f"{of} are matched; the others are not looked at and do not count")
        return list(dict.fromkeys(found))


def match(
    table: Table, where: Expr | None, other: Part, on: Expr | None, *, exists: bool, flag: Column | None = None
) -> Relation:
    """The relation of the rows that have a match, or have none; see :class:`Matched` for the arguments."""
    own = table if isinstance(table, Relation) else None
    node = Matched(table=table, where=where, other=other, on=on, exists=exists, flag=flag)
    kept = node.most[0]
    rows = kept if kept is not None else rows_of_unit(table)
    return Relation(
        name=table.name,
        relation=table.relation,
        columns=table.columns if flag is None else (*table.columns, flag),
        row_cap=table.row_cap,
        unit_key=table.unit_key,
        unit_type=table.unit_type,
        max_rows=table.max_rows if kept is None else min(table.max_rows, kept),
        max_groups=table.max_groups,
        unit=table.unit,
        null_units=table.null_units,
        node=node,
        rows=rows,
        apart=own.apart if own else None,
        once=tuple(sorted(names_once(table))),
        told_once=tuple(sorted(names_told_once(table))),
        units=min(table.units_cap, other.table.units_cap) if exists and flag is None else table.units_cap,
    )


def flag_of(columns_: Sequence[Column], *, nullable: bool = False) -> Column:
    """A column that tells something of each row, under a name that none of these has."""
    taken, number = {c.name for c in columns_}, 1
    while f"has_match_{number}" in taken:
        number += 1
    name = f"has_match_{number}"
    return column_of(name, Kind.BOOLEAN, "BOOLEAN", Facts(nullable=nullable), nullable=nullable)
