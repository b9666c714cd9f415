"""The one door to private rows: charge, read, noise, store. The order is law.

    task --ledger.admit--> Charge (durable) --engine.run--> exact rows --noise--> payload --store_release--> Performed

What was released before is given again for free (redeemed). Faces and dp functions ask a desk; none of them has the
data set, its engine or its ledger.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from duckdp.catalog.table import Table
from duckdp.compiler.answers import answer_columns, known_answer
from duckdp.compiler.notes import plan_caveat, plan_notes
from duckdp.compiler.plan import Plan, is_small
from duckdp.compiler.release import SelectTask
from duckdp.core.task import Interactive, Question, Stages, Task, Work
from duckdp.core.types import Loss, parse_delta, parse_epsilon
from duckdp.core.watch import Watch
from duckdp.desk.asking import charged, given_again, goes_on
from duckdp.desk.charging import charge_request
from duckdp.desk.interactive import Interaction, answers, begin, go_on, open_release
from duckdp.desk.laundering import laundered
from duckdp.desk.lookups import Lookups
from duckdp.desk.remembered import MOST_TEXT
from duckdp.errors import CatalogError, DuckDPError
from duckdp.ledger import Charge, ChargeRequest, ChargeRow, Claim, Remaining, StoredRelease
from duckdp.ledger.types import Kind
from duckdp.process.importing import importing
from duckdp.result import Result, ResultColumn


@dataclass(frozen=True, kw_only=True)
class Performed:
    """A release in hand: its payload and how it came.

    Attributes:
        left: what the analyst could still spend when it was stored, if that was just now.
        earlier: whether it is of the question as it was once planned.
    """

    payload: str
    charge_id: int
    stored: bool
    left: Remaining | None = None
    earlier: bool = False


class Desk(Lookups):
    """What one analyst may have of a data set. Not a security boundary inside the curator's process.

    Attributes:
        analyst: who asks; fixed for life.
        reservation: within which charges are made, if any.
    """

    # ---- the door -----------------------------------------------------------------------------------------------

    def perform(
        self,
        task: Task,
        *,
        table: Table,
        others: Sequence[Table] = (),
        statement: str,
        fresh: bool = False,
        kind: Kind = "query",
        name: str | None = None,
        nonce: str | None = None,
        before: Sequence[Task] = (),
    ) -> Performed:
        """Charge, read, noise, store: the one way to private rows.

        A task of several stages stores each of them before the next is read; a retry goes on from there.

        Args:
            task: what to release.
            table: the declaration it was planned for.
            others: further ones, of a task in parts.
            statement: for the ledger, as the analyst wrote it.
            fresh: make this question differ from any before; with a name, pay again where its last charge is final.
                Of a question that costs nothing no second answer is kept: it is public.
            kind: what is stored.
            name: of a summary or synthetic table to store.
            nonce: makes a fresh question the same question when it is retried.
            before: the same words as they were once planned: what was charged for so is given, and not paid again.

        Raises:
            CatalogError: C103, C104, C111. BudgetError, LedgerError: B1xx, B2xx; nothing was read.
            ExecutionError: E1xx; the charge stays.
        """
        data = self._data
        state = data.require_current()
        self._require_own_name(name)
        fresh = fresh and task.loss != Loss(epsilon_nano=0)
        unique = (nonce or secrets.token_hex(16)) if fresh and name is None else ""

        def requested(task: Task) -> ChargeRequest:
            return charge_request(
                data,
                self.analyst,
                task,
                beside=(kind, name, unique),
                table=table,
                others=others,
                statement=statement,
                state=state,
                reservation=self.reservation_id,
                kind=kind,
                name=name,
                again=fresh and name is not None,
            )

        today = task
        if before:
            task = next((one for one in (task, *before) if data.ledger.asked(requested(one))), task)
        work, request = task.work(data.salt), requested(task)  # what cannot be printed is refused before the charge
        data.engine.require(task, data.salt, (table, *others))
        claim, watch = Claim(), Watch()
        try:
            data.life.begin(claim)
            with data.engine.watched(watch):  # whoever waits for an equal question is interrupted too
                new = bool(unique) and nonce is None  # what it is named by was drawn just now
                admitted = data.ledger.admit(request, claim=claim, check=watch.check, new=new)
            if isinstance(admitted, StoredRelease):
                given_again(admitted.charge_id)
                found = Performed(payload=admitted.payload, charge_id=admitted.charge_id, stored=True)
            else:
                charged(admitted.id)
                found = self._release(admitted, work, (table, *others))
            return replace(found, earlier=task is not today)
        finally:
            data.life.end(claim)  # from here on an equal question may redeem the charge, if there is one

    def _release(self, charge: Charge, work: Work, tables: Sequence[Table]) -> Performed:
        """Read, noise, store."""
        data, ledger, problem = self._data, self._data.ledger, None
        stages = Stages(
            lambda query: data.engine.run(query, charge),
            stored=lambda: ledger.stages(charge),
            keep=lambda number, payload: ledger.store_stage(charge, number, payload),
        )
        try:
            with data.engine.reading(charge, tables), data.engine.sharing(charge):
                stored = ledger.store_release(charge, work(stages))
        except BaseException as error:  # noqa: BLE001 - see laundered
            problem = data.life.told(laundered(error, charge.id), charge.id)
        if problem is not None:
            with suppress(DuckDPError):  # full disk, closed: that its claim ended is seen without a word too
                ledger.fail(charge)  # the charge stays; an equal question may redeem it
            raise problem
        left = stored.left if self.reservation is None else None
        return Performed(payload=stored.payload, charge_id=charge.id, stored=False, left=left)

    def _require_own_name(self, name: str | None) -> None:
        """A protected table's name means that table, so what is stored by it could never be read by name.

        Raises:
            CatalogError: C111; not of a name that was given before.
        """
        if name is not None and name in self._data.tables and not self._data.ledger.knows(self.analyst, name):
            raise CatalogError("C111", f'the name "{name}" is that of a protected table. Choose another.')

    def interact(
        self, task: Interactive, *, table: Table, statement: str, fresh: bool = False, nonce: str | None = None
    ) -> Interaction:
        """Charge for a release that goes on question by question, or go on with the one that was charged for.

        Args:
            task: what to release; equal tasks are one release.
            table: the declaration it was planned for.
            statement: for the ledger, as the analyst wrote it.
            fresh: begin another one.
            nonce: makes a fresh one the same when it is retried.

        Raises:
            InsufficientBudgetError: B101. LedgerError: B206, somebody else is going on with it.
        """
        unique = (nonce or secrets.token_hex(16)) if fresh else ""
        with self.asking(statement):
            found = begin(
                self._data,
                self.analyst,
                task,
                table=table,
                statement=statement,
                unique=unique,
                reservation=self.reservation_id,
            )
            charged(found.charge_id)
        return found

    def open_release(self, task: Interactive, *, table: Table, statement: str) -> Performed:
        """Charge for a release that goes on question by question (:meth:`go_on`), once; nothing is read.

        Raises:
            InsufficientBudgetError: B101. BudgetError, LedgerError: B1xx, B2xx. CatalogError: C103, C104.
        """
        watch = Watch()
        with self._data.engine.watched(watch):  # whoever waits for its turn is interrupted too
            charge_id, known = open_release(
                self._data,
                self.analyst,
                task,
                table=table,
                statement=statement,
                reservation=self.reservation_id,
                check=watch.check,
            )
        (given_again if known else charged)(charge_id)
        return Performed(payload="", charge_id=charge_id, stored=known)

    def go_on(self, charge: ChargeRow, task: Interactive, *, table: Table) -> Interaction:
        """Go on with a release that was charged for: by the task and the table's declaration as they were, in turn.

        Whoever else goes on with it is waited for. What is asked is a statement that the caller notes
        (:meth:`Interaction.reply`).

        Args:
            charge: of the release, the analyst's own.
            task: made again from what the charge says.
            table: its declaration, as it stands today.

        Raises:
            BudgetError: B103. LedgerError: B206, somebody else is going on with it, for long.
            CatalogError: C103, C104, declarations or data are no longer those of the release.
        """
        watch = Watch()
        with self._data.engine.watched(watch):
            found = go_on(self._data, task, charge, table=table, check=watch.check)
        goes_on(charge.id)
        return found

    def ask_on(self, charge: ChargeRow, task: Interactive, questions: Sequence[Question], *, table: Table) -> list[str]:
        """Outputs of questions to a release that goes on, in their order; see :meth:`go_on`.

        Where all of them were answered before nothing is written, and nobody's turn is taken.

        Raises:
            As :meth:`go_on` and :meth:`Interaction.reply` do.
        """
        known = answers(self._data, task, charge, questions, table=table)
        if known is not None:
            given_again(charge.id)
            return known
        with self.go_on(charge, task, table=table) as talk:
            return [talk.reply(question) for question in questions]

    # ---- what follows from a release ----------------------------------------------------------------------------

    def answer(
        self, plan: Plan, *, statement: str, fresh: bool = False, nonce: str | None = None, bars: bool = True
    ) -> Result:
        """A SELECT's answer: charged, stored before, or known without the data; without ``bars`` its values alone."""
        if not plan.measures:
            return known_answer(plan, self.remaining_text())
        task, before = SelectTask(plan=plan), [SelectTask(plan=one) for one in (plan.unweighted,) if one is not None]
        table = plan.query.table
        done = self.perform(task, table=table, statement=statement, fresh=fresh, nonce=nonce, before=before)
        return self.result(plan.once if done.earlier else plan, done, bars=bars)

    def result(self, plan: Plan, done: Performed, *, bars: bool = True) -> Result:
        """A SELECT's answer from its release."""
        short = len(done.payload) <= MOST_TEXT and is_small(plan.query)
        key = (id(plan), done.payload, bars) if short else None
        # the plan is kept with them, so that no other has its id
        _, columns, notes, caveat = self._answered.recall(
            key, lambda: (plan, answer_columns(plan, done.payload, bars=bars), plan_notes(plan), plan_caveat(plan))
        )
        return self.dress([c.copied() for c in columns], plan.loss, done, notes=notes, caveat=caveat)

    def dress(
        self,
        columns: Sequence[ResultColumn],
        loss: Loss,
        done: Performed,
        *,
        notes: Sequence[str] = (),
        caveat: str | None = None,
    ) -> Result:
        """An answer with its cost, source and what is left."""
        free = done.stored or loss.epsilon_nano == 0
        return Result(
            columns=columns,
            cost="nothing" if free else str(loss),
            source=f"{'stored release of ' if done.stored else ''}charge {done.charge_id}",
            remaining=self.remaining_text(loss, done.left),
            notes=notes,
            caveat=caveat,
        )

    def complete(self, done: Performed, watch: Watch | None = None) -> Performed:
        """A synthetic table's release with its rows; made now if they are not, and stored: all readers get the same.

        Raises:
            NumericalError: N101. CatalogError: C105, damaged. Whatever ends this work, the release stays.
        """
        with importing():
            from duckdp.synthetic.stored import complete, is_table

        if not is_table(done.payload):
            return done
        made = complete(done.payload, watch)
        if made == done.payload:
            return done
        return replace(done, payload=self._data.ledger.finish_release(done.charge_id, made).payload)

    def completed(self, name: str, watch: Watch | None = None) -> Performed:
        """A stored summary or synthetic table, complete as :meth:`complete` makes it; free.

        Raises:
            CatalogError: C110; and as :meth:`complete`.
        """
        found = self._data.ledger.object(self.analyst, name[:64])
        done, watch = Performed(payload=found.payload, charge_id=found.charge_id, stored=True), watch or Watch()
        with self.watched(watch):
            return self.complete(done, watch)

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[None]:
        """While it lasts, what interrupts private reads ends post-processing too, and the shell hears of progress."""
        if watch.progress is None:
            watch.progress = self._data.on_progress
        with self._data.engine.watched(watch):
            yield

    def interrupt(self, who: object = None) -> None:
        """End the private reads under way, and what is made of releases; charges stay. ``who``: of them alone."""
        self._data.engine.interrupt(who)

    # ---- reservations -------------------------------------------------------------------------------------------

    def reserve(self, *, epsilon: object, delta: object) -> Desk:
        """A desk whose charges are made within headroom that is held for it; see ``Session.reserve``.

        Raises:
            InsufficientBudgetError: B101. BudgetError: B103, B109.
        """
        held = self._data.ledger.reserve(
            self.analyst, epsilon_nano=parse_epsilon(epsilon, total=True), delta_atto=parse_delta(delta)
        )
        return Desk(self._data, self.analyst, held)

    def give_up(self) -> None:
        """End the reservation, if there is one; again is harmless."""
        if self.reservation is not None:
            self._data.ledger.end_reservation(self.reservation)
