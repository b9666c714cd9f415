"""The tensor basis of a smooth-query summary, and the sensitivity of its sums.

Column i with public bounds [lower, upper] becomes u_i = 2 (x_i - lower) / (upper - lower) - 1, clamped to [-1, 1]; a
row becomes Phi(u) = (T_r1(u_1) ... T_rd(u_d)) over all r in {0..t-1}^d, with T_k(cos a) = cos(k a). A summary holds
noisy sums of Phi over rows. Degree 0 is the count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog import check_positive
from duckdp.core.interval import LARGEST
from duckdp.core.types import Neighbours, Sensitivity
from duckdp.errors import InternalError, ParameterError

Floats = NDArray[np.float64]

MAX_MOMENTS = 4096  # DuckDB plans so many sums in about ten seconds; twice as many take a minute
MAX_SMOOTHNESS = 1000
DEFAULT_SMOOTHNESS = 4
ULP = 2.0**-53  # relative error of one float operation
_POINTS = 256  # grid points per degree when L1(t) is bounded: costs a factor 1 / cos(pi / 256) = 1.000075
_GRID_ERROR = 1e-12  # error of one evaluation of the closed form, per degree (proof at _replace_l1)


@dataclass(frozen=True)
class TensorBasis:
    """All products of Chebyshev polynomials of degree below t, one factor per column.

    Attributes:
        columns: (name, lower, upper) per column; public bounds in the column's own units.
        degree: t, functions per column; the polynomials have degree t - 1 at most.

    >>> TensorBasis((("age", 0.0, 110.0), ("cost", 0.0, 5000.0)), 4).size
    16
    """

    columns: tuple[tuple[str, float, float], ...]
    degree: int

    def __post_init__(self) -> None:
        if not self.columns:
            raise ParameterError("P107", "columns", [], "must name at least one numeric column.")
        for name, lower, upper in self.columns:
            if not (abs(lower) <= LARGEST and abs(upper) <= LARGEST and lower < upper):
                raise ParameterError("P104", f'bounds["{name}"]', (lower, upper), "must be floats with lower < upper.")
        if isinstance(self.degree, bool) or not isinstance(self.degree, int) or self.degree < 2:
            raise ParameterError("P107", "degree", self.degree, "must be a whole number, at least 2.")
        if self.degree > MAX_MOMENTS or self.degree ** len(self.columns) > MAX_MOMENTS:
            rule = (
                f"{self.degree} functions for each of {len(self.columns)} columns make more than {MAX_MOMENTS} sums. "
                "Take fewer columns, a smaller degree, or a larger smoothness."
            )
            raise ParameterError("P107", "degree", self.degree, rule)

    @property
    def dimensions(self) -> int:
        """Number of columns, d."""
        return len(self.columns)

    @property
    def size(self) -> int:
        """Number of functions, R = t^d."""
        return math.prod(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """(t, ..., t): functions are numbered in C order, the last column's degree moving fastest."""
        return (self.degree,) * self.dimensions

    def to_unit(self, column: int, x: Floats) -> Floats:
        """Map values of a column to [-1, 1], clamped; the same operations as the SQL of ``moments``."""
        _, lower, upper = self.columns[column]
        return np.clip(2 * ((x - lower) / (upper - lower)) - 1, -1, 1)

    def from_unit(self, column: int, u: Floats) -> Floats:
        """Map [-1, 1] to the units of a column, inside its bounds."""
        _, lower, upper = self.columns[column]
        return np.clip(lower + (u + 1) / 2 * (upper - lower), lower, upper)

    def vander(self, column: int, x: Floats) -> Floats:
        """Chebyshev polynomials of one column.

        Args:
            column: which one.
            x: float[n], in its units.

        Returns:
            float[n, t].
        """
        return chebyshev(self.to_unit(column, x), self.degree)

    def evaluate(self, x: Floats) -> Floats:
        """All functions at given rows.

        Args:
            x: float[n, d], in the columns' units.

        Returns:
            float[n, R].
        """
        values = np.ones((len(x), 1))
        for i in range(self.dimensions):
            values = (values[:, :, None] * self.vander(i, x[:, i])[:, None, :]).reshape(len(x), -1)
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
        while known < self.degree - 1:
            bound, known = 5 * bound + 2 * bound**2 + 4 * ULP, 2 * known
        if bound > 0.01:
            raise InternalError("the recurrence is too long for its error bound")
        return 1.001 * (self.dimensions * bound + (self.dimensions + 1) * ULP)  # 1.001: these sums are floats too

    def sensitivity(self, neighbours: Neighbours, *, bits: int, max_rows: int, count_public: bool) -> int:
        """Bound the l1 change of the released sums between neighbours, in units of 2^-bits.

        Released are all R sums, or all but degree 0 when ``count_public``.

        Privacy:      calibrates the noise of ``summary``.
        Assumes:      what ``moments`` guarantees: each row adds an integer vector q(row), a function of that row and of
                      its own unit's rows only, and the q of one unit add up to at most ``max_rows`` 2^bits in absolute
                      value, coordinate by coordinate. Under REPLACE a unit is one row (max_rows = 1), which may be
                      dropped (all zeros) unless ``count_public``.
        Proof sketch: write S = 2^bits, u = max_rows.
                      ADD_REMOVE: one vector with |.| <= u S per coordinate comes or goes: u R S. Attained at the
                      upper bounds. REPLACE: two such vectors differ by at most 2 u S per coordinate, and degree 0,
                      which lies in [0, u S], by u S (nothing when the count is public and equal): the naive bound.
                      For u = 1 the real vectors satisfy |Phi(x) - Phi(y)|_1 <= L = t^(d-1) L1(t) (``_replace_l1``);
                      each computed coordinate is floor(S e + 1/2) with |e - exact| <= eta, and
                      |floor a - floor b| < |a - b| + 1, so the integers differ by less than S (L + 2 R eta) + R in
                      total: the certified bound. A dropped row differs from a kept one by at most R S, and L >= R.
        Numerics:     L and eta are floats rounded up; the rest is exact.
        Source:       the t^d printed in Wang et al. 2016, section 3.4.1, is too small under REPLACE, their relation.

        Args:
            neighbours: the relation.
            bits: fixed-point bits f.
            max_rows: rows of one unit that count; 1 when the unit is a row.
            count_public: whether every row counts and the number of rows is public (REPLACE only).

        Returns:
            The bound, an integer above 0.
        """
        unit: int = max_rows << bits
        if neighbours is Neighbours.ADD_REMOVE:
            if count_public:
                raise InternalError("the count is private when rows are added or removed")
            return unit * self.size
        if neighbours is not Neighbours.REPLACE:
            raise InternalError(f"no sensitivity for {neighbours!r}")
        naive = unit * (2 * (self.size - 1) + (0 if count_public else 1))
        if max_rows != 1:
            return naive
        real = math.prod(self.shape[1:]) * Fraction(_replace_l1(self.degree))
        certified = unit * (real + 2 * self.size * Fraction(self.float_error())) + self.size
        return min(naive, max(math.ceil(certified), unit * self.size))

    def norms(self, neighbours: Neighbours, *, bits: int, max_rows: int, count_public: bool) -> Sensitivity:
        """All bounds of the change of the released sums between neighbours, in units of 2^-bits.

        l2: under ADD_REMOVE a vector of R coordinates of at most u S each comes or goes, so l2^2 <= R (u S)^2; under
        REPLACE two of them differ by at most 2 u S per coordinate, degree 0 by u S (nothing when the count is public).
        """
        unit: int = max_rows << bits
        if neighbours is Neighbours.ADD_REMOVE:
            square = self.size * unit**2
        else:
            square = 4 * (self.size - 1) * unit**2 + (0 if count_public else unit**2)
        return Sensitivity(
            l1=self.sensitivity(neighbours, bits=bits, max_rows=max_rows, count_public=count_public),
            l2_squared=square, linf=self.largest_change(neighbours, bits=bits, max_rows=max_rows),
        )  # fmt: skip

    def largest_change(self, neighbours: Neighbours, *, bits: int, max_rows: int) -> int:
        """Bound the l-infinity change of the released sums between neighbours, in units of 2^-bits.

        Assumes and proof sketch as in :meth:`sensitivity`: a unit adds at most max_rows 2^bits to a coordinate in
        absolute value; under REPLACE one such vector goes and another comes, and a coordinate of odd degree can go
        from one end to the other. Rounding is inside: the bound is on the integers.
        """
        unit: int = max_rows << bits
        return unit if neighbours is Neighbours.ADD_REMOVE else 2 * unit


