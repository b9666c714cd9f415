"""Connections to the ledger, and errors that say nothing of SQLite's or the server's.

Of a file: WAL with ``synchronous=FULL``: a commit is on the disk when it returns, and other processes read meanwhile.
Of a server: see ``served.py``.
"""

from __future__ import annotations

import _thread
import os
import sqlite3
import time
import urllib.parse
import weakref
from contextlib import closing, suppress
from typing import Any

from duckdp.errors import DuckDPError, InternalError, LedgerError
from duckdp.ledger import anchor, chain, served, served_errors
from duckdp.ledger.addresses import is_address
from duckdp.ledger.anchor import Position
from duckdp.ledger.seals import Damage
from duckdp.ledger.storage import Failure, Served
from duckdp.process import forks

BUSY_SECONDS = 30.0  # that SQLite waits for another process
# What a statement may fail with; of a damaged file SQLite says in texts that are none.
FAILURES = (sqlite3.Error, MemoryError, UnicodeDecodeError, Failure)
_TRANSLATED = (*FAILURES, Damage, OSError)
MOST_FOUND = 1000

# What is entered is proved to be new, and what it refers to was read: then an index says otherwise.
_CONTRADICTIONS = frozenset(
    {
        sqlite3.SQLITE_CONSTRAINT_UNIQUE,
        sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
        sqlite3.SQLITE_CONSTRAINT_ROWID,
        sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY,
    }
)

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA foreign_keys = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
)


_READING = ("PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON", "PRAGMA query_only = ON")


class Connection(sqlite3.Connection):
    """A connection that remembers what it found, for as long as nobody writes.

    Attributes:
        version: SQLite's data_version when it last looked; it changes with every commit of any other connection.
        found: by key, while the version stands.
        file: device and inode.
        path: of the file; None where nobody said.
    """

    version = -1
    file = (0, 0)
    path: str | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.found: dict[object, Any] = {}

    def remembered(self) -> dict[object, Any]:
        """What was found since the last commit of anybody; a look at a counter in shared memory."""
        version = self.execute("PRAGMA data_version").fetchone()[0]
        if version != self.version or len(self.found) >= MOST_FOUND:
            self.found = {}
            self.version = version
        return self.found


Open = Connection | served.Connection


def attach(path: str) -> Open:
    """Connect to a ledger, on the disk or on a server.

    Raises:
        LedgerError: B212. Failure: B213, B214.
    """
    return served.Connection(path) if is_address(path) else connect(path)


def attach_reading(path: str) -> Open:
    """Connect to a ledger that is read only."""
    connection = attach(path)
    if not isinstance(connection, Served):
        for pragma in _READING:
            connection.execute(pragma)
    return connection


def begin(connection: Open, *, writing: bool) -> None:
    """Begin a transaction: a view of one state of the ledger, or one that excludes all others that write."""
    if isinstance(connection, Served):
        connection.begin(writing=writing)
    else:
        connection.execute("BEGIN IMMEDIATE" if writing else "BEGIN")


def commit(connection: Open, head: Position) -> None:
    """Commit durably; ``head`` is the end of the chain then."""
    if isinstance(connection, Served):
        connection.commit(head)
    else:
        connection.execute("COMMIT")


def undo(connection: Open) -> None:
    """End a transaction, if there is one."""
    if isinstance(connection, Served):
        connection.undo()
    elif connection.in_transaction:
        connection.execute("ROLLBACK")


