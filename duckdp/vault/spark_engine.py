"""Private reads on Apache Spark: our SQL, unchanged, in a DuckDB of each task, on parts that hold their units whole.

    columns that are read -> one shuffle by the unit's key -> DuckDB in each task -> exact cells -> added up here

What a read gives on parts combines to what it gives on all rows, to the last bit (``core/reads.py``). A read that does
not is refused before the charge. The private instance of this process has the schema, and rows of public tables alone.

Privacy:      as :class:`duckdp.vault.engine.Engine`: the figures are the same, so are noise and charges.
Assumes:      each part holds its units whole: rows carry their part's number, and the task compares it with its own.
Proof sketch: of each part one attempt counts. Spark hands the driver the result of one attempt of a task, and what
              comes is checked again here: every part's batches are numbered and the last is marked, so one that is
              lost, or comes twice, ends the read (X101). Nothing is counted on the side (accumulators count retries).
              What a task gives follows from its part's rows, so it is the same in every attempt.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa

from duckdp.catalog.table import RawColumn, Table
from duckdp.compiler.printing import quote
from duckdp.core.reads import Gather, PrivateQuery
from duckdp.core.task import Charged, reads_all_rows
from duckdp.core.watch import Tell, asker
from duckdp.errors import CatalogError, DuckDPError, ExecutionError, InternalError
from duckdp.ledger import Charge
from duckdp.vault.decoding import READING, ended_there, probes, refusal, too_large
from duckdp.vault.engine import CONFIG, Engine, StoppedError, require_few
from duckdp.vault.exhausted import spark_ran_out
from duckdp.vault.part_work import Given, PartWork, part_reader, read_part, text_reader, unpacked
from duckdp.vault.spark_parts import (
    Owner,
    Place,
    column_of,
    cut,
    name_sent,
    named_in,
    owners_of,
    part_count,
    refused,
    told,
    travelling,
)
from duckdp.vault.spark_plans import is_cached
from duckdp.vault.spark_source import UNKNOWN, SparkSource, is_alive

MOST_PUBLIC = 256 * 2**20  # bytes of a public table, which goes to every part
OF_ALL = "this figure is of all rows together"
WAY = "Quantiles come from a tree of counts there: dp_quantiles(..., method := 'tree')."


class Job:
    """The work of one read in Spark, which another thread may end."""

    def __init__(self, session: Any) -> None:
        self._context, self._name = session.sparkContext, f"duckdp-{uuid.uuid4().hex}"

    def begin(self) -> None:
        """What this thread starts from here on belongs to it."""
        self._context.setJobGroup(self._name, "a private read", interruptOnCancel=True)

    def interrupt(self) -> None:
        """End its work, and what of it would begin yet; again is harmless."""
        with suppress(Exception):
            self._context._jsc.sc().cancelJobGroupAndFutureJobs(self._name)

    def end(self) -> None:
        """What this thread starts from here on is no part of it."""
        with suppress(Exception):
            for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                self._context.setLocalProperty(key, None)


class SparkEngine(Engine):
    """The private instance where the rows are in Spark."""

    source: SparkSource
    parts_only = True

    def __init__(self, source: SparkSource, *, memory: str | None = None) -> None:
        self._memory = memory or ""  # of the DuckDB of each task
        self._public: set[Place] = set()
        self._planned: dict[int, tuple[Table, ...]] = {}  # by charge
        travelling()
        super().__init__(source)

    # ---- reads ----------------------------------------------------------------------------------------------------

    def require(self, task: Charged, salt: int, tables: Sequence[Table]) -> None:
        """Refuse, before the charge, what cannot be read in parts.

        Raises:
            QueryError: Q405.
        """
        owners_of(tables)
        for table in _public(tables):
            self.show_public(table)
        if reads_all_rows(task, salt):
            raise refused(OF_ALL, WAY)

    def told(self, task: Charged, salt: int, tables: Sequence[Table]) -> list[str]:
        """How a task is read, for explain; see ``Engine.told``."""
        lines = told(tables, self._cores)
        if reads_all_rows(task, salt):
            lines.append(f"  refused before its charge: {refused(OF_ALL, WAY)}")
        return lines

    @contextmanager
    def reading(self, charge: Charge, tables: Sequence[Table]) -> Iterator[None]:
        """While it lasts, it is known whose rows are whose; see ``Engine.reading``."""
        self._planned[charge.id] = tuple(tables)
        try:
            yield
        finally:
            self._planned.pop(charge.id, None)

    def run(self, query: PrivateQuery, charge: Charge) -> Iterator[tuple[Any, ...]]:
        """Run a private read that has been paid for; see ``Engine.run``."""
        if not isinstance(charge, Charge):
            raise InternalError("a private read needs a charge")
        failed: str | None = None
        job = Job(self.source.session)
        self._running[job] = asker()
        crossed, stamp = 0, self.stamp
        try:
            self._go_on(job)
            for row in self._combined(query, self._planned.get(charge.id, ()), job):
                self._go_on(job)
                crossed += 1
                require_few(crossed, None if query.arrays else query.rows)
                yield row
            self._require_unchanged(stamp, charge)
        except DuckDPError:
            raise
        except (KeyboardInterrupt, StoppedError):
            failed = "E102"
        except Exception as error:  # noqa: BLE001 - of Spark and DuckDB, whose words may quote rows
            failed = "E102" if job in self._stopped else "E104" if spark_ran_out(error) else "E101"
        finally:
            self._ended(job)
            job.interrupt()  # what is still under way of it
        if failed is not None:
            raise ExecutionError(failed, charge.id)

    def _combined(self, query: PrivateQuery, tables: Sequence[Table], job: Job) -> Iterator[tuple[Any, ...]]:
        work, frame = self._cut(query.sql, query.parameters, tables, arrays=query.arrays)
        nothing = [row for rows in read_part(replace(work, placed=False), iter(()), 0) for row in rows]
        count = part_count(tables, self._cores) if work.placed else None
        if isinstance(query.parts, Gather):
            yield from query.combine([nothing])
            for rows in self._streamed(frame, work, job, count):
                yield from query.combine([rows])
        else:
            yield from query.combine([nothing, *self._collected(frame, work, job, count)])

    def _cut(
        self, sql: str, parameters: tuple[Any, ...], tables: Sequence[Table], *, arrays: bool = False
    ) -> tuple[PartWork, Any]:
        """A read for any part, and the parts."""
        owners, public = owners_of(tables), {table.relation: table for table in _public(tables)}
        cursor = self.schema_cursor()
        given: list[Given] = []
        wanted: list[tuple[Place, list[str]]] = []
        for relation in self.source.frames:
            if not named_in(sql, relation):
                continue
            every = [(c.name, c.type) for c in self.source.columns(cursor, relation) if c.type != UNKNOWN]
            columns = [(n, t) for n, t in every if quote(n) in sql] or every[:1]
            place, listed = ".".join(quote(p) for p in relation), tuple((quote(n), t) for n, t in columns)
            if relation in owners:
                sent = tuple(name_sent(len(wanted), j) for j in range(len(columns)))
                wanted.append((relation, [n for n, _ in columns]))
                given.append(Given(place=place, columns=listed, sent=sent))
            elif relation in public:
                self.show_public(public[relation])
                rows = _stream(cursor.sql(f"SELECT {', '.join(n for n, _ in listed)} FROM {place}").to_arrow_table())
                given.append(Given(place=place, columns=listed, rows=rows))
            else:
                raise InternalError("a private read names a table that it was not planned for")
        if not wanted:
            raise InternalError("a private read names no protected table")
        placed = owners[wanted[0][0]].key is not None
        work = self._part_work(sql, parameters, tuple(given), arrays=arrays, placed=placed)
        return work, cut(self.source.frames, wanted, owners, part_count(tables, self._cores))

    def _part_work(
        self,
        sql: str,
        parameters: tuple[Any, ...],
        tables: tuple[Given, ...],
        *,
        arrays: bool = False,
        placed: bool = False,
    ) -> PartWork:
        return PartWork(
            sql=sql,
            parameters=parameters,
            arrays=arrays,
            catalog=quote(self.source.catalog),
            tables=tables,
            config=dict(CONFIG),
            memory=self._memory,
            version=duckdb.__version__,
            placed=placed,
        )

    def _collected(self, frame: Any, work: PartWork, job: Job, count: int | None = None) -> list[list[Any]]:
        """The rows of each part, of which there are ``count``; None: as many as Spark planned."""
        job.begin()
        try:
            mapped = self._mapped(frame, work)
            count = number_of_parts(mapped) if count is None else count
            batches = mapped.collect()
        finally:
            job.end()
        found: dict[int, dict[int, Any]] = defaultdict(dict)
        last: dict[int, int] = {}
        for part, number, ends, rows in batches:
            if number in found[part]:
                raise InternalError("a part of a private read came twice")
            found[part][number] = rows
            if ends:
                last[part] = number
        if any(sorted(numbered) != list(range(last.get(part, -1) + 1)) for part, numbered in found.items()):
            raise InternalError("a part of a private read did not come whole")
        if sorted(found) != list(range(count)):
            raise InternalError("a part of a private read did not come whole")
        return [[row for n in sorted(found[p]) for row in unpacked(found[p][n])] for p in sorted(found)]

    def _streamed(self, frame: Any, work: PartWork, job: Job, count: int | None) -> Iterator[list[Any]]:
        """Rows as they come, part by part: there may be as many as there are private rows; see :meth:`_collected`."""
        job.begin()
        try:
            wanted, mapped = (0, 0), self._mapped(frame, work)
            count = number_of_parts(mapped) if count is None else count
            for part, number, ends, rows in mapped.toLocalIterator(prefetchPartitions=True):
                if (part, number) != wanted:
                    raise InternalError("parts of a private read are not in their order")
                wanted = (part + 1, 0) if ends else (part, number + 1)
                yield unpacked(rows)
            if wanted != (count, 0):
                raise InternalError("a part of a private read did not come whole")
        finally:
            job.end()

    def _mapped(self, frame: Any, work: PartWork) -> Any:
        mapped = frame.mapInArrow(part_reader(work), "part int, number int, last boolean, rows binary")
        if is_cached(mapped._jdf.queryExecution()):  # since the charge; what is not there now is not read later
            raise InternalError("a private read would read rows of a cache")
        return mapped

    @property
    def _cores(self) -> int:
        return int(self.source.session.sparkContext.defaultParallelism)

    # ---- at the opening, for the owner ----------------------------------------------------------------------------

    def owners_cursor(self) -> duckdb.DuckDBPyConnection:
        """Refused: rows that the owner looks at would all come to this process.

        Raises:
            CatalogError: C108.
        """
        rule = "the rows are on several machines, and this looks at them in one place. Open a part of them for it,"
        raise CatalogError("C108", f'{rule} as duckdp.open("part.parquet", ledger="part.ledger").')

    def unique(self, scan: str, values: Sequence[object], table: Table) -> bool | None:
        """Whether no value stands twice; see ``Engine.unique``."""
        from pyspark.sql import functions as f

        texts = f"SELECT CAST(r.k AS VARCHAR) AS k, CAST(r.v AS VARCHAR) AS v FROM {scan} AS r"
        try:
            work, frame = self._cut(texts, tuple(values), (table,))
            cells = frame.mapInArrow(text_reader(work), "k string, v string")
            twice = [cells.groupBy(name).count().where(f.col("count") > 1).limit(1).count() for name in ("k", "v")]
        except Exception:  # noqa: BLE001
            return None
        return not any(twice)

    def reattach(self, tell: Tell | None = None) -> None:
        """Look at the source afresh; see ``Engine.reattach``."""
        self._public.clear()
        super().reattach(tell)

    def _read(self, con: duckdb.DuckDBPyConnection, stamp: tuple[tuple[int, ...], ...], tell: Tell | None) -> None:
        """Decode all rows as private reads do; see ``decoding.read_in_full``."""
        frames = list(self.source.frames)
        for done, relation in enumerate(frames):
            columns = [c for c in self.source.columns(con, relation) if probes(c)]
            if tell is not None:
                tell(READING, done / len(frames))
            if columns and not self._decodes(relation, columns):
                if not is_alive(self.source.session):
                    raise ended_there(relation[2])
                bad = next((c.name for c in columns if not self._decodes(relation, [c])), None)
                raise refusal(relation[2], bad)
        if self.source.stamp() != stamp:
            raise CatalogError("C104", "the source changed while it was read. Open it again when nobody writes it.")

    def _decodes(self, relation: Place, columns: Sequence[RawColumn]) -> bool:
        place, listed = ".".join(quote(p) for p in relation), [(quote(c.name), c.type) for c in columns]
        items = [f"system.main.bit_xor(system.main.hash({each}))" for c in columns for each in probes(c)]
        frame = cut(self.source.frames, [(relation, [c.name for c in columns])], {relation: Owner(key=None)}, 1)
        sent = tuple(name_sent(0, j) for j in range(len(columns)))
        table = Given(place=place, columns=tuple(listed), sent=sent)
        work = self._part_work(f"SELECT {', '.join(items)} FROM {place} AS base", (), (table,))
        job = Job(self.source.session)
        self._running[job] = asker()
        try:
            self._collected(frame, work, job)
        except KeyboardInterrupt:
            raise
        except Exception as error:  # noqa: BLE001 - of Spark and DuckDB, whose words may quote rows
            if job in self._stopped:
                raise KeyboardInterrupt from None
            if spark_ran_out(error):
                raise too_large(relation[2]) from None
            return False
        finally:
            self._ended(job)
            job.interrupt()
        return True

    # ---- public tables --------------------------------------------------------------------------------------------

    def show_public(self, table: Table) -> None:
        """Bring the rows of a public table here, where they may be looked at; once.

        Raises:
            CatalogError: C108, they cannot be read, or are too many.
        """
        relation = table.relation
        if relation in self._public:
            return
        rows = self._fetched(relation)
        if rows is None or rows.nbytes > MOST_PUBLIC:
            rule = f'public "{table.name}" cannot be read here, or has more than {MOST_PUBLIC >> 20} MiB.'
            raise CatalogError("C108", f"{rule} Publish a smaller one.", table=table.name)
        cursor = self.schema_cursor()
        columns = [c.name for c in self.source.columns(cursor, relation) if c.name in rows.schema.names]
        place, listed = ".".join(quote(p) for p in relation), ", ".join(quote(c) for c in columns)
        rows.validate(full=True)
        cursor.register("incoming", rows)
        cursor.execute("BEGIN")
        cursor.execute(f"DELETE FROM {place}")
        cursor.execute(f"INSERT INTO {place} ({listed}) SELECT {listed} FROM incoming")
        cursor.execute("COMMIT")
        cursor.close()
        self._public.add(relation)

    def _fetched(self, relation: Place) -> pa.Table | None:
        known = [c.name for c in self.source.columns(self.schema_cursor(), relation) if c.type != UNKNOWN]
        frame = self.source.frames[relation]
        try:
            return frame.select(*[column_of(frame, n) for n in known]).toArrow()
        except Exception:  # noqa: BLE001
            return None


def number_of_parts(mapped: Any) -> int:
    """How many parts Spark will read, by the plan that it keeps to: each of them gives a result, also an empty one."""
    return int(mapped._jdf.queryExecution().toRdd().getNumPartitions())


def _public(tables: Sequence[Table]) -> list[Table]:
    return [base for table in tables for base in table.bases if base.public is not None]


def _stream(rows: pa.Table) -> bytes:
    """A table's rows, its columns named by their places."""
    named = rows.rename_columns([str(i) for i in range(rows.num_columns)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, named.schema) as writer:
        writer.write_table(named)
    return bytes(sink.getvalue())
