"""One ledger file, open in this process: writes go through one thread, reads through connections of their own.

Every write transaction first looks whether the anchor still fits, and moves it after the commit. Reads see one state of
the ledger each, and wait for nobody.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from duckdp.errors import LedgerError
from duckdp.ledger import anchor, chain, files, opening
from duckdp.ledger.anchor import Position
from duckdp.ledger.connections import connect, set_pragmas, translated
from duckdp.ledger.tx import Tx
from duckdp.ledger.writer import Writer

IDLE = 8  # reading connections that are kept

_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_abandoned: list[Any] = []
T = TypeVar("T")


@dataclass
class _Place:
    """The file that was opened: its path, and device and inode, by which another one in its place is noticed."""

    path: str
    file: tuple[int, int] = (0, 0)


class Store:
    """One ledger file, open in this process; safe for many threads.

    Attributes:
        path: absolute, without symbolic links.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._place = _Place(path)
        self._closed = False
        self._begin()
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
            opening.create(name)
        store = cls(name)
        try:
            lost = store._writer.alone(lambda connection: _check(connection, store._place, repair))
            if lost:
                store.write(lambda tx: chain.append(tx, "repair_anchor", reason=repair))
        except BaseException:
            store.close()
            raise
        return store

    def write(self, work: Callable[[Tx], T]) -> T:
        """A transaction that excludes all other writers; committed durably and anchored when this returns, or undone.

        An interrupt ends the waiting, never the transaction: then whether it was made is for the ledger to say.
        """
        return self._writer.transact(work)

    def read(self, work: Callable[[Tx], T]) -> T:
        """A consistent view of the ledger; writers go on meanwhile."""
        with translated(self.path):
            connection = self._take()
            try:
                connection.execute("BEGIN")
                return work(Tx(connection))
            finally:
                self._give_back(connection)

    def copy_to(self, target: sqlite3.Connection) -> None:
        """Copy the whole ledger, journal included, into another connection."""
        with translated(self.path):
            connection = self._take()
            try:
                connection.backup(target)
            finally:
                self._give_back(connection)

    def close(self) -> None:
        """Write the journal back into the file and close; again is harmless."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()
        self._writer.close()

    def forget(self) -> None:
        """After a fork, in the child: neither use nor close what belongs to the parent."""
        self._end.detach()
        _abandoned.extend((self._writer, self._idle))
        self._begin()

    def _begin(self) -> None:
        self._writer = Writer(self.path, partial(_commit, self._place))
        self._idle: deque[sqlite3.Connection] = deque()
        self._end = weakref.finalize(self, Writer.close, self._writer)

    def _take(self) -> sqlite3.Connection:
        if self._closed:
            raise LedgerError("B207", f'the ledger "{self.path}" is closed. Open it again.', path=self.path)
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self.path)
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
                connection.execute(f"PRAGMA {pragma}")
        if connection.in_transaction:  # an interrupt fell into the end of a read
            connection.execute("ROLLBACK")
        return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if self._closed or len(self._idle) >= IDLE:
            connection.close()
        else:
            self._idle.append(connection)


def _commit(place: _Place, connection: sqlite3.Connection, body: Callable[[Tx], None]) -> None:
    """One durable, anchored transaction around ``body``; undone if anything fails before it is committed."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        tx = Tx(connection)
        _require_newest(place, tx)
        before = tx.head()
        body(tx)
        head = tx.head()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if head != before:
        anchor.advance(place.path, head)


def _require_newest(place: _Place, tx: Tx) -> None:
    """Nobody put an older file under our name, or in the anchor's place, since the ledger was opened."""
    if files.identity(place.path) != place.file:
        raise anchor.rolled_back(place.path, "the ledger was replaced while it was open")
    known = anchor.read(place.path)
    if known is None:
        raise anchor.damaged(place.path)
    _require_contained(place.path, tx, known)


def _check(connection: sqlite3.Connection, place: _Place, repair: str | None) -> bool:
    """Check a ledger that is being opened, and bring its anchor up; returns whether the anchor was repaired."""
    path = place.path
    # The anchor is read before the ledger: it never runs ahead of what is committed by then.
    known, lost = _read_anchor(path, forgiving=repair is not None)
    opening.identify(connection, path, anchored=known is not None)
    set_pragmas(connection)
    opening.migrate(connection)
    try:
        connection.execute("BEGIN")
        tx = Tx(connection)
        opening.check(tx, path)
        head = tx.head()
        if known is not None:
            _require_contained(path, tx, known)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    place.file = files.identity(path)
    if known is not None and not lost:
        if known.count < head.count:  # a crash between commit and anchor
            anchor.advance(path, head)
        return False
    new = head.count <= 1 and not lost  # the ledger was just made: nothing can have been lost
    if not new and repair is None:
        raise anchor.damaged(path)
    anchor.advance(path, head, create=new, replace=not new)
    return repair is not None


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


def _forget_all() -> None:
    for store in list(_stores):
        store.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
