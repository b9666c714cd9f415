"""Where synthetic rows may lie: a product of short lists of values, one per column; and what is fitted there.

Values are equispaced in the angle, ends included, so that a row moved to its nearest value changes degree r by at most
r pi / (2 (N - 1)) for N values; equispaced in x the error near the bounds would be of order r / sqrt(N). They are
rounded to what the column's type holds before any moment is computed, so decoding adds no error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from duckdp.catalog.table import Column, Kind
from duckdp.errors import NumericalError
from duckdp.smooth.angles import angle_nodes
from duckdp.smooth.axes import Axis, as_number, values_inside
from duckdp.smooth.basis import Basis
from duckdp.smooth.sum_noise import SumNoise
from duckdp.smooth.summary import SmoothSummary
from duckdp.synthetic.decode import Value
from duckdp.synthetic.lp.make.columns import Floats, Grid
from duckdp.synthetic.lp.make.interior import Norm, Objective

GRID_VALUES = 100  # per column of the whole grid
GRID_POINTS = 2_000_000  # of the whole grid: pricing it takes some 20 ms
# Maximum likelihood, or nearly: noise of kernels is sums of many terms.
NORMS: dict[str, Norm] = {"laplace": "l1", "gaussian": "l2", "cube": "linf", "kernels": "l2"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Support:
    """Values that synthetic rows may have, column by column.

    Attributes:
        values: per column, its distinct values in its own units, ascending; of a column that is not a number, what
            ``Axis.to_unit`` takes: positions in its declared values, days or microseconds since 1970.
        grid: every function at every value.
    """

    values: tuple[tuple[Value, ...], ...]
    grid: Grid

    @property
    def shape(self) -> tuple[int, ...]:
        """Values per column; C is their product."""
        return tuple(len(v) for v in self.values)


def make_grid(summary: SmoothSummary) -> Support:
    """The grid of column generation: 100 values per column, fewer where their product gets too large.

    It follows from public figures: the basis, the bounds and the types.

    Raises:
        NumericalError: N101, too many columns for a grid.
    """
    basis = summary.basis
    per_column = min(GRID_VALUES, int(GRID_POINTS ** (1 / basis.dimensions) + 1e-9))
    if per_column < basis.degree + 1:
        raise NumericalError(
            "N101",
            f"{basis.size} sums over {basis.dimensions} columns are too many for a synthetic table.",
            status="too large",
            advice="Make one from a summary of a smaller degree or fewer columns.",
        )
    return grid_of(summary.columns, basis, per_column, listed=True)


def make_objective(summary: SmoothSummary, count: float, *, least_squares: bool = False) -> tuple[Objective, float]:
    """What is fitted: means of the noisy sums, in the norm that is maximum likelihood for their noise.

    Residuals are weighted by the inverse standard deviation of each sum's noise, relative to their mean.

    Args:
        summary: the released summary.
        count: its noisy count, above 0.
        least_squares: fit in l2 whatever the noise: the projection on the moments of distributions. It moves no further
            from the true moments than the noise did, and answers smooth queries better when the noise is large
            (``bench.program``).

    Returns:
        (objective, level): the expected norm of the weighted noise, as means, a public level at which the fit may
        stop. With least squares the root of its expected square, with several groups of cube noise the sum of their
        expected norms; neither is below.
    """
    noise = summary.noise
    first = 0 if summary.count is not None else 1
    deviations = noise.deviations[first:]
    weights = float(np.mean(deviations)) / deviations
    target = summary.sums / count
    target[0] = 1.0
    norm: Norm = "l2" if least_squares else NORMS[noise.family]
    scaled = weights * deviations
    if norm == "l2":
        expected = float(np.sqrt(scaled @ scaled))
    elif norm == "l1":
        expected = float(scaled.sum()) / math.sqrt(2)
    else:
        assert isinstance(noise, SumNoise)
        groups = noise.groups[first:]
        largest = [float(weights[groups == g].max(initial=0.0)) for g in range(len(noise.scales))]
        pieces = zip(largest, noise.scales, noise.sizes.tolist(), strict=True)
        expected = sum(weight * scale * size for weight, scale, size in pieces)
    return Objective(target=target, norm=norm, weights=weights), expected / (1 << summary.bits) / count


def grid_of(columns: Sequence[Column], basis: Basis, per_column: int, *, listed: bool = False) -> Support:
    """The grid of at most ``per_column`` values of each column, and the functions there.

    Args:
        columns: declared.
        basis: of the summary.
        per_column: most values, but of a values axis.
        listed: whether a column with bounds takes the values of its domain alone, if it has one.
    """
    values = tuple(
        (_domain_values(c, a, per_column) if listed else ()) or grid_values(c, a, per_column)
        for c, a in zip(columns, basis.axes, strict=True)
    )
    axes = tuple(_functions(basis, i, column_values) for i, column_values in enumerate(values))
    return Support(values=values, grid=Grid(axes=axes, indices=basis.indices.astype(np.int64)))


def _domain_values(column: Column, axis: Axis, most: int) -> tuple[Value, ...]:
    """Values of a domain beside bounds; of many, those that are nearest to values equispaced in the angle."""
    if not (found := values_inside(column)):
        return ()
    values = [as_number(v) for v in found] if axis.kind is not Kind.NUMBER else found
    numbers = np.array([as_number(v) for v in found])
    near = np.abs(axis.from_unit(angle_nodes(most))[:, None] - numbers).argmin(axis=1) if len(found) > most else None
    chosen = range(len(found)) if near is None else np.unique(near).tolist()
    return tuple(v for v in (values[i] for i in chosen) if isinstance(v, (int, float)))


def _functions(basis: Basis, column: int, values: tuple[Value, ...]) -> Floats:
    """float[t, N], the functions of one column at its values."""
    return np.ascontiguousarray(basis.vander(column, unit_nodes(basis.axes[column], values)).T)


def unit_nodes(axis: Axis, values: Sequence[Value]) -> Floats:
    """Values of a grid in [-1, 1], float[N]."""
    numbers = axis.numbers(list(values)) if is_plain(axis) else np.array(values, dtype=np.float64)
    return axis.to_unit(numbers)


def is_plain(axis: Axis) -> bool:
    """Whether a support's values are the column's own numbers; else they are places, days or microseconds."""
    return axis.kind is Kind.NUMBER and (axis.values is None or None not in axis.values)


def grid_values(column: Column, axis: Axis, most: int) -> tuple[Value, ...]:
    """The values of a column: all of them when they are few, else equispaced in the angle."""
    if axis.values is not None:
        if not is_plain(axis):
            return tuple(range(len(axis.values)))
        return tuple(v for v in axis.values if isinstance(v, (int, float)))
    grid = axis.from_unit(angle_nodes(most))
    if axis.kind is not Kind.NUMBER:
        return tuple(np.unique(grid).tolist())
    lower, upper = column.lower, column.upper
    assert isinstance(lower, (int, float))
    assert isinstance(upper, (int, float))
    if column.integral and int(upper) - int(lower) < most:
        return tuple(range(int(lower), int(upper) + 1))
    if column.integral:
        return tuple(sorted({max(int(lower), min(int(upper), round(x))) for x in grid.tolist()}))
    decimal = re.fullmatch(r"DECIMAL\(\d+,\s*(\d+)\)", column.type.upper())
    if decimal is not None:
        grid = np.clip(np.round(grid, int(decimal[1])), lower, upper)
    return tuple(np.unique(grid).tolist())
