"""Errors of connections to a server, as PEP 249 names them, with our code beside PostgreSQL's."""

from __future__ import annotations

import re

_CODED = re.compile(r"([A-Z]\d{3}): ")


class Warning(Exception):
    """Something that is no error; never raised here."""


class Error(Exception):
    """What a server refused, or could not do.

    Attributes:
        code: of duckdp ("B101", see docs/errors.md), or None where it is PostgreSQL's or DuckDB's alone.
        sqlstate: PostgreSQL's five signs, or None where there was no server to say.
        position: character of the statement that it is about, from 1; or None.
        hint: what to do, or None.
    """

    def __init__(
        self, message: str, *, sqlstate: str | None = None, position: int | None = None, hint: str | None = None
    ) -> None:
        coded = _CODED.match(message)
        self.code = coded[1] if coded else None
        self.sqlstate, self.position, self.hint = sqlstate, position, hint
        super().__init__(f"{message} {hint}" if hint else message)


class InterfaceError(Error):
    """The connection or the cursor is used as it cannot be."""


class DatabaseError(Error):
    """The server refused what it was asked."""


class DataError(DatabaseError):
    """A value is none of its type, or out of range."""


class OperationalError(DatabaseError):
    """The budget, the grant, the connection or the server does not allow it."""


class IntegrityError(DatabaseError):
    """A constraint of the analyst's own tables."""


class InternalError(DatabaseError):
    """The server failed on what it was asked."""


class ProgrammingError(DatabaseError):
    """The statement: its text, names, what it may not ask."""


class NotSupportedError(DatabaseError):
    """The statement is outside of what is offered."""


_KINDS: dict[str, type[DatabaseError]] = {
    "0A": NotSupportedError,
    "08": OperationalError,
    "22": DataError,
    "23": IntegrityError,
    "28": OperationalError,
    "53": OperationalError,
    "54": OperationalError,
    "57": OperationalError,
    "58": OperationalError,
    "XX": InternalError,
}


def problem_of(fields: dict[str, str]) -> DatabaseError:
    """The error that a server told.

    Args:
        fields: of its message, by letter: C, M, H, P.
    """
    state = fields.get("C", "XX000")
    place = fields.get("P", "")
    return _KINDS.get(state[:2], ProgrammingError)(
        fields.get("M", ""),
        sqlstate=state,
        position=int(place) if place.isdecimal() else None,
        hint=fields.get("H"),
    )
