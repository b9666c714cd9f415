"""What ``method := 'moments'`` releases, and the functions whose sums follow from earlier releases: public."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from duckdp.synthetic.moments.marginals import Marginals
from duckdp.synthetic.moments.plan import Plan
from duckdp.synthetic.unit.features import RADIAL, Factor, Features, Floats
from duckdp.synthetic.unit.request import Request
from duckdp.synthetic.unit.stages import Bought, Noisy

Pairs = tuple[tuple[int, int], ...]
"""Pairs of unit columns."""

_WINDOW = 0.25  # half width of the window of z = (|u|^2 - centre) / width, of d
_NARROW = 0.2  # the same where the centre is known well (``Plan.narrow``)
_SCORE = 0.25  # width to which a public score is clamped, of sqrt(d)
_APART = 0.2  # sine of the angle between two scores, at least; nearer ones would tell the same


@dataclass(frozen=True, kw_only=True, eq=False)
class Association:
    """Noisy products of a label factor with some columns; the other columns are taken to have none."""

    factor: Factor
    columns: NDArray[np.intp]
    noisy: Noisy


@dataclass(kw_only=True, eq=False)
class Released:
    """Everything that was released: public. Empty stages were not bought.

    With ``choices``, means of domain values in the order of ``domain_values.Choices``, ``means`` has the others.
    """

    centre: float = 0.0
    centre_deviation: float = 0.0
    label_mean: float = 0.0
    means: Noisy | None = None
    shape: Noisy | None = None
    products: Noisy | None = None
    association: Association | None = None
    direction: tuple[Factor, Noisy] | None = None
    scores: tuple[tuple[Factor, ...], Noisy] | None = None
    strong: tuple[Pairs, Noisy] | None = None
    pairs: Noisy | None = None
    choices: Noisy | None = None
    stages: list[Bought] = field(default_factory=list)


def shape_features(request: Request, plan: Plan, out: Released) -> Features:
    """The functions of the distance from the centre whose moments were bought."""
    d = request.columns
    width = _NARROW if plan.narrow else _WINDOW
    return Features(dimensions=d, centre=out.centre, width=width * d, degree=plan.degree)


def score_factors(means: Floats) -> tuple[Factor, ...]:
    """One or two scores along orthonormal weights: all columns alike, and by their means' signs.

    Each column counts by the most variance its mean leaves. Rows that are large, or usual, in one column are often so
    in others: where that holds, a few numbers about these scores tell of d^2 covariances.
    """
    room = 1.01 - means**2
    basis = [room / np.linalg.norm(room)]
    second = room * np.where(means < 0, -1.0, 1.0)
    rest = second - basis[0] * float(second @ basis[0])
    if np.linalg.norm(rest) > _APART * np.linalg.norm(second):
        basis.append(rest / np.linalg.norm(rest))
    width = _SCORE * len(means) ** 0.5
    return tuple(Factor(weights=p, offset=float(p @ means), width=width) for p in basis)


def score_features(window: Features, factors: tuple[Factor, ...]) -> Features:
    """Products of z with each score, then of the scores with each other."""
    crosses = [(RADIAL, f) for f in factors] + list(combinations_with_replacement(factors, 2))
    return Features(dimensions=window.dimensions, centre=window.centre, width=window.width, crosses=tuple(crosses))


CLASSES = (Association, Factor, Released, Marginals)
"""What a stored release consists of."""
