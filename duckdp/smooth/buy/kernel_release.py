"""A summary by sums of kernels: its noise is planned, drawn, and functions are made of noisy kernels.

Steps of a release: exact sums M of the functions (``moments``); of the kernels, S = B M (``kernel_sums``), clamped;
S + Laplace noise, and beside it M + cube noise of the low functions; from both all functions' sums (``kernel_noise``).

Privacy:      epsilon, the kernels' share and the cube's. Clamping to +-row_cap 2^f brings no two further apart.
Assumes:      ``KernelSums.l1`` and ``MomentPlan.norms`` bound what neighbours change; shares are public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from duckdp.core.accountant import pure_rho
from duckdp.core.noise import laplace_scale
from duckdp.core.types import NANO, Loss, Neighbours, Sensitivity
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms.cube import cube_rate
from duckdp.smooth.kernel_noise import KernelNoise, mean_of_both, share_kernels
from duckdp.smooth.sum_noise import NoisePlan, draw_kernel_noise, level_weights
from duckdp.smooth.summary import RANGE
from duckdp.smooth.sums.kernel_sums import KernelSums, plan_kernel_sums
from duckdp.smooth.sums.moments import MomentPlan

FINE = 64  # grid steps of a row for each kernel and unit of epsilon: so that rounding is far below the noise
Planned = tuple[MomentPlan, Sensitivity, NoisePlan]


def plan_kernels(
    sums_at: Callable[[Fraction], MomentPlan],
    neighbours: Neighbours,
    *,
    count_public: bool,
    row_cap: int,
    epsilon_nano: int,
    smoothness: int | None,
) -> Planned | None:
    """Sums, their sensitivity (l1 of the kernels', linf of the functions') and noise; None where kernels do not fit.

    Args:
        sums_at: sums whose noise at so much epsilon is in range.
        neighbours: the relation.
        count_public: whether the number of rows is public and exact.
        row_cap: public.
        epsilon_nano: the charge, in 1e-9.
        smoothness: K of the expected coefficients, or None.
    """
    epsilon = Fraction(epsilon_nano, NANO)
    for _ in range(8):
        moments = sums_at(epsilon)
        sums = plan_kernel_sums(moments)
        found = None if sums is None else plan_kernels_on(sums, neighbours, count_public, epsilon_nano, smoothness)
        if found is None:
            return None
        if (row_cap << moments.bits) + 100 * float(found[2].noise.deviations.max(initial=0)) < RANGE:
            return found
        epsilon /= 16  # a coarser grid
    return None


def plan_kernels_on(
    sums: KernelSums, neighbours: Neighbours, count_public: bool, epsilon_nano: int, smoothness: int | None
) -> Planned | None:
    """Sensitivity and noise of kernels whose sums are planned; None where their grid is too coarse."""
    moments, kernels, epsilon = sums.moments, sums.kernels, Fraction(epsilon_nano, NANO)
    if FINE * kernels.size * max(epsilon, Fraction(1)) > moments.max_rows << moments.bits:
        return None
    first = 1 if count_public else 0
    levels = moments.basis.levels[first:]
    base = moments.norms(neighbours, count_public=count_public)
    alone = moments.norms(Neighbours.ADD_REMOVE, count_public=False).linf  # of degree 0 under either relation
    norms = Sensitivity(l1=sums.l1(neighbours), l2_squared=base.l2_squared, linf=base.linf)
    shares = share_kernels(
        kernels.squares[first:],
        levels,
        level_weights(levels, smoothness),
        l1=float(norms.l1),
        linf=float(norms.linf),
        count_linf=float(alone),
        epsilon=float(epsilon),
    )
    budgets = shares.budgets(epsilon)
    groups, linf = np.zeros(len(levels), dtype=np.int64), alone if shares.cut == 0 else norms.linf
    scales: tuple[float, ...] = ()
    try:
        if shares.cut is not None:
            groups = (levels > shares.cut).astype(np.int64)
            scales = (float(1 / cube_rate(budgets[0], linf, int((groups == 0).sum()))),)
        scales = (*scales, laplace_scale(budgets[-1], norms.l1))
    except ParameterError:  # noise beyond the samplers
        return None
    law = KernelNoise(kernels=kernels, scales=scales, groups=groups)
    loss = Loss(epsilon_nano=epsilon_nano, rho_pico=pure_rho(epsilon_nano))
    return moments, norms, NoisePlan(noise=law, loss=loss, budgets=budgets, linf=linf)


def kernel_sums_of(moments: MomentPlan) -> KernelSums:
    """The kernels' sums of a summary that was planned with them."""
    sums = plan_kernel_sums(moments)
    if sums is None:
        raise InternalError("the summary has no kernels")
    return sums


def noised_by_kernels(
    sums: KernelSums, plan: NoisePlan, exact: Sequence[int], *, most: int, count_public: bool
) -> list[int]:
    """Noisy sums of all functions, but for degree 0 where that is public: int[n], grid steps.

    Args:
        sums: the kernels'.
        plan: law and budgets.
        exact: int[R], of all functions, not clamped. Exact private values: never logged, stored or raised.
        most: what sums are clamped to, grid steps.
        count_public: whether degree 0 is public.
    """
    noise = plan.noise
    if not isinstance(noise, KernelNoise):
        raise InternalError("the law of kernels was not chosen")
    first = 1 if count_public else 0
    of_kernels, of_cube = draw_kernel_noise(plan)
    noisy = [_clamped(value, most) + z for value, z in zip(sums.collect(exact), of_kernels, strict=True)]
    low = [exact[first + place] for place in noise.helped.tolist()]
    cube = [_clamped(value, most) + z for value, z in zip(low, of_cube, strict=True)]
    made = mean_of_both(noise, sums.functions(noisy)[first:], cube)
    return [_clamped(value, RANGE - 1) for value in made]


def _clamped(value: int, most: int) -> int:
    return max(-most, min(most, value))
