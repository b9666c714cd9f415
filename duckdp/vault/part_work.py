"""What a worker of a cluster does: one part of the rows, as Arrow batches, to what a private read gives on it.

This file travels to the workers as it stands here (:mod:`duckdp.vault.spark_parts`), which have DuckDB and PyArrow and
need nothing else of ours. So it imports nothing of ours but :mod:`duckdp.vault.exhausted`, which travels with it. A
part holds its units with all of their rows; that it does was decided by a number that each of its rows carries, and is
seen to be so before anything is read of it.

Nothing that fails here says why: DuckDB's words may quote rows, and a worker's words reach logs.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute

from duckdp.vault.exhausted import RAN_OUT, ran_out

FAILED = "a private read failed on a part of the rows"
TAG, PLACE = "__table", "__part"  # columns beside those of the tables: whose row it is, and in which part it belongs
MOST_PERCENT = 80  # of a machine's memory, for all of its tasks together: DuckDB's default for one instance
TOGETHER = 1 << 18  # rows that are copied at once
ROWS = 10_000  # of a read, that cross at once
ARRAY_ROWS = 1 << 17  # of one array
RESULT = pa.schema([("part", pa.int32()), ("number", pa.int32()), ("last", pa.bool_()), ("rows", pa.binary())])


@dataclass(frozen=True, kw_only=True)
class Given:
    """A table of a part.

    Attributes:
        place: its quoted name.
        columns: quoted names and types of DuckDB, of those that are read.
        sent: how they are called in the batches; empty: none of its rows come by batches.
        rows: all of its rows, where it is public: an Arrow stream.
    """

    place: str
    columns: tuple[tuple[str, str], ...]
    sent: tuple[str, ...] = ()
    rows: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, kw_only=True)
class PartWork:
    """A read, for any part.

    Attributes:
        sql: of ours, over the tables.
        parameters: values of $1, $2, ...
        arrays: rows cross as arrays of columns.
        catalog: quoted name of the database of the tables.
        tables: those that are read.
        config: of the instance.
        memory: of the instance, as DuckDB says it ("2GB"); empty: its default, divided by the processors there are,
            each of which may have a task.
        version: of DuckDB, which gives the same figures only if it is the same everywhere.
        placed: rows carry the number of their part.
    """

    sql: str
    parameters: tuple[Any, ...]
    arrays: bool
    catalog: str
    tables: tuple[Given, ...]
    config: dict[str, Any]
    memory: str
    version: str
    placed: bool


Batches = Iterator[pa.RecordBatch]


def part_reader(work: PartWork) -> Callable[[Batches], Batches]:
    """The read as a function of a part's batches, for a task of Spark; it gives batches of :data:`RESULT`."""

    def read(batches: Batches) -> Batches:
        failed: str | None = None
        try:
            part = _number_of_task()
            yield from packed(read_part(work, batches, part), part)
        except Exception as error:  # noqa: BLE001 - whatever it is may quote rows
            failed = RAN_OUT if ran_out(error) else FAILED
        if failed is not None:
            raise RuntimeError(failed)

    return read


def text_reader(work: PartWork) -> Callable[[Batches], Batches]:
    """A read of texts as a function of a part's batches, for a task of Spark; it gives batches of columns of text."""

    def read(batches: Batches) -> Batches:
        failed: str | None = None
        try:
            for rows in read_part(work, batches, _number_of_task()):
                yield pa.RecordBatch.from_arrays(
                    [pa.array(c, pa.string()) for c in zip(*rows, strict=True)], ["k", "v"]
                )
        except Exception as error:  # noqa: BLE001
            failed = RAN_OUT if ran_out(error) else FAILED
        if failed is not None:
            raise RuntimeError(failed)

    return read


def _number_of_task() -> int:
    from pyspark import TaskContext

    return int(TaskContext.get().partitionId())


