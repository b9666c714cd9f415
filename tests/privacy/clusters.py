"""k-means as tasks, for every suite that goes through all tasks."""

from __future__ import annotations

from typing import Any

from duckdp.compiler.cluster_rows import ClusterRows
from duckdp.compiler.kmeans import KMeansTask, Start
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.scope import read_predicate
from duckdp.core.types import NANO, Neighbours


def kmeans(
    table: Any,
    names: tuple[str, ...] = ("age", "cost"),
    where: str | None = None,
    *,
    k: int = 3,
    start: Start = "cells",
    moves: int = 1,
    blocks: int = 0,
    epsilon_nano: int = NANO,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> KMeansTask:
    found = [table.column(name) for name in names]
    rows = ClusterRows(
        table=table,
        columns=tuple(found),
        where=None if where is None else read_predicate(parse_scalar(where), table, where),
    )
    return KMeansTask(
        rows=rows, k=k, start=start, moves=moves, blocks=blocks, epsilon_nano=epsilon_nano, neighbours=neighbours
    )
