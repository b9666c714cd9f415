"""The one writer of a ledger: a thread that runs transactions, several under one commit where several wait.

A transaction is a function. It runs on the writer's thread, so an interrupt (Ctrl-C, which Python raises in the main
thread, anywhere) ends the waiting for it and never the transaction itself: none is left open, half done or unlocked.

Durability: a caller goes on only after the commit that holds its transaction and the anchor's move behind it, both on
            the disk. Waiting transactions share them: each runs in a savepoint of its own, so one that is refused
            takes nothing of the others with it.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from duckdp.errors import LedgerError
from duckdp.ledger import connections
from duckdp.ledger.tx import Tx

MOST_TOGETHER = 64  # transactions under one commit

T = TypeVar("T")
Commit = Callable[[sqlite3.Connection, Callable[[Tx], None]], None]


class Writer:
    """Runs work on a thread of its own, in order.

    Args:
        path: of the ledger.
        commit: (connection, body) runs body within one durable, anchored transaction.
    """

    def __init__(self, path: str, commit: Commit) -> None:
        self.path = path
        self._commit = commit
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._connection: sqlite3.Connection | None = None

    def transact(self, work: Callable[[Tx], T]) -> T:
        """Run a transaction; returns when it is durable.

        Raises:
            LedgerError: B206, B207 closed, and others. Whatever ``work`` raises, and then nothing of it is kept.
        """
        return self._do(_Job(work, alone=False))  # type: ignore[no-any-return]

    def alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work on the writer's connection, outside of any transaction."""
        return self._do(_Job(work, alone=True))  # type: ignore[no-any-return]

    def close(self) -> None:
        """Finish what waits, close the connection, end the thread; again is harmless."""
        with self._lock:
            thread, closed, self._closed = self._thread, self._closed, True
            if not closed and thread is not None:
                self._queue.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _do(self, job: _Job) -> Any:
        with self._lock:
            if self._closed:
                raise LedgerError("B207", f'the ledger "{self.path}" is closed. Open it again.', path=self.path)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="duckdp-ledger", daemon=True)
                self._thread.start()
            self._queue.put(job)
        return job.wait()

    # ---- on the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (job := self._queue.get()) is not None:
                while job is not None:
                    job = self._serve(job)
                del job  # a job holds what it was asked with
        finally:
            if self._connection is not None:
                with suppress(sqlite3.Error):
                    connections.close(self._connection)

    def _serve(self, first: _Job) -> _Job | None:
        """Serve a job and those that wait behind it, under one commit; returns one that came up and is to be alone."""
        done: list[_Job] = []
        following: list[_Job | None] = []
        if first.abandoned:
            return None
        try:
            with connections.translated(self.path):
                if self._connection is None:
                    self._connection = connections.connect(self.path)
                if first.alone:
                    done.append(first)
                    first.run(self._connection)
                else:
                    self._commit(self._connection, lambda tx: self._run_together(tx, first, done, following))
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to whoever waits
            self._undo()
            done = done or [first]
            for job in done:
                job.fail(error)
        for job in done:
            job.finish()
        if not following:
            return None
        if following[0] is None:  # closed meanwhile
            self._queue.put(None)
        return following[0]

    def _run_together(self, tx: Tx, first: _Job, done: list[_Job], following: list[_Job | None]) -> None:
        for job in self._waiting(first, following):
            done.append(job)
            tx.run("SAVEPOINT job")
            try:
                with connections.translated(self.path):
                    job.run(tx.asked_by(job.thread))
            except BaseException as error:
                if not tx.is_open():  # SQLite itself undid the whole: full disk, failing disk, no memory
                    raise
                job.fail(error)
                tx.run("ROLLBACK TO job")
            tx.run("RELEASE job")

    def _waiting(self, first: _Job, following: list[_Job | None]) -> Iterator[_Job]:
        yield first
        for _ in range(MOST_TOGETHER - 1):
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return
            if job is None or job.alone:
                following.append(job)
                return
            if not job.abandoned:
                yield job

    def _undo(self) -> None:
        """After an error outside of a job: undo, and connect anew next time if even that fails."""
        connection = self._connection
        if connection is None:
            return
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._connection = None
            with suppress(sqlite3.Error):
                connection.close()


class _Job:
    """Work, and who waits for it."""

    __slots__ = ("_done", "_error", "_value", "_work", "abandoned", "alone", "thread")

    def __init__(self, work: Callable[[Any], Any], *, alone: bool) -> None:
        self._work, self.alone, self.abandoned, self.thread = work, alone, False, threading.get_ident()
        self._value: Any = None
        self._error: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def run(self, on: Any) -> None:
        self._value = self._work(on)

    def fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error

    def finish(self) -> None:
        self._done.release()

    def wait(self) -> Any:
        """The value, when the work is durable.

        Raises:
            KeyboardInterrupt: in the main thread; work that has begun goes on without us.
        """
        try:
            self._done.acquire()
        except BaseException:
            self.abandoned = True
            raise
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error
        return self._value
