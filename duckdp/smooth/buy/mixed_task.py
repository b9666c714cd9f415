"""A summary of each category and of all rows in one release, better than one of each for halves of the charge.

The joint summary over the categories' column and the others has kernels that are products of indicators of categories
and kernels of the others: every row is in one category's alone, so that all categories together cost what one does.
Its sums of all rows add up the noise of G categories; for a share of the charge the sums of all rows are released once
more, and weighted least squares make one of both (``pooled``).

Stages:       the joint sums, stored; then, where they have a share, those of all rows.
Privacy:      the charge: x of it for the joint sums, the rest for the others, two ``SummaryTask`` of pure noise.
Split:        let V_r, W_r be the noise's variances of a sum of all rows in the joint and in the other release at the
              whole charge, C_r that of a category. With x of the charge for the joint one the sums of all rows have
              1 / (x^2 / V_r + (1 - x)^2 / W_r), those of a category C_r / x^2 - m V_r / (G x)^2 (m: ``pooled``). x is
              that of the least sum of ratios to what separate summaries (one per category, one of all rows, half of the
              charge each) have, over two kinds of questions: smooth ones, and lines (the largest of degree 1). At
              x = 1/2 both are already less; with few categories x = 1 may be best: nothing is released twice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from duckdp.catalog.table import Column, Table
from duckdp.core.accountant import pure_rho
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import Stages, Work
from duckdp.core.types import Loss, Neighbours
from duckdp.errors import ParameterError
from duckdp.smooth.axes import Floats, make_axis
from duckdp.smooth.basis import Basis, chebyshev
from duckdp.smooth.buy.per_group import MOST_GROUPS, plan_grouped
from duckdp.smooth.buy.summary_task import SummaryTask, plan_summary
from duckdp.smooth.buy.wishes import DEFAULT_PRIOR, Wishes
from duckdp.smooth.pooled import MIXED, MixedSummary
from duckdp.smooth.sum_noise import level_weights
from duckdp.smooth.summary import SmoothSummary

_STEPS = 64  # a share of the charge is a whole number of these parts


@dataclass(frozen=True, kw_only=True)
class MixedTask:
    """Summaries of categories and of all rows; implements ``core.task.Task``.

    Attributes:
        joint: the sums of categories, at their part of the charge.
        whole: those of all rows, at theirs; None where they have none.
        epsilon_nano: of both, in 1e-9.
        ratios: expected half-widths of all rows' and of a category's answers, against separate summaries.
    """

    joint: SummaryTask
    whole: SummaryTask | None
    epsilon_nano: int
    ratios: tuple[float, float]

    @property
    def table(self) -> Table:
        """The protected table that is read."""
        return self.joint.table

    @property
    def neighbours(self) -> Neighbours:
        """The relation that the charge holds for."""
        return self.joint.neighbours

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that each summary is over."""
        return self.joint.columns[1:]

    @property
    def basis(self) -> Basis:
        """The functions of the joint summary."""
        return self.joint.basis

    @property
    def loss(self) -> Loss:
        """What all of it costs."""
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        whole = None if self.whole is None else self.whole.canonical
        return json.dumps([MIXED, self.joint.canonical, whole, self.epsilon_nano])

    @property
    def mechanism(self) -> str:
        """The family of both noises."""
        return self.joint.mechanism

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        whole = None if self.whole is None else self.whole.parameters
        return {"joint": self.joint.parameters, "whole": whole, "joint_epsilon_nano": self.joint.epsilon_nano}

    def describe(self) -> list[str]:
        """What ``explain`` prints of it, line by line."""
        by = self.joint.columns[0].name
        share = self.joint.epsilon_nano / self.epsilon_nano
        rest = "; none for all rows once more" if self.whole is None else f", {1 - share:.0%} for all rows once more"
        return [
            f"one summary for each of the {self.joint.basis.axes[0].degree} values of {by}, and one for all rows",
            f"charge: {share:.0%} for all categories together{rest}",
            *self.joint.describe(),
            f"expected error against separate summaries for half of epsilon each: {self.ratios[0]:.2f} times for all "
            f"rows, {self.ratios[1]:.2f} times for a category",
        ]

    def query(self, salt: int) -> PrivateQuery:
        """The read of the joint sums."""
        return self.joint.query(salt)

    def work(self, salt: int) -> Work:
        """The joint sums; then those of all rows."""
        joint = self.joint.query(salt)
        whole = None if self.whole is None else self.whole.query(salt)

        def run(stages: Stages) -> str:
            if self.whole is None or whole is None:
                return self._both(stages.last(lambda: self.joint.release(stages.read(joint))), None)
            first, other = stages.run(lambda: self.joint.release(stages.read(joint))), self.whole
            return self._both(first, stages.last(lambda: other.release(stages.read(whole))))

        return run

    def _both(self, joint: str, whole: str | None) -> str:
        other = None if whole is None else SmoothSummary.load(whole)
        return MixedSummary(joint=SmoothSummary.load(joint), whole=other, epsilon_nano=self.epsilon_nano).dump()


