"""The bars of answers from a summary.

With f = sum_r c_r Phi_r + error, noisy sums b and noisy count N = b_0 (degree 0)::

    sum    c . b                 exactly linear in the noise
    mean   v = c . b / N         v - true = ((c - v e_0) . Z) / (true N) + ..., e_0 the unit vector of degree 0

The mean's standard error is exact to first order in the noise. Its interval uses the law of the linear combination
(c - v e_0) . Z divided by N - w, w the half-width of N itself, so it also holds when the noise of the count is not
small. To both, the approximation error is added: the bound on |f - p| (``coefficients`` says when it is proved and when
estimated), and the effect of fixed-point rounding (proved). Intervals are cut to what f can be by the declared bounds.

Where f is held between two polynomials, L <= f <= U (``structured``), the interval reaches from the lower end of the
answer of L to the upper end of that of U: each misses there with half of 1 - level, by symmetry. The approximation
error is then how far the mean of f can be from that of p,::

    mean(p) - mean(U)  <=  mean(p) - mean(f)  <=  mean(p) - mean(L)

whose ends are means of polynomials that the summary answers too: with the upper ends of their intervals, neither is
larger with probability ``level``. Where the bound on |f - p| is proved and smaller, it is that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from duckdp.core.errorbars import check_level
from duckdp.errors import NumericalError, ParameterError
from duckdp.smooth.advice import OUTWEIGHS, advice
from duckdp.smooth.axes import Floats
from duckdp.smooth.fit.coefficients import Approximation, outward
from duckdp.smooth.fit.structured import SMALL
from duckdp.smooth.summary import SmoothSummary

NO_COUNT = "the noisy count is not clearly above zero, so there is no mean. Ask for the sum, or buy a larger epsilon."
Statistic = Literal["mean", "sum"]
Bar = tuple[float, float, float, float]  # value, standard error, half-width of the noise, largest other error
FLOOR = 1e-9  # of f's size: an approximation error that nobody needs advice about
_MOST_LEVEL = 0.9999  # of intervals: laws of sums of noises are known to 1e-6


@dataclass(frozen=True, kw_only=True)
class SmoothAnswer:
    """One answer with its error bar, all in units of f.

    Attributes:
        kind: "mean" over rows, or "sum".
        value: the estimate, or None when the count is too noisy for a mean.
        standard_error: of the noise alone, or None.
        approximation_error: no more than that comes from the polynomial and the fixed point: whatever the noise is, or
            where f is held between two polynomials, with probability ``level``.
        low, high: interval at ``level`` for the true value, approximation error included, or None.
        level: coverage with respect to the noise; of the intervals of all answers together where ``simultaneous``.
        estimated: the approximation error is not proved: the largest one found on a grid, times a factor.
        note: why there is no value; of a single answer, what would help where approximation outweighs noise; or "".
        simultaneous: all intervals of the list hold together with probability ``level``.
    """

    kind: Statistic
    value: float | None
    standard_error: float | None
    approximation_error: float
    low: float | None
    high: float | None
    level: float
    estimated: bool = True
    note: str = ""
    simultaneous: bool = False

    @property
    def outweighed(self) -> bool:
        """Whether the approximation may be off by more than the noise."""
        return self.approximation_error > OUTWEIGHS * (self.standard_error or math.inf)


@lru_cache(maxsize=8)
def noisy_count(summary: SmoothSummary, level: float = 0.95) -> tuple[float, float]:
    """(noisy number of rows, its half-width); the half-width is 0 for a public count."""
    if summary.count is not None:
        return float(summary.count), 0.0
    alone = np.eye(1, summary.basis.size)[0]
    return float(summary.sums[0]), summary.noise.half_width(alone / (1 << summary.bits), level)


class Known:
    """What the answers of one summary share."""

    def __init__(
        self, summary: SmoothSummary, statistic: Statistic, level: float, tolerance: float | None = None
    ) -> None:
        check_level(level)
        if level > _MOST_LEVEL:
            raise ParameterError(
                "P107", "level", level, f"must be at most {_MOST_LEVEL}: sums of noise are known to 1e-6."
            )
        self.summary, self.statistic, self.level, self.tolerance = summary, statistic, level, tolerance
        self.sums, self.noise = summary.sums, summary.noise
        self.count, self.margin = noisy_count(summary, level)
        self.first = 0 if summary.count is None else 1
        self.step = float(1 << summary.bits)

    def enough(self, coefficients: Floats) -> Floats:
        """Approximation errors that need no closer look, float[m]: a tenth of the noise, half of the tolerance."""
        with np.errstate(all="ignore"):
            rows = max(self.count, 1.0)
            used = self._gradients(coefficients) if self.statistic == "mean" else coefficients
            limit = SMALL * self.noise.standard_errors(self.noised(used)) / rows
        if self.tolerance is not None:
            limit = np.minimum(limit, self.tolerance / 2 / (1.0 if self.statistic == "mean" else rows + self.margin))
        return np.where(np.isfinite(limit), limit, 0.0)

    def answer(self, fit: Approximation) -> SmoothAnswer:
        """The answer that a combination gives."""
        return self.answers([fit])[0]

    def advised(self, found: SmoothAnswer, fit: Approximation) -> SmoothAnswer:
        """The same, with what would help where the approximation outweighs the noise, and more than rounding does."""
        if not found.outweighed:
            return found
        ends = max(map(abs, fit.span))
        size = ends if math.isfinite(ends) else float(np.abs(fit.coefficients).sum())
        if found.approximation_error <= FLOOR * size * (1.0 if self.statistic == "mean" else max(self.count, 1.0)):
            return found
        error, deviation = found.approximation_error, found.standard_error or 0.0
        return replace(found, note=advice(self.summary, fit.coefficients, error, deviation))

    @np.errstate(over="ignore", invalid="ignore")  # what overflows is refused
    def answers(self, fits: Sequence[Approximation]) -> list[SmoothAnswer]:
        """The answers that combinations give."""
        if not fits:
            return []
        if self.statistic == "mean" and self.count <= self.margin:
            return [self._no_mean(fit) for fit in fits]
        coefficients, _ = _with_sides(fits)
        used = self._used(coefficients)
        return self._bars(fits, coefficients, used, self.noise.half_widths(used, self.level), self.margin)

    @np.errstate(over="ignore", invalid="ignore")
    def together(self, fits: Sequence[Approximation]) -> list[SmoothAnswer]:
        """The same with intervals that hold together with probability ``level``.

        With v a noisy mean, N the noisy count and m the true mean, (v - m) N = (c - m e_0) . Z exactly. Where
        |(c - v e_0) . Z| <= w for all answers and |Z_0| <= w_0, so |v - m| (N - Z_0) <= w, |v - m| <= w / (N - w_0):
        w and w_0 come from one factor of the standard deviations, the noise of the count being one more combination.
        Each is a grid step per sum wider, by which drawn noise may differ from its law. As one by one, the law of
        (c - v e_0) . Z is taken at the v that was found: exact for sums, to first order in the noise for means.
        """
        if not fits:
            return []
        if self.statistic == "mean" and self.count <= self.margin:
            return [replace(self._no_mean(fit), simultaneous=True) for fit in fits]
        coefficients, told = _with_sides(fits)
        used = self._used(coefficients)
        count = self.noised(np.eye(1, coefficients.shape[1])) * (self.summary.count is None)
        both = np.concatenate([used[:told], count])
        scale = np.maximum(np.max(np.abs(both), axis=1, initial=0.0), 1e-300)
        factor = self.noise.joint_factor(both / scale[:, None], self.level)
        widths = factor * self.noise.standard_errors(both) + self.noise.steps(both)
        gaps = self.noise.half_widths(used[told:], self.level) if told < len(used) else widths[:0]
        made = self._bars(fits, coefficients, used, np.concatenate([widths[:-1], gaps]), float(widths[-1]))
        return [replace(one, simultaneous=True) for one in made]

    def _bars(
        self, fits: Sequence[Approximation], coefficients: Floats, used: Floats, widths: Floats, margin: float
    ) -> list[SmoothAnswer]:
        """Answers from the half-widths of the noise, of each and of the count; ``used`` are its combinations."""
        if self.statistic == "mean" and self.count <= margin:
            return [self._no_mean(fit) for fit in fits]
        errors = np.zeros(len(coefficients))
        errors[: len(fits)] = [fit.error for fit in fits]
        if self.statistic == "sum":
            values, rows = self._sums_of(coefficients, 1.0), max(0.0, self.count) + margin
            over = (1.0, 1.0)
            errors = errors * rows + self._rounding(coefficients, rows)
        else:
            values, rows = self._sums_of(coefficients, self.count), self.count - margin
            over = (self.count, rows)
            errors = errors + self._rounding(coefficients, self.count + margin) / rows
        bars = self.noise.standard_errors(used) / over[0], widths / over[1]
        if not np.isfinite([values, *bars, errors, bars[1] + errors]).all():
            rule = "the answer or its error bar is larger than any number."
            way = "Divide the function by a constant, and multiply the answer."
            raise NumericalError("N102", rule, status="overflow", advice=way)
        columns = list(zip(*(a.tolist() for a in (values, *bars, errors)), strict=True))
        half = (len(columns) - len(fits)) // 2
        sides, gaps = iter(columns[len(fits) : len(fits) + half]), iter(columns[len(fits) + half :])
        return [
            self._dressed(fit, own, () if fit.sides is None else (next(sides), next(sides), next(gaps), next(gaps)))
            for fit, own in zip(fits, columns, strict=False)
        ]

    def _no_mean(self, fit: Approximation) -> SmoothAnswer:
        return SmoothAnswer(
            kind="mean",
            value=None,
            standard_error=None,
            approximation_error=fit.error,
            low=None,
            high=None,
            level=self.level,
            estimated=not fit.proved,
            note=NO_COUNT,
        )

    def _dressed(self, fit: Approximation, own: Bar, sides: Sequence[Bar]) -> SmoothAnswer:
        """An answer from its bar, and from those of L, U, p - L and U - p where f is held between them."""
        value, deviation, half, error = own
        low, high = value - half - error, value + half + error
        if sides:
            below, above, *gaps = sides
            low, high = below[0] - below[2] - below[3], above[0] + above[2] + above[3]
            rounded = below[3] + max(gap[3] for gap in gaps)  # of p = L + (p - L), at most
            reach = max(0.0, *(gap[0] + gap[2] + gap[3] for gap in gaps)) + rounded
            error = min(error, reach) if fit.proved else reach
        span = fit.span if self.statistic == "mean" else (-math.inf, math.inf)
        ends = outward(span)
        if fit.own > ends[1] - span[1] + span[0] - ends[0]:  # computed by cancellation, and so are the ends
            ends = ends[0] - fit.own, ends[1] + fit.own
        low, high = (max(ends[0], min(ends[1], v)) for v in (low, high))
        value = max(span[0], min(span[1], value))
        if sides:
            value = max(low, min(high, value))
        return SmoothAnswer(
            kind=self.statistic,
            value=value,
            standard_error=deviation,
            approximation_error=error,
            low=min(low, value),
            high=max(high, value),
            level=self.level,
            estimated=not (fit.proved or sides),
        )

    def _used(self, coefficients: Floats) -> Floats:
        """The combinations of noise that answers err by."""
        return self.noised(coefficients if self.statistic == "sum" else self._gradients(coefficients))

    def _gradients(self, coefficients: Floats) -> Floats:
        """Of means: a mean's noise is that of f - v (module docstring)."""
        found = coefficients.copy()
        found[:, 0] -= self._sums_of(coefficients, self.count)
        return found

    def _sums_of(self, coefficients: Floats, count: float) -> Floats:
        """Coefficients times sums over a count, scaled to 1 first: the sum may overflow where the mean does not."""
        largest = np.max(np.abs(coefficients), axis=1, initial=1e-300)
        return np.asarray(largest * ((coefficients / largest[:, None]) @ self.sums / count))

    def _rounding(self, coefficients: Floats, rows: float) -> Floats:
        """Largest effect of the fixed point on a sum of p: the proved error of each row and function."""
        if self.summary.weighted:  # small weights round as others do
            return np.asarray(self.summary.row_cap * (np.abs(coefficients) @ self.summary.row_errors))
        first = 1 if self.summary.counts_exactly else 0  # whole rows are exact
        return np.asarray(rows * (np.abs(coefficients[:, first:]) @ self.summary.row_errors[first:]))

    def noised(self, coefficients: Floats) -> Floats:
        """The coefficients of noisy sums, for noise in grid units."""
        return coefficients[:, self.first :] / self.step


def _with_sides(fits: Sequence[Approximation]) -> tuple[Floats, int]:
    """Coefficients of all fits, then of the sides L, U of those that have any, then of p - L and U - p: float[m, R].

    Returns:
        These, and how many of them are before the last kind.
    """
    own = [fit.coefficients for fit in fits]
    held = [(fit.coefficients, *fit.sides) for fit in fits if fit.sides is not None]
    sides = [side for _, *both in held for side in both]
    gaps = [gap for near, under, over in held for gap in (near - under, over - near)]
    return np.array([*own, *sides, *gaps]), len(own) + len(sides)
