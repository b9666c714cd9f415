"""A front's errors: those about a statement pass, those about DuckDB and its machine are one constant text."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.errors import ExecutionError, QueryError
from duckdp.front.front import Front
from duckdp.front.guarded import ENDED, WITHHELD, ZONED, Guarded, told
from duckdp.process import aside
from tests.adversary.front_fuzz import NOT_FOR_SHOW
from tests.interruptions import interrupted, steps

# An error inside DuckDB 2.0, met while a statement is bound, while it runs, and at the 400,001st row of it.
INSIDE = "SELECT \">\"(chr(0) || 'x', '-inf'::DOUBLE) AS x"
INSIDE_LATE = (
    "SELECT CASE WHEN i > 400000 THEN \">\"(chr(0) || i::VARCHAR, '-inf'::DOUBLE) ELSE true END AS x "
    "FROM range(500000) AS t(i)"
)
LATE = "SELECT CASE WHEN i > 400000 THEN error(i::VARCHAR)::BOOLEAN ELSE true END AS x FROM range(500000) AS t(i)"
READS: dict[str, Callable[[Any, str], object]] = {
    "execute": lambda con, q: con.execute(q).fetchall(),
    "executemany": lambda con, q: con.executemany(q, [[], []]),
    "cursor": lambda con, q: con.cursor().execute(q).fetchone(),
    "cursor of a cursor": lambda con, q: con.cursor().cursor().execute(q).fetchmany(),
    "df": lambda con, q: con.execute(q).df(),
    "batches": lambda con, q: list(con.sql(q).to_arrow_reader(1000)),
    "the next batch": lambda con, q: [next(r) for r in [con.sql(q).to_arrow_reader(10**6)] for _ in range(2)],
    "batches by Arrow": lambda con, q: pa.table(con.sql(q).to_arrow_reader(1000)),
    "numpy": lambda con, q: con.execute(q).fetchnumpy(),
    "sql": lambda con, q: con.sql(q).fetchall(),
    "query": lambda con, q: con.query(q).df(),
    "shown": lambda con, q: str(con.sql(q)),
    "represented": lambda con, q: repr(con.sql(q)),
    "counted": lambda con, q: len(con.sql(q).materialize()),
    "rows one by one": lambda con, q: list(con.sql(q).iter_rows()),
    "relation's batches": lambda con, q: con.sql(q).to_arrow_reader(1000).read_all(),
    "Arrow's capsule": lambda con, q: pa.table(con.sql(q)),
    "polars": lambda con, q: con.sql(q).pl(),
    "relation's column": lambda con, q: con.sql(q)["x"].fetchall(),
    "relation of a relation": lambda con, q: con.sql(q).filter("true").project("x").order("x").fetchall(),
    "union": lambda con, q: con.sql(q).union(con.sql(q)).fetchall(),
    "view": lambda con, q: con.execute(f"CREATE OR REPLACE TEMP VIEW v AS {q}").execute("FROM v").fetchall(),
    "table": lambda con, q: con.sql(q).create("made"),
    "copy": lambda con, q: con.execute(f"CREATE OR REPLACE TEMP TABLE made AS {q}"),
    "statement": lambda con, q: con.execute(con.extract_statements(q)[0]).fetchall(),
}
PARTLY = {"cursor", "cursor of a cursor", "shown", "represented"}  # do not read to the end


@pytest.fixture
def con(curator: duckdp.Curator) -> duckdb.DuckDBPyConnection:
    return curator.connect("ana")


@pytest.mark.parametrize("read", READS)
def test_an_error_inside_duckdb_shows_nothing(read: str, con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error) as caught:
        READS[read](con, INSIDE)
    assert str(caught.value) == WITHHELD
    with con.cursor() as raw:
        inner = object.__getattribute__(raw, "_inner")
        with pytest.raises(duckdb.Error) as twin:  # what DuckDB itself says
            READS[read](inner, INSIDE)
    assert NOT_FOR_SHOW.search(str(twin.value))


@pytest.mark.parametrize("read", [name for name in READS if name not in PARTLY])
def test_an_error_inside_duckdb_after_rows_shows_nothing(read: str, con: duckdb.DuckDBPyConnection) -> None:
    """What was given may fail while it is read: a reader of batches, rows one by one."""
    with pytest.raises((duckdb.Error, OSError)) as caught:
        READS[read](con, INSIDE_LATE)
    assert isinstance(caught.value, duckdb.Error) and str(caught.value) == WITHHELD
    with duckdb.connect() as plain, pytest.raises((duckdb.Error, OSError)) as twin:  # what DuckDB itself says
        READS[read](plain, INSIDE_LATE)
    assert NOT_FOR_SHOW.search(str(twin.value))


@pytest.mark.parametrize("read", READS)
def test_an_error_about_the_statement_passes(read: str, con: duckdb.DuckDBPyConnection) -> None:
    cases = {LATE: "400001"} if read not in PARTLY else {}
    for statement, text in {
        **cases,
        "SELECT nope AS x": '"nope" was not found',
        "SELEC 1 AS x": "syntax error",
    }.items():
        with pytest.raises(duckdb.Error) as caught:
            READS[read](con, statement)
        assert text in str(caught.value)
        assert not isinstance(caught.value, duckdb.InternalException)


def test_a_session_tells_the_same(curator: duckdp.Curator) -> None:
    session = curator.session("ana")
    for statement, text in {
        INSIDE: WITHHELD,
        "SELECT nope": "was not found",
        "FROM '/home/ana/people.csv'": "/home/ana/people.csv",
    }.items():
        with pytest.raises(QueryError) as caught:
            session.sql(statement)
        assert caught.value.code == "Q105"
        assert text.removeprefix("Q105: ") in str(caught.value)
        assert str(caught.value).count("Q105") == 1


def test_a_refusal_of_ours_passes(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.InvalidInputException, match="C101: table"):
        con.execute("FROM dp_noisy_count('nope', epsilon := 1)")


def test_only_what_was_written_may_name_a_path() -> None:
    error = duckdb.PermissionException('Permission Error: Cannot access file "/srv/data/x.csv" - disabled')
    assert told(error, "FROM '/srv/data/x.csv'") == str(error)
    assert told(error, "FROM 'x.csv'") == WITHHELD
    both = duckdb.PermissionException('Permission Error: "/srv/data/x.csv" and "/root/.duckdb/x"')
    assert told(both, "FROM '/srv/data/x.csv'") == WITHHELD
    assert told(duckdb.BinderException("Binder Error: see https://duckdb.org/docs/current/x")).endswith("x")
    assert told(duckdb.IOException("IO Error: x")) == WITHHELD
    lacking = "Invalid Input Error: Required module 'pytz' failed to import, due to the following Python exception:"
    assert told(duckdb.InvalidInputException(f"{lacking}\nTraceback (most recent call last)")) == ZONED
    assert told(duckdb.Error("x")) == WITHHELD


def test_the_beginning_of_what_is_withheld_shows_nothing_of_it() -> None:
    """A statement's comment may hold every beginning of an address or path, and the words of a stack."""
    given = "-- Stack Trace, Traceback (most recent call last) 0x7f3a /home/owner/ /home/owner/data"
    for text in ("at 0x7f3a8812beef", "in /home/owner/data/secret.db", "Stack Trace:", "Traceback (most recent call"):
        assert told(duckdb.InvalidInputException(text), given) == WITHHELD


