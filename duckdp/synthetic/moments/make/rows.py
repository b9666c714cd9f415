"""Rows that have the released moments: means, the law of |u|^2, links between columns, laws of single columns.

Privacy: post-processing: a function of what was released and of fresh randomness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from duckdp.core.watch import Watch
from duckdp.synthetic.moments.make.all_means import all_means, mean_deviation
from duckdp.synthetic.moments.make.denoise import shrink_matrix, shrink_scaled, shrink_toward, symmetric
from duckdp.synthetic.moments.make.first_rows import Laws, beta_laws, linked_rows, start_rows
from duckdp.synthetic.moments.make.given import Given
from duckdp.synthetic.moments.make.newton import Goal, fit_rows
from duckdp.synthetic.moments.plan import Plan
from duckdp.synthetic.moments.released import Released, score_features, shape_features
from duckdp.synthetic.unit.features import ONE, RADIAL, Factor, Features, Floats
from duckdp.synthetic.unit.request import Request
from duckdp.synthetic.unit.stages import Noisy
from duckdp.synthetic.unit.unit_rows import UnitRows, round_groups

_SHAPE_PRIOR = 0.15  # usual distance of radial moments from those of independent columns
_LEAST_SQUARE = 0.02  # of d
_PAIR_WEIGHT = 0.3  # there are many of them, and they matter less
GiveLaws = Callable[[Floats], Given]
"""The laws of single columns that were bought, from the means of all unit columns, float[d]."""


def make_rows(
    request: Request, plan: Plan, out: Released, watch: Watch | None = None, laws_of: GiveLaws | None = None
) -> UnitRows:
    """Rows from released figures: post-processing.

    Args:
        request: public parameters.
        plan: what was bought.
        out: the release.
        watch: follows the fit.
        laws_of: gives the laws that were bought, where they were.
    """
    means = column_means(request, out)
    given = None if laws_of is None else laws_of(means)
    means, square = _agree(out, means, *_square(request, plan, out, given))
    links = _links(request, out, means)
    squares = _squares(request, out, means, square)
    laws = beta_laws(means, squares, whole_columns(request))
    if given is not None:
        laws = laws.replaced(given.columns, given.laws)
    rows = _first_rows(request, out, means, links, laws)
    fixed = None if request.target is None else np.array([request.target])
    goal = _first_goal(request, plan, out, means, square, rows)
    rows = fit_rows(rows, goal, fixed=fixed, watch=watch)
    linked = (out.products, out.association, out.direction, out.scores)
    if any(part is not None for part in linked):
        goal = _linked_goal(request, plan, out, goal, rows, links)
        rows = fit_rows(rows, goal, fixed=fixed, watch=watch)
    if out.pairs is not None:
        whole = _with_pairs(goal, out.pairs, rows)
        rows = fit_rows(rows, whole, watch=watch)
        rows = fit_rows(rows, goal, watch=watch)  # what answers smooth queries comes last, by the smallest move
        goal = whole
    misfit = float(np.sqrt(np.mean(goal.misfit(rows) ** 2)))
    return UnitRows(unit=rows, misfit=misfit)


def _square(request: Request, plan: Plan, out: Released, given: Given | None) -> tuple[float, float]:
    """E |u|^2 and its deviation: by the centre of z, by T_1 about it, and by T_2 of every column where bought."""
    assert out.shape is not None
    shape = shape_features(request, plan, out)
    found = [
        (out.centre, out.centre_deviation),
        (shape.centre + shape.width * out.shape.means[0], shape.width * out.shape.deviation),
    ]
    whole = set(whole_columns(request))
    if given is not None and len(whole | set(given.columns)) == request.columns:
        found.append((given.square + len(whole - set(given.columns)), given.deviation))
    weights = np.array([max(deviation, 1e-9) ** -2 for _, deviation in found])
    square = float(weights @ np.array([value for value, _ in found]) / weights.sum())
    most = float(request.columns)
    return min(most, max(_LEAST_SQUARE * most, square)), float(weights.sum() ** -0.5)


def _agree(out: Released, means: Floats, square: float, deviation: float) -> tuple[Floats, float]:
    """(means, E |u|^2) with |means|^2 at most E |u|^2: the one with more noise yields."""
    length = max(1e-9, float(means @ means))
    if 2 * length**0.5 * mean_deviation(out) <= deviation:
        return means, max(square, length)
    return means * min(1.0, (0.999 * square / length) ** 0.5), square


def _links(request: Request, out: Released, means: Floats) -> Floats:
    """Products of the label's factor with the other columns, float[d]; 0 for the label and for what was not bought."""
    found = np.zeros(request.columns)
    if out.association is not None:
        chosen, noisy, factor = out.association.columns, out.association.noisy, out.association.factor
        spread = np.sqrt(np.maximum(0.02, 1 - means[chosen] ** 2) * (1 - out.label_mean**2)) / factor.width
        found[chosen] = shrink_scaled(noisy.means, spread, noisy.deviation)
    return found


