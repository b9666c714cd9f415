"""Regressions: coefficients of a column on others, in each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Table
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.pair_moments import MOST_NUMBERS, PairMoments, is_binary, plan_pair_moments, read_number
from duckdp.compiler.pair_statistics import Pairs, least_squares, target_pairs
from duckdp.core.types import parse_delta, parse_epsilon
from duckdp.errors import ParameterError
from duckdp.functions.kinds import Delta, Epsilon, Fresh, Keys, Number, Predicate, Quantities, Quantity, TableName
from duckdp.functions.moment_answers import Found, explain_moments, found_numbers, planned_moments
from duckdp.functions.planned import Planned, read_where
from duckdp.functions.public_groups import read_public_keys
from duckdp.functions.spec import Explained, argument, dp_function, option

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

Floats = NDArray[np.float64]
MOST_FEATURES = 29  # with the target 30 columns: 495 moments
MOST_RIDGE = 1e6  # of a feature's squared half range
INTERCEPT = "intercept"
_FLOOR = 4.0  # of the noise of a spread, below which it is not told from noise: measured
_EVEN = 1 / 3  # variance of v, spread evenly over [-1, 1]: what predictions take
FLOORED = (
    "where features hardly differ beyond the noise, coefficients are shrunk; the interval says how little is known"
)


@dp_function(
    "dp_linear_regression",
    costs="epsilon, delta",
    example="'care', 'medical_dollars', ['age', 'age * age'], epsilon := 1",
)
@dataclass(frozen=True, kw_only=True)
class LinearRegression(Explained):
    """Least squares of a column on others: a coefficient for each and the intercept, with intervals, in each group."""

    table: TableName = argument()
    target: Quantity = argument()
    features: Quantities = argument()
    epsilon: Epsilon | None = option(None)
    delta: Delta = option(0, about="above 0 Gaussian noise is taken where it is less")
    ridge: Number = option(0.0, about="adds so much to the variance of each feature, over the square of half its range")
    groups: Keys | None = option(None)
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A row for each term, the intercept first."""
        task, pairs = self._task(desk)
        floor = _FLOOR * float(np.mean(task.way.deviations)) * len(self.features) ** 0.5

        def statistic(moments: Floats) -> Floats:
            return _in_units(task, least_squares(pairs.matrix(moments), self.ridge))

        def value(moments: Floats) -> Floats:
            return _in_units(task, least_squares(pairs.matrix(moments), self.ridge, floor))

        def found(moments: Floats, draws: Floats) -> list[Found]:
            return [found_numbers(moments, draws, statistic, lower=-np.inf, upper=np.inf, value=value)]

        shown = [("term", [INTERCEPT, *self.features])]
        penalty = f", ridge := {self.ridge:g}" if self.ridge else ""
        text = f"dp_linear_regression({self.table}, {self.target}, {list(self.features)!r}{penalty}"
        return planned_moments(desk, self, task, text, shown, [("value", "DOUBLE")], found, [FLOORED])

    def explain(self, desk: Desk) -> Sequence[str]:
        """What is released, its cost, and the error to be expected."""
        task, _ = self._task(desk)
        rows = task.table.expected_rows
        widths: dict[str, float | None] = {}
        for feature, argument_, span in zip(self.features, task.rows.arguments, task.rows.spans, strict=False):
            target = task.rows.spans[-1]
            spread = (1.0 if is_binary(argument_) else _EVEN) + self.ridge
            unit = (target.upper - target.lower) / (span.upper - span.lower)
            noise = 1.96 * float(task.way.deviations[-1]) * task.rows.count
            widths[feature] = None if rows is None else noise / (spread * rows) * unit
        return explain_moments(desk, task, widths, [FLOORED])

    def _task(self, desk: Desk) -> tuple[PairMoments, Pairs]:
        table = desk.table(self.table)
        arguments = self._read(table)
        pairs = target_pairs([is_binary(a) for a in arguments])
        task = plan_pair_moments(
            table,
            arguments,
            pairs.wanted,
            read_where(self.predicate, table),
            read_public_keys(self.groups, table, MOST_NUMBERS),
            epsilon_nano=parse_epsilon(self.epsilon),
            delta_atto=parse_delta(self.delta),
            neighbours=desk.neighbours,
        )
        return task, pairs

    def _read(self, table: Table) -> tuple[Expr, ...]:
        """The features, and the target last."""
        if not 1 <= len(self.features) <= MOST_FEATURES:
            raise ParameterError("P107", "features", len(self.features), f"must be 1 to {MOST_FEATURES}.")
        if not 0 <= self.ridge <= MOST_RIDGE:
            raise ParameterError("P107", "ridge", self.ridge, f"must lie between 0 and {MOST_RIDGE:g}.")
        found = [read_number(text, table, "a column of a regression") for text in (*self.features, self.target)]
        if len(set(map(show, found))) != len(found):
            rule = "must differ from each other and from the target."
            raise ParameterError("P107", "features", list(self.features), rule)
        return tuple(found)


def _in_units(task: PairMoments, coefficients: Floats) -> Floats:
    """Coefficients of v in [-1, 1] as those of the columns, in the target's units: float[n, d]."""
    half = np.array([(span.upper - span.lower) / 2 for span in task.rows.spans])
    middle = np.array([span.lower / 2 + span.upper / 2 for span in task.rows.spans])
    slopes = coefficients[:, 1:] * (half[-1] / half[:-1])
    intercept = middle[-1] + half[-1] * coefficients[:, 0] - slopes @ middle[:-1]
    return np.column_stack([intercept, slopes])
