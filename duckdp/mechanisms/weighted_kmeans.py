"""k-means of weighted points that were released: post-processing, the same each time.

Centres come one after the other: each is that point, among the heaviest, which lowers the sum of weighted squared
distances most beside the centres so far; then all of them are moved to the means of what is nearest to them. Then each
in turn is taken out and put where it lowers that sum most, as long as that helps. Nothing is drawn, so that the same
release gives the same centres.

Source: Likas, Vlassis, Verbeek, "The global k-means clustering algorithm", Pattern Recognition 2003 (its fast form);
        Lloyd, "Least squares quantization in PCM", 1982.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_CANDIDATES = 256  # of the heaviest points, for the next centre
_BETWEEN = 5  # moves of all centres after each that comes
_MOST_MOVES = 50  # of all centres at the end
_TURNS = 3  # that each centre has to be put elsewhere
_BETTER = 0.999  # of the sum: what counts as help


def weighted_kmeans(points: Floats, weights: Floats, k: int) -> Floats:
    """Centres near which weighted points lie, by the sum of squared distances.

    Args:
        points: float[m, d], m >= k >= 1.
        weights: float[m], above 0.
        k: how many centres.

    Returns:
        float[k, d].
    """
    heaviest = points[np.argsort(-weights, kind="stable")[:_CANDIDATES]]
    apart = squared_distances(points, heaviest)

    def one_more(centers: Floats) -> Floats:
        """With the candidate that lowers the sum most."""
        nearest = squared_distances(points, centers).min(axis=1)
        best = int(np.argmax(weights @ np.maximum(nearest[:, None] - apart, 0.0)))
        return _moved(points, weights, np.vstack([centers, heaviest[best]]), _BETWEEN)

    centers = np.average(points, axis=0, weights=weights)[None]
    for _ in range(1, k):
        centers = one_more(centers)
    centers = _moved(points, weights, centers, _MOST_MOVES)
    failed, turn, least = 0, 0, _cost(points, weights, centers)
    while k > 1 and failed < k and turn < _TURNS * k:
        found = _moved(points, weights, one_more(np.delete(centers, turn % k, axis=0)), _MOST_MOVES)
        cost = _cost(points, weights, found)
        better = cost < least * _BETTER
        centers, least, failed = (found, cost, 0) if better else (centers, least, failed + 1)
        turn += 1
    return centers


def _cost(points: Floats, weights: Floats, centers: Floats) -> float:
    return float(weights @ squared_distances(points, centers).min(axis=1))


def squared_distances(points: Floats, centers: Floats) -> Floats:
    """The squared distance of each point from each centre, float[m, k]."""
    return np.stack([((points - center) ** 2).sum(axis=1) for center in centers], axis=1)


def _moved(points: Floats, weights: Floats, centers: Floats, moves: int) -> Floats:
    """Centres after so many moves to the means of what is nearest; one that is nearest to nothing stays."""
    for _ in range(moves):
        places = squared_distances(points, centers).argmin(axis=1)
        mass = np.bincount(places, weights, len(centers))
        sums = np.stack([np.bincount(places, weights * column, len(centers)) for column in points.T], axis=1)
        found = np.where(mass[:, None] > 0, sums / np.where(mass > 0, mass, 1.0)[:, None], centers)
        if np.array_equal(found, centers):
            break
        centers = found
    return centers