def test_no_traceback_shows_what_is_withheld(con: duckdb.DuckDBPyConnection) -> None:
    for ask in (lambda: con.execute(INSIDE).fetchall(), lambda: con.sql(INSIDE).fetchall()):
        with pytest.raises(duckdb.Error) as caught:
            ask()
        assert caught.value.__context__ is None and caught.value.__cause__ is None
        shown = "".join(traceback.format_exception(caught.value))
        assert "INTERNAL" not in shown and "0x" not in shown and shown.count("Traceback (most") == 1


def test_it_stands_for_a_connection(con: duckdb.DuckDBPyConnection) -> None:
    assert isinstance(con, duckdb.DuckDBPyConnection)
    assert isinstance(con.sql("SELECT 1"), duckdb.DuckDBPyRelation)
    assert con.execute("SELECT 1") is con
    assert "execute" in dir(con)
    con.execute("CREATE TEMP TABLE t (i INTEGER)")
    with con.appender("t") as appender:
        appender.append_row(1)
    with pytest.raises(duckdb.Error):
        con.appender("t").append_row("a", "b")
    relation = con.sql("SELECT 7 AS seven")
    assert ("seven" in relation.columns, relation["seven"].fetchall()) == (True, [(7,)])
    assert relation.description[0][0] == "seven"
    with pytest.raises(TypeError):
        con.execute()
    with pytest.raises(AttributeError):
        con.nothing_like_it  # type: ignore[attr-defined]
    frame = pa.table({"x": [1, 2]})
    con.register("frame", frame)
    assert con.sql("SELECT sum(x) FROM frame").fetchall() == [(3,)]
    con.close()
    with pytest.raises(duckdb.ConnectionException, match="closed"):
        con.execute("SELECT 1")


