"""What the owner reads of the past: charges, and the whole history."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from duckdp.core.types import parse_delta
from duckdp.errors import ParameterError
from duckdp.faces.exporting import export_history
from duckdp.ledger.accountants import losses, tell
from duckdp.ledger.history import KINDS, Entry, parse_since, walk
from duckdp.ledger.words import check_name
from duckdp.result import Result, plain_result
from duckdp.texts import escape

if TYPE_CHECKING:
    from duckdp.ledger import Ledger

HISTORY = ("at", "who", "kind", "cost", "outcome", "what")


class Records:
    """Methods of ``Curator``; none of them reads the data."""

    ledger: Ledger

    def charges(self, analyst: str | None = None, *, limit: int | None = 1000, before: int | None = None) -> Result:
        """The ledger as a table: who was charged how much for what, oldest first.

        Args:
            analyst: only this one's.
            limit: at most so many, the newest; None for all.
            before: only those before this charge, to go back from a page.
        """
        found = self.ledger.charges(analyst, limit=None if limit is None else limit + 1, before=before)
        shown = found if limit is None else found[-limit:]
        rows = [
            (c.id, c.at, c.analyst, c.kind, c.mechanism, str(c.loss), c.state, " ".join(c.statement.split())[:100])
            for c in shown
        ]
        names = ["charge", "at", "analyst", "kind", "mechanism", "cost", "state", "statement"]
        notes = [f"earlier charges: before={shown[0].id}"] if len(found) > len(shown) else []
        return replace(plain_result(names, rows, ["BIGINT"] + ["VARCHAR"] * 7), notes=notes)

    def accountants(self, analyst: str | None = None, *, delta: object = None) -> Result:
        """What the charges amount to together, by each accountant: see core/composition.py.

        ``basic`` and ``zcdp`` hold whatever followed from answers before; the others only if every epsilon was settled
        before the first answer. What is admitted follows the data set's own accountant alone.

        Args:
            analyst: only this one's charges.
            delta: the total delta at which it is told; that of the data set by default.

        Raises:
            ParameterError: P102. BudgetError: B107. LedgerError: B2xx.
        """
        total = (self.ledger.state().delta_atto or 0) if delta is None else parse_delta(delta)
        return tell(losses(self.ledger, None if analyst is None else check_name(analyst, "analyst")), total)

    def history(
        self,
        *,
        analyst: str | None = None,
        since: object = None,
        kind: str | Sequence[str] | None = None,
        last: int = 100,
    ) -> Result:
        """What happened, newest first: charges, the owner's acts, and statements that were free or refused.

        Args:
            analyst: only what this one asked, and the grants and revocations of theirs.
            since: only what was then or later: a date, a time (UTC where it has no zone), or ISO 8601 text.
            kind: of these only: "charge", "act", "free", "refused", "failed", "lost".
            last: at most so many.

        Raises:
            ParameterError: P105, P107. LedgerError: B2xx.
        """
        rows = [
            (e.at, e.who, e.kind, e.cost, e.outcome, one_line(e.text))
            for e in islice(filtered(self.ledger, analyst=analyst, since=since, kind=kind), read_last(last))
        ]
        return plain_result(HISTORY, rows)

    def export_history(self, path: str | os.PathLike[str], *, form: str | None = None) -> int:
        """Write the whole history, oldest first, to a new CSV or Parquet file; see :mod:`duckdp.faces.exporting`.

        Args:
            path: of the file, which must not exist; only the present user can read it.
            form: "csv" or "parquet"; by default what the file's name ends in, else "csv".

        Returns:
            The number of rows.

        Raises:
            ParameterError: P107. LedgerError: B2xx.
        """
        return export_history(self.ledger, path, form)


def filtered(ledger: Ledger, *, analyst: object, since: object, kind: object) -> Iterator[Entry]:
    """Entries of the history, newest first, by filters that somebody typed.

    Raises:
        ParameterError: P105, P107.
    """
    kinds = (kind,) if isinstance(kind, str) else KINDS if kind is None else kind
    if not isinstance(kinds, (list, tuple)) or not kinds or any(one not in KINDS for one in kinds):
        raise ParameterError("P107", "kind", kind, f"must be of {', '.join(KINDS)}.")
    return walk(
        ledger,
        analyst=None if analyst is None else check_name(analyst, "analyst"),
        since="" if since is None else parse_since(since),
        kinds=kinds,
    )


def read_last(value: object) -> int:
    """How many entries of a listing are wanted.

    Raises:
        ParameterError: P107.
    """
    if type(value) is not int or not 1 <= value <= 10**9:
        raise ParameterError("P107", "last", value, "must be a whole number from 1 to 1,000,000,000.")
    return value


def one_line(text: str, most: int = 100) -> str:
    """A statement on one line of a table, cut."""
    line = " ".join(text.split())
    return escape(line if len(line) <= most else line[: most - 3] + "...")
