"""Answers: values with error bars, what they cost, where they came from, what is left."""

from __future__ import annotations

import html
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from duckdp.arguments import MISFIT, checked, from_caller
from duckdp.errors import ParameterError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

_WIDE = Context(prec=60)
SUFFIXES = ("standard_error", "low", "high")
MOST_SHOWN = 40  # rows that are printed; the result holds all
LOPSIDED = 0.1  # the ends of an interval are shown where ± would be off by more than this share of the half-width


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One released number with its error.

    Attributes:
        value: the noisy value; None where it is undefined (an average over a noisy count that is not positive).
        standard_error: standard deviation of the noise; None where there is none to state.
        low, high: 95% interval for the value on the clamped data; None where no interval exists.
        exact: the interval's coverage is exact (counts, sums) rather than to first order (averages, ratios).
        note: what a reader of this number must know: which rows do not count, or why there is no interval.
    """

    value: float | int | None
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None
    exact: bool = True
    note: str | None = None

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width, or None without an interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def text(self) -> str:
        """The value with its interval: value ± half-width, or value [low, high] where that is lopsided."""
        if self.value is None:
            return "undefined"
        width = self.half_width
        if width is None or self.low is None or self.high is None:
            return _number(self.value)
        one_sided = math.isinf(width) and (math.isfinite(self.low) or math.isfinite(self.high))
        if not (one_sided or abs(self.low + self.high - 2 * self.value) > LOPSIDED * width):
            return f"{_rounded(self.value, width)} ± {_number(width)}"
        return f"{_rounded(self.value, width)} [{_rounded(self.low, width)}, {_rounded(self.high, width)}]"

    def __str__(self) -> str:
        return self.text + (f" ({self.note})" if self.note and self.value is not None else "")


@dataclass(frozen=True, kw_only=True)
class ResultColumn:
    """One column: plain ``values``, and ``estimates`` when they are released numbers."""

    name: str
    type: str
    values: list[Any]
    estimates: list[Estimate] | None = None

    def copied(self) -> ResultColumn:
        """The same in lists of its own."""
        estimates = None if self.estimates is None else list(self.estimates)
        return ResultColumn(name=self.name, type=self.type, values=list(self.values), estimates=estimates)


@dataclass(frozen=True, kw_only=True)
class Result:
    """A table of answers, with error bars where there are any.

    Attributes:
        columns: in the statement's order.
        cost: what this answer cost, for example "epsilon=0.5"; "nothing" for a stored or public answer.
        source: "charge 17" or "stored release of charge 17".
        remaining: what is left, with about how many such queries fit; empty for answers without a budget.
        notes: what a reader of the numbers must know.
        caveat: that note which goes with the numbers wherever they go, as a column ``note``; None if there is none.
    """

    columns: Sequence[ResultColumn]
    cost: str = "nothing"
    source: str = ""
    remaining: str = ""
    notes: Sequence[str] = field(default_factory=tuple)
    caveat: str | None = None

    # ---- rows -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*(c.values for c in self.columns), strict=True)

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return [c.name for c in self.columns]

    def __getitem__(self, at: str | int) -> Any:
        """Values of a column by its name (as in SQL, in either case), or a row by its number.

        Raises:
            ParameterError: P107, no such column. IndexError: no such row.
        """
        if isinstance(at, int):
            if not -sys.maxsize <= at <= sys.maxsize:
                raise IndexError("there is no such row")
            return tuple(c.values[at] for c in self.columns)
        found = [c for c in self.columns if c.name == at] if isinstance(at, str) else []
        if isinstance(at, str) and not found:
            found = [c for c in self.columns if c.name.lower() == at.lower()]
        if not found:
            raise ParameterError("P107", "column", at, f"is not one of {', '.join(self.names)}.")
        return found[0].values

    def rows(self) -> list[tuple[Any, ...]]:
        """Plain values, as a DB-API cursor would give them."""
        return list(self)

    fetchall = rows

    def estimates(self) -> list[dict[str, Any]]:
        """One dict a row: an :class:`Estimate` for each released number, the plain value for each key."""
        parts = [c.values if c.estimates is None else c.estimates for c in self.columns]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*parts, strict=True)]

    def one(self) -> Any:
        """The single cell of a one-row, one-column answer, as an Estimate when it is one.

        Raises:
            ParameterError: P107, there are more cells.
        """
        if len(self) != 1 or len(self.columns) != 1:
            raise ParameterError("P107", "one()", (len(self), len(self.columns)), "needs one row and one column.")
        column = self.columns[0]
        return column.values[0] if column.estimates is None else column.estimates[0]

    # ---- frames -----------------------------------------------------------------------------------------------

    @checked
    def arrow(self, *, intervals: bool = True) -> pyarrow.Table:
        """As an Arrow table; each released number brings ``<name>_standard_error``, ``_low`` and ``_high``.

        Where rows are dropped or scaled by max_rows, a column ``note`` says so.
        """
        import pyarrow as pa

        arrays, names = [], []
        for name, kind, values in self.typed(intervals=intervals):
            names.append(name)
            arrays.append(arrow_array(kind, values))
        return pa.table(dict(zip(names, arrays, strict=True)))

    @checked
    def df(self, *, intervals: bool = True) -> pandas.DataFrame:
        """As a pandas frame (pandas must be installed)."""
        return self.arrow(intervals=intervals).to_pandas()

    @checked
    def pl(self, *, intervals: bool = True) -> polars.DataFrame:
        """As a polars frame (polars must be installed)."""
        import polars as pl

        frame = pl.from_arrow(self.arrow(intervals=intervals))
        assert isinstance(frame, pl.DataFrame)
        return frame

    @checked
    def typed(self, *, intervals: bool = True, note: bool = False) -> list[tuple[str, str, list[Any]]]:
        """(name, DuckDB type, values) of each column, error columns and the caveat (always with note) last."""
        found = [(c.name, c.type, list(c.values)) for c in self.columns]
        if intervals:
            for c in self.columns:
                if c.estimates is not None:
                    found += [(f"{c.name}_{s}", "DOUBLE", [getattr(e, s) for e in c.estimates]) for s in SUFFIXES]
        if note or (intervals and self.caveat is not None):
            found.append((note_name(self.names), "VARCHAR", [self.caveat] * len(self)))
        return found

    # ---- text -------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        left = [c.estimates is None and c.type.upper() == "VARCHAR" for c in self.columns]
        lines = _text_table([_show(n) for n in self.names], self._cells(), left)
        return "\n".join([*lines, *self.footer()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cell = "style='text-align:right;padding:2px 10px'"
        head = "".join(f"<th {cell}>{html.escape(n)}</th>" for n in self.names)
        body = "".join(
            "<tr>" + "".join(f"<td {cell}>{html.escape(v)}</td>" for v in row) + "</tr>" for row in self._cells()
        )
        foot = "".join(f"<div style='opacity:.7'>{html.escape(line)}</div>" for line in self.footer())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}"

    def _cells(self) -> list[list[str]]:
        parts = [c.values if c.estimates is None else c.estimates for c in self.columns]
        shown = [[v.text if isinstance(v, Estimate) else v for v in p[:MOST_SHOWN]] for p in parts]
        return [[_show(v) for v in row] for row in zip(*shown, strict=True)]

    def footer(self) -> list[str]:
        """Lines under the table: rows left out, cost, source, what is left, notes."""
        lines = [] if len(self) <= MOST_SHOWN else [f"({len(self) - MOST_SHOWN} more rows)"]
        if self.source:
            lines.append(f"cost: {self.cost} ({self.source}){'; ' + self.remaining if self.remaining else ''}")
        return [_show(line) for line in (*lines, *(f"note: {n}" for n in self.notes))]


def note_name(names: Sequence[str]) -> str:
    """What the caveat's column is called beside others."""
    name, taken = "note", {n.lower() for n in names}
    while name in taken:
        name += "_"
    return name


