"""How much the number of rows varies from one privacy unit to another, in each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from duckdp.compiler.pair_moments import MOST_NUMBERS, PairMoments, plan_count_moments
from duckdp.compiler.pair_statistics import all_pairs, covariances
from duckdp.core.types import parse_delta, parse_epsilon
from duckdp.errors import ParameterError
from duckdp.functions.kinds import Delta, Epsilon, Fresh, Keys, Predicate, Size, TableName
from duckdp.functions.moment_answers import Found, explain_moments, found_numbers, planned_moments
from duckdp.functions.planned import Planned, read_where
from duckdp.functions.public_groups import read_public_keys
from duckdp.functions.spec import Explained, argument, dp_function, option

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

Floats = NDArray[np.float64]
MOST_COUNT = 1_000_000  # rows of a unit that are told from more
_PAIRS = all_pairs([False])


@dp_function("dp_count_variance", costs="epsilon, delta", example="'care', epsilon := 0.5")
@dataclass(frozen=True, kw_only=True)
class CountVariance(Explained):
    """Mean and variance of how many rows a privacy unit has, over units that have any, in each group."""

    table: TableName = argument()
    epsilon: Epsilon | None = option(None)
    most: Size | None = option(None, about="a unit with more rows counts as one with so many; left out, max_rows")
    delta: Delta = option(0, about="above 0 Gaussian noise is taken where it is less")
    groups: Keys | None = option(None)
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A row for each group."""
        task = self._task(desk)
        most = task.rows.spans[0].upper

        def mean(moments: Floats) -> Floats:
            count = np.where(moments[:, :1] > 0, moments[:, :1], np.nan)
            return np.asarray(most / 2 * (1 + moments[:, 1:2] / count))

        def variance(moments: Floats) -> Floats:
            return np.asarray(covariances(_PAIRS.matrix(moments))[:, 0] * (most / 2) ** 2)

        def found(moments: Floats, draws: Floats) -> list[Found]:
            return [
                found_numbers(moments, draws, mean, lower=0.0, upper=most),
                found_numbers(moments, draws, variance, lower=0.0, upper=most**2 / 2),
            ]

        text = f"dp_count_variance({self.table}, most := {most:g}"
        note = f"rows of a {task.table.unit_key} count up to {most:g}"
        return planned_moments(desk, self, task, text, [], [("mean", "DOUBLE"), ("variance", "DOUBLE")], found, [note])

    def explain(self, desk: Desk) -> Sequence[str]:
        """What is released, its cost, and that its error follows from the number of units."""
        return explain_moments(desk, self._task(desk), {"mean": None, "variance": None})

    def _task(self, desk: Desk) -> PairMoments:
        table = desk.table(self.table)
        most = table.max_rows if self.most is None else self.most
        if most > MOST_COUNT:
            raise ParameterError("P107", "most", most, f"must be at most {MOST_COUNT:,}.")
        return plan_count_moments(
            table,
            most,
            read_where(self.predicate, table),
            read_public_keys(self.groups, table, MOST_NUMBERS),
            epsilon_nano=parse_epsilon(self.epsilon),
            delta_atto=parse_delta(self.delta),
            neighbours=desk.neighbours,
        )
