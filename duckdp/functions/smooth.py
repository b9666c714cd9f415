"""Smooth-query summaries, prepared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from duckdp.catalog.table import check_name, describe_unit
from duckdp.compiler.notes import summary_note
from duckdp.core.types import parse_delta, parse_epsilon, show_decimal
from duckdp.errors import ParameterError
from duckdp.functions.prepared import NOTE, Prepared, read_flag, read_given, read_list, read_number, read_whole
from duckdp.result import Result, plain_result

if TYPE_CHECKING:
    from duckdp.catalog.table import Table
    from duckdp.session import Session
    from duckdp.smooth.answer import SmoothAnswer
    from duckdp.smooth.buy.counted import CountedTask
    from duckdp.smooth.buy.per_group import GroupedTask
    from duckdp.smooth.buy.summary_task import SummaryTask
    from duckdp.smooth.summary import SmoothSummary

ANSWER = ("value", "standard_error", "approximation_error", "low", "high", "estimated")
TYPES = (*["DOUBLE"] * 5, "BOOLEAN")
MOST_FUNCTIONS = 10_000  # of one call: half a minute where each has a shape of its own


def smooth_summary(
    session: Session, table: object, columns: Sequence[str] | None, epsilon: object, delta: object, smoothness: object,
    degree: object, name: object, basis: object = "tensor", interactions: object = None, weights: object = "smooth",
    noise: object = "auto", per: object = None, fresh: object = False,
) -> Prepared:  # fmt: skip
    """Make and store a summary, or one per value of a column; one row about it."""
    from duckdp.smooth.payloads import open_stored

    task = _plan(session, table, columns, epsilon, delta, smoothness, degree, basis, interactions, weights, noise, per)
    called, again = check_name(name), read_flag("fresh", fresh)
    shape = [("name", "VARCHAR"), ("columns", "VARCHAR"), ("degree", "BIGINT"), ("moments", "BIGINT"),
             ("noise", "VARCHAR"), ("epsilon", "VARCHAR"), ("standard_error", "DOUBLE")]  # fmt: skip

    def run(_: str) -> Result:
        text = f"dp_smooth_summary({task.table.name}, {', '.join(c.name for c in task.columns)}) as {called}"
        done = session.perform(task, table=task.table, statement=text, kind="summary", name=called, fresh=again)
        summary = open_stored(done.payload)
        error = summary.noise.deviation / 2**summary.bits
        row = (called, ", ".join(c.name for c in summary.columns), summary.basis.degree, summary.basis.size,
               summary.family, show_decimal(summary.epsilon_nano, 9), error)  # fmt: skip
        made = plain_result([n for n, _ in shape], [row], [t for _, t in shape])
        notes = ["standard_error is that of the noisiest sum", *_caveats(task.table)]
        return session.dress(made.columns, task.loss, done, notes=notes, caveat=summary_note(task.table))

    noted = summary_note(task.table) is not None
    return Prepared(columns=[*shape, *([NOTE] if noted else [])], run=run, note=noted)


def explain_summary(
    session: Session, table: object, columns: Sequence[str] | None, epsilon: object, delta: object, smoothness: object,
    degree: object, basis: object = "tensor", interactions: object = None, weights: object = "smooth",
    noise: object = "auto", per: object = None,
) -> Prepared:  # fmt: skip
    """What a summary would hold and cost; free."""
    task = _plan(session, table, columns, epsilon, delta, smoothness, degree, basis, interactions, weights, noise, per)
    whom = describe_unit(task.table, session.neighbours.value)
    notes = [f"note: {n}" for n in _caveats(task.table)]
    lines = [(line,) for line in (*whom, *task.describe(), f"cost: {task.loss}, once; every answer is free", *notes)]
    return Prepared(columns=[("plan", "VARCHAR")], run=lambda _: plain_result(["plan"], lines))


def smooth_answer(
    session: Session, name: object, function: object, statistic: object, tolerance: object = None,
    method: object = "interpolation", category: object = None,
) -> Prepared:  # fmt: skip
    """Answer a smooth function from a stored summary; free."""
    from duckdp.smooth.answer import answer
    from duckdp.smooth.fit.coefficients import read_function

    summary = session.summary(read_given("name", name), None if category is None else str(category))
    expr = read_function(read_given("function", function), summary.table, summary.columns)
    most = None if tolerance is None else read_number("tolerance", tolerance)

    def run(_: str) -> Result:
        found = answer(summary, expr, statistic=str(statistic), tolerance=most, method=str(method))  # type: ignore[arg-type]
        made = plain_result(ANSWER, [_row(found)], TYPES)
        notes, caveat = [found.note] if found.note else [], _weighted(summary)
        notes += [] if caveat is None else [caveat]
        return Result(columns=made.columns, source=f"summary {name}", notes=notes, caveat=caveat)

    return _noted(zip(ANSWER, TYPES, strict=True), run, summary)


def smooth_answers(
    session: Session, name: object, functions: Sequence[str] | None, statistic: object = "mean",
    tolerance: object = None, category: object = None,
) -> Prepared:  # fmt: skip
    """Answer many functions at once, one row each; free."""
    from duckdp.smooth.answer import answers

    summary = session.summary(read_given("name", name), None if category is None else str(category))
    texts = read_list("functions", functions)
    if len(texts) > MOST_FUNCTIONS:
        rule = f"is the first of {len(texts):,} functions; at most {MOST_FUNCTIONS:,} in one call. Split the list."
        raise ParameterError("P107", "functions", texts[0], rule)
    most = None if tolerance is None else read_number("tolerance", tolerance)
    names, types = ("function", *ANSWER), ("VARCHAR", *TYPES)

    def run(_: str) -> Result:
        found = answers(summary, texts, statistic=str(statistic), tolerance=most)  # type: ignore[arg-type]
        made = plain_result(names, [(text, *_row(a)) for text, a in zip(texts, found, strict=True)], types)
        caveat = _weighted(summary)
        notes = [] if caveat is None else [caveat]
        return Result(columns=made.columns, source=f"summary {name}", notes=notes, caveat=caveat)

    return _noted(zip(names, types, strict=True), run, summary)


def _caveats(table: Table) -> list[str]:
    note = summary_note(table)
    return [] if note is None else [note]


def _weighted(summary: SmoothSummary) -> str | None:
    return "of a unit with more rows than max_rows all count, each the less" if summary.weighted else None


def _noted(columns: Iterable[tuple[str, str]], run: Callable[[str], Result], summary: SmoothSummary) -> Prepared:
    """A summary's answers, with a column that says which rows count where not all do alike."""
    noted = _weighted(summary) is not None
    return Prepared(columns=[*columns, *([NOTE] if noted else [])], run=run, note=noted)


