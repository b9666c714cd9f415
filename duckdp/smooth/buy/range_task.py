"""A summary with counts of ranges beside its sums, for one charge: smooth questions and rectangles from one release.

Stages:       the counts first, stored; then the stages of the summary itself, with the rest of the charge.
Privacy:      the charge. The counts cost a share of it (``mechanisms/noisy_tables``), the sums the rest
              (``summary_task``, ``counted``): pure epsilon adds up; where both are Gaussian, rho does, to what the
              whole (epsilon, delta) allows.
Assumes:      as both: the rows and their weights are those of ``sums/scan`` in both reads.
Split:        a question's expected squared error is A^2 / x^2 of the sums with the share x, B^2 / (1 - x)^2 of the
              counts (A, B at the whole charge: ``sum_noise.expected_error``, ``range_plan``). Their sum is least at
              x : 1 - x = A^(2/3) : B^(2/3); with rho, A^2 / x + B^2 / (1 - x) at x : 1 - x = A : B. Neither is given
              less than a tenth.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from duckdp.catalog.table import Column, Table
from duckdp.core.accountant import epsilon_for, no_gaussian, pure_rho, rho_for
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import Stages, Work
from duckdp.core.types import NANO, PICO, Loss, Neighbours, show_decimal
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms.noisy_tables import BITS, TableNoise, change, plan_gaussian, plan_laplace
from duckdp.smooth.buy.counted import CountedTask, plan_counted
from duckdp.smooth.buy.summary_task import SummaryTask
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.range_counts import RangeCounts
from duckdp.smooth.range_plan import HALF, Cost, RangePlan, describe_tables, plan_ranges
from duckdp.smooth.sum_noise import expected_error
from duckdp.smooth.summary import SmoothSummary
from duckdp.smooth.sums.range_read import RangeRead

LEAST = 0.1  # of the charge, for sums and for counts
_STEPS = 1000  # a share is a whole number of these parts
_LEAST_RHO = 1000  # 1e-12, of a charge that Gaussian sums and counts share: of less a part may be none


@dataclass(frozen=True, kw_only=True)
class RangedTask:
    """A summary with counts of ranges; implements ``core.task.Task``.

    Attributes:
        inner: the summary, at its part of the charge.
        read: of the counts.
        noise: of the counts.
        plan: the counts' tables and expected errors, at their part of the charge.
        epsilon_nano: the counts' part, in 1e-9.
        loss: of all.
        rows: expected.
    """

    inner: SummaryTask | CountedTask
    read: RangeRead
    noise: TableNoise
    plan: RangePlan
    epsilon_nano: int
    loss: Loss
    rows: int

    @property
    def table(self) -> Table:
        """The protected table that is read."""
        return self.inner.table

    @property
    def neighbours(self) -> Neighbours:
        """The relation that the charge holds for."""
        return _largest(self.inner).neighbours

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the summary."""
        return self.inner.columns

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        nested = self.noise.nested
        counts = [nested.sizes, nested.tables, self.noise.family, self.noise.scales, BITS]
        return json.dumps(["ranged_summary", self.inner.canonical, counts, str(self.loss)])

    @property
    def mechanism(self) -> str:
        """The families of both noises."""
        return f"{self.inner.mechanism}, {self.noise.family}"

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        counts = {"cells": self.noise.nested.cells, "scales": self.noise.scales, "epsilon_nano": self.epsilon_nano}
        return {**self.inner.parameters, "ranges": counts}

    def describe(self) -> list[str]:
        """What ``explain`` prints of it, line by line."""
        told = "; ".join(describe_tables(self.plan.axes, self.noise.nested))
        share = self._share()
        pair = "" if math.isinf(self.plan.two) else f", in two columns +-{self._of_mean(self.plan.two)}"
        return [
            f"charge: {1 - share:.0%} for sums (smooth questions), {share:.0%} for counts (ranges), by expected errors",
            *self.inner.describe(),
            f"ranges: {self.noise.nested.cells:,} counts with {self.noise.family} noise: {told}",
            f"expected 95% half-width of a range's share of rows: in one column +-{self._of_mean(self.plan.one)}{pair}",
        ]

    def _share(self) -> float:
        if self.noise.family == "laplace":
            return self.epsilon_nano / self.loss.epsilon_nano
        return 1 - self.inner.loss.rho_pico / self.loss.rho_pico

    def _of_mean(self, rows: float) -> str:
        return f"{min(1.0, rows / self.rows):.2g}"

    def query(self, salt: int) -> PrivateQuery:
        """The read of the sums."""
        return self.inner.query(salt)

    def work(self, salt: int) -> Work:
        """The noisy counts, then the summary's own stages."""
        inner, query = self.inner.work(salt), self.read.query()

        def run(stages: Stages) -> str:
            counts = stages.run(lambda: self._noised(self.read.collect(stages.read(query))))
            return self._both(inner(stages), json.loads(counts))

        return run

    def _noised(self, exact: Sequence[int]) -> str:
        """Noise exact cells."""
        drawn = self.noise.draw()
        return json.dumps([value + z for value, z in zip(exact, drawn, strict=True)])

    def _both(self, payload: str, values: Sequence[int]) -> str:
        """The payload of all: the summary's, with the counts."""
        summary = SmoothSummary.load(payload)
        counts = RangeCounts(
            axes=tuple(replace(own, axis=axis) for own, axis in zip(self.plan.axes, summary.basis.axes, strict=True)),
            noise=self.noise,
            values=tuple(values),
            epsilon_nano=self.epsilon_nano,
        )
        loss = self.loss
        both = replace(summary, ranges=counts, epsilon_nano=loss.epsilon_nano, delta_atto=loss.delta_atto)
        return both.dump()


