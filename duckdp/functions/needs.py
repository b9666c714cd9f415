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
    def neighbours(self) -> Neighbours:
        """Relation of the data set; a budget must have been set."""
        ...

    def require_grant(self) -> None:
        """Nothing, if the analyst may ask now."""
        ...

    def tables(self) -> Mapping[str, Table]:
        """Protected tables by lower-case name."""
        ...

    def table(self, name: object) -> Table:
        """A protected table by name."""
        ...

    def read(self, text: str, parameters: Sequence[object] = ()) -> Query:
        """A statement over a protected table, validated."""
        ...

    def perform(
        self, task: Task, *, table: Table, statement: str, fresh: bool = False, kind: Kind = "query",
        name: str | None = None, nonce: str | None = None,
    ) -> Any:  # fmt: skip
        """Charge, read, noise, store: the one way to private rows; gives what was released."""
        ...

    def answer(self, plan: Plan, *, statement: str, fresh: bool = False, nonce: str | None = None) -> Result:
        """A SELECT's answer: charged, stored before, or known without the data."""
        ...

    def dress(
        self, columns: Sequence[ResultColumn], loss: Loss, done: Any, *, notes: Sequence[str] = (),
        caveat: str | None = None,
    ) -> Result:  # fmt: skip
        """An answer with its cost, source and what is left."""
        ...

    def remaining_text(self, loss: Loss | None = None) -> str:
        """What can still be spent, and about how many such queries that is."""
        ...

    def stored(self, name: str) -> str:
        """The payload of a stored summary or synthetic table."""
        ...

    def summary(self, name: str, category: str | None = None) -> SmoothSummary:
        """A stored summary; of a grouped one, that of a category."""
        ...

    def usable_summaries(self, table: Table) -> list[tuple[str, SmoothSummary]]:
        """Stored summaries of a table's present data, by name."""
        ...

    def watched(self, watch: Watch) -> AbstractContextManager[None]:
        """While it lasts, what interrupts private reads ends post-processing too."""
        ...

    def complete(self, done: Any, watch: Watch | None = None) -> Any:
        """A synthetic table's release with its rows."""
        ...

    def completed(self, name: str, watch: Watch | None = None) -> Any:
        """A stored summary or synthetic table, complete."""
        ...

    def budget_rows(self) -> Sequence[tuple[Any, ...]]:
        """(analyst, scope, granted, spent, remaining) as text."""
        ...

    def own_charges(self, limit: int | None = None, before: int | None = None) -> Sequence[ChargeRow]:
        """The analyst's charges, oldest first; with a limit the last so many."""
        ...

    def count_charges(self) -> int:
        """How many charges the analyst has."""
        ...

    def objects(self, limit: int, after: str) -> Sequence[ObjectRow]:
        """Stored objects of the analyst, then those shared with them, by name."""
        ...
