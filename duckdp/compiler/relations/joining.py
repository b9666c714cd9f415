"""Reads FROM with several relations: each is joined with those before it on the privacy unit, or the text is refused.

That units are compared must be said in the text, at the top of ON or USING, or of WHERE for a comma: a join that pairs
rows of two people is another question, and nothing is added silently that would change the answer. What is said is a
fact of where columns come from, not of their names; what else is said is read as any condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NoReturn, cast

from sqlglot import exp

from duckdp.catalog.table import Column, Table
from duckdp.compiler import ways
from duckdp.compiler.domains import Domains
from duckdp.compiler.expression import ColumnRef, Expr, show
from duckdp.compiler.frame import boolean, both
from duckdp.compiler.parse import refuse
from duckdp.compiler.relations.derived import column_name, derive, nullable
from duckdp.compiler.relations.joined import JOIN_ROWS, Joined, Kind, Part, join
from duckdp.compiler.relations.matched import Matched, flag_of, match
from duckdp.compiler.relations.relation import Relation
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import TRUE, Named, RowScope, conjuncts

MOST_PAIRS = 10**11  # of rows that a join looks at: the work has a public bound
Read = Callable[[RowScope], Scalars]
Asks = Literal["true", "not false", "unknown"]
_KINDS: dict[tuple[str, str], Kind] = {
    ("", ""): "inner",
    ("", "INNER"): "inner",
    ("", "CROSS"): "inner",
    ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full",
    ("FULL", "OUTER"): "full",
}


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What FROM has become so far.

    Attributes:
        table: whose rows, all names together.
        where: which of them.
        named: views over it, by their names.
        merged: lower-case names that USING made one.
        said: conditions of joins that hold of the rows, to be read with WHERE.
        used: ids of the nodes of conditions of WHERE that have been read.
        filled: names of columns of a public table all of whose rows are kept.
    """

    table: Table
    where: Expr | None
    named: tuple[Named, ...]
    merged: frozenset[str] = frozenset()
    said: tuple[exp.Expression, ...] = ()
    used: frozenset[int] = frozenset()
    filled: frozenset[str] | None = None

    def scope(self, text: str, *, strict: bool = False) -> RowScope:
        """The names of its rows; strict: a table that has an alias has no other name."""
        return RowScope(self.table, None, text, self.named, self.merged, strict=strict)