def plain_result(names: Sequence[str], rows: Sequence[Sequence[Any]], types: Sequence[str] | None = None) -> Result:
    """A result without estimates: ordinary rows."""
    kinds = types or ["VARCHAR"] * len(names)
    columns = [
        ResultColumn(name=n, type=t, values=[r[i] for r in rows])
        for i, (n, t) in enumerate(zip(names, kinds, strict=True))
    ]
    return Result(columns=columns)


def columns_as_lists(given: object, name: str) -> dict[str, list[Any]]:
    """Values by column of a Result, an Arrow table or a mapping.

    Raises:
        ParameterError: P107, which names the parameter ``name``.
    """
    rule = "must be a Result, an Arrow table or a mapping, with columns of one length, and rows."
    found: Any = from_caller(_lists_of, given)
    if (
        found is MISFIT
        or not all(isinstance(n, str) for n in found)
        or len({len(v) for v in found.values()}) != 1
        or [] in found.values()
    ):
        raise ParameterError("P107", name, given, rule)
    return dict(found)


def _lists_of(given: Any) -> dict[str, list[Any]]:
    """Values by column, hashable ones; raises whatever what was given raises."""
    if isinstance(given, Result):
        raw: dict[str, Any] = {c.name: c.values for c in given.columns}
    else:
        raw = given.to_pydict() if hasattr(given, "to_pydict") else dict(given)
    found = {n: list(v.tolist() if hasattr(v, "tolist") else v) for n, v in raw.items()}
    hash(tuple(tuple(v) for v in found.values()))  # values that can be counted
    return found


