"""Cells of a noisy table of two columns that hold no rows, or hardly any: post-processing.

Where one column tells the other, or nearly, most cells of their table are empty. Noise is added to all, what it puts
below 0 is cut off, and rows are made for what it puts above. How many cells are empty the table itself tells: with
E_ij = n p_i q_j, the rows of a cell if nothing linked the columns, a cell holds r_ij E_ij, and the law of r is fitted
to the cells of the table, with the known deviation of their noise (taken as normal), by the EM algorithm over 0 and a
grid of ratios that is finer than the noise near 0 (a nonparametric maximum likelihood, with a prior of two cells'
weight: .1 at 0, .4 at 1, the rest spread over the grid). By Bayes' rule follows how likely a cell is nearly empty: a
twentieth of E_ij at most, and no more than noise hides. So much of its estimate gives way to what nearly empty cells
hold; the rest stays as it is. A cell that stands out of the noise keeps what was measured, however few rows that are.

Source: empirical Bayes by the nonparametric maximum likelihood: Kiefer, Wolfowitz, "Consistency of the maximum
likelihood estimator in the presence of infinitely many incidental parameters", 1956; by EM: Jiang, Zhang, "General
maximum likelihood empirical Bayes estimation of normal means", 2009. That it is used for empty cells alone is our own.
"""

from __future__ import annotations

import math

import numpy as np

from duckdp.synthetic.tree.bins import Ints
from duckdp.synthetic.unit.features import Floats

_MOST_RATIO = 40.0  # of a cell's rows to those of independence
_STEP = 1.2  # from ratio to ratio
_FINEST = 0.25  # of the noise: the least ratio above 0, in the largest cell
_AT_ZERO, _AT_ONE = 0.1, 0.4  # weights before a table is seen; the rest is spread evenly
_PRIOR_CELLS = 2.0  # weight of that
_NEARLY = 0.05  # of a cell's expected rows: no more is nearly empty,
_HIDDEN = 2.0  # nor is more than so many deviations of its noise
_ROUNDS = 40  # of the EM algorithm
_FITTED = 2**12  # cells that weights are fitted to
_TOGETHER = 2**14  # cells that are looked at together: some 10 MB an array
_GOLDEN = (math.sqrt(5) - 1) / 2


def without_empty_cells(table: Floats, expected: Floats, noise: float) -> Floats:
    """A table whose nearly empty cells hold what such cells hold.

    Args:
        table: estimated shares of cells, float[a, b].
        expected: their shares if nothing linked the columns, float[a, b].
        noise: deviation of what the estimate errs by in a cell.

    Returns:
        float[a, b] >= 0; its margins are no longer those of ``table``.
    """
    found, known = np.maximum(table, 0.0), expected > 0
    if noise <= 0 or not known.any():
        return found
    own, usual = table[known], expected[known]
    ratios = _ratios(noise / float(usual.max()))
    some = _spread(len(own), _FITTED)
    weights = _fit(_likely(own[some], usual[some], ratios, noise))
    kept = []
    for k in range(0, len(own), _TOGETHER):  # for bounded memory
        part = slice(k, k + _TOGETHER)
        rows = usual[part, None] * ratios
        posterior = _likely(own[part], usual[part], ratios, noise) * weights
        posterior /= posterior.sum(axis=1, keepdims=True)
        empty = posterior * ((ratios < _NEARLY) & (rows < _HIDDEN * noise))
        kept.append((empty * rows).sum(axis=1) + (1 - empty.sum(axis=1)) * np.maximum(own[part], 0.0))
    found[known] = np.concatenate(kept)
    return found


def _ratios(noise: float) -> Floats:
    """0, ratios that grow by steps from where noise (of the largest cell's expected rows) hides them, and 1 at last."""
    least = min(_NEARLY, max(_FINEST * noise, 1e-9))
    count = math.ceil(math.log(_MOST_RATIO / least) / math.log(_STEP)) + 1
    return np.concatenate([[0.0], np.geomspace(least, _MOST_RATIO, count), [1.0]])


def _spread(count: int, most: int) -> Ints:
    """At most so many of the cells, spread evenly over rows and columns alike: multiples of the golden ratio."""
    if count <= most:
        return np.arange(count)
    return np.unique((np.arange(most) * _GOLDEN % 1 * count).astype(np.int64))


def _likely(own: Floats, usual: Floats, ratios: Floats, noise: float) -> Floats:
    """How likely each ratio makes each cell, float[cells, ratios], of the likeliest one's."""
    distances = ((own[:, None] - usual[:, None] * ratios) / noise) ** 2
    return np.asarray(np.exp((distances.min(axis=1, keepdims=True) - distances) / 2))


def _fit(likely: Floats) -> Floats:
    """Weights of the ratios, float[ratios]."""
    between = likely.shape[1] - 2
    weights = np.full(likely.shape[1], (1 - _AT_ZERO - _AT_ONE) / between)
    weights[0], weights[-1] = _AT_ZERO, _AT_ONE
    prior = _PRIOR_CELLS * weights
    for _ in range(_ROUNDS):
        each = (likely / (likely @ weights)[:, None]).sum(axis=0) * weights
        weights = (each + prior) / (len(likely) + _PRIOR_CELLS)
    return np.asarray(weights)
