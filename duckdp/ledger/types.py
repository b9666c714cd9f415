"""What crosses the ledger's interface: frozen records, validated at birth."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from duckdp.core.types import AccountantKind, Loss, Neighbours, parse_delta, parse_epsilon, show_decimal
from duckdp.errors import ParameterError
from duckdp.ledger.words import check_name

Review = Callable[["DataSetState", "list[DeclarationRow]"], "Mapping[str, Sequence[str]]"]
Kind = Literal["query", "summary", "synthetic"]
ChargeState = Literal["open", "failed", "released"]

KINDS: tuple[Kind, ...] = ("query", "summary", "synthetic")
MAX_INTEGER = 2**62  # the sum of two such still fits SQLite's 64 bits

_CLASSES: tuple[tuple[str, type], ...] = (
    *(("mechanism", str), ("parameters", str), ("statement", str)),
    *(("loss", Loss), ("kind", str)),
)  # of a request
_PARTS = ("epsilon_nano", "delta_atto", "rho_pico", "delta_zcdp_atto")  # of its loss
_KEY = re.compile(r"[0-9a-f]{16,128}")


@dataclass(frozen=True, kw_only=True)
class Cap:
    """What an analyst or a team may spend for ever and, where that is limited, in each calendar month (UTC).

    Attributes:
        epsilon_nano: epsilon in 1e-9.
        delta_atto: delta in 1e-18.
        month_epsilon_nano: the same for a month, at most the cap; None: a month has no limit of its own.
        month_delta_atto: the same; the cap's where it is not given.
    """

    epsilon_nano: int
    delta_atto: int
    month_epsilon_nano: int | None = None
    month_delta_atto: int | None = None

    def __post_init__(self) -> None:
        if self.month_epsilon_nano is None:
            if self.month_delta_atto is not None:
                raise ParameterError("P107", "per_month_delta", "given", "limits a month only together with per_month.")
            return
        if self.month_delta_atto is None:
            object.__setattr__(self, "month_delta_atto", self.delta_atto)
        for name, month, whole, decimals in (
            ("per_month", self.month_epsilon_nano, self.epsilon_nano, 9),
            ("per_month_delta", self.month_delta_atto or 0, self.delta_atto, 18),
        ):
            if month > whole:
                rule = f"is more than the whole cap, {show_decimal(whole, decimals)}. Give at most that."
                raise ParameterError("P107", name, show_decimal(month, decimals), rule)


def read_cap(epsilon: object, delta: object, per_month: object = None, per_month_delta: object = None) -> Cap:
    """A cap as people write it.

    Raises:
        ParameterError: P101, P102, P107.
    """
    return Cap(
        epsilon_nano=parse_epsilon(epsilon, total=True),
        delta_atto=parse_delta(delta),
        month_epsilon_nano=None if per_month is None else parse_epsilon(per_month, "per_month", total=True),
        month_delta_atto=None if per_month_delta is None else parse_delta(per_month_delta, "per_month_delta"),
    )


def read_members(members: object) -> list[str] | None:
    """Names of analysts, from a list of them; None as it is.

    Raises:
        ParameterError: P107.
    """
    if members is None:
        return None
    if isinstance(members, str) or not isinstance(members, Iterable):
        raise ParameterError("P107", "members", members, 'must be a list of analysts, for example ["ana", "ben"].')
    return list(members)


@dataclass(frozen=True, kw_only=True)
class ChargeRequest:
    """What an analyst wants to be charged for.

    Attributes:
        analyst: who asks.
        key: lower-case hex digest of the canonical question; equal questions of an analyst are one charge.
        loss: what it costs; a zero loss is legal.
        mechanism: name of the mechanism.
        parameters: its public parameters, as JSON.
        statement: the analyst's text, for the owner's eyes.
        name: name of the summary or synthetic table to be stored, if any.
        kind: what is stored.
        data_version: the version of the data the plan was made for; refused if it is not the present one.
        catalog_version: the same for the declarations.
        again: pay for a new charge where the question's last one is final.
        logged: what the analyst's log of statements holds on the disk by now: how many entries, and the last one's
            hash. Kept with the charge, it shows when such entries go missing.
        reservation: which one it is charged within; None: outside of all.
    """

    analyst: str
    key: str
    loss: Loss
    mechanism: str
    parameters: str
    statement: str
    name: str | None = None
    kind: Kind = "query"
    data_version: int | None = None
    catalog_version: int | None = None
    again: bool = False
    logged: tuple[int, str] | None = None
    reservation: int | None = None

    def __post_init__(self) -> None:
        check_name(self.analyst, "analyst")
        if not isinstance(self.key, str) or not _KEY.fullmatch(self.key):
            raise ParameterError("P107", "key", self.key, "must be 16 to 128 lower-case hex digits.")
        given = (self.mechanism, self.parameters, self.statement, self.loss, self.kind)
        for found, (part, of) in zip(given, _CLASSES, strict=True):
            if not isinstance(found, of):
                raise ParameterError("P107", part, found, f"must be of the class {of.__name__}.")
        if self.kind not in KINDS:
            raise ParameterError("P107", "kind", self.kind, f"must be one of {', '.join(KINDS)}.")
        if self.name is not None:
            check_name(self.name)
            if self.kind == "query":
                raise ParameterError("P107", "name", self.name, "only summaries and synthetic tables are named.")
        loss = self.loss
        costs = (loss.epsilon_nano, loss.delta_atto, loss.rho_pico, loss.delta_zcdp_atto)
        for units, part in zip(costs, _PARTS, strict=True):
            if type(units) is not int or not 0 <= units <= MAX_INTEGER:
                raise ParameterError("P107", f"loss.{part}", units, "must be an integer from 0 to 2**62.")


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A durable charge: the right to read the data once and to store one release.

    Keep the object while the work is going on: when it is dropped without a release, the charge counts as abandoned
    and an equal question may redeem it.
    """

    id: int
    analyst: str
    key: str
    loss: Loss
    data_version: int
    catalog_version: int
    attempt: int


