"""What a statement can only answer, whatever the rows hold: proved from declared types, bounds and domains alone.

``outcomes`` gives every truth value that a condition can have for some row as it is read (clamped to its bounds, its
NULL rule applied, in its column's declared domain; a column with a label for other values may hold anything). It may
give too many, never too few. A condition that can never be true lets no row count: the answer is 0 without the data.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial
from itertools import product

from duckdp.catalog.table import Kind, Scalar
from duckdp.compiler.expression import Aggregate, Call, Case, ColumnRef, Expr, Literal, remembered, walk
from duckdp.compiler.facts import date_bounds, facts
from duckdp.compiler.operators import row_of
from duckdp.compiler.query import Query

Truths = frozenset[bool | None]
ANY: Truths = frozenset({True, False, None})
MOST_LISTED = 1000  # pairs of values that are compared one by one
COMPARED = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def counts_nothing(query: Query) -> bool:
    """Whether no row can satisfy WHERE."""
    return query.where is not None and never(query.where)


def is_zero(query: Query, aggregate: Aggregate) -> bool:
    """Whether no row can count in an aggregate."""
    return counts_nothing(query) or (aggregate.filter is not None and never(aggregate.filter))


def is_of_keys(query: Query) -> bool:
    """Whether a statement has no aggregate, and all its keys have domains: a list of values."""
    exprs = [*(o.expr for o in query.outputs), query.having, *(o.expr for o in query.order), query.group_size]
    keyed = bool(query.keys) and all(k.domain is not None for k in query.keys)
    return keyed and not any(isinstance(n, Aggregate) for e in exprs if e is not None for n in walk(e))


def is_known(query: Query) -> bool:
    """Whether the whole answer follows from the declarations: nothing is read, and nothing charged.

    Of keys alone the answer is their domains, made of types, bounds and declared domains, whatever WHERE says: every
    group is there, whether a row has it or not, so two tables of the same declarations have the same answer.
    """
    exprs = [o.expr for o in query.outputs] + [o.expr for o in query.order]
    found = [
        n
        for e in [*exprs, query.having, query.group_size]
        if e is not None
        for n in walk(e)
        if isinstance(n, Aggregate)
    ]
    if counts_nothing(query):
        return True
    if is_of_keys(query):
        return True
    return bool(found) and all(k.domain is not None for k in query.keys) and all(is_zero(query, a) for a in found)


def never(condition: Expr) -> bool:
    """Whether a condition is false or NULL for every row that there could be."""
    return True not in outcomes(condition)


@remembered
def outcomes(expr: Expr) -> Truths:
    """Every value that a boolean can have, and maybe more.

    >>> True in outcomes(Call("lt_number", (Literal(2, Kind.NUMBER), Literal(1, Kind.NUMBER)), Kind.BOOLEAN))
    False
    """
    match expr:
        case Literal(value=bool() | None as value):
            return frozenset({value})
        case Call(arguments=arguments):
            rule = RULES.get(row_of(expr).family)
            return ANY if rule is None else rule(*arguments)
        case Case(branches=branches, default=default):
            found: set[bool | None] = set() if default is not None else {None}
            for condition, result in branches:
                found |= outcomes(result) if True in outcomes(condition) else set()
            return frozenset(found | (outcomes(default) if default is not None else set()))
    return ANY


def _and(*parts: Expr) -> Truths:
    return frozenset(_all(values) for values in product(*map(outcomes, parts)))


def _or(*parts: Expr) -> Truths:
    return frozenset(_negate(_all([_negate(v) for v in values])) for values in product(*map(outcomes, parts)))


def _not(inner: Expr) -> Truths:
    return frozenset(_negate(v) for v in outcomes(inner))


def _between(value: Expr, low: Expr, high: Expr) -> Truths:
    return frozenset(_all(pair) for pair in product(_compared("ge", value, low), _compared("le", value, high)))


def _in(value: Expr, *listed: Expr) -> Truths:
    possible = any(True in _compared("eq", value, one) for one in listed)
    return ANY if possible else frozenset({False, None})


def _null(value: Expr) -> Truths:
    if not isinstance(value, (ColumnRef, Literal)):
        return ANY
    return frozenset({False, True} if facts(value).nullable else {False})


def _compared(stem: str, a: Expr, b: Expr) -> Truths:
    """Truth values of a comparison: by the relations that two values can have, and NULL where either may be it."""
    if any(isinstance(e, Literal) and e.value is None for e in (a, b)):
        return frozenset({None})
    relations = _relations(a, b)
    found = {r in COMPARED[stem] for r in relations}
    return frozenset(found | {None})


def _relations(a: Expr, b: Expr) -> set[str]:
    everything = {"<", "=", ">"}
    first, second = _listed(a), _listed(b)
    if first is not None and second is not None:
        if a.kind in (Kind.NUMBER, Kind.DATE, Kind.TIMESTAMP, Kind.TEXT) and len(first) * len(second) <= MOST_LISTED:
            return {"<" if x < y else ">" if x > y else "=" for x in first for y in second}
        return everything if set(first) & set(second) else {"<", ">"}
    one, two = _span(a), _span(b)
    if one is None or two is None:
        return everything
    found = {"<"} if one[0] < two[1] else set()
    found |= {">"} if one[1] > two[0] else set()
    whole = [e for e, other in ((a, b), (b, a)) if a.kind is Kind.NUMBER and _fraction(other) and facts(e).integral]
    return found | ({"="} if one[0] <= two[1] and two[0] <= one[1] and not whole else set())


def _fraction(expr: Expr) -> bool:
    return isinstance(expr, Literal) and isinstance(expr.value, float) and not expr.value.is_integer()


def _listed(expr: Expr) -> list | None:  # type: ignore[type-arg]
    """All values but NULL, comparable with each other; None where they cannot be listed."""
    if isinstance(expr, Literal):
        return [_comparable(expr.value)]
    if isinstance(expr, ColumnRef) and expr.column.domain is not None and expr.column.other is None:
        declared = [*expr.column.domain, expr.column.null_value]
        return [_comparable(v) for v in declared if v is not None]
    return None


def _comparable(value: Scalar) -> object:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime.combine(value, dt.time())
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _span(expr: Expr) -> tuple | None:  # type: ignore[type-arg]
    """Least and largest value, or None where they are not known to the last digit."""
    if expr.kind is Kind.NUMBER:
        found = facts(expr).interval
        return (found.lower, found.upper) if found.finite and _is_exact(expr) else None
    if expr.kind in (Kind.DATE, Kind.TIMESTAMP):
        bounds = date_bounds(expr)
        if bounds is None:
            return None
        read = [n.column.null_value for n in walk(expr) if isinstance(n, ColumnRef)]
        return None if any(v is not None for v in read) else (_comparable(bounds[0]), _comparable(bounds[1]))
    return None


def _is_exact(expr: Expr) -> bool:
    if isinstance(expr, Literal):
        return True
    if isinstance(expr, ColumnRef):
        column, value = expr.column, expr.column.null_value
        return column.lower is not None and (value is None or column.interval.contains(float(value)))  # type: ignore[arg-type]
    if isinstance(expr, Call) and row_of(expr).exact:
        return all(facts(a).interval.finite and _is_exact(a) for a in expr.arguments if a.kind is Kind.NUMBER)
    return False


def _negate(value: bool | None) -> bool | None:
    return None if value is None else not value


def _all(values: object) -> bool | None:
    """SQL's AND."""
    found = set(values)  # type: ignore[call-overload]
    return False if False in found else None if None in found else True


# Of operators by their family; of all others anything may come.
RULES: dict[str, Callable[..., Truths]] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "between": _between,
    "in": _in,
    "is_null": _null,
    **{family: partial(_compared, family) for family in COMPARED},
}
