"""Random numbers for making rows, from the operating system: post-processing, never noise."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from duckdp.core.noise import random_bits
from duckdp.synthetic.unit.features import Floats


def uniforms(rows: int, columns: int) -> Floats:
    """Uniform numbers in [0, 1), float[rows, columns]."""
    count = rows * columns
    bits = np.frombuffer(random_bits(64 * count).to_bytes(8 * count, "little"), dtype=np.uint64)
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53).reshape(rows, columns)


def normals(rows: int, columns: int) -> Floats:
    """Standard normal numbers, float[rows, columns]."""
    return np.asarray(ndtri(uniforms(rows, columns) * (1 - 2e-12) + 1e-12))
