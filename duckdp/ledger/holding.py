"""The part of the ledger's interface that is about what is held for long: reservations, and interactive releases."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property

from duckdp.core.steps import Steps, StoredStep
from duckdp.ledger import holders, interactions, reservations
from duckdp.ledger.holders import Claim
from duckdp.ledger.keeping import Keeping
from duckdp.ledger.types import Charge, ChargeRequest, Reservation

_SHORTEST, _LONGEST = 0.001, 0.05  # seconds between two looks at whether a release is free to be gone on with


class Holding(Keeping):
    """Methods of ``Ledger``; each is one transaction."""

    @cached_property
    def _steps(self) -> interactions.KnownSteps:
        return interactions.KnownSteps()

    def reserve(self, analyst: str, *, epsilon_nano: int, delta_atto: int) -> Reservation:
        """Hold headroom of all of an analyst's limits: nobody else's charge may take it. It is no charge.

        Charges within it (``ChargeRequest.reservation``) take from it as they are made. What is not used is free again
        when it is ended, its holder is gone, or the object is dropped.

        Raises:
            BudgetError: B101, B102, B103, B107, B109 too many reservations. ParameterError: P102, P107.
        """
        return self._store.write(lambda tx: reservations.reserve(tx, analyst, epsilon_nano, delta_atto))

    def end_reservation(self, reservation: Reservation) -> None:
        """Give up what a reservation still holds; again is harmless."""
        self._store.write(lambda tx: reservations.end(tx, reservation))

    def take_up(
        self,
        request: ChargeRequest,
        secret: str | None,
        claim: Claim | None = None,
        *,
        patience: float = 0.0,
        check: Callable[[], None] = lambda: None,
    ) -> Charge:
        """Charge for an interactive release, or go on with the one that the same request charged for, free.

        One holder at a time goes on with it: until :meth:`let_go`, or until the object is dropped or its process is
        gone. There is no limit to how often it is taken up.

        Args:
            request: for all steps together.
            secret: the state from which all steps begin, drawn from public figures; stored with the charge, and not
                used where there is one already. None: there is one.
            claim: ends the hold where an interrupt falls between it and the caller.
            patience: seconds to wait while somebody else goes on with it.
            check: called again and again while waiting; what it raises ends the wait.

        Returns:
            The charge of this turn, for :meth:`past` and :meth:`store_step`. Where the release has ended nobody holds
            it: what it answered is there to be read.

        Raises:
            BudgetError: B101, B102, B103, B107, B109. CatalogError: C103, C104.
            LedgerError: B206, somebody else is going on with it.
        """
        deadline, pause = time.monotonic() + patience, _SHORTEST
        while True:
            found = self._charge(lambda tx: interactions.take_up(tx, self._logged(tx, request), secret, claim))
            if isinstance(found, Charge):
                return found
            pending = found
            while self._store.read(lambda tx, pending=pending: interactions.still_pending(tx, pending)):  # type: ignore[misc]
                if time.monotonic() >= deadline:
                    raise interactions.is_held_elsewhere(pending.charge_id, self.path)
                check()
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST)

    def past(self, charge: Charge) -> tuple[Steps, str | None]:
        """The steps of an interactive release, in order, and why it ended if it has.

        Secrets are given to the holder of the present turn alone, and to nobody once it has ended.

        Raises:
            BudgetError: B103. LedgerError: B206, somebody else is going on with it.
        """
        return self._store.give(lambda tx: interactions.past(tx, charge, self._steps))

    def answered(self, charge_id: int, question: str) -> str | None:
        """What an interactive release answered a question, if it did: nothing is written, and nobody's turn is taken.

        Args:
            charge_id: of its charge.
            question: the key of it.

        Raises:
            BudgetError: B103.
        """
        return self._store.give(lambda tx: interactions.answered(tx, charge_id, question, self._steps))

    def store_step(self, charge: Charge, number: int, step: StoredStep, *, last: bool = False) -> tuple[str, bool]:
        """Store a step, durably, before its output leaves.

        Args:
            charge: of this turn.
            number: of the step, from 1; what was drawn beside other steps than those before it is refused.
            step: its question, output and secret.
            last: the mechanism ends with it.

        Returns:
            The output to hand out, and whether it is this step's: the stored one, if the question has one.

        Raises:
            BudgetError: B103 frozen or revoked meanwhile, B108 it has ended; nothing is stored.
            LedgerError: B206, somebody else is going on with it, or answered another question meanwhile.
        """
        return self._store.write(lambda tx: interactions.store_step(tx, charge, number, step, last=last))

    def let_go(self, charge: Charge) -> None:
        """Let somebody else go on with an interactive release; again is harmless."""
        holders.let_go(self.dataset_id, charge)
        if self._store.read(lambda tx: interactions.is_held(tx, charge)):  # where no lock says that it was let go
            self._store.write(lambda tx: interactions.let_go(tx, charge))

    def end_interaction(self, charge_id: int, reason: str, *, by_owner: bool = True) -> None:
        """End an interactive release: it answers nothing new. The charge stays spent.

        Args:
            charge_id: of its charge.
            reason: kept in the history.
            by_owner: it is an act of the owner, for the log.

        Raises:
            ParameterError: P107, the charge is not of that kind.
        """
        self._store.write(lambda tx: interactions.end(tx, charge_id, reason, by_owner=by_owner))
