"""Quantiles as tasks, for every suite that goes through all tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duckdp.compiler.grouping import read_keys
from duckdp.compiler.quantile_levels import QuantilesTask, plan_quantiles
from duckdp.compiler.quantile_rows import plan_rows
from duckdp.compiler.quantile_steps import StepQuantileTask, plan_step_quantile
from duckdp.compiler.quantile_tree import TreeQuantilesTask, plan_tree
from duckdp.core.types import NANO, Neighbours


def quantiles(
    table: Any,
    name: str = "cost",
    asked: Iterable[float] = (0, 0.2, 0.5, 0.9, 1),
    keys: str | None = None,
    where: Any = None,
    **terms: Any,
) -> QuantilesTask:
    given = {"epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE, **terms}
    return plan_quantiles(table, name, list(asked), where, () if keys is None else read_keys(keys, table), **given)


def tree_quantiles(
    table: Any,
    name: str = "age",
    asked: Iterable[float] = (0, 0.2, 0.5, 1),
    keys: str | None = None,
    where: Any = None,
    **terms: Any,
) -> TreeQuantilesTask:
    given = {"epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE, **terms}
    rows, shares = plan_rows(table, name, list(asked), where, () if keys is None else read_keys(keys, table))
    return plan_tree(rows, shares, **given)


def step_quantile(
    table: Any,
    name: str = "cost",
    asked: Iterable[float] = (0.2,),
    keys: str | None = None,
    where: Any = None,
    step: float = 500,
    **terms: Any,
) -> StepQuantileTask:
    given = {"epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE, **terms}
    found = () if keys is None else read_keys(keys, table)
    return plan_step_quantile(table, name, list(asked), where, found, step=step, **given)
