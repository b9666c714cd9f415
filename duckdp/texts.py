"""Texts that others wrote, made safe to keep and to show: cut, Unicode, without what moves a cursor or is a formula."""

from __future__ import annotations

from typing import Any

MOST_STORED = 4096  # characters of a charged statement in the ledger


def storable(text: str) -> str:
    """A statement as it is kept: its beginning, and how long it was; what is not Unicode is replaced."""
    if len(text) > MOST_STORED:
        text = f"{text[:MOST_STORED]}... ({len(text):,} characters)"
    return text.encode("utf-8", "replace").decode()


def escape(text: str) -> str:
    r"""Text that is safe on a terminal: whatever is not printable stands as an escape; line ends stay.

    >>> escape("SELECT 1\x1b[2J")
    'SELECT 1\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def sql_text(text: str) -> str:
    """A text as a literal of SQL, whatever is in it.

    >>> sql_text("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def csv_cell(value: Any) -> Any:
    """A cell of a CSV file: text that a spreadsheet would read as a formula gets a leading apostrophe.

    >>> csv_cell("=1+1"), csv_cell("a - b"), csv_cell(-1)
    ("'=1+1", 'a - b', -1)
    """
    if not isinstance(value, str):
        return value
    shown = escape(value)
    return "'" + shown if shown[:1] in ("=", "+", "-", "@", "\t") else shown
