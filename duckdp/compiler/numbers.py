"""Numbers whose meaning depends on DuckDB's types: rounding, casts, ``//`` and ``%``."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp

from duckdp.catalog.table import INTEGER_RANGES, Kind
from duckdp.compiler.expression import Call, ColumnRef, Expr, Literal, NumberType
from duckdp.compiler.facts import facts
from duckdp.compiler.literals import small_int
from duckdp.compiler.number_types import DOUBLE, FLOAT, INTEGER, whole_type
from duckdp.compiler.operators import row_of
from duckdp.compiler.parse import refuse
from duckdp.compiler.types import (
    as_float,
    as_type,
    common_type,
    divided,
    exact,
    remainder_type,
    rounded,
    type_of,
    typed,
    units,
    untyped,
)
from duckdp.compiler.zeros import cast_type


class NumberNodes(ABC):
    """The part of ``scalars.Scalars`` that translates them; ``rows`` says that values are those of rows."""

    text: str | None
    rows: bool
    released: bool

    @abstractmethod
    def __call__(self, node: exp.Expression) -> Expr:
        """Translate a node."""

    @abstractmethod
    def _arguments(self, node: exp.Expression, *also: str) -> list[Expr]: ...

    @abstractmethod
    def _operator(self, name: str, node: exp.Expression, args: list[Expr], option: str = "") -> Expr: ...

    @abstractmethod
    def _coerce(self, arg: Expr, kind: Kind, node: exp.Expression) -> Expr: ...

    def _log(self, node: exp.Expression) -> Expr:
        base, arg = node.this, node.args.get("expression")
        if arg is None:
            return self._operator("log10", node, [self(base)])  # DuckDB: log(x) is log10(x)
        bases = {"2": "log2", "10": "log10"}
        if not isinstance(base, exp.Literal) or base.name not in bases:
            refuse("Q202", "log takes base 2 or 10. Use ln(x) / ln(base).", node, self.text)
        return self._operator(bases[base.name], node, [self(arg)])

    def _real(self, number: Expr, target: exp.DType) -> Expr:
        """A number as DOUBLE or FLOAT."""
        found = cast_type(number, DOUBLE if target is exp.DType.DOUBLE else FLOAT)
        if self.rows:
            number = exact(number) if found == DOUBLE else as_float(exact(number))
        return typed(number, found)

    def _whole(self, number: Expr, name: str, node: exp.Expression) -> Expr:
        """A number cast to a whole one as DuckDB does: DECIMALs round halves away from 0, others to even."""
        known = facts(number)
        if not known.integral and not (self.released and type_of(number) == INTEGER):
            number = self._operator("round" if type_of(number).name == "DECIMAL" else "round_even", node, [number])
        low, high = INTEGER_RANGES[name]
        held = low <= known.interval.lower and known.interval.upper <= high
        if self.rows and not held and not _fits(number, name):
            inner = number.arguments[0] if isinstance(number, Call) and row_of(number).as_cast else number
            number = self._operator("to_integer", node, [inner], name)
        elif self.released and not (held and isinstance(number, Literal)):  # it has the type that is named
            number = self._operator("to_integer", node, [number], name)
        return typed(number, whole_type(name))

    def _round(self, node: exp.Expression) -> Expr:
        value, decimals = self._coerce(self(node.this), Kind.NUMBER, node), node.args.get("decimals")
        kind = type_of(value)
        if decimals is None:
            return self._operator("round", node, [value])
        negative = isinstance(decimals, exp.Neg)
        digits = small_int(decimals.this if negative else decimals)
        if digits is None or digits > 12 or any(v for k, v in node.args.items() if k not in ("this", "decimals")):
            refuse(
                "Q202", "round takes a constant number of decimals from -12 to 12. Write round(x, 2).", node, self.text
            )
        scale = Literal(10**digits, Kind.NUMBER)
        if negative:
            tens = self._operator("round", node, [self._operator("div", node, [value, scale])])
            found = NumberType("DECIMAL", 0, kind.digits + kind.scale) if kind.name == "DECIMAL" else kind
            return typed(self._operator("mul", node, [tens, scale]), found)
        if self.rows and (kind == INTEGER or (kind.name == "DECIMAL" and digits >= kind.scale)):
            return exact(value)
        if self.rows and kind.name == "DECIMAL":
            return rounded(exact(value), kind, digits)
        scaled = self._operator("mul", node, [exact(value) if self.rows else value, scale])
        scaled = self._operator("round", node, [typed(scaled, DOUBLE)])
        return typed(self._operator("div", node, [scaled, scale]), kind)

    def _turned(self, node: exp.Expression) -> Expr:
        """Degrees and radians: a constant times the DOUBLE."""
        value = self._coerce(self(node.this), Kind.NUMBER, node)
        factor = 180 / math.pi if isinstance(node, exp.Degrees) else math.pi / 180
        return self._operator("mul", node, [self._real(value, exp.DType.DOUBLE), Literal(factor, Kind.NUMBER)])

    def _mod(self, node: exp.Expression) -> Expr:
        args = self._arguments(node)
        if self.rows and untyped(args):
            return Literal(None, Kind.NUMBER)
        found = remainder_type(args) if all(a.kind is Kind.NUMBER for a in args) else DOUBLE
        if not self.rows or found.name != "DECIMAL":
            return self._operator(
                "mod", node, [as_type(a, FLOAT) for a in args] if self.rows and found == FLOAT else args
            )
        whole = self._operator("mod", node, [units(exact(a), found.scale) for a in args])  # DOUBLEs hide 0.3 % 0.1 = 0
        return divided(whole, found.scale, found)

    def _int_div(self, node: exp.Expression) -> Expr:
        """``//`` cuts toward 0 where both types are integer, and is ``/`` otherwise; by 0 it is NULL."""
        args = [self._coerce(a, Kind.NUMBER, node) for a in self._arguments(node)]
        whole = all(type_of(a) == INTEGER for a in args) and common_type(args)
        if self.rows and facts(args[1]).interval.contains(0):
            args[1] = self._operator("nullif_number", node, [args[1], Literal(0, Kind.NUMBER)])
        quotient = self._operator("div", node, args)
        return typed(self._operator("trunc", node, [quotient]), whole) if whole else quotient

    number_methods: ClassVar[dict[type[exp.Expression], Callable[[NumberNodes, exp.Expression], Expr]]] = {
        exp.Log: _log,
        exp.Round: _round,
        exp.IntDiv: _int_div,
        exp.Mod: _mod,
        exp.Degrees: _turned,
        exp.Radians: _turned,
    }


def _fits(number: Expr, name: str) -> bool:
    """Whether a column's own type is no wider."""
    if not isinstance(number, ColumnRef):
        return False
    own = INTEGER_RANGES.get(number.column.type.upper())
    return own is not None and INTEGER_RANGES[name][0] <= own[0] and own[1] <= INTEGER_RANGES[name][1]
