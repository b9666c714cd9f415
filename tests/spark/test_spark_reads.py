"""Every private read of the package on Spark: bit for bit what one machine gives, whatever the parts and retries."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from duckdp.core.reads import Gather, PrivateQuery
from duckdp.core.task import reads_all_rows
from duckdp.errors import InternalError
from duckdp.synthetic.tree.buy import TreeTask
from duckdp.vault import part_work, spark_engine, spark_parts
from duckdp.vault.spark_engine import SparkEngine
from tests.gate import clinic, plan_for
from tests.privacy import test_parts as whole_and_parts
from tests.privacy.draws import SLOW, TASKS, Case, connect
from tests.spark.clusters import opened, rows_of, write_rows

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
CASES = [(kind, case) for kind, cases in TASKS.items() for case in cases if case.name not in SLOW]


@pytest.fixture(scope="module")
def whole() -> duckdb.DuckDBPyConnection:
    return connect(whole_and_parts.mixed_rows())


@pytest.fixture(scope="module")
def engine(spark: Any, whole: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    rows = whole.sql("FROM clinic").to_arrow_table()
    path = write_rows(tmp_path_factory.mktemp("rows") / "clinic", rows)
    with opened(spark, clinic=path) as found:
        yield found


def same(engine: SparkEngine, whole: duckdb.DuckDBPyConnection, query: Any, table: Any) -> bool:
    """Whether Spark gives what one machine gives, to the last bit."""
    alone = list(query.combine([whole_and_parts.rows_of(whole, query)]))
    there = rows_of(engine, query, (table,))
    return whole_and_parts.bits(query, there) == whole_and_parts.bits(query, alone)


@pytest.mark.parametrize(("kind", "case"), [pytest.param(k, c, id=f"{k.__name__}-{c.name}") for k, c in CASES])
def test_every_read_is_that_of_one_machine(
    kind: type, case: Case, engine: SparkEngine, whole: duckdb.DuckDBPyConnection
) -> None:
    task = case.make()
    if kind is TreeTask:
        whole_and_parts.perform(task, partial(whole_and_parts.rows_of, whole))
    run = whole_and_parts.perform(task, partial(whole_and_parts.rows_of, whole))
    table = whole_and_parts.task_table(task)
    once = {(q.sql, repr(q.parameters)): q for q in run.asked}
    for query in list(once.values())[:8]:  # a second each; further ones differ in their cells
        if query.parts.known:
            assert same(engine, whole, query, table)
        else:
            assert reads_all_rows(task, 7)
            with pytest.raises(InternalError, match="do not tell"):
                rows_of(engine, query, (table,))


QUESTION = "SELECT sex, count(*), count(DISTINCT pid), sum(cost), avg(age) FROM clinic GROUP BY sex"


@pytest.mark.parametrize("count", [1, 3, 50])
@pytest.mark.parametrize("keyed", [True, False])
def test_the_number_of_parts_is_nothing(
    count: int,
    keyed: bool,
    engine: SparkEngine,
    whole: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = clinic() if keyed else clinic(unit_key=None)
    text = QUESTION if keyed else QUESTION.replace("count(DISTINCT pid), ", "")
    query = whole_and_parts.emit(plan_for(text, table), 7)
    monkeypatch.setattr(spark_engine, "part_count", lambda *_: count)
    assert same(engine, whole, query, table)


def test_a_task_that_is_tried_again_counts_once(
    engine: SparkEngine, whole: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = part_work._number_of_task

    def fails_at_first() -> int:
        from pyspark import TaskContext

        if TaskContext.get().attemptNumber() < 2:
            raise OSError
        return tried()

    query = whole_and_parts.emit(plan_for(QUESTION, clinic()), 7)
    monkeypatch.setattr(part_work, "_number_of_task", fails_at_first)
    assert same(engine, whole, query, clinic())
    assert same(engine, whole, whole_and_parts.emit(plan_for("SELECT count(*) FROM clinic", clinic()), 7), clinic())


def test_results_that_come_twice_or_not_at_all_are_seen(engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twins: what a count on the side, or a lost result, would make of the figures."""
    query = whole_and_parts.emit(plan_for(QUESTION, clinic()), 7)
    mapped = SparkEngine._mapped
    twins: list[Callable[[Any], Any]] = [
        lambda f: f.crossJoin(f.sparkSession.range(2)).drop("id"),
        lambda f: f.where("NOT last"),
        lambda f: f.where("part != 1"),
        lambda f: f.selectExpr("part", "number + 1", "last", "rows"),
    ]
    for broken in twins:
        with monkeypatch.context() as patch:
            patch.setattr(SparkEngine, "_mapped", lambda *given, broken=broken: broken(mapped(*given)))
            with pytest.raises(InternalError, match=r"did not come whole|came twice"):
                rows_of(engine, query, (clinic(),))


