"""What dp functions need of the data set: declarations, releases, what is stored. A desk has it, and nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from duckdp.catalog.table import Table
    from duckdp.compiler.plan import Plan
    from duckdp.compiler.query import Query
    from duckdp.core.task import Task
    from duckdp.core.types import Loss, Neighbours
    from duckdp.core.watch import Watch
    from duckdp.ledger import ChargeRow, ObjectRow
    from duckdp.ledger.types import Kind
    from duckdp.result import Result, ResultColumn
    from duckdp.smooth.summary import SmoothSummary


class Released(Protocol):
    """A release in hand."""

    @property
    def payload(self) -> str:
        """What was released."""
        ...

    @property
    def charge_id(self) -> int:
        """Of its charge."""
        ...


class Desk(Protocol):
    """What an analyst may have of the data set: see ``session``."""

    analyst: str

    @property
    def neighbours(self) -> Neighbours: ...
    def require_grant(self) -> None: ...
    def tables(self) -> Mapping[str, Table]: ...
    def table(self, name: object) -> Table: ...
    def read(self, text: str, parameters: Sequence[object] = ()) -> Query: ...
    def perform(
        self, task: Task, *, table: Table, statement: str, fresh: bool = False, kind: Kind = "query",
        name: str | None = None, nonce: str | None = None,
    ) -> Any: ...  # fmt: skip
    def answer(self, plan: Plan, *, statement: str, fresh: bool = False, nonce: str | None = None) -> Result: ...
    def dress(
        self, columns: Sequence[ResultColumn], loss: Loss, done: Any, *, notes: Sequence[str] = (),
        caveat: str | None = None,
    ) -> Result: ...  # fmt: skip
    def remaining_text(self, loss: Loss | None = None) -> str: ...
    def stored(self, name: str) -> str: ...
    def summary(self, name: str, category: str | None = None) -> SmoothSummary: ...
    def usable_summaries(self, table: Table) -> list[tuple[str, SmoothSummary]]: ...
    def watched(self, watch: Watch) -> AbstractContextManager[None]: ...
    def complete(self, done: Any, watch: Watch | None = None) -> Any: ...
    def completed(self, name: str, watch: Watch | None = None) -> Any: ...
    def budget_rows(self) -> Sequence[tuple[Any, ...]]: ...
    def own_charges(self, limit: int | None = None, before: int | None = None) -> Sequence[ChargeRow]: ...
    def count_charges(self) -> int: ...
    def objects(self, limit: int, after: str) -> Sequence[ObjectRow]: ...
