"""The file behind the log of statements: append, trim, find it again after whatever happened to it.

It is a SQLite file of its own, ``<ledger>.statements``: neither its size, nor damage to it, nor a write that fails ever
touches the ledger. What is appended is on the disk when :meth:`StatementFile.append` returns, under one fsync for all.

Bounds: at most ``MOST_ROWS`` entries with ``MOST_BYTES`` bytes (an entry counts as its text and ``ROW_BYTES``), in at
        most ``MOST_PAGES`` pages, and a journal of about ``MOST_JOURNAL`` bytes, beyond which nothing is written.
Shares: when it is full, whoever takes the most room loses their oldest entries, nobody else: of n analysts, one who
        takes no more than an n-th part of the log loses none, whatever the others do.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from duckdp.errors import LedgerError
from duckdp.ledger import anchor, chain, connections, files
from duckdp.ledger.addresses import is_address
from duckdp.ledger.connections import connect, translated
from duckdp.ledger.storage import Stored
from duckdp.resources import read_sql

SUFFIX = ".statements"
APPLICATION_ID = 0x64707374  # "dpst", in the header of the file
VERSION = 1  # of the log's schema
MOST_ROWS = 100_000  # entries that are kept
MOST_BYTES = 32 * 2**20  # of the entries that are kept
ROW_BYTES = 256  # counted for an entry beside its text
MOST_PAGES = 4 * MOST_BYTES // 4096  # SQLite leaves pages a third full at worst
MOST_JOURNAL = 32 * 2**20  # bytes of the write-ahead file
NOBODY = ""  # the chain of all who have no grant
COLUMNS = (
    "number",
    "at",
    "who",
    "kind",
    "text",
    "outcome",
    "charge",
)  # of an entry, in the order in which they are hashed

_BUSY_MILLISECONDS = 2000  # that SQLite waits for another process
_SPARE = 50  # of so many parts of the log one more is freed than must be, so that trimming is rare

Head = tuple[int, str]  # how many entries, and the hash of the last


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """An entry: who asked what, when, and what came of it.

    Attributes:
        at: UTC, whole seconds.
        who: the analyst, or the name that somebody without a grant gave.
        kind: "free", "refused", "failed" or "lost".
        text: what was asked, cut.
        outcome: "answered", "explained", "stored", or an error's code.
        charge: whose release was given again, or whose read failed.
    """

    at: str
    who: str
    kind: str
    text: str
    outcome: str
    charge: int | None = None


def path_of(ledger: str) -> str:
    """Where the log of a ledger lies; on a server, with it."""
    return ledger if is_address(ledger) else ledger + SUFFIX


def beginning(dataset_id: str, salt: bytes, analyst: str) -> str:
    """The hash before an analyst's first entry."""
    return chain.digest("duckdp statements", dataset_id, salt.hex(), analyst)


def unusable(path: str, found: str) -> LedgerError:
    """The error for a log that is something else, or damaged."""
    return LedgerError(
        "B202",
        f'the log of statements "{path}" {found}. The ledger is not concerned; duckdp ledger repair --statements '
        "begins a new log.",
        path=path,
    )


def identify(connection: sqlite3.Connection, path: str, dataset_id: str) -> None:
    """Is it a log of this data set that this version can read?

    Raises:
        LedgerError: B201, B202.
    """
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise unusable(path, "is not one")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise LedgerError("B201", f'the log of statements "{path}" has version {version}. Upgrade duckdp.', path=path)
    row = connection.execute("SELECT dataset FROM log").fetchone()
    if row is None or row[0] != dataset_id:
        raise unusable(path, "belongs to another data set")


def copy_log(ledger: str, target: str, dataset_id: str) -> None:
    """Copy the log of a ledger to where that of its copy is; none where there is none, or it is damaged.

    Raises:
        LedgerError: B202, B207, something else lies there; B207, the disk is full or failed.
    """
    path, copy = path_of(ledger), path_of(target)
    if not os.path.lexists(path):
        return
    draft = f"{copy}.new-{os.urandom(8).hex()}"
    with translated(copy):
        if os.path.lexists(copy):
            _require_own(copy, dataset_id)
        try:
            files.make(draft, copy)
            try:
                _copy_pages(path, draft, dataset_id)
            except (LedgerError, sqlite3.DatabaseError) as error:
                if _is_full(error):
                    raise
                return
            os.replace(draft, copy)
            anchor.sync_folder(copy)
        except OSError:
            raise LedgerError("B207", f'"{copy}" cannot be written.', path=copy) from None
        finally:
            files.discard(draft)