def connect(path: str) -> Connection:
    """Connect to an existing file without changing it.

    Raises:
        LedgerError: B212, the file was open when this process was forked.
    """
    if _inherited and _identity(path) in _inherited:
        raise forks.forked(f'the ledger "{path}"', path)
    name = urllib.parse.quote(path)
    _coming.append(path)
    try:
        connection = sqlite3.connect(
            f"file:{name}?mode=rw",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        connection.file, connection.path = _identity(path), path
        _opened.add(forks.keep(connection))
    finally:
        _coming.remove(path)
    connection.row_factory = sqlite3.Row
    return connection


def set_pragmas(connection: sqlite3.Connection) -> None:
    """What a connection needs before it may write."""
    for pragma in _PRAGMAS:
        connection.execute(pragma).fetchall()


def close(connection: sqlite3.Connection | Served) -> None:
    """Bring the journal into the file, so that even a plain copy is whole, and close.

    Others may use the ledger, or it is damaged, or the disk is full: then whoever closes last, or opens next, does it.
    """
    if isinstance(connection, Served):
        connection.close()
        return
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except FAILURES:
        pass
    finally:
        connection.close()


def close_whole(connection: sqlite3.Connection) -> None:
    """Close a file that nobody else knows yet; everything in it is on the disk, and no journal is left beside it.

    Raises:
        sqlite3.Error: the disk is full or failed; the file is not whole.
    """
    try:
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
        if busy or mode != "delete":
            raise sqlite3.OperationalError("the journal was not brought into the file")
    finally:
        connection.close()


class translated:
    """Turns SQLite's errors and the system's into ours; their texts may quote what the ledger holds. A fork waits."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        _enter()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        _leave()
        if isinstance(error, Failure):
            error.__context__ = None  # the driver's, whose text may quote what the ledger holds
        if isinstance(error, _TRANSLATED):
            raise _told(error, self._path) from None  # no name here holds it: it would hold its own frame for ever


def _told(error: BaseException, path: str) -> DuckDPError:
    """What is told of an error."""
    if isinstance(error, Failure):
        return served_errors.told(error, path)
    if isinstance(error, sqlite3.Error):
        return _translate(error, path)
    if isinstance(error, UnicodeDecodeError):
        return chain.damaged(path, "it holds text that cannot be read")
    if isinstance(error, Damage):
        return chain.damaged(path, error.found)
    return no_memory(path) if isinstance(error, MemoryError) else unusable(path)


def _translate(error: sqlite3.Error, path: str) -> LedgerError | InternalError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LedgerError("B206", f'the ledger "{path}" is in use by another process. Try again.', path=path)
    if getattr(error, "sqlite_errorcode", 0) in _CONTRADICTIONS:
        return chain.damaged(path, "its tables contradict each other")
    if code == sqlite3.SQLITE_CONSTRAINT:
        return InternalError(f'the ledger "{path}" refused an inconsistent entry; nothing was written.')
    if code == sqlite3.SQLITE_NOTADB and not os.path.exists(path + anchor.SUFFIX):
        return not_a_ledger(path)
    broken = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH)
    if code == sqlite3.SQLITE_CORRUPT:
        return unsound(path)
    if code in broken or "decode to UTF-8" in str(error):
        return chain.damaged(path, "its structure is broken")
    if code == sqlite3.SQLITE_FULL:
        return LedgerError(
            "B207", f'the ledger "{path}" cannot be written: the disk is full. Free some space.', path=path
        )
    return unusable(path)


def unsound(path: str) -> LedgerError:
    """The error for a file that SQLite calls corrupt, as it does a page that the disk did not give.

    A second look, by a connection of its own, tells the one from the other.
    """
    try:
        with closing(connect(path)) as connection:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check(1)")]
    except (sqlite3.DatabaseError, MemoryError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
            return unusable(path)
        found = []
    return chain.damaged(path, "its structure is broken") if found != ["ok"] and _is_readable(path) else unusable(path)


def _is_readable(path: str) -> bool:
    """Whether the disk gives all bytes of the file and its journal."""
    try:
        for name in (path, path + "-wal"):
            with suppress(FileNotFoundError), open(name, "rb") as file:
                while file.read(1 << 20):
                    pass
    except OSError:
        return False
    return True


def unusable(path: str) -> LedgerError:
    """The error for a file that the system does not let us use, which says nothing of what it holds."""
    return LedgerError(
        "B207", f'the ledger "{path}" cannot be read or written. Check its permissions and the disk.', path=path
    )


def no_memory(path: str) -> LedgerError:
    """The error for want of memory."""
    return LedgerError(
        "B207", f'the ledger "{path}" cannot be used: there is no memory left. Try again with more of it.', path=path
    )


def not_a_ledger(path: str) -> LedgerError:
    """The error for a file that is something else."""
    return LedgerError("B207", f'"{path}" is not a ledger. Give the path of a ledger, or of a new file.', path=path)


# ---- forks ----------------------------------------------------------------------------------------------------------
# A fork waits until no thread is within SQLite, whose own locks would stay locked in the child. What is open then is
# known to SQLite in the child too, with locks on the file that only the parent has: such a file is refused there.

_FORK_SECONDS = 5.0  # that a fork waits for a transaction that is under way
_opened: weakref.WeakSet[Connection] = weakref.WeakSet()
_coming: list[str] = []  # paths of connections that are being made
_inherited: set[tuple[int, int]] = set()
_inside: dict[int, int] = {}  # threads within SQLite, and how deep
_forking: list[int] = []  # the thread that forks


def _identity(path: str) -> tuple[int, int]:
    """Device and inode; (0, 0) of a file that is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _enter() -> None:
    me = _thread.get_ident()
    _inside[me] = _inside.get(me, 0) + 1
    while _forking and _inside[me] == 1 and _forking[0] != me:
        del _inside[me]
        time.sleep(0.0005)
        _inside[me] = 1


def _leave() -> None:
    me = _thread.get_ident()
    depth = _inside.get(me, 1) - 1
    if depth:
        _inside[me] = depth
    else:
        _inside.pop(me, None)


def _before_fork() -> None:
    _forking.append(_thread.get_ident())
    end = time.monotonic() + _FORK_SECONDS
    while _inside.keys() - set(_forking) and time.monotonic() < end:
        time.sleep(0.0005)


def _after_in_parent() -> None:
    with suppress(ValueError):
        _forking.remove(_thread.get_ident())


def _after_in_child() -> None:
    for connection in list(_opened):
        try:
            connection.total_changes  # noqa: B018 - fails where it was closed
        except sqlite3.Error:
            continue
        _inherited.add(connection.file)
    _inherited.update(_identity(path) for path in _coming)
    _coming.clear()
    _inside.clear()
    _forking.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
