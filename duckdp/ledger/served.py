"""A connection to a ledger in PostgreSQL: the same statements as on a file, and its own ways to begin and to commit.

Order:       whoever writes locks the data set's row (``SELECT ... FOR UPDATE``) before anything is looked at, so
             writers follow one another, and each sees what the one before it committed. None can fail to be
             serialized; one that the server ends all the same (a deadlock with somebody's maintenance) is begun again
             while nothing was done in it, and refused (B206) afterwards.
Durability:  ``synchronous_commit`` is set for each connection; a server with ``fsync`` off is refused (B214).
Lost:        a connection that is lost undoes what was not committed. Whether a commit that was on its way was made is
             read back: the row's lock is free only when the old session has ended, and an entry of the chain with our
             hash is there or is not. Where the server stays away, the answer is B213, and nothing leaves: asked again,
             what was charged is taken over free, and what was not is charged.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from duckdp.errors import ParameterError
from duckdp.ledger import addresses, served_schema
from duckdp.ledger.anchor import Position
from duckdp.ledger.served_driver import DEFAULTS, load, marked
from duckdp.ledger.served_errors import POOLED, lost, missing, unfit, unknown, unreached
from duckdp.ledger.served_rows import Stream, rows_of
from duckdp.ledger.storage import Failure, Rows, Served
from duckdp.process import forks

if TYPE_CHECKING:
    import psycopg

LOCK_SECONDS = 30  # that another writer may hold the ledger
AWAY_SECONDS = 15.0  # that a server may be away, while it is started anew, before B213 says so
SILENT_SECONDS = 60  # after which a session that has a transaction open and says nothing is ended by the server
MOST_FOUND = 1000  # facts that a connection remembers
PAGE = 1000  # rows of a long list that are in memory

_PAUSE = 0.1  # seconds between two attempts to connect
_SETTINGS = (
    "SET synchronous_commit = 'on'; SET client_encoding = 'UTF8'; SET standard_conforming_strings = on; "
    f"SET lock_timeout = '{LOCK_SECONDS}s'; SET statement_timeout = 0; SET row_security = off; "
    f"SET idle_in_transaction_session_timeout = '{SILENT_SECONDS}s'; SET default_transaction_isolation = "
    "'read committed'; SET default_transaction_read_only = off"
)
_ASKED = (
    "SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('server_encoding'), "
    "pg_is_in_recovery(), current_setting('server_version_num')::bigint, current_setting('full_page_writes')"
)
_WHO = "SELECT pg_backend_pid()"
_NOTHING = "SELECT 1"
_BUSY = ("40001", "40P01")  # serialization failure, deadlock


class Connection(Served):
    """A connection to the ledger of an address.

    Args:
        path: the address.
    """

    def __init__(self, path: str) -> None:
        self._address = addresses.parse(path)
        self.path = self._address.text
        self.found = {}
        self._version: object = None
        self._waiting: list[tuple[str, Sequence[Any]]] = []  # changes that go with the next statement
        self._cursors = 0
        self._driver = self._connect()

    @property
    def schema(self) -> str:
        """The schema of the address."""
        return self._address.schema

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, one that failed included."""
        return self._driver.info.transaction_status in (1, 2, 3)  # active, in a transaction, in one that failed

    @property
    def server_version(self) -> int:
        """The version of the server, such as 180003."""
        return int(self._driver.info.server_version)

    @property
    def is_lost(self) -> bool:
        """Whether the server, or the way there, is gone."""
        return bool(self._driver.closed)

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run a statement; outside of a transaction a look is tried again where the connection was lost.

        Raises:
            Failure.
        """
        inside = self.in_transaction
        try:
            return self._run(sql, parameters)
        except Failure as failure:
            if failure.state or inside or not sql.startswith("SELECT"):
                raise
        self._reconnect()
        return self._run(sql, parameters)

    def later(self, sql: str, parameters: Sequence[Any] = (), /) -> None:
        """Run a change together with what is sent next, at the latest with the commit; see ``Served.later``."""
        if self.in_transaction:
            self._waiting.append((sql, parameters))
        else:
            self._run(sql, parameters)

    def settle(self) -> None:
        """Send what waits; see ``Served.settle``."""
        if self._waiting:
            self._run(_NOTHING)

    def drop(self) -> None:
        """Forget the changes that wait to be sent; see ``Served.drop``."""
        self._waiting.clear()

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Rows:
        """Run a statement once for each of several lists of parameters.

        Raises:
            Failure.
        """
        self.settle()
        cursor: Any = self._driver.cursor()
        with _telling(self):
            cursor.executemany(marked(sql), list(parameters))
        return cursor  # type: ignore[no-any-return]

    def stream(self, sql: str) -> Rows:
        """The rows of a query that may be many, within the transaction that is open; few are in memory at a time.

        Raises:
            Failure.
        """
        return Stream(self.pages(sql, PAGE))

    def pages(self, sql: str, size: int) -> Generator[list[Any]]:
        """As :meth:`stream`, some rows at a time; no page is empty.

        Raises:
            Failure.
        """
        self.settle()
        self._cursors += 1
        cursor: Any = self._driver.cursor(name=f"duckdp_{self._cursors}")
        with _telling(self):
            cursor.execute(marked(sql))
        try:
            while True:
                with _telling(self):
                    page = cursor.fetchmany(size)
                if not page:
                    return
                yield page
        finally:
            if self.in_transaction:
                with suppress(load().Error):
                    cursor.close()

    def script(self, text: str) -> None:
        """Run several statements, none of which has parameters.

        Raises:
            Failure.
        """
        self.settle()
        with _telling(self):
            self._driver.execute(text.encode())

    def begin(self, *, writing: bool, row: str = "dataset") -> None:
        """Begin a transaction; one that writes waits for the lock of the row of that table.

        Raises:
            Failure.
        """
        end = time.monotonic() + AWAY_SECONDS
        how = "READ COMMITTED READ WRITE" if writing else "REPEATABLE READ READ ONLY"
        what = "events, head" if row == "dataset" else "one"
        text = f"BEGIN ISOLATION LEVEL {how}; {_WHO}; SELECT {what} FROM {row}{' FOR UPDATE' if writing else ''}"
        while True:
            try:
                if self.is_lost:
                    self._driver = self._connect()
                cursor: Any = self._run(text)
                cursor.nextset()
                self._require_session(cursor.fetchone()[0])
                cursor.nextset()
                self._look(cursor.fetchone())
            except Failure as failure:
                self.undo()
                if not _passes(failure) or time.monotonic() > end:
                    raise
                time.sleep(_PAUSE)
            else:
                return

    def _require_session(self, found: int) -> None:
        """Refuse another session than was set up: its commits may not be durable, and our locks are not its own.

        Raises:
            Failure: B214.
        """
        if found != self._session:
            raise Failure("", unfit(self.path, POOLED))

    def commit(self, head: Position | None = None) -> None:
        """Commit durably, and find out whether that was done where the connection is lost on the way.

        Raises:
            Failure: it was not, or (B213) the server stays away and nobody knows.
        """
        try:
            cursor: Any = self._run("COMMIT")
        except Failure as failure:
            if failure.state or head is None:
                raise
            self._settle(head)
        else:
            if cursor.statusmessage != "COMMIT":  # the server undid it: a statement in it had failed
                raise Failure("25P02")
        self._version = None if head is None else (head.count, head.digest)

    def undo(self) -> None:
        """End a transaction, if there is one; where that fails, the connection ends, and with it the transaction."""
        self.drop()
        if self.in_transaction:
            try:
                self._driver.execute("ROLLBACK")
            except BaseException as error:
                self._driver.close()
                if not isinstance(error, Exception):
                    raise

    def remembered(self) -> dict[object, Any]:
        """What was found since the last entry of anybody in the history, which every change of the ledger makes."""
        if not self.in_transaction:
            self._look(self.execute("SELECT events, head FROM dataset").fetchone())
        elif len(self.found) >= MOST_FOUND:
            self.found = {}
        return self.found

    def _look(self, seen: Sequence[Any] | None) -> None:
        version = None if seen is None else tuple(seen)
        if version != self._version or len(self.found) >= MOST_FOUND:
            self.found = {}
            self._version = version

    def is_altered(self) -> bool:
        """Whether tables, indexes and triggers are others than were made."""
        return served_schema.described(self) != served_schema.expected(self)

    def contradictions(self) -> Iterator[str]:
        """What the tables contradict of what the server guarantees of them."""
        return served_schema.contradictions(self)

    def size(self) -> int:
        """Bytes of all tables and indexes."""
        return served_schema.size(self)

    def close(self) -> None:
        """Close it; again is harmless."""
        with suppress(Exception):
            self._driver.close()

    # ---- the driver --------------------------------------------------------------------------------------------------

    def _run(self, sql: str, parameters: Sequence[Any] = ()) -> Rows:
        """Run what waits and a statement, in one message where the driver can; the first that fails is the last."""
        waiting, self._waiting = self._waiting, []
        with _telling(self):
            if waiting and load().Pipeline.is_supported():
                with self._driver.pipeline():
                    for each in waiting:
                        self._driver.execute(marked(each[0]), tuple(each[1]) or None)
                    return self._driver.execute(marked(sql), tuple(parameters) or None)
            for each in waiting:
                self._driver.execute(marked(each[0]), tuple(each[1]) or None)
            return self._driver.execute(marked(sql), tuple(parameters) or None)

    def _connect(self) -> psycopg.Connection[Any]:
        """Connect, and look at what the server must hold.

        Raises:
            Failure: B213, B214.
        """
        driver = load()
        try:
            made = driver.connect(
                autocommit=True, row_factory=rows_of, prepare_threshold=2, **(DEFAULTS | self._address.parameters)
            )
        except driver.Error:
            raise Failure("", unreached(self.path)) from None
        try:
            _drivers.add(forks.keep(made))
            made.execute(f'SET search_path = "{self._address.schema}", pg_temp; {_SETTINGS}'.encode())
            found = made.execute(_ASKED).fetchone()
            self._session: Any = made.execute(_WHO).fetchone()[0]
        except BaseException as error:
            made.close()
            if isinstance(error, driver.Error):
                raise Failure("", unreached(self.path)) from None
            raise
        lacking = missing(found)
        if lacking:
            made.close()
            raise Failure("", unfit(self.path, lacking))
        return made  # type: ignore[no-any-return]

    def _reconnect(self) -> None:
        """Connect anew, waiting for a server that is away.

        Raises:
            Failure: B213, B214.
        """
        end = time.monotonic() + AWAY_SECONDS
        self.found, self._version = {}, None
        while True:
            try:
                self.close()
                self._driver = self._connect()
            except Failure as failure:
                if not _passes(failure) or time.monotonic() > end:
                    raise
                time.sleep(_PAUSE)
            else:
                return

    def _settle(self, head: Position) -> None:
        """Find out whether a commit was made whose answer was lost.

        Raises:
            Failure: B213, it was not, or nobody can tell.
        """
        try:
            self._reconnect()
            self.begin(writing=True)  # waits until the session that had the lock is over
            found = self._run("SELECT hash FROM event WHERE seq = ?", (head.count,)).fetchone()
            self.undo()
        except Failure:
            self.undo()
            raise Failure("", unknown(self.path)) from None
        if found is None or found[0] != head.digest:
            raise Failure("", lost(self.path))


class _telling:
    """Turns errors of the driver into :class:`Failure`, which has nothing of their texts."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or not isinstance(error, load().Error):
            return
        state = getattr(error, "sqlstate", None) or ""
        if self._connection.is_lost or state.startswith(("08", "57P0")):
            self._connection.close()
            raise Failure from None
        if not state:  # what the driver does not send
            rule = "holds a NUL character, which PostgreSQL does not store."
            raise Failure("22021", ParameterError("P107", "text", "...", rule)) from None
        raise Failure(state) from None


def _passes(failure: Failure) -> bool:
    """Whether what failed may be tried again: a lost connection, a server that is away, an order of locks."""
    away = not failure.state and (failure.told is None or failure.told.code == "B213")
    return away or failure.state in _BUSY


# ---- forks ----------------------------------------------------------------------------------------------------------
# A child has the parent's sockets: as long as it lives, the server would take the parent's sessions for alive.

_drivers: weakref.WeakSet[Any] = weakref.WeakSet()


def _after_in_child() -> None:
    with suppress(OSError):
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for driver in list(_drivers):
            with suppress(Exception):
                os.dup2(nothing, driver.fileno(), inheritable=False)
        os.close(nothing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)
