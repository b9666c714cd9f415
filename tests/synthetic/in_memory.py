"""Exact sums over rows in memory: what DuckDB would compute of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from duckdp.synthetic.psi.buy import Products
from duckdp.synthetic.unit.buy.purse import Sums
from duckdp.synthetic.unit.features import Features, Floats

_BLOCK = 1024  # rows whose products are added up at once


def memory_sums(unit: Floats) -> Sums:
    """What DuckDB would compute, from rows in memory, in blocks."""

    def sums(features: Features, bits: int) -> tuple[int, Sequence[int]]:
        found = np.zeros(features.count)
        for start in range(0, len(unit), _BLOCK):
            found += np.floor(features.rows(unit[start : start + _BLOCK]) * 2.0**bits + 0.5).sum(axis=0)
        return len(unit), [int(v) for v in found]  # integers below 2^53: exact

    return sums


def exact_products(u: Floats, centre: Floats, basis: Floats, bits: int) -> list[int]:
    """The sums of one round from rows in memory: what ``psi.buy.print_products`` prints gives."""
    y = np.clip(u - centre, -1, 1)
    along = y @ basis
    found = []
    for i in range(u.shape[1]):
        found.append(np.floor(y[:, i : i + 1] * along * 2.0**bits + 0.5).sum(axis=0))
    return [int(v) for v in np.stack(found).ravel()]


def memory_products(unit: Floats) -> Products:
    """The same for a round of subspace iteration."""
    return lambda centre, basis, bits: exact_products(unit, centre, basis, bits)
