"""First rows: columns of given laws, independent or linked like normal variables (a Gaussian copula).

A column's law is the one that was bought (``marginals``), else -1 and 1 for columns of two values, else the beta law of
its mean and square: rows whose |u|^2 varies as real rows' does, so that the fit has little to move. Draws are
stratified (each column's ranks in m equal steps), so m rows have the wanted means to about 1/m.

Source: Nelsen, "An Introduction to Copulas", 2006; the correction of the correlations is our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc

from duckdp.smooth.angles import angle_middles, angle_nodes
from duckdp.synthetic.unit.features import Floats, inner, outer
from duckdp.synthetic.unit.uniforms import normals, uniforms

_CORRECTIONS = 5  # rounds in which latent correlations are corrected
_GRID = 200  # places of a beta law, equispaced in the angle
_LEAST = 0.02  # a + b of a beta law, at least: nearly all mass at the ends
_MOST = 1e4  # the same, at most: nearly all mass at the mean


@dataclass(frozen=True, kw_only=True, eq=False)
class Laws:
    """The distribution of each column.

    Attributes:
        places: float[d, G] in [-1, 1], ascending.
        shares: float[d, G], at least 0, sum 1.
    """

    places: Floats
    shares: Floats

    @property
    def squares(self) -> Floats:
        """The second moment of each column, E u_i^2, float[d]."""
        return np.asarray((self.shares * self.places**2).sum(axis=1))

    def replaced(self, columns: Sequence[int], other: Laws) -> Laws:
        """With the laws of some columns taken from another."""
        places, shares = self.places.copy(), self.shares.copy()
        places[list(columns)], shares[list(columns)] = other.places, other.shares
        return Laws(places=places, shares=shares)

    def quantiles(self, rows: int) -> Floats:
        """Quantiles of each law at m even levels, ascending: float[d, m]."""
        levels, found = (np.arange(rows) + 0.5) / rows, np.empty((len(self.shares), rows))
        for i, share in enumerate(self.shares):
            at = np.searchsorted(np.cumsum(share), levels)
            found[i] = self.places[i, np.minimum(at, len(share) - 1)]
        return found


def beta_laws(means: Floats, squares: Floats, signs: Sequence[int]) -> Laws:
    """Laws of given means and squares, float[d] each; ``signs`` are columns of -1 and 1 only."""
    nodes = angle_nodes(_GRID)
    middles = (1 + angle_middles(_GRID)) / 2
    room = np.maximum(1e-6, 1 - means**2)
    size = np.clip(room / np.clip(squares - means**2, 1e-6, room) - 1, _LEAST, _MOST)
    up = np.clip((1 + means) / 2, 1e-4, 1 - 1e-4)
    below = betainc((size * up)[:, None], (size * (1 - up))[:, None], middles)
    shares = np.asarray(np.diff(below, axis=1, prepend=0.0, append=1.0), dtype=np.float64)
    for i in signs:
        shares[i] = 0.0
        shares[i, [0, -1]] = (1 - means[i]) / 2, (1 + means[i]) / 2
    return Laws(places=np.broadcast_to(nodes, shares.shape).copy(), shares=shares)


def start_rows(laws: Laws, rows: int) -> Floats:
    """Rows of independent columns of these laws, float[m, d] in [-1, 1]."""
    values = laws.quantiles(rows)
    return _ranked(values, uniforms(*values.shape))


def _ranked(values: Floats, keys: Floats) -> Floats:
    """Values of each column, ascending, float[d, m], in the order of its keys, float[d, m]: float[m, d]."""
    found = np.empty_like(values)
    np.put_along_axis(found, np.argsort(keys, axis=1), values, axis=1)
    return np.ascontiguousarray(found.T)


def linked_rows(laws: Laws, rows: int, covariance: Floats) -> Floats:
    """Rows with about the given covariances off the diagonal: the latent correlations are corrected a few times.

    Args:
        laws: of d columns.
        rows: m.
        covariance: float[d, d]; its diagonal is not used.
    """
    latent, values = np.zeros_like(covariance), laws.quantiles(rows)
    spread = np.maximum(values.std(axis=1), 0.05)  # whatever the order of the values
    means = values.mean(axis=1)
    for _ in range(_CORRECTIONS):
        roots, vectors = np.linalg.eigh(latent + np.eye(len(latent)))
        root = vectors * np.sqrt(np.maximum(roots, 1e-6))
        root /= np.linalg.norm(root, axis=1, keepdims=True)
        found = _ranked(values, outer(normals(rows, root.shape[1]), root.T).T)  # like normal variables of that root
        now = inner(found - means, found - means) / (rows - 1)
        latent += (covariance - now) / np.outer(spread, spread)
        latent = np.clip(latent, -0.98, 0.98)
        np.fill_diagonal(latent, 0)
    return found
