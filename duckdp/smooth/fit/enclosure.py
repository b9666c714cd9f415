"""Between which numbers an expression lies on boxes of its columns, operators that jump or bend included.

For every box [a_i, b_i] the range found holds the value at each of its points: usual interval arithmetic, widened after
every operation (``rectangles``). A condition is a range of truth values, [0, 1] where it is not decided. Where nothing
is known the range is all reals: that is always right. NULL is left out: a function that is NULL where rows can be is
refused when its values are looked at, and an arm of CASE that nothing reaches would be NULL here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, Literal, children, columns
from duckdp.compiler.operators import facts
from duckdp.smooth.axes import Axis, Floats, as_number
from duckdp.smooth.fit import rectangles as rc
from duckdp.smooth.fit.calendar import DAY, PERIODS, part_range, truncated
from duckdp.smooth.fit.points import Points, raw_values
from duckdp.smooth.fit.rectangles import Span
from duckdp.smooth.fit.terms import constant_of, is_arithmetic

MAX_EXPONENT = 1024
Bools = NDArray[np.bool_]
_DATES = (Kind.DATE, Kind.TIMESTAMP)


def enclose(function: Expr, axes: Sequence[Axis], low: Sequence[Floats], high: Sequence[Floats]) -> Span:
    """Ranges of a number over boxes.

    Args:
        function: reads these columns only.
        axes: the columns.
        low: per column float[n], lower ends of the boxes.
        high: upper ends; the same for a column of few values (positions in them).

    Returns:
        Float[n] each; infinite where nothing is known.
    """
    with np.errstate(all="ignore"):
        found = _Enclosure(axes, low, high)(function)
    count = len(low[0]) if len(low) else 1
    return Span(np.broadcast_to(found.low, (count,)), np.broadcast_to(found.high, (count,)))


class _Enclosure:
    def __init__(self, axes: Sequence[Axis], low: Sequence[Floats], high: Sequence[Floats]) -> None:
        self.axes = {axis.name: axis for axis in axes}
        self.spans = {a.name: Span(x, y) for a, x, y in zip(axes, low, high, strict=True)}
        self.known: dict[Expr, Span] = {}

    def __call__(self, expr: Expr) -> Span:
        if expr not in self.known:
            self.known[expr] = _cleaned(self._find(expr), expr)
        return self.known[expr]

    def _find(self, expr: Expr) -> Span:
        match expr:
            case Literal(value=value):
                return _everything() if value is None or isinstance(value, str) else _point(_number(value))
            case ColumnRef(column=c) if self.axes[c.name].values is None:
                return self.spans[c.name]
        if self._is_listed(expr):
            found = self._call(expr) if isinstance(expr, Call) and is_arithmetic(expr) else self._listed(expr)
            return self._listed(expr) if np.isnan(found.low + found.high).any() else found
        match expr:
            case Case(branches=branches, default=default):
                return self._case(branches, default)
            case Call():
                return self._call(expr)
        return _everything()

    def _listed(self, expr: Expr) -> Span:
        """The values themselves, of what reads columns of few values only."""
        chosen = [self.axes[c.name] for c in columns(expr)]
        points = Points(tuple(chosen), tuple(self.spans[axis.name].low for axis in chosen))
        if expr.kind in (Kind.NUMBER, Kind.BOOLEAN):
            values = np.ma.filled(raw_values(expr, points, np.zeros((1, 0)))[0], np.nan)
            return Span(values, values)
        if isinstance(expr, ColumnRef) and expr.kind in _DATES:
            listed = np.array([math.nan if v is None else as_number(v) for v in chosen[0].values or ()])
            values = listed[points.x[0].astype(np.int64)]
            return Span(values, values)
        return self._call(expr) if isinstance(expr, Call) and expr.kind in _DATES else _everything()

    def _case(self, branches: Sequence[tuple[Expr, Expr]], default: Expr | None) -> Span:
        """The hull of the arms that can be taken."""
        found = Span(np.asarray(math.inf), np.asarray(-math.inf))
        open_, decided = np.asarray(True), np.asarray(False)
        for condition, value in branches:
            holds, own = self._holds(condition), self(value)
            reached = open_ & ~decided & (holds.high > 0)
            found = _joined(found, own, reached)
            decided = decided | (open_ & (holds.low > 0))
        if default is not None:
            found = _joined(found, self(default), ~decided)
        nothing = found.low > found.high
        return Span(np.where(nothing, -math.inf, found.low), np.where(nothing, math.inf, found.high))

    def _holds(self, condition: Expr) -> Span:
        """Whether a condition is true; NULL is not."""
        if self._is_listed(condition):
            found = self._listed(condition)
            return Span(np.nan_to_num(found.low), np.nan_to_num(found.high))
        return self(condition)

    def _is_listed(self, expr: Expr) -> bool:
        return all(self.axes[c.name].values is not None for c in columns(expr))

    def _coalesce(self, arguments: Sequence[Expr]) -> Span:
        """The first that is not NULL."""
        found = self(arguments[-1])
        for argument in reversed(arguments[:-1]):
            own = self(argument)
            if self._is_listed(argument):
                missing = np.isnan(self._listed(argument).low)
                found = Span(np.where(missing, found.low, own.low), np.where(missing, found.high, own.high))
            else:
                found = _hull([own, found]) if self._may_be_null(argument) else own
        return found

    def _may_be_null(self, expr: Expr) -> bool:
        """Whether NULL is possible: rows have none in a column with bounds."""
        if isinstance(expr, ColumnRef):
            return self.axes[expr.column.name].values is not None
        if isinstance(expr, Literal):
            return expr.value is None
        makes = isinstance(expr, Case) and expr.default is None
        makes = makes or (isinstance(expr, Call) and expr.operator.startswith("nullif"))
        return makes or any(self._may_be_null(child) for child in children(expr))

    def _call(self, expr: Call) -> Span:
        if expr.operator in ("to_date", "to_timestamp"):
            return self._converted(expr)
        stem, _, last = expr.operator.rpartition("_")
        if last in {k.value for k in Kind} and stem:
            return self._typed(stem, expr)
        args = [self(a) for a in expr.arguments]
        if expr.operator == "power":
            return _power(args[0], args[1], expr.arguments[1])
        if expr.operator == "mul" and expr.arguments[0] == expr.arguments[1]:
            return args[0].square()
        rule = _RULES.get(expr.operator)
        return _everything() if rule is None else rule(args)

    def _typed(self, stem: str, expr: Call) -> Span:
        if stem in _PARTED or stem in ("trunc", "date_diff"):
            return self._dates(stem, expr)
        if expr.arguments[0].kind is Kind.TEXT:
            return Span(np.zeros(()), np.ones(())) if expr.kind is Kind.BOOLEAN else _everything()
        args = [self(a) for a in expr.arguments]
        match stem:
            case "between":
                return _all([_least_first(args[1], args[0]), _least_first(args[0], args[2])])
            case "in":
                return _any([_equal(args[0], other) for other in args[1:]])
            case "coalesce":
                return self._coalesce(expr.arguments)
            case "nullif":
                return args[0]
            case "is_null":
                return Span(np.zeros(()), np.ones(()) * self._may_be_null(expr.arguments[0]))
        return _COMPARISONS[stem](args[0], args[1]) if stem in _COMPARISONS else _everything()

    def _moments(self, expr: Expr) -> tuple[NDArray[np.int64], ...] | None:
        """Ends in microseconds from 1970."""
        found = self(expr)
        if not (np.isfinite(found.low).all() and np.isfinite(found.high).all()):
            return None
        scale = DAY if expr.kind is Kind.DATE else 1
        return np.rint(found.low).astype(np.int64) * scale, np.rint(found.high).astype(np.int64) * scale

    def _converted(self, expr: Call) -> Span:
        ends = self._moments(expr.arguments[0])
        if ends is None:
            return _everything()
        scale = DAY if expr.operator == "to_date" else 1
        low, high = (np.floor_divide(end, scale).astype(float) for end in ends)
        return Span(low, high)

    def _dates(self, stem: str, expr: Call) -> Span:
        ends = [self._moments(a) for a in expr.arguments]
        if any(e is None for e in ends):
            return _everything()
        known = [e for e in ends if e is not None]
        if stem == "date_diff":
            (a, b), (c, d) = known[0], known[1]
            count = PERIODS[expr.option]
            before = (np.minimum(a, c) < 0) & (expr.option in ("hour", "minute"))  # cut toward 1970
            room = np.where(before | (expr.option == "week"), 1.0, 0.0)  # weeks: wherever they are taken to begin
            least, most = (count(c) - count(b)).astype(np.float64), (count(d) - count(a)).astype(np.float64)
            return Span(least - room, most + room)
        low, high = known[0]
        if stem == "trunc":
            scale = DAY if expr.kind is Kind.DATE else 1
            starts = (np.floor_divide(truncated(expr.option, end), scale).astype(float) for end in (low, high))
            return Span(*starts)
        found = part_range(stem, low, high)
        return _everything() if found is None else Span(*found)


def _cleaned(span: Span, expr: Expr) -> Span:
    """All that the expression can be, where an operation gave no number."""
    missing = np.isnan(span.low) | np.isnan(span.high)
    if not missing.any():
        return span
    known = facts(expr).interval
    low, high = (0.0, 1.0) if expr.kind is Kind.BOOLEAN else (known.lower, known.upper)
    return Span(np.where(missing, low, span.low), np.where(missing, high, span.high))


def _number(value: object) -> float:
    return float(value) if isinstance(value, (bool, int, float)) else as_number(value)  # type: ignore[arg-type]


def _point(value: float) -> Span:
    return Span(np.asarray(value), np.asarray(value))


def _everything() -> Span:
    return Span(np.asarray(-math.inf), np.asarray(math.inf))


def _joined(found: Span, own: Span, where: Bools) -> Span:
    return Span(
        np.where(where, np.minimum(found.low, own.low), found.low),
        np.where(where, np.maximum(found.high, own.high), found.high),
    )


def _hull(args: Sequence[Span]) -> Span:
    return Span(_reduced(np.minimum, [a.low for a in args]), _reduced(np.maximum, [a.high for a in args]))


def _reduced(of: Callable[[Floats, Floats], Floats], parts: Sequence[Floats]) -> Floats:
    found = parts[0]
    for part in parts[1:]:
        found = of(found, part)
    return found


def _truth(sure: Bools, possible: Bools) -> Span:
    return Span(np.where(sure, 1.0, 0.0), np.where(possible, 1.0, 0.0))


def _below(a: Span, b: Span) -> Span:
    return _truth(a.high < b.low, a.low < b.high)


def _least_first(a: Span, b: Span) -> Span:
    return _truth(a.high <= b.low, a.low <= b.high)


def _equal(a: Span, b: Span) -> Span:
    same = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
    return _truth(same, (a.low <= b.high) & (b.low <= a.high))


def _not(a: Span) -> Span:
    return Span(1 - a.high, 1 - a.low)


def _all(args: Sequence[Span]) -> Span:
    return Span(_reduced(np.minimum, [a.low for a in args]), _reduced(np.minimum, [a.high for a in args]))


def _any(args: Sequence[Span]) -> Span:
    return _hull([Span(a.low, a.high) for a in args]) if len(args) == 1 else Span(
        _reduced(np.maximum, [a.low for a in args]), _reduced(np.maximum, [a.high for a in args])
    )  # fmt: skip


def _widened(low: Floats, high: Floats) -> Span:
    def room(end: Floats) -> Floats:
        return rc.MARGIN * np.abs(end) + rc.TINY

    return Span(low - room(low), high + room(high))


def _monotone(of: Callable[[Floats], Floats]) -> Callable[[Sequence[Span]], Span]:
    return lambda a: _widened(of(a[0].low), of(a[0].high))


def _stepped(of: Callable[[Floats], Floats]) -> Callable[[Sequence[Span]], Span]:
    return lambda a: Span(of(a[0].low), of(a[0].high))


def _logarithm(of: Callable[[Floats], Floats]) -> Callable[[Sequence[Span]], Span]:
    def rule(a: Sequence[Span]) -> Span:
        low, high = of(np.maximum(a[0].low, 0.0)), of(np.maximum(a[0].high, 0.0))
        return Span(low - 1e-14 * (1 + np.abs(low)), high + 1e-14 * (1 + np.abs(high)))

    return rule


def _product(a: Span, b: Span) -> Span:
    found = a * b
    zero = ((a.low == 0) & (a.high == 0)) | ((b.low == 0) & (b.high == 0))
    return Span(np.where(zero, 0.0, found.low), np.where(zero, 0.0, found.high))


def _quotient(a: Span, b: Span) -> Span:
    safe = (b.low > 0) | (b.high < 0)
    parts = [x / y for x in (a.low, a.high) for y in (b.low, b.high)]
    found = _widened(_reduced(np.minimum, parts), _reduced(np.maximum, parts))
    return Span(np.where(safe, found.low, -math.inf), np.where(safe, found.high, math.inf))


def _remainder(a: Span, b: Span) -> Span:
    """Of the sign of the dividend; grows with it between two multiples of a constant divisor."""
    size = b.size
    low, high = np.where(a.low >= 0, 0.0, -size), np.where(a.high <= 0, 0.0, size)
    first, last = np.trunc(a.low / b.low), np.trunc(a.high / b.low)
    edge = 2.0**-40 * np.maximum(np.abs(a.low), np.abs(a.high))
    near = np.abs(np.abs(a.high - np.rint(a.high / b.low) * b.low)) <= edge
    sure = (b.low == b.high) & (first == last) & ~near & ((a.low >= 0) | (a.high <= 0))
    found = _widened(np.fmod(a.low, b.low), np.fmod(a.high, b.low))
    point = (a.low == a.high) & (b.low == b.high)
    low, high = np.where(sure, found.low - edge, low), np.where(sure, found.high + edge, high)
    exact = np.fmod(a.low, b.low)
    return Span(np.where(point, exact, low), np.where(point, exact, high))


def _absolute(a: Span) -> Span:
    return Span(a.least, a.size)


def _away(x: Floats) -> Floats:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _power(base: Span, exponent: Span, written: Expr) -> Span:
    known = constant_of(written)
    if known is not None and known.is_integer() and abs(known) <= MAX_EXPONENT:
        n = int(abs(known))
        low, high = (base.low, base.high) if n % 2 else (base.least, base.size)
        found = _power_ends(low, high, float(n)) if n else _point(1.0)
        return found if known >= 0 else _quotient(_point(1.0), found)
    log = _RULES["ln"]([base])
    with_log = Span(np.where(base.low < 0, -math.inf, log.low), np.where(base.low < 0, math.inf, log.high))
    whole = _RULES["exp"]([_product(exponent, with_log)])
    if known is not None and known > 0:
        ends = _power_ends(np.maximum(base.low, 0), base.high, known)
        return Span(np.where(base.low < 0, -math.inf, ends.low), np.where(base.low < 0, math.inf, ends.high))
    return Span(np.where(base.low < 0, -math.inf, whole.low), whole.high)


def _power_ends(low: Floats, high: Floats, n: float) -> Span:
    return _widened(np.power(low, n), np.power(high, n))


_RULES: dict[str, Callable[[Sequence[Span]], Span]] = {
    "add": lambda a: a[0] + a[1], "sub": lambda a: a[0] - a[1], "neg": lambda a: -a[0],
    "mul": lambda a: _product(a[0], a[1]), "div": lambda a: _quotient(a[0], a[1]),
    "mod": lambda a: _remainder(a[0], a[1]), "abs": lambda a: _absolute(a[0]),
    "floor": _stepped(np.floor), "ceil": _stepped(np.ceil), "trunc": _stepped(np.trunc), "round": _stepped(_away),
    "round_even": _stepped(np.rint), "sign": _stepped(np.sign),
    "sqrt": lambda a: _widened(np.sqrt(np.maximum(a[0].low, 0)), np.sqrt(np.maximum(a[0].high, 0))),
    "exp": lambda a: Span(np.maximum(_monotone(np.exp)(a).low, 0), _monotone(np.exp)(a).high),
    "ln": _logarithm(np.log), "log10": _logarithm(np.log10), "log2": _logarithm(np.log2),
    "sin": lambda a: rc.sine(rc.Rectangle(a[0], Span(np.zeros(()), np.zeros(())))).re,
    "cos": lambda a: rc.cosine(rc.Rectangle(a[0], Span(np.zeros(()), np.zeros(())))).re,
    "tanh": _monotone(np.tanh), "atan": _monotone(np.arctan), "number": lambda a: a[0],
    "greatest": lambda a: Span(_reduced(np.maximum, [x.low for x in a]), _reduced(np.maximum, [x.high for x in a])),
    "least": lambda a: Span(_reduced(np.minimum, [x.low for x in a]), _reduced(np.minimum, [x.high for x in a])),
    "and": _all, "or": _any, "not": lambda a: _not(a[0]),
}  # fmt: skip
_COMPARISONS: Mapping[str, Callable[[Span, Span], Span]] = {
    "eq": _equal, "same": _equal, "ne": lambda a, b: _not(_equal(a, b)), "distinct": lambda a, b: _not(_equal(a, b)),
    "lt": _below, "gt": lambda a, b: _below(b, a), "le": _least_first, "ge": lambda a, b: _least_first(b, a),
}  # fmt: skip
_PARTED = (
    "year", "quarter", "month", "day", "week", "dayofweek", "isodow", "dayofyear", "hour", "minute",
)  # fmt: skip
