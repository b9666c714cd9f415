"""Answers from a summary: free, as often as wanted.

With f = sum_r c_r Phi_r + error, noisy sums b and noisy count N = b_0 (degree 0)::

    sum    c . b                 exactly linear in the noise
    mean   v = c . b / N         v - true = ((c - v e_0) . Z) / (true N) + ..., e_0 the unit vector of degree 0

Numerics: the mean's standard error is exact to first order in the noise. Its interval uses the law of the linear
combination (c - v e_0) . Z divided by N - w, w the half-width of N itself, so it also holds when the noise of the
count is not small. To both, the approximation error is added: the bound on |f - p| (``coefficients`` says when it is
proved and when estimated), or where f is held between two polynomials (``structured``) the distance of their answers;
and the effect of fixed-point rounding (proved). Intervals are cut to what f can be by the declared bounds.
Source:   [J] Algorithm 2; under ADD_REMOVE nothing may divide by a private n, so N is the noisy one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from duckdp.arguments import checked
from duckdp.compiler.expression import Expr, columns
from duckdp.core.errorbars import check_level
from duckdp.errors import NumericalError, ParameterError
from duckdp.smooth.advice import OUTWEIGHS, advice
from duckdp.smooth.axes import Floats
from duckdp.smooth.batch import approximate_many
from duckdp.smooth.fit import jackson
from duckdp.smooth.fit.coefficients import (
    Approximation,
    Method,
    approximate,
    assess,
    functions_at,
    outward,
    read_function,
)
from duckdp.smooth.fit.interpolation import check_grid
from duckdp.smooth.fit.parts import part_of
from duckdp.smooth.fit.points import as_number_expression, evaluate, tensor_points
from duckdp.smooth.fit.structured import SMALL, by_structure
from duckdp.smooth.fit.tradeoff import MAX_FUNCTIONS, Problem, improve
from duckdp.smooth.summary import SmoothSummary

NO_COUNT = "the noisy count is not clearly above zero, so there is no mean. Ask for the sum, or buy a larger epsilon."
MAX_WEIGHED = 4000  # grid points of the trade-off
Statistic = Literal["mean", "sum"]
Bar = tuple[float, float, float, float]  # value, standard error, half-width of the noise, largest other error
_MOST_LEVEL = 0.9999  # of intervals: laws of sums of noises are known to 1e-6


@dataclass(frozen=True, kw_only=True)
class SmoothAnswer:
    """One answer with its error bar, all in units of f.

    Attributes:
        kind: "mean" over rows, or "sum".
        value: the estimate, or None when the count is too noisy for a mean.
        standard_error: of the noise alone, or None.
        approximation_error: what the polynomial and the fixed point may add, whatever the noise. Where f is held
            between two polynomials it is a noisy distance of theirs, and no bound; ``low`` and ``high`` hold too.
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


@checked
def answer(
    summary: SmoothSummary,
    function: str | Expr,
    *,
    statistic: Statistic = "mean",
    level: float = 0.95,
    method: Method = "interpolation",
    tolerance: float | None = None,
    smoothness: int = jackson.DEFAULT_SMOOTHNESS,
) -> SmoothAnswer:
    """Estimate the mean or sum of f over the rows that were summarised.

    With a privacy unit of several rows, rows weigh min(1, max_rows / rows of their unit).

    Args:
        summary: a released summary.
        function: f, an SQL expression over the summary's columns in their own units, or its translation.
        statistic: "mean" or "sum".
        level: coverage of the interval, at most 0.9999.
        method: "interpolation"; "jackson", the paper's kernel; or "best", which weighs the approximation error against
            the error bar of the noise and never has a larger sum of the two.
        tolerance: largest approximation error that is accepted, units of the answer.
        smoothness: K of the Jackson kernel.

    Raises:
        NumericalError: N102, f is not known to be finite within the bounds, its answer is no finite number, or the
            tolerance is exceeded.
        ParameterError: P107.
        QueryError: f is outside the allow-list.
    """
    known = _Known(summary, _checked(statistic, tolerance), level, tolerance)
    about = summary.basis, summary.table, summary.columns
    if method == "interpolation":
        fit = approximate_many([function], *about, known.enough, quick=False)[0]
        return known.advised(_accepted(known.answer(fit), tolerance), fit)
    expr = read_function(function, summary.table, summary.columns) if isinstance(function, str) else function
    if method == "best":
        fit = approximate_many([expr], *about, known.enough, quick=False)[0]
        fit = _weigh(known, expr, by_structure(as_number_expression(expr), summary.basis, known.enough, fit) or fit)
    else:
        fit = approximate(expr, summary.basis, method=method, smoothness=smoothness)
    return known.advised(_accepted(known.answer(fit), tolerance), fit)


