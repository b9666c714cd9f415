"""The stages of a plan, bought one after the other.

Privacy:      the shares of the plan sum to at most 1, and every private figure passes through ``Purse.buy`` or a choice
              of ``strongest``: epsilon-DP (or (epsilon, delta)-DP with Gaussian noise) for the relation of the request,
              by ``unit.buy.purse``, ``mechanisms.noisy_maximum`` and ``mechanisms.exponential``. What comes out is
              public; nothing else is kept.
Assumes:      the label's mean, the centre of the window and the direction are earlier releases, so public constants
              when the functions that use them are summed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from duckdp.errors import InternalError
from duckdp.synthetic.moments.buy.strongest import choose_column, choose_pairs
from duckdp.synthetic.moments.domain_values import Choices
from duckdp.synthetic.moments.make.all_means import all_means, outside_groups
from duckdp.synthetic.moments.plan import Plan, make_plan
from duckdp.synthetic.moments.released import Association, Released, score_factors, score_features, shape_features
from duckdp.synthetic.unit.buy.purse import Purse, Sums
from duckdp.synthetic.unit.features import ONE, RADIAL, Factor, Features, Floats, label_factor
from duckdp.synthetic.unit.request import Request
from duckdp.synthetic.unit.stages import Noisy

_LINK = 0.2  # guessed product of the label's factor and the column chosen for it
_DIRECTION = 0.1  # width of the discriminant score, of sqrt(d)


def collect(request: Request, plan: Plan, purse: Purse, sums: Sums) -> Released:
    """Buy the stages of a plan, one after the other.

    Raises:
        InternalError: the plan costs more than the charge.
    """
    if plan.total > 1:
        raise InternalError("the plan of a synthetic table costs more than its charge")
    d, out = request.columns, Released()
    columns = tuple(outside_groups(request)) if plan.choices else None
    first = Features(dimensions=d, size=True, factors=(ONE,), columns=columns)
    found = purse.buy(sums, first, plan.means, count=plan.count)
    if plan.count:
        out.stages.append(("count", 1, plan.count))
    if len(found.means) > first.count:  # drawn by an earlier version, all means in one
        request = replace(request, counted=False)
        plan = make_plan(request, purse)
    out.centre = float(np.clip((found.means[0] + 1) * d / 2, 0, d))
    out.centre_deviation = found.deviation * d / 2
    out.means = replace(found, means=found.means[1:])
    out.stages.append(("size and means", first.count, plan.means))
    if plan.choices:
        choices = Choices(dimensions=d, groups=request.groups)
        out.choices = purse.buy_counts(sums, choices, len(choices.groups), plan.choices)
        out.stages.append(("values of domains", len(out.choices.means), plan.choices))
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


def _collect_target(request: Request, target: int, plan: Plan, purse: Purse, sums: Sums, out: Released) -> None:
    d = request.columns
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
        _collect_direction(request, weights, plan, purse, sums, out)


def _collect_direction(request: Request, weights: Floats, plan: Plan, purse: Purse, sums: Sums, out: Released) -> None:
    """Products with the score along public weights, about its mean."""
    d = len(weights)
    weights = weights / max(1e-6, float(np.linalg.norm(weights)))
    offset = float(all_means(request, out) @ weights)
    direction = Factor(weights=weights, offset=offset, width=_DIRECTION * d**0.5)
    bought = purse.buy(sums, Features(dimensions=d, factors=(direction,)), plan.direction)
    out.direction = (direction, bought)
    out.stages.append(("direction", d, plan.direction))


def _collect_scores(request: Request, plan: Plan, purse: Purse, sums: Sums, out: Released) -> None:
    factors = score_factors(all_means(request, out))
    features = score_features(shape_features(request, plan, out), factors)
    out.scores = (factors, purse.buy(sums, features, plan.scores))
    out.stages.append(("scores", features.count, plan.scores))


def _collect_strong(request: Request, plan: Plan, purse: Purse, sums: Sums, out: Released) -> None:
    """The strongest pairs of columns, and then their products."""
    chosen = purse.stage(lambda: choose_pairs(request, plan.strong, purse, sums, plan.picks))
    features = Features(dimensions=request.columns, pairs=True, some=chosen)
    out.strong = (chosen, purse.buy(sums, features, plan.values))
    out.stages += [("choice of pairs", plan.strong, plan.picks), ("chosen pairs", plan.strong, plan.values)]
