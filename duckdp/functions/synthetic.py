"""Synthetic tables: bought, read again, explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from duckdp.catalog.constraints import among
from duckdp.catalog.table import Table, check_name, check_positive, describe_unit
from duckdp.core.types import Loss, parse_delta, parse_epsilon
from duckdp.core.watch import Watch
from duckdp.errors import DuckDPError, ExecutionError, ParameterError
from duckdp.functions.kinds import (
    AUTO,
    ColumnNames,
    Delta,
    Epsilon,
    Fresh,
    Kind,
    Number,
    Progress,
    Rows,
    SourceName,
    Whole,
    Word,
)
from duckdp.functions.planned import Planned
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.process.importing import importing
from duckdp.result import Result, ResultColumn

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk, Performed
    from duckdp.synthetic.decode import SyntheticTable
    from duckdp.synthetic.methods import TableTask

_SOME = "which columns; by default all with bounds, a domain or two values"
_ALL = "must be a list of names, at least one; leave it out for all with bounds, a domain or two values."
_METHOD = '"lp" (up to three columns), "theorem", "moments", "tree" or "psi"; "auto" chooses by public figures'
_TARGET = "a column of two values whose links to the others are bought first, for a third of the charge or more"
_PURPOSE = 'what "auto" chooses for: "tables" (histograms, pairs, models) or "kernels" (broad smooth queries)'
_ROWS = 'how many; "auto": as many as the noisy count says, up to 100,000; or the theorem\'s own number'
_TIME = "seconds of work on the release; then the best fit so far is taken"
Name = Annotated[str, Kind(word="a name to store it by", about="a name to store the table by, to read it again")]


@dp_function(
    "dp_synthesize",
    costs="epsilon, delta; from what is stored nothing",
    example="'care', epsilon := 1, columns := ['age', 'sex'], rows := 1000, name := 'people'",
)
@dataclass(frozen=True, kw_only=True)
class Synthesize(Explained):
    """A synthetic table: charged from a protected table, free from what is stored."""

    source: SourceName = argument(explained=("table", "t"))
    epsilon: Epsilon | None = option(None)
    rows: Rows = option(AUTO, about=_ROWS)
    columns: ColumnNames | None = option(None, about=_SOME)
    delta: Delta = option(0, about="above 0 the noise may be Gaussian")
    smoothness: Whole | None = option(None, about="as of a summary")
    degree: Whole | None = option(None, about="as of a summary")
    name: Name | None = option(None, explained=False)
    method: Word = option(AUTO, about=_METHOD)
    target: Word | None = option(None, about=_TARGET)
    purpose: Word = option("tables", about=_PURPOSE)
    time_limit: Number | None = option(None, explained=False, about=_TIME)
    fresh: Fresh = option(False, explained=False, about="pay again: for other rows, or where the charge is final")
    progress: Progress | None = option(None, only="python", explained=False)

    def plan(self, desk: Desk) -> Planned:
        """The rows, in the columns' own types."""
        watch = Watch(progress=self.progress, time_limit=self.time_limit)
        if self.source.lower() not in desk.tables():
            self._refuse_others()
            return _from_stored(desk, self.source, self.rows, watch)
        table = desk.table(self.source)
        task = self._task(desk, table)
        called = None if self.name is None else check_name(self.name)

        def run(nonce: str) -> Result:
            text = f"dp_synthesize({table.name}, rows: {self.rows or AUTO})" + (f" as {called}" if called else "")
            with desk.watched(watch):
                done = desk.perform(
                    task,
                    table=table,
                    statement=text,
                    kind="synthetic",
                    name=called,
                    fresh=self.fresh,
                    nonce=nonce,
                    before=self._before(desk, table, task),
                )
                return _dressed(desk, task.loss, done, watch)

        return Planned(columns=[(c.name, c.type) for c in task.columns], run=run)

    def explain(self, desk: Desk) -> Sequence[str]:
        """Its method, stages, noise, cost, and what a theorem promises."""
        table = desk.table(self.source)
        task = self._task(desk, table)
        whom = describe_unit(table, desk.neighbours.value)
        method_line, *others = task.describe()
        return [method_line, *whom, *others, f"cost: {task.loss}, once; reading the rows again is free"]

    def _before(self, desk: Desk, table: Table, task: TableTask) -> list[TableTask]:
        """What the same words once bought: before a tree's noise was settled, and before that without calendar parts.

        Without those not where constraints are to be kept.
        """
        found: dict[str, TableTask] = {}
        for calendar in (True, False):
            try:
                old = self._task(desk, table, calendar=calendar, settled=False)
            except DuckDPError:  # it could not be bought
                continue
            if old.canonical != task.canonical and (calendar or not old.kept):
                found[old.canonical] = old
        return list(found.values())

    def _task(self, desk: Desk, table: Table, *, calendar: bool = True, settled: bool = True) -> TableTask:
        """The purchase by the method that was asked for, or that suits; free."""
        with importing():
            from duckdp.synthetic.asked import Asked
            from duckdp.synthetic.methods import plan_table

        if self.columns is not None and not self.columns:
            raise ParameterError("P107", "columns", self.columns, _ALL)
        asked = Asked(
            table=table,
            columns=None if self.columns is None else list(self.columns),
            epsilon_nano=parse_epsilon(self.epsilon),
            delta_atto=parse_delta(self.delta),
            neighbours=desk.neighbours,
            rows=self.rows,
            smoothness=self.smoothness,
            degree=self.degree,
            target=self.target,
            purpose=self.purpose,
            calendar=calendar,
            settled=settled,
        )
        task = plan_table(asked, self.method)
        _require_few_cells(task.rows, len(task.columns))
        return task

    def _refuse_others(self) -> None:
        """Options that only a protected table has."""
        given = {
            "columns": self.columns,
            "degree": self.degree,
            "smoothness": self.smoothness,
            "name": self.name,
            "target": self.target or None,
            "purpose": None if self.purpose == "tables" else self.purpose,
            "method": None if self.method == AUTO else self.method,
            "fresh": self.fresh or None,
        }
        for name, value in given.items():
            if value is not None:
                rule = "is for a protected table; from what is stored, rows are made of all its columns."
                raise ParameterError("P107", name, value, rule)


