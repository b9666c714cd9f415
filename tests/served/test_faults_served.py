"""What goes wrong with a server: it is killed under load and started again, connections are cut, commits go unanswered.

Nothing acknowledged is lost, nothing is overspent, nothing is drawn twice where the first draw may have been seen.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest

from duckdp.errors import DuckDPError, InsufficientBudgetError, LedgerError
from duckdp.ledger import Charge, Ledger, StoredRelease, served
from duckdp.ledger.storage import Failure
from tests.ledgers import NANO, answer, ask, refused, set_up
from tests.postgres import Server

ROOT = Path(__file__).resolve().parents[2]
COST = 1000
#: Asks 0, 1, ... of its own, and every third time what all ask; says what it was acknowledged; tries again for ever.
WORKER = """
import json, secrets, sys
from duckdp.errors import BudgetError, InsufficientBudgetError, LedgerError
from duckdp.ledger import Charge, Ledger
from tests.ledgers import ask
address, name, count, cost = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def say(*words): print(json.dumps(words), flush=True)
ledger = None
for i in range(count):
    question = f"all{i % 7}" if i % 3 == 0 else f"{name}-{i}"
    while True:
        try:
            ledger = ledger or Ledger.open(address, create=False)
            found = ledger.admit(ask(question, cost))
            if isinstance(found, Charge):
                say("charged", question, found.attempt, found.id)
                found = ledger.store_release(found, secrets.token_hex(16))
            say("released", question, found.payload)
        except InsufficientBudgetError:
            say("refused", question)
        except LedgerError as error:
            if error.code not in ("B206", "B213"):
                raise
            say("lost", question, error.code)
            continue
        except BudgetError as error:
            if error.code != "B106":
                raise
            say("final", question)
        break
"""


@pytest.fixture
def own() -> Server:
    """A server of this test alone, which it may kill."""
    made = Server()
    try:
        yield made.start()
    finally:
        made.stop()


def made(address: str, anchor: Path, total: int = 10 * NANO) -> str:
    with Ledger.open(address, anchor=anchor) as ledger:
        set_up(ledger, total, 0)
        return ledger.path


def start(path: str, name: str, count: int, cost: int = COST) -> subprocess.Popen:
    command = [sys.executable, "-W", "error", "-c", WORKER, path, name, str(count), str(cost)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)


def told(workers: list[subprocess.Popen]) -> list[list]:
    found = []
    for worker in workers:
        output, _ = worker.communicate(timeout=600)
        assert worker.returncode == 0
        found += [json.loads(line) for line in output.splitlines()]
    return found


def check(path: str, lines: list[list], cost: int = COST) -> None:
    """Everything acknowledged is there as it was, each question at most once, and the whole is sound."""
    with Ledger.open(path, create=False) as ledger:
        ledger.verify()
        rows = {row.key: row for row in ledger.charges()}
        state = ledger.state()
        assert state.primary_spent == cost * len(rows) <= state.primary_limit
        payloads: dict[str, set[str]] = {}
        for line in lines:
            if line[0] == "charged":
                assert rows[ask(line[1]).key].id == line[3], "a charge that was told is another one now"
            if line[0] == "released":
                payloads.setdefault(line[1], set()).add(line[2])
        for question, seen in payloads.items():
            assert len(seen) == 1, f"{question} was answered twice"
            assert {ledger.release("ana", rows[ask(question).key].id).payload} == seen


# ---- many curators ---------------------------------------------------------------------------------------------------


def test_two_processes_never_overspend_and_each_gives_the_others_answers_free(address, tmp_path):
    path = made(address, tmp_path / "anchor", 20 * COST + COST - 1)
    lines = told([start(path, "one", 24), start(path, "two", 24)])
    check(path, lines)
    first = [line for line in lines if line[0] == "charged"]
    assert len(first) == len({line[1] for line in first}) == 20
    assert [line for line in lines if line[0] == "refused"]
    shared = [line for line in lines if line[0] == "released" and line[1].startswith("all")]
    assert len(shared) > len({line[1] for line in shared}), "nobody was given a stored answer"


# A parent that charges, and a child that goes on; the child may open the ledger for itself.
FORKED = """
import os, sys, time
from duckdp.errors import DuckDPError
from duckdp.ledger import Ledger
from tests.ledgers import ask
ledger = Ledger.open(sys.argv[1], create=False)
mine = ledger.admit(ask("parent", 1000))
if os.fork() == 0:
    for work in (lambda: ledger.admit(ask("child", 1000)), ledger.state, lambda: ledger.store_release(mine, "x")):
        try:
            work()
            print("done", flush=True)
        except DuckDPError as error:
            print(error.code, flush=True)
    with Ledger.open(sys.argv[1], create=False) as own:
        print(own.count_charges(), flush=True)
    sys.stdin.readline()
    os._exit(0)
