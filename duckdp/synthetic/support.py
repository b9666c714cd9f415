"""Where synthetic rows may lie: a product of short lists of values, one per column.

Values are equispaced in the angle, ends included, so that a row moved to its nearest value changes degree r by at most
r pi / (2 N) for N values; equispaced in x the error near the bounds would be of order r / sqrt(N). They are rounded to
what the column's type holds before any moment is computed, so decoding adds no error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from duckdp.catalog import Column
from duckdp.errors import NumericalError
from duckdp.smooth.basis import Floats, TensorBasis
from duckdp.smooth.summary import SmoothSummary

MAX_POINTS = 20_000
MAX_ENTRIES = 1_300_000  # of the program's matrix: a few seconds
Value = int | float


@dataclass(frozen=True)
class Support:
    """Candidate rows.

    Attributes:
        values: per column, its distinct values in its own units, ascending.
        moments: float[R, C], every function at every point, points in C order.
    """

    values: tuple[tuple[Value, ...], ...]
    moments: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """Values per column; C is their product."""
        return tuple(len(v) for v in self.values)


def make_support(summary: SmoothSummary) -> Support:
    """Choose the grid from public figures: the basis, the bounds and the types.

    Raises:
        NumericalError: N101, the summary has too many functions for one linear program.
    """
    basis = summary.basis
    points = min(MAX_POINTS, MAX_ENTRIES // basis.size)
    per_column = int(points ** (1 / basis.dimensions) + 1e-9)
    if per_column < basis.degree + 1:
        raise NumericalError(
            "N101", f"{basis.size} sums over {basis.dimensions} columns are too many for a synthetic table.",
            status="too large", advice="Make one from a summary of a smaller degree or fewer columns.",
        )  # fmt: skip
    values = tuple(_column_values(c, basis, i, per_column) for i, c in enumerate(summary.columns))
    moments = np.ones((1, 1))
    for i, column_values in enumerate(values):
        powers = basis.vander(i, np.array([float(v) for v in column_values])).T
        moments = np.einsum("rc,sk->rsck", moments, powers).reshape(len(moments) * len(powers), -1)
    return Support(values, moments)


def _column_values(column: Column, basis: TensorBasis, index: int, most: int) -> tuple[Value, ...]:
    lower, upper = column.lower, column.upper
    assert isinstance(lower, (int, float))
    assert isinstance(upper, (int, float))
    if column.integral and int(upper) - int(lower) < most:
        return tuple(range(int(lower), int(upper) + 1))
    grid = basis.from_unit(index, np.cos(np.linspace(np.pi, 0, most)))
    if column.integral:
        return tuple(sorted({max(int(lower), min(int(upper), round(x))) for x in grid.tolist()}))
    decimal = re.fullmatch(r"DECIMAL\(\d+,\s*(\d+)\)", column.type.upper())
    if decimal is not None:
        grid = np.clip(np.round(grid, int(decimal[1])), lower, upper)
    return tuple(np.unique(grid).tolist())
