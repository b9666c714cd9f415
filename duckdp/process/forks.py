"""What a process opened is not for the children that it forks.

A forked child has the memory of its parent and none of its threads. A lock that another thread held stays locked; the
end of a DuckDB instance waits for threads that are not there; and SQLite, whose locks on the file are the parent's
alone, takes them for its own: a charge that the child makes can be lost with the journal that the parent removes. So a
child neither uses nor ends what was opened before the fork. Everything that is used says so (B212), and what would end
by itself, as Python collects it or leaves, is kept for ever.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import TypeVar

from duckdp.errors import LedgerError

T = TypeVar("T")

_kept: weakref.WeakSet[object] = weakref.WeakSet()


def keep(thing: T) -> T:
    """Never let ``thing`` end in a forked child; returns it."""
    _kept.add(thing)
    return thing


class Home:
    """The process in which something was opened."""

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def left(self) -> bool:
        """Whether this is another process."""
        return os.getpid() != self._process

    def require(self, what: str, path: str | None = None) -> None:
        """Returns in the process that it was made in, and raises in a forked child.

        Raises:
            LedgerError: B212.
        """
        if os.getpid() != self._process:
            raise forked(what, path)


def forked(what: str, path: str | None = None) -> LedgerError:
    """The error for what a forked child may not use."""
    return LedgerError(
        "B212",
        f"{what} was opened before this process was forked, and belongs to its parent. Start workers with "
        'multiprocessing.get_context("spawn") and open it there, or fork first and open it afterwards.',
        path=path,
    )


def closed(what: str, path: str | None = None) -> LedgerError:
    """The error for what was closed."""
    return LedgerError("B211", f"{what} is closed. Open it again.", path=path)


def _immortal() -> None:
    for thing in list(_kept):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_immortal)
