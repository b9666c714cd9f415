"""Where data may come from, and what happens when it cannot be opened or changes."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.core.reads import Gather, PrivateQuery
from duckdp.errors import CatalogError, ExecutionError, InternalError, ParameterError
from duckdp.ledger.charges import Charge
from duckdp.vault.engine import read_batches

ROWS = "SELECT i, i % 3 AS g FROM range(100) AS r(i)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "data.duckdb")) as con:
        con.execute(f"CREATE TABLE t AS {ROWS}; CREATE SCHEMA other; CREATE TABLE other.t AS SELECT 1 AS i, 2 AS extra")
        con.execute("CREATE VIEW narrow AS SELECT i AS n FROM t WHERE g = 1")
        con.execute(f"COPY ({ROWS}) TO '{tmp_path / 't.parquet'}'")
        for part in (1, 2):
            con.execute(f"COPY (SELECT i FROM range({50 * part}) AS r(i)) TO '{tmp_path / f'part{part}.parquet'}'")
    return tmp_path


def test_memory_of_private_reads_is_what_was_said(folder: Path) -> None:
    def limit(owner: duckdp.Curator) -> str:
        return owner.engine.schema_cursor().execute("SELECT current_setting('memory_limit')").fetchall()[0][0]

    with duckdp.open(folder / "data.duckdb", ledger=folder / "ledger", memory="1.5GiB") as owner:
        assert limit(owner) == "1.5 GiB"
        owner.refresh(reason="nothing")
        assert limit(owner) == "1.5 GiB"
    with duckdp.open(folder / "data.duckdb", ledger=folder / "ledger") as owner:
        assert limit(owner) != "1.5 GiB"
    for wrong in ("", "4", "4 apples", "-1GB", "100MB", "80%", "4GB; SELECT 1", "\u0664GB"):
        with pytest.raises(ParameterError, match="P107: memory="):
            duckdp.open(folder / "data.duckdb", ledger=folder / "ledger", memory=wrong)


def test_a_read_without_memory_says_nothing_but_a_way_out(tmp_path: Path) -> None:
    """DuckDB really runs out of it: a constant text, the charge stays, and the same again is answered under it."""
    rows = pa.table({"u": range(300_000), "v": [1] * 300_000})
    with duckdp.open({"t": rows}, ledger=tmp_path / "ledger", memory="200MB") as owner:
        owner.protect("t", unit_key="u", max_rows=2, row_cap=10**6, bounds={"v": (0, 2)})
        owner.budget(epsilon=2)
        owner.grant("ana", epsilon=2)
        ana, settings = owner.session("ana"), owner.engine.schema_cursor()
        texts = []
        settings.execute("SET max_temp_directory_size = '0MB'; SET memory_limit = '6MB'")
        with pytest.raises(ExecutionError, match=r"^E104: ") as caught:  # a look at the columns, before any charge
            ana.sql("SELECT sum(v) FROM t", epsilon=1)
        assert caught.value.__cause__ is caught.value.__context__ is caught.value.charge is None
        assert not owner.ledger.charges()
        settings.execute("SET memory_limit = '200MB'")
        ana.sql("SELECT count(*) FROM t", epsilon=0.5)
        settings.execute("SET memory_limit = '8MB'")
        for _ in range(2):
            with pytest.raises(ExecutionError) as caught:
                ana.sql("SELECT sum(v) FROM t", epsilon=1)
            assert (caught.value.code, caught.value.charge) == ("E104", 2)
            assert caught.value.__cause__ is caught.value.__context__ is None
            texts.append(str(caught.value))
        assert texts[0] == texts[1]
        for word in ("asking the same again (not fresh) costs nothing", "memory", "Charge 2 stays spent"):
            assert word in texts[0]
        settings.execute("SET memory_limit = '200MB'")
        ana.sql("SELECT sum(v) FROM t", epsilon=1)
        assert [(c.attempt, c.state) for c in owner.ledger.charges()] == [(1, "released"), (3, "released")]


TAKES = """
import sys
import duckdp
folder, memory = sys.argv[1:]
with duckdp.open(
    {"t": f"{folder}/t.parquet"}, ledger=f"{folder}/{memory}.ledger", memory=None if memory == "all" else memory
) as owner:
    owner.protect("t", unit_key="u", max_rows=16, row_cap=20_000_000, bounds={"x": (0, 100), "y": (0, 1)},
                  domains={"g": [0, 1, 2, 3]})
    owner.budget(epsilon=10)
    owner.grant("ana", epsilon=10)
    ana = owner.session("ana")
    owner.engine.schema_cursor().execute("SET threads = 2")
    ana.sql("SELECT g, count(*), sum(y), avg(x) FROM t GROUP BY g", epsilon=1)
    ana.smooth_summary("t", ["x", "y"], name="s", smoothness=16, epsilon=1)
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(peak >> 10)
"""


@pytest.mark.slow
def test_private_reads_stay_within_the_memory_that_was_said(tmp_path: Path) -> None:
    """Ten million rows of a million units in 400 MB; without a limit they take more than is allowed here (the twin)."""
    with duckdb.connect() as con:
        rows = "(hash(i) % 1000000)::BIGINT AS u, (hash(i + 1) % 100)::INTEGER AS x, (i % 1000) / 1000 AS y, "
        con.execute(
            f"COPY (SELECT {rows} (i % 4)::INTEGER AS g FROM range(10_000_000) AS r(i)) TO '{tmp_path}/t.parquet'"
        )
    peaks = {}
    for memory in ("400MB", "all"):
        told = subprocess.run(
            [sys.executable, "-c", TAKES, str(tmp_path), memory], capture_output=True, text=True, check=True
        )
        peaks[memory] = int(told.stdout)  # MiB, code and libraries included
    assert peaks["400MB"] < 700 < peaks["all"], peaks


def answer(data: object, folder: Path, table: str = "t", column: str = "i", snapshot: bool = False) -> float:
    with duckdp.open(data, ledger=folder / "ledger", snapshot=snapshot) as curator:
        curator.protect(table, row_cap=1000, bounds={column: (0, 1000)})
        curator.budget(epsilon=1000)
        curator.grant("ana", epsilon=1000)
        return (
            curator.session("ana")
            .sql(f"SELECT count(*) FROM {table.split('.')[-1]}", epsilon=60, fresh=True)
            .rows()[0][0]
        )


def test_every_kind_of_source(folder: Path) -> None:
    arrow = duckdb.sql(ROWS).to_arrow_table()
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE t AS {ROWS}")
        sources = {
            "file": folder / "data.duckdb",
            "parquet": str(folder / "t.parquet"),
            "frames": {"t": arrow},
            "path by name": {"t": folder / "t.parquet"},
            "connection": con,
            "list of paths": [str(folder / "t.parquet")],
        }
        for name, data in sources.items():
            place = folder / name
            place.mkdir()
            assert answer(data, place) == 100, name


def test_frames_of_other_libraries(folder: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    values = list(range(100))
    for name, frame in (("pandas", pandas.DataFrame({"i": values})), ("polars", polars.DataFrame({"i": values}))):
        (folder / name).mkdir()
        assert answer({"t": frame}, folder / name) == 100


def test_several_parquet_files_are_one_table(folder: Path) -> None:
    assert answer({"t": [folder / "part1.parquet", folder / "part2.parquet"]}, folder) == 150
    (folder / "glob").mkdir()
    assert answer({"t": str(folder / "part*.parquet")}, folder / "glob") == 150


def test_schemas_and_views(folder: Path) -> None:
    for name, (table, column, count) in {
        "schema": ("other.t", "i", 1),
        "view": ("narrow", "n", 33),
        "case": ("T", "I", 100),
    }.items():
        (folder / name).mkdir()
        assert answer(folder / "data.duckdb", folder / name, table, column) == count


def test_a_snapshot_frees_the_file(folder: Path) -> None:
    path = folder / "data.duckdb"
    with duckdp.open(path, ledger=folder / "ledger", snapshot=True) as curator:
        curator.protect("t", row_cap=1000)
        curator.protect("narrow", row_cap=1000)
        curator.budget(epsilon=1000)
        curator.grant("ana", epsilon=1000)
        with duckdb.connect(str(path)) as con:
            con.execute("DELETE FROM t")
        place = curator.engine.source._folder.path
        assert place is not None
        assert os.stat(place).st_mode & 0o077 == 0
        assert curator.session("ana").sql("SELECT count(*) FROM t", epsilon=60).rows() == [(100,)]
        assert curator.session("ana").sql("SELECT count(*) FROM narrow", epsilon=60).rows() == [(33,)]
    assert not os.path.exists(place)


HOLD = "import duckdb, sys\ncon = duckdb.connect(sys.argv[1])\nprint('held', flush=True)\nsys.stdin.read()"


def test_a_locked_file_names_the_process(folder: Path) -> None:
    path = str(folder / "data.duckdb")
    command = [sys.executable, "-c", HOLD, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(CatalogError) as caught:
            duckdp.open(path)
        assert caught.value.code == "C107"
        assert str(holder.pid) in caught.value.message
        holder.communicate("")
    assert answer(path, folder) == 100


def test_what_cannot_be_opened(folder: Path) -> None:
    (folder / "garbage.duckdb").write_bytes(b"alice_7f3" * 1000)
    (folder / "garbage.parquet").write_bytes(b"alice_7f3" * 1000)
    (folder / "empty.parquet").write_bytes(b"")
    for data in (
        folder / "none.duckdb",
        folder / "garbage.duckdb",
        folder / "garbage.parquet",
        folder / "empty.parquet",
        str(folder / "none*.parquet"),
        {"t": folder / "none.parquet"},
        {"t": object()},
        {"t": 7},
        {"t": None},
        7,
        None,
        folder,
        {"t": [1, 2]},
        b"x",
    ):
        with pytest.raises((CatalogError, ParameterError)) as caught:
            duckdp.open(data, ledger=folder / "ledger")
        assert caught.value.code in ("C108", "P107"), data
        assert "alice" not in str(caught.value)
        assert caught.value.__cause__ is None
    with pytest.raises(ParameterError, match="P107"):
        duckdp.open({"t": pa.table({"i": [1]})})  # frames have no place of their own for a ledger


def test_a_failed_opening_leaves_the_file_free(folder: Path) -> None:
    path = str(folder / "data.duckdb")
    with pytest.raises(duckdp.errors.DuckDPError):
        duckdp.open(path, ledger=folder / "no" / "such" / "folder" / "ledger")
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE more AS SELECT 1")


def test_changed_frames_need_a_refresh(folder: Path) -> None:
    def opened(rows: int) -> duckdp.Curator:
        return duckdp.open({"t": pa.table({"i": list(range(rows))})}, ledger=folder / "ledger")

    opened(10).close()
    opened(10).close()
    with opened(11) as curator:
        curator.protect("t", row_cap=100)
        curator.budget(epsilon=10)
        curator.grant("ana", epsilon=10)
        with pytest.raises(CatalogError, match="C104"):
            curator.session("ana").noisy_count("t", epsilon=1)
        assert not curator.ledger.charges()
        assert curator.refresh(reason="eleven now") == 2
        curator.session("ana").noisy_count("t", epsilon=1)


def test_nothing_is_answered_while_a_change_is_accepted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From when the new rows are attached until their version stands, an answer would be that of the old ones."""
    path = str(folder / "t.duckdb")

    def write(rows: int) -> None:
        with duckdb.connect(path) as con:
            con.execute(f"CREATE OR REPLACE TABLE t AS SELECT i FROM range({rows}) AS r(i)")

    write(10)
    with duckdp.open(path, ledger=folder / "ledger", snapshot=True) as curator:
        curator.protect("t", row_cap=100)
        curator.budget(epsilon=10)
        curator.grant("ana", epsilon=10)
        ana, codes = curator.session("ana"), []
        accept = curator.ledger.accept_source

        def asked_meanwhile(*given: object, **named: object) -> int:
            with pytest.raises(CatalogError) as caught:
                ana.noisy_count("t", epsilon=1)
            codes.append(caught.value.code)
            return accept(*given, **named)  # type: ignore[arg-type]

        write(11)
        monkeypatch.setattr(curator.ledger, "accept_source", asked_meanwhile)
        assert curator.refresh(reason="eleven now") == 2
        assert codes == ["C104"]
        assert not curator.ledger.charges()
        ana.noisy_count("t", epsilon=1)


