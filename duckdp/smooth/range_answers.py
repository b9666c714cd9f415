"""Answers from the counts of ranges that a summary holds beside its sums.

Let f be a sum of functions of columns that some table counts by together, and l <= f <= u on every cell of that table
(``enclosure``: interval arithmetic, so CASE, BETWEEN, comparisons, their products and products with other functions are
all bounded). Of the true counts x, which are not negative::

    sum_c l_c x_c  <=  sum of f over the rows  <=  sum_c u_c x_c

and both ends are linear in the counts, so that each has its best estimate from all tables (``core/nested_tables``) with
noise of a known law. The interval reaches from the lower end of the one's to the upper end of the other's: each misses
there with half of 1 - level, by symmetry. Where f is constant on every cell (a range whose ends are ends of cells, any
range of whole numbers counted one by one, any function of listed values) l = u and there is no error but noise.

A mean divides by the number of rows N, which the tables count too: with v the estimate and w the half-width of N,
|v - true| <= |(c - v c_N) . Z| / (N - w), as for means of the summary itself.

Which answer is given, this one or the sums', is decided by figures that do not follow from what was drawn, beside N:
the law of the noise, and for what lies between l and u (or is left by a polynomial) rows spread evenly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from duckdp.compiler.expression import Expr
from duckdp.core.nested_tables import Floats, Levels
from duckdp.mechanisms.noisy_tables import BITS
from duckdp.smooth.answer_bars import Statistic
from duckdp.smooth.fit.enclosure import enclose
from duckdp.smooth.fit.points import Points, as_number_expression, evaluate
from duckdp.smooth.fit.terms import Term, merge, split
from duckdp.smooth.range_cells import on_boxes
from duckdp.smooth.range_counts import RangeCounts
from duckdp.smooth.summary import SmoothSummary

MOST_BOXES = 2**16  # cells of one table on which a function is bounded
_NORMAL = 1.96  # 95% half-widths in deviations


@dataclass(frozen=True, kw_only=True)
class RangeAnswer:
    """An answer with its error bar, in units of f.

    Attributes:
        value: the estimate; None where the count is too noisy for a mean.
        standard_error: of the noise, or None.
        approximation_error: no more than that comes from cells that f is not constant on, with probability ``level``.
        low, high: the interval, or None.
    """

    value: float | None
    standard_error: float | None
    approximation_error: float
    low: float | None
    high: float | None


@dataclass(frozen=True, eq=False)
class _Side:
    """A sum over counts: its noisy cells' coefficients, and what is known without noise."""

    coefficients: Floats
    known: float

    def minus(self, other: _Side, times: float) -> _Side:
        return _Side(self.coefficients - times * other.coefficients, self.known - times * other.known)


@dataclass(frozen=True, eq=False)
class Bounded:
    """A function between two step functions.

    Attributes:
        low, high: the sums over counts.
        span: no value of f goes beyond.
        reference: means of both ends where rows are spread evenly.
    """

    low: _Side
    high: _Side
    span: tuple[float, float]
    reference: tuple[float, float]

    @property
    def middle(self) -> float:
        """The mean of f where rows are spread evenly, about."""
        return sum(self.reference) / 2


