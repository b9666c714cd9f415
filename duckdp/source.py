"""Where private rows come from: a DuckDB file, Parquet files, data frames, an open connection.

A source is attached to the private instance under a catalog of its own; nothing of it is executed: not its macros, not
its views. What the owner hands over as an open connection or as frames is copied.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from duckdp.compiler.printing import quote
from duckdp.errors import CatalogError

CATALOG = "src"
SUFFIXES = (".duckdb", ".db", ".ddb")


@dataclass(frozen=True, kw_only=True)
class RawColumn:
    """A column as the schema has it."""

    name: str
    type: str
    nullable: bool


class Source:
    """A source attached to one private instance.

    Attributes:
        catalog: its catalog name there.
        snapshot: a copy was taken, so the original may change or be locked.
    """

    def __init__(self, data: object, *, snapshot: bool = False) -> None:
        self.data, self.snapshot, self.catalog = data, snapshot, CATALOG
        self._folder: str | None = None
        self._paths: list[str] = []
        self._views: dict[str, str] = {}

    def attach(self, con: duckdb.DuckDBPyConnection) -> None:
        """Make the source's relations visible in ``con``.

        Raises:
            CatalogError: C107 locked, C108 cannot be opened.
        """
        data = self.data
        self.close()
        self._paths, self._views = [], {}
        if isinstance(data, duckdb.DuckDBPyConnection):
            self._copy_connection(con, data)
        elif isinstance(data, Mapping):
            self._attach_mapping(con, data)
        elif isinstance(data, (list, tuple)):
            self._attach_mapping(con, {_stem(p): p for p in map(os.fspath, data)})
        elif isinstance(data, (str, os.PathLike)):
            path = os.fspath(data)
            if path.lower().endswith(".parquet") or glob.has_magic(path):
                self._attach_mapping(con, {_stem(path): path})
            else:
                self._attach_file(con, path)
        else:
            raise CatalogError(
                "C108", "a source must be a DuckDB file, Parquet files, data frames by name or an open connection, "
                f"not a {type(data).__name__}.",
            )  # fmt: skip

    def relations(self, con: duckdb.DuckDBPyConnection) -> dict[str, tuple[str, str, str]]:
        """Base tables (and Parquet relations) by lower-case name; those outside main also as schema.table."""
        rows = con.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = $1 AND NOT internal "
            "UNION ALL "
            "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = $1 AND $2 AND NOT internal",
            [self.catalog, self._views_are_ours],
        ).fetchall()
        found = {}
        for schema, name in sorted(rows):
            key = name.lower() if schema == "main" else f"{schema}.{name}".lower()
            found[key] = (self.catalog, schema, name)
        return found

    def view_sql(self, con: duckdb.DuckDBPyConnection, name: str) -> str | None:
        """Text of a view of the owner's, or None when there is none of that name."""
        if self._views_are_ours or self.snapshot:
            return self._views.get(name.lower())
        row = con.execute(
            "SELECT sql FROM duckdb_views() WHERE database_name = $1 AND lower(view_name) = lower($2) AND NOT internal",
            [self.catalog, name],
        ).fetchone()
        return None if row is None else str(row[0])

    def columns(self, con: duckdb.DuckDBPyConnection, relation: tuple[str, str, str]) -> list[RawColumn]:
        """Schema of a relation, in order."""
        rows = con.execute(
            "SELECT column_name, data_type, is_nullable FROM duckdb_columns() WHERE database_name = $1 AND "
            "schema_name = $2 AND table_name = $3 ORDER BY column_index",
            list(relation),
        ).fetchall()
        return [RawColumn(name=n, type=t, nullable=bool(null)) for n, t, null in rows]

    def collated(self, con: duckdb.DuckDBPyConnection, relation: tuple[str, str, str]) -> bool:
        """Whether some column of a table has a collation."""
        row = con.execute(
            "SELECT sql FROM duckdb_tables() WHERE database_name = $1 AND schema_name = $2 AND table_name = $3",
            list(relation),
        ).fetchone()
        return row is not None and re.search(r"\bCOLLATE\b", str(row[0]), re.IGNORECASE) is not None

    def fingerprint(self, con: duckdb.DuckDBPyConnection) -> str:
        """Changes when the data may have changed. Files: size, time and schema; copies: schema and content."""
        parts: list[str] = []
        for path in self._paths:
            status = os.stat(path)
            parts.append(f"{os.path.basename(path)}:{status.st_size}:{status.st_mtime_ns}")
        relations = self.relations(con)
        for name, relation in relations.items():
            columns = self.columns(con, relation)
            parts.append(f"{name}:{[(c.name, c.type) for c in columns]}")
            if not self._paths:
                parts.append(_content(con, relation, columns))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """Size and time of the source's files; cheap enough to look at before each charge."""
        found = []
        for path in () if self.snapshot else self._paths:
            try:
                status = os.stat(path)
            except OSError:
                found.append((-1, -1))
            else:
                found.append((status.st_size, status.st_mtime_ns))
        return tuple(found)

    def close(self) -> None:
        """Remove a snapshot's files."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    # ---- kinds ------------------------------------------------------------------------------------------------

    @property
    def _views_are_ours(self) -> bool:
        return not (isinstance(self.data, (str, os.PathLike)) and not self._is_parquet)

    @property
    def _is_parquet(self) -> bool:
        path = os.fspath(self.data) if isinstance(self.data, (str, os.PathLike)) else ""
        return path.lower().endswith(".parquet") or glob.has_magic(path)

    def _attach_file(self, con: duckdb.DuckDBPyConnection, path: str) -> None:
        if not os.path.exists(path):
            raise CatalogError("C108", f'there is no file "{path}". Create it first, or correct the path.')
        self._paths = [path]
        try:
            if self.snapshot:
                self._snapshot_file(con, path)
            else:
                con.execute(f"ATTACH {_text(path)} AS {quote(self.catalog)} (READ_ONLY)")
        except duckdb.Error as error:
            raise _open_error(path, str(error)) from None

    def _snapshot_file(self, con: duckdb.DuckDBPyConnection, path: str) -> None:
        """Copy the file's tables to a private file, so that the original is free again."""
        self._folder = tempfile.mkdtemp(prefix="duckdp-")
        target = os.path.join(self._folder, "snapshot.duckdb")
        con.execute(f"ATTACH {_text(path)} AS original (READ_ONLY)")
        con.execute(f"ATTACH {_text(target)} AS {quote(self.catalog)}")
        tables = con.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'original' AND NOT internal"
        ).fetchall()
        views = con.execute(
            "SELECT lower(view_name), sql FROM duckdb_views() WHERE database_name = 'original' AND NOT internal"
        ).fetchall()
        for schema, name in tables:
            con.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(self.catalog)}.{quote(schema)}")
            place = f"{quote(schema)}.{quote(name)}"
            con.execute(f"CREATE TABLE {quote(self.catalog)}.{place} AS FROM original.{place}")
        self._views = {str(name): str(sql) for name, sql in views}
        con.execute("DETACH original")

    def _attach_mapping(self, con: duckdb.DuckDBPyConnection, parts: Mapping[str, Any]) -> None:
        con.execute(f"ATTACH ':memory:' AS {quote(self.catalog)}")
        for name, part in parts.items():
            target = f"{quote(self.catalog)}.main.{quote(name)}"
            if isinstance(part, (str, os.PathLike)):
                self._attach_parquet(con, target, [os.fspath(part)])
            elif isinstance(part, (list, tuple)) and all(isinstance(p, (str, os.PathLike)) for p in part):
                self._attach_parquet(con, target, [os.fspath(p) for p in part])
            else:
                self._copy_frame(con, target, name, part)

    def _attach_parquet(self, con: duckdb.DuckDBPyConnection, target: str, patterns: Sequence[str]) -> None:
        paths = sorted(
            p for pattern in patterns for p in (glob.glob(pattern) if glob.has_magic(pattern) else [pattern])
        )
        if not paths or not all(os.path.isfile(p) for p in paths):
            raise CatalogError("C108", f'no Parquet file matches "{", ".join(patterns)}".')
        listed = ", ".join(_text(p) for p in paths)
        kind = "TABLE" if self.snapshot else "VIEW"
        try:
            con.execute(f"CREATE {kind} {target} AS SELECT * FROM read_parquet([{listed}])")
        except duckdb.Error as error:
            raise _open_error(paths[0], str(error)) from None
        if not self.snapshot:
            self._paths += paths

    def _copy_frame(self, con: duckdb.DuckDBPyConnection, target: str, name: str, frame: object) -> None:
        try:
            con.register("incoming", frame)
            con.execute(f"CREATE TABLE {target} AS FROM incoming")
            con.unregister("incoming")
        except (duckdb.Error, TypeError, ValueError):
            raise CatalogError("C108", f'"{name}" is not a data frame that DuckDB can read.') from None

    def _copy_connection(self, con: duckdb.DuckDBPyConnection, theirs: duckdb.DuckDBPyConnection) -> None:
        con.execute(f"ATTACH ':memory:' AS {quote(self.catalog)}")
        cursor = theirs.cursor()
        try:
            rows = cursor.execute(
                "SELECT database_name, schema_name, table_name, column_name, data_type FROM duckdb_columns() "
                "WHERE NOT internal AND database_name = current_database() AND (schema_name, table_name) IN "
                "(SELECT (schema_name, table_name) FROM duckdb_tables() WHERE database_name = current_database()) "
                "ORDER BY ALL",
            ).fetchall()
            tables = sorted({(r[0], r[1], r[2]) for r in rows})
            for catalog, schema, name in tables:
                types = {r[3]: r[4] for r in rows if r[:3] == (catalog, schema, name)}
                reader = cursor.sql(f"FROM {quote(catalog)}.{quote(schema)}.{quote(name)}").to_arrow_reader()
                con.register("incoming", reader)
                con.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(self.catalog)}.{quote(schema)}")
                items = ", ".join(f"CAST({quote(c)} AS {t}) AS {quote(c)}" for c, t in sorted(types.items()))
                con.execute(
                    f"CREATE TABLE {quote(self.catalog)}.{quote(schema)}.{quote(name)} AS SELECT {items} FROM incoming"
                )
                con.unregister("incoming")
        except duckdb.Error:
            raise CatalogError("C108", "the open connection's tables could not be copied.") from None
        finally:
            cursor.close()


