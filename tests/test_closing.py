"""The end of a curator: under load, from everywhere, interrupted anywhere, with parts that fail, and as Python leaves.

What hangs would hang the suite, so what may hang runs in a process of its own under a time limit that is generous on a
busy machine.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

import duckdp
from duckdp.errors import DuckDPError
from duckdp.ledger import Ledger
from duckdp.process import folders
from tests.interruptions import Interruptions
from tests.ledgers import refused

ROOT = Path(__file__).resolve().parents[1]
ASK = "SELECT count(*) FROM visits"
ENDLESS = "SELECT count(*) FROM range(100000000000) a(i) WHERE i % 7 = 3"


def run(program: str, *arguments: str, seconds: int = 600, expect: int = 0) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", program, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=seconds, check=False
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


def is_closed(curator: duckdp.Curator) -> bool:
    """Everything: no thread of the ledger, no instance, no folder, and others may have the file."""
    writer = curator.ledger._store._writer
    with pytest.raises(duckdb.ConnectionException):
        curator.engine._con.execute("SELECT 1")
    return not writer._serving.locked() and not os.path.exists(curator.engine._folder)


# ---- under load -----------------------------------------------------------------------------------------------------

LOAD = """
import sys, tempfile
from pathlib import Path
from tests.closing import close_once, make
path, charged = make(Path(sys.argv[1])), 0
for seed in range(int(sys.argv[2])):
    found = close_once(path, seed)
    charged += found["charged"]
    for problem in found["problems"]:
        print(seed, problem, flush=True)
