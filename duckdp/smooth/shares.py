"""How a summary's budget is divided among its functions: more to low degrees, by a derivation.

A query with K derivatives has coefficients of size about s_r = (1 + |r|)^-K at total degree |r|, so the noise adds
sum_r s_r^2 Var Z_r to its squared error. Functions of equal total degree form a level l of R_l functions with
C_l = sum s_r^2; groups are runs of levels.

Cubes (pure epsilon), group g with epsilon_g: Var Z_r = v(R_g) / epsilon_g^2 in units of linf^2, v(R) = (R+1)(R+2)/3.
    Minimising sum_g C_g v(R_g) / epsilon_g^2 over sum epsilon_g = epsilon gives epsilon_g ~ (C_g v(R_g))^(1/3) and the
    error (sum_g (C_g v(R_g))^(1/3))^3 / epsilon^2. The runs that minimise the sum are found by dynamic programming over
    cuts. One group is the plain cube; groups of one function are Laplace noise of separate scales: both are contained.
Gaussian (rho): Var Z_r = R_l / (2 rho_l) in units of linf^2. Minimising sum_l C_l R_l / (2 rho_l) over
    sum rho_l = rho gives rho_l ~ sqrt(C_l R_l) and the error (sum_l sqrt(C_l R_l))^2 / (2 rho): by Cauchy and Schwarz
    never more than one group's, so every level is a group.

Every formula is over public figures. Shares are rounded down to rationals, so they never add up to more than the whole;
none is below a thousandth of the whole over the number of levels, so that rough queries are answered too.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_LEVELS = 200  # higher degrees share the last level
LEAST = 1e-3  # of an even share of epsilon, below which no level falls
_STEPS = 10**9  # a share is a whole number of these parts


@dataclass(frozen=True, eq=False)
class Shares:
    """Groups of functions and what each may spend.

    Attributes:
        groups: int[R], the group of each function, from 0.
        budgets: per group.
    """

    groups: Ints
    budgets: tuple[Fraction, ...]


def share_cube(levels: Ints, epsilon: Fraction, smoothness: int | None) -> Shares:
    """Divide epsilon among the cubes of a summary's moments.

    Args:
        levels: int[R], total degree of each function.
        epsilon: the whole.
        smoothness: K; None for one group.
    """
    if smoothness is None or len(levels) <= 1:
        return _one(levels, epsilon)
    rank, sizes, weights = _levels(levels, smoothness)
    cuts = _best_cuts(sizes, weights)
    group = np.searchsorted(cuts, np.arange(len(sizes)), side="right")  # cuts: first level of every later group
    counts = np.bincount(group, sizes)
    ideal = (np.bincount(group, weights) * (counts + 1) * (counts + 2) / 3) ** (1 / 3)
    return Shares(group[rank], _divide(epsilon, ideal))


def share_gaussian(levels: Ints, rho: Fraction, smoothness: int | None) -> Shares:
    """Divide rho among levels; arguments as :func:`share_cube`."""
    if smoothness is None or len(levels) <= 1:
        return _one(levels, rho)
    rank, sizes, weights = _levels(levels, smoothness)
    return Shares(rank, _divide(rho, np.sqrt(weights * sizes)))


def _one(levels: Ints, whole: Fraction) -> Shares:
    return Shares(np.zeros(len(levels), dtype=np.int64), (whole,))


def _levels(levels: Ints, smoothness: int) -> tuple[Ints, Floats, Floats]:
    """(level of each function from 0, R_l, C_l)."""
    found, rank = np.unique(np.minimum(levels, MOST_LEVELS), return_inverse=True)
    sizes = np.bincount(rank).astype(np.float64)
    return rank.astype(np.int64), sizes, sizes * (1.0 + found) ** (-2.0 * smoothness)


def _best_cuts(sizes: Floats, weights: Floats) -> Ints:
    """Where groups begin, so that sum_g (C_g v(R_g))^(1/3) is least."""
    count = len(sizes)
    r, c = np.concatenate([[0], np.cumsum(sizes)]), np.concatenate([[0], np.cumsum(weights)])
    best, start = np.zeros(count + 1), np.zeros(count + 1, dtype=np.int64)
    for end in range(1, count + 1):
        inside, weight = r[end] - r[:end], c[end] - c[:end]
        cost = best[:end] + (weight * (inside + 1) * (inside + 2) / 3) ** (1 / 3)
        start[end] = int(np.argmin(cost))
        best[end] = cost[start[end]]
    cuts, end = [], count
    while end > 0:
        end = int(start[end])
        cuts.append(end)
    return np.array(cuts[::-1][1:], dtype=np.int64)


def _divide(whole: Fraction, ideal: Floats) -> tuple[Fraction, ...]:
    share = np.maximum(ideal / ideal.sum(), LEAST / len(ideal))
    parts = np.maximum(1, np.floor(share / share.sum() * _STEPS * (1 - 1e-9))).astype(np.int64).tolist()
    return tuple(whole * Fraction(part, max(_STEPS, sum(parts))) for part in parts)
