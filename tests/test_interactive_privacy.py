"""The privacy of an interactive release, crashes included, computed exactly.

All draws of the noise are enumerated with their probabilities, over small counts, for what an analyst asks and where
they end attempts; and the largest ratio between neighbours of what is seen is compared with what was charged.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from duckdp.core.steps import Past, Steps, StoredStep
from duckdp.core.task import Dialogue, Question, Step
from duckdp.core.types import NANO
from tests import above
from tests.above import AboveThreshold
from tests.test_interactive import Killed, about

WIDE = 10  # the threshold's noise from here on is taken for FAR
FAR = 60


def two_sided(k: int) -> Fraction:
    """P(Z = k) of discrete Laplace noise of scale 1 / ln 2."""
    return Fraction(1, 3) / 2 ** abs(k)


def at_least(k: int) -> Fraction:
    """P(Z >= k)."""
    return Fraction(2, 3) / 2**k if k >= 1 else 1 - Fraction(1, 3) / 2 ** (-k)


@dataclass
class Chooser:
    """Runs a program once for each way that its noise can fall, with the way's probability."""

    made: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    at: int = 0
    weight: Fraction = Fraction(1)

    def pick(self, laws: list[Fraction]) -> int:
        if self.at == len(self.made):
            self.made.append(0)
            self.sizes.append(len(laws))
        chosen = self.made[self.at]
        self.at += 1
        self.weight *= laws[chosen]
        return chosen

    def next(self) -> bool:
        """Move to the next way; False after the last."""
        while self.made:
            self.made[-1] += 1
            if self.made[-1] < self.sizes[len(self.made) - 1]:
                return True
            self.made.pop()
            self.sizes.pop()
        return False


class Lazy:
    """Noise of a question, of which only a comparison is ever seen: it chooses the comparison's outcome."""

    def __init__(self, chooser: Chooser, shift: int = 0) -> None:
        self.chooser, self.shift = chooser, shift

    def __radd__(self, other: int) -> Lazy:
        return Lazy(self.chooser, self.shift + other)

    def __ge__(self, bound: int) -> bool:
        above_it = at_least(bound - self.shift)
        return self.chooser.pick([above_it, 1 - above_it]) == 0


@dataclass(frozen=True)
class Ask:
    """A move of an analyst: which question, and where the attempt ends, if it does (then a new process goes on)."""

    name: str
    ends: str | None = None


class Memory:
    """What the ledger keeps of one release, in memory: for the enumeration, and in broken ways for its twins."""

    def __init__(self, *, forgets_secret: bool = False, forgets_steps: bool = False) -> None:
        self.steps: list[StoredStep] = []
        self.ended = False
        self.forgets_secret, self.forgets_steps = forgets_secret, forgets_steps

    def take_up(self, secret: str) -> None:
        if not self.steps:
            self.steps.append(StoredStep(question="", output="", secret=secret))
        elif self.forgets_secret:
            self.steps[0] = StoredStep(question="", output="", secret=secret)

    def keep(self, number: int, asked: str, step: Step) -> tuple[str, bool]:
        for old in self.steps[1:]:
            if old.question == asked and not self.forgets_steps:
                return old.output, False
        assert self.forgets_steps or number == len(self.steps)
        self.steps.append(StoredStep(question=asked, output=step.output, secret=step.secret))
        self.ended = step.last and not self.forgets_steps
        return step.output, True


def transcript(
    chooser: Chooser, moves: tuple[Ask, ...], counts: dict[str, int], task: AboveThreshold, memory: Memory
) -> tuple[str, ...]:
    """What an analyst sees of one run."""

    def die(where: str) -> None:
        if where == ends:
            raise Killed

    def keep(number: int, asked: str, step: Step) -> tuple[str, bool]:
        die("before storing")
        kept = memory.keep(number, asked, step)
        die("after storing")
        return kept

    def drawn(question: Question) -> Question:
        def step(read: Any, past: Past) -> Step:
            die("before drawing")
            found = question.draw(read, past)
            die("after drawing")
            return found

        return Question(canonical=question.canonical, draw=step)

    laws = [at_least(WIDE), *(two_sided(k) for k in range(1 - WIDE, WIDE)), at_least(WIDE)]
    noises = [-FAR, *range(1 - WIDE, WIDE), FAR]
    seen: list[str] = []
    talk = None
    for move in moves:
        ends = move.ends
        try:
            if talk is None:
                if not memory.steps or memory.forgets_secret:
                    memory.take_up(json.dumps(noises[chooser.pick(laws)]))
                known = memory.steps[:1] if memory.forgets_steps else memory.steps
                talk = Dialogue(
                    lambda query: [(counts[query.sql],)],
                    past=lambda known=known: (Steps(known), memory.ended),
                    keep=keep,
                )
            seen.append(str(talk.ask(drawn(about(move.name, task)))))
            talk = None if ends == "once told" else talk
        except Killed:
            talk = None
            seen.append("killed")
    return tuple(seen)


