"""Synthetic tables as files: joins by declared keys, types, old shells, hostile names, nothing half-written."""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import duckdp
from duckdp.bench import dashboards
from duckdp.bench import main as bench
from duckdp.bench.measure import show_grid
from duckdp.errors import CatalogError, ParameterError
from duckdp.result import Estimate, Result, ResultColumn
from duckdp.synthetic import files
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.files import open_tables, write_database, write_parquet
from tests import databases

KEYS = {"origin": ["EWR", "JFK", "LGA"], "month": [dt.date(2013, m, 1) for m in range(1, 7)]}
TYPES = {
    "day": "DATE",
    "at": "TIMESTAMP",
    "big": "HUGEINT",
    "price": "DECIMAL(10,2)",
    "size": "ENUM('a', 'b')",
    "open": "BOOLEAN",
    "small": "TINYINT",
    "x": "DOUBLE",
    "id": "UBIGINT",
}
KEPT = TYPES | {"size": "VARCHAR"}
Joined = tuple[str, dict[str, Result], dict[str, str]]
HOSTILE = ('drop table "x"; --', "a'b", "select", "\N{GRINNING FACE}", "c\nd", "main.x", "'; ATTACH 'y' AS z; --")


def _objects(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


@pytest.fixture(scope="module")
def made() -> SyntheticTable:
    """One column of each type, 3000 rows."""
    n = 1000
    columns = {
        "day": _objects([dt.date(1, 1, 1), dt.date(2013, 2, 28), None] * n),
        "at": _objects([dt.datetime(2013, 2, 28, 23, 59, 59, 999999), None, dt.datetime(1600, 1, 1)] * n),
        "big": _objects([2**100, -(2**100), None] * n),
        "price": np.array([12.34, 0.1, -99999999.99] * n),
        "size": _objects(["a", "b", None] * n),
        "open": _objects([True, None, False] * n),
        "small": np.array([-128, 0, 127] * n),
        "x": np.array([0.1 + 0.2, 1e300, -0.0] * n),
        "id": _objects([2**64 - 1, 2**63, 0] * n),
    }
    return SyntheticTable(table="t", types=TYPES, columns=columns, residual=0.0)


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Joined:
    """Two synthetic tables of one data set with two declared keys: their file, they, and what the ledger keeps."""
    folder = tmp_path_factory.mktemp("joined")
    common = "['EWR', 'JFK', 'LGA'][1 + i % 3] AS origin, make_date(2013, 1 + CAST(i // 3 % 6 AS INTEGER), 1) AS month"
    tables = {
        "flights": f"SELECT {common}, CAST(i % 50 AS TINYINT) AS delay FROM range(3000) r(i)",
        "weather": f"SELECT {common}, i % 4 = 0 AS rain FROM range(2000) r(i)",
    }
    # keys that may be NULL get a noisy share of NULLs, which join nothing
    keys = ("origin", "month")
    databases.write_database(folder / "air.duckdb", tables, never_null={"flights": keys, "weather": keys})
    with duckdp.open(str(folder / "air.duckdb"), ledger=str(folder / "air.ledger")) as curator:
        curator.protect("flights", row_cap=10_000, domains=KEYS, bounds={"delay": (0, 60)})
        curator.protect("weather", row_cap=10_000, domains=KEYS, columns=["rain"])
        curator.budget(epsilon=100)
        curator.grant("ana", epsilon=100)
        ana = curator.session("ana")
        made = {
            name: ana.synthesize(name, epsilon=20, rows=2000, degree=3, name=f"s_{name}")
            for name in ("flights", "weather")
        }
        ana.smooth_summary("flights", ["delay"], epsilon=1, degree=3, name="delays")
        stored = {name: curator.ledger.object("ana", name).payload for name in ("s_flights", "s_weather", "delays")}
        made["answers"] = ana.sql("SELECT origin, count(*) AS n FROM flights GROUP BY origin", epsilon=1)
    path = str(folder / "out.duckdb")
    write_database(path, made)
    return path, made, stored


def _orphans(con: duckdb.DuckDBPyConnection, left: str, right: str) -> int:
    """Rows that an equi-join by the keys would lose."""
    row = con.execute(f"SELECT count(*) FROM {left} ANTI JOIN {right} USING (origin, month)").fetchone()
    assert row is not None
    return int(row[0])


def test_tables_of_one_file_join_by_their_declared_keys(joined: Joined) -> None:
    with duckdb.connect(joined[0], read_only=True) as con:
        types = [
            con.execute(f"SELECT typeof(origin), typeof(month) FROM {t}").fetchone() for t in ("flights", "weather")
        ]
        assert types == [("VARCHAR", "DATE")] * 2
        assert _orphans(con, "flights", "weather") == _orphans(con, "weather", "flights") == 0
        rows = con.execute(
            "WITH f AS (SELECT origin, month, count(*) AS n FROM flights GROUP BY ALL), "
            "w AS (SELECT origin, month, count_if(rain) / count(*) AS wet FROM weather GROUP BY ALL) "
            "SELECT origin, month, n, wet FROM f JOIN w USING (origin, month)"
        ).fetchall()
        assert {row[:2] for row in rows} <= {(o, m) for o in KEYS["origin"] for m in KEYS["month"]}
        assert sum(row[2] for row in rows) == 2000
        # the check can fail: keys that another tool padded do not join
        con.execute("CREATE TEMP TABLE padded AS SELECT origin || ' ' AS origin, month FROM weather")
        assert _orphans(con, "flights", "padded") == 2000


def test_keys_and_error_columns_of_answers_come_along(joined: Joined) -> None:
    with duckdb.connect(joined[0], read_only=True) as con:
        shape = con.execute("SELECT column_name, column_type FROM (DESCRIBE answers)").fetchall()
        assert shape[:2] == [("origin", "VARCHAR"), ("n", "BIGINT")]
        assert [n for n, _ in shape[2:]] == ["n_standard_error", "n_low", "n_high"]
        inside = con.execute("SELECT count(*) FROM answers JOIN flights USING (origin) WHERE n_low < n").fetchone()
        assert inside == (2000,)
        told = dict(con.execute("SELECT table_name, comment FROM duckdb_tables()").fetchall())
    assert told["answers"].startswith("released by duckdp: charge")
    assert "rows whose key is outside its declared domain" in told["answers"]


def test_stored_tables_are_written_for_free(joined: Joined, tmp_path: Path) -> None:
    stored = dict(joined[2])
    with pytest.raises(CatalogError) as caught:
        open_tables(stored)
    assert caught.value.code == "C110"
    del stored["delays"]
    write_database(tmp_path / "x.duckdb", open_tables(stored))
    with duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as con:
        again = con.execute("SELECT delay, origin, month FROM s_flights").fetchall()
    flights = joined[1]["flights"]
    order = [flights.names.index(name) for name in ("delay", "origin", "month")]
    assert again == [tuple(row[i] for i in order) for row in flights.rows()]


def test_a_synthetic_table_says_what_it_is(made: SyntheticTable, tmp_path: Path) -> None:
    write_database(tmp_path / "x.duckdb", {"t": made})
    with duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as con:
        row = con.execute("SELECT comment FROM duckdb_tables()").fetchone()
    assert row is not None
    assert "no row is a person" in row[0]


def _read(con: duckdb.DuckDBPyConnection, relation: str) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
    shape = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE {relation})").fetchall()
    return dict(shape), con.execute(f"SELECT * REPLACE (CAST(big AS HUGEINT) AS big) FROM {relation}").fetchall()


