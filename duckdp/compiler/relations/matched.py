"""Rows of which the same unit has, or has not, a matching row elsewhere: SEMI and ANTI JOIN, EXISTS and IN.

Unit-local: the printer always compares the units, so whether a row stays is a function of its own unit's rows. No row
is made or repeated: the most rows of a unit, and all that is known of the columns, stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from duckdp.catalog.table import Column, Table
from duckdp.compiler.bound_values import Parameters
from duckdp.compiler.expression import Expr, columns, show
from duckdp.compiler.notation import pretty
from duckdp.compiler.printing import UNIT, print_expr, print_rows, quote
from duckdp.compiler.relations.derived import print_derived
from duckdp.compiler.relations.joined import Part
from duckdp.compiler.relations.relation import Node, Relation, describe_below, pruned


@dataclass(frozen=True, kw_only=True)
class Matched(Node):
    """Some rows of a table or relation.

    Attributes:
        table: whose.
        where: which of them are looked at.
        other: where a match is looked for; none of its columns has the name of one of the table's.
        on: what else must hold of a match, over the columns of both.
        exists: rows with a match stay, or else rows without.
    """

    table: Table
    where: Expr | None
    other: Part
    on: Expr | None
    exists: bool

    @property
    def inputs(self) -> tuple[Table, ...]:
        """The table whose rows stay, and the one where matches are."""
        return (self.table, self.other.table)

    def identity(self) -> dict[str, Any]:
        """By the rows, by where matches are looked for, and by what must hold."""
        own = {"rows": self.table._declared, "where": show(self.where)}
        return {"matched": self.exists, **own, "other": self.other.identity(), "on": show(self.on)}

    def pruned(self, names: set[str]) -> Matched:
        """The same without columns of its sides that nobody needs."""
        used = {c.name for c in columns(self.on)}
        other = self.other.pruned(used)
        kept = [self.where, *((self.on and [self.on]) or [])]
        return replace(self, other=other, table=pruned(self.table, kept, names))

    def print(self, columns_: tuple[Column, ...], parameters: Parameters) -> str:
        """The rows, their units compared with those of the others."""
        own = {c.name for c in self.table.columns}
        used = columns(self.on)
        read = {c.name: c for c in (*columns_, *columns(self.where), *(c for c in used if c.name in own))}
        rows = print_rows(self.table, tuple(read[n] for n in sorted(read)), parameters, unit=True)

        def place(column: Column) -> str:
            return f"{'base' if column.name in own else 'other'}.{quote(column.name)}"

        conditions = [] if self.where is None else [print_expr(self.where, place, parameters)]
        other = self.other.print({c.name for c in used if c.name not in own}, parameters)
        on = "" if self.on is None else f" AND {print_expr(self.on, place, parameters)}"
        found = f"EXISTS (SELECT 1 FROM {other} AS other WHERE other.{UNIT} = base.{UNIT}{on})"
        conditions.append(found if self.exists else f"NOT {found}")
        items = [
            f"base.{UNIT} AS {UNIT}",
            *(f"{print_derived(c, place(c), parameters)} AS {quote(c.name)}" for c in columns_),
        ]
        return f"(SELECT {', '.join(items)} FROM {rows} AS base WHERE {' AND '.join(conditions)})"

    def describe(self) -> list[str]:
        """The rows, and what they must, or must not, have."""
        on = f" and {pretty(self.on)}" if self.on is not None else ""
        head, *more = describe_below(self.table, self.where, "rows of")
        word = "with" if self.exists else "without"
        return [head, *more, *describe_below(self.other.table, self.other.where, f"{word} a match on the unit{on} in")]

    def notes(self) -> list[str]:
        """What the notes of both sides tell."""
        found = [n for t in self.inputs if isinstance(t, Relation) for n in t.node.notes()]
        return list(dict.fromkeys(found))


def match(table: Table, where: Expr | None, other: Part, on: Expr | None, *, exists: bool) -> Relation:
    """The relation of the rows that have a match, or have none; see :class:`Matched` for the arguments."""
    own = table if isinstance(table, Relation) else None
    return Relation(
        name=table.name,
        relation=table.relation,
        columns=table.columns,
        row_cap=table.row_cap,
        unit_key=table.unit_key,
        unit_type=table.unit_type,
        max_rows=table.max_rows,
        max_groups=table.max_groups,
        unit=table.unit,
        null_units=table.null_units,
        node=Matched(table=table, where=where, other=other, on=on, exists=exists),
        rows=own.rows if own else None,
        apart=own.apart if own else None,
        units=min(table.units_cap, other.table.units_cap) if exists else table.units_cap,
    )
