"""Parameters and error bounds of Algorithm 3: what its theorems promise, with every constant written out.

Notation: n rows, d columns, K bounded derivatives, t functions per column (degrees 0 to t - 1), R = t^d functions,
N values per column, noisy means rounded to multiples of 1/L, m synthetic rows.

Every term of the bound is O(t^-K) for N = t^K, L = t^(d+K), m = t^(2d+2K+1), and the noise, t^(2d) / (n epsilon), is
as large for t = (n epsilon)^(1/(2d+K)). The paper leaves epsilon out of t; at epsilon = 1 both agree, and below 1 the
error (n epsilon)^(-K/(2d+K)) is the smaller one. Its "O(n^(-K/(2d+K)) / epsilon) for any epsilon" cannot hold for large
epsilon, since the other terms do not depend on it: max(1, 1/epsilon) is meant. With (epsilon, delta) the noise is
t^(3d/2) sqrt(log 1/delta) / (n epsilon), and t = (n epsilon)^(2/(3d+2K)) (log 1/delta)^(-1/(3d+2K)).

Corrected:    noise scales are those of the real sensitivity (the paper's are not private under its own relation);
              t^-K in place of t^-(K+1), which K bounded derivatives do not give; F, the value the program reached, in
              place of a bound of its optimum, so that the program may stop early.
Source:       [J] Theorem 17, (20)-(22), and Theorem 22; constants: Favard 1937, Korovkin 1960.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from duckdp.catalog.table import check_positive
from duckdp.errors import ParameterError
from duckdp.synthetic.lp.make.columns import Floats

MAX_SMOOTHNESS = 30  # K, derivatives of later questions
MAX_DIMENSIONS = 100  # d, columns
MAX_COUNT = 10**15  # of rows, or of steps: exact as DOUBLE
_QUADRATURE = 20_000  # midpoints for the moment of the Jackson kernel


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What Algorithm 3 is run with.

    Attributes:
        degree: t, functions per column.
        values: N, values per column.
        steps: L, noisy means are rounded to multiples of 1/L.
        rows: m, synthetic rows.
    """

    degree: int
    values: int
    steps: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class ErrorBound:
    """The terms of (22) for one class of queries; all in units of the query.

    Attributes:
        discretization: rows moved to the grid.
        approximation: queries replaced by their polynomials, on both tables.
        noise: of the noisy means.
        fit: F, what the program left.
        sampling: m rows drawn from the distribution.
        rounding: of the means to multiples of 1/L.
        coefficient: M, bound of the polynomials' coefficients; the last four terms contain it.
    """

    discretization: float
    approximation: float
    noise: float
    fit: float
    sampling: float
    rounding: float
    coefficient: float

    @property
    def total(self) -> float:
        """Their sum: no query of the class is off by more, but with probability ``failure``."""
        return self.discretization + self.approximation + self.noise + self.fit + self.sampling + self.rounding


def theorem_17_parameters(rows: int, dimensions: int, smoothness: int, epsilon: Fraction = Fraction(1)) -> Parameters:
    """Parameters of Algorithm 3 for pure epsilon; the paper's own at epsilon = 1. Exact: no power is a float.

    >>> theorem_17_parameters(10**6, 1, 4)
    Parameters(degree=10, values=10000, steps=100000, rows=100000000000)
    """
    d, k = _check(rows, dimensions, smoothness)
    if epsilon <= 0:
        raise ParameterError("P101", "epsilon", epsilon, "must be above 0.")
    base, order = max(Fraction(1), rows * epsilon), 2 * d + k
    return _from_base(base, order, d, k)


def theorem_22_parameters(rows: int, dimensions: int, smoothness: int, epsilon: Fraction, delta: float) -> Parameters:
    """Parameters of Algorithm 3 for (epsilon, delta); the paper's own at epsilon = 1.

    t^(3d + 2K) = (n epsilon)^2 / log(1 / delta), the rest follows from t as in Theorem 17. The logarithm is a float.
    """
    d, k = _check(rows, dimensions, smoothness)
    if epsilon <= 0:
        raise ParameterError("P101", "epsilon", epsilon, "must be above 0.")
    if not 0 < delta < 1:
        raise ParameterError("P102", "delta", delta, "must be between 0 and 1.")
    base = max(Fraction(1), (rows * epsilon) ** 2 / Fraction(math.log(1 / delta)))
    return _from_base(base, 3 * d + 2 * k, d, k)


