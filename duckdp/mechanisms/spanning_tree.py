"""The cost of a minimum spanning tree of private edges on public vertices, with noise scaled to a smooth bound.

Rows are edges (i, j, w), whole weights 0 <= w <= top, on v public vertices. **Two vertices without an edge between them
have one of weight top**: so every graph is connected, and one that lies in c parts costs top for each of the c - 1
gaps. Of several rows between the same two vertices the lightest counts. f is the least cost of a tree that joins all
vertices.

For a set of vertices C, neither empty nor all, let w_j(C) be the weight of the j-th lightest row that crosses from C to
the others; top, where there are fewer. With u rows of a unit at most,

    M_j = max over C of w_j(C)                             the weight up to which rows join all in j disjoint ways
    D_j = max over C of w_j(C) - w_1(C)
    A_i = max(M_(i+1), D_(i+2))                            i = 0, 1, ..., exactly what one row more or less can change
                                                           after i others came or went
    U_k = least(A_(k u) + ... + A_((k+1) u - 1), (v - 1) top)
    S   = max( exp(-b k) U_k  for 0 <= k <= units,  exp(-b (units + 1)) least(u, v - 1) top )

With more than ``EXACT`` vertices P_(i+2) stands for A_i: P_j is the heaviest row of the j-th forest, each a minimum
spanning forest of the rows that those before left (top, where it does not span). From some i on, it is top. Which of
these is taken is public.

Privacy:      epsilon with the noise of ``admissible_noise``, for ADD_REMOVE and REPLACE alike. Also: f moves by at most
              u top, so noise of a public scale does where that is predicted to be less.
Assumes:      at most u rows of each unit, which depend on that unit's rows alone. v, top, u are public, and so is which
              vertices there are: a row with another end, a loop, or a NULL is left out, each by itself.
Proof sketch: 1. f(D + e) = f(D) - B + least(B, w), B = the weight up to which e's ends are joined without e. B = max of
              w_1(C) over C between the ends: so a row more takes off at most M_1, and some row does. Without e B is
              the max over such C of the least weight of the other rows: so a row less adds at most max over C of
              w_2(C) - w_1(C) = D_2, e the lightest of C. One row replaced: f(D + g) <= f(D - e + g) <= f(D - e), and
              the outer ones are at least f(D) - M_1(D) and at most f(D) + D_2(D). So |f(D) - f(D')| <= A_0(D).
              2. One row less moves w_j(C) to at most w_(j+1)(C); one more lowers it, or leaves it. So M_j(D') <=
              M_(j+1)(D). D_j(D') <= D_(j+1)(D) after a row less; after one more (it may be the new lightest one, and
              the j-th is the (j-1)-th of before), or after both, D_j(D') <= max(D_(j+1)(D), M_j(D)). Hence
              A_i(D') <= A_(i+1)(D) for a row more, less or replaced.
              3. A_i is attained: i rows less in the C of M_(i+1), then one of weight 0 more; or i rows less in the C of
              D_(i+2), all but the lightest, which goes last. So with u = 1 the S without an end is the least smooth
              bound there is. (In [R]'s form, where a fixed set of edges have weights that are replaced, A_i is the
              same.)
              4. Forests. In a total order of rows (weight, ends) let R_j be what j forests left. If one row leaves,
              each R_j loses one row at most, f_j: where f_j is in the next forest, the lightest of what else joins its
              two sides takes its place, and is missing from then on. The forest after that joins these sides too, if it
              spans, by a row of at most P_(j+1): so P_j(D - e) <= P_(j+1)(D). If a row comes, the next forest takes it
              for the heaviest of a cycle, which goes on to the forest after: P_j(D + e) <= P_j(D). Each of j forests
              that span crosses C: w_j(C) <= P_j, so A_i <= M_(i+2) <= P_(i+2), which is all that S needs of A.
              5. Units: u rows, each more, less or replaced, come one after the other, and the i-th moves f by at most
              A_0 then, A_i(D) by 2. So U_0 bounds a unit, U_k(D') <= U_(k+1)(D), and S is smooth term by term, the last
              term a constant that no U_k exceeds.
Deviations:   the source has one row of weight w for each edge of a fixed, connected graph, and replaces one weight.
              Here rows come and go: without a weight for what has no row, one row less could leave no tree at all.
              mechanisms of the source take single edges; units of u rows are ours, and so are the forests.
Numerics:     f, w, M, D, A, P, U are integers below 2**48; S as ``smooth_sensitivity`` has it: a maximum of products of
              doubles, k b <= 128 a relative error below 2**-44. Ranks in the total order are the weights of the
              library, below 2**53: it sees no ties and no zeros, which it would take for no edge.
Source:       Nissim, Raskhodnikova, Smith, "Smooth Sensitivity and Sampling in Private Data Analysis", 2007, section
              3.2, for one weight replaced; the proof above is our own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from duckdp.mechanisms.admissible_noise import AdmissibleNoise

EXACT = 12  # vertices: of so many all 2,047 cuts are looked at
MOST_FORESTS = 200  # each takes a pass over the rows
_NEGLIGIBLE = 64  # the last term stays below 1 / 64 grid step unless there are fewer forests

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Edges:
    """Rows between public vertices; exact and private.

    Attributes:
        first, second: ends, each in [0, v), first < second; int[n].
        weight: in [0, top]; int[n].
    """

    first: Ints = field(repr=False)
    second: Ints = field(repr=False)
    weight: Ints = field(repr=False)

    def ordered(self) -> Edges:
        """In the total order of the proof."""
        order = np.lexsort((self.second, self.first, self.weight))
        return Edges(first=self.first[order], second=self.second[order], weight=self.weight[order])


@dataclass(frozen=True, kw_only=True)
class SpanningTree:
    """The smooth bound for one noise; the module says how and why.

    Attributes:
        vertices: v, at least 2.
        top: largest weight, grid steps; (v - 1) top <= 2**48.
        unit: u, most rows of one privacy unit.
        noise: of the release.
    """

    vertices: int
    top: int
    unit: int
    noise: AdmissibleNoise

    @property
    def most(self) -> int:
        """The largest f, grid steps."""
        return (self.vertices - 1) * self.top

    @cached_property
    def units(self) -> int:
        """How far S looks, in privacy units; public."""
        negligible = math.ceil(math.log(_NEGLIGIBLE * max(2, self.most)) / self.noise.decay)
        return max(0, min(negligible, MOST_FORESTS // self.unit - 1))

    @cached_property
    def _changes(self) -> int:
        """How many A_i are found; beyond them each is top."""
        return min((self.units + 1) * self.unit, MOST_FORESTS)

    @property
    def forests(self) -> int:
        """How many rows between the same vertices are looked at, at most; public."""
        return self._changes + 1

    def figures(self, edges: Edges) -> tuple[int, float]:
        """(f, S), exact and private."""
        forests = _forests(edges.ordered(), self.vertices, self.forests)
        cost = int(forests[0].weight.sum()) + (self.vertices - 1 - len(forests[0].weight)) * self.top
        own = self._by_cuts(forests) if self.vertices <= EXACT else self._by_forests(forests)
        found = np.full((self.units + 1) * self.unit, self.top, dtype=np.int64)
        found[: self._changes] = own[: len(found)]
        together = np.minimum(found.reshape(self.units + 1, self.unit).sum(axis=1), self.most)
        terms = np.append(together, min(self.unit, self.vertices - 1) * self.top)
        return cost, float((terms * np.exp(-self.noise.decay * np.arange(len(terms)))).max())

    def _by_forests(self, forests: list[Edges]) -> Ints:
        """P_(i+2), i = 0, 1, ..."""
        spans = self.vertices - 1
        heaviest = [int(f.weight.max()) if len(f.weight) == spans else self.top for f in forests]
        return np.array(heaviest[1:] + [self.top] * (self.forests - len(forests)), dtype=np.int64)

    def _by_cuts(self, forests: list[Edges]) -> Ints:
        """A_i; the j lightest rows of every cut are in the first j forests."""
        rows = [np.concatenate(part) for part in zip(*((f.first, f.second, f.weight) for f in forests), strict=True)]
        kept = Edges(first=rows[0], second=rows[1], weight=rows[2]).ordered()
        count = self.forests
        heaviest, spread = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        for cut in range(1, 1 << self.vertices - 1):
            crossing = kept.weight[((cut >> kept.first) ^ (cut >> kept.second)) & 1 == 1][:count]
            own = np.append(crossing, np.full(count - len(crossing), self.top))
            heaviest, spread = np.maximum(heaviest, own), np.maximum(spread, own - own[0])
        return np.maximum(heaviest[:-1], spread[1:])


def _forests(edges: Edges, vertices: int, count: int) -> list[Edges]:
    """At most so many minimum spanning forests, each of the rows that those before left; rows in their order.

    One at least, and none after the first that has no row.
    """
    from scipy.sparse import csr_array  # late: few ask for it, and it takes long to import
    from scipy.sparse.csgraph import minimum_spanning_tree

    found: list[Edges] = []
    left = np.arange(len(edges.weight))
    pair = edges.first * vertices + edges.second
    while len(found) < count and (not found or len(found[-1].weight)):
        _, lightest = np.unique(pair[left], return_index=True)  # of parallel rows the first one
        own = left[np.sort(lightest)]
        ranks = (own + 1).astype(np.float64)
        graph = csr_array((ranks, (edges.first[own], edges.second[own])), shape=(vertices, vertices))
        taken = np.sort(minimum_spanning_tree(graph).data.astype(np.int64)) - 1
        found.append(Edges(first=edges.first[taken], second=edges.second[taken], weight=edges.weight[taken]))
        left = np.setdiff1d(left, taken, assume_unique=True)
    return found
