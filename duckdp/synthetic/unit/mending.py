"""Rows that break a declared constraint, mended: what every method's rows pass through in the end. Post-processing.

Orders first, from below: a value moves up to those it must not be below. Then totals: parts give way where the total
would leave its bounds. Then what others determine: the most frequent value of each, as a function that every row has.
What is mended is none of what was mended before (``catalog.constraints`` sees to that), so all hold in the end.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.constraints import Constraint, Determined, Order, Total, decimals_of, order_steps, step_of
from duckdp.catalog.table import Column, Kind
from duckdp.catalog.values import EPOCH, as_number
from duckdp.synthetic.decode import objects_of

_ROUNDS = 100  # of parts that give way to the bounds of a total of DOUBLEs


@dataclass(frozen=True, kw_only=True, eq=False)
class Values:
    """The values of one column, with those that are NULL marked beside them.

    Attributes:
        numbers: of numbers, dates (days) and timestamps (microseconds) with bounds; else what they are.
        missing: which are NULL.
    """

    numbers: NDArray[Any]
    missing: NDArray[np.bool_]

    @classmethod
    def of(cls, numbers: NDArray[Any], column: Column) -> Values:
        """Values none of which is NULL."""
        whole = column.integral or column.kind is not Kind.NUMBER
        return cls(
            numbers=np.rint(numbers).astype(_type(column)) if whole else numbers, missing=np.zeros(len(numbers), bool)
        )


def read_values(values: NDArray[Any], column: Column) -> Values:
    """A column's values, from its own type."""
    if column.lower is None or column.domain is not None:
        return Values(numbers=values, missing=np.array([v is None for v in values.tolist()], dtype=bool))
    if values.dtype != object:
        return Values(numbers=values, missing=np.zeros(len(values), bool))
    listed = values.tolist()
    missing = np.array([v is None for v in listed], dtype=bool)
    filled = [_number(column.lower if v is None else v) for v in listed]
    return Values(numbers=np.array(filled, dtype=_type(column)), missing=missing)


def _type(column: Column) -> type[np.int64] | type[np.float64]:
    """Of a column's numbers: whole ones, unless its bounds (of a HUGEINT) are beyond them."""
    whole = column.integral or column.kind is not Kind.NUMBER
    ends = [as_number(end) for end in (column.lower, column.upper) if end is not None]
    return np.int64 if whole and all(abs(end) < 2**63 for end in ends) else np.float64


def _number(value: Any) -> float | int:
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    return as_number(value) if isinstance(value, dt.date) else value


def write_values(values: Values, column: Column) -> NDArray[Any]:
    """The inverse of :func:`read_values`."""
    if column.lower is None or column.domain is not None:
        return values.numbers
    if column.kind is Kind.NUMBER and not values.missing.any():
        return values.numbers
    if column.kind is Kind.NUMBER:
        found = values.numbers.astype(object)
    else:
        unit = "us" if column.kind is Kind.TIMESTAMP else "D"
        found = objects_of(values.numbers.astype(np.int64).astype(f"datetime64[{unit}]").astype(object).tolist())
    found[values.missing] = None
    return found


def keep(
    found: Mapping[str, Values], constraints: Sequence[Constraint], columns: Mapping[str, Column]
) -> dict[str, Values]:
    """Values of all columns, totals among them, that keep every constraint in every row.

    Args:
        found: by column; those of totals may be left out.
        constraints: of these columns.
        columns: by name, those of orders within bounds that leave room (``narrowed``).
    """
    done = dict(found)
    for name, below in order_steps(constraints):
        column, own = columns[name], done[name]
        least = lifted(column, below, done, columns, len(own.numbers))
        done[name] = replace(own, numbers=np.minimum(np.maximum(own.numbers, least), bound(column, column.upper)))
    for c in constraints:
        if isinstance(c, Total):
            _add_up(c, done, columns)
    waiting = [c for c in constraints if isinstance(c, Determined)]
    while waiting:
        ready = next(c for c in waiting if not {o.what for o in waiting}.intersection(c.by))
        done[ready.what] = _determine(ready, done)
        waiting.remove(ready)
    return done


def lifted(
    column: Column, below: Sequence[Order], found: Mapping[str, Values], columns: Mapping[str, Column], rows: int
) -> NDArray[Any]:
    """The least value that orders leave a column, in each row: its own least, where those below are NULL."""
    least = np.full(rows, bound(column, column.lower))
    for order in below:
        low = found[order.low]
        numbers = _next(low.numbers, columns[order.low]) if order.strict else low.numbers
        least = np.maximum(least, np.where(low.missing, least, _up(numbers, column)))
    return np.asarray(np.minimum(least, bound(column, column.upper)))


