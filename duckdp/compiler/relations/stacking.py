"""Reads UNION ALL, and UNION, of rows: branches whose units are of one kind, column by column.

That a column is the privacy unit is a fact of where it comes from in every branch: one that is the unit in one branch
and a value in another would show the unit as a value, and is refused. UNION, which leaves one of equal rows, is UNION
ALL with one row for each unit and values: it needs the unit among its columns, as DISTINCT does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from sqlglot import exp

from duckdp.catalog.link import KeyId
from duckdp.catalog.table import Column, Kind
from duckdp.compiler import ways
from duckdp.compiler.domains import Domains
from duckdp.compiler.expression import ColumnRef, Expr, Literal, is_null, show
from duckdp.compiler.literals import small_int
from duckdp.compiler.parse import refuse
from duckdp.compiler.relations.derived import column_name
from duckdp.compiler.relations.joined import Part
from duckdp.compiler.relations.stacked import stack, stacked_column
from duckdp.compiler.relations.unit_groups import group_by_unit, key_column
from duckdp.compiler.scope import TRUE, View
from duckdp.compiler.types import as_type, choice_type, chosen, typed

_RULED = ("this", "expression", "distinct", "with_", "order")
Reader = Callable[[exp.Expression], View]


class Stacking:
    """Reads set operations of rows.

    Args:
        domains: finds the values of columns.
        text: the statement.
    """

    def __init__(self, domains: Domains, text: str) -> None:
        self.domains, self.text = domains, text

    def _refuse(self, code: str, message: str, node: exp.Expression) -> NoReturn:
        refuse(code, message, node, self.text)

    def view(self, node: exp.SetOperation, read: Reader) -> View:
        """The rows and columns of a set operation.

        Args:
            node: without its WITH, which the reader knows.
            read: gives the view of a branch.

        Raises:
            QueryError: Q203, Q204.
        """
        views = [(part, read(part)) for part in self._branches(node)]
        for part, view in views:
            self._require_rows(part, view, views[0][1])
        found = self._stacked(views)
        self._check_order(node, found)
        return self._distinct(node, found) if node.args.get("distinct") else found

    def _branches(self, node: exp.SetOperation) -> list[exp.Expression]:
        """The branches of UNION ALL of UNION ALL, from left to right; those of one operation else."""
        found: list[exp.Expression] = []
        current: exp.Expression = node
        while isinstance(current, exp.SetOperation) and (current is node or _is_plain(current, node)):
            if not isinstance(current, exp.Union):
                self._refuse("Q204", ways.INNER_SETS, current)
            odd = next((k for k, v in current.args.items() if v and k not in _RULED), None)
            if odd is not None:
                self._refuse("Q204", ways.INNER_LIMIT if odd in ("limit", "offset") else ways.UNION_PLAIN, current)
            found.insert(0, current.expression)
            current = current.this
        return [current, *found]

    def _require_rows(self, node: exp.Expression, view: View, first: View) -> None:
        """Rows of units, all of one kind."""
        if view.table.public is not None:
            self._refuse("Q204", ways.UNION_PUBLIC, node)
        if view.table.unit_key is None:
            self._refuse("Q204", ways.UNION_OF_ROWS, node)
        if view.table.unit_type != first.table.unit_type:
            unit, types = first.table.unit_key, (str(first.table.unit_type), str(view.table.unit_type))
            self._refuse("Q204", ways.join_types(str(unit), *types), node)

    # ---- columns --------------------------------------------------------------------------------------------------

    def _stacked(self, views: Sequence[tuple[exp.Expression, View]]) -> View:
        first = views[0][1]
        width = len(first.order)
        for part, view in views:
            if len(view.order) != width:
                rule = f"its branches give {width} and {len(view.order)} columns."
                self._refuse("Q203", f"{rule} Write as many in each.", part)
        items: list[list[tuple[Column, Expr]]] = [[] for _ in views]
        taken: set[str] = set()
        columns: list[tuple[str, Expr]] = []
        units: list[str] = []
        marks: list[tuple[str, Expr]] = []
        keys: list[tuple[str, KeyId]] = []
        for place, name in enumerate(first.order):
            names = [view.order[place] for _, view in views]
            if all(view.is_unit(n) for n, (_, view) in zip(names, views, strict=True)):
                units.append(name)
                continue
            flags = [_flag(view, n) for n, (_, view) in zip(names, views, strict=True)]
            given = [view.column(n) or TRUE for n, (_, view) in zip(names, views, strict=True)]
            if any(flags):
                given = self._flags(flags, given, [part for part, _ in views])
            column, exprs = self._column(given, taken, [part for part, _ in views])
            for own, e in zip(items, exprs, strict=True):
                own.append((column, e))
            if any(flags):
                marks.append((name, ColumnRef(column)))
                continue
            columns.append((name, ColumnRef(column)))
            named = {view.key(n) for n, (_, view) in zip(names, views, strict=True)}
            of_null = any(isinstance(e, ColumnRef) and e.column.null_value is not None for e in given)
            keys += [(name, k) for k in named if k is not None and len(named) == 1 and not of_null]
        parts = [
            Part(table=view.table, where=view.where, items=tuple(own_items))
            for (_, view), own_items in zip(views, items, strict=True)
        ]
        return View(
            table=stack(parts),
            columns=tuple(columns),
            units=tuple(units),
            marks=tuple(marks),
            keys=tuple(keys),
            order=first.order,
        )

    def _flags(
        self, flags: Sequence[Expr | None], given: Sequence[Expr], nodes: Sequence[exp.Expression]
    ) -> list[Expr]:
        """What tells in each branch whether a column is the unit or NULL, where it is the unit in some."""
        found: list[Expr] = []
        for flag, value, node in zip(flags, given, nodes, strict=True):
            if flag is None and not is_null(value):
                self._refuse("Q204", ways.UNION_UNIT, node)
            found.append(Literal(None, Kind.BOOLEAN) if flag is None else flag)
        return found

    def _column(
        self, given: Sequence[Expr], taken: set[str], nodes: Sequence[exp.Expression]
    ) -> tuple[Column, list[Expr]]:
        """The column of a place, and what each branch gives for it, as DuckDB's common type has it."""
        plain = [e for e in given if not is_null(e)]
        kind = plain[0].kind if plain else given[0].kind
        for e, node in zip(given, nodes, strict=True):
            if not is_null(e) and e.kind is not kind:
                self._refuse("Q203", ways.union_kinds(kind, e.kind), node)
        exprs = [Literal(None, kind) if is_null(e) else e for e in given]
        if kind is Kind.NUMBER and plain:
            met = choice_type(given)
            exprs = [e if is_null(e) else typed(as_type(e, met), met) for e in chosen(exprs, met)]
        base = column_name(show(exprs[0]))
        name, number = base, 1
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name)
        return stacked_column(name, exprs, self.domains), exprs

    # ---- clauses --------------------------------------------------------------------------------------------------

    def _distinct(self, node: exp.SetOperation, view: View) -> View:
        """One row for each unit and values."""
        if not view.units:
            self._refuse("Q204", ways.inner_groups(view.table.unit_key, distinct=True), node)
        keys = {e: key_column(e, self.domains) for _, e in (*view.columns, *view.marks)}
        relation = group_by_unit(view.table, view.where, keys, {})
        return View(
            table=relation,
            columns=tuple((n, ColumnRef(keys[e])) for n, e in view.columns),
            units=view.units,
            marks=tuple((n, ColumnRef(keys[e])) for n, e in view.marks),
            keys=view.keys,
            order=view.order,
        )

    def _check_order(self, node: exp.SetOperation, view: View) -> None:
        """ORDER BY of rows orders nothing that is kept: its terms must be columns, and are dropped."""
        order = node.args.get("order")
        for term in order.expressions if order is not None else ():
            inner = term.this
            named = isinstance(inner, exp.Column) and inner.name.lower() in (n.lower() for n in view.order)
            if small_int(inner) is None and not named:
                self._refuse("Q203", ways.UNION_ORDER, term)


def _is_plain(node: exp.SetOperation, above: exp.SetOperation) -> bool:
    """Whether an operation on the left of another is one with it: UNION ALL of UNION ALL."""
    both = isinstance(node, exp.Union) and isinstance(above, exp.Union)
    same = not node.args.get("distinct") and not above.args.get("distinct")
    return both and same and not any(node.args.get(k) for k in ("with_", "order"))


def _flag(view: View, name: str) -> Expr | None:
    """TRUE of a column that is the unit, a flag of one that is the unit or NULL; None of a value."""
    return TRUE if view.is_unit(name) else view.mark(name)
