"""Where the anchor is kept, and what each place detects: beside the ledger, on another disk, with a command."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from duckdp.core.types import AccountantKind, Loss, Neighbours
from duckdp.errors import DuckDPError, LedgerError
from duckdp.ledger import Ledger, anchor, anchor_command, chain, charges, files, places
from duckdp.ledger.anchor import Position
from duckdp.ledger.store import Store
from tests.ledgers import NANO, answer, ask, refused, set_up
from tests.pages import GUIDE

ROOT = Path(__file__).parent.parent
KEEPER = """
import fcntl, os, sys
place, believed, wanted = sys.argv[1], sys.stdin.readline(), sys.stdin.readline()
lock = open(place + ".lock", "a")
fcntl.flock(lock, fcntl.LOCK_EX)
open(place + ".log", "a").write(f"{believed!r} {wanted!r}\\n")
kept = open(place).read() if os.path.exists(place) else "\\n"
if kept == believed != wanted:
    open(place + ".new", "w").write(wanted)
    os.replace(place + ".new", place)
    kept = wanted
sys.stdout.write(kept)
"""


class Home:
    """A ledger's folder, another disk, and what a command keeps."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder, self.disk, self.kept = tmp_path / "folder", tmp_path / "disk", tmp_path / "kept"
        for each in (self.folder, self.disk, self.kept):
            each.mkdir()
        self.program = tmp_path / "keeper.py"
        self.program.write_text(KEEPER)
        self.path = self.folder / "a.ledger"
        self.file = self.disk / "a.anchor"
        self.register = self.kept / "a"
        self.words = [sys.executable, "-IS", str(self.program), str(self.register)]

    def where(self, kind: str) -> Any:
        return {"beside": None, "file": self.file, "command": self.words}[kind]

    def open(self, kind: str, **more: Any) -> Ledger:
        return Ledger.open(self.path, anchor=self.where(kind), **more)

    def asked(self) -> int:
        return len(Path(f"{self.register}.log").read_text().splitlines())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


KINDS = ("beside", "file", "command")
ELSEWHERE = ("file", "command")


def begin(home: Home, kind: str) -> Ledger:
    return set_up(home.open(kind))


def keep_copy(folder: Path) -> Path:
    copy = folder.with_name(f"{folder.name}.copy")
    shutil.copytree(folder, copy)
    return copy


def put_back(copy: Path, folder: Path, *names: str) -> None:
    for name in names or [f.name for f in folder.iterdir()]:
        (folder / name).unlink(missing_ok=True)
    for name in names or [f.name for f in copy.iterdir()]:
        if (copy / name).exists():
            shutil.copy(copy / name, folder / name)


# ---- what each choice detects: the guide's table ---------------------------------------------------------------------


def the_ledger(home: Home) -> None:
    put_back(home.folder.with_name("folder.copy"), home.folder, "a.ledger")


def its_folder(home: Home) -> None:
    put_back(home.folder.with_name("folder.copy"), home.folder)


def the_disk_too(home: Home) -> None:
    its_folder(home)
    put_back(home.disk.with_name("disk.copy"), home.disk)


def all_of_it(home: Home) -> None:
    the_disk_too(home)
    put_back(home.kept.with_name("kept.copy"), home.kept)


def removed(home: Home) -> None:
    for file in home.folder.iterdir():
        file.unlink()


ACCIDENTS: dict[str, Callable[[Home], None]] = {
    "the ledger's file alone, or its `-wal` file lost": the_ledger,
    "its whole folder": its_folder,
    "its folder and the other disk": the_disk_too,
    "whatever the command keeps too": all_of_it,
    "its folder emptied, and a new ledger begun there with the same `anchor=`": removed,
}