def theorem_17_bound(
    *,
    rows: int,
    dimensions: int,
    smoothness: int,
    size: float,
    degree: int,
    values: int,
    scale: float,
    fit: float,
    failure: float,
    gaussian: bool = False,
    count_public: bool = False,
    drawn: int | None = None,
    steps: int | None = None,
    turn: float | None = None,
) -> ErrorBound:
    """Bound (22), for every query f of the class at once.

    The class: |f| and all its partial derivatives up to order K are at most B on [-1, 1]^d. For f with polynomial h,
    |f - h| <= E, and coefficients |c_r| <= M, and a distribution u with F = |W u - b^|_1::

        |q(u) - q(D)| <= d B pi / (2 (N - 1)) + 2 E + M (F + |noise|_1 + R / (2 L) + |sampling|_1)

    Proof sketch: insert h on both tables; the moments of D on the grid and of u differ by at most F + |noise|_1 +
                  rounding, and |c . v| <= M |v|_1. A row moves by at most pi / (2 (N - 1)) per angle, so per column.
                  E, M: the best of ``approximation_bounds``. |Laplace noise|_1 / scale is Gamma(R): its quantile.
                  |Gaussian|_1 is sqrt(R)-Lipschitz: mean plus sigma sqrt(2 R log(1 / failure)). With a noisy count
                  b^_r = S^_r / S^_0 is off by (z_r - b_r z_0) / S^_0. Sampling: Hoeffding for each of R means of m
                  independent draws in [-1, 1], and the union bound.

    Args:
        rows: n.
        dimensions: d.
        smoothness: K.
        size: B.
        degree: t.
        values: N, per column, equispaced in the angle; moments are of rows moved to them.
        scale: of the noise of the SUMS: Laplace b, or sigma when ``gaussian``.
        fit: F, as means.
        failure: probability that the bound may fail.
        gaussian: the law of the noise.
        count_public: means are sums over the public n; else over the noisy count.
        drawn: m independent draws, or None when u itself answers.
        steps: L, or None for no rounding.
        turn: the largest angles that rows move by, added up over the columns, where they are not d pi / (2 (N - 1)).
    """
    d, k = _check(rows, dimensions, smoothness)
    if not 0 < failure < 1:
        raise ParameterError("P107", "failure", failure, "must be between 0 and 1.")
    size_r = degree**d
    share = failure / 3
    noise = _l1_quantile(size_r - 1, scale, share, gaussian=gaussian)
    if count_public:
        noise /= rows
    else:
        count = _l1_quantile(1, scale, share, gaussian=gaussian)
        noise = (noise + (size_r - 1) * count) / (rows - count) if count < rows else math.inf
    sampling = 0.0 if drawn is None else size_r * math.sqrt(2 * math.log(2 * size_r / share) / drawn)
    rounding = 0.0 if steps is None else size_r / (2 * steps)
    moved = size * (d * math.pi / (2 * (values - 1)) if turn is None else turn)
    bounds = [
        ErrorBound(
            discretization=moved,
            approximation=2 * error,
            noise=most * noise,
            fit=most * fit,
            sampling=most * sampling,
            rounding=most * rounding,
            coefficient=most,
        )
        for error, most in approximation_bounds(dimensions=d, smoothness=k, size=size, degree=degree)
    ]
    return min(bounds, key=lambda bound: bound.total)


