"""Data are read in full and accepted, at the opening and at a refresh, before anything is answered."""

from __future__ import annotations

from collections.abc import Iterable

from duckdp.catalog.table import Table
from duckdp.core.watch import Tell
from duckdp.ledger import Ledger
from duckdp.ledger.files import is_there
from duckdp.ledger.places import Where
from duckdp.vault.declare import require_schema
from duckdp.vault.decoding import reading_mark
from duckdp.vault.engine import Engine


def accept_first(
    engine: Engine, path: str, tell: Tell | None = None, anchor: Where | None = None
) -> tuple[Ledger, str]:
    """Open the ledger, and accept the source if it is new to it.

    A source read in full under the fingerprint that the ledger accepted is not read again: the fingerprint (size, time,
    schema) is what all of a data set's answers rest on anyway, and the mark names the engine's version too. Copies are
    read each time, as they are made each time.

    Args:
        engine: with the source attached.
        path: the ledger's; made if missing, but not for a source that is refused.
        tell: told how far reading is.
        anchor: where the ledger's anchor is.

    Returns:
        The ledger, and the source's fingerprint; another than the accepted one is answered C104.

    Raises:
        CatalogError: C108. LedgerError: B2xx.
    """
    fingerprint = engine.source.fingerprint(engine.schema_cursor())
    mark, unknown = _mark(engine, fingerprint), not is_there(path)
    if unknown:
        engine.read_in_full(tell)
    ledger = Ledger.open(path, anchor=anchor)
    try:
        if ledger.state().source in (None, fingerprint):
            if not unknown and (mark is None or not ledger.was_read(mark)):
                engine.read_in_full(tell)
            ledger.accept_source(fingerprint, read=mark)
    except BaseException:
        ledger.close()
        raise
    return ledger, fingerprint


def accept_changed(
    engine: Engine, ledger: Ledger, tables: Iterable[Table], reason: str, tell: Tell | None = None
) -> tuple[str, int]:
    """Attach the source afresh, read it, compare declarations with its schema, and accept it as a new version.

    Returns:
        Its fingerprint, and the version of the data.

    Raises:
        CatalogError: C103, C105, C107, C108.
    """
    engine.reattach(tell)
    fingerprint = engine.source.fingerprint(engine.schema_cursor())
    for table in tables:
        require_schema(engine, table)
    return fingerprint, ledger.accept_source(fingerprint, reason=reason, read=_mark(engine, fingerprint))


def _mark(engine: Engine, fingerprint: str) -> str | None:
    return reading_mark(fingerprint) if engine.source.in_place else None
