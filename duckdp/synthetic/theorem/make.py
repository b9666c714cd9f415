"""The second half of Algorithm 3: from noisy sums at grid points to a distribution, its rows, and its error bound.

Privacy: post-processing of a release.
Memory:  one float per grid point (at most 8 million), R^2 for R sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from duckdp.catalog.table import Column, released_type
from duckdp.core.types import NANO
from duckdp.core.watch import Watch
from duckdp.smooth.angles import largest_turn
from duckdp.smooth.basis import Basis
from duckdp.smooth.summary import SmoothSummary
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.lp.make.fitted import Fitted
from duckdp.synthetic.lp.make.grid_rows import decode_points
from duckdp.synthetic.lp.make.interior import Objective
from duckdp.synthetic.lp.make.levels import solve
from duckdp.synthetic.lp.make.support import Support, grid_of, grid_values, unit_nodes
from duckdp.synthetic.lp.make.synthesize import sure_count
from duckdp.synthetic.lp.make.unfinished import resumed
from duckdp.synthetic.opened import Opened
from duckdp.synthetic.sample import Bytes, bytes_of, draw_independent
from duckdp.synthetic.theorem.parameters import ErrorBound, round_means, theorem_17_bound
from duckdp.synthetic.theorem.plan import FAILURE

DISTANCE = "l1 distance of its moments"


def complete(raw: dict[str, Any], watch: Watch) -> dict[str, Any]:
    """The payload with the fitted distribution, going on where the program was left; see ``methods.Make``.

    Raises:
        NumericalError: N101, the program was not solved. CatalogError: C105, damaged.
    """
    summary = SmoothSummary.load(raw["moments"])
    watch.tell("support", 0.0)
    objective, enough = theorem_objective(summary, sure_count(summary), int(raw["theorem"]["steps"]))
    support = theorem_support(summary, raw)
    with resumed(raw["moments"]) as state:
        return {**raw, "table": solve(support, objective, watch, state, enough=enough).raw()}


def open_table(raw: dict[str, Any], watch: Watch) -> Opened:
    """Independent draws from the fitted distribution, the same whenever it is read; see ``methods.Make``.

    Raises:
        CatalogError: C105, damaged.
    """
    summary = SmoothSummary.load(raw["moments"])
    fitted = Fitted.read(raw["table"], theorem_support(summary, raw).shape)
    watch.tell("sample", 0.95)
    table = draw_theorem(raw, fitted, bytes_of(raw["moments"]))
    facts, early = theorem_facts(raw, fitted), (fitted.note(),) if fitted.note() else ()
    watch.tell("done", 1.0)
    return Opened(
        table=table,
        facts=facts,
        notes=(*(f"{name}: {value}" for name, value in facts), *early),
        remarks=("rows were moved to a grid before the sums, so no question is asked of them; see the bound",),
        summary=summary,
        independent=True,
    )


def shape(raw: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, DuckDB type) of the columns; see ``methods.Make``."""
    return [(c.name, c.type) for c in SmoothSummary.load(raw["moments"]).columns]


def theorem_support(summary: SmoothSummary, raw: dict[str, Any]) -> Support:
    """The grid of the theorem, N values for each column."""
    return grid_of(summary.columns, summary.basis, int(raw["theorem"]["values"]))


def theorem_objective(summary: SmoothSummary, count: float, steps: int) -> tuple[Objective, float]:
    """What is fitted, and the public level at which it is enough.

    Clipping to [-1, 1] keeps the theorem: true means lie there, so no noisy mean moves away from its own.

    Args:
        summary: of sums at grid points.
        count: its noisy or public number of rows, above 0.
        steps: L.

    Returns:
        (objective in l1, expected l1 norm of the noise and of the rounding, as means).
    """
    target = round_means(summary.sums / count, steps, clip=True)
    target[0] = 1.0
    first = 0 if summary.count is not None else 1
    deviations = summary.noise.deviations[first:] / (1 << summary.bits)
    mean = math.sqrt(2 / math.pi) if summary.family == "gaussian" else math.sqrt(0.5)  # E|Z| over the deviation
    enough = mean * float(deviations.sum()) / count + len(deviations) / (2 * steps)
    return Objective(target=target, norm="l1", weights=np.ones(len(target) - 1)), enough


