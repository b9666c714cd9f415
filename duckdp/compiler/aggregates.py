"""The aggregates: a row each. What is not in the table does not exist.

An aggregate is a function of one **measure**, an integer vector that is released per group: compiler/measures.py
chooses and bounds it. Its row says which measure serves it, its value there with the gradient by cell, the public range
of the true value, what its error bar is made of, the type of the result, and its words. Everybody else asks the row.

Measures of a number x in [lower, upper], u = (x - lower) / (upper - lower):

    cells   Bernstein cells of ``degree``: count, sum u and sum u^2 from one release (mechanisms/simplex.py)
    sum     of x on a grid
    order   the place of an order statistic on a grid (compiler/quantile.py); no SELECT has one
    units   how many privacy units there are
    bins    rows in each of equal parts of x's range (compiler/binned.py)
    values  how many values x has
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from duckdp.compiler import binned
from duckdp.compiler.aggregate_ranges import largest_deviation, largest_variance, within
from duckdp.compiler.binned import Bins, Ends
from duckdp.compiler.expression import Aggregate
from duckdp.core.errorbars import Noise
from duckdp.mechanisms.simplex import Moments, moments

Floats = NDArray[np.float64]
MeasureKind = Literal["cells", "sum", "order", "units", "bins", "values"]
COUNT, ARGUMENT, NUMBER = "a whole number", "the argument's", "DOUBLE"  # types of results


@dataclass(frozen=True)
class Released:
    """Cells of one measure in all groups, and the measure's public figures.

    Attributes:
        kind: of the measure.
        degree: of its cells.
        lower, upper: clamp of the argument.
        steps: grid steps of one row (cells), of 1.0 (sum), of the whole range (order).
        cells: float[k, n], as released.
        option: what the aggregate asks beside its argument.
        noise: of a cell, or None.
        whole: the argument is a whole number.
    """

    kind: MeasureKind
    degree: int
    lower: float
    upper: float
    steps: float
    cells: Floats
    option: str = ""
    noise: Noise | None = None
    whole: bool = False

    @property
    def bins(self) -> Bins:
        """What its cells are where it is one of bins."""
        width = (self.upper - self.lower) / len(self.cells)
        share = float(self.option or 0)
        return Bins(self.cells / self.steps, self.lower, width, self.whole, share, self.noise, self.steps)

    @property
    def width(self) -> float:
        """How wide the argument's range is, in its units."""
        return self.upper - self.lower

    @cached_property
    def moments(self) -> Moments:
        """Count, mean of u, mean of u^2, with their gradients."""
        return moments(self.cells, self.degree, self.steps, self.degree + 1)

    def constant(self, slope: float) -> Floats:
        """The gradient that is the same for every cell."""
        return np.full_like(self.cells, slope)


Valued = tuple[Floats, Floats]  # value float[n], gradient float[k, n]


@dataclass(frozen=True, kw_only=True)
class AggregateRow:
    """One aggregate, and all that others need to know of it.

    Attributes:
        name: in ``Aggregate.function``; it never changes.
        nodes: what the parser makes of its calls.
        words: names of its calls that the parser has no node for.
        offered: the name that refusals offer and lists show, or "".
        of: what it is an aggregate of: all rows, rows with a value, numbers, different values, privacy units.
        degree: the highest power of the argument it needs.
        alone: the kind of measure, if nothing else is asked of the same argument.
        value: value and gradient from the cells of a measure that serves it.
        range: least and largest true value, from the argument's bounds.
        of_nothing: its value where no row can count.
        type: of the result.
        linear: it is a linear form of the cells, so its error does not depend on the data.
        ratio: the two linear aggregates of the same argument whose quotient it is, for an exact interval.
        needs_count: it has no interval but its range where the count may be 0.
        statistic: the answer of a smooth summary that is the same figure, or "".
        ends: of the interval, from the bins of a measure.
        plain: its answers have no error bar: it is one of the values.
        listed: it may be of texts with a domain, by their places there.
    """

    name: str
    nodes: tuple[type[exp.Expression], ...] = ()
    words: tuple[str, ...] = ()
    offered: str = ""
    of: Literal["rows", "values", "numbers", "distinct", "units"] = "numbers"
    degree: int
    alone: MeasureKind = "cells"
    value: Callable[[Released], Valued]
    range: Callable[[float, float], tuple[float, float]] = lambda _, __: (-math.inf, math.inf)
    of_nothing: float = math.nan
    type: str = NUMBER
    linear: bool = False
    ratio: tuple[str, str] | None = None
    needs_count: bool = False
    statistic: str = ""
    ends: Ends | None = None
    plain: bool = False
    listed: bool = False

    @property
    def counts(self) -> bool:
        """Whether it is a number of rows, values or units."""
        return self.type == COUNT


