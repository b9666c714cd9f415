"""A complete copy of a ledger, which says that it is one: two ledgers in service would spend one budget twice.

A backup answers nothing and nothing is written into it (B210), until the owner puts it into service because the
original is gone for good. Charges made after the backup are missing from it. So what was left is charged as lost,
unless the original's anchor, kept elsewhere, shows that there are none, or the owner vouches for it. From then on that
anchor follows the backup, and refuses the original (B203) should it come back.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from duckdp.core import accountant as accounting
from duckdp.core.types import AccountantKind, Loss
from duckdp.errors import LedgerError
from duckdp.ledger import anchor, budgets, caps, chain, charges, files, holders, interactions, reservations
from duckdp.ledger.addresses import is_address
from duckdp.ledger.anchor import Position
from duckdp.ledger.charges import MAX_ATTEMPTS
from duckdp.ledger.connections import close_whole, connect, translated
from duckdp.ledger.places import BESIDE, Place, places_in, require_contained
from duckdp.ledger.store import Store
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import Cap, ChargeRequest
from duckdp.ledger.words import LOST, check_reason


def backup(store: Store, target: str | os.PathLike[str], beside: Callable[[str], None] = lambda _: None) -> None:
    """See :meth:`duckdp.ledger.Ledger.backup`; drafted under another name, so that a failed copy leaves nothing.

    Args:
        store: of the ledger.
        target: of the copy.
        beside: copies what lies beside the ledger, given the copy's path; after the ledger, before it has its name.
    """
    name = files.resolve(target, "target")
    if is_address(os.fspath(target)):
        raise LedgerError(
            "B207", "a backup is a file. Give a path; the server has copies of its own, see docs/scale.md.", path=None
        )
    files.refuse_network(name)
    if any(os.path.lexists(name + suffix) for suffix in ("", "-wal", "-shm")) or _is_foreign(store, name):
        raise LedgerError("B207", f'"{name}" exists and is not overwritten. Give a new file.', path=name)
    if not os.path.isdir(os.path.dirname(name)):
        raise LedgerError("B207", f'the folder of "{name}" does not exist. Make it, or give another file.', path=name)
    draft = f"{name}.new-{os.urandom(8).hex()}"
    files.make(draft, name)
    try:
        store.write(lambda tx: chain.append(tx, "backup", name))  # not of a backup that cannot begin
        head = _copy_to(store, draft, name)
        beside(name)
        anchor.advance(name, head, create=True, replace=True)
        files.publish(draft, name)
    finally:
        files.discard(draft)


def put_into_service(store: Store, reason: str, *, nothing_lost: bool) -> None:
    """See :meth:`duckdp.ledger.Ledger.put_into_service`.

    Each step may be the last one of its process: the backup stays one until the last, and what was charged as lost
    stays so when it is tried again.
    """
    check_reason(reason)
    had = store.read(lambda tx: _of_original(tx, store.path))
    store.anchors.require_given(had)
    places = [place for place in had if place != BESIDE]  # the file beside the original is gone with it
    known = store.ask(lambda _: [p for p in map(store.anchors.read, places) if p is not None])
    store.write(lambda tx: _begin(tx, store.path, reason, known, nothing_lost=nothing_lost))
    for place in places:
        store.ask(lambda tx, place=place: store.anchors.set_back(place, tx.head()))  # type: ignore[misc]
    store.write(lambda tx: _end(tx, reason))


def _of_original(tx: Tx, path: str) -> tuple[Place, ...]:
    """Where the anchors of the original are.

    Raises:
        LedgerError: B207, this is no backup; B215, it was moved.
    """
    dataset = tx.dataset()
    if chain.is_moved(dataset["backup"]):
        raise chain.is_backup(dataset["backup"])
    if dataset["backup"] is None and dataset["frozen"] != budgets.OLD_BACKUP:
        raise LedgerError("B207", f'the ledger "{path}" is not a backup: it is in service.', path=path)
    return places_in(dataset["anchor"], path)


def _begin(tx: Tx, path: str, reason: str, known: list[Position], *, nothing_lost: bool) -> None:
    """Note the reason, and charge what may be lost."""
    complete = bool(known)  # by what the original's anchors say
    try:
        for position in known:
            require_contained(path, tx, position)
    except LedgerError:
        complete = False
        if nothing_lost:
            raise
    chain.append(tx, "restoring", detail={"known": [p.count for p in known]}, reason=reason)
    if not (complete or nothing_lost):
        _charge_rest(tx)
        _end_what_went_on(tx)


def _end_what_went_on(tx: Tx) -> None:
    """What was released, or answered question by question, after the backup is not known here and not drawn again."""
    backup = tx.dataset()["backup"]
    tx.change_dataset(backup=None)
    _give_up_all(tx)
    interactions.end_all(tx, "what it answered after the backup is lost")
    tx.change_dataset(backup=backup)


def _give_up_all(tx: Tx) -> None:
    """Make all charges without a release final, but those of interactive ones: they may have one that is not known."""
    wanted = "state <> 'released' AND attempt < ? AND id NOT IN (SELECT charge FROM interaction)"
    for found in tx.rows(f"SELECT id FROM charge WHERE {wanted} ORDER BY id", MAX_ATTEMPTS):
        row = charges.by_id(tx, found["id"])
        for attempt in range(row["attempt"] + 1, MAX_ATTEMPTS + 1):
            chain.append(tx, "redeem", row["analyst"], {"charge": row["id"], "attempt": attempt, "holder": ""})
        tx.change("charge", row, ("id",), attempt=MAX_ATTEMPTS, state="failed", holder="")
        chain.append(tx, "fail", row["analyst"], {"charge": row["id"]})


def _charge_rest(tx: Tx) -> None:
    """Charge all that is left: any of it may have been spent after the backup."""
    dataset = tx.dataset()
    rest = budgets.rest(dataset)
    if dataset["accountant"] is None or max(rest) <= 0:
        return
    kind = budgets.kind_of(dataset)
    loss = Loss(epsilon_nano=rest[0], delta_atto=rest[1])
    if kind is AccountantKind.ZCDP:
        epsilon = accounting.epsilon_for(rest[0], max(dataset["delta_atto"] // 2, 1))
        loss = Loss(epsilon_nano=epsilon, delta_atto=rest[1], rho_pico=rest[0], delta_zcdp_atto=rest[1])
    tx.change_dataset(backup=None)  # a backup charges nothing, but this
    reservations.end_all(tx, "the original is gone")  # held in this process they would still live, and be in the way
    cap = Cap(epsilon_nano=dataset["epsilon_nano"], delta_atto=dataset["delta_atto"])
    caps.set_cap(tx, LOST, cap, kind, "what may have been spent")
    request = ChargeRequest(
        analyst=LOST,
        key=os.urandom(32).hex(),
        loss=loss,
        mechanism="lost",
        parameters="{}",
        statement="what may have been charged after the backup",
    )
    charge = charges.enter(tx, request, tx.dataset(), budgets.find_analyst(tx, LOST), None)
    holders.let_go(tx.dataset_id(), charge)
    charges.fail(tx, charge)  # it will never have a release
    budgets.revoke(tx, LOST, "nobody")
    tx.change_dataset(backup=dataset["backup"])


def _end(tx: Tx, reason: str) -> None:
    old = tx.dataset()["frozen"] == budgets.OLD_BACKUP
    tx.change_dataset(backup=None)
    chain.append(tx, "restored", reason=reason)
    if old:
        budgets.thaw(tx, reason)


def _is_foreign(store: Store, name: str) -> bool:
    """Whether an anchor lies there that is not the remains of a backup of this data set that failed."""
    known = anchor.read(name)
    return known is not None and known.dataset_id != store.read(lambda tx: tx.dataset_id())


def _copy_to(store: Store, draft: str, name: str) -> Position:
    """Write the copy, marked as one, into an empty file; nothing of it is in a journal."""
    with translated(name):
        connection = connect(draft)
        try:
            store.copy_to(connection)
            connection.execute("BEGIN IMMEDIATE")
            tx = Tx(connection)
            at = chain.now()
            tx.change_dataset(backup=at)
            chain.append(tx, "copy", detail={"at": at})
            tx.flush()
            head = tx.head()
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        close_whole(connection)
    return head