print("charged" if charged else "nothing was charged")
"""


def test_closing_under_load(tmp_path: Path) -> None:
    assert run(LOAD, str(tmp_path), "4") == "charged\n"


@pytest.mark.slow
def test_closing_under_load_a_hundred_times(tmp_path: Path) -> None:
    assert run(LOAD, str(tmp_path), "100", seconds=5400) == "charged\n"


# ---- from everywhere ------------------------------------------------------------------------------------------------


def test_whoever_comes_late_is_told(curator: duckdp.Curator) -> None:
    session, con = curator.session("ana"), curator.connect("ana")
    cursor, relation = con.cursor(), con.sql("SELECT 1 AS x")
    own = duckdb.connect()
    duckdp.register(own, curator, analyst="ana")
    curator.close()
    assert is_closed(curator)
    late: list[Callable[[], object]] = [
        lambda: session.sql(ASK, epsilon=1),
        lambda: session.sql("SELECT 1"),
        session.budget,
        lambda: session.noisy_count("visits", epsilon=1),
        lambda: curator.session("ana"),
        lambda: curator.tables,
        lambda: curator.connect("ana"),
        lambda: curator.refresh(reason="x"),
        curator.suggest,
        curator.charges,
        curator.ledger.state,
        curator.engine.schema_cursor,
    ]
    for work in late:
        with refused("B211"):
            work()
    for use in (con.execute, cursor.execute, con.sql, relation.filter, own.execute):
        with pytest.raises(duckdb.Error, match="B211: "):
            use("FROM dp_noisy_count('visits', epsilon := 1)").fetchall()
    assert "B211" in repr(curator)


def test_closing_again_and_from_many_threads_is_harmless(curator: duckdp.Curator) -> None:
    curator.session("ana").sql(ASK, epsilon=1)
    with ThreadPoolExecutor(8) as pool:
        assert [job.result(600) for job in [pool.submit(curator.close) for _ in range(8)]] == [None] * 8
    curator.close()
    curator.engine.close()
    curator.ledger.close()
    assert is_closed(curator)


def test_connections_close_in_any_order(curator: duckdp.Curator) -> None:
    with curator.connect("ana") as con, con.cursor() as cursor:
        assert cursor.execute("SELECT 1").fetchall() == [(1,)]
    other, third = curator.connect("ana"), curator.connect("ana").cursor()
    assert other.execute("SELECT 2").fetchall() == [(2,)]
    other.close()
    assert third.execute("SELECT 3").fetchall() == [(3,)]
    curator.close()
    for closed in (con, cursor, other, third):
        closed.close()
        with pytest.raises(duckdb.Error, match="B211: "):
            closed.execute("SELECT 1")


def test_a_statement_of_an_analyst_that_runs_is_interrupted(curator: duckdp.Curator) -> None:
    con, begun = curator.connect("ana").cursor(), threading.Event()

    def endless() -> None:
        begun.set()
        con.execute(ENDLESS)

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(endless)
        assert begun.wait(600)
        curator.close()
        with pytest.raises(duckdb.ConnectionException, match="B211: "):
            asked.result(600)


def test_a_statement_that_begins_late_is_waited_for(curator: duckdp.Curator) -> None:
    """DuckDB closes the connection of a statement that begins at that moment; nobody could end it any more."""
    con, begun, ended = curator.connect("ana"), threading.Event(), threading.Event()

    class Late:
        def execute(self, _: str) -> None:
            begun.set()
            while not con._instance._closing:
                time.sleep(0.001)
            time.sleep(0.3)
            ended.set()

    con._inner = Late()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(con.execute, ENDLESS)
        assert begun.wait(600)
        curator.close()
        assert ended.is_set()
        assert asked.result(600) is None


def test_a_finalizer_may_close(curator: duckdp.Curator) -> None:
    class Owner:
        pass

    owner = Owner()
    weakref.finalize(owner, curator.close)
    owner.cycle = owner  # type: ignore[attr-defined]
    del owner
    with ThreadPoolExecutor(1) as pool:
        pool.submit(gc.collect).result(600)
    assert is_closed(curator)


def test_a_progress_function_may_close(curator: duckdp.Curator) -> None:
    """On the thread whose own work the end waits for."""
    curator.on_progress = lambda *_: curator.close()
    with pytest.raises(DuckDPError) as caught:
        curator.session("ana").synthesize("visits", epsilon=1, rows=10, name="p")
    assert caught.value.code in ("E102", "B211")
    assert is_closed(curator)


def test_an_unclosed_ledger_that_is_collected_lets_go(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "a.ledger")
    writer = ledger._store._writer
    del ledger
    gc.collect()
    assert writer.closed
    assert not writer._serving.locked()


# ---- interrupted, and with parts that fail --------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_anywhere_leaves_no_half_of_it(clinic_file: str, tmp_path: Path) -> None:
    def opened() -> duckdp.Curator:
        found = duckdp.open(clinic_file, ledger=tmp_path / "i.ledger")
        found.budget(epsilon=1)
        found.grant("ana", epsilon=1)
        found.connect("ana").execute("SELECT 1")
        return found

    package = (str(Path(duckdp.__file__).parent),)
    first = opened()
    with Interruptions(-1, package) as counted:
        first.close()
    kept, points = [], min(counted.steps, 60)  # the last of them are steps of waiting
    for at in range(1, points + 1, 4):
        curator = opened()
        try:
            with Interruptions(at, package):
                curator.close()
        except KeyboardInterrupt as error:
            kept.append(error)
        try:  # it came before the first step
            assert curator.session("ana").sql("SELECT 1").rows() == [(1,)]
        except DuckDPError as error:
            assert error.code == "B211", error
        curator.close()  # waits for what is under way, if it is
        assert is_closed(curator), at
    assert kept


@pytest.mark.parametrize("part", ["front", "engine", "source", "ledger", "all"])
@pytest.mark.parametrize("kind", [duckdb.IOException, ValueError, KeyboardInterrupt])
def test_all_is_closed_whatever_fails(
    part: str, kind: type[BaseException], clinic_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = duckdp.open(clinic_file, ledger=tmp_path / "f.ledger")
    curator.budget(epsilon=1)
    curator.grant("ana", epsilon=1)
    front = curator.front("ana")

    def failing(real: Callable[[], None]) -> Callable[[], None]:
        def work() -> None:
            real()
            raise kind("a row of somebody")

        return work

    engine, ledger = curator.engine, curator.ledger
    parts = {
        "front": (front, "close"),
        "engine": (engine, "_close_instance"),
        "source": (engine.source, "close"),
        "ledger": (ledger, "close"),
    }
    for name, (owner, method) in parts.items():
        if part in (name, "all"):
            monkeypatch.setattr(owner, method, failing(getattr(owner, method)))
    with pytest.raises(DuckDPError) as caught:
        curator.close()
    assert caught.value.code == "X101"
    assert "row" not in str(caught.value)
    assert caught.value.__context__ is None
    assert is_closed(curator)
    curator.close()
    duckdp.open(clinic_file, ledger=tmp_path / "f.ledger").close()


def test_the_ledger_opens_in_another_process_at_once(curator: duckdp.Curator) -> None:
    curator.session("ana").sql(ASK, epsilon=1)
    path = curator.ledger.path
    curator.close()
    look = "import sys; from duckdp.ledger import Ledger; print(len(Ledger.open(sys.argv[1], create=False).charges()))"
    assert run(look, path) == "1\n"


# ---- as Python leaves -----------------------------------------------------------------------------------------------

LEAVING = """
import atexit, os, signal, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import duckdp
from tests.closing import ENDLESS, Load, make, open_load
way, folder = sys.argv[1], Path(sys.argv[2])
curator = open_load(make(folder, 20_000), snapshot=way == "snapshot")
session = curator.session("ana")
session.sql("SELECT count(*) FROM t", epsilon=1)
session.smooth_summary("t", ["x"], epsilon=1, name="first")
session.synthesize("t", epsilon=1, rows=10, name="second")
print(curator.engine._folder, flush=True)
load = Load(curator, 1)
atexit.register(lambda: print("left", flush=True))
if way != "idle":
    load.start()
    while len(load.outcomes) < 3:
        time.sleep(0.01)
