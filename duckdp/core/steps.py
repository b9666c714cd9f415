"""The steps of an interactive release in their order: a list that only grows, and what has been made of it so far.

A release may have 100,000 steps, and each question needs those before it. So nothing here is copied or read again for
a question: longer and shorter lists of one release share one memory, each with a length of its own; a question is found
by its key; and what a mechanism makes of all outputs goes on from what it made of the first of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast, overload

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class StoredStep:
    """A step of an interactive release as it is stored.

    Attributes:
        question: digest of the canonical text of what was asked; "" for the step from which all begins.
        output: what left.
        secret: noise that never leaves, for later steps; only who goes on with the release is given it.
    """

    question: str
    output: str
    secret: str | None = field(default=None, repr=False)


class First(Sequence[T], Generic[T]):
    """The first of a list that others may append to, read only; equal to a tuple of the same."""

    def __init__(self, items: list[T], length: int) -> None:
        self._items, self._length = items, length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self._items[i] for i in range(*index.indices(self._length)))
        return self._items[range(self._length)[index]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (First, tuple)) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


class Followed:
    """What was made of outputs, one after the other: the last of it, and of how many; outputs alone are in it."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[int, object]] = {}

    def of(self, outputs: Sequence[str], name: str, start: T, go_on: Callable[[T, str], T]) -> T:
        """``go_on`` of each output in turn; only those are looked at that were not there the last time."""
        known, made = self._made.get(name, (0, start))
        if known > len(outputs):  # somebody went on from here
            known, made = 0, start
        found = cast("T", made)
        for i in range(known, len(outputs)):
            found = go_on(found, outputs[i])
        self._made[name] = (len(outputs), found)
        return found


@dataclass(frozen=True, kw_only=True)
class Past:
    """What an interactive release has come to so far; the whole of what a next step may follow from, beside the data.

    Attributes:
        outputs: of the steps, in order; they left.
        secrets: what the steps kept, in order, the first drawn before all questions. Never to be raised, logged or put
            into an output.
        followed: what was made of the outputs before.
    """

    outputs: Sequence[str]
    secrets: Sequence[str] = field(repr=False)
    followed: Followed = field(default_factory=Followed, repr=False, compare=False)

    def follow(self, name: str, start: T, go_on: Callable[[T, str], T]) -> T:
        """What follows from all outputs in their order: ``go_on(go_on(start, first), second)`` and so on.

        What it comes to is remembered with the steps, so an output is looked at once, not with each question after it.

        Args:
            name: of what is made: the task's identity. Equal names are of equal ``start`` and ``go_on``.
            start: of no output; like all that ``go_on`` gives never changed.
            go_on: of what was made so far and the next output; it follows from these two alone.
        """
        return self.followed.of(self.outputs, name, start, go_on)


class _Shared:
    """What lists of steps have in common: all steps of the longest."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.steps: list[StoredStep] = []
        self.outputs: list[str] = []  # but the first's
        self.secrets: list[str] = []
        self.places: dict[str, int] = {}  # by question
        self.followed = Followed()

    def append(self, step: StoredStep) -> None:
        """One step more; the lists that were made before do not have it."""
        if self.steps:
            self.outputs.append(step.output)
            self.places.setdefault(step.question, len(self.steps))
        if step.secret is not None:
            self.secrets.append(step.secret)
        self.steps.append(step)


class Steps(Sequence[StoredStep]):
    """Steps in order, never changed; the first is without a question.

    Args:
        steps: to begin with.
    """

    def __init__(self, steps: Iterable[StoredStep] = ()) -> None:
        self._shared = _Shared()
        for step in steps:
            self._shared.append(step)
        self._length, self._secrets = len(self._shared.steps), len(self._shared.secrets)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> StoredStep: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[StoredStep, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return First(self._shared.steps, self._length)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Steps) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self._length} steps>"

    def output(self, question: str) -> str | None:
        """What a question was answered, by its key; None if it was not asked."""
        place = self._shared.places.get(question, self._length)
        return self._shared.steps[place].output if place < self._length else None

    def past(self) -> Past:
        """What a next step follows from."""
        outputs = First(self._shared.outputs, max(0, self._length - 1))
        secrets = First(self._shared.secrets, self._secrets)
        return Past(outputs=outputs, secrets=secrets, followed=self._shared.followed)

    def and_then(self, steps: Iterable[StoredStep]) -> Steps:
        """These and others after them. Time and memory are those of the others, where nobody else went on otherwise."""
        more, shared = list(steps), self._shared
        with shared.lock:
            there = shared.steps[self._length : self._length + len(more)]
            if there != more[: len(there)]:
                return Steps([*shared.steps[: self._length], *more])
            for step in more[len(there) :]:
                shared.append(step)
        found = Steps.__new__(Steps)
        found._shared, found._length = shared, self._length + len(more)
        found._secrets = self._secrets + sum(step.secret is not None for step in more)
        return found

    def without_secrets(self) -> Steps:
        """The same, but what must not leave."""
        if not self._secrets:
            return self
        return Steps(StoredStep(question=step.question, output=step.output) for step in self)
