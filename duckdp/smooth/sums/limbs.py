"""Exact products of tensors of large integers with matrices of small ones, by floating-point matrix products.

An integer tensor is a list of int64 limbs, x = sum_k limb_k 2^(16 k), all but the last from 0 to 2^16 - 1. A limb times
integers of at most 24 bits, added up 2^13 times, stays within 2^53: exact in doubles, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from duckdp.errors import InternalError

LIMB = 16  # bits of a limb
MOST_TERMS = 1 << 13  # of a sum of products of limbs that stays exact as DOUBLE
Ints = NDArray[np.int64]


def to_limbs(x: Ints) -> list[Ints]:
    """Limbs of any tensor of int64."""
    return carry([x])


def carry(limbs: Sequence[Ints]) -> list[Ints]:
    """The same numbers with limbs in their range."""
    found: list[Ints] = []
    over = np.zeros_like(limbs[0])
    k = 0
    while k < len(limbs) or np.any(over):
        value = over + limbs[k] if k < len(limbs) else over
        k += 1
        if k >= len(limbs) and value.size and value.min() >= -(1 << LIMB) and value.max() < 1 << LIMB:
            found.append(value)
            break
        found.append(value & ((1 << LIMB) - 1))
        over = value >> LIMB
    return found or [np.zeros_like(limbs[0])]


def contract(limbs: Sequence[Ints], matrix: NDArray[np.float64], axis: int) -> list[Ints]:
    """sum_j matrix[r, j] x[..., j, ...]: axis ``axis`` of length K becomes one of length t.

    Args:
        limbs: of x; may be out of range (they are carried first).
        matrix: float[t, K] of whole numbers of at most 2^24.
        axis: of x.

    Returns:
        Limbs of at most 2^53, not carried.
    """
    if matrix.shape[1] > MOST_TERMS:
        raise InternalError("too many cells for an exact product")
    shape = limbs[0].shape
    before, after = int(np.prod(shape[:axis], dtype=np.int64)), int(np.prod(shape[axis + 1 :], dtype=np.int64))
    found = []
    for limb in carry(limbs):
        x = limb.astype(np.float64).reshape(before, shape[axis], after)
        flat = x[:, :, 0] @ matrix.T if after == 1 else np.matmul(matrix, x)
        found.append(flat.astype(np.int64).reshape((*shape[:axis], len(matrix), *shape[axis + 1 :])))
    return found


def from_limbs(limbs: Sequence[Ints]) -> list[int]:
    """What limbs stand for, as Python integers in one list."""
    total = np.zeros(limbs[0].size, dtype=object)
    for k, limb in enumerate(limbs):
        total += limb.reshape(-1).astype(object) << (LIMB * k)
    return [int(v) for v in total]


def round_shift(value: int, shift: int) -> int:
    """Divide by 2^shift, rounded to nearest; commutes with adding multiples of 2^shift."""
    return value if shift <= 0 else (value + (1 << (shift - 1))) >> shift
