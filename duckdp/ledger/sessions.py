"""Who is working on a charge of a ledger on a server: locks that the server holds for a session, and ends with it.

As ``locks`` does by the system's kernel for a file, so that any curator, on any machine, sees without waiting whether
the holder of a charge is at work. A process has one session for the locks of a ledger, whatever it has open of it; its
lock of a charge is an advisory lock under a digest of the data set, the charge's number and the process's token, which
stands in the holder's name: so nobody else's lock is ever in the way. It ends with the work, with the session, and so
with the process, however that ends.

A session that is lost takes its locks with it, though the work may go on: then another curator may take over the
charge, which costs an attempt and never a second release. The keeper connects anew, and takes again what nobody took.

Everything is done on a thread of its own: an end of work may be told at any moment, within any call of the driver.
"""

from __future__ import annotations

import _thread
import hashlib
import os
import queue
import secrets
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from duckdp.errors import LedgerError
from duckdp.ledger import chain, served
from duckdp.ledger.served_errors import lost, told
from duckdp.ledger.storage import Failure

LOOK_SECONDS = 5.0  # between two looks whether the session is there, while anything is held
_WAIT_SECONDS = 60.0  # that who asks waits for the thread

_TAKEN = (
    "SELECT EXISTS (SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE l.locktype = 'advisory' "
    "AND d.datname = current_database() AND l.objsubid = 1 AND l.granted "
    "AND l.classid::bigint = ? AND l.objid::bigint = ?)"
)

_ALONE = "/* in this session */ "  # no look, which a lost connection would try again in another one

_keepers: dict[str, Keeper] = {}
_uses: Counter[str] = Counter()
_guard = threading.Lock()
_token: list[str] = []


def token() -> str:
    """A random name of this process: machines and containers may share what else names one."""
    if not _token:
        _token.append(secrets.token_hex(8))
    return _token[0]


class Lock:
    """The lock of one charge, until :meth:`free`."""

    __slots__ = ("_freed", "_keeper", "_key")

    def __init__(self, keeper: Keeper, key: int) -> None:
        self._keeper, self._key = keeper, key
        self._freed = [None]  # popped once

    def free(self) -> None:
        """Give it up; again is harmless, also at once from several threads."""
        with suppress(IndexError):
            self._freed.pop()
            self._keeper.free(self._key)

    def __del__(self) -> None:
        self.free()