class Joining:
    """Joins relations one by one.

    Args:
        domains: finds the values of computed columns.
        reader: reads expressions in a scope.
        text: the statement.
    """

    def __init__(self, domains: Domains, reader: Read, text: str) -> None:
        self.domains, self.reader, self.text = domains, reader, text

    def _refuse(self, code: str, message: str, node: exp.Expression) -> NoReturn:
        refuse(code, message, node, self.text)

    def add(self, rows: Rows, node: exp.Join, other: Named, where: exp.Expression | None) -> Rows:
        """Join one relation more with those before it.

        Args:
            rows: what stands before it.
            node: its JOIN.
            other: what is joined.
            where: the SELECT's condition, where a comma's units are compared.

        Raises:
            QueryError: Q203, Q204, Q403.
        """
        side, kind = str(node.side or "").upper(), str(node.kind or "").upper()
        if node.args.get("method") or any(
            v for k, v in node.args.items() if k not in ("this", "side", "kind", "on", "using")
        ):
            self._refuse("Q204", ways.JOIN_METHOD, node)
        self._require_keys(rows, other, node)
        if kind in ("SEMI", "ANTI") and not side:
            return self._matched(rows, node, other, exists=kind == "SEMI")
        how = _KINDS.get((side, kind))
        said = node.args.get("on") is not None or node.args.get("using")
        if how is None or (how != "inner" and not said):
            self._refuse("Q204", ways.JOIN_METHOD, node)
        return self._joined(rows, node, other, how, where)

    def _require_keys(self, rows: Rows, other: Named, node: exp.Expression) -> None:
        one, two = rows.table, other.view.table
        if one.unit_key is None or two.unit_key is None:
            self._refuse("Q204", ways.JOIN_OF_ROWS, node)
        if one.unit_type != two.unit_type:
            self._refuse("Q204", ways.join_types(one.unit_key, str(one.unit_type), str(two.unit_type)), node)
        names = [name.lower() for n in rows.named for name in n.names[:1]]
        if other.names[0].lower() in names:
            self._refuse("Q203", f'FROM names "{other.names[0][:63]}" twice. Give one an alias: x AS b.', node)

    # ---- conditions ---------------------------------------------------------------------------------------------

    def _condition(
        self, rows: Rows, both_sides: RowScope, node: exp.Join, other: Named, where: exp.Expression | None
    ) -> tuple[Expr | None, frozenset[str]]:
        """What ON or USING says besides that the units are equal, and the names that USING makes one."""
        on, using = node.args.get("on"), [c.name for c in node.args.get("using") or ()]
        left, right = rows.scope(self.text), RowScope(other.view.table, None, self.text, (other,))
        if using:
            keyed = (
                left.key(exp.column(n)) is not None and left.key(exp.column(n)) == other.view.key(n) for n in using
            )
            if not any(left.is_unit(exp.column(n)) and other.view.is_unit(n) for n in using) and not any(keyed):
                keys = [exp.Column(this=c.copy()) for c in node.args["using"]]
                left.require_known(keys)
                right.require_known(keys)
                self._refuse("Q204", ways.join_units(rows.table.unit_key), node)
            found = [self._same(n, rows, other, both_sides, node) for n in using if not other.view.is_unit(n)]
            return both(*found), frozenset(n.lower() for n in using)
        said = conjuncts(on) if on is not None else [] if where is None else conjuncts(where)
        if not any(_compares(part, left, right) for part in said):
            both_sides.require_known(c for part in said for c in part.find_all(exp.Column))
            self._refuse("Q204", ways.join_units(rows.table.unit_key), node)
        if on is None:  # of what WHERE says, keys belong to the join
            keys_of_both = self._keys_of(rows, other, where)
            said = [part for part in said if id(part) in keys_of_both]
        read = self.reader(both_sides)
        parts = [boolean(read(part), part, "ON", self.text) for part in said]
        return both(*(p for p in parts if p != TRUE)), frozenset()

    def _keys_of(self, rows: Rows, other: Named, where: exp.Expression | None) -> frozenset[int]:
        """Ids of the conditions of WHERE that say that keys of both sides name the same row."""
        left, right = rows.scope(self.text), RowScope(other.view.table, None, self.text, (other,))
        return frozenset(id(c) for c in (conjuncts(where) if where else ()) if _same_keys(c, left, right))

    def _same(self, name: str, rows: Rows, other: Named, scope: RowScope, node: exp.Join) -> Expr:
        """That a column of USING is equal on both sides."""
        before = [n for n in rows.named if n.view.column(name) is not None]
        if len(before) != 1 or node.side not in ("", "LEFT", None):
            self._refuse("Q203", ways.USING, node)
        return self.reader(scope)(exp.column(name, before[0].names[0]).eq(exp.column(name, other.names[0])))

    # ---- joins --------------------------------------------------------------------------------------------------

    def _joined(self, rows: Rows, node: exp.Join, other: Named, how: Kind, where: exp.Expression | None) -> Rows:
        taken: set[str] = set()
        items = [Items(rows.table, self.domains, taken), Items(other.view.table, self.domains, taken)]
        sides = [tuple(items[0].of(n) for n in rows.named), (items[1].of(other),)]
        scope = RowScope(rows.table, None, self.text, (*sides[0], *sides[1]), rows.merged)
        on, merged = self._condition(rows, scope, node, other, where)
        missing = (how in ("right", "full"), how in ("left", "full"))
        shown = [
            [_may_miss(n, i) for n in part] if m else part for part, i, m in zip(sides, items, missing, strict=True)
        ]
        parts = [
            Part(table=rows.table, where=rows.where, items=tuple(items[0].found)),
            Part(table=other.view.table, where=other.view.where, items=tuple(items[1].found)),
        ]
        output = [nullable(c) if m else c for i, m in zip(items, missing, strict=True) for c, _ in i.found]
        made = join(how, parts[0], parts[1], on, output)
        if not (isinstance(made.node, Joined) and any(made.node.single)):
            self._require_little_work(parts, node, "the join")
        comma = node.args.get("on") is None and not node.args.get("using")
        used = rows.used | (self._keys_of(rows, other, where) if comma else frozenset())
        before = frozenset[str]() if missing[0] else rows.merged  # what may be missing is the unit or NULL
        named = (*shown[0], *shown[1])
        return replace(rows, table=made, where=None, named=named, merged=before | merged, used=used)

    def _require_little_work(self, parts: Sequence[Part], node: exp.Expression, what: str) -> None:
        """Rows of one side, each with as many as a unit has on the other."""
        most = JOIN_ROWS
        pairs = min(
            p.table.row_cap * min(q.rows or most, most) for p, q in ((parts[0], parts[1]), (parts[1], parts[0]))
        )
        if pairs > MOST_PAIRS:
            self._refuse("Q403", f"{what} may look at {pairs:,} pairs of rows; at most {MOST_PAIRS:,}.", node)

    def _matched(self, rows: Rows, node: exp.Join, other: Named, *, exists: bool) -> Rows:
        items = Items(other.view.table, self.domains, {c.name for c in rows.table.columns})
        there = items.of(other)
        scope = RowScope(rows.table, None, self.text, (*rows.named, there), rows.merged)
        on, _ = self._condition(rows, scope, node, other, None)
        part = Part(table=other.view.table, where=other.view.where, items=tuple(items.found))
        return self._with_match(rows, part, on, node, exists=exists)

    def _with_match(
        self,
        rows: Rows,
        other: Part,
        on: Expr | None,
        node: exp.Expression,
        *,
        exists: bool,
        flag: bool = False,
    ) -> Rows:
        column = flag_of(rows.table.columns) if flag else None
        made = match(rows.table, rows.where, other, on, exists=exists, flag=column)
        if isinstance(made.node, Matched) and made.node.conditions[1]:
            own = Part(table=rows.table, where=rows.where, items=())
            self._require_little_work((own, other), node, "the match" if isinstance(node, exp.Join) else "EXISTS")
        return replace(rows, table=made, where=None)

    def ties(self, rows: Rows, inner: Rows, said: Sequence[exp.Expression]) -> bool:
        """Whether one of the conditions of a subquery says that its units are those around it."""
        around, own = rows.scope(self.text, strict=True), inner.scope(self.text, strict=True)
        return any(_compares_around(part, around, own) for part in said)

    def existing(
        self,
        rows: Rows,
        inner: Rows,
        said: Sequence[exp.Expression] | None,
        node: exp.Expression,
        *,
        exists: bool,
        pairs: Pairs | None = None,
        flag: bool = False,
    ) -> Rows:
        """Rows of which the same unit has, or has not, a row in a subquery.

        Args:
            rows: what is chosen from.
            inner: the subquery's rows.
            said: its conditions, one of which compares the units, or ``pairs``; None: it is the list of its units.
            node: EXISTS or IN.
            exists: rows with a match stay, or those without.
            pairs: what else IN compares.
            flag: all rows stay, and the last column tells whether they have a match.

        Raises:
            QueryError: Q204, units are not compared; Q403.
        """
        if rows.table.unit_key is None or inner.table.unit_key is None:
            self._refuse("Q204", ways.JOIN_OF_ROWS, node)
        if rows.table.unit_type != inner.table.unit_type:
            types = str(rows.table.unit_type), str(inner.table.unit_type)
            self._refuse("Q204", ways.join_types(rows.table.unit_key, *types), node)
        around = rows.scope(self.text, strict=True)
        if said is not None and not (pairs is not None and pairs.tied) and not self.ties(rows, inner, said):
            self._refuse("Q204", ways.exists_units(rows.table.unit_key), node)
        items = Items(inner.table, self.domains, {c.name for c in rows.table.columns})
        there = tuple(items.of(n) for n in inner.named)
        scope = RowScope(inner.table, None, self.text, there, inner.merged, around)
        read = self.reader(scope)
        parts = [boolean(read(part), part, "WHERE", self.text) for part in said or ()]
        if pairs is not None:
            parts.append(pairs.condition(self.reader, around, scope))
        part = Part(table=inner.table, where=inner.where, items=tuple(items.found))
        on = both(*(p for p in parts if p != TRUE))
        return self._with_match(rows, part, on, node, exists=exists, flag=flag)


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """What IN compares beside the unit: values of a row, and columns of the subquery.

    Attributes:
        values: (of the row, of the subquery).
        asks: "true": all are equal; "not false": none is known to differ; "unknown": it is NULL whether all are.
        tied: where one pair is equal the units are (relations/unit_keys.py).
    """

    values: tuple[tuple[exp.Expression, exp.Expression], ...]
    asks: Asks
    tied: bool = False

    def condition(self, reader: Read, around: RowScope, own: RowScope) -> Expr:
        """The condition over the rows of both sides; a value of the row names nothing of the subquery."""
        known = {}
        for i, (value, column) in enumerate(self.values):
            known[f"value_{i}"], known[f"column_{i}"] = reader(around)(value), reader(own)(column)
        each = [exp.column(f"value_{i}").eq(exp.column(f"column_{i}")) for i in range(len(self.values))]
        whole = exp.Paren(this=exp.and_(*each, copy=False))
        equal: exp.Expression = whole
        if self.asks == "not false":
            equal = exp.Not(this=exp.Is(this=whole, expression=exp.false()))
        elif self.asks == "unknown":
            equal = exp.Is(this=whole, expression=exp.Null())
        return reader(cast("RowScope", _Known(known)))(equal)