ODD_USES = {
    "SELECT unnest(dp_smooth_answer('s', 'age'))": "unnest cannot take",
    "SELECT unnest(dp_smooth_answer('s', 'age'), recursive := true)": "unnest cannot take",
    "SELECT dp_smooth_answer('s', f) FROM fs": "takes constants, no columns",
    "SELECT f, value FROM fs, LATERAL (FROM dp_smooth_answer('s', f))": "takes constants, no columns",
    "FROM fs, dp_smooth_answer('s', f)": "takes constants, no columns",
    "SELECT dp_noisy_count('visits', epsilon := 0.1, predicate := f) FROM fs": "takes constants, no columns",
    "SELECT dp_median_smooth('visits', f, epsilon := 0.1) FROM fs": "takes constants, no columns",
    "FROM fs, dp_query(f, epsilon := 0.1)": "takes constants, no columns",
    "FROM fs, dp_synthesize(f)": "takes constants, no columns",
    "SELECT list_transform(['age'], lambda f: dp_smooth_answer('s', f))": "takes constants, no columns",
    "FROM dp_smooth_answer('s', (SELECT f FROM fs LIMIT 1))": "takes no subquery",
    "FROM dp_smooth_answers('s', (SELECT list(f) FROM fs))": "takes no subquery",
}


def test_odd_uses_of_dp_functions_name_a_way_out(curator: duckdp.Curator, con: duckdb.DuckDBPyConnection) -> None:
    session = curator.session("ana")
    session.smooth_summary("visits", ["age"], name="s", epsilon=1, degree=3)
    con.execute("CREATE TABLE fs AS SELECT unnest(['age', 'age * age']) AS f")
    for statement, words in ODD_USES.items():
        for run in (con.execute, session.sql):
            with pytest.raises((duckdb.Error, QueryError)) as caught:
                run(statement)
            assert str(caught.value).startswith("Q105: ")
            assert words in str(caught.value)
    for way_out, rows in {  # each works as it is told
        "FROM dp_smooth_answer('s', 'age')": 1,
        "SELECT unnest(a) FROM (SELECT dp_smooth_answer('s', 'age') AS a)": 1,
        "FROM dp_smooth_answers('s', ['age', 'age * age'])": 2,
        "SET VARIABLE f = (SELECT list(f) FROM fs); FROM dp_smooth_answers('s', getvariable('f'))": 2,
        "SET VARIABLE v = (SELECT f FROM fs LIMIT 1); FROM dp_smooth_answer('s', getvariable('v'))": 1,
    }.items():
        assert len(con.execute(way_out).fetchall()) == rows
    assert len(curator.ledger.charges()) == 1


