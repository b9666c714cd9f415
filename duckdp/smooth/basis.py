"""The basis of a smooth-query summary, and the sensitivity of its sums.

A row becomes u in [-1, 1]^d (``axes``) and then Phi(u) = (T_r1(u_1) ... T_rd(u_d)) over an index set of degrees r, with
T_k(cos a) = cos(k a). A summary holds noisy sums of Phi over rows. Degree 0 is the count, always the first index.

Index sets, t being the degree, |r_i| the degree in one column (of an unordered domain: 0 or 1), all cut at the axis'
own number of functions::

    tensor            r_i <= t - 1 in every column                        t^d
    total_degree      sum |r_i| <= t - 1                                  C(t - 1 + d, d)
    hyperbolic_cross  prod (1 + |r_i|) <= t                               about t (log t)^(d-1)
    order = k         any of these, with at most k of the r_i above 0     about C(d, k) (t - 1)^k for tensor
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import check_positive
from duckdp.core.types import Neighbours, Sensitivity
from duckdp.errors import InternalError, ParameterError
from duckdp.smooth.axes import Axis

Floats = NDArray[np.float64]
Indices = NDArray[np.int16]
Shape = Literal["tensor", "total_degree", "hyperbolic_cross"]
SHAPES: tuple[Shape, ...] = ("tensor", "total_degree", "hyperbolic_cross")

MAX_MOMENTS = 65_536  # functions of a summary, which are sums of one read
MAX_COLUMNS = 100  # of a summary
MAX_DEGREE = 4096  # functions per column
MAX_SMOOTHNESS = 1000  # derivatives of later questions
ULP = 2.0**-53  # relative error of one float operation
_POINTS = 256  # grid points per degree when L1(t) is bounded: costs a factor 1 / cos(pi / 256) = 1.000075
_GRID_ERROR = 1e-12  # error of one evaluation of the closed form, per degree (proof at _replace_l1)


@dataclass(frozen=True, kw_only=True)
class Basis:
    """Products of Chebyshev polynomials, one factor per column, over an index set.

    Attributes:
        axes: the columns.
        degree: t, functions per interval column; polynomials have degree t - 1 at most.
        shape: the index set.
        order: the most columns that interact, or None.

    >>> from duckdp.catalog.table import Kind
    >>> Basis(axes=(Axis(name="age", kind=Kind.NUMBER, degree=4),) * 2, degree=4).size
    16
    """

    axes: tuple[Axis, ...]
    degree: int
    shape: Shape = "tensor"
    order: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.axes) <= MAX_COLUMNS:
            raise ParameterError("P107", "columns", len(self.axes), f"must name 1 to {MAX_COLUMNS} columns.")
        if isinstance(self.degree, bool) or not isinstance(self.degree, int) or not 2 <= self.degree <= MAX_DEGREE:
            raise ParameterError("P107", "degree", self.degree, f"must be a whole number from 2 to {MAX_DEGREE}.")
        if self.shape not in SHAPES:
            raise ParameterError("P107", "basis", self.shape, f"must be one of {', '.join(SHAPES)}.")
        if self.order is not None:
            check_positive("interactions", self.order, MAX_COLUMNS)
        _ = self.indices  # refuses sets that are too large

    @property
    def dimensions(self) -> int:
        """How many columns there are, d."""
        return len(self.axes)

    @property
    def degrees(self) -> tuple[int, ...]:
        """Functions per column of the enclosing tensor set, (t_1, ..., t_d)."""
        return tuple(axis.degree for axis in self.axes)

    @cached_property
    def indices(self) -> Indices:
        """Degrees of every function, int16[R, d], in lexicographic order (the last column's degree fastest)."""
        costs = tuple(tuple(axis.costs.tolist()) for axis in self.axes)
        return _enumerate(costs, self.degree, self.shape, self.order)

    @property
    def size(self) -> int:
        """How many functions there are, R."""
        return len(self.indices)

    @cached_property
    def levels(self) -> NDArray[np.int64]:
        """int[R]: sum |r_i| of every function, its total degree; 0 is the count alone."""
        columns = [axis.costs[self.indices[:, i]] for i, axis in enumerate(self.axes)]
        return np.asarray(np.sum(columns, axis=0, dtype=np.int64))

    def vander(self, column: int, u: Floats) -> Floats:
        """T_0 ... T_(t_i - 1) of one column at u in [-1, 1]: float[n, t_i]."""
        return chebyshev(u, self.axes[column].degree)

    def evaluate(self, u: Floats) -> Floats:
        """All functions at given points.

        Args:
            u: float[n, d] in [-1, 1].

        Returns:
            float[n, R].
        """
        values = np.ones((len(u), self.size))
        for i in range(self.dimensions):
            values *= self.vander(i, u[:, i])[:, self.indices[:, i]]
        return values

    def float_error(self) -> float:
        """Bound on |computed - exact| of one function at one row, per the recurrence of ``moments`` (dimensionless).

        Proof sketch: T_0 and T_1 are exact for the float u. T_(m+i) = 2 T_m T_i - T_(m-i), i <= m: with all earlier
        errors at most D, the new one is at most 2 D + 2 (1 + D) D + D from the inputs and ULP (2 (1+D)^2 + 1 + ...)
        < 4 ULP from the two roundings (doubling is exact) while D <= 0.01. One step doubles the degree. The clamp to
        [-1, 1] moves no value away from the exact one. A product of d factors in [-1, 1] has at most the sum of
        their errors plus (d - 1) ULP. Scaling by 2^f is exact, adding 1/2 costs at most 2 ULP of 2^f.
        """
        bound, known = 0.0, 1
        while known < max(self.degrees) - 1:
            bound, known = 5 * bound + 2 * bound**2 + 4 * ULP, 2 * known
        if bound > 0.01:
            raise InternalError("the recurrence is too long for its error bound")
        dividing = sum(axis.partition for axis in self.axes)  # costs an index nothing, but is a factor
        factors = min(self.dimensions, (self.order or self.dimensions) + dividing)
        return 1.001 * (factors * bound + (factors + 1) * ULP)  # 1.001: these sums are floats too

    def norms(self, neighbours: Neighbours, *, bits: int, max_rows: int, count_public: bool) -> Sensitivity:
        """Bounds of the change of the released sums between neighbours, in units of 2^-bits.

        Released are all R sums, or all but degree 0 when ``count_public``.

        Privacy:      calibrates the noise of ``summary``.
        Assumes:      what ``moments`` guarantees: each row adds an integer vector q(row), a function of that row and of
                      its own unit's rows only, and the q of one unit add up to at most ``max_rows`` 2^bits in absolute
                      value, coordinate by coordinate. Under REPLACE a unit is one row (max_rows = 1), which may be
                      dropped (all zeros) unless ``count_public``.
        Proof sketch: write S = 2^bits, u = max_rows.
                      ADD_REMOVE: one vector with |.| <= u S per coordinate comes or goes: l1 u R S, l2^2 R (u S)^2,
                      linf u S. All attained at the upper bounds. REPLACE: two such vectors differ by at most 2 u S per
                      coordinate, and degree 0, which lies in [0, u S], by u S (nothing when the count is public and
                      equal): the naive bounds l1 u S (2 (R-1) + 1), l2^2 (u S)^2 (4 (R-1) + 1), linf 2 u S.
                      For u = 1 the real vectors satisfy |Phi(x) - Phi(y)|_1 <= L (``_replace_l1``) and
                      |Phi(x) - Phi(y)|_2^2 <= 2 R* (``_replace_l2``), R* the size of the enclosing tensor set: a
                      part of a vector has no larger norm. Each computed coordinate is floor(S e + 1/2) with
                      |e - exact| <= eta, and |floor a - floor b| < |a - b| + 1, so the integers' differences are off by
                      2 S eta + 1 each: l1 < S (L + 2 R eta) + R and l2 < S (L2 + 2 sqrt(R) eta) + sqrt(R): the
                      certified bounds. A dropped row differs from a kept one by at most R S in l1 and sqrt(R) S in l2,
                      both below the certified ones (L >= R, L2^2 >= R). The smaller bound holds.
        Numerics:     L and eta are floats rounded up; the rest is exact.
        Source:       the t^d printed in Wang et al. 2016, section 3.4.1, is too small under REPLACE, their relation.

        Args:
            neighbours: the relation.
            bits: fixed-point bits f.
            max_rows: rows of one unit that count; 1 when the unit is a row.
            count_public: whether every row counts and the number of rows is public (REPLACE only).
        """
        unit: int = max_rows << bits
        size = self.size
        if neighbours is Neighbours.ADD_REMOVE:
            if count_public:
                raise InternalError("the count is private when rows are added or removed")
            return Sensitivity(l1=unit * size, l2_squared=unit**2 * size, linf=unit)
        if neighbours is not Neighbours.REPLACE:
            raise InternalError(f"no sensitivity for {neighbours!r}")
        moves = 0 if count_public else 1
        l1, square = unit * (2 * (size - 1) + moves), unit**2 * (4 * (size - 1) + moves)
        if max_rows == 1:
            eta = Fraction(self.float_error())
            certified = unit * (self._replace_l1() + 2 * size * eta) + size
            l1 = min(l1, max(math.ceil(certified), unit * size))
            root = _sqrt_above(size)
            longest = unit * (self._replace_l2() + 2 * root * eta) + root
            square = min(square, max(math.ceil(longest**2), unit**2 * size))
        return Sensitivity(l1=l1, l2_squared=square, linf=2 * unit)

    def sensitivity(self, neighbours: Neighbours, *, bits: int, max_rows: int, count_public: bool) -> int:
        """The l1 bound of :meth:`norms`."""
        return self.norms(neighbours, bits=bits, max_rows=max_rows, count_public=count_public).l1

    def _replace_l1(self) -> Fraction:
        """l1 distance of two rows over the enclosing tensor set: max_i L1(t_i) prod_(j != i) t_j (``_replace_l1``)."""
        degrees = [t for t in self.degrees if t > 1] or [1]
        return math.prod(degrees) * max(Fraction(_replace_l1(t)) / t for t in degrees)

    def _replace_l2(self) -> Fraction:
        """l2 distance of two rows over the enclosing tensor set: sqrt(2 prod t_i), times a grid's error."""
        ratio = max(Fraction(_replace_l2_ratio(t)) for t in self.degrees)
        return _sqrt_above(math.ceil(ratio * 2 * math.prod(self.degrees) * 2**20)) / 2**10


def degree_from(smoothness: object, rows: int, dimensions: int, delta: float = 0.0) -> int:
    """Functions per column for queries of a given smoothness, at least 2.

    Pure epsilon: t = ceil(n^(1 / (2d + K))) ([J] Algorithm 1, step 1, in integers). With delta:
    t = ceil(n^(2 / (3d + 2K)) ln(1/delta)^(-1 / (3d + 2K))) ([J] Theorem 21).

    Args:
        smoothness: K, number of bounded derivatives the queries have, from 1 to 1000.
        rows: n, a public guess of the number of rows, at least 1.
        dimensions: d, number of columns.
        delta: of the guarantee; 0 for pure epsilon.

    Raises:
        ParameterError: P107.

    >>> degree_from(4, 1_000_000, 2)
    6
    >>> degree_from(4, 1_000_000, 2, 1e-8)
    6
    """
    k = check_positive("smoothness", smoothness, MAX_SMOOTHNESS)
    if delta:
        order = 3 * dimensions + 2 * k
        logarithm = (2 * math.log(rows) - math.log(math.log(1 / delta))) / order
        return max(2, math.ceil(math.exp(logarithm) - 1e-12))
    t = 2
    order = 2 * dimensions + k
    while t**order < rows:
        t += 1
    return t


def count_functions(axes: Sequence[Axis], degree: int, shape: Shape, order: int | None) -> int:
    """Size of an index set, or MAX_MOMENTS + 1 when it is larger."""
    try:
        return len(_enumerate(tuple(tuple(a.costs.tolist()) for a in axes), degree, shape, order))
    except ParameterError:
        return MAX_MOMENTS + 1


def chebyshev(u: Floats, degree: int) -> Floats:
    """T_0 ... T_(degree - 1) at u in [-1, 1]: float[n, degree]."""
    return np.asarray(np.polynomial.chebyshev.chebvander(u, degree - 1), dtype=np.float64)


@lru_cache(maxsize=64)
def _enumerate(costs: tuple[tuple[int, ...], ...], degree: int, shape: Shape, order: int | None) -> Indices:
    """The index set, column by column. Sets are closed downwards, so no partial index outgrows the final set."""
    found = np.zeros((1, 0), dtype=np.int16)
    used = np.zeros(1, dtype=np.int64) if shape != "hyperbolic_cross" else np.ones(1, dtype=np.int64)
    active = np.zeros(1, dtype=np.int64)
    for cost in costs:
        size, most = np.array(cost), len(cost)
        if shape == "total_degree":
            grown = used[:, None] + size
            fits = grown <= degree - 1
        elif shape == "hyperbolic_cross":
            grown = used[:, None] * (1 + size)
            fits = grown <= degree
        else:
            grown = np.zeros((len(used), most), dtype=np.int64)
            fits = np.ones_like(grown, dtype=bool)
        interacting = active[:, None] + (size > 0)
        if order is not None:
            fits &= interacting <= order
        before, here = np.nonzero(fits)
        if len(before) > MAX_MOMENTS:
            ways = _ways_out(degree, shape, order)
            rule = f"with these {len(costs)} columns makes more than {MAX_MOMENTS} sums. {ways}"
            raise ParameterError("P107", "degree", degree, rule)
        found = np.concatenate([found[before], here[:, None].astype(np.int16)], axis=1)
        used, active = grown[before, here], interacting[before, here]
    found.setflags(write=False)
    return found


def _ways_out(degree: int, shape: Shape, order: int | None) -> str:
    """What makes an index set smaller than this one."""
    ways = ["fewer columns"]
    if degree > 2:
        ways.append("a smaller degree")
    if shape == "tensor":
        ways.append("basis := 'total_degree' or 'hyperbolic_cross'")
    if order != 1:
        ways.append(f"interactions := {1 if order == 2 else 2}")
    return f"Take {', '.join(ways[:-1])}{', or ' if ways[1:] else ''}{ways[-1]}."


def _sqrt_above(value: int) -> Fraction:
    """The square root, rounded up."""
    return Fraction(math.isqrt(value << 80) + 1, 1 << 40)


@lru_cache(maxsize=256)
def _replace_l1(t: int) -> float:
    """L1(t) = max over a of sum_{r<t} (1 - cos r a), rounded up: the l1 distance of two rows, one column.

    Several columns, full tensor set: max_i L1(t_i) prod_(j != i) t_j.

    Proof sketch: one column: |cos ra - cos rb| = 2 |sin rp sin rq|, p, q = (a +- b)/2, and by Cauchy-Schwarz the sum
    is largest at p = q, that is b = 0. Several columns: u v - u'v' = ((u-u')(v+v') + (u+u')(v-v'))/2 and
    |a-b| + |a+b| <= 2 per index give |Phi - Phi'|_1 <= t_2 D_1 + T_1 D_2 - D_1 D_2 for a set of T_1 functions with
    distance D_1 and a column with D_2; this is bilinear, so largest at a corner of D_1 <= L, D_2 <= L1(t_2), and
    L >= T_1, L1(t_2) >= t_2 leave max(t_2 L, T_1 L1(t_2)). Attained by moving one coordinate, the others at 1.
    The sum is t - 1/2 - sin((t-1/2) a) / (2 sin(a/2)), a trigonometric polynomial of degree m = t - 1, so on M
    equispaced points of the circle its maximum is at least cos(pi m / M) times the true one.

    Numerics: the argument (t-1/2) a is off by at most 2 ULP t pi, the division by 2 sin(a/2) >= 2 a / pi leaves an
    error below 20 t ULP; _GRID_ERROR t covers it four hundred times.
    """
    points = _POINTS * t
    a = np.arange(1, points // 2 + 1) * (2 * np.pi / points)
    largest = float(np.max(t - 0.5 - np.sin((t - 0.5) * a) / (2 * np.sin(a / 2))))
    return max(float(t), (largest + _GRID_ERROR * t) / math.cos(math.pi * (t - 1) / points) * (1 + _GRID_ERROR))


@lru_cache(maxsize=256)
def _replace_l2_ratio(t: int) -> float:
    """Max over a of sum_{r<t} (1 - cos r a)^2 / (2 t), rounded up: 1 + e with e below 1e-4.

    Proof sketch: the squared l2 distance of two rows, one column, is at most this times 2 t, as for l1 (sin^4 in place
    of sin^2). Several columns: at most 2 T (1 + e), T the size of the full tensor set, e the largest of the columns.
    With p = (u+u')/2, q = (u-u')/2, P = |p|^2, Q = |q|^2 and 2 |<p,q>| <= T - P - Q, a quarter of the squared distance
    of u_1 u_2 is at most Q_1 P_2 + P_1 Q_2 + (T_1-P_1-Q_1)(T_2-P_2-Q_2)/2; this is bilinear, and at the corners
    (0,0), (T,0), (0, (1+e)T/2), ((1-e)T/2, (1+e)T/2) of {P, Q >= 0, Q <= (1+e)T/2, P + Q <= T} at most
    (1+e) T_1 T_2 / 2. The sum is 3t/2 - 2 C(a) + C(2a)/2 with C(a) = sum_{r<t} cos r a, of degree m = 2 (t - 1), so the
    maximum on M equispaced points is at least cos(pi m / M) times the true one.
    """
    if t == 1:
        return 1.0
    points = 2 * _POINTS * t
    place = np.arange(1, points // 2)

    def cosines(at: NDArray[np.int64]) -> Floats:
        a = np.minimum(at, points - at) * (2 * np.pi / points)  # folded: the division stays well conditioned
        return np.asarray(0.5 + np.sin((t - 0.5) * a) / (2 * np.sin(a / 2)))

    inner = 1.5 * t - 2 * cosines(place) + cosines(2 * place) / 2
    largest = max(float(np.max(inner)), float(4 * (t // 2)))  # at a = pi the odd degrees give 4 each
    above = (largest + 4 * _GRID_ERROR * t) / math.cos(math.pi * (t - 1) / (points // 2))
    return max(1.0, above / (2 * t)) * (1 + 1e-12)
