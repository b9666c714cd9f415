"""Complete public domains of grouping keys: declared, or implied by the expression's type, bounds and domains.

Every value that the key can take (other than NULL) lies in the domain, whatever the data, or is left out: so all groups
can be released, empty ones included, and which keys exist stays private. Bounds imply a domain because rows are read
clamped to them. A function of columns with a domain has the function's values on it, computed on an empty instance by
the very SQL that reads the rows; rows outside a declared domain are then left out, or have its label for others.

NULL is a group where a declaration makes it a value: where a column's domain lists NULL, and whatever is made of the
column may be NULL for a row as declared. Elsewhere rows whose key is NULL are left out, and a note says so.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from duckdp.catalog.table import Column, Kind, Scalar
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, Literal, children, columns, replaced
from duckdp.compiler.facts import date_bounds, facts
from duckdp.compiler.images import image
from duckdp.compiler.listed_columns import by_day, days_between
from duckdp.compiler.operators import OPERATORS
from duckdp.compiler.operators.dates import UNITS
from duckdp.core.calendar import EARLIEST, bucket_number, bucket_start

EXACT = 2**53  # whole numbers up to here are exact as DOUBLE
MAX_IMPLIED = 10_000  # values of an implied domain; beyond it keys pass a threshold instead
STEPS = {
    "week": dt.timedelta(days=7),
    "day": dt.timedelta(days=1),
    "hour": dt.timedelta(hours=1),
    "minute": dt.timedelta(minutes=1),
}
MAX_TRIED = 100_000  # combinations of values on which a statement's functions of domains are computed
MAX_PARTS = 16  # of one function: more have too many combinations


@dataclass(frozen=True, kw_only=True)
class Domain:
    """The public values of a key.

    Attributes:
        values: in the order of the groups.
        other: the one of them that stands for values outside, or None: those are left out.
        source: where they come from, in words.
        complete: no row can have another value, but NULL.
        listed: rows are matched with the list, not taken at their word.
        nullable: a row whose columns have values of their domains, or others but NULL, may be NULL.
    """

    values: tuple[Scalar, ...]
    other: Scalar = None
    source: str
    complete: bool = True
    listed: bool = False
    nullable: bool = False


class Domains:
    """Finds the domains of a statement's keys: each part is looked at once, and what is computed for all is bounded."""

    def __init__(self) -> None:
        self.left = MAX_TRIED  # combinations
        self.found: dict[int, tuple[Expr, Domain | None]] = {}  # by identity: hashes of expressions are long

    def find(self, expr: Expr) -> Domain | None:
        """The domain of a key, or None when only a threshold can protect it.

        >>> Domains().find(Call("is_null_number", (Literal(1, Kind.NUMBER),), Kind.BOOLEAN)).values
        (False, True)
        """
        if id(expr) not in self.found:
            self.found[id(expr)] = (expr, self._derived(expr))
        return self.found[id(expr)][1]

    def _derived(self, expr: Expr) -> Domain | None:
        found = _direct(expr)
        if found is not None:
            return self._finer(expr, found)
        if isinstance(expr, Case):
            return self._chosen([v for _, v in expr.branches] + ([] if expr.default is None else [expr.default]), expr)
        if isinstance(expr, Call) and OPERATORS[expr.operator].picks_first:
            return self._chosen(expr.arguments, expr)
        return self._of_function(expr)

    def _finer(self, expr: Expr, found: Domain) -> Domain:
        """Of the whole numbers between bounds those that the function has: year * 100 + month has no month 13."""
        column = _only_column(expr)
        if column is None:
            return found
        values = days_between(column) if isinstance(column.lower, dt.date) else _of_number(ColumnRef(column))
        if not values or len(values) > min(MAX_IMPLIED, self.left) or not by_day(expr, column):
            return found
        self.left -= len(values)
        had = set(image(expr, {ColumnRef(column): values})) | {None}
        left = tuple(v for v in found.values if v in had)
        return replace(found, values=left, listed=True) if set(left) != set(found.values) and any(left) else found

    def _chosen(self, parts: Sequence[Expr], whole: Expr) -> Domain | None:
        """The values of CASE or coalesce: those of its parts."""
        domains: list[Domain] = []
        for part in parts:
            found = _constant(part) if isinstance(part, Literal) else self.find(part)
            if found is None:
                return None
            domains.append(found)
        others = {d.other for d in domains if d.other is not None}
        if len(others) > 1:
            return None
        values = dict.fromkeys(v for d in domains for v in d.values)
        if isinstance(whole, Case):
            nullable = whole.default is None or any(d.nullable for d in domains)
        else:  # each of coalesce takes the place of the NULLs before it, those outside the declarations too
            nullable = None in domains[-1].values or all(d.nullable for d in domains)
        if not nullable:
            values.pop(None, None)
        elif _lists_null(whole):
            values[None] = None
        if not 0 < len(values) <= MAX_TRIED:
            return None
        return Domain(
            values=tuple(values),
            other=next(iter(others), None),
            source=_source(whole),
            listed=True,
            complete=all(d.complete for d in domains),
            nullable=nullable,
        )

    def _of_function(self, expr: Expr) -> Domain | None:
        """The values of a function on those of the columns, or parts, that it is a function of."""
        parts = self._parts(expr, top=True)
        tried = math.prod(len(d.values) + 1 for d in (parts or {}).values())
        if not parts or tried > self.left:
            return None
        self.left -= tried
        values = image(expr, {e: _inside(e, d) for e, d in parts.items()})
        implied = any(d.complete for d in parts.values())
        if not values or len(values) > (MAX_IMPLIED if implied else MAX_TRIED):
            return None
        if any(isinstance(v, float) and not abs(v) <= EXACT for v in values):
            return None
        whole = facts(expr).integral
        shown = [int(v) if whole and isinstance(v, float) and v.is_integer() else v for v in values]
        nullable = None in shown
        if not nullable and any(d.nullable and None not in d.values for d in parts.values()):
            nullable = _nullable(expr)  # by what the image was not computed on
            shown += [None] if nullable and _lists_null(expr) else []
        others = {d.other for e, d in parts.items() if d.other is not None and e.kind is expr.kind}
        other = next(iter(others)) if len(others) == 1 else None
        if other is not None and other not in shown:
            shown.append(other)
        return Domain(
            values=tuple(shown),
            other=other,
            source=_source(expr),
            listed=True,
            complete=all(d.complete for d in parts.values()),
            nullable=nullable,
        )

    def _parts(self, expr: Expr, *, top: bool = False) -> dict[Expr, Domain] | None:
        """Sub-expressions with domains that cover every column, outermost first; None where one has none."""
        if isinstance(expr, Literal):
            return {}
        found = None if top else self.find(expr) if isinstance(expr, Case) else _direct(expr)
        if found is not None:
            return {expr: found}
        if isinstance(expr, (ColumnRef, Case)):
            return None
        parts: dict[Expr, Domain] = {}
        for child in children(expr):
            inner = self._parts(child)
            if inner is None or len(parts := parts | inner) > MAX_PARTS:
                return None
        return parts


