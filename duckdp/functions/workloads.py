"""A table of weighted cells that answers a workload of counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duckdp.catalog.table import Kind, describe_unit
from duckdp.compiler.evaluate import key_type
from duckdp.compiler.grouping import read_keys
from duckdp.compiler.printing import quote
from duckdp.compiler.weighted_stream import asked_of, read_linear_of_cells, require_cells
from duckdp.compiler.workload import WorkloadTask
from duckdp.core.types import parse_epsilon
from duckdp.errors import ParameterError
from duckdp.functions.kinds import ColumnNames, Epsilon, Fresh, Predicates, Size, TableName
from duckdp.functions.planned import Planned, read_questions
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.result import Result, ResultColumn

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

MOST_ROUNDS = 50  # of one workload: each reads all of its counts
USUAL_ROUNDS = 10  # where nobody says how many
MOST_LOOKED_AT = 20_000_000  # bytes of all questions' cells together, held at once
NUMBER_BYTES = 8  # of a cell of a question that is a number; of a predicate's, 1
ASKED = "counts of units that matter: predicates of these columns; or numbers from 0 to 1, NULL as 0, whose sums do"
TOLD = "count: by weights that fit what was measured; nothing says how well they answer what was not"


@dp_function("dp_mwem", costs="epsilon", example="'care', ['sex'], [$$sex = 'female'$$], epsilon := 1, rounds := 1")
@dataclass(frozen=True, kw_only=True)
class Workload(Explained):
    """A synthetic table of cells with counts of units, fitted to the questions of a workload that it answers worst."""

    table: TableName = argument()
    columns: ColumnNames = argument(about="columns with domains, whose values together are the cells")
    questions: Predicates = argument(about=ASKED)
    epsilon: Epsilon | None = option(None)
    rounds: Size | None = option(None, about="how many questions are measured, at most 50; left out, 10")
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A row for each cell."""
        task = self._task(desk)
        name = "count"
        while name in (key.name.lower() for key in task.keys):
            name += "_"
        shape = [*((key.name, key_type(key)) for key in task.keys), (name, "DOUBLE")]

        def run(nonce: str) -> Result:
            text = f"dp_mwem({task.table.name}, {list(self.columns)}, {len(self.questions)} questions)"
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce)
            cells, counts = task.read(done.payload)
            found: list[list[Any]] = [*([cell[i] for cell in cells] for i in range(len(task.keys))), counts]
            columns = [ResultColumn(name=n, type=t, values=v) for (n, t), v in zip(shape, found, strict=True)]
            return desk.dress(columns, task.loss, done, notes=[TOLD, *self._of_units(task)])

        return Planned(columns=shape, run=run, rows=task.cells)

    def explain(self, desk: Desk) -> Sequence[str]:
        """How many cells and questions, what is measured, and at what cost."""
        task = self._task(desk)
        first, *others = task.describe()
        whom = [*describe_unit(task.table, task.neighbours.value), f"reads: {task.table.name}; {task.rounds + 1} reads"]
        notes = [f"note: {note}" for note in self._of_units(task)]
        lines = [first, *(f"  {line}" for line in whom), *others]
        return [*lines, f"cost: {task.loss}", desk.remaining_text(task.loss), *notes]

    def _of_units(self, task: WorkloadTask) -> list[str]:
        """What is counted, where that is not rows."""
        unit = task.table.unit_key
        each = f"each {unit} once in a question that any of its rows fulfils"
        return [] if unit is None else [f"count: of the values of {unit}, not of rows, {each}"]

    def _task(self, desk: Desk) -> WorkloadTask:
        table, names = desk.table(self.table), list(self.columns)
        if not names:
            raise ParameterError("P107", "columns", names, "must not be empty.")
        keys = read_keys(", ".join(map(quote, names)), table)
        require_cells(keys, names)
        questions = read_questions(self.questions, table, keys, read=read_linear_of_cells)
        rounds = min(USUAL_ROUNDS, len(questions)) if self.rounds is None else self.rounds
        if rounds > min(MOST_ROUNDS, len(questions)):
            rule = f"must be at most {min(MOST_ROUNDS, len(questions))}: {MOST_ROUNDS}, and the questions there are."
            raise ParameterError("P107", "rounds", rounds, rule)
        task = WorkloadTask(
            table=table,
            keys=keys,
            questions=questions,
            rounds=rounds,
            epsilon_nano=parse_epsilon(self.epsilon),
            neighbours=desk.neighbours,
        )
        numbers = sum(question.kind is Kind.NUMBER for question in questions)
        if task.cells * (len(questions) + (NUMBER_BYTES - 1) * numbers) > MOST_LOOKED_AT:
            eight = f", a number counted as {NUMBER_BYTES}," if numbers else ""
            rule = f"times {task.cells:,} cells{eight} is over {MOST_LOOKED_AT:,}. Ask for fewer, or of fewer columns."
            raise ParameterError("P107", "questions", len(questions), rule)
        for question, text in zip(questions, self.questions, strict=True):
            if question.kind is Kind.NUMBER:
                asked_of(keys, question, text)  # refuses what is not from 0 to 1, before anything is charged
        _ = task.worst
        return task