class Keeper:
    """The session for the locks of one ledger.

    Args:
        path: its address.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._asked: queue.SimpleQueue[tuple[str, int, str, queue.SimpleQueue[Any] | None]] = queue.SimpleQueue()
        self._serving = _thread.allocate_lock()
        self._held: Counter[int] = Counter()
        self._connection: served.Connection | None = None
        self._dataset = ""
        self._over = False  # its end was told, and heard

    def take(self, charge_id: int) -> Lock:
        """Take this process's lock of a charge.

        Raises:
            LedgerError: B213, B214.
        """
        return Lock(self, self._ask("take", charge_id, token()))

    def is_taken(self, charge_id: int, whose: str) -> bool:
        """Whether the session of that process holds its lock of a charge.

        Raises:
            LedgerError: B213, B214.
        """
        return bool(self._ask("look", charge_id, whose))

    def free(self, key: int) -> None:
        """Give up a lock; never waits."""
        self._asked.put(("free", key, "", None))

    def end(self) -> None:
        """End the session, and all its locks."""
        self._asked.put(("end", 0, "", None))
        if not self._over:  # else another thread would begin, which nobody ends
            self._ensure()

    def _ask(self, what: str, charge_id: int, whose: str) -> Any:
        answer: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._asked.put((what, charge_id, whose, answer))
        self._ensure()
        try:
            found = answer.get(timeout=_WAIT_SECONDS)
        except queue.Empty:
            raise lost(self.path) from None
        if isinstance(found, BaseException):
            raise found
        return found

    def _ensure(self) -> None:
        if not self._serving.locked():
            with suppress(RuntimeError):
                _thread.start_new_thread(self._serve, ())

    # ---- on the thread -----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        if not self._serving.acquire(blocking=False):
            return
        try:
            while True:
                try:
                    what, number, whose, answer = self._asked.get(timeout=LOOK_SECONDS if self._held else None)
                except queue.Empty:
                    with suppress(Failure):
                        self._run("SELECT 1")
                    continue
                if what == "end":
                    self._over = True  # before the lock is free
                    return
                try:
                    found = self._do(what, number, whose)
                except Failure as failure:
                    found = told(failure, self.path)
                except Exception as error:  # noqa: BLE001 - it belongs to who asked
                    found = error
                if answer is not None:
                    answer.put(found)
        finally:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._held.clear()
            self._serving.release()

    def _do(self, what: str, number: int, whose: str) -> Any:
        if what == "free":
            self._held[number] -= 1
            if self._held[number] <= 0:
                del self._held[number]
            if self._connection is not None and not self._connection.is_lost:
                self._connection.execute(_ALONE + "SELECT pg_advisory_unlock(?::bigint)", (number,))
            return None
        if self._connection is None:
            self._begin()
        key = _key(self._dataset, number, whose)
        if what == "look":
            high, low = divmod(key % 2**64, 2**32)
            return bool(self._run(_TAKEN, high, low))
        self._run("SELECT pg_try_advisory_lock(?::bigint)", key)
        self._held[key] += 1
        return key

    def _run(self, sql: str, *values: object) -> Any:
        """The one value of a query; where the session was lost, in a new one, which has taken again what it can."""
        if self._connection is None or self._connection.is_lost:
            self._begin()
        assert self._connection is not None
        try:
            return self._connection.execute(_ALONE + sql, values).fetchone()[0]
        except Failure as failure:
            if failure.state:
                raise
        self._begin()
        return self._connection.execute(_ALONE + sql, values).fetchone()[0]

    def _begin(self) -> None:
        old, self._connection = self._connection, None
        if old is not None:
            old.close()
        end = time.monotonic() + served.AWAY_SECONDS
        while True:
            try:
                made = served.Connection(self.path)
                break
            except Failure as failure:
                if not isinstance(failure.told, LedgerError) or failure.told.code != "B213" or time.monotonic() > end:
                    raise
                time.sleep(0.1)
        row = made.execute("SELECT id FROM dataset").fetchone()
        if row is None:
            made.close()
            raise Failure("", chain.damaged(self.path, "it has no data set"))
        self._dataset, self._connection = str(row[0]), made
        for key, times in self._held.items():
            for _ in range(times):
                made.execute(_ALONE + "SELECT pg_try_advisory_lock(?::bigint)", (key,))


def opened(path: str) -> None:
    """Note that a ledger is open once more in this process."""
    with _guard:
        _uses[path] += 1


def closed(path: str) -> None:
    """Note that it was closed once; with the last, its session ends."""
    with _guard:
        _uses[path] -= 1
        keeper = _keepers.pop(path, None) if _uses[path] <= 0 else None
    if keeper is not None:
        keeper.end()


def take(path: str, charge_id: int) -> Lock:
    """Take this process's lock of a charge.

    Raises:
        LedgerError: B213, B214.
    """
    return _keeper(path).take(charge_id)


def is_taken(path: str, charge_id: int, whose: str) -> bool:
    """Whether the process with that token holds its lock of a charge; looks, and waits for nobody.

    Raises:
        LedgerError: B213, B214.
    """
    return _keeper(path).is_taken(charge_id, whose)


def _keeper(path: str) -> Keeper:
    with _guard:
        found = _keepers.get(path)
        if found is None:
            found = _keepers[path] = Keeper(path)
        return found


def _key(dataset_id: str, charge_id: int, whose: str) -> int:
    """The number of a charge's lock, a signed one of 64 bits."""
    digest = hashlib.blake2b(f"duckdp {dataset_id} {charge_id} {whose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


_left: list[Any] = []


def _after_fork() -> None:
    """In a child: sessions and locks are the parent's."""
    global _guard
    _left.append(dict(_keepers))  # never ended here: that would tell the server the parent's session is over
    _guard = threading.Lock()
    _keepers.clear()
    _uses.clear()
    _token.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
