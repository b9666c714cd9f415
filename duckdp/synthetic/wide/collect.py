"""The private part of ``auto``: the plan's stages, bought one after the other.

Privacy:      the shares of the plan sum to at most 1, and every private figure passes through ``Purse.buy`` or
              ``choose_best``: epsilon-DP (or (epsilon, delta)-DP with Gaussian noise) for the relation of the request,
              by ``release`` and ``choose``. What comes out is public; nothing else is kept.
Assumes:      the label's mean, the centre of the window and the direction are earlier releases, so public constants
              when the functions that use them are summed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from duckdp.core.accountant import rho_for
from duckdp.errors import InternalError
from duckdp.synthetic.wide.choose import choose_best
from duckdp.synthetic.wide.denoise import shrink_means
from duckdp.synthetic.wide.features import ONE, RADIAL, Factor, Features, Floats, label_factor
from duckdp.synthetic.wide.plan import Plan
from duckdp.synthetic.wide.release import BITS, Noisy, Purse, Sums, predicted
from duckdp.synthetic.wide.table import Request

_WINDOW = 0.25  # half width of z, of d
_LINK = 0.2  # guessed product of the label's factor and the column chosen for it
_SLACK = 16  # grid steps
_DIRECTION = 0.1  # width of the discriminant score, of sqrt(d)


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
    association: Association | None = None
    direction: tuple[Factor, Noisy] | None = None
    pairs: Noisy | None = None
    stages: list[tuple[str, int]] = field(default_factory=list)


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
    size = purse.buy(sums, Features(dimensions=d, size=True), plan.size)
    out.centre = float(np.clip((size.means[0] + 1) * d / 2, 0, d))
    out.centre_deviation = size.deviation * d / 2
    out.means = purse.buy(sums, Features(dimensions=d, factors=(ONE,)), plan.means)
    out.stages += [("size", 1), ("means", d)]
    shape = shape_features(request, plan, out)
    out.shape = purse.buy(sums, shape, plan.shape)
    out.stages.append(("shape", shape.count))
    if request.target is not None:
        _collect_target(request, request.target, plan, purse, sums, out)
    elif plan.direction:
        shrunk = shrink_means(out.means)
        _collect_direction(np.sign(shrunk) * (1.01 - shrunk**2), plan, purse, sums, out)
    if plan.pairs:
        pairs = Features(dimensions=d, pairs=True)
        out.pairs = purse.buy(sums, pairs, plan.pairs)
        out.stages.append(("pairs", pairs.count))
    return out


def shape_features(request: Request, plan: Plan, out: Released) -> Features:
    """The radial moments, and the products with z where they are bought."""
    d = request.columns
    factors = (RADIAL,) if plan.products else ()
    return Features(dimensions=d, centre=out.centre, width=_WINDOW * d, degree=plan.degree, factors=factors)


def _collect_target(request: Request, target: int, plan: Plan, purse: Purse, sums: Sums, out: Released) -> None:
    d = request.columns
    assert out.means is not None
    label = purse.buy(sums, Features(dimensions=d, factors=(ONE,), columns=(target,)), plan.label)
    out.label_mean = float(np.clip(label.means[0], -0.98, 0.98))
    factor = label_factor(target, out.label_mean, d)
    others = tuple(i for i in range(d) if i != target)
    features = Features(dimensions=d, factors=(factor,), columns=others)
    out.stages.append(("label", 1))
    if plan.best:
        out.association = _buy_best(features, target, plan, purse, sums)
        out.stages.append(("best column", 1))
        return
    found = purse.buy(sums, features, plan.association)
    out.association = Association(factor=factor, columns=features.chosen, noisy=found)
    out.stages.append(("association", d - 1))
    if plan.direction:
        weights = np.zeros(d)
        weights[features.chosen] = found.means
        _collect_direction(weights, plan, purse, sums, out)


def _collect_direction(weights: Floats, plan: Plan, purse: Purse, sums: Sums, out: Released) -> None:
    """Products with the score along public weights, about its mean.

    Without a target the weights are sign(mean) (1 - mean^2): how usual a row is, by the columns that vary.
    """
    assert out.means is not None
    d = len(weights)
    weights = weights / max(1e-6, float(np.linalg.norm(weights)))
    offset = float(shrink_means(out.means) @ weights)
    direction = Factor(weights=weights, offset=offset, width=_DIRECTION * d**0.5)
    bought = purse.buy(sums, Features(dimensions=d, factors=(direction,)), plan.direction)
    out.direction = (direction, bought)
    out.stages.append(("direction", d))


def _buy_best(features: Features, target: int, plan: Plan, purse: Purse, sums: Sums) -> Association:
    """The column with the strongest link to the label, and the sign of the link; its size is a public guess.

    Scores are plus and minus C_i = sum y u_i - (sum y)(sum u_i) / n, the centred products.

    Privacy:      ``choose_best``; only the index leaves. Replacing one row changes C_i by (n-1)/n times the difference
                  of (y - a)(u_i - b) at two points, a and b the other rows' means; adding a row to n of them by
                  n/(n+1) times its value at one point.
    Proof sketch: at the corners (y - a)(u - b) is AB, -AB', -A'B, A'B' with A = 1 - a, A' = 1 + a, B and B' alike; two
                  neighbouring corners differ by 2A, 2A', 2B or 2B' <= 4, the same signs by less; one is at most 4.
    Numerics:     integers; each of the sums of a row is off by at most one grid step, in all less than _SLACK steps.
    """
    d, unit = features.dimensions, 1 << BITS
    only = np.zeros(d)
    only[target] = 1
    label = Factor(weights=only)
    count, products = sums(Features(dimensions=d, factors=(label,), columns=features.columns), BITS)
    _, means = sums(Features(dimensions=d, factors=(ONE,)), BITS)
    pairs = zip(products, (means[i] for i in features.chosen), strict=True)
    scores = [p - means[target] * m // (max(1, count) * unit) for p, m in pairs]
    size = len(scores)
    cost = purse.take_epsilon(plan.best)
    at = choose_best([*scores, *(-q for q in scores)], epsilon=cost, linf=4 * unit + _SLACK)
    guess = np.array([_LINK if at < size else -_LINK])
    return Association(
        factor=features.factors[0], columns=features.chosen[[at % size]],
        noisy=Noisy(means=guess, deviation=0.0, family="cube"),
    )  # fmt: skip
