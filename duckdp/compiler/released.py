"""Released cells as aggregates ask for them, and what their numbers stand for."""

from __future__ import annotations

import datetime as dt
import math
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Kind, Scalar
from duckdp.compiler.aggregates import Released, aggregate_row
from duckdp.compiler.expression import Aggregate, Call
from duckdp.compiler.facts import date_bounds, facts
from duckdp.compiler.measures import Measure, counter_of
from duckdp.compiler.plan import Plan
from duckdp.compiler.spreads import Spread, as_cells, spread_cells

Floats = NDArray[np.float64]
EPOCH = dt.datetime(1970, 1, 1)
_DAY = 86_400  # seconds
_FIRST_DAY, _LAST_DAY = ((day - EPOCH.date()).days for day in (dt.date.min, dt.date.max))  # from 1970


def released(plan: Plan, measure: Measure, aggregate: Aggregate, cells: Floats) -> Released:
    """The cells of a measure, with what an aggregate asks of them."""
    whole = aggregate.argument is not None and facts(aggregate.argument).integral
    noise = plan.noises[plan.measures.index(measure)]
    assert measure.kind != "centred"  # it is made cells before (spreads.as_cells)
    assert measure.kind != "weights"  # they serve no aggregate
    span = (measure.degree, *bounds_of(measure, aggregate), measure.steps)
    return Released(measure.kind, *span, cells, option=aggregate.option, noise=noise, whole=whole)


def bounds_of(measure: Measure, aggregate: Aggregate) -> tuple[float, float]:
    """Between what the aggregate's argument lies: as far from the measure's bounds as the arguments are apart."""
    shift = measure.shift(aggregate) or 0.0
    return measure.lower + shift, measure.upper + shift


def places_of(plan: Plan, measure: Measure) -> list[int]:
    """Where the cells stand that an aggregate of a measure follows from: of a centred sum, those of the count too."""
    starts = list(accumulate((m.cells for m in plan.measures), initial=0))

    def own(one: Measure) -> list[int]:
        at = plan.measures.index(one)
        return list(range(starts[at], starts[at] + one.cells))

    return own(measure) + (own(counter_of(plan.measures, measure)) if measure.kind == "centred" else [])


def valued(plan: Plan, measure: Measure, aggregate: Aggregate, cells: Floats) -> tuple[Floats, Floats]:
    """Value and gradient of an aggregate from the cells at :func:`places_of` its measure."""
    rule = aggregate_row(aggregate).value
    if measure.kind != "centred":
        return rule(released(plan, measure, aggregate, cells))
    to_cells = as_cells(plan.measures, measure)
    value, gradient = rule(Released("cells", 1, *bounds_of(measure, aggregate), 1.0, to_cells @ cells))
    return value, to_cells.T @ gradient


def named_value(aggregate: Aggregate, number: float) -> Scalar:
    """What a number stands for: a label, a day, a moment, or itself; days and moments lie where rows have them.

    Bins may reach beyond the bounds, and beyond the calendar too.
    """
    if math.isnan(number):
        return None
    if aggregate.labels:
        return aggregate.labels[min(max(int(number), 0), len(aggregate.labels) - 1)]
    if aggregate.kind in (Kind.DATE, Kind.TIMESTAMP):
        assert isinstance(aggregate.argument, Call)
        ends = date_bounds(aggregate.argument.arguments[-1])
        assert ends is not None  # or it is refused
        if aggregate.kind is Kind.DATE:
            day = EPOCH.date() + dt.timedelta(days=int(min(max(number, _FIRST_DAY), _LAST_DAY)))
            return min(max(day, ends[0]), ends[1])
        seconds = math.floor(min(max(number, _FIRST_DAY * _DAY), (_LAST_DAY + 1) * _DAY - 1))
        return min(max(EPOCH + dt.timedelta(seconds=seconds), ends[0]), ends[1])
    return number


def expected_cells(plan: Plan, rows: float | None, spread: Spread) -> list[int]:
    """Cells of a group of so many rows that lie as a spread says: from public figures only."""
    return [int(cell) for measure in plan.measures for cell in spread_cells(measure, rows or 0, spread)]
