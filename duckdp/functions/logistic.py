"""Logistic regression: which features make a yes likelier, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckdp.catalog.table import describe_unit
from duckdp.compiler.describe import pretty
from duckdp.compiler.expression import show
from duckdp.compiler.facts import facts
from duckdp.compiler.logistic_steps import SHARES, LogisticSteps
from duckdp.compiler.notes import bounding_note, drops_rows
from duckdp.compiler.pair_moments import argument_span, read_number
from duckdp.compiler.query import Query
from duckdp.core.types import parse_epsilon
from duckdp.errors import ParameterError
from duckdp.functions.kinds import Epsilon, Fresh, Number, Predicate, Quantities, Quantity, TableName
from duckdp.functions.moment_answers import Found, estimates
from duckdp.functions.planned import Planned, predicate_text, read_where, with_errors
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.result import Result, ResultColumn, note_name

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

MOST_FEATURES = 20  # 252 sums in each stage
_LEAST, _MOST = 1e-6, 1e3  # of the penalty: without one, features that tell all have no finite coefficients
_EVEN = 1 / 12  # curvature of a feature that spreads evenly, where yes is as likely as no: what predictions take
INTERCEPT = "intercept"
SHRUNK = "coefficients are those of a fit with the stated ridge, which the interval is for"


@dp_function(
    "dp_logistic_regression",
    costs="epsilon",
    example="'care', 'medical_dollars > 100', ['age', 'age * age'], epsilon := 2",
)
@dataclass(frozen=True, kw_only=True)
class LogisticRegression(Explained):
    """Logistic regression of a condition on columns: a coefficient for each and the intercept, with intervals."""

    table: TableName = argument()
    target: Quantity = argument(about="a condition of rows, or a column that is 0 or 1")
    features: Quantities = argument()
    epsilon: Epsilon | None = option(None)
    ridge: Number = option(0.001, about="penalty of each row on the coefficients' squares, over half a feature's range")
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A row for each term, the intercept first."""
        task = self._task(desk)
        caveat = bounding_note(task.table) if drops_rows(task.table) else None
        text = f"dp_logistic_regression({self.table}, {self.target}, {list(self.features)!r}, ridge := {self.ridge:g}"

        def run(nonce: str) -> Result:
            statement = f"{text}{predicate_text(self.predicate)})"
            done = desk.perform(task, table=task.table, statement=statement, fresh=self.fresh, nonce=nonce)
            value, error, low, high = task.read(done.payload)
            found = estimates(Found(value=value, error=error, low=low, high=high))
            terms = ResultColumn(name="term", type="VARCHAR", values=[INTERCEPT, *self.features])
            values = ResultColumn(name="value", type="DOUBLE", values=[e.value for e in found], estimates=found)
            said = [] if caveat is None else [caveat]
            return desk.dress([terms, values], task.loss, done, notes=[*said, SHRUNK], caveat=caveat)

        columns = [("term", "VARCHAR"), *with_errors([("value", "DOUBLE")])]
        if caveat is not None:
            columns.append((note_name(["term", "value"]), "VARCHAR"))
        return Planned(columns=columns, run=run, intervals=True, rows=len(self.features) + 1)

    def explain(self, desk: Desk) -> Sequence[str]:
        """The stages, the cost, and the error to be expected."""
        task = self._task(desk)
        last, rows = len(SHARES) - 1, task.table.expected_rows
        where = "" if task.asked.where is None else f" where {pretty(task.asked.where)}"
        shares = ", ".join(f"{float(share * task.loss.epsilon):.4g}" for share in SHARES)
        lines = [
            f"{len(SHARES)} steps of Newton's method, each from {task.size} noisy sums, cube noise, epsilon {shares}",
            *(f"  {line}" for line in describe_unit(task.table, task.neighbours.value)),
            f"  reads: {task.table.name}{where}",
            f"  target: {show(task.target)}",
            *(
                f"  of: {show(f)} in [{span.lower:g}, {span.upper:g}]"
                for f, span in zip(task.features, task.spans, strict=True)
            ),
            f"  noise of the last sums: {task.deviation(last):.4g} rows",
            f"cost: {task.loss}",
            "expected error (95%):",
        ]
        for text, span in zip(self.features, task.spans, strict=True):
            unit = 2 / (span.upper - span.lower)
            width = None if rows is None else 1.96 * task.deviation(last) / (_EVEN + self.ridge) / rows * unit
            lines.append(f"  {text}: {'needs expected_rows' if width is None else f'± {width:g}'}")
        caveat = [bounding_note(task.table)] if drops_rows(task.table) else []
        even = "the error is predicted for features that spread evenly over their bounds and tell little"
        return [*lines, desk.remaining_text(task.loss), *(f"note: {note}" for note in (*caveat, SHRUNK, even))]

    def _task(self, desk: Desk) -> LogisticSteps:
        table = desk.table(self.table)
        if not 1 <= len(self.features) <= MOST_FEATURES:
            raise ParameterError("P107", "features", len(self.features), f"must be 1 to {MOST_FEATURES}.")
        if not _LEAST <= self.ridge <= _MOST:
            raise ParameterError("P107", "ridge", self.ridge, f"must lie between {_LEAST:g} and {_MOST:g}.")
        features = tuple(read_number(text, table, "a feature") for text in self.features)
        if len(set(map(show, features))) != len(features):
            raise ParameterError("P107", "features", list(self.features), "must differ: one of them stands twice.")
        target = read_number(self.target, table, "the target")
        span = facts(target).interval
        if not facts(target).integral or span.lower < 0 or span.upper > 1:
            rule = "must be a condition, or a whole number from 0 to 1. Write one, for example x > 10."
            raise ParameterError("P107", "target", self.target, rule)
        task = LogisticSteps(
            asked=Query(table=table, where=read_where(self.predicate, table), keys=(), outputs=()),
            features=features,
            spans=tuple(map(argument_span, features)),
            target=target,
            ridge=float(self.ridge),
            epsilon_nano=parse_epsilon(self.epsilon),
            neighbours=desk.neighbours,
        )
        task.rate(0)  # what leaves a stage nothing is refused now
        return task
