"""Views that may be protected: columns of one base table, filtered by a total predicate.

The view's text is parsed and re-stated over the base table; it is never executed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from duckdp.catalog.table import Column, RawColumn, Table
from duckdp.compiler.parse import parse_scalar, parse_statement
from duckdp.compiler.scope import read_predicate
from duckdp.errors import CatalogError, QueryError

WAY_OUT = "Protect its base table, or make a view that only selects columns of one table with a WHERE."


@dataclass(frozen=True, kw_only=True)
class ViewColumn(RawColumn):
    """A view's column and the base column it renames."""

    source: str


@dataclass(frozen=True, kw_only=True)
class View:
    """A view that may be protected: columns of one table, and a predicate.

    Attributes:
        relation: its base table.
        columns: (name, base column) in order, or None for all.
        filter: its predicate as SQL over the base table, or None.
    """

    relation: tuple[str, str, str]
    columns: tuple[tuple[str, str], ...] | None
    filter: str | None

    def select(self, base: Sequence[RawColumn]) -> list[RawColumn]:
        """The view's columns with their base types."""
        if self.columns is None:
            return list(base)
        by_name = {c.name.lower(): c for c in base}
        found: list[RawColumn] = []
        for name, source in self.columns:
            raw = by_name.get(source.lower())
            if raw is None:
                raise CatalogError("C106", f"the view selects something that is not a plain column. {WAY_OUT}")
            found.append(
                ViewColumn(name=name, type=raw.type, nullable=raw.nullable, generated=raw.generated, source=raw.name)
            )
        return found

    def check(self, base: tuple[Column, ...], name: str, macros: Sequence[str] = ()) -> None:
        """Raise C106 unless the predicate has a total translation, and means to DuckDB what it means to us.

        Args:
            base: columns that it may use.
            name: of the view.
            macros: of the file, with names of built-in functions: in the view they would win over these.
        """
        if self.filter is None:
            return
        if macros:
            raise CatalogError(
                "C106",
                f'the predicate of view "{name}" is refused: the file has a macro named like the built-in '
                f'function "{macros[0]}". Drop the macro, or protect the base table.',
                table=name,
            )
        stand_in = Table(name=name, relation=self.relation, columns=base, row_cap=1)
        try:
            read_predicate(parse_scalar(self.filter), stand_in, self.filter)
        except QueryError as error:
            raise CatalogError(
                "C106", f'the predicate of view "{name}" is refused ({error.code}). {WAY_OUT}', table=name
            ) from None


def read_view(name: str, text: str, relations: Mapping[str, tuple[str, str, str]]) -> View:
    """Read a CREATE VIEW text.

    Args:
        name: of the view, for messages.
        text: as the catalog has it.
        relations: base tables by lower-case name.

    Raises:
        CatalogError: C106.
    """
    refused = CatalogError("C106", f'view "{name}" cannot be protected. {WAY_OUT}', table=name)
    try:
        create = parse_statement(text.rstrip().rstrip(";"))
    except QueryError:
        raise refused from None
    body = create.expression if isinstance(create, exp.Create) else None
    if not isinstance(body, exp.Select) or (isinstance(create.this, exp.Schema) and create.this.expressions):
        raise refused
    if any(v for k, v in body.args.items() if k not in ("expressions", "from_", "where")):
        raise refused
    source = body.args["from_"].this if body.args.get("from_") is not None else None
    if not isinstance(source, exp.Table) or any(
        v for k, v in source.args.items() if k not in ("this", "db", "catalog", "alias")
    ):
        raise refused
    if "." in name and not source.db:
        raise refused  # in a schema of its own, a name without one is looked up there first
    key = source.name.lower() if source.db.lower() in ("", "main") else f"{source.db}.{source.name}".lower()
    if key not in relations or source.alias:
        raise refused
    columns = _columns(body.expressions, source.name)
    if columns == ():
        raise refused
    where = body.args.get("where")
    predicate = None
    if where is not None:
        condition = where.this.copy()
        for column in condition.find_all(exp.Column):
            if column.args.get("db") or column.table.lower() not in ("", source.name.lower()):
                raise refused  # a field of a structure
            column.set("table", None)
        predicate = condition.sql(dialect="duckdb")
    return View(relation=relations[key], columns=columns, filter=predicate)


def _columns(nodes: Sequence[exp.Expression], table: str) -> tuple[tuple[str, str], ...] | None:
    """(name, base column) pairs; None for a lone star; () when something else is selected."""
    if len(nodes) == 1 and isinstance(nodes[0], exp.Star) and not any(nodes[0].args.values()):
        return None
    found = []
    for node in nodes:
        inner = node.this if isinstance(node, exp.Alias) else node
        if not isinstance(inner, exp.Column) or isinstance(inner.this, exp.Star):
            return ()
        if inner.args.get("db") or inner.table.lower() not in ("", table.lower()):
            return ()  # a field of a structure
        found.append((node.alias if isinstance(node, exp.Alias) else inner.name, inner.name))
    return tuple(found)
