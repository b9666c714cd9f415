"""A complete copy of a ledger, frozen: two ledgers in service would spend one budget twice."""

from __future__ import annotations

import os

from duckdp.errors import LedgerError
from duckdp.ledger import anchor, budgets, chain, files
from duckdp.ledger.anchor import Position
from duckdp.ledger.connections import close_whole, connect, translated
from duckdp.ledger.store import Store
from duckdp.ledger.tx import Tx


def backup(store: Store, target: str | os.PathLike[str]) -> None:
    """See :meth:`duckdp.ledger.Ledger.backup`; drafted under another name, so that a failed copy leaves nothing."""
    name = files.resolve(target)
    files.refuse_network(name)
    if any(os.path.lexists(name + suffix) for suffix in ("", "-wal", "-shm")) or _is_foreign(store, name):
        raise LedgerError("B207", f'"{name}" exists and is not overwritten. Give a new file.', path=name)
    store.write(lambda tx: chain.append(tx, "backup", name))
    draft = f"{name}.new-{os.urandom(8).hex()}"
    files.make(draft)
    try:
        head = _copy_to(store, draft, name)
        anchor.advance(name, head, create=True, replace=True)
        files.publish(draft, name)
    finally:
        files.discard(draft)


def _is_foreign(store: Store, name: str) -> bool:
    """Whether an anchor lies there that is not the remains of a backup of this data set that failed."""
    known = anchor.read(name)
    return known is not None and known.dataset_id != store.read(lambda tx: tx.dataset_id())


def _copy_to(store: Store, draft: str, name: str) -> Position:
    """Write the copy, frozen, into an empty file; nothing of it is in a journal."""
    with translated(name):
        connection = connect(draft)
        try:
            store.copy_to(connection)
            connection.execute("BEGIN IMMEDIATE")
            tx = Tx(connection)
            if tx.dataset()["frozen"] is None:
                budgets.freeze(tx, "this is a backup; unfreeze it only to replace a lost original")
            head = tx.head()
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        close_whole(connection)
    return head
