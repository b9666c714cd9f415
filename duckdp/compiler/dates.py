"""Dates and timestamps: constants in ISO form, parts, units to cut at and to count in."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NoReturn

from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler import ways
from duckdp.compiler.expression import Expr, Literal
from duckdp.compiler.nodes import PART_NAMES
from duckdp.compiler.operators import OPERATORS, UNITS, Operator
from duckdp.compiler.parse import refuse
from duckdp.core.calendar import PERIODS


def unit_of(name: str) -> str:
    """A unit of time as DuckDB calls it, of its name in capitals or in the plural.

    >>> unit_of("MINUTES")
    'minute'
    """
    return name.lower().removesuffix("s")


class DateNodes(ABC):
    """The part of ``scalars.Scalars`` that translates them."""

    text: str | None

    @abstractmethod
    def __call__(self, node: exp.Expression) -> Expr:
        """Translate a node."""

    @abstractmethod
    def _operator(self, name: str, node: exp.Expression, args: list[Expr], option: str = "") -> Expr: ...

    @abstractmethod
    def _common(self, args: list[Expr], node: exp.Expression) -> Kind: ...

    @abstractmethod
    def _no_rule(self, node: exp.Expression) -> NoReturn: ...

    def _part_node(self, row: Operator, node: exp.Expression) -> Expr:
        if any(v for k, v in node.args.items() if k != "this"):
            self._no_rule(node)  # week(date, mode) of other systems
        return self._part_of(row.family, node, node.this)

    @abstractmethod
    def _age(self, name: str, node: exp.Expression) -> Expr | None: ...

    @abstractmethod
    def _difference(self, name: str, node: exp.Expression, of: exp.Expression) -> Expr | None: ...

    def _part_of(self, name: str, node: exp.Expression, of: exp.Expression) -> Expr:
        """A part of a date, or of an age, or the seconds between two moments."""
        found = self._age(name, of) or self._difference(name, node, of)
        return self._part(name, node, self(of)) if found is None else found

    def _part(self, name: str, node: exp.Expression, arg: Expr) -> Expr:
        found = f"{PART_NAMES.get(name)}_{arg.kind.value}"
        if found not in OPERATORS:
            told = PART_NAMES.get(name, name)
            way = f"{told} needs a date or timestamp with that part. Use it on such a column."
            refuse("Q203", way, node, self.text)
        return self._operator(found, node, [arg])

    def _moment(self, value: str, kind: Kind, node: exp.Expression) -> Literal:
        try:
            moment: dt.date = (
                dt.datetime.fromisoformat(value) if kind is Kind.TIMESTAMP else dt.date.fromisoformat(value)
            )
        except ValueError:
            refuse("Q203", f"the text is not an ISO {kind.value}. {ways.NEEDED[kind]}", node, self.text)
        if isinstance(moment, dt.datetime) and moment.tzinfo is not None:
            refuse("Q203", f"an offset from UTC is outside the allow-list. {ways.in_utc(value)}", node, self.text)
        return Literal(moment, kind)

    def _trunc_date(self, node: exp.Expression) -> Expr:
        arg, unit = self(node.this), str(node.args["unit"].name).lower()
        allowed = {k for k in UNITS if arg.kind is Kind.TIMESTAMP or k not in ("hour", "minute")}
        if arg.kind not in (Kind.DATE, Kind.TIMESTAMP) or unit not in allowed:
            units = ", ".join(sorted(allowed))
            refuse("Q202", f"date_trunc takes a date or timestamp and a unit. Use one of {units}.", node, self.text)
        return self._operator("trunc_date" if arg.kind is Kind.DATE else "trunc_timestamp", node, [arg], unit)

    def _date_diff(self, node: exp.Expression) -> Expr:
        args = [self(node.expression), self(node.this)]  # date_diff(unit, expression, this)
        unit = unit_of(str(node.args["unit"].name)) if node.args.get("unit") is not None else "day"
        kind = self._common(args, node)
        if f"date_diff_{kind.value}" not in OPERATORS or unit not in PERIODS:
            way = f"date_diff takes two dates and a unit. Use one of {', '.join(sorted(PERIODS))}."
            refuse("Q202", way, node, self.text)
        return self._operator(f"date_diff_{kind.value}", node, args, unit)

    def _extract(self, node: exp.Expression) -> Expr:
        name = str(node.this.name).lower()
        return self._part_of(name, node, node.expression)

    date_methods: ClassVar[dict[type[exp.Expression], Callable[[DateNodes, exp.Expression], Expr]]] = {
        exp.DateTrunc: _trunc_date,
        exp.TimestampTrunc: _trunc_date,
        exp.DateDiff: _date_diff,
        exp.Extract: _extract,
    }
