"""The allow-list of scalar operators: their types, bounds and total SQL, each declared once.

An operator states facts about itself (result type, image of intervals, whether it keeps whole numbers, when it may be
NULL); ``operators.facts`` is the one rule that composes them. ``sql`` must be total: for any argument values of
the declared kinds the printed SQL returns a value, at a cost of at most O(length) (fuzzed by the tests). What is not in
the table does not exist.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from duckdp.catalog.table import INTEGER_RANGES, MAX_TEXT, Kind
from duckdp.core import interval as iv
from duckdp.core.interval import REALS, Interval

N, T, B, D, S = Kind.NUMBER, Kind.TEXT, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about an expression without data.

    Attributes:
        interval: bounds of a NUMBER (the reals if unknown).
        integral: whether a NUMBER is whole.
        nullable: whether it may be NULL.
        bounded: whether its type holds no infinity, whatever its interval.
    """

    interval: Interval = REALS
    integral: bool = False
    nullable: bool = True
    bounded: bool = False

    @property
    def finite(self) -> bool:
        """Whether a NUMBER is never infinite."""
        return self.bounded or (math.isfinite(self.interval.lower) and math.isfinite(self.interval.upper))


def _any_nullable(args: Sequence[Facts]) -> bool:
    return any(a.nullable for a in args)


def _all_nullable(args: Sequence[Facts]) -> bool:
    return all(a.nullable for a in args)


def _keeps(args: Sequence[Facts]) -> bool:
    return all(a.integral for a in args)


def _never(_: Sequence[Facts]) -> bool:
    return False


def _always(_: Sequence[Facts]) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One allowed operator.

    Attributes:
        takes: kinds of the arguments; the last repeats when ``variadic``.
        gives: kind of the result, or None for the kind of the last argument.
        sql: prints the call from printed arguments and the option.
        interval: image of the arguments' intervals (NUMBER results).
        integral: whether the result is whole, from the arguments' facts.
        nullable: whether the result may be NULL, from the arguments' facts.
        domain: the interval the first argument must lie in, where the operator is partial.
    """

    takes: tuple[Kind, ...]
    gives: Kind | None
    sql: Callable[[list[str], str], str]
    interval: Callable[[Sequence[Interval]], Interval] = field(default=lambda _: REALS)
    integral: Callable[[Sequence[Facts]], bool] = _never
    nullable: Callable[[Sequence[Facts]], bool] = _any_nullable
    variadic: bool = False
    domain: Interval | None = None


def _infix(sign: str) -> Callable[[list[str], str], str]:
    return lambda a, _: f"({a[0]} {sign} {a[1]})"


def _function(name: str) -> Callable[[list[str], str], str]:
    return lambda a, _: f"system.main.{name}({', '.join(a)})"


def _matches(flags: str) -> Callable[[list[str], str], str]:
    return lambda a, _: f"system.main.regexp_full_match({a[0]}, {a[1]}, '{flags}')"


def _numeric(
    name: str, image: Callable[[Interval], Interval], *, whole: bool = False, domain: Interval | None = None
) -> Operator:
    return Operator(
        takes=(N,), gives=N, sql=_function(name), interval=lambda a: image(a[0]),
        integral=_always if whole else _never, domain=domain,
    )  # fmt: skip


def _compare(kind: Kind, sign: str) -> Operator:
    return Operator(takes=(kind, kind), gives=B, sql=_infix(sign))


def _part(name: str, low: int, high: int, kinds: Sequence[Kind]) -> dict[str, Operator]:
    def sql(a: list[str], _: str) -> str:
        return f"CAST(system.main.{name}({a[0]}) AS DOUBLE)"

    return {
        f"{name}_{k.value}": Operator(
            takes=(k,), gives=N, sql=sql, interval=lambda _: Interval(low, high), integral=_always
        )
        for k in kinds
    }


def _constant_interval(low: float, high: float) -> Callable[[Sequence[Interval]], Interval]:
    return lambda _: Interval(low, high)


def outward(a: Interval, low: float = -math.inf, high: float = math.inf) -> Interval:
    """Widened for the last digits of another mathematics library: implied domains must hold DuckDB's results."""
    slack = 2.0**-50
    return Interval(max(low, a.lower - abs(a.lower) * slack), min(high, a.upper + abs(a.upper) * slack))


TINY = 5e-324
SIGNS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
SIGNS |= {"distinct": "IS DISTINCT FROM", "same": "IS NOT DISTINCT FROM"}