def _content(con: duckdb.DuckDBPyConnection, relation: tuple[str, str, str], columns: list[RawColumn]) -> str:
    place = ".".join(quote(p) for p in relation)
    names = ", ".join(quote(c.name) for c in columns)
    row = con.execute(f"SELECT count(*), bit_xor(hash({names})), sum(hash({names})::HUGEINT) FROM {place}").fetchone()
    return hashlib.sha256(repr(row).encode()).hexdigest()


def _open_error(path: str, message: str) -> CatalogError:
    """Engine text may name the locking process; that and nothing else is passed on, to the owner."""
    locked = re.search(r"lock on file.*?(?:in (\S+) )?\(PID (\d+)\)", message, re.DOTALL)
    if locked or "Conflicting lock" in message or "Unique file handle conflict" in message:
        holder = f" by process {locked[2]}" if locked else " by this process"
        return CatalogError(
            "C107", f'"{path}" is locked{holder}. Close it there, hand over that open connection, or copy the file.'
        )
    return CatalogError("C108", f'"{path}" is not a file that this DuckDB version can open.')


def _stem(path: str) -> str:
    name = re.sub(r"[^a-z0-9_]+", "_", os.path.basename(path).lower().removesuffix(".parquet")).strip("_")
    return name if re.match(r"[a-z_]", name) else f"t_{name}"


def _text(path: str) -> str:
    return "'" + path.replace("'", "''") + "'"
