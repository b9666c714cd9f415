"""What every private release is, whatever its mechanism: a cost, and stages of a private read and its noise.

    Charged            what a release says of itself before it happens, public: identity, cost, mechanism, parameters
      Task             stages that the task knows: work(salt), which draws in Stages.  desk.perform
        OneRead        of one stage, which reads once: query(salt), release(rows).  Most are
      Interactive      stages that come as questions: begin(), then a Question each, in a Dialogue.  desk.interact

A desk treats all of them alike: charge ``loss`` durably, run the stages with the charge, store the payload, hand it
out. A task is built from public figures only. A task of several stages decides by the noisy outputs of earlier ones
what the next one reads, and whether there is one. Of an interactive release each question is a stage of its own, stored
before its output leaves, and what it follows from beside the data is stored too, secrets included.

Nobody can end a release because of a draw of noise and be given another for the same charge: the draw of every stage is
stored before anything follows from it, and a retry under the same charge takes the stored ones as they stand
(:class:`Stages`). Post-processing that is long comes after the release is stored, outside of the task, followed and
perhaps ended by a ``core.watch.Watch``. Only what was drawn and not yet stored is drawn again. It left no trace but the
time until then, and what a stage reads and how much noise it draws was settled before it began.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

from duckdp.core.reads import PrivateQuery, Read
from duckdp.core.steps import Past, Steps, StoredStep
from duckdp.core.types import Loss
from duckdp.errors import InternalError

Drawn = TypeVar("Drawn")


class _Draws:
    """The door of one release to private rows: open while a stage draws, one at a time, until the release has ended.

    Args:
        read: runs private reads with the charge.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._drawing = self._ended = False

    def read(self, query: PrivateQuery) -> Iterable[tuple[Any, ...]]:
        """Run a private read; within a stage only.

        Raises:
            InternalError: outside of one.
        """
        if not self._drawing:
            raise InternalError("a private read outside of a stage")
        return self._read(query)

    def _drawn(self, draw: Callable[[], Drawn]) -> Drawn:
        if self._drawing or self._ended:
            raise InternalError("a stage within another, or after the last")
        self._drawing = True
        try:
            return draw()
        finally:
            self._drawing = False


class Stages(_Draws):
    """The stages of one release: those that are stored, then new ones; the only way of a task to private rows.

    Everything between two stages must follow from public figures and from what :meth:`run` returned, and from nothing
    else that was noised: then a retry comes to the same stages.

    Args:
        read: runs private reads with the charge.
        stored: gives the payloads that earlier attempts stored, in order; asked once, and not for a single stage.
        keep: stores the payload of a stage, by its number, durably; returns the one that is stored.
    """

    def __init__(
        self,
        read: Read,
        *,
        stored: Callable[[], Sequence[str]] = tuple,
        keep: Callable[[int, str], str] = lambda _, payload: payload,
    ) -> None:
        super().__init__(read)
        self._stored, self._keep = stored, keep
        self._known: Sequence[str] | None = None
        self._number = 0

    def run(self, draw: Callable[[], str]) -> str:
        """The noisy output of the next stage: the stored one, or what is drawn now and stored before this returns.

        Args:
            draw: reads, adds noise and returns the noisy figures; never an exact value.
        """
        if self._known is None:
            self._known = self._stored()
        number, self._number = self._number, self._number + 1
        return self._known[number] if number < len(self._known) else self._keep(number, self._drawn(draw))

    def last(self, draw: Callable[[], str]) -> str:
        """The last stage, whose output is the release: stored as that, and not by itself."""
        payload, self._ended = self._drawn(draw), True
        return payload


Work = Callable[[Stages], str]
"""The private part of a task: runs its stages and returns the payload (JSON) that may leave and is stored."""


@runtime_checkable
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


@runtime_checkable
class Task(Charged, Protocol):
    """A private release: stages under one charge, each shaped by what the ones before it released."""

    def work(self, salt: int) -> Work:
        """The private part, for a charge to come; ``salt`` keys the hashes that bound contributions.

        A single read is printed here: what cannot be printed is refused before the charge.
        """


