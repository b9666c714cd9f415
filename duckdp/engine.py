"""The private instance: our own in-memory DuckDB with the owner's data attached read-only.

It never runs a word of an analyst's text, only SQL printed by compiler/ and smooth/ from plans, and only against a
charge. Engine messages may quote rows, so none leaves.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb

from duckdp.attempt import INTERRUPTED
from duckdp.core.task import PrivateQuery, Tell, Watch
from duckdp.decoding import read_in_full
from duckdp.errors import CatalogError, DuckDPError, ExecutionError, InternalError
from duckdp.ledger import Charge
from duckdp.source import Source

CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "python_scan_all_frames": "false",
    "default_null_order": "nulls_last",
    "integer_division": "false",
    "default_collation": "",
    "index_scan_max_count": "0",  # the owner's indexes are not read at the opening, so not later either
    "index_scan_percentage": "0",
}
BATCH = 10_000
ARRAY_BATCH = 1 << 17


class Engine:
    """Owns the private instance. Every read wants a charge.

    Args:
        source: what to attach.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        # what does not fit in memory spills here, readable by nobody else; DuckDB's default is the working directory
        self._folder = tempfile.mkdtemp(prefix="duckdp-")
        self._clean = weakref.finalize(self, _remove, self._folder, os.getpid())  # also when nobody closes
        self._con = self._connect()
        self._lock = threading.Lock()
        self._running: set[duckdb.DuckDBPyConnection | Watch] = set()
        self._stopped: set[duckdb.DuckDBPyConnection | Watch] = set()
        try:
            source.attach(self._con)
        except BaseException:
            self._con.close()
            self._clean()
            raise
        self.stamp = source.stamp()

    def schema_cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor for the owner's catalog look-ups; no analyst path reaches it."""
        return self._con.cursor()

    def run(self, query: PrivateQuery, charge: Charge) -> Iterator[tuple[Any, ...]]:
        """Run a private read that has been paid for.

        Args:
            query: printed from a plan.
            charge: durable; proof of payment.

        Yields:
            Exact rows, for the mechanism alone; at most ``query.rows``.

        Raises:
            ExecutionError: E101 the engine failed, E102 interrupted; the charge stays.
        """
        if not isinstance(charge, Charge):
            raise InternalError("a private read needs a charge")
        failed: str | None = None
        cursor = self._con.cursor()
        with self._lock:
            self._running.add(cursor)
        crossed = 0
        try:
            if query.arrays:
                _require_few(1, query.rows)
                yield from read_batches(cursor, query)
                return
            result = cursor.execute(query.sql, list(query.parameters))
            while rows := result.fetchmany(BATCH):
                crossed += len(rows)
                _require_few(crossed, query.rows)
                yield from rows
        except DuckDPError:
            raise
        except (KeyboardInterrupt, duckdb.InterruptException):
            failed = "E102"
        except Exception as error:  # noqa: BLE001 - engine and conversion errors alike may quote rows
            failed = "E102" if cursor in self._stopped or str(error) in INTERRUPTED else "E101"
        finally:
            with self._lock:
                self._running.discard(cursor)
                self._stopped.discard(cursor)
            cursor.close()
        if failed is not None:
            raise ExecutionError(failed, charge.id)

    def interrupt(self) -> None:
        """Stop the private reads under way, and what is made of them; their charges stay."""
        with self._lock:
            running = list(self._running)
            self._stopped.update(running)
        for work in running:
            work.interrupt()

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[None]:
        """While it lasts, :meth:`interrupt` ends that post-processing or waiting too; what was paid for is stored.

        Raises:
            ExecutionError: E102, it was interrupted so.
        """
        with self._lock:
            self._running.add(watch)
        try:
            yield
        except KeyboardInterrupt:
            if not watch.interrupted:  # by whoever watches, or by Ctrl-C
                raise
            raise ExecutionError("E102", None) from None
        finally:
            with self._lock:
                self._running.discard(watch)
                self._stopped.discard(watch)

    def changed(self) -> bool:
        """Whether the source's files differ from when they were attached."""
        return self.source.stamp() != self.stamp

    def read_in_full(self, tell: Tell | None = None) -> None:
        """See :func:`duckdp.decoding.read_in_full`; also C104, the source changed meanwhile."""
        self._read(self._con, self.stamp, tell)

    def reattach(self, tell: Tell | None = None) -> None:
        """Attach the source afresh, after the owner accepted a change, and read it in full before anybody else does."""
        fresh = self._connect()
        try:
            self.source.attach(fresh)
            stamp = self.source.stamp()
            self._read(fresh, stamp, tell)
        except BaseException:
            fresh.close()
            raise
        with self._lock:
            old, self._con = self._con, fresh
            self.stamp = stamp
        old.close()

    def close(self) -> None:
        """Close the instance; the source's file is free again."""
        self._con.close()
        self.source.close()
        self._clean()

    def _read(self, con: duckdb.DuckDBPyConnection, stamp: tuple[tuple[int, ...], ...], tell: Tell | None) -> None:
        cursor = con.cursor()
        with self._lock:
            self._running.add(cursor)
        try:
            read_in_full(cursor, self.source, tell)
        finally:
            with self._lock:
                self._running.discard(cursor)
                self._stopped.discard(cursor)
            cursor.close()
        if self.source.stamp() != stamp:
            raise CatalogError("C104", "the source changed while it was read. Open it again when nobody writes it.")

    def _connect(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect(":memory:", config={**CONFIG, "temp_directory": self._folder})


def read_batches(cursor: duckdb.DuckDBPyConnection, query: PrivateQuery) -> Iterator[tuple[Any, ...]]:
    """Batches of columns; a row's values are never Python objects.

    A relation streams, whereas a result of a statement with parameters is copied first.
    """
    rows: Any = cursor.sql(query.sql, params=list(query.parameters))
    for batch in rows.to_arrow_reader(ARRAY_BATCH):
        yield tuple(column.to_numpy(zero_copy_only=False) for column in batch.columns)


def _remove(folder: str, owner: int) -> None:
    """Delete the spill folder, but not from a forked child: it is its parent's."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _require_few(crossed: int, most: int | None) -> None:
    if most is not None and crossed > most:
        raise InternalError("more rows crossed than are released")
