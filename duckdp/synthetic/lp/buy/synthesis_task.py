"""A synthetic table straight from a protected table, as a task: a summary is bought, and a table made from it alone.

Everything after the noise is post-processing. The payload holds the summary, and the fitted distribution when the
program was solved. If it was not, by a failure or an interrupt, the summary that was paid for is kept: asking again
costs nothing and goes on where the program stood (``unfinished``).

Privacy: the summary's, and that of the patterns of NULLs (``missing``) beside it, which get one part of epsilon in
         twenty where a column is nullable: composition; epsilon, delta and rho each add up.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duckdp.catalog.constraints import Constraint, among
from duckdp.catalog.table import Column, Table, check_positive
from duckdp.core.accountant import pure_rho
from duckdp.core.task import Stages, Work
from duckdp.core.types import Loss, Neighbours
from duckdp.errors import ParameterError
from duckdp.smooth.buy.summary_task import SummaryTask, plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.synthetic.asked import MAX_ROWS, usable_columns
from duckdp.synthetic.lp.buy.null_patterns import MissingPlan, plan_missing
from duckdp.synthetic.lp.plan import MOST_COLUMNS, PART, may_miss
from duckdp.synthetic.opened import KIND
from duckdp.synthetic.scale import tell_default


@dataclass(frozen=True, kw_only=True)
class SynthesisTask:
    """Implements ``core.task.Task``: ``summary``'s release, the NULLs', then ``rows`` synthetic rows.

    Attributes:
        summary: of the rows that have a value in every column.
        missing: the patterns of NULLs, where a column is nullable.
        rows: wanted, or None for as many as the noisy count says.
    """

    summary: SummaryTask
    missing: MissingPlan | None
    rows: int | None

    @property
    def columns(self) -> tuple[Column, ...]:
        """Declared columns of the synthetic table."""
        return self.summary.columns

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        part = None if self.missing is None else [self.missing.names, self.missing.epsilon_nano]
        kept = [[str(c) for c in self.kept]] if self.kept else []
        return json.dumps([KIND, self.summary.canonical, self.rows, part, *kept])

    @property
    def kept(self) -> list[Constraint]:
        """Declared constraints that every row keeps."""
        return among(self.summary.table.constraints, [c.name for c in self.columns])

    @property
    def loss(self) -> Loss:
        """Cost: the summary's and the NULLs'."""
        summary = self.summary.loss
        if self.missing is None:
            return summary
        whole = summary.epsilon_nano + self.missing.epsilon_nano
        both = summary.rho_pico + pure_rho(self.missing.epsilon_nano)
        rho = both if summary.delta_atto else pure_rho(whole)
        return Loss(epsilon_nano=whole, delta_atto=summary.delta_atto, rho_pico=rho)

    @property
    def mechanism(self) -> str:
        """The mechanism's name in the ledger: that of the summary."""
        return self.summary.mechanism

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        nulls = [] if self.missing is None else self.missing.names
        return {**self.summary.parameters, "method": "lp", "rows": self.rows, "nullable": nulls}

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        nulls = (
            []
            if self.missing is None
            else [f"NULLs of {', '.join(self.missing.names)}: their shares, for a {PART}th of epsilon"]
        )
        rows = [tell_default()] if self.rows is None else []
        first = "method: lp, the distribution on a grid whose moments come closest"
        kept = ["in every row: " + "; ".join(map(str, self.kept))] if self.kept else []
        return [first, *rows, *nulls, *kept, *self.summary.describe()]

    def work(self, salt: int) -> Work:
        """Noise the patterns of NULLs, then the moments; the distribution is made once they are stored (``stored``)."""
        query, nulls = self.summary.query(salt), self.missing
        kept = {"constraints": [str(c) for c in self.kept]} if self.kept else {}

        def run(stages: Stages) -> str:
            missing = None
            if nulls is not None:
                missing = json.loads(stages.run(lambda: json.dumps(nulls.release(stages.read(nulls.query())))))

            def draw() -> str:
                payload = self.summary.release(stages.read(query))
                raw = {"kind": KIND, "summary": payload, "table": None, "rows": self.rows, "missing": missing}
                return json.dumps({**raw, **kept})

            return stages.last(draw)

        return run


def plan_synthesis(
    table: Table,
    columns: Sequence[str] | None,
    *,
    epsilon_nano: int,
    delta_atto: int,
    neighbours: Neighbours,
    rows: int | None,
    smoothness: int | None,
    degree: int | None,
) -> SynthesisTask:
    """Plan a synthetic table; without ``columns``, of all bounded numeric columns.

    Raises:
        ParameterError: P107, more than three columns or too many rows; and what ``plan_summary`` raises.
    """
    if rows is not None:
        check_positive("rows", rows, MAX_ROWS)
    chosen = usable_columns(table, columns)
    if not 1 <= len(chosen) <= MOST_COLUMNS:
        rule = f"must be 1 to {MOST_COLUMNS} columns for the linear program; name them, or leave out degree and method."
        raise ParameterError("P107", "columns", chosen[:50], rule)
    found = [table.column(name) for name in chosen]
    part = max(1, epsilon_nano // PART) if any(c is not None and may_miss(c) for c in found) else 0
    task = plan_summary(
        table,
        chosen,
        epsilon_nano=epsilon_nano - part,
        delta_atto=delta_atto,
        neighbours=neighbours,
        wishes=Wishes(smoothness=smoothness, degree=degree, noise="sums"),
    )
    missing = plan_missing(table, task.columns, task.basis, epsilon_nano=part, neighbours=neighbours) if part else None
    task.query(0)  # what cannot be printed is refused before the charge
    return SynthesisTask(summary=task, missing=missing, rows=rows)
