"""Medians and other quantiles by smooth sensitivity, in groups and with intervals too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from duckdp.catalog.table import describe_unit
from duckdp.compiler.describe import pretty
from duckdp.compiler.notes import bounding_note, drops_rows
from duckdp.compiler.quantile import QuantileTask, plan_quantile
from duckdp.compiler.query import group_count
from duckdp.compiler.smooth_quantiles import MOST_GROUPS, SmoothQuantilesTask, plan_smooth_quantiles
from duckdp.core.types import parse_delta, parse_epsilon
from duckdp.functions.explanation import explain_quantile
from duckdp.functions.kinds import ColumnName, Delta, Epsilon, Flag, Fresh, Keys, Number, Predicate, TableName
from duckdp.functions.planned import Planned, predicate_text, read_where, with_errors, with_note
from duckdp.functions.public_groups import grouping_text, key_cells, key_columns, read_public_keys
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.mechanisms.smooth_sensitivity import NO_INTERVAL_REASON
from duckdp.result import Estimate, Result, ResultColumn

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk


_TAKEN = ("value", "standard_error", "low", "high", "note")  # names of the columns beside the keys


@dp_function(
    "dp_median_smooth",
    forms=("table", "value"),
    costs="epsilon, delta",
    example="'care', 'medical_dollars', epsilon := 0.5",
)
@dataclass(frozen=True, kw_only=True)
class MedianSmooth(Explained):
    """A median, or another quantile, by smooth sensitivity; in each group, and with a bought interval, if asked."""

    table: TableName = argument()
    column: ColumnName = argument()
    epsilon: Epsilon | None = option(None)
    delta: Delta = option(0, about="above 0 it takes Laplace noise, which is less")
    predicate: Predicate | None = option(None)
    quantile: Number = option(0.5, about="which quantile, between 0 and 1")
    groups: Keys | None = option(None, tabled=True)
    intervals: Flag = option(False, tabled=True, about="whether a part of epsilon buys an interval (95%)")
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """One number for each group; without an interval if none is bought."""
        return self._one(desk) if self._plain else self._several(desk)

    def explain(self, desk: Desk) -> Sequence[str]:
        """The noise's law, what its scale depends on, and with groups or intervals how epsilon is split."""
        if self._plain:
            one = self._task(desk)
            return explain_quantile(one, desk.remaining_text(one.loss))
        task = self._tasks(desk)
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

    @property
    def _plain(self) -> bool:
        return self.groups is None and not self.intervals

    def _one(self, desk: Desk) -> Planned:
        task = self._task(desk)
        kind = "BIGINT" if task.column.integral else "DOUBLE"
        caveat = bounding_note(task.table) if drops_rows(task.table) else None

        def run(nonce: str) -> Result:
            text = f"dp_median_smooth({task.table.name}, {task.column.name}{predicate_text(self.predicate)})"
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce)
            value = json.loads(done.payload)["value"]
            estimate = Estimate(value=value, note=NO_INTERVAL_REASON)
            column = ResultColumn(name="value", type=kind, values=[value], estimates=[estimate])
            notes = [NO_INTERVAL_REASON] if caveat is None else [caveat, NO_INTERVAL_REASON]
            return desk.dress([column], task.loss, done, notes=notes, caveat=caveat)

        return with_note([("value", kind)], run, noted=caveat is not None, rows=1)

    def _several(self, desk: Desk) -> Planned:
        """A row for each group."""
        task = self._tasks(desk)
        keys, kind = task.rows.keys, "BIGINT" if task.column.integral else "DOUBLE"
        named, count = key_columns(keys, _TAKEN), group_count(keys)
        caveat = bounding_note(task.table, grouped=bool(keys)) if drops_rows(task.table) else None
        by = "" if self.groups is None else f", groups := {grouping_text(self.groups)}"

        def run(nonce: str) -> Result:
            listed = f"{task.table.name}, {task.column.name}"
            text = f"dp_median_smooth({listed}{by}{predicate_text(self.predicate)})"
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce)
            found = task.read(done.payload)
            columns = key_cells(keys, _TAKEN, 1)
            bought = found if self.intervals else [Estimate(value=e.value, note=NO_INTERVAL_REASON) for e in found]
            columns.append(ResultColumn(name="value", type=kind, values=[e.value for e in found], estimates=bought))
            notes = [] if caveat is None else [caveat]
            return desk.dress(
                columns,
                task.loss,
                done,
                notes=notes if self.intervals else [*notes, NO_INTERVAL_REASON],
                caveat=caveat,
            )

        if self.intervals:
            columns = [*named, *with_errors([("value", kind)], caveat)]
            return Planned(columns=columns, run=run, intervals=True, rows=count)
        return with_note([*named, ("value", kind)], run, noted=caveat is not None, rows=count)

    def _task(self, desk: Desk) -> QuantileTask:
        table = desk.table(self.table)
        return plan_quantile(
            table,
            self.column,
            read_where(self.predicate, table),
            epsilon_nano=parse_epsilon(self.epsilon),
            delta_atto=parse_delta(self.delta),
            quantile=Fraction(str(self.quantile)),
            neighbours=desk.neighbours,
        )

    def _tasks(self, desk: Desk) -> SmoothQuantilesTask:
        table = desk.table(self.table)
        return plan_smooth_quantiles(
            table,
            self.column,
            Fraction(str(self.quantile)),
            read_where(self.predicate, table),
            read_public_keys(self.groups, table, MOST_GROUPS),
            epsilon_nano=parse_epsilon(self.epsilon),
            delta_atto=parse_delta(self.delta),
            neighbours=desk.neighbours,
            intervals=self.intervals,
        )
