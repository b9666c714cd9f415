"""Functions that are sums of products of functions of one column: proved errors, and polynomials on both sides.

What is analytic by its factors has its proof in ``expansion``. Here a factor may jump, bend, read dates or listed
values: it is fitted and proved in its one column (``coefficients``), and the proofs are put together as there::

    |prod g_k - prod p_k|  <=  prod (S_k + e_k) - prod S_k

Where that is far above the noise, f is held between two polynomials instead. A factor g has L <= g <= U (``onesided``,
or p -+ e where e is small). Of a product of factors that are at least 0::

    prod g_k  <=  prod U_k,     prod g_k  >=  prod U_k - sum_k (U_k - L_k) prod_(j != k) U_j

(prod U - prod g telescopes, and g_j <= U_j). A factor that changes its sign is one that does not plus a number, and the
product is multiplied out. What the basis lacks of either polynomial counts by the sum of its coefficients.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

import numpy as np

from duckdp.compiler.expression import Call, Case, ColumnRef, Expr
from duckdp.errors import DuckDPError
from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.basis import Basis
from duckdp.smooth.fit import boxes
from duckdp.smooth.fit.coefficients import Approximation, approximate, outward, span_of
from duckdp.smooth.fit.expansion import ARCS, RHOS, Enough
from duckdp.smooth.fit.factors import factor_of, interpolated
from duckdp.smooth.fit.onesided import MAX_DEGREE, one_sided, reference
from duckdp.smooth.fit.parts import Part, part_of
from duckdp.smooth.fit.points import tensor_points
from duckdp.smooth.fit.proved import UNDERFLOW, own_error, rounding
from duckdp.smooth.fit.ranges import beyond
from duckdp.smooth.fit.separate import products, reads

MAX_TENSOR = 100_000  # functions of a term's enclosing tensor set
MAX_SHIFTED = 3  # factors of a term that change their sign
FINE = 1e-9  # of a factor's size: an error that needs no second look
SHARES = (1.0, 0.7)  # of a column's functions that the one factor far from its polynomial may take
SMALL = 0.1  # of the noise's standard deviation: an approximation error that is looked at no closer
WORTH = 0.7  # of an error: polynomials on both sides that are no closer are left out
FOUND = 0.5  # of an estimate: a bound that is so far above it is looked at no closer
_ROOM = 1e-12  # of the coefficients: rounding of their products
_ULP = 2.0**-50  # relative error of a product or sum, with room
_NONE = np.zeros((1, 0))


@dataclass(frozen=True, eq=False)
class Piece:
    """A factor: a function of one column, or a number.

    Attributes:
        axis: the column.
        function: of it.
        coefficients: float[t], of a polynomial near it.
        error: proved bound on how far it is, infinite where there is no proof.
        low, high: no value is beyond.
        own: how far these are beyond the ends of its span.
    """

    axis: Axis
    function: Expr
    coefficients: Floats
    error: float
    low: float
    high: float
    own: float = 0.0

    @property
    def size(self) -> float:
        """The largest absolute value that the factor can have, at most."""
        return max(abs(self.low), abs(self.high))


Sides = tuple[Floats, Floats]  # coefficients of polynomials below and above
Term = tuple[Piece, ...]


def take_apart(function: Expr, basis: Basis) -> list[Term] | None:
    """The terms of a function, each a product of functions of one column; None where it is no such sum."""
    names = {axis.name: axis for axis in basis.axes}
    try:
        terms = products(_never_null(function, basis))
        if any(len(reads(factor)) > 1 for term in terms for factor in term):
            return None
        return [
            tuple(_piece(factor, names[next(iter(reads(factor)), basis.axes[0].name)]) for factor in term)
            for term in terms
        ]
    except DuckDPError:  # a part is NULL or not bounded where the whole may be fine
        return None


def by_structure(
    function: Expr, basis: Basis, enough: Enough, known: Approximation | None = None
) -> Approximation | None:
    """The best that is proved by a function's structure, or what is known.

    Args:
        function: a number.
        basis: the functions.
        enough: errors that do not matter: a tenth of the noise' deviation.
        known: an approximation found otherwise.
    """
    terms = take_apart(function, basis)
    if terms is None:
        return known
    fit = near(terms, function, basis)
    if known is not None and (fit is None or (known.proved and known.error <= fit.error)):
        fit = known
    if fit is None:
        return None
    deviation = float(enough(fit.coefficients[None])[0]) / SMALL
    if fit.error <= deviation:
        return fit
    sides = between(terms, basis, deviation)
    if sides is None or mean_width(sides, basis) / 2 > WORTH * fit.error:
        return fit
    return replace(fit, sides=sides, own=max(fit.own, _own(terms)))


def near(terms: Sequence[Term], function: Expr, basis: Basis) -> Approximation | None:
    """The combination that stands for f, with a proved error; None where there is no proof."""
    full, error, sizes = np.zeros(basis.size), 0.0, _sizes(terms)
    for term in terms:
        part = _part(term, basis)
        if math.prod(part.degrees) > MAX_TENSOR:
            return None
        kept, lost = _kept(part, [(p.axis, p.coefficients) for p in term])
        full[part.rows] += kept
        error += math.prod(p.size + p.error for p in term) - math.prod(p.size for p in term) + lost
    error = error * (1 + 1e-12) + _ROOM * (sizes + float(np.abs(full).sum())) + UNDERFLOW
    if not math.isfinite(error):
        return None
    return Approximation(full, error, True, span_of(function), _own(terms))


def _sizes(terms: Sequence[Term]) -> float:
    return sum(math.prod(p.size for p in term) for term in terms)


def _own(terms: Sequence[Term]) -> float:
    """How far the ends of a sum's span may err: what those of its factors do, and the rounding of terms that cancel."""
    factors = sum(
        piece.own * math.prod(other.size for other in term if other is not piece)
        for term in terms
        for piece in term
        if piece.own > 0
    )
    own = factors + _ULP * (len(terms) + sum(map(len, terms))) * _sizes(terms)
    return math.inf if math.isnan(own) else own


