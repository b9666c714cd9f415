"""Lengths of time: constant intervals, what lies between two moments, in seconds or in units that have passed."""

from __future__ import annotations

import datetime as dt
import re
from abc import abstractmethod
from dataclasses import dataclass

from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler import ways
from duckdp.compiler.dates import DateNodes
from duckdp.compiler.expression import Expr, Literal
from duckdp.compiler.literals import small_int
from duckdp.compiler.operators.moved import later
from duckdp.compiler.parse import refuse
from duckdp.core.calendar import PERIODS

MOST = 1_000_000  # units of one interval
_UNITS = {  # months, days and microseconds
    "year": (12, 0, 0),
    "quarter": (3, 0, 0),
    "month": (1, 0, 0),
    "week": (0, 7, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, 3_600_000_000),
    "minute": (0, 0, 60_000_000),
    "second": (0, 0, 1_000_000),
}
_MINUTE = 60_000_000  # microseconds
_FARTHEST = 6_000_000_000  # months, days or minutes: more than the calendar has
_LONGEST = 64  # characters of an interval
_TOLD = "epoch"  # the part of a length of time that is told: its seconds
_MOMENTS = (Kind.DATE, Kind.TIMESTAMP)


@dataclass(frozen=True)
class Span:
    """An interval of an analyst's text: how far a moment is moved, or how long something lasts."""

    months: int
    days: int
    micros: int

    @property
    def length(self) -> int:
        """As DuckDB compares it, in microseconds: a month has 30 days, a day 24 hours."""
        return (self.months * 30 + self.days) * 86_400_000_000 + self.micros

    def times(self, times: int) -> Span:
        """So many of them; back where it is negative."""
        return Span(times * self.months, times * self.days, times * self.micros)

    def plus(self, other: Span) -> Span:
        """Both, as DuckDB adds intervals: part by part."""
        return Span(self.months + other.months, self.days + other.days, self.micros + other.micros)

    def after(self, day: dt.date) -> dt.datetime | None:
        """The moment so much later; None beyond the calendar."""
        return later(day, self.months, self.days, self.micros)


