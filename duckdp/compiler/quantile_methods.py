"""Which way to take to quantiles of a column, and how far ranks are off by each: formulas of public figures.

::

    exponential   each draw is off by 1 / sinh(rate) rows, and by what the cuts it hangs on are off (quantile_levels)
    tree          the deviation of a sum of noisy counts, and a quarter of a leaf's rows (quantile_tree)
    smooth        the mean of its noise, on evenly spread rows (mechanisms/smooth_error.py)

They are means of distances, in rows, between the rank that is wanted and the one that a value has. On the last figure
of a question nobody can rely: it is far larger where values leave a gap. "auto" takes the least of the first two; the
third is above the first at every epsilon (4 to 25 times at epsilon 1 to 0.1), so it is taken only by name. A step that
the caller names has a way of its own (quantile_steps). In place of a draw "auto" takes it, with a step of 1, for one
quantile of few whole numbers without an interval: it is off by no more, whatever the rows, and by half as much or less
where each number has more rows than the noise (mechanisms/candidate_quantiles).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from duckdp.catalog.table import Column, Table
from duckdp.compiler.expression import Expr
from duckdp.compiler.order_rows import OrderRows
from duckdp.compiler.quantile import QuantileTask, plan_quantile
from duckdp.compiler.quantile_levels import QuantilesTask, plan_quantiles
from duckdp.compiler.quantile_rows import plan_rows, read_quantiles
from duckdp.compiler.quantile_steps import StepQuantileTask, plan_step_quantile
from duckdp.compiler.quantile_tree import TreeQuantilesTask, plan_tree
from duckdp.compiler.query import Key, group_count
from duckdp.compiler.value_grid import ValueGrid
from duckdp.core.types import Loss, Neighbours
from duckdp.errors import ParameterError
from duckdp.mechanisms.smooth_error import mean_rank_error
from duckdp.result import Estimate

METHODS = ("auto", "exponential", "tree", "smooth")
MOST_FLIPPED = 20_000  # whole numbers of all groups together that "auto" flips: each takes a draw, some 1 microsecond
_FLIPPED = "how far ranks are off: by no more than where one is drawn, whatever the rows"  # of permute and flip


@dataclass(frozen=True, kw_only=True)
class SmoothOne:
    """One quantile by smooth sensitivity, as the others are told.

    Attributes:
        task: what is performed; ``dp_median_smooth`` has the same one.
    """

    task: QuantileTask

    @property
    def table(self) -> Table:
        """The protected table that is read."""
        return self.task.table

    @property
    def column(self) -> Column:
        """The column whose quantile is released."""
        return self.task.column

    @property
    def loss(self) -> Loss:
        """What the release costs, all of it."""
        return self.task.loss

    @property
    def error(self) -> float:
        """About how far the rank is off, rows, where rows are spread evenly."""
        return mean_rank_error(self.task.quantile.noise, self.task.quantile.max_rows)

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        off = f"off by about {self.error:,.3g} rows of rank where rows are spread evenly, by far more across a gap"
        return [f"one quantile of {self.column.name} by smooth sensitivity", off]

    def read(self, payload: str) -> list[list[Estimate]]:
        """The quantile, from the stored payload."""
        return [[Estimate(value=json.loads(payload)["value"])]]


Plan = QuantilesTask | TreeQuantilesTask | StepQuantileTask | SmoothOne


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A way that was taken.

    Attributes:
        plan: what is asked.
        older: the same words as they were once planned.
        why: what decided, for ``explain``; empty where the way was named.
    """

    plan: Plan
    older: Sequence[QuantilesTask | TreeQuantilesTask] = ()
    why: str = ""

    def read(self, payload: str) -> list[list[Estimate]]:
        """The quantiles of each group, by the plan or by the older one that the payload is of."""
        flipped, drawn = '"chosen"' in payload, '"cells"' in payload
        older = (isinstance(self.plan, StepQuantileTask) and not flipped) or (
            isinstance(self.plan, TreeQuantilesTask) and drawn
        )
        return (self.older[0] if older else self.plan).read(payload)


