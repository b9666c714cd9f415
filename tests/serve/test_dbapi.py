"""duckdp.connect and connect(isolated=True): PEP 249 with error bars, and processes that end without harm."""

from __future__ import annotations

import datetime as dt
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pexpect
import pytest

import duckdp
from duckdp import client
from duckdp.client.answers import make_result
from duckdp.client.connection import read_address
from duckdp.errors import LedgerError, ParameterError
from duckdp.result import Estimate
from tests.serve.conftest import PASSWORD, Served, make_clinic


@pytest.fixture
def con(served: Served) -> Iterator[client.Connection]:
    """A connection of ana's."""
    with duckdp.connect(f"postgres://ana@127.0.0.1:{served.port}/clinic", password=PASSWORD, epsilon=2) as found:
        yield found


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    """A curator in this process."""
    source, ledger = make_clinic(tmp_path_factory.mktemp("isolated"))
    with duckdp.open(source, ledger=ledger) as found:
        yield found


# ---- PEP 249 ---------------------------------------------------------------------------------------------------------


def test_private_answers_come_with_error_bars(con: client.Connection) -> None:
    answer = con.execute("SELECT sex, count(*) AS n, avg(age) AS a FROM visits WHERE age > ? GROUP BY sex", [30])
    assert [d[0] for d in answer.description or []] == ["sex", "n", "a"]
    rows = answer.fetchall()
    assert [row[0] for row in rows] == ["F", "M"]
    found = answer.result
    assert found.cost == "epsilon=2"
    assert found.source.startswith("charge ")
    assert "left" in found.remaining
    for row, plain in zip(found.estimates(), rows, strict=True):
        assert isinstance(row["n"], Estimate)
        assert row["n"].value == plain[1]
        assert row["n"].low <= row["n"].value <= row["n"].high
        assert row["n"].standard_error > 0
    assert "±" in str(answer)
    assert "±" in str(answer._repr_html_())
    assert answer.arrow().column_names[:6] == ["sex", "n", "a", "n_standard_error", "n_low", "n_high"]
    assert list(answer.df(intervals=False).columns[:3]) == ["sex", "n", "a"]
    again = con.sql("SELECT sex, count(*) AS n, avg(age) AS a FROM visits WHERE age > 30 GROUP BY sex")
    assert again.rows() == rows
    assert "stored" in again.source


def test_cursors_are_those_of_pep_249(con: client.Connection) -> None:
    assert (client.apilevel, client.paramstyle) == ("2.0", "qmark")
    cursor = con.cursor()
    cursor.execute("SELECT range AS i, 'x' || range AS t, DATE '2024-02-29' AS d, 0.5::DOUBLE AS f FROM range(5)")
    assert cursor.description is not None
    kinds = [column[1] for column in cursor.description]
    assert [kinds[0] == client.NUMBER, kinds[1] == client.STRING, kinds[2] == client.DATETIME] == [True] * 3
    assert kinds[3] != client.BINARY
    assert cursor.rowcount == 5
    assert cursor.fetchone() == (0, "x0", dt.date(2024, 2, 29), 0.5)
    assert [row[0] for row in cursor.fetchmany(2)] == [1, 2]
    assert [row[0] for row in cursor] == [3, 4]
    assert cursor.fetchall() == []
    assert cursor.fetchone() is None
    cursor.execute("CREATE OR REPLACE TEMP TABLE own (i INTEGER, t VARCHAR)")
    assert cursor.description is None
    with pytest.raises(client.ProgrammingError):
        cursor.fetchall()
    cursor.executemany("INSERT INTO own VALUES (?, ?)", [(1, "it's ?"), (2, None)])
    assert con.execute("FROM own ORDER BY i").fetchall() == [(1, "it's ?"), (2, None)]
    con.execute("BEGIN")
    con.execute("DELETE FROM own")
    con.rollback()
    assert con.sql("SELECT count(*) FROM own").rows() == [(2,)]
    cursor.close()
    with pytest.raises(client.InterfaceError):
        cursor.execute("SELECT 1")


def test_errors_have_our_code_and_their_class(con: client.Connection) -> None:
    for text, kind, code in (
        ("SELECT age FROM visits", client.ProgrammingError, "Q301"),
        ("SELECT count(*) FROM visits v JOIN visits w ON v.age = w.age", client.NotSupportedError, "Q204"),
        ("SELEC 1", client.ProgrammingError, None),
        ("SELECT 'x'::INTEGER", client.DataError, None),
    ):
        with pytest.raises(kind) as caught:
            con.execute(text)
        assert isinstance(caught.value, client.Error)
        assert code is None or caught.value.code == code, caught.value
    assert con.execute("SELECT 1").fetchall() == [(1,)]
    con.close()
    con.close()
    with pytest.raises(client.InterfaceError):
        con.execute("SELECT 1")


