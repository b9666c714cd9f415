"""Looks of the owner at exact figures: not private, so the history says when and at what."""

from __future__ import annotations

from collections.abc import Sequence

from duckdp.ledger import chain
from duckdp.ledger.ledger import Ledger


def note_look(ledger: Ledger, table: str, columns: Sequence[str]) -> None:
    """Note that the owner looks at exact figures of a table, before they are read."""
    detail = {"exact": True, "columns": list(columns)}
    ledger._store.write(lambda tx: chain.append(tx, "look", table, detail))
