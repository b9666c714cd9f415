"""FRONT: an analyst's own DuckDB. It holds no private row, so whatever SQL runs here can reach none.

``dp_x(...)`` is a macro over ``query(__dp_bind(...))``. DuckDB calls __dp_bind while it binds: the curator validates
the call, touches no data, charges nothing, and returns a SELECT whose columns are the result's. When the SELECT runs,
it calls __dp_ask with a sealed token, which charges once, computes and remembers; then one fetch function per column.

Who asks is the Python closure that registered the functions: no variable, argument, setting or thread can change it.
A token is an HMAC over the call, the analyst and this instance; there is no table of pending tokens to fill up.

No function of ours raises inside DuckDB, which would append the class and the text of whatever went wrong. A refusal is
a text that the returned SELECT hands to error(). DuckDB's own errors leave as ``guarded`` tells them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, cast

import duckdb

from duckdp.catalog.table import Table, plain_type
from duckdp.compiler.printing import quote
from duckdp.desk.desk import Desk
from duckdp.errors import DuckDPError, ExecutionError, ParameterError, QueryError
from duckdp.front.binder import Binder
from duckdp.front.crossing import LIST_TYPES, Crossing, select_parts
from duckdp.front.guarded import Guarded, told, wrong_arguments
from duckdp.front.instance import Instance
from duckdp.functions.spec import FUNCTIONS
from duckdp.process.aside import aside
from duckdp.process.forks import keep
from duckdp.resources import read_sql
from duckdp.result import Result, ResultColumn, plain_result

# At connect, so that they hold for every cursor (SET of a Python setting holds for one). No temporary files: an analyst
# could fill the disk, in the directory that the curator was started from.
LOCKDOWN: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": "false",
    "python_scan_all_frames": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "memory_limit": "1GB",
    "temp_directory": "",
    "max_temp_directory_size": "0B",
}
# After connecting: at connect, DuckDB would allow the path of the database itself, ":memory:" in the directory that the
# curator was started from, and an analyst could fill the disk there. The directory of secrets shows the curator's home.
LOCKS = ("SET secret_directory = ''", "SET enable_external_access = false", "SET lock_configuration = true")
VIEWS = tuple(spec.name for spec in FUNCTIONS.values() if "view" in spec.forms)
#: DuckDB keeps a bare pointer to a registered function: these must never be collected.
KEEP: list[Callable[..., Any]] = []
#: Which binder speaks in an instance, by the random name it answers to.
SPEAKERS: weakref.WeakValueDictionary[str, Binder] = weakref.WeakValueDictionary()


class Front:
    """The locked DuckDB instance of one analyst.

    Args:
        desk: whose.
    """

    def __init__(self, desk: Desk) -> None:
        self._instance = Instance()
        self._binder = Binder(desk)
        self._con = self._instance.keep(duckdb.connect(":memory:", config=LOCKDOWN))
        aside(partial(create_functions, self._con, self._binder), self._con.interrupt)
        _execute(self._con, self._binder, read_sql("front.sql"))
        for name in VIEWS:
            _execute(self._con, self._binder, f"CREATE VIEW {name} AS FROM {name}()")
        for table in desk.known().values():
            self.add_stub(table)
        for lock in LOCKS:
            self._con.execute(lock)
        self._cursor, self._turn = self._instance.keep(self._con.cursor()), threading.Lock()

    def connection(self) -> duckdb.DuckDBPyConnection:
        """A cursor of the instance, for the analyst; its errors tell nothing of the curator."""
        self._require()
        cursor = self._con.cursor()
        guarded = Guarded(cursor, self._instance, partial(self._interrupt, cursor))
        return cast("duckdb.DuckDBPyConnection", guarded)

    def _interrupt(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """End a statement, and the private reads that it may wait for."""
        with suppress(duckdb.Error):  # closed
            cursor.interrupt()
        self._binder.interrupt()

    @property
    def ended(self) -> bool:
        """An error inside DuckDB has ended the instance; it answers no more."""
        return self._instance.ended

    def _require(self) -> None:
        """B211, B212 unless it is open here."""
        self._instance.require()

    def sql(self, text: str) -> Result:
        """Run ordinary SQL on the instance.

        Raises:
            DuckDPError: a dp function refused; its own error.
            QueryError: Q105, DuckDB refused. Its text is passed on, where it speaks of the statement.
            ExecutionError: E102, interrupted.
        """
        described, rows = self._rows_of(text)
        return plain_result([d[0] for d in described], rows, [str(d[1]) for d in described])

    def bound(self, text: str) -> list[tuple[str, str]]:
        """Names and types of a SELECT's columns, as it would run on the instance now; it is not run.

        Raises:
            QueryError: Q105, DuckDB refuses it; Q202, a macro or view calls a dp function. ExecutionError: E102.
        """
        _, rows = self._rows_of(f"DESCRIBE {text}", ours=True)
        return [(str(row[0]), str(row[1])) for row in rows]

    def over(
        self,
        columns: Sequence[ResultColumn],
        parts: Sequence[Sequence[tuple[str, str]]],
        after: Callable[[Sequence[str]], str],
    ) -> list[tuple[Any, ...]]:
        """The rows of a SELECT of ours over tables that are at hand.

        Args:
            columns: of all tables, one after another.
            parts: (name, type) of the columns of each table.
            after: the SELECT, from those that give the tables.

        Raises:
            QueryError: Q105, an operation of it fails. ExecutionError: E102.
        """
        token = self._binder.hold([Crossing(column.type, column.values) for column in columns])
        try:
            return self._rows_of(after(select_parts(token, parts)), ours=True)[1]
        finally:
            self._binder.drop(token)

    def _rows_of(self, text: str, *, ours: bool = False) -> tuple[list[Any], list[Any]]:
        """What DuckDB says of the columns of a statement, and its rows; ``ours``: no text is shown where it fails."""
        self._require()
        problem: DuckDPError | None = None

        def run() -> tuple[list[Any], list[Any]]:
            with self._instance.asked(), self._binder.silent() if ours else nullcontext():
                done = self._cursor.execute(text)
                described = done.description or []
                return described, done.fetchall() if described else []

        with self._turn:  # one cursor for all, so that variables and temporary tables stay
            try:
                described, rows = aside(run, partial(self._interrupt, self._cursor))
            except KeyboardInterrupt:
                problem = ExecutionError("E102", None)
            except duckdb.Error as error:
                self._instance.ended |= isinstance(error, duckdb.FatalException)
                message = told(error, text).removeprefix("Q105: ")
                refusal = QueryError(
                    "Q105", message.partition("\n\nLINE ")[0] if ours else message, sql=None if ours else text
                )
                problem = self._binder.refusal(str(error)) or wrong_arguments(error) or refusal
        if problem is not None and problem.code == "Q105":
            self._require()  # closed meanwhile
        if problem is not None:
            raise problem
        return described, rows

    def variable(self, name: str) -> str | None:
        """A variable that the analyst SET through :meth:`sql`, as text; None when it is not set."""
        self._require()
        with self._turn:
            row = self._cursor.execute("SELECT CAST(getvariable($1) AS VARCHAR)", [name]).fetchone()
        return None if row is None else row[0]

    def add_stub(self, table: Table) -> None:
        """A typed view of a protected table that refuses with our message, so that tools see its columns.

        What the analyst made under that name, or broke, stays: it is their instance, and the owner's call goes on.
        """
        cursor = self._con.cursor()
        try:
            cursor.execute(stub_sql(table, replace=True))
        except duckdb.Error:
            return
        finally:
            cursor.close()

    def refuse(self) -> None:
        """Let nothing be asked any more; what fails from now on fails by that."""
        self._instance.refuse()

    def close(self) -> None:
        """Answer nothing more, interrupt what runs, and close the instance; again is harmless."""
        self.refuse()
        self._binder.close()
        self._instance.close()


def speak(con: duckdb.DuckDBPyConnection, desk: Desk) -> None:
    """Put the dp functions on any DuckDB connection, speaking for one analyst for good; see ``duckdp.register``.

    Raises:
        ParameterError: P107, the instance already speaks for somebody else.
    """
    binder = _speaker(con)
    if binder is None:
        binder = Binder(desk)
        aside(partial(create_functions, keep(con), binder), con.interrupt)  # all of them, or Ctrl-C came before
    elif not binder.speaks_for(desk):
        raise ParameterError("P107", "analyst", desk.analyst, "this DuckDB instance already speaks for somebody else.")
    rows = con.execute("SELECT table_name FROM information_schema.tables").fetchall()  # temporary ones are this con's
    present = {str(r[0]).lower() for r in rows}
    macros = read_sql("front.sql").replace("CREATE OR REPLACE MACRO", "CREATE OR REPLACE TEMP MACRO")
    _execute(con, binder, macros)
    views = {name: f"CREATE TEMP VIEW {name} AS FROM {name}()" for name in VIEWS}
    views |= {name: stub_sql(table, temporary=True) for name, table in desk.known().items()}
    for name, statement in views.items():
        if name not in present:
            _execute(con, binder, statement)


def _execute(con: duckdb.DuckDBPyConnection, binder: Binder, statement: str) -> None:
    """Run a statement of ours, for which DuckDB asks the binder: a refusal leaves as itself, and Ctrl-C too."""
    try:
        aside(partial(con.execute, statement), con.interrupt)
    except duckdb.Error as error:
        refusal = binder.refusal(str(error))
        if refusal is None:
            raise
    else:
        return
    raise refusal


def stub_sql(table: Table, *, temporary: bool = False, replace: bool = False) -> str:
    """CREATE VIEW for a table's stub: its declared columns and base types, and an error in place of rows."""
    items = ", ".join(f"CAST(NULL AS {plain_type(c.type)}) AS {quote(c.name)}" for c in table.columns)
    if table.public is None:
        what = f"Q301: rows of {table.name} are private."
    else:
        what = f"Q205: {table.name} is public, and is read where a protected table is."
    way = "Ask with FROM dp_query($$SELECT ...$$, epsilon := 0.1), or through a duckdp session"
    message = f"{what} {way}; where a session says so, the table may be protected no longer."
    kind = "CREATE OR REPLACE VIEW" if replace else f"CREATE {'TEMP ' if temporary else ''}VIEW"
    items = items or "CAST(NULL AS BOOLEAN) AS no_declared_column"
    return f"{kind} {quote(table.name)} AS SELECT {items} WHERE CAST(error('{message}') AS BOOLEAN)"