def promised() -> dict[tuple[str, str], bool]:
    """The guide's table: (what was put back, kind of anchor) -> whether it is seen."""
    found = {}
    lines = GUIDE.read_text().splitlines()
    start = lines.index("| put back to an earlier state | beside the ledger | a file on another disk | a command |")
    for line in lines[start + 2 : start + 2 + len(ACCIDENTS)]:
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        for kind, cell in zip(KINDS, cells, strict=True):
            assert cell in ("refused", "not seen"), line
            found[name, kind] = cell == "refused"
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accident", ACCIDENTS)
def test_the_promise_of_the_table_is_exact(home: Home, kind: str, accident: str) -> None:
    with begin(home, kind) as ledger:
        answer(ledger, ask("a"))
    for folder in (home.folder, home.disk, home.kept):
        keep_copy(folder)
    with home.open(kind) as ledger:
        answer(ledger, ask("b"))
    ACCIDENTS[accident](home)
    if promised()[accident, kind]:
        for _ in range(2):
            with refused("B203"):
                home.open(kind)
    else:
        with home.open(kind) as ledger:
            assert ledger.state().primary_spent < 2 * NANO


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_an_open_ledger_that_is_put_back_under_us_buys_nothing(home: Home, kind: str) -> None:
    """Of a ledger overwritten in place (the same file, an older state) nothing leaves, however often it is asked."""
    with begin(home, kind) as ledger:
        answer(ledger, ask("a"))
    copy = keep_copy(home.folder)
    with home.open(kind) as ledger:
        for i in range(5):
            answer(ledger, ask(i))
    put_back(copy, home.folder)
    others = [opened_before(home, kind) for _ in range(14)]
    for i in range(4):
        for store in others:
            with pytest.raises(LedgerError, match=r"^B203:"):
                store(i)


