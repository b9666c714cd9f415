"""95% intervals of output expressions, from the noise of the released cells. Public figures and post-processing only.

Counts and sums: exact, by the law of their cells' noise (core/errorbars). Averages and quotients of counts and sums:
Fieller's set (core/ratiobars), exact but for its hull. Variances and other smooth expressions: to first order in the
noise, by their gradient; a variance over a count that may be 0 has its whole range. Order statistics: the bins that a
test allows (compiler/binned.py). What is made of them, and whatever jumps or bends as a figure changes (floor, CASE,
comparisons, greatest): all that it can be while its parts are in theirs (enclosed_ends.py); a gradient tells nothing of
the width of a bin, or of the next step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Kind
from duckdp.compiler.aggregates import aggregate_row
from duckdp.compiler.enclosed_ends import enclosed_ends, jumps, known_of, or_null, parts_of, reads_bins
from duckdp.compiler.expression import Aggregate, Call, Expr, Literal, walk
from duckdp.compiler.operators import row_of
from duckdp.compiler.plan import Plan
from duckdp.compiler.vectors import Vector
from duckdp.core.ratiobars import can_bound, ratio_interval
from duckdp.core.summedbars import Law, Summed, half_width, linear_half_width, rounded_half_width

Floats = NDArray[np.float64]
LEVEL = 0.95  # of every interval that is shown, and of ``error=``


class Intervals:
    """The intervals of one output's values.

    Args:
        plan: of the statement.
        cells: float[cells, n], as released.
        aggregate: value and gradient by cell of an aggregate.
        bin_ends: ends of an interval that follows from bins, at a level; None of other aggregates.
        vector: value and gradient of any output expression.
        limits: the least and the largest value that the true one of an expression can have.
    """

    def __init__(
        self,
        plan: Plan,
        cells: Floats,
        aggregate: Callable[[Aggregate], Vector],
        bin_ends: Callable[[Aggregate, float], tuple[Floats, Floats] | None],
        vector: Callable[[Expr], Vector],
        limits: Callable[[Expr], tuple[float, float]],
    ) -> None:
        self.plan, self.cells, self._aggregate, self._bin_ends, self._vector = plan, cells, aggregate, bin_ends, vector
        self._limits = limits
        self.n = cells.shape[1]
        found = plan.cell_noises()
        self.noisy = [i for i, noise in enumerate(found) if noise is not None]
        self.noises: list[Law] = [noise for noise in found if noise is not None]

    def by_noise(self, gradient: Floats) -> Floats:
        """Coefficients of the noise terms from those of the cells, float[noises, n].

        A cell that is a public total less the others has their noise, negated.
        """
        found = gradient.copy()
        start = 0
        for measure in self.plan.measures:
            end = start + measure.cells
            if measure.fixed_total:
                found[start : end - 1] -= gradient[end - 1]
            start = end
        return found[self.noisy]

    def coefficients(self, expr: Expr) -> Floats | None:
        """Coefficients of the noise terms of a linear form of counts and sums, alike in all groups; None: another."""
        form = self._form(expr) if self.n else None
        return None if form is None else self.by_noise(form[:, None])[:, 0]

    def ends(
        self, expr: Expr, value: Floats, gradient: Floats, limits: tuple[float, float], level: float = LEVEL
    ) -> tuple[Floats, Floats]:
        """Ends of the interval in each group, before they are cut to the public range.

        Args:
            expr: an output with an aggregate in it; where it is NULL its ends mean nothing.
            value: float[n], released.
            gradient: float[noises, n], of :meth:`by_noise`.
            limits: the least and the largest value that the true one can have.
            level: wanted coverage.
        """
        expr = or_null(expr)
        if not isinstance(expr, Aggregate) and (reads_bins(expr) or jumps(expr)):
            return self._enclosed(expr, level)
        return self._ends(expr, value, gradient, limits, level)

    def _ends(
        self, expr: Expr, value: Floats, gradient: Floats, limits: tuple[float, float], level: float
    ) -> tuple[Floats, Floats]:
        found = self._bin_ends(expr, level) if isinstance(expr, Aggregate) else None
        found = self._ratio_ends(expr, *limits, level) if found is None else found
        if found is not None:
            return found
        width = self._half_widths(expr, gradient, level)
        return value - width, value + width

    def _enclosed(self, expr: Expr, wanted: float) -> tuple[Floats, Floats]:
        """Of an expression that no first order serves: from intervals of all its parts, which hold at once."""
        parts = parts_of(expr)
        level = 1 - (1 - wanted) / len(parts)
        figures: dict[Expr, tuple[Floats, Floats]] = {}
        for part in parts:
            vector = self._vector(part)
            if vector.gradient is None:  # no figure: one of the values
                continue
            gradient = self.by_noise(vector.gradient)
            undefined = ~np.isfinite(vector.value) | ~np.isfinite(gradient).all(axis=0)
            gradient = np.where(undefined, 0.0, gradient)
            low, high = self._ends(part, vector.value, gradient, (-np.inf, np.inf), level)
            least, most = self._limits(part)
            figures[part] = np.where(undefined, np.nan, np.clip(low, least, most)), np.clip(high, least, most)
        figures |= {part: self._as_known(part) for part in known_of(expr)}
        return enclosed_ends(expr, figures, self.n)

    def _as_known(self, expr: Expr) -> tuple[Floats, Floats]:
        """Ends of what is known in each group; a condition that is NULL may be anything."""
        value = self._vector(expr).value
        if expr.kind is Kind.NUMBER:
            return value, value
        low, high = (np.array([float(other if x is None else x) for x in value]) for other in (0, 1))
        return low, high

    def is_uncertain(self, expr: Expr) -> bool:
        """Whether noise of a figure in it may change the value of an expression that jumps or bends."""
        figures = [n for n in walk(expr) if isinstance(n, Aggregate)] if jumps(expr) else []
        gradients = [self._aggregate(figure).gradient for figure in figures]
        return any(gradient is None or self.by_noise(gradient).any() for gradient in gradients)

    # ---- ratios -------------------------------------------------------------------------------------------------

    def _ratio_ends(self, expr: Expr, lower: float, upper: float, level: float) -> tuple[Floats, Floats] | None:
        forms = self._ratio(expr) if self.n else None
        if forms is None:
            return None
        g, h = (self.by_noise(form[:, None])[:, 0] for form in forms)
        if not (g.any() and h.any() and can_bound(self.noises, [bool(use) for use in (g != 0) | (h != 0)])):
            return None  # over a public count it is linear
        above, below = (form @ self.cells for form in forms)
        return ratio_interval(above, below, g, h, self.noises, lower, upper, level)

    def _ratio(self, expr: Expr) -> tuple[Floats, Floats] | None:
        """Numerator and denominator of a quotient, as linear forms of the cells."""
        expr = or_null(expr)
        match expr:
            case Aggregate(argument=argument, filter=condition) if parts := aggregate_row(expr).ratio:
                above, below = (self._form(Aggregate(f, argument, condition)) for f in parts)
            case Call(arguments=(a, b)) if row_of(expr).role == "quotient":
                above, below = self._form(a), self._form(b)
            case Call() if (scaled := _scaled(expr)) is not None:
                found = self._ratio(scaled[1])
                return None if found is None else (scaled[0] * found[0], found[1])
            case _:
                return None
        return None if above is None or below is None else (above, below)

    def _form(self, expr: Expr) -> Floats | None:
        """Coefficients by cell of a linear form of counts and sums; None for anything else."""
        expr = or_null(expr)
        match expr:
            case Aggregate() if aggregate_row(expr).linear:
                found = self._aggregate(expr).gradient
                return None if found is None else found[:, 0]
            case Call(arguments=(a, b)) if signs := row_of(expr).signs:
                first, second = self._form(a), self._form(b)
                return None if first is None or second is None else signs[0] * first + signs[1] * second
            case Call() if (scaled := _scaled(expr)) is not None:
                form = self._form(scaled[1])
                return None if form is None else scaled[0] * form
        return None

    # ---- linear, or taken as linear -----------------------------------------------------------------------------

    def _half_widths(self, expr: Expr, gradient: Floats, level: float) -> Floats:
        if not self.noises or not gradient.any():
            return np.zeros(self.n)
        if isinstance(expr, Aggregate):
            measure = next(m for m in self.plan.measures if m.serves(expr))
            noise = self.plan.shown[self.plan.measures.index(measure)]
            row = aggregate_row(expr)
            if noise is None:
                return np.zeros(self.n)
            if measure.kind == "centred":  # of its own noise and the count's
                return linear_half_width(gradient, self.noises, level)
            if measure.cells == 1 and not (row.counts and isinstance(noise, Summed)):
                return np.full(self.n, half_width(noise, level) / measure.steps)
            if row.counts and not measure.fixed_total:
                terms = measure.cells if row.of == "rows" else measure.degree + 1
                return np.full(self.n, _count_half_width(noise, terms, 2**measure.bits, level))
            if row.needs_count:
                return self._unless_few(expr, linear_half_width(gradient, self.noises, level))
        return linear_half_width(gradient, self.noises, level)

    def _unless_few(self, expr: Aggregate, width: Floats) -> Floats:
        """Variances over a count that may be 0 have no interval but their whole range."""
        count = self._aggregate(Aggregate("count", expr.argument, expr.filter))
        assert count.gradient is not None
        same = self.by_noise(count.gradient)[:, :1]  # of all groups: a count is linear
        doubtful = count.value <= linear_half_width(same, self.noises, LEVEL)
        return np.where(doubtful, np.inf, width)


def _scaled(call: Call) -> tuple[float, Expr] | None:
    """Factor and rest of a product with a constant."""
    if row_of(call).role != "product":
        return None
    match call.arguments:
        case (Literal(value=int() | float() as factor), inner) | (inner, Literal(value=int() | float() as factor)):
            return factor, inner
    return None


@lru_cache(maxsize=1024)
def _count_half_width(noise: Law, terms: int, steps: int, level: float) -> float:
    return float(rounded_half_width([noise] * terms, steps, level))


def is_exact(expr: Expr) -> bool:
    """Whether an output's half-width does not depend on the data, so that it is known before."""
    expr = or_null(expr)
    return isinstance(expr, Aggregate) and aggregate_row(expr).linear


def is_listed(expr: Expr) -> bool:
    """Whether it is how many of a list of public values there are: its half-width is known whatever rows there are."""
    expr = or_null(expr)
    return isinstance(expr, Aggregate) and aggregate_row(expr).of == "distinct" and aggregate_row(expr).ends is not None


def is_steady(expr: Expr) -> bool:
    """Whether its error is bounded wherever the values lie: nothing but counts is divided by."""
    expr = or_null(expr)
    match expr:
        case Aggregate():
            return "stddev" not in aggregate_row(expr).name and not is_listed(expr)
        case Literal():
            return True
        case Call(arguments=(a, b)) if row_of(expr).role == "quotient":
            return is_steady(a) and all(aggregate_row(n).counts for n in walk(b) if isinstance(n, Aggregate))
        case Call(arguments=arguments) if row_of(expr).role == "product" or row_of(expr).signs:
            return all(is_steady(a) for a in arguments)
    return False
