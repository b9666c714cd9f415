"""SQLite under the ledger: opening, transactions, and errors that say nothing of SQLite's.

WAL with ``synchronous=FULL``: a commit is on the disk when it returns, other processes read meanwhile, and
``BEGIN IMMEDIATE`` lets one writer in at a time. Every write transaction first looks whether the anchor still fits, and
moves it after the commit.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import urllib.parse
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from duckdp.errors import InternalError, LedgerError
from duckdp.ledger import anchor, chain, files
from duckdp.ledger.anchor import Position
from duckdp.ledger.tx import Tx
from duckdp.resources import read_sql

APPLICATION_ID = 0x64706C67  # "dplg", in the header of the file
SCHEMAS = (
    "ledger.sql",
    "ledger_2.sql",
    "ledger_3.sql",
)  # script i leads from version i to version i + 1; published scripts never change
BUSY_SECONDS = 30.0

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA foreign_keys = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
)

_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_abandoned: list[sqlite3.Connection | None] = []


class Store:
    """One ledger file, open in this process; safe for many threads.

    Attributes:
        path: absolute, without symbolic links.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._file = (0, 0)
        _stores.add(self)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, create: bool, repair: str | None = None) -> Store:
        """Open, create or repair a ledger and check it from end to end.

        Args:
            path: of the ledger.
            create: make it if it does not exist.
            repair: the owner's reason to write a missing or damaged anchor anew.

        Raises:
            LedgerError: B201 to B207.
        """
        name = files.resolve(path)
        files.refuse_network(name)
        if files.wanted(name, create=create):
            _create(name)
        store = cls(name)
        try:
            store._check(repair)
        except BaseException:
            store.close()
            raise
        return store

    @contextmanager
    def write(self) -> Iterator[Tx]:
        """A transaction that excludes all other writers; committed durably and anchored at the end, or undone."""
        with self._lock, translated(self.path):
            connection = self._connect()
            connection.execute("BEGIN IMMEDIATE")
            try:
                tx = Tx(connection)
                self._require_newest(tx)
                before = tx.head()
                yield tx
                head = tx.head()
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            if head != before:
                anchor.advance(self.path, head)

    @contextmanager
    def read(self) -> Iterator[Tx]:
        """A consistent view of the ledger; writers go on meanwhile."""
        with self._lock, translated(self.path), _snapshot(self._connect()) as tx:
            yield tx

    def copy_to(self, target: sqlite3.Connection) -> None:
        """Copy the whole ledger, journal included, into another connection."""
        with self._lock, translated(self.path):
            self._connect().backup(target)

    def close(self) -> None:
        """Write the journal back into the file and close; again is harmless."""
        with self._lock:
            connection, self._connection, self._closed = self._connection, None, True
            if connection is not None:
                close(connection)

    def forget(self) -> None:
        """After a fork, in the child: neither use nor close what belongs to the parent."""
        _abandoned.append(self._connection)
        self._connection = None
        self._lock = threading.RLock()

    def _connect(self) -> sqlite3.Connection:
        if self._closed:
            raise LedgerError("B207", f'the ledger "{self.path}" is closed. Open it again.', path=self.path)
        if self._connection is None:
            self._connection = connect(self.path)
            if self._file != (0, 0):  # opened before; the pragmas are the connection's own
                _set_pragmas(self._connection)
        return self._connection

    def _require_newest(self, tx: Tx) -> None:
        """Nobody put an older file under our name, or in the anchor's place, since the ledger was opened."""
        if files.identity(self.path) != self._file:
            raise anchor.rolled_back(self.path, "the ledger was replaced while it was open")
        known = anchor.read(self.path)
        if known is None:
            raise anchor.damaged(self.path)
        _require_contained(self.path, tx, known)

    def _check(self, repair: str | None) -> None:
        with self._lock, translated(self.path):
            # The anchor is read before the ledger: it never runs ahead of what is committed by then.
            known, lost = _read_anchor(self.path, forgiving=repair is not None)
            connection = self._connect()
            _identify(connection, self.path, anchored=known is not None)
            _set_pragmas(connection)
            _migrate(connection)
            with _snapshot(connection) as tx:
                _check_schema(tx, self.path)
                chain.verify(tx, self.path)
                head = tx.head()
                if known is not None:
                    _require_contained(self.path, tx, known)
            self._file = files.identity(self.path)
            self._anchor(known, head, lost=lost, repair=repair)
        if repair is not None and (lost or known is None):
            with self.write() as tx:
                chain.append(tx, "repair_anchor", reason=repair)

    def _anchor(self, known: Position | None, head: Position, *, lost: bool, repair: str | None) -> None:
        if lost or known is None:
            new = head.count <= 1 and not lost  # the ledger was just made: nothing can have been lost
            if not new and repair is None:
                raise anchor.damaged(self.path)
            anchor.advance(self.path, head, create=new, replace=not new)
        elif known.count < head.count:  # a crash between commit and anchor
            anchor.advance(self.path, head)


