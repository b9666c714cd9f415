"""Where private rows are, in Apache Spark: Parquet files, tables, views and data frames of a session.

The private instance gets their schema and no rows, so that declarations are checked by it as for any other source. A
row of a relation follows from one stored row: what joins, groups, numbers, samples or draws is refused, and so is what
Python or Java code computes (``spark_plans`` says what is let in). Parquet may be stored first and opened by its path.

Types are those of which Spark and DuckDB hold the same values to the last bit; others are shown as BLOB, which no
question reads. Spark shows unsigned numbers as the next larger signed ones.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlparse

import duckdb

from duckdp.arguments import MISFIT, from_caller
from duckdp.compiler.printing import quote
from duckdp.errors import CatalogError, ParameterError
from duckdp.vault.source import CATALOG, Source
from duckdp.vault.spark_plans import WAY, files_of, is_cached, is_local, leaves_of, require_once

#: Types of Spark, as it names them, and the same of DuckDB. DECIMAL(p, s) is the same in both.
TYPES = {
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "VARCHAR",
    "date": "DATE",
    "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
}
MOST_NAMED = 1000  # tables of an address
UNKNOWN = "BLOB"  # no question reads it
#: Settings of a session that is begun here: its pages and its progress show how many rows were read.
QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
#: Settings of our own session, which shares the files and workers of the owner's and nothing that is set there.
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # a relation without rows is in as many parts as any: that it has none must not be seen
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation",
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    "spark.sql.parquet.filterPushdown": "false",  # a file's minima and maxima are not believed
    "spark.sql.parquet.aggregatePushdown": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",  # the proleptic calendar, as DuckDB has it
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}


@dataclass(frozen=True)
class SparkTables:
    """What :func:`duckdp.open` is given of Spark.

    Attributes:
        session: a ``SparkSession``, or the address of a cluster ("spark://host:7077").
        tables: Parquet paths, names of tables and views of the session, or data frames, by name.
    """

    session: Any
    tables: Mapping[str, Any] = field(repr=False)

    def __post_init__(self) -> None:
        told = from_caller(lambda: dict(self.tables.items()))
        if told is MISFIT or not told or not all(isinstance(name, str) for name in told):
            rule = (
                'must name what is read: {"visits": "visits.parquet"}, or a table, view or data frame of the session; '
                'at a command line as "spark://host:7077?visits=visits.parquet".'
            )
            raise ParameterError("P107", "tables", None, rule)


def is_spark(data: object) -> bool:
    """Whether that is a session of Spark, or the address of one; Spark is not imported for it."""
    if isinstance(data, str):
        return data.startswith("spark://")
    return type(data).__name__ == "SparkSession" and type(data).__module__.startswith("pyspark.")


def addressed(text: str) -> SparkTables:
    """A cluster and its tables from one address: "spark://host:7077?visits=/data/visits", as a command line gives it.

    Raises:
        ParameterError: P107.
    """
    master, _, asked = text.partition("?")
    if "@" in master or not master.removeprefix("spark://"):  # who types a password there must not read it again
        rule = 'must name a host and no user: "spark://host:7077?visits=/data/visits".'
        raise ParameterError("P107", "data", "spark://...", rule)
    try:
        named = parse_qsl(asked, keep_blank_values=True, strict_parsing=True, max_num_fields=MOST_NAMED)
    except ValueError:
        named = []
    told = all(part and "\0" not in part for pair in named for part in pair)
    if not named or len({name.lower() for name, _ in named}) != len(named) or not told:
        rule = 'must name each table once, with what is read: "spark://host:7077?visits=/data/visits&people=people".'
        raise ParameterError("P107", "data", text, rule)
    return SparkTables(master, dict(named))


class SparkSource(Source):
    """Relations of a session of Spark.

    Attributes:
        session: of our own, beside the owner's.
        frames: data frames of it by (catalog, schema, table).
    """

    def __init__(self, data: SparkTables) -> None:
        super().__init__({})
        self._told = data
        self._ended = False
        self._owners, self._mine = _connected(data.session) if isinstance(data.session, str) else (data.session, False)
        if not hasattr(self._owners, "_jsparkSession") or not hasattr(self._owners, "sparkContext"):
            raise CatalogError(
                "C108", "this session is of Spark Connect, which runs no plan of ours. Open a classic one."
            )
        self.session: Any = self._owners.newSession()
        for name, value in SETTINGS.items():
            self.session.conf.set(name, value)
        self.frames: dict[tuple[str, str, str], Any] = {}
        self._leaves: list[Any] = []
        self._loose: set[tuple[str, str, str]] = set()  # relations that are in no file

    def attach(self, con: duckdb.DuckDBPyConnection) -> None:
        """Make tables of the relations' schema, without a row, in ``con``.

        Raises:
            CatalogError: C108.
        """
        con.execute(f"ATTACH ':memory:' AS {quote(self.catalog)}")
        self.frames, self._leaves, self._loose = {}, [], set()
        for name, part in self._told.tables.items():
            relation = (CATALOG, "main", name)
            try:
                frame = self._frame(name, part)
                leaves = list(leaves_of(name, frame._jdf.queryExecution().analyzed()))
                local, files = sum(is_local(leaf) for leaf in leaves), files_of(leaves)
                require_once(name, files, local)
                self._require_uncached(name, frame)
                columns = [(c.name, duckdb_type(c.dataType.simpleString())) for c in frame.schema.fields]
            except CatalogError:
                raise
            except Exception:  # noqa: BLE001 - of Spark, whose words may quote rows
                columns = []
            if not columns or len({c.lower() for c, _ in columns}) != len(columns):
                raise CatalogError("C108", f'"{name}" cannot be read by this session of Spark. {WAY}', table=name)
            self.frames[relation] = frame
            self._leaves += leaves
            if local or not files:
                self._loose.add(relation)
            listed = ", ".join(f"{quote(c)} {kind}" for c, kind in columns)
            con.execute(f"CREATE TABLE {'.'.join(quote(p) for p in relation)} ({listed})")

    def fingerprint(self, con: duckdb.DuckDBPyConnection) -> str:
        """Changes when the data may have changed: size, time and schema of files, contents of what is in none.

        Raises:
            CatalogError: C108, a file is gone, or rows cannot be read.
        """
        files = files_of(self._leaves)
        parts = [f"{os.path.basename(f)}:{s[0]}:{s[1]}" for f, s in zip(files, map(self._status, files), strict=True)]
        if any(":-1:" in part for part in parts):
            raise CatalogError("C108", "a file of the source is not there any more. Put it back.")
        for name, relation in self.relations(con).items():
            columns = self.columns(con, relation)
            parts.append(f"{name}:{[(c.name, c.type) for c in columns]}")
            if relation in self._loose:
                parts.append(self._contents(relation, [c.name for c in columns if c.type != UNKNOWN]))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def setting(self, name: str) -> str | None:
        """What the owner's session says of a setting; None where it says nothing."""
        return self._owners.conf.get(name, None)  # type: ignore[no-any-return]

    def stamp(self) -> tuple[tuple[int, ...], ...]:
        """Which files there are, their sizes and times, and what is cached; looked at before each charge.

        Who writes to a table of the session changes the list that Spark holds of its files, and with it what is read.
        """
        files = files_of(self._leaves)
        named = int.from_bytes(hashlib.sha256("\n".join(files).encode()).digest()[:16])
        cached = tuple(int(self._cached(frame)) for frame in self.frames.values())
        return ((named,), cached, *(self._status(path) for path in files))

    @property
    def in_place(self) -> bool:
        """Whether what was read in full is known again by its files."""
        return not self._loose

    def close(self) -> None:
        """End the session, if it was begun here."""
        if self._mine and not self._ended and vars(self).get("session") is not None:
            self._ended = True
            self._owners.stop()

    def _frame(self, name: str, part: object) -> Any:
        if isinstance(part, (str, os.PathLike)):
            text = os.fspath(part)
            if re.search(r"[/\\]|\.parquet$", text) is not None or glob.has_magic(text):
                return self._files_at(text)
            frame = self._owners.table(text)
        elif isinstance(part, (list, tuple)):
            return self._files_at(*[os.fspath(p) for p in part])
        elif hasattr(part, "_jdf"):
            frame = part
        else:
            rule = (
                f"must be a path, the name of a table or view, or a data frame of Spark, not a {type(part).__name__}."
            )
            raise ParameterError("P107", f'tables["{name}"]', None, rule)
        return self._ours(frame)

    def _files_at(self, *paths: str) -> Any:
        """Rows of Parquet files; an option that nobody else sets tells them from whatever others have in the cache."""
        return self.session.read.option("duckdp", uuid.uuid4().hex).parquet(*paths)

    def _ours(self, frame: Any) -> Any:
        """The same rows, read by our own session and its settings."""
        dataset = self.session._jvm.org.apache.spark.sql.classic.Dataset
        plan = frame._jdf.queryExecution().analyzed()
        return type(frame)(dataset.ofRows(self.session._jsparkSession, plan), self.session)

    def _cached(self, frame: Any) -> bool:
        """Whether Spark would read rows of its cache; asked of a fresh plan, as a plan keeps what it once found."""
        return is_cached(self._ours(frame)._jdf.queryExecution())

    def _require_uncached(self, name: str, frame: Any) -> None:
        if self._cached(frame):
            rule = f'"{name}" is kept in the cache of Spark, whose rows may be older than its files.'
            raise CatalogError("C108", f"{rule} Call its unpersist(), or open the files by their path.", table=name)

    def _status(self, path: str) -> tuple[int, ...]:
        """Size and time of the last change; -1 where it is gone."""
        found = urlparse(path)
        try:
            if found.scheme == "file":
                status = os.stat(unquote(found.path))
                return status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev
            jvm = self.session._jvm
            place = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(path))
            told = place.getFileSystem(self.session._jsc.hadoopConfiguration()).getFileStatus(place)
            return int(told.getLen()), int(told.getModificationTime())
        except Exception:  # noqa: BLE001 - of the system or of Java
            return -1, -1

    def _contents(self, relation: tuple[str, str, str], names: list[str]) -> str:
        from pyspark.sql import functions as f

        frame = self.frames[relation]
        try:
            hashed = f.xxhash64(*[frame[f"`{n.replace('`', '``')}`"] for n in names]).cast("decimal(38,0)")
            found = frame.select(f.count(f.lit(1)), f.sum(hashed)).collect()
        except Exception:  # noqa: BLE001
            raise CatalogError("C108", f'"{relation[2]}" cannot be read in full. {WAY}') from None
        return hashlib.sha256(repr([tuple(row) for row in found]).encode()).hexdigest()


