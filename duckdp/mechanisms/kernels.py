"""Kernel sums: many functions of each column from one l1 ball of radius 1, however many there are.

With u = cos a, t nodes a_j = (j + 1/2) pi / t and w_r = 1 - r / (t + 1), the Fejer kernels of one column are::

    K_j(u) = (1/t) (1 + 2 sum_{0 < r < t} w_r cos(r a_j) T_r(u)),   j < t
    T_r(u) = (1/w_r) sum_j cos(r a_j) K_j(u),   r < t,   and   sum_j K_j(u) = 1

so that sums of the t kernels and sums of T_0 .. T_(t-1) say the same. Of a column of t listed values the kernels are
their indicators. Of several columns the kernels are all products, one factor per column: as many as functions.

Privacy:      K_j >= 0 and sum_j K_j = 1, so a row adds a vector of l1 norm 1 (and of l2 norm at most 1) to the sums of
              the kernels: noise of the law P(Z_j = k) ~ exp(-|k| / scale) in each costs epsilon = l1 / scale. The
              functions that are made of the noisy sums are post-processing.
Assumes:      l1 bounds the change of the integer sums between neighbours (smooth/sums/kernel_sums.py: matrices of
              floats, rounded sums and errors of a row are counted there).
Proof sketch: F(b) = 1 + 2 sum_{0 < r <= t} w_r cos(r b) = sin^2((t+1) b / 2) / ((t+1) sin^2(b / 2)) >= 0, Fejer's
              kernel. (F(a - a_j) + F(a + a_j)) / 2t = (1/t) (1 + 2 sum_{0 < r <= t} w_r cos(r a_j) cos(r a)), and its
              term r = t is zero, since cos(t a_j) = cos((j + 1/2) pi) = 0: this is K_j, and it is >= 0. For
              0 < r < 2t sum_j cos(r a_j) = 0, which gives sum_j K_j = 1 and, by products of cosines, the second line.
              A product of nonnegative vectors that sum to 1 is one.
Error:        with noise of variance V in each kernel's sum, T_r of one column has V t (r = 0) or V t / (2 w_r^2), and
              for r != s they are uncorrelated; of several columns the product of these. So R functions cost about
              R 2^-k V, k columns interacting, where a cube's variance grows as R^2 / 3.
Source:       Fejer, "Untersuchungen ueber Fouriersche Reihen", Math. Annalen 58, 1904 (nonnegativity); the mechanism:
              Dwork, McSherry, Nissim, Smith (TCC 2006), Theorem 1; the nodes at which the last term vanishes are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ENTRY_ERROR = 2.0**-50  # of an entry of the matrices, times the entry's bound where that is above 1: a few roundings


@dataclass(frozen=True, eq=False)
class ColumnKernels:
    """The kernels of one column, as matrices of floats; entries are within ENTRY_ERROR of the exact ones.

    Attributes:
        to_kernels: float[t, t], K_j = sum_r to_kernels[j, r] T_r.
        to_functions: float[t, t], its inverse, T_r = sum_j to_functions[r, j] K_j.
    """

    to_kernels: Floats
    to_functions: Floats


@lru_cache(maxsize=256)
def fejer_kernels(count: int) -> ColumnKernels:
    """The Fejer kernels of T_0 .. T_(count - 1) on [-1, 1].

    >>> found = fejer_kernels(3)
    >>> bool(np.allclose(found.to_functions @ found.to_kernels, np.eye(3)))
    True
    """
    r, j = np.arange(count), np.arange(count)
    cosines = _cosines(np.outer(r, 2 * j + 1), 2 * count)
    weights = 1 - r / (count + 1)
    twice = np.where(r > 0, 2.0, 1.0)
    return _frozen((twice * weights * cosines.T) / count, cosines / weights[:, None])


@lru_cache(maxsize=256)
def indicator_kernels(count: int) -> ColumnKernels:
    """The indicators of ``count`` values that lie at u_j = -cos(pi j / (count - 1)), in terms of T_0 .. T_(count - 1).

    Source: the discrete cosine transform on the extrema of T_(count - 1), whose ends weigh a half.
    """
    if count == 1:
        return _frozen(np.ones((1, 1)), np.ones((1, 1)))
    places, last = np.arange(count), count - 1
    values = _cosines(np.outer(places, last - places), last)
    half = np.where((places == 0) | (places == last), 0.5, 1.0)
    return _frozen((2 / last) * half[:, None] * half * values.T, values)


def _cosines(turns: NDArray[np.int64], half: int) -> Floats:
    """cos(pi turns / half) of whole numbers: reduced as such, so that cosines of large angles are exact to an ULP."""
    reduced = turns % (2 * half)
    return np.asarray(np.cos(np.pi * np.minimum(reduced, 2 * half - reduced) / half))


def _frozen(to_kernels: Floats, to_functions: Floats) -> ColumnKernels:
    for matrix in (to_kernels, to_functions):
        matrix.setflags(write=False)
    return ColumnKernels(to_kernels, to_functions)