def plan_ranged(
    table: Table,
    columns: Sequence[str],
    *,
    epsilon_nano: int,
    neighbours: Neighbours,
    delta_atto: int,
    wishes: Wishes,
) -> RangedTask:
    """Plan a summary with counts of ranges; arguments and errors as ``plan_summary``.

    Raises:
        ParameterError: P107, delta where the degree follows from a noisy count.
    """
    rows = max(1, table.expected_rows or table.row_cap)
    charge: dict[str, Any] = {"neighbours": neighbours}
    found: list[tuple[float, RangedTask]] = []
    if wishes.noise != "gaussian":
        whole = plan_counted(table, columns, epsilon_nano=epsilon_nano, delta_atto=0, wishes=wishes, **charge)
        found.append(_pure(whole, rows, epsilon_nano, wishes))
    counted = found and isinstance(found[0][1].inner, CountedTask)
    enough = delta_atto > 0 and rho_for(epsilon_nano, delta_atto) >= _LEAST_RHO
    if enough and wishes.noise in ("auto", "sums", "gaussian") and not counted:
        gaussian = replace(wishes, noise="gaussian")
        whole = plan_counted(
            table, columns, epsilon_nano=epsilon_nano, delta_atto=delta_atto, wishes=gaussian, **charge
        )
        if isinstance(whole, CountedTask):
            rule = "does not go with ranges where the degree follows from a noisy count. Give a degree, or no delta."
            raise ParameterError("P107", "delta", show_decimal(delta_atto, 18), rule)
        found.append(_gaussian(whole, rows, epsilon_nano, delta_atto, gaussian))
    if not found:
        raise no_gaussian(delta_atto)
    return min(found, key=lambda pair: pair[0])[1]


