"""What is computed of a public table's rows: they are no one's, so all of it may be known and follow the data.

A public row that a private one is joined with repeats it, and so repeats its unit's contribution: how often, by which
columns, is the one figure of public rows that privacy rests on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Public:
    """Rows that are no one's.

    Attributes:
        rows: how many.
        digest: of what they contain.
        source: fingerprint of the source that they were read of; of another source nothing here is known.
        alike: the most rows that are equal in some columns, none of them NULL: ((columns, rows), ...).
    """

    rows: int
    digest: str
    source: str
    alike: tuple[tuple[tuple[str, ...], int], ...] = ()

    def most_alike(self, columns: Collection[str]) -> int:
        """An upper bound of the rows that are equal in all of the columns.

        >>> Public(rows=9, digest="", source="", alike=((("a",), 3), (("a", "b"), 1))).most_alike({"a"})
        3
        """
        given = {c.lower() for c in columns}
        return min([self.rows, *(n for names, n in self.alike if {c.lower() for c in names} <= given)])

    @classmethod
    def load(cls, raw: Mapping[str, Any]) -> Self:
        """What a declaration's JSON says."""
        alike = tuple((tuple(names), int(n)) for names, n in raw["alike"])
        return cls(**{**raw, "alike": alike})