def approximation_bounds(*, dimensions: int, smoothness: int, size: float, degree: int) -> list[tuple[float, float]]:
    """Pairs (E, M): every f of the class has a polynomial h with |f - h| <= E and cosine coefficients at most M.

    With g(a) = f(cos a_1, ..., cos a_d), |D_i^k g| <= B Bell(k) for k <= K (chain rule; derivatives of cos are at most
    1), and n = t - 1::

        Fejer-Korovkin kernel in every column: E_1 = d B pi sqrt((1 - cos(pi / (n + 2))) / 2),
                                               E_2 = 2 d B (pi^2 / 4) (1 - cos(pi / (n + 2))) if K >= 2;  |h| <= B
        d = 1, the best polynomial (Favard):   E = (pi / 2) t^-K B Bell(K);                               |h| <= B + E
        generalized Jackson kernel ([J] 3.3):  E = 2 B Bell(K) I sum_(i<d) (2^(K+1) - 1)^i;               |h| <= B + E

    Proof sketch: the first kernel is nonnegative, even, of degree n, with integral 1 and the least possible integral of
                  1 - cos s; s^2 <= (pi^2 / 2) (1 - cos s) on [-pi, pi]. An even kernel is off by at most half its
                  second moment times |g''|, or its first times |g'|; it has norm 1, so the columns' errors add up.
                  Jackson: off by at most 2 |D^K g| I, I the integral of H(s) |s|^K, since |differences of order
                  K + 1| <= 2 |s|^K |D^K g|; norm at most 2^(K+1) - 1. A cosine coefficient is at most (4 / pi)^d
                  sup|h|: each factor is 2 / pi times the integral of |cos| over a half period.
    """
    d, k = _check(1, dimensions, smoothness)
    check_positive("degree", degree, 10**6)
    spread = 1 - math.cos(math.pi / (degree + 1))
    found = [(d * size * math.pi * math.sqrt(spread / 2), size)]
    if k >= 2:
        found.append((d * 2 * size * math.pi**2 / 4 * spread, size))
    derivative = size * _bell(k)
    if d == 1:
        error = math.pi / 2 * degree**-k * derivative
    else:
        norm = 2 ** (k + 1) - 1
        error = 2 * _kernel_moment(degree - 1, k) * derivative * sum(norm**i for i in range(d))
    found.append((error, size + error))
    return [(e, (4 / math.pi) ** d * largest) for e, largest in found]


def round_means(means: Floats, steps: int, *, clip: bool = False) -> Floats:
    """Noisy means to the nearest multiples of 1/L, [J] Algorithm 3, step 10: post-processing.

    Args:
        means: float[R]: noisy sums over the public n, or over the noisy count (then b_0 = 1).
        steps: L.
        clip: also to [-1, 1], as the paper's grid does. It changes the law of the noise, so the norm of the program is
            no likelihood any more; and sums must not be clipped at all.

    Returns:
        float[R], off by at most 1 / (2 L) where not clipped.
    """
    check_positive("steps", steps, MAX_COUNT)
    rounded = np.rint(means * steps) / steps
    return np.asarray(np.clip(rounded, -1, 1) if clip else rounded)


def _check(rows: int, dimensions: int, smoothness: int) -> tuple[int, int]:
    check_positive("rows", rows, MAX_COUNT)
    return check_positive("dimensions", dimensions, MAX_DIMENSIONS), check_positive(
        "smoothness", smoothness, MAX_SMOOTHNESS
    )


def _from_base(base: Fraction, order: int, d: int, k: int) -> Parameters:
    """Everything from t = base^(1/order)."""
    t, values, steps, rows = (_root(base, power, order) for power in (1, k, d + k, 2 * d + 2 * k + 1))
    return Parameters(degree=max(2, t), values=max(2, values), steps=steps, rows=rows)


def _root(base: Fraction, power: int, order: int) -> int:
    """The least whole number >= base^(power / order), exactly."""
    wanted = base**power
    low, high = 0, 1
    while high**order < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if middle**order >= wanted else (middle, high)
    return high


def _bell(k: int) -> int:
    """Bell number: partitions of k things."""
    row = [1]
    for _ in range(k - 1):
        longer = [row[-1]]
        for value in row:
            longer.append(longer[-1] + value)
        row = longer
    return row[-1]


def _kernel_moment(degree: int, k: int) -> float:
    """Integral of H(s) |s|^K, H the generalized Jackson kernel of a degree, r = ceil((K + 3) / 2).

    Numerics: midpoint sums of smooth functions; doubling their number changes the result by less than 1e-6, relative.
    """
    r = (k + 4) // 2
    inner = degree // r + 1
    s = (np.arange(_QUADRATURE) + 0.5) * math.pi / _QUADRATURE
    kernel = (np.sin(inner * s / 2) / (inner * np.sin(s / 2))) ** (2 * r)
    return float(kernel @ s**k / kernel.sum())


def _l1_quantile(size: int, scale: float, failure: float, *, gaussian: bool) -> float:
    """A value the l1 norm of the noise exceeds with probability at most ``failure``."""
    if gaussian:
        return scale * (size * math.sqrt(2 / math.pi) + math.sqrt(2 * size * math.log(1 / failure)))
    from scipy.stats import gamma

    return scale * float(gamma.isf(failure, size))
