"""Following work that comes after a release: progress, a time limit, an interrupt from another thread.

Post-processing alone is followed: nothing here reads private rows, and the file of those that do (``core/task``) is not
imported, so that what makes rows from released figures needs no name from the private side.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from duckdp.errors import DuckDPError, NumericalError, ParameterError

_asker: ContextVar[object] = ContextVar("asker", default=None)
MOST_SECONDS = 86_400.0  # the longest time limit that can be asked for: a day
Tell = Callable[[str, float], None]
"""Told the stage of the work, and the share of all of it that is done, 0 to 1."""


def asker() -> object:
    """For whom this thread works now; None: nobody that can be told from others."""
    return _asker.get()


@contextmanager
def asking_for(who: object) -> Iterator[None]:
    """While it lasts, this thread works for ``who``, so that what it does can be interrupted apart from the rest."""
    token = _asker.set(who)
    try:
        yield
    finally:
        _asker.reset(token)


@dataclass(kw_only=True, eq=False)
class Watch:
    """Follows post-processing of a stored release and may end it. Never given to anything that reads private rows.

    Attributes:
        progress: told (stage, share done, 0 to 1); what it raises ends the work.
        time_limit: seconds of processor time of the thread that works, from the start of the work, so that a busy
            machine changes nothing; None leaves it to the work.
    """

    progress: Tell | None = None
    time_limit: float | None = None
    _interrupted: threading.Event = field(default_factory=threading.Event)
    _end: float | None = None
    _share: float = 0.0

    def __post_init__(self) -> None:
        if self.progress is not None and not callable(self.progress):
            raise ParameterError("P107", "progress", self.progress, "must be a function of (stage, share done).")
        given = self.time_limit
        if given is not None and not (type(given) in (int, float) and 0 < given <= MOST_SECONDS):
            rule = f"must be a number of seconds above 0, at most {MOST_SECONDS:g}."
            raise ParameterError("P107", "time_limit", given, rule)

    def tell(self, stage: str, share: float) -> None:
        """Say how far the work is.

        Raises:
            KeyboardInterrupt: it was interrupted from another thread.
        """
        self.check()
        self._share = max(self._share, share)  # stages that are repeated do not go back
        if self.progress is not None:
            self.progress(stage, self._share)

    def start(self, otherwise: float) -> None:
        """Start the clock; ``otherwise``: seconds where no time limit was given."""
        self._end = time.thread_time() + (self.time_limit or otherwise)

    def out_of_time(self) -> bool:
        """Whether the best found so far is to be taken.

        Raises:
            KeyboardInterrupt: it was interrupted from another thread.
        """
        self.check()
        return self._end is not None and time.thread_time() > self._end

    def check(self) -> None:
        """Notice an interrupt from another thread.

        Raises:
            KeyboardInterrupt.
        """
        if self._interrupted.is_set():
            raise KeyboardInterrupt

    @property
    def interrupted(self) -> bool:
        """Whether another thread ended the work."""
        return self._interrupted.is_set()

    def interrupt(self) -> None:
        """End the work from another thread; what was paid for stays."""
        self._interrupted.set()


def as_numerical(problem: BaseException) -> BaseException:
    """A solver's failure as an error of ours; anything else as it is."""
    if isinstance(problem, DuckDPError) or not isinstance(problem, (ArithmeticError, ValueError, MemoryError)):
        return problem
    kind = "out of memory" if isinstance(problem, MemoryError) else "numerical failure"
    return NumericalError(
        "N101",
        f"the program was not solved ({kind}).",
        status=kind,
        advice="What was released is kept: ask again, free, or take a smaller degree or fewer columns.",
    )