@dataclass(frozen=True)
class _Known:
    """Names that stand for expressions."""

    of: Mapping[str, Expr]

    def leaf(self, node: exp.Expression) -> Expr | None:
        return self.of[node.name] if isinstance(node, exp.Column) else None


class Items:
    """Columns of one side of a join: each expression that a view has, under a name of its own."""

    def __init__(self, table: Table, domains: Domains, taken: set[str]) -> None:
        self.table, self.domains, self.taken = table, domains, taken
        self.found: list[tuple[Column, Expr]] = []
        self.of_expr: dict[Expr, Column] = {}
        self.here: Column | None = None

    def of(self, named: Named) -> Named:
        """The same view over the columns of the side."""
        columns = tuple((n, self._ref(e)) for n, e in named.view.columns)
        marks = tuple((n, self._ref(e)) for n, e in named.view.marks)
        return replace(named, view=replace(named.view, columns=columns, marks=marks, where=None))

    def flag(self) -> Column:
        """A column that is TRUE where the side is there."""
        if self.here is None:
            self.here = cast("ColumnRef", self._ref(TRUE, "is_there")).column
        return self.here

    def _ref(self, expr: Expr, called: str | None = None) -> Expr:
        column = self.of_expr.get(expr)
        if column is None:
            plain = isinstance(expr, ColumnRef) and isinstance(self.table, Relation)
            name = called or (expr.column.name if isinstance(expr, ColumnRef) and plain else column_name(show(expr)))
            name = name if plain else f"{self.table.name}_{name}"
            number, base = 1, name
            while name in self.taken:
                number += 1
                name = f"{base}_{number}"
            self.taken.add(name)
            column = self.of_expr[expr] = derive(name, expr, self.domains)
            self.found.append((column, expr))
        return ColumnRef(column)


