"""Many counts at once from a small database that is chosen privately (the net mechanism)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckdp.catalog.table import describe_unit
from duckdp.compiler.grouping import read_keys
from duckdp.compiler.net_task import NetTask
from duckdp.compiler.printing import quote
from duckdp.compiler.weighted_stream import require_cells
from duckdp.core.types import parse_epsilon
from duckdp.errors import ParameterError
from duckdp.functions.kinds import ColumnNames, Epsilon, Fresh, Predicates, Size, TableName
from duckdp.functions.planned import Planned, read_questions
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.result import Result, plain_result

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

MOST_QUESTIONS = 256  # of one small database: each is held against all there are to choose from


@dp_function("dp_small_database", costs="epsilon", example="'care', ['sex'], ['sex = ''female'''], epsilon := 0.1")
@dataclass(frozen=True, kw_only=True)
class SmallDatabase(Explained):
    """About how many units fulfil each predicate of a list, from a small database chosen for all of them at once."""

    table: TableName = argument()
    columns: ColumnNames = argument(about="columns with domains of few values, of which questions may be")
    questions: Predicates = argument(about="counts that are asked: predicates of these columns")
    epsilon: Epsilon | None = option(None)
    size: Size | None = option(None, about="rows of the small database; chosen by the error bound if left out")
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A row for each question."""
        task = self._task(desk)
        shape = [("question", "VARCHAR"), ("value", "DOUBLE"), ("within", "DOUBLE")]

        def run(nonce: str) -> Result:
            text = f"dp_small_database({task.table.name}, {list(self.columns)}, {len(self.questions)} questions)"
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce)
            values, within = task.answers(done.payload)
            found = [(question, value, within) for question, value in zip(self.questions, values, strict=True)]
            made = plain_result([n for n, _ in shape], found, [t for _, t in shape])
            note = "within: the mechanism's bound on all errors together, where each unit is in one cell"
            return desk.dress(made.columns, task.loss, done, notes=[note])

        return Planned(columns=shape, run=run, rows=len(self.questions))

    def explain(self, desk: Desk) -> Sequence[str]:
        """How many databases there are to choose from, and the error bound."""
        task = self._task(desk)
        whom = describe_unit(task.table, task.neighbours.value)
        return [*whom, *task.describe(), f"cost: {task.loss}", desk.remaining_text(task.loss)]

    def _task(self, desk: Desk) -> NetTask:
        table, names = desk.table(self.table), list(self.columns)
        if not names:
            raise ParameterError("P107", "columns", names, "must not be empty.")
        keys = read_keys(", ".join(map(quote, names)), table)
        require_cells(keys, names)
        questions = read_questions(self.questions, table, keys, MOST_QUESTIONS)
        task = NetTask(
            table=table,
            keys=keys,
            questions=questions,
            size=self.size,
            epsilon_nano=parse_epsilon(self.epsilon),
            neighbours=desk.neighbours,
        )
        _ = task.net
        return task
