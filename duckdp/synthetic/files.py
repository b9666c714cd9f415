"""Synthetic tables and private answers as files that any tool opens: one DuckDB file of many tables, or Parquet.

A DuckDB file is written in storage version v1.0.0, which every DuckDB from 1.0 on reads. It is made in a hidden folder
beside its target, and takes the target's name in one step when it is whole: what fails leaves nothing behind.

Joins: two synthetic tables join on columns that both declare, with the same values. No column that names a person can
be in one, since no synthetic row is a person, so a join tells of groups, never of persons: aggregate both sides by the
shared columns first.

Privacy: everything here is released already; writing it costs nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from duckdp.catalog.table import Kind, kind_of
from duckdp.compiler.printing import quote
from duckdp.errors import CatalogError, ParameterError
from duckdp.result import Result
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.stored import is_table, read_synthesis
from duckdp.texts import sql_text

if TYPE_CHECKING:
    import pyarrow

STORAGE_VERSION = "v1.0.0"
_ABOUT = "synthetic rows in place of {}, by duckdp"
MOST_NAME = 255  # characters
WIDE = {"HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)"}  # in Parquet, where DuckDB would make them DOUBLE
_INT64 = 2**63  # first whole number beyond int64
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
Target = str | os.PathLike[str]


def write_database(path: Target, tables: Mapping[str, SyntheticTable | Result], *, replace: bool = False) -> None:
    """Write tables into one new DuckDB file that shells from DuckDB 1.0 on read.

    Args:
        path: of the file.
        tables: by name: synthetic tables, and answers, whose error columns come along.
        replace: take the place of a file at ``path``; whoever has that open keeps the old one.

    Raises:
        ParameterError: P107, no table, or names that DuckDB would take for one.
        OSError: the file exists, a write-ahead log of another file lies beside it, or it cannot be written.
    """
    _check_names("tables", list(tables))
    target = Path(path).absolute()

    def write(con: duckdb.DuckDBPyConnection, staged: Path) -> None:
        con.execute(f"ATTACH {sql_text(str(staged))} AS out (STORAGE_VERSION {sql_text(STORAGE_VERSION)})")
        for name, table in tables.items():
            _create(con, f"out.main.{quote(name)}", table)
        con.execute("DETACH out")

    _stage(target, write, replace=replace)


def write_parquet(path: Target, table: SyntheticTable | Result, *, replace: bool = False) -> None:
    """Write one table as Parquet, with the columns' own types (HUGEINT as DECIMAL(38,0)).

    Raises:
        ParameterError: P107. OSError: as :func:`write_database`; also a whole number of more than 38 digits.
    """

    def write(con: duckdb.DuckDBPyConnection, staged: Path) -> None:
        _create(con, "memory.main.made", table)
        found = con.execute("SELECT column_name, column_type FROM (DESCRIBE memory.main.made)").fetchall()
        items = ", ".join(f"CAST({quote(n)} AS {WIDE.get(k, k)}) AS {quote(n)}" for n, k in found)
        source = f"(SELECT {items} FROM memory.main.made)"
        con.execute(f"COPY {source} TO {sql_text(str(staged))} (FORMAT parquet, COMPRESSION zstd)")

    _stage(Path(path).absolute(), write, replace=replace)


def open_tables(payloads: Mapping[str, str]) -> dict[str, SyntheticTable]:
    """Stored synthetic tables by name, from the payloads that the ledger keeps; free.

    Raises:
        CatalogError: C110, one is a summary. NumericalError: N101, as ``read_synthesis``.
    """
    found = {}
    for name, payload in payloads.items():
        if not is_table(payload):
            raise CatalogError("C110", f'"{name}" is a summary; make a synthetic table from it first.')
        found[name] = read_synthesis(payload)
    return found


def _stage(target: Path, write: Callable[[duckdb.DuckDBPyConnection, Path], None], *, replace: bool) -> None:
    """Write beside the target, then give it the name."""
    if not replace and os.path.lexists(target):
        raise _exists(target)
    log = target.with_name(f"{target.name}.wal")
    if os.path.lexists(log):  # DuckDB would replay it into the new file
        raise FileExistsError(errno.EEXIST, "the write-ahead log of another file is in the way", str(log))
    folder = Path(tempfile.mkdtemp(prefix=".duckdp-", dir=target.parent))
    try:
        staged = folder / "staged"
        con = duckdb.connect(":memory:", config=_CONFIG)
        try:
            write(con, staged)
        except duckdb.Error as error:  # a full disk; a value that the format has no room for
            raise OSError(f"{target} cannot be written: {error}") from error
        finally:
            con.close()
        if replace:
            os.replace(staged, target)
        else:
            _name_new(staged, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _name_new(staged: Path, target: Path) -> None:
    """Move a file to a name that must be free, also when somebody takes it meanwhile."""
    try:
        os.link(staged, target)
    except FileExistsError:
        raise _exists(target) from None
    except OSError:  # a file system without hard links: the name is taken first
        open(target, "xb").close()
        try:
            os.replace(staged, target)
        except BaseException:
            target.unlink()
            raise


def _exists(target: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "the file exists; name another one, or replace it", str(target))


def _create(con: duckdb.DuckDBPyConnection, name: str, table: SyntheticTable | Result) -> None:
    """CREATE TABLE of the declared types, filled and described."""
    if isinstance(table, SyntheticTable):
        columns: list[tuple[str, str, Any]] = [(n, table.types[n], v) for n, v in table.columns.items()]
        about = "; ".join(filter(None, [f"{_ABOUT.format(table.table)}: no row is a person", table.scale]))
    else:
        columns = list(table.typed())
        about = "; ".join([f"released by duckdp: {table.source or 'answers'}", *table.notes])
    _check_names("columns", [n for n, _, _ in columns])
    kinds = [_plain(kind) for _, kind, _ in columns]
    shape = ", ".join(f"{quote(n)} {k}" for (n, _, _), k in zip(columns, kinds, strict=True))
    con.execute(f"CREATE TABLE {name} ({shape})")
    items = ", ".join(f"CAST(c{i} AS {kind})" for i, kind in enumerate(kinds))
    con.register("duckdp_rows", _arrow([v for _, _, v in columns], kinds))
    con.execute(f"INSERT INTO {name} SELECT {items} FROM duckdp_rows")
    con.unregister("duckdp_rows")
    con.execute(f"COMMENT ON TABLE {name} IS {sql_text(about)}")


def _arrow(columns: list[Any], kinds: list[str]) -> pyarrow.Table:
    """Columns c0, c1, ... in types from which DuckDB casts without loss."""
    import pyarrow as pa

    exact = {"VARCHAR": pa.string(), "BOOLEAN": pa.bool_(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us")}
    arrays = []
    for values, kind in zip(columns, kinds, strict=True):
        found = kind_of(kind)
        if kind in exact:
            arrays.append(pa.array(values, type=exact[kind]))
        elif isinstance(values, np.ndarray) and values.dtype != object:
            arrays.append(pa.array(values))
        elif found is not None and found[1] and any(v is not None and not -_INT64 <= v < _INT64 for v in values):
            arrays.append(pa.array([None if v is None else str(v) for v in values], type=pa.string()))
        else:
            whole = found is not None and found[1]
            arrays.append(pa.array(values, type=pa.int64() if whole else pa.float64()))
    return pa.table({f"c{i}": array for i, array in enumerate(arrays)})


def _plain(duckdb_type: str) -> str:
    """The type as a file names it: an ENUM's text.

    Raises:
        ParameterError: P107, not a type of ours.
    """
    found = kind_of(duckdb_type)
    if found is None:
        raise ParameterError("P107", "type", duckdb_type, "is not the type of a released column.")
    return "VARCHAR" if found[0] is Kind.TEXT else duckdb_type.upper()


def _check_names(what: str, names: list[str]) -> None:
    """At least one, none empty or with NUL, none twice in DuckDB's reading."""
    if not names or not all(map(_is_name, names)) or len({n.lower() for n in names}) != len(names):
        raise ParameterError("P107", what, names[:50], "must have names, each once (DuckDB ignores case).")


def _is_name(name: object) -> bool:
    """Text that UTF-8 can hold, without NUL."""
    if not isinstance(name, str) or not 0 < len(name) <= MOST_NAME:
        return False
    return "\0" not in name and name.encode("utf-8", "replace").decode() == name
