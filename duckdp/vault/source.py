"""Where private rows come from: a DuckDB file, Parquet files, data frames, an open connection.

A source is attached to the private instance under a catalog of its own; nothing of it is executed: not its macros, not
its views. What the owner hands over as an open connection or as frames is copied (copies.py), and so is a snapshot.

Of a Parquet file only its values are believed: minima, maxima and Bloom filters in it could drop rows, or make the
engine fail, where they do not fit the rows. So nothing is pruned there, and what a private read decodes is what was
decoded in full at the opening.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from duckdp.arguments import MISFIT, from_caller, path_text
from duckdp.catalog.table import RawColumn
from duckdp.compiler.printing import quote
from duckdp.errors import CatalogError, ParameterError
from duckdp.process.attempt import attempt
from duckdp.process.folders import Folder
from duckdp.texts import sql_text
from duckdp.vault.copies import copy_connection, copy_database, copy_frame

CATALOG = "src"
# DuckDB's optimizers that rely on what a Parquet file says of itself
BELIEVING = (
    "statistics_propagation",
    "filter_pushdown",
    "join_filter_pushdown",
    "row_group_pruner",
    "top_n",
    "late_materialization",
    "compressed_materialization",
    "partial_aggregate_pushdown",
    "scalar_fn_pushdown",
    "type_pushdown",
    "sampling_pushdown",
    "limit_pushdown",
)


class Source:
    """A source attached to one private instance.

    Attributes:
        catalog: its catalog name there.
        snapshot: a copy was taken, so the original may change or be locked.
    """

    def __init__(self, data: object, *, snapshot: bool = False) -> None:
        self.data, self.snapshot, self.catalog = _plain(data), snapshot, CATALOG
        self._folder: Folder | None = None
        self._paths: list[str] = []
        self._views: dict[str, str] = {}
        self._macros: list[str] = []
        self._attached = False

    def attach(self, con: duckdb.DuckDBPyConnection) -> None:
        """Make the source's relations visible in ``con``.

        Raises:
            CatalogError: C107 locked, C108 cannot be opened.
        """
        data = self.data
        self.close()
        self._paths, self._views, self._macros = [], {}, []
        if isinstance(data, duckdb.DuckDBPyConnection):
            copy_connection(con, self.catalog, data)
        elif isinstance(data, Mapping):
            self._attach_mapping(con, data)
        elif isinstance(data, (list, tuple)):
            self._attach_mapping(con, _by_stem(list(data)))
        elif isinstance(data, (str, os.PathLike)):
            path = os.fspath(data)
            if path.lower().endswith(".parquet") or glob.has_magic(path):
                self._attach_mapping(con, {_stem(path): path})
            else:
                self._attach_file(con, path)
        else:
            raise CatalogError(
                "C108",
                "a source must be a DuckDB file, Parquet files, data frames by name or an open connection, "
                f"not a {type(data).__name__}.",
            )
        self._attached = True

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
        """Text of a view of the owner's, or None when there is none of that name; outside main it is schema.view."""
        if not self._views_are_ours and not self.snapshot:
            return _views_of(con, self.catalog).get(name.lower())
        return self._views.get(name.lower())

    def macros(self, con: duckdb.DuckDBPyConnection) -> list[str]:
        """Names of the owner's macros that a built-in function has too: in the file's own views they win."""
        if not self._views_are_ours and not self.snapshot:
            return _shadows_of(con, self.catalog)
        return self._macros

    def columns(self, con: duckdb.DuckDBPyConnection, relation: tuple[str, str, str]) -> list[RawColumn]:
        """Schema of a relation, in order."""
        rows = con.execute(
            "SELECT column_name, data_type, is_nullable, is_generated FROM duckdb_columns() WHERE database_name = $1 "
            "AND schema_name = $2 AND table_name = $3 ORDER BY column_index",
            list(relation),
        ).fetchall()
        return [RawColumn(name=n, type=t, nullable=bool(null), generated=bool(made)) for n, t, null, made in rows]

    def collated(self, con: duckdb.DuckDBPyConnection, relation: tuple[str, str, str]) -> bool:
        """Whether some column of a table has a collation."""
        row = con.execute(
            "SELECT sql FROM duckdb_tables() WHERE database_name = $1 AND schema_name = $2 AND table_name = $3",
            list(relation),
        ).fetchone()
        return row is not None and re.search(r"\bCOLLATE\b", str(row[0]), re.IGNORECASE) is not None

    def fingerprint(self, con: duckdb.DuckDBPyConnection) -> str:
        """Changes when the data may have changed. Files: size, time and schema; copies: schema and content.

        Raises:
            CatalogError: C108, a file is gone, or a copy cannot be read.
        """
        parts: list[str] = []
        for path in self._paths:
            size, time = _status(path)[:2]
            if size < 0:
                raise CatalogError("C108", f'there is no file "{path}" any more. Put it back.')
            parts.append(f"{os.path.basename(path)}:{size}:{time}")
        relations = self.relations(con)
        for name, relation in relations.items():
            columns = self.columns(con, relation)
            parts.append(f"{name}:{[(c.name, c.type) for c in columns]}")
            if not self._paths:
                parts.append(content_digest(con, relation, columns))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def in_place(self) -> bool:
        """Whether private reads decode the owner's own files."""
        return bool(self._paths) and not self.snapshot

    def stamp(self) -> tuple[tuple[int, ...], ...]:
        """Size, time and place on the disk of the source's files; cheap enough to look at before each charge."""
        return tuple(_status(path) for path in (() if self.snapshot else self._paths))

    def close(self) -> None:
        """Remove the files of a snapshot, if there is one."""
        if self._folder is not None:
            self._folder.close()
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
        catalog = "original" if self.snapshot else self.catalog
        _, message = attempt(con, f"ATTACH {sql_text(path)} AS {quote(catalog)} (READ_ONLY)")
        if message is not None:
            raise _open_error(path, message)
        if self.snapshot:
            self._snapshot_file(con, catalog)

    def _snapshot_file(self, con: duckdb.DuckDBPyConnection, original: str) -> None:
        """Copy the file's tables to a private file, so that the original is free again."""
        self._folder = Folder()
        target = os.path.join(self._folder.path, "snapshot.duckdb")
        con.execute(f"ATTACH {sql_text(target)} AS {quote(self.catalog)}")
        self._views, self._macros = _views_of(con, original), _shadows_of(con, original)
        copy_database(con, self.catalog, original)
        con.execute(f"DETACH {quote(original)}")

    def _attach_mapping(self, con: duckdb.DuckDBPyConnection, parts: Mapping[str, Any]) -> None:
        con.execute(f"ATTACH ':memory:' AS {quote(self.catalog)}")
        for name, part in parts.items():
            target = f"{quote(self.catalog)}.main.{quote(name)}"
            if isinstance(part, (str, os.PathLike)):
                self._attach_parquet(con, target, name, [os.fspath(part)])
            elif isinstance(part, (list, tuple)) and all(isinstance(p, (str, os.PathLike)) for p in part):
                self._attach_parquet(con, target, name, [os.fspath(p) for p in part])
            else:
                copy_frame(con, target, name, part, again=self._attached)

    def _attach_parquet(self, con: duckdb.DuckDBPyConnection, target: str, name: str, patterns: Sequence[str]) -> None:
        paths = sorted(
            p for pattern in patterns for p in (glob.glob(pattern) if glob.has_magic(pattern) else [pattern])
        )
        if not paths or not all(os.path.isfile(p) for p in paths):
            raise CatalogError("C108", f'no Parquet file matches "{", ".join(patterns)}".')
        require_same_columns(con, name, paths)
        con.execute(f"SET disabled_optimizers = '{','.join(BELIEVING)}'")
        kind = "TABLE" if self.snapshot else "VIEW"
        _, message = attempt(con, f"CREATE {kind} {target} AS SELECT * FROM read_parquet([{_listed(paths)}])")
        if message is not None and self.snapshot:
            raise CatalogError("C108", f'"{name}" cannot be copied: a value of it does not decode. Write it again.')
        if message is not None:
            raise _open_error(paths[0], message)
        if not self.snapshot:
            self._paths += paths