def plan_mixed(
    table: Table,
    columns: Sequence[str],
    by: str,
    *,
    epsilon_nano: int,
    neighbours: Neighbours,
    delta_atto: int,
    wishes: Wishes,
) -> MixedTask:
    """Plan summaries of categories and of all rows; arguments as ``plan_summary``.

    Raises:
        ParameterError: P107, no listed column, too many values, or options that the kernels' noise does not go with.
    """
    if delta_atto or wishes.noise not in ("auto", "kernels"):
        raise ParameterError("P107", "across", True, "has noise of kernels: it takes no delta and no other noise.")
    if wishes.shape not in ("auto", "tensor") or wishes.order is not None or wishes.smoothness is not None:
        rule = "has a full tensor of a degree: it takes no other basis, no interactions and no smoothness."
        raise ParameterError("P107", "across", True, rule)
    alone = plan_summary(table, [by], epsilon_nano=epsilon_nano, neighbours=neighbours, wishes=Wishes(noise="sums"))
    values = make_axis(alone.columns[0], 2).values
    if values is None or not 2 <= len(values) <= MOST_GROUPS or alone.columns[0].name in columns:
        rule = f"must be a column with a domain of 2 to {MOST_GROUPS} values that is not among the summary's columns."
        raise ParameterError("P107", "per", by, rule)
    wishes = replace(wishes, shape="tensor", noise="kernels")

    def joint(part: int, own: Wishes) -> SummaryTask:
        return plan_summary(table, [by, *columns], epsilon_nano=part, neighbours=neighbours, wishes=own)

    at_all = joint(epsilon_nano, wishes)
    wishes = replace(wishes, degree=at_all.basis.degree)

    def whole(part: int, noise: Literal["kernels", "auto"] = "kernels") -> SummaryTask:
        own = replace(wishes, noise=noise)
        return plan_summary(table, columns, epsilon_nano=part, neighbours=neighbours, wishes=own)

    half, apart = max(1, epsilon_nano // 2), replace(wishes, noise="sums")
    each = at_all
    if table.unit_key is None:  # else there are no summaries per category to compare with
        charge: dict[str, Any] = {"epsilon_nano": half, "neighbours": neighbours, "delta_atto": 0}
        each = plan_grouped(table, columns, by, **charge, wishes=apart).one
    steps, ratios = _split(at_all, whole(epsilon_nano), whole(half, "auto"), each, len(values))
    part = epsilon_nano * steps // _STEPS
    found = at_all if steps == _STEPS else joint(part, wishes)
    other = None if steps == _STEPS else whole(epsilon_nano - part)
    return MixedTask(joint=found, whole=other, epsilon_nano=epsilon_nano, ratios=ratios)


def _split(
    joint: SummaryTask, whole: SummaryTask, separate: SummaryTask, each: SummaryTask, count: int
) -> tuple[int, tuple[float, float]]:
    """(steps of the joint sums' share, ratios of expected half-widths to those of separate summaries).

    Args:
        joint: at the whole charge.
        whole: of all rows, at the whole charge.
        separate: of all rows, at half of it.
        each: of a category, at half of it.
        count: of categories.
    """
    v, w, base = (_variances(task, whole.basis.size) for task in (joint, whole, separate))
    one = _of_category(joint, count, whole.basis.size)
    own = 4 * one if each is joint else _variances(each, whole.basis.size)
    levels = whole.basis.levels
    kinds = [level_weights(levels, DEFAULT_PRIOR) * (levels > 0), (levels == 1).astype(np.float64)]

    def ratios(steps: int) -> list[tuple[float, float]]:
        x, left = steps / _STEPS, (1 - steps / _STEPS) ** 2
        rows = 1 / (x**2 / v + left / w)
        told = (v / x**2) / (v / x**2 + w / left) if left else 0.0 * v
        category = one / x**2 - told * v / (count * x) ** 2
        return [(_ratio(rows, base, kind), _ratio(category, own, kind)) for kind in kinds]

    best = min(range(_STEPS // 4, _STEPS + 1), key=lambda steps: float(np.sum(np.square(ratios(steps)))))
    return best, ratios(best)[0]


def _ratio(ours: Floats, theirs: Floats, weights: Floats) -> float:
    return math.sqrt(float(ours @ weights) / float(theirs @ weights))


def _variances(task: SummaryTask, size: int) -> Floats:
    """Of the first sums' noise, in rows squared; a public count's is as small as it can be."""
    first = 1 if task.count_public else 0
    found = np.full(task.basis.size, 1e-12)
    found[first:] = np.maximum(found[first:], task.plan.noise.deviations**2 / 4.0**task.moments.bits)
    return np.asarray(found[:size])


def _of_category(task: SummaryTask, count: int, size: int) -> Floats:
    """Of the noise of one category's sums, in rows squared."""
    axis, first = task.basis.axes[0], 1 if task.count_public else 0
    row = np.linalg.inv(chebyshev(axis.nodes, axis.degree).T)[count // 2]
    found = [task.plan.noise.standard_error(np.kron(row, unit)[first:]) for unit in np.eye(size)]
    return np.asarray(np.maximum(1e-12, np.square(found) / 4.0**task.moments.bits))
