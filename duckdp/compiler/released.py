"""Released cells as aggregates ask for them, and what their numbers stand for."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Kind, Scalar
from duckdp.compiler.aggregates import Released
from duckdp.compiler.expression import Aggregate
from duckdp.compiler.facts import facts
from duckdp.compiler.measures import Measure
from duckdp.compiler.plan import Plan

Floats = NDArray[np.float64]
EPOCH = dt.datetime(1970, 1, 1)
# How the rows of a group may lie in their bounds: a quarter of the range about its middle, all at an end, half at each.
# By degree of the cells (mechanisms/simplex.py), the share of the rows in each; and the place of a sum.
SPREADS = (
    (((1.0,), (1 / 2, 1 / 2), (5 / 16, 6 / 16, 5 / 16)), 1 / 2),
    (((1.0,), (0.0, 1.0), (0.0, 0.0, 1.0)), 0.0),
    (((1.0,), (1.0, 0.0), (1.0, 0.0, 0.0)), 1.0),
    (((1.0,), (1 / 2, 1 / 2), (1 / 2, 0.0, 1 / 2)), 1 / 2),
)
Spread = tuple[tuple[tuple[float, ...], ...], float]


def released(plan: Plan, measure: Measure, aggregate: Aggregate, cells: Floats) -> Released:
    """The cells of a measure, with what an aggregate asks of them."""
    whole = aggregate.argument is not None and facts(aggregate.argument).integral
    noise = plan.noises[plan.measures.index(measure)]
    span = (measure.kind, measure.degree, measure.lower, measure.upper, measure.steps)
    return Released(*span, cells, option=aggregate.option, noise=noise, whole=whole)


def named_value(aggregate: Aggregate, number: float) -> Scalar:
    """What a number stands for: a label, a day, a moment, or itself."""
    if math.isnan(number):
        return None
    if aggregate.labels:
        return aggregate.labels[min(max(int(number), 0), len(aggregate.labels) - 1)]
    if aggregate.kind is Kind.DATE:
        return EPOCH.date() + dt.timedelta(days=int(number))
    if aggregate.kind is Kind.TIMESTAMP:
        return EPOCH + dt.timedelta(seconds=math.floor(number))
    return number


def expected_cells(plan: Plan, rows: float | None, spread: Spread) -> list[int]:
    """Cells of a group of so many rows that lie as a spread says: from public figures only."""
    weights, place = spread
    cells: list[int] = []
    for measure in plan.measures:
        scale = (rows or 0) * measure.steps
        if measure.kind == "cells":
            cells += [int(scale * w) for w in (*weights[measure.degree], *[0.0] * measure.null_cell)]
        elif measure.kind == "bins":
            cells += [int(scale * w) for w in _binned_weights(place, measure.cells)]
        else:
            mean = measure.lower + (measure.upper - measure.lower) * place if measure.kind == "sum" else 1.0
            cells.append(int(scale * mean))
    return cells


def _binned_weights(place: float, count: int) -> list[float]:
    """How rows may lie in bins, by the place of their mean: evenly, or all at an end."""
    ends = {0.0: 0, 1.0: count - 1}
    return [1 / count] * count if place not in ends else [float(j == ends[place]) for j in range(count)]