def column_means(request: Request, out: Released) -> Floats:
    """float[d]: the best guess of every column's mean."""
    means = all_means(request, out)
    if request.target is not None:
        means[request.target] = out.label_mean
    return means


def whole_columns(request: Request) -> tuple[int, ...]:
    """Columns of -1 and 1 only."""
    return request.signs if request.target is None else tuple({*request.signs, request.target})


def _first_rows(request: Request, out: Released, means: Floats, links: Floats, laws: Laws) -> Floats:
    """Rows of the laws with the links that were bought."""
    if request.target is not None:
        covariance = _label_covariance(request, out, links)
    else:
        covariance = _covariance(request, out, means, laws.squares)
    rows = start_rows(laws, request.rows) if covariance is None else linked_rows(laws, request.rows, covariance)
    if request.target is not None and request.groups:
        # one value per row from the start: rounding later would blur its link with the label
        wanted = np.broadcast_to(means, rows.shape)
        if covariance is not None:
            slope = covariance[request.target] / (1 - out.label_mean**2)
            wanted = np.clip(means + (rows[:, [request.target]] - out.label_mean) * slope, -1, 1)
        inside = [i for group in request.groups for i in group]
        rows[:, inside] = round_groups(wanted, [list(group) for group in request.groups])[:, inside]
    return rows


def _label_covariance(request: Request, out: Released, links: Floats) -> Floats | None:
    """The covariances with the label that were bought; between other columns what follows where the label tells all."""
    if out.association is None:
        return None
    with_label = links * out.association.factor.width
    found = np.outer(with_label, with_label) / (1 - out.label_mean**2)
    found[request.target] = found[:, request.target] = with_label
    return np.asarray(found)


def _covariance(request: Request, out: Released, means: Floats, squares: Floats) -> Floats | None:
    """Links between columns: from all pairs, or from the scores and the strongest pairs; the diagonal is 0."""
    if out.pairs is not None:
        gap = symmetric(out.pairs.means, np.triu_indices(len(means)), len(means)) - np.outer(means, means)
        np.fill_diagonal(gap, 0)
        return shrink_matrix(gap, out.pairs.deviation)
    if out.scores is None and out.strong is None and not request.groups:
        return None
    found = np.zeros((len(means), len(means)))
    spread = np.maximum(1e-9, squares - means**2)
    if out.scores is not None:
        found = _score_covariance(*out.scores, spread)
    for group in request.groups:  # one of them is 1: (1 + u_i) (1 + u_j) = 0
        share = 1 + means[list(group)]
        found[np.ix_(group, group)] = -np.outer(share, share)
    if out.strong is not None:
        pairs, noisy = out.strong
        i, j = np.array(pairs).T
        most = np.sqrt(spread[i] * spread[j])
        found[i, j] = found[j, i] = np.clip(noisy.means - means[i] * means[j], -most, most)
    np.fill_diagonal(found, 0)
    return found


def _score_covariance(factors: tuple[Factor, ...], noisy: Noisy, spread: Floats) -> Floats:
    """P E+ P^T, P the scores' weights, E their covariance beyond that of independent columns, less its noise."""
    weights = np.stack([f.weights for f in factors if f.weights is not None], axis=1)
    size, scale = len(factors), factors[0].width ** 2
    products = symmetric(noisy.means[size:], np.triu_indices(size), size)
    grown = np.sqrt(_unclipped(np.diag(products)))
    gap = scale * products * np.outer(grown, grown) - (weights.T * spread) @ weights
    values, vectors = np.linalg.eigh(gap)
    kept = np.maximum(values - scale * noisy.deviation, 0)
    turned = weights @ vectors
    return np.asarray((turned * kept) @ turned.T)


def _unclipped(squares: Floats) -> Floats:
    """Variance of normal scores over the average square of the scores clipped to [-1, 1], from the latter: float[s]."""
    sd = np.linspace(0.05, 3, 300)
    density = np.exp(-0.5 / sd**2) / (2 * np.pi) ** 0.5
    clipped = sd**2 * (2 * ndtr(1 / sd) - 1) - 2 * sd * density + 2 * ndtr(-1 / sd)
    return np.asarray(np.interp(squares, clipped, sd**2 / clipped))


