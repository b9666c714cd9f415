"""The whole past of a data set in one order: charges, the owner's acts, and what was asked for free or refused.

Charges and acts come from the ledger's own hash chain and last for ever; statements from the log beside it, which keeps
the latest. All are read page by page: the memory that a walk takes does not grow with the ledger.
"""

from __future__ import annotations

import datetime as dt
import heapq
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from duckdp.core.types import Loss
from duckdp.errors import ParameterError
from duckdp.ledger.ledger import Ledger
from duckdp.ledger.statement_check import read_pages

PAGE = 2000  # entries that are read at once
KINDS = ("charge", "act", "free", "refused", "failed", "lost")
OUTCOMES = {"released": "answered", "open": "not answered yet", "failed": "not answered"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One entry of the history.

    Attributes:
        kind: one of :data:`KINDS`.
        at: UTC, whole seconds, as ISO 8601.
        number: of the charge, of the act among the owner's, of the statement in its analyst's log.
        who: the analyst; "owner" for acts.
        row: a charge as :class:`ChargeRow`, an act as :class:`Event`, a statement's row in the log.
    """

    kind: str
    at: str
    number: int
    who: str
    row: Any

    @property
    def text(self) -> str:
        """What was asked, or done."""
        if self.kind != "act":
            return str(self.row.statement if self.kind == "charge" else self.row["text"])
        parts = [self.row.kind, self.row.subject, _told(json.loads(self.row.detail))]
        return " ".join(p for p in parts if p) + ("" if self.row.reason is None else f": {self.row.reason}")

    @property
    def cost(self) -> str:
        """What the entry's statement cost, as text."""
        if self.kind == "charge":
            return str(self.row.loss)
        return "" if self.kind in ("act", "lost") else "nothing"

    @property
    def outcome(self) -> str:
        """What came of it: how it was answered, or the code of the error."""
        if self.kind == "charge":
            return f"charge {self.number}: {OUTCOMES[self.row.state]}"
        if self.kind in ("act", "lost"):
            return ""
        charge = self.row["charge"]
        return str(self.row["outcome"]) + ("" if charge is None else f", charge {charge}")


def walk(
    ledger: Ledger,
    *,
    newest_first: bool = True,
    analyst: str | None = None,
    since: str = "",
    kinds: Sequence[str] = KINDS,
) -> Iterator[Entry]:
    """The entries of all sources, ordered by time.

    Args:
        ledger: whose.
        newest_first: else oldest first.
        analyst: only what this one asked, and the acts about them.
        since: only what was then or later, as :func:`parse_since` gives it.
        kinds: of :data:`KINDS`.

    Raises:
        LedgerError: B2xx, the ledger or the log cannot be read.
    """
    ledger.statements.flush()
    asked = tuple(k for k in kinds if k not in ("charge", "act"))
    sources = []  # of one second, acts go first and statements last
    if "act" in kinds:
        sources.append(_acts(ledger, newest_first, analyst, since))
    if "charge" in kinds:
        sources.append(_charges(ledger, newest_first, analyst, since))
    if asked:
        sources.append(_statements(ledger, newest_first, analyst, since, asked))
    if newest_first:
        sources.reverse()
    return heapq.merge(*sources, key=lambda entry: entry.at, reverse=newest_first)


def parse_since(value: object) -> str:
    """A moment as the ledger writes it: from a date, a datetime (UTC where it has no zone), or ISO 8601 text.

    Raises:
        ParameterError: P107.

    >>> parse_since("2026-11-22"), parse_since("2026-11-22T14:00+02:00")
    ('2026-11-22T00:00:00Z', '2026-11-22T12:00:00Z')
    """
    found = value
    if isinstance(found, str):
        try:
            found = dt.datetime.fromisoformat(found)
        except ValueError:
            found = None
    if isinstance(found, dt.date) and not isinstance(found, dt.datetime):
        found = dt.datetime(found.year, found.month, found.day)
    if not isinstance(found, dt.datetime):
        raise ParameterError("P107", "since", value, "must be a date or time such as 2026-11-22 or 2026-11-22T14:30.")
    moment = found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found
    try:
        return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:
        raise ParameterError("P107", "since", value, "lies outside the years 1 to 9999.") from None


def _charges(ledger: Ledger, newest_first: bool, analyst: str | None, since: str) -> Iterator[Entry]:
    before, after, long_ago = None, 0, _a_day_before(since)
    while page := ledger.charges(analyst, limit=PAGE, before=before, after=None if newest_first else after):
        for row in reversed(page) if newest_first else page:
            if row.at >= since:
                yield Entry(kind="charge", at=row.at, number=row.id, who=row.analyst, row=row)
        before, after = page[0].id, page[-1].id
        if newest_first and max(row.at for row in page) < long_ago:
            return


def _acts(ledger: Ledger, newest_first: bool, analyst: str | None, since: str) -> Iterator[Entry]:
    last = next((event.number for event in ledger.log(1)), 0)
    if newest_first:
        spans = [(max(top - PAGE, 1), top) for top in range(last + 1, 1, -PAGE)]
    else:
        spans = [(first, min(first + PAGE, last + 1)) for first in range(1, last + 1, PAGE)]
    for first, top in spans:
        page = ledger.log(top - first, before=top)
        for row in page if newest_first else reversed(page):
            of_them = analyst is None or (row.subject == analyst and row.kind in ("grant", "revoke"))
            if of_them and row.at >= since:
                yield Entry(kind="act", at=row.at, number=row.number, who="owner", row=row)


def _statements(
    ledger: Ledger, newest_first: bool, analyst: str | None, since: str, kinds: tuple[str, ...]
) -> Iterator[Entry]:
    pages = read_pages(
        ledger.path, ledger.dataset_id, newest_first=newest_first, analyst=analyst, kinds=kinds, since=since
    )
    for page in pages:
        for row in page:
            yield Entry(kind=row["kind"], at=row["at"], number=row["number"], who=row["who"], row=row)


def _a_day_before(moment: str) -> str:
    """When no older entry is looked for any more: clocks may have been set back, by less than a day."""
    if not moment:
        return ""
    at = dt.datetime.fromisoformat(moment)
    return "" if at.year < 2 else (at - dt.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _told(detail: dict[str, Any]) -> str:
    """What an act's detail says to people."""
    parts = []
    if "epsilon_nano" in detail:
        parts.append(str(Loss(epsilon_nano=detail["epsilon_nano"], delta_atto=detail.get("delta_atto", 0))))
    if "month_epsilon_nano" in detail:
        a_month = Loss(epsilon_nano=detail["month_epsilon_nano"], delta_atto=detail.get("month_delta_atto", 0))
        parts.append(f"{a_month} a month")
    if "members" in detail:
        parts.append(f"members {' '.join(detail['members']) or 'none'}")
    parts += [
        f"{name}={detail[name]}" for name in ("neighbours", "accountant", "version", "owner", "with") if name in detail
    ]
    parts += [str(change) for change in detail.get("changes", [])]
    return ", ".join(parts)
