"""Noisy counts, and the answers of private SELECTs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duckdp.compiler.clock import today
from duckdp.compiler.evaluate import describe_outputs
from duckdp.compiler.expression import Aggregate
from duckdp.compiler.known import is_known
from duckdp.compiler.notes import plan_caveat
from duckdp.compiler.outer.apart import Apart
from duckdp.compiler.plan import Plan, domain_size, is_small
from duckdp.compiler.pricing import Price, Terms, missed_note, price
from duckdp.compiler.query import Output, Query
from duckdp.errors import ParameterError
from duckdp.functions.explanation import Explanation, explain_price, explain_route, routed_result
from duckdp.functions.kinds import (
    Delta,
    Epsilon,
    Flag,
    Fresh,
    Mechanism,
    Predicate,
    Size,
    Statement,
    TableName,
    Tolerance,
    Values,
    Width,
    Widths,
)
from duckdp.functions.over_answers import Outer, Runs, plan_outer
from duckdp.functions.planned import Planned, predicate_text, read_where, with_errors
from duckdp.functions.routing import Route, find_route, require_paid
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.result import Result, note_name

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk


@dp_function(
    "dp_noisy_count",
    forms=("table", "value"),
    costs="epsilon",
    example="'care', epsilon := 0.1, predicate := 'age > 40'",
)
@dataclass(frozen=True, kw_only=True)
class NoisyCount(Explained):
    """A noisy number of rows, or of privacy units."""

    table: TableName = argument()
    epsilon: Epsilon | None = option(None)
    predicate: Predicate | None = option(None)
    unit: Flag = option(False, about="count privacy units instead of rows")
    error: Width | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """One number, with its error."""
        plan = self._price(desk).plan
        name = plan.query.table.name

        def run(nonce: str) -> Result:
            text = f"dp_noisy_count({name}{predicate_text(self.predicate)})"
            return desk.answer(plan, statement=text, fresh=self.fresh, nonce=nonce)

        columns = with_errors([("value", "BIGINT")], plan_caveat(plan))
        return Planned(columns=columns, run=run, intervals=True, rows=1)

    def explain(self, desk: Desk) -> Sequence[str]:
        """The plan, the cost and the expected error, as of a SELECT."""
        found = self._price(desk)
        return str(explain_price(found, desk.remaining_text(found.plan.loss), desk.told(found.plan))).splitlines()

    def _price(self, desk: Desk) -> Price:
        table = desk.table(self.table)
        units = self.unit and table.unit_key is not None  # without a key every row is a unit
        aggregate = Aggregate("count_units" if units else "count_rows", None, None)
        where = read_where(self.predicate, table)
        query = Query(table=table, where=where, keys=(), outputs=(Output(name="value", expr=aggregate),))
        return price(query, Terms(epsilon=self.epsilon, error=self.error), desk.neighbours)


@dp_function(
    "dp_query",
    method="sql",
    explanation="dp_explain",
    explain_method="explain",
    costs="epsilon, delta, or nothing",
    example="$$SELECT sex, avg(age) FROM care GROUP BY sex$$, epsilon := 0.5",
)
@dataclass(frozen=True, kw_only=True)
class Select(Explained):
    """The answer of a private SELECT, each released number with its error."""

    statement: Statement = argument(python="text")
    epsilon: Epsilon | None = option(None)
    delta: Delta = option(0, about="for Gaussian noise, and for keys without a declared domain")
    error: Widths | None = option(None)
    mechanism: Mechanism = option("auto", about='the noise; "auto" has the least error')
    fresh: Fresh = option(False, explained=False)
    intervals: Flag = option(True, only="sql", explained=False, about="whether the error columns come too")
    tolerance: Tolerance | None = option(None)
    min_units: Size | None = option(
        None, about="show groups of at least so many privacy units alone, at 95% confidence"
    )
    parameters: Values = option((), only="python")

    def plan(self, desk: Desk) -> Planned:
        """With a tolerance from a summary, where one is precise enough; else what is paid for."""
        found = self._found(desk)
        if isinstance(found, Outer):
            return self._in_parts(desk, found)
        if isinstance(found, Result):
            columns = [(n, t) for n, t, _ in found.typed(intervals=self.intervals)]
            return Planned(columns=columns, run=lambda _: found, intervals=self.intervals, rows=1)
        plan: Plan = found

        def run(nonce: str) -> Result:
            bars = self.intervals or self.error is not None
            found = desk.answer(plan, statement=self.statement, fresh=self.fresh, nonce=nonce, bars=bars)
            return self._compared(plan, found)

        rows = 1 if not plan.query.keys else domain_size(plan.query)
        return Planned(columns=self._columns(plan), run=run, intervals=self.intervals, rows=rows)

    def _in_parts(self, desk: Desk, outer: Outer) -> Planned:
        """A query over answers: they come as tables of their own, for a SELECT that runs where it was asked."""
        parts = outer.columns(intervals=self.intervals)

        def run(nonce: str) -> Result:
            released = outer.release(desk, self.statement, fresh=self.fresh, nonce=nonce)
            return outer.crossing(desk, released, intervals=self.intervals)

        return Planned(
            columns=[column for part in parts for column in part],
            run=run,
            parts=parts,
            after=lambda selects: outer.text(selects, intervals=self.intervals),
        )

    def answer(self, desk: Desk, front: Callable[[], Runs] | None = None) -> Result:
        """The same at once: a result brings its columns.

        Args:
            desk: whose.
            front: makes the analyst's own instance, where a query over answers is computed.

        Raises:
            QueryError: Q204, there is none.
        """
        found = self._found(desk)
        if isinstance(found, Result):
            return found
        if isinstance(found, Outer):
            assert front is not None
            return found.answer(desk, front(), self.statement, fresh=self.fresh)
        return self._compared(found, desk.answer(found, statement=self.statement, fresh=self.fresh))

    def explain(self, desk: Desk) -> Sequence[str]:
        """The explanation, line by line."""
        return str(self.explanation(desk)).splitlines()

    def explanation(self, desk: Desk) -> Explanation:
        """Plan, cost and expected error, and with a tolerance which way it goes and why."""
        query = desk.read_whole(self.statement, self.parameters)
        if isinstance(query, Apart):
            return self._outer(desk, query).explanation(desk)
        route = self._route(desk, query)
        if route is not None and route.summary is not None:
            return explain_route(query, route, desk.remaining_text())
        found = self._price(desk, query, route)
        why = [*(() if route is None else route.why), *desk.told(found.plan)]
        return explain_price(found, desk.remaining_text(found.plan.loss), why)

    def _found(self, desk: Desk) -> Result | Plan | Outer:
        """The answer of a summary, or what is paid for."""
        if self.tolerance is None:
            terms = (self.epsilon, self.delta, self.error, self.mechanism, self.min_units)
            return desk.recall(
                ("plan", today().isoformat(), self.statement, *terms, *self.parameters),
                lambda: self._planned(desk),
                lambda found: all(is_small(p.query) for p in ([found] if isinstance(found, Plan) else found.plans)),
            )
        query = desk.read_whole(self.statement, self.parameters)
        if isinstance(query, Apart):
            return self._outer(desk, query)
        route = self._route(desk, query)
        if route is not None and route.summary is not None:
            return routed_result(query, route)
        return self._price(desk, query, route).plan

    def _planned(self, desk: Desk) -> Plan | Outer:
        query = desk.read_whole(self.statement, self.parameters)
        return self._outer(desk, query) if isinstance(query, Apart) else self._price(desk, query, None).plan

    def _outer(self, desk: Desk, apart: Apart) -> Outer:
        if self.tolerance is not None:
            rule = "is for one SELECT of avg or sum over all rows. Leave it out, and give epsilon."
            raise ParameterError("P106", "tolerance", self.tolerance, rule)
        return plan_outer(apart, self._terms(), desk.neighbours)

    def _terms(self) -> Terms:
        terms = Terms(epsilon=self.epsilon, delta=self.delta, error=self.error, mechanism=self.mechanism)
        return replace(terms, min_units=self.min_units)

    def _compared(self, plan: Plan, found: Result) -> Result:
        """With a note where the error asked for was predicted and came out wider."""
        note = None if self.error is None else missed_note(plan.query, self.error, found.columns)
        return found if note is None else replace(found, notes=[*found.notes, note])

    def _route(self, desk: Desk, query: Query) -> Route | None:
        if self.tolerance is None:
            return None
        if self.min_units is not None:
            rule = "goes without tolerance: a summary does not tell how many units a group has. Leave one of them out."
            raise ParameterError("P107", "min_units", self.min_units, rule)
        return find_route(query, desk.usable_summaries(query.table), self.tolerance)

    def _price(self, desk: Desk, query: Query, route: Route | None) -> Price:
        terms = self._terms()
        require_paid(route, self.tolerance, terms.stated or is_known(query))
        return price(query, terms, desk.neighbours)

    def _columns(self, plan: Plan) -> list[tuple[str, str]]:
        shape = describe_outputs(plan)
        plain = [(n, t) for n, t, _ in shape]
        noisy = [(n, t) for n, t, released in shape if released]
        more = with_errors(noisy)[len(noisy) :] if self.intervals else []
        if self.intervals and plan_caveat(plan) is not None:
            more.append((note_name([n for n, _ in plain]), "VARCHAR"))
        return plain + more
