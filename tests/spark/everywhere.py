"""Suites that go through a session, over rows in Spark: ``duckdp.open`` writes its source to Parquet and opens that.

A plugin: ``python -m pytest -p tests.spark.everywhere tests/adversary tests/privacy``. Tables of a DuckDB file or of a
connection, and frames, become folders of Parquet; the ledger, declarations and questions are the tests' own. What
cannot be so is left out by name, with the reason (:data:`NOT_THERE`). The number of sources that were opened over Spark
is printed at the end, so that nobody takes a run on one machine for this one.

Processes that a test starts by ``ProcessPoolExecutor`` run one after the other, in a Spark that they share
(``tests/spark/shared.py``). A read that one curator has run three times alike is remembered and read anew each
500th time, and must be the same then: audits ask one question thousands of times, of which noise is the only part that
differs, and a job takes a fifth of a second.
"""

from __future__ import annotations

import concurrent.futures
import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.ledger.files import default_ledger
from tests.spark.clusters import session, write_rows
from tests.spark.shared import Shared, remember_reads

FILE = "is about a file of DuckDB or a connection, which is no source in Spark"
STORED = "writes files that are opened as they are, and reads medians; on Spark: test_spark_storage.py"
CHANGED = "changes the file under the curator; on Spark: test_spark_sources.py::test_changed_files_are_seen"
OF_ALL = (
    "is a figure of all rows together, refused before its charge: test_what_is_of_all_rows_is_refused_before_a_charge"
)
#: Tests, or whole files, that do not run over Spark, and why.
NOT_THERE = {
    "adversary/test_hostile_schemas.py": FILE,
    "adversary/test_hostile_storage.py": STORED,
    "adversary/test_hostile_bytes.py": STORED,
    "adversary/test_owners_file.py": FILE,
    "adversary/test_alike.py": "has types that Spark has not (HUGEINT, DECIMAL beyond it, dates before year 1)",
    "adversary/test_memory.py": "measures the one process in which everything is",
    "adversary/test_out_of_memory.py": "is about the private instance; on Spark: test_spark_memory.py",
    "privacy/test_blocks_privacy.py::test_the_empirical_epsilon_is_below_the_claim": OF_ALL,
    "privacy/test_blocks_privacy.py::test_a_broken_twin_is_caught": OF_ALL,
    "privacy/test_blocks_privacy.py::test_the_empirical_epsilon_of_two_at_once_is_below_the_claim": OF_ALL,
    "privacy/test_blocks_privacy.py::test_a_broken_twin_of_two_at_once_is_caught": OF_ALL,
    "privacy/test_kmeans_privacy.py::test_the_empirical_epsilon_is_below_the_claim[blocks": OF_ALL,
    "privacy/test_kmeans_privacy.py::test_a_broken_twin_is_caught[blocks": OF_ALL,
    "privacy/test_end_to_end.py::test_a_broken_twin_is_caught[grouped count-half the noise": "takes 10,000 answers",
    "privacy/test_end_to_end.py::test_the_empirical_epsilon_is_below_the_claim[median": OF_ALL,
    "privacy/test_end_to_end.py::test_a_broken_twin_is_caught[median": OF_ALL,
    "test_a_replaced_file_is_refused_before_the_charge": CHANGED,
    "test_a_deleted_file_is_refused_before_the_charge": CHANGED,
    "test_schema_drift_is_refused": CHANGED,
    "test_damaged_parquet_tells_nothing": STORED,
    "test_an_interrupted_read_keeps_its_charge": "on Spark: test_an_interrupt_ends_the_work_in_spark",
    "test_logging_to_a_file": "opens the file again, in a process of its own",
}
opened: list[object] = []
_until_end = ExitStack()
_local = duckdp.open


def begin(spark: Any) -> None:
    """Open everything over a session of Spark from here on."""
    folder = Path(_until_end.enter_context(tempfile.TemporaryDirectory(prefix="everywhere-")))
    written: dict[object, dict[str, str]] = {}

    def opened_there(data: Any, *, ledger: Any = None, tables: Any = None, snapshot: bool = False, **given: Any) -> Any:
        if tables is not None or snapshot:
            return _local(data, ledger=ledger, tables=tables, snapshot=snapshot, **given)
        place = default_ledger(data, ledger)
        known = _same(data)
        if known not in written or known is None:
            written[known] = _written(data, folder / str(len(opened)))
        opened.append(known)
        return _local(spark, tables=written[known], ledger=place, **given)

    duckdp.open = opened_there  # type: ignore[assignment]
    remember_reads()


def end() -> None:
    """Open where it is said again, and remove what was written."""
    duckdp.open = _local
    _until_end.close()


def pytest_configure(config: pytest.Config) -> None:
    """Open everything over Spark from here on, in processes that tests start too."""
    spark = _until_end.enter_context(session("local[2]", **{"spark.sql.shuffle.partitions": "2"}))
    concurrent.futures.ProcessPoolExecutor = Shared.of(spark, opened)  # type: ignore[misc,assignment]
    begin(spark)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the session of Spark."""
    end()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot be over Spark."""
    out = [item for item in items if any(name in item.nodeid for name in NOT_THERE)]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("ignore"))  # of PySpark


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how often Spark was opened."""
    terminalreporter.write_line(f"opened over Spark: {len(opened)}")


def _same(data: object) -> object:
    """What tells a source from another: two curators of one file have the same rows of Parquet."""
    if not isinstance(data, (str, os.PathLike)):
        return None
    status = os.stat(data)
    return os.path.realpath(data), status.st_size, status.st_mtime_ns


def _written(data: object, folder: Path) -> dict[str, str]:
    folder.mkdir()
    if isinstance(data, Mapping):
        return {name: part if isinstance(part, str) else _folder(folder / name, part) for name, part in data.items()}
    if isinstance(data, duckdb.DuckDBPyConnection):
        return _tables(data, folder)
    with duckdb.connect(str(data), read_only=True) as con:
        return _tables(con, folder)


def _tables(con: duckdb.DuckDBPyConnection, folder: Path) -> dict[str, str]:
    names = [name for (name,) in con.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()]
    return {name: _folder(folder / name, con.table(name).to_arrow_table()) for name in names}


def _folder(path: Path, rows: Any) -> str:
    return write_rows(path, rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows), 2)
