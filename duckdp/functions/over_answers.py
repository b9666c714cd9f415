"""A statement over private answers, planned: what it releases, for which share each, and what follows for free.

What follows runs on the analyst's own instance, where no private row is, over tables of what was released: as a part
of the SELECT that stands for a call of ``dp_query``, or after the charge of ``Session.sql``. Its text is bound there
before anything is charged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sqlglot import exp

from duckdp.catalog.table import plain_type
from duckdp.compiler.answers import answer_columns
from duckdp.compiler.describe import describe_plan
from duckdp.compiler.drawn import drawn
from duckdp.compiler.evaluate import describe_outputs
from duckdp.compiler.expression import Aggregate, walk
from duckdp.compiler.notes import NO_END, plan_caveat, plan_notes
from duckdp.compiler.outer.adding import with_sums
from duckdp.compiler.outer.apart import Apart
from duckdp.compiler.outer.beside import Beside, beside_columns
from duckdp.compiler.outer.block import column_name
from duckdp.compiler.outer.outer_bars import Barred, with_bars
from duckdp.compiler.outer.outer_text import printed_outer, shown_outer, with_tables
from duckdp.compiler.outer.public_rows import PublicRows
from duckdp.compiler.outer.several import payloads_of, plan_parts, task_of, total
from duckdp.compiler.outer.shown_groups import few_groups
from duckdp.compiler.outer.sources import Figures
from duckdp.compiler.plan import Plan
from duckdp.compiler.pricing import Price, Terms
from duckdp.compiler.printing import quote
from duckdp.core.types import Neighbours
from duckdp.errors import QueryError
from duckdp.functions.explanation import Explanation, explain_price
from duckdp.result import SUFFIXES, Estimate, Result, ResultColumn

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk, Performed

Columns = list[tuple[str, str]]
MOST_PRINTED = 30_000  # characters of an outer part with intervals of what is computed: read in some milliseconds


class Runs(Protocol):
    """The analyst's own DuckDB instance, as whoever computes with released figures needs it."""

    def bound(self, text: str) -> Columns:
        """Names and types of a SELECT's columns; it is not run."""

    def over(
        self, columns: Sequence[ResultColumn], parts: Sequence[Columns], after: Callable[[Sequence[str]], str]
    ) -> list[tuple[Any, ...]]:
        """The rows of a SELECT over tables: all their columns, which of them each has, and the SELECT from theirs."""


@dataclass(frozen=True, kw_only=True)
class Released:
    """What a statement released, ready to be computed with.

    Attributes:
        plans: of each part, as it was released.
        payloads: what was.
        columns: of each part, as the answer of its question.
        public: of each public table, its columns.
        done: how it came; None: nothing was read.
    """

    plans: list[Plan]
    payloads: list[str]
    columns: list[list[ResultColumn]]
    public: list[list[list[Any]]]
    done: Performed | None


