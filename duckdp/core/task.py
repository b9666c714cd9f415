"""What every private release is, whatever its mechanism: a cost, one query over private rows, and its noise.

The session treats all of them alike: charge ``loss`` durably, run ``query`` with the charge, let ``release`` add the
noise, store the payload, hand it out. A task is built from public figures only.

A release whose post-processing is long stores what was noised first; only then, outside of the task, is it made into
more, followed and perhaps ended by a :class:`Watch`. So nothing that depends on a draw of noise is seen, and nobody can
end the work, before that draw is the one that stays.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from duckdp.core.types import Loss
from duckdp.errors import DuckDPError, NumericalError, ParameterError

MOST_SECONDS = 86_400.0
Tell = Callable[[str, float], None]


@dataclass(frozen=True, kw_only=True)
class PrivateQuery:
    """SQL of our own for the private instance.

    Attributes:
        sql: one SELECT, printed from plan objects.
        parameters: values of $1, $2, ...
        rows: the most rows that may cross; each of them is noised. None: streamed to something that keeps none of
            them (keys that must pass a threshold; the points of a large summary, added up as they come).
        arrays: rows cross in batches, each a tuple of NumPy arrays of DOUBLE or INTEGER, one per column, NULL as NaN.
    """

    sql: str
    parameters: tuple[Any, ...] = ()
    rows: int | None = 1
    arrays: bool = False


class Charged(Protocol):
    """What a private release says of itself before it happens; public."""

    @property
    def canonical(self) -> str:
        """Text that is equal for equal questions: plan, table declaration, mechanism, epsilon and delta."""

    @property
    def loss(self) -> Loss:
        """What it costs, all its reads together."""

    @property
    def mechanism(self) -> str:
        """Name of the mechanism, for the ledger."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger; JSON values."""


class Task(Charged, Protocol):
    """A private release of one read."""

    def query(self, salt: int) -> PrivateQuery:
        """The private read; ``salt`` keys the hashes that bound contributions."""

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Noise the exact rows; returns the payload (JSON) that may leave and is stored."""


@runtime_checkable
class StagedTask(Charged, Protocol):
    """A private release of several reads under one charge, each shaped by what was released before it."""

    def release_stages(self, read: Callable[[PrivateQuery], Iterable[tuple[Any, ...]]], salt: int) -> str:
        """Read, noise, read again; returns the payload (JSON)."""


@dataclass(kw_only=True, eq=False)
class Watch:
    """Follows post-processing of a stored release and may end it. Never given to anything that reads private rows.

    Attributes:
        progress: told (stage, share done, 0 to 1); what it raises ends the work.
        time_limit: seconds from the start of the work; None leaves it to the work.
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
        self._end = time.monotonic() + (self.time_limit or otherwise)

    def out_of_time(self) -> bool:
        """Whether the best found so far is to be taken.

        Raises:
            KeyboardInterrupt: it was interrupted from another thread.
        """
        self.check()
        return self._end is not None and time.monotonic() > self._end

    def check(self) -> None:
        """Notice an interrupt from another thread.

        Raises:
            KeyboardInterrupt.
        """
        if self._interrupted.is_set():
            raise KeyboardInterrupt

    def interrupt(self) -> None:
        """End the work from another thread; what was paid for stays."""
        self._interrupted.set()


def as_numerical(problem: BaseException) -> BaseException:
    """A solver's failure as an error of ours; anything else as it is."""
    if isinstance(problem, DuckDPError) or not isinstance(problem, (ArithmeticError, ValueError, MemoryError)):
        return problem
    kind = "out of memory" if isinstance(problem, MemoryError) else "numerical failure"
    return NumericalError(
        "N101", f"the program was not solved ({kind}).", status=kind,
        advice="What was released is kept: ask again, free, or take a smaller degree or fewer columns.",
    )  # fmt: skip