@dataclass(frozen=True, kw_only=True)
class StoredRelease:
    """The one release of a charge.

    Attributes:
        charge_id: its charge.
        analyst: whose it is.
        key: the key of the charge.
        payload: what was released.
        at: when it was charged (the time of release would tell how long the data took), UTC.
        left: what the analyst could still spend, outside of all reservations, when it was stored just now; else None.
    """

    charge_id: int
    analyst: str
    key: str
    payload: str
    at: str
    left: Remaining | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class DataSetState:
    """The data set as the ledger knows it; budget fields are None before the first ``set_budget``.

    ``anchor`` says where the head of the chain is kept; ``backup`` when this was made as a backup, UTC, or None.
    """

    dataset_id: str
    neighbours: Neighbours | None
    accountant: AccountantKind | None
    epsilon_nano: int | None
    delta_atto: int | None
    primary_limit: int
    secondary_limit: int
    primary_spent: int
    secondary_spent: int
    remaining: str | None
    frozen: bool
    frozen_reason: str | None
    started: bool
    data_version: int
    catalog_version: int
    source: str | None
    anchor: str
    backup: str | None


@dataclass(frozen=True, kw_only=True)
class LimitRow:
    """One of the limits that an analyst's charges must fit.

    Attributes:
        scope: "analyst", 'team "name"', "reservation".
        month: "2026-11" of a limit for each month; None: for ever.
        granted: as the owner declared it.
        spent: of it, in the month or ever, as text.
        remaining: what is free of it now, as text.
        replenishes: when the next month begins, as text.
    """

    scope: str
    month: str | None
    granted: Loss
    spent: str
    remaining: str
    replenishes: str | None


@dataclass(frozen=True, kw_only=True)
class CapState:
    """A cap and what was spent of it; ``remaining`` is the text of its rest, ``month`` the limit of a month."""

    name: str
    epsilon_nano: int
    delta_atto: int
    primary_limit: int
    secondary_limit: int
    primary_spent: int
    secondary_spent: int
    remaining: str
    month: LimitRow | None

    @property
    def cap(self) -> Cap:
        """The cap as it was granted."""
        monthly = None if self.month is None else self.month.granted
        return Cap(
            epsilon_nano=self.epsilon_nano,
            delta_atto=self.delta_atto,
            month_epsilon_nano=None if monthly is None else monthly.epsilon_nano,
            month_delta_atto=None if monthly is None else monthly.delta_atto,
        )


@dataclass(frozen=True, kw_only=True)
class AnalystState(CapState):
    """What one analyst was granted, was charged and has left."""

    revoked: bool
    revoked_reason: str | None


@dataclass(frozen=True, kw_only=True)
class TeamState(CapState):
    """A team and its members, by name."""

    members: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """What an analyst can still spend: what fits all limits, in accountant units and as text.

    Attributes:
        primary: in accountant units.
        secondary: the same.
        text: both.
        sentence: "... left", and until when that is if a month's limit is the least.
        accountant: whose units they are.
    """

    primary: int
    secondary: int
    text: str
    sentence: str
    accountant: AccountantKind


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """Headroom that nobody else's charge may take; it ends with the holder's process.

    Keep the object as long as the headroom is wanted.
    """

    id: int
    analyst: str
    epsilon_nano: int
    delta_atto: int
    token: Charge = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class ChargeRow:
    """A line of the ledger."""

    id: int
    analyst: str
    key: str
    kind: Kind
    mechanism: str
    parameters: str
    statement: str
    loss: Loss
    primary_cost: int
    secondary_cost: int
    data_version: int
    catalog_version: int
    attempt: int
    state: ChargeState
    at: str


@dataclass(frozen=True, kw_only=True)
class ObjectRow:
    """A stored summary or synthetic table.

    Attributes:
        ready: whether its release is there.
        at: when it was charged, UTC.
        statement: as its analyst wrote it.
        data_version: of the data that it is about.
    """

    name: str
    kind: Kind
    owner: str
    charge_id: int
    ready: bool
    at: str
    statement: str
    data_version: int


@dataclass(frozen=True, kw_only=True)
class DeclarationRow:
    """A version of a table's declaration, as JSON text.

    Attributes:
        name: of the table.
        version: of the data set's declarations, from which on it was in force.
        declaration: as it was saved.
        active: it is in force.
        charged: something, about whatever table, was charged while it was in force.
    """

    name: str
    version: int
    declaration: str
    active: bool
    charged: bool


@dataclass(frozen=True, kw_only=True)
class Event:
    """An action of the owner; ``number`` counts them from 1, ``seq`` all entries, ``detail`` is JSON."""

    number: int
    seq: int
    at: str
    kind: str
    subject: str
    detail: str
    reason: str | None