@dataclass(frozen=True, kw_only=True)
class Outer:
    """A statement over private answers, planned.

    Attributes:
        prices: of each part, for its share.
        plain, barred: the outer part without error columns, and with them.
        barred_text: the latter, printed.
        outer: the former, as a tree.
        public: the public tables that it reads.
    """

    prices: tuple[Price, ...]
    public: tuple[PublicRows, ...] = ()
    outer: exp.Query
    plain: str
    barred: Barred
    barred_text: str

    @property
    def plans(self) -> list[Plan]:
        """The plan of each part, in the order of the text."""
        return [price.plan for price in self.prices]

    @property
    def caveat(self) -> str | None:
        """What a reader of the figures must know wherever they go."""
        return next((c for c in map(plan_caveat, self.plans) if c is not None), None)

    @property
    def shown(self) -> str:
        """The outer part for people."""
        names = [[name for name, _, _ in describe_outputs(plan)] for plan in self.plans]
        return shown_outer(self.outer, names, [rows.table.name for rows in self.public])

    # ---- as SQL -------------------------------------------------------------------------------------------------

    def columns(self, *, intervals: bool) -> list[Columns]:
        """(name, type) of the columns of each part's table, outputs, then their errors; and of each public table."""
        found = []
        for number, plan in enumerate(self.plans):
            shape = describe_outputs(plan)
            part = [(column_name(i), kind) for i, (_, kind, _) in enumerate(shape)]
            noisy = [i for i, (_, _, released) in enumerate(shape) if released] if intervals else []
            part += [(f"{column_name(i)}_{suffix}", "DOUBLE") for i in noisy for suffix in SUFFIXES]
            beside = self._beside(number) if intervals else []
            part += [(name, "DOUBLE") for name in dict.fromkeys(n for b in beside for n in b.names)]
            found.append(part)
        return found + [[(c.name, c.type) for c in rows.columns] for rows in self.public]

    def _beside(self, number: int) -> list[Beside]:
        """What stands beside the figures of a part."""
        return [one for one in self.barred.beside if one.part == number]

    def text(self, selects: Sequence[str], *, intervals: bool) -> str:
        """The SELECT over the answers that these SELECTs give."""
        return with_tables(self.barred_text if intervals else self.plain, selects, len(self.public))

    # ---- what is charged ----------------------------------------------------------------------------------------

    def release(self, desk: Desk, statement: str, *, fresh: bool, nonce: str | None = None) -> Released:
        """Charge for all parts, once, and read and store each; or what was stored before.

        Raises:
            CatalogError: C103, C104, C108: a public table is not as it was, or cannot be read. BudgetError: B1xx.
        """
        public = [desk.public_values(rows.table, rows.columns) for rows in self.public]  # before it is paid for
        plans = self.plans
        task, done = task_of(plans), None
        if task is not None:
            tables, once = [plan.query.table for plan in plans if plan.reads], [plan.once for plan in plans]
            earlier = task_of(once)
            before = [] if once == plans or earlier is None else [earlier]
            done = desk.perform(
                task,
                table=tables[0],
                others=tables[1:],
                statement=statement,
                fresh=fresh,
                nonce=nonce,
                before=before,
            )
            plans = once if done.earlier else plans
        payloads = with_sums(plans, payloads_of(plans, None if done is None else done.payload))
        columns = [answer_columns(p, one) for p, one in zip(plans, payloads, strict=True)]
        return Released(plans=plans, payloads=payloads, columns=columns, public=public, done=done)

    def crossing(self, desk: Desk, released: Released, *, intervals: bool) -> Result:
        """The columns of all parts side by side, as :meth:`columns` has them; each part has rows of its own."""
        values = [[v for _, _, v in Result(columns=c).typed(intervals=intervals)] for c in released.columns]
        for number, own in enumerate(values if intervals else ()):
            beside = self._beside(number)
            added = beside_columns(released.plans[number], released.payloads[number], beside)
            names = [name for one in beside for name in one.names]
            own += dict(zip(names, added, strict=True)).values()
        values += released.public
        found = [
            ResultColumn(name=name, type=kind, values=column)
            for part, columns in zip(self.columns(intervals=intervals), values, strict=True)
            for (name, kind), column in zip(part, columns, strict=True)
        ]
        return self.told(desk, found, released)

    def told(self, desk: Desk, columns: Sequence[ResultColumn], released: Released) -> Result:
        """A result with its cost and notes."""
        notes = [note for plan in released.plans for note in plan_notes(plan)]
        notes = list(dict.fromkeys([*notes, *few_groups(self.outer, released.plans), *_without_ends(columns)]))
        done = released.done
        if done is None:
            source = "known without the data" if self.prices else "public tables"
            return Result(columns=columns, source=source, remaining=desk.remaining_text(), notes=notes)
        loss = total([plan.loss for plan in self.plans if plan.reads])
        return desk.dress(columns, loss, done, notes=notes, caveat=self.caveat)

    # ---- at once ------------------------------------------------------------------------------------------------

    def answer(self, desk: Desk, front: Runs, statement: str, *, fresh: bool) -> Result:
        """The statement's result: bound before the charge, computed after it.

        Raises:
            QueryError: Q105, DuckDB refuses the outer part, or an operation of it on released figures fails.
        """
        columns = self.columns(intervals=True)
        named = front.bound(self.text([_empty(part) for part in columns], intervals=True))
        released = self.release(desk, statement, fresh=fresh)
        crossing = self.crossing(desk, released, intervals=True)
        rows = front.over(crossing.columns, columns, lambda selects: self.text(selects, intervals=True))
        shown = self._shown(named, rows, released.columns)
        return self.told(desk, shown, released)

    def _shown(
        self, named: Columns, rows: list[tuple[Any, ...]], parts: list[list[ResultColumn]]
    ) -> list[ResultColumn]:
        """The outputs, with the errors of those that are released figures."""
        width = len(named) - len(SUFFIXES) * len(self.barred.figures)
        values = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in named]
        bars = iter(range(width, len(named), len(SUFFIXES)))
        found = []
        for place, (name, kind) in enumerate(named[:width]):
            figures = self.barred.figures.get(place)
            estimates = None
            if figures is not None:
                start = next(bars)
                own = [e for f in figures for e in parts[f.part][f.place].estimates or []]
                errors = zip(*(values[start + i] for i in range(len(SUFFIXES))), strict=True)
                of = _computed if place in self.barred.made else _estimate
                estimates = [of(v, e, own) for v, e in zip(values[place], errors, strict=True)]
            found.append(ResultColumn(name=name, type=kind, values=values[place], estimates=estimates))
        return found

    # ---- in words -----------------------------------------------------------------------------------------------

    def explanation(self, desk: Desk) -> Explanation:
        """The plan of each release, its share, and what follows for free."""
        loss = total([plan.loss for plan in self.plans if plan.reads])
        each = [explain_price(price, "") for price in self.prices]
        many = len(each) > 1
        lines = [
            f"  {f'{i}: ' if many and line[0] != ' ' else ''}{line}"
            for i, plan in enumerate(self.plans, 1)
            for line in describe_plan(plan)
        ]
        released = sum(not plan.derived for plan in self.plans)
        plural = "" if released == 1 else "s"
        head = f"{released} release{plural}, charged together, {loss}" if many else "a query over an answer"
        after = "then, free, on the analyst's own instance" if each else "free, on the analyst's own instance"
        read = ", ".join(rows.table.name for rows in self.public)
        after += f", with the rows of public {read}: {self.shown}" if read else f": {self.shown}"
        return Explanation(
            plan=drawn([head, *lines, f"  {after}"]) if each else after,
            cost=str(loss) if loss.epsilon_nano else "nothing",
            errors={_numbered(n, i, many=many): w for i, one in enumerate(each, 1) for n, w in one.errors.items()},
            formulas={_numbered(n, i, many=many): f for i, one in enumerate(each, 1) for n, f in one.formulas.items()},
            remaining=desk.remaining_text(loss),
            notes=list(dict.fromkeys([*(n for one in each for n in one.notes), *few_groups(self.outer, self.plans)])),
        )


