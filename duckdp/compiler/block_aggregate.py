"""An aggregate of blocks from the analyst's text: one call from the allow-list over expressions of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlglot import exp

from duckdp.catalog.table import Kind, Table
from duckdp.compiler import ways
from duckdp.compiler.block_rows import BY_NODE, BY_WORD, OFFERED, BlockRow
from duckdp.compiler.expression import Call, ColumnRef, Expr
from duckdp.compiler.facts import facts
from duckdp.compiler.parse import parse_scalar, refuse
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.core.interval import Interval

_MOST_VALUES = 2**53  # of whole numbers, for a logarithm


@dataclass(frozen=True, kw_only=True)
class BlockAggregate:
    """One call of the allow-list as it was read: its row, its arguments, and p of a quantile or None."""

    row: BlockRow
    arguments: tuple[Expr, ...]
    fraction: float | None

    @property
    def range(self) -> Interval | None:
        """The range of its values, where that follows from declarations; else None."""
        if self.row.name == "entropy":
            count = _values(self.arguments[0])
            return None if count is None or count < 2 else Interval(0.0, math.log2(count))
        found = self.row.range([facts(a).interval for a in self.arguments])
        return found if found is not None and found.finite and found.lower < found.upper else None


def read_block_aggregate(text: str, table: Table) -> BlockAggregate:
    """Read the one aggregate that a text calls, with its arguments.

    Args:
        text: one call, such as ``corr(x, y)``.
        table: protected.

    Raises:
        QueryError: Q1xx not SQL; Q206 outside the allow-list, or not as it is called; Q2xx, Q3xx, Q4xx of arguments.
    """
    node = parse_scalar(text)
    row = BY_WORD.get(str(node.this).lower()) if isinstance(node, exp.Anonymous) else BY_NODE.get(type(node))
    if row is None:
        refuse("Q206", f"this is not one of the aggregates that blocks may be asked for: {OFFERED}.", node, text)
    given, fraction = _given(node), None
    if any(v for k, v in node.args.items() if k not in _PLACES and not isinstance(v, bool)):
        refuse("Q206", f"{row.name} has more parts than arguments here. Write the call alone.", node, text)
    if row.fraction:
        fraction = _fraction(given.pop() if len(given) == row.takes + 1 else None)
        if fraction is None:
            refuse("Q206", f"{row.name} takes a number between 0 and 1, after its argument.", node, text)
    if len(given) != row.takes:
        many = "two arguments" if row.takes == 2 else "one argument"
        refuse("Q206", f"{row.name} takes {many}, not {len(given)}.", node, text)
    return BlockAggregate(row=row, arguments=tuple(_argument(row, a, table, text) for a in given), fraction=fraction)


_PLACES = ("this", "expression", "expressions", "quantile")


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
    if row.name == "entropy":
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
        return int(min(found.interval.upper - found.interval.lower + 1, _MOST_VALUES))
    return None
