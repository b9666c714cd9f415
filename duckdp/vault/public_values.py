"""Rows of public tables on their way to where answers are: they are no one's, and nobody is charged for them.

Nothing else is read without a charge: the SELECT is printed here, from a declaration that the data owner published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duckdp.catalog.table import Column, Table
from duckdp.compiler.printing import Parameters, print_as_they_are
from duckdp.errors import CatalogError, InternalError
from duckdp.process.attempt import attempt
from duckdp.vault.engine import Engine

MOST_BYTES = 64 * 2**20  # of one table's texts


def _require_public(table: Table) -> None:
    """Nothing, of a public table; the rows of any other are read by those who paid."""
    if table.public is None:
        raise InternalError("a private read needs a charge")


def public_answer(engine: Engine, table: Table, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
    """The rows of a SELECT of ours that reads a public table, or rows of constants, and nothing else.

    Args:
        engine: where the table is.
        table: whose rows are read.
        sql: printed from a plan of ours.
        values: of $1, $2, ...

    Raises:
        CatalogError: C108, it cannot be read.
    """
    _require_public(table)
    if table.bases:
        engine.show_public(table)
    cursor = engine.schema_cursor()
    try:
        found, message = attempt(cursor, sql, values=values)
    finally:
        cursor.close()
    if message is not None:
        raise CatalogError("C108", f'"{table.name}" cannot be read in full. Write the value.', table=table.name)
    return found


def public_values(engine: Engine, table: Table, columns: Sequence[Column]) -> list[list[Any]]:
    """Columns of a public table as they stand, side by side; what is no number and no boolean as its text.

    Raises:
        CatalogError: C108, it cannot be read, or its texts are longer than :data:`MOST_BYTES` together.
    """
    _require_public(table)
    parameters = Parameters()
    select = print_as_they_are(table, columns, parameters)
    names = [f"c{i}" for i in range(len(columns))]
    sizes = " + ".join(f"coalesce(sum(strlen(CAST({n} AS VARCHAR))), 0)" for n in names)
    engine.show_public(table)
    cursor = engine.schema_cursor()
    try:
        found, message = attempt(
            cursor, f"SELECT {sizes} FROM ({select}) AS p({', '.join(names)})", values=parameters.values
        )
        if message is None and found[0][0] <= MOST_BYTES:
            found, message = attempt(cursor, select, values=parameters.values)
        elif message is None:
            message = "too long"
    finally:
        cursor.close()
    if message is not None:
        rule = f'"{table.name}" cannot be read in full. Join it with a protected table.'
        raise CatalogError("C108", rule, table=table.name)
    return [list(column) for column in zip(*found, strict=True)] or [[] for _ in columns]
