"""How the rows of a group may lie in their bounds, as predictions and shares take it, and what cells they give."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from duckdp.compiler.measures import Measure, counter_of

Floats = NDArray[np.float64]
# How the rows of a group may lie in their bounds: a quarter of the range about its middle, all at an end, half at each.
# By degree of the cells (mechanisms/simplex.py), the share of the rows in each; and the place of a sum.
SPREADS = (
    (((1.0,), (1 / 2, 1 / 2), (5 / 16, 6 / 16, 5 / 16)), 1 / 2),
    (((1.0,), (0.0, 1.0), (0.0, 0.0, 1.0)), 0.0),
    (((1.0,), (1.0, 0.0), (1.0, 0.0, 0.0)), 1.0),
    (((1.0,), (1 / 2, 1 / 2), (1 / 2, 0.0, 1 / 2)), 1 / 2),
)
Spread = tuple[tuple[tuple[float, ...], ...], float]


def spread_cells(measure: Measure, rows: float, spread: Spread) -> list[float]:
    """Cells of a measure over so many rows that lie as a spread says."""
    weights, place = spread
    scale = rows * measure.steps
    if measure.kind == "cells":
        return [scale * w for w in (*weights[measure.degree], *[0.0] * measure.null_cell)]
    if measure.kind == "bins":
        return [scale * w for w in _binned_weights(place, measure.cells)]
    if measure.kind == "centred":
        return [scale * (2 * place - 1)]
    mean = measure.lower + (measure.upper - measure.lower) * place if measure.kind == "sum" else 1.0
    return [scale * mean]


def as_cells(measures: Sequence[Measure], measure: Measure) -> Floats:
    """What makes a centred sum and the cells of its count two cells in rows: sums of u and of 1 - u, float[2, k].

    A centred sum is of 2 u - 1, the count of 1.
    """
    counter = counter_of(measures, measure)
    rows = [0.5 / counter.steps] * counter.cells
    return np.array([[0.5 / measure.steps, *rows], [-0.5 / measure.steps, *rows]])


def _binned_weights(place: float, count: int) -> list[float]:
    """How rows may lie in bins, by the place of their mean: evenly, or all at an end."""
    ends = {0.0: 0, 1.0: count - 1}
    return [1 / count] * count if place not in ends else [float(j == ends[place]) for j in range(count)]
