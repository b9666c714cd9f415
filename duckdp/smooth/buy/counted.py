"""A summary whose degree follows from the number of rows, when nobody declared that number.

The sums of the largest degree that ``row_cap`` allows are computed; the degree of the paper's rule is then taken from
the count, and only the functions of that degree are released.

Stages:       what is drawn for the count decides how many sums are noised, so it is stored before that (``core.task``).
Privacy:      under ADD_REMOVE the count is a Laplace release of its own, with a twentieth of epsilon; the degree is a
              function of it, and the sums cost the rest: composition, the second mechanism chosen by the output of the
              first (epsilon, delta and rho each add up, and ``loss`` says the sums). Under REPLACE, where every row
              counts, the number of rows is public and costs nothing.
Assumes:      as ``plan``; ``Basis.norms`` bounds the sums of every smaller basis too, which is a part of the vector.
Numerics:     the count is an integer of Python's, and its noise is drawn at zero: no count is out of range. Whatever
              degree follows has a plan: the largest one's is made before the charge and takes the place of any other's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from duckdp.catalog.table import Column, Table
from duckdp.core.accountant import pure_rho, rho_for
from duckdp.core.noise import laplace_noise, laplace_scale
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import Stages, Work
from duckdp.core.types import ATTO, NANO, Loss, Neighbours, Sensitivity
from duckdp.errors import ParameterError
from duckdp.smooth.basis import Basis, degree_from
from duckdp.smooth.buy.kernel_release import kernel_sums_of, plan_kernels_on
from duckdp.smooth.buy.summary_task import SummaryTask, plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.kernel_noise import KernelNoise
from duckdp.smooth.sum_noise import NoisePlan, choose_noise
from duckdp.smooth.summary import make_basis
from duckdp.smooth.sums.moments import MomentPlan

COUNT_SHARE = 20  # one part in this many pays for the count


@dataclass(frozen=True, kw_only=True)
class CountedTask:
    """A summary whose degree follows from a noisy count. Implements ``core.task.Task``.

    Attributes:
        largest: the summary of the largest degree, planned at the whole charge.
        wishes: what was asked for; smoothness is set.
    """

    largest: SummaryTask
    wishes: Wishes

    @property
    def table(self) -> Table:
        """The protected table that is read."""
        return self.largest.table

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the summary."""
        return self.largest.columns

    @property
    def loss(self) -> Loss:
        """What it costs: the count's and the sums'."""
        whole = self.largest.loss
        if self.largest.count_public or not whole.delta_atto:
            return whole
        count, rest = self._parts()
        return replace(whole, rho_pico=pure_rho(count) + rho_for(rest, whole.delta_atto))

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        return json.dumps(["counted", self.largest.canonical, self.wishes.smoothness])

    @property
    def mechanism(self) -> str:
        """The family of the largest degree's noise; a smaller one keeps it."""
        return self.largest.mechanism

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        return {**self.largest.parameters, "smoothness": self.wishes.smoothness, "degree": "from the count"}

    def describe(self) -> list[str]:
        """What ``explain`` prints of it, line by line."""
        paid = "which is public" if self.largest.count_public else f"released with 1/{COUNT_SHARE} of epsilon"
        return [
            f"degree: from the number of rows, {paid}; at most {self.largest.basis.degree} (row_cap)",
            *self.largest.describe(),
        ]

    def query(self, salt: int) -> PrivateQuery:
        """The private read of the largest degree."""
        return self.largest.query(salt)

    def work(self, salt: int) -> Work:
        """The noisy count; by it the degree, and the noisy sums of that degree. One read, again only in a retry."""
        query = self.query(salt)

        def run(stages: Stages) -> str:
            exact: list[int] = []

            def read() -> list[int]:
                if not exact:
                    exact.extend(self.largest.exact(stages.read(query)))
                return exact

            if self.largest.count_public:
                return stages.last(lambda: self._noised(read(), read()[0]))
            count = int(stages.run(lambda: str(self._noisy_count(read()[0]))))
            return stages.last(lambda: self._noised(read(), count))

        return run

    def _noised(self, exact: Sequence[int], count: int) -> str:
        """The noisy sums of the degree that follows from a count, public or noisy."""
        task = self._planned(self._degree(count))
        return task.noised([exact[p] for p in _places(self.largest.basis, task.basis)])

    def _parts(self) -> tuple[int, int]:
        """Epsilon of the count and of the sums, in 1e-9."""
        whole = self.largest.epsilon_nano
        count = 0 if self.largest.count_public else max(1, whole // COUNT_SHARE)
        return count, max(1, whole - count)

    def _noisy_count(self, exact: int) -> int:
        share = Fraction(self._parts()[0], NANO)
        return exact + laplace_noise(1, laplace_scale(share, self.largest.sensitivity.linf))[0]

    def _degree(self, count: int) -> int:
        bits, loss = self.largest.moments.bits, self.largest.loss
        rows = max(1, min(self.table.row_cap, count >> bits))  # the largest degree is that of row_cap
        wanted = degree_from(self.wishes.smoothness, rows, len(self.columns), loss.delta_atto / ATTO)
        return min(self.largest.basis.degree, wanted)

    def _planned(self, degree: int) -> SummaryTask:
        """A summary of that degree, or of the largest: nothing is refused after the charge."""
        try:
            return self.at(degree)
        except ParameterError:  # noise beyond the samplers, or a cube too many for the grid: by public figures
            return self.at(self.largest.basis.degree)

    def at(self, degree: int) -> SummaryTask:
        """The summary of that degree with what the count left of the charge.

        Raises:
            ParameterError: P102, P103, no noise can be drawn.
        """
        whole, basis = self.largest, self.largest.basis
        smaller = make_basis(self.columns, degree, basis.shape, basis.order, planned=basis.degree)
        moments = replace(whole.moments, basis=smaller)
        sensitivity, plan = self._noise(moments)
        return replace(
            whole, basis=smaller, moments=moments, sensitivity=sensitivity, plan=replace(plan, loss=whole.loss)
        )

    def _noise(self, moments: MomentPlan) -> tuple[Sensitivity, NoisePlan]:
        """Sensitivity and noise of a smaller degree's sums, of the family of the largest one's."""
        whole, epsilon_nano = self.largest, self._parts()[1]
        noise, prior = whole.plan.noise, self.wishes.prior
        if isinstance(noise, KernelNoise):
            sums = kernel_sums_of(moments)
            found = plan_kernels_on(sums, whole.neighbours, whole.count_public, epsilon_nano, prior)
            if found is None:
                raise ParameterError("P103", "epsilon", epsilon_nano / NANO, "leaves no grid for the kernels.")
            return found[1:]
        sensitivity = moments.norms(whole.neighbours, count_public=whole.count_public)
        plan = choose_noise(
            noise.family,
            sensitivity,
            levels=moments.basis.levels[1 if whole.count_public else 0 :],
            epsilon_nano=epsilon_nano,
            delta_atto=whole.loss.delta_atto,
            smoothness=prior,
        )
        return sensitivity, plan


def plan_counted(
    table: Table,
    columns: Sequence[str],
    *,
    epsilon_nano: int,
    neighbours: Neighbours,
    delta_atto: int,
    wishes: Wishes,
) -> SummaryTask | CountedTask:
    """As ``plan_summary``; with a smoothness, and no declared number of rows, the degree follows from the count."""
    task = plan_summary(
        table, columns, epsilon_nano=epsilon_nano, neighbours=neighbours, delta_atto=delta_atto, wishes=wishes
    )
    if wishes.smoothness is None or table.expected_rows is not None:
        return task
    counted = CountedTask(largest=task, wishes=wishes)
    counted.at(task.basis.degree)  # refused now, or never
    return counted


def _places(whole: Basis, part: Basis) -> list[int]:
    """Where the functions of a smaller basis stand in the larger one."""
    shape = tuple(t + 1 for t in whole.degrees)
    known = np.ravel_multi_index(tuple(whole.indices.T.astype(np.int64)), shape)  # ascending: lexicographic order
    wanted = np.ravel_multi_index(tuple(part.indices.T.astype(np.int64)), shape)
    return [int(p) for p in np.searchsorted(known, wanted)]