@checked
def answers(
    summary: SmoothSummary,
    functions: Sequence[str | Expr],
    *,
    statistic: Statistic = "mean",
    level: float = 0.95,
    tolerance: float | None = None,
    simultaneous: bool = False,
) -> list[SmoothAnswer]:
    """Many answers at once, by interpolation; the same values as :func:`answer`, thousands per second.

    Texts that differ in their numbers only are read and evaluated together. Approximation errors are those found on a
    coarser grid (``batch``), with a larger factor: ``estimated``, unless f is a polynomial or its values can be listed.

    Args:
        summary: a released summary.
        functions: as for :func:`answer`.
        statistic: "mean" or "sum".
        level: coverage of each interval.
        simultaneous: let all intervals hold together with probability ``level``, at most 0.999 (``core/jointbars``).
        tolerance: as for :func:`answer`.

    Raises:
        NumericalError: N102, with the function's place in the list.
        ParameterError: P107.
        QueryError: a function is outside the allow-list.
    """
    known = _Known(summary, _checked(statistic, tolerance), level, tolerance)
    fits = approximate_many(functions, summary.basis, summary.table, summary.columns, known.enough)
    made = known.together(fits) if simultaneous else known.answers(fits)
    return [_accepted(found, tolerance) for found in made]


def noisy_count(summary: SmoothSummary, level: float = 0.95) -> tuple[float, float]:
    """(noisy number of rows, its half-width); the half-width is 0 for a public count."""
    if summary.count is not None:
        return float(summary.count), 0.0
    alone = np.eye(1, summary.basis.size)[0]
    return float(summary.sums[0]), summary.noise.half_width(alone / (1 << summary.bits), level)


