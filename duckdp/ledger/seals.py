"""Seals of rows: a flipped bit is noticed when the row is used.

The seal of a row is a digest of its table's name and of all its columns but the seal, keyed by the data set's salt; it
stands in the row. A row that was altered, moved to another table, or given another key than its own no longer fits it,
but for a chance of 2**-128. It is against accidents: whoever may read the file may compute seals.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from duckdp.ledger.texts import compact

Row = dict[str, Any]

SIZE = 16  # bytes of a seal


class Damage(Exception):
    """The ledger contradicts itself; becomes B202 where its path is known.

    Attributes:
        found: what was found, for the owner; never what the ledger holds.
    """

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


def seal_of(salt: bytes, table: str, values: Iterable[Any]) -> bytes:
    """The seal of a row.

    Args:
        salt: of the data set.
        table: its name.
        values: of all columns but the seal, in the order of the table.

    Raises:
        TypeError: a value is none that SQLite gives.
    """
    return hashlib.blake2b(compact([table, *values]).encode(), digest_size=SIZE, key=salt).digest()
