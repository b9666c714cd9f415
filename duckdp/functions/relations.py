"""How columns go together: covariances and correlations, in each group."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Table
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.pair_moments import MOST_NUMBERS, PairMoments, is_binary, plan_pair_moments, read_number
from duckdp.compiler.pair_statistics import Pairs, all_pairs, correlations, covariances, one_pair
from duckdp.core.types import parse_delta, parse_epsilon
from duckdp.errors import ParameterError
from duckdp.functions.kinds import Delta, Epsilon, Fresh, Keys, Predicate, Quantities, Quantity, TableName
from duckdp.functions.moment_answers import Found, explain_moments, found_numbers, planned_moments
from duckdp.functions.planned import Planned, read_where
from duckdp.functions.public_groups import read_public_keys
from duckdp.functions.spec import Explained, argument, dp_function, option

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

Floats = NDArray[np.float64]
MOST_COLUMNS = 30  # of one matrix: 496 moments
_EVEN = 1 / 3  # variance of v, spread evenly over [-1, 1]: what predictions take


class _Relation(Explained):
    """One covariance, or correlation, of two columns; or all of several."""

    table: str
    epsilon: object
    delta: object
    groups: str | Sequence[str] | None
    predicate: str | None
    fresh: bool

    @property
    @abstractmethod
    def _texts(self) -> Sequence[str]:
        """The columns as they were given."""

    @abstractmethod
    def _pairs(self, arguments: Sequence[Expr]) -> Pairs:
        """Which moments it follows from."""

    def _task(self, desk: Desk) -> tuple[PairMoments, Pairs]:
        table = desk.table(self.table)
        arguments = self._read(table)
        pairs = self._pairs(arguments)
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
        return tuple(read_number(text, table, "a column of a covariance or correlation") for text in self._texts)


def _half_widths(task: PairMoments) -> Floats:
    return np.array([(span.upper - span.lower) / 2 for span in task.rows.spans])


def _covariance_range(widths: Floats) -> Floats:
    """Largest size of sample covariances, float[d, d]: of two rows, each half at either end."""
    return np.asarray(2 * np.outer(widths, widths))


def _noise_of_product(task: PairMoments) -> float:
    """Deviation of a sum of products, in rows."""
    return float(task.way.deviations[-1])


class _Pair(_Relation):
    x: str
    y: str

    @property
    def _texts(self) -> Sequence[str]:
        return (self.x, self.y)


@dp_function(
    "dp_covariance",
    forms=("table", "value"),
    costs="epsilon, delta",
    example="'care', 'age', 'medical_dollars', epsilon := 0.5",
)
@dataclass(frozen=True, kw_only=True)
class Covariance(_Pair):
    """The sample covariance of two columns over rows that have both, in each group."""

    table: TableName = argument()
    x: Quantity = argument()
    y: Quantity = argument()
    epsilon: Epsilon | None = option(None)
    delta: Delta = option(0, about="above 0 Gaussian noise is taken where it is less")
    groups: Keys | None = option(None)
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A number for each group, with its interval."""
        task, pairs = self._task(desk)
        widths = _half_widths(task)
        most = float(_covariance_range(widths)[0, 1])

        def statistic(moments: Floats) -> Floats:
            return np.asarray(covariances(pairs.matrix(moments))[:, 0, 1:] * widths[0] * widths[1])

        def found(moments: Floats, draws: Floats) -> list[Found]:
            return [found_numbers(moments, draws, statistic, lower=-most, upper=most)]

        text = f"dp_covariance({self.table}, {self.x}, {self.y}"
        return planned_moments(desk, self, task, text, [], [("value", "DOUBLE")], found)

    def explain(self, desk: Desk) -> Sequence[str]:
        """What is released, its cost, and the error to be expected."""
        task, _ = self._task(desk)
        rows = task.table.expected_rows
        widths = _half_widths(task)
        width = (
            None if rows is None else 1.96 * _noise_of_product(task) * widths[0] * widths[1] * task.rows.count / rows
        )
        return explain_moments(desk, task, {"value": width})

    def _pairs(self, arguments: Sequence[Expr]) -> Pairs:  # noqa: ARG002 - their squares are not asked for
        return one_pair()


