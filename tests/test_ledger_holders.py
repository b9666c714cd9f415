"""Who works on a charge: others wait while somebody does, are told so, and redeem it as soon as nobody does any more.

The others are another process, which sees the ledger and the kernel's locks alone. The holder lives on in every test,
unless it says otherwise, and keeps the tracebacks of its errors with all their frames, as an interactive shell does.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import duckdp
from duckdp.errors import DuckDPError, LedgerError
from duckdp.ledger import Charge, Claim, Ledger, charges, holders, locks
from tests.interruptions import Interruptions
from tests.ledgers import NANO, answer, ask, refused, set_up

ROOT = Path(__file__).resolve().parents[1]
LEDGER, SESSION = ("ledger",), ("ledger", "session.py")
#: For each line "question epsilon_nano patience": asks, answers if it may, and says what came of it.
OTHER = """
import json, sys
from duckdp.errors import DuckDPError
from duckdp.ledger import Charge, Ledger
from tests.ledgers import ask
with Ledger.open(sys.argv[1], create=False) as ledger:
    print("ready", flush=True)
    for line in sys.stdin:
        question, cost, ledger.patience = (json.loads(part) for part in line.split())
        try:
            got = ledger.admit(ask(question, cost))
            attempt = got.attempt if isinstance(got, Charge) else 0
            got = ledger.store_release(got, "other") if attempt else got
            told = [got.payload, attempt]
        except DuckDPError as error:
            told = [error.code, error.message]
        print(json.dumps(told), flush=True)
