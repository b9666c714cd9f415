"""Moments of columns and of counts, counts of bins, logistic regressions as tasks, for suites that go through all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from duckdp.compiler.bin_counts import BinCounts
from duckdp.compiler.grouping import read_keys
from duckdp.compiler.logistic_steps import LogisticSteps
from duckdp.compiler.pair_moments import (
    PairMoments,
    argument_span,
    is_binary,
    plan_count_moments,
    plan_pair_moments,
    read_number,
)
from duckdp.compiler.pair_statistics import Pairs, all_pairs, one_pair, target_pairs
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.query import Query
from duckdp.compiler.scope import read_predicate
from duckdp.core.types import NANO, Neighbours
from duckdp.functions.bin_edges import choose_bins, read_axis

Kind = Literal["one", "all", "target"]


def pairs_of(table: Any, texts: Sequence[str], kind: Kind) -> Pairs:
    binary = [is_binary(read_number(text, table, "x")) for text in texts]
    return {"one": lambda _: one_pair(), "all": all_pairs, "target": target_pairs}[kind](binary)


def pair_moments(
    table: Any,
    texts: Sequence[str],
    where: str | None = None,
    keys: str | None = None,
    *,
    pairs: Kind | None = None,
    **terms: Any,
) -> PairMoments:
    given = {"epsilon_nano": NANO, "delta_atto": 0, "neighbours": Neighbours.ADD_REMOVE, **terms}
    return plan_pair_moments(
        table,
        tuple(read_number(text, table, "x") for text in texts),
        pairs_of(table, texts, pairs or ("one" if len(texts) == 2 else "all")).wanted,
        None if where is None else read_predicate(parse_scalar(where), table, where),
        () if keys is None else read_keys(keys, table),
        **given,
    )


def count_moments(
    table: Any, most: int, where: str | None = None, keys: str | None = None, **terms: Any
) -> PairMoments:
    given = {"epsilon_nano": NANO, "delta_atto": 0, "neighbours": Neighbours.ADD_REMOVE, **terms}
    return plan_count_moments(
        table,
        most,
        None if where is None else read_predicate(parse_scalar(where), table, where),
        () if keys is None else read_keys(keys, table),
        **given,
    )


def bin_counts(
    table: Any,
    text: str,
    where: str | None = None,
    keys: str | None = None,
    *,
    bins: int = 8,
    sizes: tuple[int, ...] = (1,),
    **terms: Any,
) -> BinCounts:
    given = {"epsilon_nano": NANO, "delta_atto": 0, "neighbours": Neighbours.ADD_REMOVE, **terms}
    axis = read_axis(text, table)
    asked = Query(
        table=table,
        where=None if where is None else read_predicate(parse_scalar(where), table, where),
        keys=() if keys is None else read_keys(keys, table),
        outputs=(),
    )
    return BinCounts(
        asked=asked, value=axis.value, bins=choose_bins(axis, bins, rows=None, noise=0.0), sizes=sizes, **given
    )


def logistic(
    table: Any, target: str, features: Sequence[str], where: str | None = None, *, ridge: float = 0.001, **terms: Any
) -> LogisticSteps:
    given = {"epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE, **terms}
    read = tuple(read_number(text, table, "x") for text in features)
    condition = None if where is None else read_predicate(parse_scalar(where), table, where)
    return LogisticSteps(
        asked=Query(table=table, where=condition, keys=(), outputs=()),
        features=read,
        spans=tuple(map(argument_span, read)),
        target=read_number(target, table, "y"),
        ridge=ridge,
        **given,
    )