def _require_few_cells(rows: int | None, columns: int) -> None:
    """Bound what one call makes, and so its memory.

    Raises:
        ParameterError: P107.
    """
    with importing():
        from duckdp.synthetic.asked import MAX_CELLS

    if rows is not None and rows * columns > MAX_CELLS:
        rule = f"times {columns} columns is over {MAX_CELLS:,} values; give rows := {MAX_CELLS // columns} or fewer."
        raise ParameterError("P107", "rows", rows, rule)


def _from_stored(desk: Desk, name: str, rows: int | None, watch: Watch) -> Planned:
    """Rows of a stored summary, or a stored synthetic table read again; free."""
    with importing():
        from duckdp.synthetic.asked import MAX_ROWS
        from duckdp.synthetic.lp.make.synthesize import synthesize as make_table
        from duckdp.synthetic.stored import is_table, open_synthesis, shape_of, without_summary
        from duckdp.synthetic.unit.structure import mended

    payload = desk.stored(name)
    if is_table(payload) and rows is None:

        def again(_: str) -> Result:
            opened = open_synthesis(desk.completed(name, watch).payload, watch)
            columns = _table_columns(opened.table)
            return Result(columns=columns, cost="nothing", source=f"synthetic table {name}", notes=list(opened.notes))

        return Planned(columns=shape_of(payload), run=again)
    if without_summary(payload):
        rule = "cannot be chosen for a stored table that holds no summary; leave it out to read its own rows again."
        raise ParameterError("P107", "rows", rows, rule)
    summary = desk.summary(name)
    if rows is not None:
        check_positive("rows", rows, MAX_ROWS)
    _require_few_cells(rows, len(summary.columns))

    def from_summary(_: str) -> Result:
        made = make_table(summary, rows, progress=watch.progress, time_limit=watch.time_limit)
        protected = desk.tables().get(summary.table)
        declared = () if protected is None else protected.constraints
        kept = [str(c) for c in among(declared, [c.name for c in summary.columns])]
        notes = [made.scale]
        if kept:
            made = replace(made, columns=mended(made.columns, summary.columns, kept))
            notes.append(f"rows were moved to where every row keeps {'; '.join(kept)}")
        return Result(columns=_table_columns(made), source=f"summary {name}", notes=notes)

    return Planned(columns=[(c.name, c.type) for c in summary.columns], run=from_summary)


def _dressed(desk: Desk, loss: Loss, done: Performed, watch: Watch) -> Result:
    """The table of a stored release, completed first; whatever ends that work, the release stays."""
    with importing():
        from duckdp.synthetic.stored import open_synthesis

    try:
        done = desk.complete(done, watch)
        opened = open_synthesis(done.payload, watch)
    except KeyboardInterrupt:
        raise ExecutionError("E102", done.charge_id) from None
    about = f"synthetic rows in place of {opened.table.table}: no row is a person"
    return desk.dress(_table_columns(opened.table), loss, done, notes=(about, *opened.notes))


def _table_columns(table: SyntheticTable) -> list[ResultColumn]:
    return [ResultColumn(name=n, type=table.types[n], values=v.tolist()) for n, v in table.columns.items()]
