"""Which columns are NULL together, and how often: released beside a summary, which sees rows without a NULL only.

A table's rows fall into 2^k patterns, k being its nullable columns: which of them hold no value (NULL, NaN, or a value
outside a domain that names no other). Their weights are released with a part of epsilon, and the synthetic rows get
their NULLs in these shares. Where one column is NULL, the values of the others are those of rows without a NULL.

Privacy:      epsilon-DP, Laplace noise on disjoint counts in units of 2^-b. ADD_REMOVE: a unit's rows weigh together at
              most max_rows 2^b (``scan``), so l1 = max_rows 2^b. REPLACE (unit = row): one row leaves a pattern and
              enters another: l1 = 2 2^b. Which columns are nullable is declared, so the part is spent whether there are
              NULLs or not.
Proof sketch: the patterns are disjoint and complete, and a row's is a function of that row alone. Sums are clamped to
              +-row_cap 2^b, which brings no two of them further apart. Everything else is post-processing: patterns
              that noise alone may have made (``make.nulls.doubt``) count as absent.
Numerics:     integer sums; exact sampler; weights of units with more than max_rows rows are rounded down to 2^-b.
Source:       histograms: Dwork, McSherry, Nissim, Smith 2006.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from duckdp.catalog.table import Column, Table
from duckdp.compiler.printing import Parameters
from duckdp.core.noise import laplace_noise, laplace_scale
from duckdp.core.reads import Add, PrivateQuery, one_row
from duckdp.core.types import NANO, Neighbours
from duckdp.smooth.basis import Basis
from duckdp.smooth.sums.scan import WEIGHT, print_scan, print_unit
from duckdp.synthetic.lp.plan import may_miss

_BITS = 20  # of the weights of units: a weight is off by at most a millionth of a row
_RANGE = 2**62  # of sums and noise together: half of 64 bits, in which OpenDP draws


@dataclass(frozen=True, kw_only=True)
class MissingPlan:
    """A release of patterns before it happens.

    Attributes:
        table: the protected table.
        columns: of the synthetic table.
        basis: over them.
        places: of the nullable ones.
        epsilon_nano: their part, in 1e-9.
        neighbours: the relation.
    """

    table: Table
    columns: tuple[Column, ...]
    basis: Basis
    places: tuple[int, ...]
    epsilon_nano: int
    neighbours: Neighbours

    @property
    def bits(self) -> int:
        """b: whole rows without a unit_key; else as fine as the range of sums and noise lets it be."""
        bits = 0 if self.table.unit_key is None else _BITS
        while bits and (self.table.row_cap << bits) + 101 * self._scale(bits) >= _RANGE:
            bits -= 1
        return bits

    @property
    def names(self) -> list[str]:
        """Names of the columns that may be NULL."""
        return [self.columns[i].name for i in self.places]

    def query(self) -> PrivateQuery:
        """One row: the weight of every pattern, in units of 2^-bits."""
        parameters = Parameters()
        units = [print_unit(self.columns[i], self.basis.axes[i], parameters) for i in self.places]
        points = [f"CASE WHEN ({unit}) IS NULL THEN {1 << k} ELSE 0 END" for k, unit in enumerate(units)]
        pattern = f"CAST({' + '.join(points)} AS INTEGER)"
        scan = print_scan(self.table, self.columns, [pattern], parameters, weight_bits=self.bits, keep_all=True)
        weight = "1" if self.table.unit_key is None else f"CAST(s.{WEIGHT} AS BIGINT)"
        sums = [
            f"CAST(system.main.sum(CASE WHEN s.a0 = {j} THEN {weight} ELSE 0 END) AS HUGEINT)"
            for j in range(1 << len(self.places))
        ]
        sql = f"SELECT {', '.join(sums)} FROM {scan} AS s"
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), parts=Add())

    def release(self, rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
        """Noise the exact weights; JSON values, public.

        Args:
            rows: of :meth:`query`. Exact private values: never logged, stored or raised.
        """
        most, scale = self.table.row_cap << self.bits, self._scale(self.bits)
        exact = [max(0, min(most, int(v or 0))) for v in one_row(rows, 1 << len(self.places))]
        counts = [value + z for value, z in zip(exact, laplace_noise(len(exact), scale), strict=True)]
        return {
            "columns": self.names,
            "counts": counts,
            "scale": scale,
            "bits": self.bits,
            "epsilon_nano": self.epsilon_nano,
        }

    def _scale(self, bits: int) -> float:
        rows = self.table.max_rows if self.table.unit_key is not None else 1
        change = rows if self.neighbours is Neighbours.ADD_REMOVE else 2 * rows
        return laplace_scale(Fraction(self.epsilon_nano, NANO), change << bits)


def plan_missing(
    table: Table, columns: tuple[Column, ...], basis: Basis, *, epsilon_nano: int, neighbours: Neighbours
) -> MissingPlan | None:
    """A plan for the columns that may be NULL and have no place for it; None when there are none."""
    pairs = enumerate(zip(columns, basis.axes, strict=True))
    places = tuple(i for i, (column, axis) in pairs if may_miss(column) and None not in (axis.values or ()))
    if not places:
        return None
    return MissingPlan(
        table=table, columns=columns, basis=basis, places=places, epsilon_nano=epsilon_nano, neighbours=neighbours
    )
