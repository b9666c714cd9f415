"""The smooth-query summary: what it costs, its noise, and what it releases.

Releases b + Z, b the exact integer sums of ``moments`` in units of 2^-f, Z of the law that ``noise`` chooses:
independent with P(Z_r = k) ~ exp(-|k|/scale), or jointly P(Z = z) ~ exp(-|z|_inf/scale).

Privacy:      pure epsilon-DP for the relation in ``neighbours``: scale >= l1 / epsilon, or linf / epsilon.
Assumes:      l1 and linf bound the change of b (``TensorBasis``, ``moments``); ``row_cap``, bounds and ``max_rows``
              are public. A wrong ``row_cap`` costs accuracy only: sums are clamped to +-row_cap 2^f, which brings no
              two of them further apart.
Proof sketch: ratio of point masses <= exp(|b - b'| / scale) in the law's norm, by the triangle inequality. Degree 0 is
              left without noise only under REPLACE when every row counts: then it is the public number of rows.
Numerics:     f is the largest of 10..40 for which row_cap 2^f + 100 scale stays below 2^62, the range of the sampler.
Source:       Wang et al., JMLR 17(51), 2016, Algorithm 1; scale from ``basis`` instead of its t^d / (n epsilon).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Any

import numpy as np

from duckdp.catalog import Column, Kind, Table, closest, dump_table
from duckdp.core.task import PrivateQuery
from duckdp.core.types import NANO, Loss, Neighbours, Sensitivity
from duckdp.errors import CatalogError, InternalError, ParameterError, QueryError
from duckdp.smooth.basis import DEFAULT_SMOOTHNESS, Floats, TensorBasis, degree_from
from duckdp.smooth.moments import MAX_BITS, moments_sql
from duckdp.smooth.noise import FAMILIES, Choice, Family, SumNoise, add_noise, choose_noise

FORMAT = 1
MIN_BITS = 10
_RANGE = 2**62  # of core/noise


@dataclass(frozen=True, kw_only=True)
class SmoothSummary:
    """A released summary: public, whatever is done with it is free.

    Attributes:
        table: name of the protected table.
        columns: its columns, as far as answers and synthetic tables need them.
        basis: the functions.
        moments: noisy sums in units of 2^-bits, in the basis' order.
        bits: fixed-point bits.
        family: "laplace", "cube" or "gaussian", the law of the noise.
        scale: its scale in units of 2^-bits.
        epsilon_nano: what was charged, in 1e-9.
        neighbours: the relation it holds for.
        count: number of rows when it is public (then moments[0] has no noise), or None.
        weighted: whether rows weigh less than 1 where their unit has more than max_rows of them.
        row_cap: public upper bound of the number of rows.
    """

    table: str
    columns: tuple[Column, ...]
    basis: TensorBasis
    moments: tuple[int, ...]
    bits: int
    family: Family
    scale: float
    epsilon_nano: int
    neighbours: Neighbours
    count: int | None
    weighted: bool
    row_cap: int

    @property
    def sums(self) -> Floats:
        """Noisy sums, float[R]; the first is the (weighted) number of rows."""
        return np.array([value / (1 << self.bits) for value in self.moments])

    @property
    def noise(self) -> SumNoise:
        """The law of the noise, in units of 2^-bits; with a public count, of every sum but the first."""
        return SumNoise(family=self.family, scale=self.scale, size=self.basis.size - (self.count is not None))

    def dump(self) -> str:
        """Canonical JSON."""
        raw = {
            "kind": "smooth_summary", "format": FORMAT, "table": self.table, "degree": self.basis.degree,
            "columns": [[c.name, c.type, c.integral, c.lower, c.upper] for c in self.columns],
            "moments": list(self.moments), "bits": self.bits, "family": self.family, "scale": self.scale,
            "epsilon_nano": self.epsilon_nano,
            "neighbours": self.neighbours.value, "count": self.count, "weighted": self.weighted,
            "row_cap": self.row_cap,
        }  # fmt: skip
        return json.dumps(raw, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def load(cls, text: str) -> SmoothSummary:
        """The inverse of :meth:`dump`.

        Raises:
            CatalogError: C105, the text is damaged or from a newer version.
        """
        try:
            return cls._read(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise CatalogError(
                "C105", "the stored summary is damaged or was written by a newer version of duckdp. Buy it anew."
            ) from None

    @classmethod
    def _read(cls, raw: dict[str, Any]) -> SmoothSummary:
        if raw.pop("kind") != "smooth_summary" or raw.pop("format") != FORMAT:
            raise ValueError
        columns = tuple(_load_column(*parts) for parts in raw.pop("columns"))
        found = cls(
            columns=columns, basis=make_basis(columns, raw.pop("degree")), moments=tuple(raw.pop("moments")),
            neighbours=Neighbours(raw.pop("neighbours")), **raw,
        )  # fmt: skip
        found._check()
        return found

    def _check(self) -> None:
        whole = (self.bits, self.epsilon_nano, self.row_cap, *self.moments)
        if not all(type(n) is int for n in whole) or not isinstance(self.table, str):
            raise TypeError
        if self.family not in FAMILIES:
            raise ValueError
        if type(self.weighted) is not bool or type(self.scale) is not float or not 0 < self.scale < _RANGE:
            raise ValueError
        if len(self.moments) != self.basis.size or not 0 <= self.bits <= MAX_BITS:
            raise ValueError
        if min(self.epsilon_nano, self.row_cap) < 1 or max(map(abs, self.moments)) >= 2**63:
            raise ValueError
        if self.count is not None and (type(self.count) is not int or self.moments[0] != self.count << self.bits):
            raise ValueError


@dataclass(frozen=True, kw_only=True)
class SummaryTask:
    """A summary before it is bought; implements ``core.task.Task``.

    Attributes:
        table: the protected table.
        columns: the chosen columns.
        basis: the functions.
        epsilon_nano: the charge, in 1e-9.
        neighbours: the relation.
        bits: fixed-point bits.
        sensitivity: of the noisy sums, in units of 2^-bits.
        noise: law of the noise.
        loss: what it costs.
        count_public: whether the number of rows is public and exact.
    """

    table: Table
    columns: tuple[Column, ...]
    basis: TensorBasis
    epsilon_nano: int
    neighbours: Neighbours
    bits: int
    sensitivity: Sensitivity
    noise: SumNoise
    loss: Loss
    count_public: bool

    @property
    def canonical(self) -> str:
        """Equal for equal questions."""
        raw = {
            "kind": "smooth_summary", "format": FORMAT, "table": self.table.name,
            "declaration": sha256(dump_table(self.table).encode()).hexdigest(),
            "columns": [c.name for c in self.columns], "degree": self.basis.degree, "epsilon_nano": self.epsilon_nano,
            "delta_atto": self.loss.delta_atto, "neighbours": self.neighbours.value, "mechanism": self.mechanism,
        }  # fmt: skip
        return json.dumps(raw, sort_keys=True, separators=(",", ":"))

    @property
    def mechanism(self) -> str:
        """Name for the ledger."""
        return self.noise.family

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters for the ledger."""
        return {
            "columns": [c.name for c in self.columns], "degree": self.basis.degree, "moments": self.basis.size,
            "bits": self.bits, "l1": self.sensitivity.l1, "linf": self.sensitivity.linf, "scale": self.noise.scale,
            "neighbours": self.neighbours.value,
            "count_public": self.count_public,
        }  # fmt: skip

    def query(self, salt: int) -> PrivateQuery:  # noqa: ARG002 - rows are weighed, not sampled: nothing is hashed
        """The private read: one row of R integers."""
        return moments_sql(self.table, self.columns, self.basis, self.bits)

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Noise the exact sums.

        Args:
            rows: the one row of :meth:`query`. Exact private values: never logged, stored or raised.

        Returns:
            ``SmoothSummary`` as JSON.

        Raises:
            InternalError: the rows are not what the query gives.
        """
        found = list(rows)
        if len(found) != 1 or len(found[0]) != self.basis.size or not all(type(v) is int for v in found[0]):
            raise InternalError("the moments query gave something other than one row of its sums")
        public = list(found[0][:1]) if self.count_public else []
        most = self.table.row_cap << self.bits
        exact = [max(-most, min(most, value)) for value in found[0][len(public) :]]
        count = public[0] >> self.bits if public else None
        if count is not None and public[0] != count << self.bits:
            raise InternalError("a public count is not a whole number")
        noisy = add_noise(exact, self.noise, epsilon_nano=self.epsilon_nano, linf=self.sensitivity.linf)
        return SmoothSummary(
            table=self.table.name, columns=self.columns, basis=self.basis, bits=self.bits, family=self.noise.family,
            scale=self.noise.scale, moments=(*public, *noisy), epsilon_nano=self.epsilon_nano,
            neighbours=self.neighbours, count=count, weighted=self.table.unit_key is not None,
            row_cap=self.table.row_cap,
        ).dump()  # fmt: skip


def plan_summary(
    table: Table,
    columns: Sequence[str],
    *,
    epsilon_nano: int,
    neighbours: Neighbours,
    delta_atto: int = 0,
    smoothness: int | None = None,
    degree: int | None = None,
    noise: Choice = "auto",
) -> SummaryTask:
    """Plan a summary of some columns of a table. Free: no data is touched.

    Args:
        table: the protected table.
        columns: names of numeric columns with bounds.
        epsilon_nano: the charge, in 1e-9.
        delta_atto: the charge, in 1e-18; spent only where Gaussian noise is taken.
        neighbours: the data set's relation.
        smoothness: K, derivatives that later queries have; sets the degree from ``expected_rows`` (without it, from
            ``row_cap``). 4 when neither it nor a degree is given.
        degree: t, functions per column, in place of smoothness.
        noise: "laplace", "cube", "gaussian" (needs delta), or "auto": the one with the least error.

    Raises:
        CatalogError: C102, a column is not declared; C105, REPLACE with units of several rows.
        ParameterError: P107, an argument is out of range; P104, bounds that floats cannot tell apart.
        QueryError: Q401, a column has no bounds.
    """
    chosen = _choose_columns(table, columns)
    if smoothness is not None and degree is not None:
        raise ParameterError("P107", "degree", degree, "stands in place of smoothness. Give one of them.")
    if degree is None:
        order = DEFAULT_SMOOTHNESS if smoothness is None else smoothness
        degree = degree_from(order, table.expected_rows or table.row_cap, len(chosen))
    basis = make_basis(chosen, degree)
    if neighbours is Neighbours.REPLACE and table.unit_key is not None:
        raise CatalogError(
            "C105", f'under REPLACE the privacy unit is the row, but "{table.name}" has a unit_key.', table=table.name
        )
    count_public = (
        neighbours is Neighbours.REPLACE and table.filter is None and not any(c.nullable for c in chosen)
    )  # otherwise a replaced row may begin or cease to count
    bits, sensitivity = _fixed_point(table, basis, Fraction(epsilon_nano, NANO), neighbours, count_public=count_public)
    law, loss = choose_noise(
        noise, sensitivity, size=basis.size - count_public, epsilon_nano=epsilon_nano, delta_atto=delta_atto
    )  # fmt: skip
    return SummaryTask(
        table=table, columns=chosen, basis=basis, epsilon_nano=epsilon_nano, neighbours=neighbours, bits=bits,
        sensitivity=sensitivity, noise=law, loss=loss, count_public=count_public,
    )  # fmt: skip


def make_basis(columns: Sequence[Column], degree: int) -> TensorBasis:
    """The basis over columns with numeric bounds."""
    spans = ((c.name, c.interval.lower, c.interval.upper) for c in columns)
    return TensorBasis(tuple(spans), degree)


def _choose_columns(table: Table, names: Sequence[str]) -> tuple[Column, ...]:
    if isinstance(names, (str, bytes)) or not names or not all(isinstance(name, str) for name in names):
        raise ParameterError("P107", "columns", names, "must be a list of column names, for example ['age', 'cost'].")
    chosen = []
    for name in names:
        column = table.column(name)
        if column is None:
            known = closest(name, [c.name for c in table.columns])
            message = f'column "{name[:63]}" is not declared for "{table.name}". {known}'
            raise CatalogError("C102", message, table=table.name, column=name)
        if column.kind is not Kind.NUMBER:
            rule = f'"{column.name}" is a {column.kind.value}; a summary takes numeric columns with bounds.'
            raise ParameterError("P107", "columns", list(names), rule)
        if not column.interval.finite:
            raise QueryError(
                "Q401", f'column "{column.name}" has no bounds, so the sensitivity of its summary is infinite. The '
                "data owner declares lower and upper with protect(bounds=...).",
            )  # fmt: skip
        chosen.append(column)
    if len({c.name for c in chosen}) != len(chosen):
        raise ParameterError("P107", "columns", list(names), "names a column twice.")
    return tuple(chosen)


def _fixed_point(
    table: Table, basis: TensorBasis, epsilon: Fraction, neighbours: Neighbours, *, count_public: bool
) -> tuple[int, Sensitivity]:
    """(bits, sensitivity): the finest grid on which sums and noise stay in range, from public figures only."""
    max_rows = 1 if table.unit_key is None else table.max_rows
    for bits in range(MAX_BITS, MIN_BITS - 1, -1):
        found = basis.norms(neighbours, bits=bits, max_rows=max_rows, count_public=count_public)
        if (table.row_cap << bits) + 101 * math.ceil(found.l1 / epsilon) < _RANGE:
            return bits, found
    rule = f"with row_cap={table.row_cap}, max_rows={max_rows} and epsilon={float(epsilon):g} these many sums leave "
    rule += f"fewer than {MIN_BITS} fractional bits. Take a smaller degree or row_cap, or a larger epsilon."
    raise ParameterError("P107", "degree", basis.degree, rule)


def _load_column(name: str, duckdb_type: str, integral: bool, lower: float, upper: float) -> Column:
    if not isinstance(name, str) or not isinstance(duckdb_type, str) or type(integral) is not bool:
        raise TypeError
    if type(lower) not in (int, float) or type(upper) not in (int, float):
        raise TypeError
    return Column(
        name=name, source=name, type=duckdb_type, kind=Kind.NUMBER, integral=integral, nullable=False, lower=lower,
        upper=upper,
    )  # fmt: skip
