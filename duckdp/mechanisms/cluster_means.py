"""Counts and sums of clusters with noise, and the means that follow: a cube of noise for each cluster.

With n_j rows in cluster j, and s_j[i] their sum of v_i in {-side, ..., side}, i = 1..d, releases (side n_j + Z_0,
s_j[1] + Z_1, ..., s_j[d] + Z_d) for each j, Z fresh for each and of the cube's law on d + 1 integers (``cube``).

Privacy:      epsilon, pure, for the relation of ``rows``.
Assumes:      a unit that comes, goes or is replaced changes the sum over clusters of |vector_j|_inf by at most
              rows * side: each of its rows is in one cluster and adds a vector of |.|_inf = side there; ``rows`` counts
              those that come and those that go. Which cluster a row is in follows from that row and public centres.
Proof sketch: the cubes are independent, so the ratio of the law's masses for neighbours is at most
              exp(rate sum_j |vector_j - vector_j'|_inf) <= exp(rate rows side) = exp(epsilon).
Error:        |Z|_inf is, up to a grid step, of the law Gamma(d + 1, 1 / rate), since exp(-rate r) times the surface
              r^d is its density: with 95% it is at most q, and then side n_j and all s_j[i] are within q of what was
              released. The mean of v_i over the cluster lies in the range of s / n over that box: an interval that
              holds for all coordinates of one centre together. Where the box holds n <= 0 it is all of the range.
Numerics:     whole numbers; rate and sampler as in ``cube``. q is rounded up by a part of 1e-9 and by two grid steps.
Source:       the iterations: Blum, Dwork, McSherry, Nissim, "Practical privacy: the SuLQ framework", PODS 2005;
              McSherry, "Privacy integrated queries", SIGMOD 2009. One cube for count and sums, and the interval, are
              our own; noise is (sqrt(6) (d + 1)) / sqrt((d + 2) (d + 3)) times less than Laplace's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from scipy.special import gammaincinv

from duckdp.mechanisms.cube import cube_noise, cube_rate, cube_standard_error


@dataclass(frozen=True, kw_only=True)
class ClusterMeans:
    """The mechanism; the module says how and why.

    Attributes:
        epsilon: of one release of all clusters.
        rows: a unit's rows, those that come and those that go, at most.
        size: d, how many sums beside the count.
        side: the largest value of one row in a sum.
    """

    epsilon: Fraction
    rows: int
    size: int
    side: int

    @cached_property
    def rate(self) -> Fraction:
        """The rate of the cube that is drawn for each cluster.

        Raises:
            ParameterError: P103.
        """
        return cube_rate(self.epsilon, self.rows * self.side, self.size + 1)

    @property
    def standard_error(self) -> float:
        """Standard deviation of a count's noise, in rows, and of a sum's, in sides."""
        return cube_standard_error(self.rate, self.size + 1) / self.side

    def reach(self, level: float = 0.95) -> int:
        """q: with that probability no number of one cluster is farther from what it was."""
        return math.ceil(float(gammaincinv(self.size + 1, level)) / float(self.rate) * (1 + 1e-9)) + 2

    def release(self, exact: Sequence[Sequence[int]]) -> list[list[int]]:
        """Numbers of each cluster with their noise.

        Args:
            exact: int[clusters, 1 + d], rows and sums. Exact private values: must not be logged, stored or raised.

        Returns:
            int[clusters, 1 + d]: side times the rows, and the sums, with noise.
        """
        drawn = [cube_noise(self.size + 1, self.rate) for _ in exact]
        return [
            [value + z for value, z in zip((self.side * rows, *sums), noise, strict=True)]
            for (rows, *sums), noise in zip(exact, drawn, strict=True)
        ]

    def mean(self, noisy: Sequence[int], least: float) -> list[float] | None:
        """Means of v over one cluster, in sides, from -1 to 1; None where its count is not so many of the noise's sd.

        Args:
            noisy: int[1 + d], released.
            least: how many standard deviations.
        """
        count, *sums = noisy
        if count <= least * self.standard_error * self.side:
            return None
        return [min(max(total / count, -1.0), 1.0) for total in sums]

    def standard_errors(self, noisy: Sequence[int]) -> list[float] | None:
        """Standard deviations of the means, to first order, in sides; None where the count is not above 0."""
        count, *sums = noisy
        if count <= 0:
            return None
        error = self.standard_error * self.side / count
        return [error * math.sqrt(1 + min(1.0, (total / count) ** 2)) for total in sums]

    def interval(self, noisy: Sequence[int], level: float = 0.95) -> list[tuple[float, float]]:
        """Where the exact means of one cluster lie, in sides: all of them at once with that probability."""
        q = self.reach(level)
        count, *sums = noisy
        if count - q <= 0:
            return [(-1.0, 1.0)] * self.size
        found = []
        for total in sums:
            low, high = total - q, total + q
            least = low / (count + q if low > 0 else count - q)
            most = high / (count - q if high > 0 else count + q)
            found.append((max(least, -1.0), min(most, 1.0)))
        return found
