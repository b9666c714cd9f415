"""Races over one ledger: threads, objects, processes, crashes, forks."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from duckdp.core.types import AccountantKind, Loss, Neighbours
from duckdp.errors import InsufficientBudgetError, LedgerError
from duckdp.ledger import Charge, ChargeRequest, Ledger, anchor, connections, holders

ROOT = Path(__file__).resolve().parents[1]

# A process that asks questions 0, 1, ... of its own or of all, and prints what it was acknowledged.
WORKER = """
import hashlib, json, os, sys
from duckdp.core.types import Loss
from duckdp.errors import InsufficientBudgetError
from duckdp.ledger import Charge, ChargeRequest, Ledger
path, prefix, count, cost, end = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
with Ledger.open(path, create=False) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(count):
        key = hashlib.sha256(f"{prefix}{i}".encode()).hexdigest()
        request = ChargeRequest(analyst="ana", key=key, loss=Loss(epsilon_nano=cost), mechanism="m", parameters="{}",
                                statement="s")
        try:
            got = ledger.admit(request)
        except InsufficientBudgetError:
            print(json.dumps(["refused", i]), flush=True)
            continue
        charged = isinstance(got, Charge)
        print(json.dumps(["charged" if charged else "stored", i]), flush=True)
        if charged and end == "hang":
            sys.stdin.readline()
        if charged:
            got = ledger.store_release(got, os.urandom(8).hex())
        print(json.dumps(["released", i, got.payload]), flush=True)
