"""From a summary to a synthetic table.

The distribution is fitted in l2 whatever the noise: the projection on the moments of distributions moves no further
from the true moments than the noise did, and answers smooth queries best of the norms that were measured.

Privacy: post-processing of a release; the input is public, so the output costs nothing and may be made again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from duckdp.catalog import check_positive
from duckdp.errors import NumericalError
from duckdp.smooth.answer import noisy_count
from duckdp.smooth.summary import SmoothSummary
from duckdp.synthetic.decode import SyntheticTable, decode_points
from duckdp.synthetic.generation import generate
from duckdp.synthetic.sample import draw_points
from duckdp.synthetic.support import make_grid, make_objective

MAX_ROWS = 10**7
TIME_LIMIT = 60.0  # seconds for the program; the best distribution found by then is taken
GAP = 0.02  # certified distance from the optimum, relative
Progress = Callable[[str, float], None]


def synthesize(summary: SmoothSummary, rows: int, *, progress: Progress | None = None) -> SyntheticTable:
    """Make a synthetic table.

    Args:
        summary: a released summary; three columns of a few hundred sums take a second.
        rows: wanted rows, 1 to 10^7.
        progress: told (stage, share done) before each stage, within the program and at the end.

    Raises:
        NumericalError: N101, the count is too noisy or the summary has too many columns for a grid.
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
    support = make_grid(summary)
    objective, _ = make_objective(summary, count, least_squares=True)
    tell("program", 0.05)
    end = time.monotonic() + TIME_LIMIT
    found = generate(
        support.grid, objective, gap=GAP, should_stop=lambda: time.monotonic() > end,
        progress=lambda done, *_: tell("program", 0.05 + 0.9 * (1 - 0.8**done)),
    )  # fmt: skip
    if not len(found.weights):
        raise NumericalError(
            "N101", "the program found no distribution in time.", status="time limit",
            advice="Take a summary of a smaller degree or fewer columns.",
        )  # fmt: skip
    tell("sample", 0.95)
    places = np.ravel_multi_index(tuple(found.points.T), support.shape)
    points = places[draw_points(found.weights, rows)]
    columns = decode_points(points, support, summary.columns, summary.basis)
    reached = support.grid.columns(found.points) @ found.weights
    residual = float(np.abs(reached - objective.target).sum())
    types = {c.name: c.type for c in summary.columns}
    tell("done", 1.0)
    return SyntheticTable(table=summary.table, types=types, columns=columns, residual=residual)
