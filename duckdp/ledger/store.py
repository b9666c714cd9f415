"""One ledger, open in this process: writes go through one thread, reads through connections of their own.

Every write transaction first looks whether the anchor still fits, and moves it after the commit. Reads see one state of
the ledger each, and wait for nobody.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from duckdp.errors import DuckDPError, LedgerError
from duckdp.ledger import anchor, chain, connections, files, opening, served, served_schema, sessions, verification
from duckdp.ledger.addresses import is_address
from duckdp.ledger.anchor import Position
from duckdp.ledger.connections import Open, translated, unsound
from duckdp.ledger.places import Anchors, Place, Where, place_of, text_of
from duckdp.ledger.tx import Tx
from duckdp.ledger.verification import Tell, Verified
from duckdp.ledger.writer import Writer
from duckdp.process.ending import Ending
from duckdp.process.forks import Home, closed

IDLE = 8  # reading connections that are kept

T = TypeVar("T")


@dataclass
class _Place:
    """The file that was opened, and its anchors.

    Attributes:
        path: absolute.
        anchors: those in force, and what is known of them.
        file: device and inode, by which another one in its place is noticed.
        anchored: how many entries of the history the anchors know of, at least.
    """

    path: str
    anchors: Anchors
    file: tuple[int, int] = (0, 0)
    anchored: int = 0


class Store:
    """One ledger, open in this process; safe for many threads.

    Attributes:
        path: absolute, without symbolic links; or the address on a server.
    """

    def __init__(self, path: str, given: Place | None = None) -> None:
        self.path = path
        self.anchors = Anchors(path, given)
        self._place = _Place(path, self.anchors)
        self._home = Home()
        self._writer = Writer(path, partial(_commit, self._place), partial(opening.prepare, path=path))
        self._idle: deque[Open] = deque()
        self._seen = threading.local()
        self._ending = Ending(self._writer.close, partial(_end_all, self._idle), _use(path))
        weakref.finalize(self, _end_unclosed, self._ending, self._writer)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, create: bool, repair: str | None = None, where: Where | None = None
    ) -> Store:
        """Open, create or repair a ledger and check it from end to end.

        Args:
            path: of the ledger.
            create: make it if it does not exist.
            repair: the owner's reason to write a missing or damaged anchor anew.
            where: its anchor is, as far as the caller says; in a repair, where it is to be.

        Raises:
            LedgerError: B201 to B209; B213, B214 of a server.
        """
        name = files.resolve(path)
        files.refuse_network(name)
        given = place_of(name, where)
        if opening.wanted(name, create=create):
            first = opening.first_anchor(name, given)
            _require_nothing(name, first)
            opening.create(name, text_of([first]))
        store = cls(name, given)
        store.anchors.instead = given if repair is not None else None
        try:
            lost = store._writer.alone(lambda connection: _check(connection, store._place, repair))
            store._note_repair(given, repair, lost=lost)
            store.anchors.instead = None
        except BaseException:
            store.close()
            raise
        return store

    def _note_repair(self, instead: Place | None, reason: str | None, *, lost: bool) -> None:
        """Log that an anchor was repaired, and where it is from now on."""
        before = self.read(lambda tx: tx.dataset()["anchor"])
        now = before if reason is None or instead is None else text_of([instead])
        if lost or now != before:
            self.write(lambda tx: _repaired(tx, now, reason))

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
                connections.begin(connection, writing=False)
                return work(Tx(connection, held=connection.remembered()))
            finally:
                self._give_back(connection)

    @property
    def was_anchored(self) -> bool:
        """Whether the anchors are known to know of something that was written or given since it was opened."""
        return self._place.anchored > 0

    def glance(self, sql: str, *values: object) -> Any:
        """The first row of a query, or None, as it stands now: unchecked, and neither remembered nor anchored."""
        with translated(self.path):
            connection = self._take()
            try:
                return connection.execute(sql, values).fetchone()
            finally:
                self._give_back(connection)

    def give(self, work: Callable[[Tx], T]) -> T:
        """As :meth:`read`, of what may leave: the anchors know of all that was read, as they do of what is written.

        Else a release could be seen whose transaction failed, or is still at work, between its commit and its anchor.
        """
        value, head, behind = self.read(lambda tx: (work(tx), tx.head(), self._is_behind(tx)))
        if behind:
            self.write(lambda _: None)
        self._place.anchored = max(self._place.anchored, head.count)
        return value

    def _is_behind(self, tx: Tx) -> bool:
        """Whether an anchor may not know of the whole history; commands are not asked."""
        head = tx.head()
        if head.count <= self._place.anchored:
            return False
        known = [None if place.command else self.anchors.read(place) for place in self.anchors.places(tx)]
        return any(position is None or position.count < head.count for position in known)

    def recall(self, key: object, work: Callable[[Tx], T]) -> T:
        """As :meth:`read`, or what ``work`` gave under that key before, if nobody has written since.

        Args:
            key: says all that ``work`` depends on, but for the ledger.
            work: its value, which is shared, is never changed.
        """
        seen = getattr(self._seen, "found", None)
        if seen is not None and key in seen:
            return cast("T", seen[key])
        with translated(self.path):
            connection = self._take()
            try:
                found = connection.remembered()
                if key not in found:
                    connections.begin(connection, writing=False)
                    found = connection.remembered()  # of the state that is seen from here on
                    found[key] = work(Tx(connection, held=found))
                value: T = found[key]
                if seen is not None:
                    seen[key] = value
                return value
            finally:
                self._give_back(connection)

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """While it lasts, :meth:`recall` gives this thread again what it gave before, whoever writes meanwhile.

        For what is planned, which looks at one thing many times: where something is written, it is checked again.
        """
        before, self._seen.found = getattr(self._seen, "found", None), {}
        try:
            yield
        finally:
            self._seen.found = before

    def verify(self, tell: Tell) -> Verified:
        """Check all of it, as it stands now; others go on meanwhile.

        Raises:
            LedgerError: B202, with what was found; B207, it could not be read.
        """
        with translated(self.path):
            connection = self._take()
            try:
                connections.begin(connection, writing=False)
                found, checked = verification.verify(connection, tell)
            finally:
                self._give_back(connection)
        if verification.STRUCTURE in found and (unread := unsound(self.path)).code != "B202":  # of a file
            raise unread
        if found:
            raise chain.damaged(self.path, "; ".join(found))
        return checked

    def copy_to(self, target: sqlite3.Connection) -> None:
        """Copy the whole ledger, journal included, into another connection."""
        with translated(self.path):
            connection = self._take()
            try:
                if isinstance(connection, served.Connection):
                    connections.begin(connection, writing=False)
                    served_schema.copy_into(connection, target, opening.APPLICATION_ID)
                else:
                    connection.backup(target)
            finally:
                self._give_back(connection)

    def ask(self, work: Callable[[Tx], T]) -> T:
        """Work on the writer's thread, outside of any transaction: what asks and moves anchors."""
        return self._writer.alone(lambda connection: work(Tx(connection)))

    def close(self) -> None:
        """Write the journal back into the file and close; again is harmless, and so it is from several threads."""
        self._ending.make()

    def _take(self) -> Open:
        if self._home.left or self._writer.closed:
            self._home.require(f'the ledger "{self.path}"', self.path)
            raise closed(f'the ledger "{self.path}"', self.path)
        connection = None
        with suppress(IndexError):
            connection = self._idle.pop()
        if connection is None:
            return connections.attach_reading(self.path)
        try:
            connections.undo(connection)  # an interrupt fell into the end of a read
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: Open) -> None:
        whole = False
        if self._home.left:
            return
        try:
            connections.undo(connection)
            whole = len(self._idle) < IDLE
        finally:
            if whole:
                self._idle.append(connection)
            else:
                connection.close()
        if self._writer.closed:  # perhaps after the idle ones were closed
            _end_all(self._idle)


