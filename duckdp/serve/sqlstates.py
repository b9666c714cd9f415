"""Errors as PostgreSQL's clients want them: SQLSTATE, message, hint, place; our code stays the message's first word."""

from __future__ import annotations

import re

import duckdb

from duckdp.front.guarded import told

_CODED = re.compile(r"\b([A-Z]\d{3}): ")
_PLACE = re.compile(r"\bline (\d+), col (\d+): ")
_PLACED = re.compile(r"[A-Z]\d{3}: line (\d+), col (\d+): ")  # how a refusal of the wire's own begins that has a place
_EXCERPT = re.compile(r"\n\nLINE (\d+): ([^\n]*)\n( *)\^+\s*\Z")  # DuckDB's: the place is told by its number instead
#: By our code, or its first letters; the longest that fits.
STATES = {
    "Q101": "42601",
    "Q102": "42601",
    "Q104": "54000",
    "Q105": "42000",
    "Q1": "42601",
    "Q2": "0A000",
    "Q205": "42P01",
    "Q207": "42703",
    "Q3": "42501",
    "Q4": "42803",
    "P": "22023",
    "C101": "42P01",
    "C103": "40001",
    "C110": "42P01",
    "C111": "42710",
    "C": "55000",
    "B101": "53400",
    "B": "42501",
    "E102": "57014",
    "E104": "53200",
    "E": "58000",
    "N": "22000",
}
_OF_DUCKDB: tuple[tuple[type[Exception], str], ...] = (
    (duckdb.SyntaxException, "42601"),
    (duckdb.ParserException, "42601"),
    (duckdb.CatalogException, "42P01"),
    (duckdb.BinderException, "42703"),
    (duckdb.ConversionException, "22P02"),
    (duckdb.OutOfRangeException, "22003"),
    (duckdb.TypeMismatchException, "42804"),
    (duckdb.ConstraintException, "23000"),
    (duckdb.TransactionException, "25000"),
    (duckdb.InterruptException, "57014"),
    (duckdb.OutOfMemoryException, "53200"),
    (duckdb.PermissionException, "42501"),
    (duckdb.NotImplementedException, "0A000"),
)


class Refused(Exception):
    """A refusal of the wire's own.

    Args:
        state: SQLSTATE.
        message: for whoever asked.
        hint: what to do.
        routine: of PostgreSQL's, by which drivers know what they may do about it.
    """

    def __init__(self, state: str, message: str, hint: str = "", routine: str = "") -> None:
        super().__init__(message)
        self.state, self.message, self.hint, self.routine = state, message, hint, routine


def fields(error: BaseException, text: str) -> dict[str, str]:
    """An error's fields (``messages.problem``); of what is not for analysts, a constant one.

    Args:
        error: as DuckDB or the wire raised it.
        text: the statement.
    """
    if isinstance(error, Refused):
        found = {"C": error.state, "M": error.message} | {
            k: v for k, v in (("H", error.hint), ("R", error.routine)) if v
        }
        if (place := _PLACED.match(error.message)) is not None:
            found["P"] = str(_position(text, int(place[1]), int(place[2])))
        return found
    if not isinstance(error, duckdb.Error):
        return {"C": "XX000", "M": "X101: the server failed on this statement. Nothing more is known of it."}
    shown = told(error, text)
    excerpt = _EXCERPT.search(shown)
    shown = shown if excerpt is None else shown[: excerpt.start()]
    if coded := _CODED.search(shown):
        whole = shown[coded.start() :]
        found = {"C": state_of(coded[1]), "M": whole}
        place = _PLACE.search(whole)
        if place is not None:
            found["P"] = str(_position(text, int(place[1]), int(place[2])))
        return found
    state = next((s for kind, s in _OF_DUCKDB if isinstance(error, kind)), "XX000")
    found = {"C": state, "M": shown}
    if excerpt is not None:
        place_in_line = len(excerpt[3]) - len(f"LINE {excerpt[1]}: ")
        line = text.split("\n")[int(excerpt[1]) - 1 : int(excerpt[1])]
        if line == [excerpt[2]] and place_in_line >= 0:  # a long line is cut
            found["P"] = str(_position(text, int(excerpt[1]), place_in_line + 1))
    return found


def state_of(code: str) -> str:
    """The SQLSTATE of one of our codes.

    >>> state_of("B101"), state_of("Q312"), state_of("X101")
    ('53400', '42501', 'XX000')
    """
    return next((STATES[code[:n]] for n in (4, 2, 1) if code[:n] in STATES), "XX000")


def _position(text: str, line: int, column: int) -> int:
    lines = text.split("\n")
    return sum(len(each) + 1 for each in lines[: line - 1]) + column
