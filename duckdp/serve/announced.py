"""What Describe announced, and an answer that is sent as announced: no client reads rows of other columns.

A statement is described before its parameters are known, and settings may change before it is executed. The columns
that were announced stand: an answer is fitted to them, by its declared types alone and never by its values. What does
not fit is refused in PostgreSQL's own words, upon which drivers prepare the statement anew.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from duckdp.serve.running import Columns, Ran
from duckdp.serve.sqlstates import Refused
from duckdp.serve.values import (
    BOOL,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    Type,
)

_WHOLE = (INT2, INT4, INT8)
_NUMBERS = (*_WHOLE, FLOAT4, FLOAT8, NUMERIC)
_NOTE = "note"  # how the caveat's column begins to be called: whether there is one may depend on parameters
_PART = "day"  # a text that is a part of a date too
#: What a parameter is taken for while it is not known; only types follow, and only types are fitted.
_SAMPLES: dict[int, object] = {
    BOOL: True,
    **dict.fromkeys(_WHOLE, 1),
    **dict.fromkeys((FLOAT4, FLOAT8, NUMERIC), Decimal("0.5")),
    **dict.fromkeys((TEXT, VARCHAR), _PART),
    DATE: dt.date(2000, 1, 1),
    TIME: dt.time(12),
    TIMESTAMP: dt.datetime(2000, 1, 1),
    TIMESTAMPTZ: dt.datetime(2000, 1, 1, tzinfo=dt.UTC),
    INTERVAL: dt.timedelta(days=1),
    UUID: "00000000-0000-0000-0000-000000000000",
}
#: The same of one whose type is not known either, in turn: a share, a number of rows, a text, an instant, a span.
_GUESSES: tuple[object, ...] = (Decimal("0.5"), 1, _PART, dt.datetime(2000, 1, 1), dt.timedelta(days=1), True, None)
Take = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class Announced:
    """The columns that a client was told, and what they were made from.

    Attributes:
        columns: None: that there are none.
        terms: of private questions, as they were SET.
        values: of the parameters; None: they were not known.
    """

    columns: Columns | None
    terms: Mapping[str, str]
    values: Sequence[object] | None

    def holds(self, terms: Mapping[str, str], values: Sequence[object]) -> bool:
        """Whether a statement with these parameters was described, on these terms."""
        return self.terms == terms and (not values or values is self.values)


def samples(types: Sequence[int], *, private: bool) -> Iterator[list[object]]:
    """Parameters to describe a statement with, in turn: values of their types, and NULLs.

    Args:
        types: OIDs, 0 where it is not known.
        private: whether it is a question over protected tables, which NULL may leave no row or figure; else NULLs come
            first, of which DuckDB makes no type.
    """
    nulls: list[object] = [None] * len(types)
    if not types or not private:
        yield nulls
    if not types:
        return
    known = [_SAMPLES.get(oid) for oid in types]
    for guess in _GUESSES if 0 in types else _GUESSES[:1]:
        yield [guess if oid == 0 else value for oid, value in zip(types, known, strict=True)]
    if private:
        yield nulls


def require_fitting(found: Columns | None, announced: Columns | None) -> None:
    """Refuse a statement whose columns do not fit what was announced of it.

    Raises:
        Refused: 0A000.
    """
    if found is not None and announced is not None:
        _taken(found, announced)
    elif (found is None) != (announced is None):
        raise _changed()


def fitted(ran: Ran, announced: Columns | None) -> Ran:
    """An answer in the columns that were announced.

    Raises:
        Refused: 0A000, it does not fit.
    """
    require_fitting(ran.columns, announced)
    if ran.columns is None or announced is None or _same(ran.columns, announced):
        return ran
    takes = _taken(ran.columns, announced)

    def batches() -> Iterator[list[tuple[Any, ...]]]:
        for batch in ran.batches():
            yield [tuple(_value(row, i, take) for i, take in enumerate(takes)) for row in batch]

    return Ran(columns=announced, tag=ran.tag, _batches=batches())


def _value(row: Sequence[Any], place: int, take: Take | None) -> Any:
    value = row[place] if place < len(row) else None  # the note that was announced, of which there is none
    return value if value is None or take is None else take(value)


def _same(found: Columns, announced: Columns) -> bool:
    return [t.oid for _, t in found] == [t.oid for _, t in announced]


def _taken(found: Columns, announced: Columns) -> list[Take | None]:
    """How each announced column is taken from a value of the one in its place."""
    shorter, longer = sorted((found, announced), key=len)
    if len(longer) - len(shorter) > 1 or (len(longer) > len(shorter) and not _is_note(longer)):
        raise _changed()
    pairs = zip(found, announced, strict=False)
    return [_taking(one, told) for (_, one), (_, told) in pairs] + [None] * (len(announced) - len(found))


def _is_note(columns: Columns) -> bool:
    name, kind = columns[-1]
    return name.startswith(_NOTE) and kind.oid == TEXT


def _taking(found: Type, told: Type) -> Take | None:
    """How a value of one type is one of another, if each value is; None: as it is.

    Raises:
        Refused: 0A000.
    """
    if found.oid == told.oid:
        return None
    if told.oid == FLOAT8 and found.oid in _NUMBERS:
        return float
    if told.oid == NUMERIC and found.oid in _NUMBERS:
        return lambda value: Decimal(str(value))
    if told.oid in _WHOLE and found.oid in _WHOLE and told.size > found.size:
        return None
    if told.oid == TIMESTAMP and found.oid == DATE:
        return lambda value: dt.datetime.combine(value, dt.time())
    if told.oid == TEXT:
        return lambda value: found.text(value).decode()
    raise _changed()


def _changed() -> Refused:
    """What PostgreSQL says, and asyncpg and JDBC understand."""
    hint = "Prepare the statement anew, after what was SET, or say the types of its parameters: $1::DOUBLE. "
    told = hint + "An answer that was charged is stored."
    return Refused("0A000", "cached plan must not change result type", told, routine="RevalidateCachedQuery")
