"""What is asked of a block: one aggregate, or an expression over several, from the analyst's text.

The value of a block is a function of its aggregates' values alone, one block at a time: arrays of one number, as what a
processor makes of the last bit may follow from where in a longer array a number stands, and so from no block alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeGuard

import numpy as np
from sqlglot import exp

from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler import ways
from duckdp.compiler.applied import applied
from duckdp.compiler.block_aggregate import BlockAggregate, is_truth, read_call
from duckdp.compiler.block_rows import OFFERED
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, Literal, columns, measured, show
from duckdp.compiler.facts import facts
from duckdp.compiler.nodes import BY_WORD as SCALAR_WORDS
from duckdp.compiler.operators import OPERATORS
from duckdp.compiler.parse import parse_scalar, refuse
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.spelling import NEIGHBOURS, spell, spelled
from duckdp.compiler.vectors import Vector, choose, constant_vector, null_like
from duckdp.core.interval import Interval
from duckdp.errors import InternalError

MOST_CALLS = 20  # different aggregates of one text: each is a step of the private read
_SCALARS = (
    "+ - * / // **, comparisons, CASE, abs, ceil, coalesce, exp, floor, greatest, least, ln, nullif, round, sqrt, trunc"
)
_NAMED: dict[type[exp.Expr], str] = {exp.Window: "OVER (...)", exp.Subquery: "a subquery", exp.AnyValue: "any_value"}
_ZERO = Literal(0, Kind.NUMBER)
_NEITHER = (exp.AggFunc, exp.Window, exp.WithinGroup, exp.Anonymous, exp.Subquery, exp.IgnoreNulls, exp.Filter)


@dataclass(frozen=True, kw_only=True)
class BlockExpression:
    """What was asked of each block.

    Attributes:
        calls: the different aggregates in it, one or more.
        expr: over columns that stand for them, named by their texts.
        told: as the analyst wrote it.
    """

    calls: tuple[BlockAggregate, ...]
    expr: Expr
    told: str

    @property
    def alone(self) -> bool:
        """Whether it is one aggregate and nothing more."""
        return is_call(self.expr)

    @cached_property
    def text(self) -> str:
        """Its identity: equal for equal questions, and for no others."""
        return self.calls[0].text if self.alone else show(self.expr)

    @property
    def range(self) -> Interval | None:
        """The range of its values, where that follows from declarations; else None. It may be one point."""
        found = facts(self.expr).interval
        return found if found.finite else None

    @property
    def grows(self) -> bool:
        """Whether a sum or count of a block's rows is in it."""
        return any(call.row.grows for call in self.calls)

    @property
    def steps(self) -> int:
        """How many steps its value in a block takes, from those of its aggregates."""
        return measured(self.expr)[0]

    def value(self, values: Mapping[str, float | None]) -> float | None:
        """Its value in a block: a finite number, or None where it has none.

        Args:
            values: of its calls in the block, by their texts (``block_aggregate.values_of``).
        """
        if self.alone:
            return values[self.calls[0].text]
        with np.errstate(all="ignore"):
            found = float(_vector(self.expr, values).value[0])
        return found if math.isfinite(found) else None


def is_call(expr: Expr) -> TypeGuard[ColumnRef]:
    """Whether an expression stands for one of the aggregates."""
    return isinstance(expr, ColumnRef)


class _OfBlocks(Scalars):
    """Scalars over values of blocks: operators that have a rule for these alone."""

    def _operator(self, name: str, node: exp.Expression, args: list[Expr], option: str = "") -> Expr:
        row = OPERATORS[name]
        if row.released is None and row.holds is None:
            refuse("Q206", f"{spell(node, self.text)} is not for values of blocks: {_SCALARS} are.", node, self.text)
        return super()._operator(name, node, args, option)


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
            stands = _standing_for(found)
            return Call("ne_number", (stands, _ZERO), Kind.BOOLEAN) if is_truth(part) else stands
        if isinstance(part, _NEITHER) and not (isinstance(part, exp.Anonymous) and part.name.lower() in SCALAR_WORDS):
            refuse("Q206", _neither(part, text), part, text)
        if isinstance(part, (exp.Parameter, exp.Placeholder)):
            refuse("Q203", "? and $1 stand for values of statements. Write the number itself.", part, text)
        if isinstance(part, (exp.Column, exp.Star)):
            what = "a column of rows stands outside of an aggregate. Write avg(x), or another aggregate of it."
            refuse("Q301", what, part, text)
        return None

    expr = _OfBlocks(leaf, text, released=True)(node)
    _check(expr, calls, node, text)
    used = {column.name for column in columns(expr)}
    return BlockExpression(
        calls=tuple(call for name, call in calls.items() if name in used), expr=expr, told=" ".join(text.split())
    )


def _standing_for(call: BlockAggregate) -> ColumnRef:
    name, span = call.text, call.range
    column = Column(
        name=name, source=name, type="DOUBLE", kind=Kind.NUMBER, lower=span.lower, upper=span.upper
    )  # DOUBLE: a sum on a grid may be no whole number, whatever the type of its value
    return ColumnRef(column, type=call.type)


def _neither(part: exp.Expression, text: str) -> str:
    """What to say of a part that blocks may not be asked for."""
    if isinstance(part, exp.WithinGroup):
        return "WITHIN GROUP is not for blocks. Write quantile_cont(x, 0.5), or mode(x)."
    own = part.this if isinstance(part, (exp.Filter, exp.IgnoreNulls)) else part
    named = _NAMED.get(type(own)) or spelled(own, text) or "this"
    way = f"Use {NEIGHBOURS[named]}." if named in NEIGHBOURS else f"They take {OFFERED}."
    return f"{named} is neither an aggregate for blocks nor arithmetic of such. {way}"


def _check(expr: Expr, calls: dict[str, BlockAggregate], node: exp.Expression, text: str) -> None:
    """Refuse what has no aggregate, too many, or is no number or of one block alone."""
    if not calls:
        refuse("Q206", f"there is no aggregate in it. Blocks may be asked for {OFFERED}.", node, text)
    if len(calls) > MOST_CALLS:
        refuse("Q206", f"it has {len(calls)} aggregates, more than {MOST_CALLS}. Ask for fewer at once.", node, text)
    if expr.kind is Kind.BOOLEAN:
        refuse("Q203", f"what blocks are asked for must be a number. Write ({text.strip()})::INTEGER.", node, text)
    if expr.kind is not Kind.NUMBER:
        refuse("Q203", f"what blocks are asked for {ways.not_a(Kind.NUMBER, expr.kind)}", node, text)
    if is_call(expr) and calls[expr.column.name].row.grows:
        way = "Take it in a SELECT, or ask for what does not grow with the rows: sum(x) / count(*), with low and high."
        refuse("Q206", f"{' '.join(text.split())} of a block is of that block's rows alone. {way}", node, text)
    _vector(expr, dict.fromkeys(calls))


def _vector(expr: Expr, values: Mapping[str, float | None]) -> Vector:
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
