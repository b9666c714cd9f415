"""What the owner does with the ledger as files: its anchor, its backups, its end."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from duckdp.errors import LedgerError
from duckdp.ledger import backups, chain, moving, transfer
from duckdp.ledger.addresses import is_address
from duckdp.ledger.places import Where
from duckdp.ledger.statement_check import begin_anew, heads_named, problems
from duckdp.ledger.statement_file import copy_log
from duckdp.ledger.statement_served import copy_served
from duckdp.ledger.statements import StatementLog
from duckdp.ledger.store import Store
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import ChargeRequest
from duckdp.ledger.verification import Tell, Verified
from duckdp.ledger.words import check_reason
from duckdp.process.ending import Closing
from duckdp.process.forks import closed

T = TypeVar("T")


class Keeping(Closing):
    """The part of :class:`duckdp.ledger.Ledger` that is about files.

    Attributes:
        path: of the ledger, absolute, or its address on a server.
        dataset_id: random, 32 hex digits.
        salt: 16 random bytes, secret (it keys the choice of rows and groups that are kept).
        statements: the log of what was asked and not charged, in a file beside the ledger.
        closing: nothing is charged any more (B211); what was, ends.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.path = store.path
        row = store.read(lambda tx: tx.dataset())
        self.dataset_id: str = row["id"]
        self.salt: bytes = row["salt"]
        self._acts: int = row["actions"]
        self.closing = False
        self.statements = StatementLog(self.path, self.dataset_id, self.salt)
        weakref.finalize(self, self.statements.close)

    @classmethod
    def repair_anchor(cls, path: str | os.PathLike[str], reason: str, *, anchor: Where | None = None) -> None:
        """Write a missing or damaged anchor anew; the owner vouches that this ledger is the newest.

        An intact anchor is left alone, and a ledger that is older than its anchor is still refused (B203).

        Args:
            path: of the ledger, which must exist.
            reason: kept in the log.
            anchor: where the anchor is from now on; the one that it had is not asked, it is gone for good. A command
                must be given even if it stays.
        """
        Store.open(path, create=False, repair=check_reason(reason), where=anchor).close()

    def move_anchor(self, anchor: Where, *, reason: str) -> None:
        """Keep the head of the chain elsewhere from now on; the same place again is no change.

        Until both know of it, the old and the new anchor are in force. The old one stays where it is: it refuses
        ledgers from before the change.

        Args:
            anchor: as in :meth:`open`; ``<ledger>.anchor`` is the file beside the ledger.
            reason: kept in the log.

        Raises:
            LedgerError: B203, the new anchor knows of something else; B204, B205, B207, B209; as they were then.
            ParameterError: P107.
        """
        moving.move(self._store, anchor, reason)

    def move(self, address: str, *, reason: str, anchor: Where | None = None) -> None:
        """Move the ledger from its file to a server, with its history, sums, answers and log of statements.

        From then on the file is closed for good (B215) and stays where it is, as a record; the ledger is opened by its
        address. Charges that are being answered meanwhile end with an error, and are redeemed there, free. At no moment
        may both be charged; whatever ends this, the same call again does what is left.

        Args:
            address: ``postgresql://...``, with a schema that is not there or is empty.
            reason: kept in the log.
            anchor: where the anchor is from now on, as in :meth:`open`; by default where it was, unless that was beside
                the file.

        Raises:
            LedgerError: B202, B203 the anchor knows of more than the file, B206 others write for too long, B207 there
                is another ledger, B208, B213, B214, B215 it was moved elsewhere. ParameterError: P107.
        """
        self.statements.flush()
        transfer.to_server(self._store, address, anchor, reason)

    def put_into_service(self, *, reason: str, nothing_lost: bool = False) -> None:
        """Let a backup take the place of its original, which is gone for good.

        What was left of the budget is charged as lost, since any of it may have been spent after the backup; raise the
        total by what surely was not. Nothing is charged if the original's anchor, kept elsewhere, shows that nothing
        happened after the backup, or with ``nothing_lost``.

        An original that was not gone goes on beside the backup, and the budget is spent twice. Only an anchor elsewhere
        tells: it follows the backup from now on, and the original is refused (B203) when it next charges or is opened.

        Args:
            reason: what became of the original; kept in the log.
            nothing_lost: the owner vouches that nothing was charged after the backup.

        Raises:
            LedgerError: B203, ``nothing_lost`` contradicts the anchor; B207, this is no backup; B204, B208, B209.
            ParameterError: P107.
        """
        backups.put_into_service(self._store, reason, nothing_lost=nothing_lost)

    def backup(self, target: str | os.PathLike[str]) -> None:
        """Write a complete copy, with its own anchor and log of statements, to a new file; of one on a server too.

        The copy answers nothing (B210): two ledgers in service would spend the budget twice. After the original is
        lost, open it and call :meth:`put_into_service`.

        Raises:
            LedgerError: B205 network file system, B207 the target exists or cannot be made, or is an address.
        """
        self.statements.flush()
        backups.backup(self._store, target, beside=self._copy_log)

    def _copy_log(self, target: str) -> None:
        if is_address(self.path):
            copy_served(self.path, target, self.dataset_id, self.salt)
        else:
            copy_log(self.path, target, self.dataset_id)

    def repair_statements(self, reason: str) -> str | None:
        """Accept that entries are missing from the log of statements, and begin it anew if it is damaged.

        From here on :meth:`verify` asks only for entries that later charges name.

        Args:
            reason: kept in the history.

        Returns:
            Where the damaged log is now, if it was; on a server its entries are removed.
        """
        check_reason(reason)
        moved = begin_anew(self.path, self.dataset_id, self.salt)
        self._store.write(lambda tx: chain.append(tx, "statements", reason=reason))
        return moved

    def verify(self, tell: Tell = lambda *_: None) -> Verified:
        """Check every row, every entry of the history and every index, and the log of statements; others go on.

        Opening checks what everything else hangs on, and each row is checked when it is used: damage never changes an
        answer, a charge or a limit. Only this finds damage that nothing has met yet, so run it now and then, and before
        a backup replaces an older one.

        Args:
            tell: hears what is being done, and the share of it that is done.

        Raises:
            LedgerError: B202, with what was found; B207, it could not be read.
        """
        checked = self._store.verify(tell)
        found, count = self.check_statements()
        if found:
            raise LedgerError("B202", f'the ledger "{self.path}" is sound, but {"; ".join(found)}.', path=self.path)
        return replace(checked, statements=count)

    def check_statements(self) -> tuple[list[str], int]:
        """What is wrong with the log of statements, a sentence each, and how many entries it has; the ledger is sound.

        See :mod:`duckdp.ledger.statement_check` for what is found, and what cannot be.
        """
        self.statements.flush()
        return problems(self.path, self.dataset_id, self.salt, self._store.read(heads_named))

    def _charge(self, work: Callable[[Tx], T]) -> T:
        """A transaction that may charge.

        Raises:
            LedgerError: B211, the curator is being closed.
        """

        def checked(tx: Tx) -> T:
            if self.closing:
                raise closed("the curator")
            return work(tx)

        return self._store.write(checked)

    def _logged(self, tx: Tx, request: ChargeRequest) -> ChargeRequest:
        """The request with the head of its analyst's log, unless the owner accepted a loss since it was learnt."""
        acts = tx.dataset()["actions"]
        if acts != self._acts:
            since = tx.rows("SELECT kind FROM event WHERE action > ? AND action <= ?", self._acts, acts)
            if any(row["kind"] == "statements" for row in since):
                self.statements.forget_heads()
            self._acts = acts
        head = self.statements.head(request.analyst)
        return request if head is None else replace(request, logged=head)

    def close(self) -> None:
        """Write what waits for the log of statements, write the journal back into the file, and close both."""
        try:
            self.statements.close()
        finally:
            self._store.close()