def arrow_array(kind: str, values: Sequence[Any]) -> pyarrow.Array:
    """Values as an Arrow array of the type that DuckDB gives for its own type; a DECIMAL is a DECIMAL."""
    import pyarrow as pa

    decimal = re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", kind.upper())
    if decimal is None:
        return pa.array(values, type=_arrow_type(kind))
    step = Decimal(1).scaleb(-int(decimal[2]))
    exact = [None if v is None else Decimal(str(v)).quantize(step, context=_WIDE) for v in values]
    return pa.array(exact, type=pa.decimal128(int(decimal[1]), int(decimal[2])))


def _arrow_type(duckdb_type: str) -> Any:
    import pyarrow as pa

    integers = {
        "TINYINT": pa.int8(),
        "SMALLINT": pa.int16(),
        "INTEGER": pa.int32(),
        "UTINYINT": pa.uint8(),
        "USMALLINT": pa.uint16(),
        "UINTEGER": pa.uint32(),
        "UBIGINT": pa.uint64(),
        "FLOAT": pa.float32(),
    }
    if duckdb_type in integers:
        return integers[duckdb_type]
    return {
        "DOUBLE": pa.float64(),
        "BIGINT": pa.int64(),
        "VARCHAR": pa.string(),
        "BOOLEAN": pa.bool_(),
        "DATE": pa.date32(),
        "TIMESTAMP": pa.timestamp("us"),
        "HUGEINT": pa.decimal128(38, 0),
    }.get(duckdb_type)


def _show(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return _number(value)
    text = str(value)
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def _number(value: float) -> str:
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _rounded(value: float, error: float) -> str:
    """A value with as many digits as its error supports."""
    if isinstance(value, int) or error <= 0 or not math.isfinite(error):
        return _number(value)
    decimals = max(0, min(12, 2 - math.floor(math.log10(error)) - 1))
    return f"{value:,.{decimals}f}"


def _text_table(names: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[bool]) -> list[str]:
    """Lines of a table: text to the left, numbers to the right."""
    widths = [max(len(n), *(len(r[i]) for r in rows)) if rows else len(n) for i, n in enumerate(names)]

    def line(cells: Sequence[str]) -> str:
        padded = [c.ljust(w) if to_left else c.rjust(w) for c, w, to_left in zip(cells, widths, left, strict=True)]
        return "  ".join(padded).rstrip()

    return [line(names), "  ".join("-" * w for w in widths), *(line(row) for row in rows)]
