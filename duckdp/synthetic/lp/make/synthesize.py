"""From a summary to a synthetic table.

The distribution is fitted in l2 whatever the noise: the projection on the moments of distributions moves no further
from the true moments than the noise did, and answers smooth queries best of the norms that were measured.

Privacy: post-processing of a release; the input is public, so the output costs nothing and may be made again.
Memory:  one float per grid point (at most 2 million) and R^2 for R sums.
"""

from __future__ import annotations

from duckdp.catalog.table import check_positive, released_type
from duckdp.core.watch import Tell, Watch
from duckdp.errors import NumericalError
from duckdp.smooth.answer import noisy_count
from duckdp.smooth.summary import SmoothSummary
from duckdp.synthetic.asked import MAX_ROWS
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.lp.make.fitted import Fitted, single_point
from duckdp.synthetic.lp.make.generation import State
from duckdp.synthetic.lp.make.grid_rows import decode_points
from duckdp.synthetic.lp.make.levels import solve_levels
from duckdp.synthetic.lp.make.support import make_grid, make_objective
from duckdp.synthetic.lp.make.unfinished import resumed
from duckdp.synthetic.sample import Bytes, draw_points, system_bytes
from duckdp.synthetic.scale import default_rows, tell_scale


def synthesize(
    summary: SmoothSummary,
    rows: int | None = None,
    *,
    progress: Tell | None = None,
    time_limit: float | None = None,
) -> SyntheticTable:
    """Make a synthetic table; interrupted, the next call for the same summary goes on where this one stood.

    Args:
        summary: a released summary; three columns of a few hundred sums take a second.
        rows: wanted rows, 1 to 10^7; None for as many as the noisy count says.
        progress: told (stage, share done) before each stage, within the program and at the end.
        time_limit: seconds of processor time for the program; then the best that follows its release is taken.

    Raises:
        NumericalError: N101, the count is too noisy or the summary has too many columns for a grid.
        ParameterError: P107, rows or time_limit.
    """
    rows = rows_of(summary) if rows is None else check_positive("rows", rows, MAX_ROWS)
    watch = Watch(progress=progress, time_limit=time_limit)
    with resumed(summary.dump()) as state:
        fitted = fit_summary(summary, watch, state)
    watch.tell("sample", 0.95)
    made = draw_table(summary, fitted, rows)
    watch.tell("done", 1.0)
    return made


def fit_summary(summary: SmoothSummary, watch: Watch, state: State) -> Fitted:
    """The distribution whose moments come closest to the noisy ones.

    Args:
        summary: a released summary.
        watch: told of progress; may end the work.
        state: to go on from; holds the last finished round when the call ends by an exception.

    Raises:
        NumericalError: N101.
    """
    count = sure_count(summary)
    watch.tell("support", 0.0)
    support = make_grid(summary)
    if summary.basis.size == 1:  # every column has one value: nothing is to be fitted
        return single_point(support.shape)
    objective, expected = make_objective(summary, count, least_squares=True)
    return solve_levels(support, objective, expected, watch, state)


def draw_table(summary: SmoothSummary, fitted: Fitted, rows: int, source: Bytes = system_bytes) -> SyntheticTable:
    """Rows of a fitted distribution; ``source``: of randomness."""
    points = fitted.places[draw_points(fitted.weights, rows, source)]
    columns = decode_points(points, make_grid(summary), summary.columns, summary.basis)
    types = {c.name: released_type(c.type) for c in summary.columns}
    told = tell_scale(rows, max(1.0, noisy_count(summary)[0]), "rows", summary.table)
    return SyntheticTable(table=summary.table, types=types, columns=columns, residual=fitted.residual, scale=told)


def rows_of(summary: SmoothSummary) -> int:
    """As many rows as the noisy count says, within bounds."""
    return default_rows(noisy_count(summary)[0], len(summary.columns))


def sure_count(summary: SmoothSummary) -> float:
    """The noisy number of rows.

    Raises:
        NumericalError: N101, it is not clearly above zero.
    """
    count, margin = noisy_count(summary)
    if count <= margin:
        raise NumericalError(
            "N101",
            "the noisy count is not clearly above zero, so the summary says nothing about the rows.",
            status="no rows",
            advice="Buy a summary with a larger epsilon or a smaller degree.",
        )
    return count
