"""Several quantiles of a column at once, in each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal

from duckdp.catalog.table import describe_unit
from duckdp.compiler.describe import pretty
from duckdp.compiler.notes import bounding_note, drops_rows
from duckdp.compiler.quantile_methods import Choice, SmoothOne, choose
from duckdp.compiler.quantile_rows import MOST_PARTS, read_quantiles
from duckdp.compiler.query import Key
from duckdp.core.types import parse_epsilon
from duckdp.functions.kinds import CHOICE, ColumnName, Epsilon, Flag, Fresh, Keys, Number, Numbers, Predicate, TableName
from duckdp.functions.planned import Planned, predicate_text, read_where, with_errors
from duckdp.functions.public_groups import grouping_text, key_columns, read_public_keys
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.result import Result, ResultColumn

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

Method = Annotated[Literal["auto", "exponential", "tree", "smooth"], CHOICE]


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
    intervals: Flag = option(True, about="whether half of epsilon buys an interval for each; from a tree it is free")
    method: Method = option("auto", about="how: the one with the least predicted error, or the one that is named")
    step: Number | None = option(None, about="one quantile is chosen from the multiples of it, without an interval")
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A row for each group and quantile."""
        keys, choice = self._asked(desk)
        task, kind = choice.plan, "BIGINT" if choice.plan.column.integral else "DOUBLE"
        done_by = task.task if isinstance(task, SmoothOne) else task
        named, asked = (
            [*key_columns(keys, _TAKEN), ("quantile", "DOUBLE")],
            [float(q) for q in read_quantiles(self.quantiles)],
        )
        groups = list(product(*(key.domain or () for key in keys)))
        caveat = bounding_note(task.table, grouped=bool(keys)) if drops_rows(task.table) else None
        listed = f"{task.table.name}, {task.column.name}, {list(self.quantiles)}"
        by = "" if self.groups is None else f", groups := {grouping_text(self.groups)}"

        def run(nonce: str) -> Result:
            text = f"dp_quantiles({listed}{by}{predicate_text(self.predicate)})"
            done = desk.perform(
                done_by, table=task.table, statement=text, fresh=self.fresh, nonce=nonce, before=choice.older
            )
            found = [estimate for group in choice.read(done.payload) for estimate in group]
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
        keys, choice = self._asked(desk)
        task, where = choice.plan, read_where(self.predicate, choice.plan.table)
        first, *others = task.describe()
        return [
            first,
            *(f"  {line}" for line in describe_unit(task.table, desk.neighbours.value)),
            f"  reads: {task.table.name}{'' if where is None else f' where {pretty(where)}'}",
            *(f"  {line}" for line in others),
            *([f"  chosen by {choice.why}"] if choice.why else []),
            f"cost: {task.loss}",
            desk.remaining_text(task.loss),
            *([f"note: {bounding_note(task.table, grouped=bool(keys))}"] if drops_rows(task.table) else []),
        ]

    def _asked(self, desk: Desk) -> tuple[tuple[Key, ...], Choice]:
        table = desk.table(self.table)
        keys = read_public_keys(self.groups, table, MOST_PARTS)
        return keys, choose(
            table,
            self.column,
            self.quantiles,
            read_where(self.predicate, table),
            keys,
            epsilon_nano=parse_epsilon(self.epsilon),
            neighbours=desk.neighbours,
            intervals=self.intervals,
            method=self.method,
            step=self.step,
            parts_only=desk.parts_only,
        )


_TAKEN = ("quantile", "value", "standard_error", "low", "high", "note")  # names of the columns beside the keys
