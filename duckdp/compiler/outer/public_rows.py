"""Public tables in the outer part: their rows are no one's, and come to where the answers are.

A published table that stands in FROM beside answers, or alone, is read on the analyst's own instance, as it stands:
nothing is cleaned, and DuckDB's types are kept. Its rows cross with the answers, as one more table that costs nothing.
Only columns that the text may name cross, and a statement takes at most :data:`MOST_CELLS` of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from duckdp.catalog.table import Column, Table
from duckdp.compiler import ways
from duckdp.compiler.outer.trees import duplicate
from duckdp.compiler.parse import refuse

#: Cells of public tables that one statement reads: some 200 MB as Python values, two seconds of crossing.
MOST_CELLS = 2_000_000
_PREFIX = "__dp_public_"
_WHOLE = (exp.Columns, exp.Pivot, exp.Lateral)  # what may show columns that are not named


@dataclass(frozen=True, kw_only=True)
class PublicRows:
    """A public table that the outer part reads.

    Attributes:
        table: its declaration.
        columns: those that the text may name, at least one, in the order of the declaration.
    """

    table: Table
    columns: tuple[Column, ...]

    @property
    def cells(self) -> int:
        """How many values cross, rows by columns."""
        assert self.table.public is not None
        return self.table.public.rows * len(self.columns)


def public_name(number: int) -> str:
    """What a public table is called in the outer part, counted from 0."""
    return f"{_PREFIX}{number + 1}"


def is_public_rows(node: exp.Expression) -> bool:
    """Whether a node of the outer part is a public table."""
    return isinstance(node, exp.Table) and node.name.startswith(_PREFIX)


class PublicTables:
    """The public tables of a statement's outer part, each once."""

    def __init__(self) -> None:
        self.tables: list[Table] = []
        self._nodes: list[exp.Expression] = []

    def stand_in(self, node: exp.Table, table: Table) -> exp.Table:
        """The node that stands for a public table, under the name that it has in the statement."""
        if table not in self.tables:
            self.tables.append(table)
        name = exp.to_identifier(public_name(self.tables.index(table)), quoted=True)
        alias = node.args.get("alias")
        known = duplicate(alias) if alias is not None else exp.TableAlias()
        if known.this is None or not known.name:
            known.set("this", exp.to_identifier(node.name, quoted=True))
        self._nodes.append(node)
        return exp.Table(this=name, alias=known)

    def read(self, outer: exp.Expression, text: str) -> tuple[PublicRows, ...]:
        """What of each table crosses.

        Raises:
            QueryError: Q403, more than a statement may read.
        """
        if not self.tables:
            return ()
        whole = _shows_whole(outer)
        names = {str(node.this).lower() for node in outer.find_all(exp.Identifier)}
        found = []
        for table in self.tables:
            columns = tuple(c for c in table.columns if whole or c.name.lower() in names)
            found.append(PublicRows(table=table, columns=columns or table.columns[:1]))
        if sum(rows.cells for rows in found) > MOST_CELLS:
            refuse("Q403", ways.public_cells(_sizes(found), MOST_CELLS), self._nodes[0], text)
        return tuple(found)


def _sizes(found: Sequence[PublicRows]) -> str:
    return ", ".join(
        f"{rows.cells // len(rows.columns):,} rows of {rows.table.name} by {len(rows.columns)} columns"
        for rows in found
    )


def _shows_whole(outer: exp.Expression) -> bool:
    """Whether columns may be meant that are not named: by a star, a row as a struct, or their places."""
    if any(not isinstance(star.parent, exp.Count) for star in outer.find_all(exp.Star)) or any(outer.find_all(*_WHOLE)):
        return True
    if any(join.args.get("method") for join in outer.find_all(exp.Join)):  # NATURAL, POSITIONAL
        return True
    aliases = {node.name.lower() for node in outer.find_all(exp.TableAlias)}
    tables = [node for node in outer.find_all(exp.Table) if is_public_rows(node)]
    if any(table.args["alias"].args.get("columns") or table.args.get("pivots") for table in tables):
        return True
    return any(not c.table and c.name.lower() in aliases for c in outer.find_all(exp.Column))
