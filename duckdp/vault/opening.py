"""Which engine holds the private rows, by where they are."""

from __future__ import annotations

from duckdp.errors import ParameterError
from duckdp.process.importing import importing
from duckdp.vault.engine import Engine
from duckdp.vault.source import Source
from duckdp.vault.spark_source import SparkSource, SparkTables, is_spark


def with_tables(data: object, tables: object) -> object:
    """The data to open, from the two arguments of ``duckdp.open`` that say so.

    Raises:
        ParameterError: P107, ``tables`` is missing with Spark, or stands beside something else.
    """
    if is_spark(data):
        return SparkTables(data, tables)  # type: ignore[arg-type]
    if tables is not None:
        rule = 'goes with a session of Spark. Other sources have their names in data: {"visits": frame}.'
        raise ParameterError("P107", "tables", None, rule)
    return data


def engine_for(data: object, *, snapshot: bool) -> Engine:
    """The engine of a source, with it attached.

    Raises:
        CatalogError: C107, C108. ParameterError: P107.
    """
    if not isinstance(data, SparkTables):
        return Engine(Source(data, snapshot=snapshot))
    if snapshot:
        rule = "copies data to this machine, which rows in Spark may outgrow. Write what shall stay to Parquet there."
        raise ParameterError("P107", "snapshot", True, rule)
    with importing():
        from duckdp.vault.spark_engine import SparkEngine

    return SparkEngine(SparkSource(data))
