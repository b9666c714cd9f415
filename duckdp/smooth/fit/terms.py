"""What can be told from a function's expression alone: its terms, its degrees, where it may jump."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, Literal, children, columns, walk
from duckdp.compiler.operators import row_of
from duckdp.compiler.operators.arithmetic import constant_of
from duckdp.smooth.axes import as_number

MAX_EXPONENT = 4096  # of a whole power, as of the degree
MAX_JUMPS = 64  # per column


@dataclass(frozen=True)
class Term:
    """``factor * function``, one summand of a function; it reads the columns named."""

    factor: float
    function: Expr
    reads: frozenset[str]


def split(function: Expr) -> list[Term]:
    """The summands of a function: sums and differences taken apart, constant factors taken out.

    >>> from duckdp.catalog.table import Column
    >>> x = ColumnRef(Column(name="x", source="x", type="DOUBLE", kind=Kind.NUMBER))
    >>> [t.factor for t in split(Call("sub", (x, Call("mul", (Literal(3, Kind.NUMBER), x), Kind.NUMBER)), Kind.NUMBER))]
    [1.0, -3.0]
    """
    found: list[Term] = []
    todo = [(1.0, function)]
    while todo:
        factor, expr = todo.pop()
        parts = _summands(factor, expr) if isinstance(expr, Call) else []
        todo += reversed(parts)
        if not parts:
            found.append(Term(factor, expr, frozenset(c.name for c in columns(expr))))
    return found


def _summands(factor: float, call: Call) -> list[tuple[float, Expr]]:
    """What a call is the sum of, each with its factor; [] where it is no sum and has no constant factor."""
    row = row_of(call)
    if row.signs:
        return [(factor * sign, part) for sign, part in zip(row.signs, call.arguments, strict=True)]
    if row.role:
        left, right = call.arguments
        if row.role == "product" and (c := constant_of(left)) is not None:
            return [(factor * c, right)]
        if (c := constant_of(right)) is not None and (c or row.role == "product"):
            return [(factor * c if row.role == "product" else factor / c, left)]
    return []


def merge(terms: Sequence[Term]) -> list[Term]:
    """Terms that read the columns of another one are added to it: fewer fits, and errors that cancel may do so."""
    found: list[Term] = []
    for term in sorted(terms, key=lambda t: -len(t.reads)):
        for i, larger in enumerate(found):
            if term.reads <= larger.reads:
                both = Call("add", (_scaled(larger), _scaled(term)), Kind.NUMBER)
                found[i] = Term(1.0, both, larger.reads)
                break
        else:
            found.append(term)
    return found


def is_arithmetic(expr: Expr) -> bool:
    """Whether an operation has rounding errors, which can cancel; there is a rule for all of these on intervals."""
    return isinstance(expr, Call) and row_of(expr).cancels


def degrees(expr: Expr, free: frozenset[str]) -> Mapping[str, int] | None:
    """Degree of a polynomial in each column, or None when it is not known to be one.

    Args:
        expr: the function.
        free: columns in which every function is represented exactly; they do not count.
    """
    if all(c.name in free for c in columns(expr)):
        return {}
    match expr:
        case ColumnRef(column=c) if c.kind is Kind.NUMBER:
            return {c.name: 1}
        case Call():
            return _degrees_of(expr, free)
    return None


def _degrees_of(call: Call, free: frozenset[str]) -> Mapping[str, int] | None:
    row = row_of(call)
    if row.signs:
        parts = [degrees(a, free) for a in call.arguments]
        return None if None in parts else _largest([p for p in parts if p is not None])
    if row.role == "product":
        first, second = (degrees(a, free) for a in call.arguments)
        return None if first is None or second is None else _added(first, second)
    if row.role == "quotient":
        left, right = call.arguments
        return None if _reads_others(right, free) else degrees(left, free)
    rule = _DEGREES.get(call.operator)
    return None if rule is None else rule(call, free)


def _of_power(call: Call, free: frozenset[str]) -> Mapping[str, int] | None:
    base, exponent = call.arguments
    found, power = degrees(base, free), constant_of(exponent)
    if found is None or power is None or not power.is_integer() or not 0 <= power <= MAX_EXPONENT:
        return None
    return {name: int(power) * degree for name, degree in found.items()}


def _of_days(call: Call, _: frozenset[str]) -> Mapping[str, int] | None:
    if call.option != "day" or not _plain(call.arguments):
        return None
    return {c.name: 1 for a in call.arguments for c in columns(a)}


# Operators that are polynomials at times, besides sums, products and quotients.
_DEGREES = {"power": _of_power, "date_diff_date": _of_days}


def is_rough(expr: Expr) -> bool:
    """Whether a node may jump or bend: anything but arithmetic and analytic functions."""
    return any(isinstance(e, Case) or (isinstance(e, Call) and _bends(e)) for e in walk(expr))


def jumps(expr: Expr) -> dict[str, list[float]]:
    """Numbers at which a function may jump or bend, per column: constants that stand beside it in a rough node."""
    found: dict[str, set[float]] = {}
    for node in walk(expr):
        if not (isinstance(node, Call) and _bends(node)):
            continue
        inside = list(walk(node))
        constants = [_number(e.value) for e in inside if isinstance(e, Literal)]
        for column in columns(node):
            found.setdefault(column.name, set()).update(c for c in constants if c is not None)
    return {name: sorted(values)[:MAX_JUMPS] for name, values in found.items()}


def _bends(call: Call) -> bool:
    if call.kind is not Kind.NUMBER or row_of(call).bends:
        return True
    return any(child.kind is not Kind.NUMBER for child in children(call))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, dt.date)):
        return None
    return as_number(value)


def _scaled(term: Term) -> Expr:
    if term.factor == 1:
        return term.function
    return Call("mul", (Literal(term.factor, Kind.NUMBER), term.function), Kind.NUMBER)


def _largest(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: max(p.get(name, 0) for p in parts) for p in parts for name in p}


def _added(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in (*first, *second)}


def _reads_others(expr: Expr, free: frozenset[str]) -> bool:
    return any(c.name not in free for c in columns(expr))


def _plain(arguments: Sequence[Expr]) -> bool:
    return all(isinstance(a, (ColumnRef, Literal)) for a in arguments)