def aggregate_row(aggregate: Aggregate) -> AggregateRow:
    """The row of an aggregate of a statement."""
    return AGGREGATES[aggregate.function]


# ---- values ---------------------------------------------------------------------------------------------------------


def _whole(value: Floats) -> Floats:
    """Counts are released as whole numbers; rounding half up is the law rounded_half_width assumes."""
    return np.floor(value + 0.5)


def _total(of: Released) -> Valued:
    """All cells together."""
    return _whole(of.cells.sum(axis=0) / of.steps), of.constant(1.0 / of.steps)


def _count(of: Released) -> Valued:
    return _whole(of.moments.count), of.moments.count_gradient


def _sum(of: Released) -> Valued:
    if of.kind == "sum":
        return of.cells.sum(axis=0) / of.steps, of.constant(1.0 / of.steps)
    found, width = of.moments, of.width
    share = (0.5 * of.cells[1] + of.cells[0] if of.degree == 2 else of.cells[0]) / of.steps
    gradient = of.lower * found.count_gradient
    gradient[0] += width / of.steps
    if of.degree == 2:
        gradient[1] += 0.5 * width / of.steps
    return of.lower * found.count + width * share, gradient


def _mean(of: Released) -> Valued:
    return of.lower + of.width * of.moments.mean, of.width * of.moments.mean_gradient


def _variance(*, sample: bool) -> Callable[[Released], Valued]:
    """Variance, population or sample; not below 0."""

    def value(of: Released) -> Valued:
        found, width = of.moments, of.width
        n = np.where(found.count > 1, found.count, np.nan) if sample else found.count
        factor = n / (n - 1) if sample else np.ones_like(n)
        raw = found.square - found.mean**2
        gradient = width**2 * factor * (found.square_gradient - 2 * found.mean * found.mean_gradient)
        if sample:
            gradient = gradient - width**2 * np.maximum(raw, 0.0) / (n - 1) ** 2 * found.count_gradient
        return width**2 * factor * np.maximum(raw, 0.0), gradient

    return value


def _deviation(*, sample: bool) -> Callable[[Released], Valued]:
    variance = _variance(sample=sample)

    def value(of: Released) -> Valued:
        found, gradient = variance(of)
        root = np.sqrt(found)
        return root, gradient / np.where(root > 0, 2 * root, np.nan)

    return value


def _placed(of: Released) -> Valued:
    """A place on the grid, in the argument's units."""
    return of.lower + of.width * (of.cells[0] / of.steps), of.constant(of.width / of.steps)


def _of_bins(statistic: Callable[[Bins], Valued]) -> Callable[[Released], Valued]:
    """A statistic of counts of rows, by cell in grid steps."""

    def value(of: Released) -> Valued:
        found, gradient = statistic(of.bins)
        return found, gradient / of.steps

    return value


# ---- the table ------------------------------------------------------------------------------------------------------

