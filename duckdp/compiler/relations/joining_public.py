"""Reads joins and tests with public tables: any condition will do, so what is checked is work, and what a row becomes.

A relation is private as soon as one of its tables is, so private ones come first: inner joins are reordered, with what
their ON says. A public table on the left of LEFT JOIN keeps its rows whether or not anybody has a matching one: that
is told only by groups of its own columns, each of which is shown anyway (``Rows.filled``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler import ways
from duckdp.compiler.domains import Domains
from duckdp.compiler.expression import Call, ColumnRef, Expr
from duckdp.compiler.frame import boolean, both
from duckdp.compiler.parse import refuse
from duckdp.compiler.relations.derived import nullable
from duckdp.compiler.relations.joined import MOST_ROWS, Part
from duckdp.compiler.relations.joining import Items, Read, Rows
from duckdp.compiler.relations.matched import flag_of
from duckdp.compiler.relations.with_public import LISTS, How, join_public, most_joined
from duckdp.compiler.scope import Named, RowScope, conjuncts

MOST_LOOKED_AT = 10**10  # public rows, for all rows together
_INNER = {("", ""), ("", "INNER"), ("", "CROSS")}
_PLAIN = ("this", "side", "kind", "on", "using")


@dataclass(frozen=True, kw_only=True)
class Item:
    """One item of FROM: its JOIN, None for the first, and what stands there."""

    node: exp.Join | None
    named: Named

    @property
    def is_public(self) -> bool:
        """Whether its rows are no one's."""
        return self.named.view.table.public is not None

    @property
    def how(self) -> tuple[str, str]:
        """Side and kind of its join."""
        node = self.node
        return ("", "") if node is None else (str(node.side or "").upper(), str(node.kind or "").upper())


@dataclass(frozen=True, kw_only=True)
class Ordered:
    """FROM with a protected table first.

    Attributes:
        items: in an order in which they can be joined.
        said: conditions of inner joins, that belong to WHERE as well as to ON.
        merged: lower-case names that their USING makes one.
        filled: a public table whose rows are all kept stands on the left: LEFT JOIN.
    """

    items: tuple[Item, ...]
    said: tuple[exp.Expression, ...] = ()
    merged: frozenset[str] = frozenset()
    filled: bool = False


