"""[J] Algorithm 3 as it stands, for one to three bounded columns: ``method := 'theorem'``.

    parameters   t, N, L, m by Theorem 17, or 22 with delta, from n, d, K, epsilon; what is too large is capped and told
    release      rows moved to a grid of N values per column and counted by cell inside DuckDB, sums of the t^d
                 functions there, independent noise on each (``GridSums``, ``SummaryTask``)
    program      noisy means rounded to multiples of 1/L in [-1, 1]; min |W u - b|_1 over distributions on the grid,
                 until the value is at most the noise's expected norm, a public figure, or certified within 2% of the
                 least
    rows         m independent draws from u

n is the number of rows where that is public (REPLACE, every row counts); else ``expected_rows`` or ``row_cap``.

Privacy:      one release of a ``SummaryTask`` with Laplace noise of scale l1 / epsilon (Theorem 17), or Gaussian noise
              by zCDP (Theorem 22), l1 and l2 of ``Basis.norms``, for the data set's relation. The cube's noise would be
              smaller; the theorem's is kept. With a public n it is read first, and everything else is a function of it.
Deviations:   sensitivities are the true ones; the grid is equispaced in the angle; columns' types keep their values
              (a whole number moves to a whole number); W is not rounded, which only bounds bits; the program may stop
              early, and its value F stands in the bound in place of the optimum.
Error:        (22) by ``theorem_17_bound``, with what was used, capped figures included.
Source:       [J] Algorithm 3, Theorems 17 and 22.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from typing import Any

from duckdp.catalog.constraints import Constraint
from duckdp.catalog.table import Column, Table, check_positive, dump_table
from duckdp.compiler.printing import Parameters as Bound
from duckdp.compiler.printing import print_rows
from duckdp.core.reads import Add, PrivateQuery, one_row
from duckdp.core.task import Stages, Work
from duckdp.core.types import ATTO, NANO, Loss, Neighbours
from duckdp.errors import ParameterError, QueryError
from duckdp.smooth.buy.least_noise import fit_noise
from duckdp.smooth.buy.summary_task import SummaryTask, plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.sums.moments import plan_grid_moments
from duckdp.synthetic.asked import MAX_ROWS, Asked
from duckdp.synthetic.lp.make.support import grid_values, unit_nodes
from duckdp.synthetic.opened import KIND
from duckdp.synthetic.theorem.make import sum_of_turns
from duckdp.synthetic.theorem.parameters import (
    theorem_17_bound,
)
from duckdp.synthetic.theorem.plan import FAILURE, MOST_COLUMNS, SMOOTHNESS, Figures, choose_figures, most_degree


@dataclass(frozen=True, kw_only=True)
class TheoremTask:
    """The sums of the paper's Algorithm 3. Implements ``core.task.Task``.

    Attributes:
        table: the protected table.
        columns: of the synthetic table.
        smoothness: K.
        epsilon_nano, delta_atto: the charge.
        neighbours: the relation.
        rows: asked for, or None for the theorem's m.
    """

    table: Table
    columns: tuple[Column, ...]
    smoothness: int
    epsilon_nano: int
    delta_atto: int
    neighbours: Neighbours
    rows: int | None

    @property
    def kept(self) -> list[Constraint]:
        """None: it is refused where there are any (``methods``)."""
        return []

    @property
    def loss(self) -> Loss:
        """What it costs, whatever n."""
        return self.planned.loss

    @property
    def mechanism(self) -> str:
        """The mechanism's name in the ledger."""
        return self.planned.mechanism

    @cached_property
    def planned(self) -> SummaryTask:
        """The release as it would be with the declared number of rows."""
        return self.at(self._declared)[0]

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        raw = {
            "kind": "theorem",
            "declaration": sha256(dump_table(self.table).encode()).hexdigest(),
            "columns": [c.name for c in self.columns],
            "smoothness": self.smoothness,
            "rows": self.rows,
            "epsilon_nano": self.epsilon_nano,
            "delta_atto": self.delta_atto,
            "neighbours": self.neighbours.value,
        }
        return json.dumps(raw, sort_keys=True, separators=(",", ":"))

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters for the ledger."""
        planned, figures = self.at(self._declared)
        used = figures.used
        return {
            **planned.parameters,
            "method": "theorem",
            "smoothness": self.smoothness,
            "values": used.values,
            "steps": used.steps,
            "rows": used.rows,
            "capped": list(figures.capped),
            "n": "public, read first" if planned.count_public else self._declared,
        }

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        planned, figures = self.at(self._declared)
        used = figures.used
        theorem = 22 if self.delta_atto else 17
        return [
            f"Algorithm 3 with the parameters of Theorem {theorem} for n = {self._declared:,}, K = {self.smoothness}: "
            f"t = {used.degree}, N = {used.values:,}, L = {used.steps:,}, m = {used.rows:,}",
            *figures.capped,
            self._predict(planned, figures),
            *planned.describe(),
        ]

    def _predict(self, planned: SummaryTask, figures: Figures) -> str:
        """Bound (22) if the program ends at the noise's expected norm."""
        used, size, scale = figures.used, planned.basis.size, planned.plan.noise.scales[0] / (1 << planned.moments.bits)
        bound = theorem_17_bound(
            rows=self._declared,
            dimensions=len(self.columns),
            smoothness=self.smoothness,
            size=1.0,
            degree=used.degree,
            values=used.values,
            scale=scale,
            fit=size * (scale / self._declared + 0.5 / used.steps),
            failure=FAILURE,
            gaussian=planned.mechanism == "gaussian",
            count_public=planned.count_public,
            drawn=used.rows,
            steps=used.steps,
            turn=sum_of_turns(self.columns, planned.basis, used.values),
        )
        return (
            f"bound (22) expected: {bound.total:.4g} for queries with |f| and {self.smoothness} derivatives at most 1, "
            f"with probability {1 - FAILURE:g}"
        )

    def work(self, salt: int) -> Work:
        """Read n where it is public; then read the sums and noise them."""

        def run(stages: Stages) -> str:
            rows = self._declared
            if self.planned.count_public:
                found = stages.run(lambda: str(int(one_row(stages.read(self._count_query()), 1)[0])))
                rows = max(1, min(self.table.row_cap, int(found)))
            task, figures = self.at(rows)
            return stages.last(lambda: self._payload(task.release(stages.read(task.query(salt))), rows, figures))

        return run

    def _payload(self, moments: str, rows: int, figures: Figures) -> str:
        used = figures.used
        return json.dumps(
            {
                "kind": KIND,
                "summary": None,
                "moments": moments,
                "rows": used.rows,
                "table": None,
                "theorem": {
                    "n": rows,
                    "smoothness": self.smoothness,
                    "degree": used.degree,
                    "values": used.values,
                    "steps": used.steps,
                    "capped": list(figures.capped),
                },
            }
        )

    @property
    def _declared(self) -> int:
        return self.table.expected_rows or self.table.row_cap

    def _count_query(self) -> PrivateQuery:
        bound = Bound()
        relation = print_rows(self.table, (), bound, unit=True)
        sql = f"SELECT CAST(system.main.count_star() AS HUGEINT) FROM {relation} AS r"
        return PrivateQuery(sql=sql, parameters=tuple(bound.values), parts=Add())

    def at(self, rows: int) -> tuple[SummaryTask, Figures]:
        """The release of the sums for a public number of rows."""
        epsilon, delta = Fraction(self.epsilon_nano, NANO), self.delta_atto / ATTO
        figures = choose_figures(rows, self.columns, self.smoothness, epsilon, delta, self.rows)
        wishes = Wishes(
            degree=figures.used.degree, weights="uniform", noise="gaussian" if delta else "laplace", path="sums"
        )
        task = plan_summary(
            self.table,
            [c.name for c in self.columns],
            epsilon_nano=self.epsilon_nano,
            neighbours=self.neighbours,
            delta_atto=self.delta_atto,
            wishes=wishes,
        )
        basis = task.basis
        nodes = tuple(
            unit_nodes(axis, grid_values(column, axis, figures.used.values))
            for column, axis in zip(self.columns, basis.axes, strict=True)
        )
        moments, sensitivity, plan = fit_noise(
            lambda e: plan_grid_moments(self.table, self.columns, basis, nodes, epsilon=e),
            lambda m: m.norms(self.neighbours, count_public=task.count_public),
            self.table.row_cap,
            basis.levels[1 if task.count_public else 0 :],
            self.epsilon_nano,
            self.delta_atto,
            wishes,
        )
        return replace(task, moments=moments, sensitivity=sensitivity, plan=plan), figures


