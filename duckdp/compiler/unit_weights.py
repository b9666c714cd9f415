"""The measure of weights that stands for the number of units where keys pass a threshold and nobody asks for it.

By public figures alone: it is never worse (mechanisms/key_weights.py) and costs the same, so it is taken wherever a
unit may have several groups and the sums have room for a grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from duckdp.compiler.measures import RANGE_BITS, Measure
from duckdp.core.errorbars import Noise
from duckdp.core.types import Sensitivity
from duckdp.mechanisms.additive import Calibration, noise_for
from duckdp.mechanisms.key_weights import weigh_keys

_BITS = 12  # of the steps to one: weights are rounded down by less than 1 / 4,096
_LEAST_BITS = 4  # with fewer, rounding takes more than 6% of a weight: the number of units is taken
_FAR = 100  # scales of noise, within which it is taken to be where ranges are proved (plan.py)


@dataclass(frozen=True, kw_only=True)
class Weighted:
    """Weights as a measure, with their noise, and the threshold in steps."""

    measure: Measure
    noise: Noise
    tau: int


def weigh_units(calibration: Calibration, *, groups: int, row_cap: int) -> Weighted | None:
    """Weights in place of the first measure, which counts units: for the same share of the cost.

    Args:
        calibration: of a statement whose first measure is the number of units.
        groups: groups of a unit that count.
        row_cap: most rows of the table, and so most units.

    Returns:
        None where one group of a unit counts, so that nothing is gained, or sums have no room for a grid.
    """
    bits = min(_BITS, _room(calibration.noises[0], groups, row_cap))
    if groups == 1 or bits < _LEAST_BITS:
        return None
    one = 2**bits
    claim = Sensitivity(l1=groups * one, l2_squared=groups * one * one, linf=groups * one)
    noise = noise_for(calibration.family, calibration.shares[0], claim)
    found = weigh_keys(noise, one=one, groups=groups, delta_atto=calibration.loss.delta_zcdp_atto)
    measure = Measure(
        kind="weights",
        bits=bits,
        largest=max(weight for _, weight in found.levels),
        levels=found.levels,
        sensitivity=Sensitivity(
            l1=max(keys * weight for keys, weight in found.levels),
            l2_squared=max(keys * weight * weight for keys, weight in found.levels),
            linf=max(weight for _, weight in found.levels),
        ),
    )
    return Weighted(measure=measure, noise=noise, tau=found.tau)


def _room(units: Noise, groups: int, row_cap: int) -> int:
    """Bits that sums of weights, of at most ``groups`` each, and their noise leave of a 64-bit whole number."""
    return RANGE_BITS - math.ceil(math.log2(row_cap * groups + _FAR * math.ceil(units.scale)))