def _row(found: SmoothAnswer) -> tuple[float | bool | None, ...]:
    """An answer as ANSWER lists it."""
    return (
        found.value, found.standard_error, found.approximation_error, found.low, found.high, found.estimated
    )  # fmt: skip


def _plan(
    session: Session, table: object, columns: Sequence[str] | None, epsilon: object, delta: object, smoothness: object,
    degree: object, basis: object, interactions: object, weights: object, noise: object, per: object,
) -> SummaryTask | CountedTask | GroupedTask:  # fmt: skip
    from duckdp.smooth.buy.counted import plan_counted
    from duckdp.smooth.buy.per_group import plan_grouped
    from duckdp.smooth.buy.summary_task import Wishes

    wishes = Wishes(
        smoothness=read_whole("smoothness", smoothness), degree=read_whole("degree", degree),
        shape=str(basis), order=read_whole("interactions", interactions), weights=str(weights),  # type: ignore[arg-type]
        noise=str(noise),  # type: ignore[arg-type]
    )  # fmt: skip
    found, names = session.table(table), read_list("columns", columns)
    if per is not None:
        return plan_grouped(
            found, names, str(per), epsilon_nano=parse_epsilon(epsilon), delta_atto=parse_delta(delta),
            neighbours=session.neighbours, wishes=wishes,
        )  # fmt: skip
    return plan_counted(
        found, names, epsilon_nano=parse_epsilon(epsilon), delta_atto=parse_delta(delta),
        neighbours=session.neighbours, wishes=wishes,
    )  # fmt: skip
