"""Intervals of what jumps, bends or comes out to a bin: all that an expression can be while its parts are in theirs.

What floor, CASE or a comparison makes of a figure is off by a whole step or not at all, and its gradient is 0, or that
of the branch that was taken: first order has nothing to say of it. Beyond the bend of greatest is another gradient.
A quantile that follows from bins is uncertain by the width of a bin too. So of an expression with any of these k parts
are taken (:func:`parts_of`), each with an interval at level 1 - 0.05 / k; all of those hold at once with probability
0.95 at least (Boole's inequality), and then the true figure lies in the image of the box: the operators' rules on
intervals, which enclose it, are those that bounds and proofs use (compiler/operators). Of a CASE the branches count
that may be taken. Post-processing only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Kind
from duckdp.compiler.aggregates import aggregate_row
from duckdp.compiler.expression import Aggregate, Call, Case, Expr, Literal, children, is_null, remembered, walk
from duckdp.compiler.facts import facts
from duckdp.compiler.operators import Facts, Operator, row_of
from duckdp.core import interval as iv
from duckdp.core.interval import REALS, Interval
from duckdp.core.rectangles import Span

Floats = NDArray[np.float64]
Boxes = Mapping[Expr, Interval | None]  # None: undefined
_TRUTH = Interval(0.0, 1.0)  # of a condition that may hold or not


def reads_bins(expr: Expr) -> bool:
    """Whether it is, or is made of, a figure whose interval follows from bins."""
    return any(isinstance(n, Aggregate) and aggregate_row(n).ends is not None for n in walk(expr))


@remembered
def has_figure(expr: Expr) -> bool:
    """Whether it is made of a figure, and not of keys and constants alone."""
    return isinstance(expr, Aggregate) or any(map(has_figure, children(expr)))


@remembered
def jumps(expr: Expr) -> bool:
    """Whether it may jump or bend as a figure in it changes: to first order in the noise its error is not known.

    What is brought to a range that it must lie in (``bounds`` of its row) keeps the slope of what is cut, and is as far
    off at most; so is what is NULL or its argument, where it is a number (:func:`or_null`).
    """
    expr = or_null(expr)
    if isinstance(expr, Aggregate) or not has_figure(expr):
        return False
    if isinstance(expr, Case) and any(has_figure(condition) for condition, _ in expr.branches):
        return True
    bends = isinstance(expr, Call) and row_of(expr).bends and not row_of(expr).bounds
    return bends or any(map(jumps, children(expr)))


def makes_null(expr: Expr) -> bool:
    """Whether it may be NULL though its figures are not: by nullif, a cast, or a CASE."""
    if isinstance(expr, Aggregate):
        return False
    own = isinstance(expr, Case) or (isinstance(expr, Call) and row_of(expr).makes_null)
    return own or any(map(makes_null, children(expr)))


def or_null(expr: Expr) -> Expr:
    """What an expression is wherever it is not NULL: ``nullif(x, 0)`` is x, and so is ``coalesce(count(*), 0)``."""
    while isinstance(expr, Call):
        row, first = row_of(expr), expr.arguments[0]
        never_null = isinstance(first, Aggregate) and aggregate_row(first).linear
        if not row.first_or_null and not (row.picks_first and never_null):
            break
        expr = first
    return expr


def parts_of(expr: Expr) -> list[Expr]:
    """The largest parts of an expression that follow smoothly from figures, or the figures, where these are no more."""
    figures: list[Expr] = list(dict.fromkeys(n for n in walk(expr) if isinstance(n, Aggregate)))
    smooth = list(dict.fromkeys(_smooth(expr)))
    return figures if len(figures) <= len(smooth) else smooth


def known_of(expr: Expr) -> list[Expr]:
    """The largest parts without a figure that are numbers or conditions: known in each group."""
    if not has_figure(expr):
        return [expr] if expr.kind in (Kind.NUMBER, Kind.BOOLEAN) and not isinstance(expr, Literal) else []
    return [] if isinstance(expr, Aggregate) else [found for part in children(expr) for found in known_of(part)]


def _smooth(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Aggregate) or (has_figure(expr) and not jumps(expr) and not reads_bins(expr)):
        yield expr
    else:
        for part in children(expr):
            yield from _smooth(part)


def enclosed_ends(expr: Expr, figures: Mapping[Expr, tuple[Floats, Floats]], n: int) -> tuple[Floats, Floats]:
    """Ends of the interval in each of n groups; NaN where nothing is known.

    Args:
        expr: over aggregates and keys.
        figures: intervals of its parts; NaN where they are undefined: there they may be anything, or NULL.
        n: number of groups.
    """
    ends = [end for pair in figures.values() for end in pair]
    rows = np.stack(ends, axis=1) if ends else np.zeros((n, 0))
    each, places = np.unique(rows, axis=0, return_inverse=True)
    found = np.full((len(each), 2), np.nan)
    for i, row in enumerate(each.tolist()):
        boxes = {part: _box(row[2 * j], row[2 * j + 1]) for j, part in enumerate(figures)}
        image = _facts(expr, boxes).interval
        if image != REALS:
            found[i] = image.lower, image.upper
    picked = found[places.ravel()]
    return picked[:, 0], picked[:, 1]


def _box(low: float, high: float) -> Interval | None:
    return None if math.isnan(low) or math.isnan(high) else Interval(low, high)


def _facts(expr: Expr, boxes: Boxes) -> Facts:
    """What is known of an expression while its parts are in their boxes; a condition is a range of truth values."""
    if expr in boxes:
        box = boxes[expr]
        return Facts(nullable=True) if box is None else Facts(box, facts(expr).integral, False)
    if isinstance(expr, Call):
        row, args = row_of(expr), [_facts(a, boxes) for a in expr.arguments]
        if row.picks_first:
            args = args[: 1 + next((i for i, a in enumerate(args) if not a.nullable), len(args))]
        return Facts(_image(expr, args), row.integral(args), row.nullable(args) and not _is_apart(row, args))
    if isinstance(expr, Case):
        arms, falls = _arms(expr, boxes)
        spans = [arm.interval for arm in arms]
        nullable = falls or any(arm.nullable for arm in arms)
        return Facts(iv.hull(*spans) if spans else REALS, all(arm.integral for arm in arms), nullable)
    known = facts(expr)
    if expr.kind is Kind.BOOLEAN:
        value = expr.value if isinstance(expr, Literal) else None
        return Facts(_TRUTH if value is None else Interval(float(value), float(value)), True, known.nullable)  # type: ignore[arg-type]
    return known


def _is_apart(row: Operator, args: list[Facts]) -> bool:
    """Whether it is no NULL, as that is said of equal numbers and these cannot be equal."""
    if not row.first_or_null or len(args) < 2 or row.takes[0] is not Kind.NUMBER or any(a.nullable for a in args):
        return False
    one, other = (a.interval for a in args)
    return one.upper < other.lower or other.upper < one.lower


def _image(call: Call, args: list[Facts]) -> Interval:
    """What a call can be, where it is not NULL: by the rule for bounds and, of numbers and conditions, that for proofs.

    The latter holds where no argument is NULL; what makes something of a NULL is not decided by it.
    """
    row, truth = row_of(call), call.kind is Kind.BOOLEAN
    found = _TRUTH if truth else row.interval(args, call.option)
    missing = any(a.nullable for a in args) and row.null_with in ("none", *(() if truth else ("all",)))
    plain = all(a.kind in (Kind.NUMBER, Kind.BOOLEAN) for a in call.arguments)
    if row.encloses is None or missing or not plain:
        return found
    with np.errstate(all="ignore"):
        spans = [Span(np.asarray(float(a.interval.lower)), np.asarray(float(a.interval.upper))) for a in args]
        span = row.encloses(call, spans)
    low, high = float(span.low), float(span.high)
    if math.isnan(low) or math.isnan(high):
        return found
    low, high = max(found.lower, low), min(found.upper, high)
    return Interval(low, high) if low <= high else found  # they may differ in last digits


def _arms(case: Case, boxes: Boxes) -> tuple[list[Facts], bool]:
    """Of the branches that may be taken and are no NULL; whether it may be NULL for want of one."""
    found, falls = [], False
    for condition, value in (*case.branches, (Literal(True, Kind.BOOLEAN), case.default)):
        known = _facts(condition, boxes)
        if known.interval.upper < 1:
            continue
        if value is None or is_null(value):
            falls = True
        else:
            found.append(_facts(value, boxes))
        if known.interval.lower == 1 and not known.nullable:
            break
    return found, falls
