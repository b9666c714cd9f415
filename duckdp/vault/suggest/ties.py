"""How a table without the unit hangs together with those that have it: it may be linked to one, or be no one's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from duckdp.catalog.link import read_link
from duckdp.catalog.units import SAYS_NOTHING
from duckdp.catalog.values import unit_key_allowed
from duckdp.errors import ParameterError
from duckdp.vault.suggest.schema import TableFacts

_ENDS = ("_id", "_key", "_uuid", "_guid", "_nr", "_no", "_pk", "id")
FOREIGN = "by a foreign key"


@dataclass(frozen=True, kw_only=True)
class Tie:
    """A key by which two tables may be joined, as the schema has it.

    Attributes:
        column: of the one table, as it is written there.
        to, key: the other table and its column.
        why: what speaks for it.
        unique: no value of the key stands twice, by the schema; else only the owner knows.
    """

    column: str
    to: str
    key: str
    why: str
    unique: bool

    @property
    def text(self) -> str:
        """The link as it is declared, ``visit_id -> visits.visit_id``."""
        return f"{self.column} -> {self.to}.{self.key}"


def find_links(schema: Mapping[str, TableFacts], having: set[str]) -> dict[str, Tie]:
    """For tables without the unit the link that gives it to them, where the schema has one; chains of links too.

    Args:
        schema: facts by table.
        having: tables with the unit, of their own.

    Returns:
        By table, each after those that it is linked to.
    """
    found: dict[str, Tie] = {}
    known = set(having)
    while True:
        added = {name: tie for name in sorted(set(schema) - known - set(found)) if (tie := _link(schema, name, known))}
        if not added:
            return found
        found |= added
        known |= {name for name, tie in added.items() if tie.unique}


def _link(schema: Mapping[str, TableFacts], name: str, known: set[str]) -> Tie | None:
    """The tie of a table that is most surely a link to one of these."""
    ties = [tie for to in sorted(known) for tie in _ties(schema[name], schema[to]) if _is_link(tie, name)]
    return max(ties, key=lambda t: (t.unique, t.why == FOREIGN, names_table(t.key, t.to)), default=None)


def find_public(schema: Mapping[str, TableFacts], name: str, known: set[str]) -> str | None:
    """The key of a table by which tables with the unit name its rows, as they name codes; None: they do not."""
    for other in sorted(known - {name}):
        for tie in _ties(schema[other], schema[name]):
            if tie.unique or names_table(tie.key, name):
                return tie.key
    return None


def _ties(facts: TableFacts, other: TableFacts) -> Iterator[Tie]:
    """Columns of a table that may name rows of another."""
    theirs = {c.name.lower(): c for c in other.columns}
    for column in facts.columns:
        low = column.name.lower()
        target = facts.references.get(low)
        named = target is not None and target[0] == other.name
        key = theirs.get(target[1] if named and target is not None else low)
        if key is None or key.type != column.type or not unit_key_allowed(column.type):
            continue
        if named or (low not in SAYS_NOTHING and _is_key(low, facts, other)):
            why = FOREIGN if named else "by name and type alone: low confidence"
            unique = key.name.lower() in other.unique
            yield Tie(column=column.name, to=other.name, key=key.name, why=why, unique=unique)


def _is_key(low: str, facts: TableFacts, other: TableFacts) -> bool:
    return low in other.unique or low in facts.unique or low.endswith(_ENDS)


def _is_link(tie: Tie, name: str) -> bool:
    """Whether a tie can be a link: the other table's key names one row, or may; the text says which columns."""
    try:
        plain = read_link(tie.text) == (tie.column, tie.to, tie.key)
    except ParameterError:
        plain = False
    return plain and (tie.unique or (names_table(tie.key, tie.to) and not names_table(tie.column, name)))


def names_table(column: str, table: str) -> bool:
    """Whether a key is called like a table's own: ``visit_id`` like ``visits``.

    >>> names_table("visit_id", "visits"), names_table("city", "cities"), names_table("visit_id", "labs")
    (True, True, False)
    """
    low, name = column.lower(), table.lower()
    stem = next((low.removesuffix(end) for end in _ENDS if low.endswith(end) and low != end), low).rstrip("_")
    return bool(stem) and name in (stem, f"{stem}s", f"{stem}es", f"{stem[:-1]}ies")