class _Known:
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
        self._first = 0 if summary.count is None else 1
        self._step = float(1 << summary.bits)

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
        """The same, with what would help where the approximation outweighs the noise."""
        if not found.outweighed:
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
        coefficients = _with_sides(fits)
        used = self.noised(coefficients if self.statistic == "sum" else self._gradients(coefficients))
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
        coefficients = _with_sides(fits)
        used = self.noised(coefficients if self.statistic == "sum" else self._gradients(coefficients))
        count = self.noised(np.eye(1, coefficients.shape[1])) * (self.summary.count is None)
        both = np.concatenate([used, count])
        scale = np.maximum(np.max(np.abs(both), axis=1, initial=0.0), 1e-300)
        factor = self.noise.joint_factor(both / scale[:, None], self.level)
        widths = factor * self.noise.standard_errors(both) + self.noise.steps(both)
        made = self._bars(fits, coefficients, used, widths[:-1], float(widths[-1]))
        return [replace(one, simultaneous=True) for one in made]

    def _bars(
        self, fits: Sequence[Approximation], coefficients: Floats, used: Floats, widths: Floats, margin: float
    ) -> list[SmoothAnswer]:
        """Answers from the half-widths of the noise, of each and of the count; ``used`` are its combinations.

        Rows beyond the fits' are their sides: the mean of f lies between theirs. The interval reaches from the lower
        end of the one's to the upper end of the other's: each misses there with half of 1 - level, by symmetry.
        """
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
        sides = iter(columns[len(fits) :])
        return [
            self._dressed(fit, own, None if fit.sides is None else (next(sides), next(sides)))
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

    def _dressed(self, fit: Approximation, own: Bar, sides: tuple[Bar, Bar] | None) -> SmoothAnswer:
        value, deviation, half, error = own
        low, high = value - half - error, value + half + error
        if sides is not None:
            low, high = sides[0][0] - sides[0][2] - sides[0][3], sides[1][0] + sides[1][2] + sides[1][3]
            error = max(0.0, value - sides[0][0] + sides[0][3], sides[1][0] - value + sides[1][3])
        span = fit.span if self.statistic == "mean" else (-math.inf, math.inf)
        ends = outward(span)
        if fit.own > ends[1] - span[1] + span[0] - ends[0]:  # computed by cancellation, and so are the ends
            ends = ends[0] - fit.own, ends[1] + fit.own
        low, high = (max(ends[0], min(ends[1], v)) for v in (low, high))
        value = max(span[0], min(span[1], value))
        if sides is not None:
            value = max(low, min(high, value))
        return SmoothAnswer(
            kind=self.statistic,
            value=value,
            standard_error=deviation,
            approximation_error=error,
            low=min(low, value),
            high=max(high, value),
            level=self.level,
            estimated=not fit.proved and sides is None,
        )

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
        return np.asarray(rows * (np.abs(coefficients[:, 1:]) @ self.summary.row_errors[1:]))  # whole rows are exact

    def noised(self, coefficients: Floats) -> Floats:
        """The coefficients of noisy sums, for noise in grid units."""
        return coefficients[:, self._first :] / self._step


def _with_sides(fits: Sequence[Approximation]) -> Floats:
    """Coefficients of all fits, then of the sides of those that have any: float[m, R]."""
    sides = [side for fit in fits if fit.sides is not None for side in fit.sides]
    return np.array([*(fit.coefficients for fit in fits), *sides])


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused
def _weigh(known: _Known, function: Expr, fit: Approximation) -> Approximation:
    """The combination of the least approximation error plus error bar, or ``fit`` where that is not better."""
    number = as_number_expression(function)
    part = part_of(known.summary.basis, frozenset(c.name for c in columns(number)))
    outside = np.delete(fit.coefficients, part.rows)
    start = fit.coefficients[part.rows]
    if len(start) > MAX_FUNCTIONS or np.any(outside) or known.count <= known.margin:
        return fit
    x, _ = check_grid(part.axes, {}, per_degree=3, most=MAX_WEIGHED)
    points = tensor_points(part.axes, x)
    values, matrix = evaluate(number, points), functions_at(part, points.x)
    centre = float(start @ known.sums[part.rows]) / known.count if known.statistic == "mean" else 0.0
    moved = start.copy()
    moved[0] -= centre  # a mean's noise is that of f - v (module docstring)
    found = improve(Problem(values - centre, matrix, _bars(known)[part.rows]), moved)
    found[0] += centre
    better = np.zeros_like(fit.coefficients)
    better[part.rows] = found
    weighed = replace(assess(number, part, found), coefficients=better, span=fit.span)
    before, after = known.answer(fit), known.answer(weighed)
    return weighed if _reach(after) < _reach(before) else fit


def _bars(known: _Known) -> Floats:
    """Error bar at the level, per row, of one unit of each coefficient: float[R]."""
    deviations = np.zeros(known.summary.basis.size)
    deviations[known._first :] = known.noise.deviations
    alone = np.eye(1, known.noise.size, known.noise.size - 1)[0]
    z = known.noise.half_width(alone, known.level) / max(known.noise.standard_error(alone), 1e-300)
    return deviations * z / known._step / max(known.count, 1.0)


def _reach(found: SmoothAnswer) -> float:
    return np.inf if found.high is None or found.low is None else found.high - found.low


def _checked(statistic: Statistic, tolerance: float | None) -> Statistic:
    if statistic not in ("mean", "sum"):
        raise ParameterError("P107", "statistic", statistic, "must be 'mean' or 'sum'.")
    number = isinstance(tolerance, (int, float)) and not isinstance(tolerance, bool)
    if tolerance is not None and not (number and tolerance >= 0):
        raise ParameterError("P107", "tolerance", tolerance, "must be a number, at least 0.")
    return statistic


def _accepted(found: SmoothAnswer, tolerance: float | None) -> SmoothAnswer:
    if tolerance is not None and found.approximation_error > tolerance:
        rule = f"the approximation error is {found.approximation_error:.3g}, above tolerance={tolerance:g}."
        way = "Take a smoother function, or buy a summary of higher degree."
        raise NumericalError("N102", rule, status="approximation error", advice=way)
    return found
