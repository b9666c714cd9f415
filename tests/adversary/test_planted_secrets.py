"""No error, plan, catalog or log shows a cell or a number of rows, whatever goes wrong."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp import Session
from duckdp.compiler.release import SelectTask
from duckdp.core.reads import Gather, PrivateQuery
from duckdp.errors import NumericalError
from duckdp.ledger.types import Charge
from duckdp.vault.engine import Engine
from tests.adversary.conftest import PERSONS, ROWS, World, everything, leaks, make_file

REFUSED = (
    "SELECT name FROM visits",
    "SELECT * FROM visits",
    "SELECT CAST(name AS INTEGER) FROM visits",
    "SELECT sum(CAST(name AS INTEGER)) FROM visits",
    "SELECT sum(name::DATE - born) FROM visits",
    "SELECT error(name) FROM visits",
    "SELECT sum(1 / 0 * cost) FROM visits",
    "SELECT count(*) FROM visits WHERE error(name || town) IS NULL",
    "SELECT sum(code) FROM visits",
    "SELECT count(*) FROM visits WHERE name = (SELECT max(name) FROM visits)",
    "SELECT sum(exp(exp(cost))) FROM visits",
    "SELECT sum(cost // 0) FROM visits",
    "SELECT first(name) FROM visits",
    "SELECT list(name) FROM visits",
    "SELECT string_agg(name) FROM visits",
    "SELECT name, count(*) FROM visits GROUP BY name",
    "SELECT cost, count(*) FROM visits GROUP BY cost",
    "SELECT mode(town) FROM visits",
    "SUMMARIZE visits",
    "SELECT count(*) FROM visits GROUP BY patient_id",
    "SELECT sum(ln(cost)) FROM visits",
    "SELECT sum(sqrt(-cost)) FROM visits",
    "FROM visits",
    "SELECT count(*) FROM visits USING SAMPLE 1",
    "PIVOT visits ON sex USING count(*)",
    "TABLE visits",
    "SELECT histogram(age) FROM visits",
)


@pytest.mark.parametrize("statement", REFUSED)
def test_refusals_show_no_secret(statement: str, shared: World, refused: Callable) -> None:
    ana = shared.curator.session("ana")
    refused(lambda: ana.sql(statement, epsilon=1), "Q1", "Q2", "Q3", "Q4")
    refused(lambda: ana.explain(statement, epsilon=1), "Q1", "Q2", "Q3", "Q4")
    con = shared.curator.connect("ana")
    refused(lambda: con.execute("FROM dp_query(?, epsilon := 1)", [statement]).fetchall(), "Q1", "Q2", "Q3", "Q4")
    refused(lambda: con.execute(statement).fetchall())
    assert shared.charges() == 0


def test_free_texts_show_no_secret(ana: Session, con: duckdb.DuckDBPyConnection, world: World) -> None:
    statement = (
        "SELECT sex, count(*) AS n, avg(cost), stddev(age) FROM visits WHERE born < DATE '1990-01-01' GROUP BY sex"
    )
    shown = [str(ana.explain(statement, epsilon=1)), str(ana.explain(statement, error={"n": 30.0})), str(ana.catalog())]
    shown += [str(ana.budget()), str(ana.ledger()), str(ana.summaries()), repr(world.curator), world.curator.suggest()]
    for free in ("dp_catalog", "dp_budget", "dp_ledger", "dp_summaries", f"dp_explain($${statement}$$, epsilon := 1)"):
        shown.append(str(con.execute(f"FROM {free}").fetchall()))
    for look in ("duckdb_views()", "duckdb_columns()", "duckdb_tables()", "information_schema.columns"):
        shown.append(
            str(con.execute(f"FROM {look} WHERE table_name = 'visits'" if "." in look else f"FROM {look}").fetchall())
        )
    assert not leaks("\n".join(shown))
    assert world.charges() == 0


# ---- an engine that fails with rows in its mouth ------------------------------------------------------------------

ASK = "SELECT sex, count(*) FROM visits GROUP BY sex"
VISITS = '"src"."main"."visits"'  # as printed: Spark sends the columns that a read names so


def broken(monkeypatch: pytest.MonkeyPatch, world: World, sql: str) -> None:
    """Let the engine, of whatever kind, run other SQL than it was given."""
    kind = type(world.curator.engine)
    original = kind.run

    def run(self: Engine, query: PrivateQuery, charge: Any) -> Iterable[tuple[Any, ...]]:
        return original(self, replace(query, sql=sql, parameters=()), charge)

    monkeypatch.setattr(kind, "run", run)


@pytest.mark.parametrize(
    "sql",
    [
        f'SELECT CAST("name" AS INTEGER) FROM {VISITS}',
        f'SELECT error("name" || \' \' || "town") FROM {VISITS}',
        f"SELECT error('there are ' || count(*)) FROM {VISITS}",
        f'SELECT sum(CAST("code" AS TINYINT)) FROM {VISITS}',
        f'SELECT CAST("name" || "town" AS DATE) FROM {VISITS}',
        f"SELECT no_such_column, alice_7f3 FROM {VISITS}",
        f'SELECT "name", "name" FROM {VISITS} LIMIT 2',
        f'SELECT "sex", [1] FROM {VISITS} LIMIT 2',
        f'SELECT "sex", list("name") FROM {VISITS} GROUP BY "sex"',
        f'SELECT "sex", "name", "town" FROM {VISITS} LIMIT 2',
    ],
)
def test_an_engine_failure_keeps_the_charge_and_tells_nothing(
    sql: str, ana: Session, world: World, refused: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        broken(patch, world, sql)
        error = refused(lambda: ana.sql(ASK, epsilon=1), "E101", "X101")
        assert error.__cause__ is None
        assert error.__context__ is None
        con = world.curator.connect("ana")
        refused(lambda: con.execute(f"FROM dp_query($${ASK}$$, epsilon := 1)").fetchall(), "E101", "X101")
    (charge,) = world.curator.ledger.charges()
    assert (charge.state, str(charge.loss)) == ("failed", "epsilon=1")
    assert len(ana.sql(ASK, epsilon=1)) == 2  # the third attempt
    assert [c.state for c in world.curator.ledger.charges()] == ["released"]


def test_what_the_engine_raises_remembers_nothing(world: World, refused: Callable) -> None:
    """Before anything above it forgets: no cause, no context, no frame that holds a row."""
    charge = Charge(**{f.name: None for f in fields(Charge)} | {"id": 7})
    engine, tables = world.curator.engine, tuple(world.curator.data.tables.values())
    for sql in (f'SELECT CAST("name" AS INTEGER) FROM {VISITS}', f'SELECT error("name") FROM {VISITS}'):
        query = PrivateQuery(sql=sql, parameters=(), rows=10, parts=Gather())
        with engine.reading(charge, tables):
            error = refused(lambda query=query: list(engine.run(query, charge)), "E101")
        assert error.__cause__ is None and error.__context__ is None
        shown = "".join(traceback.format_exception(error))
        assert not leaks(shown) and shown.count("Traceback (most") == 1


def test_three_failures_are_final(
    ana: Session, world: World, refused: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        broken(patch, world, f'SELECT error("name") FROM {VISITS}')
        for _ in range(3):
            refused(lambda: ana.sql(ASK, epsilon=1), "E101")
    refused(lambda: ana.sql(ASK, epsilon=1), "B106")
    assert world.charges() == 1
    ana.sql(ASK, epsilon=1, fresh=True)
    assert world.charges() == 2


@dataclass(frozen=True, kw_only=True)
class Blabbing(SelectTask):
    """A broken twin whose noise fails on the first row, and says which."""

    kind: type[BaseException] = ValueError

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        found = list(rows)
        try:
            raise self.kind(f"alice_7f3 and {found}")  # noqa: TRY301
        except BaseException as first:
            raise self.kind("Zanzibar") from first


@pytest.mark.parametrize("kind", [ValueError, KeyError, MemoryError, RuntimeError, OverflowError, KeyboardInterrupt])
def test_a_failing_mechanism_tells_nothing(
    kind: type[BaseException], ana: Session, world: World, refused: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duckdp.desk.desk.SelectTask", lambda plan: Blabbing(plan=plan, kind=kind))
    error = refused(lambda: ana.sql(ASK, epsilon=1), "X101", "E102", "E104")
    assert error.__context__ is None
    con = world.curator.connect("ana")
    refused(lambda: con.execute(f"FROM dp_query($${ASK}$$, epsilon := 1)").fetchall(), "X101", "E102", "E104")
    assert [c.state for c in world.curator.ledger.charges()] == ["failed"]


@dataclass(frozen=True, kw_only=True)
class Discreet(SelectTask):
    """A twin that fails with an error of ours, of constant text, whose cause and frames hold rows."""

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        found = [*rows, "alice_7f3"]
        try:
            raise ValueError(f"{found}")  # noqa: TRY301
        except ValueError as first:
            raise NumericalError("N101", "it did not converge.") from first


def test_an_error_of_ours_is_told_without_its_past(
    ana: Session, refused: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the cause and the frames nothing is left, for whoever holds the error."""
    monkeypatch.setattr("duckdp.desk.desk.SelectTask", Discreet)
    error = refused(lambda: ana.sql(ASK, epsilon=1), "N101")
    assert (error.__cause__, error.__context__) == (None, None)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    assert "release" not in [frame.f_code.co_name for frame in frames]