class RangeKnown:
    """What the answers from one summary's counts share.

    Args:
        summary: that has counts.
        statistic: "mean" or "sum".
        level: coverage of each interval.
    """

    def __init__(self, summary: SmoothSummary, counts: RangeCounts, statistic: Statistic, level: float) -> None:
        self.summary, self.counts, self.statistic, self.level = summary, counts, statistic, level
        self._names = [own.axis.name for own in counts.axes]

    @cached_property
    def _rows(self) -> _Side:
        """The number of rows."""
        if self.summary.count is not None:
            return _Side(np.zeros(self.counts.nested.cells), float(self.summary.count))
        everything = (0,) * len(self._names)
        return _Side(self._estimated(np.ones((1,) * len(self._names)), everything), 0.0)

    @cached_property
    def count(self) -> tuple[float, float]:
        """(noisy number of rows, its half-width)."""
        return self._value(self._rows), self.counts.noise.half_width(self._rows.coefficients, self.level)

    def bound(self, function: Expr) -> Bounded | None:
        """A function between step functions; None where no table has cells for it, or nothing bounds it there.

        Args:
            function: of the summary's columns, a number or a boolean.
        """
        number = as_number_expression(function)
        sides: list[list[_Side]] = [[], []]
        ends, means = [0.0, 0.0], [0.0, 0.0]
        for term in merge(split(number)):
            found = self._on_cells(term)
            if found is None:
                return None
            table, low, high = found
            for k, values in enumerate((low, high) if term.factor >= 0 else (high, low)):
                sides[k].append(self._side(term.factor * values, table))
                ends[k] += float((min, max)[k](term.factor * values.min(), term.factor * values.max()))
                means[k] += float(term.factor * values.mean())
        total = [self._added(own) for own in sides]
        return Bounded(total[0], total[1], (ends[0], ends[1]), (means[0], means[1]))

    def expected(self, bounded: Bounded) -> tuple[float, float]:
        """Predicted half-width of the answer over the rows: what cells leave of evenly spread rows, and the noise."""
        rows = max(1.0, self.count[0])
        middle = bounded.middle if self.statistic == "mean" else 0.0
        half = _Side((bounded.low.coefficients + bounded.high.coefficients) / 2, 0.0).minus(self._rows, middle)
        gap = (bounded.reference[1] - bounded.reference[0]) / 2
        return gap, _NORMAL * self.counts.noise.standard_error(half.coefficients) / rows

    def look(self, function: Expr) -> None:
        """Look at values of a function, one in each cell.

        Raises:
            NumericalError: N102, one is NULL or not finite.
        """
        for term in merge(split(function)):
            chosen, table = self._place(term)
            if table is not None:
                shape = self.counts.nested.shape(table)
                low, _ = on_boxes([self.counts.axes[i] for i in chosen], [shape[i] for i in chosen])
                evaluate(term.function, Points(tuple(self.counts.axes[i].axis for i in chosen), tuple(low)))

    def _place(self, term: Term) -> tuple[list[int], Levels | None]:
        """(the columns that a term reads, the table over them)."""
        chosen = [i for i, name in enumerate(self._names) if name in term.reads]
        return chosen, self._table(chosen)

    @np.errstate(over="ignore", invalid="ignore")
    def answer(self, bounded: Bounded) -> RangeAnswer | None:
        """The answer; None where a number overflows."""
        count, margin = self.count
        if self.statistic == "mean" and count <= margin:
            return RangeAnswer(value=None, standard_error=None, approximation_error=0.0, low=None, high=None)
        ends = [self._bar(side, bounded) for side in (bounded.low, bounded.high)]
        alike = bool(np.array_equal(bounded.low.coefficients, bounded.high.coefficients))
        middle = _Side(
            (bounded.low.coefficients + bounded.high.coefficients) / 2, (bounded.low.known + bounded.high.known) / 2
        )
        value, deviation, _ = self._bar(middle, bounded, deviation=True)
        gap = 0.0
        if not alike:
            between = bounded.high.minus(bounded.low, 1.0)
            half = _Side(between.coefficients / 2, between.known / 2)
            apart, _, wide = self._bar(half, bounded)
            gap = max(0.0, apart + wide)
        low, high = ends[0][0] - ends[0][2], ends[1][0] + ends[1][2]
        if not np.isfinite([value, deviation, gap, low, high]).all():
            return None
        if self.statistic == "mean":
            low, high, value = (min(bounded.span[1], max(bounded.span[0], v)) for v in (low, high, value))
        low, high = min(low, high), max(low, high)
        return RangeAnswer(
            value=min(high, max(low, value)),
            standard_error=deviation,
            approximation_error=gap + self._rounding(bounded),
            low=low,
            high=high,
        )

    def _bar(self, side: _Side, bounded: Bounded, *, deviation: bool = False) -> tuple[float, float, float]:
        """(value, standard error if asked for, half-width of noise and fixed point) of one end."""
        noise, rounding = self.counts.noise, self._rounding(bounded)
        if self.statistic == "sum":
            used, over, value = side, (1.0, 1.0), self._value(side)
        else:
            count, margin = self.count
            value = self._value(side) / count
            used, over = side.minus(self._rows, value), (count, count - margin)
        if deviation:
            return value, noise.standard_error(used.coefficients) / over[0], 0.0
        return value, 0.0, noise.half_width(used.coefficients, self.level) / over[1] + rounding

    def _rounding(self, bounded: Bounded) -> float:
        """Rows of units with many weigh less, rounded down to 2^-20 each; whole rows are exact."""
        if not self.summary.weighted:
            return 0.0
        most = 2.0**-BITS * self.summary.row_cap * max(map(abs, bounded.span))
        if self.statistic == "sum":
            return most
        count, margin = self.count
        return 2 * most / max(count - margin, 1e-300)

    def _value(self, side: _Side) -> float:
        return float(side.coefficients @ self.counts.rows) + side.known

    def _on_cells(self, term: Term) -> tuple[Levels, Floats, Floats] | None:
        """(table, least and largest values of a function on its cells)."""
        chosen, table = self._place(term)
        if table is None:
            return None
        shape = self.counts.nested.shape(table)
        if math.prod(shape) > MOST_BOXES:
            return None
        axes = [self.counts.axes[i] for i in chosen]
        low, high = on_boxes(axes, [shape[i] for i in chosen])
        found = enclose(term.function, [own.axis for own in axes], low, high)
        if not (np.isfinite(found.low).all() and np.isfinite(found.high).all()):
            return None
        return table, np.array(found.low).reshape(shape), np.array(found.high).reshape(shape)

    def _table(self, chosen: Sequence[int]) -> Levels | None:
        """The table of the most cells over columns: every part of it is counted."""
        nested = self.counts.nested
        if not chosen:
            return (0,) * len(self._names)
        cut = {tuple(at if i in chosen else 0 for i, at in enumerate(t)) for t in nested.tables}
        fitting = [t for t in cut if all(t[i] or nested.sizes[i] == (1,) for i in chosen)]
        return max(fitting, key=lambda t: math.prod(nested.shape(t)), default=None)

    def _side(self, values: Floats, table: Levels) -> _Side:
        if self.summary.count is None:
            return _Side(self._estimated(values, table), 0.0)
        mean = float(values.mean())
        return _Side(self._estimated(values - mean, table), mean * self.summary.count)

    def _estimated(self, values: Floats, table: Levels) -> Floats:
        return self.counts.noise.estimator.coefficients(values, table)

    def _added(self, sides: Sequence[_Side]) -> _Side:
        none = np.zeros(self.counts.nested.cells)
        return _Side(sum((s.coefficients for s in sides), none), sum(s.known for s in sides))
