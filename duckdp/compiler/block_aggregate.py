"""One aggregate of blocks: a call from the allow-list over expressions of rows, and its value in a block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sqlglot import exp

from duckdp.catalog.table import Kind, Table
from duckdp.compiler import ways
from duckdp.compiler.block_rows import BY_NAME, BY_NODE, BY_WORD, Axis, BlockRow
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, Literal, NumberType, show
from duckdp.compiler.facts import facts
from duckdp.compiler.number_types import DOUBLE, FLOAT, INTEGER, MAX_DIGITS, whole_type
from duckdp.compiler.parse import refuse
from duckdp.compiler.printing import number
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope, read_predicate
from duckdp.compiler.spelling import spelled
from duckdp.compiler.types import type_of
from duckdp.core.interval import REALS, Interval

_MOST_VALUES = 2**53  # of whole numbers, for a logarithm
_FINEST = 2**31  # steps of an argument
_ONE = Literal(1, Kind.NUMBER)
_PLACES = ("this", "expression", "expressions", "quantile")  # of arguments, in the parser's nodes
_SECOND = ("zero_on_all_null", "accuracy")  # where it puts a second one of what takes one
# Aggregates of booleans, as those of 0 and 1
_OF_TRUTH: dict[type[exp.Expression], str] = {exp.LogicalAnd: "min", exp.LogicalOr: "max", exp.CountIf: "sum"}


@dataclass(frozen=True, kw_only=True)
class BlockAggregate:
    """One call of the allow-list as it was read.

    Attributes:
        row: of the allow-list.
        arguments: expressions of rows; those of a row where one of them is NULL do not count.
        fraction: p of a quantile, or None.
        distinct: equal values count once.
        where: which rows it counts beside (FILTER), or None.
    """

    row: BlockRow
    arguments: tuple[Expr, ...]
    fraction: float | None = None
    distinct: bool = False
    where: Expr | None = None

    @cached_property
    def text(self) -> str:
        """Its identity: equal for equal calls, and for no others."""
        more = [] if self.fraction is None else [repr(self.fraction)]
        listed = ", ".join([*map(show, self.arguments), *more])
        called = f"{self.row.name}({'DISTINCT ' if self.distinct else ''}{listed})"
        return called if self.where is None else f"{called} where {show(self.where)}"

    @property
    def range(self) -> Interval:
        """The range of its values, as far as that follows from declarations.

        Of a sample's variance, deviation and covariance it is that of all rows: those of two rows may have twice as
        much, which is clamped.
        """
        if self.row.name == "entropy":
            count = _values(self.arguments[0])
            return Interval(0.0, math.inf if count is None else math.log2(count))
        return self.row.range([_interval(a) for a in self.arguments]) or REALS

    @property
    def type(self) -> NumberType:
        """DuckDB's type of its value: what ``//`` and casts of it mean follows from that."""
        found = type_of(self.arguments[0])
        if self.row.type == "count":
            return INTEGER
        if self.row.type == "sum" and found == INTEGER:
            return whole_type("HUGEINT")
        if self.row.type == "sum" and found.name == "DECIMAL":
            return NumberType("DECIMAL", found.scale, MAX_DIGITS - found.scale)
        return found if self.row.type == "argument" and found != FLOAT else DOUBLE

    @property
    def sums(self) -> bool:
        """Whether what is read adds up over parts of the rows."""
        return self.row.sums and not self.distinct

    @property
    def read(self) -> tuple[Expr, ...]:
        """The arguments as they are read: NULL where the row does not count."""
        if self.where is None:
            return self.arguments
        first = self.arguments[0]
        return (Case(((self.where, first),), None, first.kind), *self.arguments[1:])

    @cached_property
    def axes(self) -> tuple[Axis | None, ...]:
        """The grid of each argument; None of one that is read as it is."""
        return tuple(None if self.row.any_kind else _axis(a, self.row.bits) for a in self.arguments)

    @cached_property
    def cells(self) -> list[str]:
        """What is read of a block's rows, as SQL."""
        p = "" if self.fraction is None else number(self.fraction)
        return [cell.format(p=p) for cell in self.row.cells]

    def value(self, cells: Sequence[Any]) -> float | None:
        """Its value in a block of which these cells were read, all NULL where no row counts; None where it has none."""
        if all(cell is None for cell in cells):
            return self.row.of_none
        try:
            found = self.row.value(cells, [axis for axis in self.axes if axis is not None])
        except (ArithmeticError, ValueError, TypeError):
            return None
        return found if isinstance(found, float) and math.isfinite(found) else None


def values_of(calls: Sequence[BlockAggregate], cells: Sequence[Any]) -> dict[str, float | None]:
    """The value of each call in a block, by its text.

    Args:
        calls: different ones.
        cells: what was read of the block: of all calls, in their order; NULL of one of which no row counts.
    """
    found: dict[str, float | None] = {}
    first = 0
    for call in calls:
        found[call.text] = call.value(cells[first : first + len(call.cells)])
        first += len(call.cells)
    return found


