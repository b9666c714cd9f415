"""Copies of what the owner hands over: frames, an open connection's tables, a snapshot of a file's tables.

Copying decodes every value and computes every generated column, before any charge; what fails is C108, without a word
of the engine's, which may quote rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa

from duckdp.arguments import MISFIT, from_caller
from duckdp.compiler.printing import quote
from duckdp.errors import CatalogError
from duckdp.process.attempt import attempt


def copy_frame(con: duckdb.DuckDBPyConnection, target: str, name: str, frame: object, *, again: bool = False) -> None:
    """Copy a data frame into the table ``target``.

    Args:
        con: the private instance.
        target: quoted.
        name: of the frame, for messages.
        frame: of pandas, Polars, Arrow or a relation: what DuckDB can scan.
        again: it was copied before.

    Raises:
        CatalogError: C108.
    """
    if again and isinstance(frame, pa.RecordBatchReader):
        raise CatalogError("C108", f'"{name}" can be read only once. Hand over a table: reader.read_all().')
    if not _copied(con, target, frame):
        raise CatalogError(
            "C108",
            f'"{name}" is not a data frame that DuckDB can read in full: its type, or a value in it, has no '
            "place in a table. Correct it, or give its columns plain types.",
        )


def copy_connection(con: duckdb.DuckDBPyConnection, catalog: str, theirs: duckdb.DuckDBPyConnection) -> None:
    """Copy the tables of the connection's own database into ``catalog``; generated columns become plain ones.

    Raises:
        CatalogError: C108.
    """
    con.execute(f"ATTACH ':memory:' AS {quote(catalog)}")
    failed: str | None = None
    try:
        cursor = theirs.cursor()
    except duckdb.Error:
        failed = ""
    if failed is None:
        try:
            failed = _copy_tables(con, catalog, cursor)
        finally:
            cursor.close()
    if failed is not None:
        table = f': a value of "{failed}" does not decode, or cannot be computed' if failed else ""
        raise CatalogError("C108", f"the open connection's tables could not be copied{table}.")


def copy_database(con: duckdb.DuckDBPyConnection, catalog: str, original: str) -> None:
    """Copy all tables of one attached database into another; generated columns become plain ones.

    Their expressions may use the owner's macros, so they are bound with the original on the search path.

    Raises:
        CatalogError: C108.
    """
    tables = con.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = $1 AND NOT internal", [original]
    ).fetchall()
    con.execute(f"USE {quote(original)}")
    for schema, name in tables:
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(catalog)}.{quote(schema)}")
        place = f"{quote(schema)}.{quote(name)}"
        _, message = attempt(con, f"CREATE TABLE {quote(catalog)}.{place} AS FROM {quote(original)}.{place}")
        if message is not None:
            raise CatalogError(
                "C108",
                f'"{name}" cannot be copied: a value of it does not decode, or a generated column cannot be '
                "computed. Correct that row, or drop the column.",
                table=name,
            )
    con.execute("USE memory")


def _copied(con: duckdb.DuckDBPyConnection, target: str, frame: object, items: str = "*") -> bool:
    if from_caller(lambda: con.register("incoming", _valid(frame))) is MISFIT:
        return False
    try:
        _, message = attempt(con, f"CREATE TABLE {target} AS SELECT {items} FROM incoming")
    finally:
        con.unregister("incoming")
    return message is None


def _copy_tables(con: duckdb.DuckDBPyConnection, catalog: str, cursor: duckdb.DuckDBPyConnection) -> str | None:
    """Name of the table that cannot be copied, empty when the connection itself fails, or None."""
    try:
        rows = cursor.execute(
            "SELECT database_name, schema_name, table_name, column_name, data_type FROM duckdb_columns() "
            "WHERE NOT internal AND database_name = current_database() AND (schema_name, table_name) IN "
            "(SELECT (schema_name, table_name) FROM duckdb_tables() WHERE database_name = current_database()) "
            "ORDER BY database_name, schema_name, table_name, column_index",
        ).fetchall()
    except duckdb.Error:
        return ""
    for place in dict.fromkeys(row[:3] for row in rows):
        types = {row[3]: row[4] for row in rows if row[:3] == place}
        _, schema, name = place
        sent = ", ".join(_sent(column, kind) for column, kind in types.items())
        select = f"SELECT {sent} FROM {'.'.join(map(quote, place))}"
        frame = from_caller(lambda: cursor.sql(select).to_arrow_reader())  # noqa: B023 - called at once
        if frame is MISFIT:
            return str(name)
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(catalog)}.{quote(schema)}")
        items = ", ".join(f"CAST({quote(column)} AS {kind}) AS {quote(column)}" for column, kind in types.items())
        if not _copied(con, f"{quote(catalog)}.{quote(schema)}.{quote(name)}", frame, items):
            return str(name)
    return None


def _sent(column: str, kind: str) -> str:
    """A column as it crosses: Arrow's largest whole numbers have 38 digits, which is less than 128 bits."""
    name = quote(column)
    return f"CAST({name} AS VARCHAR) AS {name}" if kind in ("HUGEINT", "UHUGEINT") else name


def _valid(frame: Any) -> object:
    """The frame, of Arrow only after its offsets, indices and texts were checked: DuckDB follows them as they are."""
    if isinstance(frame, (pa.Table, pa.RecordBatch)):
        frame.validate(full=True)
    elif isinstance(frame, pa.RecordBatchReader):
        return pa.RecordBatchReader.from_batches(frame.schema, _checked(frame))
    return frame


def _checked(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        batch.validate(full=True)
        yield batch
