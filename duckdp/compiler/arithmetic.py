"""Arithmetic of released numbers with gradients: what output expressions, HAVING and ORDER BY may compute."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Scalar
from duckdp.errors import QueryError

Floats = NDArray[np.float64]
Binary = Callable[[Floats, Floats], tuple[Floats, Floats, Floats]]


@dataclass(frozen=True)
class Vector:
    """One value per group; numbers carry ``gradient`` float[cells, n], other kinds None."""

    value: NDArray[Any]
    gradient: Floats | None


def constant_vector(value: Scalar, n: int, cells: int, *, number: bool) -> Vector:
    """The same value in every group; a NULL ``number`` is NaN."""
    if number and not isinstance(value, (str, dt.date)):
        return Vector(np.full(n, np.nan if value is None else float(value)), np.zeros((cells, n)))
    return Vector(np.array([value] * n, dtype=object), None)


BINARY: dict[str, Binary] = {
    "add": lambda a, b: (a + b, np.ones_like(a), np.ones_like(b)),
    "sub": lambda a, b: (a - b, np.ones_like(a), -np.ones_like(b)),
    "mul": lambda a, b: (a * b, b, a),
    "div": lambda a, b: (a / b, 1 / b, -a / b**2),
    "power": lambda a, b: (a**b, b * a ** (b - 1), a**b * np.log(a)),
}
UNARY: dict[str, Callable[[Floats], tuple[Floats, Floats]]] = {
    "neg": lambda a: (-a, -np.ones_like(a)),
    "abs": lambda a: (np.abs(a), np.sign(a)),
    "sqrt": lambda a: (np.sqrt(a), 0.5 / np.sqrt(a)),
    "exp": lambda a: (np.exp(a), np.exp(a)),
    "ln": lambda a: (np.log(a), 1 / a),
    "round": lambda a: (np.copysign(np.floor(np.abs(a) + 0.5), a), np.ones_like(a)),  # halves go away from 0
    "round_even": lambda a: (np.rint(a), np.ones_like(a)),
    "trunc": lambda a: (np.trunc(a), np.ones_like(a)),
    "floor": lambda a: (np.floor(a), np.ones_like(a)),
    "ceil": lambda a: (np.ceil(a), np.ones_like(a)),
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
SCALAR_OPERATORS = {*BINARY, *UNARY, "and", "or", "not", "greatest", "least", "number", "case"}


def allowed(name: str) -> bool:
    """Whether an operator may be applied to released values."""
    stem = name.rsplit("_", 1)[0]
    return name in SCALAR_OPERATORS or stem in {
        *COMPARE,
        "between",
        "in",
        "is_null",
        "coalesce",
        "nullif",
        "same",
        "distinct",
    }


def apply(name: str, args: list[Vector], cells: int) -> Vector:
    """Apply an operator to released vectors; NULL in, NULL out, as in SQL.

    Args:
        name: of the operator.
        args: its arguments.
        cells: rows of a gradient.

    Raises:
        QueryError: Q202, the operator works on rows only.
    """
    with np.errstate(all="ignore"):
        if name in BINARY and args[0].gradient is not None and args[1].gradient is not None:
            value, da, db = BINARY[name](args[0].value, args[1].value)
            return Vector(value, _slope(da, args[0].gradient) + _slope(db, args[1].gradient))
        if name in UNARY and args[0].gradient is not None:
            value, slope = UNARY[name](args[0].value)
            return Vector(value, slope * args[0].gradient)
        if name == "number":
            return _number(args[0], cells)
        if name == "case":
            return _case(args)
        if name in ("greatest", "least") and all(a.gradient is not None for a in args):
            return _extreme(name, args)
        if name in ("and", "or", "not"):
            return _logic(name, args)
        stem = name.rsplit("_", 1)[0]
        if stem == "coalesce":
            return _coalesce(args)
        if stem == "nullif":
            return _choose([(_test("eq", args[0], args[1]), _null_like(args[0]))], args[0])
        if stem in (*COMPARE, "between", "in", "is_null", "same", "distinct"):
            return Vector(_predicate(stem, args), None)
    raise QueryError("Q202", f"{name} is outside the allow-list for released values. Apply it to rows, or afterwards.")


def _missing(v: Vector) -> NDArray[np.bool_]:
    if v.gradient is not None:
        return np.isnan(v.value.astype(np.float64))
    return np.array([x is None for x in v.value], dtype=bool)


def _test(stem: str, a: Vector, b: Vector) -> NDArray[Any]:
    null = _missing(a) | _missing(b)
    result = np.empty(len(a.value), dtype=object)
    for i in range(len(result)):
        result[i] = None if null[i] else bool(COMPARE[stem](a.value[i], b.value[i]))
    return result


def _predicate(stem: str, args: list[Vector]) -> NDArray[Any]:
    if stem == "is_null":
        return _missing(args[0]).astype(object)
    if stem == "between":
        return _all([_test("ge", args[0], args[1]), _test("le", args[0], args[2])])
    if stem == "in":
        return _any([_test("eq", args[0], b) for b in args[1:]])
    if stem in ("same", "distinct"):
        a, b = _missing(args[0]), _missing(args[1])
        equal = _test("eq", args[0], args[1])
        same = [bool(x and y) or (not x and not y and e) for x, y, e in zip(a, b, equal, strict=True)]
        return np.array([bool(s) == (stem == "same") for s in same], dtype=object)
    return _test(stem, args[0], args[1])


def _all(parts: list[NDArray[Any]]) -> NDArray[Any]:
    rows = zip(*parts, strict=True)
    return _objects([False if any(x is False for x in r) else None if None in r else True for r in rows])


def _any(parts: list[NDArray[Any]]) -> NDArray[Any]:
    rows = zip(*parts, strict=True)
    return _objects([True if any(x is True for x in r) else None if None in r else False for r in rows])


def _objects(values: list[Any]) -> NDArray[Any]:
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def _logic(name: str, args: list[Vector]) -> Vector:
    parts = [a.value for a in args]
    if name == "not":
        return Vector(_objects([None if x is None else not x for x in parts[0]]), None)
    return Vector(_all(parts) if name == "and" else _any(parts), None)


def _number(a: Vector, cells: int) -> Vector:
    value = np.array([np.nan if x is None else float(x) for x in a.value])
    return Vector(value, np.zeros((cells, len(value))))


def _slope(outer: Floats, gradient: Floats) -> Floats:
    """Chain rule; a constant contributes nothing even where the outer slope is not defined (the base of a power)."""
    return np.where(gradient == 0, 0.0, outer * gradient)


def _extreme(name: str, args: list[Vector]) -> Vector:
    """Largest or smallest, NULLs skipped; the gradient is the winner's."""
    stack = np.stack([a.value for a in args])
    filled = np.where(np.isnan(stack), -np.inf if name == "greatest" else np.inf, stack)
    winner = filled.argmax(axis=0) if name == "greatest" else filled.argmin(axis=0)
    columns = np.arange(stack.shape[1])
    gradients = np.stack([a.gradient for a in args if a.gradient is not None])
    return Vector(stack[winner, columns], gradients[winner, :, columns].T)


def _coalesce(args: list[Vector]) -> Vector:
    result = args[-1]
    for a in reversed(args[:-1]):
        result = _choose([(_objects([not m for m in _missing(a)]), a)], result)
    return result


def _case(args: list[Vector]) -> Vector:
    pairs = [(args[i].value, args[i + 1]) for i in range(0, len(args) - 1, 2)]
    default = args[-1] if len(args) % 2 else _null_like(args[1])
    return _choose(pairs, default)


def _null_like(a: Vector) -> Vector:
    if a.gradient is not None:
        return Vector(np.full(len(a.value), np.nan), np.zeros_like(a.gradient))
    return Vector(_objects([None] * len(a.value)), None)


def _choose(pairs: list[tuple[NDArray[Any], Vector]], default: Vector) -> Vector:
    value, gradient = default.value.copy(), None if default.gradient is None else default.gradient.copy()
    for condition, vector in reversed(pairs):
        mask = np.array([x is True or x is np.True_ for x in condition], dtype=bool)
        value = np.where(mask, vector.value, value)
        if gradient is not None and vector.gradient is not None:
            gradient = np.where(mask, vector.gradient, gradient)
    return Vector(value, gradient)