def bound(column: Column, value: Any) -> Any:
    """A bound as a number: whole for whole numbers, days and microseconds."""
    return int(as_number(value)) if _type(column) is np.int64 else float(as_number(value))


def _next(numbers: NDArray[Any], column: Column) -> NDArray[Any]:
    step = step_of(column)
    if not step:
        return np.asarray(np.nextafter(numbers, np.inf))
    moved = numbers + (int(step) if step == 1 else step)
    places = decimals_of(column)
    return np.asarray(np.round(moved, places) if places else moved)


def _up(numbers: NDArray[Any], column: Column) -> NDArray[Any]:
    """The nearest values of a column that are not below."""
    if column.kind is not Kind.NUMBER or numbers.dtype.kind == "i":
        return numbers
    places = decimals_of(column)
    if places is None:
        return numbers
    units = np.rint(numbers * 10.0**places)
    units += units / 10.0**places < numbers
    return np.asarray(units / 10.0**places if places else units.astype(_type(column)))


def _add_up(total: Total, done: dict[str, Values], columns: Mapping[str, Column]) -> None:
    """The total of each row, its parts moved where it would leave its bounds, in place.

    NULL where a part is; but where the total may not be NULL, NULLs count as nothing.
    """
    column, parts = columns[total.total], [done[n] for n in total.parts]
    places = decimals_of(column)
    scale = 10 ** (places or 0)

    def scaled(numbers: Any) -> Any:
        return np.rint(np.asarray(numbers, dtype=np.float64) * scale).astype(np.int64) if places else numbers

    bounds = [[scaled(bound(columns[n], b)) for b in (columns[n].lower, columns[n].upper)] for n in total.parts]
    low, high = (scaled(bound(column, b)) for b in (column.lower, column.upper))
    numbers = [scaled(p.numbers) for p in parts]
    missing = np.logical_or.reduce([p.missing for p in parts])
    for _ in range(_ROUNDS):
        added = _sum(numbers)
        if not (~missing & ((added > high) | (added < low))).any():
            break
        for k, (least, most) in enumerate(bounds):
            added = _sum(numbers)
            over = np.where(added > high, added - high, np.where(added < low, added - low, 0))
            moved = np.clip(numbers[k] - over, least, most)
            numbers[k] = np.where(missing, numbers[k], moved)
    given = _sum([np.where(p.missing, 0, n) for p, n in zip(parts, numbers, strict=True)])
    free = missing & (not column.nullable)
    given = np.where(free, np.clip(given, low, high), given)
    for name, p, n in zip(total.parts, parts, numbers, strict=True):
        done[name] = replace(p, numbers=n / scale if places else n)
    done[total.total] = Values(numbers=given / scale if places else given, missing=missing & ~free)


def _sum(numbers: Sequence[Any]) -> Any:
    """From the left, as SQL adds them up."""
    found = numbers[0]
    for more in numbers[1:]:
        found = found + more
    return found


def _determine(constraint: Determined, done: Mapping[str, Values]) -> Values:
    """The most frequent value of what is determined, for each of what determines it."""
    own, by = done[constraint.what], [done[n] for n in constraint.by]
    known = ~np.logical_or.reduce([own.missing, *(b.missing for b in by)])
    keys = list(zip(*(b.numbers[known].tolist() for b in by), strict=True))
    counts: dict[tuple[Any, ...], Counter[Any]] = defaultdict(Counter)
    for key, value in zip(keys, own.numbers[known].tolist(), strict=True):
        counts[key][value] += 1
    most = _most_frequent(counts, Counter(own.numbers[known].tolist()))
    numbers = own.numbers.copy()
    chosen = [most[key] for key in keys]
    numbers[known] = objects_of(chosen) if numbers.dtype == object else np.array(chosen, dtype=numbers.dtype)
    return replace(own, numbers=numbers)


def _most_frequent(counts: Mapping[Any, Counter[Any]], room: Counter[Any]) -> dict[Any, Any]:
    """A value for each key: that of most of its rows, else the most frequent of those with room left.

    Where rows hardly link the two, the values' own frequencies stay about what they were.
    """
    found = {}
    for key, seen in sorted(counts.items(), key=lambda item: (-item[1].total(), str(item[0]))):
        rows = seen.total()
        ranked = sorted(seen, key=lambda value: (-seen[value], str(value)))
        best = ranked[0]
        if 2 * seen[best] <= rows:
            roomy = [value for value in ranked if 2 * room[value] >= rows]
            best = roomy[0] if roomy else max(room, key=lambda value: (room[value], str(value)))
        found[key] = best
        room[best] -= rows
    return found