"""


class Other:
    """Another process with the same ledger."""

    def __init__(self, path: str) -> None:
        command = [sys.executable, "-W", "error", "-c", OTHER, path]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment, cwd=ROOT)
        assert self._process.stdout.readline() == "ready\n"

    def asks(self, question: str, cost: int = 1000, patience: float = 0.0) -> list:
        self.begins(question, cost, patience)
        return self.told()

    def begins(self, question: str, cost: int = 1000, patience: float = 0.0) -> None:
        self._process.stdin.write(f"{json.dumps(question)} {cost} {patience}\n")
        self._process.stdin.flush()

    def told(self) -> list:
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=600)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "a.ledger") as opened:
        yield set_up(opened)


@pytest.fixture
def other(ledger: Ledger) -> Iterator[Other]:
    found = Other(ledger.path)
    yield found
    found.close()


def claimed_question(ledger: Ledger, question: str) -> str:
    """As a session asks: whatever happens, the end of the work is told."""
    claim = Claim()
    try:
        got = ledger.admit(ask(question, 1000), claim=claim)
        return ledger.store_release(got, "42").payload if isinstance(got, Charge) else got.payload
    finally:
        claim.end()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an interrupt as a Charge is collected
def test_whoever_is_interrupted_anywhere_blocks_nobody(ledger: Ledger, other: Other) -> None:
    """Interrupted at every point, and nothing is told to the ledger afterwards; the holder lives on, idle."""
    kept, attempts, ended = [], set(), False
    for at in itertools.count(1):  # until a question comes to its end: how many steps it has varies a little
        try:
            with Interruptions(at, LEDGER):
                claimed_question(ledger, f"q{at}")
            ended = True
        except KeyboardInterrupt as error:
            kept.append(error)
        ledger._store.write(lambda tx: None)  # the transaction of an interrupted wait may be under way: comes after it
        payload, attempt = other.asks(f"q{at}")
        assert payload in ("42", "other"), (at, payload, attempt)
        attempts.add(attempt)
        if ended:
            break
    assert len(kept) > 100
    assert attempts == {0, 1, 2}  # answered before, never charged, charged and given up
    assert ledger.state().primary_spent == 1000 * len(ledger.charges())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_session_that_is_interrupted_anywhere_blocks_nobody(curator: duckdp.Curator) -> None:
    """Another thread of the process asks the same; at the points between charge and read too."""
    session, kept, second = curator.session("ana"), [], ThreadPoolExecutor(1)
    curator.ledger.patience = 0.0

    def asked(at: int) -> object:
        text = f"SELECT count(*) FROM visits WHERE cost > {at}"
        return session.sql(text, epsilon="0.001").one()

    asked(0)
    with Interruptions(-1, SESSION) as counted:
        asked(1)
    for at in range(2, counted.steps + 1, 1 + counted.steps // 150):
        try:
            with Interruptions(at, SESSION):
                asked(at)
        except (KeyboardInterrupt, DuckDPError) as error:
            kept.append(error)
        curator.ledger._store.write(lambda tx: None)
        second.submit(asked, at).result()
    second.shutdown()
    assert len(kept) > 50
    assert all(c.state == "released" for c in curator.ledger.charges())


def test_a_failure_that_cannot_be_written_blocks_nobody(
    ledger: Ledger, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge = ledger.admit(ask("a", 1000))

    def full(*_: object) -> None:
        raise LedgerError("B207", "the disk is full")

    monkeypatch.setattr(charges, "fail", full)
    with refused("B207"):
        ledger.fail(charge)
    assert ledger.charges()[0].state == "open"
    assert other.asks("a") == ["other", 2]


@pytest.mark.parametrize("ending", ["dropped", "claim", "failed"])
def test_work_that_ended_blocks_nobody(ledger: Ledger, other: Other, ending: str) -> None:
    claim = Claim()
    charge = ledger.admit(ask("a", 1000), claim=claim)
    assert other.asks("a")[0] == "B206"
    if ending == "dropped":
        del charge
    elif ending == "claim":
        claim.end()
    else:
        ledger.fail(charge)
    assert other.asks("a") == ["other", 2]


def test_a_claim_that_ended_before_its_charge_was_handed_out_holds_nothing(ledger: Ledger, other: Other) -> None:
    claim = Claim()
    claim.end()
    charge = ledger.admit(ask("a", 1000), claim=claim)
    assert other.asks("a") == ["other", 2]
    assert ledger.store_release(charge, "mine").payload == "other"


def test_whoever_waits_is_told_soon_and_is_given_the_answer_later(ledger: Ledger, other: Other) -> None:
    charge = ledger.admit(ask("a", 1000))
    code, message = other.asks("a", patience=0.05)
    assert code == "B206"
    assert "charge 1" in message
    assert "Ask it again" in message
    other.begins("a", patience=600)  # waits, however slow this machine is
    ledger.store_release(charge, "mine")
    assert other.told() == ["mine", 0]
    assert (ledger.state().primary_spent, ledger.charges()[0].attempt) == (1000, 1)


def test_waiting_can_be_ended(ledger: Ledger) -> None:
    held = ThreadPoolExecutor(1).submit(ledger.admit, ask("a")).result()
    looks = []

    def check() -> None:
        looks.append(1)
        if len(looks) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.admit(ask("a"), check=check)
    assert ledger.store_release(held, "x").payload == "x"


def test_interrupting_the_engine_ends_the_waiting_of_a_session(curator: duckdp.Curator) -> None:
    held, waiting = [], threading.Event()
    ledger, real = curator.ledger, curator.ledger.admit

    def admit(request, *, claim, check, new):  # the same question is held by this thread first
        held.append(real(request))

        def looked() -> None:
            waiting.set()
            check()

        return real(request, claim=claim, check=looked)

    ledger.admit, ledger.patience = admit, 600.0  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(holders, "working", lambda *_: True)
        asked = pool.submit(curator.session("ana").noisy_count, "visits", epsilon=1)
        assert waiting.wait(600)
        curator.engine.interrupt()
        with refused("E102"):
            asked.result(600)


# ---- the locks ------------------------------------------------------------------------------------------------------


def test_a_lock_is_seen_by_other_processes_until_it_is_free(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    lock = locks.take(path, 7)
    assert lock is not None
    look = "import sys; from duckdp.ledger import locks; print(*[locks.is_taken(sys.argv[1], i) for i in (7, 8)])"
    command, environment = [sys.executable, "-c", look, path], os.environ | {"PYTHONPATH": str(ROOT)}

    def seen() -> str:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    os.close(os.open(path + locks.SUFFIX, os.O_RDWR))  # what ends a lock of POSIX does not end this one
    assert seen() == "True False"
    assert locks.take(path, 7) is None
    lock.free()
    lock.free()
    assert seen() == "False False"


def test_the_file_of_locks_never_grows_and_is_nobody_elses(ledger: Ledger) -> None:
    for i in range(50):
        answer(ledger, ask(i, 1000))
    found = os.stat(ledger.path + locks.SUFFIX)
    assert (found.st_size, stat.S_IMODE(found.st_mode)) == (0, 0o600)


def test_a_lost_file_of_locks_is_made_anew(ledger: Ledger, other: Other) -> None:
    answer(ledger, ask("a", 1000))
    os.unlink(ledger.path + locks.SUFFIX)
    charge = ledger.admit(ask("b", 1000))
    assert other.asks("b")[0] == "B206"
    assert ledger.store_release(charge, "42").payload == "42"
    with Ledger.open(ledger.path, create=False) as again:
        assert len(again.charges()) == 2


def test_a_file_of_locks_that_cannot_be_opened_is_a_coded_error_before_any_charge(ledger: Ledger) -> None:
    os.mkdir(ledger.path + locks.SUFFIX)
    with refused("B207"):
        ledger.admit(ask("a", 1000))
    assert not ledger.charges()
    os.rmdir(ledger.path + locks.SUFFIX)
    assert answer(ledger, ask("a", 1000)).payload == "42"


def test_no_descriptor_is_left_over(ledger: Ledger) -> None:
    def many(start: int) -> int:
        for i in range(start, start + 30):
            charge = ledger.admit(ask(i, 1000))
            if i % 3 == 0:
                ledger.store_release(charge, "42")
            elif i % 3 == 1:
                ledger.fail(charge)
            del charge
            with refused("B101"):
                ledger.admit(ask(f"too much {i}", 11 * NANO))
        return len(os.listdir("/proc/self/fd"))

    assert many(0) == many(30)


def test_without_such_locks_the_life_of_the_process_decides(
    ledger: Ledger, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it does in ledgers of earlier versions, and where somebody else still holds the lock of a charge."""
    monkeypatch.setattr(locks, "_SET", None)
    claim = Claim()
    ledger.admit(ask("a", 1000), claim=claim)
    claim.end()
    assert other.asks("a")[0] == "B206"  # this process lives
    monkeypatch.undo()
    foreign = locks.take(ledger.path, 2)
    charge = ledger.admit(ask("b", 1000))
    assert other.asks("b")[0] == "B206"
    foreign.free()
    assert other.asks("b")[0] == "B206"
    assert ledger.store_release(charge, "42").payload == "42"


