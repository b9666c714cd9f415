"""The log of what was asked and not charged holds exactly that, and costs nobody anything."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

import duckdp
from duckdp.desk import asking
from duckdp.errors import DuckDPError
from duckdp.ledger import Ledger, statement_file, statements
from duckdp.ledger.statements import StatementLog
from duckdp.shell import Shell
from duckdp.vault.engine import Engine
from tests.statements import Note, found, logged, make_clinic, outcome_of
from tests.test_ledger_full_disk import full_at

ROOT = Path(__file__).resolve().parents[1]

#: Texts over the protected table, whatever comes of them; {n} is another number each time.
TEXTS = (
    "SELECT count(*) FROM visits WHERE age > {n}",
    "SELECT avg(age) FROM visits WHERE age < {n}",
    "SELECT count(*) FROM visits WHERE age > 20.5",
    "SELECT count(*) FROM visits WHERE age > 110 + {n}",
    "SELECT age FROM visits WHERE age > {n}",
    "SELECT * FROM visits LIMIT {n}",
    "SELECT sum(nope) FROM visits -- {n}",
    "SELECT count(*) FROM visits, visits AS b WHERE {n} = {n}",
    "SELECT md5(age) FROM visits -- {n}",
    "SELECT count(*) FROM visits; SELECT {n} FROM visits",
    "DELETE FROM visits WHERE age = {n}",
    "SELECT (((( FROM visits {n}",
    "SELECT age, count(*) FROM visits GROUP BY age -- {n}",
    "SELECT sum(age) FROM visits WHERE age = '{n}x'",
    "SELECT stddev(age) OVER () FROM visits -- {n}",
    "SELECT median(age) FROM visits -- {n}",
    "SELECT count(*) FROM visits WHERE age > {n} -- " + "x" * 2000,
)


def actions(curator: duckdp.Curator, name: str, chance: random.Random) -> Iterator[tuple[str, Callable[[], object]]]:
    """What an analyst may do, without end: (its text in the log, the deed)."""
    session, con = curator.session(name), curator.connect(name)
    texts = itertools.cycle(chance.sample(TEXTS, len(TEXTS)))
    while True:
        n = f"{chance.randrange(10**9) / 10**8:.8f}"
        text = next(texts).replace("{n}", n)
        epsilon = chance.choice(["0.001", "0.001", "0.001", "50", "-1", None])
        yield text, lambda text=text, epsilon=epsilon: session.sql(text, epsilon=epsilon)
        yield (
            f"EXPLAIN {text}",
            lambda text=text, epsilon=epsilon: ("explained", session.explain(text, epsilon=epsilon)),
        )
        where = chance.choice([f"age > {n}", "age > 30.5", "nix > 3"])
        yield (
            f"dp_noisy_count('visits', epsilon := '0.001', predicate := '{where}')",
            lambda where=where: session.noisy_count("visits", epsilon="0.001", predicate=where),
        )
        yield "dp_budget()", session.budget
        yield f"dp_smooth_answer('s{n}', 'age')", lambda n=n: session.smooth_answer(f"s{n}", "age")
        yield (
            f"dp_noisy_count('no{n}', epsilon := '1')",
            lambda n=n: con.execute(f"SELECT dp_noisy_count('no{n}', epsilon := 1)").fetchall(),
        )
        yield "dp_catalog()", lambda: con.execute("SELECT count(*) FROM dp_catalog()").fetchall()
        yield "dp_ledger()", lambda: con.execute("FROM dp_ledger LIMIT 1").fetchall()
        yield "", lambda n=n: con.execute(f"SELECT {n}").fetchall()
        yield "", lambda n=n: session.sql(f"SELECT {n} AS own")
        yield "", lambda n=n: session.sql(f"SELECT nix{n.replace('.', '_')} FROM range(3)")


def issue(curator: duckdp.Curator, name: str, seed: int, count: int) -> Counter[Note]:
    """Do things; what the log is to hold of them."""
    expected: Counter[Note] = Counter()
    for _, (text, deed) in zip(range(count), actions(curator, name, random.Random(seed)), strict=False):
        said: list[str] = []

        def work(deed: Callable[[], object] = deed, said: list[str] = said) -> object:
            got = deed()
            if isinstance(got, tuple):
                said.append(got[0])
            return got

        what = outcome_of(work)
        if text and what is None:
            expected[name, "charge", "", ""] += 1
        elif text:
            expected[name, what[0], statements._cut(text), said[0] if said else what[1]] += 1
    return expected


WORKER = """
import json, sys
import duckdp
from tests.test_statement_log import issue
with duckdp.open(sys.argv[1]) as curator:
    print(json.dumps(list(issue(curator, sys.argv[2], int(sys.argv[3]), int(sys.argv[4])).items())))
