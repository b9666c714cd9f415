"""A ledger moves from its file to a server: the same history goes on there, and the file is closed for good.

At no moment may both be charged. What is done, in this order, each step durable before the next:

1. In one transaction of the file, which excludes all other writers: the entry "move" is appended, the data set is
   marked as moved, and all rows, these included, are copied to the server and verified there. So the copy carries the
   mark; a copy that carries it answers nothing and is opened by nobody (B215).
2. The file's transaction is committed, and its anchors learn of it: from here on the file is never charged again.
3. On the server the mark is taken away by the entry "moved": the ledger is in service there, under its anchor.

A crash before the commit of step 2 leaves the file in service, and on the server a draft that the next attempt writes
anew. A crash after it leaves a closed file; the same call again does what is left. Step 3 demands a draft whose history
ends where the closed file's does, and an anchor that knows of nothing later. So of a database that lost what was
charged after a move, nothing is made anew (B203). The anchor was begun, and the draft was there, before the file was
closed: where both are gone, nothing tells whether anything was charged since, and it is refused too.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from duckdp.errors import LedgerError, ParameterError
from duckdp.ledger import addresses, anchor, budgets, chain, schema, served, served_schema, statement_file
from duckdp.ledger.addresses import is_address
from duckdp.ledger.anchor import Position
from duckdp.ledger.connections import connect, translated
from duckdp.ledger.moving import begin_at
from duckdp.ledger.places import BESIDE, Anchors, Place, Where, place_of, places_in, text_of
from duckdp.ledger.seals import Damage
from duckdp.ledger.statement_file import path_of, unusable
from duckdp.ledger.store import Store
from duckdp.ledger.tx import Tx
from duckdp.ledger.verification import findings
from duckdp.ledger.words import check_reason

AT_ONCE = 1000  # rows that are in memory


def to_server(store: Store, address: str, where: Where | None, reason: str) -> None:
    """See :meth:`duckdp.ledger.Ledger.move`."""
    check_reason(reason)
    target = _target(store.path, address)
    mark = chain.MOVED + target
    given = place_of(target, where)
    if store.read(lambda tx: tx.dataset()["backup"]) != mark:
        _close(store, target, given, reason)
    head, text = store.read(lambda tx: (tx.head(), tx.dataset()["anchor"]))
    (place,) = places_in(text, target)
    anchors = Anchors(target, given)
    anchors.commands |= store.anchors.commands
    anchors.require_given((place,))
    with translated(target), closing(served.Connection(target)) as connection:
        if not _is_in_service(connection, head):
            drafted = _is_drafted(connection, head, mark)
            store.ask(lambda tx: _know(anchors, place, tx, drafted=drafted))
            if not drafted:
                store.read(lambda tx: _draft(tx, target, store.path))
            _serve(connection, head, mark, reason)
        tx = Tx(connection)
        anchors.advance(tx, place, tx.head())


def _target(path: str, address: str) -> str:
    if is_address(path):
        raise ParameterError("P107", "ledger", path, "is on a server already. Give the path of a file.")
    if not is_address(address):
        raise ParameterError(
            "P107", "address", address, "must be an address such as postgresql://user@host:5432/database?schema=clinic."
        )
    return addresses.canonical(address)


# ---- the file --------------------------------------------------------------------------------------------------------


def _close(store: Store, target: str, given: Place | None, reason: str) -> None:
    """Steps 1 and 2: a draft on the server, and the file's end."""
    store.read(budgets.require_service)
    place = _new_place(store, given)
    for each in (BESIDE, place):  # it keeps one beside it, whatever the server's is
        store.ask(lambda tx, each=each: begin_at(store, tx, each))  # type: ignore[misc]
    store.write(lambda tx: _end(tx, target, place, reason))


def _new_place(store: Store, given: Place | None) -> Place:
    """Where the anchor is from now on: as given, or as it was.

    Raises:
        ParameterError: P107, nothing is beside a ledger on a server. LedgerError: B202.
    """
    had = store.read(lambda tx: places_in(tx.dataset()["anchor"], store.path))
    if given is not None and given.file != store.path + anchor.SUFFIX:
        return given
    if had == (BESIDE,) or len(had) != 1:
        raise ParameterError(
            "P107",
            "anchor",
            None,
            "must say where the newest state of the ledger is known from now on, since nothing lies beside a server: a "
            'file of this machine, for example "/var/lib/duckdp/clinic.anchor", or a command as a list of words.',
        )
    return had[0]


def _end(tx: Tx, target: str, place: Place, reason: str) -> None:
    """The last entry of the file, and all that it holds on the server, as a draft."""
    budgets.require_service(tx)
    mark, text = chain.MOVED + target, text_of([place])
    chain.append(tx, "move", target, {"mark": mark, "anchor": text}, reason)
    tx.change_dataset(backup=mark, anchor=text)
    tx.flush()
    _draft(tx, target, tx.path)


# ---- the server ------------------------------------------------------------------------------------------------------


