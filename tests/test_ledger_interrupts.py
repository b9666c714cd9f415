"""Ctrl-C at every point: nothing is left open, locked or damaged, nothing is lost, and the next question is answered.

Python raises KeyboardInterrupt in the main thread between any two of its steps; here at every call, line and return of
the ledger's code, one run per point. The traceback is kept, as an interactive shell does: frames that hold a
transaction or a lock must not matter.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import duckdp
from duckdp.errors import DuckDPError
from duckdp.ledger import Charge, Ledger, StoredRelease
from tests.ledgers import ask, set_up

LEDGER = str(Path(duckdp.__file__).parent / "ledger")


class Interruptions:
    """Raises KeyboardInterrupt at the n-th step of the watched code in this thread."""

    def __init__(self, at: int) -> None:
        self.left, self.steps = at, 0

    def __enter__(self) -> Interruptions:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(LEDGER):
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


def steps(work: Callable[[], object]) -> int:
    with Interruptions(-1) as counted:
        work()
    return counted.steps


def interrupted(work: Callable[[], object], at: int) -> BaseException | None:
    """Runs work with an interrupt at that step; the error keeps its traceback and all frames."""
    try:
        with Interruptions(at):
            work()
    except (KeyboardInterrupt, DuckDPError) as error:
        return error
    return None


def one_question(ledger: Ledger, question: str) -> StoredRelease:
    charge = ledger.admit(ask(question, 1000))
    if isinstance(charge, Charge):
        try:
            return ledger.store_release(charge, "42")
        except BaseException:
            with suppress(KeyboardInterrupt):
                ledger.fail(charge)
            raise
    return charge


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "a.ledger") as opened:
        yield set_up(opened)


def others_can_write(path: str) -> None:
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    finally:
        connection.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an interrupt as a Charge is collected
def test_a_question_interrupted_anywhere_is_answered_when_it_is_asked_again(ledger: Ledger) -> None:
    points = steps(lambda: one_question(ledger, "counted"))
    assert points > 50
    kept = []
    for at in range(1, points + 1):
        kept.append(interrupted(lambda at=at: one_question(ledger, f"q{at}"), at))
        ledger._store.write(lambda tx: None)  # the transaction of an interrupted wait may be under way: comes after it
        others_can_write(ledger.path)
        assert one_question(ledger, f"q{at}").payload == "42", at
    assert sum(error is not None for error in kept) > points // 2
    assert ledger.state().primary_spent == 1000 * len(ledger.charges())
    assert len(ledger.charges()) == points + 1  # one charge a question, however often it was asked
    with Ledger.open(ledger.path, create=False) as again:
        assert len(again.charges()) == points + 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an interrupt within a finalizer
@pytest.mark.parametrize("name", ["open", "create", "backup", "read"])
def test_an_interrupt_anywhere_else_leaves_nothing_behind(ledger: Ledger, tmp_path: Path, name: str) -> None:
    one_question(ledger, "first")

    def work(at: int) -> None:
        if name == "open":
            Ledger.open(ledger.path, create=False).close()
        elif name == "create":
            Ledger.open(tmp_path / f"new{at}.ledger").close()
        elif name == "backup":
            ledger.backup(tmp_path / f"backup{at}.ledger")
        else:
            ledger.charges()

    points = steps(lambda: work(0))
    kept = []
    for at in range(1, points + 1, 1 + points // 40):
        kept.append(interrupted(lambda at=at: work(at), at))
        others_can_write(ledger.path)
        if name == "create":
            with Ledger.open(tmp_path / f"new{at}.ledger") as made:
                assert made.state().primary_spent == 0
        if name == "backup":
            target = tmp_path / f"backup{at}.ledger"
            if not target.exists():
                ledger.backup(target)
            with Ledger.open(target, create=False) as copy:
                assert copy.state().backup
        assert one_question(ledger, "first").payload == "42"
    assert any(error is not None for error in kept)
