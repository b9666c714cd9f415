"""The cells of a column's values that quantiles are drawn from: what each stands for, and what it counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from duckdp.catalog.table import Column
from duckdp.compiler.aggregates import AGGREGATES, Released
from duckdp.mechanisms.cell_measure import CellMeasure


@dataclass(frozen=True, kw_only=True)
class ValueGrid:
    """Cells 0, ..., steps between a column's bounds (order_rows.py).

    Attributes:
        column: with bounds.
        steps: the last cell.
        round: whether round numbers weigh more, and cells are told by them.
    """

    column: Column
    steps: int
    round: bool

    @cached_property
    def measure(self) -> CellMeasure:
        """What each cell counts; public."""
        span = self.column.interval
        return CellMeasure(
            steps=self.steps, lower=Fraction(span.lower), upper=Fraction(span.upper), plain=not self.round
        )

    def value(self, cell: int) -> float:
        """A cell in the column's units: the roundest number in it, or its middle."""
        found = self.measure.roundest(cell)
        value = self._placed(cell) if found is None else float(found)
        return round(value) if self.column.integral else value

    def between(self, place: float) -> float:
        """A place between cells in the column's units."""
        value = self._placed(min(max(place, 0), self.steps))
        return round(value) if self.column.integral else value

    def end(self, cell: int, side: int) -> float:
        """Where a cell ends, below (-1) or above (1): its rows lie up to half a step from its middle."""
        span, steps = self.column.interval, self.steps
        if self.column.integral and steps == span.upper - span.lower:  # cells are the whole numbers themselves
            return self.value(cell)
        value = self._placed(min(max(cell + side / 2, 0), steps))
        return (math.floor(value) if side < 0 else math.ceil(value)) if self.column.integral else value

    def _placed(self, place: float) -> float:
        span = self.column.interval
        cells = Released("order", 0, span.lower, span.upper, self.steps, np.array([[place]]))
        return float(AGGREGATES["quantile"].value(cells)[0][0])
