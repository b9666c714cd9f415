"""The private part of ``auto``: the plan's stages, bought one after the other.

Privacy:      the shares of the plan sum to at most 1, and every private figure passes through ``Purse.buy`` or
              ``choose_best``: epsilon-DP (or (epsilon, delta)-DP with Gaussian noise) for the relation of the request,
              by ``release`` and ``choose``. What comes out is public; nothing else is kept.
Assumes:      the label's mean, the centre of the window and the direction are earlier releases, so public constants
              when the functions that use them are summed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from duckdp.core.accountant import rho_for
from duckdp.errors import InternalError
from duckdp.synthetic.wide.best import Pairs, choose_column, choose_pairs
from duckdp.synthetic.wide.denoise import shrink_means
from duckdp.synthetic.wide.features import ONE, RADIAL, Factor, Features, Floats, label_factor
from duckdp.synthetic.wide.plan import Plan
from duckdp.synthetic.wide.release import Noisy, Purse, Sums, predicted
from duckdp.synthetic.wide.table import Request

_WINDOW, _NARROW = 0.25, 0.2  # half width of z, of d
_LINK = 0.2  # guessed product of the label's factor and the column chosen for it
_DIRECTION = 0.1  # width of the discriminant score, of sqrt(d)
_SCORE = 0.25  # width of a public score, of sqrt(d)
_APART = 0.2  # sine of the angle between two scores, at least


@dataclass(frozen=True, kw_only=True, eq=False)
class Association:
    """Noisy products of a label factor with some columns; the other columns are taken to have none."""

    factor: Factor
    columns: NDArray[np.intp]
    noisy: Noisy


@dataclass(kw_only=True, eq=False)
class Released:
    """Everything that was released: public. Empty stages were not bought."""

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
    stages: list[tuple[str, int, Fraction]] = field(default_factory=list)


def open_purse(request: Request) -> Purse:
    """Pure or Gaussian noise, whichever is smaller for the means, by formula."""
    pure = Purse(epsilon_nano=request.epsilon_nano, delta_atto=request.delta_atto, neighbours=request.neighbours)
    if not request.delta_atto or not rho_for(request.epsilon_nano, request.delta_atto):
        return pure
    gaussian = Purse(
        epsilon_nano=request.epsilon_nano, delta_atto=request.delta_atto, neighbours=request.neighbours, gaussian=True
    )
    d, one = request.columns, Fraction(1, 2)
    return min((pure, gaussian), key=lambda p: predicted(d, one, p, request.expected_rows))


def collect(request: Request, plan: Plan, purse: Purse, sums: Sums) -> Released:
    """Buy the plan's stages.

    Raises:
        InternalError: the plan costs more than the charge.
    """
    if plan.total > 1:
        raise InternalError("the plan of a synthetic table costs more than its charge")
    d, out = request.columns, Released()
    found = purse.buy(sums, Features(dimensions=d, size=True, factors=(ONE,)), plan.means, count=plan.count)
    if plan.count:
        out.stages.append(("count", 1, plan.count))
    out.centre = float(np.clip((found.means[0] + 1) * d / 2, 0, d))
    out.centre_deviation = found.deviation * d / 2
    out.means = replace(found, means=found.means[1:])
    out.stages.append(("size and means", d + 1, plan.means))
    shape = shape_features(request, plan, out)
    out.shape = purse.buy(sums, shape, plan.shape)
    out.stages.append(("shape", shape.count, plan.shape))
    if plan.products:
        products = replace(shape, degree=0, factors=(RADIAL,))
        out.products = purse.buy(sums, products, plan.products)
        out.stages.append(("products", d, plan.products))
    if request.target is not None:
        _collect_target(request, request.target, plan, purse, sums, out)
    if plan.scores:
        _collect_scores(request, plan, purse, sums, out)
    if plan.strong:
        _collect_strong(request, plan, purse, sums, out)
    if plan.pairs:
        pairs = Features(dimensions=d, pairs=True)
        out.pairs = purse.buy(sums, pairs, plan.pairs)
        out.stages.append(("pairs", pairs.count, plan.pairs))
    return out


def shape_features(request: Request, plan: Plan, out: Released) -> Features:
    """The radial moments."""
    d = request.columns
    width = _NARROW if plan.narrow else _WINDOW
    return Features(dimensions=d, centre=out.centre, width=width * d, degree=plan.degree)


def _collect_target(request: Request, target: int, plan: Plan, purse: Purse, sums: Sums, out: Released) -> None:
    d = request.columns
    assert out.means is not None
    label = purse.buy(sums, Features(dimensions=d, factors=(ONE,), columns=(target,)), plan.label)
    out.label_mean = float(np.clip(label.means[0], -0.98, 0.98))
    factor = label_factor(target, out.label_mean, d)
    others = tuple(i for i in range(d) if i != target)
    features = Features(dimensions=d, factors=(factor,), columns=others)
    out.stages.append(("label", 1, plan.label))
    if plan.best:
        best, sign = purse.stage(lambda: choose_column(request, target, purse, sums, plan.best))
        guess = Noisy(means=np.array([sign * _LINK]), deviation=0.0, family="cube", count=1)
        out.association = Association(factor=factor, columns=np.array([best]), noisy=guess)
        out.stages.append(("best column", 1, plan.best))
        return
    found = purse.buy(sums, features, plan.association)
    out.association = Association(factor=factor, columns=features.chosen, noisy=found)
    out.stages.append(("association", d - 1, plan.association))
    if plan.direction:
        weights = np.zeros(d)
        weights[features.chosen] = found.means
        _collect_direction(weights, plan, purse, sums, out)


def _collect_direction(weights: Floats, plan: Plan, purse: Purse, sums: Sums, out: Released) -> None:
    """Products with the score along public weights, about its mean."""
    assert out.means is not None
    d = len(weights)
    weights = weights / max(1e-6, float(np.linalg.norm(weights)))
    offset = float(shrink_means(out.means) @ weights)
    direction = Factor(weights=weights, offset=offset, width=_DIRECTION * d**0.5)
    bought = purse.buy(sums, Features(dimensions=d, factors=(direction,)), plan.direction)
    out.direction = (direction, bought)
    out.stages.append(("direction", d, plan.direction))


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


def _collect_scores(request: Request, plan: Plan, purse: Purse, sums: Sums, out: Released) -> None:
    assert out.means is not None
    factors = score_factors(shrink_means(out.means))
    features = score_features(shape_features(request, plan, out), factors)
    out.scores = (factors, purse.buy(sums, features, plan.scores))
    out.stages.append(("scores", features.count, plan.scores))


def _collect_strong(request: Request, plan: Plan, purse: Purse, sums: Sums, out: Released) -> None:
    """The strongest pairs of columns, and then their products."""
    chosen = purse.stage(lambda: choose_pairs(request, plan.strong, purse, sums, plan.picks))
    features = Features(dimensions=request.columns, pairs=True, some=chosen)
    out.strong = (chosen, purse.buy(sums, features, plan.values))
    out.stages += [("choice of pairs", plan.strong, plan.picks), ("chosen pairs", plan.strong, plan.values)]
