"""What a session holds for long: headroom of its budget, and releases that go on question by question."""

from __future__ import annotations

import secrets
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from duckdp.core.task import Interactive
from duckdp.core.types import parse_delta, parse_epsilon
from duckdp.desk.asking import charged, noted
from duckdp.desk.interactive import Interaction, begin
from duckdp.ledger import Reservation

if TYPE_CHECKING:
    from duckdp.catalog.table import Table
    from duckdp.session import Session


class Holding:
    """Methods of ``Session``.

    Attributes:
        reservation: within which its charges are made, if any.
    """

    reservation: Reservation | None = None

    @noted("reserved", prefix="")
    def reserve(self, *, epsilon: object, delta: object = 0) -> Self:
        """Hold headroom of all limits of the analyst, so that nobody else's charges can take it; no charge.

        Ask the session that this gives: its charges are made within what is held, as they come. What it did not use is
        free again when it ends (``with``, or :meth:`give_up`) or its process does. A connection (``connect``) is not
        within it.

        Raises:
            InsufficientBudgetError: B101. BudgetError: B103, B109.
        """
        session = self._holder
        held = session._curator.ledger.reserve(
            session.analyst, epsilon_nano=parse_epsilon(epsilon, total=True), delta_atto=parse_delta(delta)
        )
        within = type(session)(session._curator, session.analyst)
        within.reservation = held
        return cast("Self", within)

    def give_up(self) -> None:
        """End the reservation, if there is one; again is harmless."""
        if self.reservation is not None:
            self._holder._curator.ledger.end_reservation(self.reservation)

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
        with self._holder.asking(statement):
            found = begin(self._holder, task, table=table, statement=statement, unique=unique)
            charged(found.charge_id)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_up()

    @property
    def reservation_id(self) -> int | None:
        """Of the reservation within which charges are made."""
        return None if self.reservation is None else self.reservation.id

    @property
    def _holder(self) -> Session:
        return cast("Session", self)
