"""A lock for each charge that is being worked on, held by the system's kernel: whoever holds it is at work.

It is a lock on one byte, that of the charge's number, of the empty file ``<ledger>.locks``, held through an open file
of its own. It ends with the work, with the process (however that ends), or when nobody holds the Charge any more,
and anybody can see that without waiting. The file never grows, nothing is ever written to it or read from it, and it is
made anew where it is missing; without it the ledger is whole.

Locks of the open file (Linux: F_OFD_SETLK) are what this needs: the older ones of POSIX end as soon as the process
closes any descriptor of that file. Where there are none, :func:`take` says so, and the life of the process has to do.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from duckdp.errors import LedgerError
from duckdp.ledger import sessions
from duckdp.ledger.addresses import is_address

SUFFIX = ".locks"

_SET: int | None = getattr(fcntl, "F_OFD_SETLK", None)
_GET: int | None = getattr(fcntl, "F_OFD_GETLK", None)
_FLOCK = "hhqqi"  # type, whence, start, length, process


_File = list[int | None]  # None, and a descriptor; empty once it was closed
_held: dict[int, _File] = {}  # those of all locks


class Lock:
    """The lock of one charge, until :meth:`free`."""

    __slots__ = ("_file",)

    def __init__(self, file: int) -> None:
        self._file: _File = [None, file]
        _held[id(self._file)] = self._file

    def free(self, close: Callable[[Any], None] = os.close, held: dict[int, _File] = _held) -> None:
        """Give it up; again is harmless, also at once from several threads."""
        while self._file:
            with suppress(IndexError, OSError):  # one step, with no room for an interrupt between its two
                list(map(close, iter(self._file.pop, None)))
        held.pop(id(self._file), None)

    def __del__(self) -> None:
        self.free()


def take(path: str, charge_id: int) -> Lock | sessions.Lock | None:
    """Take the lock of a charge; of a ledger on a server, that of a session (``sessions``).

    Returns:
        The lock; None where the system has no such locks, or somebody else still holds this one.

    Raises:
        LedgerError: B207, the file of locks cannot be opened; B213, B214, of a server.
    """
    if is_address(path):
        return sessions.take(path, charge_id)
    if _SET is None:
        return None
    file = _open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.fcntl(file, _SET, _byte(charge_id))
    except BaseException as error:
        _close(file)
        if isinstance(error, OSError):
            return None
        raise
    return Lock(file)


def is_taken(path: str, charge_id: int) -> bool:
    """Whether somebody holds the lock of a charge; looks, and waits for nobody.

    Raises:
        LedgerError: B207, the file of locks cannot be opened.
    """
    if _GET is None or not os.path.exists(path + SUFFIX):
        return False
    file = _open(path, os.O_RDWR)
    try:
        found = fcntl.fcntl(file, _GET, _byte(charge_id))
    except OSError:
        raise _unusable(path) from None
    finally:
        _close(file)
    return bool(struct.unpack(_FLOCK, found)[0] != fcntl.F_UNLCK)


def _close(file: int) -> None:
    with suppress(OSError):  # it is closed, whatever the system says to it
        os.close(file)


def _open(path: str, flags: int) -> int:
    try:
        return os.open(path + SUFFIX, flags | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ENOENT and not flags & os.O_CREAT:  # removed just now
            return _open(path, flags | os.O_CREAT)
        raise _unusable(path) from None


def _unusable(path: str) -> LedgerError:
    return LedgerError(
        "B207",
        f'the file "{path}{SUFFIX}", which shows who is working on a charge, cannot be opened. '
        "Check its permissions and the disk, or remove it: it holds nothing.",
        path=path,
    )


def _byte(charge_id: int) -> bytes:
    return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, charge_id, 1, 0)


def _left() -> None:
    """In a forked child: the locks are the parent's, and end with it, not with the child."""
    for files in list(_held.values()):
        for file in files:
            if file is not None:
                _close(file)
        files.clear()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_left)
