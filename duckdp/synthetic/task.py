"""A synthetic table straight from a protected table, as a task: a summary is bought, and a table made from it alone.

Everything after the noise is post-processing. The payload holds the summary, and the table when the program was
solved; if it was not, the summary that was paid for is kept, and can be answered from or tried again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from duckdp.catalog import Column, Kind, Table, check_positive
from duckdp.core.task import PrivateQuery
from duckdp.core.types import Loss, Neighbours
from duckdp.errors import CatalogError, NumericalError, ParameterError
from duckdp.smooth.plan import SummaryTask, Wishes, plan_summary
from duckdp.smooth.summary import SmoothSummary
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.synthesize import MAX_ROWS, synthesize

MOST_COLUMNS = 3
MOST_VALUES = 30  # of a domain
KIND = "synthesis"


@dataclass(frozen=True, kw_only=True)
class SynthesisTask:
    """Implements ``core.task.Task``: ``summary``'s release, then ``rows`` synthetic rows."""

    summary: SummaryTask
    rows: int

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the table."""
        return self.summary.columns

    @property
    def canonical(self) -> str:
        """Identity of the question."""
        return json.dumps([KIND, self.summary.canonical, self.rows])

    @property
    def loss(self) -> Loss:
        """Cost: the summary's."""
        return self.summary.loss

    @property
    def mechanism(self) -> str:
        """The summary's."""
        return self.summary.mechanism

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {**self.summary.parameters, "rows": self.rows}

    def query(self, salt: int) -> PrivateQuery:
        """The summary's private read."""
        return self.summary.query(salt)

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Noise the moments; make the table from the noisy ones."""
        payload = self.summary.release(rows)
        try:
            table: str | None = synthesize(SmoothSummary.load(payload), self.rows).dump()
        except NumericalError:
            table = None  # the summary is paid for and stays; read_synthesis tries again
        return json.dumps({"kind": KIND, "summary": payload, "table": table, "rows": self.rows})


def plan_synthesis(
    table: Table, columns: Sequence[str] | None, *, epsilon_nano: int, delta_atto: int, neighbours: Neighbours,
    rows: int, smoothness: int | None, degree: int | None,
) -> SynthesisTask:  # fmt: skip
    """Plan a synthetic table; without ``columns``, of all bounded numeric columns.

    Raises:
        ParameterError: P107, more than three columns or too many rows; and what ``plan_summary`` raises.
    """
    check_positive("rows", rows, MAX_ROWS)
    chosen = _names(table, columns)
    if not 1 <= len(chosen) <= MOST_COLUMNS:
        rule = f"must be 1 to {MOST_COLUMNS} columns for the linear program; name them, or take method := 'auto'."
        raise ParameterError("P107", "columns", chosen[:50], rule)
    task = plan_summary(
        table, chosen, epsilon_nano=epsilon_nano, delta_atto=delta_atto, neighbours=neighbours,
        wishes=Wishes(smoothness=smoothness, degree=degree),
    )  # fmt: skip
    return SynthesisTask(summary=task, rows=rows)


def fits_program(table: Table, columns: Sequence[str] | None) -> bool:
    """Whether the columns are few enough for the linear program on a grid, and all their rows hold values."""
    found = [table.column(name) for name in _names(table, columns)]
    listed = [c.domain for c in found if c is not None and c.domain is not None and c.lower is None]
    return 1 <= len(found) <= MOST_COLUMNS and all(len(domain) <= MOST_VALUES for domain in listed)


def _names(table: Table, columns: Sequence[str] | None) -> list[str]:
    usable = (c.name for c in table.columns if c.lower is not None or c.domain is not None or c.kind is Kind.BOOLEAN)
    return list(columns or usable)


def read_synthesis(payload: str) -> SyntheticTable:
    """The table of a release; made again from its summary when the program had not been solved.

    Raises:
        NumericalError: N101, still not solved.
    """
    raw = json.loads(payload)
    if raw["table"] is not None:
        return SyntheticTable.load(raw["table"])
    return synthesize(SmoothSummary.load(raw["summary"]), int(raw["rows"]))


def summary_of(payload: str) -> str:
    """The summary in a release: its own payload, or the one a synthetic table was made from.

    Raises:
        CatalogError: C110, a synthetic table that was made without one.
    """
    raw = json.loads(payload)
    if raw.get("kind") != KIND:
        return payload
    if raw["summary"] is None:
        raise CatalogError("C110", "that is a synthetic table which was not made from a summary.")
    return str(raw["summary"])
