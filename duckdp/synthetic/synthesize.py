"""From a summary to a synthetic table.

Privacy: post-processing of a release; the input is public, so the output costs nothing and may be made again.
"""

from __future__ import annotations

from collections.abc import Callable

from duckdp.catalog import check_positive
from duckdp.errors import NumericalError
from duckdp.smooth.answer import noisy_count
from duckdp.smooth.summary import SmoothSummary
from duckdp.synthetic.decode import SyntheticTable, decode_points
from duckdp.synthetic.program import fit_distribution
from duckdp.synthetic.sample import draw_points
from duckdp.synthetic.support import make_support

MAX_ROWS = 10**6
Progress = Callable[[str, float], None]


def synthesize(summary: SmoothSummary, rows: int, *, progress: Progress | None = None) -> SyntheticTable:
    """Make a synthetic table.

    Args:
        summary: a released summary; three columns of a few hundred sums take seconds.
        rows: wanted rows, 1 to 10^6.
        progress: told (stage, share done) before each stage and at the end.

    Raises:
        NumericalError: N101, the count is too noisy, the summary too large, or the solver did not finish.
        ParameterError: P107, rows.
    """
    check_positive("rows", rows, MAX_ROWS)
    tell = progress or (lambda stage, share: None)  # noqa: ARG005
    count, margin = noisy_count(summary)
    if count <= margin:
        raise NumericalError(
            "N101", "the noisy count is not clearly above zero, so the summary says nothing about the rows.",
            status="no rows", advice="Buy a summary with a larger epsilon or a smaller degree.",
        )  # fmt: skip
    tell("support", 0.0)
    support = make_support(summary)
    tell("program", 0.05)
    found = fit_distribution(support.moments, summary.sums / count)  # [J] Algorithm 3, step 20
    tell("sample", 0.95)
    points = draw_points(found.weights, rows)
    columns = decode_points(points, support, summary.columns)
    types = {c.name: c.type for c in summary.columns}
    tell("done", 1.0)
    return SyntheticTable(table=summary.table, types=types, columns=columns, residual=found.residual)
