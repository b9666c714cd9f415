"""Which engine holds the private rows, by where they are."""

from __future__ import annotations

import re

from duckdp.errors import ParameterError
from duckdp.process.importing import importing
from duckdp.vault.engine import Engine
from duckdp.vault.source import Source
from duckdp.vault.spark_source import SparkSource, SparkTables, addressed, is_spark

UNITS = {"M": 10**6, "G": 10**9, "T": 10**12}  # bytes, at least: MiB are a little more
TASK_MEMORY = "spark.duckdp.memory"  # setting of a session of Spark: of the DuckDB of each task
LEAST_MEMORY = 200 * 10**6  # bytes; what DuckDB's operators hold at once at 10^7 rows, measured


def with_tables(data: object, tables: object) -> object:
    """The data to open, from the two arguments of ``duckdp.open`` that say so.

    An address may name its tables itself, as "spark://host:7077?visits=/data/visits&people=/data/people".

    Raises:
        ParameterError: P107, ``tables`` is missing with Spark, or stands beside something else; an address that does
            not name a table and a path each time.
    """
    if is_spark(data):
        if isinstance(data, str) and "?" in data and tables is None:
            return addressed(data)
        return SparkTables(data, tables)  # type: ignore[arg-type]
    if tables is not None:
        rule = 'goes with a session of Spark. Other sources have their names in data: {"visits": frame}.'
        raise ParameterError("P107", "tables", None, rule)
    return data


def engine_for(data: object, *, snapshot: bool, memory: str | None = None) -> Engine:
    """The engine of a source, with it attached.

    Raises:
        CatalogError: C107, C108. ParameterError: P107.
    """
    if not isinstance(data, SparkTables):
        return Engine(Source(data, snapshot=snapshot), memory=_size(memory))
    if memory is not None:
        rule = 'is of this machine, and the rows are read elsewhere. Set spark.duckdp.memory of the session, as "2GB".'
        raise ParameterError("P107", "memory", memory, rule)
    if snapshot:
        rule = "copies data to this machine, which rows in Spark may outgrow. Write what shall stay to Parquet there."
        raise ParameterError("P107", "snapshot", True, rule)
    with importing():
        from duckdp.vault.spark_engine import SparkEngine

    source = SparkSource(data)
    try:
        return SparkEngine(source, memory=_size(source.setting(TASK_MEMORY), TASK_MEMORY))
    except BaseException:
        source.close()  # a session that was begun for it
        raise


def _size(memory: str | None, name: str = "memory") -> str | None:
    """A limit of memory as DuckDB reads it; less than the least would end its statements.

    Args:
        memory: as the owner says it.
        name: of the argument or setting.

    Raises:
        ParameterError: P107.
    """
    if memory is None:
        return None
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?) ?([MGT])i?B", memory.strip(), re.IGNORECASE | re.ASCII)
    if found is None or float(found[1]) * UNITS[found[2].upper()] < LEAST_MEMORY:
        raise ParameterError("P107", name, memory, 'must be a size of at least 200MB, for example "4GB".')
    return memory.strip()
