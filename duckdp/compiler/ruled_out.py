"""Keys that WHERE leaves no row: they are no groups, as in DuckDB.

Which of a key's public values some row could have follows from the text and the declarations alone: the key and the
parts of WHERE that read nothing but the key's columns are evaluated on every value that these columns can have. So
``WHERE dept IN ('er', 'ward') GROUP BY dept`` has two groups, a monthly series ``WHERE year(day) = 2024``
twelve. Comparisons narrow bounds too: hours between two moments of a day are few enough to be listed, those of years
are not.

Proof: let the conditions of WHERE be A and B, where A reads the key's columns only. A row that counts makes A true, so
its key is f(v) for some values v of these columns with A(v), and every v that rows can have (as they are read: clamped
to bounds, in their domain) is tried, NULL too. A column with a label for other values may hold anything: its label
stays. Rows are matched with the list that remains, so none crosses that is not in it. Nothing of this reads data.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from duckdp.catalog.table import Column, Kind, Scalar
from duckdp.compiler.domains import Domain, Domains
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, Literal, columns, replaced
from duckdp.compiler.images import image
from duckdp.compiler.listed_columns import few_values, tells
from duckdp.compiler.operators import row_of
from duckdp.compiler.query import Key
from duckdp.compiler.relations.narrowed import conjuncts_of

MOST_TRIED = 20_000  # combinations of a key's columns
Ends = tuple[Scalar, Scalar]
_TOLD = ", as far as WHERE allows"
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


def left_by(key: Key, where: Expr | None) -> Key:
    """The key with the values of its domain that WHERE lets rows have.

    Where it cannot be told, or none is left (the answer is known then, without the data), it stays as it is.
    """
    read = {c.name for c in columns(key.expr)}
    told = [c for c in conjuncts_of(where) if read.issuperset(n.name for n in columns(c)) and columns(c)]
    if not told:
        return key
    if key.domain is None:
        few = _narrowed(key, told)
        if few is None:
            return key
        return replace(key, domain=few.values, listed=True, complete=True, source=few.source + _TOLD)
    left = _tried(key, told)
    if left is None and (few := _narrowed(key, told)) is not None:
        left = set(few.values)
    if left is None:
        return key
    domain = tuple(v for v in key.domain if v in left or (v == key.other and v is not None))
    if not domain or len(domain) == len(key.domain):
        return key
    return replace(key, domain=domain, listed=True, source=key.source + _TOLD)


def _tried(key: Key, told: Sequence[Expr]) -> set[Scalar] | None:
    """The key's values on all that its columns can be, where conditions hold; None where that is no short list."""
    asked = [c for c in told if all(is_told_of(column, c) for column in columns(c))]
    condition = _all(asked)
    atoms: dict[Expr, tuple[Scalar, ...]] = {}
    for column in columns(key.expr):
        values = _values(column, told, [key.expr, *asked], alone=key.expr == ColumnRef(column))
        if values is None:
            return None
        atoms[ColumnRef(column)] = values
    if math.prod(len(v) + 1 for v in atoms.values()) > MOST_TRIED:
        return None
    found = set(image(Case(((condition, key.expr),), None, key.expr.kind), atoms)) - {None}
    if key.domain is not None and None in key.domain:
        null = Call(f"is_null_{key.expr.kind.value}", (key.expr,), Kind.BOOLEAN)
        without = Case(
            ((Call("and", (condition, null), Kind.BOOLEAN), Literal(True, Kind.BOOLEAN)),), None, Kind.BOOLEAN
        )
        found |= {None} if True in image(without, atoms) else set()
    return found


def _values(column: Column, told: Sequence[Expr], whole: Sequence[Expr], *, alone: bool) -> tuple[Scalar, ...] | None:
    """All that a column can be, NULL aside; None where they are not listed, or rows may have others unseen.

    Of a column with a domain rows may have other values. As a key these are left out; a function of them may be kept.
    """
    if column.domain is not None:
        return column.domain if alone else None
    return values_told(column, told, whole)


def values_told(column: Column, told: Sequence[Expr], whole: Sequence[Expr]) -> tuple[Scalar, ...] | None:
    """All that a column without a declared domain can be, as far as expressions tell; None where that is no short list.

    Args:
        column: of the rows.
        told: conditions, of which comparisons with constants leave it fewer values.
        whole: what is evaluated on them; of conditions those that :func:`is_told_of` it.
    """
    within = within_bounds(column, told)
    found = None if column.kind in (Kind.DATE, Kind.TIMESTAMP) else Domains().find(ColumnRef(within))
    if found is not None and found.complete:
        return found.values
    return few_values(column, whole, within)


def is_told_of(column: Column, condition: Expr) -> bool:
    """Whether a condition is the same on all values of a column that one of :func:`values_told` stands for."""
    if column.domain is not None or tells(condition, column):
        return True
    found = None if column.kind is Kind.TIMESTAMP else Domains().find(ColumnRef(column))
    return found is not None and found.complete