def _require_own(copy: str, dataset_id: str) -> None:
    """What lies where a copy is to be made is the remains of one that failed."""
    try:
        found = connect(copy)
        try:
            identify(found, copy, dataset_id)
        finally:
            found.close()
    except (LedgerError, sqlite3.Error):
        raise LedgerError("B207", f'"{copy}" exists and is not overwritten. Give a new file.', path=copy) from None


def _copy_pages(path: str, draft: str, dataset_id: str) -> None:
    source = connect(path)
    try:
        identify(source, path, dataset_id)
        target = connect(draft)
        try:
            source.backup(target)
        except BaseException:
            target.close()
            raise
        connections.close_whole(target)
    finally:
        source.close()


def _is_full(error: Exception) -> bool:
    """Whether writing failed, rather than what was to be read."""
    codes = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in codes


@dataclass
class _Chain:
    """The end of an analyst's chain while entries are added to it."""

    trimmed: int
    before: str
    count: int
    hash: str
    bytes: int
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Which part of the log it takes."""
        return max((self.count - self.trimmed) / MOST_ROWS, self.bytes / MOST_BYTES)


class StatementFile:
    """The log's file, open for writing; for one thread at a time.

    Args:
        path: of the log.
        dataset_id: whose it is.
        salt: of the data set.
    """

    def __init__(self, path: str, dataset_id: str, salt: bytes) -> None:
        self.path, self._dataset_id, self._salt = path, dataset_id, salt
        self._connection: sqlite3.Connection | None = None
        self._identity = (0, 0)

    def append(self, entries: Mapping[str, Sequence[Statement]]) -> dict[str, Head]:
        """Append to the chains of analysts, durably, all or nothing; the file is made if it is missing.

        Args:
            entries: by chain, oldest first.

        Returns:
            The heads of these chains now.

        Raises:
            LedgerError: B201, B202, B206, B207; nothing was added.
        """
        try:
            with translated(self.path):
                connection = self._open()
                self._bound_journal(connection)
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    heads = add(connection, self._dataset_id, self._salt, entries)
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
        except BaseException:
            self.close()  # connect anew next time: perhaps to another file
            raise
        return heads

    def close(self) -> None:
        """Close the connection; again is harmless."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connections.close(connection)

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and _identity(self.path) == self._identity:
            return self._connection
        self.close()
        if not os.path.lexists(self.path):
            self.make()
        connection = connect(self.path)
        try:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
            identify(connection, self.path, self._dataset_id)
            for pragma in (
                *("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "trusted_schema = OFF"),
                *("secure_delete = FAST", f"max_page_count = {MOST_PAGES}", f"journal_size_limit = {2**23}"),
            ):
                connection.execute(f"PRAGMA {pragma}").fetchall()
            self._identity = _identity(self.path)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def make(self) -> None:
        """Make an empty log: drafted under another name, as the ledger is."""
        files.refuse_network(self.path)
        draft = f"{self.path}.new-{os.urandom(8).hex()}"
        files.make(draft, self.path)
        try:
            connection = connect(draft)
            try:
                connection.executescript(read_sql("statements.sql"))
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
                connection.execute("INSERT INTO log VALUES (1, ?, ?, ?)", (self._dataset_id, MOST_ROWS, MOST_BYTES))
            except BaseException:
                connection.close()
                raise
            connections.close_whole(connection)
            files.publish(draft, self.path)
        finally:
            files.discard(draft)

    def _bound_journal(self, connection: sqlite3.Connection) -> None:
        """A journal that somebody's long read keeps from being emptied must not fill the disk."""
        size = self._journal_size()
        if size is None:  # about to be made: its name is to last as long as what is written to it
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
            anchor.sync_folder(self.path)
        elif size > MOST_JOURNAL:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            if (self._journal_size() or 0) > MOST_JOURNAL:
                raise LedgerError("B206", f'the log of statements "{self.path}" is being read.', path=self.path)

    def _journal_size(self) -> int | None:
        """Its bytes; None where there is none: whoever closes the file last removes it, at any time."""
        try:
            return os.path.getsize(self.path + "-wal")
        except FileNotFoundError:
            return None


def add(
    connection: Stored, dataset_id: str, salt: bytes, entries: Mapping[str, Sequence[Statement]]
) -> dict[str, Head]:
    """Append to chains, within the transaction that is open; returns their heads."""
    chains = {row["analyst"]: _Chain(*tuple(row)[1:]) for row in connection.execute("SELECT * FROM chain")}
    for analyst, added in entries.items():
        found = chains.get(analyst)
        if found is None:
            start = beginning(dataset_id, salt, analyst)
            chains[analyst] = found = _Chain(0, start, 0, start, 0)
            connection.execute("INSERT INTO chain VALUES (?, 0, ?, 0, ?, 0)", (analyst, start, start))
        _extend(found, analyst, added)
    changed = set(entries) | _make_room(connection, chains)
    for analyst in changed:
        found = chains[analyst]
        connection.executemany(
            "INSERT INTO statement (chain, number, at, who, kind, text, outcome, charge, hash) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [row for row in found.rows if row[1] > found.trimmed],
        )
        connection.execute(
            "UPDATE chain SET trimmed = ?, before = ?, count = ?, hash = ?, bytes = ? WHERE analyst = ?",
            (found.trimmed, found.before, found.count, found.hash, found.bytes, analyst),
        )
    return {analyst: (chains[analyst].count, chains[analyst].hash) for analyst in entries}


def size_of(text: str) -> int:
    """What an entry counts for, by its text."""
    return ROW_BYTES + len(text.encode())


def _extend(found: _Chain, analyst: str, added: Iterable[Statement]) -> None:
    for entry in added:
        found.count += 1
        values = (found.count, entry.at, entry.who, entry.kind, entry.text, entry.outcome, entry.charge)
        found.hash = chain.digest(found.hash, *values)
        found.bytes += size_of(entry.text)
        found.rows.append((analyst, *values, found.hash))


def _make_room(connection: Stored, chains: Mapping[str, _Chain]) -> set[str]:
    """Trim until the log is within its bounds; returns the chains that lost entries."""
    trimmed: set[str] = set()
    rows = sum(found.count - found.trimmed for found in chains.values()) - MOST_ROWS
    size = sum(found.bytes for found in chains.values()) - MOST_BYTES
    if rows <= 0 and size <= 0:
        return trimmed
    rows, size = rows + MOST_ROWS // _SPARE, size + MOST_BYTES // _SPARE
    while rows > 0 or size > 0:
        full = [name for name, found in chains.items() if found.trimmed < found.count]
        analyst = max(full, key=lambda name: chains[name].share)
        others = max((found.share for name, found in chains.items() if name != analyst), default=0.0)
        gone, freed = _trim(connection, analyst, chains[analyst], others, rows, size)
        rows, size = rows - gone, size - freed
        trimmed.add(analyst)
    return trimmed


def _trim(connection: Stored, analyst: str, found: _Chain, others: float, rows: int, size: int) -> tuple[int, int]:
    """Take the oldest entries of a chain, until enough is free or another chain is the larger one; at least one."""
    kept = connection.execute(
        "SELECT number, hash, text FROM statement WHERE chain = ? AND number > ? ORDER BY number",
        (analyst, found.trimmed),
    )
    fresh = ((row[1], row[8], row[5]) for row in found.rows if row[1] > found.trimmed)
    gone = freed = 0
    for source in (kept, fresh):
        for number, digest, text in source:
            found.trimmed, found.before = number, digest
            found.bytes -= size_of(text)
            gone, freed = gone + 1, freed + size_of(text)
            if (rows <= gone and size <= freed) or found.share < others:
                kept.close()
                connection.execute("DELETE FROM statement WHERE chain = ? AND number <= ?", (analyst, found.trimmed))
                return gone, freed
    connection.execute("DELETE FROM statement WHERE chain = ? AND number <= ?", (analyst, found.trimmed))
    return gone, freed


def _identity(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return found.st_dev, found.st_ino
