"""A plan's released cells as the result that people see."""

from __future__ import annotations

import math
from collections.abc import Sequence

from duckdp.compiler.enclosed_ends import makes_null
from duckdp.compiler.evaluate import evaluate, known_payload
from duckdp.compiler.notes import NO_END, OF_NOTHING, output_note, plan_caveat, plan_notes
from duckdp.compiler.output_columns import OutputColumn
from duckdp.compiler.plan import Plan
from duckdp.result import Estimate, Result, ResultColumn

UNDEFINED = "undefined: the noisy count is too small"
MADE_NULL = "NULL: a cast, nullif or CASE makes it so, or a noisy count in it is too small"


def answer_columns(plan: Plan, payload: str, *, bars: bool = True) -> list[ResultColumn]:
    """Columns of a SELECT's answer, every released number with its error and what must be known of it.

    Without ``bars`` values alone, for whoever asked for no intervals.
    """
    exprs = [o.expr for o in plan.query.outputs]
    if not bars:
        return [
            ResultColumn(name=c.name, type=c.shape.type, values=c.values) for c in evaluate(plan, payload, bars=False)
        ]
    found = zip(evaluate(plan, payload), exprs, strict=True)
    return [_column(c, output_note(plan, e), MADE_NULL if makes_null(e) else UNDEFINED) for c, e in found]


def known_answer(plan: Plan, remaining: str) -> Result:
    """The answer of a plan that reads nothing; free, and no charge is noted."""
    return Result(
        columns=answer_columns(plan, known_payload(plan)),
        source="known without the data",
        remaining=remaining,
        notes=plan_notes(plan),
        caveat=plan_caveat(plan),
    )


def _column(column: OutputColumn, note: str | None, missing: str) -> ResultColumn:
    kind = column.shape.type
    if column.low is None or column.high is None or column.standard_error is None:
        return ResultColumn(name=column.name, type=kind, values=column.values)
    numbers = (found.tolist() for found in (column.standard_error, column.low, column.high))
    missing = "undefined: no row can count" if note in OF_NOTHING else missing
    estimates = [
        Estimate(value=None, note=missing)
        if value is None
        else _estimate(value, ends, note, exact=column.exact_interval)
        for value, *ends in zip(column.values, *numbers, strict=True)
    ]
    return ResultColumn(name=column.name, type=kind, values=column.values, estimates=estimates)


def _estimate(value: float | int, ends: Sequence[float], note: str | None, *, exact: bool) -> Estimate:
    """One figure with its standard error and the ends of its interval, NaN where it has none."""
    error, low, high = ends
    if math.isnan(low) or math.isnan(high):
        return Estimate(value=value, exact=False, note=NO_END if note is None else f"{NO_END}; {note}")
    return Estimate(value=value, standard_error=error, low=low, high=high, exact=exact, note=note)
