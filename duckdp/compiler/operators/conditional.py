"""Functions that choose among their arguments."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call, Expr
from duckdp.compiler.number_types import of_chosen, of_extreme, of_first
from duckdp.compiler.operators import spans as sp
from duckdp.compiler.operators.row import (
    Args,
    Digits,
    N,
    Operator,
    T,
    all_nullable,
    always,
    function,
    keeps_whole,
    spans,
)
from duckdp.compiler.vectors import Released, Vector, choose, compare, missing, null_like, objects
from duckdp.core import interval as iv
from duckdp.core.interval import Interval


def _extreme_image(*, up: bool) -> Callable[[Args, str], Interval]:
    """Of those arguments that are not NULL: DuckDB skips the others."""

    def image(args: Args, _: str) -> Interval:
        spans, sure = [a.interval for a in args], [a.interval for a in args if not a.nullable]
        lowest, highest = min(s.lower for s in spans), max(s.upper for s in spans)
        if up:
            return Interval(max((s.lower for s in sure), default=lowest), highest)
        return Interval(lowest, min((s.upper for s in sure), default=highest))

    return image


def _extreme(*, up: bool) -> Released:
    """Largest or smallest, NULLs skipped; the gradient is the winner's."""

    def apply(args: list[Vector], _: int) -> Vector | None:
        gradients = [a.gradient for a in args if a.gradient is not None]
        if len(gradients) < len(args):
            return None
        stack = np.stack([a.value for a in args])
        filled = np.where(np.isnan(stack), -np.inf if up else np.inf, stack)
        winner = filled.argmax(axis=0) if up else filled.argmin(axis=0)
        columns = np.arange(stack.shape[1])
        return Vector(stack[winner, columns], np.stack(gradients)[winner, :, columns].T)

    return apply


def _winner(*, up: bool) -> Callable[[Call, Args], Expr | None]:
    """The argument that is never NULL and never beyond another."""

    def settled(call: Call, args: Args) -> Expr | None:
        for i, one in enumerate(args):
            own = one.interval.lower if up else -one.interval.upper
            rest = [f.interval.upper if up else -f.interval.lower for j, f in enumerate(args) if j != i]
            if all(own >= other for other in rest) and not one.nullable:
                return call.arguments[i]
        return None

    return settled


def _first(call: Call, args: Args) -> Expr | None:
    return None if args[0].nullable else call.arguments[0]


def _first_known(args: list[Vector], _: int) -> Vector:
    result = args[-1]
    for a in reversed(args[:-1]):
        result = choose([(objects([not m for m in missing(a)]), a)], result)
    return result


def _unless_equal(args: list[Vector], _: int) -> Vector:
    return choose([(compare(lambda x, y: x == y, args[0], args[1]), null_like(args[0]))], args[0])


CONDITIONAL: tuple[Operator, ...] = (
    Operator(
        name="greatest",
        takes=(N,),
        gives=N,
        sql=function("greatest"),
        variadic=True,
        nodes=(exp.Greatest,),
        offered=("greatest",),
        interval=_extreme_image(up=True),
        integral=keeps_whole,
        nullable=all_nullable,
        keeps_finite=True,
        exact=True,
        number_type=of_extreme,
        digits=Digits.CHOSEN,
        null_with="all",
        released=_extreme(up=True),
        settled=_winner(up=True),
        continuous=True,
        encloses=lambda _, a: sp.largest(a),
    ),
    Operator(
        name="least",
        takes=(N,),
        gives=N,
        sql=function("least"),
        variadic=True,
        nodes=(exp.Least,),
        offered=("least",),
        interval=_extreme_image(up=False),
        integral=keeps_whole,
        nullable=all_nullable,
        keeps_finite=True,
        exact=True,
        number_type=of_extreme,
        digits=Digits.CHOSEN,
        null_with="all",
        released=_extreme(up=False),
        settled=_winner(up=False),
        continuous=True,
        encloses=lambda _, a: sp.smallest(a),
    ),
    *(
        Operator(
            name=f"coalesce_{k.value}",
            stem="coalesce",
            takes=(k,),
            gives=k,
            variadic=True,
            offered=("coalesce",),
            sql=lambda a, _: f"COALESCE({', '.join(a)})",
            interval=spans(iv.hull),
            integral=keeps_whole,
            nullable=all_nullable,
            keeps_finite=k is N,
            picks_first=True,
            null_with="all",
            released=_first_known,
            number_type=of_chosen,
            digits=Digits.CHOSEN,
            settled=_first,
        )
        for k in Kind
    ),
    *(
        Operator(
            name=f"nullif_{k.value}",
            stem="nullif",
            takes=(k, k),
            gives=k,
            nodes=(exp.Nullif,),
            reading="compared",
            offered=("nullif",),
            sql=lambda a, _: f"NULLIF({a[0]}, {a[1]})",
            interval=lambda a, _: a[0].interval,
            integral=lambda a: a[0].integral,
            nullable=always,
            keeps_finite=k is N,
            null_with="first",
            makes_null=True,
            first_or_null=True,
            released=_unless_equal,
            encloses=(lambda _, __: sp.everything()) if k is T else (lambda _, a: a[0]),
            number_type=of_first,
            digits=Digits.STEPS,
        )
        for k in Kind
    ),
)
