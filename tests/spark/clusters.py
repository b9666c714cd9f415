"""Sessions of Spark for the tests that need Java and PySpark (``pip install '.[spark-test]'``), and reads on them."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from duckdp.core.reads import PrivateQuery
from duckdp.vault.opening import engine_for
from duckdp.vault.spark_engine import Job, SparkEngine
from duckdp.vault.spark_source import SparkTables

THERE = '"src"."main"."clinic"'
Rows = list[tuple[Any, ...]]


@contextmanager
def session(master: str = "local[2,4]", **settings: str) -> Iterator[Any]:
    """A session that ends with the block."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
        told = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "4",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": tempfile.gettempdir(),
            **settings,
        }
        for name, value in told.items():
            builder = builder.config(name, value)
        found = builder.getOrCreate()
        found.sparkContext.setLogLevel("OFF")
        try:
            yield found
        finally:
            found.stop()


def write_rows(path: Path, rows: pa.Table, files: int = 3) -> str:
    """Rows as a folder of Parquet files."""
    path.mkdir()
    size = max(1, -(-rows.num_rows // files))
    for i in range(files):
        pq.write_table(rows.slice(i * size, size), path / f"{i}.parquet")
    return str(path)


@contextmanager
def opened(session: Any, **tables: Any) -> Iterator[SparkEngine]:
    """The engine of tables, without a ledger."""
    engine = engine_for(SparkTables(session, tables), snapshot=False)
    assert isinstance(engine, SparkEngine)
    try:
        yield engine
    finally:
        engine.close()


def rows_of(engine: SparkEngine, query: PrivateQuery, tables: Sequence[Any]) -> Rows:
    """What a read of the tests' table gives on Spark: exact; the ledger's part is not under test here."""
    moved = replace(query, sql=query.sql.replace('"memory"."main"."clinic"', THERE), kept=())
    there = [replace(table, relation=("src", "main", "clinic")) for table in tables]
    job = Job(engine.source.session)
    try:
        return list(engine._combined(moved, there, job))
    finally:
        with suppress(Exception):
            job.interrupt()
