"""The private instance: our own in-memory DuckDB with the owner's data attached read-only.

It never runs a word of an analyst's text, only SQL printed by compiler/ and smooth/ from plans, and only against a
charge. Engine messages may quote rows, so none leaves.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Protocol

import duckdb

from duckdp.catalog.table import Table
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import Charged
from duckdp.core.watch import Tell, Watch, asker
from duckdp.errors import CatalogError, DuckDPError, ExecutionError, InternalError
from duckdp.ledger import Charge
from duckdp.process.attempt import INTERRUPTED, attempt
from duckdp.process.ending import Ending, close_busy
from duckdp.process.folders import Folder
from duckdp.process.forks import Home, closed, keep
from duckdp.vault.decoding import read_in_full
from duckdp.vault.exhausted import ran_out
from duckdp.vault.parsed import Parsed
from duckdp.vault.shared_reads import SharedReads
from duckdp.vault.source import Source

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
BATCH = 10_000  # rows that are fetched at once; between two an interrupt is seen
ARRAY_BATCH = 1 << 17  # rows of one array
END_SECONDS = 10.0  # for a read that was interrupted
_BEGIN_SECONDS = 1.0  # for a read to begin, once nothing is asked any more; one that nobody goes on with is closed
_LOOK = 0.001  # seconds between two interrupts
WHAT = "the curator"  # as errors name it


class Stoppable(Protocol):
    """Work elsewhere, that another thread may end."""

    def interrupt(self) -> None:
        """End it; again is harmless."""


Work = duckdb.DuckDBPyConnection | Watch | Stoppable


class Engine:
    """Owns the private instance. Every read wants a charge.

    Args:
        source: what to attach.
        memory: that DuckDB may hold, as it says it ("4GB"); None: its default, four fifths of the machine's.

    Attributes:
        stopping: no private read begins any more.
        parts_only: reads are made on parts of the rows; one that parts do not tell is refused.
    """

    parts_only: ClassVar[bool] = False

    def __init__(self, source: Source, *, memory: str | None = None) -> None:
        self.source = source
        self._settings = {} if memory is None else {"memory_limit": memory}
        self.stopping = False
        self._home = Home()
        self._spill = Folder()  # what does not fit in memory; DuckDB's default is the working directory
        # Changed by single steps alone and under no lock: an interrupt, or an end that a finalizer makes, may fall
        # between any two.
        self._running: dict[Work, object] = {}  # for whom
        self._stopped: set[Work] = set()
        self._shared: dict[int, SharedReads] = {}  # by charge
        self._parsed = Parsed()
        self._cursors: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
        self._con = self._connect()
        try:
            source.attach(self._con)
            self._stored = _stored(self._con)
        except BaseException:
            self._con.close()
            self._spill.close()
            raise
        self.stamp = source.stamp()
        (self._unoptimized,) = self._con.extract_statements("PRAGMA disable_optimizer")  # for one cursor alone

    def schema_cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor for the owner's catalog look-ups; no analyst path reaches it.

        Raises:
            LedgerError: B211, B212.
        """
        self._home.require(WHAT)
        try:
            cursor = keep(self._con.cursor())
        except duckdb.ConnectionException:
            raise closed(WHAT) from None
        self._cursors.add(cursor)
        return cursor

    @contextmanager
    def sharing(self, charge: Charge) -> Iterator[None]:
        """While it lasts, the reads of a charge (:meth:`run`) share what they copy; then nothing is left of it."""
        shared = self._shared[charge.id] = SharedReads(self.schema_cursor)
        try:
            yield
        finally:
            self._shared.pop(charge.id, None)
            if not self._home.left:
                shared.close()

    def require(self, task: Charged, salt: int, tables: Sequence[Table]) -> None:
        """Refuse, before its charge, a release whose reads this engine cannot make: here none."""

    def told(self, task: Charged, salt: int, tables: Sequence[Table]) -> list[str]:  # noqa: ARG002
        """How a task is read, line by line, for ``explain``, where that is not as on one machine; public figures."""
        return []

    @contextmanager
    def reading(self, charge: Charge, tables: Sequence[Table]) -> Iterator[None]:  # noqa: ARG002
        """While it lasts, the reads of a charge (:meth:`run`) are of these declarations, for which it was planned."""
        yield

    def run(self, query: PrivateQuery, charge: Charge) -> Iterator[tuple[Any, ...]]:
        """Run a private read that has been paid for.

        Args:
            query: printed from a plan.
            charge: durable; proof of payment.

        Yields:
            Exact rows, for the mechanism alone; at most ``query.rows``.

        Raises:
            ExecutionError: E101 the engine failed, E102 interrupted, E104 memory ran out, C104 the source changed while
                it was read; the charge stays.
        """
        if not isinstance(charge, Charge):
            raise InternalError("a private read needs a charge")
        failed: str | None = None
        shared = self._shared.get(charge.id) if query.kept else None
        cursor = self.schema_cursor() if shared is None else shared.cursor
        self._running[cursor] = asker()
        crossed, stamp = 0, self.stamp
        try:
            self._go_on(cursor)
            if query.arrays:
                require_few(1, query.rows)
                yield from read_batches(cursor, query)
            else:
                if query.few in self._stored:
                    cursor.execute(self._unoptimized)
                sql, parameters = (query.sql, list(query.parameters)) if shared is None else shared.prepare(query)
                result = self._parsed.execute(cursor, sql, parameters)
                while rows := result.fetchmany(BATCH):
                    self._go_on(cursor)
                    crossed += len(rows)
                    require_few(crossed, query.rows)
                    yield from rows
            self._require_unchanged(stamp, charge)
        except DuckDPError:
            raise
        except (KeyboardInterrupt, duckdb.InterruptException, StoppedError):
            failed = "E102"
        except Exception as error:  # noqa: BLE001 - engine and conversion errors alike may quote rows
            stopped = cursor in self._stopped or str(error) in INTERRUPTED
            failed = "E102" if stopped else "E104" if ran_out(error) else "E101"
        finally:
            self._ended(cursor)
            if shared is None and not self._home.left:
                cursor.close()
        if failed is not None:
            raise ExecutionError(failed, charge.id)

    def show_public(self, table: Table) -> None:
        """Let :meth:`schema_cursor` see the rows of a public table: here it does."""

    def owners_cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor for what the owner looks at with all rows in view; no analyst path reaches it."""
        return self.schema_cursor()

    def unique(self, scan: str, values: Sequence[object], table: Table) -> bool | None:  # noqa: ARG002
        """Whether no value stands twice in ``k``, nor in ``v``, of a scan; None: it cannot be read.

        Args:
            scan: a parenthesised SELECT of ``k`` and ``v``, of ours.
            values: its parameters.
            table: the declaration that it was printed for.
        """
        sql = f"SELECT count(*) = count(DISTINCT k) AND count(*) = count(DISTINCT v) FROM {scan} AS r"
        found, message = attempt(self.schema_cursor(), sql, values=values)
        return None if message is not None else bool(found[0][0])

    def interrupt(self, who: object = None) -> None:
        """Stop the private reads under way, and what is made of them; their charges stay.

        ``who``: only what is done for them (``core.watch.asking_for``); all of it by default.
        """
        running = [work for work, asked in list(self._running.items()) if who is None or asked == who]
        self._stopped.update(running)
        for work in running:
            with suppress(duckdb.Error):  # it ended just now
                work.interrupt()
            if work not in self._running:
                self._stopped.discard(work)

    def stop(self) -> None:
        """Let no private read begin any more, and interrupt those under way; again, to interrupt again."""
        self.stopping = True
        self.interrupt()

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[None]:
        """While it lasts, :meth:`interrupt` ends that post-processing or waiting too; what was paid for is stored.

        Raises:
            ExecutionError: E102, it was interrupted so.
        """
        self._running[watch] = asker()
        try:
            yield
        except KeyboardInterrupt:
            if not watch.interrupted:  # by whoever watches, or by Ctrl-C
                raise
            raise ExecutionError("E102", None) from None
        finally:
            self._ended(watch)

    def changed(self) -> bool:
        """Whether the source's files differ from when they were attached."""
        return self.source.stamp() != self.stamp

    def read_in_full(self, tell: Tell | None = None) -> None:
        """See :func:`duckdp.vault.decoding.read_in_full`; also C104, the source changed meanwhile."""
        self._read(self._con, self.stamp, tell)

    def reattach(self, tell: Tell | None = None) -> None:
        """Attach the source afresh, after the owner accepted a change, and read it in full before anybody else does."""
        self._home.require(WHAT)
        fresh = self._connect()
        self._running[fresh] = asker()
        try:
            self.source.attach(fresh)
            stamp, stored = self.source.stamp(), _stored(fresh)
            self._read(fresh, stamp, tell)
        except BaseException as error:
            fresh.close()
            if self.stopping and isinstance(error, KeyboardInterrupt):
                raise closed(WHAT) from None
            raise
        finally:
            self._ended(fresh)
        old, self._con, self.stamp, self._stored = self._con, fresh, stamp, stored
        old.close()
        if self.stopping:  # perhaps after the one before it was closed
            fresh.close()
            raise closed(WHAT)

    def close(self) -> None:
        """Close the instance; the source's file is free again. Again is harmless, and in a forked child it is nothing.

        Raises:
            CatalogError: C107, a read cannot be interrupted; the source is free when it ends.
        """
        if not self._home.left:
            steps = (self.stop, self._close_instance, self.source.close, self._spill.close)
            vars(self).setdefault("_ending", Ending(*steps)).make()

    @property
    def _folder(self) -> str:
        return self._spill.path

    def _close_instance(self) -> None:
        until = time.monotonic() + END_SECONDS
        begun = time.monotonic() + _BEGIN_SECONDS
        while any(w in self._cursors for w in list(self._running)) and time.monotonic() < begun:
            self.interrupt()  # one that begins just now heard nothing, and DuckDB may close its connection: it runs on
            time.sleep(_LOOK)
        busy = [c for c in [*self._cursors, self._con] if not close_busy(c, self.interrupt, until)]
        if busy:
            raise CatalogError(
                "C107",
                "a read did not end when it was interrupted; the source stays locked by this process until it ends.",
            )

    def _require_unchanged(self, stamp: tuple[tuple[int, ...], ...], charge: Charge) -> None:
        """At the end of a read: what was moved from file to file meanwhile may have been read twice.

        Raises:
            ExecutionError: C104; the charge stays.
        """
        if stamp != self.source.stamp():
            raise ExecutionError("C104", charge.id)

    def _ended(self, work: Work) -> None:
        self._running.pop(work, None)
        self._stopped.discard(work)

    def _go_on(self, work: Work) -> None:
        """Nothing, unless the read was interrupted where DuckDB does not see it: between two of its calls."""
        if self.stopping or work in self._stopped:
            raise StoppedError

    def _read(self, con: duckdb.DuckDBPyConnection, stamp: tuple[tuple[int, ...], ...], tell: Tell | None) -> None:
        cursor = keep(con.cursor())
        self._running[cursor] = asker()
        try:
            read_in_full(cursor, self.source, tell)
        finally:
            self._ended(cursor)
            cursor.close()
        if self.source.stamp() != stamp:
            raise CatalogError("C104", "the source changed while it was read. Open it again when nobody writes it.")

    def _connect(self) -> duckdb.DuckDBPyConnection:
        return keep(duckdb.connect(":memory:", config={**CONFIG, **self._settings, "temp_directory": self._folder}))


def _stored(con: duckdb.DuckDBPyConnection) -> frozenset[tuple[str, str, str]]:
    """Tables whose rows DuckDB keeps. A view, or a scan of other files, wants an optimizer however few it gives."""
    cursor = keep(con.cursor())
    try:
        found = cursor.execute("SELECT database_name, schema_name, table_name FROM system.main.duckdb_tables()")
        return frozenset(found.fetchall())
    finally:
        cursor.close()


def read_batches(cursor: duckdb.DuckDBPyConnection, query: PrivateQuery) -> Iterator[tuple[Any, ...]]:
    """Batches of columns; a row's values are never Python objects.

    A relation streams, whereas a result of a statement with parameters is copied first.
    """
    rows: Any = cursor.sql(query.sql, params=list(query.parameters))
    for batch in rows.to_arrow_reader(ARRAY_BATCH):
        yield tuple(column.to_numpy(zero_copy_only=False) for column in batch.columns)


class StoppedError(Exception):
    """A read was interrupted where its engine did not see it; what runs reads makes it E102."""


def require_few(crossed: int, most: int | None) -> None:
    """X101 unless at most so many rows crossed."""
    if most is not None and crossed > most:
        raise InternalError("more rows crossed than are released")
