"""A stream of counts and sums, answered from public weights that are mended where they are wrong (PMW)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from duckdp.compiler.grouping import read_keys
from duckdp.compiler.printing import quote
from duckdp.compiler.weighted_stream import MECHANISM, WeightedStream, require_cells
from duckdp.core.types import parse_epsilon
from duckdp.errors import CatalogError, ParameterError
from duckdp.functions.kinds import ColumnNames, Epsilon, Fresh, LinearQuestion, Size, TableName
from duckdp.functions.planned import Planned, with_errors
from duckdp.functions.spec import DpFunction, Explained, argument, dp_function, option
from duckdp.result import Estimate, Result, ResultColumn

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

MOST_HITS = 200  # of one handle: with each question the weights are found from all that were measured
SEVERAL = "a unit with rows in several cells counts in each: then more is measured, and the intervals hold all the same"
ASKED = (
    "which rows, as WHERE takes it; or a number of each, from 0 to 1 for all values of the handle's columns, NULL as "
    "0: of a unit with several rows the largest counts"
)
MEASURED = "answers that are measured where the weights are wrong; with so many it ends"


@dp_function(
    "dp_pmw_open",
    forms=("table", "value"),
    fields=("handle",),
    costs="epsilon; every question is free",
    example="'care', ['sex'], epsilon := 1",
)
@dataclass(frozen=True, kw_only=True)
class WeightsOpen(Explained):
    """A handle for `dp_pmw_answer`: counts and sums over some columns, until so many had to be measured."""

    table: TableName = argument()
    columns: ColumnNames = argument(about="columns with domains, of which questions may be")
    epsilon: Epsilon | None = option(None)
    hits: Size = option(10, about=MEASURED)
    threshold: Size | None = option(None, about="from how many units on the weights are wrong; chosen if left out")
    fresh: Fresh = option(False, explained=False, about="pay again, for another handle")

    def plan(self, desk: Desk) -> Planned:
        """One row with the handle, and what it begins with."""
        task = self._task(desk)
        shape = [("handle", "BIGINT"), ("cells", "BIGINT"), ("within", "BIGINT")]

        def run(nonce: str) -> Result:
            opened = replace(task, opened=nonce if self.fresh else "")
            text = f"dp_pmw_open({task.table.name}, {list(self.columns)}, hits := {self.hits})"
            done = desk.open_release(opened, table=task.table, statement=text)
            values = [done.charge_id, task.cells, task.weights.unmeasured_error]
            made = [ResultColumn(name=n, type=t, values=[v]) for (n, t), v in zip(shape, values, strict=True)]
            note = "within: with 95%, how far all answers that are not measured are from the count, together"
            return desk.dress(made, task.loss, done, notes=[note])

        return Planned(columns=shape, run=run, rows=1)

    def explain(self, desk: Desk) -> Sequence[str]:
        """How many cells, how far answers may be off, and at what cost."""
        task = self._task(desk)
        law = task.weights
        return [
            f"weights over {task.cells:,} cells, mended up to {self.hits} times where they are off by some {law.off:,}",
            f"95%: answers of the weights are within {law.unmeasured_error:,}, all of them; a measured one is within "
            f"{law.measured_error:,}",
            f"a sum of numbers from 0 to 1 is rounded: within {task.sum_rounding:.4g} more",
            *([SEVERAL] if task.table.unit_key is not None and task.table.max_rows > 1 else []),
            f"cost: {task.loss}",
            desk.remaining_text(task.loss),
        ]

    def _task(self, desk: Desk) -> WeightedStream:
        if self.hits > MOST_HITS:
            raise ParameterError("P107", "hits", self.hits, f"must be at most {MOST_HITS:,}.")
        terms = {"columns": self.columns, "hits": self.hits, "threshold": self.threshold, "opened": ""}
        task = _stream(desk, {"table": self.table, **terms}, parse_epsilon(self.epsilon))
        _ = task.weights.vector.shares
        return task


@dp_function("dp_pmw_answer", forms=("table", "value"))
@dataclass(frozen=True, kw_only=True)
class WeightsAnswer(DpFunction):
    """About how many units fulfil a predicate, or the sum of a number from 0 to 1; the handle paid for it."""

    handle: Size = argument(about="of `dp_pmw_open`")
    predicate: LinearQuestion = argument(about=ASKED)

    def plan(self, desk: Desk) -> Planned:
        """One row: the count or sum, whether it was measured, and how many measured answers are left."""
        charge = desk.own_charge(self.handle)
        if charge.mechanism != MECHANISM:
            raise CatalogError("C110", f"charge {charge.id} is no handle. dp_pmw_open gives one.")
        task = _stream(desk, json.loads(charge.parameters), charge.loss.epsilon_nano)
        asked = task.read(self.predicate)
        question, rounding = task.question(asked, self.predicate), task.rounding(asked)
        shape = [("value", "DOUBLE"), ("measured", "BOOLEAN"), ("hits_left", "BIGINT")]

        def run(_: str) -> Result:
            found = json.loads(desk.ask_on(charge, task, [task.first(), question], table=task.table)[-1])
            estimate = _estimate(task, found, rounding)
            columns = [
                ResultColumn(name="value", type="DOUBLE", values=[found["value"]], estimates=[estimate]),
                ResultColumn(name="measured", type="BOOLEAN", values=[found["measured"]]),
                ResultColumn(name="hits_left", type="BIGINT", values=[found["left"]]),
            ]
            return Result(columns=columns, source=f"charge {charge.id}")

        return Planned(columns=shape + with_errors(shape[:1])[1:], run=run, intervals=True, rows=1)


def _stream(desk: Desk, given: Mapping[str, Any], epsilon_nano: int) -> WeightedStream:
    """The task of these terms: of a call, or of what the charge of a handle says."""
    table, names = desk.table(given["table"]), list(given["columns"])
    if not names:
        raise ParameterError("P107", "columns", names, "must not be empty.")
    keys = read_keys(", ".join(map(quote, names)), table)
    require_cells(keys, names)
    return WeightedStream(
        table=table,
        keys=keys,
        threshold=given["threshold"],
        hits=given["hits"],
        epsilon_nano=epsilon_nano,
        neighbours=desk.neighbours,
        opened=given["opened"],
    )


def _estimate(task: WeightedStream, found: Mapping[str, Any], rounding: float) -> Estimate:
    """Of an answer and how far rounding may have moved what is asked; that is no noise, and widens both ends."""
    law, value = task.weights, found["value"]
    width = rounding + (law.measured_error if found["measured"] else law.unmeasured_error)
    error = math.sqrt(law.vector.value_noise.variance() + rounding**2) if found["measured"] else None
    return Estimate(value=value, standard_error=error, low=max(0, value - width), high=max(0, value + width))
