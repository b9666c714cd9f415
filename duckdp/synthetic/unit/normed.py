"""Functions of a row, or products of all pairs of them, scaled down where the row's vector of them is long.

With g_1 .. g_k in [-1, 1] (``features.Factor``), p = (g_i g_j, i < j) in order, or p = (g_1 .. g_k) itself, and a
public bound C, a row has

    p min(1, C / |p|)        |p|: the l1 norm (Laplace noise) or the l2 norm (Gaussian noise)

In a box [-1, 1]^R noise pays for rows at its corners, of l1 norm R and l2 norm sqrt(R). Rows of columns of deviation s
have about .6 R s^2 and sqrt(R) s^2, so noise for a bound near these is several times less, and links of columns are
told as well by rows of which the longest count less: what is compared with the release are the same functions of made
rows.

Privacy:      none by itself: ``purse.Purse.draw_normed`` releases sums. It relies on ``longest``: whatever a row holds,
              and whatever floating point did, its integers at 2^-``BITS`` have at most that norm. They are counted in
              integers last, and a row that has more adds zeros.
Proof sketch: rounding to the nearest integer moves R entries by at most 1/2 each, so by R / 2 in l1 and sqrt(R) / 2 in
              l2; ``longest`` leaves twice that, so that in practice no row has more. The bound itself needs none of it.
Source:       scaling rows to a norm: Dwork, Talwar, Thakurta, Zhang, "Analyze Gauss", 2014 (rows of a covariance).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from duckdp.errors import InternalError
from duckdp.synthetic.unit.charge_terms import BITS
from duckdp.synthetic.unit.features import Factor, Floats, in_order

MOST = (1 << 15) - 1  # products: squares of as many whole numbers of 24 bits add up to less than 2^63
_LEAST = 1e-12  # norm of a row, of which less is taken as this


@dataclass(frozen=True, kw_only=True, eq=False)
class Normed(ABC):
    """A vector of functions of a row with a bound on its norm.

    Attributes:
        dimensions: d, of unit rows.
        factors: g_1 .. g_k, with weights.
        bound: C > 0.
        squared: whether the norm is l2; else l1.
    """

    dimensions: int
    factors: tuple[Factor, ...]
    bound: float
    squared: bool

    def __post_init__(self) -> None:
        if self.bound <= 0 or not 0 < self.count <= MOST:
            raise InternalError("a vector with a norm needs a bound above 0, and not too many functions")

    @property
    @abstractmethod
    def count(self) -> int:
        """R, how many entries the vector has."""

    @abstractmethod
    def norms(self, g: Floats) -> Floats:
        """|p| of every row, float[n]."""

    @abstractmethod
    def entries(self, g: Floats) -> list[Floats]:
        """The vector p of every row, R times float[n]."""

    @property
    def longest(self) -> int:
        """The largest norm of a row's integers; its square if the norm is l2."""
        bound = math.ceil(min(self.bound, self.count) * (1 << BITS))
        return (bound + math.isqrt(self.count) + 1) ** 2 if self.squared else bound + self.count

    def functions(self, u: Floats) -> Floats:
        """g_1 .. g_k of every row, float[n, k], each by its own row alone to the last bit."""
        found = [(in_order(u, _weights(f).tolist()) - f.offset) / f.width for f in self.factors]
        return np.clip(np.stack(found, axis=1), -1, 1)

    def kept(self, g: Floats) -> Floats:
        """min(1, C / |p|) of every row, float[n]."""
        return np.asarray(self.bound / np.maximum(np.maximum(self.norms(g), self.bound), _LEAST))

    def rows(self, u: Floats) -> Floats:
        """Values of every row, float[n, R], whole numbers of 2^-BITS whose norm is at most ``longest``."""
        g = self.functions(u)
        kept = self.kept(g)
        found = np.stack([p * kept for p in self.entries(g)], axis=1)
        whole = np.floor(np.clip(found, -1, 1) * 2.0**BITS + 0.5).astype(np.int64)
        size = (whole**2 if self.squared else np.abs(whole)).sum(axis=1)
        whole[size > self.longest] = 0
        return whole / 2.0**BITS


@dataclass(frozen=True, kw_only=True, eq=False)
class NormedFunctions(Normed):
    """The factors by themselves, with a bound on a row's norm of them; see :class:`Normed`."""

    @property
    def count(self) -> int:
        """R, how many factors there are."""
        return len(self.factors)

    def norms(self, g: Floats) -> Floats:
        """|p| of every row, float[n]."""
        total = in_order(g**2 if self.squared else np.abs(g), [1.0] * g.shape[1])
        return np.sqrt(total) if self.squared else total

    def entries(self, g: Floats) -> list[Floats]:
        """The vector p of every row, R times float[n]."""
        return list(g.T)

    def cut(self, u: Floats) -> Floats:
        """What scaling takes off the averages over rows: float[R]."""
        g = self.functions(u)
        return np.asarray((g * (1 - self.kept(g))[:, None]).mean(axis=0))


@dataclass(frozen=True, kw_only=True, eq=False)
class NormedProducts(Normed):
    """Products of all pairs of factors, in order, with a bound on a row's norm of them; see :class:`Normed`."""

    @property
    def count(self) -> int:
        """R, how many products there are."""
        return len(self.factors) * (len(self.factors) - 1) // 2

    def norms(self, g: Floats) -> Floats:
        """|p| of every row, float[n]."""
        columns = list((g**2 if self.squared else np.abs(g)).T)
        total = in_order(np.stack(columns, axis=1), [1.0] * len(columns))
        squares = in_order(np.stack([c * c for c in columns], axis=1), [1.0] * len(columns))
        found = np.maximum(0.0, total * total - squares) / 2
        return np.sqrt(found) if self.squared else found

    def entries(self, g: Floats) -> list[Floats]:
        """The vector p of every row, R times float[n]."""
        return [g[:, i] * g[:, j] for i, j in combinations(range(g.shape[1]), 2)]

    def told(self, u: Floats) -> float:
        """How much of squares of the functions is kept over all rows: about what is told of a change of products."""
        g = self.functions(u)
        squares = (g**2).sum(axis=1)
        return float((squares * self.kept(g)).sum() / max(_LEAST, float(squares.sum())))

    def means(self, u: Floats) -> Floats:
        """Averages over rows: float[R]."""
        g = self.functions(u)
        return np.asarray(((g * self.kept(g)[:, None]).T @ g / len(u))[np.triu_indices(g.shape[1], 1)])


def _weights(factor: Factor) -> Floats:
    assert factor.weights is not None
    return factor.weights
