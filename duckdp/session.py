"""One analyst's way to answers: text, plan, charge, private read, noise, release. The order is law.

    text --parse--> statement --read_select--> Query --make_plan--> Plan --ledger.admit--> Charge (durable)
        --engine.run--> exact rows --task.release--> payload --store_release--> Result

A stage takes only what the stage before it gives. What was released before is given again for free.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duckdp.compiler.answers import answer_columns, known_answer
from duckdp.compiler.notes import plan_caveat, plan_notes
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.plan import MechanismChoice, Plan
from duckdp.compiler.release import SelectTask
from duckdp.compiler.select import Query, read_select
from duckdp.core.accountant import cost, how_many
from duckdp.core.task import Stages, Task, Work
from duckdp.core.types import Loss, Neighbours
from duckdp.core.watch import Watch
from duckdp.desk.asking import charged, given_again, leave_out, noted_text
from duckdp.desk.laundering import laundered
from duckdp.errors import CatalogError, DuckDPError, ParameterError
from duckdp.faces.calls import Calls
from duckdp.faces.holding import Holding
from duckdp.functions.explanation import Explanation
from duckdp.functions.releases import Select
from duckdp.functions.spec import FUNCTIONS
from duckdp.ledger import Charge, ChargeRequest, ChargeRow, Claim, ObjectRow, StoredRelease
from duckdp.ledger.types import Kind
from duckdp.result import Result, ResultColumn
from duckdp.texts import storable

if TYPE_CHECKING:
    from duckdp.catalog.table import Table
    from duckdp.curator import Curator
    from duckdp.smooth.summary import SmoothSummary


@dataclass(frozen=True, kw_only=True)
class Performed:
    """A release in hand: its payload and how it came."""

    payload: str
    charge_id: int
    stored: bool


class Session(Calls, Holding):
    """What one analyst may do. Made by ``Curator.session``; not a security boundary inside the curator's process.

    Args:
        curator: whose data.
        analyst: whose budget; fixed for life.
    """

    def __init__(self, curator: Curator, analyst: str) -> None:
        self._curator = curator
        self.analyst = analyst

    @noted_text()
    def sql(
        self, text: str, *, epsilon: object = None, delta: object = 0, error: float | Mapping[str, float] | None = None,
        mechanism: MechanismChoice = "auto", fresh: bool = False, tolerance: float | Mapping[str, float] | None = None,
        parameters: Sequence[object] = (),
    ) -> Result:  # fmt: skip
        """Answer one statement privately; a statement over no protected table runs on the analyst's own instance.

        Args:
            text: one SELECT over one protected table.
            epsilon: what the whole statement costs, as text or number; else what the session has SET.
            delta: for Gaussian noise and for keys without a declared domain.
            error: in place of epsilon: the widest acceptable 95% half-width, for all outputs or by name.
            mechanism: "auto" (least error), "laplace" or "gaussian".
            fresh: pay again for a new answer instead of getting the stored one.
            tolerance: answer for free from a summary bought before, where its 95% half-width is at most this, for all
                outputs or by name; the result names it as its source. Else the statement is charged.
            parameters: values of ? and $1.

        Raises:
            QueryError, ParameterError: refused; nothing was read or charged.
            InsufficientBudgetError: B101; nothing was read or charged.
            ExecutionError: E1xx; the charge stays.
        """
        self.require_grant()
        _require_text(text)
        if not self._curator.names_protected(text):
            leave_out()
            return self._curator.front(self.analyst).sql(text)
        return self._select(locals()).plan(self).run(secrets.token_hex(16))

    @noted_text("EXPLAIN ", "explained")
    def explain(
        self, text: str, *, epsilon: object = None, delta: object = 0, error: float | Mapping[str, float] | None = None,
        mechanism: MechanismChoice = "auto", tolerance: float | Mapping[str, float] | None = None,
        parameters: Sequence[object] = (),
    ) -> Explanation:  # fmt: skip
        """Plan, cost and expected error of a statement, and with a tolerance which way it goes and why; free."""
        return self._select(locals()).explanation(self)

    def _select(self, given: Mapping[str, object]) -> Select:
        return Select(**self._read(FUNCTIONS["dp_query"], given))

    def answer(self, plan: Plan, *, statement: str, fresh: bool = False, nonce: str | None = None) -> Result:
        """A SELECT's answer: charged, stored before, or known without the data."""
        if not plan.measures:
            return known_answer(plan, self.remaining_text())
        task = SelectTask(plan=plan)
        done = self.perform(task, table=plan.query.table, statement=statement, fresh=fresh, nonce=nonce)
        return self.result(plan, done)

    def perform(
        self, task: Task, *, table: Table, statement: str, fresh: bool = False, kind: Kind = "query",
        name: str | None = None, nonce: str | None = None,
    ) -> Performed:  # fmt: skip
        """Charge, read, noise, store: the one way to private rows.

        A task of several stages stores each of them before the next is read; a retry goes on from there.

        Args:
            task: what to release.
            table: the declaration it was planned for.
            statement: for the ledger, as the analyst wrote it.
            fresh: make this question differ from any before; with a name, pay again where its last charge is final.
                Of a question that costs nothing no second answer is kept: it is public.
            kind: what is stored.
            name: of a summary or synthetic table to store.
            nonce: makes a fresh question the same question when it is retried.
        """
        curator, ledger = self._curator, self._curator.ledger
        state = curator.require_current()
        self._require_own_name(name)
        work = task.work(curator.salt)  # what cannot be printed is refused before the charge
        fresh = fresh and task.loss != Loss(epsilon_nano=0)
        unique = (nonce or secrets.token_hex(16)) if fresh and name is None else ""
        identity = json.dumps([task.canonical, state.data_version, task.mechanism, kind, name, unique])
        request = ChargeRequest(
            analyst=self.analyst, key=hashlib.sha256(identity.encode()).hexdigest(), loss=task.loss,
            mechanism=task.mechanism, parameters=json.dumps(task.parameters), statement=storable(statement),
            kind=kind, name=name, data_version=state.data_version, catalog_version=curator.version_of(table),
            again=fresh and name is not None, reservation=self.reservation_id,
        )  # fmt: skip
        claim, watch = Claim(), Watch()
        try:
            curator.life.begin(claim)
            with curator.engine.watched(watch):  # whoever waits for an equal question is interrupted too
                admitted = ledger.admit(request, claim=claim, check=watch.check)
            if isinstance(admitted, StoredRelease):
                given_again(admitted.charge_id)
                return Performed(payload=admitted.payload, charge_id=admitted.charge_id, stored=True)
            charged(admitted.id)
            return self._release(admitted, work)
        finally:
            curator.life.end(claim)  # from here on an equal question may redeem the charge, if there is one

    def _release(self, charge: Charge, work: Work) -> Performed:
        """Read, noise, store."""
        curator, ledger, problem = self._curator, self._curator.ledger, None
        stages = Stages(
            lambda query: curator.engine.run(query, charge), stored=lambda: ledger.stages(charge),
            keep=lambda number, payload: ledger.store_stage(charge, number, payload),
        )  # fmt: skip
        try:
            stored = ledger.store_release(charge, work(stages))
        except BaseException as error:  # noqa: BLE001 - text, cause, context and frames of any other may hold rows
            problem = curator.life.told(laundered(error, charge.id), charge.id)
        if problem is not None:
            with suppress(DuckDPError):  # full disk, closed: that its claim ended is seen without a word too
                ledger.fail(charge)  # the charge stays; an equal question may redeem it
            raise problem
        return Performed(payload=stored.payload, charge_id=charge.id, stored=False)

    def complete(self, done: Performed, watch: Watch | None = None) -> Performed:
        """A synthetic table's release with its rows; made now if they are not, and stored: all readers get the same.

        Raises:
            NumericalError: N101. CatalogError: C105, damaged. Whatever ends this work, the release stays.
        """
        from duckdp.synthetic.stored import complete, is_table

        if not is_table(done.payload):
            return done
        made = complete(done.payload, watch)
        if made == done.payload:
            return done
        return replace(done, payload=self._curator.ledger.finish_release(done.charge_id, made).payload)

    def completed(self, name: str, watch: Watch | None = None) -> Performed:
        """A stored summary or synthetic table, complete as :meth:`complete` makes it; free.

        Raises:
            CatalogError: C110; and as :meth:`complete`.
        """
        found = self._curator.ledger.object(self.analyst, name[:64])
        done, watch = Performed(payload=found.payload, charge_id=found.charge_id, stored=True), watch or Watch()
        with self.watched(watch):
            return self.complete(done, watch)

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[None]:
        """While it lasts, what interrupts private reads ends post-processing too, and the shell hears of progress."""
        if watch.progress is None:
            watch.progress = self._curator.on_progress
        with self._curator.engine.watched(watch):
            yield

    def result(self, plan: Plan, done: Performed) -> Result:
        """A SELECT's answer from its release."""
        columns = answer_columns(plan, done.payload)
        return self.dress(columns, plan.loss, done, notes=plan_notes(plan), caveat=plan_caveat(plan))

    def dress(
        self, columns: Sequence[ResultColumn], loss: Loss, done: Performed, *, notes: Sequence[str] = (),
        caveat: str | None = None,
    ) -> Result:  # fmt: skip
        """An answer with its cost, source and what is left."""
        free = done.stored or loss.epsilon_nano == 0
        return Result(
            columns=columns, cost="nothing" if free else str(loss),
            source=f"{'stored release of ' if done.stored else ''}charge {done.charge_id}",
            remaining=self.remaining_text(loss), notes=notes, caveat=caveat,
        )  # fmt: skip

    def remaining_text(self, loss: Loss | None = None) -> str:
        """What the analyst can still spend, and about how many such queries that is."""
        left = self._curator.ledger.remaining(self.analyst, self.reservation_id)
        text = left.sentence
        if loss is not None and loss.epsilon_nano:
            accountant = self._curator.ledger.state().accountant
            assert accountant is not None
            n = how_many(accountant, (left.primary, left.secondary), cost(accountant, loss))
            text += f", about {n:,} such {'query' if n == 1 else 'queries'}" if n is not None else ""
        return text

    # ---- what the dp functions need -----------------------------------------------------------------------------

    def summary(self, name: str, category: str | None = None) -> SmoothSummary:
        """A stored summary of the analyst's, or one shared with them; of a grouped one, that of a category.

        Raises:
            CatalogError: C110, unknown or somebody else's. ParameterError: P107, category.
        """
        # names are shorter than 64: a longer one is as unknown by its beginning, which is all that the error repeats
        from duckdp.smooth.payloads import open_stored
        from duckdp.synthetic.stored import summary_of

        return open_stored(summary_of(self.stored(name)), category, strict=True)

    def stored(self, name: str) -> str:
        """The payload of a stored summary or synthetic table.

        Raises:
            CatalogError: C110.
        """
        return self._curator.ledger.object(self.analyst, name[:64]).payload

    def usable_summaries(self, table: Table) -> list[tuple[str, SmoothSummary]]:
        """Stored summaries of a table's present data that the analyst may use, by name."""
        ledger = self._curator.ledger
        version = self._curator.require_current().data_version
        rows = ledger.objects(self.analyst)
        named = [row.name for row in rows if row.ready and row.data_version == version]
        found = []
        for name in dict.fromkeys(named):
            # a grouped summary speaks of no whole table; a synthetic table or an older version's payload holds none
            with suppress(ParameterError, CatalogError):
                found.append((name, self.summary(name)))
        return [(name, summary) for name, summary in found if summary.table == table.name]

    def budget_rows(self) -> list[tuple[str, ...]]:
        """(analyst, scope, granted, spent, remaining) as text: what can be spent now, then other limits one by one."""
        ledger = self._curator.ledger
        own, *others = ledger.limits(self.analyst)
        left = ledger.remaining(self.analyst).text
        rows: list[tuple[str, ...]] = [(self.analyst, own.scope, str(own.granted), own.spent, left)]
        for row in others:
            scope = row.scope if row.month is None else f"{row.scope}, {row.month}"
            rows.append((self.analyst, scope, str(row.granted), row.spent, row.remaining))
        return rows

    def count_charges(self) -> int:
        """How many charges the analyst has."""
        return self._curator.ledger.count_charges(self.analyst)

    def own_charges(self, limit: int | None = None, before: int | None = None) -> Sequence[ChargeRow]:
        """The analyst's charges, oldest first; with a limit the last so many, before an id if one is given."""
        return self._curator.ledger.charges(self.analyst, limit=limit, before=before)

    def objects(self, limit: int, after: str) -> Sequence[ObjectRow]:
        """Stored objects of the analyst, then those shared with them, by name."""
        return self._curator.ledger.objects(self.analyst, limit=limit, after=after)

    def read(self, text: str, parameters: Sequence[object] = ()) -> Query:
        """Validate a statement over a protected table."""
        _require_text(text)
        if not isinstance(parameters, (list, tuple)):
            raise ParameterError("P107", "parameters", parameters, "must be a list of the values of ? and $1.")
        return read_select(parse_statement(text), self.tables(), text, parameters)

    def tables(self) -> Mapping[str, Table]:
        """Protected tables by lower-case name."""
        self.require_grant()
        return self._curator.tables

    def table(self, name: object) -> Table:
        """A protected table by name.

        Raises:
            BudgetError: B102, B103. CatalogError: C101.
        """
        self.require_grant()
        return self._curator.table(name)

    def same_as(self, other: Session) -> bool:
        """Whether both speak for one analyst before one curator."""
        return self._curator is other._curator and self.analyst == other.analyst

    @property
    def neighbours(self) -> Neighbours:
        """Relation of the data set."""
        return self._curator.require_budget()

    def _require_own_name(self, name: str | None) -> None:
        """A protected table's name means that table, so what is stored by it could never be read by name.

        Raises:
            CatalogError: C111; not of a name that was given before.
        """
        ledger = self._curator.ledger
        if name is not None and name in self._curator.tables and not ledger.knows(self.analyst, name):
            raise CatalogError("C111", f'the name "{name}" is that of a protected table. Choose another.')

    def require_grant(self) -> None:
        """B102, B103, B107 unless the analyst may ask now; before any name is looked at, anything remembered given."""
        self._curator.ledger.require_open(self.analyst)


def _require_text(text: object) -> None:
    if not isinstance(text, str):
        raise ParameterError("P107", "text", text, "must be the text of one statement.")
