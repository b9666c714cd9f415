"""Cells of a noisy table of two columns that no row is in: post-processing.

Where one column tells the other, or nearly, most cells of their table are empty. Noise is added to all, what it puts
below 0 is cut off, and rows are made for what it puts above. How many cells are empty the table itself tells: with
E_ij = n p_i q_j, the rows of a cell if nothing linked the columns, a cell holds r_ij E_ij, and the law of r is fitted
to all cells of the table, with the known law of their noise (taken as normal), by the EM algorithm over a grid of
ratios from 0 to 40 (a nonparametric maximum likelihood, with a prior of two cells' weight that most are as
independence has them). By Bayes' rule follows how likely each cell is nearly empty, a twentieth of E_ij and less. As
much of its estimate gives way to what nearly empty cells hold; the rest stays as it is, so what links the columns
otherwise is not drawn anywhere.

Source: empirical Bayes by the nonparametric maximum likelihood: Kiefer, Wolfowitz, "Consistency of the maximum
likelihood estimator in the presence of infinitely many incidental parameters", 1956; by EM: Jiang, Zhang, "General
maximum likelihood empirical Bayes estimation of normal means", 2009. That it is used for empty cells alone is our own.
"""

from __future__ import annotations

import numpy as np

from duckdp.synthetic.unit.features import Floats

_RATIOS = np.concatenate([[0.0], np.geomspace(0.02, 40.0, 40), [1.0]])  # of a cell's rows to those of independence
_PRIOR = np.concatenate([[0.1], np.full(40, 0.0125), [0.4]])  # their weights before a table is seen
_PRIOR_CELLS = 2.0  # weight of that
_NEARLY = 0.05  # of a cell's expected rows: less is nearly empty
_ROUNDS = 40  # of the EM algorithm
_MOST_CELLS = 2**15  # that weights are fitted to, evenly spread, and that are looked at together (11 MB)


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
    step = -(-len(own) // _MOST_CELLS)
    weights = _fit(_likely(own[::step], usual[::step], noise))
    low, kept = _RATIOS < _NEARLY, []
    for k in range(0, len(own), _MOST_CELLS):  # for bounded memory
        part, rows = slice(k, k + _MOST_CELLS), usual[k : k + _MOST_CELLS]
        posterior = _likely(own[part], rows, noise) * weights
        empty = posterior[:, low] / posterior.sum(axis=1, keepdims=True)
        kept.append(rows * (empty @ _RATIOS[low]) + (1 - empty.sum(axis=1)) * np.maximum(own[part], 0.0))
    found[known] = np.concatenate(kept)
    return found


def _likely(own: Floats, usual: Floats, noise: float) -> Floats:
    """How likely each ratio makes each cell, float[cells, ratios], of the likeliest one's."""
    distances = ((own[:, None] - usual[:, None] * _RATIOS) / noise) ** 2
    return np.asarray(np.exp((distances.min(axis=1, keepdims=True) - distances) / 2))


def _fit(likely: Floats) -> Floats:
    """Weights of the ratios, float[ratios]."""
    prior, weights = _PRIOR_CELLS * _PRIOR, _PRIOR
    for _ in range(_ROUNDS):
        each = (likely / (likely @ weights)[:, None]).sum(axis=0) * weights
        weights = (each + prior) / (len(likely) + prior.sum())
    return np.asarray(weights)