"""


def fuzz(tmp_path: Path, seed: int, count: int, threads: int, processes: int) -> None:
    names = [f"ana{i}" for i in range(threads + processes)]
    path = make_clinic(tmp_path, *names)
    command = [sys.executable, "-c", WORKER, path]
    started = [
        subprocess.Popen([*command, name, str(seed + i), str(count)], stdout=subprocess.PIPE, cwd=ROOT, text=True)
        for i, name in enumerate(names[threads:])
    ]
    expected: Counter[Note] = Counter()
    with duckdp.open(path) as curator:
        ledger = curator.ledger.path
        with ThreadPoolExecutor(threads) as pool:
            for part in pool.map(lambda i: issue(curator, names[i], 1000 + seed + i, count), range(threads)):
                expected += part
        for i in range(3):
            with pytest.raises(DuckDPError):
                curator.session("nobody" if i else "No Name")
        expected += Counter(
            {("nobody", "refused", "a session", "B102"): 2, ("No Name", "refused", "a session", "P105"): 1}
        )
    for process in started:
        out, _ = process.communicate(timeout=3000)
        expected += Counter({tuple(note): times for note, times in json.loads(out)})
    charged = {name: expected.pop((name, "charge", "", "")) for name in names}
    assert logged(ledger) == expected
    outcomes = {outcome for _, _, _, outcome in expected}
    assert {"stored", "answered", "explained", "Q301", "Q302", "Q103", "C101", "C110", "P101", "B101"} <= outcomes
    assert found(ledger) == []
    with duckdp.open(path) as curator:
        assert Counter(c.analyst for c in curator.ledger.charges()) == charged


def test_what_was_noted_is_on_the_disk_when_the_ledger_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, not when the thread looks again, and while somebody still holds the closed ledger."""
    monkeypatch.setattr(statements, "WAIT_SECONDS", 10_000.0)
    opened = Ledger.open(tmp_path / "a.ledger")
    opened.statements.note("ana", "free", "SELECT 1", "answered")
    opened.close()
    assert Path(opened.statements.path).exists()
    assert logged(opened.path) == {("ana", "free", "SELECT 1", "answered"): 1}


