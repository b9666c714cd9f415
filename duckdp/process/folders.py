"""Temporary folders of private data: readable by nobody else, and gone with the process that made them.

Each is locked (flock) as long as its process lives. Those that a killed process left are removed when the next one
is made: whoever gets the lock of a folder knows that nobody uses it. Where a file system has no locks, none is removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import weakref
from contextlib import suppress

from duckdp.process.forks import Home

PREFIX = "duckdp-private-"


class Folder:
    """A new temporary folder; removes those that nobody uses any more.

    Attributes:
        path: absolute.
    """

    def __init__(self) -> None:
        _sweep()
        self.path, file = _make()
        self._remove = weakref.finalize(self, _remove, self.path, file, Home())  # also when nobody closes

    def close(self) -> None:
        """Remove it; again is harmless. In a forked child nothing happens: it is the parent's."""
        self._remove()


def _make() -> tuple[str, int]:
    while True:
        path = tempfile.mkdtemp(prefix=PREFIX)
        try:
            file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # swept by another process before it was opened,
            continue
        if _locked(file, without_locks=True) and _is_there(path, file):
            _open.append(file)
            return path, file
        os.close(file)  # or before it was locked


def _sweep() -> None:
    folder = tempfile.gettempdir()
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(PREFIX):
                with suppress(OSError):
                    _remove_if_left(os.path.join(folder, name))


def _remove_if_left(path: str) -> None:
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(file)
        mine = found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o700
        if mine and _locked(file, without_locks=False) and _is_there(path, file):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(file)


def _locked(file: int, *, without_locks: bool) -> bool:
    """Lock a folder, unless somebody has; ``without_locks``: what to say where the file system knows no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return without_locks
    return True


def _is_there(path: str, file: int) -> bool:
    try:
        there, ours = os.lstat(path), os.fstat(file)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def _remove(path: str, file: int, home: Home) -> None:
    if home.left:
        return
    shutil.rmtree(path, ignore_errors=True)
    with suppress(ValueError):
        _open.remove(file)
        os.close(file)


_open: list[int] = []


def _left() -> None:
    """In a forked child: the locks are the parent's, and end with it, not with the child."""
    while _open:
        os.close(_open.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_left)
