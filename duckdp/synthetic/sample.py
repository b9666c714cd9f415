"""Exactly m rows from a distribution on few points, in random order.

``draw_points``, systematic: one offset o, uniform below the total weight T, and point k gets
floor((m C_k + o) / T) - floor((m C_(k-1) + o) / T) rows, C the cumulated weights. The counts add up to m, each lies
within one of m w_k / T, and each has that mean.

``draw_independent``, as [J] Algorithm 3, steps 21 to 24: every row on its own; counts are multinomial.

Bytes come from the operating system, or are those of SHAKE-256 of a released text (``bytes_of``): a table that is made
again from the same release is then the same table. Either is post-processing.

Numerics: weights are rounded to multiples of 2^-36, of at most 2^17 points, so m C_k + T < 2^62 for m <= 10^7; counts
move by less than m 2^-36 for it. An offset below T from 128 bits is uniform to 2^-91.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from duckdp.core.noise import random_bits
from duckdp.errors import InternalError
from duckdp.smooth.axes import Floats, Ints

_UNIT = 2**36  # the sum of integer weights: each errs by 2^-37 of the whole
_MOST = 2**17  # points
Bytes = Callable[[str, int], bytes]  # (what for, how many)


def system_bytes(purpose: str, count: int) -> bytes:  # noqa: ARG001 - the system's need no name
    """Bytes of the operating system."""
    return random_bits(8 * count).to_bytes(count, "little")


def bytes_of(released: str) -> Bytes:
    """Bytes that follow from a released text, and for each purpose others."""
    key = hashlib.sha256(released.encode()).hexdigest()
    return lambda purpose, count: hashlib.shake_256(f"{key} {purpose}".encode()).digest(count)


def draw_points(weights: Floats, rows: int, source: Bytes = system_bytes, *, purpose: str = "rows") -> Ints:
    """Draw rows by systematic sampling: each point as often as its weight says, up to one.

    Args:
        weights: float[C], at least 0, sum 1.
        rows: m, 1 to 10^7.
        source: of randomness.
        purpose: names this draw among others from the same source.

    Returns:
        int[m], indices of points, shuffled.
    """
    cumulated = _cumulate(weights)
    total = int(cumulated[-1])
    offset = int.from_bytes(source(f"{purpose} offset", 16), "little") % total
    counts = np.diff((rows * cumulated + offset) // total, prepend=0)
    points = np.repeat(np.arange(len(weights), dtype=np.int64), counts)
    return np.asarray(points[np.argsort(_words(source, f"{purpose} order", rows), kind="stable")])


def draw_independent(weights: Floats, rows: int, source: Bytes = system_bytes) -> Ints:
    """Draw rows one by one: int[m], indices of points; arguments as for :func:`draw_points`."""
    cumulated = _cumulate(weights)
    cumulated[int(np.argmax(weights)) :] += _UNIT - int(cumulated[-1])  # a total of 2^36 makes whole bits uniform
    drawn = (_words(source, "rows", rows) >> np.uint64(28)).astype(np.int64)
    return np.searchsorted(cumulated, drawn, side="right").astype(np.int64)


def _cumulate(weights: Floats) -> Ints:
    """Cumulated weights in units of 2^-36, int[C]."""
    if len(weights) > _MOST:
        raise InternalError("a distribution has too many points to draw from")
    return np.cumsum(np.rint(weights * _UNIT).astype(np.int64))


def _words(source: Bytes, purpose: str, count: int) -> NDArray[np.uint64]:
    return np.frombuffer(source(purpose, 8 * count), dtype="<u8").astype(np.uint64)