def theorem_bound(raw: dict[str, Any], fit: float, *, drawn: int) -> ErrorBound:
    """Bound (22) of a release, for queries whose values and first K derivatives are at most 1 on the unit box.

    It is proportional to that limit B. Where n is private its noisy value stands for it, less the noise it may have.

    Args:
        raw: of the payload.
        fit: F.
        drawn: rows.
    """
    summary, figures = SmoothSummary.load(raw["moments"]), raw["theorem"]
    return theorem_17_bound(
        rows=max(1, math.floor(sure_count(summary))),
        dimensions=summary.basis.dimensions,
        smoothness=int(figures["smoothness"]),
        size=1.0,
        degree=int(figures["degree"]),
        values=int(figures["values"]),
        scale=summary.noise.scales[0] / (1 << summary.bits),
        fit=fit,
        failure=FAILURE,
        gaussian=summary.family == "gaussian",
        count_public=summary.count is not None,
        drawn=drawn,
        steps=int(figures["steps"]),
        turn=sum_of_turns(summary.columns, summary.basis, int(figures["values"])),
    )


def sum_of_turns(columns: Sequence[Column], basis: Basis, values: int) -> float:
    """The largest angles that rows move by, added up over the columns of a grid."""
    total = 0.0
    for column, axis in zip(columns, basis.axes, strict=True):
        found = grid_values(column, axis, values)
        total += 0.0 if _is_every_value(column, found) else largest_turn(unit_nodes(axis, found))
    return total


def draw_theorem(raw: dict[str, Any], fitted: Fitted, source: Bytes) -> SyntheticTable:
    """Rows that are drawn independently from the fitted distribution."""
    summary = SmoothSummary.load(raw["moments"])
    points = fitted.places[draw_independent(fitted.weights, int(raw["rows"]), source)]
    columns = decode_points(points, theorem_support(summary, raw), summary.columns, summary.basis)
    types = {c.name: released_type(c.type) for c in summary.columns}
    return SyntheticTable(table=summary.table, types=types, columns=columns, residual=fitted.residual)


def theorem_facts(raw: dict[str, Any], fitted: Fitted) -> tuple[tuple[str, str], ...]:
    """(name, value) of what a reader of the rows should know."""
    summary, figures = SmoothSummary.load(raw["moments"]), raw["theorem"]
    bound = theorem_bound(raw, fitted.loss, drawn=int(raw["rows"]))
    theorem = 22 if summary.family == "gaussian" else 17
    nullable = ", ".join(c.name for c in summary.columns if c.nullable)
    terms = ", ".join(
        f"{name} {getattr(bound, name):.3g}"
        for name in ("discretization", "approximation", "noise", "fit", "sampling", "rounding")
    )
    return (
        (
            f"parameters of Theorem {theorem} (n = {figures['n']:,}, K = {figures['smoothness']}, "
            f"epsilon = {summary.epsilon_nano / NANO:g})",
            f"t = {figures['degree']}, N = {figures['values']:,}, L = {figures['steps']:,}, m = {raw['rows']:,}",
        ),
        *((f"not the theorem's ({i})", text) for i, text in enumerate(figures["capped"], 1)),
        *([("left out", f"rows with a NULL in {nullable}")] if nullable else []),
        ("value of the program, l1 of means", f"{fitted.loss:.4g} ({fitted.status} after {fitted.rounds} rounds)"),
        (
            f"bound (22) on the error of every query with |f| and {figures['smoothness']} derivatives at most 1 "
            f"(columns on [-1, 1]), with probability {1 - FAILURE:g}",
            f"{bound.total:.4g} = {terms}",
        ),
    )


def _is_every_value(column: Column, values: Sequence[int | float]) -> bool:
    """Whether a grid holds every value a column can have."""
    lower, upper = column.lower, column.upper
    if not column.integral or not isinstance(lower, (int, float)) or not isinstance(upper, (int, float)):
        return False
    return len(values) == int(upper) - int(lower) + 1