def test_a_charge_that_was_rolled_back_does_not_end_the_one_that_took_its_number(ledger: Ledger, other: Other) -> None:
    first = Charge(id=1, analyst="ana", key="0" * 16, loss=ask(1).loss, data_version=0, catalog_version=0, attempt=1)
    claim = Claim()
    holders.hold(ledger.path, ledger.dataset_id, first, 1, claim)  # its transaction was rolled back
    charge = ledger.admit(ask("a", 1000))
    claim.end()
    assert other.asks("a")[0] == "B206"
    assert ledger.store_release(charge, "42").payload == "42"


HOLDER = """
import os, sys, time
from duckdp.ledger import Ledger
from tests.ledgers import ask
ledger = Ledger.open(sys.argv[1], create=False)
charge = ledger.admit(ask("a", 1000))
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(600)
"""


def test_a_forked_child_does_not_go_on_holding_what_its_parent_held(ledger: Ledger, other: Other) -> None:
    command, environment = [sys.executable, "-c", HOLDER, ledger.path], os.environ | {"PYTHONPATH": str(ROOT)}
    holder = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    child = int(holder.stdout.readline())
    try:
        assert other.asks("a")[0] == "B206"
        holder.kill()
        holder.wait()
        assert other.asks("a", patience=60) == ["other", 2]
    finally:
        os.kill(child, signal.SIGKILL)
        holder.stdout.close()