def connect(path: str) -> sqlite3.Connection:
    """Connect to an existing file without changing it."""
    name = urllib.parse.quote(path)
    connection = sqlite3.connect(
        f"file:{name}?mode=rw", uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    return connection


def close(connection: sqlite3.Connection) -> None:
    """Bring the journal into the file, so that even a plain copy is whole, and close."""
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error:
        pass  # others use the ledger, or it is damaged: whoever closes last, or opens next, does it
    finally:
        connection.close()


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn SQLite's errors into ours; its texts may quote what the ledger holds."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error, path) from None


def _translate(error: sqlite3.Error, path: str) -> LedgerError | InternalError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LedgerError("B206", f'the ledger "{path}" is in use by another process. Try again.', path=path)
    if code == sqlite3.SQLITE_CONSTRAINT:
        return InternalError(f'the ledger "{path}" refused an inconsistent entry; nothing was written.')
    if code == sqlite3.SQLITE_NOTADB and not os.path.exists(path + anchor.SUFFIX):
        return not_a_ledger(path)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH):
        return chain.damaged(path, "its structure is broken")
    return LedgerError(
        "B207", f'the ledger "{path}" cannot be read or written. Check its permissions and the disk.', path=path
    )


def not_a_ledger(path: str) -> LedgerError:
    """The error for a file that is something else."""
    return LedgerError("B207", f'"{path}" is not a ledger. Give the path of a ledger, or of a new file.', path=path)


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[Tx]:
    connection.execute("BEGIN")
    try:
        yield Tx(connection)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _read_anchor(path: str, *, forgiving: bool) -> tuple[Position | None, bool]:
    try:
        return anchor.read(path), False
    except LedgerError:
        if not forgiving:
            raise
        return None, True


def _require_contained(path: str, tx: Tx, known: Position) -> None:
    """The anchor's position must be on the ledger's chain."""
    if known.dataset_id != tx.dataset_id():
        raise anchor.rolled_back(path, "the ledger belongs to another data set than its anchor")
    row = tx.one("SELECT hash FROM event WHERE seq = ?", known.count)
    if row is None:
        raise anchor.rolled_back(
            path, f"the ledger holds {tx.head().count} entries where its anchor knows of {known.count}"
        )
    if row["hash"] != known.digest:
        raise anchor.rolled_back(path, "the ledger has another history than its anchor")


def _identify(connection: sqlite3.Connection, path: str, *, anchored: bool) -> None:
    """Is it a ledger that this version can read? Until that is known, nothing is written."""
    if anchored and not os.path.getsize(path):
        raise anchor.rolled_back(path, "the ledger is empty")
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise chain.damaged(path, "its first page is lost") if anchored else not_a_ledger(path)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(SCHEMAS):
        raise LedgerError(
            "B201",
            f'the ledger "{path}" has version {version}, this duckdp reads up to {len(SCHEMAS)}. Upgrade duckdp.',
            path=path,
        )


def _set_pragmas(connection: sqlite3.Connection) -> None:
    for pragma in _PRAGMAS:
        connection.execute(pragma).fetchall()


def _create(path: str) -> None:
    """Make a new data set: drafted under another name, so that a ledger is whole from the moment it has its own."""
    draft = f"{path}.new-{os.urandom(8).hex()}"
    files.make(draft)
    with translated(path):
        connection = connect(draft)
        try:
            _set_pragmas(connection)
            with _immediate(connection) as tx:
                _run_scripts(connection, 0)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                tx.run("INSERT INTO dataset (one, id, salt) VALUES (1, ?, ?)", os.urandom(16).hex(), os.urandom(16))
                chain.append(tx, "create")
        finally:
            close(connection)
    files.publish(draft, path)


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring an older ledger to the present version, all steps or none."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == len(SCHEMAS):
        return
    with _immediate(connection):
        _run_scripts(connection, connection.execute("PRAGMA user_version").fetchone()[0])


@contextmanager
def _immediate(connection: sqlite3.Connection) -> Iterator[Tx]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield Tx(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _run_scripts(connection: sqlite3.Connection, version: int) -> None:
    for name in SCHEMAS[version:]:
        for statement in _statements(read_sql(name)):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(SCHEMAS)}")


def _statements(script: str) -> Iterator[str]:
    """Split a script: ``executescript`` would commit the transaction it runs in."""
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""


def _check_schema(tx: Tx, path: str) -> None:
    """The file is sound and its tables, constraints and triggers are those of our scripts, no more and no less."""
    if tx.rows("PRAGMA quick_check(1)")[0][0] != "ok":
        raise chain.damaged(path, "its structure is broken")
    model = sqlite3.connect(":memory:", isolation_level=None)
    try:
        _run_scripts(model, 0)
        expected = _schema(Tx(model))
    finally:
        model.close()
    if _schema(tx) != expected:
        raise chain.damaged(path, "its tables were altered")


def _schema(tx: Tx) -> list[tuple[str, ...]]:
    rows = tx.rows("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema ORDER BY type, name")
    return [(*row[:3], " ".join(re.sub(r"--[^\n]*", " ", row[3]).split())) for row in rows]


def _forget_all() -> None:
    for store in list(_stores):
        store.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