def test_the_log_holds_what_was_issued_and_not_charged(tmp_path: Path) -> None:
    fuzz(tmp_path, seed=1, count=190, threads=2, processes=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_the_log_holds_what_was_issued_by_many(tmp_path: Path, seed: int) -> None:
    fuzz(tmp_path, seed=100 * seed, count=400, threads=4, processes=4)


def test_each_way_through_the_shell_is_logged(tmp_path: Path) -> None:
    path = make_clinic(tmp_path, "ana")
    with duckdp.open(path) as curator:
        shell = Shell(curator, "ana", out=lambda _: None, err=lambda _: None)
        for text in (
            *("SELECT count(*) FROM visits", "CREATE TABLE a AS SELECT count(*) FROM visits", "SELECT 1", "FROM nix"),
            *(".epsilon 0.1", "SELECT count(*) FROM visits", "SELECT count(*) FROM visits"),
            *("EXPLAIN SELECT age FROM visits", "CREATE TABLE a AS SELECT count(*) FROM visits"),
            *("SELECT 1; SELECT 2", "SELECT ((", ".budget"),
        ):
            shell.run(text)
        ledger = curator.ledger.path
    assert logged(ledger) == Counter(
        {
            ("ana", "refused", "SELECT count(*) FROM visits", "P101"): 1,
            ("ana", "refused", "CREATE TABLE a AS SELECT count(*) FROM visits", "P101"): 1,
            ("ana", "free", "SELECT count(*) FROM visits", "stored"): 1,
            ("ana", "refused", "EXPLAIN SELECT age FROM visits", "Q301"): 1,
            ("ana", "free", "dp_query('SELECT count(*) FROM visits', epsilon := '0.1')", "stored"): 1,
            ("ana", "refused", "SELECT 1; SELECT 2", "Q102"): 1,
            ("ana", "refused", "SELECT ((", "Q101"): 1,
            ("ana", "free", "dp_budget()", "answered"): 1,
        }
    )


def test_what_fails_after_its_charge_is_logged_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_clinic(tmp_path, "ana")

    def fails(*_: object) -> object:
        raise RuntimeError("secret row")

    with duckdp.open(path) as curator:
        monkeypatch.setattr(Engine, "run", fails)
        with pytest.raises(DuckDPError, match=r"^X101"):
            curator.session("ana").sql("SELECT count(*) FROM visits", epsilon=0.1)
        [entry] = curator.history(kind="failed")
        assert (entry[1], entry[4], entry[5]) == ("ana", "X101, charge 1", "SELECT count(*) FROM visits")


# ---- never a value ---------------------------------------------------------------------------------------------------

CANARY = "kanarienvogel"
NUMBER = 918273645


@pytest.fixture
def aviary(tmp_path: Path) -> str:
    """A table whose every value is a canary."""
    path = str(tmp_path / "aviary.duckdb")
    with duckdb.connect(path) as con:
        con.execute(
            f"CREATE TABLE birds AS SELECT {NUMBER}::BIGINT AS keeper, {NUMBER}::BIGINT AS weight, '{CANARY}' AS song "
            "FROM range(40)"
        )
    with duckdp.open(path) as curator:
        curator.protect(
            "birds", unit_key="keeper", max_rows=3, row_cap=100, bounds={"weight": (0, 10**9)}, columns=["song"]
        )
        curator.budget(epsilon=100, delta=1e-5)
        curator.grant("ana", epsilon=50, delta=1e-6)
    return path


def sing(path: str) -> bytes:
    """Ask for whatever may hold a value, and fail in whatever way may quote one; all that the log and exports hold."""
    folder = Path(path).parent
    with duckdp.open(path) as curator:
        session, con = curator.session("ana"), curator.connect("ana")
        for text in (
            *("SELECT song FROM birds", "SELECT * FROM birds", "SELECT max(weight) FROM birds", "FROM birds"),
            *("SELECT song, count(*) FROM birds GROUP BY song", "SELECT error(song) FROM birds", "SUMMARIZE birds"),
            *("SELECT CAST(song AS INT) FROM birds", "SELECT count(*) FROM birds WHERE CAST(song AS INT) > 1"),
            *("SELECT count(*) FROM birds WHERE weight // 0 > 1", "SELECT sum(weight) FROM birds"),
        ):
            for again in range(2):
                outcome_of(lambda text=text: session.sql(text, epsilon=0.1, delta="1e-8"))
                outcome_of(lambda text=text: con.execute(text).fetchall())
                outcome_of(
                    lambda again=again: session.noisy_count("birds", epsilon=0.1 + again, predicate="song = 'x'")
                )
        original = Engine.run
        try:
            for error in (RuntimeError, duckdb.ConversionException, KeyboardInterrupt):

                def run(*_: object, error: type[BaseException] = error) -> object:
                    raise error(f"{CANARY} {NUMBER}")

                Engine.run = run  # type: ignore[method-assign, assignment]
                outcome_of(lambda: session.sql("SELECT count(*) FROM birds WHERE weight > 3", epsilon=0.1, fresh=True))
        finally:
            Engine.run = original  # type: ignore[method-assign]
        shown = str(curator.history(last=1000))
        curator.export_history(folder / "all.csv")
        curator.export_history(folder / "all.parquet")
    raw = b"".join(f.read_bytes() for f in sorted(folder.glob("aviary.ledger.statements*")))
    with duckdb.connect() as con:
        shown += str(con.execute(f"FROM '{folder}/all.parquet'").fetchall())
    return raw + shown.encode() + (folder / "all.csv").read_bytes()


def test_no_value_of_the_data_is_in_the_log(aviary: str) -> None:
    everything = sing(aviary)
    assert b"SELECT error(song) FROM birds" in everything
    assert CANARY.encode() not in everything
    assert str(NUMBER).encode() not in everything


def test_a_log_that_kept_errors_would_be_noticed(aviary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "code_of", lambda error: f"{error} {error.__context__}")
    monkeypatch.setattr("duckdp.desk.desk.laundered", lambda error, _: duckdp.errors.InternalError(str(error)))
    assert CANARY.encode() in sing(aviary)


# ---- bounds and shares -----------------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> Iterator[StatementLog]:
    made = StatementLog(str(tmp_path / "a.ledger"), "0" * 32, b"s" * 16)
    yield made
    made.close()


def small(monkeypatch: pytest.MonkeyPatch, rows: int = 2000, size: int = 2**20) -> None:
    monkeypatch.setattr(statement_file, "MOST_ROWS", rows)
    monkeypatch.setattr(statement_file, "MOST_BYTES", size)
    monkeypatch.setattr(statement_file, "MOST_PAGES", 4 * size // 4096)


def flood(log: StatementLog, who: str, count: int, size: int = 40) -> None:
    for i in range(count):
        log.note(who, "refused", f"{i:06} " + "y" * (i % size), "Q301")
        if i % 500 == 499:
            assert log.flush(), log.problem


def room(log: StatementLog) -> int:
    return sum(f.stat().st_size for f in Path(log.path).parent.iterdir())


def check(log: StatementLog) -> list[str]:
    from duckdp.ledger.statement_check import problems

    return problems(log.path.removesuffix(".statements"), "0" * 32, b"s" * 16, log.heads)[0]


def test_a_flood_neither_fills_the_disk_nor_pushes_out_others(
    log: StatementLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch)
    for i in range(300):
        log.note("bea", "free", f"bea's {i}", "answered")
    flood(log, "ana", 9000)
    for i in range(300, 600):
        log.note("bea", "free", f"bea's {i}", "answered")
    flood(log, "ana", 3000, size=1000)
    log.flush()
    notes = logged(log.path.removesuffix(".statements"))
    assert {text for who, _, text, _ in notes if who == "bea"} == {f"bea's {i}" for i in range(600)}
    assert notes.total() <= 2000
    assert 0.9 * 2**20 < sum(statement_file.size_of(text) * times for (_, _, text, _), times in notes.items()) <= 2**20
    assert max(text for who, _, text, _ in notes if who == "ana").startswith("002999")  # the latest are kept
    assert room(log) < 4 * 2**20 + statement_file.MOST_JOURNAL
    assert check(log) == []


def test_sharing_by_age_alone_would_be_noticed(log: StatementLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_file, "MOST_ROWS", 2000)
    monkeypatch.setattr(statement_file._Chain, "share", property(lambda chain: -float(chain.count)))
    for i in range(300):
        log.note("bea", "free", f"bea's {i}", "answered")
    flood(log, "ana", 3000)
    notes = logged(log.path.removesuffix(".statements"))
    assert sum(who == "bea" for who, *_ in notes) < 300


def test_names_that_nobody_granted_share_one_place(log: StatementLog, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    for i in range(50):
        log.note("bea", "free", f"bea's {i}", "answered")
    for i in range(6000):
        log.note(f"stranger{i}", "refused", "a session", "B102", granted=False)
        if i % 500 == 499:
            log.flush()
    notes = logged(log.path.removesuffix(".statements"))
    assert sum(who == "bea" for who, *_ in notes) == 50
    assert log.heads.keys() == {"bea", ""}
    assert check(log) == []


@pytest.mark.slow
def test_a_hundred_thousand_statements_keep_to_the_bounds(log: StatementLog) -> None:
    flood(log, "ana", 1000)
    flood(log, "bea", 150_000, size=1000)
    notes = logged(log.path.removesuffix(".statements"))
    assert sum(who == "ana" for who, *_ in notes) == 1000
    assert notes.total() <= statement_file.MOST_ROWS
    assert room(log) < 2 * statement_file.MOST_BYTES + statement_file.MOST_JOURNAL
    assert check(log) == []


def test_the_buffer_is_bounded_and_what_it_had_no_room_for_is_said(
    log: StatementLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> object:
        raise OSError("full")

    with monkeypatch.context() as broken:
        broken.setattr(statement_file.StatementFile, "append", refuses)
        for _ in range(10_000):
            log.note("ana", "free", "z" * 5000, "answered")
        for i in range(50):
            log.note("bea", "free", f"bea's {i}", "answered")  # has a share of her own
        assert not log.flush()
        assert sum(len(q) for q in log._queues.values()) <= statements.MOST_WAITING + 50
        assert sum(len(e.text) for q in log._queues.values() for e in q) < 6 * 2**20
    assert log.flush()
    notes = logged(log.path.removesuffix(".statements"))
    assert sum(times for (who, *_), times in notes.items() if who == "bea") == 50
    [lost] = [text for _, kind, text, _ in notes if kind == "lost"]
    kept = sum(times for (who, kind, *_), times in notes.items() if who == "ana" and kind == "free")
    assert lost == f"{10_000 - kept:,} statements could not be noted"
    assert check(log) == []


# ---- faults ----------------------------------------------------------------------------------------------------------


def asked(curator: duckdp.Curator, count: int = 3) -> None:
    session = curator.session("ana")
    for _ in range(count):
        assert session.budget().rows()
        with pytest.raises(DuckDPError, match=r"^Q301"):
            session.sql("SELECT age FROM visits", epsilon=1)


def fails(log: StatementLog) -> bool:
    """Whether the log could not be written; nothing is raised, on its own thread neither, and it knows why."""
    raised: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda what: raised.append(repr(what.exc_value)))
        try:
            written = log.flush()
        except Exception as error:  # noqa: BLE001
            pytest.fail(f"the log raised {error!r}")
    assert raised == []
    return not written and log.problem is not None


@pytest.mark.parametrize("fault", ["full disk", "read-only folder", "damaged", "another's", "locked", "a folder"])
def test_no_fault_of_the_log_fails_a_statement(tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_clinic(tmp_path, "ana")
    monkeypatch.setattr(statement_file, "_BUSY_MILLISECONDS", 1)
    place = tmp_path / "clinic.ledger.statements"
    with duckdp.open(path) as curator:
        log = curator.ledger.statements
        if fault == "full disk":
            with full_at(100):
                asked(curator)
                assert fails(log)
        elif fault == "read-only folder":
            monkeypatch.setattr(statement_file.files, "make", lambda _: (_ for _ in ()).throw(OSError("read-only")))
            asked(curator)
            assert fails(log)
            monkeypatch.undo()
        elif fault == "damaged":
            place.write_bytes(os.urandom(8192))
        elif fault == "a folder":
            place.mkdir()
        elif fault == "another's":
            other = StatementLog(str(tmp_path / "clinic.ledger"), "1" * 32, b"")
            other.note("eve", "free", "SELECT 1", "answered")
            other.close()
        else:
            log.note("ana", "free", "first", "answered")
            assert log.flush()
            holder = duckdb_free_lock(place)
        if fault not in ("full disk", "read-only folder"):
            asked(curator)
            assert fails(log)
            assert log.problem is not None
            if fault == "locked":
                holder.rollback()
                holder.close()
            else:
                os.rename(place, tmp_path / "away")
        asked(curator)
        assert log.flush(), log.problem
        ledger = curator.ledger.path
        assert len(curator.history(kind=["free", "refused"])) == 12 + (fault == "locked")
    assert found(ledger) == []


def duckdb_free_lock(place: Path) -> object:

    holder = sqlite3.connect(place, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    return holder


KILLED = """
import sys, duckdp
curator = duckdp.open(sys.argv[1])
session = curator.session("ana")
for i in range(10**6):
    session.noisy_count("visits", epsilon="0.001", predicate="age > 30") if i % 50 else session.budget()
    if i % 100 == 99:
        curator.ledger.statements.flush()
        print(i, flush=True)
"""


def test_a_killed_process_loses_at_most_what_was_not_written(tmp_path: Path) -> None:
    path = make_clinic(tmp_path, "ana")
    process = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, cwd=ROOT, text=True)
    assert process.stdout is not None
    for wanted in (99, 199):
        assert int(process.stdout.readline()) == wanted
    process.send_signal(signal.SIGKILL)
    out, _ = process.communicate()
    last = int(out.split()[-1]) if out.split() else 199
    ledger = str(tmp_path / "clinic.ledger")
    assert logged(ledger).total() >= last  # all but the one that was charged
    assert found(ledger) == []
    with duckdp.open(path) as curator:
        assert len(curator.ledger.charges()) == 1
        curator.session("ana").budget()
    assert found(ledger) == []


def test_a_fork_leaves_its_parents_entries_to_the_parent(tmp_path: Path) -> None:
    path = make_clinic(tmp_path, "ana")
    with duckdp.open(path) as curator:
        curator.session("ana").budget()
        log = curator.ledger.statements
        child = os.fork()
        if not child:
            os._exit(0 if log.flush() and not log._queues and not log.heads else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        ledger = curator.ledger.path
    assert logged(ledger) == Counter({("ana", "free", "dp_budget()", "answered"): 1})


def test_an_interrupt_anywhere_leaves_a_log_that_goes_on(log: StatementLog) -> None:
    """At every step of noting and writing in the main thread."""
    from tests.interruptions import interrupted, steps

    def work() -> None:
        log.note("ana", "free", "SELECT 1", "answered")
        log.flush()

    points = steps(work, ("ledger",))
    assert points > 30
    for at in range(1, points + 1):
        interrupted(work, at, ("ledger",))
        log.note("ana", "free", f"after {at}", "answered")
        assert log.flush(), log.problem
    notes = logged(log.path.removesuffix(".statements"))
    assert all(notes["ana", "free", f"after {at}", "answered"] == 1 for at in range(1, points + 1))
    assert check(log) == []


@pytest.mark.parametrize("before", ["nothing", "waits", "served"])
def test_an_interrupt_anywhere_leaves_a_log_that_ends(log: StatementLog, before: str) -> None:
    """At every step of closing it, whether or not its thread serves; what closes it then does not wait for ever."""
    from tests.interruptions import interrupted, steps

    ledger = log.path.removesuffix(".statements")

    def begun(at: int) -> StatementLog:
        made = StatementLog(ledger, *log._identity)
        if before != "nothing":
            made.note("ana", "free", f"before {at}", "answered")
        if before == "served":
            assert made.flush()
        return made

    first = begun(0)
    points = steps(first.close, ("ledger",))
    assert points > 5
    for at in range(1, points + 1):
        ended = begun(at)
        interrupted(ended.close, at, ("ledger",))
        closing = threading.Thread(target=ended.close, daemon=True)
        closing.start()
        closing.join(60)
        assert not closing.is_alive(), at
    if before != "nothing":
        assert all(logged(ledger)["ana", "free", f"before {at}", "answered"] == 1 for at in range(points + 1))


def test_a_log_that_nobody_closes_is_written_by_its_thread_and_at_the_end(tmp_path: Path) -> None:
    path = make_clinic(tmp_path, "ana")
    code = "import sys, duckdp; c = duckdp.open(sys.argv[1]); c.session('ana').budget()"
    subprocess.run([sys.executable, "-W", "error", "-c", code, path], cwd=ROOT, check=True)
    assert logged(str(tmp_path / "clinic.ledger")).total() == 1
    with duckdp.open(path) as curator:
        log = curator.ledger.statements
        written = threading.Event()
        append = log._file.append
        log._file.append = lambda entries: (append(entries), written.set())[0]  # type: ignore[method-assign]
        curator.session("ana").budget()
        assert written.wait(60)
        assert logged(curator.ledger.path).total() == 2


# ---- the end ---------------------------------------------------------------------------------------------------------


def ends(log: StatementLog) -> tuple[threading.Thread, threading.Event]:
    """Close it on a thread; and whether it was closed."""
    done = threading.Event()
    thread = threading.Thread(target=lambda: (log.close(), done.set()))
    thread.start()
    return thread, done


def test_the_end_waits_for_whoever_holds_the_file(log: StatementLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writers of a busy machine hold it for longer than a write waits, and more than once."""
    monkeypatch.setattr(statement_file, "_BUSY_MILLISECONDS", 1)
    log.note("ana", "free", "first", "answered")
    assert log.flush()
    failed, append = threading.Semaphore(0), log._file.append

    def counted(entries: object) -> object:
        try:
            return append(entries)  # type: ignore[arg-type]
        except BaseException:
            failed.release()
            raise

    monkeypatch.setattr(log._file, "append", counted)
    holder = duckdb_free_lock(Path(log.path))
    log.note("ana", "free", "second", "answered")
    thread, done = ends(log)
    for _ in range(3):
        assert failed.acquire(timeout=60)
        assert not done.is_set()
    holder.rollback()
    holder.close()
    thread.join(60)
    assert logged(log.path.removesuffix(".statements"))["ana", "free", "second", "answered"] == 1


def test_the_end_waits_as_long_as_a_slow_disk_writes(log: StatementLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "_PATIENCE", 1)
    append, begun, go_on = log._file.append, threading.Event(), threading.Event()

    def slow(entries: object) -> object:
        begun.set()
        assert go_on.wait(60)
        return append(entries)  # type: ignore[arg-type]

    monkeypatch.setattr(log._file, "append", slow)
    log.note("ana", "free", "first", "answered")
    thread, done = ends(log)
    assert begun.wait(60)
    assert not done.wait(2)
    go_on.set()
    thread.join(60)
    assert logged(log.path.removesuffix(".statements")).total() == 1


def test_the_end_does_not_wait_for_a_file_that_nobody_can_write(log: StatementLog) -> None:
    Path(log.path).write_bytes(b"no log" * 1000)
    log.note("ana", "free", "first", "answered")
    thread, _ = ends(log)
    thread.join(20)
    assert not thread.is_alive()
    assert isinstance(log.problem, DuckDPError)


def test_a_log_may_end_on_its_own_thread(log: StatementLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python ends what nobody holds any more wherever it is; whoever asks there waits for nobody."""
    monkeypatch.setattr(statements, "_PATIENCE", 1)
    append, ended = log._file.append, threading.Event()

    def closes(entries: object) -> object:
        log.close()
        ended.set()
        return append(entries)  # type: ignore[arg-type]

    monkeypatch.setattr(log._file, "append", closes)
    log.note("ana", "free", "first", "answered")
    log.flush()
    assert ended.wait(60)


def test_a_journal_that_goes_while_it_is_looked_at_is_no_problem(
    log: StatementLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever closes the file last removes it."""
    size_of = os.path.getsize

    def gone(path: str) -> int:
        if path.endswith("-wal"):
            raise FileNotFoundError(path)
        return size_of(path)

    monkeypatch.setattr(os.path, "getsize", gone)
    log.note("ana", "free", "first", "answered")
    assert log.flush(), log.problem


def test_a_log_that_was_moved_away_is_begun_anew(log: StatementLog) -> None:
    log.note("ana", "free", "first", "answered")
    assert log.flush()
    os.rename(log.path, log.path + ".away")
    log.note("ana", "free", "second", "answered")
    assert log.flush()
    assert {text for _, _, text, _ in logged(log.path.removesuffix(".statements"))} == {"second"}
    assert check(log) == []


def test_what_a_call_is_given_is_not_shown() -> None:
    """Numbers and texts are what was asked; of anything else the log shows the name of its type, and never calls it."""

    class Frame:
        def __repr__(self) -> str:
            raise AssertionError("asked")

    rows = {"age": [CANARY]}
    shown = asking.call_text(
        "f", [rows, Frame(), [Frame(), ["x"]], 10**400, b"x", True, None, 1.5], {"progress": print}
    )
    assert (
        shown == "f(dict, Frame, [Frame, [...]], int, bytes, true, NULL, 1.5, progress := builtin_function_or_method)"
    )
    long = asking.call_text("f", ["x" * 10**6, *["y"] * 10**5], {})
    assert len(long) < 1100
    assert len(asking.call_text("f", [["abc"] * 10**6], {})) < 1100


def test_headroom_and_interactive_releases_are_logged_where_they_are_free_or_refused(tmp_path: Path) -> None:
    path = make_clinic(tmp_path, "ana")
    with duckdp.open(path) as curator:
        session = curator.session("ana")
        session.reserve(epsilon=1).give_up()
        with pytest.raises(DuckDPError, match=r"^B101"):
            session.reserve(epsilon=50)
        ledger = curator.ledger.path
    assert logged(ledger) == Counter(
        {
            ("ana", "free", "reserve(epsilon := 1)", "reserved"): 1,
            ("ana", "refused", "reserve(epsilon := 50)", "B101"): 1,
        }
    )


def test_a_text_that_is_no_unicode_is_logged_and_refused_as_such(tmp_path: Path) -> None:
    with duckdp.open(make_clinic(tmp_path, "ann")) as curator:
        session = curator.session("ann")
        with pytest.raises(DuckDPError, match=r"must be a text in Unicode\.$"):
            session.sql("SELECT '\ud800' FROM visits", epsilon=1)
        assert curator.history(kind="refused").rows()[0][4:] == ("P107", "SELECT '?' FROM visits")
