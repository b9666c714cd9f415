"""An analyst's release that goes on question by question: charged once, each answer stored before it leaves.

One holder at a time: until :meth:`Interaction.close`, or until the process is gone; then anybody who asks for the same
release goes on with it, from the answers and the secret state that are stored.
"""

from __future__ import annotations

import hashlib
import json
from types import TracebackType
from typing import TYPE_CHECKING

from duckdp.core.task import Dialogue, Interactive, Question, Step
from duckdp.desk.asking import call_text, charged
from duckdp.desk.laundering import laundered
from duckdp.errors import CatalogError, DuckDPError
from duckdp.ledger import Charge, ChargeRequest, Claim, StoredStep
from duckdp.ledger.interactions import has_ended
from duckdp.texts import storable

if TYPE_CHECKING:
    from duckdp.catalog.table import Table
    from duckdp.session import Session


def begin(session: Session, task: Interactive, *, table: Table, statement: str, unique: str) -> Interaction:
    """See :meth:`duckdp.faces.holding.Holding.interact`."""
    curator = session._curator
    state = curator.require_current()
    identity = json.dumps([task.canonical, state.data_version, task.mechanism, "interactive", unique])
    request = ChargeRequest(
        analyst=session.analyst, key=_digest(identity), loss=task.loss, mechanism=task.mechanism,
        parameters=json.dumps(task.parameters), statement=storable(statement), data_version=state.data_version,
        catalog_version=curator.version_of(table),
        reservation=session.reservation_id,
    )  # fmt: skip
    claim = Claim()
    try:
        return Interaction(session, table, curator.ledger.take_up(request, task.begin(), claim), claim)
    except BaseException:
        claim.end()
        raise


class Interaction:
    """An interactive release in hand. Use :meth:`duckdp.faces.holding.Holding.interact`.

    Attributes:
        charge_id: of its charge.
    """

    def __init__(self, session: Session, table: Table, charge: Charge, claim: Claim) -> None:
        self._session, self._table, self._charge, self._claim = session, table, charge, claim
        self.charge_id = charge.id
        curator, ledger = session._curator, session._curator.ledger

        def past() -> tuple[list[tuple[str, Step]], bool]:
            steps, ended = ledger.past(charge)
            return [(step.question, Step(output=step.output, secret=step.secret)) for step in steps], ended is not None

        def keep(number: int, question: str, step: Step) -> tuple[str, bool]:
            stored = StoredStep(question=question, output=step.output, secret=step.secret)
            return ledger.store_step(charge, number, stored, last=step.last)

        self._dialogue = Dialogue(lambda query: curator.engine.run(query, charge), past=past, keep=keep, key=_digest)

    def ask(self, question: Question) -> str:
        """The output of a question; of an equal one that was asked before, the stored output.

        Raises:
            BudgetError: B103 frozen or revoked, B108 the release has ended and never answered this.
            CatalogError: C103, C104, declarations or data are no longer those of the release.
            LedgerError: B206, somebody else went on with it.
            ExecutionError: E101, E103; nothing left, and asking again is free.
        """
        with self._session.asking(lambda: call_text("ask", [question.canonical], {})):
            charged(self.charge_id)  # noted is what it is refused, and what fails
            return self._ask(question)

    def _ask(self, question: Question) -> str:
        self._require_same_data()
        problem: DuckDPError | None = None
        output: str | None = None
        try:
            output = self._dialogue.ask(question)
        except BaseException as error:  # noqa: BLE001 - text, cause, context and frames of any other may hold rows
            problem = laundered(error, self.charge_id, "E103")
        if problem is not None:
            raise problem
        if output is None:
            raise has_ended(self.charge_id)
        return output

    def close(self) -> None:
        """Let others go on with the release; again is harmless."""
        self._claim.end()
        self._session._curator.ledger.let_go(self._charge)

    def end(self, reason: str = "ended by the analyst") -> None:
        """End the release for good: it answers nothing new. The charge stays spent."""
        self._session.require_grant()
        self._session._curator.ledger.end_interaction(self.charge_id, reason, by_owner=False)

    def __enter__(self) -> Interaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<duckdp interactive release, charge {self.charge_id}>"

    def _require_same_data(self) -> None:
        session = self._session
        session.require_grant()
        if session._curator.require_current().data_version != self._charge.data_version:
            raise CatalogError("C104", "the data set has a new version since this release began. Begin a new one.")
        session._curator.version_of(self._table)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
