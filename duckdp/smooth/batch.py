"""Coefficients of many functions at once.

Texts of one shape (``shapes``) are fitted together: where the shape is analytic by its factors, with proved errors
(``expansion``). For others DuckDB evaluates the shape for all numbers in one statement, over the product of the nodes
and the numbers (``points``); then one matrix product per column gives all coefficients and all values on the grid where
errors are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from duckdp.catalog.table import Column
from duckdp.compiler.expression import Expr
from duckdp.errors import NumericalError, ParameterError
from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.basis import Basis
from duckdp.smooth.factored import by_factors
from duckdp.smooth.fit import coefficients
from duckdp.smooth.fit.coefficients import (
    NEGLIGIBLE,
    RESOLVED,
    UNSEEN,
    Approximation,
    approximate,
    checked,
    is_polynomial,
    span_of,
)
from duckdp.smooth.fit.expansion import Enough
from duckdp.smooth.fit.interpolation import check_grid, coefficients_from, values_at
from duckdp.smooth.fit.parts import Part, part_of
from duckdp.smooth.fit.points import (
    Points,
    as_number_expression,
    evaluate_each,
    evaluate_shape,
    tensor_points,
)
from duckdp.smooth.fit.proved import own_error, own_errors, proved_error, rounding
from duckdp.smooth.fit.separate import reads as columns_of
from duckdp.smooth.fit.structured import by_structure
from duckdp.smooth.fit.terms import is_rough
from duckdp.smooth.fit.together import hidden_together
from duckdp.smooth.shapes import Shape, fill, reader_of

SAFETY = 1.5  # for a grid of three points per degree
PER_DEGREE = 3  # points of the checking grid per function, column by column
MAX_CHECKED = 2400  # points per function on which f - p is looked at
MAX_NODES = 4100  # per function; larger ones are done one by one
MAX_TOGETHER = 256  # functions that are fitted in one matrix
FEW = 8  # functions of one shape that are not worth a statement of their own
MAX_LISTED = 64  # expressions of one statement
MOST_ROUGH = (
    500  # functions that jump or bend, of one call: each is fitted piece by piece, alone, in a tenth of a second
)
MAX_COLUMNS = 3  # that functions fitted together may read; others are fitted one by one


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused
def approximate_many(
    functions: Sequence[str | Expr],
    basis: Basis,
    table: str,
    known: Sequence[Column],
    enough: Enough | None = None,
    *,
    quick: bool = True,
) -> list[Approximation]:
    """The combinations of the basis that stand for many functions, in their order.

    Args:
        functions: SQL expressions over the summary's columns, or translations.
        basis: the functions of the summary.
        table: its table's name.
        known: its columns.
        enough: how small a proved error need not be looked at more closely.
        quick: what has no proof by its factors is looked at on a coarse grid; otherwise as one by one.

    Raises:
        NumericalError: N102, with the function's place.
        ParameterError: P107, more functions that jump or bend than there may be.
        QueryError: a function is outside the allow-list.
    """
    reader = reader_of(table, tuple(known))
    groups: dict[Shape, list[tuple[int, Floats]]] = {}
    for i, function in enumerate(functions):
        shape, numbers = reader.read(function)
        groups.setdefault(shape, []).append((i, numbers))
    _require_few_rough(groups)
    found: dict[int, Approximation] = {}
    left: dict[Expr, list[tuple[int, Floats]]] = {}
    for shape, members in groups.items():
        fits = by_factors(shape, [numbers for _, numbers in members], basis, enough)
        fits = _by_structure(shape.expr, [numbers for _, numbers in members], fits, basis, enough)
        for (i, numbers), fit in zip(members, fits, strict=True):
            if fit is None:
                left.setdefault(shape.expr, []).append((i, numbers))
            else:
                found[i] = fit
    if quick:
        found.update(_on_coarse_grids(left, basis))
    else:
        found.update({i: approximate(fill(shape, n), basis) for shape, members in left.items() for i, n in members})
    return [found[i] for i in range(len(functions))]


def _require_few_rough(groups: Mapping[Shape, Sequence[object]]) -> None:
    """Bound the work of one call, which nothing but Ctrl-C ends, before any of it is done.

    Raises:
        ParameterError: P107.
    """
    count = sum(len(members) for shape, members in groups.items() if is_rough(shape.expr))
    if count > MOST_ROUGH:
        rule = (
            f"jump or bend (CASE, comparisons, abs), and are fitted one by one: at most {MOST_ROUGH}. Split the list."
        )
        raise ParameterError("P107", "functions", count, rule)


def _by_structure(
    shape: Expr,
    numbers: Sequence[Floats],
    fits: list[Approximation | None],
    basis: Basis,
    enough: Enough | None,
) -> list[Approximation | None]:
    """What has no proof by its factors, by what it is in one column each."""
    if enough is None:
        return fits
    return [
        by_structure(fill(shape, own), basis, enough) if fit is None else fit
        for own, fit in zip(numbers, fits, strict=True)
    ]


def _on_coarse_grids(groups: dict[Expr, list[tuple[int, Floats]]], basis: Basis) -> dict[int, Approximation]:
    """What DuckDB evaluates: shapes of many together, others in one statement or alone."""
    found: dict[int, Approximation] = {}
    alone: list[tuple[int, Expr]] = []
    few: dict[frozenset[str], list[tuple[int, Expr]]] = {}
    for shape, members in groups.items():
        if not _together(shape, basis):
            alone += [(i, fill(shape, numbers)) for i, numbers in members]
        elif len(members) < FEW:
            few.setdefault(columns_of(shape), []).extend((i, fill(shape, numbers)) for i, numbers in members)
        else:
            for start in range(0, len(members), MAX_TOGETHER):
                found.update(_approximate_group(_same_shape(shape, members[start : start + MAX_TOGETHER]), basis))
    for reads, listed in few.items():
        for start in range(0, len(listed), MAX_LISTED):
            found.update(_approximate_group(_own_shapes(reads, listed[start : start + MAX_LISTED]), basis))
    for i, function in alone:
        with _place(i):
            found[i] = approximate(function, basis, prove=False)
    return found


def _together(shape: Expr, basis: Basis) -> bool:
    """Whether a shape is evaluated for many functions at once: small grids, and no jump to look for."""
    reads = columns_of(shape)
    if is_rough(shape) or len(reads) > MAX_COLUMNS or not reads <= {axis.name for axis in basis.axes}:
        return False
    part = part_of(basis, reads)
    return not _listed_alone(part.axes) and math.prod(len(rule.x) for rule in part.rules) <= MAX_NODES


@lru_cache(maxsize=64)
def _listed_alone(axes: tuple[Axis, ...]) -> bool:
    """Whether all values are looked at where a function is read on its own, and not here: there its error is proved."""
    together = check_grid(axes, {}, per_degree=PER_DEGREE, most=MAX_CHECKED)[1]
    return not together and check_grid(axes, {}, per_degree=coefficients.PER_DEGREE, most=coefficients.MAX_CHECKED)[1]


@dataclass(frozen=True, eq=False)
class _Group:
    """Functions that are evaluated together.

    Attributes:
        reads: their columns.
        functions: (place in the list, function).
        evaluate: their values, float[m, n].
        own: what computing them may add at points, which may be all values there are, float[m].
        hidden: what they may hide between the points of a grid of so many steps per column, float[m], looked at
            until it is below float[m].
    """

    reads: frozenset[str]
    functions: list[tuple[int, Expr]]
    evaluate: Callable[[Points], Floats]
    own: Callable[[Points, bool], Floats]
    hidden: Callable[[Part, list[int], Floats], Floats]


def _same_shape(shape: Expr, members: list[tuple[int, Floats]]) -> _Group:
    constants = np.array([numbers for _, numbers in members]).reshape(len(members), -1)
    functions = [(i, fill(shape, numbers)) for i, numbers in members]

    def own(points: Points, complete: bool) -> Floats:
        found = own_errors(shape, points, constants, complete=complete)
        for k in np.flatnonzero(~np.isfinite(found)):  # a number in place of a slot may have a rule: an exponent
            found[k] = own_error(functions[k][1], points, complete=complete)
        return found

    return _Group(
        columns_of(shape),
        functions,
        lambda points: evaluate_shape(shape, points, constants),
        own,
        lambda part, steps, enough: hidden_together(shape, constants, part.axes, steps, enough),
    )


def _own_shapes(reads: frozenset[str], functions: list[tuple[int, Expr]]) -> _Group:
    def hidden(part: Part, steps: list[int], enough: Floats) -> Floats:
        none = np.zeros((1, 0))
        each = [hidden_together(f, none, part.axes, steps, enough[i : i + 1]) for i, (_, f) in enumerate(functions)]
        return np.concatenate(each)

    def own(points: Points, complete: bool) -> Floats:
        return np.array([own_error(f, points, complete=complete) for _, f in functions])

    return _Group(reads, functions, lambda points: evaluate_each([f for _, f in functions], points), own, hidden)


def _approximate_group(group: _Group, basis: Basis) -> dict[int, Approximation]:
    try:
        found = _approximate_together(group, part_of(basis, group.reads), basis.size)
    except NumericalError:
        if len(group.functions) == 1:
            with _place(group.functions[0][0]):
                raise
        for one in group.functions:
            _approximate_group(_own_shapes(group.reads, [one]), basis)
        raise
    return {
        i: approximate(function, basis, prove=False) if fit is None else fit
        for (i, function), fit in zip(group.functions, found, strict=True)
    }


def _approximate_together(group: _Group, part: Part, size: int) -> list[Approximation | None]:
    """The combinations of a group; None where the grid may be too coarse for f."""
    many = len(group.functions)
    nodes = tensor_points(part.axes, [rule.x for rule in part.rules])
    values = group.evaluate(nodes)
    tensor = coefficients_from(values.reshape(many, *(len(rule.x) for rule in part.rules)), part.rules)
    kept = part.select(tensor)
    x, complete = check_grid(part.axes, {}, per_degree=PER_DEGREE, most=MAX_CHECKED)
    grid = tensor_points(part.axes, x)
    seen = group.evaluate(grid)
    errors = np.abs(seen - values_at(part.tensor(kept), part.axes, x)).max(axis=1)
    at_nodes = np.abs(values).max(axis=1)
    scales = np.maximum(np.abs(seen).max(axis=1), at_nodes)
    lost = np.abs(tensor).reshape(many, -1).sum(axis=1) - np.abs(kept).sum(axis=1)
    slack = rounding(part, 1.0) * scales
    full = np.zeros((many, size))
    full[:, part.rows] = kept
    polynomial = [is_polynomial(function, part) for _, function in group.functions]
    none = np.full(many, np.inf)
    own = group.own(nodes, False) if any(polynomial) else none, group.own(grid, True) if complete else none
    proved = [
        proved_error(
            part,
            polynomial=polynomial[i],
            complete=complete,
            error=float(errors[i]),
            scales=(float(at_nodes[i]), float(scales[i])),
            lost=max(0.0, float(lost[i])),
            own=(float(own[0][i]), float(own[1][i])),
        )
        for i in range(many)
    ]
    exact = np.array([bound is not None for bound in proved])
    enough = np.maximum(UNSEEN * (SAFETY * errors + slack), NEGLIGIBLE * scales)
    hidden = np.zeros(many)
    asked = (errors <= RESOLVED * scales) & ~exact & (not complete)
    if asked.any():
        hidden = group.hidden(part, [max(1, len(at) - 1) for at in x], np.where(asked, enough, np.inf))
    found: list[Approximation | None] = []
    for i, error in enumerate(errors.tolist()):
        sure = proved[i]
        if sure is None and not (asked[i] and hidden[i] <= enough[i]):
            found.append(None)
            continue
        bound = SAFETY * error + float(slack[i] + hidden[i]) if sure is None else sure
        span = span_of(as_number_expression(group.functions[i][1]))
        own_used = 0.0 if sure is None else float(min(own[0][i], own[1][i]))
        found.append(checked(Approximation(full[i], bound, sure is not None, span, own_used)))
    return found


@contextmanager
def _place(index: int) -> Iterator[None]:
    """Say which function an error is about."""
    try:
        yield
    except NumericalError as error:
        message = f"function {index + 1} of the list: {error.message}"
        raise NumericalError(error.code, message, status=error.status) from None
