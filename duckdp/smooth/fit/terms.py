"""What can be told from a function's expression alone: its terms, its degrees, where it may jump."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, Literal, children, columns, walk
from duckdp.smooth.axes import as_number

MAX_EXPONENT = 4096
MAX_JUMPS = 64  # per column
ARITHMETIC = ("add", "sub", "mul", "div", "neg")
_ROUGH = ("abs", "floor", "ceil", "round", "round_even", "trunc", "sign", "mod", "greatest", "least", "number")


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
        match expr:
            case Call(operator="add", arguments=(left, right)):
                todo += [(factor, right), (factor, left)]
            case Call(operator="sub", arguments=(left, right)):
                todo += [(-factor, right), (factor, left)]
            case Call(operator="neg", arguments=(inner,)):
                todo.append((-factor, inner))
            case Call(operator="mul", arguments=(left, right)) if (c := constant_of(left)) is not None:
                todo.append((factor * c, right))
            case Call(operator="mul", arguments=(left, right)) if (c := constant_of(right)) is not None:
                todo.append((factor * c, left))
            case Call(operator="div", arguments=(left, right)) if c := constant_of(right):
                todo.append((factor / c, left))
            case _:
                found.append(Term(factor, expr, frozenset(c.name for c in columns(expr))))
    return found


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
    return isinstance(expr, Call) and expr.operator in ARITHMETIC


def constant_of(expr: Expr) -> float | None:
    """Value of a constant made of literals and signs, or None."""
    match expr:
        case Literal(value=value) if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        case Call(operator="neg", arguments=(inner,)):
            found = constant_of(inner)
            return None if found is None else -found
    return None


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
        case Call(operator="add" | "sub" | "neg", arguments=arguments):
            parts = [degrees(a, free) for a in arguments]
            return None if None in parts else _largest([p for p in parts if p is not None])
        case Call(operator="mul", arguments=(left, right)):
            first, second = degrees(left, free), degrees(right, free)
            return None if first is None or second is None else _added(first, second)
        case Call(operator="div", arguments=(left, right)) if not _reads_others(right, free):
            return degrees(left, free)
        case Call(operator="power", arguments=(base, exponent)):
            found, power = degrees(base, free), constant_of(exponent)
            if found is None or power is None or not power.is_integer() or not 0 <= power <= MAX_EXPONENT:
                return None
            return {name: int(power) * degree for name, degree in found.items()}
        case Call(operator="date_diff_date", arguments=arguments, option="day"):
            return {c.name: 1 for a in arguments for c in columns(a)} if _plain(arguments) else None
    return None


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
    numeric = call.kind is Kind.NUMBER and call.operator not in _ROUGH
    return not numeric or call.operator.startswith(("date_diff", "coalesce", "nullif")) or any(
        child.kind is not Kind.NUMBER for child in children(call)
    )  # fmt: skip


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
