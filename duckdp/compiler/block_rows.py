"""The aggregates that blocks of rows may be asked for: what is read of a block, and its value from that.

What is read are whole numbers, or order statistics of whole numbers: functions of the set of a block's rows, whatever
their order, the number of threads and the rows of other blocks. A sum of doubles is none: its last bits follow the
order, so one row could move the values of all blocks. Arguments are cells of a public grid, u in {0, ..., steps}, each
x = lower + u width / steps. From the whole numbers the value follows by the same operations each time, on one machine.

A row decides nothing that privacy depends on beside that: values are clamped to a public range, and what has none
(NULL, NaN, infinite, undefined) is a public value (``block_values``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from sqlglot import exp

from duckdp.core.interval import Interval

_BITS = 2**20  # of a logarithm, as a whole number


@dataclass(frozen=True, slots=True)
class Axis:
    """The grid of one argument: lower + u width / steps, u in {0, ..., steps}."""

    lower: float
    width: float
    steps: int

    @property
    def step(self) -> float:
        """How far cells are apart, in the argument's units."""
        return self.width / self.steps


Cells = Sequence[int]  # or a double, of quantiles
Valued = Callable[[Cells, Sequence[Axis]], "float | None"]
Ranged = Callable[[Sequence[Interval]], "Interval | None"]
Typed = Literal["real", "count", "sum", "argument"]


@dataclass(frozen=True, kw_only=True)
class BlockRow:
    """One aggregate of a block.

    Attributes:
        name: as it is called; it never changes.
        nodes: what the parser makes of its calls.
        words: its names where the parser has no node for them.
        takes: how many arguments.
        cells: SQL of what is read of a block: of its arguments c0, c1, and of {p}.
        value: from what is read; None where there is none. It may fail as arithmetic does.
        range: of the value, where it follows from the arguments'; None: the analyst says it.
        bits: an argument has at most 2^bits steps, so that no product of cells leaves 128 bits.
        sums: the cells are sums, which add up over parts.
        fraction: it takes a fraction p beside.
        by_value: it is of counts by value; ``cells`` are of c0 and the count n.
        any_kind: it takes an argument of any kind, which is no cell of a grid.
        of_none: its value where no row counts; None: none.
        grows: with the rows of a block, so that by itself it tells nothing of all rows.
        type: DuckDB's of the value: DOUBLE, a count's, a sum's, or the first argument's.
    """

    name: str
    nodes: tuple[type[exp.Expression], ...] = ()
    words: tuple[str, ...] = ()
    takes: int = 1
    cells: tuple[str, ...]
    value: Valued
    range: Ranged = lambda _: None
    bits: int = 31
    sums: bool = True
    fraction: bool = False
    by_value: bool = False
    any_kind: bool = False
    of_none: float | None = None
    grows: bool = False
    type: Typed = "real"


_N = "system.main.count_star()"
_ONE = (_N, "system.main.sum(c0)")
_TWO = (*_ONE, "system.main.sum(c0 * c0)")
_CUBE = "system.main.sum(CAST(c0 * c0 AS HUGEINT) * CAST(c0 AS HUGEINT))"
_FOURTH = "system.main.sum(CAST(c0 * c0 AS HUGEINT) * CAST(c0 * c0 AS HUGEINT))"
_PAIR = (*_TWO, "system.main.sum(c1)", "system.main.sum(c1 * c1)", "system.main.sum(c0 * c1)")


def _spread(cells: Cells) -> int:
    """n^2 times the variance of u."""
    n, first, second = cells[:3]
    return n * second - first * first


def _paired(cells: Cells) -> tuple[int, int, int, int]:
    """n, and n^2 times the variances and the covariance of u and v."""
    n, u, uu, v, vv, uv = cells
    return n, n * uu - u * u, n * vv - v * v, n * uv - u * v


def _count(cells: Cells, _: Sequence[Axis]) -> float:
    return float(cells[0])


def _sum(cells: Cells, axes: Sequence[Axis]) -> float:
    return axes[0].lower * cells[0] + axes[0].step * cells[1]


def _mean(cells: Cells, axes: Sequence[Axis]) -> float:
    return axes[0].lower + axes[0].step * (cells[1] / cells[0])


def _variance(sample: int, root: float) -> Valued:
    def value(cells: Cells, axes: Sequence[Axis]) -> float:
        n = cells[0]
        found: float = axes[0].step ** 2 * (_spread(cells) / (n * (n - sample)))
        return float(found**root)

    return value


def _covariance(sample: int) -> Valued:
    def value(cells: Cells, axes: Sequence[Axis]) -> float:
        n, _, _, both = _paired(cells)
        return axes[0].step * axes[1].step * (both / (n * (n - sample)))

    return value


def _correlation(cells: Cells, __: Sequence[Axis]) -> float:
    _, u, v, both = _paired(cells)
    return both / math.sqrt(u * v)


def _determination(cells: Cells, __: Sequence[Axis]) -> float | None:
    _, y, x, both = _paired(cells)  # as DuckDB: of y, x; 1 where y is the same for all
    if x == 0:
        return None
    return 1.0 if y == 0 else both * both / (x * y)


