"""The log of statements of a ledger on a server: tables beside the ledger's, for all curators together.

As the file (``statement_file``), with the same chains and bounds; it is written through a connection of its own, and
its writers wait for each other, never for those that charge.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace

from duckdp.errors import LedgerError
from duckdp.ledger import anchor, files, served, served_schema
from duckdp.ledger.connections import translated
from duckdp.ledger.statement_file import Head, Statement, StatementFile, add, path_of, unusable
from duckdp.ledger.storage import Failure


class ServedLog:
    """The log on a server, open for writing; for one thread at a time.

    Args:
        path: the ledger's address.
        dataset_id: whose it is.
        salt: of the data set.
    """

    def __init__(self, path: str, dataset_id: str, salt: bytes) -> None:
        self.path, self._dataset_id, self._salt = path, dataset_id, salt
        self._connection: served.Connection | None = None

    def append(self, entries: Mapping[str, Sequence[Statement]]) -> dict[str, Head]:
        """Append to the chains of analysts, durably, all or nothing.

        Args:
            entries: by chain, oldest first.

        Returns:
            The heads of these chains now.

        Raises:
            LedgerError: B202, B206, B213; nothing was added, or (B213) nobody knows.
        """
        stored = {name: [_storable(entry) for entry in listed] for name, listed in entries.items()}
        try:
            with translated(self.path):
                if self._connection is None:
                    self._connection = served.Connection(self.path)
                self._connection.begin(writing=True, row="log")
                identify(self._connection, self._dataset_id)
                heads = add(self._connection, self._dataset_id, self._salt, stored)
                try:
                    self._connection.commit()
                except Failure as failure:
                    if failure.state or not self._was_made(heads):
                        raise
        except BaseException:
            self.close()
            raise
        return heads

    def close(self) -> None:
        """Close the connection; again is harmless."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _was_made(self, heads: Mapping[str, Head]) -> bool:
        """After a commit whose answer was lost: whether the chains end as they were to."""
        assert self._connection is not None
        self._connection.begin(writing=True, row="log")
        found = self._connection.execute("SELECT analyst, count, hash FROM chain").fetchall()
        self._connection.undo()
        known = {row["analyst"]: (row["count"], row["hash"]) for row in found}
        return all(known.get(name) == head for name, head in heads.items())


def identify(connection: served.Connection, dataset_id: str) -> None:
    """Is it the log of this data set?

    Raises:
        LedgerError: B202. Failure.
    """
    row = connection.execute("SELECT dataset FROM log").fetchone()
    if row is None or row[0] != dataset_id:
        raise unusable(connection.path, "belongs to another data set")


def empty(path: str) -> None:
    """Remove all entries of a log.

    Raises:
        LedgerError: B206, B213.
    """
    with translated(path):
        connection = served.Connection(path)
        try:
            connection.begin(writing=True, row="log")
            connection.execute("DELETE FROM statement")
            connection.execute("DELETE FROM chain")
            connection.commit()
        finally:
            connection.undo()
            connection.close()


def copy_served(path: str, target: str, dataset_id: str, salt: bytes) -> None:
    """Copy the log on a server to where that of a ledger's copy in a file is.

    Raises:
        LedgerError: B202, B207, B213.
    """
    copy = path_of(target)
    if os.path.lexists(copy):
        raise LedgerError("B207", f'"{copy}" exists and is not overwritten. Give a new file.', path=copy)
    draft = f"{copy}.new-{os.urandom(8).hex()}"
    with translated(path):
        connection = served.Connection(path)
        try:
            connection.begin(writing=False)
            identify(connection, dataset_id)
            StatementFile(draft, dataset_id, salt).make()
            _fill(connection, draft)
            os.replace(draft, copy)
            anchor.sync_folder(copy)
        except OSError:
            raise LedgerError("B207", f'"{copy}" cannot be written.', path=copy) from None
        finally:
            files.discard(draft)
            connection.undo()
            connection.close()


def _fill(connection: served.Connection, draft: str) -> None:
    target = sqlite3.connect(draft, isolation_level=None)
    try:
        target.execute("BEGIN")
        for table in ("chain", "statement"):
            served_schema.copy_rows(connection, target, f"SELECT * FROM {table}", table)
        target.execute("COMMIT")
    finally:
        target.close()


def _storable(entry: Statement) -> Statement:
    """An entry without the one character that PostgreSQL does not store."""
    return replace(entry, who=entry.who.replace("\0", "\ufffd"), text=entry.text.replace("\0", "\ufffd"))
