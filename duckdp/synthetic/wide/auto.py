"""method := 'auto': buy the moments that pay, make rows that have them.

Privacy: all of it in ``collect``. :func:`make_rows` is a function of what was released and of fresh randomness.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from duckdp.synthetic.wide.collect import Released, collect, open_purse, shape_features
from duckdp.synthetic.wide.denoise import shrink_matrix, shrink_means, shrink_scaled, shrink_toward
from duckdp.synthetic.wide.features import ONE, RADIAL, Factor, Features, Floats
from duckdp.synthetic.wide.fit import Goal, fit_rows
from duckdp.synthetic.wide.plan import Plan, make_plan
from duckdp.synthetic.wide.release import Noisy, Sums
from duckdp.synthetic.wide.start import linked_rows, start_rows
from duckdp.synthetic.wide.table import Request, WideTable

_SHAPE_PRIOR = 0.15  # usual distance of radial moments from those of independent columns
_LEAST_SQUARE = 0.02  # of d
_LEAST_VARIANCE = 0.1  # of a direction's score: below, its noise would be blown up
_PAIR_WEIGHT = 0.3  # there are many of them, and they matter less


def make_table(request: Request, sums: Sums) -> WideTable:
    """A synthetic table.

    Args:
        request: public parameters.
        sums: exact sums over the private rows, of functions that earlier releases may have shaped.
    """
    purse = open_purse(request)
    plan = make_plan(request, purse)
    return make_rows(request, plan, collect(request, plan, purse, sums))


def make_rows(request: Request, plan: Plan, out: Released) -> WideTable:
    """Rows from released figures: post-processing."""
    assert out.means is not None
    means = shrink_means(out.means)
    if request.target is not None:
        means[request.target] = out.label_mean
    shape = shape_features(request, plan, out)
    square = shape.centre + shape.width * _level(out, shape)
    square = min(float(request.columns), max(_LEAST_SQUARE * request.columns, square))
    means = means * min(1.0, (0.98 * square / max(1e-9, float(means @ means))) ** 0.5)  # |mean|^2 is at most E |u|^2
    links = _links(request, out, means)
    covariance = _covariance(out, means) if request.target is None else None
    if covariance is None:
        rows = start_rows(_row_means(request, out, means, links), square, request.rows)
    else:
        rows = linked_rows(means, _squares(out, means, square), request.rows, covariance)
    fixed = None
    if request.target is not None:
        rows[:, request.target] = _labels(request.rows, out.label_mean)
        fixed = np.array([request.target])
    goal = _first_goal(request, plan, out, means, rows)
    rows = fit_rows(rows, goal, fixed=fixed)
    if plan.products or out.association is not None or out.direction is not None:
        goal = _linked_goal(request, plan, out, goal, rows, links)
        rows = fit_rows(rows, goal, fixed=fixed)
    if out.pairs is not None:
        rows = fit_rows(rows, _with_pairs(goal, out.pairs, rows))
        rows = fit_rows(rows, goal)  # what answers smooth queries comes last, by the smallest move
    misfit = float(np.sqrt(np.mean(goal.misfit(rows) ** 2)))
    return WideTable(unit=rows, misfit=misfit, bought=tuple(out.stages))


def _level(out: Released, shape: Features) -> float:
    """E z from both releases of it: 0 by the first (the window is about it), the noisy T_1 by the second."""
    assert out.shape is not None
    first = (out.centre_deviation / shape.width) ** 2
    return float(np.clip(out.shape.means[0] * first / (first + out.shape.deviation**2), -1, 1))


def _labels(rows: int, mean: float) -> Floats:
    return np.where(np.arange(rows) < round(rows * (1 + mean) / 2), 1.0, -1.0)


def _links(request: Request, out: Released, means: Floats) -> Floats:
    """Products of the label's factor with the other columns, float[d]; 0 for the label and for what was not bought."""
    found = np.zeros(request.columns)
    if out.association is not None:
        chosen, noisy, factor = out.association.columns, out.association.noisy, out.association.factor
        spread = np.sqrt(np.maximum(0.02, 1 - means[chosen] ** 2) * (1 - out.label_mean**2)) / factor.width
        found[chosen] = shrink_scaled(noisy.means, spread, noisy.deviation)
    return found


