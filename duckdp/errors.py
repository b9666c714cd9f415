"""Every error of duckdp: one tree, stable codes, attributes to act on.

::

    DuckDPError
    |- ParameterError (ValueError)     P1xx  name, value, rule
    |- CatalogError                    C1xx  table, column
    |- QueryError                      Q1xx not one SELECT, Q2xx outside the allow-list,
    |                                  Q3xx a private value would escape, Q4xx sensitivity unbounded
    |- BudgetError                     B1xx
    |  |- InsufficientBudgetError      B101  requested, remaining; nothing was read, nothing was charged
    |  '- LedgerError                  B2xx  path
    |- ExecutionError                  E1xx  fixed text; the charge stays
    |- NumericalError                  N1xx  status, advice (post-processing only)
    '- InternalError                   X1xx  a broken invariant: refuse, never guess

A message is: code, place, what and its value, rule, way out. It shows parameters and names, never a value of the
data, a number of rows, engine text or generated SQL.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import islice
from types import EllipsisType, NoneType

CODES: dict[str, str] = {
    "P101": "epsilon is missing or is not a decimal between 0.000001 and 100 with at most 9 decimals",
    "P102": "delta is missing or is not a decimal of at most 18 decimals, at least 0 and below 1",
    "P103": "a noise scale is not positive and finite",
    "P104": "bounds contradict the column's type, are not finite, or lower >= upper",
    "P105": "a name does not match [a-z_][a-z0-9_]{0,62}",
    "P106": "the wanted error cannot be met or cannot be computed",
    "P107": "an argument has the wrong type, is out of range, or is missing",
    "C101": "the table is not protected here",
    "C102": "the column is not declared",
    "C103": "the table's schema is no longer the declared one",
    "C104": "the source changed since it was last accepted",
    "C105": "declarations contradict each other or the schema",
    "C106": "this relation cannot be protected",
    "C107": "the source is locked by another process",
    "C108": "the source cannot be opened, or cannot be read in full",
    "C109": "the privacy unit, neighbour relation and accountant are frozen by the first charge",
    "C110": "the summary, synthetic table or handle is unknown or belongs to somebody else",
    "C111": "the name is taken",
    "Q101": "the text is not SQL",
    "Q102": "the text holds more than one statement",
    "Q103": "the statement is not a SELECT",
    "Q104": "the statement or a value in it is too long, or nests too deeply",
    "Q105": "the analyst's own DuckDB instance refused the statement",
    "Q201": "the clause is outside the allow-list",
    "Q202": "the function is outside the allow-list",
    "Q203": "the types do not fit",
    "Q204": "this join, subquery, CTE or set operation over a protected table is outside the allow-list",
    "Q205": "the relation is not a protected table",
    "Q206": "the aggregate is outside the allow-list",
    "Q207": "the column is not declared",
    "Q301": "a private value stands outside an aggregate",
    "Q302": "SELECT * would return rows",
    "Q303": "the grouping key has a type whose equality is not exact",
    "Q304": "DISTINCT counts something other than the privacy unit",
    "Q401": "the column has no bounds, so the sensitivity is infinite",
    "Q402": "the expression has no finite bounds, so the sensitivity is infinite",
    "Q403": "there are too many keys, combinations of their declared values, or measures",
    "Q404": "keys without a declared domain need delta > 0",
    "Q405": "the rows are on several machines, and the figure does not follow from parts of them",
    "B101": "the budget does not cover the query",
    "B102": "the analyst has no grant",
    "B103": "the data set is frozen or the grant is revoked",
    "B104": "a budget cannot be set below what was spent",
    "B105": "a budget is raised only with raise_to and a reason",
    "B106": "the charge is final: its release failed three times",
    "B107": "no budget has been set",
    "B108": "the interactive release has ended: what it answered is given again, and nothing new is answered",
    "B109": "the reservation has ended, is held elsewhere, or is one too many",
    "B201": "the ledger was written by a newer version of duckdp",
    "B202": "the ledger is damaged",
    "B203": "the ledger is older than its anchor: it was restored from a copy or lost its journal",
    "B204": "the ledger's anchor is missing or damaged",
    "B205": "the ledger lies on a network file system",
    "B206": "the ledger is busy, or the same question is being answered elsewhere",
    "B207": "the file is not a ledger, or cannot be opened",
    "B208": "the ledger's anchor is elsewhere, and is not what was given",
    "B209": "the command that keeps the ledger's anchor failed",
    "B210": "the ledger is a backup",
    "B211": "the curator, connection or ledger is closed",
    "B212": "the curator, connection or ledger was opened before this process was forked",
    "B213": "the server of the ledger cannot be reached, or the connection to it was lost",
    "B214": "the server is not fit to keep a ledger",
    "B215": "the ledger was moved to a server",
    "E101": "DuckDB could not finish the query; its message is withheld because it may quote rows; asking the same "
    "again (not fresh) costs nothing, three attempts may read the data; where memory or the disk ran out, the data "
    "owner frees some",
    "E102": "the query was interrupted; its charge stays, and asking the same again (not fresh) costs nothing; "
    "three attempts may read the data",
    "E103": "the question to an interactive release was interrupted; the release goes on, and asking again is free",
    "E104": "memory ran out while rows were read, or the disk for what memory does not hold; asking the same again "
    "(not fresh) costs nothing, and three attempts may read the data, so let the owner give more first: memory= when "
    "the data set is opened, room for temporary files, in Spark spark.duckdp.memory and memory of its processes",
    "N101": "the solver did not reach an answer",
    "N102": "the function is not finite on the nodes",
    "X101": "an internal invariant does not hold",
}


class DuckDPError(Exception):
    """Base of all errors; ``code`` is a key of :data:`CODES`, ``message`` the text without it."""

    def __init__(self, code: str, message: str) -> None:
        if code not in CODES:
            code, message = "X101", f"unknown error code {code!r}"
        self.code = code
        self.message = _bounded(printable(message))
        super().__init__(f"{code}: {self.message}")


class Untold:
    """In an error the place of a value that is somebody's secret: its type is told, and how long a list is."""

    def __init__(self, value: object) -> None:
        kind = type(value)
        sized = isinstance(value, (str, bytes, list, tuple, dict, set, frozenset))
        self.told = f"<{kind.__name__} of {len(value)}>" if sized else f"<{kind.__name__}>"  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return self.told


