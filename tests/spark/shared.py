"""Processes of tests that share one Spark, one after the other, and reads that are remembered.

For the plugin ``everywhere.py``. A test that breaks a part of the package does so in a process of its own; a Java of
its own for each would take longer than the test.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from copy import deepcopy
from multiprocessing import get_context
from typing import Any

from duckdp.core.reads import PrivateQuery
from duckdp.vault.spark_engine import SparkEngine
from duckdp.vault.spark_source import SparkSource

ALIKE = 3  # times that a read runs in Spark before what it gave is remembered
AGAIN = 500  # a remembered read runs anew once in so many times
LOOKS = 50  # of an audit at its files, before it looks at them anew only once in so many times
Opened = list[object]


class Shared:
    """In place of ``ProcessPoolExecutor``: what is handed in is done at once, in a new process, over our Spark."""

    port = 0
    secret = ""
    opened: Opened

    @classmethod
    def of(cls, spark: Any, opened: Opened) -> type[Shared]:
        """For a session; what the processes open is added to ``opened``."""
        told = spark.sparkContext._gateway.gateway_parameters
        cls.port, cls.secret, cls.opened = told.port, told.auth_token, opened
        return cls

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> Shared:
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, work: Callable[..., Any], /, *given: Any) -> Future[Any]:
        """Do it, in a process that ends then."""
        done: Future[Any] = Future()
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            try:
                found, opened = pool.submit(_over_spark, self.port, self.secret, work, given).result()
            except Exception as error:  # noqa: BLE001 - as another process's, it is whoever waits for it that it meets
                done.set_exception(error)
                return done
        self.opened += opened
        done.set_result(found)
        return done


def _over_spark(port: int, secret: str, work: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Any, Opened]:
    from tests.spark import everywhere

    everywhere.begin(_session_of(port, secret))
    _remember_looks()
    try:
        return work(*given), everywhere.opened
    finally:
        everywhere.end()


def _session_of(port: int, secret: str) -> Any:
    """The session of the process that began Java; it is not ended with this one."""
    import warnings

    os.environ |= {
        "PYSPARK_GATEWAY_PORT": str(port),
        "PYSPARK_GATEWAY_SECRET": secret,
        "PYSPARK_PYTHON": sys.executable,
    }
    warnings.simplefilter("ignore")
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    java = gateway.jvm.org.apache.spark
    context = java.api.java.JavaSparkContext.fromSparkContext(java.SparkContext.getOrCreate())
    conf = SparkConf(_jvm=gateway.jvm, _jconf=context.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf))


def remember_reads() -> None:
    """Of a read that a curator runs over and over, run one in :data:`AGAIN`; it must give the same then."""
    combined = SparkEngine._combined

    def remembered(self: SparkEngine, query: PrivateQuery, tables: Any, job: Any) -> Iterator[tuple[Any, ...]]:
        known = vars(self).setdefault("remembered", {})
        asked = repr((query.sql, query.parameters, query.arrays, query.parts, tables))
        times, rows = known.get(asked, (0, None))
        if times < ALIKE or times % AGAIN == 0:
            anew = [tuple(row) for row in combined(self, query, tables, job)]
            assert rows is None or _values(query, rows) == _values(query, anew), "a read gave otherwise"
            rows = deepcopy(anew)  # who adds arrays up may change them
        else:
            job.interrupt = lambda: None  # nothing of it began
        known[asked] = (times + 1, rows)
        return iter(deepcopy(rows))

    SparkEngine._combined = remembered  # type: ignore[method-assign]


def _remember_looks() -> None:
    """Of what files there are, at which a question looks twice: nobody writes them, and it takes longer than noise."""
    stamp = SparkSource.stamp

    def looked(self: SparkSource) -> tuple[tuple[int, ...], ...]:
        times, found = vars(self).get("looked", (0, ()))
        if times < LOOKS or times % LOOKS == 0:
            found = stamp(self)
        vars(self)["looked"] = (times + 1, found)
        return found

    SparkSource.stamp = looked  # type: ignore[method-assign]


def _values(query: PrivateQuery, rows: list[tuple[Any, ...]]) -> list[str]:
    """What is the same in whatever order rows come."""
    if query.arrays:
        rows = [cells for row in rows for cells in zip(*(column.tolist() for column in row), strict=True)]
    return sorted(map(repr, rows))
