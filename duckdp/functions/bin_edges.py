"""Bins of a column that are public: from its declared bounds, and how many by formula or as asked."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from duckdp.catalog.table import Kind, Table
from duckdp.compiler.bin_counts import Bins
from duckdp.compiler.expression import Expr
from duckdp.compiler.facts import date_bounds, facts
from duckdp.compiler.pair_moments import argument_span, read_number
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.errors import ParameterError

MOST_BINS = 4_096  # of one histogram, in each group
UNKNOWN = 10  # bins where nobody says how many rows there are
_SPREAD = 6  # standard deviations that a column's bounds are taken to span, to choose by
_ROUND = (
    Fraction(1),
    Fraction(2),
    Fraction(5, 2),
    Fraction(5),
    Fraction(10),
)  # widths that people read, by powers of 10
_WHOLE = 2.0**61  # bounds up to here have edges, rounded outwards, that are numbers of eight bytes
_DAYS = (1, 2, 7, 14, 28, 91, 182, 364)  # widths of dates


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A column, or an expression, that rows are counted by.

    Attributes:
        value: as a number of rows; of dates the days since ``day``.
        day: the first day, of dates; else None.
        whole: its values are whole numbers.
        lower: least value.
        upper: largest.
    """

    value: Expr
    day: dt.date | None
    whole: bool
    lower: float
    upper: float

    @property
    def type(self) -> str:
        """DuckDB type of its edges."""
        return "DATE" if self.day is not None else "BIGINT" if self._counted else "DOUBLE"

    @property
    def _counted(self) -> bool:
        return self.whole and self.lower >= -_WHOLE and self.upper <= _WHOLE

    def shown(self, edges: Sequence[float]) -> list[object]:
        """Edges as values of that type."""
        if self.day is not None:
            return [self.day + dt.timedelta(days=round(edge)) for edge in edges]
        return [round(edge) if self._counted else edge for edge in edges]


def read_axis(text: str, table: Table) -> Axis:
    """A number, or a date, of rows with finite bounds.

    Raises:
        QueryError: Q1xx to Q4xx. ParameterError: P107, a range that cannot be used.
    """
    given = Scalars(RowScope(table, None, text).leaf, text)(parse_scalar(text))
    days = date_bounds(given) if given.kind is Kind.DATE else None
    if days is not None:
        first, last = days
        value = read_number(f"date_diff('day', DATE '{first.isoformat()}', {text})", table, "a date that is counted")
        return Axis(value=value, day=first, whole=True, lower=0.0, upper=float((last - first).days))
    value = read_number(text, table, "what is counted by bins")
    span = argument_span(value)
    return Axis(value=value, day=None, whole=facts(value).integral, lower=span.lower, upper=span.upper)


def choose_bins(axis: Axis, wanted: int | None, *, rows: int | None, noise: float) -> Bins:
    """Equal bins between the bounds: as many as asked, or with round edges and a width that balances two errors.

    Of a density over a range of length 1, in bins of width h: what is lost within bins is about h^2 R / 12, R the
    squared slope of the density added up, taken of a normal law that spans the range by six deviations; noise of
    deviation s on each count of n rows adds (s / (n h))^2, and what sample they are 1 / (n h).

    Args:
        axis: the column.
        wanted: so many; None: by formula.
        rows: to be expected; None: nobody said.
        noise: deviation of one count, in rows.

    Raises:
        ParameterError: P107.
    """
    span = Fraction(axis.upper) - Fraction(axis.lower)
    values = int(span) + 1 if axis.whole else None
    if wanted is not None and wanted > MOST_BINS:
        raise ParameterError("P107", "bins", wanted, f"must be at most {MOST_BINS:,}.")
    if wanted is not None:
        if values is not None:  # whole numbers in each
            width = Fraction(max(1, -(-values // wanted)))
            return Bins(first=Fraction(axis.lower), width=width, count=-(-values // int(width)))
        return Bins(first=Fraction(axis.lower), width=span / wanted, count=wanted)
    best = min(UNKNOWN if rows is None else _balanced(rows, noise), values or MOST_BINS)
    width = _round_width(Fraction(values if values is not None else span) / best, axis)
    first = Fraction(axis.lower) if axis.day is not None else math.floor(Fraction(axis.lower) / width) * width
    end = Fraction(axis.upper) + (1 if axis.whole else 0)
    return Bins(first=first, width=width, count=max(1, math.ceil((end - first) / width)))


def _balanced(rows: int, noise: float) -> int:
    """How many bins have the least error by formula."""
    slope = _SPREAD**3 / (4 * math.sqrt(math.pi))

    def error(count: int) -> float:
        return slope / 12 / count**2 + (noise * count / rows) ** 2 + count / rows

    return min(range(1, MOST_BINS // 16 + 1), key=error)


def _round_width(width: Fraction, axis: Axis) -> Fraction:
    """A width near this one that people read: 1, 2, 2.5 or 5 times a power of ten, whole where values are, or days."""
    if axis.day is not None:
        years = [365 * k for k in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)]
        return Fraction(min((*_DAYS, *years), key=lambda days: abs(math.log(days / width))))
    power = Fraction(10) ** math.floor(math.log10(width))
    options = [r * power for r in _ROUND]
    if axis.whole:
        options = [o for o in options if o.denominator == 1] or [Fraction(1)]
    return min(options, key=lambda o: abs(math.log(o / width)))
