"""What a statement would do: explanations, and results that come from a summary."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from duckdp.catalog.table import describe_unit
from duckdp.compiler.describe import describe_plan, pretty
from duckdp.compiler.drawn import drawn
from duckdp.compiler.notes import bounding_note, drops_rows, plan_notes, summary_note
from duckdp.compiler.pricing import Price
from duckdp.compiler.quantile import QuantileTask
from duckdp.compiler.query import Query
from duckdp.errors import printable
from duckdp.functions.routing import Route
from duckdp.mechanisms.smooth_sensitivity import NO_INTERVAL_REASON
from duckdp.result import Estimate, Result, ResultColumn


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a statement would do and cost; no data was touched.

    Attributes:
        plan: the plan, one step a line.
        cost: for example "epsilon=0.5".
        errors: expected 95% half-width per output; None where it depends on the number of rows.
        remaining: what is left now.
        notes: what a reader of the answer must know.
    """

    plan: str
    cost: str
    errors: Mapping[str, float | None]
    formulas: Mapping[str, str]
    remaining: str
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        expected = [
            f"  {name}: ± {width:.6g}" if width is not None else f"  {name}: {self.formulas[name]}"
            for name, width in self.errors.items()
        ]
        notes = [f"note: {n}" for n in self.notes]
        return printable(
            "\n".join([self.plan, f"cost: {self.cost}", "expected error (95%):", *expected, self.remaining, *notes])
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def explain_price(found: Price, remaining: str, lines: Sequence[str] = ()) -> Explanation:
    """A statement that is paid for, or known without the data; ``lines`` say why no summary answers it."""
    plan = found.plan
    return Explanation(
        plan="\n".join([drawn(describe_plan(plan)), *lines]),
        cost=str(plan.loss) if plan.reads else "nothing",
        errors=found.errors,
        formulas=found.formulas,
        remaining=remaining,
        notes=[*plan_notes(plan), *([] if found.basis is None else [found.basis])],
    )


def explain_quantile(task: QuantileTask, remaining: str) -> list[str]:
    """A quantile, line by line; how wide its noise is depends on the data, so that no error is known before."""
    where = f" where {pretty(task.where)}" if task.where is not None else ""
    return [
        f"release one number, {task.mechanism.rpartition('_')[2]} noise scaled by smooth sensitivity, {task.loss}",
        *(f"  {line}" for line in describe_unit(task.table, task.neighbours.value)),
        f"  reads: {task.table.name}{where}",
        f"  measure: quantile {float(task.quantile.quantile):g} of {task.column.name} in "
        f"[{task.column.lower}, {task.column.upper}]",
        f"cost: {task.loss}",
        "expected error (95%):",
        f"  value: {NO_INTERVAL_REASON}",
        remaining,
        *([f"note: {bounding_note(task.table)}"] if drops_rows(task.table) else []),
    ]


def explain_route(query: Query, route: Route, remaining: str) -> Explanation:
    """A statement that a summary answers."""
    widths = {
        o.name: (a.high - a.low) / 2
        for o, a in zip(query.outputs, route.answers, strict=True)
        if a.low is not None and a.high is not None
    }
    plan = "\n".join([f'answered from summary "{route.summary}", without reading the table', *route.why])
    caveat = summary_note(query.table)
    notes = [] if caveat is None else [caveat]
    return Explanation(plan=plan, cost="nothing", errors=widths, formulas={}, remaining=remaining, notes=notes)


def routed_result(query: Query, route: Route) -> Result:
    """The answers of a summary as the statement's result."""
    columns = []
    for output, found in zip(query.outputs, route.answers, strict=True):
        estimate = Estimate(
            value=found.value,
            standard_error=found.standard_error,
            low=found.low,
            high=found.high,
            note=f"the interval holds the approximation error, {found.approximation_error:.4g}",
        )
        columns.append(ResultColumn(name=output.name, type="DOUBLE", values=[found.value], estimates=[estimate]))
    notes = [f'answered from summary "{route.summary}", without reading the table']
    caveat = summary_note(query.table)
    if caveat is not None:
        notes.append(caveat)
    return Result(columns=columns, cost="nothing", source=f'summary "{route.summary}"', notes=notes, caveat=caveat)
