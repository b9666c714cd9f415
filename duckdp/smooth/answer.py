"""Answers from a summary: free, as often as wanted.

A function is approximated (``batch``, ``fit``); what its combination of the sums gives has its bars in ``answer_bars``.

Source:   [J] Algorithm 2; under ADD_REMOVE nothing may divide by a private n, so the count is the noisy one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from duckdp.arguments import checked
from duckdp.compiler.expression import Expr, columns
from duckdp.errors import NumericalError, ParameterError
from duckdp.smooth.answer_bars import Known, SmoothAnswer, noisy_count
from duckdp.smooth.answer_bars import Statistic as Statistic
from duckdp.smooth.axes import Floats
from duckdp.smooth.batch import approximate_many
from duckdp.smooth.fit import jackson
from duckdp.smooth.fit.coefficients import Approximation, Method, approximate, assess, functions_at, read_function
from duckdp.smooth.fit.interpolation import check_grid
from duckdp.smooth.fit.parts import part_of
from duckdp.smooth.fit.points import as_number_expression, evaluate, tensor_points
from duckdp.smooth.fit.structured import by_structure
from duckdp.smooth.fit.tradeoff import MAX_FUNCTIONS, Problem, improve
from duckdp.smooth.nearer import of_counts, with_ranges
from duckdp.smooth.summary import SmoothSummary

__all__ = ["SmoothAnswer", "Statistic", "answer", "answers", "noisy_count"]

MAX_WEIGHED = 4000  # grid points of the trade-off


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
    known = Known(summary, _checked(statistic, tolerance), level, tolerance)
    about = summary.basis, summary.table, summary.columns
    if method == "interpolation":
        return _accepted(_nearest(known, function), tolerance)
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
        simultaneous: let all intervals hold together with probability ``level``, at most 0.999 (``core/jointbars``);
            all are from the sums then.
        tolerance: as for :func:`answer`.

    Raises:
        NumericalError: N102, with the function's place in the list.
        ParameterError: P107.
        QueryError: a function is outside the allow-list.
    """
    known = Known(summary, _checked(statistic, tolerance), level, tolerance)
    counted = [None if simultaneous else of_counts(known, f) for f in functions]
    left = [f for f, found in zip(functions, counted, strict=True) if found is None]
    fits = approximate_many(left, summary.basis, summary.table, summary.columns, known.enough)
    made = known.together(fits) if simultaneous else with_ranges(known, left, fits, known.answers(fits))
    others = iter(made)
    return [_accepted(next(others) if found is None else found, tolerance) for found in counted]


def _nearest(known: Known, function: str | Expr) -> SmoothAnswer:
    """The answer by interpolation, or from counts of ranges."""
    counted = of_counts(known, function)
    if counted is not None:
        return counted
    about = known.summary.basis, known.summary.table, known.summary.columns
    fit = approximate_many([function], *about, known.enough, quick=False)[0]
    return with_ranges(known, [function], [fit], [known.advised(known.answer(fit), fit)])[0]


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused
def _weigh(known: Known, function: Expr, fit: Approximation) -> Approximation:
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


def _bars(known: Known) -> Floats:
    """Error bar at the level, per row, of one unit of each coefficient: float[R]."""
    deviations = np.zeros(known.summary.basis.size)
    deviations[known.first :] = known.noise.deviations
    alone = np.eye(1, known.noise.size, known.noise.size - 1)[0]
    z = known.noise.half_width(alone, known.level) / max(known.noise.standard_error(alone), 1e-300)
    return deviations * z / known.step / max(known.count, 1.0)


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
