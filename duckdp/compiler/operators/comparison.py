"""Comparisons, and the logic of their results."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call
from duckdp.compiler.operators import spans as sp
from duckdp.compiler.operators.row import B, Operator, T, between, infix, never
from duckdp.compiler.vectors import Released, Vector, all_of, any_of, compare, missing, objects, same, truths
from duckdp.core.rectangles import Span

_Pair = Callable[[Span, Span], Span]


def _met(kind: Kind, rule: sp.Rule) -> sp.Rule:
    """Texts have no order here: nothing is decided."""
    return (lambda _, __: sp.undecided()) if kind is T else rule


def _of_pair(kind: Kind, rule: _Pair) -> sp.Rule:
    return _met(kind, lambda _, a: rule(a[0], a[1]))


def _comparison(
    name: str,
    node: type[exp.Expression],
    sign: str,
    encloses: _Pair,
    released: Released,
    *,
    meets: bool = False,
    nulls: bool = False,
    equates: bool = False,
) -> list[Operator]:
    """The rows of one sign; ``nulls``: NULL is a value like another; ``equates``: see :class:`Operator`."""
    return [
        Operator(
            name=f"{name}_{k.value}",
            stem=name,
            takes=(k, k),
            gives=B,
            sql=infix(sign),
            nodes=(node,),
            meets=meets,
            reading="compared",
            shown=between(sign),
            released=released,
            encloses=_of_pair(k, encloses),
            null_with="none" if nulls else "any",
            equates=equates,
        )
        for k in Kind
    ]


def _by(of: Callable[[Any, Any], Any]) -> Released:
    return truths(lambda args: compare(of, args[0], args[1]))


def _distinct(args: Sequence[Vector], *, wanted: bool) -> NDArray[Any]:
    return np.array([found == wanted for found in same(args[0], args[1])], dtype=object)


def _between(args: Sequence[Vector]) -> NDArray[Any]:
    return all_of([compare(operator.ge, args[0], args[1]), compare(operator.le, args[0], args[2])])


def _listed(args: Sequence[Vector]) -> NDArray[Any]:
    return any_of([compare(operator.eq, args[0], b) for b in args[1:]])


def _not(args: Sequence[Vector]) -> NDArray[Any]:
    return objects([None if x is None else not x for x in args[0].value])


def _between_span(_: Call, a: Sequence[Span]) -> Span:
    return sp.smallest([sp.ordered(a[1], a[0]), sp.ordered(a[0], a[2])])


def _unequal(a: Span, b: Span) -> Span:
    return sp.negation(sp.equal(a, b))


COMPARISON: tuple[Operator, ...] = (
    *_comparison("eq", exp.EQ, "=", sp.equal, _by(operator.eq), meets=True, equates=True),
    *_comparison("ne", exp.NEQ, "<>", _unequal, _by(operator.ne), meets=True),
    *_comparison("lt", exp.LT, "<", sp.below, _by(operator.lt)),
    *_comparison("le", exp.LTE, "<=", sp.ordered, _by(operator.le)),
    *_comparison("gt", exp.GT, ">", lambda a, b: sp.below(b, a), _by(operator.gt)),
    *_comparison("ge", exp.GTE, ">=", lambda a, b: sp.ordered(b, a), _by(operator.ge)),
    *_comparison(
        "distinct",
        exp.NullSafeNEQ,
        "IS DISTINCT FROM",
        _unequal,
        truths(lambda a: _distinct(a, wanted=False)),
        meets=True,
        nulls=True,
    ),
    *_comparison(
        "same",
        exp.NullSafeEQ,
        "IS NOT DISTINCT FROM",
        sp.equal,
        truths(lambda a: _distinct(a, wanted=True)),
        meets=True,
        nulls=True,
    ),
    *(
        Operator(
            name=f"is_null_{k.value}",
            stem="is_null",
            takes=(k,),
            gives=B,
            sql=lambda a, _: f"({a[0]} IS NULL)",
            shown=lambda a: f"{a[0]} IS NULL",
            nullable=never,
            null_with="none",
            released=truths(lambda args: missing(args[0]).astype(object)),
            encloses=lambda _, __: sp.undecided(),
        )
        for k in Kind
    ),
    *(
        Operator(
            name=f"between_{k.value}",
            stem="between",
            takes=(k, k, k),
            gives=B,
            sql=lambda a, _: f"({a[0]} BETWEEN {a[1]} AND {a[2]})",
            shown=lambda a: f"{a[0]} BETWEEN {a[1]} AND {a[2]}",
            null_with="first",
            released=truths(_between),
            encloses=_met(k, _between_span),
        )
        for k in Kind
    ),
    *(
        Operator(
            name=f"in_{k.value}",
            stem="in",
            takes=(k,),
            gives=B,
            variadic=True,
            meets=True,
            sql=lambda a, _: f"({a[0]} IN ({', '.join(a[1:])}))",
            shown=lambda a: f"{a[0]} IN ({', '.join(a[1:])})",
            null_with="first",
            released=truths(_listed),
            encloses=_met(k, lambda _, a: sp.largest([sp.equal(a[0], other) for other in a[1:]])),
        )
        for k in Kind
    ),
    Operator(
        name="and",
        takes=(B,),
        gives=B,
        variadic=True,
        sql=lambda a, _: "(" + " AND ".join(a) + ")",
        nodes=(exp.And,),
        shown=between("AND"),
        null_with="all",
        released=truths(lambda args: all_of([a.value for a in args])),
        encloses=lambda _, a: sp.smallest(a),
        role="conjunction",
    ),
    Operator(
        name="or",
        takes=(B,),
        gives=B,
        variadic=True,
        sql=lambda a, _: "(" + " OR ".join(a) + ")",
        nodes=(exp.Or,),
        shown=between("OR"),
        null_with="all",
        released=truths(lambda args: any_of([a.value for a in args])),
        encloses=lambda _, a: sp.largest(a),
    ),
    Operator(
        name="not",
        takes=(B,),
        gives=B,
        sql=lambda a, _: f"(NOT {a[0]})",
        nodes=(exp.Not,),
        shown=lambda a: f"NOT {a[0]}",
        released=truths(_not),
        encloses=lambda _, a: sp.negation(a[0]),
    ),
)
