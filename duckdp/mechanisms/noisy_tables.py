"""Several tables of counts of the same rows, each with noise of its own share of the charge.

Releases y_t + Z_t for every table t: Z independent in all cells, discrete Laplace of scale b_t, or discrete Gaussian of
deviation s_t, in units of 2^-20 of a row.

Privacy:      Laplace: sum_t l1 / b_t <= epsilon, pure. Gaussian: sum_t l2^2 / (2 s_t^2) <= rho of zCDP, which is
              (epsilon, delta).
Assumes:      every row is in at most one cell of each table, and the whole weights of one unit's rows add up to at most
              U = max_rows 2^20 (``smooth/sums/scan``). Under REPLACE a unit is one row, which may be dropped.
Proof sketch: ADD_REMOVE: one unit comes or goes, so the cells of one table change by weights that add up to at most U:
              l1 <= U, l2 <= l1 <= U. REPLACE: a row leaves one cell and another one comes to a cell: l1 <= 2 U,
              l2^2 <= 2 U^2. Table t alone is a Laplace mechanism with epsilon_t = share_t epsilon, or a Gaussian one
              with rho_t = share_t rho, and shares add up to at most 1: basic composition.
Numerics:     shares are fractions, and scales are rounded up until the sampler's own map gives at most the share
              (``core/noise``). Counts are Python's integers: no count is out of range.
Source:       Dwork, McSherry, Nissim, Smith, TCC 2006; Bun, Steinke, TCC 2016; several tables at once as in Barak et
              al., "Privacy, accuracy, and consistency too", PODS 2007.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np

from duckdp.core.errorbars import Noise, half_width_of
from duckdp.core.nested_tables import Estimator, Floats, NestedTables
from duckdp.core.noise import gaussian_noise, gaussian_scale, laplace_noise, laplace_scale
from duckdp.core.types import Neighbours, Sensitivity
from duckdp.errors import InternalError

BITS = 20  # cells are in units of 2^-BITS of a row: the law of the noise is as good as continuous
FINE = 2**16  # parts of the largest coefficient that others are rounded up to, for half-widths
STEPS = 10**6  # a share is a whole number of these parts


@dataclass(frozen=True, kw_only=True)
class TableNoise:
    """The law of the noise of all tables' cells. Public.

    Attributes:
        nested: the tables.
        family: of the noise.
        scales: per table, b or the deviation, in units of 2^-BITS.
    """

    nested: NestedTables
    family: Literal["laplace", "gaussian"]
    scales: tuple[float, ...]

    @cached_property
    def laws(self) -> tuple[Noise, ...]:
        """The law of one cell's noise in each table, in units of 2^-BITS."""
        return tuple(Noise(self.family, scale) for scale in self.scales)

    @cached_property
    def estimator(self) -> Estimator:
        """The best linear estimates from all of these tables."""
        return Estimator(self.nested, tuple(law.variance() for law in self.laws))

    @cached_property
    def _sizes(self) -> list[int]:
        starts = self.nested.starts
        return [end - begin for begin, end in pairwise(starts)]

    def standard_error(self, coefficients: Floats) -> float:
        """Standard deviation of a combination of all cells' noise, in rows."""
        each = np.repeat([math.sqrt(law.variance()) for law in self.laws], self._sizes)
        return float(np.linalg.norm(each * coefficients)) / (1 << BITS)

    def half_width(self, coefficients: Floats, level: float) -> float:
        """Level-quantile of the absolute value of a combination of all cells' noise, in rows."""
        largest = float(np.max(np.abs(coefficients), initial=0.0))
        if not largest:
            return 0.0
        scaled = np.ceil(np.abs(coefficients) / largest * FINE - 1e-6).astype(np.int64)  # a wider law, by very little
        terms: Counter[tuple[float, Noise]] = Counter()
        for law, begin, size in zip(self.laws, self.nested.starts, self._sizes, strict=False):
            values, times = np.unique(scaled[begin : begin + size], return_counts=True)
            terms.update({(v / FINE, law): n for v, n in zip(values.tolist(), times.tolist(), strict=True) if v})
        return half_width_of(terms, level) * largest / (1 << BITS)

    def draw(self) -> list[int]:
        """Noise of all cells, table by table, int[cells], drawn at zero."""
        draw = laplace_noise if self.family == "laplace" else gaussian_noise
        return [z for size, scale in zip(self._sizes, self.scales, strict=True) for z in draw(size, scale)]


def change(max_rows: int, neighbours: Neighbours) -> Sensitivity:
    """How far neighbours change the cells of one table, in units of 2^-BITS (the module's proof)."""
    if neighbours not in (Neighbours.ADD_REMOVE, Neighbours.REPLACE):
        raise InternalError(f"no sensitivity for {neighbours!r}")
    unit, cells = max_rows << BITS, 2 if neighbours is Neighbours.REPLACE else 1
    if neighbours is Neighbours.REPLACE and max_rows != 1:
        raise InternalError("under REPLACE a unit is one row")
    return Sensitivity(l1=cells * unit, l2_squared=cells * unit**2, linf=unit)


def divide(ideal: Sequence[float]) -> tuple[Fraction, ...]:
    """Shares proportional to numbers, rounded down to fractions; each at least a millionth, together at most 1."""
    whole = sum(ideal)
    parts = [max(1, math.floor(part / whole * (STEPS - len(ideal)))) for part in ideal]
    return tuple(Fraction(part, max(STEPS, sum(parts))) for part in parts)


def plan_laplace(nested: NestedTables, shares: Sequence[Fraction], one: Sensitivity, epsilon: Fraction) -> TableNoise:
    """The law that costs epsilon in all.

    Args:
        nested: the tables.
        shares: of each, together at most 1.
        one: change of one table.
        epsilon: pure.
    """
    _require_shares(nested, shares)
    scales = tuple(laplace_scale(epsilon * share, one.l1) for share in shares)
    return TableNoise(nested=nested, family="laplace", scales=scales)


def plan_gaussian(nested: NestedTables, shares: Sequence[Fraction], one: Sensitivity, rho: Fraction) -> TableNoise:
    """The law that costs rho of zCDP in all; arguments as :func:`plan_laplace`."""
    _require_shares(nested, shares)
    scales = tuple(gaussian_scale(rho * share, one.l2_squared) for share in shares)
    return TableNoise(nested=nested, family="gaussian", scales=scales)


def _require_shares(nested: NestedTables, shares: Sequence[Fraction]) -> None:
    if len(shares) != len(nested.tables) or min(shares) <= 0 or sum(shares) > 1:
        raise InternalError("the shares of tables do not add up to at most 1")