def between(terms: Sequence[Term], basis: Basis, limit: float) -> Sides | None:
    """Combinations below and above f at every value that rows can have; None where there are none.

    Args:
        terms: of f.
        basis: the functions.
        limit: what an error may be without mattering.
    """
    under, over = np.zeros(basis.size), np.zeros(basis.size)
    for term in terms:
        best: tuple[float, Floats, Floats, Part] | None = None
        part = _part(term, basis)
        whole = len(part.axes) <= 1 or len(part.rows) == math.prod(part.degrees)
        for share in SHARES[:1] if whole else SHARES:
            found = _term_between(term, basis, limit / len(terms), share)
            if found is not None:
                part, low, high = found
                width = float((high - low) @ _reference(part))
                if best is None or width < best[0]:
                    best = width, low, high, part
        if best is None:
            return None
        under[best[3].rows] += best[1]
        over[best[3].rows] += best[2]
    return under, over


def mean_width(sides: Sides, basis: Basis) -> float:
    """How far two combinations are apart in the mean of the public weight (``onesided.reference``)."""
    return float((sides[1] - sides[0]) @ _reference(part_of(basis, frozenset(a.name for a in basis.axes))))


def _term_between(term: Term, basis: Basis, limit: float, share: float) -> tuple[Part, Floats, Floats] | None:
    part, whole = _part(term, basis), math.prod(p.size for p in term)
    if math.prod(part.degrees) > MAX_TENSOR:
        return None
    far = [p.error * whole > limit * p.size or not math.isfinite(p.error) for p in term]
    counts = _counts(part, far, share)
    if counts is None or not (math.isfinite(whole) or len(term) == 1):
        return None
    sides: list[tuple[Sides, float]] = []
    for piece, is_far in zip(term, far, strict=True):
        found = _sides(piece, counts if is_far else None)
        if found is None:
            return None
        sides.append((found, piece.low))
    if len(term) == 1:
        axis, (below, above) = term[0].axis, sides[0][0]
        return part, _bounded(part, [(axis, below)], -1), _bounded(part, [(axis, above)], 1)
    shifted = [k for k, (_, least) in enumerate(sides) if least < 0]
    if len(shifted) > MAX_SHIFTED:
        return None
    low, high = np.zeros(len(part.rows)), np.zeros(len(part.rows))
    for chosen in itertools.product((False, True), repeat=len(shifted)):
        numbers = [sides[k][1] for k, taken in zip(shifted, chosen, strict=True) if taken]
        left = [k for k in range(len(term)) if not (k in shifted and chosen[shifted.index(k)])]
        factor = math.prod(numbers)
        made = _product([(term[k].axis, _moved(*sides[k])) for k in left], part)
        low += factor * made[factor < 0]
        high += factor * made[factor >= 0]
    return part, low, high


def _product(sides: Sequence[tuple[Axis, Sides]], part: Part) -> Sides:
    """Polynomials below and above a product of factors that are at least 0."""
    over = [(axis, own[1]) for axis, own in sides]
    high = _bounded(part, over, 1)
    low = _bounded(part, over, -1)
    for k, (axis, own) in enumerate(sides):
        others = [*over[:k], (axis, own[1] - own[0]), *over[k + 1 :]]
        low = low - _bounded(part, others, 1)
    return low, high


def _moved(own: Sides, least: float) -> Sides:
    """Of a factor that is negative somewhere: of what it is above its least value."""
    if least >= 0:
        return own
    low, high = own[0].copy(), own[1].copy()
    low[0] -= least
    high[0] -= least
    return low, high


def _bounded(part: Part, factors: Sequence[tuple[Axis, Floats]], sign: float) -> Floats:
    """A product's coefficients in the basis, moved up or down by what the basis lacks and by rounding."""
    kept, lost = _kept(part, factors)
    kept[0] += sign * (lost + _ROOM * math.prod(float(np.abs(c).sum()) for _, c in factors) + UNDERFLOW)
    return kept