def _draft(tx: Tx, target: str, path: str) -> None:
    """Copy the ledger to the server, durably, in place of an earlier draft of it.

    Raises:
        LedgerError: B202 the copy is not sound, B207 something else is there, B213. ParameterError: P107.
    """
    with translated(target), closing(served.Connection(target)) as connection:
        connection.script("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        if not served_schema.make(connection):
            _require_draft(connection, tx.dataset_id())
            served_schema.remake(connection)
        for table in served_schema.TABLES:
            names = tuple(schema.defaults(table))
            _copy(connection, table, names, tx.stream(f"SELECT {', '.join(names)} FROM {table}"))
        _copy_log(connection, path, tx.dataset_id())
        connection.commit(tx.head())
        served_schema.learn(connection)
        connection.begin(writing=False)
        for found in findings(connection, len(schema.SCHEMAS)):
            raise Damage(found)


def _require_draft(connection: served.Connection, dataset_id: str) -> None:
    """What is on the server is an earlier draft of this ledger.

    Raises:
        LedgerError: B207.
    """
    row = _dataset(connection, " FOR UPDATE")
    if row is None or row["id"] != dataset_id or not chain.is_moved(row["backup"]):
        raise _taken(connection.path)


def _dataset(connection: served.Connection, locked: str = "") -> Any:
    """The row of the data set that is on the server, if one of this version is; its seal is not looked at."""
    if served_schema.version(connection) != len(schema.SCHEMAS):
        return None
    return connection.execute(f"SELECT id, backup, events, head FROM dataset{locked}").fetchone()


def _copy(connection: served.Connection, table: str, names: tuple[str, ...], rows: Iterable[Any]) -> None:
    """Enter rows, some at a time."""
    text = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
    page: list[tuple[Any, ...]] = []
    for row in rows:
        page.append(tuple(row))
        if len(page) == AT_ONCE:
            connection.executemany(text, page)
            page.clear()
    if page:
        connection.executemany(text, page)


def _copy_log(connection: served.Connection, path: str, dataset_id: str) -> None:
    """Copy the log of statements, if there is one, with its chains.

    Raises:
        LedgerError: B202, it is damaged or another data set's.
    """
    log = path_of(path)
    if not os.path.lexists(log):
        values = (dataset_id, statement_file.MOST_ROWS, statement_file.MOST_BYTES)
        connection.execute("INSERT INTO log VALUES (1, ?, ?, ?)", values)
        return
    try:
        with closing(connect(log)) as source:
            statement_file.identify(source, log, dataset_id)
            source.execute("BEGIN")
            for table in ("log", "chain", "statement"):
                names = tuple(row[1] for row in source.execute(f"PRAGMA table_info({table})"))
                _copy(connection, table, names, source.execute(f"SELECT * FROM {table}"))
    except sqlite3.Error:
        raise unusable(log, "is damaged") from None
    connection.execute("SELECT setval(pg_get_serial_sequence('statement', 'seq'), max(seq)) FROM statement")


def _is_in_service(connection: served.Connection, head: Position) -> bool:
    """Whether step 3 was done before, by an earlier call or another process.

    Raises:
        LedgerError: B203, not with the end of this file; B207, another ledger is there.
    """
    row = _dataset(connection)
    if row is None:
        return False
    if row["id"] != head.dataset_id:
        raise _taken(connection.path)
    if row["backup"] is not None:
        return False
    found = connection.execute("SELECT hash FROM event WHERE seq = ?", (head.count,)).fetchone()
    if found is None or found["hash"] != head.digest:
        raise anchor.rolled_back(connection.path, "the ledger lacks the end of the file that was moved there")
    return True


def _is_drafted(connection: served.Connection, head: Position, mark: str) -> bool:
    """Whether the draft on the server is that of the closed file."""
    row = _dataset(connection)
    return row is not None and tuple(row) == (head.dataset_id, mark, head.count, head.digest)


def _serve(connection: served.Connection, head: Position, mark: str, reason: str) -> None:
    """Step 3: take the mark from the draft.

    Raises:
        LedgerError: B207, another process was faster. Failure.
    """
    connection.begin(writing=True)
    try:
        tx = Tx(connection)
        if tx.dataset()["backup"] != mark or tx.head() != head:
            raise _taken(connection.path)
        tx.change_dataset(backup=None)
        chain.append(tx, "moved", connection.path, reason=reason)
        tx.flush()
        connection.commit(tx.head())
    finally:
        connection.undo()


def _know(anchors: Anchors, place: Place, tx: Tx, *, drafted: bool) -> None:
    """The anchor knows of nothing that the closed file does not hold, and of its end.

    Args:
        anchors: of the ledger on the server.
        place: of its anchor, which was begun before the file was closed.
        tx: of the closed file.
        drafted: whether the draft is on the server as it was left, so that the ledger was never in service there.

    Raises:
        LedgerError: B203, B204, B209.
    """
    known = anchors.read(place)
    if known is not None:
        anchors.require(tx, place, known)
    elif not drafted:
        raise anchor.rolled_back(anchors.path, "the ledger is missing, and so is what its anchor knew of,")
    anchors.advance(tx, place, tx.head(), create=True)


def _taken(path: str) -> LedgerError:
    text = f'"{path}" holds another ledger, or this one in service. Name a schema of its own in the address.'
    return LedgerError("B207", text, path=path)