def _slope(cells: Cells, axes: Sequence[Axis]) -> float:
    _, _, x, both = _paired(cells)
    return axes[0].step / axes[1].step * (both / x)


def _intercept(cells: Cells, axes: Sequence[Axis]) -> float:
    n, first = cells[0], cells[1]
    mean = axes[1].lower + axes[1].step * (cells[3] / n)
    return axes[0].lower + axes[0].step * (first / n) - _slope(cells, axes) * mean


def _skewness(cells: Cells, __: Sequence[Axis]) -> float:
    n, first, second, third = cells
    m2, m3 = _spread(cells), n * n * third - 3 * n * first * second + 2 * first**3
    return math.sqrt(n * (n - 1)) / (n - 2) * (m3 / math.sqrt(m2) ** 3)


def _fourth(cells: Cells) -> float:
    """The fourth central moment over the square of the variance."""
    n, s1, s2, s3, s4 = cells
    m2 = _spread(cells)
    m4 = n**3 * s4 - 4 * n * n * s1 * s3 + 6 * n * s1 * s1 * s2 - 3 * s1**4
    return float(Fraction(m4, m2 * m2))


def _kurtosis_of_all(cells: Cells, __: Sequence[Axis]) -> float:
    return _fourth(cells) - 3


def _kurtosis(cells: Cells, __: Sequence[Axis]) -> float:
    n = cells[0]
    return (n - 1) * ((n + 1) * _fourth(cells) - 3 * (n - 1)) / ((n - 2) * (n - 3))


def _second_mean(cells: Cells, axes: Sequence[Axis]) -> float:
    return axes[1].lower + axes[1].step * (cells[3] / cells[0])


def _squares(which: int) -> Valued:
    """The sum of squares around the mean: of y, or of x."""

    def value(cells: Cells, axes: Sequence[Axis]) -> float:
        return axes[which].step ** 2 * (_paired(cells)[1 + which] / cells[0])

    return value


def _products(cells: Cells, axes: Sequence[Axis]) -> float:
    return axes[0].step * axes[1].step * (_paired(cells)[3] / cells[0])


def _place(cells: Cells, axes: Sequence[Axis]) -> float:
    return axes[0].lower + axes[0].step * cells[0]


def _deviation(cells: Cells, axes: Sequence[Axis]) -> float:
    return axes[0].step * float(cells[0])


def _entropy(cells: Cells, __: Sequence[Axis]) -> float:
    n, logarithms = cells
    return math.log2(n) - logarithms / (_BITS * n)


def _own(spans: Sequence[Interval]) -> Interval:
    return spans[0]


def _second(spans: Sequence[Interval]) -> Interval:
    return spans[1]


def _width(span: Interval) -> float:
    return span.upper - span.lower


def _to(factor: float, power: int = 1) -> Ranged:
    return lambda spans: Interval(0.0, factor * _width(spans[0]) ** power)


def _product(spans: Sequence[Interval]) -> Interval:
    most = _width(spans[0]) * _width(spans[1]) / 4
    return Interval(-most, most)


def _counted(_: Sequence[Interval]) -> Interval:
    return Interval(0.0, math.inf)


def _total(spans: Sequence[Interval]) -> Interval:
    return Interval(-math.inf if spans[0].lower < 0 else 0.0, math.inf if spans[0].upper > 0 else 0.0)


def _fixed(lower: float, upper: float) -> Ranged:
    return lambda _: Interval(lower, upper)


_AT = "system.main.quantile_cont(CAST(c0 AS DOUBLE), {p})"
_DISCRETE = "system.main.quantile_disc(c0, {p})"
_ORDER: dict[str, Any] = {"value": _place, "range": _own, "sums": False, "type": "argument"}
_BETWEEN: dict[str, Any] = {**_ORDER, "type": "real"}  # between two values: not cut to the decimals of theirs
_GROWS: dict[str, Any] = {"takes": 2, "cells": _PAIR, "range": _counted, "grows": True}
_TIED = "CAST(c1 AS HUGEINT) * 4294967296"  # above all cells: of several rows the one with the least
_LOGS = f"system.main.sum(CAST(system.main.floor(n * system.main.log2(CAST(n AS DOUBLE)) * {_BITS} + 0.5) AS HUGEINT))"

