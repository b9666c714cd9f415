"""Releases by smooth sensitivity as tasks, for every suite that goes through all tasks."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from duckdp.compiler.edges import plan_spanning_tree
from duckdp.compiler.grouping import read_keys
from duckdp.compiler.smooth_quantiles import SmoothQuantilesTask, plan_smooth_quantiles
from duckdp.core.types import NANO, Neighbours


def smooth_quantiles(
    table: Any,
    name: str = "cost",
    share: Fraction = Fraction(1, 2),
    keys: str | None = None,
    where: Any = None,
    **terms: Any,
) -> SmoothQuantilesTask:
    given = {"epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE, **terms}
    return plan_smooth_quantiles(table, name, share, where, () if keys is None else read_keys(keys, table), **given)


def spanning_tree(table: Any, name: str = "cost", ends: tuple[str, str] = ("sex", "sex"), **terms: Any) -> Any:
    given = {"epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE, "where": None, **terms}
    start, end = (read_keys(key, table)[0] for key in ends)
    return plan_spanning_tree(table, (start, end), name, **given)