def test_an_ended_instance_is_replaced(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended:
        def execute(self, *_: object) -> None:
            raise duckdb.FatalException("FATAL Error: Failed: database has been invalidated because of /a/b/c.so")

        def interrupt(self) -> None:
            """As of a cursor."""

        close = interrupt

    front = curator.front("ana")
    assert curator.front("ana") is front
    con = Guarded(Ended(), front._instance)
    with pytest.raises(duckdb.FatalException) as caught:
        con.execute("SELECT 1")
    assert str(caught.value) == ENDED
    after = curator.front("ana")
    assert after is not front
    assert curator.connect("ana").execute("SELECT dp_noisy_count('visits', epsilon := 0.1)").fetchall()
    monkeypatch.setattr(
        after, "_cursor", type("", (), {"execute": Ended().execute, "interrupt": bool, "close": bool})()
    )
    with pytest.raises(QueryError) as refused:
        curator.session("ana").sql("SELECT 1")
    assert str(refused.value) == ENDED
    assert curator.session("ana").sql("SELECT 1").rows() == [(1,)]
    assert isinstance(curator.front("ana"), Front)


def fuzz(folder: Path, seed: int, tries: int) -> dict[str, Any]:
    """A fuzz in a process of its own."""
    program = Path(__file__).parent / "adversary" / "front_fuzz.py"
    command = [sys.executable, str(program), str(folder), str(seed), str(tries)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, (folder / "now").read_text(), done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["shown"] == []
    assert found["alive"] == 1
    assert sum(found["ends"].values()) == tries
    return found


def test_malformed_statements_and_extreme_arguments(tmp_path: Path) -> None:
    found = fuzz(tmp_path, 10, 1500)
    assert found["ends"]["answered"] > 100


@pytest.mark.slow
def test_many_malformed_statements_and_extreme_arguments(tmp_path: Path) -> None:
    """10^5 tries: no crash, no address, no path, and the front answers after all of them."""
    for seed in range(20):
        print(fuzz(tmp_path, 1000 + seed, 5000)["ends"])


SLOW = "SELECT count(*) FROM range(100000) a(i), range(100000000) b(j) WHERE (i * j) % 7 = 3"
STOPPED: dict[str, Callable[[Any, Any], object]] = {
    "sql": lambda con, session: con.sql(SLOW).fetchall(),
    "execute": lambda con, session: con.execute(SLOW),
    "arrow": lambda con, session: con.sql(SLOW).to_arrow_table(),
    "create": lambda con, session: con.execute(f"CREATE TABLE slow AS {SLOW}"),
    "text": lambda con, session: str(con.sql(SLOW)),
    "session": lambda con, session: session.sql(SLOW),
}


def is_under_way() -> bool:
    """Whether a thread is at the work of a statement."""
    frames = list(sys._current_frames().values())
    while frames:
        if frames[-1].f_code is aside._Job.run.__code__:
            return True
        before = frames.pop().f_back
        frames += [] if before is None else [before]
    return False


def test_one_thread_serves_all_statements(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run and fetched, they are sixty works; a thread that is started for each takes longer than most."""
    made: list[object] = []

    class Counted(aside._Worker):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(aside, "_Worker", Counted)
    monkeypatch.setattr(aside, "_IDLE_SECONDS", 3600.0)  # however slow the machine is
    con, session = curator.connect("ana"), curator.session("ana")
    for i in range(30):
        assert con.execute(f"SELECT {i}").fetchall() == [(i,)]
        assert session.sql(f"SELECT {i} AS x").rows() == [(i,)]
    assert len(made) <= 1


def test_work_that_is_interrupted_anywhere_has_ended_or_never_begins() -> None:
    """At each step of its being handed over; the next work is done, whatever became of the thread that was chosen."""
    within, running, begun = ("process/aside.py",), threading.Event(), 0

    def work() -> int:
        nonlocal begun
        begun += 1
        running.set()
        running_then = begun
        assert ended.wait(60)
        running.clear()
        return running_then

    ended = threading.Event()
    ended.set()
    points = steps(lambda: aside.aside(work, lambda: None), within)
    assert points > 10
    for at in range(1, points + 1):
        ended.clear()
        timer = threading.Timer(0.02, ended.set)
        timer.start()
        error = interrupted(lambda: aside.aside(work, ended.set), at, within)
        assert not running.is_set()
        before = begun
        timer.join()
        assert begun == before or error is None  # nothing begins afterwards
        assert aside.aside(lambda: "next", lambda: None) == "next"


@pytest.mark.parametrize("read", STOPPED)
def test_ctrl_c_while_a_statement_runs_is_e102(curator: duckdp.Curator, read: str) -> None:
    """As soon as the statement is under way; afterwards the connection answers."""
    con, session, ended = curator.connect("ana"), curator.session("ana"), threading.Event()

    def interrupt() -> None:
        while not is_under_way():
            if ended.wait(0.01):
                return
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(ExecutionError, match=r"^E102:"):
            STOPPED[read](con, session)
    finally:
        ended.set()
        thread.join()
    assert con.execute("SELECT 1").fetchall() == [(1,)]
    assert session.sql("SELECT 2 AS x").rows() == [(2,)]