def choose(
    table: Table,
    name: str,
    quantiles: Sequence[float],
    where: Expr | None,
    keys: tuple[Key, ...] = (),
    *,
    epsilon_nano: int,
    neighbours: Neighbours,
    intervals: bool,
    method: str,
    step: float | None = None,
    parts_only: bool = False,
) -> Choice:
    """Plan quantiles of a bounded numeric column by a method, or by the one with the least predicted error.

    A step makes candidates of its multiples, from which one quantile is chosen. Where reads are made on parts of the
    rows (``parts_only``), "auto" takes what counts, since counts add up: a tree, or whole numbers one by one.

    Raises:
        CatalogError: C102. QueryError: Q203, Q401. ParameterError: P1xx.
    """
    if method not in METHODS:
        raise ParameterError("P107", "method", method, "must be auto, exponential, tree or smooth.")
    if step is not None:
        if method != "auto" or intervals:
            rule = "has a way of its own, without an interval. Leave method out, and say intervals := false."
            raise ParameterError("P107", "step", step, rule)
        terms = {"step": step, "epsilon_nano": epsilon_nano, "neighbours": neighbours}
        return Choice(plan=plan_step_quantile(table, name, quantiles, where, keys, **terms))  # type: ignore[arg-type]
    if method == "smooth":
        return Choice(plan=_smooth(table, name, quantiles, where, keys, epsilon_nano, neighbours, intervals=intervals))
    rows, asked = plan_rows(table, name, quantiles, where, keys)
    flips = method == "auto" and not intervals and _is_flipped(rows, asked)
    flip = _flipped(rows, asked, epsilon_nano, neighbours) if flips else None
    if method == "tree" or (method == "auto" and parts_only):
        tree = plan_tree(rows, asked, epsilon_nano=epsilon_nano, neighbours=neighbours)
        if flip is not None:
            return Choice(plan=flip, older=(tree,), why=_FLIPPED)
        return Choice(plan=tree, why="" if method == "tree" else "counts of a tree add up over machines, ranks do not")
    drawn = plan_quantiles(
        table, name, quantiles, where, keys, epsilon_nano=epsilon_nano, neighbours=neighbours, intervals=intervals
    )
    older = (replace(drawn, round=False),) if drawn.grid.measure.levels else ()
    if method == "exponential":
        return Choice(plan=drawn, older=older)
    off, by_tree, why = exponential_error(drawn), math.inf, ""
    try:
        tree = plan_tree(rows, asked, epsilon_nano=epsilon_nano, neighbours=neighbours)
        by_tree = tree.error
        why = f"how far ranks are off: by about {off:,.3g} rows where draws, by {by_tree:,.3g} where a tree"
    except ParameterError:  # too many groups for it, or too little epsilon
        pass
    if by_tree < off:
        return Choice(plan=tree, older=(drawn, *older), why=why)
    return Choice(plan=drawn, older=older, why=why) if flip is None else Choice(plan=flip, older=(drawn,), why=_FLIPPED)


def _is_flipped(rows: OrderRows, asked: Sequence[Fraction]) -> bool:
    """Whether one quantile is of whole numbers so few that none counts more than others, and each may have a draw."""
    span, whole = rows.column.interval, rows.column.integral and rows.steps <= MOST_FLIPPED
    if (
        len(asked) != 1
        or not 0 < asked[0] < 1
        or not whole
        or not (span.lower.is_integer() and span.upper.is_integer())
    ):
        return False
    few = rows.steps >= 1 and (rows.steps + 1) * max(1, group_count(rows.keys)) <= MOST_FLIPPED
    return few and not ValueGrid(column=rows.column, steps=rows.steps, round=True).measure.levels


def _flipped(rows: OrderRows, asked: Sequence[Fraction], epsilon_nano: int, neighbours: Neighbours) -> StepQuantileTask:
    """The quantile chosen among all whole numbers in the bounds."""
    terms = {"step": 1.0, "epsilon_nano": epsilon_nano, "neighbours": neighbours}
    of = rows.table, rows.column.name, [float(q) for q in asked], rows.where, rows.keys
    return plan_step_quantile(*of, **terms)  # type: ignore[arg-type]


def exponential_error(task: QuantilesTask) -> float:
    """Mean distance of the ranks of drawn quantiles, rows."""
    off: dict[int, float] = {}
    for split in task.splits:
        aim = task.aim(split)
        own = 1 / math.sinh(min(float(aim.rate), 100.0)) + aim.inward
        above = sum(task.leans(by, split) * off[by.index] for by in task.splits if by.level < split.level)
        off[split.index] = own + above
    return sum(off.values()) / len(off)


def _smooth(
    table: Table,
    name: str,
    quantiles: Sequence[float],
    where: Expr | None,
    keys: tuple[Key, ...],
    epsilon_nano: int,
    neighbours: Neighbours,
    *,
    intervals: bool,
) -> SmoothOne:
    (first, *others) = read_quantiles(quantiles)
    if others or keys or intervals or not 0 < first < 1:
        rule = "gives one quantile between 0 and 1, without groups and with intervals := false. Take another method."
        raise ParameterError("P107", "method", "smooth", rule)
    return SmoothOne(
        task=plan_quantile(
            table,
            name,
            where,
            epsilon_nano=epsilon_nano,
            delta_atto=0,
            quantile=first,
            neighbours=neighbours,
        )
    )