@dp_function(
    "dp_correlation",
    forms=("table", "value"),
    costs="epsilon, delta",
    example="'care', 'age', 'medical_dollars', epsilon := 0.5",
)
@dataclass(frozen=True, kw_only=True)
class Correlation(_Pair):
    """The correlation of two columns over rows that have both, in each group."""

    table: TableName = argument()
    x: Quantity = argument()
    y: Quantity = argument()
    epsilon: Epsilon | None = option(None)
    delta: Delta = option(0, about="above 0 Gaussian noise is taken where it is less")
    groups: Keys | None = option(None)
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A number for each group, with its interval."""
        task, pairs = self._task(desk)

        def statistic(moments: Floats) -> Floats:
            return np.asarray(correlations(pairs.matrix(moments))[:, 0, 1:])

        def found(moments: Floats, draws: Floats) -> list[Found]:
            return [found_numbers(moments, draws, statistic, lower=-1.0, upper=1.0)]

        text = f"dp_correlation({self.table}, {self.x}, {self.y}"
        return planned_moments(desk, self, task, text, [], [("value", "DOUBLE")], found)

    def explain(self, desk: Desk) -> Sequence[str]:
        """What is released, its cost, and the error to be expected."""
        task, _ = self._task(desk)
        return explain_moments(desk, task, {"value": _predicted_correlation(task)})

    def _pairs(self, arguments: Sequence[Expr]) -> Pairs:
        return all_pairs([is_binary(a) for a in arguments])


@dp_function(
    "dp_correlations", costs="epsilon, delta", example="'care', ['age', 'medical_dollars', 'age * age'], epsilon := 1"
)
@dataclass(frozen=True, kw_only=True)
class Correlations(_Relation):
    """All correlations and covariances of several columns at once, over rows that have all of them, in each group."""

    table: TableName = argument()
    columns: Quantities = argument()
    epsilon: Epsilon | None = option(None)
    delta: Delta = option(0, about="above 0 Gaussian noise is taken where it is less")
    groups: Keys | None = option(None)
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A row for each pair, the first column no later than the second; of a column with itself its variance."""
        task, pairs = self._task(desk)
        widths, count = _half_widths(task), len(self.columns)
        upper = np.triu_indices(count)
        most, scale = _covariance_range(widths)[upper], np.outer(widths, widths)[upper]
        least = np.where(upper[0] == upper[1], 0.0, -most)

        def as_correlations(moments: Floats) -> Floats:
            return np.asarray(correlations(pairs.matrix(moments))[:, *upper])

        def as_covariances(moments: Floats) -> Floats:
            return np.asarray(covariances(pairs.matrix(moments))[:, *upper] * scale)

        def found(moments: Floats, draws: Floats) -> list[Found]:
            return [
                found_numbers(moments, draws, as_correlations, lower=-1.0, upper=1.0),
                found_numbers(moments, draws, as_covariances, lower=least, upper=most),
            ]

        shown = [("x", [self.columns[int(i)] for i in upper[0]]), ("y", [self.columns[int(i)] for i in upper[1]])]
        text = f"dp_correlations({self.table}, {list(self.columns)!r}"
        return planned_moments(
            desk, self, task, text, shown, [("correlation", "DOUBLE"), ("covariance", "DOUBLE")], found
        )

    def explain(self, desk: Desk) -> Sequence[str]:
        """What is released, its cost, and the error to be expected."""
        task, _ = self._task(desk)
        return explain_moments(desk, task, {"correlation": _predicted_correlation(task)})

    @property
    def _texts(self) -> Sequence[str]:
        return self.columns

    def _pairs(self, arguments: Sequence[Expr]) -> Pairs:
        return all_pairs([is_binary(a) for a in arguments])

    def _read(self, table: Table) -> tuple[Expr, ...]:
        if not 2 <= len(self.columns) <= MOST_COLUMNS:
            raise ParameterError("P107", "columns", len(self.columns), f"must be 2 to {MOST_COLUMNS}.")
        found = super()._read(table)
        if len(set(map(show, found))) != len(found):
            raise ParameterError("P107", "columns", list(self.columns), "must differ: one of them stands twice.")
        return found


def _predicted_correlation(task: PairMoments) -> float | None:
    """Of columns spread evenly over their bounds, without relation: from public figures."""
    rows = task.table.expected_rows
    if rows is None:
        return None
    spread = math.prod(1.0 if is_binary(a) else _EVEN for a in task.rows.arguments[:2])
    return min(1.0, 1.96 * _noise_of_product(task) * task.rows.count / rows / math.sqrt(spread))
