"""Planning and making a smooth-query summary: what it costs, its noise, and the release.

Releases b + Z, b the exact integer sums of ``moments`` in units of 2^-f, Z of the law that ``noise`` chooses:
independent with P(Z_r = k) ~ exp(-|k|/scale), jointly P(Z = z) ~ exp(-|z|_inf/scale), or discrete Gaussian; or what
follows from noisy sums of kernels (``kernel_release``).

Privacy:      epsilon-DP (laplace, cube) or rho-zCDP and so (epsilon, delta)-DP (gaussian), for ``neighbours``.
Assumes:      l1, l2 and linf bound the change of b (``Basis.norms``, ``moments``); bounds, domains, ``max_rows`` and
              ``row_cap`` are public. A wrong ``row_cap`` costs accuracy only (but see ``moments`` on its exact range):
              sums are clamped to +-row_cap 2^f, which brings no two of them further apart; where the number of rows is
              public and larger, to +-that number 2^f, which leaves them as they are.
Proof sketch: ratio of point masses <= exp(|b - b'| / scale) in the law's norm, by the triangle inequality; Gaussian:
              core/noise. Degree 0 is left without noise only under REPLACE when every row counts: then it is the
              public number of rows. Z is drawn at 0 and never depends on b, whatever b's range.
Source:       Wang et al., JMLR 17(51), 2016, Algorithm 1; scale from ``basis`` instead of its t^d / (n epsilon).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from duckdp.catalog.table import Column, Kind, Table, closest, dump_table
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import Loss, Neighbours, Sensitivity
from duckdp.errors import CatalogError, InternalError, ParameterError
from duckdp.smooth.basis import Basis, Shape
from duckdp.smooth.buy.kernel_release import kernel_sums_of, noised_by_kernels
from duckdp.smooth.buy.least_noise import least_noise
from duckdp.smooth.buy.wishes import Wishes, settled
from duckdp.smooth.degree import choose_degree
from duckdp.smooth.kernel_noise import KernelNoise
from duckdp.smooth.predicted import Candidate
from duckdp.smooth.sum_noise import NoisePlan, draw_noise
from duckdp.smooth.summary import FORMAT, SmoothSummary, make_basis
from duckdp.smooth.sums.moments import MomentPlan


@dataclass(frozen=True, kw_only=True)
class SummaryTask(OneRead):
    """A summary before it is bought; implements ``core.task.Task``.

    Attributes:
        table: the protected table.
        columns: the chosen columns.
        basis: the functions.
        planned: the degree that the columns' axes were decided by.
        moments: how their sums are computed.
        epsilon_nano: the charge, in 1e-9.
        neighbours: the relation.
        sensitivity: of the noisy sums, in units of 2^-bits.
        plan: law and budgets of the noise.
        count_public: whether the number of rows is public and exact.
        ranked: where the basis was chosen, it and the next best ones, the best first.
    """

    table: Table
    columns: tuple[Column, ...]
    basis: Basis
    planned: int
    moments: MomentPlan
    epsilon_nano: int
    neighbours: Neighbours
    sensitivity: Sensitivity
    plan: NoisePlan
    count_public: bool
    ranked: tuple[Candidate, ...] = ()

    @property
    def loss(self) -> Loss:
        """What the release costs, all its reads together."""
        return self.plan.loss

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        raw = {
            "kind": "smooth_summary",
            "format": FORMAT,
            "table": self.table.name,
            "declaration": sha256(dump_table(self.table).encode()).hexdigest(),
            "columns": [c.name for c in self.columns],
            "degree": self.basis.degree,
            "shape": self.basis.shape,
            "order": self.basis.order,
            "scales": self.plan.noise.scales,
            "cuts": self._cuts(),
            "epsilon_nano": self.epsilon_nano,
            "delta_atto": self.loss.delta_atto,
            "path": self.moments.path,
            "neighbours": self.neighbours.value,
            "mechanism": self.mechanism,
        }
        return json.dumps(raw, sort_keys=True, separators=(",", ":"))

    @property
    def mechanism(self) -> str:
        """The mechanism's name in the ledger."""
        return self.plan.noise.family

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters for the ledger."""
        return {
            "columns": [c.name for c in self.columns],
            "degree": self.basis.degree,
            "basis": self.basis.shape,
            "order": self.basis.order,
            "moments": self.basis.size,
            "path": self.moments.path,
            "bits": self.moments.bits,
            "l1": self.sensitivity.l1,
            "linf": self.sensitivity.linf,
            "scales": list(self.plan.noise.scales),
            "cuts": self._cuts(),
            "neighbours": self.neighbours.value,
            "count_public": self.count_public,
        }

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        noise, grid = self.plan.noise, float(1 << self.moments.bits)
        low, high = noise.deviations.min() / grid, noise.deviations.max() / grid
        least = "low degrees" if isinstance(noise, KernelNoise) else "degree 0"
        spread = f"{low:.3g}" if high < 1.0001 * low else f"{low:.3g} ({least}) to {high:.3g} (highest degree)"
        order = f", at most {self.basis.order} columns interact" if self.basis.order else ""
        return [
            f"basis: {self.basis.shape} of degree {self.basis.degree}{order}, {self.basis.size} functions of "
            f"{', '.join(c.name for c in self.columns)}",
            f"sums: {self.moments.path}, exact to 2^-{self.moments.bits}",
            f"noise: {noise.family}, least expected error for {self.loss} and this basis; {self._shares()}",
            f"standard error of one sum: {spread} rows",
            *self._why(),
        ]

    def _shares(self) -> str:
        """What the budget is divided among."""
        noise = self.plan.noise
        if not isinstance(noise, KernelNoise):
            return f"{len(noise.scales)} budget level{'s' * (len(noise.scales) > 1)}"
        said = f"as if for one count of rows, {noise.kernels.size} kernels that add up to 1 in every row"
        if not len(noise.helped):
            return said
        share = self.plan.budgets[0] / sum(self.plan.budgets)
        cut = self._cuts()[0]
        return f"{said}, and for {share} of epsilon a cube of {len(noise.helped)} functions of degree {cut} or less"

    def _why(self) -> list[str]:
        """Why this basis, and what comes next."""
        if not self.ranked:
            return []
        best, *others = (str(candidate) for candidate in self.ranked[:2])
        after = f"; next best: {others[0]}" if others else ""
        return [
            "chosen by predicted 95% half-width, as a share of a question's range, over bumps, thresholds and products "
            f"in one and two columns: {best}{after}"
        ]

    def query(self, salt: int) -> PrivateQuery:  # noqa: ARG002 - rows are weighed, not sampled: nothing is hashed
        """The one private read, as SQL of our own."""
        return self.moments.query()

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Add noise to the exact sums, and write the payload.

        Args:
            rows: of :meth:`query`. Exact private values: never logged, stored or raised.

        Returns:
            ``SmoothSummary`` as JSON.

        Raises:
            InternalError: the rows are not what the query gives.
        """
        return self.noised(self.exact(rows))

    def exact(self, rows: Iterable[tuple[Any, ...]]) -> list[int]:
        """The exact sums, clamped to +-row_cap, or to the public number of rows if larger: int[R], private.

        Sums that kernels are made of are clamped as such, later.
        """
        try:
            found = self.moments.collect(rows)
        except (ValueError, TypeError, IndexError):
            raise InternalError("the moments query gave something other than its sums") from None
        if isinstance(self.plan.noise, KernelNoise):
            return found
        most, kept = self._most(found), 1 if self.count_public else 0
        return [*found[:kept], *(max(-most, min(most, value)) for value in found[kept:])]

    def noised(self, exact: Sequence[int]) -> str:
        """Noise exact sums; returns ``SmoothSummary`` as JSON."""
        bits = self.moments.bits
        public = list(exact[:1]) if self.count_public else []
        count = public[0] >> bits if public else None
        if count is not None and public[0] != count << bits:
            raise InternalError("a public count is not a whole number")
        noisy, further = self._noisy(exact)
        return SmoothSummary(
            table=self.table.name,
            columns=self.columns,
            basis=self.basis,
            planned=self.planned,
            bits=bits,
            path=self.moments.path,
            row_error=self.moments.row_error + further,
            level_errors=tuple(error + further for error in self.moments.level_errors),
            family=self.plan.noise.family,
            scales=self.plan.noise.scales,
            cuts=tuple(self._cuts()),
            moments=(*public, *noisy),
            epsilon_nano=self.epsilon_nano,
            delta_atto=self.loss.delta_atto,
            neighbours=self.neighbours,
            count=count,
            weighted=self.table.unit_key is not None,
            row_cap=max(self.table.row_cap, count or 0),
        ).dump()

    def noised_sums(self, exact: Sequence[int]) -> list[int]:
        """Noisy sums of all functions that are not public, int[n], from the exact ones of all."""
        return self._noisy(exact)[0]

    def _noisy(self, exact: Sequence[int]) -> tuple[list[int], float]:
        """Noisy sums, of all functions that are not public, and what is added to ``row_error`` on the way there."""
        first = 1 if self.count_public else 0
        if not isinstance(self.plan.noise, KernelNoise):
            drawn = draw_noise(self.plan)
            return [value + noise for value, noise in zip(exact[first:], drawn, strict=True)], 0.0
        sums = kernel_sums_of(self.moments)
        most = self._most(exact)
        return noised_by_kernels(sums, self.plan, exact, most=most, count_public=self.count_public), sums.row_error

    def _most(self, exact: Sequence[int]) -> int:
        """What exact sums are clamped to, grid steps."""
        return max(self.table.row_cap << self.moments.bits, exact[0] if self.count_public else 0)

    def _cuts(self) -> list[int]:
        """Largest total degree of each budget level."""
        levels = self.basis.levels[1 if self.count_public else 0 :]
        groups = self.plan.noise.groups
        return [int(levels[groups == g].max()) for g in range(len(self.plan.noise.scales))]