def test_rows_of_a_query_with_parameters_are_streamed() -> None:
    """No row becomes a Python object: with parameters a query takes about the time that it takes without.

    Of processor time, against the same machine's, the least of three: no other work on it counts.
    """
    sql = "SELECT range + ? AS a, range * 0.5 AS b, range * 0.25 AS c, range * 2 AS d, range FROM range(200000)"
    ways = {sql: (7,), sql.replace("?", "7"): ()}
    seconds: dict[str, list[float]] = {text: [] for text in ways}
    with duckdb.connect() as con:
        for text, parameters in [*ways.items()] * 4:
            start = time.process_time()
            query = PrivateQuery(sql=text, parameters=parameters, rows=None, arrays=True, parts=Gather())
            total = sum(int(first.sum()) for first, *_ in read_batches(con.cursor(), query))
            seconds[text].append(time.process_time() - start)
            assert total == 7 * 200_000 + 200_000 * 199_999 // 2
    given, written = (min(found[1:]) for found in seconds.values())  # the first also imports
    assert given < 3 * written


def test_no_row_is_read_without_a_charge_nor_more_of_them_than_are_noised(folder: Path) -> None:
    """The last door before private rows, whoever would come to it: nothing crosses, not the first row either."""
    charge = Charge(**{f.name: None for f in dataclasses.fields(Charge)} | {"id": 7})
    with duckdp.open(str(folder / "data.duckdb"), ledger=str(folder / "t.ledger")) as owner:
        owner.budget(epsilon=1)
        for arrays in (False, True):
            query = PrivateQuery(
                sql="SELECT CAST(? AS INTEGER) AS a", parameters=(2,), rows=None, arrays=arrays, parts=Gather()
            )
            for nothing in (None, 7, charge.id, dataclasses.asdict(charge), "charge"):
                with pytest.raises(InternalError, match="needs a charge"):
                    next(owner.engine.run(query, nothing))
            assert len(list(owner.engine.run(query, charge))) == 1
        for most in (0, 1, 2):
            query = PrivateQuery(sql="SELECT unnest([1, 2, 3]) AS a", rows=most, parts=Gather())
            with pytest.raises(InternalError, match="more rows"):
                next(owner.engine.run(query, charge))
        assert len(list(owner.engine.run(dataclasses.replace(query, rows=3), charge))) == 3


def test_an_interrupt_between_two_batches_is_one(folder: Path) -> None:
    """Broken twin: without it the stream ends, and an error that is no interrupt is E101."""
    charge = Charge(**{f.name: None for f in dataclasses.fields(Charge)} | {"id": 7})
    with duckdp.open(str(folder / "data.duckdb"), ledger=str(folder / "t.ledger")) as owner:
        for sql, code in (("SELECT sin(range * ?) AS a FROM range(3000000)", "E102"), ("SELECT error(?) AS a", "E101")):
            query = PrivateQuery(sql=sql, parameters=(2,), rows=None, arrays=True, parts=Gather())
            with pytest.raises(ExecutionError) as failed:
                for _ in owner.engine.run(query, charge):
                    owner.engine.interrupt()
            assert (failed.value.code, failed.value.__cause__) == (code, None)
        query = PrivateQuery(sql="SELECT 1.0 + ? AS a", parameters=(2,), rows=None, arrays=True, parts=Gather())
        assert [batch[0].tolist() for batch in owner.engine.run(query, charge)] == [[3.0]]
