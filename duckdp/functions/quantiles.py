"""Several quantiles of a column at once, in each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from duckdp.catalog.table import describe_unit
from duckdp.compiler.describe import pretty
from duckdp.compiler.notes import bounding_note, drops_rows
from duckdp.compiler.quantile_levels import QuantilesTask, plan_quantiles
from duckdp.core.types import parse_epsilon
from duckdp.functions.kinds import ColumnName, Epsilon, Flag, Fresh, Keys, Numbers, Predicate, TableName
from duckdp.functions.planned import Planned, predicate_text, read_where, with_errors
from duckdp.functions.public_groups import grouping_text, key_columns, read_public_keys
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.result import Result, ResultColumn

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk


@dp_function("dp_quantiles", costs="epsilon", example="'care', 'age', [0.25, 0.5, 0.75], epsilon := 0.5")
@dataclass(frozen=True, kw_only=True)
class Quantiles(Explained):
    """Several quantiles of a column at once, the least and the largest value among them if asked, in each group."""

    table: TableName = argument()
    column: ColumnName = argument()
    quantiles: Numbers = argument(about="which, from 0 to 1, ascending: 0.5 is the median, 0 the least value")
    epsilon: Epsilon | None = option(None)
    groups: Keys | None = option(None)
    predicate: Predicate | None = option(None)
    intervals: Flag = option(True, about="whether half of epsilon buys an interval for each")
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A row for each group and quantile."""
        task = self._task(desk)
        keys, kind = task.rows.keys, "BIGINT" if task.column.integral else "DOUBLE"
        named, asked = [*key_columns(keys, _TAKEN), ("quantile", "DOUBLE")], [float(q) for q in task.quantiles]
        groups = list(product(*(key.domain or () for key in keys)))
        caveat = bounding_note(task.table, grouped=bool(keys)) if drops_rows(task.table) else None
        listed = f"{task.table.name}, {task.column.name}, {list(self.quantiles)}"
        by = "" if self.groups is None else f", groups := {grouping_text(self.groups)}"

        def run(nonce: str) -> Result:
            text = f"dp_quantiles({listed}{by}{predicate_text(self.predicate)})"
            older = (replace(task, round=False),) if task.grid.measure.levels else ()  # as it was once planned
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce, before=older)
            found = [estimate for group in task.read(done.payload) for estimate in group]
            cells: list[list[Any]] = [[group[i] for group in groups for _ in asked] for i in range(len(keys))]
            columns = [
                ResultColumn(name=n, type=t, values=v)
                for (n, t), v in zip(named, [*cells, [*asked] * len(groups)], strict=True)
            ]
            bought = found if self.intervals else None
            columns.append(ResultColumn(name="value", type=kind, values=[e.value for e in found], estimates=bought))
            notes = [] if caveat is None else [caveat]
            return desk.dress(columns, task.loss, done, notes=notes, caveat=caveat if self.intervals else None)

        shape, rows = [("value", kind)], len(asked) * len(groups)
        if self.intervals:
            return Planned(columns=[*named, *with_errors(shape, caveat)], run=run, intervals=True, rows=rows)
        return Planned(columns=[*named, *shape], run=run, rows=rows)

    def explain(self, desk: Desk) -> Sequence[str]:
        """The draws, their cost, and how far a rank may be off."""
        task = self._task(desk)
        where = f" where {pretty(task.rows.where)}" if task.rows.where is not None else ""
        first, *others = task.describe()
        return [
            first,
            *(f"  {line}" for line in describe_unit(task.table, task.neighbours.value)),
            f"  reads: {task.table.name}{where}",
            *(f"  {line}" for line in others),
            f"cost: {task.loss}",
            desk.remaining_text(task.loss),
            *([f"note: {bounding_note(task.table, grouped=bool(task.rows.keys))}"] if drops_rows(task.table) else []),
        ]

    def _task(self, desk: Desk) -> QuantilesTask:
        table = desk.table(self.table)
        return plan_quantiles(
            table,
            self.column,
            self.quantiles,
            read_where(self.predicate, table),
            read_public_keys(self.groups, table),
            epsilon_nano=parse_epsilon(self.epsilon),
            neighbours=desk.neighbours,
            intervals=self.intervals,
        )


_TAKEN = ("quantile", "value", "standard_error", "low", "high", "note")  # names of the columns beside the keys
