"""What a server sent, as a Result: error columns become error bars, notices become cost and notes."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Any

from duckdp.result import SUFFIXES, Estimate, Result, ResultColumn

_COST = re.compile(r"cost: (?P<cost>.*?) \((?P<source>[^()]*)\)(?:; (?P<remaining>.*))?\Z", re.DOTALL)
_MORE = re.compile(r"\(\d+ more rows\)\Z")


def make_result(names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]], told: list[str]) -> Result:
    """Rows that a server sent, as a Result with error bars where it has any.

    Args:
        names: of the columns, ``n_standard_error``, ``n_low`` and ``n_high`` for the error bars of ``n`` included.
        types: DuckDB's names.
        rows: of values.
        told: NOTICEs of the statement. One that says what it cost makes it an answer, whose error columns become
            error bars; all others are notes.
    """
    values = [[_plain(row[i]) for row in rows] for i in range(len(names))]
    columns = [ResultColumn(name=n, type=t, values=v) for n, t, v in zip(names, types, values, strict=True)]
    paid = next((found for line in told if (found := _COST.match(line))), None)
    notes = [line.removeprefix("note: ") for line in told if not _COST.match(line) and not _MORE.match(line)]
    if paid is None:
        return Result(columns=columns, notes=notes)
    columns, caveat = _with_bars(columns)
    return Result(
        columns=columns,
        cost=paid["cost"],
        source=paid["source"],
        remaining=paid["remaining"] or "",
        notes=notes,
        caveat=caveat,
    )


def _with_bars(columns: list[ResultColumn]) -> tuple[list[ResultColumn], str | None]:
    """Columns in place of those that stand for error bars, which come after all others, and the caveat."""
    names = [c.name for c in columns]
    begin = next(
        (
            i
            for i, name in enumerate(names)
            if name.endswith(f"_{SUFFIXES[0]}") and name.removesuffix(f"_{SUFFIXES[0]}") in names[:i]
        ),
        None,
    )
    if begin is None:
        return columns, None
    bars: dict[str, list[ResultColumn]] = {}
    at = begin
    while at < len(names) and names[at].endswith(f"_{SUFFIXES[0]}"):
        base = names[at].removesuffix(f"_{SUFFIXES[0]}")
        if names[at : at + 3] != [f"{base}_{s}" for s in SUFFIXES] or base not in names[:begin]:
            return columns, None  # columns that have such names of themselves
        bars[base] = columns[at : at + 3]
        at += 3
    rest = columns[at:]
    if len(rest) > 1:
        return columns, None
    caveat = next((value for value in rest[0].values if value is not None), None) if rest else None
    return [_estimated(c, bars.get(c.name)) for c in columns[:begin]], caveat


def _estimated(column: ResultColumn, bars: list[ResultColumn] | None) -> ResultColumn:
    if bars is None:
        return column
    estimates = [
        Estimate(value=value, standard_error=error, low=low, high=high, exact=False)
        for value, error, low, high in zip(column.values, *(b.values for b in bars), strict=True)
    ]
    return ResultColumn(name=column.name, type=column.type, values=column.values, estimates=estimates)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, uuid.UUID) else value
