"""Cells of a summary's columns, on which it counts rows for questions about ranges. Public.

A column of numbers is cut into L cells of equal width, [E_k, E_(k+1)); one of whole numbers or days into cells of
equally many values; a listed column has a cell for each value. Cells are nested: every cell of a level is divided into
equally many of the next. Cells beyond the last value of a column have no rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from duckdp.catalog.table import Kind
from duckdp.core.rectangles import Span
from duckdp.errors import InternalError
from duckdp.smooth.axes import Axis, Floats

MOST_CELLS = 4096  # of one column


@dataclass(frozen=True, kw_only=True)
class RangeAxis:
    """The cells of one column.

    Attributes:
        axis: the column, as the summary's basis has it.
        sizes: cells at each level, 1 first.
    """

    axis: Axis
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.axis.values is not None and self.sizes != ((1, len(self.axis.values)) if self.listed > 1 else (1,)):
            raise InternalError("a listed column has one cell for each value")
        if self.sizes[-1] > MOST_CELLS:
            raise InternalError("too many cells")
        if self.axis.values is None and not (np.diff(self.edges) > 0).all():
            raise InternalError("floats do not tell the cells apart")

    @property
    def listed(self) -> int:
        """How many values a listed column has; 0 for others."""
        return 0 if self.axis.values is None else len(self.axis.values)

    @property
    def cells(self) -> int:
        """L, the cells of the finest level."""
        return self.sizes[-1]

    @property
    def step(self) -> int:
        """Values in a cell of a column of whole numbers or days; 0 for others."""
        whole = whole_values(self.axis)
        return 0 if whole is None else -(-whole // self.cells)

    @cached_property
    def edges(self) -> Floats:
        """E_1 .. E_(L-1), the cells' lower ends but the first's: x is in cell k where k of them are at most x."""
        k = np.arange(1, self.cells, dtype=np.float64)
        if self.step:
            return self.axis.lower + self.step * k
        return np.asarray(self.axis.lower + (self.axis.upper - self.axis.lower) * (k / self.cells))

    @property
    def exact(self) -> bool:
        """Whether a cell is one value, so that every function is constant on it."""
        return self.axis.values is not None or self.step == 1

    def boxes(self, size: int) -> Span:
        """Between which numbers the values of a row in each cell of a level lie: float[size].

        A cell that no value of the column is in is given the column's last one.
        """
        if self.axis.values is not None:
            place = np.arange(size, dtype=np.float64)
            return Span(place, place)
        inner = self.edges[self.cells // size - 1 :: self.cells // size] if size > 1 else np.zeros(0)
        low = np.concatenate([[self.axis.lower], inner])
        high = np.concatenate([inner - 1 if self.step else np.nextafter(inner, -math.inf), [self.axis.upper]])
        return Span(np.minimum(low, self.axis.upper), np.clip(high, self.axis.lower, self.axis.upper))


def whole_values(axis: Axis) -> int | None:
    """How many values an interval column of whole numbers or days has; None for others."""
    whole = axis.kind is Kind.DATE or (axis.kind is Kind.NUMBER and axis.integral)
    if not whole or axis.values is not None or not (axis.lower.is_integer() and axis.upper.is_integer()):
        return None
    count = int(axis.upper) - int(axis.lower) + 1
    return count if max(abs(axis.lower), abs(axis.upper)) <= 2.0**52 else None


def on_boxes(axes: Sequence[RangeAxis], sizes: Sequence[int]) -> tuple[list[Floats], list[Floats]]:
    """Lower and upper ends of all products of cells, column by column: float[n] each, the last column fastest."""
    spans = [own.boxes(size) for own, size in zip(axes, sizes, strict=True)]
    places = [p.ravel() for p in np.meshgrid(*(np.arange(size) for size in sizes), indexing="ij")]
    chosen = list(zip(spans, places, strict=True))
    return [span.low[at] for span, at in chosen], [span.high[at] for span, at in chosen]
