"""Weights for workloads as tasks, for every suite that goes through all tasks."""

from __future__ import annotations

from typing import Any

from duckdp.compiler.grouping import read_keys
from duckdp.compiler.weighted_stream import read_linear_of_cells
from duckdp.compiler.workload import WorkloadTask
from duckdp.core.types import NANO, Neighbours

ASKED = (
    "sex = 'F'",
    "town = 'Bern'",
    "town = 'Bern' AND sex = 'M'",
    "town IN ('Uri', 'Genf')",
    "CASE WHEN town = 'Uri' THEN 0.5 WHEN sex = 'F' THEN 0.25 END",
)


def workload(
    table: Any,
    columns: str = "sex, town",
    questions: tuple[str, ...] = ASKED,
    *,
    rounds: int = 2,
    epsilon_nano: int = NANO,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> WorkloadTask:
    keys = read_keys(columns, table)
    return WorkloadTask(
        table=table,
        keys=keys,
        questions=tuple(read_linear_of_cells(text, table, keys) for text in questions),
        rounds=rounds,
        epsilon_nano=epsilon_nano,
        neighbours=neighbours,
    )
