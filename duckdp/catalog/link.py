"""A link carries the privacy unit to a table that has none: each of its rows is of the unit of the row it names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from duckdp.errors import ParameterError

_FORM = re.compile(r"\s*(.+?)\s*->\s*(.+?)\.([^.]+?)\s*\Z", re.DOTALL)
KeyId = tuple[tuple[str, str, str], str]  # (relation, column) that a key names rows of


@dataclass(frozen=True, kw_only=True)
class Link:
    """``column -> table.key``: rows of a table belong to rows of another, each to at most one.

    Attributes:
        column: of the table itself, as the source has it.
        type: of the column and of the key: they are compared as they are.
        key: of the other table; no value stands there twice (``Table.unique``).
        parent: the other table, as far as its unit follows from it: neither its columns nor its figures.
    """

    column: str
    type: str
    key: str
    parent: Any  # a Table, which holds links

    @property
    def target(self) -> KeyId:
        """Relation and column that the key is of."""
        relation: tuple[str, str, str] = self.parent.relation
        return relation, self.key

    def __str__(self) -> str:
        return f"{self.column} -> {self.parent.name}.{self.key}"

    @classmethod
    def load(cls, raw: Mapping[str, Any], table: Callable[[dict[str, Any]], object]) -> Self:
        """What a declaration's JSON says."""
        return cls(**{**raw, "parent": table(dict(raw["parent"]))})


def read_link(text: object) -> tuple[str, str, str]:
    """(column, table, key) of the text of a link.

    Raises:
        ParameterError: P107.

    >>> read_link("visit_id -> visits.id")
    ('visit_id', 'visits', 'id')
    """
    found = _FORM.match(text) if isinstance(text, str) and len(text) < 1000 else None
    if found is None:
        raise ParameterError("P107", "link", text, 'must be "column -> table.key", as "visit_id -> visits.id".')
    column, table, key = (part.strip('"') for part in found.groups())
    return column, table.lower(), key
