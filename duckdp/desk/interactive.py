"""An analyst's release that goes on question by question: charged once, each answer stored before it leaves.

One holder at a time: until :meth:`Interaction.close`, or until the process is gone; then anybody who asks for the same
release goes on with it, from the answers and the secret state that are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duckdp.arguments import from_caller
from duckdp.catalog.table import Table
from duckdp.core.steps import Steps, StoredStep
from duckdp.core.task import Dialogue, Interactive, Question, Step
from duckdp.desk.asking import Asking, call_text, charged
from duckdp.desk.charging import charge_request, digest
from duckdp.desk.laundering import laundered
from duckdp.errors import CatalogError, DuckDPError, ParameterError
from duckdp.ledger import Charge, ChargeRequest, ChargeRow, Claim
from duckdp.ledger.interactions import has_ended
from duckdp.process.ending import Closing
from duckdp.vault.dataset import DataSet


def begin(
    data: DataSet,
    analyst: str,
    task: Interactive,
    *,
    table: Table,
    statement: str,
    unique: str,
    reservation: int | None,
) -> Interaction:
    """See :meth:`duckdp.desk.desk.Desk.interact`."""
    request = _request(data, analyst, task, table, statement, unique=unique, reservation=reservation)
    claim = Claim()
    try:
        return Interaction(data, table, data.ledger.take_up(request, task.begin(), claim), claim)
    except BaseException:
        claim.end()
        raise


def open_release(
    data: DataSet,
    analyst: str,
    task: Interactive,
    *,
    table: Table,
    statement: str,
    reservation: int | None,
    check: Callable[[], None],
) -> tuple[int, bool]:
    """The charge of a release that is opened, and whether it had been before; see ``Desk.open_release``."""
    request = _request(data, analyst, task, table, statement, reservation=reservation)
    known = data.ledger.asked(request)
    claim = Claim()
    try:
        held = data.ledger.take_up(request, task.begin(), claim, patience=data.ledger.patience, check=check)
        claim.end()
        data.ledger.let_go(held)
    finally:
        claim.end()
    return held.id, known


def go_on(
    data: DataSet, task: Interactive, charge: ChargeRow, *, table: Table, check: Callable[[], None]
) -> Interaction:
    """See :meth:`duckdp.desk.desk.Desk.go_on`."""
    request, claim = _same(data, task, charge, table), Claim()
    try:
        data.life.begin(claim)
        held = data.ledger.take_up(request, None, claim, patience=data.ledger.patience, check=check)
        return Interaction(data, table, held, claim)
    except BaseException:
        data.life.end(claim)
        raise


def answers(
    data: DataSet, task: Interactive, charge: ChargeRow, questions: Sequence[Question], *, table: Table
) -> list[str] | None:
    """See :meth:`duckdp.desk.desk.Desk.ask_on`."""
    _same(data, task, charge, table)
    data.version_of(table)
    found = [data.ledger.answered(charge.id, digest(question.canonical)) for question in questions]
    return None if None in found else [output for output in found if output is not None]


def _same(data: DataSet, task: Interactive, charge: ChargeRow, table: Table) -> ChargeRequest:
    """The request of a release's charge, if declarations and data are what they were.

    Raises:
        CatalogError: C103, C104.
    """
    if data.require_current().data_version != charge.data_version:
        raise _outdated()
    request = _request(data, charge.analyst, task, table, charge.statement)
    if request.key != charge.key:
        raise CatalogError("C103", "the declarations changed since this release began. Begin a new one.")
    return request


class Interaction(Closing):
    """An interactive release in hand. Use :meth:`duckdp.desk.desk.Desk.interact`.

    Attributes:
        charge_id: of its charge.
    """

    def __init__(self, data: DataSet, table: Table, charge: Charge, claim: Claim) -> None:
        self._data, self._table, self._charge, self._claim = data, table, charge, claim
        self.charge_id = charge.id
        ledger = data.ledger

        def past() -> tuple[Steps, bool]:
            steps, ended = ledger.past(charge)
            return steps, ended is not None

        def keep(number: int, question: str, step: Step) -> tuple[str, bool]:
            stored = StoredStep(question=question, output=step.output, secret=step.secret)
            return ledger.store_step(charge, number, stored, last=step.last)

        self._dialogue = Dialogue(lambda query: data.engine.run(query, charge), past=past, keep=keep, key=digest)

    def ask(self, question: Question) -> str:
        """The output of a question; of an equal one that was asked before, the stored output.

        Raises:
            BudgetError: B103 frozen or revoked, B108 the release has ended and never answered this.
            CatalogError: C103, C104, declarations or data are no longer those of the release.
            LedgerError: B206, somebody else went on with it.
            ExecutionError: E101, E103; nothing left, and asking again is free.
        """
        asked = Asking(
            self._data.ledger.statements, self._charge.analyst, lambda: call_text("ask", [question.canonical], {})
        )
        with asked:
            charged(self.charge_id)  # noted is what it is refused, and what fails
            return self.reply(question)

    def reply(self, question: Question) -> str:
        """As :meth:`ask`, within a statement that is noted already."""
        self._require_same_data()
        problem: DuckDPError | None = None
        output: str | None = None
        try:
            with self._data.engine.reading(self._charge, (self._table,)):
                output = self._dialogue.ask(question)
        except BaseException as error:  # noqa: BLE001 - see laundered
            problem = laundered(error, self.charge_id, "E103")
        if problem is not None:
            raise problem
        if output is None:
            raise has_ended(self.charge_id)
        return output

    def close(self) -> None:
        """Let others go on with the release; again is harmless."""
        self._data.life.end(self._claim)
        self._data.ledger.let_go(self._charge)

    def end(self, reason: str = "ended by the analyst") -> None:
        """End the release for good: it answers nothing new. The charge stays spent."""
        self._data.ledger.require_open(self._charge.analyst)
        self._data.ledger.end_interaction(self.charge_id, reason, by_owner=False)

    def __repr__(self) -> str:
        return f"<duckdp interactive release, charge {self.charge_id}>"

    def _require_same_data(self) -> None:
        self._data.ledger.require_open(self._charge.analyst)
        if self._data.require_current().data_version != self._charge.data_version:
            raise _outdated()
        self._data.version_of(self._table)


def _request(
    data: DataSet,
    analyst: str,
    task: Interactive,
    table: Table,
    statement: str,
    *,
    unique: str = "",
    reservation: int | None = None,
) -> ChargeRequest:
    _require_task(task)
    data.engine.require(task, data.salt, (table,))
    return charge_request(
        data,
        analyst,
        task,
        beside=("interactive", unique),
        table=table,
        statement=statement,
        state=data.require_current(),
        reservation=reservation,
    )


def _outdated() -> CatalogError:
    return CatalogError("C104", "the data set has a new version since this release began. Begin a new one.")


def _require_task(task: object) -> None:
    """Nothing, if it has what every task has."""
    if from_caller(isinstance, task, Interactive) is not True:
        rule = "must be a task with canonical, loss, mechanism, parameters and begin (core/task.py)."
        raise ParameterError("P107", "task", task, rule)
