"""Before a ledger is used: make it, tell what it is, bring it to the present version, check what all else hangs on."""

from __future__ import annotations

import os
import sqlite3

from duckdp.errors import LedgerError, ParameterError
from duckdp.ledger import (
    anchor,
    caps,
    chain,
    files,
    limits,
    objects,
    schema,
    sealing,
    served,
    served_errors,
    served_schema,
    statement_file,
    verification,
)
from duckdp.ledger.addresses import is_address
from duckdp.ledger.connections import Open, close_whole, connect, not_a_ledger, set_pragmas, translated, unsound
from duckdp.ledger.places import BESIDE, Place
from duckdp.ledger.seals import Damage
from duckdp.ledger.storage import Stored
from duckdp.ledger.tx import Tx

APPLICATION_ID = 0x64706C67  # "dplg", in the header of the file


def wanted(path: str, *, create: bool) -> bool:
    """Is the ledger missing, and to be made?

    Raises:
        LedgerError: B203, B207, B213, B214.
    """
    if not is_address(path):
        return files.wanted(path, create=create)
    if files.is_there(path):
        return False
    if not create:
        raise LedgerError("B207", f'the ledger "{path}" does not exist. Give the address of a ledger.', path=path)
    return True


def first_anchor(path: str, given: Place | None) -> Place:
    """The anchor of a ledger that is to be made: what was given, or the file beside it.

    Raises:
        ParameterError: P107, nothing is beside a ledger on a server.
    """
    if given is None and is_address(path):
        raise ParameterError(
            "P107",
            "anchor",
            None,
            "must say where the newest state of a new ledger on a server is known: a file of this machine, for example "
            'anchor="/var/lib/duckdp/clinic.anchor", or, for curators on several machines, a command as a list of '
            "words. Without one nobody would notice that an older copy of the database was put back.",
        )
    return given or BESIDE


def create(path: str, anchors: str | None = None) -> None:
    """Make a new data set: drafted under another name, so that a ledger is whole from the moment it has its own.

    Args:
        path: of the ledger.
        anchors: where its anchor is, as ``places.text_of`` writes it.

    Raises:
        LedgerError: B207, B213, B214; nothing is left behind.
    """
    if is_address(path):
        _create_served(path, anchors)
        return
    draft = f"{path}.new-{os.urandom(8).hex()}"
    files.make(draft, path)
    try:
        with translated(path):
            connection = connect(draft)
            try:
                set_pragmas(connection)
                connection.execute("BEGIN IMMEDIATE")
                schema.run_scripts(connection, 0)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                _begin(connection, anchors).flush()
                connection.execute("COMMIT")
            except BaseException:
                connection.close()
                raise
            close_whole(connection)
        files.publish(draft, path)
    finally:
        files.discard(draft)


def _begin(connection: Stored, anchors: str | None) -> Tx:
    """Enter the data set, and the first entry of its history, into empty tables."""
    tx = sealing.begin(connection, os.urandom(16).hex(), os.urandom(16), anchors)
    chain.append(tx, "create", detail={} if anchors is None else {"anchor": anchors})
    return tx


def _create_served(path: str, anchors: str | None) -> None:
    with translated(path):
        connection = served.Connection(path)
        try:
            connection.script("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
            if served_schema.make(connection):
                tx = _begin(connection, anchors)
                values = (tx.dataset_id(), statement_file.MOST_ROWS, statement_file.MOST_BYTES)
                connection.execute("INSERT INTO log VALUES (1, ?, ?, ?)", values)
                tx.flush()
                connection.commit(tx.head())
        finally:
            connection.undo()
            connection.close()


def prepare(connection: Open, path: str) -> None:
    """Make a connection fit to write to a ledger, if it is one that this version can read; else nothing is written.

    Raises:
        LedgerError: B201, B202, B203, B207, B215.
    """
    if isinstance(connection, served.Connection):
        _require_version(served_schema.version(connection), path)
        served_schema.require_own(connection)
        row = connection.execute("SELECT backup FROM dataset").fetchone()
        if row is not None and chain.is_moved(row[0]):
            raise chain.is_unfinished(path)
        served_schema.learn(connection)
        return
    _identify(connection, path, anchored=os.path.lexists(path + anchor.SUFFIX))
    set_pragmas(connection)


def _identify(connection: sqlite3.Connection, path: str, *, anchored: bool) -> None:
    if anchored and not os.path.getsize(path):
        raise anchor.rolled_back(path, "the ledger is empty")
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise chain.damaged(path, "its first page is lost") if anchored else not_a_ledger(path)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(schema.SCHEMAS):
        if schema.described(connection.execute) == schema.expected():  # a newer one has other tables
            raise chain.damaged(path, "its version was altered")
        raise LedgerError(
            "B201",
            f'the ledger "{path}" has version {version}, this duckdp reads up to {len(schema.SCHEMAS)}. '
            "Upgrade duckdp.",
            path=path,
        )


def _require_version(version: int | None, path: str) -> None:
    """Of a ledger on a server, of which there is no earlier version than the present one."""
    if version is None:
        raise served_errors.not_a_ledger(path)
    if version != len(schema.SCHEMAS):
        text = f'the ledger "{path}" has version {version}, this duckdp reads {len(schema.SCHEMAS)}. Upgrade duckdp.'
        raise LedgerError("B201", text, path=path)


def migrate(connection: Open, path: str) -> None:
    """Bring an older ledger to the present version, all steps or none; it is verified from end to end first.

    Args:
        connection: to the ledger.
        path: of it; before rows were sealed, its anchor is the file beside it.

    Raises:
        Damage: it contradicts itself. LedgerError: B203, its anchor. Nothing was changed.
    """
    if isinstance(connection, served.Connection):
        return
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == len(schema.SCHEMAS):
        return
    try:
        connection.execute("BEGIN IMMEDIATE")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version < len(schema.SCHEMAS):
            _require_sound(connection, path, version)
            _require_contained(connection, path)
            schema.run_scripts(connection, version)
            if version < schema.SEALED:
                sealing.seal_all(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _require_sound(connection: sqlite3.Connection, path: str, version: int) -> None:
    for found in verification.findings(connection, version):
        raise unsound(path) if found == verification.STRUCTURE else Damage(found)


def _require_contained(connection: sqlite3.Connection, path: str) -> None:
    """An older ledger that its anchor contradicts is left as it is; one whose anchor is lost is refused later."""
    try:
        known = anchor.read(path)
    except LedgerError:
        return
    if known is not None:
        row = connection.execute("SELECT hash FROM event WHERE seq = ?", (known.count,)).fetchone()
        if row is None or row[0] != known.digest:
            raise anchor.rolled_back(path, "the ledger has another history than its anchor")


def check(tx: Tx) -> None:
    """What everything else hangs on is as it was written: schema, data set, grants, declarations, recent history.

    Its cost does not grow with the number of charges. All other rows are checked when they are used, and by ``verify``.

    Raises:
        Damage.
    """
    if tx.is_altered():
        raise Damage("its tables were altered")
    try:
        tx.dataset()
        caps.all_analysts(tx)
        limits.all_teams(tx)
        objects.tables(tx)
        chain.check_recent(tx)
    except verification.UNREADABLE:  # sealed, and of a type that nothing here writes
        raise Damage("its entries cannot be read") from None
