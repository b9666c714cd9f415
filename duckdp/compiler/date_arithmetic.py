"""Dates that are computed: constants of the day, intervals, differences, formats, buckets of time."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler import clock, ways
from duckdp.compiler.expression import Call, Case, Expr, Literal, columns
from duckdp.compiler.literals import small_int
from duckdp.compiler.moment_ends import constant_moment, moment_ends
from duckdp.compiler.operators.dates import FORMATS
from duckdp.compiler.operators.moved import later
from duckdp.compiler.parse import refuse

DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
NOW = ("now", "today", "get_current_timestamp")
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
_PASSED, _YEARS = ("date_sub", "datesub"), ("year", "years")  # names of calls, and of a part
_WHOLE = ("year", "quarter", "month", "week", "day")
_MOST = 1_000_000  # units of one interval
_FARTHEST = 6_000_000_000  # months, days or minutes: more than the calendar has
MAX_FORMAT = 64  # characters of strftime's: each row's work grows with them
_DAY, _MINUTE = 86_400_000_000, 60_000_000  # microseconds
_WIDEST = 366_000 * _DAY  # of a bucket: a thousand years
_BUCKETS = {(0, 7, 0): "week", (12, 0, 0): "year", (3, 0, 0): "quarter", (1, 0, 0): "month", (0, 1, 0): "day"}
_BUCKETS |= {(0, 0, 3_600_000_000): "hour", (0, 0, 60_000_000): "minute"}
COMPARED = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ)


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


class MomentNodes(ABC):
    """The part of ``scalars.Scalars`` that translates them."""

    text: str | None

    @abstractmethod
    def __call__(self, node: exp.Expression) -> Expr:
        """Translate a node."""

    @abstractmethod
    def _operator(self, name: str, node: exp.Expression, args: list[Expr], option: str = "") -> Expr: ...

    @abstractmethod
    def _coerce(self, arg: Expr, kind: Kind, node: exp.Expression) -> Expr: ...

    @abstractmethod
    def _common(self, args: list[Expr], node: exp.Expression) -> Kind: ...

    def _today(self, node: exp.Expression) -> Expr:  # noqa: ARG002 - each takes its node
        return Literal(clock.today(), Kind.DATE)

    def _now(self, node: exp.Expression) -> Expr:  # noqa: ARG002
        return Literal(dt.datetime.combine(clock.today(), dt.time()), Kind.TIMESTAMP)

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
        pairs = re.findall(r"(-?\d+)\s+([a-z]+)", parts[0]) if parts is not None and len(parts[0]) < MAX_FORMAT else []
        units = [_UNITS.get(name.rstrip("s")) for _, name in pairs]
        if not pairs or None in units or any(abs(int(count)) > _MOST for count, _ in pairs):
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

    def _interval_added(self, node: exp.Expression) -> Expr | None:
        """A date or timestamp plus or minus a constant interval; None of other sums."""
        sign = -1 if isinstance(node, (exp.Sub, exp.DateSub)) else 1
        span = self._interval(node.expression)
        if span is not None:
            return self._shifted(self(node.this), span.times(sign), node)
        if sign == 1 and (span := self._interval(node.this)) is not None:
            return self._shifted(self(node.expression), span, node)
        return None

    def _date_add(self, node: exp.Expression) -> Expr:
        found = self._interval_added(node)
        if found is None or node.args.get("unit") is not None:
            refuse("Q202", f"a date and an INTERVAL are added. {ways.INTERVAL}", node, self.text)
        return found

    def _moved(self, node: exp.Expression, args: list[Expr]) -> Expr | None:
        """A date plus or minus days, or less another; None of other sums."""
        sign, (one, two) = -1 if isinstance(node, exp.Sub) else 1, args
        if one.kind is Kind.DATE and isinstance(two, Literal) and type(two.value) is int and abs(two.value) <= _MOST:
            return self._coerced_date(self._shifted(one, Span(0, sign * two.value, 0), node))
        if sign == -1 and one.kind is two.kind is Kind.DATE:
            return self._operator("date_diff_date", node, [two, one], "day")
        return None

    def _called(self, name: str, node: exp.Expression) -> Expr | None:
        """Calls that the parser has no node for; None of others."""
        given = node.expressions
        if name in NOW and not given:
            return self._today(node) if name == "today" else self._now(node)
        if name in _PASSED and len(given) == 3:
            return self._passed(given[0].name.lower(), given[1:], node)
        return None

    @staticmethod
    def _coerced_date(found: Expr) -> Expr:
        if isinstance(found, Literal) and isinstance(found.value, dt.datetime):
            return Literal(found.value.date(), Kind.DATE)
        return Call("to_date", (found,), Kind.DATE)

    def _shifted(self, arg: Expr, span: Span, node: exp.Expression) -> Expr:
        """A moment moved by an interval: a TIMESTAMP, as in DuckDB."""
        if arg.kind not in (Kind.DATE, Kind.TIMESTAMP):
            refuse("Q203", f"an INTERVAL is added to a date or timestamp. {ways.INTERVAL}", node, self.text)
        arg = constant_moment(arg) or arg
        ends = moment_ends(arg)
        read = [c.null_value for c in columns(arg)]
        moved = None if ends is None or any(v is not None for v in read) else [span.after(end) for end in ends]
        if isinstance(arg, Literal) and moved == [None, None]:
            refuse("Q402", f"this is before year 1 or after year 9999. {ways.NEEDED[Kind.DATE]}", node, self.text)
        if moved is None or None in moved:
            refuse("Q402", f"this date has no bounds that keep it within the calendar. {ways.BOUNDED}", node, self.text)
        if isinstance(arg, Literal):
            return Literal(moved[0], Kind.TIMESTAMP)
        option = f"{span.months},{span.days},{span.micros}"
        return self._operator("shifted", node, [self._coerce(arg, Kind.TIMESTAMP, node)], option)

    def _lengths(self, node: exp.Expression) -> list[Expr] | None:
        """Both sides of a comparison of lengths of time, in microseconds; None of other comparisons."""
        sides = [node.this, node.expression]
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
            return self._operator("sub", node, [self._operator("micros", node, [part]) for part in parts])
        refuse("Q203", f"an INTERVAL is compared with the difference of two timestamps. {ways.DATES}", node, self.text)

    def _strftime(self, node: exp.Expression) -> Expr:
        form = node.args.get("format")
        arg = self(node.this)
        text = form.name if isinstance(form, exp.Literal) and form.is_string else ""
        parts = re.findall("%(.)", text)
        plain = len(text) <= MAX_FORMAT and re.fullmatch(r"(%\w|[-/:._ T,0-9])*", text)
        if not parts or any(p not in FORMATS for p in parts) or not plain:
            known = " ".join(f"%{p}" for p in FORMATS)
            what = f"strftime takes a constant format of at most {MAX_FORMAT} characters"
            refuse("Q202", f"{what}. Use {known} with - / : . between.", node, self.text)
        if arg.kind not in (Kind.DATE, Kind.TIMESTAMP):
            refuse("Q203", f"strftime {ways.not_a(Kind.TIMESTAMP, arg.kind)}", node, self.text)
        order = ("year", "month", "day", "hour", "minute")
        unit = order[max(order.index(FORMATS[p]) for p in parts)]
        if unit in ("hour", "minute"):
            arg = self._coerce(arg, Kind.TIMESTAMP, node)
        cut = f"trunc_{arg.kind.value}"  # what the format shows is that of the period: so its domain follows
        return self._operator(f"strftime_{arg.kind.value}", node, [self._operator(cut, node, [arg], unit)], text)

    def _bucket(self, node: exp.Expression) -> Expr:
        span, arg = self._interval(node.this), self(node.expression)
        if arg.kind not in (Kind.DATE, Kind.TIMESTAMP):
            refuse("Q203", f"time_bucket {ways.not_a(Kind.TIMESTAMP, arg.kind)}", node, self.text)
        plain = not any(v for k, v in node.args.items() if k not in ("this", "expression"))
        width = None if span is None else _width(span, arg.kind)
        if span is None or width is None or not plain:
            way = "Write time_bucket(INTERVAL '2 weeks', x), or date_trunc('month', x)."
            what = "time_bucket takes whole minutes to years, of a DATE whole days, and no origin"
            refuse("Q202", f"{what}. {way}", node, self.text)
        unit = _BUCKETS.get((span.months, span.days, span.micros))
        named = "trunc" if unit is not None else "bucket"
        return self._operator(f"{named}_{arg.kind.value}", node, [arg], unit or width)

    def _named(self, part: str, first: int, names: tuple[str, ...], node: exp.Expression) -> Expr:
        """A day or month by its name: its names are its domain."""
        arg = self(node.this)
        if arg.kind not in (Kind.DATE, Kind.TIMESTAMP):
            refuse("Q203", f"{part} {ways.not_a(Kind.TIMESTAMP, arg.kind)}", node, self.text)
        number = self._operator(f"{part}_{arg.kind.value}", node, [arg])
        equal = [
            Call("eq_number", (number, Literal(i, Kind.NUMBER)), Kind.BOOLEAN) for i in range(first, first + len(names))
        ]
        return Case(tuple((e, Literal(n, Kind.TEXT)) for e, n in zip(equal, names, strict=True)), None, Kind.TEXT)

    def _dayname(self, node: exp.Expression) -> Expr:
        return self._named("dayofweek", 0, DAYS, node)

    def _monthname(self, node: exp.Expression) -> Expr:
        return self._named("month", 1, tuple(calendar.month_name)[1:], node)

    def _passed(self, unit: str, given: list[exp.Expression], node: exp.Expression) -> Expr:
        """Whole units between two dates, the second less the first."""
        args = [self(g) for g in given]
        kind = self._common(args, node)
        if kind not in (Kind.DATE, Kind.TIMESTAMP) or unit not in _WHOLE:
            refuse("Q202", f"whole units pass between two dates. {ways.PASSED}", node, self.text)
        return self._operator(f"date_sub_{kind.value}", node, args, unit)

    def _age(self, name: str, node: exp.Expression) -> Expr | None:
        """The years of an age; None where it is no age."""
        if not isinstance(node, exp.Anonymous) or str(node.this).lower() != "age":
            return None
        if name not in _YEARS or len(node.expressions) not in (1, 2):
            refuse("Q202", f"of an age its years are told. {ways.PASSED}", node, self.text)
        later, earlier = node.expressions if len(node.expressions) == 2 else (exp.CurrentDate(), node.expressions[0])
        return self._passed("year", [earlier, later], node)

    moment_methods: ClassVar[dict[type[exp.Expression], Callable[[MomentNodes, exp.Expression], Expr]]] = {
        exp.DateAdd: _date_add,
        exp.DateSub: _date_add,
        exp.CurrentDate: _today,
        exp.CurrentTimestamp: _now,
        exp.TimeToStr: _strftime,
        exp.DateBin: _bucket,
        exp.Dayname: _dayname,
        exp.Monthname: _monthname,
    }


def _width(span: Span, kind: Kind) -> str | None:
    """Width of buckets, months or minutes, as ``core.calendar`` reads it; None where they have none."""
    if not 0 < span.length <= _WIDEST:
        return None
    if span.months:
        return f"{span.months} months"
    step = _DAY if kind is Kind.DATE else _MINUTE
    return None if span.length % step else f"{span.length // _MINUTE} minutes"


def names_today(tree: exp.Expression) -> bool:
    """Whether a statement's meaning depends on the day."""
    if tree.find(exp.CurrentDate, exp.CurrentTimestamp) is not None:
        return True
    calls = ((str(n.this).lower(), len(n.expressions)) for n in tree.find_all(exp.Anonymous))
    return any(name in NOW or (name, count) == ("age", 1) for name, count in calls)


def told_today() -> str:
    """What now() and current_date are."""
    return (
        f"now() and current_date are the beginning of {clock.today().isoformat()} in UTC; tomorrow is another question"
    )
