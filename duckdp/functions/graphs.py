"""Figures of graphs whose edges are private rows and whose vertices are public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from duckdp.catalog.table import Table, describe_unit
from duckdp.compiler.describe import pretty
from duckdp.compiler.edges import SpanningTreeTask, plan_spanning_tree
from duckdp.compiler.grouping import read_keys
from duckdp.compiler.notes import bounding_note, drops_rows
from duckdp.compiler.printing import quote
from duckdp.compiler.query import Key
from duckdp.core.types import parse_epsilon
from duckdp.errors import ParameterError
from duckdp.functions.kinds import CHOICE, ColumnName, Epsilon, Flag, Fresh, Predicate, TableName
from duckdp.functions.planned import Planned, predicate_text, read_where, with_errors, with_note
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.mechanisms.smooth_sensitivity import NO_INTERVAL_REASON
from duckdp.result import Estimate, Result, ResultColumn

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

TreeWay = Annotated[Literal["auto", "smooth", "laplace"], CHOICE]


@dp_function("dp_mst_cost", forms=("table", "value"), costs="epsilon", example="'roads', 'a', 'b', 'km', epsilon := 1")
@dataclass(frozen=True, kw_only=True)
class MstCost(Explained):
    """The cost of a minimum spanning tree of private edges between public vertices."""

    table: TableName = argument()
    start: ColumnName = argument(sql="u", about="one end of an edge: a column with a domain")
    end: ColumnName = argument(sql="v", about="the other end")
    weight: ColumnName = argument(sql="weight", about="the edge's weight: a column with bounds")
    epsilon: Epsilon | None = option(None)
    predicate: Predicate | None = option(None)
    method: TreeWay = option("auto", about='the noise\'s scale; "auto" has the least error expected')
    intervals: Flag = option(
        False, tabled=True, about="whether a part of epsilon buys an interval; free where the scale is public"
    )
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """One number, with its interval if asked."""
        task = self._task(desk)
        caveat = bounding_note(task.table) if drops_rows(task.table) else None
        shown = task.intervals

        def run(nonce: str) -> Result:
            listed = f"{task.table.name}, {self.start}, {self.end}, {self.weight}"
            text = f"dp_mst_cost({listed}{predicate_text(self.predicate)})"
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce)
            found = task.read(done.payload)
            known = found if shown else Estimate(value=found.value, note=NO_INTERVAL_REASON)
            column = ResultColumn(name="value", type="DOUBLE", values=[found.value], estimates=[known])
            notes = [*([] if caveat is None else [caveat]), *([] if shown else [NO_INTERVAL_REASON])]
            return desk.dress([column], task.loss, done, notes=notes, caveat=caveat)

        if shown:
            return Planned(columns=with_errors([("value", "DOUBLE")], caveat), run=run, intervals=True, rows=1)
        return with_note([("value", "DOUBLE")], run, noted=caveat is not None, rows=1)

    def explain(self, desk: Desk) -> Sequence[str]:
        """The noise, how epsilon is split, and the error that is expected."""
        task = self._task(desk)
        where = f" where {pretty(task.where)}" if task.where is not None else ""
        first, *others = task.describe()
        return [
            first,
            *(f"  {line}" for line in describe_unit(task.table, task.neighbours.value)),
            f"  reads: {task.table.name}{where}",
            *(f"  {line}" for line in others),
            f"cost: {task.loss}",
            desk.remaining_text(task.loss),
            *([f"note: {bounding_note(task.table)}"] if drops_rows(task.table) else []),
        ]

    def _task(self, desk: Desk) -> SpanningTreeTask:
        table = desk.table(self.table)
        if self.method not in ("auto", "smooth", "laplace"):
            raise ParameterError("P107", "method", self.method, "must be auto, smooth or laplace.")
        return plan_spanning_tree(
            table,
            (self._end(self.start, "start", table), self._end(self.end, "end", table)),
            self.weight,
            read_where(self.predicate, table),
            epsilon_nano=parse_epsilon(self.epsilon),
            neighbours=desk.neighbours,
            method=self.method,
            intervals=self.intervals,
        )

    def _end(self, name: str, role: str, table: Table) -> Key:
        (key,) = read_keys(quote(name), table)
        if key.domain is None:
            rule = "has no declared domain, so which vertices there are is private. Ask the owner for domains={...}."
            raise ParameterError("P107", role, name, rule)
        return key
