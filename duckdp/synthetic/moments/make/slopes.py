"""The derivative J of the moments of rows at one place: products with it, with its transpose, and J J^T.

The gradient of every moment in row n, pairs apart, is a sum of few kinds of vectors::

    g(u_n) e_i           products u_i g(u), g kept fixed
    b_n u_n              all that depends on |u|^2 or z; of a penalty on |u|^2 too
    b_n w                factors along weights w, inside their clamp

so J is never formed, and J J^T takes a few products of (rows x columns) matrices: exact, and cheaper than the steps of
an iteration would be.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from duckdp.synthetic.unit.features import Factor, Features, Floats, Singles, chebyshev_slope, inner, outer


@dataclass(frozen=True, kw_only=True, eq=False)
class Term:
    """Gradients share_nr x_n of the moments r in ``at``.

    Attributes:
        vector: x, float[n, d], or float[1, d] where all rows have the same.
        at: int[q], places of the moments.
        share: float[n, q].
    """

    vector: Floats
    at: NDArray[np.intp]
    share: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Slopes:
    """The Jacobian of the moments with respect to the rows, at rows u.

    Attributes:
        features: the moments.
        u: float[n, d].
        penalty: float[n]; one more moment, the last, has the gradient penalty_n u_n.
    """

    features: Features
    u: Floats
    penalty: Floats

    @property
    def count(self) -> int:
        """How many moments there are with the number of rows, R + 1."""
        return self.features.count + 1

    @cached_property
    def values(self) -> Floats:
        """g(u) of every factor of products, float[n, F]."""
        f = self.features
        return np.stack([f.factor(g, self.u, self._z) for g in f.factors], axis=1) if f.factors else self.u[:, :0]

    def adjoint(self, weights: Floats) -> Floats:
        """J^T weights, rows not divided by n: float[n, d]; weights float[R + 1]."""
        f, parts = self.features, np.zeros((len(self.features.factors), self.features.dimensions))
        parts[:, f.chosen] = weights[self._products].reshape(len(f.factors), len(f.chosen))
        found = outer(self.values, parts)
        for term in self._terms:
            found += outer(term.share, weights[term.at, None]) * term.vector
        if f.pairs:
            square = np.zeros((f.dimensions, f.dimensions), dtype=np.float32)
            square[f.upper] = weights[self._pairs]
            found += outer(self._single, square + square.T)
        return found

    def forward(self, move: Floats) -> Floats:
        """J move, float[R + 1]: the change of the means to first order; move float[n, d]."""
        f, found = self.features, np.zeros(self.count)
        found[self._products] = inner(self.values, move)[:, f.chosen].ravel()
        for term in self._terms:
            found[term.at] += inner(term.share, _dot(move, term.vector)[:, None])[:, 0]
        if f.pairs:
            square = inner(self._single, move.astype(np.float32))
            found[self._pairs] = (square + square.T)[f.upper]
        return found / len(move)

    def gram(self, free: Floats) -> Floats:
        """J diag(free) J^T, float[R + 1, R + 1], for entries free, float[n, d] of 0 and 1; not with pairs."""
        f, found = self.features, np.zeros((self.count, self.count))
        assert not f.pairs
        blocks = [self._products.start + k * len(f.chosen) + np.arange(len(f.chosen)) for k in range(len(f.factors))]
        for k, first in enumerate(blocks):
            for other, second in enumerate(blocks):
                both = (self.values[:, k] * self.values[:, other])[:, None]
                found[first, second] = inner(both, free)[0, f.chosen]
        for t, term in enumerate(self._terms):
            open_part = free * term.vector
            for before in self._terms[: t + 1]:
                mixed = inner(term.share, _dot(open_part, before.vector)[:, None] * before.share)
                found[np.ix_(term.at, before.at)] += mixed
                if before is not term:
                    found[np.ix_(before.at, term.at)] += mixed.T
            for value, block in zip(self.values.T, blocks, strict=True):
                crossed = inner(open_part * value[:, None], term.share)[f.chosen]
                found[np.ix_(block, term.at)] += crossed
                found[np.ix_(term.at, block)] += crossed.T
        return found / len(free)

    @cached_property
    def _single(self) -> Singles:
        """For the pairs, whose products take most of the time; conjugate gradients stop far above such rounding."""
        return self.u.astype(np.float32)

    @cached_property
    def _square(self) -> Floats:
        return np.asarray(np.einsum("ij,ij->i", self.u, self.u))

    @cached_property
    def _z(self) -> Floats:
        return np.clip((self._square - self.features.centre) / self.features.width, -1, 1)

    @property
    def _products(self) -> slice:
        start = int(self.features.size) + self.features.degree
        return slice(start, start + len(self.features.chosen) * len(self.features.factors))

    @property
    def _pairs(self) -> slice:
        return slice(self._products.stop + len(self.features.crosses), self.count - 1)

    @cached_property
    def _terms(self) -> list[Term]:
        """All that goes along u as one term, then one per factor with weights; those of crosses by themselves."""
        f, each, z = self.features, len(self.features.chosen), self._z
        by_square = 2 * (np.abs(self._square - f.centre) < f.width) / f.width  # z changes by it times u
        along, at = [self.penalty[:, None]], [np.array([self.count - 1])]
        others: list[Term] = []
        if f.size:
            along.append(np.full((len(self.u), 1), 4 / f.dimensions))
            at.append(np.array([0]))
        if f.degree:
            along.append(chebyshev_slope(z, f.degree) * by_square[:, None])
            at.append(int(f.size) + np.arange(f.degree))
        for k, factor in enumerate(f.factors):
            places, share = self._products.start + k * each + np.arange(each), self.u[:, f.chosen]
            if factor.radial:
                along.append(share * by_square[:, None])
                at.append(places)
            elif factor.weights is not None:
                others.append(self._term(factor, places, share, by_square))
        for k, pair in enumerate(f.crosses):
            for one, rest in (pair, pair[::-1]):
                if one.radial or one.weights is not None:
                    share = f.factor(rest, self.u, z)[:, None]
                    others.append(self._term(one, np.array([self._products.stop + k]), share, by_square))
        first = Term(vector=self.u, at=np.concatenate(at), share=np.concatenate(along, axis=1))
        return [first, *others]

    def _term(self, factor: Factor, at: NDArray[np.intp], share: Floats, by_square: Floats) -> Term:
        """Moments whose derivative by the factor's value is ``share``."""
        if factor.weights is None:
            return Term(vector=self.u, at=at, share=share * by_square[:, None])
        live = np.abs((self.u @ factor.weights - factor.offset) / factor.width) < 1
        return Term(vector=factor.weights[None, :], at=at, share=share * (live / factor.width)[:, None])


def _dot(rows: Floats, vector: Floats) -> Floats:
    """Row by row products, float[n]."""
    if len(vector) == 1:
        return np.asarray(rows @ vector[0])
    return np.asarray(np.einsum("ij,ij->i", rows, vector))