def test_a_statement_is_cancelled_from_another_thread(con: client.Connection) -> None:
    threading.Timer(1.0, con.cancel).start()
    with pytest.raises(client.OperationalError) as caught:
        con.execute("SELECT count(*) FROM range(1000000000) AS a, range(100000) AS b WHERE a.range * b.range % 7 = 3")
    assert caught.value.sqlstate == "57014"
    assert con.execute("SELECT 1").fetchall() == [(1,)]


def test_nobody_is_there() -> None:
    with pytest.raises(client.OperationalError):
        duckdp.connect("postgres://ana:wrong@127.0.0.1:1/clinic")


@pytest.mark.parametrize(
    "address",
    ["clinic", "http://ana@host/x", "postgres://host/x", "postgres://ana@host:x/y", "postgres://ana@h/c?sslmode=maybe"],
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ParameterError, match="P107"):
        read_address(address)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(ParameterError) as caught:
        read_address("postgres://ana:secret7@host:port/clinic")
    assert "secret7" not in str(caught.value)


def test_columns_that_only_look_like_error_bars_stay() -> None:
    names, types = ["n", "n_standard_error", "n_low", "other"], ["INTEGER"] * 4
    told = ["cost: epsilon=1 (charge 3); epsilon=2 left", "note: read this"]
    found = make_result(names, types, [(1, 2, 3, 4)], told)
    assert found.names == names
    assert (found.cost, found.source, found.remaining, found.notes) == (
        "epsilon=1",
        "charge 3",
        "epsilon=2 left",
        ["read this"],
    )
    ours = make_result(["n", "n_standard_error", "n_low", "n_high"], types, [(1, 2.0, 0.5, 3.0)], [])
    assert len(ours.names) == 4  # nothing says that it is an answer
    barred = make_result(["n", "n_standard_error", "n_low", "n_high", "note"], [*types, "V"], [(1, 2, 0, 3, "c")], told)
    assert (barred.names, barred.caveat) == (["n"], "c")


# ---- a notebook ------------------------------------------------------------------------------------------------------


def test_the_cell_magic_asks_and_keeps(con: client.Connection, owner: duckdp.Curator) -> None:
    magics: dict[str, Any] = {}
    shell = SimpleNamespace(
        user_ns={"con": con, "ana": owner.session("ana"), "other": 3},
        register_magic_function=lambda f, magic_kind, magic_name: magics.update({(magic_kind, magic_name): f}),
    )
    duckdp.load_ipython_extension(shell)
    run = magics["cell", "dp"]
    found = run("con --epsilon 0.5 -o kept", "SELECT count(*) AS n\nFROM visits;\n")
    assert shell.user_ns["kept"] is found
    assert found.cost == "epsilon=0.5"
    assert con.sql("SHOW dp.epsilon").rows() == [("2",)]
    assert run("ana --epsilon 0.5", "SELECT count(*) AS n FROM visits").cost == "epsilon=0.5"
    for line in ("", "other", "con --loud 3", "con -o"):
        with pytest.raises(ParameterError, match="%%dp"):
            run(line, "SELECT 1")


# ---- the shell -------------------------------------------------------------------------------------------------------


def _command(served: Served) -> list[str]:
    address = f"postgres://ana:{quote(PASSWORD)}@127.0.0.1:{served.port}/clinic"
    return ["-W", "error", "-m", "duckdp", "shell", address, "--epsilon", "2"]


