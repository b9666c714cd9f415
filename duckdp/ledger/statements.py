"""The log of what analysts asked and was not charged: stored and free answers, refusals, failures; never a value.

    who asks --note--> a buffer in memory --a thread, every second or 500 entries--> <ledger>.statements, or the server

Who asks pays an append to a queue. The thread formats, hashes, writes, and syncs once for all that waited.

Lost:    what a killed process had not yet written, at most ``WAIT_SECONDS`` or ``MOST_TOGETHER`` entries old. A write
         that fails (full disk, a log that is damaged or locked) is tried again with the next; meanwhile the buffer
         fills, and what it has no room for is counted and said by an entry of kind "lost". No statement ever fails or
         waits for the log. The end does: until all is written, or another process has held the file for
         ``_END_SECONDS``, or the file cannot be written at all; then what waits is lost.
Shares:  in the buffer each analyst has ``OWN_SHARE`` entries that nobody else can take; in the file, see there.
Found:   by ``duckdp ledger verify``: an entry that was altered, added, removed or put elsewhere; entries missing at
         the end, up to the last that a charge of that analyst names (a charge's place in the ledger's chain holds the
         head of the analyst's log as it was then on the disk). Later ones can be cut off unseen.
"""

from __future__ import annotations

import _thread
import os
import queue
import time
import weakref
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from duckdp.errors import InternalError, LedgerError
from duckdp.ledger.addresses import is_address
from duckdp.ledger.statement_file import NOBODY, Head, Statement, StatementFile, path_of
from duckdp.ledger.statement_served import ServedLog

MOST_TEXT = 1024  # characters of a statement
MOST_WAITING = 4096  # entries in the buffer
OWN_SHARE = 64  # of them, that an analyst has to themselves
MOST_TOGETHER = 500  # that wake the thread
WAIT_SECONDS = 1.0  # between two writings of what has come
_IDLE = 30  # waits without an entry, after which the thread ends
_LOOK_SECONDS = 0.5  # how often a flush or the end looks whether the thread still serves
_PATIENCE = 20  # such looks at a log that no thread serves, or on the thread of a log
_END_SECONDS = 30.0  # how long the end tries again while another process holds the file

_logs: weakref.WeakSet[StatementLog] = weakref.WeakSet()
_threads: set[int] = set()  # of all logs: Python may end one log, which nobody holds any more, on the thread of another
_abandoned: list[Any] = []


@dataclass(slots=True)
class _Waiting:
    """An entry in the buffer, as it was noted."""

    asked: float
    who: str
    kind: str
    text: str
    outcome: str
    charge: int | None


class _Wish:
    """Somebody waits until all is written, or closed."""

    __slots__ = ("asked", "done", "end")

    def __init__(self, end: bool) -> None:
        self.end, self.asked = end, False
        self.done = _thread.allocate_lock()
        self.done.acquire()


