"""A complete copy of a ledger, frozen: two ledgers in service would spend one budget twice."""

from __future__ import annotations

import os

from duckdp.errors import LedgerError
from duckdp.ledger import anchor, budgets, chain, files
from duckdp.ledger.store import Store, close, connect, translated
from duckdp.ledger.tx import Tx


def backup(store: Store, target: str | os.PathLike[str]) -> None:
    """See :meth:`duckdp.ledger.Ledger.backup`."""
    name = files.resolve(target)
    files.refuse_network(name)
    if any(os.path.lexists(name + suffix) for suffix in ("", "-wal", "-shm", anchor.SUFFIX)):
        raise LedgerError("B207", f'"{name}" exists and is not overwritten. Give a new file.', path=name)
    with store.write() as tx:
        chain.append(tx, "backup", name)
    files.make(name)
    _copy_to(store, name)


def _copy_to(store: Store, name: str) -> None:
    with translated(name):
        connection = connect(name)
        try:
            store.copy_to(connection)
            connection.execute("BEGIN IMMEDIATE")
            tx = Tx(connection)
            if tx.dataset()["frozen"] is None:
                budgets.freeze(tx, "this is a backup; unfreeze it only to replace a lost original")
            head = tx.head()
            connection.execute("COMMIT")
        finally:
            close(connection)
    anchor.advance(name, head, create=True)