def _only_column(expr: Expr) -> Column | None:
    """The column that a whole number is computed from, where its bounds may leave room for numbers it cannot be.

    A part of a date, or a column that is moved by a constant, has all that is between its bounds.
    """
    read = columns(expr)
    if not isinstance(expr, Call) or expr.kind is not Kind.NUMBER or len(read) != 1 or read[0].domain is not None:
        return None
    if read[0].lower is None or read[0].null_value is not None:
        return None
    moved = len(expr.arguments) == 1 or OPERATORS[expr.operator].whole is not None
    plain = [a for a in expr.arguments if not isinstance(a, Literal)] == [ColumnRef(read[0])]
    return None if moved and plain else read[0]


def _direct(expr: Expr) -> Domain | None:
    """A domain that is declared, or follows from type and bounds."""
    if isinstance(expr, ColumnRef) and expr.column.domain is not None:
        column, values = expr.column, expr.column.domain
        values = values if column.other is None or column.other in values else (*values, column.other)
        return Domain(
            values=values, other=column.other, source="declared", complete=False, listed=True, nullable=None in values
        )
    found: tuple[Scalar, ...] | None
    if expr.kind is Kind.BOOLEAN:
        found = (False, True)
    elif isinstance(expr, Case):
        found = _of_case(expr)
    elif expr.kind is Kind.NUMBER:
        found = _of_number(expr)
    else:
        found = _of_moment(expr) if expr.kind in (Kind.DATE, Kind.TIMESTAMP) else None
    if found is None:
        return None
    nullable = _nullable(expr)
    with_null = nullable and _lists_null(expr)
    source = _source(expr)
    if expr.kind is Kind.BOOLEAN:
        source = "true, false and NULL" if with_null else "true and false"
    values = (*found, None) if with_null else found
    return Domain(values=values, source=source, listed=with_null, nullable=nullable)


def _lists_null(expr: Expr) -> bool:
    """Whether it reads a column in whose domain NULL is."""
    return any(None in (c.domain or ()) for c in columns(expr))


def _nullable(expr: Expr) -> bool:
    """Whether it may be NULL, or is not known not to be, for a row whose columns are NULL only where that is listed."""

    def declared(part: Expr) -> Expr | None:
        if not isinstance(part, ColumnRef):
            return None
        return replace(part, column=replace(part.column, nullable=None in (part.column.domain or ())))

    return facts(replaced(expr, declared)).nullable


def _source(expr: Expr) -> str:
    """Whose declarations a domain follows from."""
    read = columns(expr)
    listed = [c.name for c in read if c.domain is not None]
    bounded = [c.name for c in read if c.domain is None and c.lower is not None]
    parts = [f"the {what} of {', '.join(names)}" for what, names in (("domain", listed), ("bounds", bounded)) if names]
    return "from " + (" and ".join(parts) or "the statement")


def _constant(literal: Literal) -> Domain:
    value = literal.value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT:
        value = float(value)
    return Domain(values=() if value is None else (value,), source="", nullable=value is None)