def is_alive(session: Any) -> bool:
    """Whether the driver of a session answers; a task without memory ends it where it runs in the driver."""
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except Exception:  # noqa: BLE001 - of a connection that is refused, in many words
        return False


def duckdb_type(spark: str) -> str:
    """The type of DuckDB with the same values as one of Spark, or :data:`UNKNOWN`.

    >>> duckdb_type("bigint"), duckdb_type("decimal(10,2)"), duckdb_type("array<int>")
    ('BIGINT', 'DECIMAL(10,2)', 'BLOB')
    """
    if re.fullmatch(r"decimal\(\d+,\d+\)", spark):
        return spark.upper()
    return TYPES.get(spark, UNKNOWN)


def _connected(address: str) -> tuple[Any, bool]:
    """A session of a cluster, and whether it was begun now: one that was there stays the owner's."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise CatalogError("C108", "Spark is not installed here: pip install 'duckdp[spark]'.") from None
    there = SparkSession.getActiveSession()
    if there is not None:
        if there.sparkContext.master != address:
            rule = "this process has a session of Spark with another cluster. Hand over that session, or stop it first."
            raise CatalogError("C108", rule)
        return there, False
    try:
        builder = SparkSession.builder.master(address).appName("duckdp")
        for name, value in QUIET.items():
            builder = builder.config(name, value)
        begun = builder.getOrCreate()
        begun.sparkContext.setLogLevel("OFF")  # its words may quote rows
    except Exception:  # noqa: BLE001
        raise CatalogError("C108", "no session of Spark could be begun at that address.") from None
    return begun, True
