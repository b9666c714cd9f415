"""First rows: independent columns with given means, and a given average of |u|^2.

Each entry is its column's mean with probability 1 - a, else -1 or 1 with that mean: the mean is kept for every a, and
E |u|^2 = |mean|^2 + a (d - |mean|^2) fixes a. With a label, its column holds -1 and 1 and the other means depend on it.
Draws are stratified (each column's ranks in m equal steps), so m rows have the wanted means to about 1/m.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from duckdp.core.noise import random_bits
from duckdp.synthetic.wide.features import Floats

_CORRECTIONS = 5


def uniforms(rows: int, columns: int) -> Floats:
    """Uniform numbers in [0, 1) from the operating system, float[rows, columns]; post-processing, never noise."""
    count = rows * columns
    bits = np.frombuffer(random_bits(64 * count).to_bytes(8 * count, "little"), dtype=np.uint64)
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53).reshape(rows, columns)


def start_rows(means: Floats, square: float | Floats, rows: int, latent: Floats | None = None) -> Floats:
    """Rows of independent columns, or of columns that are linked like normal variables.

    Args:
        means: float[d] or float[m, d] in [-1, 1].
        square: wanted average of |u|^2, or of every u_i^2, float[d].
        rows: m.
        latent: float[d, k]; entries are ranked by a normal variable of covariance latent latent^T. None: independent.

    Returns:
        float[m, d] in [-1, 1].
    """
    d = means.shape[-1]
    wanted = np.broadcast_to(means, (rows, d))
    low = np.mean(wanted**2, axis=0)
    if np.ndim(square) == 0:
        low = np.asarray(low.sum())
        spread = np.clip((square - low) / max(1e-9, d - float(low)), 0, 1)
    else:
        spread = np.clip((square - low) / np.maximum(1e-9, 1 - low), 0, 1)
    keys = uniforms(rows, d) if latent is None else normals(rows, latent.shape[1]) @ latent.T
    steps = (np.argsort(np.argsort(keys, axis=0), axis=0) + 0.5) / rows
    down, up = steps < spread * (1 - wanted) / 2, steps > 1 - spread * (1 + wanted) / 2
    return np.where(up, 1.0, np.where(down, -1.0, wanted))


def linked_rows(means: Floats, square: float | Floats, rows: int, covariance: Floats) -> Floats:
    """Rows with about the given covariances off the diagonal: the latent correlations are corrected a few times.

    Args:
        means: float[d].
        square: as in :func:`start_rows`.
        rows: m.
        covariance: float[d, d]; its diagonal is not used.
    """
    latent = np.zeros_like(covariance)
    for _ in range(_CORRECTIONS):
        values, vectors = np.linalg.eigh(latent + np.eye(len(means)))
        root = vectors * np.sqrt(np.maximum(values, 1e-6))
        root /= np.linalg.norm(root, axis=1, keepdims=True)
        found = start_rows(means, square, rows, root)
        spread = np.maximum(found.std(axis=0), 0.05)
        latent += (covariance - np.cov(found, rowvar=False)) / np.outer(spread, spread)
        latent = np.clip(latent, -0.98, 0.98)
        np.fill_diagonal(latent, 0)
    return found


def normals(rows: int, columns: int) -> Floats:
    """Standard normal numbers, float[rows, columns]; post-processing, never noise."""
    return np.asarray(ndtri(uniforms(rows, columns) * (1 - 2e-12) + 1e-12))
