"""Sums of moments over private rows, in SQL: what ``unit.features`` describes, printed for the private instance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from duckdp.compiler.printing import number
from duckdp.errors import InternalError
from duckdp.synthetic.unit.features import Factor, Features, Moments


@singledispatch
def print_sums(moments: Moments, relation: str, columns: Sequence[str], bits: int) -> str:  # noqa: ARG001 - of no kind
    """One SELECT that gives R integers: sums of floor(2^bits phi + 1/2), each phi clamped to [-1, 1] after it.

    The clamp comes last, so a row adds at most 2^bits in absolute value whatever floating point did before it:
    the sensitivities in ``purse`` need nothing else. No row: zeros. HUGEINT sums are exact in any order.

    Args:
        moments: R functions of a row.
        relation: a quoted relation or subquery with unit columns: doubles in [-1, 1], never NULL.
        columns: d quoted identifiers.
        bits: fixed-point bits, at most 40.

    Raises:
        InternalError: functions of a kind that nobody prints.
    """
    raise InternalError("moments that nobody prints")


@print_sums.register
def _(features: Features, relation: str, columns: Sequence[str], bits: int) -> str:
    if len(columns) != features.dimensions:
        raise ValueError("one identifier per dimension")
    listed = _listed(features)
    radial = features.degree or any(f.radial for f in listed)  # a statement of few rows costs what its text costs
    sql, parts = relation, []
    if features.size or radial:
        sql = f"(SELECT s.*, {_print_square(columns)} AS dp_s FROM {relation} AS s)"
    if radial:
        parts.append(f"{_clamp(f'(s.dp_s - {number(features.centre)}) / {number(features.width)}')} AS dp_z")
    for k, factor in enumerate(listed):
        if factor.weights is not None:
            terms = zip(factor.weights, columns, strict=True)
            dot = " + ".join(f"{number(w)} * s.{c}" for w, c in terms if w) or number(0)
            parts.append(f"{_clamp(f'({dot} - {number(factor.offset)}) / {number(factor.width)}')} AS dp_g{k}")
    if parts:
        sql = f"(SELECT s.*, {', '.join(parts)} FROM {sql} AS s)"
    sums = ", ".join(clamped_sum(e, bits) for e in _expressions(features, columns))
    return f"SELECT {sums} FROM {sql} AS s"


def _listed(features: Features) -> tuple[Factor, ...]:
    """Factors of the products, then those of the crosses, two by two."""
    return (*features.factors, *(f for pair in features.crosses for f in pair))


def _expressions(features: Features, columns: Sequence[str]) -> list[str]:
    found = [f"{number(2 / features.dimensions)} * s.dp_s - {number(1)}"] if features.size else []
    found.extend(_print_chebyshev(k) for k in range(1, features.degree + 1))
    values = [
        "s.dp_z" if f.radial else "" if f.weights is None else f"s.dp_g{k}" for k, f in enumerate(_listed(features))
    ]
    for value in values[: len(features.factors)]:
        found.extend(f"s.{columns[i]}{value and ' * ' + value}" for i in features.chosen)
    crossed = zip(values[len(features.factors) :: 2], values[len(features.factors) + 1 :: 2], strict=True)
    found.extend(" * ".join(filter(None, pair)) or number(1) for pair in crossed)
    if features.pairs:
        found.extend(f"s.{columns[i]} * s.{columns[j]}" for i, j in zip(*features.upper, strict=True))
    return found


def _print_square(columns: Sequence[str]) -> str:
    """SQL of |u|^2 over a row ``s``."""
    return " + ".join(f"s.{c} * s.{c}" for c in columns)


def _print_chebyshev(degree: int) -> str:
    coefficients = np.polynomial.chebyshev.cheb2poly(np.eye(degree + 1)[degree])
    text = number(coefficients[-1])
    for c in coefficients[-2::-1]:
        text = f"({text} * s.dp_z + {number(c)})"
    return text


def _clamp(text: str) -> str:
    """To [-1, 1]; DuckDB orders NaN above all numbers, so it lands on 1."""
    return f"system.main.greatest(system.main.least({text}, {number(1)}), {number(-1)})"


def clamped_sum(text: str, bits: int) -> str:
    """The integer sum of a function that is clamped to [-1, 1] last."""
    scaled = f"{_clamp(text)} * {number(2.0**bits)} + {number(0.5)}"
    return f"coalesce(system.main.sum(CAST(system.main.floor({scaled}) AS HUGEINT)), 0)"
