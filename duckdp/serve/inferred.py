"""Types of parameters that a client leaves to the server, as asyncpg and others do: those of what they stand beside."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from duckdp.serve.values import INT8, type_of

_COLUMN = r'(?:(?:"[^"]+"|\w+)\s*\.\s*)?(?:"(?P<quoted>[^"]+)"|(?P<plain>[A-Za-z_]\w*))'
_BESIDE = re.compile(
    r"(?<!\w)"  # a word is tried from its beginning alone: from each of its letters took the square of its length
    + _COLUMN
    + r"\s*(?P<sign>=|<>|!=|<=|>=|<|>|\b(?:not\s+)?(?:between|i?like|in\s*\())\s*"
    + r"(?P<list>(?:any|all)\s*\(\s*)?(?P<all>\$\d+(?:\s*(?:,|\band\b)\s*\$\d+)*)",
    re.IGNORECASE,
)
_BEFORE = re.compile(r"(?P<all>\$\d+)\s*(?:=|<>|!=|<=|>=|<|>)\s*" + _COLUMN, re.IGNORECASE)
_COUNTS = re.compile(r"\b(?:limit|offset)\s+\$(\d+)", re.IGNORECASE)


def inferred(text: str, wanted: int, columns: Callable[[], Mapping[str, str]]) -> list[int]:
    """OIDs of $1, $2, ...; 0 where it does not show.

    Args:
        text: the statement.
        wanted: how many it has.
        columns: DuckDB's types of the columns that may be meant, by lower-case name.

    >>> inferred("SELECT 1 FROM v WHERE v.a > $1 AND b = ANY($2) LIMIT $3", 3, lambda: {"a": "DATE", "b": "INTEGER"})
    [1082, 1007, 20]
    """
    found = [0] * wanted
    kinds = columns() if wanted else {}
    for place in [*_BESIDE.finditer(text), *_BEFORE.finditer(text)]:
        kind = kinds.get((place["quoted"] or place["plain"]).lower())
        listed = bool(place.groupdict().get("list"))
        for number in map(int, re.findall(r"\$(\d+)", place["all"])):
            if kind is not None and number <= wanted:
                found[number - 1] = type_of(kind).array if listed else type_of(kind).oid
    for place in _COUNTS.finditer(text):
        if int(place[1]) <= wanted:
            found[int(place[1]) - 1] = INT8
    return found