def test_the_shell_at_a_server_takes_scripts(served: Served, tmp_path: Path) -> None:
    script = (
        ".tables\n.schema visits\n.budget\n.epsilon\n.delta 1e-9\n.delta\n.epsilon much\n"
        "SELECT sex, count(*) AS n\nFROM visits WHERE age > 44 GROUP BY 1;\n.save bars.csv\n"
        ".explain SELECT count(*) FROM visits\n"
        "SELECT age FROM visits;\nSELEC 1;\n.ledger\n.summaries\nCREATE TABLE shelled AS SELECT 7 AS seven;\n"
        "FROM range(100);\n.tables\n.mode markdown\nFROM shelled;\n"
    )
    done = subprocess.run(
        [sys.executable, *_command(served)], input=script, capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 1
    for part in (
        "visits   protected",
        "epsilon of a statement: 2\n",
        "delta of a statement: 1e-9",
        " ± ",
        "cost: epsilon=2 (charge ",
        "2 rows in bars.csv",
        "laplace",
        "note: there are more rows",
        "shelled  own",
        "| seven |\n|---|\n| 7 |",
    ):
        assert part in done.stdout, part
    assert [line[:4] for line in done.stderr.splitlines() if line[4:5] == ":"] == ["P101", "Q301", "Q105"]
    assert "Traceback" not in done.stderr
    assert (tmp_path / "bars.csv").read_text().startswith("sex,n,n_standard_error,n_low,n_high")


def test_the_shell_at_a_server_on_a_terminal(served: Served, tmp_path: Path) -> None:
    child: pexpect.spawn[str] = pexpect.spawn(
        sys.executable,
        _command(served),
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm", "NO_COLOR": "1"},
        encoding="utf-8",
        timeout=120,
        dimensions=(40, 200),
    )
    prompt = r"ana \[epsilon=[0-9.]+ left\]> "
    child.expect("you are the analyst ana")
    child.expect(prompt)
    child.send("SELECT count(*) AS n FROM vis\t\n")  # completion of a table
    child.expect(r"\.\.\.> ")
    child.sendline("WHERE age > 61;")
    child.expect(r" ± \d+")
    child.expect(prompt)
    child.sendline("SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b;")
    child.expect(r"b;\r\n")
    wait = 1
    while child.expect([pexpect.TIMEOUT, "E102"], timeout=wait) == 0:
        child.sendintr()
        wait = 20
    child.expect(prompt)
    child.sendeof()
    child.expect(pexpect.EOF)
    child.wait()
    child.close()
    assert child.exitstatus == 0


# ---- isolated --------------------------------------------------------------------------------------------------------


def test_a_connection_that_nobody_holds_ends_quietly(owner: duckdp.Curator) -> None:
    owner.connect("ana", isolated=True).execute("SELECT 1")
    gc.collect()
    worker = owner._isolation()._workers["ana"]
    until = time.monotonic() + 60
    while worker.clients and time.monotonic() < until:
        time.sleep(0.01)
    assert not worker.clients


def test_an_isolated_connection_answers_privately(owner: duckdp.Curator) -> None:
    with owner.connect("ana", isolated=True) as con, owner.connect("bob", isolated=True) as bob:
        con.execute("SET dp.epsilon = 3")
        found = con.sql("SELECT sex, count(*) AS n FROM visits GROUP BY sex")
        assert [row["sex"] for row in found.estimates()] == ["F", "M"]
        assert found.cost == "epsilon=3"
        con.execute("CREATE TABLE mine AS SELECT 42 AS i")
        with owner.connect("ana", isolated=True) as again:
            assert again.execute("FROM mine").fetchall() == [(42,)]
        with pytest.raises(client.ProgrammingError):
            bob.execute("FROM mine")
        for text in ("FROM read_csv('/etc/passwd')", "COPY (SELECT 1) TO '/tmp/x.csv'", "SELECT * FROM visits"):
            with pytest.raises(client.Error):
                con.execute(text)


def test_what_takes_too_much_kills_that_process_and_nothing_else(owner: duckdp.Curator) -> None:
    """The system ends what DuckDB's own limits do not: the owner goes on, others too, and a new process comes."""
    with owner.connect("bob", isolated=True) as bob:
        bob.execute("CREATE OR REPLACE TABLE kept AS SELECT 1 AS i")
        con = owner.connect("ana", isolated=True)
        with pytest.raises(client.Error):
            con.execute("SELECT sum(length(repeat('x' || range, 100000000))) FROM range(20)")
        worker = owner._isolation()._workers.get("ana")
        if worker is not None:  # it failed for itself alone; ended by the system, it is the same
            worker.kill()
        until = time.monotonic() + 60
        with pytest.raises(client.OperationalError) as caught:
            while time.monotonic() < until:
                con.execute("SELECT 1")
        assert "connect anew" in str(caught.value)
        with pytest.raises(client.InterfaceError):
            con.execute("SELECT 1")
        assert bob.execute("FROM kept").fetchall() == [(1,)]
    with owner.connect("ana", isolated=True) as again:
        assert again.execute("SELECT 1").fetchall() == [(1,)]
    assert owner.session("ana").sql("SELECT count(*) FROM visits WHERE age > 50", epsilon=1).cost == "epsilon=1"


def test_a_process_that_is_just_ending_is_not_connected_to(owner: duckdp.Curator) -> None:
    """Its end is heard a little later than it happens; a new process is started all the same."""
    owner.connect("ana", isolated=True).close()
    isolation = owner._isolation()
    for _ in range(3):
        worker = isolation._workers["ana"]
        isolation._running().call_soon_threadsafe(time.sleep, 0.3)  # who would hear of it is busy
        worker.kill()
        worker._process.wait()
        with owner.connect("ana", isolated=True) as con:
            assert con.execute("SELECT 1").fetchall() == [(1,)]
        assert isolation._workers["ana"] is not worker


def test_new_declarations_are_seen_and_revoked_grants_end(tmp_path: Path) -> None:
    source, ledger = make_clinic(tmp_path)
    owner = duckdp.open(source, ledger=ledger)
    con = owner.connect("ana", isolated=True)
    con.execute("SET dp.epsilon = 1")
    owner.revoke("ana", reason="gone")
    with pytest.raises(client.Error) as caught:
        con.execute("SELECT count(*) FROM visits")
    assert caught.value.code == "B103"
    with pytest.raises(duckdp.errors.BudgetError):
        owner.connect("ana", isolated=True)
    (worker,) = owner._isolation()._workers.values()
    owner.close()
    assert not worker.alive
    with pytest.raises(client.Error):
        con.execute("SELECT 1")
    with pytest.raises(LedgerError):
        owner.connect("bob", isolated=True)