class OneRead(ABC):
    """The stages of a task that has one, which reads once."""

    @abstractmethod
    def query(self, salt: int) -> PrivateQuery:
        """The one private read, as SQL of our own."""

    @abstractmethod
    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Noise what the read gives, and write the payload (JSON).

        Args:
            rows: of :meth:`query`. Exact private values: never logged, stored or raised.
        """

    def work(self, salt: int) -> Work:
        """One stage; see :meth:`Task.work`."""
        query = self.query(salt)
        return lambda stages: stages.last(lambda: self.release(stages.read(query)))


def reads_all_rows(task: Charged, salt: int) -> bool:
    """Whether a release rests on a read that parts of the rows do not tell (``core.reads.OfAllRows``).

    A task of several reads says so by ``of_all_rows``; ``tests/privacy/test_parts.py`` compares it with what they do.
    """
    if isinstance(task, OneRead):
        return not task.query(salt).parts.known
    return bool(getattr(task, "of_all_rows", False))


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a question to an interactive release came to.

    Attributes:
        output: what leaves: noisy figures, or what follows from such; never an exact value.
        secret: noise, or a noised figure, for later steps, that must not leave; none if nothing new is kept.
        last: the release ends with this step; decided by outputs and public figures alone.
    """

    output: str
    secret: str | None = field(default=None, repr=False)
    last: bool = False


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question to an interactive release.

    Attributes:
        canonical: text that is equal for equal questions; an equal question is given the stored output.
        draw: reads, adds noise, gives the step. It must follow from its arguments and fresh noise alone.
    """

    canonical: str
    draw: Callable[[Read, Past], Step]


@runtime_checkable
class Interactive(Charged, Protocol):
    """A private release of open-ended stages: question after question under one charge, which pays for all of them.

    Its ``loss`` holds for questions that are chosen one after another in view of all outputs so far, whatever their
    number.
    """

    def begin(self) -> str:
        """Draw the secret state from which all steps follow; from public figures, before the charge."""


class Dialogue(_Draws):
    """An interactive release under way: the only way of its questions to private rows.

    Privacy:      as one undisturbed run of the mechanism: a step is stored before its output leaves, an equal question
                  is given the stored output, and a step is kept only as the next after those that its drawing knew.
    Assumes:      ``keep`` stores durably and refuses a number that is not the next (ledger/interactions.py, where the
                  proof is).

    Args:
        read: runs private reads with the charge.
        past: gives the stored steps, by the keys of what was asked; and whether it ended.
        keep: stores a step by its number and key, durably; returns the output that is stored, and whether it is this
            step's: an attempt that was interrupted may have stored one.
        key: of a canonical text.
    """

    def __init__(
        self,
        read: Read,
        *,
        past: Callable[[], tuple[Steps, bool]],
        keep: Callable[[int, str, Step], tuple[str, bool]],
        key: Callable[[str], str] = lambda text: text,
    ) -> None:
        super().__init__(read)
        self._past, self._keep, self._key = past, keep, key
        self._known: Steps | None = None

    def ask(self, question: Question) -> str | None:
        """The output of a question: the stored one, or what is drawn now and stored before this returns.

        Returns:
            None: the release has ended, and the question was never asked.
        """
        known, key = self._steps(), self._key(question.canonical)
        if (stored := known.output(key)) is not None:
            return stored
        if self._ended:
            return None
        step = self._drawn(lambda: question.draw(self.read, known.past()))
        self._known = None  # until this step is known to be the stored one
        output, ours = self._keep(len(known), key, step)
        if ours:
            stored_step = StoredStep(question=key, output=step.output, secret=step.secret)
            self._known, self._ended = known.and_then([stored_step]), step.last
        return output

    def _steps(self) -> Steps:
        if self._known is None:
            self._known, self._ended = self._past()
        return self._known