def _inside(expr: Expr, domain: Domain) -> tuple[Scalar, ...]:
    """Values that rows can have: the label for others is none, unless the domain lists it."""
    if isinstance(expr, ColumnRef) and expr.column.domain is not None:
        return expr.column.domain
    return tuple(v for v in domain.values if v != domain.other) if domain.other is not None else domain.values


def _of_case(expr: Case) -> tuple[Scalar, ...] | None:
    results = [v for _, v in expr.branches] + ([expr.default] if expr.default is not None else [])
    values: list[Scalar] = []
    for result in results:
        if not isinstance(result, Literal):
            return _of_number(expr) if expr.kind is Kind.NUMBER else None
        value = float(result.value) if type(result.value) is int and abs(result.value) > EXACT else result.value
        if value is not None and value not in values:
            values.append(value)
    return tuple(values) or None


def _of_number(expr: Expr) -> tuple[Scalar, ...] | None:
    known = facts(expr)
    if isinstance(expr, Call) and OPERATORS[expr.operator].whole is not None and known.integral:
        return _of_shifted(expr)
    if not known.integral or not known.interval.largest <= EXACT:
        return None
    low, high = math.ceil(known.interval.lower), math.floor(known.interval.upper)
    return tuple(range(low, high + 1)) if high - low < MAX_IMPLIED else None


def _of_shifted(expr: Call) -> tuple[Scalar, ...] | None:
    """The domain of (x + c), (x - c), (c - x), (x * c) or -x, from that of x: bands like floor(x / 10) * 10."""
    if not facts(expr).interval.largest <= EXACT:
        return None
    parts = [_of_number(a) for a in expr.arguments]
    if any(p is None for p in parts) or sum(len(p or ()) > 1 for p in parts) > 1:
        low, high = facts(expr).interval.lower, facts(expr).interval.upper
        return tuple(range(math.ceil(low), math.floor(high) + 1)) if high - low < MAX_IMPLIED else None
    exact = OPERATORS[expr.operator].whole
    assert exact is not None
    return tuple(sorted({exact(*pick) for pick in product(*(p or () for p in parts))}))


def _of_moment(expr: Expr) -> tuple[Scalar, ...] | None:
    """The days, or starts of periods, between the bounds of a date or timestamp."""
    truncated = isinstance(expr, Call) and OPERATORS[expr.operator].period
    if expr.kind is Kind.TIMESTAMP and not truncated:
        return None
    unit, inner = (expr.option, expr.arguments[0]) if isinstance(expr, Call) and truncated else ("day", expr)
    bounds = date_bounds(inner)
    if bounds is None:
        return None
    first, last = (_as_kind(d, expr.kind) for d in bounds)
    if unit not in UNITS:
        return _buckets(first, last, unit)
    values = [_truncate(first, unit)]
    while len(values) <= MAX_IMPLIED and (following := _next(values[-1], unit)) is not None and following <= last:
        values.append(following)
    return tuple(values) if len(values) <= MAX_IMPLIED else None


def _buckets(first: dt.date, last: dt.date, width: str) -> tuple[Scalar, ...] | None:
    """Starts of the buckets that hold the moments between two."""
    as_micros = "datetime64[us]"
    ends = np.array([first, last], dtype=as_micros).astype(np.int64)
    low, high = bucket_number(width, ends)
    if high - low >= MAX_IMPLIED:
        return None
    starts = bucket_start(width, np.arange(low, high + 1))
    starts = starts[starts >= EARLIEST].astype(as_micros).tolist()
    return tuple(s if isinstance(first, dt.datetime) else s.date() for s in starts)


def _as_kind(d: dt.date, kind: Kind) -> dt.date:
    if kind is Kind.DATE:
        return d.date() if isinstance(d, dt.datetime) else d
    return d if isinstance(d, dt.datetime) else dt.datetime.combine(d, dt.time())


def _next(start: dt.date, unit: str) -> dt.date | None:
    """Start of the period after the one that starts there; None beyond the calendar."""
    months = {"year": 12, "quarter": 3, "month": 1}.get(unit)
    try:
        if months is None:
            return start + STEPS[unit]
        years, month = divmod(start.month - 1 + months, 12)
        return start.replace(year=start.year + years, month=month + 1, day=1)
    except (OverflowError, ValueError):
        return None


def _truncate(d: dt.date, unit: str) -> dt.date:
    """The start of the period that holds d."""
    if isinstance(d, dt.datetime):
        hour, minute = d.hour if unit in ("hour", "minute") else 0, d.minute if unit == "minute" else 0
        d = d.replace(hour=hour, minute=minute, second=0, microsecond=0)
    match unit:
        case "year":
            return d.replace(month=1, day=1)
        case "quarter":
            return d.replace(month=(d.month - 1) // 3 * 3 + 1, day=1)
        case "month":
            return d.replace(day=1)
        case "week":
            return d - dt.timedelta(days=d.weekday())  # the first day of year 1 is a Monday
    return d
