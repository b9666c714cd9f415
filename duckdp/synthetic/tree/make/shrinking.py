"""Noisy counts of ordered bins -> shares: pulled to what public laws make of them, by as much as noise explains.

Cutting noisy counts off at 0 leaves rows in bins that have none: in far bins of a skewed column a few of them move its
mean by parts of its deviation. So counts y = n p + noise of deviation s are first pulled to a reference, and cut after:

    reference   the mean of prior draws, weighted by their likelihood to the power 1 / T: T = 1, 2, 4, .. is the first
                at which so many draws count that their mean is no single one of them (``_ENOUGH``, effective draws);
                at T = 1 it is the posterior mean
    pull        r + (y / n - r) max(0, 1 - (B - 2) (s / n)^2 / |y / n - r|^2): James and Stein's, the positive part;
                noise that is small beside the distance leaves the counts as they are
    cut         the nearest shares that are not negative, with a mean that is known where one is (``nearest_shares``)

The prior of B bins, for whatever column: mixtures of three normal laws (of 6 draws 3), a law of Gamma alone (1) or with
as much of such a mixture (1), Dirichlet laws (1). Post-processing of released figures.

Source: James, Stein, "Estimation with quadratic loss", 1961; its positive part: Baranchik, 1964.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import gammainc

from duckdp.synthetic.tree.make.estimates import (
    DRAWS,
    MOST_BINS,
    Mean,
    leaning,
    likely_mean,
    nearest_shares,
    rough_laws,
    smooth_laws,
)
from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.prior_points import prior_points

_ENOUGH = 20.0  # effective draws of a reference
_HOTTEST = 40  # of powers of 2 for T
_LEAST_KEPT = 0.05  # of the noise, which what was pulled is taken to have at least
_SHAPES = (0.3, 20.0)  # least shape of a law of Gamma, and how many times that the largest is
_MEANS = (0.01, 60.0)  # the same of its mean, of the range
_STARTS = 0.3  # of the range: farthest place where such a law begins; half begin at the end


def shrink_shares(counts: Floats, deviation: float, rows: float, mean: Mean = None, *, null: bool = False) -> Floats:
    """Shares of ordered bins, float[B], that sum to 1.

    Args:
        counts: float[B], noisy.
        deviation: of their noise, rows; > 0.
        rows: n, noisy or public.
        mean: what is known of a mean of values at the bins.
        null: whether the last bin is NULL's, of which no law tells: its share is the noisy one.
    """
    size = len(counts)
    if not 3 <= size <= MOST_BINS:
        return nearest_shares(counts, deviation, rows, mean)
    shares, noise = counts / rows, deviation / rows
    laws, squares = _laws(size - null)
    aside = float(np.clip(shares[-1], 0, 1)) if null else 0.0  # of NULL, in every draw
    own = shares[: size - null]
    distances = float(own @ own) - 2 * (1 - aside) * (laws @ own) + (1 - aside) ** 2 * squares
    weights = _weigh(distances / (-2 * noise**2))
    reference = np.append((1 - aside) * (weights @ laws), [aside] * null)
    if mean is not None:
        means = (1 - aside) * (laws @ mean[0][: size - null])
        spread = float(weights @ means**2) - float(weights @ means) ** 2
        reference = leaning(reference, mean[0], likely_mean(float(reference @ mean[0]), spread, mean))
    gap = shares - reference
    kept = max(0.0, 1 - (size - 2) * noise**2 / max(float(gap @ gap), 1e-300))
    pulled = (reference + kept * gap) * rows
    return nearest_shares(pulled, deviation * max(kept, _LEAST_KEPT), rows, mean)


def _weigh(fit: Floats) -> Floats:
    """Weights of draws of these log-likelihoods, so flat that enough of them count."""
    fit = fit - fit.max()
    for power in range(_HOTTEST):
        weights = np.exp(fit / 2**power)
        if float(weights.sum() ** 2) >= _ENOUGH * float(weights @ weights):
            break
    return np.asarray(weights / weights.sum())


@lru_cache(maxsize=16)
def _laws(size: int) -> tuple[Floats, Floats]:
    """The prior's draws, float[6 draws, size], and the sum of the squares of each."""
    skewed, smooth = _skewed(size), smooth_laws(size)
    found = np.concatenate([smooth, rough_laws(size), skewed, (skewed + smooth[:DRAWS]) / 2])
    return found, np.einsum("ij,ij->i", found, found)


def _skewed(size: int) -> Floats:
    """Laws of Gamma over equal bins of [0, 1] from either end, tails in the last bin, float[draws, size]."""
    edges, free = np.linspace(0, 1, size + 1), prior_points("skewed", DRAWS, 4)
    shape = _SHAPES[0] * _SHAPES[1] ** free[:, 0]
    mean = _MEANS[0] * _MEANS[1] ** free[:, 1]
    start = _STARTS * np.maximum(0.0, 2 * free[:, 2] - 1)
    reached = np.maximum(0.0, edges - start[:, None]) * (shape / mean)[:, None]
    below = gammainc(shape[:, None], reached)
    below[:, -1] = 1.0
    found = np.diff(below, axis=1)
    turned = free[:, 3] < 0.25  # of laws, as most that are skewed begin at a lower bound
    found[turned] = found[turned, ::-1]
    return np.asarray(found)