def plan_theorem(
    table: Table,
    columns: Sequence[str],
    *,
    epsilon_nano: int,
    delta_atto: int,
    neighbours: Neighbours,
    rows: int | None,
    smoothness: int | None,
) -> TheoremTask:
    """Plan the paper's Algorithm 3 as it stands.

    Args:
        table: the protected table.
        columns: one to three columns with bounds.
        epsilon_nano: the charge.
        delta_atto: of it; above 0, Theorem 22.
        neighbours: the data set's relation.
        rows: in place of the theorem's m; None: m, where it makes at most 4,000,000 values.
        smoothness: K, 1 to 30; 4 unless given.

    Raises:
        ParameterError: P107. QueryError: Q401, a column without bounds. CatalogError: C102.
    """
    if not 1 <= len(columns) <= MOST_COLUMNS:
        rule = f"must be 1 to {MOST_COLUMNS} columns with bounds for the theorem; name them."
        raise ParameterError("P107", "columns", list(columns)[:50], rule)
    if rows is not None:
        check_positive("rows", rows, MAX_ROWS)
    for column in (table.column(name) for name in columns):
        if column is not None and column.lower is None:
            raise QueryError(
                "Q401",
                f'column "{column.name}" has no bounds, and the theorem is about columns with bounds. '
                "Leave it out, or take method := 'auto'.",
            )
        if column is not None and column.domain is not None:
            rule = f"\"{column.name}\" has a domain, and the theorem's rows lie on a grid between bounds. Take 'lp'."
            raise ParameterError("P107", "columns", list(columns)[:50], rule)
    found = tuple(c for c in (table.column(name) for name in columns) if c is not None)
    task = TheoremTask(
        table=table,
        columns=found,
        smoothness=SMOOTHNESS if smoothness is None else smoothness,
        epsilon_nano=epsilon_nano,
        delta_atto=delta_atto,
        neighbours=neighbours,
        rows=rows,
    )
    return _checked(task, list(columns))