os.wait()
print(ledger.store_release(mine, "x").payload)
"""


def forked(path: str) -> subprocess.Popen:
    pipe = subprocess.PIPE
    command, environment = [sys.executable, "-c", FORKED, path], os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)


def test_a_child_of_a_fork_uses_nothing_of_its_parents_and_holds_nothing_that_it_held(address, tmp_path):
    path = made(address, tmp_path / "anchor")
    parent = forked(path)
    assert [parent.stdout.readline().strip() for _ in range(4)] == ["B212", "B212", "B212", "1"]
    with Ledger.open(path, create=False) as ledger:
        ledger.patience = 0.1
        with refused("B206"):
            ledger.admit(ask("parent", COST))  # it lives
        parent.kill()
        parent.wait()
        ledger.patience = 60.0
        assert ledger.admit(ask("parent", COST)).attempt == 2, "the child held what its parent held"
    parent.stdin.close()  # the child's end
    parent.stdout.close()


@pytest.mark.slow
def test_a_parent_goes_on_after_its_child_ended(address, tmp_path):
    parent = forked(made(address, tmp_path / "anchor"))
    output, _ = parent.communicate("\n", timeout=60)
    assert (output.split(), parent.returncode) == (["B212", "B212", "B212", "1", "x"], 0)


@pytest.mark.slow
def test_of_curators_that_make_one_ledger_at_once_one_makes_it(address, tmp_path):
    script = "import sys; from duckdp.ledger import Ledger; "
    script += "ledger = Ledger.open(sys.argv[1], anchor=sys.argv[2]); print(ledger.dataset_id); ledger.close()"
    command = [sys.executable, "-W", "error", "-c", script, address, str(tmp_path / "anchor")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(4)]
    assert len({worker.communicate()[0] for worker in workers}) == 1
    assert [worker.returncode for worker in workers] == [0] * 4


# ---- a commit whose answer is lost -----------------------------------------------------------------------------------


class _Cut:
    """Ends the session that commits, before or after the server has its word; broken twins leave out the reading."""

    def __init__(self, server: Server, monkeypatch: pytest.MonkeyPatch, *, reaches: bool) -> None:
        self.server, self.reaches, self.armed = server, reaches, False
        self.done = 0
        run = served.Connection._run

        def cut(connection, sql, parameters=()):
            if sql == "COMMIT" and self.armed:
                self.armed, self.done = False, self.done + 1
                if self.reaches:
                    run(connection, sql)
                with self.server.connect() as owner:
                    process = connection._driver.info.backend_pid
                    owner.execute("SELECT pg_terminate_backend(%s, 5000)", (process,))
            return run(connection, sql, parameters)

        monkeypatch.setattr(served.Connection, "_run", cut)


def test_a_charge_whose_commit_was_made_unheard_is_given_out_and_charged_once(server, address, tmp_path, monkeypatch):
    with set_up(Ledger.open(address, anchor=tmp_path / "anchor")) as ledger:
        cut = _Cut(server, monkeypatch, reaches=True)
        cut.armed = True
        charge = ledger.admit(ask("q", COST))
        assert isinstance(charge, Charge) and cut.done == 1
        cut.armed = True
        assert ledger.store_release(charge, "only").payload == "only" and cut.done == 2
        assert ledger.admit(ask("q", COST)).payload == "only"
        assert ledger.state().primary_spent == COST
        ledger.verify()


def test_a_charge_whose_commit_never_arrived_is_refused_and_not_charged(server, address, tmp_path, monkeypatch):
    with set_up(Ledger.open(address, anchor=tmp_path / "anchor")) as ledger:
        cut = _Cut(server, monkeypatch, reaches=False)
        cut.armed = True
        with refused("B213"):
            ledger.admit(ask("q", COST))
        assert cut.done == 1
        assert ledger.state().primary_spent == 0
        charge = ledger.admit(ask("q", COST))
        assert charge.attempt == 1
        cut.armed = True
        with refused("B213"):  # a release that is not stored does not leave
            ledger.store_release(charge, "lost")
        assert ledger.store_release(charge, "kept").payload == "kept"
        assert ledger.admit(ask("q", COST)).payload == "kept"
        ledger.verify()


def test_an_answer_to_a_commit_that_was_undone_would_be_noticed(server, address, tmp_path, monkeypatch):
    """Broken twin: a commit that went unanswered is taken for made."""
    with set_up(Ledger.open(address, anchor=tmp_path / "anchor")) as ledger:
        monkeypatch.setattr(served.Connection, "_settle", lambda connection, head: connection._reconnect())
        cut = _Cut(server, monkeypatch, reaches=False)
        cut.armed = True
        with pytest.raises(DuckDPError):  # the anchor is ahead of the ledger from here on
            charge = ledger.admit(ask("q", COST))
            ledger.store_release(charge, "without a charge")
        assert ledger.state().primary_spent == 0


def test_while_the_server_stays_away_nothing_is_given_out_and_then_it_is_taken_over(own, tmp_path, monkeypatch):
    monkeypatch.setattr(served, "AWAY_SECONDS", 0.5)
    path = made(own.address("away"), tmp_path / "anchor")
    with Ledger.open(path) as ledger:
        commit = served.Connection.commit
        killed = []

        def kill_after(connection, head=None):
            run = connection._run
            connection._run = lambda sql, parameters=(): (run(sql), own.kill(), killed.append(1), run("SELECT 1"))[0]
            try:
                commit(connection, head)
            finally:
                del connection._run

        monkeypatch.setattr(served.Connection, "commit", kill_after)
        with pytest.raises(LedgerError, match=r"^B213: .* is not known, and nothing was given out"):
            ledger.admit(ask("q", COST))
        monkeypatch.setattr(served.Connection, "commit", commit)
        assert killed
        with refused("B213"):
            ledger.admit(ask("q", COST))
        own.start()
        monkeypatch.setattr(served, "AWAY_SECONDS", 15.0)
        charge = ledger.admit(ask("q", COST))
        assert (charge.id, charge.attempt) == (1, 2), "it had been charged: the second attempt, free"
        assert ledger.store_release(charge, "x").payload == "x"
        assert ledger.state().primary_spent == COST


# ---- connections that are cut, servers that are killed ---------------------------------------------------------------


def cut_all(server: Server) -> int:
    with server.connect() as owner:
        sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'duckdp'"
        return owner.execute(sql).fetchone()[0]


def test_a_ledger_goes_on_when_its_connections_were_cut(server, address, tmp_path):
    with set_up(Ledger.open(address, anchor=tmp_path / "anchor")) as ledger:
        charge = ledger.admit(ask("held", COST))
        assert cut_all(server) >= 2
        assert ledger.state().primary_spent == COST
        answer(ledger, ask("after", COST))
        assert ledger.store_release(charge, "x").payload == "x"
        ledger.verify()


@pytest.mark.slow
def test_connections_that_are_cut_at_any_moment_lose_nothing(server, address, tmp_path):
    path = made(address, tmp_path / "anchor")
    workers = [start(path, f"w{i}", 60) for i in range(3)]
    cut = 0
    while any(worker.poll() is None for worker in workers):
        time.sleep(random.uniform(0.01, 0.3))
        cut += cut_all(server)
    lines = told(workers)
    check(path, lines)
    assert cut > 5 and [line for line in lines if line[0] == "lost"]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [12])
def test_a_server_that_is_killed_under_load_loses_nothing_acknowledged(own, tmp_path, kills):
    path = made(own.address("killed"), tmp_path / "anchor")
    workers = [start(path, f"w{i}", 150) for i in range(3)]
    time.sleep(1.5)
    done = 0
    for _ in range(kills):
        time.sleep(random.uniform(0.05, 0.8))
        done += any(worker.poll() is None for worker in workers)
        own.kill()
        own.start()
    lines = told(workers)
    check(path, lines)
    assert done >= kills // 2 and len([line for line in lines if line[0] == "released"]) >= 300


@pytest.mark.slow
def test_curators_that_are_killed_leave_what_others_redeem(server, address, tmp_path):
    path = made(address, tmp_path / "anchor")
    lines: list[list] = []
    for round_ in range(12):
        workers = [start(path, f"r{round_}-{i}", 1000) for i in range(2)]
        lines += [json.loads(worker.stdout.readline()) for worker in workers]  # both are at work
        time.sleep(random.uniform(0.0, 0.4))
        for worker in workers:
            worker.kill()
            output = worker.communicate()[0]
            lines += [json.loads(line) for line in output.splitlines() if line.endswith("]")]
    check(path, lines)
    assert len(lines) > 48
    with Ledger.open(path) as ledger:
        left = [row for row in ledger.charges() if row.state != "released"]
        before = ledger.state().primary_spent
        for row in left:
            question = row.statement.removeprefix("SELECT ")
            found = ledger.admit(ask(question, COST))
            assert isinstance(found, (Charge, StoredRelease))
        assert ledger.state().primary_spent == before


@pytest.mark.slow
def test_a_killed_server_keeps_what_was_acknowledged(own, tmp_path):
    path = made(own.address("fast"), tmp_path / "anchor")
    worker = start(path, "w", 40)
    time.sleep(1.0)
    own.kill()
    own.start()
    check(path, told([worker]))


OTHER = """
import sys
from duckdp.errors import DuckDPError
from duckdp.ledger import Ledger
from tests.ledgers import ask
with Ledger.open(sys.argv[1], create=False) as ledger:
    ledger.patience = 0.1
    charge = ledger.admit(ask("held", 1000))
    print(charge.attempt, flush=True)
    sys.stdin.readline()
