"""The one writer of a ledger: a thread that runs transactions, several under one commit where several wait.

A transaction is a function. It runs on the writer's thread, so an interrupt (Ctrl-C, which Python raises in the main
thread, anywhere) ends the waiting for it and never the transaction itself: none is left open, half done or unlocked.

Durability: a caller goes on only after the commit that holds its transaction and the anchor's move behind it, both on
            the disk. Waiting transactions share them: each runs in a savepoint of its own, so one that is refused
            takes nothing of the others with it; the first has the transaction, in which there is nothing else.
"""

from __future__ import annotations

import _thread
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from duckdp.errors import DuckDPError, InternalError, LedgerError
from duckdp.ledger import connections
from duckdp.ledger.tx import Tx
from duckdp.process.forks import Home, closed

MOST_TOGETHER = 64  # transactions under one commit
_END_SECONDS = 0.0005  # how often who closes looks whether it is done
_LOOK_SECONDS = 1.0  # how often who waits looks whether anybody serves

T = TypeVar("T")
Commit = Callable[[connections.Open, Callable[[Tx], None]], None]


class Writer:
    """Runs work on a thread of its own, in order.

    Args:
        path: of the ledger.
        commit: (connection, body) runs body within one durable, anchored transaction.
        prepare: makes a new connection fit to write, the first one and any after it.

    Attributes:
        closed: its end has begun.
    """

    def __init__(self, path: str, commit: Commit, prepare: Callable[[connections.Open], None]) -> None:
        self.path = path
        self._commit, self._prepare = commit, prepare
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._serving = _thread.allocate_lock()  # of the thread that serves, as long as it does; nobody else takes it
        self._ident = 0  # of that thread
        self.closed = False
        self._home = Home()
        self._connection: connections.Open | None = None

    def transact(self, work: Callable[[Tx], T]) -> T:
        """Run a transaction; returns when it is durable.

        Raises:
            LedgerError: B206, B211 closed, B212, and others. Whatever ``work`` raises, and then nothing of it is kept.
        """
        return self._do(_Job(work, alone=False))  # type: ignore[no-any-return]

    def alone(self, work: Callable[[connections.Open], T]) -> T:
        """Run work on the writer's connection, outside of any transaction."""
        return self._do(_Job(work, alone=True))  # type: ignore[no-any-return]

    def close(self) -> None:
        """Finish what waits, close the connection, end the thread; again is harmless."""
        self.closed = True
        self._queue.put(None)
        while self._serving.locked() and not self.is_mine:
            time.sleep(_END_SECONDS)

    @property
    def is_mine(self) -> bool:
        """Whether this is the thread that serves."""
        return self._ident == _thread.get_ident()

    def _do(self, job: _Job) -> Any:
        """Hand a job over and wait for it; no lock is held that an interrupt could leave locked."""
        if self._home.left or self.closed:
            self._home.require(f'the ledger "{self.path}"', self.path)
            raise closed(f'the ledger "{self.path}"', self.path)
        if self.is_mine:
            raise InternalError("a transaction asked for another one")
        self._queue.put(job)
        try:
            self._ensure()
            while not job.is_done(_LOOK_SECONDS):
                if self.closed and not self._serving.locked():
                    raise closed(f'the ledger "{self.path}"', self.path)
                self._ensure()
        except DuckDPError:
            job.abandoned = True
            raise
        return job.value()

    def _ensure(self) -> None:
        """Start the thread if none serves; of several that are started at once, one does.

        Raises:
            LedgerError: B207, the system starts no more threads.
        """
        if self._serving.locked() or self.closed:
            return
        try:
            _thread.start_new_thread(self._run, ())  # threading.Thread.start has locks that an interrupt may leave
        except RuntimeError:
            text = f'the ledger "{self.path}" needs a thread, and the system starts no more. End some work.'
            raise LedgerError("B207", text, path=self.path) from None

    # ---- on the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        if not self._serving.acquire(blocking=False):
            return
        self._ident = _thread.get_ident()
        try:
            while (job := self._queue.get()) is not None:
                while job is not None:
                    job = self._serve(job)
                del job  # a job holds what it was asked with
        finally:
            try:
                if self._connection is not None:
                    with suppress(*connections.FAILURES):
                        connections.close(self._connection)
            finally:
                self._serving.release()

    def _serve(self, first: _Job) -> _Job | None:
        """Serve a job and those that wait behind it, under one commit; returns one that came up and is to be alone."""
        done: list[_Job] = []
        following: list[_Job | None] = []
        if first.abandoned:
            return None
        try:
            with connections.translated(self.path):
                connection = self._connected()
                if first.alone:
                    done.append(first)
                    first.run(connection)
                else:
                    self._commit(connection, lambda tx: self._run_together(tx, first, done, following))
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

    def _connected(self) -> connections.Open:
        if self._connection is None:
            connection = connections.attach(self.path)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _run_together(self, tx: Tx, first: _Job, done: list[_Job], following: list[_Job | None]) -> None:
        """Run a job, and in savepoints those that came meanwhile."""
        done.append(first)  # undone with the transaction, in which nothing else is yet
        own = tx.asked_by(first.thread)
        first.run(own)
        own.flush()
        for job in self._waiting(following, tx):
            done.append(job)
            tx.run("SAVEPOINT job")
            try:
                with connections.translated(self.path):
                    own = tx.asked_by(job.thread)
                    job.run(own)
                    own.flush()
                    own.settle()
            except BaseException as error:
                if not tx.is_open():  # the whole is undone: full disk, failing disk, no memory, a lost connection
                    raise
                job.fail(error)
                tx.forget()
                tx.run("ROLLBACK TO job")
            tx.later("RELEASE job")

    def _waiting(self, following: list[_Job | None], tx: Tx) -> Iterator[_Job]:
        for _ in range(MOST_TOGETHER - 1):
            if self._queue.empty():
                return
            tx.settle()  # before the next: an error of those before is theirs
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
            connections.undo(connection)
        except connections.FAILURES:
            self._connection = None
            with suppress(*connections.FAILURES):
                connection.close()


class _Job:
    """Work, and who waits for it."""

    __slots__ = ("_done", "_error", "_value", "_work", "abandoned", "alone", "thread")

    def __init__(self, work: Callable[[Any], Any], *, alone: bool) -> None:
        self._work, self.alone, self.abandoned, self.thread = work, alone, False, threading.get_ident()
        self._value: Any = None
        self._error: BaseException | None = None
        self._done = _thread.allocate_lock()
        self._done.acquire()

    def run(self, on: Any) -> None:
        self._value = self._work(on)
        del self._work  # and what it knows: who waits may go on, and let go of it, before this thread does

    def fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error

    def finish(self) -> None:
        self._done.release()

    def is_done(self, seconds: float) -> bool:
        """Wait for the end of the work.

        Raises:
            KeyboardInterrupt: in the main thread; work that has begun goes on without us.
        """
        try:
            return self._done.acquire(timeout=seconds)
        except BaseException:
            self.abandoned = True
            raise

    def value(self) -> Any:
        """What the work gave, or its error."""
        if self._error is None:
            return self._value
        error, self._error = self._error, None
        try:
            raise error
        finally:
            del error