def _kept(part: Part, factors: Sequence[tuple[Axis, Floats]]) -> tuple[Floats, float]:
    """(coefficients of a product of functions of one column each, the sum of those that the basis lacks)."""
    arrays = []
    for axis in part.axes:
        array = np.zeros(axis.degree)
        array[0] = 1.0
        for own, coefficients in factors:
            if own.name == axis.name:
                array = np.zeros(axis.degree)
                array[: len(coefficients)] = coefficients
        arrays.append(array)
    number = math.prod(float(c[0]) for own, c in factors if all(own.name != a.name for a in part.axes))
    tensor = number * reduce(np.multiply.outer, arrays, np.ones(()))
    kept = part.select(tensor[None])[0].astype(np.float64)
    return kept, max(0.0, float(np.abs(tensor).sum() - np.abs(kept).sum())) + 1e-15 * float(np.abs(tensor).sum())


def _counts(part: Part, far: Sequence[bool], share: float) -> int | None:
    """How many functions a factor far from its polynomial may take; None where the basis has too few for several."""
    degrees = part.degrees
    if sum(far) <= 1:
        return max(2, round(share * max(degrees, default=2)))
    if share < 1:
        return None
    known = {tuple(index) for index in part.indices.tolist()}
    k = 1
    while all(k < t for t in degrees) and tuple(k for _ in degrees) in known:
        k += 1
    return k if k > 1 else None


def _sides(piece: Piece, count: int | None) -> Sides | None:
    if count is None or piece.axis.values is not None:
        if not math.isfinite(piece.error):
            return None
        low, high = piece.coefficients.copy(), piece.coefficients.copy()
        low[0] -= piece.error
        high[0] += piece.error
        return low, high
    found = one_sided(piece.function, piece.axis, min(count, piece.axis.degree, MAX_DEGREE))
    return None if found is None else (found.under, found.over)


@lru_cache(maxsize=512)
def _piece(function: Expr, axis: Axis) -> Piece:
    """A factor, fitted and proved in its column.

    Raises:
        DuckDPError: it is NULL, not finite or not bounded somewhere.
    """
    own = beyond(function, [axis] if reads(function) else [])
    low, high = _moved_out(outward(span_of(function)), own)
    if not reads(function) and math.isfinite(high - low):
        return Piece(axis, function, np.array([(low + high) / 2]), (high - low) / 2 + _ROOM * abs(low), low, high, own)
    factor = factor_of(function, [axis]) if axis.values is None else None
    if factor is not None and axis.kind.value == "number":
        with np.errstate(all="ignore"):
            known = interpolated(factor, _NONE, RHOS, ARCS)
        size, error = float(known.size[0]), float(known.error[0])
        if error <= FINE * size and math.isfinite(size):
            return Piece(axis, function, known.coefficients[0], error, max(low, -size), min(high, size), own)
    basis = Basis(axes=(axis,), degree=max(2, axis.degree))
    found = approximate(function, basis)
    error = found.error if found.proved else _boxed(function, basis, found)
    size = error + float(np.abs(found.coefficients).sum()) * (1 + _ROOM)
    if not math.isfinite(own):
        own = found.own if found.proved else math.inf
        low, high = _moved_out(outward(span_of(function)), own)
    return Piece(axis, function, found.coefficients, error, max(low, -size), min(high, size), own)


def _moved_out(ends: tuple[float, float], own: float) -> tuple[float, float]:
    return (ends[0] - own, ends[1] + own) if math.isfinite(own) else (-math.inf, math.inf)


def _boxed(function: Expr, basis: Basis, found: Approximation) -> float:
    """A bound from boxes that cover all values, however far above the estimate it is."""
    part = part_of(basis, reads(function))
    own = own_error(function, tensor_points(part.axes, [rule.x for rule in part.rules]))
    kept = found.coefficients[part.rows]
    hidden = boxes.search(function, part, kept, found.error, FOUND * found.error, own)
    scale = float(np.abs(kept).sum()) + found.error
    return math.inf if hidden is None else hidden.bound + rounding(part, scale)


def _part(term: Term, basis: Basis) -> Part:
    return part_of(basis, frozenset(name for piece in term for name in reads(piece.function)))


def _reference(part: Part) -> Floats:
    """Means of a part's functions under the public weight, columns independent."""
    found = np.ones(len(part.rows))
    for i, axis in enumerate(part.axes):
        found *= reference(axis, axis.degree)[part.indices[:, i]]
    return found


def _never_null(expr: Expr, basis: Basis) -> Expr:
    """The same with columns that are never NULL in a summary: rows without a number are not in it."""
    intervals = {axis.name for axis in basis.axes if axis.values is None}
    match expr:
        case ColumnRef(column=c) if c.name in intervals and c.nullable:
            return ColumnRef(replace(c, nullable=False))
        case Call(operator=operator, arguments=arguments, kind=kind, option=option):
            return Call(operator, tuple(_never_null(a, basis) for a in arguments), kind, option)
        case Case(branches=branches, default=default, kind=kind):
            arms = tuple((_never_null(c, basis), _never_null(v, basis)) for c, v in branches)
            return Case(arms, None if default is None else _never_null(default, basis), kind)
    return expr