if way == "exception":
    raise RuntimeError("on purpose")
elif way == "exit":
    sys.exit(3)
elif way == "pool":
    def leave():
        sys.exit(3)
    ThreadPoolExecutor(1).submit(leave)
elif way == "reading":
    threading.Thread(target=lambda: curator.connect("ana").execute(ENDLESS), daemon=True).start()
    time.sleep(0.2)
elif way == "_exit":
    os._exit(4)
elif way == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
elif way == "closing":
    threading.Thread(target=curator.close, daemon=True).start()
"""
WAYS = {
    "idle": 0,
    "daemons": 0,
    "exception": 1,
    "exit": 3,
    "pool": 0,
    "reading": 0,
    "closing": 0,
    "snapshot": 0,
    "_exit": 4,
    "kill": -signal.SIGKILL,
}

SHORT = ("exception", "reading", "kill")


@pytest.mark.parametrize("way", [pytest.param(way, marks=[] if way in SHORT else [pytest.mark.slow]) for way in WAYS])
def test_leaving_ends_everything(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No hang, no crash, no folder that stays; of a killed process it goes when the next one opens anything."""
    own = tmp_path / "spill"  # elsewhere, another test may be the next one that opens anything
    own.mkdir()
    monkeypatch.setenv("TMPDIR", str(own))
    monkeypatch.setattr(tempfile, "tempdir", None)
    told = run(LEAVING, way, str(tmp_path), expect=WAYS[way])
    spill = next(line for line in told.splitlines() if folders.PREFIX in line)
    assert "Fatal" not in told
    assert "terminate" not in told
    assert ("left" in told) == (way not in ("_exit", "kill"))
    if way in ("_exit", "kill"):
        assert os.path.isdir(spill)
        folders.Folder().close()
    assert not os.path.exists(spill)
    with Ledger.open(tmp_path / "load.duckdb.ledger", create=False) as ledger:
        assert [c for c in ledger.charges() if c.state == "released"]


USED = """
import sys, threading
from pathlib import Path
from duckdp.process.aside import beside
from duckdp.vault import life
from tests.closing import make, open_load
curator = open_load(make(Path(sys.argv[1]), 100))
session = curator.session("ana")
session.sql("SELECT count(*) FROM t", epsilon=1)
session.sql("SELECT 1")
curator.connect("ana").sql("SELECT 1").fetchall()
curator.close()
seen = {}
print(life._look_for_calls(seen), len(seen))
begun, go_on = threading.Event(), threading.Event()
threading.Thread(target=lambda: beside(lambda: (begun.set(), go_on.wait()), lambda: None)).start()
begun.wait()
print(life._look_for_calls(seen), len(seen))
go_on.set()
"""


def test_leaving_waits_for_nobody_who_waits_for_work(tmp_path: Path) -> None:
    """A thread that stays for the next statement is no call that is under way; one that has work is."""
    assert run(USED, str(tmp_path)) == "False 0\nTrue 2\n"


def test_a_folder_that_is_in_use_stays(tmp_path: Path) -> None:
    used = folders.Folder()
    look = "from duckdp.process import folders; folders.Folder().close()"
    run(look)
    assert os.path.isdir(used.path)
    assert os.stat(used.path).st_mode & 0o077 == 0
    used.close()
    used.close()
    assert not os.path.exists(used.path)


def test_a_folder_that_another_process_swept_before_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make, swept = tempfile.mkdtemp, []

    def make_and_lose(**how: str) -> str:
        path = make(**how)
        if not swept:
            swept.append(path)
            folders._sweep()
            assert not os.path.exists(path)
        return path

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose)
    found = folders.Folder()
    assert swept != [found.path]
    assert os.path.isdir(found.path)
    found.close()


def test_folders_where_the_file_system_has_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made at once, and none is removed but by whoever made it."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    made: list[str] = []
    make = tempfile.mkdtemp

    def make_few(**how: str) -> str:
        assert len(made) < 2, "tries for ever"
        made.append(make(**how))
        return made[-1]

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("fcntl.flock", refuse)
    monkeypatch.setattr(tempfile, "mkdtemp", make_few)
    first, second = folders.Folder(), folders.Folder()
    assert os.path.isdir(first.path)
    first.close()
    second.close()
    assert not any(os.path.exists(path) for path in made)
