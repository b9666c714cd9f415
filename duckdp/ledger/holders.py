"""Who is working on a charge, and is it still at work?

A charge without a release may be redeemed only when nobody is working on it. Who holds it is named by boot, process id
and start time (so that a reused id is another process), followed by ``:lock`` where a lock of the kernel says whether
the work goes on (``locks``); without it, as in ledgers of earlier versions, the life of the process does. On a server
the lock is that of a session, and a random token is in the name: containers share boots and process ids. Work ends
with a release, a failure, or the process, when its :class:`Claim` ends, or when nobody has the ``Charge`` any more.
A wrong "ended" costs an attempt and never a second release: the ledger keeps one release per charge.
"""

from __future__ import annotations

import os
import weakref
from functools import lru_cache
from pathlib import Path

from duckdp.errors import LedgerError
from duckdp.ledger import locks, sessions
from duckdp.ledger.addresses import is_address
from duckdp.ledger.types import Charge

_Key = tuple[str, int, int]  # data set, charge, attempt
_LOCKED = ":lock"
_TOKEN = "+"  # before a process's random token, in a ledger on a server


class _Hold:
    """A thread's work on a charge; of one that was rolled back another may follow under the same key."""

    __slots__ = ("_charge", "_key", "_lock", "thread")

    def __init__(self, key: _Key, charge: Charge, thread: int, lock: locks.Lock | sessions.Lock | None) -> None:
        self._key, self.thread, self._lock = key, thread, lock
        self._charge: weakref.ref[Charge] | None = weakref.ref(charge, self.end)

    @property
    def is_garbage(self) -> bool:
        """Nobody has the Charge any more."""
        return self._charge is None or self._charge() is None

    def end(self, _: object = None) -> None:
        if _live.get(self._key) is self:
            _live.pop(self._key, None)
        if self._lock is not None:
            self._lock.free()
        self._charge = None  # which held this, by what it was to call


_live: dict[_Key, _Hold] = {}


class Claim:
    """The work on one question: it holds the charge that is handed out for it until the work ends, however it ends.

    An interrupt may fall between the charge's commit, on the ledger's thread, and whoever asked for it, and an
    interactive shell keeps the frames of the last error: so the end of the work is told, not seen from what is left.
    """

    __slots__ = ("__weakref__", "_holds", "ended")

    def __init__(self) -> None:
        self._holds: list[_Hold] = []
        self.ended = False

    def take(self, hold: _Hold) -> None:
        """Note what is handed out; after the end it is let go at once."""
        self._holds.append(hold)
        if self.ended:
            self.end()

    def end(self) -> None:
        """The work ended; again is harmless."""
        self.ended = True
        for hold in list(self._holds):
            hold.end()
        self._holds.clear()


def me() -> str:
    """The present process, as stored beside a charge."""
    return _identity(os.getpid())


def hold(path: str, dataset_id: str, charge: Charge, thread: int, claim: Claim | None = None) -> str:
    """Note that a thread works on ``charge`` as long as the object lives and the claim has not ended.

    Returns:
        Who holds it, for the ledger.

    Raises:
        LedgerError: B207, B213, B214, see :func:`locks.take`.
    """
    _sweep()
    key = (dataset_id, charge.id, charge.attempt)
    lock = locks.take(path, charge.id) if path else None
    found = _live[key] = _Hold(key, charge, thread, lock)
    if claim is not None:
        claim.take(found)
    name = me() + (_TOKEN + sessions.token() if is_address(path) else "")
    return name + (_LOCKED if lock is not None else "")


def is_mine(holder: str) -> bool:
    """Whether a holder, as the ledger has it, is the present process."""
    name, plus, token = holder.removesuffix(_LOCKED).partition(_TOKEN)
    return name == me() and (not plus or token == sessions.token())


def let_go(dataset_id: str, charge: Charge) -> None:
    """Note that the work on ``charge`` ended."""
    found = _live.get((dataset_id, charge.id, charge.attempt))
    if found is not None:
        found.end()


def working(holder: str, dataset_id: str, charge_id: int, attempt: int, asking: int, path: str = "") -> bool:
    """Is ``holder`` still working on this attempt?

    A thread that asks again (``asking``) what it holds itself is not working on it: it gave up without saying so.

    Args:
        holder: as the ledger has it.
        dataset_id: of the ledger.
        charge_id: the charge.
        attempt: its last one.
        asking: a thread of this process.
        path: of the ledger.
    """
    if is_mine(holder):
        found = _live.get((dataset_id, charge_id, attempt))
        return found is not None and not found.is_garbage and found.thread != asking
    return seems_working(holder, charge_id, path)


def seems_working(holder: str, charge_id: int, path: str = "") -> bool:
    """As :func:`working`, for whoever is another process."""
    name = holder.removesuffix(_LOCKED)
    if is_address(path):
        return name != holder and sessions.is_taken(path, charge_id, name.partition(_TOKEN)[2])
    if path and name != holder:
        try:
            return locks.is_taken(path, charge_id)
        except LedgerError:  # then the life of the process has to do
            pass
    boot, _, rest = name.partition(":")
    pid, _, start = rest.partition(":")
    return boot == _boot() and pid.isascii() and pid.isdigit() and _start(int(pid)) == start


def _sweep() -> None:
    """End what an interrupt kept from ending when its Charge became garbage; few are at work at a time."""
    for found in list(_live.values()):
        if found.is_garbage:
            found.end()


@lru_cache(maxsize=1)
def _identity(pid: int) -> str:
    return f"{_boot()}:{pid}:{_start(pid) or ''}"


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _start(pid: int) -> str | None:
    """When a process started: clock ticks since boot; "" where only its existence is known; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _exists(pid)
    fields = text.rpartition(")")[2].split()  # the command before it may hold anything
    return None if fields[0] in "ZX" else fields[19]


def _exists(pid: int) -> str | None:
    if Path("/proc/self/stat").exists():
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return ""
    return ""


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_live.clear)
