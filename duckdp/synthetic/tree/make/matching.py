"""Rows whose products of two columns are the released ones: values change places within their columns.

A column keeps its values, so every one-way table stays as it was dealt; only which row has which of them changes.
Each column has latent values, the normal scores of its ranks, ties in random order. With R their correlations, adding
L times all columns' latent values, L R + R L being what is missing, gives to first order the wanted correlations by a
small change. Values are dealt out again by the ranks, and so on; the round that came nearest is taken.

Released products are pulled to those that the tree's rows have, by as much as their noise is of the gaps' mean square:
where they tell nothing new, rows stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import ndtri

from duckdp.synthetic.moments.make.denoise import shrink_matrix, shrink_toward, symmetric
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.tree.scales import may_be_null, normed_products, product_features, unit_column
from duckdp.synthetic.unit.features import Features, Floats
from duckdp.synthetic.unit.normed import NormedProducts
from duckdp.synthetic.unit.uniforms import uniforms

_ROUNDS = 12  # of moves, of which the nearest is taken
_STEP = 0.7  # of what is missing, in a round
_LEAST_ROOT = 0.15  # sum of two eigenvalues, of which less is taken as this
_LEAST_SPREAD = 0.05  # deviation of a column's function, of which less is taken as this
_LEAST_ROWS = 20  # with a value, of a column that takes part


@dataclass(frozen=True, kw_only=True, eq=False)
class _Column:
    """A column that takes part.

    Attributes:
        inside: its unit columns.
        present: places of the rows that have a value.
        latent: of those, float[p].
        values: theirs, in ascending order of the latent ones: float[p, width].
    """

    inside: slice
    present: np.ndarray
    latent: Floats
    values: Floats


def missing_products(unit: Floats, tree: Tree) -> Floats | None:
    """How far averages of products of rows are below those that they are to have; None where nothing tells.

    Args:
        unit: float[m, d], dealt by the tree.
        tree: with what was released.
    """
    goal = _goal(unit, tree)
    return None if goal is None else np.asarray(goal.wanted - goal.features.means(unit))


def move_to_products(unit: Floats, tree: Tree) -> Floats:
    """Unit rows with the released products: float[m, d].

    Args:
        unit: float[m, d], dealt by the tree.
        tree: with what was released.
    """
    goal = _goal(unit, tree)
    if goal is None:
        return unit
    chosen = sorted(tree.product_scales)
    columns = [_latent(unit, tree, i) for i in chosen]
    best, least = unit, np.inf
    current = unit
    for _ in range(_ROUNDS):
        missing = goal.wanted - goal.features.means(current)
        error = float(missing @ missing)
        if error < least:
            best, least = current, error
        current = _moved(current, tree, chosen, columns, missing / goal.kept)
    missing = goal.wanted - goal.features.means(current)
    return current if float(missing @ missing) < least else best


@dataclass(frozen=True, kw_only=True, eq=False)
class _Goal:
    """What rows are to have.

    Attributes:
        features: the products that were released.
        kept: share of plain products that a bound on a row's norm leaves of them.
        wanted: their averages.
    """

    features: NormedProducts | Features
    kept: float
    wanted: Floats


def _goal(unit: Floats, tree: Tree) -> _Goal | None:
    if tree.products is None or len(unit) < 2 * _LEAST_ROWS:
        return None
    features: NormedProducts | Features = product_features(tree.binnings, tree.product_scales)
    if tree.product_bound:
        bound, squared, apart = tree.product_bound, tree.product_squared, tree.product_apart
        features = normed_products(tree.binnings, tree.product_scales, bound, squared=squared, apart=apart)
    kept = features.told(unit) if isinstance(features, NormedProducts) else 1.0
    if kept == 0:  # every column is constant, so rows have no products to move
        return None
    return _Goal(features=features, kept=kept, wanted=_wanted(tree, features.means(unit)))


def _wanted(tree: Tree, now: Floats) -> Floats:
    """Products that rows are to have: the released ones, where they tell more than noise.

    Where columns are alike or share few causes, what a tree misses is a matrix of few large eigenvalues, which stand
    out of noise that drowns each entry: these are kept first, and of the rest as much as its mean square tells.
    """
    assert tree.products is not None
    if not tree.product_bound:
        return shrink_toward(tree.products, now, tree.product_deviation)
    size, deviation = len(tree.product_scales), tree.product_deviation
    upper = np.triu_indices(size, 1)
    gap = symmetric(tree.products - now, upper, size)
    common = shrink_matrix(gap, deviation)[upper]
    return shrink_toward(tree.products, now + common, deviation)


def _latent(unit: Floats, tree: Tree, column: int) -> _Column:
    binning = tree.binnings[column]
    part = binning.part
    inside = slice(part.start, part.start + part.width)
    own = unit[:, inside]
    at = unit_column(part)
    assert at is not None
    missing = own[:, 1] > 0 if may_be_null(part) else np.zeros(len(unit), dtype=bool)
    present = np.flatnonzero(~missing)
    values = unit[present, at]
    order = np.lexsort((uniforms(len(present), 1)[:, 0], values))
    latent = np.empty(len(present))
    latent[order] = ndtri((np.arange(len(present)) + 0.5) / max(1, len(present)))
    return _Column(inside=inside, present=present, latent=latent, values=own[present][order])


def _moved(unit: Floats, tree: Tree, chosen: list[int], columns: list[_Column], missing: Floats) -> Floats:
    """One round; the columns' latent values change in place."""
    size = len(chosen)
    latent = np.zeros((len(unit), size))
    for k, column in enumerate(columns):
        latent[column.present, k] = column.latent
    scale = latent.std(axis=0) + 1e-12
    latent /= scale
    gap = np.zeros((size, size))
    spreads = _spreads(unit, tree, chosen, latent)
    for value, (a, b) in zip(missing, combinations(range(size), 2), strict=True):
        gap[a, b] = gap[b, a] = value / (spreads[a] * spreads[b])
    roots, vectors = np.linalg.eigh(latent.T @ latent / len(unit))
    turned = vectors.T @ gap @ vectors / np.maximum(roots[:, None] + roots, _LEAST_ROOT)
    move = latent @ (_STEP * vectors @ turned @ vectors.T)
    found = unit.copy()
    for k, column in enumerate(columns):
        if len(column.present) < _LEAST_ROWS:
            continue
        own = (latent[:, k] + move[:, k])[column.present]
        order = np.argsort(own, kind="stable")
        found[column.present[order], column.inside] = column.values
        column.latent[order] = ndtri((np.arange(len(order)) + 0.5) / len(order))
    return found


def _spreads(unit: Floats, tree: Tree, chosen: list[int], latent: Floats) -> Floats:
    """Covariance of each column's function with its latent values: what a change of these does to products."""
    found = []
    for k, i in enumerate(chosen):
        column, (offset, width) = unit_column(tree.binnings[i].part), tree.product_scales[i]
        values = np.clip((unit[:, column] - offset) / width, -1, 1)
        if tree.product_apart and may_be_null(tree.binnings[i].part):
            values[unit[:, tree.binnings[i].part.start + 1] > 0] = 0.0
        found.append(max(_LEAST_SPREAD, float((values - values.mean()) @ latent[:, k]) / len(unit)))
    return np.array(found)