def plan_outer(apart: Apart, terms: Terms, neighbours: Neighbours) -> Outer:
    """Plan a statement over private answers.

    Raises:
        QueryError, ParameterError: as :func:`duckdp.compiler.outer.several.plan_parts`.
    """
    prices = plan_parts(apart.parts, terms, neighbours)
    released = [_figures(price.plan) for price in prices]
    plain = printed_outer(apart.outer)
    barred, barred_text = _barred(apart.outer, released)
    return Outer(
        prices=tuple(prices),
        outer=apart.outer,
        plain=plain,
        barred=barred,
        barred_text=barred_text or plain,
        public=apart.public,
    )


def _figures(plan: Plan) -> list[bool | None]:
    """Of each output whether it is a figure with an interval, follows from noise without one (None), or is a key."""
    shape = describe_outputs(plan)
    made = [any(isinstance(n, Aggregate) for n in walk(o.expr)) for o in plan.query.outputs]
    return [released or (None if noisy else False) for (_, _, released), noisy in zip(shape, made, strict=True)]


def _barred(outer: exp.Query, released: Figures) -> tuple[Barred, str]:
    """The outer part with error columns, printed; of what is computed only where that is no long text."""
    barred = with_bars(outer, released)
    if barred.made:
        with suppress(QueryError):
            text = printed_outer(barred.outer)
            if len(text) <= MOST_PRINTED:
                return barred, text
        barred = with_bars(outer, released, computed=False)
    return barred, printed_outer(barred.outer) if barred.figures else ""


def _numbered(name: str, number: int, *, many: bool) -> str:
    return f"{name} ({number})" if many else name


def _empty(columns: Columns) -> str:
    """A typed table without rows."""
    items = ", ".join(f"CAST(NULL AS {plain_type(kind)}) AS {quote(name)}" for name, kind in columns)
    return f"SELECT {items} WHERE false"


def _without_ends(columns: Sequence[ResultColumn]) -> list[str]:
    """Of which outputs some values have no interval, where they are computed; such a value may be infinite or NaN."""
    found = []
    for column in columns:
        rows = [estimate.note == NO_END for estimate in column.estimates or ()]
        if any(rows):
            some = "" if all(rows) else f" in {sum(rows):,} of {len(rows):,} rows"
            found.append(f"{column.name}: {NO_END}{some}")
    return found


def _computed(value: Any, errors: tuple[Any, ...], _: Sequence[Estimate]) -> Estimate:
    error, low, high = errors
    if value is None or low is None or high is None:
        return Estimate(value=value, exact=False, note=NO_END)
    return Estimate(value=value, standard_error=error, low=low, high=high, exact=False)


def _estimate(value: Any, errors: tuple[Any, ...], own: Sequence[Estimate]) -> Estimate:
    error, low, high = errors
    if value is None or low is None:
        return next((e for e in own if e.value is None), Estimate(value=value))
    like = [e for e in own if e.value is not None]
    exact, note = all(e.exact for e in like), next((e.note for e in like if e.note is not None), None)
    return Estimate(value=value, standard_error=error, low=low, high=high, exact=exact, note=note)
