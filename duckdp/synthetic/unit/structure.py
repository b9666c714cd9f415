"""Columns as a method models them, where structure that people see would be lost: calendars, gaps, totals.

    timestamp, date   beside it the hour (0 to 23), the weekday and the month as domains of their own, where its range
                      is so wide that bins of it tell nothing of them
    a <= b            in place of b its distance above a, on a scale of its logarithm: short stays are told apart
    a + b = c         c is not modelled
    x -> y            both are; rows are mended by the most frequent y of each x

What is modelled of a row is a function of that row alone, so what a release of it costs stays the same. ``restore``
gives rows their own columns back and keeps every constraint: post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from duckdp.catalog.constraints import Constraint, Order, Total, among, decimals_of, narrowed, order_steps
from duckdp.catalog.table import Column, Kind
from duckdp.catalog.values import as_number
from duckdp.synthetic.unit.calendar_days import DAY, HOUR, TENTHS, What, with_parts
from duckdp.synthetic.unit.mending import Values, bound, keep, lifted, read_values, write_values

_HOURLY = 2  # days of a range from which hours are modelled,
_WEEKLY = 70  # weekdays: a tenth of the range is a week,
_MONTHLY = 1500  # and months: two and more for each of twenty bins
_FINE = 1000  # steps of a range, of which one is the unit of a distance of numbers with decimal places
PARTS: dict[What, tuple[int, ...]] = {
    "hour": tuple(range(24)),
    "weekday": tuple(range(7)),
    "month": tuple(range(1, 13)),
}
"""Values of the calendar parts, as SQL has them: ``hour``, ``dayofweek`` (Sunday is 0), ``month``."""


@dataclass(frozen=True, kw_only=True)
class Derived:
    """A column of the model that the table has not.

    Attributes:
        column: as the model has it; its name is no other column's, but that of what a gap stands for.
        what: of it.
        of: name of the table's column.
        below: of a gap: what it is above of.
        unit: of a gap: a distance that is told from none.
    """

    column: Column
    what: What
    of: str
    below: tuple[Order, ...] = ()
    unit: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Structure:
    """What is modelled of which columns; public.

    Attributes:
        columns: of the table, in order.
        constraints: that the owner declared of them.
        calendar: whether timestamps and dates have parts beside them; not in releases of earlier versions.
    """

    columns: tuple[Column, ...]
    constraints: tuple[str, ...] = ()
    calendar: bool = True

    @cached_property
    def kept(self) -> list[Constraint]:
        """The constraints that hold among these columns."""
        return among(self.constraints, [c.name for c in self.columns])

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """Columns as they are read: those of orders leave room for those above and below."""
        bounds = narrowed(self.kept, {c.name: c for c in self.columns})
        return {c.name: _within(c, bounds.get(c.name)) for c in self.columns}

    @cached_property
    def derived(self) -> tuple[Derived, ...]:
        """Columns that are modelled beside, or in place of, those of the table."""
        found = [self._gap(name, below) for name, below in order_steps(self.kept) if below]
        taken = {c.name.lower() for c in self.columns}
        for column in self.columns if self.calendar else ():
            for what in calendar_parts(self.by_name[column.name]):
                name = f"{column.name} {what}"
                while name.lower() in taken:
                    name += " "
                taken.add(name.lower())
                domain = PARTS[what]
                part = Column(
                    name=name,
                    source=name,
                    type="BIGINT",
                    kind=Kind.NUMBER,
                    integral=True,
                    nullable=column.nullable,
                    domain=domain,
                    other=None if column.nullable else domain[0],
                )
                found.append(Derived(column=part, what=what, of=column.name))
        return tuple(found)

    @cached_property
    def modelled(self) -> tuple[Column, ...]:
        """All that is modelled: the table's own columns, but for totals, gaps in place of theirs; parts at the end."""
        totals = {c.total for c in self.kept if isinstance(c, Total)}
        gaps = {d.of: d.column for d in self.derived if d.what == "gap"}
        own = [gaps.get(n, c) for n, c in self.by_name.items() if n not in totals]
        return (*own, *(d.column for d in self.derived if d.what != "gap"))

    @property
    def plain(self) -> bool:
        """Whether nothing differs from the table's own columns, and nothing is to be kept."""
        return not self.derived and not self.kept

    def describe(self) -> list[str]:
        """Lines of ``explain``: what is modelled beside columns, and what every row keeps."""
        parts: dict[str, list[str]] = {}
        for d in self.derived:
            if d.what != "gap":
                parts.setdefault(d.of, []).append(d.what)
        lines = [f"calendar: {', '.join(parts[n])} of {n}, as columns of the model" for n in parts]
        return [*lines, *(["in every row: " + "; ".join(map(str, self.kept))] if self.kept else [])]

    def restore(self, made: Mapping[str, Any], steps: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Rows of the model as rows of the table, each of which keeps every constraint.

        Args:
            made: values by the names of ``modelled``.
            steps: equal steps of a date's range that its rows were counted in, which they keep; tenths of others.
        """
        found: dict[str, Values] = {}
        for name, column in self.by_name.items():
            if name in made and not any(d.of == name and d.what == "gap" for d in self.derived):
                kept = (steps or {}).get(name, TENTHS)
                parts = self._parts(name, made)
                found[name] = with_parts(read_values(made[name], column), column, parts, kept, self._others(name, made))
        for name, below in order_steps(self.kept):
            if below:
                (gap,) = (d for d in self.derived if d.of == name and d.what == "gap")
                found[name] = self._above(gap, found, made)
        done = keep(found, self.kept, self.by_name)
        return {c.name: write_values(done[c.name], c) for c in self.columns}

    def _above(self, gap: Derived, found: Mapping[str, Values], made: Mapping[str, Any]) -> Values:
        """A column of orders from its gap; a timestamp at the hour that was made for it."""
        column = self.by_name[gap.of]
        distance = read_values(made[gap.column.name], gap.column)
        least = lifted(column, gap.below, found, self.by_name, len(distance.numbers))
        away = gap.unit * np.maximum(0.0, np.expm1(np.asarray(distance.numbers, dtype=np.float64)) - _shift(column))
        places = 0 if _is_date(column) else decimals_of(column)
        away = away if places is None else np.rint(away).astype(np.int64) if not places else np.round(away, places)
        numbers = np.minimum(least + away, bound(column, column.upper))
        hours = [(d, v) for d, v in self._parts(gap.of, made) if d == "hour"]
        values = Values(numbers=numbers, missing=distance.missing)
        if not hours:
            return values
        moved = with_parts(values, column, hours, 1)
        return replace(values, numbers=np.where(moved.numbers >= least, moved.numbers, values.numbers))

    def _others(self, name: str, made: Mapping[str, Any]) -> list[Any]:
        """Columns of the table that were made beside one, or what stands for them."""
        return [made[c.name] for c in self.by_name.values() if c.name in made and c.name != name]

    def _parts(self, name: str, made: Mapping[str, Any]) -> list[tuple[What, Any]]:
        return [(d.what, made[d.column.name]) for d in self.derived if d.of == name and d.what != "gap"]

    def _gap(self, name: str, below: Sequence[Order]) -> Derived:
        column = self.by_name[name]
        span = as_number(column.upper) - as_number(column.lower)
        unit = float(HOUR) if column.kind is Kind.TIMESTAMP else 1.0 if _is_whole(column) else span / _FINE
        gap = Column(
            name=name,
            source=name,
            type="DOUBLE",
            kind=Kind.NUMBER,
            nullable=column.nullable,
            lower=0.0,
            upper=float(np.log1p(span / unit + _shift(column))),
        )
        return Derived(column=gap, what="gap", of=name, below=tuple(below), unit=unit)


def mended(made: Mapping[str, Any], columns: Sequence[Column], constraints: Sequence[str]) -> dict[str, Any]:
    """Rows of the table's own columns, by name, moved to where they keep the constraints."""
    whole = Structure(columns=tuple(columns), constraints=tuple(constraints), calendar=False)
    found = {name: read_values(made[name], column) for name, column in whole.by_name.items()}
    done = keep(found, whole.kept, whole.by_name)
    return {c.name: write_values(done[c.name], c) for c in columns}


def calendar_parts(column: Column) -> list[What]:
    """Parts of a timestamp or date that its range leaves open."""
    if not _is_date(column) or column.domain is not None or column.lower is None:
        return []
    days = (as_number(column.upper) - as_number(column.lower)) / (DAY if column.kind is Kind.TIMESTAMP else 1)
    found: list[What] = ["hour"] if column.kind is Kind.TIMESTAMP and days >= _HOURLY else []
    found += ["weekday"] if days >= _WEEKLY else []
    return [*found, *(["month"] if days >= _MONTHLY else [])]  # type: ignore[list-item]


def shift_of(column: Column) -> float:
    """Added to a distance before its logarithm: of whole numbers a half, so that none is met in the middle."""
    return _shift(column)


def _shift(column: Column) -> float:
    return 0.5 if _is_whole(column) else 0.0


def _is_whole(column: Column) -> bool:
    return column.integral or column.kind is Kind.DATE


def _is_date(column: Column) -> bool:
    return column.kind in (Kind.DATE, Kind.TIMESTAMP)


def _within(column: Column, bounds: tuple[float, float] | None) -> Column:
    """A column with narrower bounds, given as numbers."""
    if bounds is None:
        return column
    lower, upper = (write_values(Values.of(np.array([b]), column), column)[0] for b in bounds)
    if (lower, upper) == (column.lower, column.upper):
        return column
    number = int if column.integral else float
    return (
        replace(column, lower=lower, upper=upper)
        if _is_date(column)
        else replace(column, lower=number(lower), upper=number(upper))
    )
