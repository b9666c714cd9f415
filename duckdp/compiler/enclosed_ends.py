"""Intervals of what is made of order statistics: all that an expression can be while its parts are in their intervals.

A quantile that follows from bins is uncertain by the width of a bin too, of which its gradient by the noise knows
nothing: ``round(median(x), 1)`` had the error of the noise alone. With k aggregates in an expression, each with an
interval at level 1 - 0.05 / k, all of those hold at once with probability 0.95 at least (Boole's inequality), and then
the true figure lies in the image of the box: the operators' rules on intervals, which enclose it, are those that
bounds are proved by (compiler/operators). Of a CASE the branches count that may be taken. Post-processing only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from duckdp.compiler.aggregates import aggregate_row
from duckdp.compiler.expression import Aggregate, Call, Case, Expr, walk
from duckdp.compiler.facts import facts
from duckdp.compiler.operators import Facts, row_of
from duckdp.core import interval as iv
from duckdp.core.interval import REALS, Interval

Floats = NDArray[np.float64]
_ORDERS = {"lt": (0, 1, True), "le": (0, 1, False), "gt": (1, 0, True), "ge": (1, 0, False)}  # less, greater, strictly


def reads_bins(expr: Expr) -> bool:
    """Whether it is, or is made of, a figure whose interval follows from bins."""
    return any(isinstance(n, Aggregate) and aggregate_row(n).ends is not None for n in walk(expr))


def enclosed_ends(expr: Expr, figures: Mapping[Expr, tuple[Floats, Floats]], n: int) -> tuple[Floats, Floats]:
    """Ends of the interval in each of n groups; NaN where nothing is known.

    Args:
        expr: over aggregates and keys.
        figures: intervals of its aggregates and of the keys that are numbers; NaN where they are undefined.
        n: number of groups.
    """
    ends = [end for pair in figures.values() for end in pair]
    rows = np.stack(ends, axis=1) if ends else np.zeros((n, 0))
    each, places = np.unique(rows, axis=0, return_inverse=True)
    found = np.full((len(each), 2), np.nan)
    for i, row in enumerate(each.tolist()):
        if any(math.isnan(end) for end in row):
            continue
        boxes = {part: Interval(row[2 * j], row[2 * j + 1]) for j, part in enumerate(figures)}
        image = _facts(expr, boxes).interval
        if image != REALS:
            found[i] = image.lower, image.upper
    picked = found[places.ravel()]
    return picked[:, 0], picked[:, 1]


def _facts(expr: Expr, boxes: Mapping[Expr, Interval]) -> Facts:
    """What is known of an expression while its parts are in their boxes."""
    if expr in boxes:
        return Facts(boxes[expr], facts(expr).integral, False)
    if isinstance(expr, Call):
        row, args = row_of(expr), [_facts(a, boxes) for a in expr.arguments]
        if row.picks_first and not args[0].nullable:
            return args[0]
        return Facts(row.interval(args, expr.option), row.integral(args), row.nullable(args))
    if isinstance(expr, Case):
        arms = _arms(expr, boxes)
        spans = [arm.interval for arm in arms]
        return Facts(iv.hull(*spans) if spans else REALS, all(arm.integral for arm in arms))
    return facts(expr)


def _arms(case: Case, boxes: Mapping[Expr, Interval]) -> list[Facts]:
    """Of the branches that may be taken."""
    found = []
    for condition, value in case.branches:
        holds = _holds(condition, boxes)
        if holds is not False:
            found.append(_facts(value, boxes))
        if holds:
            return found
    return found if case.default is None else [*found, _facts(case.default, boxes)]


def _holds(condition: Expr, boxes: Mapping[Expr, Interval]) -> bool | None:
    """Whether an order of two numbers holds wherever they are in their boxes; None: it may or may not."""
    if not isinstance(condition, Call) or (order := _ORDERS.get(row_of(condition).family)) is None:
        return None
    spans = [_facts(a, boxes).interval for a in condition.arguments]
    less, greater, strict = spans[order[0]], spans[order[1]], order[2]
    if less.upper < greater.lower or (less.upper == greater.lower and not strict):
        return True
    if less.lower > greater.upper or (less.lower == greater.upper and strict):
        return False
    return None