class ParameterError(DuckDPError, ValueError):
    """A parameter breaks its rule."""

    def __init__(self, code: str, name: str, value: object, rule: str) -> None:
        self.name, self.value, self.rule = name, value, rule
        super().__init__(code, f"{name}={shown(value)}: {rule}")


class CatalogError(DuckDPError):
    """A declaration is missing, contradictory, or no longer fits the data."""

    def __init__(self, code: str, message: str, *, table: str | None = None, column: str | None = None) -> None:
        self.table, self.column = table, column
        super().__init__(code, message)


class QueryError(DuckDPError):
    """A statement is refused; ``line`` and ``col`` (from 1) say where, when known."""

    def __init__(
        self, code: str, message: str, *, sql: str | None = None, line: int | None = None, col: int | None = None
    ) -> None:
        self.sql, self.line, self.col = sql, line, col
        place = f"line {line}, col {col}: " if line is not None and col is not None else ""
        super().__init__(code, place + message)


class BudgetError(DuckDPError):
    """The ledger does not admit the charge or the change."""


class InsufficientBudgetError(BudgetError):
    """The budget does not cover the query: nothing was read, nothing was charged.

    Attributes:
        requested: text of what the query costs, for example ``epsilon=0.5``.
        remaining: text of what is left of ``scope``.
        scope: ``"analyst"``, ``'team "name"'``, ``"data set"`` or ``"reservation"``.
        month: of whose limit it is what is left, ``"2026-11"``; None: of the limit for ever.
        replenishes: when the next month begins.
        held: text of what reservations hold of it.
        of: what is short: ``"epsilon"``, ``"delta"`` or ``"epsilon and delta"``.
    """

    def __init__(
        self,
        requested: str,
        remaining: str,
        scope: str,
        *,
        month: str | None = None,
        replenishes: str | None = None,
        held: str | None = None,
        of: str = "epsilon",
    ) -> None:
        self.requested, self.remaining, self.scope, self.of = requested, remaining, scope, of
        self.month, self.replenishes, self.held = month, replenishes, held
        whose = "the reservation" if scope == "reservation" else f"the {scope}'s budget"
        parts = [f"the query needs {requested} and {remaining} remains of {whose}{f' for {month}' if month else ''}."]
        if held is not None:
            parts.append(f"Reservations hold {held} of it.")
        if replenishes is not None:
            parts.append(f"The next month's begins on {replenishes}.")
        way = "wait until then" if replenishes else "ask outside of it" if scope == "reservation" else None
        calls = {
            "analyst": "curator.grant(..., delta=...)",
            "team": "curator.team(..., delta=...)",
            "data": "curator.budget(..., delta=...)",
        }
        call = f": {calls[scope.split()[0]]}" if "delta" in of and scope.split()[0] in calls else ""
        ways = [f"lower {of}", *([way] if way else []), f"or ask the data owner for more{call}."]
        super().__init__("B101", " ".join([*parts, f"Nothing was read or charged; {', '.join(ways)}"]))


