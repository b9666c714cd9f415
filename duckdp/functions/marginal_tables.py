"""All k-way marginal tables of listed columns, from one release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckdp.catalog.table import describe_unit
from duckdp.compiler.notes import no_cell_note, summary_note
from duckdp.core.types import parse_delta, parse_epsilon
from duckdp.functions.kinds import ColumnNames, Delta, Epsilon, Fresh, Size, TableName
from duckdp.functions.planned import Planned, with_note
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.process.importing import importing
from duckdp.result import Result, plain_result

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk
    from duckdp.smooth.buy.marginal_task import MarginalTask


def _left_out(task: MarginalTask) -> list[str]:
    """What must be said of rows that no table counts."""
    note = no_cell_note(task.columns)
    return [] if note is None else [note]


@dp_function("dp_marginals", costs="epsilon, delta", example="'care', ['sex'], k := 1, epsilon := 0.1")
@dataclass(frozen=True, kw_only=True)
class Marginals(Explained):
    """Noisy counts of all combinations of values of every k of the columns, of rows that have all; all tables agree."""

    table: TableName = argument()
    columns: ColumnNames = argument(
        about="booleans, or columns with domains; a row with NULL in one of them is in no table"
    )
    epsilon: Epsilon | None = option(None)
    k: Size = option(2, about="columns of each table")
    delta: Delta = option(0, about="above 0 the noise may be Gaussian")
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A row for each cell of each table."""
        task = self._task(desk)
        shape = [("columns", "VARCHAR"), ("values", "VARCHAR"), ("count", "DOUBLE"), ("half_width", "DOUBLE")]
        rows = task.noise.nested.cells

        def run(nonce: str) -> Result:
            text = f"dp_marginals({task.table.name}, {list(self.columns)}, k := {self.k})"
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce)
            found = [
                (
                    ", ".join(cell.columns),
                    ", ".join("NULL" if v is None else str(v) for v in cell.values),
                    cell.count,
                    cell.half_width,
                )
                for cell in task.cells(done.payload)
            ]
            made = plain_result([n for n, _ in shape], found, [t for _, t in shape])
            notes = [
                "half_width: of each count at 95%; counts below 0 are kept, so that tables add up alike",
                *_left_out(task),
            ]
            return desk.dress(made.columns, task.loss, done, notes=notes, caveat=summary_note(task.table))

        return with_note(shape, run, noted=summary_note(task.table) is not None, rows=rows)

    def explain(self, desk: Desk) -> Sequence[str]:
        """Which way it would be released, what else was looked at, and the error to expect."""
        task = self._task(desk)
        whom = describe_unit(task.table, desk.neighbours.value)
        notes = [f"note: {note}" for note in _left_out(task)]
        return [*whom, *task.describe(), f"cost: {task.loss}", desk.remaining_text(task.loss), *notes]

    def _task(self, desk: Desk) -> MarginalTask:
        with importing():
            from duckdp.smooth.buy.marginal_task import plan_marginals

        return plan_marginals(
            desk.table(self.table),
            list(self.columns),
            self.k,
            epsilon_nano=parse_epsilon(self.epsilon),
            neighbours=desk.neighbours,
            delta_atto=parse_delta(self.delta),
        )