OPERATORS: dict[str, Operator] = {
    # arithmetic, on DOUBLE: never raises, overflow is an infinity
    "add": Operator(takes=(N, N), gives=N, sql=_infix("+"), interval=lambda a: iv.add(*a), integral=_keeps),
    "sub": Operator(takes=(N, N), gives=N, sql=_infix("-"), interval=lambda a: iv.subtract(*a), integral=_keeps),
    "mul": Operator(takes=(N, N), gives=N, sql=_infix("*"), interval=lambda a: iv.multiply(*a), integral=_keeps),
    "div": Operator(takes=(N, N), gives=N, sql=_infix("/"), interval=lambda a: iv.divide(*a)),
    "mod": Operator(
        takes=(N, N), gives=N, sql=_infix("%"), integral=_keeps,
        interval=lambda a: REALS if a[1].contains(0) else Interval(-a[1].largest, a[1].largest),
    ),
    "neg": Operator(
        takes=(N,), gives=N, sql=lambda a, _: f"(- {a[0]})", integral=_keeps,
        interval=lambda a: Interval(-a[0].upper, -a[0].lower),
    ),
    "abs": Operator(
        takes=(N,), gives=N, sql=_function("abs"), interval=lambda a: iv.absolute(a[0]), integral=_keeps
    ),
    "floor": _numeric("floor", lambda a: iv.monotone(math.floor, a), whole=True),
    "ceil": _numeric("ceil", lambda a: iv.monotone(math.ceil, a), whole=True),
    "round": _numeric("round", lambda a: Interval(a.lower - 0.5, a.upper + 0.5), whole=True),
    "round_even": Operator(
        takes=(N,), gives=N, sql=lambda a, _: f"system.main.round_even({a[0]}, 0)", integral=_always,
        interval=lambda a: Interval(a[0].lower - 0.5, a[0].upper + 0.5),
    ),
    "trunc": _numeric("trunc", lambda a: iv.monotone(math.trunc, a), whole=True),
    "sign": Operator(
        takes=(N,), gives=N, sql=lambda a, _: f"CAST(system.main.sign({a[0]}) AS DOUBLE)",
        interval=_constant_interval(-1, 1), integral=_always,
    ),
    "sqrt": _numeric("sqrt", lambda a: iv.monotone(math.sqrt, a), domain=Interval(0, math.inf)),
    "exp": _numeric("exp", lambda a: outward(iv.monotone(math.exp, a), low=0)),
    "ln": _numeric("ln", lambda a: outward(iv.monotone(math.log, a)), domain=Interval(TINY, math.inf)),
    "log10": _numeric("log10", lambda a: outward(iv.monotone(math.log10, a)), domain=Interval(TINY, math.inf)),
    "log2": _numeric("log2", lambda a: outward(iv.monotone(math.log2, a)), domain=Interval(TINY, math.inf)),
    "sin": _numeric("sin", lambda _: Interval(-1, 1), domain=Interval(-1e15, 1e15)),
    "cos": _numeric("cos", lambda _: Interval(-1, 1), domain=Interval(-1e15, 1e15)),
    "tanh": _numeric("tanh", lambda a: outward(iv.monotone(math.tanh, a), low=-1, high=1)),
    "atan": _numeric("atan", lambda a: outward(iv.monotone(math.atan, a))),
    "power": Operator(takes=(N, N), gives=N, sql=_function("pow")),  # bounds: see _power_interval
    "greatest": Operator(
        takes=(N,), gives=N, sql=_function("greatest"), variadic=True, integral=_keeps, nullable=_all_nullable
    ),  # bounds: see _extreme_interval
    "least": Operator(
        takes=(N,), gives=N, sql=_function("least"), variadic=True, integral=_keeps, nullable=_all_nullable
    ),
    "defined": Operator(  # NaN is NULL, as in a column: see undefined
        takes=(N,), gives=N, sql=lambda a, _: f"NULLIF({a[0]}, CAST('nan' AS DOUBLE))", nullable=_always,
        interval=lambda a: a[0], integral=_keeps,
    ),
    "units": Operator(  # of 10**-scale each, in a DECIMAL
        takes=(N,), gives=N, sql=lambda a, s: f"system.main.round_even(({a[0]} * 1e{int(s)}), 0)", integral=_always,
    ),
    "to_float": Operator(  # the nearest FLOAT; NULL beyond its range
        takes=(N,), gives=N, sql=lambda a, _: f"CAST(TRY_CAST({a[0]} AS FLOAT) AS DOUBLE)", integral=_keeps,
        nullable=_always, interval=lambda a: iv.monotone(iv.nearest_float, a[0]),
    ),
    "to_integer": Operator(  # halves to even; NULL beyond the type's range
        takes=(N,), gives=N, sql=lambda a, t: f"CAST(TRY_CAST({a[0]} AS {_integer(t)}) AS DOUBLE)", integral=_always,
        nullable=_always,
    ),
    "number": Operator(  # BOOLEAN to 0 or 1
        takes=(B,), gives=N, sql=lambda a, _: f"CAST({a[0]} AS DOUBLE)",
        interval=_constant_interval(0, 1), integral=_always,
    ),
    # logic
    "and": Operator(takes=(B,), gives=B, sql=lambda a, _: "(" + " AND ".join(a) + ")", variadic=True),
    "or": Operator(takes=(B,), gives=B, sql=lambda a, _: "(" + " OR ".join(a) + ")", variadic=True),
    "not": Operator(takes=(B,), gives=B, sql=lambda a, _: f"(NOT {a[0]})"),
    **{f"{op}_{k.value}": _compare(k, sign) for op, sign in SIGNS.items() for k in Kind},
    **{
        f"is_null_{k.value}": Operator(takes=(k,), gives=B, sql=lambda a, _: f"({a[0]} IS NULL)", nullable=_never)
        for k in Kind
    },
    **{
        f"between_{k.value}": Operator(
            takes=(k, k, k), gives=B, sql=lambda a, _: f"({a[0]} BETWEEN {a[1]} AND {a[2]})"
        )
        for k in Kind
    },
    **{
        f"in_{k.value}": Operator(
            takes=(k,), gives=B, variadic=True, sql=lambda a, _: f"({a[0]} IN ({', '.join(a[1:])}))"
        )
        for k in Kind
    },
    **{
        f"coalesce_{k.value}": Operator(
            takes=(k,), gives=k, variadic=True, sql=lambda a, _: f"COALESCE({', '.join(a)})",
            nullable=_all_nullable, integral=_keeps, interval=lambda a: iv.hull(*a),
        )
        for k in Kind
    },
    **{
        f"nullif_{k.value}": Operator(
            takes=(k, k), gives=k, sql=lambda a, _: f"NULLIF({a[0]}, {a[1]})", nullable=_always,
            integral=lambda f: f[0].integral, interval=lambda a: a[0],
        )
        for k in Kind
    },
    # text, all on at most 256 characters
    "lower": Operator(takes=(T,), gives=T, sql=_function("lower")),
    "upper": Operator(takes=(T,), gives=T, sql=_function("upper")),
    "trim": Operator(takes=(T,), gives=T, sql=_function("trim")),
    "length": Operator(
        takes=(T,), gives=N, sql=lambda a, _: f"CAST(system.main.length({a[0]}) AS DOUBLE)",
        interval=_constant_interval(0, 4 * MAX_TEXT), integral=_always,
    ),
    "left": Operator(takes=(T,), gives=T, sql=lambda a, n: f"system.main.left({a[0]}, {int(n)})"),
    "right": Operator(takes=(T,), gives=T, sql=lambda a, n: f"system.main.right({a[0]}, {int(n)})"),
    "substring": Operator(
        takes=(T,), gives=T,
        sql=lambda a, n: "system.main.substring({}, {}, {})".format(a[0], *(int(i) for i in n.split(","))),
    ),
    "like": Operator(takes=(T, T), gives=B, sql=_matches("s")),  # the pattern is a regular expression: linear
    "ilike": Operator(takes=(T, T), gives=B, sql=_matches("si")),
    "starts_with": Operator(takes=(T, T), gives=B, sql=_function("starts_with")),
    "ends_with": Operator(takes=(T, T), gives=B, sql=_function("ends_with")),
    "contains": Operator(takes=(T, T), gives=B, sql=_function("contains")),
    # dates; columns are read clamped to years 1 to 9999, so none of these leaves its range
    **_part("year", 1, 9999, (D, S)), **_part("month", 1, 12, (D, S)), **_part("day", 1, 31, (D, S)),
    **_part("quarter", 1, 4, (D, S)), **_part("week", 1, 53, (D, S)), **_part("dayofweek", 0, 6, (D, S)),
    **_part("isodow", 1, 7, (D, S)), **_part("dayofyear", 1, 366, (D, S)), **_part("hour", 0, 23, (S,)),
    **_part("minute", 0, 59, (S,)),
    "to_date": Operator(takes=(S,), gives=D, sql=lambda a, _: f"CAST({a[0]} AS DATE)"),
    "to_timestamp": Operator(takes=(D,), gives=S, sql=lambda a, _: f"CAST({a[0]} AS TIMESTAMP)"),
    "trunc_date": Operator(
        takes=(D,), gives=D, sql=lambda a, unit: f"CAST(system.main.date_trunc('{_unit(unit)}', {a[0]}) AS DATE)"
    ),
    "trunc_timestamp": Operator(
        takes=(S,), gives=S, sql=lambda a, unit: f"system.main.date_trunc('{_unit(unit)}', {a[0]})"
    ),
    **{
        f"date_diff_{k.value}": Operator(
            takes=(k, k), gives=N, integral=_always,
            sql=lambda a, unit: f"CAST(system.main.date_diff('{_unit(unit)}', {a[0]}, {a[1]}) AS DOUBLE)",
        )
        for k in (D, S)
    },
}  # fmt: skip

UNITS = {"year": 366, "quarter": 92, "month": 31, "week": 7, "day": 1, "hour": 1 / 24, "minute": 1 / 1440}


def _integer(name: str) -> str:
    if name not in INTEGER_RANGES:
        raise KeyError(name)
    return name


def _unit(unit: str) -> str:
    if unit not in UNITS:
        raise KeyError(unit)
    return unit