def plan_summary(
    table: Table,
    columns: Sequence[str],
    *,
    epsilon_nano: int,
    neighbours: Neighbours,
    delta_atto: int = 0,
    wishes: Wishes | None = None,
    groups: int = 1,
) -> SummaryTask:
    """Plan a summary of some columns of a table. Free: no data is touched.

    Args:
        table: the protected table.
        columns: names of columns with bounds or a domain, or booleans.
        epsilon_nano: the charge, in 1e-9.
        neighbours: the data set's relation.
        delta_atto: the charge, in 1e-18; spent only where Gaussian noise is taken.
        wishes: everything else.
        groups: among how many summaries the rows are divided.

    Raises:
        CatalogError: C102, a column is not declared; C105, REPLACE with units of several rows.
        ParameterError: P107, an argument is out of range; P104, bounds that floats cannot tell apart.
        QueryError: Q401, a column has neither bounds nor a domain.
    """
    wishes = wishes or Wishes()
    chosen = _choose_columns(table, columns)
    if neighbours is Neighbours.REPLACE and table.unit_key is not None:
        raise CatalogError(
            "C105", f'under REPLACE the privacy unit is the row, but "{table.name}" has a unit_key.', table=table.name
        )
    wishes, ranked = settled(table, chosen, wishes, epsilon_nano, delta_atto, neighbours, groups)
    shape: Shape = "tensor" if wishes.shape == "auto" else wishes.shape
    degree = choose_degree(
        table,
        chosen,
        smoothness=wishes.smoothness,
        degree=wishes.degree,
        shape=shape,
        order=wishes.order,
        epsilon_nano=epsilon_nano,
        delta_atto=delta_atto,
    )
    basis = make_basis(chosen, degree, shape, wishes.order)
    public = neighbours is Neighbours.REPLACE and table.filter is None and all(_always_counts(c) for c in chosen)
    moments, sensitivity, plan = least_noise(table, chosen, basis, neighbours, public, epsilon_nano, delta_atto, wishes)
    return SummaryTask(
        table=table,
        columns=chosen,
        basis=basis,
        planned=degree,
        moments=moments,
        epsilon_nano=epsilon_nano,
        neighbours=neighbours,
        sensitivity=sensitivity,
        plan=plan,
        count_public=public,
        ranked=ranked,
    )


def _always_counts(column: Column) -> bool:
    """Whether no row can be left out for this column: no NULL, no value outside its domain."""
    both = column.kind is Kind.BOOLEAN and column.domain is None
    closed = column.lower is not None or both or column.other is not None
    return not column.nullable and closed


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
        chosen.append(column)
    if len({c.name for c in chosen}) != len(chosen):
        raise ParameterError("P107", "columns", list(names), "names a column twice.")
    return tuple(chosen)
