"""What a prepared call of a dp function is, and how its text arguments are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from duckdp.catalog.table import Table
from duckdp.compiler.expression import Expr
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.select import read_predicate
from duckdp.errors import ParameterError
from duckdp.result import Result, note_name

NOTE = ("note", "VARCHAR")  # the caveat's column


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A validated call: its result's columns, and what to do when it runs.

    Attributes:
        columns: (name, DuckDB type) in order.
        run: takes the call's nonce (which makes ``fresh`` the same question when retried); may charge.
        intervals: whether error columns are among ``columns``, and the caveat where there is one.
        note: whether the last of ``columns`` is the caveat, whatever it is.
    """

    columns: list[tuple[str, str]]
    run: Callable[[str], Result]
    intervals: bool = False
    note: bool = False


def read_where(text: str | None, table: Table) -> Expr | None:
    """A predicate given as text."""
    return None if text is None else read_predicate(parse_scalar(str(text)), table, f"SELECT {text}")


def told(predicate: str | None) -> str:
    """A predicate as the ledger shows it."""
    return "" if predicate is None else f", predicate := {predicate}"


def with_errors(columns: list[tuple[str, str]], caveat: str | None = None) -> list[tuple[str, str]]:
    """Columns followed by the error columns of each, and one for a caveat."""
    errors = [
        (f"{n}_{s}" if n != "value" else s, "DOUBLE") for n, _ in columns for s in ("standard_error", "low", "high")
    ]
    return columns + errors + ([(note_name([n for n, _ in columns]), "VARCHAR")] if caveat is not None else [])


def read_flag(name: str, value: object) -> bool:
    """True or false; P107 otherwise."""
    found = {"true": True, "false": False, "1": True, "0": False}.get(str(value).lower())
    if found is None:
        raise ParameterError("P107", name, value, "must be true or false.")
    return found


def read_given(name: str, value: object) -> str:
    """A text that must be there: the NULL of SQL is not the text None; P107 otherwise."""
    if value is None:
        raise ParameterError("P107", name, value, "must be given.")
    return str(value)


def read_list(name: str, value: object) -> list[str]:
    """A list of texts, () for none; P107 otherwise."""
    given = () if value is None else value
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else [None]
    if not all(isinstance(text, str) for text in listed):
        raise ParameterError("P107", name, value, "must be a list of texts.")
    return [str(text) for text in listed]


def read_number(name: str, value: object) -> float:
    """A finite number; P107 otherwise."""
    try:
        number = float(str(value))
    except ValueError:
        raise ParameterError("P107", name, value, "must be a number.") from None
    if not math.isfinite(number):
        raise ParameterError("P107", name, value, "must be a finite number.")
    return number


def read_size(name: str, value: object, default: int) -> int:
    """A whole number above 0, or what is meant by None; P107 otherwise."""
    found = read_whole(name, value)
    if found is not None and not 0 < found < 2**62:
        raise ParameterError("P107", name, value, "must be a whole number above 0.")
    return default if found is None else found


def read_whole(name: str, value: object) -> int | None:
    """A whole number or None; P107 otherwise."""
    if value is None:
        return None
    try:
        return int(str(value))
    except ValueError:
        raise ParameterError("P107", name, value, "must be a whole number.") from None
