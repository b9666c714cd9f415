"""What the owner's page tells, read off the ledger and the log beside it; the data itself is not opened.

Privacy: nothing here reads a private row. Charges, acts and statements are what analysts and the owner did; payloads
are releases, whose noise is drawn and paid for; declarations are public. Steps' secrets, salts and holders stay where
they are. What analysts asked is theirs and the owner's: the page is for the owner alone.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import islice

from duckdp.catalog.table import Table, load_table
from duckdp.core.types import AccountantKind
from duckdp.dashboard.curve import Curve
from duckdp.ledger import Ledger
from duckdp.ledger.history import KINDS, Entry, walk
from duckdp.ledger.types import AnalystState, ChargeRow, DataSetState, Event, ObjectRow, TeamState

PAGE = 2000  # charges that are read at once
NOT_SAID = "(not said)"  # the tables of charges that earlier versions made


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What of the history is shown.

    Attributes:
        analyst: only this one's; None: everybody's.
        kinds: of :data:`duckdp.ledger.history.KINDS`.
        last: at most so many entries.
    """

    analyst: str | None = None
    kinds: tuple[str, ...] = KINDS
    last: int = 200


@dataclass(kw_only=True)
class Refusals:
    """What was refused, or failed, with one code.

    Attributes:
        kind: "refused" or "failed".
        count: how often.
        by: how often by each analyst.
        last: the latest of them.
    """

    kind: str
    last: Entry
    count: int = 0
    by: Counter[str] = field(default_factory=Counter)


@dataclass(kw_only=True)
class Asked:
    """One analyst's statements in numbers.

    Attributes:
        charges: how many were charged.
        kinds: of the others, by kind; of those that the log still holds.
        last: when something was asked, UTC, or "".
    """

    charges: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    last: str = ""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A named summary or synthetic table, who else may read it, and what it cost."""

    row: ObjectRow
    readers: tuple[str, ...]
    charge: ChargeRow | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that a page tells of one moment.

    Attributes:
        at: when it was read.
        state: of the data set.
        analysts, teams: their caps and what is left.
        tables: declarations in force, by name.
        by_analyst, by_tables: what was charged over time, in the accountant's first unit.
        counted: number of charges over time.
        others: numbers of statements over time that were not charged, by kind.
        spent: (analyst, tables) to what they cost, the same units.
        asked: by analyst.
        refusals: by code.
        acts: the owner's, newest first, the latest of them.
        history: as it was chosen, newest first.
        stored: named releases.
        charges: how many there are.
        began: when the first act was, in seconds since 1970.
    """

    at: dt.datetime
    state: DataSetState
    analysts: list[AnalystState]
    teams: list[TeamState]
    tables: dict[str, Table]
    by_analyst: dict[str, Curve]
    by_tables: dict[str, Curve]
    counted: Curve
    others: dict[str, Curve]
    spent: Counter[tuple[str, str]]
    asked: dict[str, Asked]
    refusals: dict[str, Refusals]
    acts: list[Event]
    history: list[Entry]
    stored: list[Stored]
    charges: int
    began: float

    @property
    def unit(self) -> tuple[str, int]:
        """What budgets are counted in: its name, and how many of the ledger's units it has."""
        return ("rho", 10**12) if self.state.accountant is AccountantKind.ZCDP else ("epsilon", 10**9)


class Reader:
    """Reads a ledger again and again; charges, which do not change, each once.

    Args:
        ledger: open, whose is told.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._seen = 0
        self._kind: AccountantKind | None = None
        self._begin()

    def _begin(self) -> None:
        self._seen = 0
        self._analysts: dict[str, Curve] = {}
        self._tables: dict[str, Curve] = {}
        self._counted, self._spent, self._asked = Curve(), Counter[tuple[str, str]](), dict[str, Asked]()

    def read(self, choice: Choice | None = None) -> Facts:
        """The facts as they stand.

        Raises:
            LedgerError: B2xx.
        """
        ledger, chosen = self.ledger, choice or Choice()
        state = ledger.state()
        if state.accountant is not self._kind:  # its units are others; only before the first charge
            self._begin()
            self._kind = state.accountant
        self._read_charges()
        asked = {name: replace(one, kinds=Counter()) for name, one in self._asked.items()}
        others, refusals = _read_statements(ledger, asked)
        at = dt.datetime.now(dt.UTC).replace(microsecond=0)
        history = walk(ledger, analyst=chosen.analyst, kinds=chosen.kinds)
        return Facts(
            at=at,
            state=state,
            analysts=ledger.analysts() if state.accountant is not None else [],
            teams=ledger.teams() if state.accountant is not None else [],
            tables={name: load_table(text) for name, text in ledger.tables().items()},
            by_analyst=self._analysts,
            by_tables=self._tables,
            counted=self._counted,
            others=others,
            spent=self._spent,
            asked=asked,
            refusals=refusals,
            acts=ledger.log(1000),
            history=list(islice(history, chosen.last)),
            stored=[
                Stored(row=row, readers=tuple(readers), charge=ledger.charge(row.charge_id))
                for row, readers in ledger.inventory()
            ],
            charges=self._seen,
            began=next((seconds(first.at) for first in ledger.log(1, before=2)), at.timestamp()),
        )

    def _read_charges(self) -> None:
        while page := self.ledger.charges(limit=PAGE, after=self._seen):
            for row in page:
                at, tables = seconds(row.at), tables_of(row.parameters)
                self._analysts.setdefault(row.analyst, Curve()).add(at, row.primary_cost)
                self._tables.setdefault(tables, Curve()).add(at, row.primary_cost)
                self._counted.add(at, 1)
                self._spent[row.analyst, tables] += row.primary_cost
                one = self._asked.setdefault(row.analyst, Asked())
                one.charges += 1
                one.last = max(one.last, row.at)
            self._seen = page[-1].id


def tables_of(parameters: str) -> str:
    """The protected tables that a charge is about, of its parameters: "care", "calls, care".

    >>> tables_of('{"scale": 1, "tables": ["calls", "care"]}'), tables_of("{}")
    ('calls, care', '(not said)')
    """
    try:
        found = json.loads(parameters)
    except ValueError:
        return NOT_SAID
    names = found.get("tables") if isinstance(found, dict) else None
    if not isinstance(names, list) or not names:  # of a summary alone: an earlier version
        names = [found["table"]] if isinstance(found, dict) and isinstance(found.get("table"), str) else [NOT_SAID]
    return ", ".join(map(str, names))


def seconds(at: str) -> float:
    """A moment as the ledger writes it, in seconds since 1970.

    >>> seconds("1970-01-01T00:01:00Z")
    60.0
    """
    return dt.datetime.fromisoformat(at).timestamp()


def _read_statements(ledger: Ledger, asked: dict[str, Asked]) -> tuple[dict[str, Curve], dict[str, Refusals]]:
    """What the log holds of what was not charged: numbers over time by kind, refusals by code; fills ``asked``."""
    others: dict[str, Curve] = {kind: Curve() for kind in ("free", "refused", "failed")}
    refusals: dict[str, Refusals] = {}
    for entry in walk(ledger, newest_first=False, kinds=("free", "refused", "failed")):
        others[entry.kind].add(seconds(entry.at), 1)
        one = asked.setdefault(entry.who, Asked())
        one.kinds[entry.kind] += 1
        one.last = max(one.last, entry.at)
        if entry.kind != "free":
            code = str(entry.row["outcome"])
            found = refusals.setdefault(code, Refusals(kind=entry.kind, last=entry))
            found.count, found.last = found.count + 1, entry
            found.by[entry.who] += 1
    return others, refusals