def test_types_and_values_survive(made: SyntheticTable, tmp_path: Path) -> None:
    write_database(tmp_path / "x.duckdb", {"t": made})
    write_parquet(tmp_path / "x.parquet", made)
    expected = list(zip(*(v.tolist() for v in made.columns.values()), strict=True))
    with duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as con:
        own = _read(con, "t")
        parquet = _read(con, f"'{tmp_path / 'x.parquet'}'")
    assert own[0] == KEPT
    assert parquet[0] == KEPT | {"big": "DECIMAL(38,0)"}  # DuckDB by itself writes DOUBLE there
    for _, rows in (own, parquet):
        assert [(*r[:3], float(r[3]), *r[4:]) for r in rows] == expected


def _storage(path: Path) -> int:
    """Storage version in a DuckDB file's header; 64 is what 1.0 reads."""
    head = path.read_bytes()[:20]
    assert head[8:12] == b"DUCK"
    return int.from_bytes(head[12:20], "little")


def _shell() -> str:
    beside = Path(sys.executable).parent / "duckdb"
    found = str(beside) if beside.exists() else shutil.which("duckdb")
    assert found is not None, "duckdb-cli is not installed; it comes with duckdp[test]"
    return found


def test_older_shells_read_the_file(made: SyntheticTable, tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    write_database(path, {"t": made, "u": made})
    question = "SELECT count(*) AS n, max(day)::VARCHAR AS day FROM t JOIN (SELECT DISTINCT id FROM u) USING (id)"
    done = subprocess.run(
        [_shell(), "-readonly", "-json", str(path), question], capture_output=True, text=True, timeout=300, check=True
    )
    assert json.loads(done.stdout) == [{"n": 3000, "day": "2013-02-28"}]
    assert _storage(path) == 64
    with duckdb.connect() as con:  # the check can fail: a file of this DuckDB's newest version
        con.execute(f"ATTACH '{tmp_path / 'new.duckdb'}' AS new (STORAGE_VERSION 'latest')")
        con.execute("CREATE TABLE new.t AS SELECT 1 AS i")
    assert _storage(tmp_path / "new.duckdb") > 64


def test_hostile_names_stay_names(made: SyntheticTable, tmp_path: Path) -> None:
    folder = tmp_path / "a'b: --"
    folder.mkdir()
    columns = [ResultColumn(name=n, type="VARCHAR", values=[n]) for n in HOSTILE]
    write_database(folder / "x'y.duckdb", dict.fromkeys(HOSTILE, Result(columns=columns)))
    write_parquet(folder / "x'y.parquet", Result(columns=columns))
    with duckdb.connect(str(folder / "x'y.duckdb"), read_only=True) as con:
        assert sorted(r[0] for r in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()) == sorted(HOSTILE)
        for name in HOSTILE:
            quoted = '"' + name.replace('"', '""') + '"'
            assert con.execute(f"FROM main.{quoted}").fetchall() == [HOSTILE]
        done = con.execute("FROM read_parquet($1)", [str(folder / "x'y.parquet")])
        assert [d[0] for d in done.description or []] == list(HOSTILE)
    assert sorted(os.listdir(folder)) == ["x'y.duckdb", "x'y.parquet"]


@pytest.mark.parametrize("names", [[], [""], ["a", "A"], ["a\0b"], ["a\ud800"], ["x" * 300], [7]])
def test_names_that_no_file_can_hold_are_refused(made: SyntheticTable, tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(ParameterError) as caught:
        write_database(tmp_path / "x.duckdb", dict.fromkeys(names, made))
    assert caught.value.code == "P107"
    assert not os.listdir(tmp_path)


def test_an_answer_with_a_name_twice_or_a_strange_type_is_refused(tmp_path: Path) -> None:
    twice = [ResultColumn(name=n, type="BIGINT", values=[1]) for n in ("n", "N")]
    clash = [
        ResultColumn(name="n", type="BIGINT", values=[1], estimates=[Estimate(value=1)]),
        ResultColumn(name="n_low", type="BIGINT", values=[1]),
    ]
    strange = [ResultColumn(name="n", type="BIGINT); DROP TABLE x; --", values=[1])]
    for columns in (twice, clash, strange):
        with pytest.raises(ParameterError):
            write_database(tmp_path / "x.duckdb", {"t": Result(columns=columns)})
        with pytest.raises(ParameterError):
            write_parquet(tmp_path / "x.parquet", Result(columns=columns))
    assert not os.listdir(tmp_path)


def test_a_file_that_exists_stays(made: SyntheticTable, tmp_path: Path) -> None:
    target = tmp_path / "x.duckdb"
    target.write_text("mine")
    with pytest.raises(FileExistsError, match="exists"):
        write_database(target, {"t": made})
    with pytest.raises(FileExistsError):
        write_parquet(target, made)
    assert target.read_text() == "mine"
    assert os.listdir(tmp_path) == ["x.duckdb"]
    write_database(target, {"t": made}, replace=True)
    with duckdb.connect(str(target), read_only=True) as reader:
        reader.execute("SELECT count(*) FROM t")
        write_database(target, {"u": made}, replace=True)
        assert reader.execute("SELECT max(small) FROM t").fetchone() == (127,)  # the old file, as long as it is open
    with duckdb.connect(str(target), read_only=True) as reader:
        assert reader.execute("SELECT max(small) FROM u").fetchone() == (127,)
    assert os.listdir(tmp_path) == ["x.duckdb"]


def test_a_strange_log_beside_the_target_is_refused(made: SyntheticTable, tmp_path: Path) -> None:
    log = tmp_path / "x.duckdb.wal"
    log.write_bytes(b"of another file")
    for replace in (False, True):
        with pytest.raises(FileExistsError, match="log"):
            write_database(tmp_path / "x.duckdb", {"t": made}, replace=replace)
    assert os.listdir(tmp_path) == [log.name]


def test_a_failed_write_leaves_nothing(made: SyntheticTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = SyntheticTable(table="t", types={"i": "TINYINT"}, columns={"i": np.array([300])}, residual=0.0)
    huge = SyntheticTable(table="t", types={"i": "HUGEINT"}, columns={"i": _objects([10**38])}, residual=0.0)
    target = tmp_path / "x"
    for replace in (False, True):
        with pytest.raises(OSError, match="cannot be written"):
            write_database(target, {"good": made, "bad": bad}, replace=replace)
        with pytest.raises(OSError, match="cannot be written"):
            write_parquet(target, huge, replace=replace)
        assert os.listdir(tmp_path) == (["x"] if replace else [])
        target.write_text("mine")
    assert target.read_text() == "mine"
    with pytest.raises(FileNotFoundError):
        write_database(tmp_path / "none" / "x", {"t": made})

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "_create", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_database(target, {"t": made}, replace=True)
    assert target.read_text() == "mine"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("links", [True, False])
def test_a_name_taken_meanwhile_is_not_overwritten(
    made: SyntheticTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    replace = os.replace
    if not links:

        def no_links(*_: object) -> None:
            raise OSError(errno.ENOTSUP, "no hard links here")

        monkeypatch.setattr(os, "link", no_links)
        monkeypatch.setattr(os, "replace", no_links)
        with pytest.raises(OSError, match="no hard links"):
            write_database(tmp_path / "free", {"t": made})
        assert not os.listdir(tmp_path)
        monkeypatch.setattr(os, "replace", replace)
    write_database(tmp_path / "free", {"t": made})
    assert _storage(tmp_path / "free") == 64
    target, create = tmp_path / "x", files._create

    def slow(con: Any, name: str, table: Any) -> None:
        create(con, name, table)
        target.write_text("somebody's")

    monkeypatch.setattr(files, "_create", slow)
    with pytest.raises(FileExistsError):
        write_database(target, {"t": made})
    assert target.read_text() == "somebody's"
    assert sorted(os.listdir(tmp_path)) == ["free", "x"]


def _flights(path: Path) -> None:
    """Made up, in the columns of the real file."""
    with duckdb.connect() as con:
        con.execute(
            "COPY (SELECT 1 + h % 12 AS month, 1 + i % 28 AS day, 100 * (5 + i % 18) AS sched_dep_time, "
            "CASE WHEN i % 7 > 0 THEN (i * 31 % 90) - 20 END AS dep_delay, ['9E', 'AA'][1 + i % 2] AS carrier, "
            "['EWR', 'JFK', 'LGA'][CAST(1 + h // 16 % 3 AS INTEGER)] AS origin "
            "FROM (SELECT CAST(i AS INTEGER) AS i, CAST(hash(i) % 10007 AS INTEGER) AS h FROM range(8000) r(i))) "
            f"TO '{path}'"
        )


def _shown(lines: list[str], source: str) -> bool:
    """Whether each measure of each panel has one line of that source."""
    named = [f"{panel.name}, {measure}" for panel in dashboards.PANELS for measure in panel.whole]
    return [x.split(" | ")[0].removeprefix("| ") for x in lines if f" | {source} | " in x] == named


def test_bench_measures_private_answers(tmp_path: Path) -> None:
    _flights(tmp_path / "f.parquet")
    grid = dashboards.run(tmp_path / "f.parquet", runs=2, epsilon="30", methods=())
    lines = show_grid(grid, markdown=True).splitlines()
    assert all(_shown(lines, source) for source in ("private", "private, 1 of 100", "bootstrap", "flat"))
    assert not _shown(lines, "synthetic, auto")
    errors = {tuple(row[:3:2]): float(row[3]) for row in grid.rows}
    for panel in ("trend, flights", "join, cancelled_share"):  # of 190 rows a cell
        assert errors[panel, "private"] < errors[panel, "bootstrap"]
        assert 10 * errors[panel, "private"] < errors[panel, "private, 1 of 100"]


@pytest.mark.slow
def test_bench_command_prints_all_panels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _flights(tmp_path / "f.parquet")
    assert bench(["synthetic", "dashboards", "--data", str(tmp_path / "f.parquet"), "--runs", "1", "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(_shown(lines, source) for source in ("synthetic, auto", "private", "bootstrap", "flat"))


def test_bench_errors_are_those_of_the_cells(tmp_path: Path) -> None:
    _flights(tmp_path / "f.parquet")
    flights = dashboards.Flights(str(tmp_path), tmp_path / "f.parquet")
    exact = flights.exact
    assert {name: len(cells) for name, cells in exact.items()} == {
        "trend, flights": 36,
        "kpi, mean_delay": 6,
        "kpi, late_share": 6,
        "join, cancelled_share": 36,
    }
    assert sum(exact["trend, flights"]) == 8000 - 1143
    assert all(not np.any(v) for v in dashboards.measure(exact, exact).values())
    moved = {name: np.roll(cells, 1) for name, cells in exact.items()}  # a wrong order of cells would be seen
    assert all(v[1] > 0 for v in dashboards.measure(moved, exact).values())
    silent = {name: np.full(len(cells), np.nan) for name, cells in exact.items()}
    assert all(v[2:] == pytest.approx((1, 1)) for v in dashboards.measure(silent, exact).values())
    for drawn in (flights.bootstrap(), flights.flat()):
        assert {name: len(cells) for name, cells in drawn.items()} == {name: len(c) for name, c in exact.items()}
