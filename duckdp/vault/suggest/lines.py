"""A table's declaration to fill in, one line per figure and column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duckdp.catalog.table import Kind, RawColumn, kind_of
from duckdp.catalog.units import SAYS_NOTHING
from duckdp.catalog.values import enum_values
from duckdp.errors import printable
from duckdp.vault.suggest.keys import Proposal, ends_like_key
from duckdp.vault.suggest.schema import TableFacts

MOST_NOTE = 160  # characters
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
    if key.column is None:
        lines.append(_line("note", "unit_key", None, key.why))
    else:
        guessed = not key.sure and not key.left_out  # to be filled in, or taken out: rows are not persons unawares
        why = f"{key.column}? Without this and max_rows each row is a person. {key.why}" if guessed else key.why
        named = ... if guessed else key.column
        lines.append(_line("figure", "unit_key", named, why, live=key.sure or guessed))
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
    for column in facts.columns:
        if key.column != column.name:
            lines.append(_column_line(facts, column))
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
    if kind[0] is Kind.TEXT:
        return _line("domains", name, [...], note)
    bounds = next((c.bounds for c in checks if c.bounds is not None), None)
    if bounds is not None:
        return _line("bounds", name, tuple(bounds), f"{note}: {CONFIRM}", live=False)
    low = name.lower()
    if low in facts.unique or low in facts.references or low in SAYS_NOTHING or ends_like_key(name):
        return _line("bounds", name, (..., ...), f"{note}, a key: seldom asked about", live=False)
    return _line("bounds", name, (..., ...), note)


def _line(section: str, name: str, value: Any, note: str, *, live: bool = True) -> Line:
    """A line whose note stays a comment whatever names and constraints hold."""
    told = "".join(c for c in printable(" ".join(note.split())))
    told = told if len(told) <= MOST_NOTE else told[: MOST_NOTE - 3] + "..."
    return Line(section=section, name=name, value=value, note=told, live=live)
