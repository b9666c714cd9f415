"""Dates that are computed: constants of the day, intervals, differences, formats, buckets of time."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler import clock, ways
from duckdp.compiler.dates import unit_of
from duckdp.compiler.expression import Call, Case, Expr, Literal, columns
from duckdp.compiler.lengths import MOST, LengthNodes, Span
from duckdp.compiler.moment_ends import constant_moment, moment_ends
from duckdp.compiler.operators.dates import FORMATS
from duckdp.compiler.parse import refuse

DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
NOW = ("now", "today", "get_current_timestamp")
_PASSED, _YEARS = ("date_sub", "datesub"), ("year", "years")  # names of calls, and of a part
MAX_FORMAT = 64  # characters of strftime's: each row's work grows with them
_DAY, _MINUTE = 86_400_000_000, 60_000_000  # microseconds
_WIDEST = 366_000 * _DAY  # of a bucket: a thousand years
_BUCKETS = {(0, 7, 0): "week", (12, 0, 0): "year", (3, 0, 0): "quarter", (1, 0, 0): "month", (0, 1, 0): "day"}
_BUCKETS |= {(0, 0, 3_600_000_000): "hour", (0, 0, 60_000_000): "minute"}
COMPARED = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ)


class MomentNodes(LengthNodes):
    """The part of ``scalars.Scalars`` that translates them."""

    def _today(self, node: exp.Expression) -> Expr:  # noqa: ARG002 - each takes its node
        return Literal(clock.today(), Kind.DATE)

    def _now(self, node: exp.Expression) -> Expr:  # noqa: ARG002
        return Literal(dt.datetime.combine(clock.today(), dt.time()), Kind.TIMESTAMP)

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
        if one.kind is Kind.DATE and isinstance(two, Literal) and type(two.value) is int and abs(two.value) <= MOST:
            return self._coerced_date(self._shifted(one, Span(0, sign * two.value, 0), node))
        if sign == -1 and one.kind is two.kind is Kind.DATE:
            return self._operator("date_diff_date", node, [two, one], "day")
        if sign == -1:
            self._refuse_length(args, node)
        return None

    def _called(self, name: str, node: exp.Expression) -> Expr | None:
        """Calls that the parser has no node for; None of others."""
        given = node.expressions
        if name in NOW and not given:
            return self._today(node) if name == "today" else self._now(node)
        if name in _PASSED and len(given) == 3:
            return self._passed(unit_of(given[0].name), given[1:], node)
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
