"""An end that is made once, and wholly: whoever asks for it, how often, and whatever interrupts them."""

from __future__ import annotations

import _thread
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Protocol, Self

from duckdp.errors import DuckDPError, without_past
from duckdp.process.forks import Home

LONGEST = 60.0  # seconds that who asks for an end waits for it; the thread that makes it goes on
_LOOK = 0.001  # seconds between two looks at whether a thread has ended


class Ending:
    """Takes steps, all of them whatever fails, on a thread of its own, which no Ctrl-C reaches.

    Whoever asks while it is under way, or later, waits for its end. In a forked child nothing happens: what was opened
    in the parent is the parent's to close.

    Args:
        steps: in order; each is tried.
    """

    def __init__(self, *steps: Callable[[], object]) -> None:
        self._steps = steps
        self._home = Home()
        self._taken = _thread.allocate_lock()  # by the one thread that makes the end
        self._ident = 0  # of that thread
        self._error: BaseException | None = None
        self.done = False

    def make(self, *, wait: bool = True) -> None:
        """Make the end, or wait for it.

        Args:
            wait: until it is made.

        Raises:
            DuckDPError: the first error of a step, to the first who asks.
            KeyboardInterrupt: the wait was interrupted, once the end was made; at once if it is interrupted again.
        """
        if self._home.left or self._ident == _thread.get_ident():
            return
        if not self.done:
            try:
                _thread.start_new_thread(self._run, ())
            except RuntimeError:  # no threads any more: the interpreter is at its end, or the system's limit is
                self._run()
        if wait:
            self._wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _wait(self) -> None:
        end, interrupted = time.monotonic() + LONGEST, False
        while not self.done and time.monotonic() < end:
            try:
                time.sleep(_LOOK)
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
        if interrupted:
            raise KeyboardInterrupt

    def _run(self) -> None:
        if not self._taken.acquire(blocking=False):
            return
        self._ident = _thread.get_ident()
        try:
            take_all(self._steps)
        except BaseException as error:  # noqa: BLE001 - told to who asked
            self._error = error
        finally:
            self._ident = 0
            self.done = True


def take_all(steps: Iterable[Callable[[], object]]) -> None:
    """Take steps, each whatever became of the others.

    Raises:
        DuckDPError: the first error, after all steps.
    """
    first: DuckDPError | None = None
    for step in steps:
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - see without_past; the others are to be taken all the same
            told = without_past(error, "something could not be closed.")
            first = first or told
    if first is not None:
        raise first


class Closing(ABC):
    """What ``with`` closes at its end."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what it holds; again is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Closable(Protocol):
    """What refuses to close while it is at work."""

    def close(self) -> None:
        """Close it, or raise while it is at work."""


def close_busy(thing: Closable, interrupt: Callable[[], object], until: float) -> bool:
    """Close a connection of DuckDB's, which refuses while it is busy: interrupt, again and again; whether it worked."""
    while True:
        try:
            thing.close()
        except Exception:  # noqa: BLE001 - ResourceInUseException; of any other the same follows
            if time.monotonic() > until:
                return False
            interrupt()
            time.sleep(_LOOK)
        else:
            return True
