"""Columns that the owner's schema computes are refused: their expressions would run where private rows are.

A generated column is computed when it is read, by whatever its expression says (casts that fail for one row, macros),
which no rule of ours has seen.
"""

from __future__ import annotations

import duckdb

from duckdp.catalog.table import RawColumn, Table
from duckdp.errors import CatalogError, ExecutionError
from duckdp.vault.engine import Engine
from duckdp.vault.exhausted import ran_out


def require_stored(engine: Engine, table: Table) -> None:
    """Check that all columns a declaration may read are stored as they are.

    Args:
        engine: where the table is.
        table: its declaration; the columns of a view's predicate count.

    Raises:
        CatalogError: C105. ExecutionError: E101, E104; analysts' questions come here before their charge.
    """
    read = {c.source for c in (*table.columns, *table.base)} | {table.unit_key, *table.unique}
    read |= {table.link.column} if table.link is not None else set()
    for column in _columns(engine, table):
        if column.generated and column.name in read:
            raise CatalogError(
                "C105",
                f'column "{column.name}" of "{table.name}" is generated: it would be computed anew in every '
                "private read, and one row could make it fail. Open the data with snapshot=True, which stores what it "
                "gives, or store it yourself: CREATE TABLE ... AS FROM ...",
                table=table.name,
                column=column.name,
            )


def _columns(engine: Engine, table: Table) -> list[RawColumn]:
    """The columns as they are; nothing of an error of the engine's, which may tell how much others' reads hold."""
    try:
        return engine.source.columns(engine.schema_cursor(), table.relation)
    except duckdb.Error as error:  # most likely: private reads that are under way have all the memory
        code = "E104" if ran_out(error) else "E101"
    raise ExecutionError(code, None)  # here nothing is handled any more, so it has no context
