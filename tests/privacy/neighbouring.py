"""Random tables and their neighbours, for suites that look at what a unit can change."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from duckdp.catalog.table import Table
from duckdp.core.types import Neighbours
from tests.privacy.draws import _random_row

Rows = list[tuple[Any, ...]]


def neighbouring(table: Table, neighbours: Neighbours, seed: int, times: int) -> Iterator[tuple[Rows, Rows]]:
    """A table of the clinic with each of some neighbours: a unit with up to 30 rows comes, or one row is another."""
    rng = random.Random(seed)
    rows: Rows = [(rng.choice([None, *range(12)]), *_random_row(rng)) for _ in range(rng.randint(0, 40))]
    for _ in range(times):
        if neighbours is not Neighbours.REPLACE:
            size = 1 if table.unit_key is None else rng.randint(1, 30)
            yield rows, [*rows, *((99, *_random_row(rng)) for _ in range(size))]
        else:
            rows = rows or [(1, *_random_row(rng))]
            yield rows, [*rows[:-1], (98, *_random_row(rng))]
