"""Noisy means -> better means. Post-processing of released figures and of the public law of their noise."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from scipy.special import gammaincc
from scipy.stats import beta

from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.stages import Noisy

_POINTS = 81  # of the grid of a prior over [-1, 1]: steps of 0.025, half of the least noise it is for (_COARSE)
_ROUNDS = 50  # of EM
_SMOOTH = 0.2  # part of the prior that is a mixture of beta laws
_LEAST_SIGNAL = 0.01  # variance of links, in units of their columns' variances, that is never taken for noise
_COARSE = 0.05  # below this deviation the grid of _POINTS is coarser than the noise


def shrink_means(noisy: Noisy) -> Floats:
    """Posterior means in [-1, 1] under a prior fitted to all of them (empirical Bayes); clipped where noise is small.

    The prior is the nonparametric maximum-likelihood one on a grid, by EM, mixed with beta laws weighted by their
    likelihood: alone the first follows the noise, and the second misses a crowd of columns that are alike. The
    likelihood of one coordinate of a cube is ~ Q(R, |x| rate), the regularised upper incomplete gamma function: the
    share of cubes that are large enough; of Laplace and Gaussian noise their densities.

    Source: Kiefer, Wolfowitz 1956 (the estimator); the cube's marginal and the mixture are our own.
    """
    if noisy.deviation < _COARSE or len(noisy.means) < 2:
        return np.clip(noisy.means, -1, 1)
    grid = np.linspace(-1, 1, _POINTS)
    off = np.abs(noisy.means[:, None] - grid)
    if noisy.family == "cube":
        rate = math.sqrt((noisy.count + 1) * (noisy.count + 2) / 3) / noisy.deviation
        likelihood = gammaincc(noisy.count, off * rate) + 1e-6
    elif noisy.family == "laplace":
        likelihood = np.exp(-math.sqrt(2) * off / noisy.deviation) + 1e-12
    else:
        likelihood = np.exp(-0.5 * (off / noisy.deviation) ** 2) + 1e-12
    fits = np.log(likelihood @ _beta_laws().T).sum(axis=0)
    weights = np.exp(fits - fits.max())
    smooth = np.asarray(weights / weights.sum()) @ _beta_laws()
    prior = smooth
    for _ in range(_ROUNDS):
        posterior = likelihood * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = (1 - _SMOOTH) * posterior.mean(axis=0) + _SMOOTH * smooth
    return np.asarray(posterior @ grid)


@cache
def _beta_laws() -> Floats:
    """Beta laws over [-1, 1] of many means and widths, on the grid: float[L, _POINTS]."""
    places = (np.arange(_POINTS) + 0.5) / _POINTS
    mean, size = np.meshgrid(np.linspace(0.05, 0.95, 19), np.geomspace(0.5, 40, 10))
    a, b = (mean * size).reshape(-1, 1), ((1 - mean) * size).reshape(-1, 1)
    found = np.asarray(beta.pdf(places, a, b))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def shrink_toward(values: Floats, prior: Floats, deviation: float) -> Floats:
    """Values pulled to a prior guess by t / (t + deviation^2), t their mean square distance less the noise's."""
    gap = values - prior
    signal = max(0.0, float(np.mean(gap**2)) - deviation**2)
    return np.asarray(prior + gap * (signal / (signal + deviation**2) if signal else 0.0))


def shrink_scaled(values: Floats, scales: Floats, deviation: float) -> Floats:
    """Values whose prior is normal about 0 with deviation k scales_i, k fitted by their mean square: posterior means.

    For covariances with a label the scale is the column's own standard deviation: a column that hardly varies cannot
    have a large one, and a classifier would divide its noise by its variance.
    """
    ratio = (float(np.sum(values**2)) - len(values) * deviation**2) / max(1e-12, float(np.sum(scales**2)))
    prior = max(ratio, _LEAST_SIGNAL) * scales**2
    return np.asarray(values * prior / (prior + deviation**2 + 1e-18))


def shrink_matrix(gap: Floats, deviation: float) -> Floats:
    """A symmetric matrix of noisy entries (deviation each) with its eigenvalues shrunk: l -> sign(l) sqrt(l^2 - 4 d v).

    Eigenvalues below 2 deviation sqrt(d), where those of pure noise lie, become 0.

    Source: Gavish, Donoho, "Optimal shrinkage of singular values", 2017 (Frobenius loss, square case).
    """
    values, vectors = np.linalg.eigh(gap)
    kept = np.sign(values) * np.sqrt(np.maximum(values**2 - 4 * len(gap) * deviation**2, 0))
    return np.asarray((vectors * kept) @ vectors.T)


def symmetric(entries: Floats, upper: tuple[Any, Any], size: int) -> Floats:
    """float[size, size] from entries of its upper triangle."""
    found = np.zeros((size, size))
    found[upper] = entries
    return np.asarray(np.triu(found) + np.triu(found, 1).T)