def _checked(task: TheoremTask, names: list[str]) -> TheoremTask:
    """Everything that can be refused is refused before a charge: a plan of the declared number of rows is printed."""
    if len(task.columns) != len(names):  # plan_summary names the column that is unknown
        plan_summary(task.table, names, epsilon_nano=task.epsilon_nano, neighbours=task.neighbours)
    for column in task.columns:
        if most_degree(column) < 2:
            rule = (
                f"\"{column.name}\" has two values, and the theorem needs three. Leave it out, or take method := 'lp'."
            )
            raise ParameterError("P107", "columns", names, rule)
    task.planned.query(0)
    if task.planned.count_public:  # the largest plan that a public number of rows can lead to
        task.at(task.table.row_cap)[0].query(0)
    return task


def task(asked: Asked) -> TheoremTask:
    """Plan the purchase. Free: no data is touched.

    Raises:
        ParameterError: P107; and as :func:`plan_theorem`.
    """
    if asked.degree is not None or asked.target:
        rule = "is not for method := 'theorem', whose degree follows from smoothness."
        name, given = ("target", asked.target) if asked.degree is None else ("degree", asked.degree)
        raise ParameterError("P107", name, given, rule)
    return plan_theorem(
        asked.table,
        asked.names,
        epsilon_nano=asked.epsilon_nano,
        delta_atto=asked.delta_atto,
        neighbours=asked.neighbours,
        rows=asked.rows,
        smoothness=asked.smoothness,
    )
