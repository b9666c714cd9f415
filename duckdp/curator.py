"""The data owner's side: open data, protect tables, set budgets, let analysts in."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import duckdb

from duckdp.arguments import checked, checked_methods, checks_itself, declared
from duckdp.catalog.table import Table, check_name
from duckdp.core.watch import Tell
from duckdp.desk.desk import Desk
from duckdp.errors import CatalogError, DuckDPError, LedgerError
from duckdp.faces.budgeting import Budgeting
from duckdp.faces.publishing import Publishing
from duckdp.faces.records import Records
from duckdp.front.front import Front, speak
from duckdp.front.fronts import Fronts
from duckdp.ledger.files import default_ledger
from duckdp.ledger.places import Where
from duckdp.process.ending import Closing
from duckdp.process.importing import importing
from duckdp.session import Session
from duckdp.vault.dataset import DataSet
from duckdp.vault.linking import require_unlinked
from duckdp.vault.opening import with_tables
from duckdp.vault.protection import Protected, protect_tables
from duckdp.vault.suggest import suggest

if TYPE_CHECKING:
    from duckdp.client.connection import Connection
    from duckdp.serve.isolated import Isolated

_LOG = logging.getLogger("duckdp")  # on stderr, unless told otherwise


@checked
def open(
    data: object,
    *,
    tables: Mapping[str, object] | None = None,
    ledger: str | os.PathLike[str] | None = None,
    anchor: Where | None = None,
    snapshot: bool = False,
    memory: str | None = None,
    progress: Tell | None = None,
) -> Curator:
    """Put data under a curator.

    All of a new source is read once, so that no private read meets a value that does not decode; Ctrl-C ends that.

    Args:
        data: a DuckDB file, a Parquet file or glob, several of them, data frames or paths by name, or an open
            DuckDB connection (its tables are copied). Or Apache Spark, where the rows are on several machines: a
            ``SparkSession``, or a cluster's address ("spark://host:7077").
        tables: with Spark, what is read by name: a Parquet path, the name of a table or view of the session, or a
            data frame; of a view or frame each row has to follow from one stored row.
        ledger: file of budgets and charges, made if missing; next to a DuckDB file by default.
        anchor: where the ledger's newest state is known, so that an older one is refused: a file on another disk, or a
            command as a list of words. By default where it was; for a new ledger in the file beside it.
        snapshot: copy the data, so that the original is free for others; generated columns become plain ones.
        memory: that private reads may take, as "4GB"; what does not fit goes to the disk, in the folder for temporary
            files. By default four fifths of this machine's. Python and DuckDB's code come on top: .2 to .4 GB.
        progress: told (stage, share done, 0 to 1) while the source is read, here and at a refresh.

    Raises:
        CatalogError: C104 (the source changed), C107, C108.
        LedgerError: B2xx.
    """
    data = with_tables(data, tables)
    path = default_ledger(data, ledger)
    return Curator(data, ledger=path, anchor=anchor, snapshot=snapshot, memory=memory, progress=progress)


@checked_methods
class Curator(Budgeting, Publishing, Records, Closing):
    """Holds private data and answers for it. Use :func:`open`.

    Attributes:
        data: the data set that is open.
        ledger: budgets, charges and releases.
        engine: the private instance.
        life: what is open, and its end.
    """

    def __init__(
        self,
        data: object,
        *,
        ledger: str,
        anchor: Where | None = None,
        snapshot: bool = False,
        memory: str | None = None,
        progress: Tell | None = None,
    ) -> None:
        options: dict[str, Any] = {"anchor": anchor, "snapshot": snapshot, "memory": memory, "progress": progress}
        self.data = DataSet(data, ledger=ledger, **options)
        self.engine, self.ledger, self.life = self.data.engine, self.data.ledger, self.data.life
        self._fronts = Fronts(self.data)
        self._isolated: Isolated | None = None
        self._isolating = threading.Lock()

    @property
    def on_progress(self) -> Tell | None:
        """Told (stage, share done) of long work: reading the source at a refresh, and what is made of releases.

        Unless a call brings its own.
        """
        return self.data.on_progress

    @on_progress.setter
    def on_progress(self, tell: Tell | None) -> None:
        self.data.on_progress = tell

    # ---- declarations -----------------------------------------------------------------------------------------

    def suggest(self, table: str | None = None, *, form: str = "python") -> str:
        """Declarations with the public figures left to fill in, one line per column; reads the schema, never a row.

        What the schema says about a column (an ENUM's values, a CHECK) is commented out, to be confirmed. ``form``:
        "python", "toml" or "cli"; ``duckdp protect --file`` takes each of them.

        Raises:
            CatalogError: C101. ParameterError: P107.
        """
        return suggest(self.engine, table, form)

    @checks_itself
    def protect(
        self,
        table: str,
        *,
        row_cap: int,
        unit_key: str | None = None,
        unit: str | None = None,
        null_units: Iterable[object] = (),
        max_rows: int | None = None,
        max_groups: int | None = None,
        expected_rows: int | None = None,
        bounds: Mapping[str, Sequence[object]] | None = None,
        domains: Mapping[str, Iterable[object]] | None = None,
        columns: Iterable[str] = (),
        nulls: Mapping[str, object] | None = None,
        other: Mapping[str, object] | None = None,
        like: str | None = None,
        constraints: Iterable[str] = (),
        link: str | None = None,
        unique: Iterable[str] = (),
        reason: str | None = None,
    ) -> Table:
        """Declare a table; every figure here is public and none is read off the data. Idempotent.

        What stood is replaced: figures not named again are no longer declared, which the log ``duckdp`` warns of, as it
        does of rows taken for persons beside a column that looks like a key. :meth:`amend` changes what it names alone.

        A column may be named by a pattern: "lab_*", by type "*::DOUBLE", or both; its own name goes first.

        Args:
            table: a base table, a Parquet relation, or a view that selects columns of one base table by a predicate.
            row_cap: upper bound of the number of rows.
            unit_key: column that names the privacy unit; without it the unit is the row.
            unit: what unit_key names ("patient"), where its name does not say so: all tables of a data set have the
                same units. The key's own name by default.
            null_units: values of unit_key that name nobody, such as 0 or "unknown": rows of many people would share one
                unit's max_rows, and none of them be protected. Such rows do not count, like those where it is NULL.
            max_rows: rows of a unit that count per group; needed with unit_key.
            max_groups: groups of a unit that count; max_rows by default.
            expected_rows: guess of the number of rows, for predicted errors.
            bounds: column -> (lower, upper).
            domains: column -> complete list of values.
            columns: further columns that analysts may see (in predicates, counts, open keys).
            nulls: column -> public value that replaces NULL and NaN; without it such rows do not count there.
            other: column -> label of the values outside its domain; without it such rows are dropped.
            like: a declared table; its columns of the same name and type are declared alike here, unless named.
            constraints: what holds in every row, and in those of synthetic tables: ``"admitted <= discharged"``,
                ``"net + tax = total"``, ``"diagnosis -> department"`` (rows of one diagnosis are of one department).
                Told, like all of this, and never compared with the data.
            link: ``"visit_id -> visits.visit_id"``, for a table without a unit_key of its own: a row is of the unit of
                the row that it names. Rows that name none do not count. The key is ``unique`` there.
            unique: columns in which no value stands twice among rows with a unit: keys that links name, or the
                unit_key itself. This is compared with the data, here and at each refresh.
            reason: for the log, which keeps the difference too, when a declaration changes.

        Raises:
            CatalogError: C101, C102, C105, C106, C109, C111. ParameterError: P104, P105, P107.
        """
        wanted = {
            "row_cap": row_cap,
            "unit_key": unit_key,
            "unit": unit,
            "null_units": null_units,
            "max_rows": max_rows,
            "max_groups": max_groups,
            "expected_rows": expected_rows,
            "bounds": bounds,
            "domains": domains,
            "columns": columns,
            "nulls": nulls,
            "other": other,
            "like": like,
            "constraints": constraints,
            "link": link,
            "unique": unique,
        }
        name = declared(Curator.protect, {"table": table})["table"]
        done = self.protect_tables({name: wanted}, reason=reason)[0]
        for line in done.warnings:
            _LOG.warning(line)
        return done.table

    def protect_tables(
        self, tables: Mapping[str, Mapping[str, object]], *, keep: bool = False, reason: str | None = None
    ) -> list[Protected]:
        """Declare several tables together, all or none: arguments of :meth:`protect` by table.

        Args:
            tables: by name.
            keep: what is not named of a declared table stays as it is, as in :meth:`amend`.
            reason: for the log.
        """
        tables = {name: declared(Curator.protect, given) for name, given in tables.items()}
        done = protect_tables(self.data, tables, keep=keep, reason=reason)
        for protected in done:
            self._fronts.add_stub(protected.table)
        return done

    def amend(self, table: str, *, reason: str | None = None, **changes: object) -> Protected:
        """Change what is named of a declared table, and nothing else; the result says what changed.

        Args:
            table: its name.
            reason: for the log, which keeps the difference too.
            **changes: arguments of :meth:`protect`. None takes a column's figure away: ``bounds={"age": None}``;
                ``remove=["city"]`` takes columns out of the declaration.

        Raises:
            CatalogError: C101, the table is not declared; C103, it changed meanwhile; and those of :meth:`protect`.
        """
        self.table(str(table).split(".")[-1])
        return self.protect_tables({table: changes}, keep=True, reason=reason)[0]

    def unprotect(self, table: str, *, reason: str) -> None:
        """Take a table out of protection: nobody can ask about it any more. What was charged stays spent.

        Works while the source has changed or lost the table.

        Raises:
            CatalogError: C101.
        """
        if table.lower() in self.data.published:
            raise CatalogError(
                "C101", f'table "{table[:63]}" is public. Take it out with curator.unpublish.', table=table
            )
        require_unlinked(self.tables, table.lower())
        self.ledger.drop_table(table.lower(), reason)

    def link(self, table: str, column: str, *, to: str, key: str | None = None, **declared: object) -> Protected:
        """Declare a table whose rows have their unit from another: ``protect(table, link="column -> to.key", ...)``.

        Args:
            table: which has no unit_key of its own.
            column: names a row of the other table.
            to: the other table, declared with ``unique=[key]``.
            key: its column; of the same name by default.
            **declared: further arguments of :meth:`protect`.

        Raises:
            CatalogError, ParameterError: those of :meth:`protect`.
        """
        told = {**declared, "link": f"{column} -> {to}.{column if key is None else key}"}
        reason = told.pop("reason", None)
        return self.protect_tables({table: told}, reason=reason)[0]  # type: ignore[arg-type]

    def _show(self, table: Table) -> None:
        self._fronts.add_stub(table)

    @property
    def tables(self) -> dict[str, Table]:
        """Declarations by lower-case name, fresh from the ledger (other processes may declare too)."""
        return self.data.tables

    def table(self, name: object) -> Table:
        """The declaration of a protected table, by its name.

        Raises:
            CatalogError: C101. ParameterError: P107, no name.
        """
        return self.data.table(name)

    # ---- data ---------------------------------------------------------------------------------------------------

    def refresh(self, *, reason: str) -> int:
        """Accept changed data: a new data version under the same budget.

        Raises:
            CatalogError: C103, a protected table no longer has its declared schema; C105, C107, C108.
        """
        return self.data.refresh(reason)

    # ---- analysts ---------------------------------------------------------------------------------------------

    def session(self, analyst: str) -> Session:
        """An analyst's session in this process: the owner's rehearsal, not a security boundary.

        Raises:
            BudgetError: B102, B103.
        """
        try:
            self.ledger.require_open(check_name(analyst, "analyst"))
        except DuckDPError as error:
            name = analyst[:63] if isinstance(analyst, str) else type(analyst).__name__
            self.ledger.statements.note(name, "refused", "a session", error.code, granted=False)
            raise
        return Session(Desk(self.data, analyst), self._fronts)

    @overload
    def connect(self, analyst: str, *, isolated: Literal[False] = False) -> duckdb.DuckDBPyConnection: ...
    @overload
    def connect(self, analyst: str, *, isolated: Literal[True]) -> Connection: ...
    def connect(self, analyst: str, *, isolated: bool = False) -> duckdb.DuckDBPyConnection | Connection:
        """A DuckDB connection of the analyst's own, with the dp functions and no private row.

        Args:
            analyst: by name.
            isolated: statements run in a process of their own, which the system confines (Linux alone), as the
                server's do: what they take of memory and time, and what they break, is that process's. What comes back
                is a connection of PEP 249 (``duckdp.client``), which answers private SELECTs too, at ``SET
                dp.epsilon``; otherwise the analyst's DuckDB is inside this process: the owner's rehearsal.

        Raises:
            BudgetError: B102, B103. ParameterError: P107, nothing can be isolated here. ExecutionError: E101.
        """
        self.session(analyst)
        return self._isolation().connect(analyst) if isolated else self.front(analyst).connection()

    def _isolation(self) -> Isolated:
        with importing():
            from duckdp.serve.isolated import Isolated

        with self._isolating:
            if self._isolated is None:
                self._isolated = Isolated(lambda name: Desk(self.data, name))
                self.life.faces.append(self._isolated)
            return self._isolated

    def front(self, analyst: str) -> Front:
        """The analyst's own DuckDB instance; one per analyst, never shared."""
        return self._fronts.of(analyst)

    # ---- life -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Charge nothing more, interrupt what runs, and close the analysts' instances, the private one and the ledger.

        What is interrupted gets E102, and its charge is redeemed by the same question; what comes later B211. Again is
        harmless, from several threads too. All is closed whatever fails; a Ctrl-C meanwhile is raised when it is.

        Raises:
            DuckDPError: the first error of a part.
        """
        self.life.close()

    def __repr__(self) -> str:
        if "life" not in vars(self):
            return "<duckdp.Curator that is not open>"
        try:
            self.life.require()
        except LedgerError as error:
            return f"<duckdp.Curator that is not open: {error.code}>"
        return f"<duckdp.Curator of {len(self.tables)} protected tables, ledger {self.ledger.path!r}>"


@checked
def register(con: duckdb.DuckDBPyConnection, curator: Curator, *, analyst: str) -> None:
    """Put the dp functions on any DuckDB connection, speaking for one analyst for good.

    A convenience for trusted code, not a boundary: whoever holds the connection can run Python in this process. The
    functions are temporary macros of this connection; nothing is written to its database. A further cursor of the same
    instance is registered in the same way, for the same analyst.

    Raises:
        ParameterError: P107, the instance already speaks for somebody else.
    """
    speak(con, curator.session(analyst).desk)
