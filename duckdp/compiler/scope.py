"""Columns inside row expressions: only declared ones exist."""

from __future__ import annotations

from sqlglot import exp

from duckdp.catalog.table import Column, Kind, Table, closest
from duckdp.compiler import ways
from duckdp.compiler.expression import ColumnRef, Expr
from duckdp.compiler.parse import refuse
from duckdp.compiler.scalars import Scalars


def read_predicate(node: exp.Expression, table: Table, text: str) -> Expr:
    """Translate a predicate over a table's declared columns (the ``predicate`` argument of functions)."""
    scope = RowScope(table, None, text)
    condition = Scalars(scope.leaf, text)(node)
    if condition.kind is not Kind.BOOLEAN:
        refuse("Q203", f"a predicate must be a boolean. {ways.NEEDED[Kind.BOOLEAN]}", node, text)
    return condition


class RowScope:
    """Resolves columns inside row expressions."""

    def __init__(self, table: Table, alias: str | None, text: str) -> None:
        self.table, self.alias, self.text = table, alias or table.name, text

    def leaf(self, node: exp.Expression) -> Expr | None:
        """A column reference, or None for any other allowed node."""
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            refuse("Q302", "* would return rows. Name columns inside aggregates.", node, self.text)
        if isinstance(node, exp.AggFunc):
            refuse("Q301", "an aggregate stands where a row is computed; aggregates do not nest.", node, self.text)
        if isinstance(node, exp.Window):
            refuse("Q201", ways.WINDOW, node, self.text)
        return ColumnRef(self.column(node)) if isinstance(node, exp.Column) else None

    def column(self, node: exp.Column) -> Column:
        """The declared column a node names."""
        if node.args.get("db") or node.args.get("catalog"):
            refuse("Q202", "field access is outside the allow-list. Name a column.", node, self.text)
        if node.table and node.table.lower() not in (self.alias.lower(), self.table.name.lower()):
            refuse(
                "Q205",
                f'"{node.table[:63]}" is not a relation of this query. Write {self.table.name}.{node.name[:63]}.',
                node,
                self.text,
            )
        found = self.table.column(node.name)
        if found is not None:
            return found
        if self.table.unit_key is not None and node.name.lower() == self.table.unit_key.lower():
            refuse(
                "Q301",
                f'"{node.name}" names the privacy unit; it may only stand in count(DISTINCT {node.name}).',
                node,
                self.text,
            )
        known = closest(node.name, [c.name for c in self.table.columns])
        if isinstance(node.this, exp.Identifier) and node.this.quoted:
            of_texts = any(node.name in (c.domain or ()) for c in self.table.columns)
            text = f"A text is in single quotes: '{node.name[:63]}'."
            known = text if of_texts else f"{known} {text}"
        refuse(
            "Q207",
            f'column "{node.name[:63]}" is not declared for "{self.table.name}". {known}',
            node,
            self.text,
        )
