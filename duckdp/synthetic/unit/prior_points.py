"""Points over which a public prior is averaged: spread like random numbers, and the same wherever they are made.

A purchase of several stages may go on in another process, after a crash: what it stored is of bins that follow from
estimates, so these must be the same there. An average over such points is a function of released figures and nothing
else. They are never noise, and no row is made from them (``uniforms``).

Source: the numbers are those of SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
"""

from __future__ import annotations

import hashlib

import numpy as np

from duckdp.synthetic.unit.features import Floats

_STEP = 0x9E3779B97F4A7C15  # from one number to the next, before they are mixed: 2^64 over the golden ratio
_MIXES = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))  # (bits to shift by, factor) of each round


def prior_points(name: str, rows: int, columns: int) -> Floats:
    """Points of the unit cube, float[rows, columns], each coordinate in [0, 1).

    Args:
        name: of what they are for; another name has other points.
        rows: how many.
        columns: of how many coordinates.
    """
    first = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    numbers = np.arange(1, rows * columns + 1, dtype=np.uint64) * np.uint64(_STEP) + np.uint64(first)
    for shift, factor in _MIXES:
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray((numbers >> np.uint64(11)) * 2.0**-53).reshape(rows, columns)
