"""How many rows of a unit a condition can leave, where columns are known that tell its rows apart.

``Relation.apart`` names columns that no two rows of one unit have in common. A condition that fixes each of them to few
values leaves as many rows as these have combinations: of ``row_number() OVER (PARTITION BY unit ...) <= 3`` three. It
bounds rows by what the text says, so less noise is needed; privacy rests on the bounding at the end, not on this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler.expression import Call, ColumnRef, Expr, Literal
from duckdp.compiler.operators import row_of
from duckdp.compiler.relations.relation import Relation

_NONE, _ALL = -math.inf, math.inf
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


def conjuncts_of(expr: Expr | None) -> list[Expr]:
    """The conditions that must all hold for a condition to hold."""
    if isinstance(expr, Call) and row_of(expr).role == "conjunction":
        return [part for argument in expr.arguments for part in conjuncts_of(argument)]
    return [] if expr is None else [expr]


def most_left(table: Table, where: Expr | None, own: Collection[str] = ()) -> int | None:
    """The most rows of a unit that a condition leaves, of rows that are alike in some columns; None: not known.

    At least 1, of a condition that leaves none too: where nobody has a row no noise has a scale.

    Args:
        table: whose rows.
        where: the condition, over its columns.
        own: names of columns in which the rows are alike.
    """
    if not isinstance(table, Relation) or table.apart is None:
        return None
    columns = {c.name: c for c in table.columns}
    parts = conjuncts_of(where)
    sizes = [1 if name in own else _values(columns.get(name), parts) for name in table.apart]
    return None if any(s is None for s in sizes) else max(1, math.prod(s for s in sizes if s is not None))


def bounded_by(table: Table, keys: Sequence[Expr], where: Expr | None) -> Table:
    """A table whose rows are grouped at the end: as many rows of a unit count in a group as it can have there at most.

    A label for other values makes one group of many keys, so such a key tells nothing apart.

    Args:
        table: whose rows.
        keys: of the groups.
        where: which rows.
    """
    if not isinstance(table, Relation):
        return table
    own = {k.column.name for k in keys if isinstance(k, ColumnRef) and k.column.other is None}
    in_group, together = most_left(table, where, own), most_left(table, where)
    if in_group is not None:
        table = replace(table, max_rows=min(table.max_rows, in_group))
    if together is not None:
        table = replace(table, max_groups=min(table.max_groups, together))
    return table


def _values(column: Column | None, parts: Sequence[Expr]) -> int | None:
    """How many values of a column conditions leave, none of them NULL; None: not known."""
    if column is None:
        return None
    lower, upper = -math.inf, math.inf
    if column.kind is Kind.NUMBER and column.lower is not None:
        lower = column.interval.lower
    found: int | None = None
    for part in parts:
        if not isinstance(part, Call):
            continue
        stem, args = part.operator.split("_")[0], part.arguments
        if stem in _TURNED and _is(args[-1], column):
            stem, args = _TURNED[stem], args[::-1]
        leaves, given = _LEAVES.get(stem), [a.value for a in args[1:] if isinstance(a, Literal)]
        if leaves is None or not _is(args[0], column) or len(given) < len(args) - 1:
            continue
        least, most, values = leaves(given)
        lower, upper = max(lower, least), min(upper, most)
        found = values if found is None else min(found, values or found)
    if column.kind is Kind.NUMBER and column.integral and math.isfinite(upper - lower):
        span = max(0, math.floor(upper) - math.ceil(lower) + 1)
        found = span if found is None else min(found, span)
    return found


def _is(expr: Expr, column: Column) -> bool:
    return isinstance(expr, ColumnRef) and expr.column.name == column.name


def _number(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else otherwise


def _next(value: object, step: int, otherwise: float) -> float:
    """The whole number beside a whole number; another number itself."""
    found = _number(value, otherwise)
    return found + step if found.is_integer() else found


#: Least and greatest value that a comparison with constants leaves, and how many there are, where it lists them.
_LEAVES: Mapping[str, Callable[[Sequence[object]], tuple[float, float, int | None]]] = {
    "eq": lambda _: (_NONE, _ALL, 1),
    "in": lambda given: (_NONE, _ALL, len(given)),
    "between": lambda given: (_number(given[0], _NONE), _number(given[1], _ALL), None),
    "le": lambda given: (_NONE, _number(given[0], _ALL), None),
    "lt": lambda given: (_NONE, _next(given[0], -1, _ALL), None),
    "ge": lambda given: (_number(given[0], _NONE), _ALL, None),
    "gt": lambda given: (_next(given[0], 1, _NONE), _ALL, None),
}
