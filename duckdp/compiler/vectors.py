"""Released numbers with their gradients: what output expressions, HAVING and ORDER BY are computed on.

The operators' own rules stand in their rows (``operators``), here is what they are made of. NULL in, NULL out, as in
SQL.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Scalar

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Vector:
    """One value per group; numbers carry ``gradient`` float[cells, n], other kinds None."""

    value: NDArray[Any]
    gradient: Floats | None


# What an operator makes of released vectors and the number of cells; None where it has no rule for their kinds.
Released = Callable[[list[Vector], int], Vector | None]


def constant_vector(value: Scalar, n: int, cells: int, *, number: bool) -> Vector:
    """The same value in every group; a NULL ``number`` is NaN."""
    if number and not isinstance(value, (str, dt.date)):
        return Vector(np.full(n, np.nan if value is None else float(value)), np.zeros((cells, n)))
    return Vector(np.array([value] * n, dtype=object), None)


def of_one(rule: Callable[[Floats], tuple[Floats, Floats]]) -> Released:
    """A function of one number, by its value and slope."""

    def apply(args: list[Vector], _: int) -> Vector | None:
        if args[0].gradient is None:
            return None
        value, slope = rule(args[0].value)
        return Vector(value, slope * args[0].gradient)

    return apply


def of_two(rule: Callable[[Floats, Floats], tuple[Floats, Floats, Floats]]) -> Released:
    """A function of two numbers, by its value and both slopes."""

    def apply(args: list[Vector], _: int) -> Vector | None:
        if args[0].gradient is None or args[1].gradient is None:
            return None
        value, da, db = rule(args[0].value, args[1].value)
        return Vector(value, _slope(da, args[0].gradient) + _slope(db, args[1].gradient))

    return apply


def stepped(rule: Callable[[Floats], Floats]) -> Released:
    """A function that rounds or cuts, its slope taken as 1.

    That is no error bar of what was rounded, which is off by a whole step wherever a step lies within the noise:
    intervals follow from all that it can be (compiler/enclosed_ends.py).
    """
    return of_one(lambda a: (rule(a), np.ones_like(a)))


def held(low: float, high: float) -> Released:
    """The nearest whole number, NULL beyond the type that holds those from ``low`` to ``high``.

    One above ``high`` is a power of two, which a DOUBLE holds where it does not hold ``high``.
    """

    def rule(a: Floats) -> tuple[Floats, Floats]:
        whole = np.rint(a)
        return np.where((whole >= float(low)) & (whole < float(high + 1)), whole, np.nan), np.ones_like(a)

    return of_one(rule)


def truths(rule: Callable[[Sequence[Vector]], NDArray[Any]]) -> Released:
    """A condition: True, False or None per group."""
    return lambda args, _: Vector(rule(args), None)


def missing(v: Vector) -> NDArray[np.bool_]:
    """Where a value is NULL; of a number, NaN."""
    if v.gradient is not None:
        return np.isnan(v.value.astype(np.float64))
    return np.array([x is None for x in v.value], dtype=bool)


def compare(of: Callable[[Any, Any], Any], a: Vector, b: Vector) -> NDArray[Any]:
    """A comparison of values, None where either is NULL."""
    null = missing(a) | missing(b)
    result = np.empty(len(a.value), dtype=object)
    for i in range(len(result)):
        result[i] = None if null[i] else bool(of(a.value[i], b.value[i]))
    return result


def same(a: Vector, b: Vector) -> list[bool]:
    """Whether both are NULL, or equal."""
    equal = compare(lambda x, y: x == y, a, b)
    pairs = zip(missing(a), missing(b), equal, strict=True)
    return [bool((x and y) or (not x and not y and e)) for x, y, e in pairs]


def all_of(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """SQL's AND of released values, NULLs included."""
    rows = zip(*parts, strict=True)
    return objects([False if any(x is False for x in r) else None if None in r else True for r in rows])


def any_of(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """SQL's OR of released values, NULLs included."""
    rows = zip(*parts, strict=True)
    return objects([True if any(x is True for x in r) else None if None in r else False for r in rows])


def objects(values: list[Any]) -> NDArray[Any]:
    """One Python value per group."""
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def null_like(a: Vector) -> Vector:
    """NULL in every group, of the kind of a vector."""
    if a.gradient is not None:
        return Vector(np.full(len(a.value), np.nan), np.zeros_like(a.gradient))
    return Vector(objects([None] * len(a.value)), None)


def choose(pairs: Sequence[tuple[NDArray[Any], Vector]], default: Vector) -> Vector:
    """In every group the value of the first condition that is true."""
    value, gradient = default.value.copy(), None if default.gradient is None else default.gradient.copy()
    for condition, vector in reversed(pairs):
        mask = np.array([x is True or x is np.True_ for x in condition], dtype=bool)
        value = np.where(mask, vector.value, value)
        if gradient is not None and vector.gradient is not None:
            gradient = np.where(mask, vector.gradient, gradient)
    return Vector(value, gradient)


def _slope(outer: Floats, gradient: Floats) -> Floats:
    """Chain rule; a constant contributes nothing even where the outer slope is not defined (the base of a power)."""
    return np.where(gradient == 0, 0.0, outer * gradient)
