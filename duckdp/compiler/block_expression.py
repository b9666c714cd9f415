"""What is asked of a block: one aggregate, or an expression over several, from the analyst's text.

The value of a block is a function of its aggregates' values alone, one block at a time: arrays of one number, as what a
processor makes of the last bit may follow from where in a longer array a number stands, and so from no block alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np
from sqlglot import exp

from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler import ways
from duckdp.compiler.applied import applied
from duckdp.compiler.block_aggregate import BlockAggregate, read_call
from duckdp.compiler.block_rows import OFFERED
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, Literal, columns, replaced, show
from duckdp.compiler.facts import facts
from duckdp.compiler.notation import bare
from duckdp.compiler.parse import parse_scalar, refuse
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.spelling import spelled
from duckdp.compiler.vectors import Vector, choose, constant_vector, null_like
from duckdp.core.interval import Interval
from duckdp.errors import InternalError, QueryError

MOST_CALLS = 20  # different aggregates of one text: each is a step of the private read


@dataclass(frozen=True, kw_only=True)
class BlockExpression:
    """What was asked of each block.

    Attributes:
        calls: the different aggregates in it, one or more.
        expr: over columns that stand for them, named by their texts.
    """

    calls: tuple[BlockAggregate, ...]
    expr: Expr

    @property
    def alone(self) -> bool:
        """Whether it is one aggregate and nothing more."""
        return is_call(self.expr)

    @cached_property
    def text(self) -> str:
        """Its identity: equal for equal questions, and for no others."""
        return self.calls[0].text if self.alone else show(self.expr)

    @property
    def told(self) -> str:
        """As it is told to people."""
        names = {call.text: call.told for call in self.calls}

        def instead(expr: Expr) -> Expr | None:
            return replace(expr, column=replace(expr.column, name=names[expr.column.name])) if is_call(expr) else None

        return bare(replaced(self.expr, instead))

    @property
    def range(self) -> Interval | None:
        """The range of its values, where that follows from declarations; else None."""
        found = facts(self.expr).interval
        return found if found.finite and found.lower < found.upper else None

    @property
    def grows(self) -> bool:
        """Whether a sum or count of a block's rows is in it."""
        return any(call.row.grows for call in self.calls)

    @property
    def size(self) -> int:
        """How many cells are read of a block."""
        return sum(len(call.cells) for call in self.calls)

    def value(self, cells: Sequence[Any]) -> float | None:
        """Its value in a block: a finite number, or None where it has none.

        Args:
            cells: of all calls, in their order; NULL where no row counts.
        """
        values: dict[str, float | None] = {}
        first = 0
        for call in self.calls:
            values[call.text] = call.value(cells[first : first + len(call.cells)])
            first += len(call.cells)
        if self.alone:
            return values[self.calls[0].text]
        with np.errstate(all="ignore"):
            found = float(_vector(self.expr, values).value[0])
        return found if math.isfinite(found) else None


def is_call(expr: Expr) -> TypeGuard[ColumnRef]:
    """Whether an expression stands for one of the aggregates."""
    return isinstance(expr, ColumnRef)


def read_block_expression(text: str, table: Table) -> BlockExpression:
    """Read what is asked of blocks.

    Args:
        text: an aggregate, such as ``corr(x, y)``, or an expression over some: ``stddev(x) / avg(x)``.
        table: protected.

    Raises:
        QueryError: Q1xx not SQL; Q206 outside the allow-list, or not as it is called; Q2xx, Q3xx, Q4xx of arguments.
    """
    node, calls = parse_scalar(text), dict[str, BlockAggregate]()

    def leaf(part: exp.Expression) -> Expr | None:
        found = read_call(part, table, text)
        if found is not None:
            calls[found.text] = found
            name, span = found.text, found.range
            lower, upper = span.lower, span.upper
            return ColumnRef(Column(name=name, source=name, type="DOUBLE", kind=Kind.NUMBER, lower=lower, upper=upper))
        if isinstance(part, (exp.AggFunc, exp.Window, exp.WithinGroup, exp.Anonymous, exp.Subquery)):
            called = spelled(part, text) or "this"
            what = f"{called} is not one of the aggregates that blocks may be asked for: {OFFERED}."
            refuse("Q206", f"{what} Arithmetic of them is allowed.", part, text)
        if isinstance(part, (exp.Column, exp.Star)):
            what = "a column of rows stands outside of an aggregate. Write avg(x), or another aggregate of it."
            refuse("Q301", what, part, text)
        return None

    expr = Scalars(leaf, text, released=True)(node)
    _check(expr, calls, node, text)
    used = {column.name for column in columns(expr)}
    return BlockExpression(calls=tuple(call for name, call in calls.items() if name in used), expr=expr)


def _check(expr: Expr, calls: dict[str, BlockAggregate], node: exp.Expression, text: str) -> None:
    """Refuse what has no aggregate, too many, no number, or a function without a rule for values of blocks."""
    if not calls:
        refuse("Q206", f"there is no aggregate in it. Blocks may be asked for {OFFERED}.", node, text)
    if len(calls) > MOST_CALLS:
        refuse("Q206", f"it has {len(calls)} aggregates, more than {MOST_CALLS}. Ask for fewer at once.", node, text)
    if expr.kind is not Kind.NUMBER:
        refuse("Q203", f"what blocks are asked for {ways.not_a(Kind.NUMBER, expr.kind)}", node, text)
    if is_call(expr) and (call := calls[expr.column.name]).row.grows:
        way = "Take it in a SELECT, or ask for what does not grow with the rows: sum(x) / count(*)."
        refuse("Q206", f"{call.told} of a block is of that block's rows alone. {way}", node, text)
    try:
        _vector(expr, dict.fromkeys(calls))
    except QueryError as error:
        refuse("Q206", f"{error.message} Blocks' values take arithmetic, sqrt, ln, exp, abs and CASE.", node, text)


def _vector(expr: Expr, values: dict[str, float | None]) -> Vector:
    """An expression over values of one block, an array of one."""
    match expr:
        case ColumnRef(column=c):
            return constant_vector(values[c.name], 1, 0, number=True)
        case Literal(value=value, kind=kind):
            return constant_vector(value, 1, 0, number=kind is Kind.NUMBER)
        case Call(arguments=arguments):
            return applied(expr, [_vector(a, values) for a in arguments], 0)
        case Case(branches=branches, default=default):
            arms = [(_vector(c, values).value, _vector(v, values)) for c, v in branches]
            return choose(arms, null_like(arms[0][1]) if default is None else _vector(default, values))
    raise InternalError("an aggregate of rows reached the values of blocks")
