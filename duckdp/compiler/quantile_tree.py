"""Quantiles from one tree of noisy counts as a task: one read, whose counts of parts of the rows add up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from duckdp.catalog.table import dump_table
from duckdp.compiler.expression import show
from duckdp.compiler.order_rows import OrderRows
from duckdp.compiler.order_task import OrderTask
from duckdp.compiler.value_grid import ValueGrid
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import ParameterError
from duckdp.mechanisms.tree_quantiles import QuantileTree
from duckdp.result import Estimate

MOST_LEAVES = 2**16  # of one group
MOST_COUNTED = 2**18  # nodes in all groups together: what is read, and what stored questions had
LEAST_LEAVES = 16  # of one group


@dataclass(frozen=True, kw_only=True)
class TreeQuantilesTask(OrderTask, OneRead):
    """Planned quantiles by a tree of counts (core/task.py, mechanisms/tree_quantiles.py).

    Attributes:
        quantiles: ascending, each once, in [0, 1].
        width: cells of a leaf.
    """

    quantiles: tuple[Fraction, ...]
    width: int

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        rows = self.rows
        parts = [dump_table(rows.table), rows.column.name, show(rows.where), [show(k.expr) for k in rows.keys]]
        asked = [[str(q) for q in self.quantiles], self.epsilon_nano, self.neighbours.value, rows.steps, self.width]
        return json.dumps(["tree quantiles", *parts, *asked])

    @property
    def mechanism(self) -> str:
        """The noise of the counts, for the ledger."""
        return "laplace"

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        branches, depth = self.tree.shape
        return {
            **self.read_of,
            "quantiles": [str(q) for q in self.quantiles],
            "branches": branches,
            "depth": depth,
            "scale": self.tree.scale,
            "neighbours": self.neighbours.value,
        }

    @cached_property
    def grid(self) -> ValueGrid:
        """The cells that values are told by, each of which counts alike."""
        return ValueGrid(column=self.rows.column, steps=self.rows.steps, round=False)

    @cached_property
    def tree(self) -> QuantileTree:
        """The mechanism of each group: a unit has at most ``unit`` rows in each of ``shared`` of them."""
        replaced = 2 if self.neighbours is Neighbours.REPLACE else 1
        l1 = self.rows.unit * self.rows.shared * replaced
        return QuantileTree(leaves=self.rows.steps // self.width + 1, epsilon=Fraction(self.epsilon_nano, NANO), l1=l1)

    @property
    def error(self) -> float:
        """About how far ranks are off, rows, on the average of all quantiles; from public figures."""
        table, size = self.table, self.tree.leaves
        rows = (table.expected_rows or table.row_cap) / len(self.rows.groups)
        within = 0.0 if self.width == 1 else rows / size / 4  # values within a leaf, as if they lay evenly in all
        return within + sum(self.tree.error(float(q)) for q in self.quantiles) / len(self.quantiles)

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        count, (branches, depth) = len(self.quantiles), self.tree.shape
        groups = f" in each of {len(self.rows.groups)} groups" if self.rows.keys else ""
        one = "one quantile" if count == 1 else f"{count} quantiles"
        return [
            f"{one} of {self.column.name}{groups} from a tree of counts, {depth} levels of {branches} branches, "
            f"noise of scale {self.tree.scale:.4g}",
            f"off by about {self.error:,.3g} rows of rank; intervals (95%) cost nothing more",
        ]

    def query(self, salt: int) -> PrivateQuery:
        """The private read: (group, leaf, rows) of leaves that are not empty; a leaf of NULL: no value."""
        return self.rows.leaves(self.width, self.tree.leaves, salt)

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Quantiles and their intervals, in leaves. ``rows``: exact and private."""
        size = self.tree.leaves
        counts: list[dict[int, int]] = [{} for _ in self.rows.groups]
        for group, leaf, found in rows:
            if leaf is not None and 0 <= group < len(counts) and 0 <= leaf < size:
                counts[group][int(leaf)] = int(found)
        shares = [float(q) for q in self.quantiles]
        released = [self.tree.release(own, shares) for own in counts]
        return json.dumps({"places": [places for places, _ in released], "ends": [ends for _, ends in released]})

    def read(self, payload: str) -> list[list[Estimate]]:
        """Quantiles in each group, with their intervals, from the stored payload."""
        raw = json.loads(payload)
        return [
            [self._estimate(place, low, high) for place, (low, high) in zip(places, ends, strict=True)]
            for places, ends in zip(raw["places"], raw["ends"], strict=True)
        ]

    def _estimate(self, place: float, low: int, high: int) -> Estimate:
        last = self.rows.steps
        cell = min(int(place) if self.width == 1 else place * self.width - 0.5, last)
        value = self.grid.value(int(cell)) if self.width == 1 else self.grid.between(max(cell, 0))
        lower = self.grid.end(min(low * self.width, last), -1)
        upper = self.grid.end(min((high + 1) * self.width - 1, last), 1)
        return Estimate(value=value, low=min(lower, value), high=max(upper, value))


def plan_tree(
    rows: OrderRows, quantiles: Sequence[Fraction], *, epsilon_nano: int, neighbours: Neighbours
) -> TreeQuantilesTask:
    """Plan quantiles from a tree of as many leaves as there are cells, or as may be counted in all groups.

    Raises:
        ParameterError: P103, epsilon; P107, too many groups.
    """
    groups, cells = len(rows.groups), rows.steps + 1
    leaves = min(cells, MOST_LEAVES)
    while True:
        task = TreeQuantilesTask(
            rows=rows,
            quantiles=tuple(quantiles),
            epsilon_nano=epsilon_nano,
            neighbours=neighbours,
            width=-(-cells // leaves),
        )
        if task.tree.nodes * groups <= MOST_COUNTED:
            task.tree.scale  # noqa: B018 - what has no noise is refused now
            return task
        if leaves <= LEAST_LEAVES:
            rule = f"are {groups:,}, too many for a tree in each. Take fewer, or method := 'exponential'."
            raise ParameterError("P107", "groups", groups, rule)
        leaves = max(LEAST_LEAVES, leaves // 4)
