"""Ctrl-C at every point: KeyboardInterrupt as Python raises it in the main thread, between any two of its steps."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdp
from duckdp.errors import DuckDPError

PACKAGE = Path(duckdp.__file__).parent


class Interruptions:
    """Raises KeyboardInterrupt at the n-th step of the watched code in this thread: a call, a line or a return.

    Args:
        at: n; -1: never, the steps are counted only.
        within: files and folders of the package whose code is watched.
    """

    def __init__(self, at: int, within: Sequence[str]) -> None:
        self.left, self.steps = at, 0
        self._watched = tuple(str(PACKAGE / name) for name in within)

    def __enter__(self) -> Interruptions:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(self._watched):
            return None
        self._step()
        return self._line

    def _line(self, frame, event, arg):
        if event in ("line", "return"):
            self._step()
        return self._line

    def _step(self) -> None:
        self.steps += 1
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def steps(work: Callable[[], object], within: Sequence[str]) -> int:
    """How many there are in some work."""
    with Interruptions(-1, within) as counted:
        work()
    return counted.steps


def interrupted(work: Callable[[], object], at: int, within: Sequence[str]) -> BaseException | None:
    """Runs work with an interrupt at that step; the error keeps its traceback and all frames, as in a shell."""
    try:
        with Interruptions(at, within):
            work()
    except (KeyboardInterrupt, DuckDPError) as error:
        return error
    return None


def others_can_write(path: str | Path, seconds: float = 60) -> None:
    """Nobody holds the ledger's lock for good; its own thread may be about to end a transaction."""
    connection = sqlite3.connect(path, timeout=seconds, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    finally:
        connection.close()
