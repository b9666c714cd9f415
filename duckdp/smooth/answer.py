"""Answers from a summary: free, as often as wanted.

With f = sum_r c_r Phi_r + error, noisy sums b and noisy count N = b_0 (degree 0)::

    sum    c . b                 exactly linear in the noise
    mean   v = c . b / N         v - true = ((c - v e_0) . Z) / (true N) + ..., e_0 the unit vector of degree 0

Numerics: the mean's standard error is exact to first order in the noise. Its interval uses the law of the linear
combination (c - v e_0) . Z divided by N - w, w the half-width of N itself, so it also holds when the noise of the
count is not small. To both, the approximation error is added: the largest |f - p| found on a grid (not proved) and the
largest effect of fixed-point rounding (proved).
Source:   [J] Algorithm 2; under ADD_REMOVE nothing may divide by a private n, so N is the noisy one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from duckdp.compiler.expression import Expr
from duckdp.errors import ParameterError
from duckdp.smooth.basis import Floats
from duckdp.smooth.coefficients import Approximation, approximate, read_function
from duckdp.smooth.summary import SmoothSummary

NO_COUNT = "the noisy count is not clearly above zero, so there is no mean. Ask for the sum, or buy a larger epsilon."


@dataclass(frozen=True, kw_only=True)
class SmoothAnswer:
    """One answer with its error bar, all in units of f.

    Attributes:
        kind: "mean" over rows, or "sum".
        value: the estimate, or None when the count is too noisy for a mean.
        standard_error: of the noise alone, or None.
        approximation_error: what the polynomial and the fixed point may add; not random, so no level applies.
        low, high: interval at ``level`` for the true value, approximation error included, or None.
        level: coverage with respect to the noise.
        estimated: the approximation error is the largest one found on a grid, not a proved bound.
        note: why there is no value, or "".
    """

    kind: Literal["mean", "sum"]
    value: float | None
    standard_error: float | None
    approximation_error: float
    low: float | None
    high: float | None
    level: float
    estimated: bool = True
    note: str = ""


def answer(
    summary: SmoothSummary, function: str | Expr, *, statistic: Literal["mean", "sum"] = "mean", level: float = 0.95
) -> SmoothAnswer:
    """Estimate the mean or sum of f over the rows that were summarised.

    With a privacy unit of several rows, rows weigh min(1, max_rows / rows of their unit).

    Args:
        summary: a released summary.
        function: f, an SQL expression over the summary's columns in their own units, or its translation.
        statistic: "mean" or "sum".
        level: coverage of the interval.

    Raises:
        NumericalError: N102, f is not finite somewhere within the bounds.
        ParameterError: P107.
        QueryError: f is outside the allow-list.
    """
    if statistic not in ("mean", "sum"):
        raise ParameterError("P107", "statistic", statistic, "must be 'mean' or 'sum'.")
    expr = read_function(function, summary.table, summary.columns) if isinstance(function, str) else function
    fit = approximate(expr, summary.basis)
    count, margin = noisy_count(summary, level)
    if statistic == "sum":
        return _sum(summary, fit, count, margin, level)
    if count <= margin:
        return SmoothAnswer(
            kind="mean", value=None, standard_error=None, approximation_error=fit.error, low=None, high=None,
            level=level, note=NO_COUNT,
        )  # fmt: skip
    return _mean(summary, fit, count, margin, level)


def noisy_count(summary: SmoothSummary, level: float = 0.95) -> tuple[float, float]:
    """(noisy number of rows, its half-width); the half-width is 0 for a public count."""
    if summary.count is not None:
        return float(summary.count), 0.0
    alone = np.eye(1, summary.basis.size)[0]
    return float(summary.sums[0]), _half_width(summary, alone, level)


def _sum(summary: SmoothSummary, fit: Approximation, count: float, margin: float, level: float) -> SmoothAnswer:
    value = float(fit.coefficients @ summary.sums)
    deviation, half = _standard_error(summary, fit.coefficients), _half_width(summary, fit.coefficients, level)
    rows = max(0.0, count) + margin
    error = fit.error * rows + _rounding(summary, fit, rows)
    return SmoothAnswer(
        kind="sum", value=value, standard_error=deviation, approximation_error=error, low=value - half - error,
        high=value + half + error, level=level,
    )  # fmt: skip


def _mean(summary: SmoothSummary, fit: Approximation, count: float, margin: float, level: float) -> SmoothAnswer:
    value = float(fit.coefficients @ summary.sums) / count
    gradient = fit.coefficients.copy()
    gradient[0] -= value
    deviation = _standard_error(summary, gradient) / count
    half = _half_width(summary, gradient, level) / (count - margin)
    error = fit.error + _rounding(summary, fit, count + margin) / (count - margin)
    return SmoothAnswer(
        kind="mean", value=value, standard_error=deviation, approximation_error=error, low=value - half - error,
        high=value + half + error, level=level,
    )  # fmt: skip


def _rounding(summary: SmoothSummary, fit: Approximation, rows: float) -> float:
    """Largest effect of the fixed point on a sum of p: half a grid step and the float error per row and function."""
    counted = float(summary.row_cap) if summary.weighted else rows  # rows of small weight round as much as others
    step = 0.5 / (1 << summary.bits) + summary.basis.float_error()
    return counted * step * float(np.sum(np.abs(fit.coefficients)))


def _standard_error(summary: SmoothSummary, coefficients: Floats) -> float:
    used = _noised(summary, coefficients)
    return summary.noise.standard_error(used)


def _half_width(summary: SmoothSummary, coefficients: Floats, level: float) -> float:
    used = _noised(summary, coefficients)
    return summary.noise.half_width(used, level)


def _noised(summary: SmoothSummary, coefficients: Floats) -> Floats:
    """The coefficients of noisy sums, for noise in grid units."""
    first = 0 if summary.count is None else 1
    return coefficients[first:] / (1 << summary.bits)
