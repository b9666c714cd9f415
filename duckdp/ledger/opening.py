"""Before a ledger is used: make it, tell what it is, bring it to the present version, check it from end to end."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator

from duckdp.errors import LedgerError
from duckdp.ledger import anchor, chain, files
from duckdp.ledger.connections import close_whole, connect, not_a_ledger, set_pragmas, translated, unsound
from duckdp.ledger.tx import Tx
from duckdp.resources import read_sql

APPLICATION_ID = 0x64706C67  # "dplg", in the header of the file
# script i leads from version i to version i + 1; published scripts never change
SCHEMAS = ("ledger.sql", "ledger_2.sql", "ledger_3.sql", "ledger_4.sql")


def create(path: str, anchors: str | None = None) -> None:
    """Make a new data set: drafted under another name, so that a ledger is whole from the moment it has its own.

    Args:
        path: of the ledger.
        anchors: where its anchor is, as ``places.text_of`` writes it.

    Raises:
        LedgerError: B207; nothing is left behind.
    """
    draft = f"{path}.new-{os.urandom(8).hex()}"
    files.make(draft)
    try:
        with translated(path):
            connection = connect(draft)
            try:
                set_pragmas(connection)
                connection.execute("BEGIN IMMEDIATE")
                _run_scripts(connection, 0)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                tx, secrets = Tx(connection), (os.urandom(16).hex(), os.urandom(16))
                tx.run("INSERT INTO dataset (one, id, salt, anchor) VALUES (1, ?, ?, ?)", *secrets, anchors)
                chain.append(tx, "create", detail={} if anchors is None else {"anchor": anchors})
                connection.execute("COMMIT")
            except BaseException:
                connection.close()
                raise
            close_whole(connection)
        files.publish(draft, path)
    finally:
        files.discard(draft)


def identify(connection: sqlite3.Connection, path: str, *, anchored: bool) -> None:
    """Is it a ledger that this version can read? Until that is known, nothing is written.

    Raises:
        LedgerError: B201, B202, B203, B207.
    """
    if anchored and not os.path.getsize(path):
        raise anchor.rolled_back(path, "the ledger is empty")
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise chain.damaged(path, "its first page is lost") if anchored else not_a_ledger(path)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(SCHEMAS):
        raise LedgerError(
            "B201",
            f'the ledger "{path}" has version {version}, this duckdp reads up to {len(SCHEMAS)}. Upgrade duckdp.',
            path=path,
        )


def migrate(connection: sqlite3.Connection) -> None:
    """Bring an older ledger to the present version, all steps or none."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == len(SCHEMAS):
        return
    try:
        connection.execute("BEGIN IMMEDIATE")
        _run_scripts(connection, connection.execute("PRAGMA user_version").fetchone()[0])
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check(tx: Tx, path: str) -> None:
    """The file is sound, its tables, constraints and triggers are those of our scripts, and fit its chain.

    Indexes are compared with their tables: through a damaged one a charge or a release would be lost from sight.

    Raises:
        LedgerError: B202.
    """
    if [row[0] for row in tx.rows("PRAGMA integrity_check(1)")] != ["ok"]:
        raise unsound(path)
    if tx.rows("PRAGMA foreign_key_check"):
        raise chain.damaged(path, "its tables contradict each other")
    model = sqlite3.connect(":memory:", isolation_level=None)
    try:
        _run_scripts(model, 0)
        expected = _schema(Tx(model))
    finally:
        model.close()
    if _schema(tx) != expected:
        raise chain.damaged(path, "its tables were altered")
    try:
        chain.verify(tx, path)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError):
        raise chain.damaged(path, "its entries cannot be read") from None


def _run_scripts(connection: sqlite3.Connection, version: int) -> None:
    for name in SCHEMAS[version:]:
        for statement in _statements(read_sql(name)):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(SCHEMAS)}")


def _statements(script: str) -> Iterator[str]:
    """Split a script: ``executescript`` would commit the transaction it runs in."""
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""


def _schema(tx: Tx) -> list[tuple[str, ...]]:
    rows = tx.rows("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema ORDER BY type, name")
    return [(*row[:3], " ".join(re.sub(r"--[^\n]*", " ", row[3]).split())) for row in rows]