ROWS: tuple[BlockRow, ...] = (
    BlockRow(name="avg", nodes=(exp.Avg,), words=("mean", "favg"), cells=_ONE, value=_mean, range=_own),
    BlockRow(
        name="count",
        nodes=(exp.Count,),
        cells=(_N,),
        value=_count,
        range=_counted,
        any_kind=True,
        of_none=0.0,
        grows=True,
        type="count",
    ),
    BlockRow(
        name="sum",
        nodes=(exp.Sum,),
        cells=_ONE,
        value=_sum,
        range=_total,
        grows=True,
        type="sum",
    ),
    BlockRow(name="fsum", words=("fsum", "sumkahan", "kahan_sum"), cells=_ONE, value=_sum, range=_total, grows=True),
    BlockRow(name="min", nodes=(exp.Min,), cells=("system.main.min(c0)",), **_ORDER),
    BlockRow(name="max", nodes=(exp.Max,), cells=("system.main.max(c0)",), **_ORDER),
    BlockRow(name="arg_min", nodes=(exp.ArgMin,), takes=2, cells=(f"system.main.arg_min(c0, {_TIED} + c0)",), **_ORDER),
    BlockRow(name="arg_max", nodes=(exp.ArgMax,), takes=2, cells=(f"system.main.arg_max(c0, {_TIED} - c0)",), **_ORDER),
    BlockRow(name="var_samp", nodes=(exp.Variance,), cells=_TWO, value=_variance(1, 1), range=_to(0.25, 2)),
    BlockRow(name="var_pop", nodes=(exp.VariancePop,), cells=_TWO, value=_variance(0, 1), range=_to(0.25, 2)),
    BlockRow(
        name="stddev_samp", nodes=(exp.Stddev, exp.StddevSamp), cells=_TWO, value=_variance(1, 0.5), range=_to(0.5)
    ),
    BlockRow(name="stddev_pop", nodes=(exp.StddevPop,), cells=_TWO, value=_variance(0, 0.5), range=_to(0.5)),
    BlockRow(name="skewness", nodes=(exp.Skewness,), cells=(*_TWO, _CUBE), value=_skewness, bits=20),
    BlockRow(name="kurtosis", nodes=(exp.Kurtosis,), cells=(*_TWO, _CUBE, _FOURTH), value=_kurtosis, bits=20),
    BlockRow(
        name="kurtosis_pop", words=("kurtosis_pop",), cells=(*_TWO, _CUBE, _FOURTH), value=_kurtosis_of_all, bits=20
    ),
    BlockRow(name="corr", nodes=(exp.Corr,), takes=2, cells=_PAIR, value=_correlation, range=_fixed(-1, 1)),
    BlockRow(name="covar_pop", nodes=(exp.CovarPop,), takes=2, cells=_PAIR, value=_covariance(0), range=_product),
    BlockRow(name="covar_samp", nodes=(exp.CovarSamp,), takes=2, cells=_PAIR, value=_covariance(1), range=_product),
    BlockRow(name="regr_slope", nodes=(exp.RegrSlope,), takes=2, cells=_PAIR, value=_slope),
    BlockRow(name="regr_intercept", nodes=(exp.RegrIntercept,), takes=2, cells=_PAIR, value=_intercept),
    BlockRow(name="regr_r2", nodes=(exp.RegrR2,), takes=2, cells=_PAIR, value=_determination, range=_fixed(0, 1)),
    BlockRow(name="regr_avgy", nodes=(exp.RegrAvgy,), takes=2, cells=_PAIR, value=_mean, range=_own),
    BlockRow(name="regr_avgx", nodes=(exp.RegrAvgx,), takes=2, cells=_PAIR, value=_second_mean, range=_second),
    BlockRow(name="regr_count", nodes=(exp.RegrCount,), value=_count, of_none=0.0, type="count", **_GROWS),
    BlockRow(name="regr_syy", nodes=(exp.RegrSyy,), value=_squares(0), **_GROWS),
    BlockRow(name="regr_sxx", nodes=(exp.RegrSxx,), value=_squares(1), **_GROWS),
    BlockRow(name="regr_sxy", nodes=(exp.RegrSxy,), value=_products, **{**_GROWS, "range": lambda _: None}),
    BlockRow(name="median", nodes=(exp.Median,), cells=(_AT.format(p=0.5),), **_BETWEEN),
    BlockRow(
        name="quantile_cont", nodes=(exp.PercentileCont, exp.ApproxQuantile), cells=(_AT,), fraction=True, **_BETWEEN
    ),
    BlockRow(
        name="quantile_disc", nodes=(exp.PercentileDisc, exp.Quantile), cells=(_DISCRETE,), fraction=True, **_ORDER
    ),
    BlockRow(
        name="mad",
        words=("mad",),
        cells=("system.main.mad(CAST(c0 AS DOUBLE))",),
        value=_deviation,
        range=_to(0.5),
        sums=False,
    ),
    BlockRow(
        name="mode",
        nodes=(exp.Mode,),
        cells=("system.main.arg_max(c0, CAST(n AS HUGEINT) * 4294967296 - c0)",),  # of several the least
        by_value=True,
        **_ORDER,
    ),
    BlockRow(
        name="entropy",
        words=("entropy",),
        cells=("system.main.sum(n)", _LOGS),
        value=_entropy,
        sums=False,
        by_value=True,
        any_kind=True,
        of_none=0.0,
    ),
)
BY_NODE: dict[type[exp.Expression], BlockRow] = {node: row for row in ROWS for node in row.nodes}
BY_WORD: dict[str, BlockRow] = {word: row for row in ROWS for word in row.words}
BY_NAME: dict[str, BlockRow] = {row.name: row for row in ROWS}
OFFERED = ", ".join(sorted(row.name for row in ROWS if row.nodes or row.words))