def _speaker(con: duckdb.DuckDBPyConnection) -> Binder | None:
    """The binder that an instance was registered with, or None when it has none."""
    cursor = con.cursor()
    try:
        select = "SELECT system.main.__dp_bind('dp_speaker', NULL, NULL)"
        row = aside(lambda: cursor.execute(select).fetchone(), cursor.interrupt)
    except duckdb.CatalogException:
        return None
    finally:
        cursor.close()
    found = SPEAKERS.get(str(row[0])) if row is not None else None
    if found is None:
        raise ParameterError("P107", "con", "...", "has functions named like those of duckdp.")
    return found


def create_functions(con: duckdb.DuckDBPyConnection, binder: Binder) -> None:
    """Register the plumbing functions; always volatile, so that none is folded, shared or run twice.

    With a part of them the connection could never be registered again: so not where Ctrl-C is heard.
    """

    def bind(name: Any, arguments: Any, lists: Any) -> str:
        return binder.speaker if name == "dp_speaker" else binder.bind(name, arguments, lists)

    def ask(tokens: Any) -> Any:
        return binder.ask(tokens)

    def rows(token: Any) -> Any:
        return binder.rows(token)

    def fetcher(name: str) -> Callable[[Any, Any], Any]:
        return lambda tokens, indexes: binder.fetch(name, tokens, indexes)

    make: Any = con.create_function  # its stubs know no list of type names
    three = ["VARCHAR", "VARCHAR[]", "VARCHAR[][]"]
    KEEP.extend((bind, ask, rows))
    make("__dp_bind", bind, three, "VARCHAR", side_effects=True, null_handling="special")
    make("__dp_ask", ask, ["VARCHAR"], "VARCHAR", type="arrow", side_effects=True)
    make("__dp_rows", rows, ["VARCHAR"], "VARCHAR[][]", side_effects=True)
    for name, kind in LIST_TYPES.items():
        function = fetcher(name)
        KEEP.append(function)
        make(name, function, ["VARCHAR", "INTEGER"], kind, type="arrow", side_effects=True)
    SPEAKERS[binder.speaker] = binder
