"""Moments of pairs of columns as tasks, for every suite that goes through all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from duckdp.compiler.grouping import read_keys
from duckdp.compiler.pair_moments import PairMoments, is_binary, plan_pair_moments, read_number
from duckdp.compiler.pair_statistics import Pairs, all_pairs, one_pair, target_pairs
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.scope import read_predicate
from duckdp.core.types import NANO, Neighbours

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