def test_rows_that_stream_are_counted_too(
    engine: SparkEngine, whole: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that are lost, the last one among them, or come out of turn."""
    query = PrivateQuery(sql='SELECT base."age" FROM "memory"."main"."clinic" AS base', rows=None, parts=Gather())
    assert sorted(rows_of(engine, query, (clinic(),)), key=repr) == sorted(
        whole.execute("SELECT age FROM clinic").fetchall(), key=repr
    )
    mapped = SparkEngine._mapped
    for broken in ("part != 0", "part = 0", "NOT last", "FALSE"):
        with monkeypatch.context() as patch:
            patch.setattr(SparkEngine, "_mapped", lambda *given, broken=broken: mapped(*given).where(broken))
            with pytest.raises(InternalError, match=r"did not come whole|are not in their order"):
                rows_of(engine, query, (clinic(),))


def test_units_in_two_parts_are_seen(engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: rows are dealt out, whosever they are."""
    query = whole_and_parts.emit(plan_for(QUESTION, clinic()), 7)
    keyed = spark_parts._keyed

    def dealt(*given: Any) -> Any:
        from pyspark.sql import functions as f

        frame, key = keyed(*given)
        return frame, key + f.monotonically_increasing_id()

    monkeypatch.setattr(spark_parts, "_keyed", dealt)
    table = clinic()
    alone = rows_of(engine, query, (table,))  # by another number, consistently: the figures are others
    monkeypatch.undo()
    assert alone != rows_of(engine, query, (table,))
    monkeypatch.setattr(part_work, "_number_of_task", lambda: 0)
    with pytest.raises(Exception, match=part_work.FAILED):
        rows_of(engine, query, (table,))


VALUES = {
    "a": pa.array([-128, 127, None], pa.int8()),
    "b": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
    "c": pa.array([float("nan"), -0.0, float("inf")], pa.float64()),
    "d": pa.array([float("nan"), 1e-45, None], pa.float32()),
    "e": pa.array(["a\0b", "\U0010ffff", "ä " * 200], pa.string()),
    "f": pa.array([True, False, None], pa.bool_()),
    "g": pa.array([dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(9999, 12, 31)], pa.date32()),
    "h": pa.array([-(2**62), 0, 2**62], pa.timestamp("us")),
    "i": pa.array([-(2**62), 86_399_999_999, 2**62], pa.timestamp("us", "Europe/Zurich")),
    "j": pa.array([None, -1, 10**17], pa.decimal128(18, 0)),
    "k": pa.array([0, 255, None], pa.uint8()),
    "l": pa.array([0, 2**32 - 1, None], pa.uint32()),
    "m": pa.array([0, 2**64 - 1, None], pa.uint64()),
}


def test_values_come_as_they_are(spark: Any, tmp_path: Path) -> None:
    """Each type of the map: texts of values, as DuckDB prints them, from Parquet here and through Spark there."""
    rows = pa.table(VALUES)
    path = write_rows(tmp_path / "values", rows, 1)
    from duckdp.catalog.table import Table

    names = list(VALUES)
    items = ", ".join(f'CAST("{n}" AS VARCHAR)' for n in names)
    with opened(spark, clinic=path) as engine:
        types = {c.name: c.type for c in engine.source.columns(engine.schema_cursor(), ("src", "main", "clinic"))}
        table = Table(name="clinic", relation=("src", "main", "clinic"), columns=(), row_cap=10)
        query = PrivateQuery(sql=f'SELECT {items} FROM "src"."main"."clinic"', rows=None, parts=Gather())
        found = rows_of(engine, query, (table,))
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        alone = con.execute(f"SELECT {items} FROM read_parquet('{path}/*.parquet')").fetchall()
    assert sorted(map(repr, found)) == sorted(map(repr, alone))
    assert types == {
        **dict(zip("abcdefg", ("TINYINT", "BIGINT", "DOUBLE", "FLOAT", "VARCHAR", "BOOLEAN", "DATE"), strict=True)),
        "h": "TIMESTAMP",
        "i": "TIMESTAMP WITH TIME ZONE",
        "j": "DECIMAL(18,0)",
        "k": "SMALLINT",
        "l": "BIGINT",
        "m": "DECIMAL(20,0)",
    }