def _pure(whole: SummaryTask | CountedTask, rows: int, epsilon_nano: int, wishes: Wishes) -> tuple[float, RangedTask]:
    """(expected error, the task) with pure noise."""
    largest = _largest(whole)
    one = change(_max_rows(largest.table), largest.neighbours)
    unit = math.sqrt(2) * one.l1 / (1 << BITS) * NANO / epsilon_nano
    a, b = _sums_error(largest, wishes), plan_ranges(largest.basis.axes, rows, Cost(unit=unit, power=1.0)).deviation
    part = _split(a ** (2 / 3), b ** (2 / 3))
    for_counts = min(epsilon_nano - 1, max(1, int(epsilon_nano * part)))
    inner = plan_counted(
        whole.table,
        [c.name for c in whole.columns],
        epsilon_nano=epsilon_nano - for_counts,
        neighbours=largest.neighbours,
        delta_atto=0,
        wishes=wishes,
    )
    plan = plan_ranges(_largest(inner).basis.axes, rows, Cost(unit=unit * epsilon_nano / for_counts, power=1.0))
    noise = plan_laplace(plan.nested, plan.shares, one, Fraction(for_counts, NANO))
    loss = Loss(epsilon_nano=epsilon_nano, rho_pico=pure_rho(epsilon_nano))
    task = _task(inner, plan, noise, for_counts, loss, rows)
    return _joint(task, wishes), task


def _gaussian(
    whole: SummaryTask, rows: int, epsilon_nano: int, delta_atto: int, wishes: Wishes
) -> tuple[float, RangedTask]:
    """(expected error, the task) with Gaussian noise."""
    one, rho = change(_max_rows(whole.table), whole.neighbours), rho_for(epsilon_nano, delta_atto)
    unit = math.sqrt(one.l2_squared * PICO / (2 * rho)) / (1 << BITS)
    a, b = _sums_error(whole, wishes), plan_ranges(whole.basis.axes, rows, Cost(unit=unit, power=0.5)).deviation
    for_sums = epsilon_for(max(1, int(rho * (1 - _split(a, b)))), delta_atto)
    inner = plan_counted(
        whole.table,
        [c.name for c in whole.columns],
        epsilon_nano=for_sums,
        neighbours=whole.neighbours,
        delta_atto=delta_atto,
        wishes=wishes,
    )
    if isinstance(inner, CountedTask):
        raise InternalError("the degree follows from a count where it did not")
    left = rho - inner.loss.rho_pico
    plan = plan_ranges(_largest(inner).basis.axes, rows, Cost(unit=unit * math.sqrt(rho / left), power=0.5))
    noise = plan_gaussian(plan.nested, plan.shares, one, Fraction(left, PICO))
    loss = Loss(epsilon_nano=epsilon_nano, delta_atto=delta_atto, rho_pico=rho)
    task = _task(inner, plan, noise, max(1, epsilon_nano - for_sums), loss, rows)
    return _joint(task, wishes), task


def _task(
    inner: SummaryTask | CountedTask, plan: RangePlan, noise: TableNoise, epsilon_nano: int, loss: Loss, rows: int
) -> RangedTask:
    read = RangeRead(table=inner.table, columns=inner.columns, axes=plan.axes, nested=plan.nested)
    return RangedTask(inner=inner, read=read, noise=noise, plan=plan, epsilon_nano=epsilon_nano, loss=loss, rows=rows)


def _split(sums: float, counts: float) -> float:
    """The counts' share."""
    share = round(min(1 - LEAST, max(LEAST, counts / (sums + counts))) * _STEPS)
    return share / _STEPS


def _joint(task: RangedTask, wishes: Wishes) -> float:
    return math.hypot(_sums_error(_largest(task.inner), wishes), task.plan.one / HALF)


def _sums_error(task: SummaryTask, wishes: Wishes) -> float:
    """Expected error of a smooth question, in rows."""
    levels = task.basis.levels[1 if task.count_public else 0 :]
    return max(1e-9, expected_error(task.plan.noise, levels, wishes.prior) / (1 << task.moments.bits))


def _largest(task: SummaryTask | CountedTask) -> SummaryTask:
    return task.largest if isinstance(task, CountedTask) else task


def _max_rows(table: Table) -> int:
    return table.max_rows if table.unit_key is not None else 1