def _may_miss(named: Named, items: Items) -> Named:
    """A view of a side that may be missing: its columns may be NULL, its unit too."""
    flag = ColumnRef(nullable(items.flag()))
    view = named.view
    columns = tuple((n, ColumnRef(nullable(e.column)) if isinstance(e, ColumnRef) else e) for n, e in view.columns)
    marks = tuple((n, ColumnRef(nullable(e.column)) if isinstance(e, ColumnRef) else e) for n, e in view.marks)
    of_units = tuple((n, cast(Expr, flag)) for n in view.units)
    return replace(named, view=replace(view, columns=columns, marks=(*marks, *of_units), units=()))


def _same_keys(node: exp.Expression, left: RowScope, right: RowScope) -> bool:
    """Whether a condition says that keys of both sides name the same row, which is of one unit."""
    if not isinstance(node, exp.EQ):
        return False
    for one, two in ((node.this, node.expression), (node.expression, node.this)):
        key = left.key(one)
        if key is not None and key == right.key(two) and not right.knows(one) and not left.knows(two):
            return True
    return False


def _compares(node: exp.Expression, left: RowScope, right: RowScope) -> bool:
    """Whether a condition says that the units of both sides are equal."""
    if not isinstance(node, exp.EQ):
        return False

    def names_unit(part: exp.Expression, scope: RowScope, other: RowScope) -> bool:
        return (scope.is_unit(part) or scope.mark(part) is not None) and not other.knows(part)

    pairs = ((node.this, node.expression), (node.expression, node.this))
    units = any(names_unit(one, left, right) and names_unit(two, right, left) for one, two in pairs)
    return units or _same_keys(node, left, right)


def _compares_around(node: exp.Expression, around: RowScope, own: RowScope) -> bool:
    """Whether a condition says that a unit of a subquery is the one around it; a name that both know is the inner."""
    if not isinstance(node, exp.EQ):
        return False

    def outer(part: exp.Expression) -> bool:
        return not own.knows(part) and (around.is_unit(part) or around.mark(part) is not None)

    def inner(part: exp.Expression) -> bool:
        return own.is_unit(part) or own.mark(part) is not None

    def same_key(a: exp.Expression, b: exp.Expression) -> bool:
        return own.key(a) is not None and own.knows(a) and not own.knows(b) and own.key(a) == around.key(b)

    pairs = ((node.this, node.expression), (node.expression, node.this))
    return any((inner(a) and outer(b)) or same_key(a, b) for a, b in pairs)
