"""Ends of what is computed from several released figures, as SQL over the ends of each.

With m figures in an expression each has an interval at level 1 - 0.05 / m, so by Boole's inequality all of them hold at
once in 95% of all releases, whether their noises are independent, the same, or neither. While they hold, the expression
is between the least and the largest value that it takes there::

    -a, a + b, a - b, c * a       end by end
    a * b                         the least and the largest of the products of the ends
    a / b                         the same of the quotients, where all of b's interval is above 0; else no interval
    round(a, n), floor, casts     monotone: of both ends
    nullif(a, 0)                  as a, where it is not NULL

An expression in which a figure stands twice has a wider interval than it needs, never a narrower one. Trees that are
made here share parts: they are printed, and never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from sqlglot import exp

from duckdp.compiler.outer.trees import nodes_of

MOST_NODES = 1_000  # of an end's tree: products and quotients hold their parts' several times

_FAR = "1e300"  # beyond all figures: sums are below 2^63 steps
_MONOTONE = (exp.Round, exp.Floor, exp.Ceil)
_ATOMS = (exp.Paren, exp.Column, exp.Literal, exp.Func, exp.Subquery)
_NUMBERS = (exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.DECIMAL, exp.DType.INT, exp.DType.BIGINT)


@dataclass(frozen=True, kw_only=True)
class Ends:
    """The least and the largest value of an expression; equal ones of a constant."""

    low: exp.Expression
    high: exp.Expression
    constant: bool = False


Leaf = Callable[[exp.Expression], Ends | None]


def ends_of(node: exp.Expression, leaf: Leaf) -> Ends | None:
    """The ends of an expression; None: it has no rule.

    Args:
        node: left as it is.
        leaf: the ends of a figure, or of a value that is known; None of anything else.
    """
    made = _made(node, leaf)
    return made if made is not None and _is_small(made.low) and _is_small(made.high) else None


def exact(node: exp.Expression) -> Ends:
    """A value that is known, as a number."""
    made = exp.TryCast(this=node, to=exp.DataType(this=exp.DType.DOUBLE))
    return Ends(low=made, high=made, constant=True)


def _made(node: exp.Expression, leaf: Leaf) -> Ends | None:
    found = leaf(node)
    if found is not None:
        return found
    if isinstance(node, exp.Paren):
        return _made(node.this, leaf)
    if isinstance(node, exp.Literal):
        return None if node.is_string else Ends(low=node, high=node, constant=True)
    if isinstance(node, exp.Neg):
        inner = _made(node.this, leaf)
        return None if inner is None else _negated(inner)
    if isinstance(node, exp.Nullif):
        zero = node.expression
        return _made(node.this, leaf) if isinstance(zero, exp.Literal) and zero.this in ("0", "0.0") else None
    if isinstance(node, _MONOTONE):
        return _monotone(node, leaf)
    if isinstance(node, exp.Cast) and isinstance(node.args["to"], exp.DataType):
        inner = _made(node.this, leaf) if node.args["to"].this in _NUMBERS else None
        return None if inner is None else _cast(inner, node.args["to"])
    rule = _RULES.get(type(node))
    if rule is None:
        return None
    one, two = _made(node.this, leaf), _made(node.expression, leaf)
    return None if one is None or two is None else rule(one, two)


def _monotone(node: exp.Expression, leaf: Leaf) -> Ends | None:
    others = [v for k, v in node.args.items() if k != "this" and v]
    inner = _made(node.this, leaf)
    if inner is None or not all(isinstance(v, exp.Literal) and not v.is_string for v in others):
        return None
    low, high = (type(node)(**(node.args | {"this": end})) for end in (inner.low, inner.high))
    return Ends(low=low, high=high, constant=inner.constant)


def _cast(of: Ends, to: exp.DataType) -> Ends:
    """TRY_CAST, as an end may have no place in a type that the value has one in."""
    low, high = (exp.TryCast(this=end, to=to) for end in (of.low, of.high))
    return Ends(low=low, high=high, constant=of.constant)


def _negated(of: Ends) -> Ends:
    return Ends(low=exp.Neg(this=_held(of.high)), high=exp.Neg(this=_held(of.low)), constant=of.constant)


def _added(one: Ends, two: Ends) -> Ends:
    low, high = _two(exp.Add, one.low, two.low), _two(exp.Add, one.high, two.high)
    return Ends(low=low, high=high, constant=one.constant and two.constant)


def _less(one: Ends, two: Ends) -> Ends:
    return _added(one, _negated(two))


def _times(one: Ends, two: Ends) -> Ends:
    for factor, of in ((one, two), (two, one)):
        if isinstance(factor.low, exp.Literal):  # not below 0
            low, high = _two(exp.Mul, factor.low, of.low), _two(exp.Mul, factor.low, of.high)
            return Ends(low=low, high=high, constant=of.constant)
    values = [_two(exp.Mul, a, b) for a in _each(one) for b in _each(two)]
    known = [_below(end, sign) for of in (one, two) for end, sign in ((of.low, "-"), (of.high, ""))]
    return _hull(values, values, known, constant=one.constant and two.constant)


def _divided(one: Ends, two: Ends) -> Ends:
    """Of what is above 0 the ends of a quotient are at the end of the same side of what is divided."""
    zero = exp.Literal.number(0)
    if isinstance(two.low, exp.Literal) and float(two.low.this) > 0:
        return Ends(low=_two(exp.Div, one.low, two.low), high=_two(exp.Div, one.high, two.low), constant=one.constant)
    if two.constant:
        values = [_two(exp.Div, end, two.low) for end in _each(one)]
        return _hull(values, values, [exp.NEQ(this=_held(two.low), expression=zero)], constant=one.constant)
    low, high = ([_two(exp.Div, end, by) for by in (two.low, two.high)] for end in (one.low, one.high))
    return _hull(low, high, [exp.GT(this=_held(two.low), expression=zero), _below(two.high, "")])


_RULES: dict[type[exp.Expression], Callable[[Ends, Ends], Ends]] = {
    exp.Add: _added,
    exp.Sub: _less,
    exp.Mul: _times,
    exp.Div: _divided,
}


def _each(of: Ends) -> list[exp.Expression]:
    return [of.low] if of.constant else [of.low, of.high]


def _hull(
    low: list[exp.Expression], high: list[exp.Expression], where: list[exp.Expression], *, constant: bool = False
) -> Ends:
    """The least and the largest of some values; no ends unless conditions hold: least() passes over a NULL."""
    made = []
    for family, values in ((exp.Least, low), (exp.Greatest, high)):
        held = exp.and_(*where, copy=False)
        made.append(exp.Case(ifs=[exp.If(this=held, true=extreme(family, values))]))
    return Ends(low=made[0], high=made[1], constant=constant)


def extreme(family: type[exp.Least] | type[exp.Greatest], values: Sequence[exp.Expression]) -> exp.Expression:
    """The least or the largest of some values, of which none is NULL."""
    first, *others = values
    return family(this=first, expressions=others, ignore_nulls=True) if others else first


def _two(kind: type[exp.Binary], one: exp.Expression, two: exp.Expression) -> exp.Expression:
    return exp.Paren(this=kind(this=_held(one), expression=_held(two)))


def _held(node: exp.Expression) -> exp.Expression:
    return node if isinstance(node, _ATOMS) else exp.Paren(this=node)


def _below(node: exp.Expression, sign: str) -> exp.Expression:
    """That an end is a number, and no infinite one of that sign."""
    far = exp.Literal.number(_FAR)
    if sign:
        return exp.GT(this=_held(node), expression=exp.Neg(this=far))
    return exp.LT(this=_held(node), expression=far)


def _is_small(node: exp.Expression) -> bool:
    return sum(1 for _ in islice(nodes_of(node), MOST_NODES + 1)) <= MOST_NODES
