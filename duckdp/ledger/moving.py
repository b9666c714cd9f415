"""The owner keeps the anchor of a ledger in another place from now on."""

from __future__ import annotations

from duckdp.ledger import budgets, chain
from duckdp.ledger.places import Place, Where, place_of, places_in, text_of
from duckdp.ledger.store import Store
from duckdp.ledger.tx import Tx
from duckdp.ledger.words import check_reason


def move(store: Store, where: Where, reason: str) -> None:
    """See :meth:`duckdp.ledger.Ledger.move_anchor`.

    The new anchor learns the present head; then both are in force, and both know it; then the new one alone. So at each
    step a crash, or a ledger from an earlier step, meets an anchor that knows of what was charged last.
    """
    check_reason(reason)
    new = place_of(store.path, where)
    assert new is not None
    store.read(budgets.require_service)
    before = store.read(lambda tx: places_in(tx.dataset()["anchor"], store.path))
    if before == (new,):
        return
    store.ask(lambda tx: begin_at(store, tx, new))
    store.anchors.commands.add(new)
    store.write(lambda tx: _choose(tx, tuple(dict.fromkeys((*before, new))), reason))
    if store.anchors.said is not None:
        store.anchors.said = new
    store.write(lambda tx: _choose(tx, (new,), reason))


def begin_at(store: Store, tx: Tx, new: Place) -> None:
    """Let an anchor that knows nothing, or an earlier position of this ledger, know the present one."""
    known = store.anchors.read(new)
    if known is not None:
        store.anchors.require(tx, new, known)
    store.anchors.advance(tx, new, tx.head(), create=True)


def _choose(tx: Tx, places: tuple[Place, ...], reason: str) -> None:
    text = text_of(places)
    tx.change_dataset(anchor=text)
    chain.append(tx, "anchor", " and ".join(map(str, places)), {"anchor": text}, reason)
