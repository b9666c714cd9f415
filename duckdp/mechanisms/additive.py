"""Additive noise on integer vectors: discrete Laplace or discrete Gaussian, one share of the cost per measure.

Releases x + Z, Z_i independent, P(Z_i = k) ~ exp(-|k| / scale) or ~ exp(-k^2 / (2 scale^2)).

Privacy:      laplace: epsilon_i = l1_i / scale_i, pure; the shares add up to the statement's epsilon (basic
              composition). gaussian: rho_i = l2_i^2 / (2 scale_i^2); the shares add up to rho (zCDP), and
              rho-zCDP gives the statement's (epsilon, delta) by core/accountant.rho_for.
Assumes:      l1_i and l2_i bound the change of measure i between neighbours (compiler/measures.py says why).
Proof sketch: laplace: ratio of point masses <= exp(||x - x'||_1 / scale). gaussian: the discrete Gaussian has the
              Renyi divergence of the continuous one (Canonne, Kamath, Steinke 2020, Theorem 4).
Numerics:     shares are integers (epsilon 1e-9, rho 1e-12) rounded down; scales are floats rounded up until OpenDP's
              own privacy map gives at most the share. Sampling is exact and sees no value (core/noise.py); sums are
              Python's integers, which have no range.
Source:       Dwork, McSherry, Nissim, Smith 2006; Canonne, Kamath, Steinke, NeurIPS 2020; Bun, Steinke, TCC 2016.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from duckdp.core.accountant import pure_rho, rho_for
from duckdp.core.errorbars import Noise
from duckdp.core.noise import gaussian_noise, gaussian_scale, laplace_noise, laplace_scale
from duckdp.core.types import NANO, PICO, Loss, Sensitivity
from duckdp.errors import ParameterError

Family = Literal["laplace", "gaussian"]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Noise of each measure and what the whole costs."""

    family: Family
    noises: tuple[Noise, ...]
    loss: Loss


def calibrate(
    sensitivities: Sequence[Sensitivity],
    *,
    epsilon_nano: int,
    delta_atto: int,
    threshold_delta_atto: int,
    family: Family,
) -> Calibration:
    """Noise for measures that share one epsilon.

    Args:
        sensitivities: of each measure, grid units.
        epsilon_nano: cost of the whole statement, in 1e-9.
        delta_atto: delta of the whole statement, in 1e-18.
        threshold_delta_atto: the part of it that a threshold on keys spends.
        family: "laplace" or "gaussian"; the latter needs delta beyond the threshold's.

    Raises:
        ParameterError: P101 (a share is below 1e-9), P102.
    """
    count = len(sensitivities)
    if family == "laplace":
        share = epsilon_nano // count
        if share == 0:
            raise ParameterError(
                "P101", "epsilon", epsilon_nano / NANO, f"is too small to be shared by {count} measures."
            )
        scales = [laplace_scale(Fraction(share, NANO), s.l1) for s in sensitivities]
        rho = pure_rho(epsilon_nano)
        loss_delta = threshold_delta_atto
    else:
        if delta_atto <= threshold_delta_atto:
            raise ParameterError("P102", "delta", delta_atto, "Gaussian noise needs delta > 0.")
        rho = rho_for(epsilon_nano, delta_atto - threshold_delta_atto)
        if rho < count:
            raise ParameterError(
                "P101", "epsilon", epsilon_nano / NANO, "is too small for Gaussian noise at this delta."
            )
        scales = [gaussian_scale(Fraction(rho // count, PICO), s.l2_squared) for s in sensitivities]
        loss_delta = delta_atto
    loss = Loss(epsilon_nano=epsilon_nano, delta_atto=loss_delta, rho_pico=rho, delta_zcdp_atto=threshold_delta_atto)
    return Calibration(family=family, noises=tuple(Noise(family, s) for s in scales), loss=loss)


def best_family(sensitivities: Sequence[Sensitivity], *, epsilon_nano: int, delta_atto: int) -> Family:
    """The family with the smaller standard deviations at the same (epsilon, delta), by formula."""
    if delta_atto == 0:
        return "laplace"
    rho = rho_for(epsilon_nano, delta_atto) / PICO
    if rho <= 0:
        return "laplace"
    k, epsilon = len(sensitivities), epsilon_nano / NANO
    laplace = sum(math.log(math.sqrt(2) * s.l1 * k / epsilon) for s in sensitivities)
    gaussian = sum(math.log(math.sqrt(s.l2_squared * k / (2 * rho))) for s in sensitivities)
    return "gaussian" if gaussian < laplace else "laplace"


def add_noise(values: Sequence[int], noise: Noise) -> list[int]:
    """Release a vector of exact integers with noise of one law.

    Args:
        values: int[n], grid units. Exact private values: must not be logged, stored or raised.
        noise: its law; drawn at zero.

    Returns:
        int[n], grid units.
    """
    drawn = (laplace_noise if noise.family == "laplace" else gaussian_noise)(len(values), noise.scale)
    return [value + z for value, z in zip(values, drawn, strict=True)]