class LedgerError(BudgetError):
    """The ledger file itself is unusable."""

    def __init__(self, code: str, message: str, *, path: str | None = None) -> None:
        self.path = path
        super().__init__(code, message)


class ExecutionError(DuckDPError):
    """A private read failed; ``charge`` stays spent."""

    def __init__(self, code: str, charge: int | None) -> None:
        self.charge = charge
        kept = f" Charge {charge} stays spent." if charge is not None else ""
        super().__init__(code, f"{CODES[code]}.{kept}")


class NumericalError(DuckDPError):
    """Post-processing of released values failed; no budget is involved."""

    def __init__(self, code: str, message: str, *, status: str = "", advice: str = "") -> None:
        self.status, self.advice = status, advice
        super().__init__(code, message + (f" {advice}" if advice else ""))


class InternalError(DuckDPError):
    """A broken invariant; always a bug in duckdp."""

    def __init__(self, message: str) -> None:
        super().__init__("X101", message)


def without_past(error: BaseException, otherwise: str) -> DuckDPError:
    """What may be told of an error that came where rows are: one of ours, or X101 with a constant text.

    The text, cause, context and frames of any error may hold rows. Ours brings its text alone: whoever else holds the
    error finds no frames on it either. What is not ours brings nothing.

    Args:
        error: whatever was raised.
        otherwise: the text, where the error is none of ours.
    """
    error.__cause__ = error.__context__ = error.__traceback__ = None
    return error if isinstance(error, DuckDPError) else InternalError(otherwise)


_SHOWN = 80  # characters of a value
_MOST_TOLD = 1400  # characters of a message: its beginning and its end, where the way out stands
_PLAIN = {
    NoneType,
    bool,
    int,
    float,
    complex,
    Decimal,
    Fraction,
    dt.date,
    dt.datetime,
    dt.time,
    dt.timedelta,
    EllipsisType,
}


def _bounded(message: str) -> str:
    return message if len(message) <= _MOST_TOLD else f"{message[: _MOST_TOLD - 400]} ... {message[-390:]}"


def printable(text: str) -> str:
    """A text without control characters: what an analyst typed must not move the cursor of whoever reads it."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def shown(value: object, depth: int = 2) -> str:
    """A parameter's value in an error: at most a line, and no code of a caller's object runs for it."""
    kind = type(value)
    if kind is Untold:
        text = repr(value)
    elif isinstance(value, str):
        text = repr(str.__str__(value)[:_SHOWN])
    elif isinstance(value, int) and value.bit_length() > 4 * _SHOWN:
        text = f"<int of {value.bit_length()} bits>"
    elif kind in (bytes, bytearray):
        text = repr(value[:_SHOWN])  # type: ignore[index]
    elif kind in (list, tuple, set, frozenset):
        inner = [shown(each, depth - 1) for each in islice(value, 9)] if depth else ["..."]  # type: ignore[call-overload]
        text = {list: "[{}]", tuple: "({},)" if len(inner) == 1 else "({})"}.get(kind, "{{{}}}").format(
            ", ".join(inner)
        )
    elif kind is dict:
        pairs = islice(value.items(), 9) if depth else ()  # type: ignore[attr-defined]
        text = "{" + ", ".join(f"{shown(k, depth - 1)}: {shown(v, depth - 1)}" for k, v in pairs) + "}"
    elif kind in _PLAIN or isinstance(value, Enum):
        text = repr(value)
    else:
        text = f"<{kind.__module__}.{kind.__qualname__}>".replace("<builtins.", "<")
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
