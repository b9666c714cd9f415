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
from typing import TYPE_CHECKING, Any

from duckdp.core.types import Loss
from duckdp.errors import ParameterError
from duckdp.ledger.statement_check import problems, read_pages
from duckdp.ledger.statement_file import Head

if TYPE_CHECKING:
    from duckdp.ledger.ledger import Ledger

PAGE = 2000
KINDS = ("charge", "act", "free", "refused", "failed", "lost")
#: Events of the chain that are part of a charge's life, not an act of the owner's.
OF_CHARGES = ("charge", "redeem", "stage", "release", "finish")
OUTCOMES = {"released": "answered", "open": "not answered yet", "failed": "not answered"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One entry of the history.

    Attributes:
        kind: one of :data:`KINDS`.
        at: UTC, whole seconds, as ISO 8601.
        number: of the charge, of the act in the ledger's chain, of the statement in its analyst's log.
        who: the analyst; "owner" for acts.
        row: all columns, as the ledger or the log has them.
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
            return str(self.row["statement"] if self.kind == "charge" else self.row["text"])
        detail = json.loads(self.row["detail"])
        parts = [self.row["kind"], self.row["subject"], _told(detail)]
        reason = self.row["reason"]
        return " ".join(p for p in parts if p) + ("" if reason is None else f": {reason}")

    @property
    def cost(self) -> str:
        """What it cost."""
        if self.kind == "charge":
            return str(loss_of(self.row))
        return "" if self.kind in ("act", "lost") else "nothing"

    @property
    def outcome(self) -> str:
        """What came of it: how it was answered, or the code of the error."""
        if self.kind == "charge":
            return f"charge {self.number}: {OUTCOMES.get(self.row['state'], self.row['state'])}"
        if self.kind in ("act", "lost"):
            return ""
        charge = self.row["charge"]
        return str(self.row["outcome"]) + ("" if charge is None else f", charge {charge}")


def walk(
    ledger: Ledger, *, newest_first: bool = True, analyst: str | None = None, since: str = "",
    kinds: Sequence[str] = KINDS,
) -> Iterator[Entry]:  # fmt: skip
    """The entries by time.

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


def check_statements(ledger: Ledger) -> list[str]:
    """What is wrong with the log of statements, a sentence each; the ledger itself is taken as checked.

    See :mod:`duckdp.ledger.statement_check` for what is found, and what cannot be.
    """
    ledger.statements.flush()
    named: dict[str, Head] = {}
    where = "kind = 'charge' AND instr(detail, '\"statements\"')"
    for row in _paged(ledger, "event", "seq", where, (), newest_first=False):
        count, digest = json.loads(row["detail"])["statements"]
        named[row["subject"]] = int(count), str(digest)
    return problems(ledger.path, ledger.dataset_id, ledger.salt, named)


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


def loss_of(row: Any) -> Loss:
    """What a charge's row cost."""
    return Loss(
        epsilon_nano=row["epsilon_nano"], delta_atto=row["delta_atto"], rho_pico=row["rho_pico"],
        delta_zcdp_atto=row["delta_zcdp_atto"],
    )  # fmt: skip


def _charges(ledger: Ledger, newest_first: bool, analyst: str | None, since: str) -> Iterator[Entry]:
    where = "at >= ? AND (? IS NULL OR analyst = ?)"
    for row in _paged(ledger, "charge", "id", where, (since, analyst, analyst), newest_first):
        yield Entry(kind="charge", at=row["at"], number=row["id"], who=row["analyst"], row=row)


def _acts(ledger: Ledger, newest_first: bool, analyst: str | None, since: str) -> Iterator[Entry]:
    listed = ", ".join(f"'{kind}'" for kind in OF_CHARGES)
    where = f"kind NOT IN ({listed}) AND at >= ? AND (? IS NULL OR (subject = ? AND kind IN ('grant', 'revoke')))"
    for row in _paged(ledger, "event", "seq", where, (since, analyst, analyst), newest_first):
        yield Entry(kind="act", at=row["at"], number=row["seq"], who="owner", row=row)


def _statements(
    ledger: Ledger, newest_first: bool, analyst: str | None, since: str, kinds: tuple[str, ...]
) -> Iterator[Entry]:
    pages = read_pages(
        ledger.path, ledger.dataset_id, newest_first=newest_first, analyst=analyst, kinds=kinds, since=since
    )
    for page in pages:
        for row in page:
            yield Entry(kind=row["kind"], at=row["at"], number=row["number"], who=row["who"], row=row)


def _paged(
    ledger: Ledger, table: str, key: str, where: str, values: tuple[object, ...], newest_first: bool
) -> Iterator[Any]:
    """Rows of a table of the ledger by its key, each page in a read of its own."""
    order, sign, last = ("DESC", "<", 2**62) if newest_first else ("ASC", ">", -1)
    sql = f"SELECT * FROM {table} WHERE {key} {sign} ? AND {where} ORDER BY {key} {order} LIMIT {PAGE}"
    while rows := _read(ledger, sql, (last, *values)):
        yield from rows
        last = rows[-1][key]


def _read(ledger: Ledger, sql: str, values: tuple[object, ...]) -> list[Any]:
    return ledger._store.read(lambda tx: tx.rows(sql, *values))


def _told(detail: dict[str, Any]) -> str:
    """What an act's detail says to people."""
    parts = []
    if "epsilon_nano" in detail:
        parts.append(str(Loss(epsilon_nano=detail["epsilon_nano"], delta_atto=detail.get("delta_atto", 0))))
    parts += [
        f"{name}={detail[name]}" for name in ("neighbours", "accountant", "version", "owner", "with") if name in detail
    ]
    parts += [str(change) for change in detail.get("changes", [])]
    return ", ".join(parts)
