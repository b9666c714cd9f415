"""Smooth-query summaries and synthetic tables, prepared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from duckdp.catalog import Table, check_name, check_positive
from duckdp.core.task import Tell, Watch
from duckdp.core.types import Loss, parse_delta, parse_epsilon, show_decimal
from duckdp.errors import ExecutionError, ParameterError
from duckdp.functions.prepared import Prepared, read_number, read_whole
from duckdp.result import Result, ResultColumn, plain_result

if TYPE_CHECKING:
    from duckdp.session import Performed, Session
    from duckdp.smooth.counted import CountedTask
    from duckdp.smooth.grouped import GroupedTask
    from duckdp.smooth.plan import SummaryTask
    from duckdp.synthetic.decode import SyntheticTable
    from duckdp.synthetic.task import SynthesisTask
    from duckdp.synthetic.theorem import TheoremTask
    from duckdp.synthetic.wide.task import WideTask

AUTO = "auto"  # rows: as the method has them
ROWS = 10_000  # unless asked, except by the theorem
MOST_ROWS = 10**7
ANSWER = ("value", "standard_error", "approximation_error", "low", "high")


def smooth_summary(
    session: Session, table: object, columns: Sequence[str] | None, epsilon: object, delta: object, smoothness: object,
    degree: object, name: object, basis: object = "tensor", interactions: object = None, weights: object = "smooth",
    noise: object = "auto", per: object = None,
) -> Prepared:  # fmt: skip
    """Make and store a summary, or one per value of a column; one row about it."""
    from duckdp.smooth.stored import open_stored

    task = _plan(session, table, columns, epsilon, delta, smoothness, degree, basis, interactions, weights, noise, per)
    called = check_name(name)
    shape = [("name", "VARCHAR"), ("columns", "VARCHAR"), ("degree", "BIGINT"), ("moments", "BIGINT"),
             ("noise", "VARCHAR"), ("epsilon", "VARCHAR"), ("standard_error", "DOUBLE")]  # fmt: skip

    def run(_: str) -> Result:
        text = f"dp_smooth_summary({task.table.name}, {', '.join(c.name for c in task.columns)}) as {called}"
        done = session.perform(task, table=task.table, statement=text, kind="summary", name=called)
        summary = open_stored(done.payload)
        error = summary.noise.deviation / 2**summary.bits
        row = (called, ", ".join(c.name for c in summary.columns), summary.basis.degree, summary.basis.size,
               summary.family, show_decimal(summary.epsilon_nano, 9), error)  # fmt: skip
        made = plain_result([n for n, _ in shape], [row], [t for _, t in shape])
        return session.dress(made.columns, task.loss, done, notes=["standard_error is that of the noisiest sum"])

    return Prepared(columns=shape, run=run)


def explain_summary(
    session: Session, table: object, columns: Sequence[str] | None, epsilon: object, delta: object, smoothness: object,
    degree: object, basis: object = "tensor", interactions: object = None, weights: object = "smooth",
    noise: object = "auto", per: object = None,
) -> Prepared:  # fmt: skip
    """What a summary would hold and cost; free."""
    task = _plan(session, table, columns, epsilon, delta, smoothness, degree, basis, interactions, weights, noise, per)
    lines = [(line,) for line in (*task.describe(), f"cost: {task.loss}, once; every answer is free")]
    return Prepared(columns=[("plan", "VARCHAR")], run=lambda _: plain_result(["plan"], lines))


def smooth_answer(
    session: Session, name: object, function: object, statistic: object, tolerance: object = None,
    method: object = "interpolation", category: object = None,
) -> Prepared:  # fmt: skip
    """Answer a smooth function from a stored summary; free."""
    from duckdp.smooth.answer import answer
    from duckdp.smooth.fit.coefficients import read_function

    summary = session.summary(str(name), None if category is None else str(category))
    expr = read_function(str(function), summary.table, summary.columns)
    most = None if tolerance is None else read_number("tolerance", tolerance)

    def run(_: str) -> Result:
        found = answer(summary, expr, statistic=str(statistic), tolerance=most, method=str(method))  # type: ignore[arg-type]
        values = (found.value, found.standard_error, found.approximation_error, found.low, found.high)
        made = plain_result(ANSWER, [values], ["DOUBLE"] * 5)
        return Result(columns=made.columns, source=f"summary {name}", notes=[found.note] if found.note else [])

    return Prepared(columns=[(n, "DOUBLE") for n in ANSWER], run=run)


def smooth_answers(
    session: Session, name: object, functions: Sequence[str] | None, statistic: object = "mean",
    tolerance: object = None, category: object = None,
) -> Prepared:  # fmt: skip
    """Answer many functions at once, one row each; free."""
    from duckdp.smooth.answer import answers

    summary = session.summary(str(name), None if category is None else str(category))
    texts = [str(f) for f in functions or ()]
    most = None if tolerance is None else read_number("tolerance", tolerance)
    names = ("function", *ANSWER, "estimated")
    types = ["VARCHAR", *["DOUBLE"] * 5, "BOOLEAN"]

    def run(_: str) -> Result:
        found = answers(summary, texts, statistic=str(statistic), tolerance=most)  # type: ignore[arg-type]
        rows = [
            (text, a.value, a.standard_error, a.approximation_error, a.low, a.high, a.estimated)
            for text, a in zip(texts, found, strict=True)
        ]
        made = plain_result(names, rows, types)
        return Result(columns=made.columns, source=f"summary {name}")

    return Prepared(columns=list(zip(names, types, strict=True)), run=run)


def synthesize(
    session: Session, source: object, epsilon: object, delta: object, rows: object, columns: Sequence[str] | None,
    smoothness: object, degree: object, name: object, method: object = "auto", target: object = None,
    time_limit: object = None, progress: Tell | None = None,
) -> Prepared:  # fmt: skip
    """A synthetic table: free from a stored summary, charged from a protected table."""
    from duckdp.synthetic.synthesize import synthesize as make_table

    wanted = None if rows == AUTO else read_whole("rows", rows)
    if wanted is None and rows != AUTO:
        raise ParameterError("P107", "rows", rows, "must be a whole number.")
    watch = Watch(progress=progress, time_limit=None if time_limit is None else read_number("time_limit", time_limit))
    if str(source).lower() not in session.tables():
        summary = session.summary(str(source))
        check_positive("rows", ROWS if wanted is None else wanted, MOST_ROWS)

        def from_summary(_: str) -> Result:
            made = make_table(summary, wanted or ROWS, progress=progress, time_limit=watch.time_limit)
            return Result(columns=_table_columns(made), source=f"summary {source}")

        return Prepared(columns=[(c.name, c.type) for c in summary.columns], run=from_summary)
    table = session.table(source)
    task = _plan_table(
        session, table, columns, (parse_epsilon(epsilon), parse_delta(delta)), wanted,
        read_whole("smoothness", smoothness), read_whole("degree", degree), str(method),
        None if target is None else str(target), watch,
    )  # fmt: skip
    called = None if name is None else check_name(name)

    def run(_: str) -> Result:
        text = f"dp_synthesize({table.name}, rows: {wanted or AUTO})" + (f" as {called}" if called else "")
        with session.watched(watch):
            done = session.perform(task, table=table, statement=text, kind="synthetic", name=called)
            return _dressed(session, task.loss, done, watch)

    return Prepared(columns=[(c.name, c.type) for c in task.columns], run=run)


def _dressed(session: Session, loss: Loss, done: Performed, watch: Watch) -> Result:
    """The table of a stored release; what ended its program early is raised now that nothing can be lost."""
    from duckdp.synthetic.stored import open_synthesis

    watch.settle(done.charge_id)
    try:
        opened = open_synthesis(done.payload, watch)
    except KeyboardInterrupt:
        raise ExecutionError("E102", done.charge_id) from None
    about = f"synthetic rows in place of {opened.table.table}: no row is a person"
    return session.dress(_table_columns(opened.table), loss, done, notes=(about, *opened.notes))


def _plan_table(
    session: Session, table: Table, columns: Sequence[str] | None, charge: tuple[int, int], rows: int | None,
    smoothness: int | None, degree: int | None, method: str, target: str | None, watch: Watch,
) -> SynthesisTask | TheoremTask | WideTask:  # fmt: skip
    """By the linear program where a summary of all columns fits a grid, else by the method for many columns."""
    from duckdp.synthetic.task import fits_program, plan_synthesis, usable_columns
    from duckdp.synthetic.theorem import plan_theorem
    from duckdp.synthetic.wide.task import plan_wide

    epsilon_nano, delta_atto = charge
    neighbours = session.neighbours
    check_positive("rows", ROWS if rows is None else rows, MOST_ROWS)
    if method == "theorem":
        if degree is not None or target is not None:
            rule = "is not for method := 'theorem', whose degree follows from smoothness."
            raise ParameterError("P107", "target" if degree is None else "degree", target or degree, rule)
        return plan_theorem(
            table, usable_columns(table, columns), epsilon_nano=epsilon_nano, delta_atto=delta_atto,
            neighbours=neighbours, rows=rows, smoothness=smoothness, watch=watch,
        )  # fmt: skip
    asked = smoothness is not None or degree is not None
    if method == "lp" or (method == "auto" and target is None and (asked or fits_program(table, columns))):
        return plan_synthesis(
            table, columns, epsilon_nano=epsilon_nano, delta_atto=delta_atto, neighbours=neighbours,
            rows=ROWS if rows is None else rows, smoothness=smoothness, degree=degree, watch=watch,
        )  # fmt: skip
    return plan_wide(
        table, columns, epsilon_nano=epsilon_nano, delta_atto=delta_atto, neighbours=neighbours,
        rows=ROWS if rows is None else rows, method=method, target=target, watch=watch,
    )  # fmt: skip


def _plan(
    session: Session, table: object, columns: Sequence[str] | None, epsilon: object, delta: object, smoothness: object,
    degree: object, basis: object, interactions: object, weights: object, noise: object, per: object,
) -> SummaryTask | CountedTask | GroupedTask:  # fmt: skip
    from duckdp.smooth.counted import plan_counted
    from duckdp.smooth.grouped import plan_grouped
    from duckdp.smooth.plan import Wishes

    wishes = Wishes(
        smoothness=read_whole("smoothness", smoothness), degree=read_whole("degree", degree),
        shape=str(basis), order=read_whole("interactions", interactions), weights=str(weights),  # type: ignore[arg-type]
        noise=str(noise),  # type: ignore[arg-type]
    )  # fmt: skip
    found, names = session.table(table), list(columns or ())
    if per is not None:
        return plan_grouped(
            found, names, str(per), epsilon_nano=parse_epsilon(epsilon), delta_atto=parse_delta(delta),
            neighbours=session.neighbours, wishes=wishes,
        )  # fmt: skip
    return plan_counted(
        found, names, epsilon_nano=parse_epsilon(epsilon), delta_atto=parse_delta(delta),
        neighbours=session.neighbours, wishes=wishes,
    )  # fmt: skip


def _table_columns(table: SyntheticTable) -> list[ResultColumn]:
    return [ResultColumn(name=n, type=table.types[n], values=v.tolist()) for n, v in table.columns.items()]