def _row_means(request: Request, out: Released, means: Floats, links: Floats) -> Floats:
    """float[d], or float[m, d] that depends on the rows' label by the association's regression."""
    if out.association is None:
        return means
    slope = links * out.association.factor.width / (1 - out.label_mean**2)  # cov(y, u_i) / var y
    labels = _labels(request.rows, out.label_mean) - out.label_mean
    return np.clip(means + labels[:, None] * slope, -1, 1)


def _covariance(out: Released, means: Floats) -> Floats | None:
    """Links between columns from pairs, or of rank one from a direction v: c c^T / v.c, c the covariances with v."""
    d = len(means)
    if out.pairs is not None:
        gap = np.zeros((d, d))
        gap[np.triu_indices(d)] = out.pairs.means
        gap = np.triu(gap, 1) + np.triu(gap, 1).T - np.outer(means, means)
        np.fill_diagonal(gap, 0)
        return shrink_matrix(gap, out.pairs.deviation)
    if out.direction is None:
        return None
    factor, noisy = out.direction
    assert factor.weights is not None
    spread = np.sqrt(np.maximum(0.02, 1 - means**2))
    along = shrink_scaled(noisy.means, spread, noisy.deviation) * factor.width
    return np.asarray(np.outer(along, along) / max(_LEAST_VARIANCE, float(factor.weights @ along)))


def _squares(out: Released, means: Floats, square: float) -> Floats:
    """Average squares of the columns, float[d], that sum to ``square``: from the pairs, else from the means alone."""
    spread = 1 - means**2
    if out.pairs is not None:
        d = len(means)
        noisy = out.pairs.means[np.flatnonzero(np.equal(*np.triu_indices(d)))]
        spread = np.clip(shrink_toward(noisy, means**2 + spread / 2, out.pairs.deviation) - means**2, 1e-3, spread)
    return np.asarray(means**2 + spread * (square - means @ means) / max(1e-9, float(spread.sum())))


def _first_goal(request: Request, plan: Plan, out: Released, means: Floats, rows: Floats) -> Goal:
    """Means, and the law of |u|^2: its first moment from both releases of it, the others pulled to independence."""
    assert out.shape is not None
    shape = shape_features(request, plan, out)
    features = Features(
        dimensions=request.columns, centre=shape.centre, width=shape.width, degree=plan.degree, factors=(ONE,)
    )  # fmt: skip
    prior, noise = features.means(rows)[: plan.degree], out.shape.deviation**2
    radial = prior + (out.shape.means[: plan.degree] - prior) * _SHAPE_PRIOR**2 / (_SHAPE_PRIOR**2 + noise)
    radial[0] = _level(out, shape)
    return Goal(features=features, means=np.concatenate([radial, means]), weights=np.ones(plan.degree + len(means)))


def _linked_goal(request: Request, plan: Plan, out: Released, first: Goal, rows: Floats, links: Floats) -> Goal:
    """With the products that were bought, each block pulled to what rows with the first goal have already."""
    assert out.shape is not None
    d, before = request.columns, first.features
    factors, means, weights = [ONE], [first.means], [first.weights]

    def add(factor: Factor, wanted: Floats) -> None:
        factors.append(factor)
        means.append(wanted)
        weights.append(np.ones(d))

    if plan.products:
        now = Features(dimensions=d, centre=before.centre, width=before.width, factors=(RADIAL,)).means(rows)
        add(RADIAL, shrink_toward(out.shape.means[plan.degree :], now, out.shape.deviation))
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
    )  # fmt: skip
    return Goal(features=features, means=np.concatenate(means), weights=np.concatenate(weights))


def _with_pairs(goal: Goal, noisy: Noisy, rows: Floats) -> Goal:
    """Also second moments: what the rows have, plus the part of the noisy gap that stands out of the noise."""
    d = goal.features.dimensions
    pairs = Features(dimensions=d, pairs=True)
    now = pairs.means(rows)
    gap = np.zeros((d, d))
    gap[pairs.upper] = noisy.means - now
    gap = np.triu(gap) + np.triu(gap, 1).T
    wanted = np.clip(now + shrink_matrix(gap, noisy.deviation)[pairs.upper], -1, 1)
    return Goal(
        features=replace(goal.features, pairs=True), means=np.concatenate([goal.means, wanted]),
        weights=np.concatenate([goal.weights, np.full(len(wanted), _PAIR_WEIGHT)]),
    )  # fmt: skip
