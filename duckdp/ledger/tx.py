"""A transaction as the other modules of the ledger see it."""

from __future__ import annotations

import sqlite3
import threading
from typing import Any

from duckdp.errors import InternalError
from duckdp.ledger.anchor import Position


class Tx:
    """Statements within the transaction that is open on a connection; values always as parameters.

    Attributes:
        thread: who asked for it; transactions run on a thread of their own.
    """

    def __init__(self, connection: sqlite3.Connection, thread: int | None = None) -> None:
        self._connection = connection
        self.thread = threading.get_ident() if thread is None else thread

    def asked_by(self, thread: int) -> Tx:
        """The same transaction, for another who asked."""
        return Tx(self._connection, thread)

    def one(self, sql: str, *values: object) -> sqlite3.Row | None:
        """The first row, or None."""
        row: sqlite3.Row | None = self._connection.execute(sql, values).fetchone()
        return row

    def rows(self, sql: str, *values: object) -> list[Any]:
        """All rows."""
        return self._connection.execute(sql, values).fetchall()

    def run(self, sql: str, *values: object) -> int:
        """Execute a change and return the id of the last inserted row."""
        return self._connection.execute(sql, values).lastrowid or 0

    @property
    def path(self) -> str:
        """The ledger's file, "" in memory."""
        return str(self.rows("PRAGMA database_list")[0][2])

    def is_open(self) -> bool:
        """Whether the transaction is still there; SQLite itself undoes one that meets a full or failing disk."""
        return self._connection.in_transaction

    def dataset(self) -> sqlite3.Row:
        """The data set's row."""
        row = self.one("SELECT * FROM dataset")
        if row is None:
            raise InternalError("the ledger has no data set.")
        return row

    def dataset_id(self) -> str:
        """The data set's random id."""
        return str(self.dataset()["id"])

    def head(self) -> Position:
        """The end of the chain."""
        row = self.one("SELECT seq, hash FROM event ORDER BY seq DESC LIMIT 1")
        if row is None:
            return Position(dataset_id=self.dataset_id(), count=0, digest="")
        return Position(dataset_id=self.dataset_id(), count=row["seq"], digest=row["hash"])
