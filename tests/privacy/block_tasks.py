"""Aggregates of blocks as tasks, for every suite that goes through all tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duckdp.compiler.block_expression import read_block_expression
from duckdp.compiler.block_values import BlockTask, Combination
from duckdp.compiler.block_vectors import BlockVectorTask
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.scope import read_predicate
from duckdp.core.interval import Interval
from duckdp.core.types import NANO, Neighbours


def blocks(
    table: Any,
    aggregate: str,
    where: str | None = None,
    *,
    number: int = 7,
    span: tuple[float, float] | None = None,
    combination: Combination = "mean",
    epsilon_nano: int = NANO,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> BlockTask:
    read = read_block_expression(aggregate, table)
    known = Interval(*span) if span is not None else read.range
    assert known is not None
    return BlockTask(
        table=table,
        asked=read,
        where=None if where is None else read_predicate(parse_scalar(where), table, where),
        blocks=number,
        span=known,
        combination=combination,
        epsilon_nano=epsilon_nano,
        neighbours=neighbours,
    )


def block_vectors(
    table: Any,
    aggregates: Sequence[str],
    where: str | None = None,
    *,
    spans: Mapping[str, tuple[float, float] | None] | None = None,
    epsilon_nano: int = NANO,
    **terms: Any,
) -> BlockVectorTask:
    known = spans or {}
    each = epsilon_nano // len(aggregates)
    parts = (blocks(table, a, where, span=known.get(a), epsilon_nano=each, **terms) for a in aggregates)
    return BlockVectorTask(parts=tuple(parts), epsilon_nano=epsilon_nano)
