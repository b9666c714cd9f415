"""Sums of moments over private rows, in SQL: what ``unit.features`` describes, printed for the private instance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from itertools import combinations

import numpy as np

from duckdp.compiler.printing import number
from duckdp.errors import InternalError
from duckdp.synthetic.unit.charge_terms import BITS
from duckdp.synthetic.unit.features import Factor, Features, Moments
from duckdp.synthetic.unit.normed import Normed, NormedProducts


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
            parts.append(f"{_print_factor(factor, columns)} AS dp_g{k}")
    if parts:
        sql = f"(SELECT s.*, {', '.join(parts)} FROM {sql} AS s)"
    sums = ", ".join(clamped_sum(e, bits) for e in _expressions(features, columns))
    return f"SELECT {sums} FROM {sql} AS s"


def _print_normed(given: Normed, relation: str, columns: Sequence[str], bits: int) -> str:
    """Integers of each row first, then their norm, then the sums of those rows whose norm is at most ``longest``."""
    if len(columns) != given.dimensions or bits != BITS:
        raise ValueError("one identifier per dimension, and bits of the bound")
    norm, listed = given.squared, range(given.count)
    factors = ", ".join(f"{_print_factor(f, columns)} AS dp_g{k}" for k, f in enumerate(given.factors))
    size = _print_size(given)
    size = f"system.main.sqrt({size})" if norm else size
    bound = number(given.bound)
    kept = f"{bound} / system.main.greatest({size}, {bound})"
    entries = [f"s.dp_g{k}" for k in range(len(given.factors))]
    if isinstance(given, NormedProducts):
        entries = [f"{p} * {q}" for p, q in combinations(entries, 2)]
    whole = ", ".join(
        f"CAST({_scaled(f'{entry} * s.dp_k', bits)} AS BIGINT) AS dp_p{n}" for n, entry in enumerate(entries)
    )
    parts = [f"s.dp_p{n} * s.dp_p{n}" if norm else f"system.main.abs(s.dp_p{n})" for n in listed]
    sql = f"(SELECT {factors} FROM {relation} AS s)"
    sql = f"(SELECT s.*, {kept} AS dp_k FROM {sql} AS s)"
    sql = f"(SELECT {whole} FROM {sql} AS s)"
    sql = f"(SELECT s.*, {' + '.join(parts)} AS dp_n FROM {sql} AS s)"
    added = (f"CASE WHEN s.dp_n <= {given.longest} THEN CAST(s.dp_p{n} AS HUGEINT) END" for n in listed)
    return f"SELECT {', '.join(f'coalesce(system.main.sum({a}), 0)' for a in added)} FROM {sql} AS s"


print_sums.register(Normed, _print_normed)


def _print_size(given: Normed) -> str:
    """SQL of the norm of a row ``s`` with its factors, or of its square: as ``Normed.norms``."""
    count = range(len(given.factors))
    powers = [f"s.dp_g{k} * s.dp_g{k}" if given.squared else f"system.main.abs(s.dp_g{k})" for k in count]
    total, squares = " + ".join(powers), " + ".join(f"({p}) * ({p})" for p in powers)
    if not isinstance(given, NormedProducts):
        return total
    return f"system.main.greatest(({total}) * ({total}) - ({squares}), {number(0)}) / {number(2)}"


def _print_factor(factor: Factor, columns: Sequence[str]) -> str:
    """SQL of a factor with weights over a row ``s``."""
    if factor.weights is None:
        raise InternalError("a factor without weights in a product")
    terms = zip(factor.weights, columns, strict=True)
    dot = " + ".join(f"{number(w)} * s.{c}" for w, c in terms if w) or number(0)
    return _clamp(f"({dot} - {number(factor.offset)}) / {number(factor.width)}")


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
    return f"coalesce(system.main.sum(CAST({_scaled(text, bits)} AS HUGEINT)), 0)"


def _scaled(text: str, bits: int) -> str:
    """A function clamped to [-1, 1] last, to the nearest whole number of 2^-bits: a double."""
    scaled = f"{_clamp(text)} * {number(2.0**bits)} + {number(0.5)}"
    return f"system.main.floor({scaled})"
