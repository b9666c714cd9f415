"""What a client's statements do: transactions, settings, cursors, and whatever DuckDB runs; not how it crosses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field

import duckdb

from duckdp.errors import DuckDPError
from duckdp.serve.announced import Announced, fitted, require_fitting, samples
from duckdp.serve.inferred import inferred
from duckdp.serve.running import Ask, Columns, Ran, Runner
from duckdp.serve.settings import ALL_SHOWN, Settings
from duckdp.serve.sqlstates import Refused
from duckdp.serve.statements import Statement, words
from duckdp.serve.values import type_of

_LOOKS = (["select"], ["from"], ["with"], ["values"], ["explain"], ["show"], ["describe"], ["table"], ["summarize"])
MOST_NAMED = 1_000  # prepared statements, portals and cursors of a connection


@dataclass
class Prepared:
    """A statement that was sent ahead.

    Attributes:
        statement: None: an empty one.
        types: OIDs of its parameters, 0 unknown.
        told: those that the client is told, who said nothing of any; values in binary are of these.
        announced: the columns that it was told, if it asked.
    """

    statement: Statement | None
    types: list[int]
    told: list[int] = field(default_factory=list)
    announced: Announced | None = None


@dataclass
class Portal:
    """A prepared statement with its parameters, and what it has given so far."""

    prepared: Prepared
    values: list[object] = field(default_factory=list)
    formats: list[int] = field(default_factory=list)
    ran: Ran | None = None
    sent: int = 0
    announced: Announced | None = None


class Acts(ABC):
    """The state of one connection, and what statements do to it.

    Args:
        cursor: of the analyst's instance, for this client alone.
        protected: says which tables are protected now.
        user: who is spoken for.
        fetch: told each statement before it runs on the instance.
        ask: private questions at once, see ``Runner``.

    Attributes:
        settings: what was SET.
    """

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        protected: Callable[[], frozenset[str]],
        user: str,
        fetch: Callable[[str], None] = lambda _: None,
        ask: Ask = lambda *_: None,
    ) -> None:
        self.settings = Settings(user)
        self._runner, self._protected = Runner(cursor, protected(), self.settings, fetch, ask), protected
        self._prepared: dict[str, Prepared] = {}
        self._cursors: dict[str, Ran] = {}
        self._state = "I"
        self._points: dict[str, int] = {}  # savepoints: how much had been changed by then
        self._changes = 0  # statements of this transaction that may have changed something

    def _run(self, statement: Statement, values: Sequence[object]) -> Ran:
        if self._state == "E" and statement.kind not in ("rollback", "commit", "rollback to"):
            message = "current transaction is aborted, commands ignored until end of transaction block"
            raise Refused("25P02", message, "Send ROLLBACK.")
        self._runner.protected = self._protected()
        match statement.kind:
            case "begin" | "commit" | "rollback":
                return self._transaction(statement.kind)
            case "savepoint" | "release" | "rollback to":
                return self._savepoint(statement)
            case "nothing":
                return Ran(columns=None, tag=words(statement.text, 1)[0].upper())
            case "set":
                self._set(statement.name, statement.value)
                return Ran(columns=None, tag="SET" if statement.value is not None else "RESET")
            case "show" if statement.name == "all":
                columns = [(name, type_of("VARCHAR")) for name in ALL_SHOWN]
                return Ran(columns=columns, tag="SHOW", _batches=iter([self.settings.all()]))
            case "show" if statement.name not in ("tables", "databases"):
                value = self.settings.show(statement.name)
                rows = iter([[(value,)]])
                return Ran(columns=[(statement.name, type_of("VARCHAR"))], tag="SHOW", _batches=rows)
            case "discard":
                self._prepared.clear()
                self._cursors.clear()
                self.settings.reset()
                return Ran(columns=None, tag="DISCARD ALL")
            case "deallocate":
                return self._deallocate(statement.name)
            case "declare" | "fetch" | "move" | "close":
                return self._cursor(statement, values)
            case "copy":
                return self._runner.run(statement.value or "", values)
            case "copy from":
                raise _no_copy_from(statement)
        self._changes += words(statement.text, 1) not in _LOOKS
        return self._runner.run(statement.text, values)

    def _run_as_announced(self, statement: Statement, portal: Portal) -> Ran:
        """Run a statement for the columns that were announced of it; what does not fit is not charged.

        Raises:
            Refused: 0A000, the columns are others by now.
        """
        told = portal.announced or portal.prepared.announced
        if told is None:
            return self._run(statement, portal.values)
        looked_at = statement.kind == "query" and told.columns is not None and self._state != "E"
        if looked_at and not told.holds(self.settings.terms(), portal.values):
            require_fitting(self._columns_of(statement, portal.values), told.columns)
        return fitted(self._run(statement, portal.values), told.columns)

    def _announce(self, statement: Statement | None, values: Sequence[object]) -> Announced:
        """The columns of a statement whose parameters are known."""
        return Announced(columns=self._columns_of(statement, values), terms=self._terms(), values=values)

    def _announce_unknown(self, prepared: Prepared) -> Announced:
        """The columns of a statement whose parameters are not known yet: they are taken for what they may be.

        Raises:
            Exception: what is said of the first of these, where it is described with none of them.
        """
        text = "" if prepared.statement is None else prepared.statement.text
        types, first = list(prepared.told or prepared.types), None
        if 0 in types and not prepared.told:
            guess = inferred(text, len(types), lambda: self._runner.column_types(text))
            types = [kind or other for kind, other in zip(types, guess, strict=True)]
        for values in samples(types, private=self._runner.is_private(text)):
            try:
                columns = self._columns_of(prepared.statement, values)
            except (duckdb.Error, DuckDPError, Refused) as error:
                first = first or error.with_traceback(None)
            else:
                return Announced(columns=columns, terms=self._terms(), values=None)
        assert first is not None
        try:
            raise first
        finally:
            del first  # an error that its own frame holds would hold the connection open

    def _terms(self) -> dict[str, str]:
        return dict(self.settings.terms())

    def _columns_of(self, statement: Statement | None, values: Sequence[object]) -> Columns | None:
        """The columns that a statement would give; None: none, or it is no question."""
        if statement is None:
            return None
        if statement.kind == "query" or (statement.kind == "show" and statement.name in ("tables", "databases")):
            self._runner.protected = self._protected()
            return self._runner.describe(statement.text, values)
        if statement.kind == "show":
            names = ALL_SHOWN if statement.name == "all" else (statement.name,)
            return [(name, type_of("VARCHAR")) for name in names]
        if statement.kind == "fetch" and statement.name in self._cursors:
            return self._cursors[statement.name].columns
        return None

    def _savepoint(self, statement: Statement) -> Ran:
        """DuckDB has none. They are given where that makes no difference: nothing was changed that is to be undone.

        Raises:
            Refused: 25P01, 3B001 there is none; 0A000, something was changed.
        """
        tag = statement.kind.split()[0].upper()
        if self._state == "I":
            raise Refused("25P01", f"{statement.kind.upper()} can only be used in transaction blocks")
        if statement.kind == "savepoint":
            self._require_room(self._points)
            self._points.pop(statement.name, None)
            self._points[statement.name] = self._changes
            return Ran(columns=None, tag=tag)
        if statement.name not in self._points:
            raise Refused("3B001", f'savepoint "{statement.name[:63]}" does not exist')
        names = list(self._points)
        since = names[names.index(statement.name) + (statement.kind != "release") :]
        if statement.kind == "rollback to":
            self._go_back(self._points[statement.name])
        for name in since:
            del self._points[name]
        return Ran(columns=None, tag=tag)

    def _go_back(self, changes: int) -> None:
        cursor = self._runner.cursor
        if changes == 0:  # what there is to undo is all of the transaction
            cursor.rollback()
            cursor.begin()
        elif changes != self._changes or not _goes_on(cursor):
            raise Refused(
                "0A000", "what was changed since a savepoint cannot be undone alone: DuckDB has none.", "Send ROLLBACK."
            )
        self._changes, self._state = changes, "T"

    def _transaction(self, kind: str) -> Ran:
        """A transaction is of the analyst's own instance; what was charged stays charged."""
        self._points, self._changes = {}, 0
        if kind == "begin":
            if self._state == "I":
                self._runner.cursor.begin()
            self._state = "T"
            return Ran(columns=None, tag="BEGIN")
        failed, before = self._state == "E", self._state
        self._state = "I"
        if before != "I":
            (self._runner.cursor.rollback if failed or kind == "rollback" else self._runner.cursor.commit)()
        self._cursors.clear()
        return Ran(columns=None, tag="ROLLBACK" if failed or kind == "rollback" else "COMMIT")

    def _cursor(self, statement: Statement, values: Sequence[object]) -> Ran:
        if statement.kind == "declare":
            self._require_room(self._cursors)
            self._cursors[statement.name] = kept(self._runner.run(statement.value or "", values))
            return Ran(columns=None, tag="DECLARE CURSOR")
        if statement.kind == "close" and statement.name == "all":
            self._cursors.clear()
            return Ran(columns=None, tag="CLOSE CURSOR ALL")
        found = self._cursors.get(statement.name)
        if found is None:
            raise Refused("34000", f'cursor "{statement.name[:63]}" does not exist')
        if statement.kind == "close":
            del self._cursors[statement.name]
            return Ran(columns=None, tag="CLOSE CURSOR")
        rows = found.take(2**62 if statement.value == "all" else int(statement.value or 1))
        if statement.kind == "move":
            return Ran(columns=None, tag=f"MOVE {len(rows)}")
        return Ran(columns=found.columns, tag="FETCH", _batches=iter([rows]))

    def _deallocate(self, name: str) -> Ran:
        if name == "all":
            self._prepared.clear()
            return Ran(columns=None, tag="DEALLOCATE ALL")
        if self._prepared.pop(name, None) is None:
            self._runner.run(f'DEALLOCATE "{name}"', ())
        return Ran(columns=None, tag="DEALLOCATE")

    def _set(self, name: str, value: str | None) -> None:
        told = self.settings.set(name, value)
        if told is not None:
            self._changed(told)

    @abstractmethod
    def _changed(self, name: str) -> None:
        """A setting that clients want to know has changed."""

    def _reported(self, name: str) -> str:
        return self.settings.show(name.lower())

    def _require_room(self, named: Sized) -> None:
        if len(named) >= MOST_NAMED:
            most = f"a connection holds at most {MOST_NAMED} statements, portals or cursors."
            raise Refused("54000", most, "Close some.")


def _no_copy_from(statement: Statement) -> Refused:
    """What COPY of a client's rows is answered: it is not read, and the connection goes on."""
    (line, column), name = statement.place, statement.name[:63]
    return Refused(
        "0A000",
        f"Q201: line {line}, col {column}: COPY {name} FROM STDIN is not taken: rows of a client's come by INSERT.",
        f"Write INSERT INTO {name} VALUES (...), with many rows in one, or by your driver's executemany.",
    )


def _goes_on(cursor: duckdb.DuckDBPyConnection) -> bool:
    """Whether DuckDB goes on with the transaction: after most errors it does not."""
    try:
        cursor.execute("SELECT 1").fetchall()
    except duckdb.Error:
        return False
    return True


def kept(ran: Ran) -> Ran:
    """A result that outlives the next statement of its connection: read whole."""
    rows = [row for batch in ran.batches() for row in batch]
    return Ran(columns=ran.columns, tag=ran.tag, _batches=iter([rows] if rows else []))
