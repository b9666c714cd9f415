"""Our own expressions: what an analyst's scalar SQL becomes before anything else looks at it.

A tree of frozen nodes over declared columns. Nothing of the analyst's text survives but literals, and those are bound
as parameters (text) or printed from Python values (numbers, dates).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TypeVar

from duckdp.catalog.table import Column, Kind, Scalar

REMEMBERED = 2**12  # expressions per function (``remembered``), of some 400 bytes each
Found = TypeVar("Found")
PLAIN = re.compile(r"(?!(case|when|then|else|null|end|where)\Z)[a-z_][a-z0-9_]*\Z")  # shown without quotes


@dataclass(frozen=True, slots=True)
class NumberType:
    """DuckDB's type of a number, as far as meanings depend on it: compiler/types.py has the rules.

    ``name`` is INTEGER (of any width), DECIMAL (with its ``scale``), FLOAT or DOUBLE. ``digits`` is how many decimal
    digits DuckDB holds before the point of an INTEGER or DECIMAL; it says which remainders have no DECIMAL, and how
    many decimals one of several numbers keeps.
    ``unsigned`` is a DOUBLE or FLOAT that was cast from one of these, which have no -0.
    """

    name: str
    scale: int = 0
    digits: int = field(default=19, compare=False, repr=False)
    unsigned: bool = field(default=False, compare=False, repr=False)


# A ``type`` below is what reading needs; two expressions that compute the same are equal whatever it is.


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A declared column, read through its clamp and NULL rule."""

    column: Column
    type: NumberType | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def kind(self) -> Kind:
        """The kind of the column's values."""
        return self.column.kind


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; NULL has the kind of its context (NUMBER when none)."""

    value: Scalar
    kind: Kind
    type: NumberType | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Call:
    """A row of ``operators.OPERATORS`` applied to arguments; constants of it (units, patterns) in ``option``."""

    operator: str
    arguments: tuple[Expr, ...]
    kind: Kind
    option: str = ""
    type: NumberType | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Case:
    """Searched CASE: (condition, value) pairs and a default (None: NULL)."""

    branches: tuple[tuple[Expr, Expr], ...]
    default: Expr | None
    kind: Kind
    type: NumberType | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate over rows, in an output expression.

    ``function`` is the name of a row of compiler/aggregates.py, ``option`` what is asked of it beside the argument.
    Where its values are not numbers, the argument is their place among ``labels``, or days or seconds since 1970.
    """

    function: str
    argument: Expr | None
    filter: Expr | None
    kind: Kind = Kind.NUMBER
    option: str = ""
    labels: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyRef:
    """The i-th grouping key, in an output expression."""

    index: int
    kind: Kind
    type: NumberType | None = field(default=None, compare=False, repr=False, kw_only=True)


