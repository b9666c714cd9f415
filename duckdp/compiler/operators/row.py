"""What a row of the table of scalar operators says.

A new function needs ``name``, ``takes``, ``gives``, ``sql``, a way to be read (``nodes`` or ``words``), and whatever of
the rest is true of it: every default claims nothing. ``sql`` must be total: for any argument values of the declared
kinds the printed SQL returns a value, at a cost of at most O(length). The tests try every row as soon as it is there:
totality, bounds, NULL rules, its values on released numbers and its rules on intervals, all against DuckDB.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from sqlglot import exp

from duckdp.catalog.table import MAX_TEXT, Kind
from duckdp.compiler.expression import Call, Expr, NumberType
from duckdp.compiler.number_types import TypeOf, of_double
from duckdp.compiler.vectors import Released
from duckdp.core.discs import Discs
from duckdp.core.interval import REALS, Interval
from duckdp.core.rectangles import Rectangle, Span

N, T, B, D, S = Kind.NUMBER, Kind.TEXT, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP
Days = tuple[dt.date, dt.date]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about an expression without data.

    Attributes:
        interval: bounds of a NUMBER (the reals if unknown).
        integral: whether a NUMBER is whole.
        nullable: whether it may be NULL.
        bounded: whether its type holds no infinity, whatever its interval.
        dates: first and last of a DATE or TIMESTAMP, where known.
    """

    interval: Interval = REALS
    integral: bool = False
    nullable: bool = True
    bounded: bool = False
    dates: Days | None = None

    @property
    def finite(self) -> bool:
        """Whether a NUMBER is never infinite."""
        return self.bounded or (math.isfinite(self.interval.lower) and math.isfinite(self.interval.upper))


class Digits(Enum):
    """How the last digits of a number come about, where DuckDB computes it as a DECIMAL or FLOAT and we as DOUBLE."""

    KEPT = "those of the arguments"
    STEPS = "the operator looks at last digits: its arguments are exact since it was read"
    FLOAT = "the same, and the result is a FLOAT"
    SUM = "the result is brought back to a DECIMAL's scale, or to FLOAT"
    QUOTIENT = "the result is brought back to FLOAT"
    CHOSEN = "the arguments are brought to their common type"


Args = Sequence[Facts]


def never(*_: object) -> bool:
    """Answers False, whatever is asked."""
    return False


def always(*_: object) -> bool:
    """Answers True, whatever is asked."""
    return True


def any_nullable(args: Args) -> bool:
    """NULL where any argument is."""
    return any(a.nullable for a in args)


def all_nullable(args: Args) -> bool:
    """NULL where all arguments are."""
    return all(a.nullable for a in args)