@dataclass(frozen=True, kw_only=True)
class Greedy(SelectTask):
    """A broken twin that lets more rows cross than it releases."""

    def query(self, salt: int) -> PrivateQuery:
        return replace(super().query(salt), sql="SELECT name, 1 FROM src.main.visits", parameters=())


def test_more_rows_than_are_released_never_cross(
    ana: Session, world: World, refused: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duckdp.desk.desk.SelectTask", Greedy)
    refused(lambda: ana.sql(ASK, epsilon=1), "X101")


# ---- a source that changes under the curator --------------------------------------------------------------------


def test_a_replaced_file_is_refused_before_the_charge(ana: Session, world: World, refused: Callable) -> None:
    other = world.path.with_suffix(".other")
    make_file(other, rows=4871)
    os.replace(other, world.path)
    refused(lambda: ana.sql(ASK, epsilon=1), "C104")
    assert world.charges() == 0
    world.curator.refresh(reason="a new delivery")
    assert len(ana.sql(ASK, epsilon=1)) == 2
    assert [c.data_version for c in world.curator.ledger.charges()] == [2]


def test_a_deleted_file_is_refused_before_the_charge(ana: Session, world: World, refused: Callable) -> None:
    world.path.unlink()
    refused(lambda: ana.sql(ASK, epsilon=1), "C104")
    refused(lambda: world.curator.refresh(reason="try"), "C108")
    refused(lambda: ana.sql(ASK, epsilon=1), "C104")
    assert world.charges() == 0


def test_schema_drift_is_refused(ana: Session, world: World, refused: Callable) -> None:
    other = world.path.with_suffix(".other")
    make_file(other)
    with duckdb.connect(str(other)) as con:
        con.execute("ALTER TABLE visits ALTER age TYPE VARCHAR")
    os.replace(other, world.path)
    refused(lambda: world.curator.refresh(reason="a new delivery"), "C103")
    refused(lambda: ana.sql(ASK, epsilon=1), "C104", "C103")
    assert world.charges() == 0


@pytest.mark.parametrize("damage", ["truncated", "overwritten", "emptied"])
def test_damaged_parquet_tells_nothing(damage: str, tmp_path: Path, refused: Callable) -> None:
    path = tmp_path / "visits.parquet"
    with duckdb.connect() as con:
        con.execute(f"COPY (SELECT 8675309 AS code, 'alice_7f3' AS name, i FROM range(4861) r(i)) TO '{path}'")
    status = path.stat()
    with duckdp.open(str(path), ledger=tmp_path / "ledger") as curator:
        curator.protect("visits", row_cap=10_000, bounds={"i": (0, 5000)}, columns=["name"])
        curator.budget(epsilon=10)
        curator.grant("ana", epsilon=10)
        raw = bytearray(path.read_bytes())
        if damage == "truncated":
            raw[200:] = b""
        elif damage == "overwritten":
            raw[10 : len(raw) // 2] = b"alice_7f3" * (len(raw) // 20)
        else:
            raw[:] = b""
        path.write_bytes(raw)
        session = curator.session("ana")
        refused(lambda: session.sql("SELECT sum(i) FROM visits", epsilon=1), "C104")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # the same time, and here the same size
        curator.engine.stamp = curator.engine.source.stamp()
        refused(lambda: session.sql("SELECT sum(i) FROM visits WHERE name <> 'x'", epsilon=1), "E101")
        assert [c.state for c in curator.ledger.charges()] == ["failed"]


def test_an_interrupted_read_keeps_its_charge(tmp_path: Path, refused: Callable) -> None:
    import threading

    with duckdb.connect() as rows:
        rows.execute("CREATE TABLE big AS SELECT i, 'alice_7f3' || i AS name FROM range(3000000) AS r(i)")
        with duckdp.open(rows, ledger=tmp_path / "ledger") as curator:
            curator.protect("big", row_cap=10**7, bounds={"i": (0, 10**7)}, columns=["name"])
            curator.budget(epsilon=10, delta="1e-6")
            curator.grant("ana", epsilon=10, delta="1e-6")
            session, stop = curator.session("ana"), threading.Event()

            def interrupt() -> None:
                while not stop.wait(0.002):
                    curator.engine.interrupt()

            thread = threading.Thread(target=interrupt)
            thread.start()
            try:
                ask = "SELECT upper(name), count(*) FROM big GROUP BY 1"
                refused(lambda: session.sql(ask, epsilon=1, delta="1e-7"), "E102")
            finally:
                stop.set()
                thread.join()
            assert [c.state for c in curator.ledger.charges()] == ["failed"]


def test_the_check_itself_sees_a_leak() -> None:
    """The scanner finds a secret in a suppressed context, so that its silence means something."""
    try:
        try:
            raise ValueError("alice_7f3")  # noqa: TRY301
        except ValueError:
            raise RuntimeError("clean") from None
    except RuntimeError as error:
        assert leaks(everything(error)) == ["alice_7f3"]
    assert leaks(f"of {ROWS} rows and {PERSONS}.0 persons.") == [str(ROWS), str(PERSONS)]
    assert not leaks(f"at {ROWS}.25 seconds in /tmp/pytest-{PERSONS}/a")
