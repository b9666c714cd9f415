"""A ledger that moves from its file to a server: the same history, one budget, whatever ends it and whenever."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

import duckdp
from duckdp.cli import main
from duckdp.errors import DuckDPError
from duckdp.ledger import Charge, Ledger, anchor, chain, connections, served, transfer
from tests.ledger_flips import build
from tests.ledgers import NANO, answer, ask, refused, set_up
from tests.postgres import Server

ROOT = Path(__file__).resolve().parents[2]
COST = 1000


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small ledger: one question is answered, one is charged and open."""
    folder = tmp_path_factory.mktemp("template")
    with set_up(Ledger.open(folder / "a.ledger")) as ledger:
        answer(ledger, ask("answered", COST), "its answer")
        charge = ledger.admit(ask("open", COST))
        ledger.statements.note("ana", "free", "SELECT 1", "answered")
        assert isinstance(charge, Charge)
    return folder


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    for name in os.listdir(template):
        shutil.copy2(template / name, tmp_path / name)
    return tmp_path / "a.ledger"


def move(path: Path, address: str, **more: object) -> None:
    with Ledger.open(path, create=False) as ledger:
        ledger.move(address, reason="several curators", **({"anchor": str(path.parent / "moved.anchor")} | more))


def charged(place: object, question: str) -> bool:
    """Whether a ledger can be charged."""
    try:
        with Ledger.open(place, create=False) as ledger:
            return isinstance(ledger.admit(ask(question, COST)), Charge)
    except DuckDPError as error:
        assert error.code in ("B215", "B207"), error  # moved or not yet there
        return False


def check(path: Path, address: str) -> None:
    """It is on the server, whole and once."""
    assert not charged(path, "never")
    with Ledger.open(path, create=False) as file, Ledger.open(address, create=False) as there:
        assert file.verify().charges == 2 and there.verify().charges == 2
        assert there.verify().statements == 1
        assert (there.dataset_id, there.salt) == (file.dataset_id, file.salt)
        assert there.state().primary_spent == file.state().primary_spent == 2 * COST
        ours, theirs = (
            found._store.read(lambda tx: [tuple(row) for row in tx.rows("SELECT * FROM event ORDER BY seq")])
            for found in (file, there)
        )
        assert theirs[:-1] == ours and (ours[-1][2], theirs[-1][2]) == ("move", "moved")
        assert there.admit(ask("answered", COST)).payload == "its answer"
        again = there.admit(ask("open", COST))
        assert isinstance(again, Charge) and again.attempt == 2, "what was open is redeemed, free"
        assert there.state().primary_spent == 2 * COST
        there.statements.note("ana", "free", "SELECT 2", "answered")
        answer(there, ask("later", COST))
        there.verify()


# ---- what moves, and what does not -----------------------------------------------------------------------------------


def test_a_moved_ledger_goes_on_and_its_file_is_closed(path: Path, address: str) -> None:
    move(path, address)
    with Ledger.open(path, create=False) as file:
        for act in (
            lambda: file.admit(ask("new", COST)),
            lambda: file.admit(ask("answered", COST)),
            lambda: file.freeze("no"),
            lambda: file.backup(str(path.parent / "copy.ledger")),
            lambda: file.move_anchor(f"{path.parent}.else", reason="no"),
            lambda: file.put_into_service(reason="no", nothing_lost=True),
            lambda: file.move(address.replace("schema=", "schema=x"), reason="no", anchor=str(path.parent / "z")),
        ):
            with refused("B215"):
                act()
    move(path, address)  # again: nothing is left to do
    check(path, address)
    move(path, address)
    with Ledger.open(address, create=False) as there:
        assert there.state().primary_spent == 3 * COST


