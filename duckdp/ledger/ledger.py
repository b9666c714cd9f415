"""The ledger: what was promised, what was spent, and what left; one file per data set."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress

from duckdp.arguments import checked_methods
from duckdp.core.types import AccountantKind, Neighbours
from duckdp.errors import DuckDPError, LedgerError
from duckdp.ledger import budgets, charges, directory, holders, objects, reservations, standing
from duckdp.ledger.charges import Pending
from duckdp.ledger.granting import Granting
from duckdp.ledger.holders import Claim
from duckdp.ledger.holding import Holding
from duckdp.ledger.listing import Listings
from duckdp.ledger.places import Where
from duckdp.ledger.seals import Damage
from duckdp.ledger.store import Store
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import (
    Charge,
    ChargeRequest,
    DataSetState,
    DeclarationRow,
    ObjectRow,
    Review,
    StoredRelease,
)

WAIT_SECONDS = 10.0  # for somebody else's answer to the same question, unless :attr:`Ledger.patience` says otherwise


@checked_methods
class Ledger(Granting, Holding, Listings):
    """A data set's ledger, open; safe for many threads, many objects and many processes on one file.

    Attributes:
        patience: seconds to wait while somebody else answers the same question, before B206 says so.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.patience = WAIT_SECONDS

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, create: bool = True, anchor: Where | None = None) -> Ledger:
        """Open a ledger, and check what all else hangs on; make it if ``create`` and there is none.

        What is not checked here is checked when it is used, and by :meth:`verify`.

        Args:
            path: of its file.
            create: make it if there is none, and no anchor knows of one.
            anchor: where the head of its chain is kept: a file on another disk, or a command as a list of words (see
                ``anchor_command.py`` for what it has to do). By default where it was, for a new ledger in the file
                beside it. Given each time, it also tells that somebody put back a ledger from before it was chosen.

        Raises:
            LedgerError: B201 newer version, B202 damaged, B203 older than its anchor, B204 no anchor, B205 network file
                system, B206 busy, B207 not a ledger, B208 another anchor, B209 the anchor's command failed.
            ParameterError: P107.
        """
        store = Store.open(path, create=create, where=anchor)
        try:
            return cls(store)
        except BaseException:
            store.close()
            raise

    # -- the owner ----------------------------------------------------------------------------------------------------

    def state(self) -> DataSetState:
        """The data set's budget, versions and whether it is frozen."""
        return self._store.recall("state", budgets.state)

    def set_budget(
        self,
        *,
        epsilon_nano: int,
        delta_atto: int,
        neighbours: Neighbours,
        accountant: AccountantKind,
        raise_to: bool = False,
        reason: str | None = None,
    ) -> None:
        """Set the data set's total; again with equal values is harmless. Another accountant ends all reservations.

        Args:
            epsilon_nano: epsilon in 1e-9.
            delta_atto: delta in 1e-18.
            neighbours: the relation, fixed by the first charge.
            accountant: how charges add up, fixed by the first charge.
            raise_to: this may raise the total.
            reason: why, kept in the log; demanded with raise_to.

        Raises:
            BudgetError: B104 below what was spent, B105 raised without raise_to and a reason.
            CatalogError: C109 another relation or accountant after the first charge.
        """

        def work(tx: Tx) -> None:
            recounted = budgets.set_budget(
                tx,
                epsilon_nano=epsilon_nano,
                delta_atto=delta_atto,
                neighbours=neighbours,
                accountant=accountant,
                raise_to=raise_to,
                reason=reason,
            )
            if recounted:  # what is held is counted in units that no longer are
                reservations.end_all(tx, "the accountant changed")

        self._store.write(work)

    def freeze(self, reason: str) -> None:
        """Stop all analysts: no new charges until ``unfreeze``."""
        self._store.write(lambda tx: budgets.freeze(tx, reason))

    def unfreeze(self, reason: str) -> None:
        """Go on after :meth:`freeze`."""
        self._store.write(lambda tx: budgets.unfreeze(tx, reason))

    def save_table(self, name: str, declaration: str, *, reason: str | None = None) -> int:
        """Store a table's declaration (JSON text); an equal one is no change.

        Returns:
            The version of the data set's declarations.
        """
        return self.save_tables({name: declaration}, reason=reason)

    def save_tables(
        self, declared: Mapping[str, str], *, review: Review | None = None, reason: str | None = None
    ) -> int:
        """Store the declarations of several tables, all or none; equal ones are no change.

        Args:
            declared: JSON texts by table name.
            review: told the data set's state and all versions of its declarations, with nothing between its look and
                what is stored. It raises to refuse, and gives by table what changes, for the log.
            reason: kept in the log.

        Returns:
            The version of the data set's declarations.
        """
        return self._store.write(lambda tx: objects.save_tables(tx, declared, review, reason))

    def drop_table(self, name: str, reason: str) -> int:
        """Take a table out of protection, which makes it unreachable; returns the version of the declarations.

        Raises:
            CatalogError: C101, no such table.
        """
        return self._store.write(lambda tx: objects.drop_table(tx, name, reason))

    def tables(self) -> dict[str, str]:
        """Stored declarations, by the table's name."""
        return self._store.read(lambda tx: objects.tables(tx))

    def declarations(self) -> list[DeclarationRow]:
        """All versions of all tables' declarations, oldest first."""
        return self._store.read(lambda tx: objects.declarations(tx))

    def accept_source(self, fingerprint: str, *, reason: str | None = None, read: str | None = None) -> int:
        """Note which source the data set has; another one starts a new version, returned, under the same budget.

        Args:
            fingerprint: of the source's size, time and schema.
            reason: demanded for another source than the last accepted one.
            read: mark of its having been read in full.

        Raises:
            CatalogError: C104, another source without a reason.
        """
        return self._store.write(lambda tx: objects.accept_source(tx, fingerprint, reason, read))

    def was_read(self, mark: str) -> bool:
        """Whether the source was noted as read in full under that mark when it was last accepted."""
        return self._store.read(lambda tx: objects.was_read(tx, mark))

    def share(self, name: str, owner_analyst: str, with_analyst: str, *, reason: str | None = None) -> None:
        """Let another analyst read a named object; again is harmless.

        Raises:
            BudgetError: B102 unknown analyst.
            CatalogError: C110 no such object, C111 the reader knows another object by that name.
        """
        self._store.write(lambda tx: objects.share(tx, name, owner_analyst, with_analyst, reason))

    # -- the analyst --------------------------------------------------------------------------------------------------

    def admit(
        self,
        request: ChargeRequest,
        *,
        claim: Claim | None = None,
        check: Callable[[], None] = lambda: None,
        new: bool = False,
    ) -> Charge | StoredRelease:
        """Charge for a question, durably, or give back what it released before.

        Equal questions asked at once are one charge: the others wait for its release, for at most :attr:`patience`
        seconds. A charge that nobody works on any more, however its holder ended, is redeemed at once, without being
        charged again, up to three attempts in all; then its name is free again.

        Args:
            request: the question.
            claim: holds the charge until it is told that the work ended; without it, as long as the Charge lives.
            check: called again and again while waiting; what it raises ends the wait.
            new: nobody asked it before, as the caller knows; if somebody did, that is found out a little later.

        Returns:
            A Charge: read the data, then :meth:`store_release` or :meth:`fail`. A StoredRelease: free of charge.

        Raises:
            BudgetError: B101 not covered, B102 no grant, B103 frozen or revoked, B106 three attempts ended without a
                release and the request does not ask ``again``, B107.
            CatalogError: C111 the name is taken; C103, C104 the plan is outdated.
            LedgerError: B206 the same question is still being answered elsewhere, and others as in :meth:`open`.
        """
        if not self._seems_new(request, new):  # a look waits for no writer
            known = self._store.give(lambda tx: charges.known(tx, request))
            if known is not None:
                return known
        claim = Claim() if claim is None else claim
        deadline = time.monotonic() + self.patience
        try:
            while True:
                decision = self._charge(lambda tx: charges.decide(tx, self._logged(tx, request), claim))
                if not isinstance(decision, Pending):
                    return decision
                self._wait(decision, deadline, check)
        except BaseException:  # perhaps it was charged, and nobody is told
            claim.end()
            raise

    def asked(self, request: ChargeRequest) -> bool:
        """Whether the question was charged before, and not for the last time where the request would pay ``again``.

        Raises:
            BudgetError: B102, B103, B107.
        """

        def look(tx: Tx) -> bool:
            budgets.require_open(tx, request.analyst)
            known = charges.find(tx, request.analyst, request.key) is not None
            return known and not (request.again and charges.last_asked(tx, request)[1] is None)

        return self._store.read(look)

    def store_release(self, charge: Charge, payload: str) -> StoredRelease:
        """Store what is released for a charge, durably; only what this returns may leave.

        Returns:
            The release of the charge: an earlier one if there is one; and what is left, read where it is stored.

        Raises:
            BudgetError: B103, frozen or revoked meanwhile; nothing is stored.
        """

        def work(tx: Tx) -> StoredRelease:
            left = None
            with suppress(DuckDPError, Damage):  # whoever reads it next is told, and the release stays
                left = standing.remaining(tx, charge.analyst)
            return charges.store(tx, charge, payload, left)

        stored = self._store.write(work)
        holders.let_go(self.dataset_id, charge)
        return stored

    def stages(self, charge: Charge) -> list[str]:
        """What is stored of a release that takes several stages, in order; nothing of it leaves before the release.

        Raises:
            BudgetError: B103, frozen or revoked meanwhile.
        """
        return self._store.read(lambda tx: charges.stages(tx, charge))

    def store_stage(self, charge: Charge, number: int, payload: str) -> str:
        """Store the noisy output of a stage, durably, before the next one is read.

        Args:
            charge: whose release is under way.
            number: of the stage, from 0; each follows the one before it.
            payload: noisy figures; never an exact value.

        Returns:
            The stage to go on from: the one that is stored already, if there is one.

        Raises:
            BudgetError: B103, frozen or revoked meanwhile; nothing is stored.
        """
        return self._store.write(lambda tx: charges.store_stage(tx, charge, number, payload))

    def finish_release(self, charge_id: int, payload: str) -> StoredRelease:
        """Store what was made from a stored release by post-processing alone, so that it need not be made again.

        Returns:
            What is read from now on: what was stored first, if several finished at once.
        """
        return self._store.write(lambda tx: charges.finish(tx, charge_id, payload))

    def fail(self, charge: Charge) -> None:
        """Note that the read failed; the charge stays spent, and an equal question may redeem it."""
        holders.let_go(self.dataset_id, charge)
        self._store.write(lambda tx: charges.fail(tx, charge))

    def require_open(self, analyst: str) -> None:
        """Nothing, if the analyst may ask now.

        Raises:
            BudgetError: B102, B103, B107.
        """
        self.state_for(analyst)

    def one_look(self) -> AbstractContextManager[None]:
        """While it lasts, this thread sees the state that it saw first: to plan by. A charge looks again."""
        return self._store.one_look()

    def state_for(self, analyst: str) -> DataSetState:
        """As :meth:`state`, if the analyst may ask now; in one look.

        Raises:
            BudgetError: B102, B103, B107.
        """

        def work(tx: Tx) -> DataSetState:
            budgets.require_open(tx, analyst)
            return tx.once("state", budgets.state)

        return self._store.recall(("open", analyst), work)

    def release(self, analyst: str, charge_id: int) -> StoredRelease:
        """The release of one of the analyst's own charges.

        Raises:
            BudgetError: B102, B103, B107.
            CatalogError: C110, unknown, somebody else's, or nothing was released.
        """
        return self._store.give(lambda tx: charges.release(tx, analyst, charge_id))

    def objects(self, analyst: str, *, limit: int | None = None, after: str = "") -> list[ObjectRow]:
        """Named summaries and synthetic tables of the analyst, then those shared with the analyst, by name.

        Args:
            analyst: who may use them.
            limit: at most so many; else all.
            after: go on from a page: the name of its last one, of a shared one ``owner.name``.

        Raises:
            BudgetError: B102, B103, B107.
        """
        return self._store.read(lambda tx: objects.objects(tx, analyst, limit, after))

    def knows(self, analyst: str, name: str) -> bool:
        """Whether the analyst has an object of that name or was given one, with a release or without."""
        return self._store.read(lambda tx: objects.knows(tx, analyst, name))

    def object(self, analyst: str, name: str) -> StoredRelease:
        """The release that the analyst knows by a name.

        Raises:
            BudgetError: B102, B103, B107.
            CatalogError: C110, the same for unknown and somebody else's.
        """
        return self._store.give(lambda tx: charges.named(tx, analyst, name))

    def _seems_new(self, request: ChargeRequest, new: bool) -> bool:
        """Whether a question was not asked before, by a glance that proves nothing: :func:`charges.decide` looks again.

        Most are new. Only the first one since the opening is looked for as what may leave is, with the anchors.
        """
        if new or not self._store.was_anchored:
            return new and self._store.was_anchored
        entry = directory.charge(self.salt, request.analyst, request.key)
        return self._store.glance("SELECT 1 FROM directory WHERE name = ?", entry) is None

    def _wait(self, pending: Pending, deadline: float, check: Callable[[], None]) -> None:
        pause = 0.001
        while True:
            if not self._store.read(lambda tx: charges.still_pending(tx, pending)):
                return
            check()
            if time.monotonic() > deadline:
                raise LedgerError(
                    "B206",
                    f"the same question is being answered elsewhere right now, as charge {pending.charge_id}, for "
                    f"longer than {self.patience:g} seconds. Ask it again: as soon as it is answered, its answer is "
                    "free, and if that work ends without one, asking again takes it over.",
                    path=self.path,
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