def within_bounds(column: Column, told: Sequence[Expr]) -> Column:
    """A column with the bounds that comparisons with constants leave it; as it is where they leave it no value."""
    if column.domain is not None or column.lower is None or column.null_value is not None:
        return column
    found = column
    for condition in told:
        for ends in _comparisons(condition, column):
            found = _within(found, ends)
    return found if _at(found.lower) <= _at(found.upper) else column  # type: ignore[operator]


def _all(conditions: Sequence[Expr]) -> Expr:
    """All of them together."""
    if not conditions:
        return Literal(True, Kind.BOOLEAN)
    return conditions[0] if len(conditions) == 1 else Call("and", tuple(conditions), Kind.BOOLEAN)


def _narrowed(key: Key, told: Sequence[Expr]) -> Domain | None:
    """The key's domain where the bounds of its only column are narrowed by conditions; None where no value is left."""
    read = columns(key.expr)
    if len(read) != 1:
        return None
    column = _within_days(read[0], within_bounds(read[0], told), told)
    if column == read[0]:
        return None

    def narrow(part: Expr) -> Expr | None:
        return ColumnRef(column) if part == ColumnRef(read[0]) else None

    found = Domains().find(replaced(key.expr, narrow))
    return found if found is not None and found.complete and found.values else None


def _within_days(column: Column, within: Column, told: Sequence[Expr]) -> Column:
    """A column with narrower bounds, which end with the first and the last day on which conditions may hold."""
    asked = [c for c in told if tells(c, column)]
    if column.kind not in (Kind.DATE, Kind.TIMESTAMP) or column.lower is None or not asked:
        return within
    values = few_values(column, asked, within)
    if values is None or len(values) > MOST_TRIED:
        return within
    there = Case(((_all(asked), ColumnRef(column)),), None, column.kind)
    found = [v for v in image(there, {ColumnRef(column): values}) if isinstance(v, dt.date)]
    if not found:
        return within
    last = max(found)  # of a moment any of its day
    return _within(within, (min(found), dt.datetime.combine(last, dt.time.max) if _is_moment(last) else last))


def _is_moment(value: dt.date) -> bool:
    return isinstance(value, dt.datetime)


def _comparisons(condition: Expr, column: Column) -> Iterator[Ends]:
    """Least and greatest value that a condition, a comparison of the column with constants, leaves it."""
    if not isinstance(condition, Call):
        return
    stem, arguments = row_of(condition).family, condition.arguments
    if stem in _TURNED and arguments[-1] == ColumnRef(column):
        stem, arguments = _TURNED[stem], arguments[::-1]
    given = [_constant(a) for a in arguments[1:]]
    if stem in _LEAVES and arguments[0] == ColumnRef(column) and None not in given:
        yield _LEAVES[stem](given, column.kind)


def _constant(expr: Expr) -> Scalar:
    """A number, date or timestamp that is constant, a date as a timestamp included; None of anything else."""
    if isinstance(expr, Call) and row_of(expr).family in _FOLDED:
        return _at(_constant(expr.arguments[0]))
    value = expr.value if isinstance(expr, Literal) else None
    return None if isinstance(value, (str, bool)) else value


def _within(column: Column, ends: Ends) -> Column:
    """A column whose bounds are narrowed."""
    low, high = ends
    if low is not None and _at(column.lower) < _at(low):  # type: ignore[operator]
        column = replace(column, lower=low)
    if high is not None and _at(high) < _at(column.upper):  # type: ignore[operator]
        column = replace(column, upper=high)
    return column


def _at(value: Scalar) -> Scalar:
    """Comparable with the others of its column."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime.combine(value, dt.time())
    return value


def _next(value: Scalar, kind: Kind, *, up: bool) -> Scalar:
    """The value of the column's type that follows, or comes before; the value itself at the end of the calendar."""
    if kind is Kind.NUMBER:
        return float(np.nextafter(float(value), math.inf if up else -math.inf))  # type: ignore[arg-type]
    assert isinstance(value, dt.date)
    step = dt.timedelta(microseconds=1) if kind is Kind.TIMESTAMP else dt.timedelta(days=1)
    try:
        return value + (step if up else -step)
    except OverflowError:
        return value


_FOLDED = frozenset({"to_timestamp"})  # families of operators that make a constant of a constant
#: Ends that a comparison with constants leaves, each None where it leaves it open.
_LEAVES: Mapping[str, Callable[[Sequence[Scalar], Kind], Ends]] = {
    "eq": lambda given, _: (given[0], given[0]),
    "between": lambda given, _: (given[0], given[1]),
    "le": lambda given, _: (None, given[0]),
    "lt": lambda given, kind: (None, _next(given[0], kind, up=False)),
    "ge": lambda given, _: (given[0], None),
    "gt": lambda given, kind: (_next(given[0], kind, up=True), None),
}
