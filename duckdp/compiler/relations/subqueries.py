"""What stands in FROM: protected tables, subqueries and CTEs, read into views of tables and relations.

A subquery without aggregates computes columns and chooses rows: its view is one of the same table. One that groups by
the privacy unit gives a relation of its own (relations/unit_groups.py). Names are looked up as SQL does: a CTE comes
before a table of its name, in everything that follows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from duckdp.catalog.link import KeyId
from duckdp.catalog.table import Table, closest
from duckdp.compiler import ways
from duckdp.compiler.domains import Domains
from duckdp.compiler.expression import ColumnRef, Expr, measured
from duckdp.compiler.frame import (
    aggregates,
    aliases_of,
    all_hold,
    boolean,
    both,
    check_select,
    refuse_clause,
)
from duckdp.compiler.literals import small_int
from duckdp.compiler.output_names import output_name
from duckdp.compiler.parse import MAX_DEPTH, refuse
from duckdp.compiler.parse import MAX_NODES as MAX_PARTS
from duckdp.compiler.relations.choosing import Choosing, Views
from duckdp.compiler.relations.constant_rows import ConstantRows
from duckdp.compiler.relations.joining import Joining, Rows
from duckdp.compiler.relations.joining_public import Item, PublicJoining
from duckdp.compiler.relations.listing import Listing, written
from duckdp.compiler.relations.per_unit_select import Grouped
from duckdp.compiler.relations.relation import MAX_NODES, Relation
from duckdp.compiler.relations.stacking import Stacking
from duckdp.compiler.relations.windowing import Windowing, has_windows
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import FLAG, SCHEMA, Named, RowScope, View, view_from, view_of

NO_TABLE = "the query names no table. "


class Subqueries(Choosing):
    """Reads FROM and WITH of a statement.

    Args:
        tables: protected tables by lower-case name.
        text: the statement, for places in messages.
        parameters: values of ? and $1.
    """

    def __init__(self, tables: Mapping[str, Table], text: str, parameters: Sequence[object]) -> None:
        self.tables, self.text, self.parameters = tables, text, parameters
        self.domains = Domains()
        self.select: exp.Select | None = None  # the whole statement, with columns for tests of subqueries
        self.filled: frozenset[str] | None = None  # columns of a public table on the left of the whole statement
        self.joining = Joining(self.domains, lambda scope: Scalars(scope.leaf, text, parameters), text)
        self.publics = PublicJoining(self.domains, self.joining.reader, text)
        self.stacking = Stacking(self.domains, text)
        self.listing = Listing(text, parameters)

    def scope(self, select: exp.Select) -> tuple[RowScope, Expr | None, list[exp.Expression]]:
        """The names of a SELECT's rows, which rows its FROM and subqueries of WHERE leave, and what else WHERE says.

        Args:
            select: the whole statement.

        Raises:
            QueryError: Q1xx to Q3xx.
        """
        self._require_own_names(select)
        rows, known = self._from(select, {})
        rows, rest = self._matched(select, rows, known)
        rows, self.select = self._told_in(select, rows, known)
        if isinstance(rows.table, ConstantRows):
            self._refuse("Q205", NO_TABLE + ways.names(list(self.tables)), select)
        if rows.table.public is not None:
            self._refuse("Q205", ways.public_only(rows.table.name), select)
        self.filled = rows.filled
        return rows.scope(self.text), rows.where, rest

    def public_scope(self, select: exp.Select) -> tuple[RowScope, Expr | None, list[exp.Expression]]:
        """As :meth:`scope`, of a SELECT over a public table alone.

        Raises:
            QueryError: Q1xx to Q3xx.
        """
        self._require_own_names(select)
        rows, known = self._from(select, {})
        rows, rest = self._matched(select, rows, known)
        return rows.scope(self.text), rows.where, rest

    def _from(self, select: exp.Select, known: Views) -> tuple[Rows, Views]:
        """What stands in FROM, and the CTEs that are known in the SELECT."""
        known = self._with(select, known)
        clause = select.args.get("from_")
        if clause is None:
            self._refuse("Q205", NO_TABLE + ways.names(list(self.tables)), select)
        nodes = [None, *(select.args.get("joins") or ())]
        items = [Item(node=n, named=self._named(clause.this if n is None else n.this, known)) for n in nodes]
        ordered = self.publics.ordered(items)
        named = ordered.items[0].named
        rows = Rows(
            table=named.view.table, where=named.view.where, named=(named,), said=ordered.said, merged=ordered.merged
        )
        where = select.args.get("where")
        for item in ordered.items[1:]:
            if item.is_public and rows.table.public is None:
                rows = self.publics.add(rows, item, where)
            elif item.node is None or rows.table.public is not None:
                self._refuse("Q204", ways.PUBLIC_PAIR, item.node or select)
            else:
                rows = self.joining.add(rows, item.node, item.named, where)
            self._require_few(rows, item.node or select)
        if ordered.filled:
            columns = rows.named[1].view.columns
            rows = replace(rows, filled=frozenset(e.column.name for _, e in columns if isinstance(e, ColumnRef)))
        return rows, known

    def _require_few(self, rows: Rows, node: exp.Expression) -> None:
        """Q104, if rows are made in more steps than a relation may have: each is a pass over rows, and is planned."""
        if isinstance(rows.table, Relation) and rows.table.nodes > MAX_NODES:
            self._refuse("Q104", f"a SELECT here joins or matches more than {MAX_NODES} times. Ask for less.", node)

    def _require_own_names(self, select: exp.Select) -> None:
        """Q205, if the text names what only we name."""
        for node in select.find_all(exp.Identifier):
            if str(node.this).startswith(FLAG):
                self._refuse("Q205", f"names that begin with {FLAG} are duckdp's. Choose another.", node)

    def _refuse(self, code: str, message: str, node: exp.Expression) -> NoReturn:
        refuse(code, message, node, self.text)

    # ---- names --------------------------------------------------------------------------------------------------

    def _with(self, select: exp.Query, known: Views) -> Views:
        clause = select.args.get("with_")
        if clause is None:
            return known
        if clause.args.get("recursive"):
            self._refuse("Q204", ways.RECURSIVE, clause.expressions[0])
        found = dict(known)
        for cte in clause.expressions:
            if any(v for k, v in cte.args.items() if k not in ("this", "alias", "materialized")):
                self._refuse("Q204", ways.SUBQUERY, cte)
            name = cte.alias.lower()
            if name in (c.alias.lower() for c in clause.expressions if c is not cte):
                self._refuse("Q203", f'WITH names "{cte.alias[:63]}" twice. Name each CTE once.', cte)
            view = self.view(cte.this, found)
            found[name] = self._renamed(view, cte.args.get("alias"), cte)
        return found

    def _named(self, node: exp.Expression, known: Views) -> Named:
        """What one item of FROM stands for."""
        if isinstance(node, exp.Subquery):
            for part, value in node.args.items():
                if value and part not in ("this", "alias"):
                    refuse_clause(part, value, node, self.text)
            if isinstance(node.this, exp.Table) and not node.alias:
                return self._named(node.this, known)
            view = self._renamed(self.view(node.this, known), node.args.get("alias"), node)
            return Named(names=(node.alias or "the subquery",), view=view)
        if isinstance(node, exp.Values):
            view = self._renamed(self.view(node, known), node.args.get("alias"), node)
            return Named(names=(node.alias or "the subquery",), view=view)
        if isinstance(node, exp.Lateral):
            refuse_clause("laterals", [node], node, self.text)
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            what = "only protected tables and subqueries over them may stand in FROM."
            self._refuse("Q205", f"{what} {ways.names(list(self.tables))}", node)
        for part, value in node.args.items():
            if not value or part in ("this", "alias"):
                continue
            if part not in ("db", "catalog"):
                refuse_clause(part, value, node, self.text)
            if part == "catalog" or node.db.lower() != SCHEMA:
                written = node.name[:63]
                self._refuse("Q201", f'a table stands here without catalog and schema. Write "{written}".', node)
        cte = None if node.args.get("db") else known.get(node.name.lower())
        alias = node.args.get("alias")
        if cte is not None:
            return Named(names=(node.alias or node.name,), view=self._renamed(cte, alias, node))
        if alias is not None and alias.args.get("columns"):
            self._refuse("Q201", "a table's columns have no aliases here. Use their own names.", node)
        table = self.tables.get(node.name.lower())
        if table is None:
            near = closest(node.name, [*known, *self.tables])
            self._refuse("Q205", f'"{node.name[:63]}" is not a protected table. {near}', node)
        names = tuple(dict.fromkeys((node.alias or table.name, table.name)))
        return Named(names=names, view=view_of(table), own=not node.alias)

    def _renamed(self, view: View, alias: exp.Expression | None, node: exp.Expression) -> View:
        """A view whose columns are given other names, in their order."""
        names = [] if alias is None else [c.name for c in alias.args.get("columns") or ()]
        if not names:
            return view
        old = [n for n, _ in view.columns]
        if view.units or len(names) > len(old):
            self._refuse("Q203", "these columns cannot be renamed by position. Use AS in its SELECT.", node)
        given = [*names, *old[len(names) :]]
        twice = next((n for n in given if [g.lower() for g in given].count(n.lower()) > 1), None)
        if twice is not None:
            self._refuse("Q203", f'two columns here are called "{twice[:63]}". Give each a name of its own.', node)
        columns = tuple((n, e) for n, (_, e) in zip(given, view.columns, strict=True))
        keys = tuple((n, k) for n, before in zip(given, old, strict=True) if (k := view.key(before)) is not None)
        return replace(view, columns=columns, keys=keys, order=tuple(given))

    # ---- one subquery -------------------------------------------------------------------------------------------

    def view(self, node: exp.Expression, known: Views) -> View:
        """The rows and columns that a subquery gives.

        Raises:
            QueryError: Q1xx to Q3xx.
        """
        if isinstance(node, exp.Subquery) and not any(v for k, v in node.args.items() if k != "this"):
            node = node.this
        constants = written(node)
        if constants is not None:
            return self.listing.view(node, constants)
        if isinstance(node, exp.SetOperation):
            known = self._with(node, known)
            stacked = self.stacking.view(node, lambda part: self.view(part, known))
            self._check_size(stacked, node)
            return stacked
        select = check_select(node, self.text, inner=True)
        for clause in ("limit", "offset"):
            if select.args.get(clause) is not None:
                way = ways.INNER_LIMIT_OTHERS if _puts_others_together(node) else ways.INNER_LIMIT
                self._refuse("Q204", way, select.args[clause])
        found, known = self._from(select, known)
        found, rest = self._matched(select, found, known)
        found, select = self._told_in(select, found, known)
        if found.filled is not None:
            self._refuse("Q204", ways.PUBLIC_FILLED, select)
        scope = found.scope(self.text)
        aliases = aliases_of(select)

        def leaf(part: exp.Expression) -> Expr | None:
            alias = aliases.get(part.name.lower()) if isinstance(part, exp.Column) and not part.table else None
            if alias is not None and not scope.is_column(part) and not scope.is_unit(part):
                return row(alias)
            return scope.leaf(part)

        row = Scalars(leaf, self.text, self.parameters)
        said = [boolean(row(part), part, "WHERE", self.text) for part in rest]
        rows = both(found.where, scope.simplified(all_hold(said)))
        grouped = select.args.get("group") is not None or any(aggregates(e) for e in select.expressions)
        if grouped or select.args.get("distinct") or select.args.get("having") is not None:
            for clause in ("qualify", "windows"):
                if select.args.get(clause):
                    self._refuse("Q201", ways.WINDOW_OF_GROUPS, select)
            view = Grouped(select, scope, row, rows, self.domains, self.text).view()
        elif has_windows(select):
            windows = Windowing(select, found, rows, self.domains, self.text, tuple(self.parameters))
            view, row = windows.view(self._projected(select, windows.scope, windows.row, None)), windows.row
        elif select.args.get("windows"):
            self._refuse("Q201", ways.WINDOW_UNUSED, select)
        else:
            view = self._projected(select, scope, row, rows)
        self._check_order(select, view, row)
        self._check_size(view, select)
        return view

    def _projected(self, select: exp.Select, scope: RowScope, row: Scalars, where: Expr | None) -> View:
        columns: list[tuple[str, Expr]] = []
        units: list[str] = []
        marks: list[tuple[str, Expr]] = []
        keys: list[tuple[str, KeyId]] = []
        order: list[str] = []
        for node in select.expressions:
            inner = node.unalias()
            if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
                for named in scope.all_of(inner):
                    own = [u for u in named.view.units if u.lower() not in scope.merged or u not in units]
                    columns += named.view.columns
                    units += own
                    marks += named.view.marks
                    keys += named.view.keys
                    order += [n for n in named.view.order if n in own or not named.view.is_unit(n)]
                continue
            order.append(node.alias or output_name(node))
            if scope.is_unit(inner):
                units.append(order[-1])
            elif (mark := scope.mark(inner)) is not None:
                marks.append((order[-1], mark))
            else:
                columns.append((order[-1], row(inner)))
                key = scope.key(inner)
                keys += [] if key is None else [(order[-1], key)]
        return view_from(scope.table, columns, units, where, select, self.text, marks, keys, order=order)

    def _check_order(self, select: exp.Select, view: View, row: Scalars) -> None:
        """ORDER BY of a subquery orders nothing that is kept: its terms must exist, and are dropped."""
        order = select.args.get("order")
        for term in order.expressions if order is not None else ():
            inner = term.this
            named = isinstance(inner, exp.Column) and (view.column(inner.name) or view.is_unit(inner.name))
            if small_int(inner) is None and not named:
                row(inner)

    def _check_size(self, view: View, select: exp.Expression) -> None:
        """Views of views multiply what is computed: a statement of one page could be one of a million."""
        sizes = [measured(e) for e in (*(e for _, e in view.columns), view.where) if e is not None]
        nodes = view.table.nodes if isinstance(view.table, Relation) else 0
        if any(parts > MAX_PARTS or depth > MAX_DEPTH for parts, depth in sizes) or nodes > MAX_NODES:
            self._refuse("Q104", "the statement is too deep or too large once its subqueries are unfolded.", select)


def _puts_others_together(chosen: exp.Expression) -> bool:
    """Whether rows that a subquery does not choose are one group more: a LEFT JOIN with it, and CASE over its columns.

    So a BI tool shows the series beyond its limit.
    """
    join = chosen.find_ancestor(exp.Join, exp.Select)
    if not isinstance(join, exp.Join) or join.side != "LEFT" or not isinstance(join.parent, exp.Select):
        return False
    group = join.parent.args.get("group")
    return any(e.find(exp.Case) is not None for e in (*join.parent.expressions, *(group.expressions if group else ())))