class PublicJoining:
    """Joins relations with public tables.

    Args:
        domains: finds the values of computed columns.
        reader: reads expressions in a scope.
        text: the statement.
    """

    def __init__(self, domains: Domains, reader: Read, text: str) -> None:
        self.domains, self.reader, self.text = domains, reader, text

    def _refuse(self, code: str, message: str, node: exp.Expression) -> NoReturn:
        refuse(code, message, node, self.text)

    def _check(self, node: exp.Join) -> None:
        if node.args.get("method") or any(v for k, v in node.args.items() if k not in _PLAIN):
            self._refuse("Q204", ways.JOIN_METHOD, node)

    # ---- order ----------------------------------------------------------------------------------------------------

    def ordered(self, items: Sequence[Item]) -> Ordered:
        """What stands in FROM, a protected table first.

        Raises:
            QueryError: Q204, public rows would tell whether somebody has a matching row.
        """
        first = next((i for i, item in enumerate(items) if not item.is_public), None)
        if first == 0 or first is None:
            return Ordered(items=tuple(items))
        before, item = items[:first], items[first]
        node = item.node
        assert node is not None
        if all(i.how in _INNER for i in (*before, item)):
            said = [c for i in range(1, first + 1) for c in self._conditions(items[: i + 1])]
            named = frozenset(
                c.name.lower() for i in items[1 : first + 1] if i.node for c in i.node.args.get("using") or ()
            )
            bare = [Item(node=None, named=i.named) for i in (item, *before)]
            return Ordered(items=(*bare, *items[first + 1 :]), said=tuple(said), merged=named)
        if first == 1 and item.how[0] in ("LEFT", "RIGHT") and item.how[1] in ("", "OUTER") and node.args.get("on"):
            turned = node.copy()
            turned.set("side", "LEFT" if item.how[0] == "RIGHT" else None)
            turned.set("kind", None)
            start, other = Item(node=None, named=item.named), Item(node=turned, named=before[0].named)
            filled = item.how[0] == "LEFT"
            if not filled or (len(items) == 2 and before[0].named.view.where is None):
                return Ordered(items=(start, other, *items[2:]), filled=filled)
        self._refuse("Q204", ways.PUBLIC_FIRST, node)

    def _conditions(self, items: Sequence[Item]) -> list[exp.Expression]:
        """What an inner join of the last item says of it and those before it."""
        *before, last = items
        node = last.node
        assert node is not None
        self._check(node)
        found = [] if node.args.get("on") is None else conjuncts(node.args["on"])
        for name in (c.name for c in node.args.get("using") or ()):
            holders = [i.named.names[0] for i in before if i.named.view.column(name) is not None]
            if len(holders) != 1:
                self._refuse("Q203", ways.USING, node)
            found.append(exp.column(name, holders[0]).eq(exp.column(name, last.named.names[0])))
        return found

    # ---- joins ----------------------------------------------------------------------------------------------------

    def add(self, rows: Rows, item: Item, where: exp.Expression | None) -> Rows:
        """Join a public table with the relations before it.

        Args:
            rows: what stands before it, a protected table among it.
            item: the public table.
            where: of the SELECT: an inner join takes the conditions that are about its rows.

        Raises:
            QueryError: Q203, Q204, Q403.
        """
        node, other = item.node, item.named
        place = node if node is not None else exp.Join()
        if node is not None:
            self._check(node)
        if other.names[0].lower() in [name.lower() for n in rows.named for name in n.names[:1]]:
            self._refuse("Q203", f'FROM names "{other.names[0][:63]}" twice. Give one an alias: x AS b.', place)
        side, kind = item.how
        how: How | None = "inner" if item.how in _INNER else None
        if side == "LEFT" and kind in ("", "OUTER"):
            how = "left"
        elif not side and kind in ("SEMI", "ANTI"):
            how = "semi" if kind == "SEMI" else "anti"
        if how is None or (node is None and how != "inner"):
            self._refuse("Q204", ways.PUBLIC_FIRST, place)
        own, there, scope, parts = self._sides(rows, other)
        said = self._said(node, rows, other, how, place)
        pool = [*rows.said, *(conjuncts(where) if where is not None else ())] if how == "inner" else []
        taken = [c for c in pool if id(c) not in rows.used and _is_about(c, scope, there)]
        read = self.reader(scope)
        on = both(*(boolean(read(c), c, "ON", self.text) for c in (*said, *taken)))
        using = frozenset(c.name.lower() for c in (node.args.get("using") or ())) if node else frozenset[str]()
        made = self._made(rows, how, own, there, parts, on, place, using)
        left = tuple(c for c in rows.said if all(c is not t for t in taken))
        return replace(made, said=left, used=rows.used | {id(c) for c in taken})

    def existing(
        self,
        rows: Rows,
        inner: Rows,
        said: Sequence[exp.Expression],
        node: exp.Expression,
        *,
        exists: bool,
        flag: bool = False,
    ) -> Rows:
        """Rows for which a subquery over a public table has, or has not, a row.

        Raises:
            QueryError: Q203, Q403.
        """
        (one,) = inner.named
        own, there, _, parts = self._sides(rows, one, where=inner.where)
        outer = RowScope(rows.table, None, self.text, own, rows.merged, strict=True)
        read = self.reader(RowScope(inner.table, None, self.text, (there,), inner.merged, outer))
        on = both(*(boolean(read(c), c, "WHERE", self.text) for c in said))
        how: How = "found" if flag else "semi" if exists else "anti"
        return self._made(rows, how, own, there, parts, on, node, frozenset())

    def listed(
        self,
        rows: Rows,
        inner: Named,
        value: exp.Expression,
        node: exp.Expression,
        *,
        exists: bool,
        flag: bool = False,
    ) -> Rows:
        """Rows whose value is, or is not, in a list of public values.

        Raises:
            QueryError: Q203, Q204, Q403.
        """
        if len(inner.view.columns) != 1:
            self._refuse("Q204", ways.IN_PUBLIC, node)
        own, there, _, parts = self._sides(rows, inner)
        found = self.reader(RowScope(rows.table, None, self.text, own, rows.merged))(value)
        listed = there.view.columns[0][1]
        if found.kind is not listed.kind:
            self._refuse("Q203", f"IN {ways.not_a(listed.kind, found.kind)}", node)
        if flag:
            return self._made(rows, "listed", own, there, parts, found, node, frozenset())
        if exists:
            on: Expr = Call(f"eq_{found.kind.value}", (found, listed), Kind.BOOLEAN)
            return self._made(rows, "semi", own, there, parts, on, node, frozenset())
        return self._made(rows, "not in", own, there, parts, found, node, frozenset())

    # ---- parts ----------------------------------------------------------------------------------------------------

    def _sides(
        self, rows: Rows, other: Named, where: Expr | None = None
    ) -> tuple[tuple[Named, ...], Named, RowScope, tuple[Part, Part]]:
        taken: set[str] = set()
        items = [Items(rows.table, self.domains, taken), Items(other.view.table, self.domains, taken)]
        own, there = tuple(items[0].of(n) for n in rows.named), items[1].of(other)
        scope = RowScope(rows.table, None, self.text, (*own, there), rows.merged)
        chosen = both(other.view.where, where) if where is not other.view.where else where
        parts = (
            Part(table=rows.table, where=rows.where, items=tuple(items[0].found)),
            Part(table=other.view.table, where=chosen, items=tuple(items[1].found)),
        )
        return own, there, scope, parts

    def _said(
        self, node: exp.Join | None, rows: Rows, other: Named, how: How, place: exp.Expression
    ) -> list[exp.Expression]:
        """The conditions of a join itself."""
        if node is None:
            return []
        on, using = node.args.get("on"), [c.name for c in node.args.get("using") or ()]
        if on is None and not using and how != "inner":
            self._refuse("Q204", ways.JOIN_METHOD, place)
        found = [] if on is None else conjuncts(on)
        for name in using:
            before = [n for n in rows.named if n.view.column(name) is not None]
            if len(before) != 1:
                self._refuse("Q203", ways.USING, place)
            found.append(exp.column(name, before[0].names[0]).eq(exp.column(name, other.names[0])))
        return found

    def _made(
        self,
        rows: Rows,
        how: How,
        own: tuple[Named, ...],
        there: Named,
        parts: tuple[Part, Part],
        on: Expr | None,
        node: exp.Expression,
        using: frozenset[str],
    ) -> Rows:
        own_part, public = parts
        looked = most_joined(public, None if how in LISTS else on)
        if how in LISTS:
            looked = 1  # a list that is made once
        if rows.table.row_cap * max(looked, 1) > MOST_LOOKED_AT:
            pairs = f"{rows.table.row_cap * looked:,}"
            what = f"rows here may be compared with {pairs} public rows; at most {MOST_LOOKED_AT:,}."
            self._refuse("Q403", f"{what} {ways.PUBLIC_EQUAL}", node)
        joins = how in ("inner", "left")
        if joins and rows.table.unit_key is None and looked > 1:
            self._refuse("Q204", ways.public_repeats(public.table.name, looked), node)
        if joins and rows.table.max_rows * looked > MOST_ROWS:
            self._refuse("Q403", ways.PUBLIC_EQUAL, node)
        missing = how == "left"
        output = [c for c, _ in own_part.items]
        named = list(own)
        if joins:
            output += [nullable(c) if missing else c for c, _ in public.items]
            named.append(_missing(there) if missing else there)
        flag = flag_of(output, nullable=how == "listed") if how in ("found", "listed") else None
        output += [] if flag is None else [flag]
        made = join_public(how, own_part, public, on, looked, tuple(output), flag)
        return replace(rows, table=made, where=None, named=tuple(named), merged=rows.merged | using)


def _missing(named: Named) -> Named:
    """A public view whose columns may be NULL."""
    columns = tuple(
        (n, ColumnRef(nullable(e.column)) if isinstance(e, ColumnRef) else e) for n, e in named.view.columns
    )
    return replace(named, view=replace(named.view, columns=columns))


def _is_about(condition: exp.Expression, scope: RowScope, there: Named) -> bool:
    """Whether a condition names a column of a public table, and nothing that is not there."""
    if condition.find(exp.Query, exp.AggFunc, exp.Window):
        return False
    named, own = list(condition.find_all(exp.Column)), RowScope(there.view.table, None, "", (there,), strict=True)
    return any(own.knows(c) for c in named) and all(scope.knows(c) for c in named)