class LengthNodes(DateNodes):
    """The part of ``scalars.Scalars`` that translates them."""

    @abstractmethod
    def _coerce(self, arg: Expr, kind: Kind, node: exp.Expression) -> Expr: ...

    @abstractmethod
    def _moved(self, node: exp.Expression, args: list[Expr]) -> Expr | None: ...

    def _interval(self, node: exp.Expression) -> Span | None:
        """A constant interval, or some that are put together; None of anything else."""
        if isinstance(node, exp.Paren):
            return self._interval(node.this)
        if isinstance(node, (exp.Neg, exp.Add, exp.Sub, exp.Mul)):
            found = self._put_together(node)
            if found is not None and max(map(abs, (found.months, found.days, found.micros // _MINUTE))) > _FARTHEST:
                refuse("Q202", f"this INTERVAL is longer than the calendar. {ways.INTERVAL}", node, self.text)
            return found
        if not isinstance(node, exp.Interval) or not isinstance(number := node.this.unnest(), exp.Literal):
            return None
        unit = str(node.args["unit"].name) if node.args.get("unit") is not None else ""
        parts = re.fullmatch(r"\s*(-?\d{1,7}\s+[a-z]+\s*)+", f"{number.name} {unit}".lower())  # '1 month 3 days' too
        pairs = re.findall(r"(-?\d+)\s+([a-z]+)", parts[0]) if parts is not None and len(parts[0]) < _LONGEST else []
        units = [_UNITS.get(name.rstrip("s")) for _, name in pairs]
        if not pairs or None in units or any(abs(int(count)) > MOST for count, _ in pairs):
            refuse("Q202", f"an INTERVAL takes a whole number and a unit. {ways.INTERVAL}", node, self.text)
        found = Span(0, 0, 0)
        for (count, _), one in zip(pairs, units, strict=True):
            found = found.plus(Span(*(one or (0, 0, 0))).times(int(count)))
        return found

    def _put_together(self, node: exp.Expression) -> Span | None:
        """The interval that a sign makes of intervals, or of one and a whole number."""
        if isinstance(node, exp.Neg):
            found = self._interval(node.this)
            return None if found is None else found.times(-1)
        if isinstance(node, exp.Mul):
            for one, other in ((node.this, node.expression), (node.expression, node.this)):
                times = small_int(other.unnest())
                if times is not None and (found := self._interval(one)) is not None:
                    return found.times(times)
            return None
        first = self._interval(node.this)  # of a long sum of numbers no more than its first is looked at
        second = None if first is None else self._interval(node.expression)
        if first is None or second is None:
            return None
        return first.plus(second.times(-1 if isinstance(node, exp.Sub) else 1))

    def _lengths(self, *sides: exp.Expression) -> list[Expr] | None:
        """What is compared, in microseconds, where it is lengths of time; None of other comparisons."""
        if not any(self._interval(side) is not None for side in sides):
            return None
        return [self._length(side) for side in sides]

    def _length(self, node: exp.Expression) -> Expr:
        span = self._interval(node)
        if span is not None:
            return Literal(span.length, Kind.NUMBER)
        if isinstance(node, exp.Paren):
            return self._length(node.this)
        if isinstance(node, exp.Sub):
            parts = [self._coerce(self(part), Kind.TIMESTAMP, node) for part in (node.this, node.expression)]
            return self._micros(parts, node)
        refuse("Q203", f"an INTERVAL is compared with the difference of two timestamps. {ways.DATES}", node, self.text)

    def _micros(self, moments: list[Expr], node: exp.Expression) -> Expr:
        """The first of two timestamps less the second, in microseconds."""
        return self._operator("sub", node, [self._operator("micros", node, [part]) for part in moments])

    def _difference(self, name: str, node: exp.Expression, of: exp.Expression) -> Expr | None:
        """A part of a difference: of two moments, one of them a timestamp, its seconds; None where it is none."""
        inner = of.unnest()
        if not isinstance(inner, exp.Sub) or self._interval(inner.expression) is not None:
            return None
        args = [self(inner.this), self(inner.expression)]
        if args[0].kind is args[1].kind is Kind.DATE:
            refuse("Q203", "the difference of two dates is a number of days. Write (x - y) * 86400.", node, self.text)
        if not _is_length(args):
            return self._part(name, node, self._moved(inner, args) or self._operator("sub", inner, args))
        if name != _TOLD:
            refuse("Q202", f"of a length of time its seconds are told, by epoch. {ways.LASTED}", node, self.text)
        micros = self._micros([self._coerce(a, Kind.TIMESTAMP, node) for a in args], node)
        return self._operator("div", node, [micros, Literal(1_000_000, Kind.NUMBER)])

    def _refuse_length(self, args: list[Expr], node: exp.Expression) -> None:
        """Refuse the difference of two moments as a value: DuckDB's is an INTERVAL."""
        if _is_length(args):
            refuse("Q203", f"the difference of two timestamps is an INTERVAL. {ways.LASTED}", node, self.text)

    def _passed(self, unit: str, given: list[exp.Expression], node: exp.Expression) -> Expr:
        """Whole units between two moments, the second less the first."""
        args = [self(g) for g in given]
        kind = self._common(args, node)
        if kind not in _MOMENTS or unit not in PERIODS:
            known = ", ".join(sorted(PERIODS))
            refuse("Q202", f"date_sub takes a unit and two dates or timestamps. Use one of {known}.", node, self.text)
        return self._operator(f"date_sub_{kind.value}", node, args, unit)


def _is_length(args: list[Expr]) -> bool:
    """Whether two values are moments whose difference is an INTERVAL; that of two dates is a number of days."""
    kinds = [a.kind for a in args]
    return all(k in _MOMENTS for k in kinds) and Kind.TIMESTAMP in kinds
