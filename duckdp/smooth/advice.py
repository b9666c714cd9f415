"""What to buy where the approximation error of an answer outweighs its noise: a basis that would be nearer to f.

Predicted from public figures: polynomials of k functions a column are about k / k' times as far from what jumps (less
from what bends) as those of k', and the noise grows with the number of functions (``predict_deviations``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from duckdp.core.types import Neighbours
from duckdp.smooth.axes import Floats
from duckdp.smooth.basis import Basis, Shape, count_functions
from duckdp.smooth.fit.onesided import MAX_DEGREE
from duckdp.smooth.fit.parts import Part, part_of
from duckdp.smooth.sum_noise import predict_deviations
from duckdp.smooth.summary import SmoothSummary

OUTWEIGHS = 2.0  # standard errors of the noise
WORTH = 0.7  # of a half-width: what is not below it is no advice
MOST_FUNCTIONS = 4096  # of a basis that is named
PRIOR = 2  # derivatives that the budget is divided for
_GROWTH = 1.25  # of the degrees that are tried
_BITS = 30  # of the grid that noise is predicted on: it does not matter


def advice(summary: SmoothSummary, coefficients: Floats, error: float, deviation: float) -> str:
    """A sentence on an answer whose approximation error outweighs its noise.

    Args:
        summary: that it is from.
        coefficients: float[R], of the polynomial.
        error: largest effect of the approximation, in units of the answer.
        deviation: of the noise.
    """
    names = _columns(summary.basis, coefficients)
    part = part_of(summary.basis, names)
    kept = coefficients[part.rows] / np.max(np.abs(coefficients), initial=1e-300)  # squares of large ones are no floats
    kept = np.where(part.indices.any(axis=1), kept, 0.0) if part.axes else kept
    charge = summary.neighbours, summary.count is not None, summary.epsilon_nano, summary.delta_atto
    own, *others = _candidates(summary.basis, names, *charge)
    scale = OUTWEIGHS * deviation / max(float(np.linalg.norm(own.deviations * kept)), 1e-300)
    now, listed = error + OUTWEIGHS * deviation, ", ".join(f'"{axis.name}"' for axis in part.axes)
    said = f"the approximation error ({error:.2g}) outweighs the noise ({OUTWEIGHS * deviation:.2g})"
    totals = [error * own.each / c.each + scale * float(np.linalg.norm(c.deviations * kept)) for c in others]
    best = min(zip(totals, others, strict=True), key=lambda pair: pair[0], default=(math.inf, own))
    if best[0] > WORTH * now:
        return f"{said}, and more functions of {listed} are not expected to help; a smoother function would"
    shape, degree = best[1].shape, best[1].degree
    how = f"degree := {degree}" if shape == "tensor" else f"basis := '{shape}', degree := {degree}"
    return f"{said}: a summary of {listed} alone with {how} would come to about {best[0]:.2g} in all"


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A basis of the columns that a function reads.

    Attributes:
        shape, degree: of it.
        each: functions that each column may have in all products.
        deviations: of the sums of the functions that the summary has too, up to a factor; 0 for others.
    """

    shape: Shape
    degree: int
    each: int
    deviations: Floats


@lru_cache(maxsize=64)
def _candidates(
    basis: Basis, names: frozenset[str], neighbours: Neighbours, public: bool, epsilon_nano: int, delta_atto: int
) -> tuple[_Candidate, ...]:
    """The summary's own basis, then larger ones of some of its columns."""
    part = part_of(basis, names)

    def candidate(other: Basis) -> _Candidate:
        norms = other.norms(neighbours, bits=_BITS, max_rows=1, count_public=public)
        each = predict_deviations(
            "auto", norms, levels=other.levels, epsilon_nano=epsilon_nano, delta_atto=delta_atto, smoothness=PRIOR
        )
        own = part_of(other, names)
        known = {tuple(index): each[row] for index, row in zip(own.indices.tolist(), own.rows.tolist(), strict=True)}
        deviations = np.array([known.get(tuple(index), 0.0) for index in part.indices.tolist()])
        return _Candidate(other.shape, other.degree, _each(own), deviations)

    found = [candidate(basis)]
    shape: Shape = "tensor" if len(part.axes) == 1 else "total_degree"
    for degree in _degrees(part):
        axes = tuple(axis if axis.values is not None else replace(axis, degree=degree) for axis in part.axes)
        if count_functions(axes, degree, shape, None) > MOST_FUNCTIONS:
            break
        found.append(candidate(Basis(axes=axes, degree=degree, shape=shape)))
    return tuple(found)


def _columns(basis: Basis, coefficients: Floats) -> frozenset[str]:
    used = np.flatnonzero(basis.indices[np.flatnonzero(coefficients)].max(axis=0, initial=0))
    return frozenset(basis.axes[i].name for i in used)


def _degrees(part: Part) -> Sequence[int]:
    start = max((axis.degree for axis in part.axes if axis.values is None), default=0)
    most = MAX_DEGREE if len(part.axes) == 1 else MOST_FUNCTIONS
    return [degree for k in range(16) if (degree := math.ceil(start * _GROWTH**k)) <= most] if start else []


def _each(part: Part) -> int:
    """Functions that each column may have in all products."""
    known, k = {tuple(index) for index in part.indices.tolist()}, 1
    loose = [axis.values is None for axis in part.axes]
    while tuple(k if is_loose else 0 for is_loose in loose) in known and k < 4096:
        k += 1
    return k
