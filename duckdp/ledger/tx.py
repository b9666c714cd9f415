"""A transaction as the other modules of the ledger see it.

Tables with a column ``seal`` are written and read by :meth:`Tx.insert`, :meth:`Tx.change` and :meth:`Tx.get`, which
seal what they write and check what they read. The data set's row is written when the work is done. It and the rows of
analysts are held as they stand, from one transaction of a connection to the next if nobody else wrote in between.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from duckdp.ledger import schema
from duckdp.ledger.anchor import Position
from duckdp.ledger.seals import Damage, Row, seal_of
from duckdp.ledger.storage import Rows, Served, Stored, stream

T = TypeVar("T")


class Tx:
    """Statements within the transaction that is open on a connection; values always as parameters.

    Attributes:
        thread: who asked for it; transactions run on a thread of their own.
    """

    def __init__(self, connection: Stored, thread: int | None = None, held: dict[Any, Any] | None = None) -> None:
        self._connection = connection
        self.thread = threading.get_ident() if thread is None else thread
        self.spanning: Row | None = None  # of the directory, the row that was read last
        self._held: dict[Any, Any] = {} if held is None else held
        self._changes: Row = {}

    def asked_by(self, thread: int) -> Tx:
        """The same transaction, for another who asked."""
        return Tx(self._connection, thread, self._held)

    def forget(self) -> None:
        """What was done is undone: hold nothing that may come of it."""
        self._held.clear()
        self._changes = {}
        if isinstance(self._connection, Served):
            self._connection.drop()

    # ---- statements --------------------------------------------------------------------------------------------------

    def one(self, sql: str, *values: object) -> Any:
        """The first row, or None; unchecked."""
        row = self._connection.execute(sql, values).fetchone()
        return row

    def rows(self, sql: str, *values: object) -> list[Any]:
        """All rows of a query, whose seals nobody has checked."""
        return self._connection.execute(sql, values).fetchall()

    def stream(self, sql: str) -> Rows:
        """As :meth:`rows`, of a query that may give many; few of them are in memory at a time."""
        return stream(self._connection, sql)

    def run(self, sql: str, *values: object) -> int:
        """Execute a change and return how many rows it changed."""
        return self._connection.execute(sql, values).rowcount

    def later(self, sql: str, *values: object) -> None:
        """Execute a change of which nobody asks how many rows it changed; on a server with what is sent next."""
        if isinstance(self._connection, Served):
            self._connection.later(sql, values)
        else:
            self._connection.execute(sql, values)

    def settle(self) -> None:
        """Let errors of what was executed come now, if they did not."""
        if isinstance(self._connection, Served):
            self._connection.settle()

    @property
    def path(self) -> str:
        """The ledger's file, or address; "" in memory."""
        known: str | None = getattr(self._connection, "path", None)
        return str(self.rows("PRAGMA database_list")[0][2]) if known is None else known

    def is_altered(self) -> bool:
        """Whether the tables are others than were made."""
        if isinstance(self._connection, Served):
            return self._connection.is_altered()
        return schema.described(self.rows) != schema.expected()

    def is_open(self) -> bool:
        """Whether the transaction is still there; SQLite itself undoes one that meets a full or failing disk."""
        return self._connection.in_transaction

    # ---- sealed rows -------------------------------------------------------------------------------------------------

    def get(self, table: str, **key: object) -> Row | None:
        """A row by its key, checked; None if the table has none (which a damaged index may say too).

        Raises:
            Damage: its seal does not fit.
        """
        row = self.one(_selection(table, tuple(key)), *key.values())
        return None if row is None else self.checked(table, row)

    def held(self, table: str, **key: object) -> Row | None:
        """As :meth:`get`, for rows that are few and used all the time."""
        found: Row | None = self._held.get((table, *key.values()))
        if found is None:
            found = self.get(table, **key)
            if found is not None:
                self._held[(table, *key.values())] = found
        return found

    def once(self, key: str, make: Callable[[Tx], T]) -> T:
        """What is made of a state of the ledger, made once for all who look at it; never where something is written."""
        found: T | None = self._held.get(key)
        if found is None:
            found = self._held[key] = make(self)
        return found

    def hold(self, table: str, row: Row, key: object) -> None:
        """Hold a row that was written just now as it stands, for :meth:`holding`, until :meth:`let_go`."""
        self._held[(table, key)] = row

    def holding(self, table: str, key: object) -> Row | None:
        """A row that is held, if it is."""
        return self._held.get((table, key))

    def let_go(self, table: str, key: object) -> None:
        """Hold a row no longer; again is harmless."""
        self._held.pop((table, key), None)

    def checked(self, table: str, row: Any) -> Row:
        """All columns of a row, if its seal fits.

        Raises:
            Damage: it does not.
        """
        found = _named(row)
        if not fits(self.dataset()["salt"], table, found):
            raise Damage(f"a row of {table} was altered")
        return found

    def insert(self, table: str, **values: Any) -> Row:
        """Enter a row, sealed; what is not given is as the schema says."""
        row = {**schema.defaults(table), **values}
        row["seal"] = self._seal(table, row)
        self.later(_insertion(table, tuple(row)), *row.values())
        return row

    def change(self, table: str, row: Row, key: tuple[str, ...], **changes: Any) -> Row:
        """Change a row that was read by :meth:`get`, and renew its seal.

        Args:
            table: its name.
            row: as it was read.
            key: the columns that tell it from the others.
            changes: new values by column.

        Raises:
            Damage: it is not there.
        """
        new = {**row, **changes}
        new["seal"] = changes["seal"] = self._seal(table, new)
        values = [row[column] for column in key]
        update = _update(table, tuple(changes), key)
        if isinstance(self._connection, Served):
            self._connection.later(_of_one(update), (*changes.values(), *values))
        elif self._connection.execute(update, (*changes.values(), *values)).rowcount != 1:
            raise Damage(f"a row of {table} is lost")
        if (place := (table, *values)) in self._held:
            self._held[place] = new
        return new

    def _seal(self, table: str, row: Row) -> bytes:
        return seal_of(self.dataset()["salt"], table, _sealed(table, row))

    # ---- the data set ------------------------------------------------------------------------------------------------

    def dataset(self) -> Row:
        """The data set's row, with the changes of this transaction.

        Raises:
            Damage: it is lost or altered.
        """
        found: Row | None = self._held.get("dataset")
        if found is None:
            row = self.one("SELECT * FROM dataset")
            if row is None:
                raise Damage("it has no data set")
            found = _named(row)
            if not isinstance(found.get("salt"), bytes) or not fits(found["salt"], "dataset", found):
                raise Damage("the data set's row was altered")
            self._held["dataset"] = found
        return found

    def change_dataset(self, **changes: Any) -> None:
        """Change the data set's row; it is written by :meth:`flush`."""
        self._held["dataset"] = {**self.dataset(), **changes}
        self._changes.update(changes)

    def flush(self) -> None:
        """Write the data set's row, if it changed.

        Raises:
            sqlite3.IntegrityError, Failure: more would be spent than the limit.
        """
        if self._changes:
            changes, self._changes = self._changes, {}
            self._held["dataset"] = self.change("dataset", self.dataset(), ("one",), **changes)

    def dataset_id(self) -> str:
        """The data set's random id."""
        return str(self.dataset()["id"])

    def head(self) -> Position:
        """The end of the chain."""
        row = self.dataset()
        return Position(dataset_id=row["id"], count=row["events"], digest=row["head"])