"""


def test_a_charge_is_held_while_its_curator_lives_and_no_longer(address, tmp_path):
    path = made(address, tmp_path / "anchor")
    pipe = subprocess.PIPE
    command, environment = [sys.executable, "-c", OTHER, path], os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as other:
        try:
            assert other.stdout.readline() == "1\n"
            with Ledger.open(path) as ledger:
                ledger.patience = 0.1
                with refused("B206"):
                    ledger.admit(ask("held", COST))
                other.kill()
                other.wait()
                ledger.patience = 60.0
                assert ledger.admit(ask("held", COST)).attempt == 2
        finally:
            other.kill()


def test_a_commit_that_the_server_undid_is_none(server, address, tmp_path, monkeypatch):
    with set_up(Ledger.open(address, anchor=tmp_path / "anchor")) as ledger:
        commit = served.Connection.commit

        def after_a_mistake(connection, head=None):
            with pytest.raises(Failure):
                connection.execute("SELECT nothing")
            commit(connection, head)

        monkeypatch.setattr(served.Connection, "commit", after_a_mistake)
        with pytest.raises(DuckDPError):
            ledger.admit(ask("q", COST))
        monkeypatch.undo()
        assert ledger.state().primary_spent == 0
        answer(ledger, ask("q", COST))
        ledger.verify()


# ---- the server, as it must be ---------------------------------------------------------------------------------------


def test_a_server_that_may_forget_is_refused(own, tmp_path):
    own.stop_only()
    own.start("fsync=off")
    with pytest.raises(LedgerError, match=r"^B214: .*fsync or full_page_writes is off"):
        Ledger.open(own.address("x"), anchor=tmp_path / "anchor")
    own.stop_only()
    own.start("synchronous_commit=off")  # which a session may set on, and does
    with set_up(Ledger.open(own.address("x"), anchor=tmp_path / "anchor")) as ledger:
        answer(ledger, ask("q", COST))
        said = ledger._store.ask(lambda tx: tx.one("SELECT current_setting('synchronous_commit')"))
        assert said[0] == "on"


@pytest.mark.slow
def test_a_database_put_back_from_an_older_copy_is_refused(own, tmp_path):
    path = made(own.address("copied"), tmp_path / "anchor")
    with own.connect() as owner:
        with Ledger.open(path) as ledger:
            answer(ledger, ask("before", COST))
        owner.execute("CREATE DATABASE older TEMPLATE postgres")
        with Ledger.open(path) as ledger:
            answer(ledger, ask("after", COST))
        old = path.replace("/postgres?", "/older?")
        with refused("B203"):
            Ledger.open(old, create=False)
        Ledger.open(path, create=False).close()


def test_what_waits_too_long_for_another_writer_is_told_so(server, address, tmp_path, monkeypatch):
    with set_up(Ledger.open(address, anchor=tmp_path / "anchor")) as ledger:
        schema = address.rpartition("=")[2]
        monkeypatch.setattr(served, "_SETTINGS", served._SETTINGS.replace("'30s'", "'200ms'"))
        cut_all(server)
        with server.connect() as other, other.transaction():
            other.execute(f"SELECT 1 FROM {schema}.dataset FOR UPDATE")
            with refused("B206"):
                ledger.admit(ask("q", COST))
            assert ledger.state().primary_spent == 0, "those that read wait for nobody"
        answer(ledger, ask("q", COST))


def test_an_order_of_locks_that_the_server_breaks_is_begun_again(server, address, tmp_path, monkeypatch):
    with set_up(Ledger.open(address, anchor=tmp_path / "anchor")) as ledger:
        run, refusals = served.Connection._run, ["40P01", "40001"]

        def refuse(connection, sql, parameters=()):
            if "FOR UPDATE" in sql and refusals:
                raise Failure(refusals.pop())
            return run(connection, sql, parameters)

        monkeypatch.setattr(served.Connection, "_run", refuse)
        answer(ledger, ask("q", COST))
        assert not refusals


def test_threads_of_one_curator_share_commits(server, address, tmp_path):
    with set_up(Ledger.open(address, anchor=tmp_path / "anchor")) as ledger:
        threads = [threading.Thread(target=answer, args=(ledger, ask(f"t{i}", COST))) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ledger.count_charges() == 16
        ledger.verify()


def test_an_overspent_limit_is_refused_by_the_tables_too(server, address, tmp_path, monkeypatch):
    """Should our own check ever fail: the server's does not."""
    with set_up(Ledger.open(address, anchor=tmp_path / "anchor"), 10 * COST) as ledger:
        monkeypatch.setattr("duckdp.ledger.limits.require", lambda *_: None)
        with pytest.raises(DuckDPError, match=r"^X101: .*inconsistent entry"):
            ledger.admit(ask("q", 11 * COST))
        monkeypatch.undo()
        with pytest.raises(InsufficientBudgetError):
            ledger.admit(ask("q", 11 * COST))


def test_nothing_of_the_driver_is_told(server, tmp_path):
    path = made(server.address("told"), tmp_path / "anchor")
    with Ledger.open(path) as ledger, server.connect() as owner:
        owner.execute("ALTER TABLE told.charge RENAME COLUMN statement TO secret_name")
        with pytest.raises(DuckDPError) as found:
            answer(ledger, ask("q", COST))
        error: BaseException | None = found.value
        while error is not None:
            assert not isinstance(error, psycopg.Error)
            assert "secret_name" not in str(error) and "column" not in str(error)
            error = error.__cause__ or error.__context__
