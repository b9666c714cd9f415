"""A read that runs out of memory, or of disk for what memory does not hold: coded, constant, redeemable, nothing said.

The engine itself runs out: its limit is set low after the opening, and what does not fit has no place to go.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.desk.laundering import laundered
from duckdp.errors import CODES, DuckDPError
from duckdp.vault import decoding, engine, exhausted, part_work
from duckdp.vault.part_work import Given, PartWork, part_reader
from tests.test_ledger_full_disk import full_at

SECRET = "Cassiopeia"
ROWS = (
    f"SELECT '{SECRET}' || i % 40000 AS pid, ['a', 'b', 'c'][1 + i % 3] AS kind, i % 50 AS x FROM range(120000) AS r(i)"
)
GROUPS = "SELECT kind, count(*), sum(x) FROM visits GROUP BY kind"


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[duckdp.Curator]:
    with duckdb.connect(str(tmp_path / "data.duckdb")) as con:
        con.execute(f"CREATE TABLE visits AS {ROWS}")
    with duckdp.open(str(tmp_path / "data.duckdb"), ledger=str(tmp_path / "a.ledger")) as found:
        terms: dict[str, Any] = {"bounds": {"x": (0, 50)}, "domains": {"kind": ["a", "b", "c"]}}
        found.protect("visits", unit_key="pid", max_rows=9, row_cap=10**6, **terms)
        found.budget(epsilon=50)
        found.grant("ana", epsilon=50)
        yield found


@contextmanager
def exhausted_engine(curator: duckdp.Curator, *, full: bool) -> Iterator[None]:
    """Little memory, and no place for what it does not hold: none is allowed, or the disk is full."""
    con = curator.engine.schema_cursor()
    before = con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]
    con.execute("SET GLOBAL memory_limit = '8MB'")
    try:
        if full:
            with full_at(200_000):
                yield
        else:
            con.execute("SET GLOBAL max_temp_directory_size = '0KB'")
            yield
    finally:
        con.execute(f"SET GLOBAL memory_limit = '{before}'")
        con.execute("SET GLOBAL max_temp_directory_size = '9GB'")


ASKED: dict[str, Callable[[duckdp.Curator], object]] = {
    "groups": lambda owner: owner.session("ana").sql(GROUPS, epsilon=1),
    "table": lambda owner: owner.session("ana").synthesize(
        "visits", epsilon=1, columns=["kind", "x"], method="tree", rows=10, name="t"
    ),
    "in SQL": lambda owner: owner.connect("ana").execute(f"FROM dp_query($${GROUPS}$$, epsilon := 1)").fetchall(),
}


def failed(ask: Callable[[], object]) -> BaseException:
    with pytest.raises((DuckDPError, duckdb.Error)) as caught:
        ask()
    return caught.value


@pytest.mark.parametrize(("asked", "full"), [("groups", False), ("groups", True), ("table", False), ("in SQL", False)])
def test_a_read_without_memory_says_so_and_is_redeemed(curator: duckdp.Curator, asked: str, full: bool) -> None:
    with exhausted_engine(curator, full=full):
        error = failed(lambda: ASKED[asked](curator))
    assert f"E104: {CODES['E104']}. Charge 1 stays spent." in str(error)
    told = "".join(traceback.format_exception(error))
    assert SECRET not in told
    assert "Out of Memory" not in told
    assert "Could not write" not in told
    assert error.__cause__ is None
    spent = curator.ledger.state().primary_spent
    assert spent == 10**9
    assert [(c.state, c.attempt) for c in curator.ledger.charges()] == [("failed", 1)]
    assert any("E104, charge 1" in line for line in str(curator.history()).splitlines())
    assert ASKED[asked](curator)
    assert curator.ledger.state().primary_spent == spent
    assert [(c.state, c.attempt) for c in curator.ledger.charges()] == [("released", 2)]


@pytest.mark.parametrize("memory", ["3MB", "500MB"])
def test_a_worker_without_memory_says_one_constant(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a task of Spark does, here: ``spark/test_spark_memory.py`` has it in Spark."""
    monkeypatch.setattr(part_work, "_number_of_task", lambda: 0)
    rows = duckdb.sql(ROWS).to_arrow_table()
    columns = (('"pid"', "VARCHAR"), ('"kind"', "VARCHAR"), ('"x"', "BIGINT"))
    work = PartWork(
        sql='SELECT count(*) FROM (SELECT "pid", "kind", sum("x") FROM "src"."main"."t" GROUP BY ALL)',
        parameters=(),
        arrays=False,
        catalog='"src"',
        tables=(Given(place='"src"."main"."t"', columns=columns, sent=("pid", "kind", "x")),),
        config={**engine.CONFIG, "max_temp_directory_size": "0KB"},
        memory=memory,
        version=duckdb.__version__,
        placed=False,
    )
    if memory == "500MB":
        assert list(part_reader(work)(iter(rows.to_batches())))
        return
    with pytest.raises(RuntimeError) as caught:
        list(part_reader(work)(iter(rows.to_batches())))
    assert str(caught.value) == exhausted.RAN_OUT
    assert caught.value.__cause__ is None
    assert not isinstance(caught.value.__context__, duckdb.Error)


def test_without_the_look_at_what_failed_it_is_any_failure(
    curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    monkeypatch.setattr(engine, "ran_out", lambda error: False)
    with exhausted_engine(curator, full=False):
        assert str(failed(lambda: curator.session("ana").sql(GROUPS, epsilon=1))).startswith("E101: ")


def test_an_opening_without_memory_is_not_called_damage(
    curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "attempt", lambda *_: ([], f"Out of Memory Error: could not allocate {SECRET}"))
    with pytest.raises(DuckDPError) as caught:
        curator.engine.read_in_full()
    assert caught.value.code == "C108"
    assert "memory ran out" in str(caught.value)
    assert "damaged" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_what_is_told_apart() -> None:
    """One bit: of types, of texts of streams, of Spark's; an engine that fails otherwise gives E101."""
    assert exhausted.ran_out(MemoryError())
    assert exhausted.ran_out(duckdb.OutOfMemoryException("x"))
    assert exhausted.ran_out(OSError("Out of Memory Error: x"))
    assert exhausted.ran_out(duckdb.IOException('Could not write file "x": No space left on device'))
    assert not exhausted.ran_out(duckdb.IOException('Could not read from file "x"'))
    assert not exhausted.ran_out(None)
    for value in ("Out of Memory Error", "No space left on device", "Could not write file"):  # a row's value is no word
        assert not exhausted.ran_out(
            duckdb.ConversionException(f"Conversion Error: Could not convert string '{value}'")
        )
    assert exhausted.spark_ran_out(RuntimeError(f"PythonException: {exhausted.RAN_OUT}"))
    assert exhausted.spark_ran_out(RuntimeError("is bigger than spark.driver.maxResultSize (1024.0 MiB)"))
    assert not exhausted.spark_ran_out(RuntimeError("Python worker exited unexpectedly (crashed)"))
    assert laundered(MemoryError(SECRET), 3).code == "E104"
    assert SECRET not in str(laundered(MemoryError(SECRET), 3))
