"""A quantile from the multiples of a step as a task: counts between them, and one choice in each group."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from duckdp.catalog.table import Table, dump_table
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.order_rows import OrderRows, bounded_column
from duckdp.compiler.order_task import OrderTask
from duckdp.compiler.plan import digest_domain
from duckdp.compiler.printing import number
from duckdp.compiler.quantile_rows import read_quantiles
from duckdp.compiler.query import Key, group_count
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import ParameterError
from duckdp.mechanisms.candidate_quantiles import CandidateQuantile
from duckdp.result import Estimate

MOST_CANDIDATES = 20_000  # of one group: each has a draw of its own
MOST_OF_ALL = 200_000  # of all groups together: seconds
_AT = 1e-9  # of a step: nearer a value is taken to be the multiple itself, as decimals are no doubles


@dataclass(frozen=True, kw_only=True)
class StepRows(OrderRows):
    """Values by candidates: 2 c + 1 is at the c-th one, 2 c just below it, ``steps`` above all (order_rows.py).

    Attributes:
        first: the least candidate.
        step: how far they are apart.
    """

    first: Fraction
    step: Fraction

    def cell(self, value: str) -> str:
        """SQL of the place of a value that is printed as SQL; NULL of NULL. Total: NaN is above all."""
        place = f"(({value} - {number(float(self.first))}) / {number(float(self.step))})"
        near = f"system.main.floor({place} + 0.5e0)"
        at = f"system.main.abs({place} - {near}) <= {number(_AT)} THEN 2 * CAST({near} AS BIGINT) + 1"
        ends = f"WHEN {place} >= {number((self.steps - 1) / 2)} THEN {self.steps} WHEN {place} < -0.5e0 THEN 0"
        between = f"2 * CAST(system.main.floor({place}) AS BIGINT) + 2"
        return f"CAST((CASE WHEN ({value}) IS NULL THEN NULL {ends} WHEN {at} ELSE {between} END) AS BIGINT)"


@dataclass(frozen=True, kw_only=True)
class StepQuantileTask(OrderTask, OneRead):
    """A planned quantile from the multiples of a step (core/task.py, mechanisms/candidate_quantiles.py).

    Privacy:      epsilon, pure: in one group epsilon / G, of G groups that a unit may have rows in; under REPLACE half
                  of that, as one unit goes and another comes, each in at most G groups.

    Attributes:
        rows: what is read.
        quantile: p in (0, 1).
    """

    rows: StepRows
    quantile: Fraction

    @cached_property
    def mechanism_of_a_group(self) -> CandidateQuantile:
        """What chooses in one group."""
        parts = self.rows.shared * (2 if self.neighbours is Neighbours.REPLACE else 1)
        epsilon = Fraction(self.epsilon_nano, NANO * parts)
        size = self.rows.steps // 2
        return CandidateQuantile(quantile=self.quantile, candidates=size, epsilon=epsilon, unit=self.rows.unit)

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        rows = self.rows
        keys = [[show(k.expr), digest_domain(k.domain), repr(k.other)] for k in rows.keys]
        parts = [dump_table(rows.table), rows.column.name, show(rows.where), keys, str(rows.step)]
        return json.dumps(["step quantile", *parts, str(self.quantile), self.epsilon_nano, self.neighbours.value])

    @property
    def mechanism(self) -> str:
        """The mechanism of each choice, for the ledger."""
        return "permute-and-flip"

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        return {
            **self.read_of,
            "quantile": str(self.quantile),
            "step": str(self.rows.step),
            "candidates": self.mechanism_of_a_group.candidates,
        }

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        groups = f" in each of {len(self.rows.groups)} groups" if self.rows.keys else ""
        found = self.mechanism_of_a_group
        return [
            f"one quantile of {self.column.name}{groups} from {found.candidates:,} candidates, by permute-and-flip",
            f"off by about {found.rows:.3g} rows of rank, or by what a step holds; by at most "
            f"{found.rank_bound():,.0f} more than the best candidate with 95%, whatever the data",
        ]

    def query(self, salt: int) -> PrivateQuery:
        """The private read: (group, place, rows) of places that are not empty; a place of NULL: no value."""
        return self.rows.leaves(1, self.rows.steps + 1, salt)

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """The candidate of each group. ``rows``: exact and private."""
        counts: list[dict[int, int]] = [{} for _ in self.rows.groups]
        for group, place, found in rows:
            if place is not None and 0 <= group < len(counts):
                counts[group][int(place)] = int(found)
        return json.dumps({"chosen": [self.mechanism_of_a_group.choose(own) for own in counts]})

    def read(self, payload: str) -> list[list[Estimate]]:
        """The quantile of each group, from the stored payload."""
        return [[Estimate(value=self.value(place))] for place in json.loads(payload)["chosen"]]

    def value(self, place: int) -> float:
        """A candidate in the column's units."""
        found = self.rows.first + place * self.rows.step
        return int(found) if self.column.integral else float(found)


def plan_step_quantile(
    table: Table,
    name: str,
    quantiles: Sequence[float],
    where: Expr | None,
    keys: tuple[Key, ...] = (),
    *,
    step: float,
    epsilon_nano: int,
    neighbours: Neighbours,
) -> StepQuantileTask:
    """Plan a quantile of a bounded numeric column from the multiples of a step.

    Raises:
        CatalogError: C102. QueryError: Q203, Q401. ParameterError: P107.
    """
    column, (asked, *others) = bounded_column(table, name), read_quantiles(quantiles)
    if others or not 0 < asked < 1:
        rule = "goes with one quantile, above 0 and below 1. Ask for one at a time."
        raise ParameterError("P107", "step", step, rule)
    width, lower, upper = (Fraction(str(x)) for x in (step, column.interval.lower, column.interval.upper))  # decimals
    if width <= 0 or (column.integral and width.denominator != 1):
        rule = "must be a whole number above 0, as the column's values are." if column.integral else "must be above 0."
        raise ParameterError("P107", "step", step, rule)
    first = math.ceil(lower / width)
    count, groups = math.floor(upper / width) - first + 1, group_count(keys)
    most = min(MOST_CANDIDATES, MOST_OF_ALL // max(1, groups))
    if not 1 < count <= most:
        found = "too many" if count > 1 else "too few"
        rule = f"has {found} multiples in the bounds of {column.name}: take one with 2 to {most:,}."
        raise ParameterError("P107", "step", step, rule)
    rows = StepRows(
        table=table, column=column, where=where, keys=keys, steps=2 * count, first=first * width, step=width
    )
    return StepQuantileTask(rows=rows, quantile=asked, epsilon_nano=epsilon_nano, neighbours=neighbours)
