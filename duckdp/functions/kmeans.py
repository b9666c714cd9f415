"""k-means: centres of clusters, with how many rows are nearest to each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from duckdp.catalog.table import Column, Table, describe_unit
from duckdp.compiler.cluster_rows import ClusterRows
from duckdp.compiler.describe import pretty
from duckdp.compiler.kmeans import MOST_CENTERS, MOST_COLUMNS, MOST_MOVES, KMeansTask, Start, steady_moves
from duckdp.compiler.notes import bounding_note, drops_rows
from duckdp.compiler.order_rows import bounded_column
from duckdp.core.types import NANO, Neighbours, parse_epsilon
from duckdp.errors import ParameterError
from duckdp.functions.kinds import CHOICE, ColumnNames, Epsilon, Fresh, Predicate, Size, TableName
from duckdp.functions.planned import Planned, predicate_text, read_where, with_errors
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.result import Estimate, Result, ResultColumn

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

MOST_BLOCKS = 500  # distances of all pairs of blocks are found: a second
MOST_OF_BLOCKS = 60  # coordinates of the centres of a block: SQL of so many columns
PUBLIC_MOVES = 5  # where nobody says how many, of centres that begin anywhere
MOVED = (
    "low, high: with 95%, where the means of the rows lie that a centre was moved to last, all of one centre together"
)
UNMOVED = "no interval of centres: they are those of released counts of cells, or of blocks"
_STARTS: dict[str, Start] = {"auto": "cells", "cells": "cells", "iterations": "public", "blocks": "blocks"}

Method = Annotated[Literal["auto", "cells", "iterations", "blocks"], CHOICE]


@dp_function("dp_kmeans", costs="epsilon", example="'care', ['age', 'medical_dollars'], k := 3, epsilon := 1")
@dataclass(frozen=True, kw_only=True)
class KMeans(Explained):
    """k-means: centres of the rows in some columns, each with how many rows are nearest to it."""

    table: TableName = argument()
    columns: ColumnNames = argument(about="columns of numbers with bounds; each counts by the width of its bounds")
    k: Size = option(8, about="how many centres, at most 100")
    epsilon: Epsilon | None = option(None)
    method: Method = option(
        "auto", about="where centres come from: noisy counts of cells (auto), public places, blocks"
    )
    moves: Size | None = option(None, about="how often centres are moved to noisy means; left out, as noise allows")
    blocks: Size | None = option(None, about="how many, of that method, at most 500; left out, the root of the rows")
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A row for each centre, the one with the most rows first."""
        task = self._task(desk)
        caveat = bounding_note(task.table, grouped=False) if drops_rows(task.table) else None
        names = [column.name for column in task.columns]
        shape = [*((name, "DOUBLE") for name in names), (_free("count", names), "BIGINT")]
        bought = shape if task.moves else shape[-1:]

        def run(nonce: str) -> Result:
            text = f"dp_kmeans({task.table.name}, {names}, k := {self.k}{predicate_text(self.predicate)})"
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce)
            centers, counts = task.read(done.payload)
            found = [*(list(column) for column in zip(*centers, strict=True)), counts]
            columns = [
                _column(name, kind, estimates, told=(name, kind) in bought)
                for (name, kind), estimates in zip(shape, found, strict=True)
            ]
            notes = [*([] if caveat is None else [caveat]), MOVED if task.moves else UNMOVED]
            return desk.dress(columns, task.loss, done, notes=notes, caveat=caveat)

        errors = with_errors(bought, caveat)[len(bought) :]
        return Planned(columns=[*shape, *errors], run=run, intervals=True, rows=self.k)

    def explain(self, desk: Desk) -> Sequence[str]:
        """Where centres come from, noise, and cost."""
        task = self._task(desk)
        where = f" where {pretty(task.rows.where)}" if task.rows.where is not None else ""
        return [
            f"{self.k} centres of {', '.join(c.name for c in task.columns)}, {task.loss}",
            *(f"  {line}" for line in describe_unit(task.table, task.neighbours.value)),
            f"  reads: {task.table.name}{where}; {task.reads} reads",
            *(f"  {line}" for line in task.describe()),
            f"cost: {task.loss}",
            desk.remaining_text(task.loss),
            *([f"note: {bounding_note(task.table, grouped=False)}"] if drops_rows(task.table) else []),
            f"note: {MOVED if task.moves else UNMOVED}",
        ]

    def _task(self, desk: Desk) -> KMeansTask:
        table = desk.table(self.table)
        columns = self._columns(table)
        if self.method not in _STARTS:
            raise ParameterError("P107", "method", self.method, f"must be one of {', '.join(_STARTS)}.")
        if self.k > MOST_CENTERS:
            raise ParameterError("P107", "k", self.k, f"must be at most {MOST_CENTERS}.")
        if self.k > table.row_cap:
            raise ParameterError("P107", "k", self.k, f"must be at most {table.row_cap:,}, the most rows there may be.")
        start, epsilon_nano = _STARTS[self.method], parse_epsilon(self.epsilon)
        rows = ClusterRows(table=table, columns=columns, where=read_where(self.predicate, table))
        task = KMeansTask(
            rows=rows,
            k=self.k,
            start=start,
            moves=self._moves(start, rows, epsilon_nano, desk.neighbours),
            blocks=self._blocks(start, table, len(columns)),
            epsilon_nano=epsilon_nano,
            neighbours=desk.neighbours,
        )
        task.require()
        return task

    def _columns(self, table: Table) -> tuple[Column, ...]:
        if not self.columns:
            raise ParameterError("P107", "columns", list(self.columns), "must not be empty.")
        if len(self.columns) > MOST_COLUMNS:
            raise ParameterError("P107", "columns", len(self.columns), f"must be at most {MOST_COLUMNS}.")
        found = tuple(bounded_column(table, name) for name in self.columns)
        if len(set(found)) != len(found):
            raise ParameterError("P107", "columns", list(self.columns), "must differ: one of them stands twice.")
        for column in found:
            width = column.interval.upper - column.interval.lower
            if not 0 < width < math.inf:
                raise ParameterError(
                    "P107", "columns", column.name, "has bounds that leave no room, or too much of it."
                )
        return found

    def _moves(self, start: Start, rows: ClusterRows, epsilon_nano: int, neighbours: Neighbours) -> int:
        if self.moves is not None:
            if self.moves > MOST_MOVES:
                raise ParameterError("P107", "moves", self.moves, f"must be at most {MOST_MOVES}.")
            return self.moves
        if start == "public":
            return PUBLIC_MOVES
        if start == "blocks":
            return 0
        expected = rows.table.expected_rows or rows.table.row_cap
        changed = rows.unit * (1 if neighbours is Neighbours.ADD_REMOVE else 2)
        return steady_moves(expected, len(rows.columns), self.k, epsilon_nano / NANO, changed)

    def _blocks(self, start: Start, table: Table, columns: int) -> int:
        if start != "blocks":
            if self.blocks is not None:
                raise ParameterError("P107", "blocks", self.blocks, "are of method := 'blocks'.")
            return 0
        if self.k * columns > MOST_OF_BLOCKS:
            rule = f"times {columns} columns must be at most {MOST_OF_BLOCKS} by blocks. Take method := 'cells'."
            raise ParameterError("P107", "k", self.k, rule)
        if self.blocks is None:
            return min(max(math.isqrt(table.expected_rows or table.row_cap), 10), MOST_BLOCKS)
        if self.blocks > MOST_BLOCKS:
            raise ParameterError("P107", "blocks", self.blocks, f"must be at most {MOST_BLOCKS}.")
        return self.blocks


def _column(name: str, kind: str, estimates: list[Estimate], *, told: bool) -> ResultColumn:
    values = [one.value for one in estimates]
    return ResultColumn(name=name, type=kind, values=values, estimates=estimates if told else None)


def _free(name: str, taken: Sequence[str]) -> str:
    while name in (other.lower() for other in taken):
        name += "_"
    return name