def degree_from(smoothness: object, rows: int, dimensions: int) -> int:
    """Functions per column for queries of a given smoothness: t = ceil(n^(1 / (2d + K))), at least 2.

    Args:
        smoothness: K, number of bounded derivatives the queries have, from 1 to 1000.
        rows: n, a public guess of the number of rows, at least 1.
        dimensions: d, number of columns.

    Raises:
        ParameterError: P107.

    >>> degree_from(4, 1_000_000, 2)
    6
    """
    order = 2 * dimensions + check_positive("smoothness", smoothness, MAX_SMOOTHNESS)
    t = 2
    while t**order < rows:  # Wang et al. 2016, Algorithm 1, step 1, in integers
        t += 1
    return t


def chebyshev(u: Floats, degree: int) -> Floats:
    """T_0 ... T_(degree - 1) at u in [-1, 1]: float[n, degree]."""
    return np.asarray(np.polynomial.chebyshev.chebvander(u, degree - 1), dtype=np.float64)


@lru_cache(maxsize=256)
def _replace_l1(t: int) -> float:
    """L1(t) = max over a of sum_{r<t} (1 - cos r a), rounded up: the l1 distance of two rows, one column.

    Proof sketch: one column: |cos ra - cos rb| = 2 |sin rp sin rq|, p, q = (a +- b)/2, and by Cauchy-Schwarz the sum
    is largest at p = q, that is b = 0. Several columns: u v - u'v' = ((u-u')(v+v') + (u+u')(v-v'))/2 and
    |a-b| + |a+b| <= 2 per index give t^(d-1) L1(t), because L1(t) >= t; attained by moving one coordinate.
    The sum is t - 1/2 - sin((t-1/2) a) / (2 sin(a/2)), a trigonometric polynomial of degree m = t - 1, so on M
    equispaced points of the circle its maximum is at least cos(pi m / M) times the true one.

    Numerics: the argument (t-1/2) a is off by at most 2 ULP t pi, the division by 2 sin(a/2) >= 2 a / pi leaves an
    error below 20 t ULP; _GRID_ERROR t covers it four hundred times.
    """
    points = _POINTS * t
    a = np.arange(1, points // 2 + 1) * (2 * np.pi / points)
    largest = float(np.max(t - 0.5 - np.sin((t - 0.5) * a) / (2 * np.sin(a / 2))))
    return max(float(t), (largest + _GRID_ERROR * t) / math.cos(math.pi * (t - 1) / points) * (1 + _GRID_ERROR))