ROWS: tuple[AggregateRow, ...] = (
    AggregateRow(
        name="count",
        offered="count",
        of="values",
        degree=0,
        value=_count,
        of_nothing=0.0,
        type=COUNT,
        linear=True,
    ),
    AggregateRow(
        name="sum",
        nodes=(exp.Sum,),
        offered="sum",
        degree=1,
        alone="sum",
        value=_sum,
        of_nothing=0.0,
        type=ARGUMENT,
        linear=True,
        statistic="sum",
    ),
    AggregateRow(
        name="avg",
        nodes=(exp.Avg,),
        words=("mean",),
        offered="avg",
        degree=1,
        value=_mean,
        range=within,
        ratio=("sum", "count"),
        needs_count=True,
        statistic="mean",
    ),
    AggregateRow(
        name="var_samp",
        nodes=(exp.Variance,),
        offered="var_samp",
        degree=2,
        value=_variance(sample=True),
        range=largest_variance(2),
        needs_count=True,
    ),
    AggregateRow(
        name="var_pop",
        nodes=(exp.VariancePop,),
        offered="var_pop",
        degree=2,
        value=_variance(sample=False),
        range=largest_variance(4),
        needs_count=True,
    ),
    AggregateRow(
        name="stddev_samp",
        nodes=(exp.Stddev, exp.StddevSamp),
        offered="stddev_samp",
        degree=2,
        value=_deviation(sample=True),
        range=largest_deviation(2),
        needs_count=True,
    ),
    AggregateRow(
        name="stddev_pop",
        nodes=(exp.StddevPop,),
        offered="stddev_pop",
        degree=2,
        value=_deviation(sample=False),
        range=largest_deviation(4),
        needs_count=True,
    ),
    AggregateRow(
        name="count_rows",
        words=("count_star",),
        offered="count_if",
        of="rows",
        degree=0,
        value=_total,
        of_nothing=0.0,
        type=COUNT,
        linear=True,
    ),
    AggregateRow(
        name="count_units",
        of="units",
        degree=0,
        alone="units",
        value=_total,
        of_nothing=0.0,
        type=COUNT,
        linear=True,
    ),
    *(
        AggregateRow(name=name, degree=0, alone="order", value=_placed, range=within, type=ARGUMENT)
        for name in ("median", "quantile")
    ),
    AggregateRow(  # dp_quantiles finds places much finer, in groups with a domain
        name="binned_quantile",
        nodes=(exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc, exp.ApproxQuantile),
        words=("approx_median",),
        offered="median",
        degree=0,
        alone="bins",
        value=_of_bins(binned.quantile),
        range=within,
        type=ARGUMENT,
        ends=binned.ends,
    ),
    AggregateRow(
        name="binned_extreme",
        nodes=(exp.Min, exp.Max),
        offered="min",
        degree=0,
        alone="bins",
        value=_of_bins(binned.extreme),
        range=within,
        type=ARGUMENT,
        listed=True,
        ends=binned.ends,
    ),
    AggregateRow(
        name="mode",
        nodes=(exp.Mode,),
        offered="mode",
        degree=0,
        alone="bins",
        value=_of_bins(binned.mode),
        range=within,
        type=ARGUMENT,
        plain=True,
        listed=True,
    ),
    AggregateRow(
        name="count_distinct",
        nodes=(exp.ApproxDistinct,),
        of="distinct",
        degree=0,
        alone="values",
        value=_total,
        of_nothing=0.0,
        range=within,
        type=COUNT,
        linear=True,
    ),
    AggregateRow(  # which of the two is taken: listed_values.py
        name="count_listed",
        of="distinct",
        degree=0,
        alone="bins",
        value=_of_bins(binned.present),
        range=lambda lower, upper: (0.0, upper - lower),
        of_nothing=0.0,
        type=COUNT,
        ends=binned.present_ends,
    ),
)
AGGREGATES: dict[str, AggregateRow] = {row.name: row for row in ROWS}
BY_NODE: dict[type[exp.Expression], AggregateRow] = {node: row for row in ROWS for node in row.nodes}
BY_WORD: dict[str, AggregateRow] = {word: row for row in ROWS for word in row.words}
OFFERED: tuple[str, ...] = tuple(row.offered for row in ROWS if row.offered)