@pytest.mark.parametrize("kind", ["beside", "file"])
def test_an_anchor_that_is_exchanged_during_a_transaction(
    home: Home, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has its name when the transaction ends is moved; where nothing has it, nothing is handed out."""
    file = str(home.file if kind == "file" else f"{home.path}.anchor")
    enter, exchange = charges.enter, []

    def exchanged(*given: Any) -> Any:
        found = enter(*given)
        for act in exchange:
            act()
        return found

    monkeypatch.setattr(charges, "enter", exchanged)
    with begin(home, kind) as ledger:
        answer(ledger, ask("a"))
        for older in (1, 2):
            shutil.copy(file, f"{file}.copy")
            exchange[:] = [lambda: os.replace(f"{file}.copy", file)]
            answer(ledger, ask(("put back", older)))
            exchange.clear()
            known = anchor.read(str(home.path), file)
            assert known is not None
            assert known.count == ledger._store.read(lambda tx: tx.head().count)
        exchange[:] = [lambda: os.unlink(file)]
        with pytest.raises(LedgerError, match=r"^B204:"):
            ledger.admit(ask("removed"))


@pytest.mark.parametrize("kind", ELSEWHERE)
@pytest.mark.parametrize(("its", "ours"), [(1, 1), (2, 1), (1, 2)])
def test_two_ledgers_of_one_past_do_not_pass_each_other(home: Home, kind: str, its: int, ours: int) -> None:
    """The anchor is moved by the one between the other's look at it and its own move."""
    with begin(home, kind) as ledger:
        answer(ledger, ask("a"))
    copy = keep_copy(home.folder)
    with home.open(kind) as ledger, Ledger.open(copy / "a.ledger", anchor=home.where(kind)) as other:
        look = ledger._store.anchors.require_newest

        def passed(*given: Any) -> None:
            look(*given)
            for _ in range(its):
                other._store.write(lambda tx: chain.append(tx, "look", "y"))

        ledger._store.anchors.require_newest = passed  # type: ignore[method-assign]
        with refused("B203"):
            ledger._store.write(lambda tx: [chain.append(tx, "look", "x") for _ in range(ours)])
        ledger._store.anchors.require_newest = look  # type: ignore[method-assign]
        answer(other, ask("b"))
        with refused("B203"):
            ledger.admit(ask("b"))


def opened_before(home: Home, kind: str) -> Callable[[object], None]:
    """A process that opened the older ledger before its anchor was asked: as it would have been open all the while."""
    store = Store(str(home.path), places.place_of(str(home.path), home.where(kind)))
    store._place.file = files.identity(str(home.path))
    return lambda i: store.write(lambda tx: chain.append(tx, "look", str(i)))


def test_a_register_that_keeps_the_longest_history_would_take_the_forgetful_one(home: Home) -> None:
    """The broken twin of the test above: compared by length, in place of compare and set."""
    longer = "len(kept) < 9 or (len(wanted) > 9 and int(wanted.split()[2]) > int(kept.split()[2]))"
    home.program.write_text(KEEPER.replace("kept == believed != wanted", longer))
    with pytest.raises(pytest.fail.Exception):
        test_an_open_ledger_that_is_put_back_under_us_buys_nothing(home, "command")


# ---- the choice is remembered ----------------------------------------------------------------------------------------


def test_a_file_is_remembered_and_used(home: Home) -> None:
    begin(home, "file").close()
    with Ledger.open(home.path, create=False) as ledger:
        answer(ledger, ask("a"))
        assert str(home.file) in ledger.state().anchor
        head = ledger._store.read(lambda tx: tx.head())
    assert anchor.read(str(home.path), str(home.file)) == head
    assert not Path(f"{home.path}.anchor").exists()
    home.file.unlink()
    with refused("B204"):
        Ledger.open(home.path)


def test_a_command_is_demanded_and_never_run_because_a_file_says_so(home: Home) -> None:
    begin(home, "command").close()
    asked = home.asked()
    for given in (None, home.file, f"{home.path}.anchor", [sys.executable, "-c", "pass"]):
        with refused("B208") as error:
            Ledger.open(home.path, anchor=given)
        assert str(home.register) in str(error.value)  # the owner is told what to give
    assert home.asked() == asked
    home.open("command").close()
    assert home.asked() > asked


def test_another_anchor_than_the_remembered_one_is_refused(home: Home) -> None:
    begin(home, "beside").close()
    for kind in ELSEWHERE:
        with refused("B208"):
            home.open(kind)
    Ledger.open(home.path, anchor=f"{home.path}.anchor").close()


def test_the_choice_is_under_the_chain(home: Home) -> None:
    begin(home, "file").close()
    for text in (None, json.dumps([{"file": ""}]), json.dumps([{"file": str(home.disk / "other")}]), "[]", "x", "[1]"):
        with sqlite3.connect(home.path) as connection:
            (before,) = connection.execute("SELECT anchor FROM dataset").fetchone()
            connection.execute("UPDATE dataset SET anchor = ?", (text,))
        connection.close()
        with pytest.raises(LedgerError, match=r"^B20[24]:"):
            Ledger.open(home.path)
        with sqlite3.connect(home.path) as connection:
            connection.execute("UPDATE dataset SET anchor = ?", (before,))
        connection.close()
    Ledger.open(home.path).close()


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(KINDS, 2)))
def test_it_is_moved_with_a_reason_and_older_ledgers_stay_refused(home: Home, old: str, new: str) -> None:
    target = home.where(new) or f"{home.path}.anchor"
    with begin(home, old) as ledger:
        copy = keep_copy(home.folder)
        with refused("P107"):
            ledger.move_anchor(target, reason=" ")
        ledger.move_anchor(target, reason="a disk of its own")
        events = len(ledger.log())
        ledger.move_anchor(target, reason="again is no change")
        assert (ledger.log()[0].kind, ledger.log()[0].reason) == ("anchor", "a disk of its own")
        assert len(ledger.log()) == events
        answer(ledger, ask("a"))
    with home.open(new) as ledger:
        answer(ledger, ask("b"))
    put_back(copy, home.folder, "a.ledger", "a.ledger-wal", "a.ledger-shm")
    for kind in (old, new):
        with pytest.raises(LedgerError, match=r"^B20[348]:"):
            home.open(kind).close()


