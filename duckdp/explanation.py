"""What a statement would do: explanations, and results that come from a summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from duckdp.compiler.query import Query
from duckdp.errors import printable
from duckdp.result import Estimate, Result, ResultColumn
from duckdp.routing import Route


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a statement would do and cost; no data was touched.

    Attributes:
        plan: the plan, one step a line.
        cost: for example "epsilon=0.5".
        errors: expected 95% half-width per output; None where it depends on the number of rows.
        remaining: what is left now.
    """

    plan: str
    cost: str
    errors: Mapping[str, float | None]
    formulas: Mapping[str, str]
    remaining: str

    def __str__(self) -> str:
        expected = [
            f"  {name}: ± {width:.6g}" if width is not None else f"  {name}: {self.formulas[name]}"
            for name, width in self.errors.items()
        ]
        text = "\n".join([self.plan, f"cost: {self.cost}", "expected error (95%):", *expected, self.remaining])
        return printable(text)


def explain_route(query: Query, route: Route, remaining: str) -> Explanation:
    """A statement that a summary answers."""
    widths = {
        o.name: (a.high - a.low) / 2
        for o, a in zip(query.outputs, route.answers, strict=True)
        if a.low is not None and a.high is not None
    }
    plan = "\n".join([f'answered from summary "{route.summary}", without reading the table', *route.why])
    return Explanation(plan=plan, cost="nothing", errors=widths, formulas={}, remaining=remaining)


def routed_result(query: Query, route: Route) -> Result:
    """The answers of a summary as the statement's result."""
    columns = []
    for output, found in zip(query.outputs, route.answers, strict=True):
        estimate = Estimate(
            value=found.value, standard_error=found.standard_error, low=found.low, high=found.high,
            note=f"the interval holds the approximation error, {found.approximation_error:.4g}",
        )  # fmt: skip
        columns.append(ResultColumn(name=output.name, type="DOUBLE", values=[found.value], estimates=[estimate]))
    notes = [f'answered from summary "{route.summary}", without reading the table']
    if query.table.unit_key is not None:
        notes.append(f"of a {query.table.unit_key} with more than {query.table.max_rows} rows all count, each the less")
    return Result(columns=columns, cost="nothing", source=f'summary "{route.summary}"', notes=notes)
