"""The sums of a summary and their noise: of the least expected error, on the finest grid that holds both."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from duckdp.catalog.table import Column, Table
from duckdp.core.types import NANO, Neighbours, Sensitivity
from duckdp.errors import InternalError, ParameterError
from duckdp.smooth.basis import Basis
from duckdp.smooth.buy.kernel_release import Planned, plan_kernels
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.sum_noise import Choice, Ints, choose_noise, expected_error
from duckdp.smooth.summary import RANGE
from duckdp.smooth.sums.moments import MomentPlan, plan_moments

NO_KERNELS = (
    "is for basis := 'tensor' of at most 256 functions a column, with the row as privacy unit or few functions, and "
    "not for per. Take 'auto'."
)


def least_noise(
    table: Table,
    columns: tuple[Column, ...],
    basis: Basis,
    neighbours: Neighbours,
    public: bool,
    epsilon_nano: int,
    delta_atto: int,
    wishes: Wishes,
) -> Planned:
    """Sums and noise of the least expected error, kernels among them where they fit and are not ruled out."""
    levels = basis.levels[1 if public else 0 :]
    kernels = None
    if wishes.noise in ("auto", "kernels"):
        kernels = plan_kernels(
            lambda epsilon: plan_moments(table, columns, basis, epsilon=epsilon, path=wishes.path, relative=True),
            neighbours,
            count_public=public,
            row_cap=table.row_cap,
            epsilon_nano=epsilon_nano,
            smoothness=wishes.prior,
        )
    if wishes.noise == "kernels":
        if kernels is None:
            raise ParameterError("P107", "noise", "kernels", NO_KERNELS)
        return kernels
    sums = fit_noise(
        lambda epsilon: plan_moments(table, columns, basis, epsilon=epsilon, path=wishes.path),
        lambda moments: moments.norms(neighbours, count_public=public),
        table.row_cap,
        levels,
        epsilon_nano,
        delta_atto,
        wishes,
    )
    if kernels is None:
        return sums
    errors = [
        expected_error(plan.noise, levels, wishes.prior) / (1 << moments.bits) for moments, _, plan in (sums, kernels)
    ]
    return sums if errors[0] <= errors[1] else kernels


def fit_noise(
    sums_at: Callable[[Fraction], MomentPlan],
    norms: Callable[[MomentPlan], Sensitivity],
    row_cap: int,
    levels: Ints,
    epsilon_nano: int,
    delta_atto: int,
    wishes: Wishes,
) -> Planned:
    """Sums on the finest grid on which sums and noise stay in range, and the noise on it; no kernels."""
    if wishes.noise == "kernels":
        raise ParameterError("P107", "noise", "kernels", NO_KERNELS)
    choice: Choice = "auto" if wishes.noise == "sums" else wishes.noise
    epsilon = Fraction(epsilon_nano, NANO)
    for _ in range(8):
        moments = sums_at(epsilon)
        sensitivity = norms(moments)
        plan = choose_noise(
            choice,
            sensitivity,
            levels=levels,
            epsilon_nano=epsilon_nano,
            delta_atto=delta_atto,
            smoothness=wishes.prior,
        )
        if (row_cap << moments.bits) + 100 * float(np.max(plan.noise.deviations, initial=0)) < RANGE:
            return moments, sensitivity, plan
        epsilon /= 16  # a small share of the budget makes more noise than the whole would: a coarser grid
    raise InternalError("no grid for the noise")
