"""Ctrl-C at every point: KeyboardInterrupt as Python raises it in the main thread, between any two of its steps."""

from __future__ import annotations

import dis
import gc
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import duckdp
from duckdp.errors import DuckDPError

_LOAD_CONST = dis.opmap["LOAD_CONST"]
_DEAF = {dis.opmap[name] for name in ("NOP", "PUSH_EXC_INFO", "POP_EXCEPT")}
PACKAGE = Path(duckdp.__file__).parent


class Interruptions:
    """Raises KeyboardInterrupt at the n-th step of the watched code in this thread: a call, a line or a return.

    No garbage is collected meanwhile: what a test before has left would be ended in here, step by step.

    Args:
        at: n; -1: never, the steps are counted only.
        within: files and folders of the package whose code is watched.
    """

    def __init__(self, at: int, within: Sequence[str]) -> None:
        self.left, self.steps = at, 0
        self._watched = tuple(str(PACKAGE / name) for name in within)

    def __enter__(self) -> Interruptions:
        self._collected = gc.isenabled()
        gc.disable()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        if self._collected:
            gc.enable()

    def _trace(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(self._watched):
            return None
        self._step()
        return self._line

    def _line(self, frame, event, arg):
        if event == "return" or (event == "line" and not is_deaf(frame)):
            self._step()
        return self._line

    def _step(self) -> None:
        self.steps += 1
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def is_deaf(frame: FrameType) -> bool:
    """Whether Python tells a tracer of a line where it hears no signal, and which no handler guards.

    It hears them where calls return and loops go round. So not at ``try``, which does nothing by itself, and not where
    a ``with`` is left: within, or once ``__exit__`` was called. Nor where a handler begins or ends: what it handles
    would be the context of every later error in this thread.
    """
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] in _DEAF:
        return True
    if code[at] == dis.opmap.get("SWAP"):  # it is left by return
        at += 2
    following = code[at : at + 6]
    return following[::2] == bytes([_LOAD_CONST] * 3) and all(
        frame.f_code.co_consts[place] is None for place in following[1::2]
    )


def steps(work: Callable[[], object], within: Sequence[str]) -> int:
    """How many there are in some work."""
    with Interruptions(-1, within) as counted:
        work()
    return counted.steps


def interrupted(work: Callable[[], object], at: int, within: Sequence[str]) -> BaseException | None:
    """Runs work with an interrupt at that step; the error keeps its traceback and all frames, as in a shell."""
    before, met = sys.exception(), None
    try:
        with Interruptions(at, within):
            work()
    except (KeyboardInterrupt, DuckDPError) as error:
        met = error
    if sys.exception() is not before:
        raise RuntimeError(f"the interrupt at step {at} came where Python hears none: an error counts as handled still")
    return met


def others_can_write(path: str | Path, seconds: float = 60) -> None:
    """Nobody holds the ledger's lock for good; its own thread may be about to end a transaction."""
    connection = sqlite3.connect(path, timeout=seconds, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    finally:
        connection.close()