def _squares(request: Request, out: Released, means: Floats, square: float) -> Floats:
    """Average squares of the columns, float[d], that sum to ``square``: from the pairs, else from the means alone.

    Columns of -1 and 1 have 1.
    """
    spread, whole = 1 - means**2, np.zeros(len(means), dtype=bool)
    whole[list(request.signs)] = True
    if out.pairs is not None:
        d = len(means)
        noisy = out.pairs.means[np.flatnonzero(np.equal(*np.triu_indices(d)))]
        spread = np.clip(shrink_toward(noisy, means**2 + spread / 2, out.pairs.deviation) - means**2, 1e-3, spread)
    others = square - means @ means - float((1 - means[whole] ** 2).sum())
    ratio = float(np.maximum(_LEAST_SQUARE, others / max(1e-9, float(spread[~whole].sum()))))
    return np.asarray(np.where(whole, 1.0, means**2 + np.minimum(spread * ratio, 1 - means**2)))


def _first_goal(request: Request, plan: Plan, out: Released, means: Floats, square: float, rows: Floats) -> Goal:
    """Means, and the law of |u|^2: its first moment by ``square``, the others pulled to independence."""
    assert out.shape is not None
    shape = shape_features(request, plan, out)
    features = Features(
        dimensions=request.columns, centre=shape.centre, width=shape.width, degree=plan.degree, factors=(ONE,)
    )
    prior, noise = features.means(rows)[: plan.degree], out.shape.deviation**2
    radial = prior + (out.shape.means - prior) * _SHAPE_PRIOR**2 / (_SHAPE_PRIOR**2 + noise)
    radial[0] = np.clip((square - shape.centre) / shape.width, -1, 1)
    return Goal(features=features, means=np.concatenate([radial, means]), weights=np.ones(plan.degree + len(means)))


def _linked_goal(request: Request, plan: Plan, out: Released, first: Goal, rows: Floats, links: Floats) -> Goal:
    """With the products that were bought, each block pulled to what rows with the first goal have already."""
    d, before = request.columns, first.features
    factors, means, weights = [ONE], [first.means], [first.weights]

    def add(factor: Factor, wanted: Floats) -> None:
        factors.append(factor)
        means.append(wanted)
        weights.append(np.ones(d))

    if out.products is not None:
        now = Features(dimensions=d, centre=before.centre, width=before.width, factors=(RADIAL,)).means(rows)
        add(RADIAL, shrink_toward(out.products.means, now, out.products.deviation))
    elif out.scores is not None:
        add(RADIAL, _radial_by_scores(*out.scores, before, rows))
    if out.association is not None:
        add(out.association.factor, links)
        weights[-1][request.target] = 0
    if out.direction is not None:
        factor, noisy = out.direction
        now = Features(dimensions=d, factors=(factor,)).means(rows)
        add(factor, shrink_toward(noisy.means, now, noisy.deviation))
    if request.target is not None:
        weights[0][plan.degree + request.target] = 0
    features = Features(
        dimensions=d, centre=before.centre, width=before.width, degree=plan.degree, factors=tuple(factors)
    )
    return Goal(features=features, means=np.concatenate(means), weights=np.concatenate(weights))


def _radial_by_scores(factors: tuple[Factor, ...], noisy: Noisy, window: Features, rows: Floats) -> Floats:
    """Products with z that the rows have, changed within the span of the scores to the scores' own, float[d]."""
    size = len(factors)
    now = score_features(window, factors).means(rows)[:size]
    shift = shrink_toward(noisy.means[:size], now, noisy.deviation) - now
    products = Features(dimensions=window.dimensions, centre=window.centre, width=window.width, factors=(RADIAL,))
    found = products.means(rows)
    for factor, by in zip(factors, shift, strict=True):
        assert factor.weights is not None
        found += factor.weights * (by * factor.width)
    return found


def _with_pairs(goal: Goal, noisy: Noisy, rows: Floats) -> Goal:
    """Also second moments: what the rows have, plus the part of the noisy gap that stands out of the noise."""
    d = goal.features.dimensions
    pairs = Features(dimensions=d, pairs=True)
    now = pairs.means(rows)
    gap = symmetric(noisy.means - now, pairs.upper, d)
    wanted = np.clip(now + shrink_matrix(gap, noisy.deviation)[pairs.upper], -1, 1)
    return Goal(
        features=replace(goal.features, pairs=True),
        means=np.concatenate([goal.means, wanted]),
        weights=np.concatenate([goal.weights, np.full(len(wanted), _PAIR_WEIGHT)]),
    )
