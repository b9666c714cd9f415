"""The answer expected to be narrower, of a summary that holds counts of ranges beside its sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from duckdp.compiler.expression import Expr
from duckdp.smooth.answer_bars import NO_COUNT, Known, SmoothAnswer
from duckdp.smooth.fit.coefficients import Approximation, read_function
from duckdp.smooth.fit.points import as_number_expression
from duckdp.smooth.fit.structured import mean_width
from duckdp.smooth.fit.terms import is_rough
from duckdp.smooth.range_answers import Bounded, RangeKnown
from duckdp.smooth.sum_noise import Floats
from duckdp.smooth.summary import SmoothSummary

CLOSE = 2e-4  # of a function's range: what cells may leave of it where no polynomial is looked for
_NORMAL = 1.96  # 95% half-widths in deviations


def with_ranges(
    known: Known, functions: Sequence[str | Expr], fits: Sequence[Approximation], made: Sequence[SmoothAnswer]
) -> list[SmoothAnswer]:
    """The answers made from sums, or those from counts where these are expected to be narrower.

    What decides are the noise's law and the means of bounds under public weights (``range_answers``), so that no
    interval is chosen by what was drawn.

    Args:
        known: what the answers share.
        functions: as they were asked.
        fits: what stands for each among the sums.
        made: their answers.
    """
    counts = _of(known)
    if counts is None:
        return list(made)
    return [_nearer(counts, f, fit, one) for f, fit, one in zip(functions, fits, made, strict=True)]


def of_counts(known: Known, function: str | Expr) -> SmoothAnswer | None:
    """The answer from counts of a function that jumps or bends, where cells leave less than the noise does; else None.

    Polynomials are farther from it, so that none is looked for.

    Raises:
        NumericalError: N102, f is NULL or not finite somewhere. QueryError: it is outside the allow-list.
    """
    counts = _of(known)
    if counts is None:
        return None
    number = as_number_expression(_read(function, known.summary))
    bounded = counts.bound(number) if is_rough(number) else None
    if bounded is None:
        return None
    gap, noise = counts.expected(bounded)
    if gap > max(noise, CLOSE * (bounded.span[1] - bounded.span[0])):
        return None
    counts.look(number)
    return _answered(counts, bounded)


def _of(known: Known) -> RangeKnown | None:
    """The counts beside the sums, if there are any."""
    ranges = known.summary.ranges
    return None if ranges is None else RangeKnown(known.summary, ranges, known.statistic, known.level)


def _nearer(known: RangeKnown, function: str | Expr, fit: Approximation, made: SmoothAnswer) -> SmoothAnswer:
    bounded = known.bound(_read(function, known.summary))
    if bounded is None or sum(known.expected(bounded)) >= _expected(known, fit, bounded):
        return made
    return _answered(known, bounded) or made


def _answered(known: RangeKnown, bounded: Bounded) -> SmoothAnswer | None:
    found = known.answer(bounded)
    if found is None:
        return None
    return SmoothAnswer(
        kind=known.statistic,
        value=found.value,
        standard_error=found.standard_error,
        approximation_error=found.approximation_error,
        low=found.low,
        high=found.high,
        level=known.level,
        estimated=False,
        note=NO_COUNT if found.value is None else "",
    )


def _expected(known: RangeKnown, fit: Approximation, bounded: Bounded) -> float:
    """Predicted half-width of the sums' answer, as that of the counts' is."""
    summary, middle = known.summary, bounded.middle
    used: Floats = fit.coefficients.astype(np.float64).copy()
    used[0] -= middle if known.statistic == "mean" else 0.0
    first = 0 if summary.count is None else 1
    with np.errstate(over="ignore", invalid="ignore"):
        noise = summary.noise.standard_error(used[first:]) / (1 << summary.bits) / max(1.0, known.count[0])
        between = fit.error if fit.sides is None else min(fit.error, mean_width(fit.sides, summary.basis) / 2)
    return float(np.nan_to_num(between + _NORMAL * noise, nan=np.inf))


def _read(function: str | Expr, summary: SmoothSummary) -> Expr:
    return read_function(function, summary.table, summary.columns) if isinstance(function, str) else function
