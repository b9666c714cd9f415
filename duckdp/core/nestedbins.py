"""Counts of bins and of blocks of bins: what follows from all of them together, and how many levels are best.

Level l of a release has the noisy counts of blocks of ``sizes[l]`` neighbouring bins (the last block may be shorter);
the first level has the bins themselves. With independent noise of equal variance on every count the estimate of least
variance of the bins is x = (A^T A)^-1 A^T y, A the 0/1 matrix of blocks; sums of bins then agree between levels.

A prefix of k bins errs by k noises of one level, or by a few of each of several: every level costs its share of
epsilon, so which is better is a formula.

Source: hierarchical counts with consistency: Hay, Rastogi, Miklau, Suciu, VLDB 2010. Here by exact least squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_BRANCHES = (2, 3, 4, 5, 8, 16)  # blocks of one level in a block of the next: what is looked at


def blocks(bins: int, sizes: Sequence[int]) -> Ints:
    """The 0/1 matrix of all levels' blocks, int[blocks, bins]."""
    at = np.arange(bins)
    levels = [(at[None, :] // size == np.arange(-(-bins // size))[:, None]) for size in sizes]
    return np.concatenate(levels).astype(np.int64)


def estimate_matrix(bins: int, sizes: Sequence[int]) -> Floats:
    """(A^T A)^-1 A^T: bins from all noisy counts, float[bins, blocks]."""
    found = blocks(bins, sizes).astype(np.float64)
    return np.asarray(np.linalg.solve(found.T @ found, found.T), dtype=np.float64)


@lru_cache(maxsize=64)
def best_sizes(bins: int) -> tuple[int, ...]:
    """Sizes of the levels with the least mean variance of all prefixes, at Laplace noise that the levels share."""
    options: list[tuple[int, ...]] = [(1,)]
    for branch in _BRANCHES:
        sizes = [1]
        while sizes[-1] * branch < bins:
            sizes.append(sizes[-1] * branch)
            options.append(tuple(sizes))
    return min(dict.fromkeys(options), key=lambda sizes: _prefix_variance(bins, sizes))


def _prefix_variance(bins: int, sizes: tuple[int, ...]) -> float:
    """Mean variance of the sums of the first 1, 2, ... bins, in units of one level's whole noise."""
    found = np.cumsum(estimate_matrix(bins, sizes), axis=0)
    return float(len(sizes) ** 2 * (found**2).sum() / bins)
