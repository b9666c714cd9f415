"""Reading the log of statements: page by page, and checked from end to end.

What :func:`problems` finds, whatever was done to the file with any tool: an entry that was altered, added, removed from
the middle, or moved; entries cut off at the beginning other than by trimming; entries cut off at the end, up to the
last head that a charge in the ledger names. Not found: entries cut off after that one, together with the chain's own
count, and a log whose every hash from some entry on was computed anew, by somebody who reads the ledger's salt, beyond
the last named head.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from duckdp.errors import LedgerError
from duckdp.ledger import chain, connections, served, statement_served
from duckdp.ledger.addresses import is_address
from duckdp.ledger.connections import connect, translated
from duckdp.ledger.statement_file import COLUMNS, NOBODY, Head, beginning, identify, path_of, size_of
from duckdp.ledger.storage import Served, Stored
from duckdp.ledger.tx import Tx
from duckdp.resources import read_sql

PAGE = 2000  # entries that are read at once; no read is longer than that, so that the journal can be emptied
FULL = 0.8  # of its bounds: a log that was ever trimmed stays fuller than that


def read_pages(
    ledger: str,
    dataset_id: str,
    *,
    newest_first: bool,
    analyst: str | None = None,
    kinds: tuple[str, ...] | None = None,
    since: str = "",
) -> Iterator[list[Any]]:
    """The entries by time, some at a time; none where there is no log.

    Args:
        ledger: path of the ledger.
        dataset_id: of its data set.
        newest_first: else oldest first.
        analyst: only this one's.
        kinds: only these.
        since: only those asked then or later.

    Yields:
        Rows with all columns of the log, in pages that are not empty.

    Raises:
        LedgerError: B201, B202, B206, B207.
    """
    path = path_of(ledger)
    if not _is_there(path):
        return
    after: tuple[Any, ...] = ("~", 2**62) if newest_first else ("", 0)
    order, sign = ("DESC", "<") if newest_first else ("ASC", ">")
    wanted = "" if kinds is None else f"AND kind IN ({', '.join('?' * len(kinds))}) "
    sql = (
        f"SELECT * FROM statement WHERE (at, seq) {sign} (?, ?) AND at >= ? "
        f"AND (CAST(? AS TEXT) IS NULL OR who = ?) {wanted}"
        f"ORDER BY at {order}, seq {order} LIMIT {PAGE}"
    )
    with _reading(path, dataset_id) as connection:
        while rows := connection.execute(sql, (*after, since, analyst, analyst, *(kinds or ()))).fetchall():
            yield rows
            after = rows[-1]["at"], rows[-1]["seq"]


def heads_named(tx: Tx) -> dict[str, Head]:
    """By analyst, the last head of their log that a charge in the ledger names."""
    named: dict[str, Head] = {}
    where = "seq > ? AND (kind = 'statements' OR (kind = 'charge' AND detail LIKE '%\"statements\": [%'))"
    last = 0
    while rows := tx.rows(
        f"SELECT seq, kind, subject, detail FROM event WHERE {where} ORDER BY seq LIMIT {PAGE}", last
    ):
        for row in rows:
            if row["kind"] == "statements":  # the owner accepted what was missing by then
                named.clear()
                continue
            count, digest = json.loads(row["detail"])["statements"]
            named[row["subject"]] = int(count), str(digest)
        last = rows[-1]["seq"]
    return named


def problems(ledger: str, dataset_id: str, salt: bytes, named: Mapping[str, Head]) -> tuple[list[str], int]:
    """What is wrong with the log of a ledger.

    Args:
        ledger: path of the ledger.
        dataset_id: of its data set.
        salt: of its data set.
        named: as :func:`heads_named` gives it.

    Returns:
        One sentence each, none where all is well, or where there is no log and the ledger knows of none; and how many
        entries there are.
    """
    path = path_of(ledger)
    if not _is_there(path):
        return [f'the log of statements "{path}" is missing'] if named else [], 0
    try:
        with _reading(path, dataset_id) as connection:
            connections.begin(connection, writing=False)
            found = list(_problems(connection, dataset_id, salt, named))
            return found, 0 if found else int(connection.execute("SELECT count(*) FROM statement").fetchone()[0])
    except LedgerError as error:
        return [error.message], 0


def begin_anew(ledger: str, dataset_id: str, salt: bytes) -> str | None:
    """Move a log that is damaged out of the way; returns where to, None of a sound or missing one.

    On a server its entries are removed.

    Raises:
        LedgerError: B207, it cannot be moved.
    """
    path = path_of(ledger)
    if not problems(ledger, dataset_id, salt, {})[0]:
        return None
    if is_address(path):
        statement_served.empty(path)
        return None
    away = f"{path}.damaged"
    try:
        os.replace(path, away)
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(path + suffix, away + suffix)
    except OSError:
        raise LedgerError("B207", f'"{path}" cannot be moved to "{away}".', path=path) from None
    return away


@contextmanager
def _reading(path: str, dataset_id: str) -> Iterator[connections.Open]:
    with translated(path):
        if is_address(path):
            reading = served.Connection(path)
            try:
                statement_served.identify(reading, dataset_id)
                yield reading
            finally:
                reading.close()
            return
        connection = connect(path)
        try:
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
                connection.execute(f"PRAGMA {pragma}")
            identify(connection, path, dataset_id)
            yield connection
        finally:
            connection.execute("PRAGMA query_only = OFF")  # the last one to close brings the journal in
            connections.close(connection)


def _problems(connection: connections.Open, dataset_id: str, salt: bytes, named: Mapping[str, Head]) -> Iterator[str]:
    if isinstance(connection, Served):  # whose tables are looked at with the ledger's
        broken = None
    elif [row[0] for row in connection.execute("PRAGMA integrity_check(1)")] != ["ok"]:
        broken = "its structure is broken"
    else:
        broken = None if _schema(connection) == _expected() else "its tables were altered"
    if broken is not None:
        yield f"the log of statements is damaged: {broken}"
        return
    chains = {row["analyst"]: row for row in connection.execute("SELECT * FROM chain")}
    for analyst, row in chains.items():
        yield from _chain_problems(connection, row, beginning(dataset_id, salt, analyst), named.get(analyst))
    for analyst in sorted(set(named) - set(chains)):
        yield f"all statements of {_name(analyst)} are missing from the log"
    rows = sum(row["count"] - row["trimmed"] for row in chains.values())
    if connection.execute("SELECT count(*) FROM statement").fetchone()[0] != rows:
        yield "the log of statements has entries that belong to no chain, or lacks some"
    log = connection.execute("SELECT * FROM log").fetchone()
    size = sum(row["bytes"] for row in chains.values())
    full = max(rows / max(log["most_rows"], 1), size / max(log["most_bytes"], 1))
    if any(row["trimmed"] for row in chains.values()) and full < FULL:
        yield "the log of statements was trimmed though it had room"


def _chain_problems(connection: Stored, row: Any, start: str, named: Head | None) -> Iterator[str]:
    """Walk one analyst's chain."""
    who = _name(row["analyst"])
    number, before, size = row["trimmed"], row["before"], 0
    if not number and before != start:
        yield f"the log of statements of {who} does not begin where it should"
        return
    met = named is None or named[0] < number or named == (number, before)
    walk = connection.execute(
        f"SELECT {', '.join(COLUMNS)}, hash FROM statement WHERE chain = ? ORDER BY number", (row["analyst"],)
    )
    for *values, digest in walk:
        number, before = number + 1, chain.digest(before, *values)
        if values[0] != number or digest != before:
            yield f"entry {number} of the log of statements of {who} was altered, added or removed"
            return
        size += size_of(values[4])
        met = met or named == (number, before)
    if (number, before, size) != (row["count"], row["hash"], row["bytes"]):
        yield f"the last entries of the log of statements of {who} were removed or added"
    elif not met and named is not None:
        lacks = named[0] > number
        yield (
            f"the log of statements of {who} lacks entries up to {named[0]}, which a charge names"
            if lacks
            else f"the log of statements of {who} has another history than a charge names"
        )


def _is_there(path: str) -> bool:
    return is_address(path) or os.path.lexists(path)


def _name(analyst: str) -> str:
    return analyst if analyst != NOBODY else "those without a grant"


def _schema(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    rows = connection.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema").fetchall()
    return sorted(tuple(row) for row in rows)


def _expected() -> list[tuple[str, ...]]:
    model = sqlite3.connect(":memory:")
    try:
        model.executescript(read_sql("statements.sql"))
        return _schema(model)
    finally:
        model.close()
