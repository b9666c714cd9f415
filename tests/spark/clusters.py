"""Sessions of Spark for the tests that need Java and PySpark (``pip install '.[spark-test]'``), and reads on them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
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


@contextmanager
def cluster(folder: Path, hosts: Sequence[str] = ("127.0.0.2", "127.0.0.3")) -> Iterator[str]:
    """A cluster of its own on this machine, each worker on a host of its own; gives its address."""
    import pyspark

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home, address = Path(pyspark.__file__).parent, f"spark://127.0.0.1:{port}"
    settings = {"SPARK_HOME": str(home), "SPARK_WORKER_DIR": str(folder), "SPARK_LOG_DIR": str(folder)}
    roles = [["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    roles += [["worker.Worker", address, "--host", host, "--webui-port", "0", "-c", "1", "-m", "1g"] for host in hosts]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for role, *words in roles:
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", *words]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            running.append(subprocess.Popen(command, env={**os.environ, **settings}, **quiet))  # type: ignore[call-overload]
            until = time.monotonic() + 120
            while role.startswith("master") and time.monotonic() < until:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.2)
        yield address
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(60)


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