def _commit(place: _Place, connection: Open, body: Callable[[Tx], None]) -> None:
    """One durable, anchored transaction around ``body``; undone if anything fails before it is committed."""
    anchors = place.anchors
    anchors.ready(Tx(connection))
    try:
        try:
            connections.begin(connection, writing=True)
            tx = Tx(connection, held=connection.remembered())
            held = _require_newest(place, tx)
            before = tx.dataset()["events"]
            body(tx)
            tx.flush()
            head = tx.head()
            if head.count != before and (after := anchors.places(tx)) != held:
                held = tuple(dict.fromkeys((*held, *after)))
            connections.commit(connection, head)
        except BaseException:
            connection.found.clear()
            connections.undo(connection)
            raise
        if head.count != before or head.count > place.anchored:
            for each in held:
                anchors.advance(tx, each, head)
            place.anchored = max(place.anchored, head.count)
    finally:
        anchors.let_go()


def _require_newest(place: _Place, tx: Tx) -> tuple[Place, ...]:
    """Nobody put an older file under our name, or in the anchor's place, since the ledger was opened."""
    if not is_address(place.path) and files.identity(place.path) != place.file:
        raise anchor.rolled_back(place.path, "the ledger was replaced while it was open")
    held = place.anchors.places(tx)
    place.anchors.require_newest(tx, held)
    return held


