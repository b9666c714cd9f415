"""Smooth-query summaries, and answers from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from duckdp.catalog.table import check_name, describe_unit
from duckdp.compiler.notes import LEFT_OUT, summary_note
from duckdp.core.types import parse_delta, parse_epsilon, show_decimal
from duckdp.errors import DuckDPError, ParameterError
from duckdp.functions.kinds import (
    CHOICE,
    ColumnNames,
    Delta,
    Epsilon,
    Flag,
    Fresh,
    FunctionText,
    FunctionTexts,
    NewName,
    Number,
    StoredName,
    TableName,
    Value,
    Whole,
    Word,
)
from duckdp.functions.planned import Planned, with_note
from duckdp.functions.spec import REQUIRED, DpFunction, Explained, argument, dp_function, option
from duckdp.process.importing import importing
from duckdp.result import Result, plain_result

if TYPE_CHECKING:
    from duckdp.catalog.table import Table
    from duckdp.desk.desk import Desk
    from duckdp.smooth.answer import SmoothAnswer
    from duckdp.smooth.buy.counted import CountedTask
    from duckdp.smooth.buy.mixed_task import MixedTask
    from duckdp.smooth.buy.per_group import GroupedTask
    from duckdp.smooth.buy.range_task import RangedTask
    from duckdp.smooth.buy.summary_task import SummaryTask
    from duckdp.smooth.summary import SmoothSummary

    SummaryPlan = SummaryTask | CountedTask | GroupedTask | RangedTask | MixedTask

ANSWER = ("value", "standard_error", "approximation_error", "low", "high", "estimated")
TYPES = (*["DOUBLE"] * 5, "BOOLEAN")  # of the fields of an answer
Basis = Annotated[Literal["auto", "tensor", "total_degree", "hyperbolic_cross"], CHOICE]
Weights = Annotated[Literal["smooth", "uniform"], CHOICE]
Noise = Annotated[Literal["auto", "laplace", "cube", "gaussian", "kernels"], CHOICE]
Statistic = Annotated[Literal["mean", "sum"], CHOICE]
Method = Annotated[Literal["interpolation", "jackson", "best"], CHOICE]
Listed = tuple[list[tuple[Any, ...]], list[str]]  # rows, and notes about them
TOLERANCE = "the widest acceptable approximation error"


@dp_function(
    "dp_smooth_summary",
    explanation="dp_explain_summary",
    costs="epsilon, delta; every answer is free",
    example="'care', ['age', 'medical_dollars'], epsilon := 1, degree := 12, name := 'am'",
)
@dataclass(frozen=True, kw_only=True)
class BuySummary(Explained):
    """A summary, bought and stored: noisy Chebyshev moments that answer any number of smooth questions."""

    table: TableName = argument()
    columns: ColumnNames = argument(sql="x", about="columns with bounds or a domain")
    epsilon: Epsilon | None = option(None)
    delta: Delta = option(0, about="above 0 the noise may be Gaussian")
    smoothness: Whole | None = option(None, about="how often the functions to come can be differentiated")
    degree: Whole | None = option(None, about="of the polynomials in each column; chosen where it is left out")
    name: NewName | None = option(REQUIRED, explained=False)
    basis: Basis = option("auto", about='which products of the polynomials; "auto" predicts the least error')
    interactions: Whole | None = option(None, about="at most so many columns in one basis function")
    weights: Weights = option("smooth", about="whether low degrees get less noise, or all alike")
    noise: Noise = option("auto", about='the law of the noise; "auto" has the least error')
    per: Word | None = option(None, about="a column with a domain: one summary for each of its values")
    across: Flag = option(False, about="with per: of all rows too, both better than separate summaries")
    ranges: Flag = option(False, about="count rows by ranges too, for CASE WHEN x BETWEEN a AND b")
    fresh: Fresh = option(False, explained=False, about="pay again where the charge is final")

    def plan(self, desk: Desk) -> Planned:
        """One row that describes the summary."""
        with importing():
            from duckdp.smooth.payloads import open_stored

        task, called = self._task(desk), check_name(self.name)
        shape = [
            ("name", "VARCHAR"),
            ("columns", "VARCHAR"),
            ("degree", "BIGINT"),
            ("moments", "BIGINT"),
            ("noise", "VARCHAR"),
            ("epsilon", "VARCHAR"),
            ("standard_error", "DOUBLE"),
        ]

        def run(_: str) -> Result:
            text = f"dp_smooth_summary({task.table.name}, {', '.join(c.name for c in task.columns)}) as {called}"
            done = desk.perform(
                task,
                table=task.table,
                statement=text,
                kind="summary",
                name=called,
                fresh=self.fresh,
                before=self._before(desk, task),
            )
            summary = open_stored(done.payload)
            error = summary.noise.deviation / 2**summary.bits
            row = (
                called,
                ", ".join(c.name for c in summary.columns),
                summary.basis.degree,
                summary.basis.size,
                summary.family,
                show_decimal(summary.epsilon_nano, 9),
                error,
            )
            made = plain_result([n for n, _ in shape], [row], [t for _, t in shape])
            notes = ["standard_error is that of the noisiest sum", *_caveats(task.table)]
            return desk.dress(made.columns, task.loss, done, notes=notes, caveat=summary_note(task.table))

        return with_note(shape, run, noted=summary_note(task.table) is not None, rows=1)

    def explain(self, desk: Desk) -> Sequence[str]:
        """What it would hold, which noise and why."""
        task = self._task(desk)
        whom = describe_unit(task.table, desk.neighbours.value)
        notes = [f"note: {n}" for n in _caveats(task.table)]
        return [*whom, *task.describe(), f"cost: {task.loss}, once; every answer is free", *notes]

    def _before(self, desk: Desk, task: SummaryPlan) -> list[SummaryPlan]:
        """What the same words once meant: without kernels, and the full tensor where no basis is named."""
        found: dict[str, SummaryPlan] = {}
        if self.ranges or self.across:
            return []
        bases: list[Basis | None] = [None]
        if self.basis == "auto" and self.degree is None and self.smoothness is None:
            bases.append("tensor")
        for basis in bases:
            try:
                old = self._task(desk, basis, "sums" if self.noise == "auto" else self.noise)
            except DuckDPError:  # it could not be bought
                continue
            if old.canonical != task.canonical:
                found[old.canonical] = old
        return list(found.values())

    def _task(
        self, desk: Desk, basis: Basis | None = None, noise: Noise | Literal["sums"] | None = None
    ) -> SummaryPlan:
        with importing():
            from duckdp.smooth.buy.counted import plan_counted
            from duckdp.smooth.buy.mixed_task import plan_mixed
            from duckdp.smooth.buy.per_group import plan_grouped
            from duckdp.smooth.buy.range_task import plan_ranged
            from duckdp.smooth.buy.wishes import Wishes

        wishes = Wishes(
            smoothness=self.smoothness,
            degree=self.degree,
            shape=basis or self.basis,
            order=self.interactions,
            weights=self.weights,
            noise=noise or self.noise,
            path="sums" if desk.parts_only else "auto",  # else rows would come here to be added up
        )
        table, names = desk.table(self.table), list(self.columns)
        charge: dict[str, Any] = {
            "epsilon_nano": parse_epsilon(self.epsilon),
            "delta_atto": parse_delta(self.delta),
            "neighbours": desk.neighbours,
            "wishes": wishes,
        }
        if self.across:
            if self.per is None:
                raise ParameterError("P107", "across", True, "goes with per := 'column', the column of the categories.")
            if self.ranges:
                raise ParameterError("P107", "ranges", True, "does not go with per.")
            return plan_mixed(table, names, self.per, **charge)
        if self.ranges and self.per is not None:
            raise ParameterError("P107", "ranges", True, "does not go with per. Buy a summary with ranges of all rows.")
        if self.ranges:
            return plan_ranged(table, names, **charge)
        if self.per is not None:
            return plan_grouped(table, names, self.per, **charge)
        return plan_counted(table, names, **charge)


@dp_function(
    "dp_smooth_answer", forms=("table", "value"), fields=ANSWER, example="'am', 'exp(-power((age - 40) / 20, 2))'"
)
@dataclass(frozen=True, kw_only=True)
class Answer(DpFunction):
    """The answer of a smooth function, from a stored summary."""

    name: StoredName = argument()
    function: FunctionText = argument()
    statistic: Statistic = option("mean", about="over the rows that count")
    tolerance: Number | None = option(None, about=TOLERANCE)
    method: Method = option("interpolation", about="how coefficients are found")
    category: Value | None = option(None, about="which group, of a summary per group")

    def plan(self, desk: Desk) -> Planned:
        """One row: the answer, and what is known of its error."""
        with importing():
            from duckdp.smooth.answer import answer
            from duckdp.smooth.fit.coefficients import read_function

        summary = desk.summary(self.name, self.category)
        expr = read_function(self.function, summary.table, summary.columns)

        def ask() -> Listed:
            found = answer(summary, expr, statistic=self.statistic, tolerance=self.tolerance, method=self.method)
            return [_row(found)], [found.note] if found.note else []

        return _of_summary(summary, self.name, ANSWER, TYPES, ask, rows=1)


@dp_function("dp_smooth_answers", example="'am', ['age', 'age * medical_dollars']")
@dataclass(frozen=True, kw_only=True)
class Answers(DpFunction):
    """The answers of many smooth functions at once, one row each, from a stored summary."""

    name: StoredName = argument()
    functions: FunctionTexts = argument(about="functions of the summary's columns, at most 500 that jump or bend")
    statistic: Statistic = option("mean", about="over the rows that count")
    tolerance: Number | None = option(None, about=TOLERANCE)
    category: Value | None = option(None, about="which group, of a summary per group")
    simultaneous: Flag = option(False, about="whether all intervals hold together at 95%, or each alone")

    def plan(self, desk: Desk) -> Planned:
        """One row for each function."""
        with importing():
            from duckdp.smooth.answer import answers

        summary, texts = desk.summary(self.name, self.category), list(self.functions)

        def ask() -> Listed:
            how: dict[str, Any] = {"statistic": self.statistic, "tolerance": self.tolerance}
            found = answers(summary, texts, simultaneous=self.simultaneous, **how)
            notes = ["the intervals hold together at 95%, all of them"] if self.simultaneous else []
            outweighed = sum(one.outweighed for one in found)
            if outweighed:
                notes.append(
                    f"approximation outweighs noise in {outweighed} of {len(found)}; asked alone, each says more"
                )
            return [(text, *_row(each)) for text, each in zip(texts, found, strict=True)], notes

        names, types = ("function", *ANSWER), ("VARCHAR", *TYPES)
        return _of_summary(summary, self.name, names, types, ask, rows=len(texts))


def _caveats(table: Table) -> list[str]:
    note = summary_note(table)
    return [] if note is None else [note]


def _of_summary(
    summary: SmoothSummary, name: str, names: Sequence[str], types: Sequence[str], ask: Callable[[], Listed], rows: int
) -> Planned:
    """A summary's answers, with a column that says which rows count where not all do alike."""
    caveat = (
        f"of a unit with more rows than max_rows all count, each the less; {LEFT_OUT}" if summary.weighted else None
    )

    def run(_: str) -> Result:
        found, notes = ask()
        noted = notes if caveat is None else [*notes, caveat]
        return replace(plain_result(names, found, types), source=f"summary {name}", notes=noted, caveat=caveat)

    return with_note(zip(names, types, strict=True), run, noted=caveat is not None, rows=rows)


def _row(found: SmoothAnswer) -> tuple[float | bool | None, ...]:
    """An answer as ANSWER lists it."""
    return (found.value, found.standard_error, found.approximation_error, found.low, found.high, found.estimated)
