"""What a curator holds open, and its end: no new charge, reads interrupted, everything closed, whatever fails.

Close means, in this order: nothing is charged any more (B211); private reads, what is made of releases, and waiting end
(E102), and their charges are noted as failed, so that the same question redeems them; the analysts' instances, the
private one with its folders, and the ledger are closed. Each step is tried, and the first error is told. What does not
end in time is left behind: it can store nothing, and its charge is free to be redeemed.

At the interpreter's exit the same is done for every curator that was left open, and calls of other threads that are
still under way are waited for: a thread inside DuckDB would not survive it. A forked child does none of it.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Protocol

from duckdp.errors import DuckDPError, ExecutionError, LedgerError
from duckdp.ledger import Claim, Ledger
from duckdp.process.aside import is_idle
from duckdp.process.ending import Ending, take_all
from duckdp.process.forks import Home, closed
from duckdp.vault.engine import WHAT, Engine

DRAIN_SECONDS = 10.0  # for what was interrupted
SETTLE_SECONDS = 0.3  # for what a thread lets go of after its last call
_LOOK = 0.002  # seconds between two looks at what is still under way
_PACKAGE = str(Path(__file__).parents[1])  # a frame of a file in it is a call of ours

_open: weakref.WeakSet[Life] = weakref.WeakSet()


class Face(Protocol):
    """What analysts are answered through, as far as its end goes."""

    def refuse(self) -> None:
        """Let nothing be asked any more."""

    def close(self) -> None:
        """Close it; again is harmless."""


class Life:
    """The open parts of a data set.

    Attributes:
        closing: its end has begun.
        faces: end with it, before the parts that they stand on.
    """

    def __init__(self, engine: Engine, ledger: Ledger) -> None:
        self.engine, self.ledger = engine, ledger
        self.closing = False
        self.faces: list[Face] = []
        self._home = Home()
        self._claims: dict[Claim, int] = {}
        self._closers: list[int] = []  # threads that wait for the end: what they do besides cannot end before
        if not _open:
            atexit.unregister(_close_all)  # it has to come before what was registered by now, the last at first
            atexit.register(_close_all)
        _open.add(self)

    def require(self) -> None:
        """Returns while it lasts, and raises once its end has begun.

        Raises:
            LedgerError: B211, B212.
        """
        self._home.require(WHAT)
        if self.closing:
            raise closed(WHAT)

    def begin(self, claim: Claim) -> None:
        """Work on a question begins, which the end waits for.

        Raises:
            LedgerError: B211, B212.
        """
        self._claims[claim] = threading.get_ident()
        self.require()

    def end(self, claim: Claim) -> None:
        """The work ended; again is harmless."""
        claim.end()
        self._claims.pop(claim, None)

    def told(self, problem: DuckDPError, charge_id: int) -> DuckDPError:
        """What a release that failed says: one that the end overtook was interrupted."""
        overtaken = self.closing and isinstance(problem, LedgerError)
        return ExecutionError("E102", charge_id) if overtaken else problem

    def close(self) -> None:
        """Make the end, or wait for it; from any thread, also one that is being interrupted or collects garbage.

        Raises:
            DuckDPError: the first error of a step; all were tried.
        """
        if self._home.left:
            return
        steps = (self._refuse, self._drain, self._close_faces, self.engine.close, self.ledger.close)
        self._closers.append(threading.get_ident())
        vars(self).setdefault("_ending", Ending(*steps)).make()

    def _refuse(self) -> None:
        self._refuse_faces()  # first: what their functions refuse from here on says so
        self.closing = True
        self._refuse_faces()  # made meanwhile
        self.ledger.closing = True
        self.engine.stop()

    def _refuse_faces(self) -> None:
        for face in list(self.faces):
            face.refuse()

    def _drain(self) -> None:
        """Wait for what was interrupted: it notes in the ledger how it ended."""
        until = time.monotonic() + DRAIN_SECONDS
        while self._at_work() and time.monotonic() < until:
            self.engine.stop()
            time.sleep(_LOOK)

    def _at_work(self) -> bool:
        claimed = [thread for claim, thread in list(self._claims.items()) if not claim.ended]
        return any(thread not in self._closers for thread in claimed)

    def _close_faces(self) -> None:
        take_all(face.close for face in list(self.faces))


def _close_all() -> None:
    """At exit; nobody is left to be told of errors."""
    seen: dict[int, float] = {}
    _look_for_calls(seen)
    for life in list(_open):
        with suppress(Exception):
            life.close()
    until = time.monotonic() + DRAIN_SECONDS
    while _look_for_calls(seen) and time.monotonic() < until:
        time.sleep(_LOOK)


def _look_for_calls(seen: dict[int, float]) -> bool:
    """Whether another thread is in a call of ours, or just was: in native code it could not come back after the exit.

    Args:
        seen: when each thread was last found in one.
    """
    here, now, running = threading.get_ident(), time.monotonic(), set[int]()
    for thread, frame in sys._current_frames().items():
        inner: FrameType | None = None if thread == here else frame
        running.add(thread)
        while inner is not None and not inner.f_code.co_filename.startswith(_PACKAGE):
            inner = inner.f_back
        if inner is not None and not is_idle(inner):
            seen[thread] = now
    return any(now - last < SETTLE_SECONDS for thread, last in seen.items() if thread in running)
