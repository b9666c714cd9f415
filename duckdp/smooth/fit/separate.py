"""A function as a sum of products of functions of few columns each, by algebra alone.

    sums              are taken apart, with their signs
    products          of sums are multiplied out where they read common columns; others are products already
    quotients         by one product: by 1 over each of its factors
    exp               of a sum: the product of the exponentials of its parts, those of each set of columns together
    whole powers      of a product: of its factors; small ones of a sum are multiplied out
    conditions        CASE WHEN a AND b THEN v ELSE w END: (v - w) [a] [b] + w, where v and w are numbers everywhere

Everything is an identity of numbers, so f in exact arithmetic is unchanged. What has no rule stays one factor. Numbers
of a text may be slots (``points.slot``): a shape is taken apart once for all its numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call, Case, Expr, Literal, columns
from duckdp.compiler.facts import facts
from duckdp.compiler.operators import row_of
from duckdp.compiler.operators.arithmetic import constant_of
from duckdp.smooth.fit.points import SLOT

MAX_TERMS = 12  # of a sum of products; what would have more stays one factor
MAX_POWER = 3  # of a sum that is multiplied out
Product = tuple[Expr, ...]


def products(function: Expr) -> list[Product]:
    """The terms of a function, each as factors that read disjoint sets of columns.

    >>> from duckdp.catalog.table import Column
    >>> from duckdp.compiler.expression import ColumnRef, show
    >>> x, y = (ColumnRef(Column(name=n, source=n, type="DOUBLE", kind=Kind.NUMBER)) for n in "xy")
    >>> term, = products(Call("exp", (Call("sub", (x, y), Kind.NUMBER),), Kind.NUMBER))
    >>> [show(factor) for factor in term]
    ['exp(x)', 'exp(neg(y))']
    """
    return _gathered([_disjoint(term) for term in _products(function)])


def reads(expr: Expr) -> frozenset[str]:
    """The columns that an expression reads, slots left out."""
    return frozenset(c.name for c in columns(expr) if not c.name.startswith(SLOT))


def _products(expr: Expr) -> list[Product]:
    if len(reads(expr)) <= 1 or not isinstance(expr, (Call, Case)):
        return [(expr,)]
    if isinstance(expr, Case):
        found = _chosen(expr)
        return found if 0 < len(found) <= MAX_TERMS else [(expr,)]
    row = row_of(expr)
    found = []
    if row.signs:
        for sign, part in zip(row.signs, expr.arguments, strict=True):
            found += [_signed(sign, term) for term in _products(part)]
    elif row.role == "product":
        found = _multiplied([_products(part) for part in expr.arguments])
    elif row.role == "quotient":
        found = _divided(*(_products(part) for part in expr.arguments))
    elif expr.operator in _RULES:
        found = _RULES[expr.operator](expr)
    return found if 0 < len(found) <= MAX_TERMS else [(expr,)]


def _exponentials(call: Call) -> list[Product]:
    parts = products(call.arguments[0])
    return [tuple(_call("exp", _joined("mul", term)) for term in parts)] if len(parts) > 1 else []


def _powers(call: Call) -> list[Product]:
    base, exponent = call.arguments
    known = constant_of(exponent)
    if known is None or not known.is_integer() or not known > 0:
        return []
    terms = _products(base)
    if len(terms) == 1:
        return [tuple(_call("power", factor, exponent) for factor in terms[0])] if len(terms[0]) > 1 else []
    return _multiplied([terms] * int(known)) if known <= MAX_POWER else []


def _indicator(call: Call) -> list[Product]:
    parts = _conditions(call.arguments[0])
    return [tuple(_call("number", part) for part in parts)] if len(parts) > 1 else []


def _chosen(case: Case) -> list[Product]:
    """A choice between two numbers, each defined and finite also where it is not chosen."""
    if len(case.branches) != 1 or case.default is None:
        return []
    ((condition, value),) = case.branches
    default = case.default
    if any(facts(arm).nullable or not facts(arm).finite for arm in (value, default)):
        return []
    one, zero = Literal(1, Kind.NUMBER), Literal(0, Kind.NUMBER)
    holds: Product = tuple(Case(((part, one),), zero, Kind.NUMBER) for part in _conditions(condition))
    found = [(*term, *holds) for term in _products(value)]
    if constant_of(default) != 0:
        others = _products(default)
        found += [_signed(-1, (*term, *holds)) for term in others] + others
    return found


def _conditions(condition: Expr) -> Sequence[Expr]:
    """The parts that must all hold."""
    if isinstance(condition, Call) and row_of(condition).role == "conjunction":
        return [part for argument in condition.arguments for part in _conditions(argument)]
    return [condition]


# Operators that make products of sums or products, besides sums, products and quotients.
_RULES = {"exp": _exponentials, "power": _powers, "number": _indicator}


def _multiplied(sums: Sequence[list[Product]]) -> list[Product]:
    found: list[Product] = [()]
    for terms in sums:
        found = [(*left, *right) for left in found for right in terms]
        if len(found) > MAX_TERMS:
            return []
    return found


def _divided(over: list[Product], under: list[Product]) -> list[Product]:
    if len(under) != 1:
        return []
    inverse = tuple(_call("div", Literal(1.0, Kind.NUMBER), factor) for factor in under[0])
    return [(*term, *inverse) for term in over]


def _disjoint(factors: Product) -> Product:
    """Factors that have a column in common multiplied; those without columns go to the first."""
    groups: list[tuple[frozenset[str], list[Expr]]] = []
    for factor in factors:
        names, members = reads(factor), [factor]
        for other in [g for g in groups if g[0] & names or not (g[0] and names)]:
            groups.remove(other)
            names, members = names | other[0], [*other[1], *members]
        groups.append((names, members))
    return tuple(_joined("mul", members) for _, members in sorted(groups, key=lambda g: sorted(g[0])))


def _gathered(terms: Sequence[Product]) -> list[Product]:
    """Terms of one factor and the same columns added; constants go to the first of them."""
    single: dict[frozenset[str], list[Expr]] = {}
    found: list[Product] = []
    for term in terms:
        if len(term) == 1:
            single.setdefault(reads(term[0]), []).append(term[0])
        else:
            found.append(term)
    if frozenset() in single and len(single) > 1:
        constants = single.pop(frozenset())
        next(iter(single.values())).extend(constants)
    return [*found, *((_joined("add", members),) for members in single.values())]


def _signed(sign: float, term: Product) -> Product:
    return term if sign > 0 else (_call("neg", term[0]), *term[1:])


def _joined(operator: str, parts: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: _call(operator, a, b), parts)


def _call(operator: str, *arguments: Expr) -> Call:
    return Call(operator, arguments, Kind.NUMBER)