def read_part(work: PartWork, batches: Iterator[pa.RecordBatch], part: int) -> Iterator[list[Any]]:
    """Lists of rows of a read on one part: exact and private.

    Args:
        work: what is read.
        batches: the part's rows.
        part: its number.

    Raises:
        RuntimeError: another version of DuckDB, or a row of another part.
    """
    if duckdb.__version__ != work.version:
        raise RuntimeError(FAILED)
    folder = tempfile.mkdtemp(prefix="duckdp-", dir=spill_folder(part))
    memory = work.memory or f"{max(MOST_PERCENT // (os.cpu_count() or 1), 1)}%"
    config = {**work.config, "threads": 1, "temp_directory": folder, "memory_limit": memory}
    con = duckdb.connect(":memory:", config=config)
    try:
        con.execute(f"ATTACH ':memory:' AS {work.catalog}")
        for table in work.tables:
            con.execute(f"CREATE SCHEMA IF NOT EXISTS {table.place.rpartition('.')[0]}")
            con.execute(f"CREATE TABLE {table.place} ({', '.join(f'{name} {kind}' for name, kind in table.columns)})")
            if table.rows:
                _copy(
                    con, table, [str(c) for c in range(len(table.columns))], pa.ipc.open_stream(table.rows).read_all()
                )
        held: list[pa.RecordBatch] = []
        for batch in batches:
            if work.placed and not _all_of(batch.column(PLACE), part):
                raise RuntimeError(FAILED)
            held.append(batch)
            if sum(b.num_rows for b in held) >= TOGETHER:
                _take(con, work.tables, held)
                held = []
        _take(con, work.tables, held)
        yield from _rows(con, work)
    finally:
        con.close()
        shutil.rmtree(folder, ignore_errors=True)


def spill_folder(part: int) -> str | None:
    """Where a part's rows go that memory does not hold: a folder that Spark removes with the executor; else None.

    Spark tells its Python workers the folders of their executor in SPARK_LOCAL_DIRS. What a worker that is killed
    leaves there goes with them. It is not encrypted: DuckDB writes encrypted files only with an extension.
    """
    folders = [f for f in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if f and os.access(f, os.W_OK)]
    return folders[part % len(folders)] if folders else None


def packed(rows: Iterator[list[Any]], part: int) -> Iterator[pa.RecordBatch]:
    """Lists of rows as batches, numbered, the last one marked: what is lost or comes twice is seen."""
    number, before = 0, next(rows, [])
    for after in rows:
        yield _batch(part, number, before, last=False)
        number, before = number + 1, after
    yield _batch(part, number, before, last=True)


def unpacked(rows: Any) -> list[Any]:
    """The rows of a batch that a worker of ours packed."""
    found: list[Any] = pickle.loads(bytes(rows))
    return found


def _batch(part: int, number: int, rows: list[Any], *, last: bool) -> pa.RecordBatch:
    cells = [[part], [number], [last], [pickle.dumps(rows, protocol=5)]]
    return pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(cells, RESULT, strict=True)], schema=RESULT)


def _all_of(column: Any, part: int) -> bool:
    return column.null_count == 0 and set(column.unique().to_pylist()) <= {part}


def _take(con: duckdb.DuckDBPyConnection, tables: Sequence[Given], batches: list[pa.RecordBatch]) -> None:
    if not batches:
        return
    tagged = TAG in batches[0].schema.names
    for tag, table in enumerate(t for t in tables if t.sent):
        kept = [b.filter(pyarrow.compute.equal(b.column(TAG), tag)) for b in batches] if tagged else batches
        _copy(con, table, table.sent, pa.Table.from_batches(kept))


def _copy(con: duckdb.DuckDBPyConnection, table: Given, sent: Sequence[str], rows: pa.Table) -> None:
    """Rows into a table, after their offsets and texts were checked: DuckDB follows them as they are."""
    rows.validate(full=True)
    con.register("incoming", rows)
    names, items = ", ".join(name for name, _ in table.columns), ", ".join(f'"{name}"' for name in sent)
    con.execute(f"INSERT INTO {table.place} ({names}) SELECT {items} FROM incoming")
    con.unregister("incoming")


def _rows(con: duckdb.DuckDBPyConnection, work: PartWork) -> Iterator[list[Any]]:
    if work.arrays:
        relation: Any = con.sql(work.sql, params=list(work.parameters))
        for batch in relation.to_arrow_reader(ARRAY_ROWS):
            yield [tuple(column.to_numpy(zero_copy_only=False) for column in batch.columns)]
        return
    result = con.execute(work.sql, list(work.parameters))
    while rows := result.fetchmany(ROWS):
        yield rows