def _require_nothing(path: str, place: Place) -> None:
    """There is no ledger yet, and no anchor knows of one.

    Raises:
        LedgerError: B203, B204, B209.
    """
    known = Anchors(path).read(place)
    if known is not None:
        raise anchor.rolled_back(path, f"the ledger is missing, its anchor knows of {known.count} entries,")
    if place.file and os.path.lexists(place.file):
        raise anchor.rolled_back(path, "the ledger is missing, its anchor was emptied,")
    if place.file and not os.path.isdir(os.path.dirname(place.file)):
        raise anchor.damaged(path, place.file)  # its disk is not there


def _repaired(tx: Tx, anchors: str | None, reason: str | None) -> None:
    tx.change_dataset(anchor=anchors)
    chain.append(tx, "repair_anchor", detail={"anchor": anchors}, reason=reason)


def _check(connection: Open, place: _Place, repair: str | None) -> bool:
    """Check a ledger that is being opened, and bring its anchors up; returns whether one was repaired."""
    path, anchors = place.path, place.anchors
    opening.migrate(connection, path)
    while True:
        # Anchors are read before the ledger: they never run ahead of what is committed by then.
        held = anchors.places(Tx(connection), opening=True)
        found = [(each, *_read_anchor(anchors, each, forgiving=repair is not None)) for each in held]
        try:
            connections.begin(connection, writing=False)
            tx = Tx(connection)
            opening.check(tx)
            head, same = tx.head(), anchors.places(tx, opening=True) == held
            for each, known, _ in found if same else ():
                if known is not None:
                    anchors.require(tx, each, known)
        finally:
            connections.undo(connection)
        if same:
            break
    place.file = (0, 0) if is_address(path) else files.identity(path)
    repaired = [_bring_up(anchors, tx, head, *each, repair=repair is not None) for each in found]
    return any(repaired)


def _bring_up(
    anchors: Anchors, tx: Tx, head: Position, place: Place, known: Position | None, lost: bool, *, repair: bool
) -> bool:
    """An anchor after the check of its ledger: at its head, made for a new ledger, or repaired; whether it was."""
    if known is not None and not lost:
        if known.count < head.count:  # a crash between commit and anchor
            anchors.advance(tx, place, head)
        return False
    new = head.count <= 1 and not lost  # the ledger was just made: nothing can have been lost
    if not new and not repair:
        raise anchors.missing(place)
    anchors.advance(tx, place, head, create=True, replace=not new)
    return repair


def _read_anchor(anchors: Anchors, place: Place, *, forgiving: bool) -> tuple[Position | None, bool]:
    try:
        return anchors.read(place), False
    except LedgerError as error:
        if not forgiving or error.code != "B204":
            raise
        return None, True


def _end_all(idle: deque[Open]) -> None:
    with suppress(IndexError):
        while True:
            idle.pop().close()


def _end_unclosed(ending: Ending, writer: Writer) -> None:
    """Nobody closed it: Python collects it, on whatever thread, or leaves."""
    with suppress(DuckDPError):
        ending.make(wait=not writer.is_mine)


def _use(path: str) -> Callable[[], None]:
    """Note that a ledger is open; returns what notes its end."""
    if not is_address(path):
        return lambda: None
    sessions.opened(path)
    return partial(sessions.closed, path)
