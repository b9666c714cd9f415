"""Where a condition says already that two rows have one unit, so that nobody needs to look the unit up once more.

The rows of a linked table have the unit of the row that they name: their scan joins the owners, as ``owner.key =
base.column``. A join of a linked table with the very table that it names, on the link, says the same again::

    lines l JOIN orders o ON l.__unit = o.__unit AND l.order = o.key        units of lines by a join with orders
    lines l JOIN orders o ON l.order = o.key                                the same rows, and the same units

Proof. Let o be a row of the parent as its scan gives it, of unit U, and l a raw row of the linked table. The first join
holds the pair where some owner row (key, unit) of the parent's scan has key = l.order and unit = U, and l.order =
o.key. The owners are the (key, unit) of that same scan, o is one of its rows, and no key stands there twice (checked
before each answer), so (o.key, U) is among them once: the pair stands there once if l.order = o.key, and not at all
else. That is the second join, row for row. What names the unit in the result is the parent's side in both. Were a key
to repeat, the second join would still pair a row of each unit with rows that name its own parents alone.

It holds for keys as they are in the data. Conditions compare values as they are read (numbers as DOUBLE, within bounds,
texts cut), so columns count only whose reading keeps different values apart: whole numbers of at most 32 bits, without
bounds and without a value that stands for NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from duckdp.catalog.table import Column, Table
from duckdp.compiler.expression import Call, ColumnRef, Expr
from duckdp.compiler.operators import row_of
from duckdp.compiler.relations.narrowed import conjuncts_of
from duckdp.compiler.relations.relation import Relation

_KEPT_APART = frozenset(("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"))


def names_owner(linked: Table, own: dict[str, Expr], other: Table, items: dict[str, Expr], on: Expr | None) -> bool:
    """Whether a condition joins each row of a linked table with the rows that its link names, and no others.

    Args:
        linked: a table or relation of one side.
        own: what the columns of that side are, over the table, by name.
        other: the table or relation of the other side.
        items: what the columns of the other side are, over that.
        on: the condition, over the columns of both.
    """
    if without_unit(linked) is None:
        return False
    for one, two in _equal(on):
        mine, theirs = own.get(one), items.get(two)
        if not isinstance(mine, ColumnRef) or not isinstance(theirs, ColumnRef):
            continue
        found, named = origin(linked, mine.column.name), origin(other, theirs.column.name)
        if found is None or named is None or found[0].link is None:
            continue
        link, column, (parent, key) = found[0].link, found[1], named
        exact = _is_kept_apart(column) and _is_kept_apart(key)
        if exact and (column.source, key.source) == (link.column, link.key) and _is_same(parent, link.parent):
            return True
    return False


def origin(table: Table, name: str) -> tuple[Table, Column] | None:
    """The declared table that a column is of, as it stands there, where rows have the unit of its rows; else None.

    Through joins on the unit: each side's row has the unit of the pair, or is missing, and its columns NULL.
    """
    if not isinstance(table, Relation):
        return next(((table, c) for c in table.columns if c.name == name), None)
    for below, items in table.node.sides():
        item = items.get(name)
        if item is not None:
            return origin(below, item.column.name) if isinstance(item, ColumnRef) else None
    return None


def without_unit(table: Table) -> Table | None:
    """The rows of a linked table, as they are or with those of public tables, of which no owner is looked up.

    None: the table has a unit of its own, or it is a relation that compares units.
    """
    if isinstance(table, Relation):
        node = table.node.without_unit()
        return None if node is None else replace(table, node=node, unit_key=None)
    return None if table.link is None else replace(table, link=None, unit_key=None)


def _equal(on: Expr | None) -> Iterator[tuple[str, str]]:
    """The names of two columns that a part of a condition says are equal, both ways round."""
    for part in conjuncts_of(on):
        if isinstance(part, Call) and row_of(part).equates:
            one, two = part.arguments
            if isinstance(one, ColumnRef) and isinstance(two, ColumnRef):
                yield one.column.name, two.column.name
                yield two.column.name, one.column.name


def _is_kept_apart(column: Column) -> bool:
    """Whether different raw values are read as different ones."""
    return column.type.upper() in _KEPT_APART and column.lower is None and column.null_value is None


def _is_same(table: Table, parent: Table) -> bool:
    """Whether two declarations scan the same rows, with the same units."""

    def scanned(one: Table) -> tuple[object, ...]:
        return one.relation, one.unit_key, one.unit_type, one.null_units, one.filter, one.link

    return scanned(table) == scanned(parent)