Expr = ColumnRef | Literal | Call | Case | Aggregate | KeyRef


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions that one is directly made of."""
    if isinstance(expr, Call):
        return expr.arguments
    if isinstance(expr, Case):
        pairs = tuple(e for branch in expr.branches for e in branch)
        return pairs if expr.default is None else (*pairs, expr.default)
    if isinstance(expr, Aggregate):
        return tuple(e for e in (expr.argument, expr.filter) if e is not None)
    return ()


def remembered(find: Callable[[Expr], Found]) -> Callable[[Expr], Found]:
    """Remember what a function of an expression alone gives, so that asking at every node of a tree takes linear time.

    By identity: to hash or compare a tree walks all of it. An expression that is remembered is kept, so no other gets
    its identity; when there are many (:data:`REMEMBERED`, or twice those of the tree that was asked about when all were
    last forgotten), all are forgotten, by whichever thread. Parts come before what they are part of, so that a deep
    tree takes no deep stack.
    """
    known: dict[int, tuple[Expr, Found]] = {}
    larger = 0

    @wraps(find)
    def ask(expr: Expr) -> Found:
        nonlocal larger
        kept = known.get(id(expr))
        if kept is not None:
            return kept[1]
        forgotten = len(known) >= max(REMEMBERED, larger)
        if forgotten:
            known.clear()
        order, todo = {id(expr): expr}, list(children(expr))
        while todo:
            part = todo.pop()
            if id(part) not in known and id(part) not in order:
                order[id(part)] = part
                todo += children(part)
        for part in reversed(order.values()):  # the last is the expression itself
            found = find(part)
            known[id(part)] = part, found
        if forgotten:
            larger = 2 * len(order)  # else a larger tree, asked about from its leaves, would be done ever anew
        return found

    return ask


@remembered
def measured(expr: Expr) -> tuple[int, int]:
    """How many nodes an expression has when it is printed, and how many levels."""
    parts = [measured(child) for child in children(expr)]
    return 1 + sum(n for n, _ in parts), 1 + max((depth for _, depth in parts), default=0)


def walk(expr: Expr) -> Iterator[Expr]:
    """Every node of an expression, outermost first."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def replaced(expr: Expr, instead: Callable[[Expr], Expr | None]) -> Expr:
    """An expression over rows with parts exchanged, outermost first; ``instead`` gives None for what stays."""
    if (found := instead(expr)) is not None:
        return found
    if isinstance(expr, Call):
        return replace(expr, arguments=tuple(replaced(a, instead) for a in expr.arguments))
    if isinstance(expr, Case):
        arms = tuple((replaced(c, instead), replaced(v, instead)) for c, v in expr.branches)
        return replace(expr, branches=arms, default=None if expr.default is None else replaced(expr.default, instead))
    return expr


def is_null(expr: Expr) -> bool:
    """Whether an expression is the constant NULL."""
    return isinstance(expr, Literal) and expr.value is None


def columns(*exprs: Expr | None) -> tuple[Column, ...]:
    """The distinct columns that expressions read, by name."""
    found = {name: column for e in exprs if e is not None for name, column in _columns(e).items()}
    return tuple(found[name] for name in sorted(found))


@remembered
def _columns(expr: Expr) -> dict[str, Column]:
    if isinstance(expr, ColumnRef):
        return {expr.column.name: expr.column}
    return {name: column for child in children(expr) for name, column in _columns(child).items()}


def _shown_name(name: str) -> str:
    """A column's name, unlike any constant: a text with an apostrophe is shown in double quotes, as names are."""
    if PLAIN.match(name):
        return name
    quoted = '"' + name.replace('"', '""') + '"'
    return f"column {quoted}" if "'" in name else quoted


def show(expr: Expr | None) -> str:
    """Canonical text: the same for equal expressions, readable in ``explain``. Never executed.

    >>> show(Call("add", (Literal(1, Kind.NUMBER), Literal(2.5, Kind.NUMBER)), Kind.NUMBER))
    'add(1, 2.5)'
    """
    match expr:
        case None:
            return "*"
        case ColumnRef(column=c):
            return _shown_name(c.name)
        case Literal(value=v, kind=k):
            return f"{k.value} '{v.isoformat()}'" if isinstance(v, dt.date) else repr(v)
        case Call(operator=op, arguments=args, option=option):
            shown = [show(a) for a in args] + ([repr(option)] if option else [])
            return f"{op}({', '.join(shown)})"
        case Case(branches=branches, default=default):
            arms = " ".join(f"when {show(c)} then {show(v)}" for c, v in branches)
            return f"case {arms} else {show(default) if default is not None else 'null'} end"
        case Aggregate(function=f, argument=a, filter=where, option=option):
            inner = f"{f}({show(a)})" if a is not None or f == "count_rows" else f"{f}()"
            inner = f"{inner[:-1]}, {option})" if option else inner
            return inner + (f" where {show(where)}" if where is not None else "")
        case KeyRef(index=i):
            return f"key{i}"
