"""Who is working on a charge, and is it still alive?

A charge without a release may be redeemed only when nobody is working on it. Its holder is a process, named by boot,
process id and start time (so that a reused id is another process), and within this process a live ``Charge`` object.
A wrong "dead" costs an attempt and never a second release: the ledger keeps one release per charge.
"""

from __future__ import annotations

import os
import weakref
from functools import lru_cache
from pathlib import Path

from duckdp.ledger.types import Charge

_Key = tuple[str, int, int]  # data set, charge, attempt

_live: dict[_Key, tuple[weakref.ref[Charge], int]] = {}


def me() -> str:
    """The present process, as stored beside a charge."""
    return _identity(os.getpid())


def hold(dataset_id: str, charge: Charge, thread: int) -> None:
    """Note that a thread works on ``charge`` as long as the object lives."""
    key = (dataset_id, charge.id, charge.attempt)
    _live[key] = (weakref.ref(charge, lambda _: _live.pop(key, None)), thread)


def let_go(dataset_id: str, charge: Charge) -> None:
    """Note that the work on ``charge`` ended."""
    _live.pop((dataset_id, charge.id, charge.attempt), None)


def working(holder: str, dataset_id: str, charge_id: int, attempt: int, asking: int) -> bool:
    """Is ``holder`` still working on this attempt?

    A thread that asks again (``asking``) what it holds itself is not working on it: it gave up without saying so.
    """
    if holder == me():
        reference, thread = _live.get((dataset_id, charge_id, attempt), (None, 0))
        return reference is not None and reference() is not None and thread != asking
    boot, _, rest = holder.partition(":")
    pid, _, start = rest.partition(":")
    return boot == _boot() and pid.isascii() and pid.isdigit() and _start(int(pid)) == start


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