class StatementLog:
    """The log beside one ledger, in this process; safe for many threads, and many processes on one file.

    Args:
        ledger: path of the ledger.
        dataset_id: of the data set.
        salt: of the data set.

    Attributes:
        path: of the log.
        heads: by analyst, how far this process knows the log to be on the disk: number of entries, hash.
        problem: why the last write failed, if it did.
    """

    def __init__(self, ledger: str, dataset_id: str, salt: bytes) -> None:
        self.path = path_of(ledger)
        self._identity = dataset_id, salt
        self._closed = False
        self._begin()
        _logs.add(self)

    def note(
        self,
        who: str,
        kind: str,
        text: str,
        outcome: str,
        *,
        charge: int | None = None,
        asked: float | None = None,
        granted: bool = True,
    ) -> None:
        """Note a statement; never fails, never waits.

        Args:
            who: the analyst.
            kind: "free", "refused" or "failed".
            text: what was asked; its beginning is kept.
            outcome: "answered", "explained", "stored", or a code.
            charge: whose release was given, or whose read failed.
            asked: when, in seconds since 1970; now by default.
            granted: ``who`` is an analyst of the ledger. All others share one place.
        """
        if self._closed:
            return
        name = who if granted else NOBODY
        own = self._queues.get(name)
        if own is None:
            own = self._queues.setdefault(name, deque())
        if self._waiting >= MOST_WAITING and len(own) >= OWN_SHARE:
            self._refused.append(name)
            return
        own.append(_Waiting(time.time() if asked is None else asked, who, kind, _cut(text), outcome, charge))
        self._waiting += 1  # threads may lose a count between them: the bound is soft, and each write counts anew
        if self._waiting == MOST_TOGETHER:
            self._bell.put(None)
        self._ensure()

    def head(self, analyst: str) -> Head | None:
        """How far an analyst's entries are known to be on the disk."""
        return self.heads.get(analyst)

    def forget_heads(self) -> None:
        """The owner accepted what the log is now: what was known of it before is no more to be named."""
        self.heads.clear()

    def flush(self) -> bool:
        """Write what waits; returns whether all of it is on the disk."""
        self._wish(end=False)
        return not self._pending()

    def close(self) -> None:
        """Write what waits and close the file; again is harmless."""
        if not self._pending():
            self._closed = True  # a thread that begins to serve from here on does not touch the file
            if not self._serving.locked():  # and none serves: none need be started
                self._file.close()
                return
            self._closed = False
        self._wish(end=True)

    def forget(self) -> None:
        """After a fork, in the child: what waits is its parent's to write, and what the child asks is refused."""
        _abandoned.append(self._file)
        self._begin()
        self._closed = True

    def _begin(self) -> None:
        self._queues: dict[str, deque[_Waiting]] = {}
        self._waiting = 0
        self._refused: list[str] = []  # whose entries the buffer had no room for, until the thread counts them
        self._lost: Counter[str] = Counter()
        self._bell: queue.SimpleQueue[_Wish | None] = queue.SimpleQueue()
        self._serving = _thread.allocate_lock()  # of the thread, as long as it lives; nobody else takes it
        kind = ServedLog if is_address(self.path) else StatementFile
        self._file: ServedLog | StatementFile = kind(self.path, *self._identity)
        self.heads: dict[str, Head] = {}
        self.problem: Exception | None = None

    def _wish(self, *, end: bool) -> None:
        """Ask the thread to write now, and wait for it; no lock is held that an interrupt could leave locked."""
        wish = _Wish(end)
        patience = _PATIENCE
        while patience and not self._closed:
            if not wish.asked:
                self._bell.put(wish)
                wish.asked = True
            self._ensure()
            if wish.done.acquire(timeout=_LOOK_SECONDS):
                return
            if not self._serving.locked() or _thread.get_ident() in _threads:
                patience -= 1

    def _ensure(self) -> None:
        """Start the thread if none serves; of several that are started at once, one does."""
        if not self._serving.locked():
            with suppress(RuntimeError):  # no more threads: then who comes later starts one
                _thread.start_new_thread(self._serve, ())

    # ---- on the thread -----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Write now and then, until nothing has come for a while."""
        while self._serving.acquire(blocking=False):
            _threads.add(_thread.get_ident())
            try:
                idle = 0
                while idle < _IDLE and not self._closed:
                    wish = None
                    with suppress(queue.Empty):
                        wish = self._bell.get(timeout=WAIT_SECONDS)
                    idle = idle + 1 if wish is None and not self._pending() else 0
                    self._write()
                    if wish is not None:
                        if wish.end:
                            self._end()
                        wish.done.release()
            finally:
                _threads.discard(_thread.get_ident())
                self._serving.release()
            if self._closed or (self._bell.empty() and not self._pending()):
                return  # who comes after this look starts a thread anew

    def _end(self) -> None:
        """Close the file, when what waits was written: a log that another process holds now is free again soon."""
        end = time.monotonic() + _END_SECONDS
        while self._pending() and _is_held(self.problem) and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS / 10)  # the next write waits for the file by itself
            self._write()
        self._closed = True
        self._file.close()

    def _pending(self) -> bool:
        return any(self._queues.copy().values()) or bool(self._lost) or bool(self._refused)

    def _write(self) -> None:
        """Write all that waits; what fails stays in the buffer."""
        refused = len(self._refused)
        self._lost.update(self._refused[:refused])
        del self._refused[:refused]
        waiting = {name: own.copy() for name, own in self._queues.copy().items() if own}
        if not waiting and not self._lost:
            return
        try:
            entries = {name: [_finished(entry) for entry in own] for name, own in waiting.items()}
            for name, count in self._lost.items():
                entries.setdefault(name, []).append(_lost(name, count))
            self.heads |= self._file.append(entries)
            self._lost.clear()
            self.problem = None
        except InternalError as error:  # an entry that the file refuses would stand in the way of all others for ever
            self.problem = error
            self._lost.update({name: len(own) for name, own in waiting.items()})
        except Exception as error:  # noqa: BLE001 - nobody waits for it, and no statement may fail by it
            self.problem = error
            waiting = {}
        for name, own in waiting.items():
            for _ in own:
                self._queues[name].popleft()
        self._waiting = sum(map(len, self._queues.copy().values()))


def _is_held(problem: Exception | None) -> bool:
    return isinstance(problem, LedgerError) and problem.code == "B206"


def _cut(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}... ({len(text):,} characters)"


def _finished(entry: _Waiting) -> Statement:
    return Statement(
        at=_utc(entry.asked),
        who=_plain(entry.who),
        kind=entry.kind,
        text=_plain(entry.text),
        outcome=entry.outcome,
        charge=entry.charge,
    )


def _lost(name: str, count: int) -> Statement:
    text = f"{count:,} statements could not be noted"
    return Statement(at=_utc(time.time()), who=name, kind="lost", text=text, outcome="")


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _plain(text: str) -> str:
    """What is not Unicode is replaced."""
    return text.encode("utf-8", "replace").decode()


def _forget_all() -> None:
    _threads.clear()
    for log in list(_logs):
        log.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