def require_same_columns(con: duckdb.DuckDBPyConnection, name: str, paths: Sequence[str]) -> None:
    """Read as one table, files would be cast to the first one's types, row by row, where a single row can fail.

    Args:
        con: the private instance.
        name: of the table, for messages.
        paths: Parquet files.

    Raises:
        CatalogError: C108, a file cannot be opened, or names, types or order of columns differ.
    """
    rows, message = attempt(
        con,
        "SELECT file_name, name, duckdb_type, num_children FROM "
        f"parquet_schema([{_listed(paths)}]) WHERE column_id > 0 ORDER BY file_name, column_id",
    )
    if message is not None:
        raise _open_error(paths[0], message)
    columns: dict[str, list[tuple[Any, ...]]] = {path: [] for path in paths}
    for path, *column in rows:
        columns.setdefault(path, []).append(tuple(column))
    for path in paths:
        if columns[path] != columns[paths[0]]:
            raise CatalogError(
                "C108",
                f'the files of "{name}" have different columns: {_difference(columns, paths[0], path)}. '
                "Write them with one schema (names, types and order of columns).",
            )


def _difference(columns: Mapping[str, list[tuple[Any, ...]]], first: str, other: str) -> str:
    one, two = columns[first], columns[other]
    place = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    shown = [
        f"{' '.join(str(part) for part in found[place][:2] if part) if place < len(found) else 'nothing'} "
        f'in "{os.path.basename(path)}"'
        for path, found in ((first, one), (other, two))
    ]
    return f"column {place + 1} is {shown[0]} and {shown[1]}"


