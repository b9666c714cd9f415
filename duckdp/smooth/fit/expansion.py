"""Analytic functions by their factors: coefficients and proved errors of many functions of one shape at once.

A shape is taken apart into a sum of products of functions of one column (or two where it cannot be), once for all
its numbers (``separate``, ``programs``). Interpolation of a product is the product of the interpolants, so only
functions of one column are evaluated, at t places instead of t^d, and proofs are made column by column (``factors``)::

    |prod g_k - prod p_k|  <=  prod (S_k + e_k) - prod S_k,    S_k >= sup |g_k|,  e_k >= sup |g_k - p_k|

with e_k from the theorem of ``bernstein`` on a coarse cover. Where that is ``enough`` (a tenth of the noise), the proof
stops. Where it is not, f is compared with q, the product of interpolants at T = m t zeros::

    |f - p|  <=  |f - q| + |q - p|     the first as above for T, on a finer cover; the second is a polynomial of degree
                                       T - 1 in each column, at most its largest value on a grid of N = s T extrema over
                                       cos((T - 1) pi / 2N), for each column (``coefficients.certify``)

q on the grid (``ongrid``) is again made of functions of one column. What the basis lacks of p counts in the first way
by the sum of its coefficients, in the second as it is. f means its value in exact arithmetic: what evaluating it errs
is the radius of its discs, and part of every e_k.

Whatever this cannot prove is None, and left to ``coefficients``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, Literal, walk
from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.basis import Basis
from duckdp.smooth.fit.factors import Factor, Known, factor_of, interpolated, outer, telescoped
from duckdp.smooth.fit.ongrid import Block, First, closely
from duckdp.smooth.fit.parts import part_of
from duckdp.smooth.fit.points import SLOT
from duckdp.smooth.fit.proved import UNDERFLOW
from duckdp.smooth.fit.separate import products, reads

RHOS = (1.25, 1.6, 2.2, 3.2, 5.0, 12.0)  # ellipses of the first proof
ARCS = 20  # discs along each
MAX_TENSOR = 100_000  # functions of the enclosing tensor set of a block
NEGLIGIBLE = 1e-12  # of the function's size: always enough
_ULP = 2.0**-50  # relative error of a product of few floats, with room
_FIXED = {"power": 1}  # operators whose rule depends on the value of an argument, and which
Bools = NDArray[np.bool_]
Enough = Callable[[Floats], Floats]  # coefficients float[m, R] -> error that is enough, float[m]


@dataclass(frozen=True, eq=False)
class Expansion:
    """A shape taken apart, ready for any numbers."""

    size: int
    factors: tuple[Factor, ...]
    blocks: tuple[Block, ...]


def settled(shape: Expr) -> frozenset[int]:
    """Slots whose numbers are part of the shape: exponents."""
    calls = [e for e in walk(shape) if isinstance(e, Call) and e.operator in _FIXED]
    inside = [n for e in calls if not reads(p := e.arguments[_FIXED[e.operator]]) for n in walk(p)]
    return frozenset(int(n.column.name.removeprefix(SLOT)) for n in inside if isinstance(n, ColumnRef))


def settle(shape: Expr, numbers: dict[int, float]) -> Expr:
    """The shape with numbers in place of some slots."""
    match shape:
        case ColumnRef(column=c) if c.name.startswith(SLOT):
            at = int(c.name.removeprefix(SLOT))
            return Literal(numbers[at], Kind.NUMBER) if at in numbers else shape
        case Call(operator=operator, arguments=arguments, kind=kind, option=option):
            return Call(operator, tuple(settle(a, numbers) for a in arguments), kind, option)
        case Case(branches=branches, default=default, kind=kind):
            arms = tuple((settle(c, numbers), settle(v, numbers)) for c, v in branches)
            return Case(arms, None if default is None else settle(default, numbers), kind)
    return shape


def expand(shape: Expr, basis: Basis) -> Expansion | None:
    """Take a shape apart, or None where it has a part that is not known to be analytic."""
    names = {axis.name: axis for axis in basis.axes}
    if not reads(shape) <= names.keys() or any(not _is_number(names[n]) for n in reads(shape)):
        return None
    factors: dict[Expr, int] = {}
    made: list[Factor] = []
    terms: list[tuple[frozenset[str], tuple[int, ...]]] = []
    for term in products(shape):
        for expr in term:
            if expr not in factors:
                factor = factor_of(expr, [a for a in basis.axes if a.name in reads(expr)])
                if factor is None:
                    return None
                factors[expr] = len(made)
                made.append(factor)
        terms.append((frozenset().union(*(reads(e) for e in term)), tuple(factors[e] for e in term)))
    blocks: list[tuple[frozenset[str], list[tuple[int, ...]]]] = []
    for columns, places in sorted(terms, key=lambda t: -len(t[0])):
        home = next((b for b in blocks if columns <= b[0]), None)
        if home is None:
            blocks.append((columns, [places]))
        else:
            home[1].append(places)
    parts = [Block(part_of(basis, columns), tuple(members)) for columns, members in blocks]
    if any(math.prod(b.part.degrees) > MAX_TENSOR for b in parts):
        return None
    return Expansion(basis.size, tuple(made), tuple(parts))


def _is_number(axis: Axis) -> bool:
    return axis.kind is Kind.NUMBER and (axis.values is None or None not in axis.values)


def approximate_shape(expansion: Expansion, constants: Floats, enough: Enough | None) -> tuple[Floats, Floats, Bools]:
    """Coefficients float[m, R], proved errors float[m], and for which rows of constants there are any.

    Args:
        expansion: of the shape.
        constants: float[m, k], its slots' values.
        enough: when to stop; None: only where nothing is left.
    """
    m = len(constants)
    with np.errstate(all="ignore"):
        known = [interpolated(factor, constants, RHOS, ARCS) for factor in expansion.factors]
        full, errors, sizes, tensors = np.zeros((m, expansion.size)), [], [], []
        for block in expansion.blocks:
            tensor, error, size = _combine(block, expansion.factors, known)
            kept = block.part.select(tensor)
            full[:, block.part.rows] += kept
            total = np.abs(tensor).reshape(m, -1).sum(axis=1)
            rounded = total * (2 + len(block.terms)) * _ULP + UNDERFLOW
            errors.append(error + _lost(total, kept, block) + rounded)
            sizes.append(size)
            tensors.append(kept)
        limit = NEGLIGIBLE * np.sum(sizes, axis=0)
        if enough is not None:
            limit = np.maximum(limit, enough(full))
        for i, block in enumerate(expansion.blocks):
            open_ = np.flatnonzero(~(np.sum(errors, axis=0) <= limit))
            if len(open_):
                share = limit[open_] / len(expansion.blocks)
                first = First(constants, tensors[i], {j: known[j] for term in block.terms for j in term})
                better = closely(expansion.factors, block, first.select(open_), share)
                errors[i][open_] = np.fmin(errors[i][open_], better)
        error = np.sum(errors, axis=0)
    sure = np.isfinite(error) & np.isfinite(full).all(axis=1)
    return full, error, sure


def _combine(block: Block, factors: Sequence[Factor], known: Sequence[Known]) -> tuple[Floats, Floats, Floats]:
    """(coefficients float[m, t_1, ...], telescoped error, size) of a block's sum of products."""
    m = len(known[block.terms[0][0]].size)
    tensor = np.zeros((m, *block.part.degrees))
    error, size = np.zeros(m), np.zeros(m)
    for term in block.terms:
        made = outer(block.part.axes, [factors[i].axes for i in term], [known[i].coefficients for i in term], m)
        tensor[tuple(slice(0, n) for n in made.shape)] += made
        own, whole = telescoped([known[i] for i in term])
        error, size = error + own, size + whole
    return tensor, error, size


def _lost(total: Floats, kept: Floats, block: Block) -> Floats | float:
    """Sum of the coefficients that the basis lacks, float[m]; T_r is at most 1."""
    return 0.0 if block.whole else np.maximum(total - np.abs(kept).sum(axis=1), 0.0) + _ULP * total
