"""Rows that a statement writes out itself, ``VALUES ('N', 'North'), ('S', 'South')``: they are no one's.

They are the analyst's own constants, fixed before any data is looked at, so they are public rows by post-processing:
all that ``with_public.py`` says of a published table holds of them word for word. A private row that meets F of them
counts F times, and F is counted here, of the values as they are compared: a number as the DOUBLE that is printed, a
text by its bytes. What is printed are the values, as literals and bound texts of our own, never the analyst's text;
the SQL of private rows reads no table for them, and so there is no version of a source that they belong to.

A question's identity holds their values (``Public.digest``), and not what the analyst called the columns.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from duckdp.catalog.public import Public, write_together
from duckdp.catalog.table import Column, Kind, Scalar, Table, write_json

NAME = "values"
EXACT = 2**53  # whole numbers up to here are exact as DOUBLE
MOST_PAIRED = 12  # columns that are looked at in pairs


@dataclass(frozen=True, kw_only=True)
class ConstantRows(Table):
    """A public table of constants.

    Attributes:
        values: row by row, a value for each column, of its kind; a number is what its DOUBLE is.
    """

    values: tuple[tuple[Scalar, ...], ...]

    @property
    def bases(self) -> tuple[Table, ...]:
        """No table is read for them."""
        return ()


def constant_rows(kinds: Sequence[tuple[Kind, str, bool]], rows: Sequence[Sequence[Scalar]]) -> ConstantRows:
    """The public table that constants are, with all that is computed of them.

    Args:
        kinds: (kind, DuckDB's type, whether all are whole numbers) of each column.
        rows: at least one; finite numbers, dates of the calendar, texts of at most 256 bytes, None.
    """
    values = tuple(tuple(_stored(v, kind) for v, (kind, _, _) in zip(row, kinds, strict=True)) for row in rows)
    columns = tuple(
        _column(place, kind, name, whole, [row[place] for row in values])
        for place, (kind, name, whole) in enumerate(kinds)
    )
    told = write_json([[kind.value for kind, _, _ in kinds], [[_told(v) for v in row] for row in values]])
    digest = hashlib.sha256(told.encode()).hexdigest()
    together = write_together({c.name: c.domain or () for c in columns}, values)
    public = Public(rows=len(values), digest=digest, source="", alike=_alike(values), **together)
    return ConstantRows(
        name=NAME, relation=("", "", NAME), columns=columns, row_cap=len(values), public=public, values=values
    )


def _stored(value: Scalar, kind: Kind) -> Scalar:
    """A value as it is compared: of a number the DOUBLE, where 0 has no sign; whole ones as such."""
    if kind is not Kind.NUMBER or value is None:
        return value
    number = float(value) + 0.0  # type: ignore[arg-type]
    return int(number) if number.is_integer() and abs(number) <= EXACT else number


def _told(value: Scalar) -> object:
    return repr(float(value)) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _column(place: int, kind: Kind, name: str, whole: bool, values: Sequence[Scalar]) -> Column:
    present = sorted({v for v in values if v is not None})
    bounded = kind in (Kind.NUMBER, Kind.DATE, Kind.TIMESTAMP)
    missing = None in values
    return Column(
        name=f"col{place}",
        source=f"col{place}",
        type=name,
        kind=kind,
        integral=kind is Kind.NUMBER and whole,
        nullable=missing,
        lower=present[0] if bounded else None,
        upper=present[-1] if bounded else None,
        domain=(*present, None) if missing else tuple(present),
    )


def _alike(values: Sequence[Sequence[Scalar]]) -> tuple[tuple[tuple[str, ...], int], ...]:
    """The most rows that are equal in a column, in two, and in all; none of them NULL."""
    width = len(values[0])
    sets: list[tuple[int, ...]] = [(i,) for i in range(width)]
    sets += [*combinations(range(min(width, MOST_PAIRED)), 2), tuple(range(width))]
    found = {}
    for places in sets:
        met = Counter(key for row in values if None not in (key := tuple(row[i] for i in places)))
        found[tuple(f"col{i}" for i in places)] = max(met.values(), default=0)
    return tuple(found.items())
