"""Dates and timestamps that functions make of constants: worked out by DuckDB where no row is, and constants since."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NoReturn

import duckdb
from sqlglot import exp

from duckdp.catalog.table import Kind, Scalar
from duckdp.compiler.empty import on_values
from duckdp.compiler.expression import Expr, Literal
from duckdp.compiler.parse import refuse

_PARTS = "Take date_trunc('month', x) of a date's own parts, or GROUP BY y, m of other numbers."
# Of each function: its call with typed constants, one that works, and what does the work over columns.
_MADE = {
    "make_date": (
        "make_date(CAST($1 AS BIGINT), CAST($2 AS BIGINT), CAST($3 AS BIGINT))",
        "make_date(2025, 1, 31)",
        _PARTS,
    ),
    "make_timestamp": (
        "make_timestamp(CAST($1 AS BIGINT), CAST($2 AS BIGINT), CAST($3 AS BIGINT), CAST($4 AS BIGINT), "
        "CAST($5 AS BIGINT), CAST($6 AS DOUBLE))",
        "make_timestamp(2025, 1, 31, 12, 0, 0)",
        _PARTS,
    ),
    "strptime": (
        "strptime(CAST($1 AS VARCHAR), CAST($2 AS VARCHAR))",
        "strptime('2025-01-31', '%Y-%m-%d')",
        "Take TRY_CAST(x AS DATE) of texts such as '2025-01-31', or parts of the text: left(x, 4).",
    ),
    "to_timestamp": (
        "timezone('UTC', to_timestamp(CAST($1 AS DOUBLE)))",
        "to_timestamp(1738324800)",
        "Compare the number itself: x > epoch(TIMESTAMP '2025-01-31').",
    ),
}
_NAMES: dict[type[exp.Expression], str] = {
    exp.DateFromParts: "make_date",
    exp.TimestampFromParts: "make_timestamp",
    exp.StrToTime: "strptime",
    exp.UnixToTime: "to_timestamp",
}
_TAKEN = frozenset(("this", "format", "year", "month", "day", "hour", "min", "sec"))  # parts of those nodes
_KINDS = {"DATE": Kind.DATE, "TIMESTAMP": Kind.TIMESTAMP}


class MadeMoments(ABC):
    """The part of ``scalars.Scalars`` that translates them."""

    text: str | None

    @abstractmethod
    def constant(self, node: exp.Expression) -> Expr:
        """The constant that a node is, or what else it is where it is none."""

    @abstractmethod
    def _no_rule(self, node: exp.Expression) -> NoReturn: ...

    def _made(self, node: exp.Expression) -> Expr:
        parts = [node.args[k] for k in node.arg_types if isinstance(node.args.get(k), exp.Expression)]
        called = _NAMES[type(node)]
        if any(v for k, v in node.args.items() if k not in _TAKEN):
            self._no_rule(node)  # epoch_ms(5), which the parser takes for to_timestamp with a scale
        sql, way, over = _MADE[called]
        given = [self.constant(p) for p in parts]
        if not all(isinstance(g, Literal) for g in given):
            refuse("Q202", f"{called} takes constants here. {over}", node, self.text)
        found = _worked_out(sql, [g.value for g in given if isinstance(g, Literal)])
        if found is None:
            what = f"{called} makes no date of these constants, from year 1 to 9999"
            refuse("Q203", f"{what}. Write {way}.", node, self.text)
        return found

    made_methods: ClassVar[dict[type[exp.Expression], Callable[[MadeMoments, exp.Expression], Expr]]] = dict.fromkeys(
        _NAMES, _made
    )


def _worked_out(call: str, constants: list[Scalar]) -> Literal | None:
    """The moment that a call of constants is; None where DuckDB has none, or one that Python has not."""
    whole = "BIGINT" in call
    if len(constants) != call.count("$") or any(isinstance(c, bool) for c in constants):
        return None
    if whole and any(isinstance(c, float) for c in constants[:5]):
        return None  # DuckDB takes no fractions but of a second
    sql = f"SELECT x, typeof(x) FROM (SELECT {call} AS x)"
    try:  # all rows are fetched: an open result would stand in the next caller's way
        found = on_values({}, lambda con: con.execute(sql, constants).fetchall())
    except (duckdb.Error, ValueError, OverflowError):
        return None
    ((value, kind),) = found
    return Literal(value, _KINDS[kind]) if kind in _KINDS and isinstance(value, dt.date) else None