"""


def request(question: object, cost: int = 1, analyst: str = "ana") -> ChargeRequest:
    key = hashlib.sha256(str(question).encode()).hexdigest()
    loss = Loss(epsilon_nano=cost)
    return ChargeRequest(analyst=analyst, key=key, loss=loss, mechanism="m", parameters="{}", statement="s")


@pytest.fixture
def path(tmp_path):
    return new(tmp_path / "a.ledger")


def new(path: Path, total: int = 1000) -> str:
    with Ledger.open(path) as ledger:
        ledger.set_budget(
            epsilon_nano=total,
            delta_atto=0,
            neighbours=Neighbours.ADD_REMOVE,
            accountant=AccountantKind.BASIC,
        )
        for analyst in ("ana", "bob"):
            ledger.grant(analyst, epsilon_nano=total, delta_atto=0)
        return ledger.path


def start(path: str, prefix: str, count: int, cost: int, end: str = "release") -> subprocess.Popen:
    command = [sys.executable, "-W", "error", "-c", WORKER, path, prefix, str(count), str(cost), end]
    pipe = subprocess.PIPE
    worker = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert worker.stdout.readline() == "ready\n"
    return worker


def go(worker: subprocess.Popen) -> None:
    worker.stdin.write("\n")
    worker.stdin.flush()


def lines(worker: subprocess.Popen) -> list[list]:
    output, _ = worker.communicate()
    assert worker.returncode == 0
    return [json.loads(line) for line in output.splitlines()]


def sums(path: str) -> tuple[int, int]:
    with Ledger.open(path, create=False) as ledger:  # opening checks that the sums are those of the charges
        return ledger.state().primary_spent, len(ledger.charges())


def spend(ledger: Ledger, questions: range, analyst: str) -> int:
    paid = 0
    for question in questions:
        try:
            charge = ledger.admit(request(f"{analyst}{question}", 7, analyst))
        except InsufficientBudgetError:
            continue
        paid += 7
        ledger.store_release(charge, "x")
    return paid


def test_threads_and_objects_spend_exactly_to_the_limit(tmp_path):
    path = new(tmp_path / "a.ledger", 7 * 100 + 6)
    with Ledger.open(path) as one, Ledger.open(path) as two, ThreadPoolExecutor(8) as pool:
        jobs = [
            pool.submit(spend, (one, two)[i % 2], range(20 * i, 20 * i + 20), ("ana", "bob")[i // 2 % 2])
            for i in range(8)
        ]
        assert sum(job.result() for job in jobs) == 7 * 100
    assert sums(path) == (700, 100)


def test_processes_spend_exactly_to_the_limit(tmp_path):
    path = new(tmp_path / "a.ledger", 3 * 100 + 2)
    workers = [start(path, f"w{i}-", 20, 3) for i in range(7)]
    for worker in workers:
        go(worker)
    told = [line for worker in workers for line in lines(worker)]
    assert sum(line[0] == "charged" for line in told) == 100
    assert sum(line[0] == "refused" for line in told) == 40
    assert sums(path) == (300, 100)


def test_processes_with_the_same_questions_make_one_charge_each_and_get_the_same_answer(path):
    workers = [start(path, "same", 15, 2) for _ in range(6)]
    for worker in workers:
        go(worker)
    told = [line for worker in workers for line in lines(worker)]
    payloads = {(line[1], line[2]) for line in told if line[0] == "released"}
    assert len(payloads) == 15
    assert sum(line[0] == "charged" for line in told) == 15
    assert sum(line[0] == "stored" for line in told) == 75
    assert sums(path) == (30, 15)


def ask_slowly(ledger: Ledger, _: int) -> str:
    got = ledger.admit(request("same"))
    if isinstance(got, Charge):
        time.sleep(0.1)
        return ledger.store_release(got, os.urandom(8).hex()).payload
    return got.payload


def attempts_of_eight_threads(path: str) -> tuple[int, int, int]:
    with Ledger.open(path) as ledger, ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(ask_slowly, [ledger] * 8, range(8)))
        (row,) = ledger.charges()
        return len(answers), row.primary_cost, row.attempt


def test_threads_with_the_same_question_wait_for_one_answer(path):
    assert attempts_of_eight_threads(path) == (1, 1, 1)


def test_a_ledger_that_takes_every_holder_for_dead_draws_again(path, monkeypatch):
    """The broken twin of the test above: it costs attempts, and still one charge and one answer."""
    monkeypatch.setattr(holders, "working", lambda *_: False)
    with Ledger.open(path) as ledger:
        slow, fast = ledger.admit(request("same")), ledger.admit(request("same"))
        assert ledger.store_release(fast, "fast") == ledger.store_release(slow, "slow")
        assert (ledger.charges()[0].attempt, ledger.state().primary_spent) == (2, 1)


def test_waiting_ends_when_the_other_thread_fails(path):
    with Ledger.open(path) as ledger, ThreadPoolExecutor(1) as pool:
        held = pool.submit(ledger.admit, request("a")).result()
        timer = threading.Timer(0.05, ledger.fail, [held])
        timer.start()
        assert ledger.admit(request("a")).attempt == 2
        timer.join()


def test_waiting_ends_when_the_other_thread_drops_its_charge(path):
    with Ledger.open(path) as ledger, ThreadPoolExecutor(1) as pool:
        pool.submit(ledger.admit, request("a")).result()
        assert ledger.admit(request("a")).attempt == 2


def test_waiting_has_an_end(path):
    with Ledger.open(path) as ledger, ThreadPoolExecutor(1) as pool:
        ledger.patience = 0.01
        held = pool.submit(ledger.admit, request("a")).result()
        with pytest.raises(LedgerError, match=r"^B206:"):
            ledger.admit(request("a"))
        assert ledger.store_release(held, "x").payload == "x"


def test_a_busy_ledger_says_so(path, monkeypatch):
    monkeypatch.setattr(connections, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(anchor, "LOCK_SECONDS", 0.01)
    with Ledger.open(path) as one, Ledger.open(path) as two:

        def asks(_):
            with pytest.raises(LedgerError, match=r"^B206:"):
                two.admit(request("a"))
            return two.state().primary_spent  # reading goes on

        assert one._store.write(asks) == 0


@pytest.mark.parametrize("_", range(3))
def test_killing_a_process_loses_nothing_that_was_acknowledged(path, _):
    worker = start(path, "k", 900, 1)
    go(worker)
    first = [worker.stdout.readline() for _ in range(2)]  # charged and released, however slow the disk
    time.sleep(0.1)
    worker.kill()
    told = [json.loads(line) for line in [*first, *worker.stdout.read().splitlines()] if line.rstrip().endswith("]")]
    worker.communicate()
    released = {line[1]: line[2] for line in told if line[0] == "released"}
    charged = [line[1] for line in told if line[0] == "charged"]
    assert released
    with Ledger.open(path) as ledger:
        assert len(charged) <= len(ledger.charges()) <= len(charged) + 1
        for question, payload in released.items():
            assert ledger.admit(request(f"k{question}")).payload == payload
        assert ledger.state().primary_spent == len(ledger.charges())


def test_the_charge_of_a_killed_process_is_redeemed_by_another(path):
    worker = start(path, "k", 1, 5, "hang")
    go(worker)
    assert json.loads(worker.stdout.readline()) == ["charged", 0]
    with Ledger.open(path) as ledger:
        ledger.patience = 0.05
        with pytest.raises(LedgerError, match=r"^B206:"):
            ledger.admit(request("k0", 5))  # it lives: wait
        ledger.patience = 60.0
        os.kill(worker.pid, signal.SIGKILL)
        charge = ledger.admit(request("k0", 5))  # a zombie counts as dead
        assert (charge.attempt, ledger.state().primary_spent) == (2, 5)
        assert ledger.store_release(charge, "x").payload == "x"
    worker.communicate()


def test_a_reused_process_id_is_another_process():
    boot, pid, began = holders.me().split(":")
    assert not holders.working(f"{boot}:{pid}:{int(began or 0) + 1}", "d", 1, 1, 0)
    assert not holders.working(f"another-boot:{pid}:{began}", "d", 1, 1, 0)
    assert not holders.working(f"{boot}:{2**22 + 1}:1", "d", 1, 1, 0)
    assert not holders.working("", "d", 1, 1, 0)  # a damaged one
    assert not holders.working(f"{boot}:\u0663:1", "d", 1, 1, 0)
    assert holders.working(f"{boot}:{os.getppid()}:{holders._start(os.getppid())}", "d", 1, 1, 0)


# What SQLite remembers of a file that is open at a fork is not true in the child: the locks are the parent's alone.
FORKED = """
import os, sys
from duckdp.errors import DuckDPError
from duckdp.ledger import Ledger
from tests.test_ledger_concurrency import request
path = sys.argv[1]
ledger = Ledger.open(path, create=False)
mine = ledger.admit(request("parent"))
to_child, to_parent = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    tried = [lambda: ledger.admit(request("child")), ledger.state, lambda: ledger.store_release(mine, "x"),
             lambda: ledger.fail(mine), lambda: Ledger.open(path), lambda: ledger.backup(path + ".copy")]
    for number, work in enumerate(tried):
        try:
            work()
            told = "done"
        except DuckDPError as error:
            told = error.code
        os.write(1, f"{number} {told}\\n".encode())
    ledger.close()
    os.write(to_parent[1], b"x")
    os.read(to_child[0], 1)
    try:
        ledger.admit(request("child, after its parent closed"))
    except DuckDPError as error:
        os.write(1, f"late {error.code}\\n".encode())
    sys.exit(0)
os.read(to_parent[0], 1)
print("parent", ledger.store_release(mine, "x").payload, flush=True)
ledger.close()
os.write(to_child[1], b"x")
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_of_a_fork_uses_nothing_of_its_parents_ledger(path):
    """Until it was so, charges that a child made were lost with the journal that its closing parent removed (B203)."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", FORKED, path]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    told = done.stdout.splitlines()
    assert told == [*[f"{i} B212" for i in range(6)], "parent x", "late B212", "child 0"]
    assert sums(path) == (1, 1)


def test_many_processes_may_create_the_same_ledger(tmp_path):
    script = "import sys; from duckdp.ledger import Ledger; ledger = Ledger.open(sys.argv[1]); "
    script += "print(ledger.dataset_id); ledger.close()"
    command = [sys.executable, "-W", "error", "-c", script, str(tmp_path / "new.ledger")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(6)]
    assert len({worker.communicate()[0] for worker in workers}) == 1
    assert [worker.returncode for worker in workers] == [0] * 6
    Ledger.open(tmp_path / "new.ledger", create=False).close()  # the last two may close at once, and leave the journal
    assert sorted(file.name for file in tmp_path.iterdir()) == ["new.ledger", "new.ledger.anchor"]