def keeps_whole(args: Args) -> bool:
    """Whole numbers of whole numbers."""
    return all(a.integral for a in args)


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One allowed operator, and all that others need to know of it.

    Attributes:
        name: in ``Call.operator``, and so in the texts that identify questions: it never changes.
        takes: kinds of the arguments; the last repeats when ``variadic``.
        gives: kind of the result, or None for the kind of the last argument.
        sql: prints the call from printed arguments and the option.
        variadic: any number of arguments.
        domain: the interval the first argument must lie in, where the operator is partial.

        nodes: what the parser makes of its calls.
        words: names of its calls that the parser has no node for, or that ``date_part`` takes.
        offered: names that a refusal may offer in place of a function without a rule.
        stem: the name that its rows for several kinds have in common.
        label: what ``explain`` calls it, if not by its stem.
        reading: how its calls are read (compiler/scalars.py).
        pattern: of a constant pattern, the operator and the constant that are meant.
        meets: it tells whether values are equal, so a label for other values has no place in it.
        shown: its notation in ``explain``, if not that of a function.

        interval: image of a NUMBER, from facts of the arguments and the option.
        integral, nullable: whether the result is whole, or may be NULL, from facts of the arguments.
        dates: first and last of a DATE or TIMESTAMP, from those of the argument.
        moved: the moment that it makes of a moment and the option, which grows with it; None beyond the calendar.
        keeps_finite: finite where its arguments are.
        exact: the result lies in the interval to the last digit, and is no NaN, for finite arguments.
        undefined: whether numbers that are not NaN may give NaN, from their facts.
        number_type: DuckDB's type of a NUMBER, from the call and the rule for its arguments.
        digits: how last digits come about.
        whole: exact arithmetic of whole numbers.
        signed: places of the arguments whose sign shows even where they are 0, from the arguments.
        signs: it is the sum of its arguments, each with its sign.
        equates: it holds where its two arguments are equal, and of no NULL.
        role: it is the product, or the quotient, of its two arguments, or holds where all of them do.
        as_cast: what a cast to a whole number does first.
        period: the result is the start of the period, named by the option, that holds the argument.
        picks_first: the result is the first argument that is not NULL.
        first_or_null: the result is the first argument, or NULL.
        null_with: which arguments make it NULL where they are.
        makes_null: it may be NULL though no argument is, at single points.

        released: value and gradient on released numbers; None: it works on rows only.
        holds: of a cast, the least and the largest of the whole numbers of the option's type; beyond them is NULL.

        analytic: its rule on complex rectangles, NaN where it is not analytic.
        discs: the same rule on complex discs, which are many times faster; None: rectangles serve.
        entire: whether these rules hold on the whole plane.
        encloses: its rule on real intervals (dates in days, timestamps in microseconds); None: nothing is known.
        settled: the argument (or other expression) that it always is, by facts of the arguments; None where open.
        bends: it may jump or bend where its arguments do not.
        continuous: it bends, but neither jumps nor rounds: ``encloses`` holds in exact arithmetic too.
        cancels: its rounding errors may be larger than its result.
        by_value: how a text with it is translated depends on the value of a constant.
        bounds: released, its value and interval are cut to the operator's interval.
    """

    name: str
    takes: tuple[Kind, ...]
    gives: Kind | None
    sql: Callable[[list[str], str], str]
    variadic: bool = False
    domain: Interval | None = None

    nodes: tuple[type[exp.Expression], ...] = ()
    words: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()
    stem: str = ""
    label: str = ""
    reading: Literal["plain", "compared", "pattern", "part"] = "plain"
    pattern: Callable[[str], tuple[str, str]] | None = None
    meets: bool = False
    shown: Callable[[list[str]], str] | None = None

    interval: Callable[[Args, str], Interval] = lambda _, __: REALS
    integral: Callable[[Args], bool] = never
    nullable: Callable[[Args], bool] = any_nullable
    dates: Callable[[Days], Days] | None = None
    moved: Callable[[dt.date, str], dt.date | None] | None = None
    keeps_finite: bool = False
    exact: bool = False
    undefined: Callable[[Facts, Facts], bool] | None = None
    number_type: Callable[[Call, TypeOf], NumberType] = of_double
    digits: Digits = Digits.KEPT
    whole: Callable[..., int] | None = None
    signed: Callable[[Sequence[Expr]], tuple[int, ...]] = lambda _: ()
    signs: tuple[float, ...] = ()
    equates: bool = False
    role: Literal["", "product", "quotient", "conjunction"] = ""
    as_cast: bool = False
    period: bool = False
    picks_first: bool = False
    first_or_null: bool = False
    null_with: Literal["any", "all", "first", "none"] = "any"
    makes_null: bool = False

    released: Released | None = None
    holds: Callable[[str], tuple[int, int]] | None = None

    analytic: Callable[[Call, Sequence[Rectangle]], Rectangle] | None = None
    discs: Callable[[Call, Sequence[Discs]], Discs] | None = None
    entire: Callable[[Call], bool] = never
    encloses: Callable[[Call, Sequence[Span]], Span] | None = None
    settled: Callable[[Call, Args], Expr | None] | None = None
    bends: bool = True
    continuous: bool = False
    cancels: bool = False
    by_value: bool = False
    bounds: bool = False

    @property
    def family(self) -> str:
        """The name that its rows for several kinds have in common."""
        return self.stem or self.name

    @property
    def works_on_released(self) -> bool:
        """Whether it has a rule on released numbers."""
        return self.released is not None or self.holds is not None

    @property
    def steps(self) -> bool:
        """Whether it looks at last digits."""
        return self.digits in (Digits.STEPS, Digits.FLOAT)


def infix(sign: str) -> Callable[[list[str], str], str]:
    """SQL of a sign between two arguments."""
    return lambda a, _: f"({a[0]} {sign} {a[1]})"


def function(name: str) -> Callable[[list[str], str], str]:
    """SQL of a function of DuckDB's."""
    return lambda a, _: f"system.main.{name}({', '.join(a)})"


def short(sql: str) -> str:
    """A text that stays as short as columns are read, whatever it is made of: work and memory have a public bound."""
    return f"system.main.left({sql}, {MAX_TEXT})"


def between(sign: str) -> Callable[[list[str]], str]:
    """Notation of a sign between all arguments."""
    return lambda a: f"({f' {sign} '.join(a)})"


def spans(image: Callable[..., Interval]) -> Callable[[Args, str], Interval]:
    """Image of the arguments' intervals."""
    return lambda args, _: image(*(a.interval for a in args))


def within(low: float, high: float) -> Callable[[Args, str], Interval]:
    """The same interval whatever the arguments."""
    return lambda _, __: Interval(low, high)


def outward(a: Interval, low: float = -math.inf, high: float = math.inf) -> Interval:
    """Widened for the last digits of another mathematics library: implied domains must hold DuckDB's results."""
    slack = 2.0**-50
    return Interval(max(low, a.lower - abs(a.lower) * slack), min(high, a.upper + abs(a.upper) * slack))
