"""Synthetic tables, prepared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from duckdp.catalog.table import Table, check_name, check_positive, describe_unit
from duckdp.core.types import Loss, parse_delta, parse_epsilon
from duckdp.core.watch import Tell, Watch
from duckdp.errors import ExecutionError, ParameterError
from duckdp.functions.prepared import Prepared, read_flag, read_given, read_number, read_whole
from duckdp.result import Result, ResultColumn, plain_result

if TYPE_CHECKING:
    from duckdp.session import Performed, Session
    from duckdp.synthetic.decode import SyntheticTable
    from duckdp.synthetic.methods import TableTask

AUTO = "auto"  # rows: as the method has them


def synthesize(
    session: Session, source: object, epsilon: object, delta: object, rows: object, columns: Sequence[str] | None,
    smoothness: object, degree: object, name: object, method: object = "auto", target: object = None,
    time_limit: object = None, fresh: object = False, progress: Tell | None = None,
) -> Prepared:  # fmt: skip
    """A synthetic table: free from a stored summary, charged from a protected table."""
    wanted = None if rows == AUTO else read_whole("rows", rows)
    if wanted is None and rows != AUTO:
        raise ParameterError("P107", "rows", rows, "must be a whole number.")
    watch = Watch(progress=progress, time_limit=None if time_limit is None else read_number("time_limit", time_limit))
    if str(source).lower() not in session.tables():
        _refuse_others(
            columns=columns, degree=degree, smoothness=smoothness, name=name, target=target, method=method,
            fresh=read_flag("fresh", fresh) or None,
        )  # fmt: skip
        return _from_stored(session, read_given("source", source), wanted, watch)
    table, again = session.table(source), read_flag("fresh", fresh)
    task = _plan(session, table, columns, (epsilon, delta), wanted, (smoothness, degree), method, target)
    _require_few_cells(task.rows, len(task.columns))
    called = None if name is None else check_name(name)

    def run(nonce: str) -> Result:
        text = f"dp_synthesize({table.name}, rows: {wanted or AUTO})" + (f" as {called}" if called else "")
        with session.watched(watch):
            done = session.perform(
                task, table=table, statement=text, kind="synthetic", name=called, fresh=again, nonce=nonce
            )
            return _dressed(session, task.loss, done, watch)

    return Prepared(columns=[(c.name, c.type) for c in task.columns], run=run)


def _require_few_cells(rows: int | None, columns: int) -> None:
    """Bound what one call makes, and so its memory.

    Raises:
        ParameterError: P107.
    """
    from duckdp.synthetic.asked import MAX_CELLS

    if rows is not None and rows * columns > MAX_CELLS:
        rule = f"times {columns} columns is over {MAX_CELLS:,} values; give rows := {MAX_CELLS // columns} or fewer."
        raise ParameterError("P107", "rows", rows, rule)


def _refuse_others(**given: object) -> None:
    """Options that only a protected table has."""
    for name, value in given.items():
        if value is not None and (name, value) not in (("method", AUTO), ("target", "")):
            rule = "is for a protected table; from what is stored, rows are made of all its columns."
            raise ParameterError("P107", name, value, rule)


def _read_columns(columns: object) -> list[str] | None:
    """Names of columns, or None for all that can be had.

    Raises:
        ParameterError: P107, a text alone, not names, or no name at all.
    """
    if columns is None:
        return None
    listed = list(columns) if isinstance(columns, Iterable) and not isinstance(columns, (str, bytes)) else []
    if not listed or not all(isinstance(name, str) for name in listed):
        rule = "must be a list of names, at least one; leave it out for all with bounds, a domain or two values."
        raise ParameterError("P107", "columns", columns, rule)
    return [str(name) for name in listed]


def _from_stored(session: Session, name: str, rows: int | None, watch: Watch) -> Prepared:
    """Rows of a stored summary, or a stored synthetic table read again; free."""
    from duckdp.synthetic.asked import MAX_ROWS, ROWS
    from duckdp.synthetic.lp.make.synthesize import synthesize as make_table
    from duckdp.synthetic.stored import is_table, open_synthesis, shape_of, without_summary

    payload = session.stored(name)
    if is_table(payload) and rows is None:

        def again(_: str) -> Result:
            opened = open_synthesis(session.completed(name, watch).payload, watch)
            columns = _table_columns(opened.table)
            return Result(columns=columns, cost="nothing", source=f"synthetic table {name}", notes=list(opened.notes))

        return Prepared(columns=shape_of(payload), run=again)
    if without_summary(payload):
        rule = "cannot be chosen for a stored table that holds no summary; leave it out to read its own rows again."
        raise ParameterError("P107", "rows", rows, rule)
    summary = session.summary(name)
    check_positive("rows", ROWS if rows is None else rows, MAX_ROWS)
    _require_few_cells(rows or ROWS, len(summary.columns))

    def from_summary(_: str) -> Result:
        made = make_table(summary, rows or ROWS, progress=watch.progress, time_limit=watch.time_limit)
        return Result(columns=_table_columns(made), source=f"summary {name}")

    return Prepared(columns=[(c.name, c.type) for c in summary.columns], run=from_summary)


def explain_synthesize(
    session: Session, table: object, epsilon: object, delta: object, rows: object, columns: Sequence[str] | None,
    smoothness: object, degree: object, method: object = "auto", target: object = None,
) -> Prepared:  # fmt: skip
    """What a synthetic table would buy and cost; free."""
    wanted = None if rows == AUTO else read_whole("rows", rows)
    task = _plan(session, session.table(table), columns, (epsilon, delta), wanted, (smoothness, degree), method, target)
    whom = describe_unit(session.table(table), session.neighbours.value)
    _require_few_cells(task.rows, len(task.columns))
    method_line, *others = task.describe()
    cost = f"cost: {task.loss}, once; reading the rows again is free"
    lines = [(line,) for line in (method_line, *whom, *others, cost)]
    return Prepared(columns=[("plan", "VARCHAR")], run=lambda _: plain_result(["plan"], lines))


def _dressed(session: Session, loss: Loss, done: Performed, watch: Watch) -> Result:
    """The table of a stored release, completed first; whatever ends that work, the release stays."""
    from duckdp.synthetic.stored import open_synthesis

    try:
        done = session.complete(done, watch)
        opened = open_synthesis(done.payload, watch)
    except KeyboardInterrupt:
        raise ExecutionError("E102", done.charge_id) from None
    about = f"synthetic rows in place of {opened.table.table}: no row is a person"
    return session.dress(_table_columns(opened.table), loss, done, notes=(about, *opened.notes))


def _plan(
    session: Session, table: Table, columns: object, charge: tuple[object, object], rows: int | None,
    degrees: tuple[object, object], method: object, target: object,
) -> TableTask:  # fmt: skip
    """The purchase by the method that was asked for, or that suits; free."""
    from duckdp.synthetic.asked import Asked
    from duckdp.synthetic.methods import plan_table

    listed = _read_columns(columns)
    epsilon, delta = charge
    asked = Asked(
        table=table, columns=listed, epsilon_nano=parse_epsilon(epsilon), delta_atto=parse_delta(delta),
        neighbours=session.neighbours, rows=rows, smoothness=read_whole("smoothness", degrees[0]),
        degree=read_whole("degree", degrees[1]), target=None if target is None else str(target),
    )  # fmt: skip
    return plan_table(asked, str(method))


def _table_columns(table: SyntheticTable) -> list[ResultColumn]:
    return [ResultColumn(name=n, type=table.types[n], values=v.tolist()) for n, v in table.columns.items()]
