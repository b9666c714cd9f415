"""The full check of a ledger: its structure, its whole history, and every row against it.

Opening a ledger checks what everything hangs on, and each row is checked when it is used. What only this finds: damage
in rows that nobody asks for, in indexes that guard what is entered (and are not what answers are looked up by), in
entries of the history older than the last thousand, and rows that are sealed but not what the history says.

The history is replayed in a stream. Of a charge a few bytes are kept; what may be many and has no order of its own
(names, shares, the directory) is compared as a sum of keyed digests, one number for any number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from duckdp.ledger import schema
from duckdp.ledger.comparison import compare
from duckdp.ledger.replay import Replay
from duckdp.ledger.seals import Damage
from duckdp.ledger.storage import Served, Stored
from duckdp.ledger.tx import Tx

Tell = Callable[[str, float], None]  # what is being done, and the share of it that is done

MOST_FOUND = 20  # problems that one check lists
STRUCTURE = "its structure is broken"
UNREADABLE = (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError)


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What was checked, and found to be as it was written."""

    events: int
    charges: int
    releases: int
    analysts: int
    declarations: int
    names: int
    bytes: int
    statements: int = 0

    def __str__(self) -> str:
        parts = ", ".join(f"{getattr(self, name):,} {name}" for name in self.__dataclass_fields__ if name != "bytes")
        return f"sound: {parts} in {self.bytes:,} bytes"


def verify(connection: Stored, tell: Tell = lambda *_: None) -> tuple[list[str], Verified]:
    """What is wrong with a ledger of the present version (the first few findings), and what was checked.

    Args:
        connection: to it, within a transaction.
        tell: hears of progress.
    """

    def count(what: str) -> int:
        return int(connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0])

    found = list(islice(findings(connection, len(schema.SCHEMAS), tell), MOST_FOUND))
    tables = {"events": "event", "charges": "charge", "releases": "release", "analysts": "analyst"}
    counted = {name: count(table) for name, table in (tables | {"declarations": "catalog", "names": "object"}).items()}
    return found, Verified(**counted, bytes=_size(connection))


def findings(connection: Stored, version: int, tell: Tell = lambda *_: None) -> Iterator[str]:
    """What is wrong with a ledger, one text each; nothing if it is sound.

    Args:
        connection: to it, within a transaction.
        version: of it; before rows were sealed, there is less to compare.
        tell: hears of progress.
    """
    tell("structure", 0.0)
    yield from _contradictions(connection)
    if version == len(schema.SCHEMAS) and Tx(connection).is_altered():
        yield "its tables were altered"
        return
    try:
        replay = Replay(connection, sealed=version >= schema.SEALED)
        for share in replay.run():
            tell("history", share)
        tell("tables", 0.0)
        yield from compare(connection, replay)
    except Damage as damage:
        yield damage.found
    except UNREADABLE:
        yield "its entries cannot be read"


def _contradictions(connection: Stored) -> Iterator[str]:
    """What is wrong with what the tables and indexes are kept in."""
    if isinstance(connection, Served):
        yield from connection.contradictions()
        return
    if [row[0] for row in connection.execute("PRAGMA integrity_check(1)")] != ["ok"]:
        yield STRUCTURE
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        yield "its tables contradict each other"


def _size(connection: Stored) -> int:
    if isinstance(connection, Served):
        return connection.size()
    count, size = (connection.execute(f"PRAGMA page_{what}").fetchone()[0] for what in ("count", "size"))
    return int(count * size)