def content_digest(con: duckdb.DuckDBPyConnection, relation: tuple[str, str, str], columns: Sequence[RawColumn]) -> str:
    """Changes when rows of a relation change, in these columns.

    Raises:
        CatalogError: C108.
    """
    place = ".".join(quote(p) for p in relation)
    names = ", ".join(quote(c.name) for c in columns)
    sql = f"SELECT count(*), bit_xor(hash({names})), sum(hash({names})::HUGEINT) FROM {place}"
    rows, message = attempt(con, sql)
    if message is not None:
        raise CatalogError("C108", f'"{relation[2]}" cannot be read in full. Leave out columns of unusual types.')
    return hashlib.sha256(repr(rows[0]).encode()).hexdigest()


def _status(path: str) -> tuple[int, ...]:
    """Size, time of the last change, and which file it is: another one may have been renamed to its name."""
    try:
        status = os.stat(path)
    except OSError:
        return -1, -1, -1, -1
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev


def _views_of(con: duckdb.DuckDBPyConnection, catalog: str) -> dict[str, str]:
    rows = con.execute(
        "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE database_name = $1 AND NOT internal", [catalog]
    ).fetchall()
    return {(name if schema == "main" else f"{schema}.{name}").lower(): str(sql) for schema, name, sql in rows}


def _shadows_of(con: duckdb.DuckDBPyConnection, catalog: str) -> list[str]:
    rows = con.execute(
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE database_name = $1 AND lower("
        "function_name) IN (SELECT lower(function_name) FROM duckdb_functions() WHERE database_name = 'system') "
        "ORDER BY 1",
        [catalog],
    ).fetchall()
    return [str(name) for (name,) in rows]


def _open_error(path: str, message: str) -> CatalogError:
    """Engine text may name the locking process; that and nothing else is passed on, to the owner."""
    locked = re.search(r"lock on file.*?(?:in (\S+) )?\(PID (\d+)\)", message, re.DOTALL)
    if locked or "Conflicting lock" in message or "Unique file handle conflict" in message:
        holder = f" by process {locked[2]}" if locked else " by this process"
        return CatalogError(
            "C107", f'"{path}" is locked{holder}. Close it there, hand over that open connection, or copy the file.'
        )
    way = "Load it into a DuckDB file of this version, CREATE TABLE t AS FROM '...', and open that."
    return CatalogError("C108", f'"{path}" is not a file that this DuckDB version can open. {way}')


def _plain(data: object) -> object:
    """A source as it was given, with every path as text.

    Raises:
        ParameterError: P107, what should be a path, or a name, is none.
    """
    if isinstance(data, duckdb.DuckDBPyConnection):
        return data
    if isinstance(data, (str, os.PathLike)):
        return path_text(data, "data")
    if isinstance(data, (list, tuple)):
        return [path_text(each, "data") for each in data]
    if not isinstance(data, Mapping):
        return data
    items = from_caller(lambda: list(data.items()))
    if items is MISFIT:
        raise ParameterError("P107", "data", data, "must be a mapping of names to data frames or paths.")
    return {path_text(name, "data"): _plain_part(part) for name, part in items}


def _plain_part(part: object) -> object:
    if isinstance(part, (str, os.PathLike)):
        return path_text(part, "data")
    if isinstance(part, (list, tuple)) and all(isinstance(p, (str, os.PathLike)) for p in part):
        return [path_text(p, "data") for p in part]
    return part


def _by_stem(paths: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in paths:
        if found.setdefault(_stem(path), path) is not path:
            raise CatalogError(
                "C108", f'two files are named "{_stem(path)}". Name them: {{"name": "path.parquet", ...}}.'
            )
    return found


def _stem(path: str) -> str:
    name = re.sub(r"[^a-z0-9_]+", "_", os.path.basename(path).lower().removesuffix(".parquet")).strip("_")
    return name if re.match(r"[a-z_]", name) else f"t_{name}"


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(sql_text(p) for p in paths)