def read_call(node: exp.Expression, table: Table, text: str) -> BlockAggregate | None:
    """Read a call of an aggregate with its arguments; None: it is none of the allow-list.

    Raises:
        QueryError: Q206 not as it is called; Q2xx, Q3xx, Q4xx of arguments.
    """
    if isinstance(node, exp.Filter):
        found = read_call(node.this, table, text)
        if found is None:
            return None
        return replace(found, where=read_predicate(node.expression.this, table, text))
    if any(node.args.get(place) for place in _SECOND):
        refuse("Q206", f"{spelled(node, text) or 'this'} takes one argument, not 2.", node, text)
    if type(node) in _OF_TRUTH:
        return BlockAggregate(row=BY_NAME[_OF_TRUTH[type(node)]], arguments=(_truth(node, table, text),))
    if isinstance(node, exp.ApproxDistinct):
        node = exp.Count(this=exp.Distinct(expressions=[node.this]))  # exact is as near as can be
    row = BY_WORD.get(str(node.this).lower()) if isinstance(node, exp.Anonymous) else BY_NODE.get(type(node))
    return None if row is None else _called(row, node, table, text)


def _truth(node: exp.Expression, table: Table, text: str) -> Expr:
    """The argument of an aggregate of booleans, as 0, 1 or NULL."""
    argument = Scalars(RowScope(table, None, text).leaf, text)(node.this)
    if argument.kind is not Kind.BOOLEAN:
        refuse("Q203", f"{spelled(node, text) or 'this'} {ways.not_a(Kind.BOOLEAN, argument.kind)}", node, text)
    return Call("number", (argument,), Kind.NUMBER)


def is_truth(node: exp.Expression) -> bool:
    """Whether a call that was read stands for bool_and or bool_or: it is true where its value is 1."""
    return isinstance(node.this if isinstance(node, exp.Filter) else node, (exp.LogicalAnd, exp.LogicalOr))


def _called(row: BlockRow, node: exp.Expression, table: Table, text: str) -> BlockAggregate:
    """A call of one of the rows."""
    given, fraction = _given(node), None
    if any(v for k, v in node.args.items() if k not in _PLACES and not isinstance(v, bool)):
        refuse("Q206", f"{row.name} has more parts than arguments here. Write the call alone.", node, text)
    if row.name == "count" and (not given or isinstance(given[0], exp.Star)):
        if len(given) > 1 or any(given[0].args.values() if given else ()):
            refuse("Q206", "count takes one argument, or * alone. Write count(*), or count(x).", node, text)
        return BlockAggregate(row=row, arguments=(_ONE,))
    distinct = bool(given) and isinstance(given[0], exp.Distinct)
    if distinct:
        if row.by_value or row.fraction or row.takes > 1 or given[0].args.get("on"):
            refuse("Q206", f"{row.name} takes no DISTINCT here. Write the call without it.", node, text)
        given = [*given[0].expressions, *given[1:]]
    if row.fraction:
        fraction = _fraction(given.pop() if len(given) == row.takes + 1 else None)
        if fraction is None:
            refuse("Q206", f"{row.name} takes a number between 0 and 1, after its argument.", node, text)
    if len(given) != row.takes:
        many = "two arguments" if row.takes == 2 else "one argument"
        refuse("Q206", f"{row.name} takes {many}, not {len(given)}.", node, text)
    arguments = tuple(_argument(row, a, table, text) for a in given)
    return BlockAggregate(row=row, arguments=arguments, fraction=fraction, distinct=distinct)


def _given(node: exp.Expression) -> list[exp.Expression]:
    parts = [node.args.get("this"), node.args.get("expression"), node.args.get("quantile")]
    parts += node.args.get("expressions") or []
    return [p for p in parts if isinstance(p, exp.Expression)]


def _fraction(node: exp.Expression | None) -> float | None:
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    value = float(node.this)
    return value if 0 < value < 1 else None


def _argument(row: BlockRow, node: exp.Expression, table: Table, text: str) -> Expr:
    argument = Scalars(RowScope(table, None, text).leaf, text)(node)
    if row.any_kind:
        return argument
    if argument.kind is Kind.BOOLEAN:
        argument = Call("number", (argument,), Kind.NUMBER)
    if argument.kind is not Kind.NUMBER:
        refuse("Q203", f"{row.name} {ways.not_a(Kind.NUMBER, argument.kind)}", node, text)
    if not facts(argument).interval.finite:
        if isinstance(argument, ColumnRef):
            what = f'"{argument.column.name}" has no bounds. The data owner declares them with protect(bounds=...).'
            refuse("Q401", what, node, text)
        what = f"the argument of {row.name} has no finite bounds. Clamp it, for example least(greatest(x, 0), 100)."
        refuse("Q402", what, node, text)
    return argument


def _values(argument: Expr) -> int | None:
    """How many values an argument may have, NULL aside; None: nothing says so."""
    if argument.kind is Kind.BOOLEAN:
        return 2
    if isinstance(argument, ColumnRef) and argument.column.domain is not None:
        known = [v for v in argument.column.domain if v is not None]
        return len(known) + (argument.column.other is not None and argument.column.other not in known)
    found = facts(argument)
    if argument.kind is Kind.NUMBER and found.integral and found.interval.finite:
        whole = _interval(argument)
        return int(min(whole.upper - whole.lower + 1, _MOST_VALUES))
    return None


def _interval(argument: Expr) -> Interval:
    """Where the values of an argument lie; of whole numbers its ends are whole, so that a grid from one meets all."""
    known = facts(argument)
    if not (known.integral and known.interval.finite):
        return known.interval
    lower, upper = math.ceil(known.interval.lower), math.floor(known.interval.upper)
    return Interval(float(lower), float(upper)) if lower <= upper else known.interval


def _axis(argument: Expr, bits: int) -> Axis:
    known, span = facts(argument), _interval(argument)
    width, finest = span.upper - span.lower, min(2**bits, _FINEST)
    if width == 0:
        return Axis(span.lower, 1.0, 1)
    whole = known.integral and float(width).is_integer() and width <= finest
    return Axis(span.lower, width, int(width) if whole else finest)
