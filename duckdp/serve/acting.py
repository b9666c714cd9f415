"""What a client's statements do: transactions, settings, cursors, and whatever DuckDB runs; not how it crosses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field

import duckdb

from duckdp.serve.running import Ask, Ran, Runner
from duckdp.serve.settings import Settings
from duckdp.serve.sqlstates import Refused
from duckdp.serve.statements import Statement
from duckdp.serve.values import type_of

MOST_NAMED = 1_000  # prepared statements, portals and cursors of a connection


@dataclass
class Prepared:
    """A statement that was sent ahead. ``types``: OIDs of its parameters, 0 unknown."""

    statement: Statement | None
    types: list[int]


@dataclass
class Portal:
    """A prepared statement with its parameters, and what it has given so far."""

    prepared: Prepared
    values: list[object] = field(default_factory=list)
    formats: list[int] = field(default_factory=list)
    ran: Ran | None = None
    sent: int = 0


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

    def _run(self, statement: Statement, values: Sequence[object]) -> Ran:
        if self._state == "E" and statement.kind not in ("rollback", "commit"):
            message = "current transaction is aborted, commands ignored until end of transaction block"
            raise Refused("25P02", message, "Send ROLLBACK.")
        self._runner.protected = self._protected()
        match statement.kind:
            case "begin" | "commit" | "rollback":
                return self._transaction(statement.kind)
            case "nothing":
                return Ran(columns=None, tag=statement.text.split()[0].upper())
            case "set":
                self._set(statement.name, statement.value)
                return Ran(columns=None, tag="SET" if statement.value is not None else "RESET")
            case "show" if statement.name not in ("tables", "databases", "all"):
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
            case "declare" | "fetch" | "close":
                return self._cursor(statement, values)
            case "copy":
                return self._runner.run(statement.value or "", values)
        return self._runner.run(statement.text, values)

    def _transaction(self, kind: str) -> Ran:
        """A transaction is of the analyst's own instance; what was charged stays charged."""
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


def kept(ran: Ran) -> Ran:
    """A result that outlives the next statement of its connection: read whole."""
    rows = [row for batch in ran.batches() for row in batch]
    return Ran(columns=ran.columns, tag=ran.tag, _batches=iter([rows] if rows else []))
