"""A table's declaration to fill in, one line per figure and column."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from duckdp.catalog.link import read_link
from duckdp.catalog.table import Kind, RawColumn, kind_of
from duckdp.catalog.units import SAYS_NOTHING
from duckdp.catalog.values import enum_values
from duckdp.errors import printable
from duckdp.vault.suggest.keys import Proposal, ends_like_key
from duckdp.vault.suggest.schema import TableFacts

MOST_NOTE = 160  # characters
MOST_WHY = 600  # characters of what says whose a row is, with all ways to declare it
#: What columns of free text are called, whose values are about as many as the rows.
FREE = frozenset(
    (
        *("email", "mail", "name", "firstname", "lastname", "surname", "fullname", "username", "login", "phone"),
        *("telephone", "mobile", "fax", "address", "street", "url", "uri", "link", "website", "ip", "iban", "ssn"),
        *("comment", "note", "text", "description", "remark", "message", "body", "title", "subject", "summary"),
        *("token", "hash", "password", "path", "filename", "file", "query", "content", "review", "memo", "passport"),
    )
)
CONFIRM = "confirm that nobody read it off the data"


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a suggested declaration.

    Attributes:
        section: "figure", "bounds", "domains", "columns", or "note", which stays a comment.
        name: of the figure or the column.
        value: the figure; ``...`` stands for what only the owner knows.
        note: beside it.
        live: False where it is to be confirmed first: commented out.
    """

    section: str
    name: str
    value: Any
    note: str
    live: bool = True


def suggest_lines(facts: TableFacts, key: Proposal) -> list[Line]:
    """All lines of a table."""
    lines = [
        _line("figure", "row_cap", ..., "public upper bound of the number of rows"),
        _line("figure", "expected_rows", ..., "public guess of that number, for predicted errors", live=False),
    ]
    lines += _unit_lines(facts, key)
    for name, sure in key.unique:
        why = "unique by the schema" if sure else f"if no {name} stands twice"
        told = f"{why}: others may be linked by it; compared with the rows when it is declared"
        lines.append(_line("figure", "unique", [name], told, live=sure))
    joined = {name for name, sure in key.unique if sure} | ({read_link(key.link)[0]} if key.link is not None else set())
    for column in facts.columns:
        if key.column == column.name:
            continue
        if column.name in joined:
            told = f"{column.type}, a key: a join of linked tables compares it"
            lines.append(_line("columns", column.name, True, told))
        else:
            lines.append(_column_line(facts, column))
    return lines


def _unit_lines(facts: TableFacts, key: Proposal) -> list[Line]:
    """What says whose a row is, and how many rows of one count."""
    if key.link is not None:
        return [
            _line("figure", "link", key.link, key.why),
            _line("figure", "max_rows", ..., "rows of one unit that count per group"),
            _line("figure", "max_groups", ..., "groups of one unit that count", live=False),
        ]
    if key.column is None:
        return [_line("note", "unit_key", None, key.why, most=MOST_WHY)]
    lines = []
    guessed = not key.sure and not key.left_out  # to be filled in, or taken out: rows are not persons unawares
    why = f"{key.column}? Without this and max_rows each row is a person. {key.why}" if guessed else key.why
    named = ... if guessed else key.column
    lines.append(_line("figure", "unit_key", named, why, live=key.sure or guessed, most=MOST_WHY))
    if key.unit is not None:
        lines.append(_line("figure", "unit", key.unit, "what the keys of these tables name", live=key.sure))
    single = key.column.lower() in facts.unique
    most = 1 if single else ...
    of_one = f"rows of one {key.column} that count per group"
    lines.append(_line("figure", "max_rows", most, of_one, live=key.sure or guessed))
    lines.append(_line("figure", "max_groups", ..., f"groups of one {key.column} that count", live=False))
    nobody = [...] if key.default is None else [key.default]
    why = (
        "keys that name nobody, such as 0 or 'unknown'"
        if key.default is None
        else "the key's DEFAULT: does it name nobody?"
    )
    lines.append(_line("figure", "null_units", nobody, why, live=False))
    return lines


def _column_line(facts: TableFacts, column: RawColumn) -> Line:
    name, kind = column.name, kind_of(column.type)
    checks = facts.checks.get(name.lower(), [])
    said = "; ".join(f"CHECK {c.text}" for c in checks)
    if column.generated:
        return _line("note", name, None, "generated, computed in every read: open with snapshot=True, which stores it")
    if kind is None:
        return _line("note", name, None, f"{column.type} has no rule, so nobody can ask about it")
    if (listed := enum_values(column.type)) is not None:
        return _line("domains", name, list(listed), f"the values of the ENUM: {CONFIRM}", live=False)
    values = next((c.values for c in checks if c.values is not None), None)
    if values is not None:
        return _line("domains", name, list(values), f"{column.type}, {said}: {CONFIRM}", live=False)
    note = column.type + (f", {said}" if said else "")
    if kind[0] is Kind.BOOLEAN:
        return _line("columns", name, True, note)
    if kind[0] is Kind.TEXT and _is_free(facts, column):
        why = f"{note}, called like what hardly two share: no list of its values is public; leave it out unless needed"
        return _line("columns", name, True, why, live=False)
    if kind[0] is Kind.TEXT:
        return _line("domains", name, [...], f"{note}: all values that it may have, from a code book, not the data")
    bounds = next((c.bounds for c in checks if c.bounds is not None), None)
    if bounds is not None:
        return _line("bounds", name, tuple(bounds), f"{note}: {CONFIRM}", live=False)
    low = name.lower()
    if low in facts.unique or low in facts.references or low in SAYS_NOTHING or ends_like_key(name):
        return _line("bounds", name, (..., ...), f"{note}, a key: seldom asked about", live=False)
    return _line("bounds", name, (..., ...), note)


def _is_free(facts: TableFacts, column: RawColumn) -> bool:
    """Whether a text is called like one that people write, or like a key: a list of its values would name them."""
    low = column.name.lower()
    parts = {p.lower() for p in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", column.name)}
    called = parts & FREE or {p.removesuffix("s") for p in parts} & FREE
    return bool(called) or low in facts.unique or low in facts.references or ends_like_key(column.name)


def _line(section: str, name: str, value: Any, note: str, *, live: bool = True, most: int = MOST_NOTE) -> Line:
    """A line whose note stays a comment whatever names and constraints hold."""
    told = "".join(c for c in printable(" ".join(note.split())))
    told = told if len(told) <= most else told[: most - 3] + "..."
    return Line(section=section, name=name, value=value, note=told, live=live)
