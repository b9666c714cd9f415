"""Parquet with a bad row, or with changed bytes, in Spark: refused at the opening, or all that is paid for is read.

Sources and reads are those of ``tests/adversary/hostile.py``, where files and frames of one machine meet the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.errors import DuckDPError
from duckdp.vault.spark_engine import SparkEngine
from tests.adversary import hostile
from tests.adversary.test_hostile_bytes import ABOUT, changed, good_bytes
from tests.adversary.test_hostile_storage import REFUSALS, said
from tests.spark.clusters import write_rows

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ROOT = Path(__file__).resolve().parents[2]
OF_ALL = "Q405"  # what is of all rows together: refused before its charge
SEEDS = int(os.environ.get("DUCKDP_SEEDS", "6"))  # of changed bytes, for each way of writing


#: Java reads a length that the file says and nobody checks, and ends without that much memory.
DEADLY = ["parquet_dictionary_cut"]


def outcome(spark: Any, tables: Any, folder: Path, about: tuple[str, ...]) -> set[str]:
    errors = hostile.outcome(spark, folder, about=about, tables=tables)
    for error in errors:
        assert hostile.SECRET not in said(error), error
    return {error.code for error in errors} - {OF_ALL}


@pytest.mark.parametrize("name", [n for n in hostile.BUILDERS if n.startswith("parquet_") and n not in DEADLY])
def test_no_paid_read_fails_for_a_bad_row(spark: Any, name: str, tmp_path: Path) -> None:
    assert outcome(spark, hostile.BUILDERS[name](tmp_path), tmp_path, hostile.ABOUT[name]) <= REFUSALS


OPENED = """
import sys
from pathlib import Path
import duckdp
from duckdp.errors import DuckDPError
from tests.adversary import hostile
from tests.spark.clusters import session

with session() as spark:
    try:
        duckdp.open(spark, tables=hostile.BUILDERS[sys.argv[1]](Path(sys.argv[2])), ledger=sys.argv[2] + "/a.ledger")
    except DuckDPError as error:
        print(error, error.__cause__, error.__context__, flush=True)
"""


@pytest.mark.parametrize("name", DEADLY)
def test_a_file_at_which_java_ends_is_refused_at_the_opening(name: str, tmp_path: Path) -> None:
    """In a process of its own, which is without Spark then."""
    command = [sys.executable, "-c", OPENED, name, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.startswith('C108: "t" could not be read in full: Spark ended at it'), done.stderr[-2000:]
    assert done.stdout.rstrip().endswith("None None")


@pytest.mark.parametrize("kind", ["plain", "dictionary", "duckdb"])
def test_changed_bytes_never_fail_a_paid_read(spark: Any, kind: str, tmp_path: Path) -> None:
    content = good_bytes(kind, tmp_path)
    for seed in range(SEEDS):
        place = tmp_path / str(seed)
        place.mkdir()
        (place / "t.parquet").write_bytes(changed(content, seed))
        tables = {"t": str(place / "t.parquet")}
        assert outcome(spark, tables, place, ABOUT[seed % len(ABOUT)]) <= REFUSALS, seed


def test_broken_twin_that_reads_nothing_at_the_opening(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkEngine, "_read", lambda *_: None)
    name = "parquet_text_not_utf8"
    assert "E101" in outcome(spark, hostile.BUILDERS[name](tmp_path), tmp_path, hostile.ABOUT[name])


def test_a_file_damaged_under_its_stamp_keeps_the_charge_and_tells_nothing(spark: Any, tmp_path: Path) -> None:
    """After the opening, its size and time as they were: nobody can know before the read."""
    with duckdb.connect() as con:
        rows = con.sql(f"SELECT i, '{hostile.SECRET}' || i AS name FROM range(4861) r(i)").to_arrow_table()
    path = write_rows(tmp_path / "t", rows, 1)
    file = Path(path) / "0.parquet"
    status, raw = file.stat(), bytearray(file.read_bytes())
    with duckdp.open(spark, tables={"t": path}, ledger=str(tmp_path / "a.ledger")) as curator:
        curator.protect("t", row_cap=10_000, bounds={"i": (0, 5000)}, columns=["name"])
        curator.budget(epsilon=10)
        curator.grant("ana", epsilon=10)
        half = len(raw) // 2
        raw[10:half] = (hostile.SECRET.encode() * len(raw))[: half - 10]
        file.write_bytes(raw)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(DuckDPError) as caught:
            curator.session("ana").sql("SELECT sum(i) FROM t WHERE name <> 'x'", epsilon=1)
        assert caught.value.code == "E101"
        assert hostile.SECRET not in said(caught.value)
        assert [charge.state for charge in curator.ledger.charges()] == ["failed"]
