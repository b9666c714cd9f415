"""The centre of attention of the vectors, or sets of points, of blocks, with noise scaled to a smooth bound.

z[1], ..., z[m] are vectors of {0, ..., cells}^D, apart by d, which is one of

    l1        the sum of |x_i - y_i|
    matching  of D = k p numbers, k points of p: the least l1 between x and y with y's points in any order

With s = ``changed``, t = (m + s) // 2 + 1, r_i(j) the least radius around z[i] that j of z (itself among them) lie
within, and diameter = D cells:

    A(k) = the (k s + 1)th smallest of all r_i(t + k s), where t + k s <= m; else diameter
    g(z) = z[i] for an i with r_i(t) = A(0)                   (the middle of all, if t > m)
    S(z) = max over k >= 0 of exp(-b k) (A(k) + A(k + 1))

Releases round(g + S / alpha * T) coordinate by coordinate, T independent, of Student's law with 2 degrees of freedom,
each clamped to [0, cells]; of "matching" the k points in ascending order.

Privacy:      epsilon, pure, for the relation of ``changed``.
Assumes:      between neighbours at most s of the m entries differ (compiler/block_values.py says why); m is public.
Proof sketch: let z' differ from z in at most s entries; the others are kept.
              1. A(k) of z' is at most A(k + 1) of z: if t + (k + 1) s <= m, there are (k + 1) s + 1 entries i of z with
              r_i(t + (k + 1) s) <= A(k + 1), and k s + 1 of them are kept. Around each of these, that radius holds
              t + (k + 1) s entries of z, so t + k s kept ones: r'_i(t + k s) is at most it. (The least of all r_i would
              not do: the one entry that has it may be the one that changes. That is what the order is for.)
              2. The ball around g holds t entries of z, so t - s kept ones; that around g' holds t of z'. As
              2 t - s > m they share a kept entry: d(g, g') <= A(0) + A'(0) <= A(0) + A(1) <= S(z), and <= S(z') by
              symmetry. If t > m, g is the same for all z.
              3. By 1 a term of S(z') is at most e^b times the next one of S(z): S(z') <= e^b S(z).
              4. l1: move centre c and width w of the noise's law as in step 4 of ``smooth_sensitivity``, with
              dc_i/dt = a_i w, sum |a_i| <= alpha, and |d(ln w)/dt| <= beta. There, a coordinate's log-density changes
              at a rate of at most f(a_i) = beta / 2 + sqrt((A a_i)^2 + (3 beta / 2)^2), A = 3 / (2 sqrt(2)). f is
              convex, so the sum of all is largest where one has all of alpha: f(alpha) + (D - 1) 2 beta, as
              f(0) = 2 beta. With beta = epsilon / (4 D - 1) that is epsilon where
              (A alpha)^2 = (e - beta / 2)^2 - (3 beta / 2)^2 for e = epsilon - 2 (D - 1) beta. For D = 1 these are the
              alpha and beta of ``smooth_sensitivity``.
              5. matching: let y be g' with its points in the order that makes d(g, g') = |g - y|_1. The noise of all
              coordinates has one law, so g' with noise, in ascending order, has the law of y with noise, in ascending
              order; step 4 compares that with g, and order is post-processing, as rounding and clamping are.
Other metrics: this noise pays for a shift in l1, so l1 is what S has to bound. linf and l2 would bound it too, by D and
              sqrt(D) times their radii: never less, as d(x, y) in l1 is at most those multiples of them.
Utility:      if t + s entries lie within r of a point, S is at most 4 r, or what exp(-b k) leaves of 2 D cells, which
              is little from m of about 16 D s ln(D cells / r) / epsilon on; the noise of each number is some
              8 r / epsilon then, where r is of all D numbers together.
Numerics:     distances and A are whole numbers below 2^48; assignments are found in doubles, which add such numbers
              exactly. S and its rounding are those of ``center_of_attention``; alpha and beta are rounded down. Each
              coordinate's draw moves the loss as little as in ``smooth_sensitivity``: the margin of b covers them all.
Deviations:   the source takes the entry of least radius with S = 2 max exp(-b k) r(t + (k + 1) s), r the least radius
              around any point of the space. Of radii around entries alone that bound is not smooth (see 1).
Source:       Nissim, Raskhodnikova, Smith, "Smooth sensitivity and sampling in private data analysis", 2007, section 5
              (k-means: their matching distance with squared l2). Proof, order and l1 are our own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from duckdp.core.types import NANO
from duckdp.core.variates import scaled_floor, standard_student2
from duckdp.errors import ParameterError

Whole = NDArray[np.int64]
MOST_DIAMETER = 2**48  # grid steps that two vectors may be apart
_RESOLUTION = 2**80  # alpha and beta are whole multiples of 1 / _RESOLUTION
_FLOAT_MARGIN = Fraction(1, 2**40)  # of beta, for doubles
_LEAST_BOUND = 2.0**-160  # of S


@dataclass(frozen=True, kw_only=True)
class CenterOfVectors:
    """The mechanism; the module says how and why.

    Attributes:
        epsilon_nano: what it costs, in 1e-9.
        changed: s, how many entries differ between neighbours, at most.
        cells: the largest coordinate.
        size: D, how many coordinates.
        points: k, of sets of points; 0: vectors, apart by l1.

    Raises:
        ParameterError: P107, the space is too large; P101, epsilon is too small for so many coordinates.
    """

    epsilon_nano: int
    changed: int
    cells: int
    size: int
    points: int = 0

    def __post_init__(self) -> None:
        if self.size < 1 or self.diameter > MOST_DIAMETER or (self.points and self.size % self.points):
            raise ParameterError("P107", "size", self.size, "of vectors does not fit their grid.")
        if self.beta <= 2 * _FLOAT_MARGIN or self.alpha == 0:
            raise ParameterError("P101", "epsilon", self.epsilon_nano / NANO, f"is too small for {self.size} numbers.")

    @property
    def diameter(self) -> int:
        """How far two vectors may be apart."""
        return self.size * self.cells

    @cached_property
    def beta(self) -> Fraction:
        """Smoothness of S; proof sketch, 4."""
        return Fraction(self.epsilon_nano, NANO) / (4 * self.size - 1)

    @cached_property
    def alpha(self) -> Fraction:
        """Shift allowed in units of S, rounded down; proof sketch, 4."""
        one = Fraction(self.epsilon_nano, NANO) - 2 * (self.size - 1) * self.beta
        square = ((one - self.beta / 2) ** 2 - (3 * self.beta / 2) ** 2) * Fraction(8, 9)
        return Fraction(isqrt(square.numerator * _RESOLUTION**2 // square.denominator), _RESOLUTION)

    @cached_property
    def decay(self) -> float:
        """Rate b: beta less the margin for doubles, rounded down."""
        wanted = self.beta - _FLOAT_MARGIN
        below = float(wanted)
        return below if Fraction(below) <= wanted else math.nextafter(below, 0.0)

    def release(self, vectors: Sequence[Sequence[int]]) -> list[int]:
        """A vector near the centre, in [0, cells]; points in ascending order.

        Args:
            vectors: int[m, D] in [0, cells], m > 0. Exact private values: must not be logged, stored or raised.
        """
        center, bound = self.center(vectors)
        wide = min(max(bound, _LEAST_BOUND), 2.0 * self.diameter)
        twice = 2 * Fraction(wide) / self.alpha
        noise = [(scaled_floor(standard_student2(), twice) + 1) // 2 for _ in center]
        noisy = [min(max(value + z, 0), self.cells) for value, z in zip(center, noise, strict=True)]
        if not self.points:
            return noisy
        each = self.size // self.points
        return [x for point in sorted(noisy[i : i + each] for i in range(0, self.size, each)) for x in point]

    def center(self, vectors: Sequence[Sequence[int]]) -> tuple[list[int], float]:
        """(g, S), exact and private."""
        entries = np.clip(np.array(vectors, dtype=np.int64), 0, self.cells).reshape(-1, self.size)
        apart = np.sort(self.distances(entries), axis=1)
        most, step = len(entries), self.changed
        inner = (most + step) // 2 + 1
        center = [self.cells // 2] * self.size
        if inner <= most:
            center = [int(x) for x in entries[int(np.argmin(apart[:, inner - 1]))]]
        radii = []
        for k in range((max(inner, most) - inner) // step + 4):
            held, place = inner + k * step, k * step
            radii.append(int(np.partition(apart[:, held - 1], place)[place]) if held <= most else self.diameter)
        bound = max(math.exp(-self.decay * k) * (near + far) for k, (near, far) in enumerate(pairwise(radii)))
        return center, bound

    def distances(self, entries: Whole) -> Whole:
        """int[m, m]: how far entries are apart."""
        if not self.points:
            return sum_of_gaps(entries, entries)
        from scipy.optimize import linear_sum_assignment  # late: few ask for it, and it takes long to import

        apart = np.zeros((len(entries), len(entries)), dtype=np.int64)
        sets = entries.reshape(len(entries), self.points, -1)
        for i, one in enumerate(sets):
            for j in range(i):
                costs = sum_of_gaps(one, sets[j])
                apart[i, j] = apart[j, i] = int(costs[linear_sum_assignment(costs)].sum())
        return apart


def sum_of_gaps(first: Whole, second: Whole) -> Whole:
    """l1 between each of the first and each of the second, int[m, n]."""
    found = np.zeros((len(first), len(second)), dtype=np.int64)
    for a, b in zip(first.T, second.T, strict=True):
        found += np.abs(a[:, None] - b[None, :])
    return found