def test_other_processes_learn_of_a_move_at_their_next_charge(home: Home) -> None:
    with begin(home, "beside") as ledger, Ledger.open(home.path) as other:
        ledger.move_anchor(home.file, reason="a disk of its own")
        answer(other, ask("a"))
        assert anchor.read(str(home.path), str(home.file)).count > anchor.read(str(home.path)).count
        ledger.move_anchor(home.words, reason="another machine")
        with refused("B208") as error:
            other.admit(ask("b"))
        assert str(home.register) not in str(error.value)  # an analyst may see this one
        answer(ledger, ask("b"))


class Crash(BaseException):
    pass


@pytest.mark.parametrize("new", ELSEWHERE)
@pytest.mark.parametrize("at", range(1, 8))
def test_a_crash_anywhere_in_a_move_loses_nothing(
    home: Home, new: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th time that an anchor is moved, it is not, and nothing after it happens."""
    with begin(home, "beside") as ledger:
        copy = keep_copy(home.folder)
        answer(ledger, ask("a"))
        told = ledger.state().primary_spent
    moved = 0

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal moved
            moved += 1
            if moved >= at:
                raise Crash
            return real(*args, **named)

        return call

    with monkeypatch.context() as patch:
        ledger = Ledger.open(home.path)
        for module, name in ((anchor, "advance"), (anchor_command, "exchange")):
            patch.setattr(module, name, counting(getattr(module, name)))
        with suppress(Crash):
            ledger.move_anchor(home.where(new), reason="a disk of its own")
        patch.undo()
        with suppress(DuckDPError):
            ledger.close()
    for kind in ("beside", new):  # one of them is right, and tells which
        try:
            with Ledger.open(home.path, anchor=home.where(kind)) as again:
                again.move_anchor(home.where(new), reason="once more")
                assert again.state().primary_spent == told
                answer(again, ask("b"))
                break
        except LedgerError as error:
            assert error.code == "B208", error
    else:
        pytest.fail("locked out")
    put_back(copy, home.folder, "a.ledger", "a.ledger-wal", "a.ledger-shm")
    with pytest.raises(LedgerError, match=r"^B20[38]:"):
        Ledger.open(home.path)


# ---- a missing or misplaced anchor -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_an_anchor_that_forgot_is_refused_and_repaired_only_by_the_owner(home: Home, kind: str) -> None:
    with begin(home, kind) as ledger:
        answer(ledger, ask("a"))
    place = {"beside": Path(f"{home.path}.anchor"), "file": home.file, "command": home.register}[kind]
    place.unlink()
    with refused("B204"):
        home.open(kind)
    Ledger.repair_anchor(home.path, "the disk lost it", anchor=home.where(kind))
    with home.open(kind) as ledger:
        assert ledger.log()[0].reason == "the disk lost it"
        place.unlink()
        with refused("B204"):
            ledger.admit(ask("b"))
        assert len(ledger.charges()) == 1  # nothing was charged


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_an_anchor_that_is_gone_for_good_is_replaced_with_a_reason(home: Home, kind: str) -> None:
    begin(home, kind).close()
    shutil.rmtree(home.disk)
    home.program.unlink()
    with pytest.raises(LedgerError, match=r"^B20[49]:"):
        home.open(kind)
    Ledger.repair_anchor(home.path, "that machine is gone", anchor=f"{home.path}.anchor")
    with home.open("beside") as ledger:
        assert (ledger.log()[0].kind, ledger.log()[0].reason) == ("repair_anchor", "that machine is gone")
        answer(ledger, ask("a"))
    copy = keep_copy(home.folder)
    with home.open("beside") as ledger:
        answer(ledger, ask("b"))
    put_back(copy, home.folder, "a.ledger")
    with refused("B203"):
        home.open("beside")


def test_a_repair_does_not_let_an_older_ledger_in(home: Home) -> None:
    begin(home, "command").close()
    copy = keep_copy(home.folder)
    with home.open("command") as ledger:
        answer(ledger, ask("a"))
    put_back(copy, home.folder)
    with refused("B203"):
        Ledger.repair_anchor(home.path, "let me in", anchor=home.words)


def test_files_that_cannot_be_an_anchor(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (
        home.folder / "b.anchor",
        home.folder,
        "",
        " ",
        "\x00",
        "\ud800",
        b"x",
        1,
        True,
        {},
        [],
        [1],
        ["", "x"],
        ["/no/such/program"],
        ["\x00"],
        ["x" * 5000],
        ["x"] * 100,
        object(),
    ):
        with pytest.raises(DuckDPError, match=r"^(P107|B20[347]):"):
            Ledger.open(home.path, anchor=given)
        assert not home.path.exists(), given
    os.mkfifo(home.disk / "pipe")
    for name in ("pipe", ".", "no/such/folder"):
        with refused("B204"):
            Ledger.open(home.path, anchor=home.disk / name)
        assert not home.path.exists()
    with monkeypatch.context() as patch:
        patch.setattr(files, "file_system", lambda path, mounts: "nfs" if str(home.disk) in path else "ext4")
        with refused("B205"):
            home.open("file")
    home.file.touch()
    with refused("B203"):  # an emptied anchor beside no ledger
        home.open("file")


def test_an_anchor_is_of_one_ledger(home: Home) -> None:
    begin(home, "file").close()
    with refused("B203"):
        Ledger.open(home.disk.parent / "b.ledger", anchor=home.file)
    with Ledger.open(home.disk.parent / "b.ledger") as other, refused("B203"):
        other.move_anchor(home.file, reason="the same one")


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_where_a_ledger_is_gone_none_is_made(home: Home, kind: str) -> None:
    """Not even a file: whoever finds it would take it for the ledger."""
    begin(home, kind).close()
    removed(home)
    for _ in range(2):
        with refused("B203"):
            home.open(kind)
        assert list(home.folder.iterdir()) == []


def test_a_journal_without_its_ledger_is_no_new_ledger(home: Home) -> None:
    Path(f"{home.path}-wal").write_bytes(b"x")
    with refused("B203"):
        home.open("beside")


# ---- the command -----------------------------------------------------------------------------------------------------

HARMS = {
    "ends with a status": "import sys; sys.exit(3)",
    "says nothing": "pass",
    "says something else": "print('hello')",
    "says two lines": KEEPER + "\nprint('more')",
    "says its line without an end": KEEPER.replace("sys.stdout.write(kept)", "sys.stdout.write(kept.rstrip('\\n'))"),
    "says a line whose checksum is wrong": KEEPER.replace(
        "sys.stdout.write(kept)", "sys.stdout.write(kept.replace('0', '1', 1))"
    ),
    "never stops": "import sys\nwhile True: sys.stdout.write('x' * 1000)",
    "is killed": "import os; os.kill(os.getpid(), 9)",
    "hangs": "import time; time.sleep(1000)",
    "answers and hangs": KEEPER + "\nsys.stdout.flush()\nimport time; time.sleep(1000)",
    "leaves a child that holds its output": ("import os, time\nif os.fork() == 0:\n    time.sleep(1000)\n" + KEEPER),
    "answers and fails": KEEPER + "\nsys.stdout.flush()\nsys.exit(1)",
    "takes nothing": "import sys; sys.stdin.close(); sys.exit(2)",
    "does not keep": KEEPER.replace("os.replace(place", "0 and os.replace(place").replace("kept = wanted", ""),
    "forgets": "print()",
}


@pytest.mark.parametrize("harm", HARMS)
def test_whatever_the_command_does_nothing_leaves_and_everything_goes_on_after_it(
    home: Home, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begin(home, "command") as ledger:
        monkeypatch.setattr(anchor_command, "SECONDS", 0.5 if "hangs" in harm or "child" in harm else 20)
        home.program.write_text(HARMS[harm])
        for i in range(5):
            with pytest.raises(LedgerError, match=r"^B20[49]:"):
                ledger.admit(ask(i))
        spent = ledger.state().primary_spent
        assert spent <= NANO, "an outage costs each process one attempt at most"
        with pytest.raises(LedgerError, match=r"^B20[49]:"):
            home.open("command")
        home.program.write_text(KEEPER)
        monkeypatch.setattr(anchor_command, "SECONDS", 20)
        assert [answer(ledger, ask(i)).payload for i in range(5)] == ["42"] * 5
        assert ledger.state().primary_spent == 5 * NANO
    with home.open("command") as ledger:
        assert len(ledger.charges()) == 5


def test_an_outage_costs_one_transaction_of_any_kind(home: Home) -> None:
    """What is not anchored is not built upon: no further charge is committed that could not leave either."""
    with begin(home, "command") as ledger:
        home.program.write_text(HARMS["says nothing"])
        for i in range(3):
            with refused("B209"):
                ledger.take_up(ask(i), "secret")
            with refused("B209"):
                ledger.reserve("ana", epsilon_nano=1, delta_atto=0)
        assert ledger._store.read(lambda tx: len(tx.rows("SELECT id FROM charge"))) == 1
        assert not ledger._store.read(lambda tx: tx.rows("SELECT * FROM reservation"))
        home.program.write_text(KEEPER)
        ledger.verify()


def test_the_command_is_run_without_a_shell_and_with_few_variables(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "42")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    tells = "import json\nopen(place + '.env', 'w').write(json.dumps([dict(os.environ), sys.argv, os.getcwd()]))\n"
    home.program.write_text(f"{KEEPER}\n{tells}")
    evil = [*home.words, "; touch /tmp/evil", "$(id)", "`id`", "*", "a b"]
    Ledger.open(home.path, anchor=evil).close()
    environment, words, folder = json.loads(Path(f"{home.register}.env").read_text())
    assert words[2:] == evil[4:]
    assert set(environment) <= {*anchor_command.PASSED, "LC_CTYPE"}
    assert folder == "/"
    assert not Path("/tmp/evil").exists()


def test_one_move_for_many_charges(home: Home) -> None:
    """Waiting transactions share a commit and so a command; the ledger is not locked while it runs."""
    home.program.write_text("import time; time.sleep(0.1)\n" + KEEPER)
    with begin(home, "command") as ledger:
        asked, done = home.asked(), []
        threads = [
            threading.Thread(target=lambda i=i: done.append(answer(ledger, ask(i, NANO // 100)))) for i in range(24)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(done) == 24
        assert home.asked() - asked < 24  # of 48 transactions


def test_many_ledgers_open_at_once_share_the_command(home: Home) -> None:
    with begin(home, "command") as first, home.open("command") as second, home.open("command") as third:
        for i in range(12):
            answer((first, second, third)[i % 3], ask(i, NANO // 100))

        def work(ledger: Ledger, name: str) -> None:
            for i in range(4):
                answer(ledger, ask(f"{name}{i}", NANO // 100))

        threads = [
            threading.Thread(target=work, args=(each, n)) for each, n in ((first, "a"), (second, "b"), (third, "c"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(first.charges()) == 24
        head = first._store.read(lambda tx: tx.head())
    assert anchor.parse_line(home.register.read_bytes()) == head


def test_a_crash_between_commit_and_command_is_harmless(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with begin(home, "command") as ledger, monkeypatch.context() as patch:
        patch.setattr(anchor_command, "exchange", lambda *_: (_ for _ in ()).throw(LedgerError("B209", "x")))
        with refused("B209"):
            ledger.admit(ask("a"))
    with home.open("command") as ledger:
        assert ledger.state().primary_spent == NANO
        assert answer(ledger, ask("a")).payload == "42"
        assert ledger.state().primary_spent == NANO


def test_the_example_keeper_keeps(home: Home) -> None:
    if shutil.which("flock") is None:
        pytest.skip("no flock")
    home.words = [str(ROOT / "examples" / "keep-anchor.sh"), str(home.register)]
    with begin(home, "command") as ledger:
        answer(ledger, ask("a"))
    copy = keep_copy(home.folder)
    with home.open("command") as ledger:
        answer(ledger, ask("b"))
    put_back(copy, home.folder)
    with refused("B203"):
        home.open("command")
    one = Position(dataset_id="0" * 32, count=1, digest="1" * 64)
    two = Position(dataset_id="0" * 32, count=2, digest="2" * 64)
    home.register.unlink()
    ask_it = lambda a, b: anchor_command.exchange("x", home.words, a, b)  # noqa: E731
    assert [ask_it(*pair) for pair in ((None, None), (one, two), (None, one), (None, two), (one, one), (one, two))] == [
        None,
        None,
        one,
        one,
        one,
        two,
    ]


# ---- backups ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accountant", AccountantKind)
@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_takes_the_place_and_what_was_left_is_charged_as_lost(
    home: Home, kind: str, accountant: AccountantKind
) -> None:
    with home.open(kind) as ledger:
        fixed = {"delta_atto": 10**12, "neighbours": Neighbours.ADD_REMOVE, "accountant": accountant}
        ledger.set_budget(epsilon_nano=10 * NANO, **fixed)
        ledger.grant("ana", epsilon_nano=10 * NANO, delta_atto=10**12)
        first = answer(ledger, ask("a", loss=Loss(epsilon_nano=NANO, rho_pico=NANO)))
        ledger.backup(home.disk / "backup")
        answer(ledger, ask("b", loss=Loss(epsilon_nano=1, rho_pico=1)))
    shutil.rmtree(home.folder)
    home.folder.mkdir()
    for suffix in ("", ".anchor"):
        shutil.copy(home.disk / f"backup{suffix}", f"{home.path}{suffix}")
    with Ledger.open(home.path, create=False, anchor=home.where(kind)) as ledger:
        with refused("B210"):
            ledger.admit(ask("a"))
        with refused("P107"):
            ledger.put_into_service(reason="")
        if kind != "beside":
            with refused("B203"):  # its anchor knows of more
                ledger.put_into_service(reason="fire", nothing_lost=True)
        ledger.put_into_service(reason="fire")
        state = ledger.state()
        assert (state.primary_spent, state.secondary_spent) == (state.primary_limit, state.secondary_limit)
        assert ledger.release("ana", 1) == first
        with refused("B101"):
            ledger.admit(ask("c", loss=Loss(epsilon_nano=1, rho_pico=1)))
        assert [c.mechanism for c in ledger.charges()] == ["laplace", "lost"]
    with Ledger.open(home.path, create=False, anchor=home.where(kind)) as ledger:
        ledger.set_budget(epsilon_nano=11 * NANO, **fixed, raise_to=True, reason="surely unspent")
        ledger.grant("ana", epsilon_nano=11 * NANO, delta_atto=10**12, raise_to=True, reason="surely unspent")
        answer(ledger, ask("c", loss=Loss(epsilon_nano=1, rho_pico=1)))


def test_a_reservation_of_this_process_is_not_in_the_way_of_a_backup(home: Home) -> None:
    """It lives as long as its holder, here the same process as the one that replaces the original."""
    with begin(home, "beside") as original:
        held = original.reserve("ana", epsilon_nano=NANO, delta_atto=0)
        original.backup(home.kept / "backup")
        with Ledger.open(home.kept / "backup", create=False) as copy:
            copy.put_into_service(reason="fire")
            state = copy.state()
            assert (state.primary_spent, state.secondary_spent) == (state.primary_limit, state.secondary_limit)
            copy.verify()
        original.end_reservation(held)


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_an_anchor_elsewhere_shows_that_nothing_was_lost(home: Home, kind: str) -> None:
    with begin(home, kind) as ledger:
        answer(ledger, ask("a"))
        ledger.backup(home.kept / "backup")
    with Ledger.open(home.kept / "backup", create=False, anchor=home.where(kind)) as copy:
        copy.put_into_service(reason="fire")
        assert copy.state().primary_spent == NANO


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_an_original_that_was_not_gone_is_refused(home: Home, kind: str) -> None:
    with begin(home, kind) as original:
        answer(original, ask("a"))
        original.backup(home.kept / "backup")
        answer(original, ask("b"))
        with Ledger.open(home.kept / "backup", create=False, anchor=home.where(kind)) as copy:
            copy.put_into_service(reason="fire")
            with refused("B203"):
                original.admit(ask("c"))
        with refused("B203"):
            home.open(kind)
    with Ledger.open(home.kept / "backup", create=False, anchor=home.where(kind)) as copy:
        copy.admit(ask("a"))


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_a_backup_takes_no_other_ledgers_place(home: Home, kind: str) -> None:
    """Its anchor may go back, but not to another data set: that one's charges would be forgotten."""
    with begin(home, kind) as original:
        original.backup(home.kept / "backup")
    other = Position(dataset_id="f" * 32, count=3, digest="1" * 64)
    if kind == "file":
        home.file.unlink()
        anchor.advance(home.path, other, file=str(home.file), create=True)
    else:
        home.register.unlink()
        anchor_command.exchange("x", home.words, None, other)
    with Ledger.open(home.kept / "backup", create=False, anchor=home.where(kind)) as copy:
        with refused("B203"):
            copy.put_into_service(reason="fire")
        with refused("B210"):
            copy.admit(ask("a"))
    if kind == "file":
        assert anchor.read(home.path, str(home.file)) == other
    else:
        assert anchor_command.exchange("x", home.words, None, None) == other


@pytest.mark.parametrize("kind", ELSEWHERE)
@pytest.mark.parametrize("at", range(1, 6))
def test_a_crash_while_a_backup_is_put_into_service(
    home: Home, kind: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begin(home, kind) as original:
        original.backup(home.kept / "backup")
        answer(original, ask("b"))
    moved = 0

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal moved
            moved += 1
            if moved >= at:
                raise Crash
            return real(*args, **named)

        return call

    with monkeypatch.context() as patch:
        copy = Ledger.open(home.kept / "backup", create=False, anchor=home.where(kind))
        for module, name in ((anchor, "advance"), (anchor_command, "exchange")):
            patch.setattr(module, name, counting(getattr(module, name)))
        with suppress(Crash):
            copy.put_into_service(reason="fire")
        patch.undo()
        with suppress(DuckDPError):
            copy.close()
    with Ledger.open(home.kept / "backup", create=False, anchor=home.where(kind)) as copy:
        if copy.state().backup is not None:
            copy.put_into_service(reason="fire, again")
        state = copy.state()
        assert state.primary_spent == state.primary_limit, "what may be lost is charged, whenever it crashed"
    with refused("B203"):
        home.open(kind)


def test_two_backups_put_into_service_one_of_them_serves(home: Home) -> None:
    with begin(home, "command") as original:
        for name in ("one", "two"):
            original.backup(home.disk / name)
    for name in ("one", "two"):
        with Ledger.open(home.disk / name, create=False, anchor=home.words) as copy:
            copy.put_into_service(reason="fire")
    with refused("B203"):
        Ledger.open(home.disk / "one", create=False, anchor=home.words)
    Ledger.open(home.disk / "two", create=False, anchor=home.words).close()


def test_a_backup_of_an_earlier_version_says_that_it_is_one(home: Home) -> None:
    with begin(home, "beside") as ledger:
        answer(ledger, ask("a"))
        ledger.freeze("this is a backup; unfreeze it only to replace a lost original")
        for use in (lambda: ledger.unfreeze("go on"), lambda: ledger.admit(ask("a"))):
            with refused("B210"):
                use()
        ledger.put_into_service(reason="fire", nothing_lost=True)
        assert answer_of(ledger) == "42"


def answer_of(ledger: Ledger) -> str:
    return ledger.admit(ask("a")).payload


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    with suppress(ChildProcessError):
        pid, _ = os.waitpid(-1, os.WNOHANG)
        assert pid == 0