def fits(salt: bytes, table: str, row: Row) -> bool:
    """Whether a row's seal is its own."""
    try:
        return bool(row["seal"] == seal_of(salt, table, _sealed(table, row)))
    except (TypeError, KeyError, ValueError):
        return False


def _named(row: Any) -> Row:
    """As ``dict``, which looks for each column by its name."""
    return dict(zip(row.keys(), row, strict=True))


def _sealed(table: str, row: Row) -> list[Any]:
    """What the seal of a row is over."""
    values = list(row.values())
    del values[schema.place_of_seal(table)]
    return values


@cache
def _selection(table: str, key: tuple[str, ...]) -> str:
    return f"SELECT * FROM {table} WHERE {' AND '.join(f'{column} = ?' for column in key)}"


@cache
def _insertion(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


@cache
def _update(table: str, columns: tuple[str, ...], key: tuple[str, ...]) -> str:
    where = " AND ".join(f"{column} = ?" for column in key)
    return f"UPDATE {table} SET {', '.join(f'{column} = ?' for column in columns)} WHERE {where}"


@cache
def _of_one(update: str) -> str:
    """A change that fails on the server (22012) unless it is of one row."""
    return f"WITH done AS ({update} RETURNING 1) SELECT 1 / CAST(count(*) = 1 AS INTEGER) FROM done"
