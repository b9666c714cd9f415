"""A query function as a combination of the basis: f = sum_r c_r Phi_r + error.

f is a row expression over the summary's columns. It is evaluated by DuckDB on nodes of ours (``nodes``), never on data.
Only the columns that f reads matter; a sum of functions of few columns each is taken apart where f as a whole reads
too many for a grid.

How far p = sum_r c_r Phi_r is from f is found in one of four ways, the first that serves:

    listed       every value that rows can have is on the grid where f and p are compared: the error there
    polynomial   f is a polynomial of low enough degree: nothing but rounding
    certified    f is analytic: a bound from its continuation (``certify``)
    estimated    SAFETY times the largest error on a grid of about four points per degree and column, where f's growth
                 off the real line shows that it has nothing narrower; otherwise on a dense one, and where f may
                 bend or jump also between the points (``refine``), plus what boxes that cover all values leave open
                 (``cells``), or their own bound, which is proved; in many columns, plus all that f's bounds leave open

The first three are proved, up to DuckDB's mathematical functions being right to 8 units in the last place: of f in
exact arithmetic, so that what computing f adds is in each of them (``proved``, where the first two are decided). The
certified bound is reported when it is at most twice the estimate, or below 1e-9 of f's largest value; otherwise the
estimate is. Where the basis is not the full tensor set, the coefficients it lacks are part of every bound.

Source: [J] Algorithm 2, step 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler.expression import Expr, columns
from duckdp.compiler.facts import facts
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.errors import NumericalError, ParameterError, QueryError
from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.basis import ULP, Basis, chebyshev
from duckdp.smooth.fit import bernstein, boxes, jackson, leastsquares
from duckdp.smooth.fit.interpolation import check_grid, coefficients_from, rule_for, values_at
from duckdp.smooth.fit.parts import Part, part_of
from duckdp.smooth.fit.points import Points, as_number_expression, evaluate, tensor_points
from duckdp.smooth.fit.proved import own_error, proved_error, rounding
from duckdp.smooth.fit.ranges import beyond
from duckdp.smooth.fit.refine import largest_between
from duckdp.smooth.fit.terms import Term, degrees, is_rough, jumps, merge, split

Method = Literal["interpolation", "jackson", "best"]
METHODS: tuple[Method, ...] = ("interpolation", "jackson", "best")
MAX_NODES = 100_000  # of a grid on which f is interpolated
MAX_CHECKED = 200_000  # points on which f - p is looked at
SAFETY = 1.25  # an error between grid points is a little larger than on them
TRUSTED = 2.0  # a proved bound is reported up to this many times the estimate
NEGLIGIBLE = 1e-9  # of f's largest value
PER_DEGREE = 4  # points of the checking grid per function, column by column
DENSE = (20_000, 60_000)  # points of a dense grid in one column, in several
RESOLVED = 1e-3  # of f's largest value: a larger error is looked at on a dense grid
FINER = (1, 2, 3, 4, 6, 8, 12, 16, 24)  # times as many zeros, for a proof
MAX_FINER = 40_000  # of them in all columns
UNSEEN = 0.05  # of the estimate: what may be hidden between grid points
SAMPLES = 4  # points per degree on which a polynomial is bounded
MAX_SAMPLED = 2_000_000  # points of a grid at which f is evaluated: 16 MB
_OUTWARD = 1e-12  # relative widening of the span of sampled values


@dataclass(frozen=True)
class Approximation:
    """A combination of the basis in place of f.

    Attributes:
        coefficients: float[R], units of f.
        error: bound on |f - p| for every value that rows can have, units of f.
        proved: whether the bound is proved; otherwise it is an estimate from a grid.
        span: no value of f lies outside, but for rounding (``outward``), units of f; by bound propagation.
        own: how far computing f may err, and so the ends of its span; 0 where nothing is proved.
        sides: combinations below and above f for every value that rows can have, proved; better than ``error`` for
            means and sums.
    """

    coefficients: Floats
    error: float
    proved: bool = False
    span: tuple[float, float] = (-math.inf, math.inf)
    own: float = 0.0
    sides: tuple[Floats, Floats] | None = None


@dataclass(frozen=True, eq=False)
class Seen:
    """What comparing f and p on a grid shows.

    Attributes:
        error: the largest error.
        scale: the largest value.
        complete: whether every value is on it.
        steps: of the grid, per column.
        values: the least and the largest value of f.
        own: what computing f may add, where the grid is complete.
    """

    error: float
    scale: float
    complete: bool
    steps: tuple[int, ...]
    values: tuple[float, float]
    own: float = math.inf


def read_function(text: str, table: str, known: Sequence[Column]) -> Expr:
    """Translate the text of a function of the summary's columns.

    Args:
        text: one scalar SQL expression.
        table: name of the summarised table, for messages and qualified names.
        known: the summary's columns.

    Raises:
        QueryError: Q1xx to Q4xx, at its place in the text.
    """
    scope = RowScope(Table(name=table, relation=("", "", ""), columns=tuple(known), row_cap=1), None, text)
    return Scalars(scope.leaf, text, smooth=True)(parse_scalar(text))


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused
def approximate(
    function: Expr,
    basis: Basis,
    *,
    method: Method = "interpolation",
    smoothness: int = jackson.DEFAULT_SMOOTHNESS,
    prove: bool = True,
) -> Approximation:
    """The combination of the basis that stands for f.

    Args:
        function: a number or boolean (0 or 1) over the basis' columns.
        basis: the functions.
        method: "interpolation", or "jackson" (the paper's kernel). "best" weighs error against noise and is found in
            ``answer``, where the noise is known; here it is "interpolation".
        smoothness: K of the Jackson kernel.
        prove: look for a proved bound.

    Raises:
        NumericalError: N102, f is NULL, NaN or infinite on a node, or not known to be bounded.
        ParameterError: P107, method.
        QueryError: Q203, f is not a number; Q207, it names another column.
    """
    if method not in METHODS:
        raise ParameterError("P107", "method", method, f"must be one of {', '.join(METHODS)}.")
    number = as_number_expression(function)
    if not {c.name for c in columns(number)} <= {axis.name for axis in basis.axes}:
        raise QueryError("Q207", "the function names a column that is not in the summary.")
    total, error, proved, own = np.zeros(basis.size), 0.0, True, 0.0
    for term in terms_of(number, basis):
        part = part_of(basis, term.reads)
        kernel = smoothness if method == "jackson" else None
        found = _fit(term.function, part, kernel, prove=prove)
        total[part.rows] += term.factor * found.coefficients
        error += abs(term.factor) * found.error
        proved, own = proved and found.proved, own + abs(term.factor) * found.own
    return checked(Approximation(total, error, proved, span_of(number), own))


def span_of(number: Expr) -> tuple[float, float]:
    """Ends that no value of f goes beyond, but for rounding."""
    found = facts(number).interval
    return found.lower, found.upper


def outward(span: tuple[float, float]) -> tuple[float, float]:
    """The same moved outward by a little: values that DuckDB computes do not go beyond."""
    return span[0] - _OUTWARD * abs(span[0]), span[1] + _OUTWARD * abs(span[1])


def terms_of(function: Expr, basis: Basis) -> list[Term]:
    """Split f in parts where all its columns together are too many for a grid, else leave it one term."""
    reads = frozenset(c.name for c in columns(function))
    if len(reads) <= 2 or (len(reads) == 3 and _grid_size(part_of(basis, reads)) <= MAX_NODES):
        return [Term(1.0, function, reads)]
    return merge(split(function))


def look(function: Expr, part: Part, kept: Floats, *, most: int = MAX_CHECKED, per_degree: int = PER_DEGREE) -> Seen:
    """Compare f and p on a finer grid, corners and likely jumps included."""
    extra = jumps(function) if is_rough(function) else {}
    x, complete = check_grid(part.axes, extra, per_degree=per_degree, most=most)
    points = tensor_points(part.axes, x)
    values = evaluate(function, points)
    residual = values - values_at(part.tensor(kept[None, :]), part.axes, x)[0]
    error, scale = float(np.max(np.abs(residual))), float(np.max(np.abs(values)))
    if not complete and is_rough(function):
        p = boxes.polynomial(part, kept)

        def at(points: tuple[Floats, ...]) -> Floats:
            return evaluate(function, Points(part.axes, points)) - p.at(points)

        error = largest_between(at, part.axes, x, residual)
    span = float(np.min(values)), float(np.max(values))
    own = own_error(function, points, complete=True) if complete else math.inf
    return Seen(error, scale, complete, tuple(max(1, len(along) - 1) for along in x), span, own)


def functions_at(part: Part, x: Sequence[Floats]) -> Floats:
    """The part's functions at points, per column float[n]: float[n, S]."""
    values = np.ones((len(x[0]) if x else 1, len(part.rows)))
    for i, axis in enumerate(part.axes):
        values *= chebyshev(axis.to_unit(x[i]), axis.degree)[:, part.indices[:, i]]
    return values


def _fit(function: Expr, part: Part, smoothness: int | None, *, prove: bool) -> Approximation:
    """The combination for one term."""
    if _grid_size(part) > MAX_NODES:
        return checked(Approximation(*leastsquares.fit(function, part)))
    if smoothness is not None:
        kept = part.select(jackson.coefficients(function, part.axes, smoothness)[None])[0]
        return assess(function, part, kept, prove=prove)
    points = tensor_points(part.axes, [rule.x for rule in part.rules])
    values = evaluate(function, points).reshape(1, *(len(rule.x) for rule in part.rules))
    tensor = coefficients_from(values, part.rules)
    kept = part.select(tensor)[0]
    if is_polynomial(function, part):
        lost = max(0.0, float(np.sum(np.abs(tensor)) - np.sum(np.abs(kept))))
        scale, own = float(np.max(np.abs(values))), own_error(function, points)
        bound = proved_error(
            part, polynomial=True, complete=False, error=0.0, scales=(scale, scale), lost=lost, own=(own, math.inf)
        )
        if bound is not None:
            return Approximation(kept, bound, proved=True, own=own)
    return assess(function, part, kept, prove=prove)


def assess(function: Expr, part: Part, kept: Floats, *, prove: bool = True) -> Approximation:
    """A combination of a part's functions with its error: listed, certified or estimated.

    Raises:
        NumericalError: N102, f is not shown to be bounded.
    """
    seen = look(function, part, kept)
    slack = rounding(part, seen.scale)
    if seen.complete:
        bound = proved_error(
            part,
            polynomial=False,
            complete=True,
            error=seen.error,
            scales=(seen.scale, seen.scale),
            lost=0.0,
            own=(math.inf, seen.own),
        )
        if bound is None:
            return Approximation(kept, seen.error + slack)
        return Approximation(kept, bound, proved=True, own=seen.own)
    estimate = SAFETY * seen.error + slack
    grown = bernstein.growth(function, part.axes)
    bound = certify(function, part, kept, estimate, seen.scale, grown) if prove and grown is not None else None
    if bound is not None and bound <= max(TRUSTED * estimate, NEGLIGIBLE * seen.scale):
        return Approximation(kept, bound, proved=True, own=_own_at_nodes(function, part))
    if grown is not None and seen.error <= RESOLVED * seen.scale:
        hidden = grown.bound(seen.steps)
        if hidden <= max(UNSEEN * estimate, NEGLIGIBLE * seen.scale):
            return Approximation(kept, estimate + hidden)
    return _assess_closely(function, part, kept, seen, grown, bound)


def _assess_closely(
    function: Expr, part: Part, kept: Floats, first: Seen, grown: bernstein.Growth | None, bound: float | None
) -> Approximation:
    """The error of a function that may have what is narrower than the grid."""
    slack = rounding(part, first.scale)
    error, least = SAFETY * first.error + slack, NEGLIGIBLE * first.scale
    found, own = None, _own_at_nodes(function, part)
    if grown is None:
        found = boxes.search(function, part, kept, error, max(UNSEEN * error, least), own)
    if found is None or found.beyond > max(UNSEEN * found.seen, least):
        dense = look(function, part, kept, most=DENSE[len(part.axes) > 1], per_degree=MAX_CHECKED)
        slack = rounding(part, dense.scale)
        error = max(error, SAFETY * dense.error + slack)
        if grown is not None and (hidden := grown.bound(dense.steps)) <= max(UNSEEN * error, least):
            return Approximation(kept, error + hidden)
        found = found or boxes.search(function, part, kept, error, max(UNSEEN * error, least), own)
        found = found or boxes.Hidden(math.inf, error, boxes.span_width(function, dense.values))
    proved = min(found.bound + slack, math.inf if bound is None else bound)
    error = max(error, found.seen if found.seen <= error else SAFETY * found.seen) + found.beyond + slack
    sure = proved <= error
    if sure and not math.isfinite(own):
        own = beyond(function, part.axes)
    return checked(Approximation(kept, min(error, proved), sure, own=own if sure else 0.0))


def _own_at_nodes(function: Expr, part: Part) -> float:
    return own_error(function, tensor_points(part.axes, [rule.x for rule in part.rules]))


def checked(found: Approximation) -> Approximation:
    """An approximation whose error is finite; else it is refused.

    Raises:
        NumericalError: N102.
    """
    if math.isfinite(found.error) and np.isfinite(found.coefficients).all():
        return found
    raise NumericalError(
        "N102",
        "the function is not known to be bounded within the columns' bounds.",
        status="not bounded",
        advice="Keep it bounded, for example x / greatest(y, 1) in place of x / y.",
    )


def certify(
    function: Expr, part: Part, kept: Floats, wanted: float, scale: float, grown: bernstein.Growth
) -> float | None:
    """A proved bound on |f - p|, p any combination of the part's functions, or None.

    Formula: |f - p| <= |f - q| + |q - p|, q the interpolant of f at more zeros, T = m t per column. The first is
             bounded by the theorem of ``bernstein``, m being the smallest number that makes it small. The second is a
             polynomial with known coefficients: with k = T - 1 its degree and N + 1 extrema per column, the largest
             value on this grid is at least cos(k pi / 2N) times the true one, for each column (a cosine polynomial of
             degree k whose largest value 1 is at a point lies above cos kx at a distance x from it, Riesz).

    Args:
        function: f.
        part: the functions of f's columns.
        kept: coefficients of p.
        wanted: an estimate of |f - p|; |f - q| should be far below.
        scale: largest |f| known.
        grown: how f grows off the real line.
    """
    finer, outside = None, math.inf
    for times in FINER:
        axes = tuple(a if a.values is not None else replace(a, degree=times * a.degree) for a in part.axes)
        if math.prod(axis.degree for axis in axes) > MAX_FINER:
            break
        finer, outside = axes, grown.bound([axis.degree for axis in axes])
        if outside <= 0.02 * wanted:
            break
    if finer is None or not math.isfinite(outside):
        return None
    rules = [rule_for(axis) for axis in finer]
    points = tensor_points(finer, [rule.x for rule in rules])
    exact = own_error(function, points)
    if not math.isfinite(exact):
        return None
    values = evaluate(function, points).reshape(1, *(len(rule.x) for rule in rules))
    difference = coefficients_from(values, rules)
    difference[tuple(slice(0, n) for n in (1, *part.degrees))] -= part.tensor(kept[None, :])
    return outside + largest_value(difference, finer) + rounding(replace(part, axes=finer), scale, exact, rules)


def largest_value(coefficients: Floats, axes: Sequence[Axis]) -> float:
    """Bound on the largest absolute value of a polynomial, coefficients float[1, T_1, ..., T_d] (``certify``).

    Its grid is of angles, not of places: a column of few floats has no places where the grid wants them.
    """
    values, factor, lengths = coefficients, 1.0, 1
    total = float(np.sum(np.abs(coefficients)))  # |T_r| <= 1
    if math.prod(a.degree if a.values is not None else SAMPLES * a.degree + 1 for a in axes) > MAX_SAMPLED:
        return total
    for axis in axes:
        lengths += axis.degree
        if axis.values is not None:
            matrix = chebyshev(axis.nodes, axis.degree)
        else:
            points = SAMPLES * axis.degree
            turns = np.outer(np.arange(points + 1), np.arange(axis.degree)) % (2 * points)
            matrix = np.cos(turns * (math.pi / points))
            factor *= math.cos(math.pi * (axis.degree - 1) / (2 * points))
        values = np.tensordot(values, matrix, axes=(1, 1))
    found = float(np.max(np.abs(values))) / factor * (1 + 1e-9)
    return min(total, found + (1e-13 + ULP * lengths) * total)


def is_polynomial(function: Expr, part: Part) -> bool:
    """Whether interpolation is exact: a polynomial of degree below t in every column of numbers."""
    if any(axis.values is None and axis.kind is not Kind.NUMBER for axis in part.axes):
        return False
    free = frozenset(axis.name for axis in part.axes if axis.values is not None)
    found = degrees(function, free)
    return found is not None and all(found.get(axis.name, 0) < axis.degree for axis in part.axes)


def _grid_size(part: Part) -> int:
    return math.prod(len(axis.values) if axis.values is not None else axis.degree for axis in part.axes)