def law(
    moves: tuple[Ask, ...], counts: dict[str, int], task: AboveThreshold, make: Callable[[], Memory]
) -> dict[tuple[str, ...], Fraction]:
    """The exact law of what is seen, with the noise of the threshold cut at WIDE."""
    found: dict[tuple[str, ...], Fraction] = {}
    chooser = Chooser()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(above, "draw", lambda _, l1: Lazy(chooser) if l1 == task.hits else pytest.fail("another scale"))
        while True:
            chooser.at, chooser.weight = 0, Fraction(1)
            seen = transcript(chooser, moves, counts, task, make())
            found[seen] = found.get(seen, Fraction(0)) + chooser.weight
            if not chooser.next():
                return found


def worst_ratio(
    moves: tuple[Ask, ...],
    one: dict[str, int],
    two: dict[str, int],
    task: AboveThreshold,
    make: Callable[[], Memory] = Memory,
) -> Fraction:
    """The largest ratio of probabilities of what is seen between neighbours, either way, that is surely reached."""
    laws = law(moves, one, task, make), law(moves, two, task, make)
    assert all(sum(found.values()) == 1 for found in laws)
    # The noise is WIDE out or more with 2/3 2^-WIDE each way; a comparison then goes the other way than for FAR with at
    # most 2/3 2^-(WIDE - span).
    span = max(abs(task.threshold - count) for counts in (one, two) for count in counts.values())
    error = len(moves) * Fraction(2) ** (span - 2 * WIDE)
    worst = Fraction(1)
    for seen in laws[0].keys() | laws[1].keys():
        low, high = sorted(found.get(seen, Fraction(0)) for found in laws)
        worst = max(worst, (high - error) / (low + error))
    return worst


# With noise of scale 1 / ln 2 for the threshold and for each answer: e1 = ln 2, e2 = hits * ln 2.
ENDS = (None, "before drawing", "after drawing", "before storing", "after storing", "once told")


def sample(threshold: int = 0, hits: int = 1) -> AboveThreshold:
    return AboveThreshold(name="s", threshold=threshold, hits=hits, epsilon_nano=NANO)


def bound(task: AboveThreshold) -> Fraction:
    """e^epsilon."""
    return Fraction(2) ** (1 + task.hits)


@pytest.mark.parametrize("hits", [1, 2])
def test_the_loss_is_what_was_charged_wherever_attempts_end(hits: int) -> None:
    task = sample(hits=hits)
    one, two = {"a": 0, "b": 0, "c": 0}, {"a": 1, "b": 0, "c": 1}
    for number, ends in enumerate(product(ENDS, repeat=2)):
        first, second, third = ("aab", "abc", "bac")[number % 3]
        moves = (Ask(first, ends[0]), Ask(second, ends[1]), Ask(first), Ask(third))
        assert worst_ratio(moves, one, two, task) <= bound(task)


def test_the_loss_of_many_questions_comes_close_to_it_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process but the last dies after storing; the next one is told the answer at no cost, and asks on."""
    monkeypatch.setattr(sys.modules[__name__], "WIDE", 16)
    task = sample(threshold=-3)
    names = [f"q{k}" for k in range(4)]
    moves = tuple(move for name in names for move in (Ask(name, "after storing"), Ask(name)))
    one, two = dict.fromkeys(names, 0), dict.fromkeys(names, 1) | {names[-1]: 0}
    assert bound(task) * Fraction(7, 8) < worst_ratio(moves, one, two, task) <= bound(task)


def test_counts_that_move_apart_are_no_business_of_this_claim() -> None:
    """The broken twin of the mechanism: its noise is for counts that move in one direction."""
    task, names = sample(threshold=-3), ["q0", "q1", "q2", "q3"]
    one, two = dict.fromkeys(names, 0) | {"q3": 1}, dict.fromkeys(names, 1) | {"q3": 0}
    assert worst_ratio(tuple(Ask(name) for name in names), one, two, task) > bound(task)


def restarts(task: AboveThreshold, make: Callable[[], Memory]) -> Fraction:
    """Three questions, each in a process of its own, whose counts are all one larger on the neighbour."""
    moves = (Ask("a", "after storing"), Ask("a"), Ask("b", "after storing"), Ask("b"), Ask("c"))
    return worst_ratio(moves, dict.fromkeys("abc", 0), dict.fromkeys("abc", 1), task, make)


def test_a_twin_that_draws_the_threshold_anew_after_a_restart_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "WIDE", 8)
    task = sample(threshold=-1)
    assert restarts(task, lambda: Memory(forgets_secret=True)) > bound(task) >= restarts(task, Memory)


def test_a_twin_that_forgets_its_steps_is_caught() -> None:
    """Asked the same again, it draws again; and it forgets that it has ended."""
    moves, task = (Ask("a", "once told"), Ask("b", "once told")) * 3, sample(threshold=1)
    one, two = {"a": 0, "b": 0}, {"a": 1, "b": 0}
    assert worst_ratio(moves, one, two, task, lambda: Memory(forgets_steps=True)) > bound(task)
    assert worst_ratio(moves, one, two, task) <= bound(task)
