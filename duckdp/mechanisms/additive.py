"""Additive noise on integer vectors: discrete Laplace or discrete Gaussian, one share of the cost per measure.

Releases x + Z, Z_i independent, P(Z_i = k) ~ exp(-|k| / scale) or ~ exp(-k^2 / (2 scale^2)).

Privacy:      laplace: epsilon_i = l1_i / scale_i, pure; the shares add up to the statement's epsilon (basic
              composition). gaussian: rho_i = l2_i^2 / (2 scale_i^2); the shares add up to rho (zCDP), and
              rho-zCDP gives the statement's (epsilon, delta) by core/accountant.rho_for.
Assumes:      l1_i and l2_i bound the change of measure i between neighbours (compiler/measures.py says why).
Proof sketch: laplace: ratio of point masses <= exp(||x - x'||_1 / scale). gaussian: the discrete Gaussian has the
              Renyi divergence of the continuous one (Canonne, Kamath, Steinke 2020, Theorem 4).
Split:        with importance A_i, what the noise of measure i weighs in the squared errors of all figures
              (compiler/importance.py), the total is sum_i A_i / p_i^2 for Laplace noise, whose deviation goes as
              1 / epsilon, and sum_i A_i / q_i for Gaussian noise, whose variance goes as 1 / rho. Both are convex in
              shares that add up to 1; where their derivatives are equal p_i ~ A_i^(1/3) and q_i ~ A_i^(1/2), and the
              totals are (sum A_i^(1/3))^3 and (sum A_i^(1/2))^2. Shares are whole parts of 1,000 or so, from public
              figures alone; measures of equal importance have equal ones.
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
from duckdp.core.types import NANO, PICO, Loss, Sensitivity, show_decimal
from duckdp.errors import ParameterError

Family = Literal["laplace", "gaussian"]
_FAMILIES: tuple[Family, Family] = ("laplace", "gaussian")
_PARTS = 1000  # of a cost, of which each measure has some: finer ones change the total error by less than 10^-5


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Noise of each measure and what the whole costs.

    Attributes:
        shares: of each measure: epsilon in 1e-9 (Laplace), or rho in 1e-12 (Gaussian).
    """

    family: Family
    noises: tuple[Noise, ...]
    loss: Loss
    shares: tuple[int, ...]


def calibrate(
    sensitivities: Sequence[Sensitivity],
    *,
    epsilon_nano: int,
    delta_atto: int,
    threshold_delta_atto: int,
    family: Family,
    importances: Sequence[float] | None = None,
) -> Calibration:
    """Noise for measures that share one epsilon.

    Args:
        sensitivities: of each measure, grid units.
        epsilon_nano: cost of the whole statement, in 1e-9.
        delta_atto: delta of the whole statement, in 1e-18.
        threshold_delta_atto: the part of it that a threshold on keys spends.
        family: "laplace" or "gaussian"; the latter needs delta beyond the threshold's.
        importances: of each measure, > 0, for the least total error; equal ones by default.

    Raises:
        ParameterError: P101 (a share is below 1e-9), P102.
    """
    count = len(sensitivities)
    parts = best_parts(importances or [1.0] * count, family)
    if family == "laplace":
        shares = [epsilon_nano * part // sum(parts) for part in parts]
        if min(shares) == 0:
            raise ParameterError(
                "P101", "epsilon", epsilon_nano / NANO, f"is too small to be shared by {count} measures."
            )
        rho = pure_rho(epsilon_nano)
        loss_delta = threshold_delta_atto
    else:
        if delta_atto <= threshold_delta_atto:
            raise ParameterError("P102", "delta", show_decimal(delta_atto, 18), "Gaussian noise needs delta > 0.")
        rho = rho_for(epsilon_nano, delta_atto - threshold_delta_atto)
        shares = [rho * part // sum(parts) for part in parts]
        if min(shares) == 0:
            raise ParameterError(
                "P101", "epsilon", epsilon_nano / NANO, "is too small for Gaussian noise at this delta."
            )
        loss_delta = delta_atto
    loss = Loss(epsilon_nano=epsilon_nano, delta_atto=loss_delta, rho_pico=rho, delta_zcdp_atto=threshold_delta_atto)
    noises = tuple(noise_for(family, share, s) for share, s in zip(shares, sensitivities, strict=True))
    return Calibration(family=family, noises=noises, loss=loss, shares=tuple(shares))


def noise_for(family: Family, share: int, sensitivity: Sensitivity) -> Noise:
    """The noise by which a measure costs at most its share: epsilon in 1e-9 (Laplace), or rho in 1e-12 (Gaussian)."""
    if family == "laplace":
        return Noise(family, laplace_scale(Fraction(share, NANO), sensitivity.l1))
    return Noise(family, gaussian_scale(Fraction(share, PICO), sensitivity.l2_squared))


def best_parts(importances: Sequence[float], family: Family) -> list[int]:
    """The parts of the cost that make the total error least: whole numbers, at least 1, which add up to 1,000 or so.

    >>> best_parts([1.0, 8.0], "laplace"), best_parts([2.0, 2.0, 2.0], "gaussian")
    ([333, 667], [333, 333, 333])
    """
    roots = [importance ** (1 / 3 if family == "laplace" else 1 / 2) for importance in importances]
    return [max(1, round(_PARTS * root / sum(roots))) for root in roots]


def best_family(
    sensitivities: Sequence[Sensitivity],
    *,
    epsilon_nano: int,
    delta_atto: int,
    importances: Sequence[float] | None = None,
) -> Family:
    """The family with the smaller standard deviations at the same (epsilon, delta), by formula."""
    if delta_atto == 0:
        return "laplace"
    rho = rho_for(epsilon_nano, delta_atto) / PICO
    if rho <= 0:
        return "laplace"
    epsilon, given = epsilon_nano / NANO, importances or [1.0] * len(sensitivities)
    pure, zcdp = ([part / sum(parts) for part in parts] for parts in (best_parts(given, f) for f in _FAMILIES))
    laplace = sum(math.log(math.sqrt(2) * s.l1 / (p * epsilon)) for s, p in zip(sensitivities, pure, strict=True))
    gaussian = sum(math.log(math.sqrt(s.l2_squared / (2 * q * rho))) for s, q in zip(sensitivities, zcdp, strict=True))
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
