"""The way of one question: charge first, read once, release once; alone, in threads, in processes, after a crash."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.desk.desk import Desk
from duckdp.errors import (
    CatalogError,
    DuckDPError,
    InsufficientBudgetError,
    InternalError,
    LedgerError,
    ParameterError,
    QueryError,
)
from duckdp.front import binder
from duckdp.ledger import Charge, Ledger, StoredRelease
from duckdp.vault.dataset import DataSet
from duckdp.vault.engine import Engine

COUNT = "SELECT count(*) FROM visits"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Charges whose private rows were read."""
    seen: list[int] = []
    original = Engine.run

    def run(self: Engine, query: Any, charge: Any) -> Iterator[tuple[Any, ...]]:
        seen.append(charge.id)
        return original(self, query, charge)

    monkeypatch.setattr(Engine, "run", run)
    return seen


def refused(code: str, work: Callable[[], object]) -> DuckDPError:
    with pytest.raises(DuckDPError) as caught:
        work()
    assert caught.value.code == code
    return caught.value


def test_the_charge_is_durable_before_a_row_is_read(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    original, seen = Engine.run, []

    def run(self: Engine, query: Any, charge: Any) -> Iterator[tuple[Any, ...]]:
        with duckdp.ledger.Ledger.open(curator.ledger.path) as other:  # as another process would see it
            seen.extend((c.id, c.state, str(c.loss)) for c in other.charges())
        return original(self, query, charge)

    monkeypatch.setattr(Engine, "run", run)
    curator.session("ana").sql(COUNT, epsilon=1)
    assert seen == [(1, "open", "epsilon=1")]


def test_the_choice_of_rows_and_groups_is_keyed_by_the_ledgers_secret(
    curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever knew the key could tell, of a row of their own, whether it counted; it is shown nowhere."""
    texts: list[str] = []
    original = Engine.run

    def run(self: Engine, query: Any, charge: Any) -> Iterator[tuple[Any, ...]]:
        texts.append(query.sql)
        return original(self, query, charge)

    monkeypatch.setattr(Engine, "run", run)
    ana, salt = curator.session("ana"), int.from_bytes(curator.ledger.salt[:8], "big")
    ana.median_smooth("visits", "age", epsilon=1)
    ana.sql("SELECT name, count(*) FROM visits GROUP BY name", epsilon=1, delta="1e-7")
    ana.bounds("visits", "age", epsilon=1)
    ana.synthesize("visits", columns=["age", "cost"], epsilon=1, rows=10, method="moments", name="made")
    assert len(texts) >= 4
    assert all(f"CAST({salt} AS UBIGINT)" in text for text in texts)
    shown = [str(ana.explain("SELECT count(*) FROM visits", epsilon=1)), str(curator.charges()), repr(curator)]
    assert not any(str(salt) in text or curator.ledger.salt.hex() in text for text in shown)


def test_an_answer_is_given_again_for_nothing(curator: duckdp.Curator, reads: list[int]) -> None:
    session = curator.session("ana")
    first = session.sql(COUNT, epsilon=1)
    again = session.sql("select COUNT( * ) as n from VISITS limit 5", epsilon="1.0")
    assert (first.cost, first.source) == ("epsilon=1", "charge 1")
    assert (again.cost, again.source) == ("nothing", "stored release of charge 1")
    assert again.rows() == first.rows()
    assert reads == [1]
    assert session.sql(COUNT, epsilon=1, fresh=True).cost == "epsilon=1"
    assert session.sql(COUNT, epsilon=2).cost == "epsilon=2"
    assert reads == [1, 2, 3]


def test_what_leaves_is_what_is_stored(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever took this attempt for dead has stored a release: that one leaves, and what was drawn here is nobody's."""
    store, drawn = Ledger.store_release, []

    def late(self: Ledger, charge: Charge, payload: str) -> StoredRelease:
        other = json.loads(payload)
        other["cells"][0][0] += 1000
        drawn.append(payload)
        store(self, charge, json.dumps(other))
        return store(self, charge, payload)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "store_release", late)
        first = curator.session("ana").sql(COUNT, epsilon=1)
    assert len(drawn) == 1
    assert json.loads(drawn[0])["cells"][0][0] + 1000 == first.rows()[0][0]
    assert curator.session("ana").sql(COUNT, epsilon=1).rows() == first.rows()


def test_a_release_is_drawn_once_an_attempt(
    curator: duckdp.Curator, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be stored is gone with its attempt: a second draw of the same attempt would be no one's to count."""
    store, failed = Ledger.store_release, []

    def fails(self: Ledger, charge: Charge, payload: str) -> StoredRelease:
        if not failed:
            failed.append(payload)
            raise LedgerError("B207", "the disk is full.", path=self.path)
        return store(self, charge, payload)

    monkeypatch.setattr(Ledger, "store_release", fails)
    refused("B207", lambda: curator.session("ana").sql(COUNT, epsilon=1))
    assert [(c.state, c.attempt) for c in curator.ledger.charges()] == [("failed", 1)]
    curator.session("ana").sql(COUNT, epsilon=1)
    assert [(c.state, c.attempt) for c in curator.ledger.charges()] == [("released", 2)]
    assert reads == [1, 1]


def test_data_that_changed_while_it_was_planned_is_not_charged_for(
    curator: duckdp.Curator, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody accepts new data between the look at the version and the charge: the charge would be for the other."""
    admit = Ledger.admit

    def late(self: Ledger, request: Any, **more: Any) -> Any:
        self.accept_source("another", reason="new rows")
        return admit(self, request, **more)

    monkeypatch.setattr(Ledger, "admit", late)
    refused("C104", lambda: curator.session("ana").sql(COUNT, epsilon=1))
    assert (curator.ledger.charges(), reads) == ([], [])


def test_over_budget_nothing_is_read_or_charged(curator: duckdp.Curator, reads: list[int]) -> None:
    session, con = curator.session("ana"), curator.connect("ana")
    session.sql(COUNT, epsilon=8)
    for work in (
        lambda: session.sql(COUNT, epsilon=3),
        lambda: session.noisy_count("visits", epsilon=3, predicate="age > 1"),
        lambda: session.median_smooth("visits", "age", epsilon=3),
        lambda: session.smooth_summary("visits", ["age"], name="a", epsilon=3),
        lambda: session.synthesize("visits", columns=["age"], epsilon=3),
    ):
        error = refused("B101", work)
        assert isinstance(error, InsufficientBudgetError)
        assert (error.requested, error.remaining, error.scope) == ("epsilon=3", "epsilon=2, delta=1e-6", "analyst")
    with pytest.raises(duckdb.InvalidInputException, match="B101"):
        con.execute("FROM dp_noisy_count('visits', epsilon := 3)")
    assert reads == [1]
    assert len(curator.ledger.charges()) == 1
    assert session.sql(COUNT, epsilon=8).cost == "nothing"  # stored answers stay free
    assert "name" not in str(session.summaries().rows())


def test_a_printing_error_comes_before_the_charge(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise InternalError("cannot print")

    monkeypatch.setattr("duckdp.compiler.release.emit", fail)
    refused("X101", lambda: curator.session("ana").sql(COUNT, epsilon=1))
    assert not curator.ledger.charges()


def test_threads_that_ask_the_same_are_one_charge(curator: duckdp.Curator, reads: list[int]) -> None:
    start = threading.Barrier(8)

    def ask(i: int) -> object:
        start.wait()
        if i % 2:
            return curator.session("ana").sql(COUNT, epsilon=1).rows()[0][0]
        return (
            curator.connect("ana")
            .execute(f"SELECT value FROM dp_noisy_count('visits', epsilon := 1) -- {i}")
            .fetchone()[0]
        )  # type: ignore[index]

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(ask, range(8)))
    assert len(answers) == 1
    assert reads == [1]


def test_threads_never_overspend(curator: duckdp.Curator) -> None:
    def ask(i: int) -> str:
        try:
            return curator.session("ana").sql(f"SELECT count(*) FROM visits WHERE age > {i}", epsilon=1).cost
        except InsufficientBudgetError as error:
            return error.code

    with ThreadPoolExecutor(8) as pool:
        found = sorted(pool.map(ask, range(16)))
    assert found == ["B101"] * 6 + ["epsilon=1"] * 10


ASK = """
import sys, duckdp
with duckdp.open(sys.argv[1], ledger=sys.argv[2]) as curator:
    print(curator.session("ana").sql("SELECT count(*) FROM visits", epsilon=1).rows()[0][0])
"""
CRASH = """
import os, signal, sys, duckdp
from duckdp.vault.dataset import DataSet
from duckdp.vault.engine import Engine
original = Engine.run
def run(self, query, charge):
    rows = list(original(self, query, charge))
    os.kill(os.getpid(), signal.SIGKILL)
Engine.run = run
with duckdp.open(sys.argv[1], ledger=sys.argv[2]) as curator:
    curator.session("ana").sql("SELECT count(*) FROM visits", epsilon=1)
"""


def test_processes_that_ask_the_same_are_one_charge(curator: duckdp.Curator, clinic_file: str) -> None:
    command = [sys.executable, "-c", ASK, clinic_file, curator.ledger.path]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = {p.communicate(timeout=300)[0] for p in running}
    assert len(answers) == 1
    assert [c.state for c in curator.ledger.charges()] == ["released"]
    assert curator.session("ana").sql(COUNT, epsilon=1).rows() == [(int(answers.pop()),)]


def test_a_crash_between_charge_and_release_is_redeemed_once(curator: duckdp.Curator, clinic_file: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CRASH, clinic_file, curator.ledger.path], capture_output=True, check=False
    )
    assert done.returncode == -9
    assert [c.state for c in curator.ledger.charges()] == ["open"]
    before = curator.ledger.remaining("ana")
    command = [sys.executable, "-c", ASK, clinic_file, curator.ledger.path]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = {p.communicate(timeout=300)[0] for p in running}
    assert len(answers) == 1
    assert [(c.state, c.attempt) for c in curator.ledger.charges()] == [("released", 2)]
    assert curator.ledger.remaining("ana") == before


@pytest.mark.slow
def test_three_crashes_are_final(curator: duckdp.Curator, clinic_file: str) -> None:
    for _ in range(3):
        command = [sys.executable, "-c", CRASH, clinic_file, curator.ledger.path]
        assert subprocess.run(command, capture_output=True, check=False).returncode == -9
    refused("B106", lambda: curator.session("ana").sql(COUNT, epsilon=1))
    assert len(curator.ledger.charges()) == 1


def test_a_declaration_that_changed_meanwhile_is_not_used(
    curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan's own table must still be the declared one, even if somebody loads the new declarations in between."""
    session, original = curator.session("ana"), DataSet.require_current

    def change(self: DataSet) -> object:
        monkeypatch.setattr(DataSet, "require_current", original)
        curator.protect("visits", unit_key="patient_id", max_rows=1, row_cap=10_000, bounds={"age": (0, 110)})
        assert self.tables
        return original(self)

    monkeypatch.setattr(DataSet, "require_current", change)
    assert isinstance(refused("C103", lambda: session.sql(COUNT, epsilon=1)), CatalogError)
    assert not curator.ledger.charges()
    session.sql(COUNT, epsilon=1)


def test_another_processes_declaration_is_noticed(curator: duckdp.Curator, clinic_file: str) -> None:
    session = curator.session("ana")
    session.sql(COUNT, epsilon=1)
    with duckdp.open(clinic_file, ledger=curator.ledger.path) as other:
        other.protect("visits", unit_key="patient_id", max_rows=2, row_cap=10_000, bounds={"age": (0, 110)})
    assert curator.table("visits").max_rows == 2
    assert session.sql(COUNT, epsilon=1).cost == "epsilon=1"
    refused("Q207", lambda: session.sql("SELECT sum(cost) FROM visits", epsilon=1))


def test_ordinary_sql_runs_on_the_analysts_own_instance(curator: duckdp.Curator) -> None:
    session = curator.session("ana")
    session.sql(
        "CREATE TABLE mine AS FROM dp_query($$SELECT sex, count(*) AS n FROM visits GROUP BY sex$$, epsilon := 1)"
    )
    assert [r[0] for r in session.sql("SELECT sex FROM mine ORDER BY sex")] == ["F", "M"]
    assert [r[0] for r in session.sql("DESCRIBE visits")] == ["age", "cost", "sex", "name"]
    error = refused("Q105", lambda: session.sql("SELECT nothing FROM mine"))
    assert isinstance(error, QueryError)
    assert "Binder Error" in error.message
    assert error.__cause__ is None
    for text in ("", "SELEC 1", "SELECT 1; SELECT 2", "not sql at all"):
        refused("Q101" if "; " not in text else "Q102", lambda t=text: session.sql(t))  # type: ignore[misc]


def test_a_refusal_inside_sql_keeps_its_class(curator: duckdp.Curator) -> None:
    session = curator.session("ana")
    error = refused("B101", lambda: session.sql("FROM dp_noisy_count('visits', epsilon := 50)"))
    assert isinstance(error, InsufficientBudgetError)
    assert error.requested == "epsilon=50"
    assert refused("C101", lambda: session.sql("FROM dp_noisy_count('nope', epsilon := 1)")).__cause__ is None
    assert isinstance(
        refused("Q301", lambda: session.sql("FROM dp_explain('SELECT age FROM visits', epsilon := 1)")), QueryError
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "P101"),
        ({"epsilon": 0}, "P101"),
        ({"epsilon": -1}, "P101"),
        ({"epsilon": "nan"}, "P101"),
        ({"epsilon": float("inf")}, "P101"),
        ({"epsilon": 101}, "P101"),
        ({"epsilon": "0.0000001"}, "P101"),
        ({"epsilon": "0.1234567891"}, "P101"),
        ({"epsilon": True}, "P101"),
        ({"epsilon": "one"}, "P101"),
        ({"epsilon": [1]}, "P101"),
        ({"epsilon": 1, "delta": 1}, "P102"),
        ({"epsilon": 1, "delta": "nan"}, "P102"),
        ({"epsilon": 1, "error": 5.0}, "P101"),
        ({"error": 0}, "P106"),
        ({"error": float("nan")}, "P106"),
        ({"error": {"nope": 3.0}}, "P106"),
        ({"epsilon": 1, "mechanism": "none"}, "P107"),
    ],
)
def test_bad_terms(arguments: dict[str, Any], code: str, curator: duckdp.Curator) -> None:
    session = curator.session("ana")
    for work in (session.sql, session.explain):
        refused(code, lambda w=work: w(COUNT, **arguments))  # type: ignore[misc]
    assert not curator.ledger.charges()


def test_a_closed_curator_answers_nothing(clinic_file: str, tmp_path: Path, curator: duckdp.Curator) -> None:
    with duckdb.connect() as con, duckdp.open(clinic_file, ledger=curator.ledger.path) as second:
        duckdp.register(con, second, analyst="ana")
        session, front = second.session("ana"), second.connect("ana")
        second.close()
        with pytest.raises(DuckDPError):
            session.sql(COUNT, epsilon=1)
        with pytest.raises(duckdb.Error) as caught:
            con.execute("FROM dp_noisy_count('visits', epsilon := 1)")
        assert ".py" not in str(caught.value)
        with pytest.raises(duckdb.Error):
            front.execute("SELECT 1")
    assert not curator.ledger.charges()


def test_a_call_bound_before_a_declaration_changed_is_refused_before_its_charge(curator: duckdp.Curator) -> None:
    con = curator.connect("ana")
    relation = con.execute(
        "SELECT __dp_bind('dp_median_smooth', ['visits', 'age', '1', '0', NULL, '0.5', NULL, 'false', 'false'], [])"
    )
    sql = relation.fetchone()[0]  # type: ignore[index]
    curator.protect(
        "visits", unit_key="patient_id", max_rows=3, row_cap=10_000, nulls={"age": 3}, bounds={"age": (0, 110)}
    )
    assert len(con.execute(sql).fetchall()) == 1  # the same columns: answered under the new declaration
    assert [c.catalog_version for c in curator.ledger.charges()] == [2]


def test_a_plan_during_which_somebody_wrote_is_made_again(
    curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was made from may be what was there before: here, what is left of the budget."""
    con, plain, planned = curator.connect("ana"), binder.plan_texts, []
    statement = "FROM dp_explain_noisy_count('visits', epsilon := 0.25)"
    before = con.execute(statement).fetchall()

    def slow(desk: Desk, name: str, *rest: Any) -> Any:
        found = plain(desk, name, *rest)
        if not planned:
            curator.session("ana").noisy_count("visits", epsilon=0.5)
        planned.append(name)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(binder, "plan_texts", slow)
        found = con.execute(statement).fetchall()
    assert found == con.execute(statement).fetchall() != before
    assert len(planned) == 2


def test_the_longest_statement_passes_through_sql(curator: duckdp.Curator) -> None:
    con = curator.connect("ana")
    for filler in ("x", "é", "'", "\\", "\U0001f4a9"):
        statement = "SELECT count(*) FROM visits -- "
        statement += filler * ((65_500 - len(statement)) // len(filler.encode()))
        assert len(con.execute("FROM dp_query($1, epsilon := 0.01)", [statement]).fetchall()) == 1
    assert len(curator.ledger.charges()) == 1


def test_spilled_rows_are_readable_by_nobody_else(curator: duckdp.Curator) -> None:
    import os

    folder = curator.engine._folder
    assert os.stat(folder).st_mode & 0o077 == 0
    shown = curator.engine.schema_cursor().execute("SELECT current_setting('temp_directory')").fetchone()
    assert shown == (folder,)
    curator.engine.reattach()
    assert curator.engine.schema_cursor().execute("SELECT current_setting('temp_directory')").fetchone() == (folder,)
    curator.close()
    assert not os.path.exists(folder)


def test_spilled_rows_go_even_when_nobody_closes(tmp_path: Path) -> None:
    """But a child process that ends leaves its parent's folder alone."""
    text = (
        "import os, duckdb, duckdp, tempfile\n"
        "con = duckdb.connect('a.duckdb'); con.execute('CREATE TABLE t AS SELECT 1 AS x'); con.close()\n"
        "curator = duckdp.open('a.duckdb', ledger='a.ledger')\n"
        "child = os.fork()\n"
        "if child == 0: raise SystemExit\n"
        "os.waitpid(child, 0)\n"
        "print(curator.engine._folder, os.path.exists(curator.engine._folder))\n"
    )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300)
    folder, there = done.stdout.split()
    assert there == "True"
    assert not Path(folder).exists()


def test_control_characters_reach_no_terminal(curator: duckdp.Curator) -> None:
    session = curator.session("ana")
    text = "SELECT count(*) AS \"\x1b[2J\" FROM visits WHERE name = '\x1b[31m\u202e' -- \x1b]0;x\x07"
    shown = [str(session.sql(text, epsilon=1)), str(session.explain(text, epsilon=1)), str(curator.charges())]
    shown += [
        str(session.ledger()),
        str(refused("Q207", lambda: session.sql('SELECT sum("\x1b[2J") FROM visits', epsilon=1))),
    ]
    shown.append(str(refused("Q105", lambda: session.sql('SELECT "\x1b[2J"'))))
    assert not [c for c in "".join(shown) if not c.isprintable() and c != "\n"]


def test_epsilon_comes_from_the_call_else_from_what_the_session_has_set(tmp_path: Path) -> None:
    with duckdp.open({"t": pa.table({"x": [1, 2, 3]})}, ledger=tmp_path / "ledger") as curator:
        curator.protect("t", row_cap=10, bounds={"x": (0, 5)})
        curator.budget(epsilon=10)
        curator.grant("ana", epsilon=10)
        ana = curator.session("ana")
        with pytest.raises(ParameterError) as refused:
            ana.sql("SELECT count(*) FROM t")
        assert refused.value.code == "P101"  # nothing has a silent default
        ana.sql("SET VARIABLE dp_epsilon = 0.25")
        assert ana.sql("SELECT count(*) FROM t").cost == "epsilon=0.25"
        assert ana.sql("SELECT count(*) FROM t WHERE x > 1", epsilon="0.5").cost == "epsilon=0.5"
        assert "epsilon=0.25" in str(ana.explain("SELECT sum(x) FROM t"))
        assert "epsilon=0.25" in str(
            ana.sql("FROM dp_explain('SELECT sum(x) FROM t')").rows()
        )  # must not wait for itself
        assert ana.sql("SELECT dp_noisy_count('t') AS n").rows() == ana.sql("SELECT count(*) FROM t").rows()


@pytest.mark.parametrize("row", ["age = 20 AND cost = 0", "age = 111"])
@pytest.mark.parametrize("inner", ["median(y % round(5.5))", "max(y - y)", "sum(least(y % 7.5, 5))"])
def test_no_row_of_a_subquery_makes_a_read_fail(curator: duckdp.Curator, row: str, inner: str) -> None:
    """A product beyond the range of DOUBLE in one row, or in none: later steps take whole numbers to be finite."""
    huge = "*".join(["2000000000"] * 36)
    columns = f"patient_id, CASE WHEN {row} THEN {huge} ELSE 1 END AS y"
    rows = f"SELECT patient_id, {inner} AS m FROM (SELECT DISTINCT {columns} FROM visits) GROUP BY patient_id"
    try:
        found = curator.session("ana").sql(f"SELECT count(*) FROM ({rows}) WHERE m > 0", epsilon=1)
    except QueryError as refused:
        assert refused.code.startswith("Q4")  # by what is public
    else:
        assert len(found.rows()) == 1
