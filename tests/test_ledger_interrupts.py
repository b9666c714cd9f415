"""Ctrl-C at every point: nothing is left open, locked or damaged, nothing is lost, and the next question is answered.

Python raises KeyboardInterrupt in the main thread between any two of its steps; here at every call, line and return of
the ledger's code, one run per point. The traceback is kept, as an interactive shell does: frames that hold a
transaction or a lock must not matter.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from duckdp.errors import LedgerError
from duckdp.ledger import Charge, Ledger, StoredRelease, anchor
from tests.interruptions import interrupted, others_can_write, steps
from tests.ledgers import ask, set_up

LEDGER = ("ledger",)
OTHERS = ("open", "create", "backup", "read")


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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an interrupt as a Charge is collected
def test_a_question_interrupted_anywhere_is_answered_when_it_is_asked_again(ledger: Ledger) -> None:
    points = steps(lambda: one_question(ledger, "counted"), LEDGER)
    assert points > 50
    kept = []
    for at in range(1, points + 1):
        kept.append(interrupted(lambda at=at: one_question(ledger, f"q{at}"), at, LEDGER))
        ledger._store.write(lambda tx: None)  # the transaction of an interrupted wait may be under way: comes after it
        others_can_write(ledger.path)
        assert one_question(ledger, f"q{at}").payload == "42", at
    assert sum(error is not None for error in kept) > points // 2
    assert ledger.state().primary_spent == 1000 * len(ledger.charges())
    assert len(ledger.charges()) == points + 1  # one charge a question, however often it was asked
    with Ledger.open(ledger.path, create=False) as again:
        assert len(again.charges()) == points + 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an interrupt within a finalizer
@pytest.mark.parametrize("name", OTHERS)
def test_an_interrupt_somewhere_else_leaves_nothing_behind(ledger: Ledger, tmp_path: Path, name: str) -> None:
    interrupt(ledger, tmp_path, name, 40)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", OTHERS)
def test_an_interrupt_anywhere_else_leaves_nothing_behind(ledger: Ledger, tmp_path: Path, name: str) -> None:
    interrupt(ledger, tmp_path, name, 10**6)


def interrupt(ledger: Ledger, tmp_path: Path, name: str, most: int) -> None:
    """Interrupt at so many of the points."""
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

    points = steps(lambda: work(0), LEDGER)
    kept = []
    for at in range(1, points + 1, 1 + points // most):
        kept.append(interrupted(lambda at=at: work(at), at, LEDGER))
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


@pytest.mark.parametrize("act", ["create", "advance", "read"])
def test_no_interrupt_leaves_an_anchor_locked(tmp_path: Path, act: str) -> None:
    """Its file is locked, and the lock goes with the last descriptor: one that is left behind locks all out."""
    path = str(tmp_path / "a.ledger")
    count = iter(range(1, 10**6))

    def work() -> None:
        position = anchor.Position(dataset_id="a", count=next(count), digest="b")
        if act == "read":
            with suppress(LedgerError):
                anchor.read(path)
        else:
            anchor.advance(path, position, create=act == "create")

    def begin() -> None:
        (tmp_path / "a.ledger.anchor").unlink(missing_ok=True)
        if act == "advance":
            anchor.advance(path, anchor.Position(dataset_id="a", count=0, digest="b"), create=True)
        elif act == "read":
            (tmp_path / "a.ledger.anchor").write_bytes(b"looks damaged, and may be half written")

    begin()
    points = steps(work, LEDGER)
    assert points > 20
    kept = []
    for at in range(1, points + 1):
        begin()
        kept.append(interrupted(work, at, LEDGER))
        if (tmp_path / "a.ledger.anchor").exists():
            with open(tmp_path / "a.ledger.anchor", "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where somebody holds it
    assert sum(error is not None for error in kept) > points * 0.8


def move(path: Path) -> None:
    with Ledger.open(path, create=False) as ledger:
        ledger.move_anchor(path.parent / "other" / "anchor", reason="for a test")


def serve(path: Path) -> None:
    with Ledger.open(path, create=False) as ledger:
        if ledger.state().backup is not None:
            ledger.put_into_service(reason="for a test", nothing_lost=True)


def repair(path: Path) -> None:
    Ledger.repair_anchor(path, "for a test")


def own(path: Path) -> None:
    with Ledger.open(path, create=False) as ledger:
        ledger.grant("bob", epsilon_nano=1000, delta_atto=0, raise_to=True)
        ledger.save_table("visits", "{}")
        ledger.freeze("for a test")
        ledger.unfreeze("for a test")


OWNERS = {work.__name__: work for work in (move, serve, repair, own)}


def interrupt_owner(folder: Path, name: str, most: int) -> None:
    """An act of the owner's is interrupted, on a ledger of its own each time, and done again."""
    template, place = folder / "template", folder / "place"
    (template / "other").mkdir(parents=True)
    with Ledger.open(template / "a.ledger") as ledger:
        one_question(set_up(ledger), "first")
        if name == "serve":
            ledger.backup(folder / "copy.ledger")
            for suffix in ("", ".anchor"):
                (folder / f"copy.ledger{suffix}").replace(folder / f"a.ledger{suffix}")
    if name == "serve":
        shutil.rmtree(template)
        template.mkdir()
        for suffix in ("", ".anchor"):
            (folder / f"a.ledger{suffix}").replace(template / f"a.ledger{suffix}")
    if name == "repair":
        (template / "a.ledger.anchor").write_bytes(b"lost")
    work, path = OWNERS[name], place / "a.ledger"

    def begin() -> None:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(template, place)

    begin()
    points = steps(lambda: work(path), LEDGER)
    assert points > 100
    for at in range(1, points + 1, 1 + points // most):
        begin()
        error = interrupted(lambda: work(path), at, LEDGER)
        others_can_write(path)
        work(path)
        with Ledger.open(path, create=False) as again:
            assert one_question(again, "first").payload == "42", at
            one_question(again, "second")
            assert again.state().primary_spent == 2000
            again.verify()
        del error


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", OWNERS)
def test_an_act_of_the_owners_interrupted_somewhere_is_done_again(tmp_path: Path, name: str) -> None:
    interrupt_owner(tmp_path, name, 25)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", OWNERS)
def test_an_act_of_the_owners_interrupted_anywhere_is_done_again(tmp_path: Path, name: str) -> None:
    interrupt_owner(tmp_path, name, 10**6)
