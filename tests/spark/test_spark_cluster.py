"""Executors in processes of their own: one is lost in the middle of a read, and tasks run twice at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler.emit import emit
from duckdp.vault import part_work
from tests.gate import clinic, plan_for
from tests.privacy import test_parts as whole_and_parts
from tests.privacy.draws import connect
from tests.spark.clusters import cluster, opened, rows_of, session, write_rows

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
QUESTION = "SELECT sex, count(*), count(DISTINCT pid), sum(cost), avg(age) FROM clinic GROUP BY sex"
EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with cluster(tmp_path_factory.mktemp("cluster")) as address, session(address, **EAGER) as found:
        yield found


@pytest.fixture(scope="module")
def whole() -> duckdb.DuckDBPyConnection:
    return connect(whole_and_parts.mixed_rows())


def ask(spark: Any, whole: duckdb.DuckDBPyConnection, path: Path) -> None:
    query = emit(plan_for(QUESTION, clinic(row_cap=10_000_000)), 7)
    with opened(spark, clinic=write_rows(path, whole.sql("FROM clinic").to_arrow_table())) as engine:
        there = rows_of(engine, query, (clinic(row_cap=10_000_000),))
    alone = list(query.combine([whole_and_parts.rows_of(whole, query)]))
    assert whole_and_parts.bits(query, there) == whole_and_parts.bits(query, alone)


def test_a_task_that_runs_twice_counts_once(
    spark: Any, whole: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path)

    def slow_at_first() -> int:
        import time
        from pathlib import Path

        from pyspark import TaskContext

        task = TaskContext.get()
        Path(folder, f"run-{task.stageId()}-{task.partitionId()}-{task.attemptNumber()}").touch()
        if task.partitionId() == 9 and task.attemptNumber() == 0:
            time.sleep(60)  # it is ended when the other one is done
        return int(task.partitionId())

    monkeypatch.setattr(part_work, "_number_of_task", slow_at_first)
    ask(spark, whole, tmp_path / "rows")
    assert list(tmp_path.glob("run-*-9-1")), "no task ran twice"


def test_a_lost_executor_changes_nothing(
    spark: Any, whole: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = str(tmp_path / "lost")

    def dies_once() -> int:
        import os
        import signal
        from pathlib import Path

        from pyspark import TaskContext

        try:
            with open(mark, "x"):
                pass
        except FileExistsError:
            return int(TaskContext.get().partitionId())
        process, command = os.getpid(), ""
        while "CoarseGrainedExecutorBackend" not in command:  # the executor that this worker belongs to
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
            assert process > 1
            command = Path(f"/proc/{process}/cmdline").read_text()
        os.kill(process, signal.SIGKILL)
        raise OSError

    monkeypatch.setattr(part_work, "_number_of_task", dies_once)
    ask(spark, whole, tmp_path / "rows")
    assert Path(mark).exists()


def test_a_cluster_is_opened_by_its_address(spark: Any, tmp_path: Path) -> None:
    """By a script of the owner's: a session there is begun and ended by the curator."""
    address = spark.sparkContext.master
    path = write_rows(tmp_path / "rows", pa.table({"x": [1.0] * 500}))
    with duckdp.open(address, tables={"t": path}, ledger=str(tmp_path / "a.ledger")) as curator:
        curator.protect("t", row_cap=1000, bounds={"x": (0, 1)})
        curator.budget(epsilon=50)
        curator.grant("ana", epsilon=50)
        assert 480 < curator.session("ana").sql("SELECT sum(x) FROM t", epsilon=10).columns[0].values[0] < 520