@pytest.mark.slow
def test_every_kind_of_row_moves(address: str, tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    build(path, charges=6)
    move(path, address)
    with Ledger.open(path, create=False) as file, Ledger.open(address, create=False) as there:
        before, after = file.verify(), there.verify()
        names = ("charges", "releases", "analysts", "declarations", "names")
        assert [getattr(before, name) for name in names] == [getattr(after, name) for name in names]
        for table in ("charge", "release", "finished", "stage", "object", "share", "directory", "team", "step"):
            rows = [
                sorted(tuple(row) for row in found._store.read(lambda tx, t=table: tx.rows(f"SELECT * FROM {t}")))
                for found in (file, there)
            ]
            assert rows[0] == rows[1], table


def test_an_anchor_elsewhere_goes_with_it_and_refuses_older_copies(path: Path, address: str, tmp_path: Path) -> None:
    with Ledger.open(path, create=False) as ledger:
        ledger.move_anchor(str(tmp_path / "x" / "anchor") if (tmp_path / "x").mkdir() is None else "", reason="safer")
    old = tmp_path / "old.ledger"
    shutil.copy2(path, old)
    move(path, address, anchor=None)
    with Ledger.open(address, create=False) as there:
        answer(there, ask("later", COST))
    shutil.copy2(old, path)  # the file of before the move
    for left in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{left}")
    with refused("B203"):
        Ledger.open(path, create=False)


def test_what_cannot_be_moved_says_why_and_stays_in_service(path: Path, address: str, server: Server) -> None:
    with Ledger.open(path, create=False) as ledger:
        for address_, anchor_, code in (
            (address, None, "P107"),  # no anchor
            (address, f"{path}.anchor", "P107"),  # the file's own
            (str(path.parent / "b.ledger"), str(path.parent / "z"), "P107"),
            ("postgresql://127.0.0.1:1/x", str(path.parent / "z"), "B213"),
        ):
            with refused(code):
                ledger.move(address_, reason="no", anchor=anchor_)
        with server.connect() as owner:
            owner.execute(f"CREATE SCHEMA {address.rpartition('=')[2]} CREATE TABLE other (x int)")
        with refused("B207"):
            ledger.move(address, reason="no", anchor=str(path.parent / "z"))
        answer(ledger, ask("goes on", COST))
    other = address.replace("schema=", "schema=o")
    with set_up(Ledger.open(other, anchor=str(path.parent / "other.anchor"))) as another:
        with refused("B207"):
            move(path, other)
        with refused("P107"):
            another.move(address, reason="no", anchor=str(path.parent / "z"))
    assert charged(path, "still")


def test_a_server_that_lost_what_was_charged_after_a_move_is_not_filled_anew(
    path: Path, address: str, server: Server
) -> None:
    move(path, address)
    with Ledger.open(address, create=False) as there:
        answer(there, ask("later", COST))
    with server.connect() as owner:
        owner.execute(f"DROP SCHEMA {address.rpartition('=')[2]} CASCADE")
    with refused("B203"):
        move(path, address)
    with server.connect() as owner:
        assert owner.execute(f"SELECT to_regclass('{address.rpartition('=')[2]}.dataset')").fetchone() == (None,)
    assert not charged(path, "new")


def test_nor_is_one_whose_anchor_is_lost_too(path: Path, address: str, server: Server) -> None:
    """Nothing tells then what was charged after the move. Of a draft that was never in service the anchor is begun."""
    move(path, address)
    with Ledger.open(address, create=False) as there:
        answer(there, ask("later", COST))
    with server.connect() as owner:
        owner.execute(f"DROP SCHEMA {address.rpartition('=')[2]} CASCADE")
    os.unlink(path.parent / "moved.anchor")
    for _ in range(2):  # nor by the attempt that was refused
        with refused("B203"):
            move(path, address)
    assert not charged(path, "new") and not charged(address, "new")


def test_an_anchor_that_is_lost_within_a_move_is_begun_anew(
    path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patches:
        patches.setattr(transfer, "_serve", end)
        with suppress(Crash):
            move(path, address)
    os.unlink(path.parent / "moved.anchor")
    move(path, address)
    check(path, address)


@pytest.mark.slow
def test_the_command_line_moves_a_ledger(clinic_file: str, address: str, tmp_path: Path) -> None:
    with duckdp.open(clinic_file) as owner:
        owner.protect("visits", unit_key="patient_id", max_rows=3, row_cap=10_000)
        owner.budget(epsilon=1)
        owner.grant("ana", epsilon=1)
        first = owner.session("ana").sql("SELECT count(*) AS n FROM visits", epsilon=0.5).rows()
    words = ["ledger", "move", clinic_file, address, "--to", str(tmp_path / "moved"), "--reason", "two machines"]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0 and "is closed for good" in done.output, done.output
    with duckdp.open(clinic_file, ledger=address) as owner:
        assert owner.session("ana").sql("SELECT count(*) AS n FROM visits", epsilon=0.5).rows() == first
        assert [entry.kind for entry in owner.ledger.log(2)] == ["moved", "move"]
    with refused("B215"), duckdp.open(clinic_file) as owner:
        owner.session("ana").sql("SELECT count(*) AS n FROM visits", epsilon=0.5)


def test_a_draft_is_opened_by_nobody(path: Path, address: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A move that ended after the file was closed, and before the ledger was in service; and an older draft there."""

    def end(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patches:
        patches.setattr(transfer, "_serve", end)
        with suppress(Crash):
            move(path, address)
    with pytest.raises(DuckDPError, match=r"^B215: .*duckdp ledger move"):
        Ledger.open(address)
    assert not charged(path, "new")
    with server.connect() as owner:  # as if another attempt had left it
        owner.execute(f"SET search_path = {address.rpartition('=')[2]}; SET session_replication_role = replica")
        owner.execute("DELETE FROM event WHERE seq = (SELECT max(seq) FROM event)")
        owner.execute("UPDATE dataset SET events = events - 1")
    move(path, address)
    check(path, address)


# ---- a crash at any moment -------------------------------------------------------------------------------------------


class _Ending:
    """Ends the move at its n-th step: a word to the server, a commit of the file, a move of an anchor."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.at, self.count = at, 0
        for owner, name in (
            (served.Connection, "_run"),
            (served.Connection, "script"),
            (served.Connection, "executemany"),
            (served.Connection, "commit"),
            (connections, "commit"),
            (anchor, "advance"),
        ):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, call: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **named: object) -> object:
            self._step()
            found = call(*arguments, **named)
            self._step()
            return found

        return counted

    def _step(self) -> None:
        self.count += 1
        if self.count >= self.at > 0:  # from then on nothing is done any more
            raise Crash


def ended_at(path: Path, address: str, at: int) -> bool:
    """Move, and crash at a step; whether there was such a step."""
    with pytest.MonkeyPatch.context() as patches:
        with suppress(DuckDPError):
            ledger = Ledger.open(path, create=False)
        ending = _Ending(patches, at)
        with suppress(Crash):
            ledger.move(address, reason="several", anchor=str(path.parent / "moved.anchor"))
        ended = ending.count >= at
    with suppress(Crash, DuckDPError):
        ledger.close()
    return ended


def fresh(template: Path, folder: Path) -> Path:
    folder.mkdir()
    for name in os.listdir(template):
        shutil.copy2(template / name, folder / name)
    return folder / "a.ledger"


def crashes(template: Path, folder: Path, address: str, steps: Iterator[int]) -> tuple[int, set[str]]:
    """Crash at each of some steps; how many there were, and in which states the ledgers were found."""
    done, seen = 0, set()
    for at in steps:
        path, there = fresh(template, folder / f"n{at}"), f"{address}_{at}"
        if not ended_at(path, there, at):
            break
        done += 1
        both = [charged(path, "one"), charged(there, "two")]
        assert sum(both) <= 1, f"step {at}: both were charged"
        seen.add("file" if both[0] else "server" if both[1] else "neither")
        move(path, there)
        assert not charged(path, "three"), at
        with Ledger.open(there, create=False) as ledger:
            assert ledger.verify().charges == ledger.state().primary_spent // COST == 2 + sum(both), at
            assert ledger.admit(ask("answered", COST)).payload == "its answer"
    return done, seen


def test_a_crash_now_and_then_leaves_at_most_one_that_can_be_charged(
    template: Path, tmp_path: Path, address: str
) -> None:
    total = _steps(template, tmp_path, address)
    done, seen = crashes(template, tmp_path, address, iter([total // 2, total - 24, total - 12, total - 2]))
    assert done == 4 and {"file", "server"} <= seen


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # cursors that a crash leaves open
def test_a_crash_at_every_step_leaves_at_most_one_that_can_be_charged(
    template: Path, tmp_path: Path, address: str
) -> None:
    total = _steps(template, tmp_path, address)
    done, seen = crashes(template, tmp_path, address, iter(range(1, total + 1)))
    assert done == total and seen == {"file", "neither", "server"}


def test_a_move_that_opens_before_it_closes_would_be_noticed(template, tmp_path, address, monkeypatch) -> None:
    """Broken twin: the draft carries no mark, so that it is in service before the file is closed."""
    there = chain.append

    def unmarked(tx, kind, *words, **named):
        there(tx, kind, *words, **named)
        if kind == "move":
            drafted = transfer._draft

            def draft(tx_, target, path):
                drafted(tx_, target, path)
                connection = served.Connection(target)
                transfer._serve(connection, tx_.head(), chain.MOVED + target, "early")
                connection.close()
                monkeypatch.setattr(transfer, "_draft", drafted)

            monkeypatch.setattr(transfer, "_draft", draft)

    monkeypatch.setattr(chain, "append", unmarked)
    path = fresh(template, tmp_path / "twin")
    commit = connections.commit

    def lost(connection, head):
        if not isinstance(connection, served.Connection):
            raise Crash
        commit(connection, head)

    monkeypatch.setattr(connections, "commit", lost)
    with suppress(Crash), Ledger.open(path, create=False) as ledger:
        ledger.move(address, reason="several", anchor=str(path.parent / "moved.anchor"))
    monkeypatch.undo()
    assert charged(path, "one") and charged(address, "two"), "both: which is what the test of crashes looks for"


def _steps(template: Path, folder: Path, address: str) -> int:
    """How many there are, once it is known what tables must be (which is found out once in a process)."""
    move(fresh(template, folder / "before"), f"{address}_before")
    path = fresh(template, folder / "all")
    with pytest.MonkeyPatch.context() as patches, Ledger.open(path, create=False) as ledger:
        ending = _Ending(patches, 0)
        ledger.move(f"{address}_all", reason="several", anchor=str(path.parent / "moved.anchor"))
        return ending.count


KILLED = """
import os, sys
from tests.served import test_moved as ours
from duckdp.ledger import Ledger
ours._Ending._step = lambda self: (setattr(self, "count", self.count + 1), os._exit(9) if self.count == self.at else 0)
import pytest
ledger = Ledger.open(sys.argv[1], create=False)
with pytest.MonkeyPatch.context() as patches:
    ours._Ending(patches, int(sys.argv[3]))
    ledger.move(sys.argv[2], reason="several", anchor=os.path.dirname(sys.argv[1]) + "/moved.anchor")
"""


@pytest.mark.slow
def test_processes_that_are_killed_while_they_move_leave_one(template: Path, tmp_path: Path, address: str) -> None:
    total = _steps(template, tmp_path, address)
    killed = 0
    for at in range(3, total, max(total // 12, 1)):
        path, there = fresh(template, tmp_path / f"k{at}"), f"{address}_k{at}"
        command = [sys.executable, "-W", "error", "-c", KILLED, str(path), there, str(at)]
        killed += subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False).returncode == 9
        both = [charged(path, "one"), charged(there, "two")]
        assert sum(both) <= 1, at
        move(path, there)
        assert not charged(path, "three")
        with Ledger.open(there, create=False) as ledger:
            assert ledger.verify().charges == 2 + sum(both)
    assert killed >= 10


def test_one_that_charges_while_it_moves_is_charged_once(path: Path, address: str) -> None:
    """What is open in another object of the file ends there, and is redeemed on the server."""
    with Ledger.open(path, create=False) as ledger, Ledger.open(path, create=False) as other:
        charge = other.admit(ask("meanwhile", NANO))
        assert isinstance(charge, Charge)
        ledger.move(address, reason="several", anchor=str(path.parent / "moved.anchor"))
        with refused("B215"):
            other.store_release(charge, "too late")
    with Ledger.open(address, create=False) as there:
        again = there.admit(ask("meanwhile", NANO))
        assert isinstance(again, Charge) and again.id == charge.id
        assert there.store_release(again, "in time").payload == "in time"
        assert there.state().primary_spent == 2 * COST + NANO
