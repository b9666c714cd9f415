"""What crosses the ledger's interface: frozen records, validated at birth."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from duckdp.core.types import AccountantKind, Loss, Neighbours
from duckdp.errors import ParameterError

Review = Callable[["DataSetState", "list[DeclarationRow]"], "Mapping[str, Sequence[str]]"]
Kind = Literal["query", "summary", "synthetic"]
ChargeState = Literal["open", "failed", "released"]

KINDS: tuple[Kind, ...] = ("query", "summary", "synthetic")
NAME_RULE = "must match [a-z_][a-z0-9_]{0,62}."
MAX_INTEGER = 2**62  # the sum of two such still fits SQLite's 64 bits

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_KEY = re.compile(r"[0-9a-f]{16,128}")


def check_name(value: object, name: str = "name") -> str:
    """Return ``value`` if it is a legal name of an analyst or of a stored object.

    Raises:
        ParameterError: P105.
    """
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ParameterError("P105", name, value, NAME_RULE)
    return value


def check_reason(value: object) -> str:
    """Return ``value`` if it is a reason worth keeping: text that is not blank.

    Raises:
        ParameterError: P107.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > 1000:
        raise ParameterError("P107", "reason", value, "must be a text of 1 to 1000 characters; it is kept in the log.")
    return value


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

    def __post_init__(self) -> None:
        check_name(self.analyst, "analyst")
        if not isinstance(self.key, str) or not _KEY.fullmatch(self.key):
            raise ParameterError("P107", "key", self.key, "must be 16 to 128 lower-case hex digits.")
        if self.kind not in KINDS:
            raise ParameterError("P107", "kind", self.kind, f"must be one of {', '.join(KINDS)}.")
        if self.name is not None:
            check_name(self.name)
            if self.kind == "query":
                raise ParameterError("P107", "name", self.name, "only summaries and synthetic tables are named.")
        for part in ("epsilon_nano", "delta_atto", "rho_pico", "delta_zcdp_atto"):
            units = getattr(self.loss, part)
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
    """

    charge_id: int
    analyst: str
    key: str
    payload: str
    at: str


@dataclass(frozen=True, kw_only=True)
class DataSetState:
    """The data set as the ledger knows it; budget fields are None before the first ``set_budget``.

    Attributes:
        anchor: where the head of the chain is kept, in words.
        backup: when this was made as a backup, UTC; None of a ledger in service.
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
class AnalystState:
    """An analyst's cap and what was spent of it; ``remaining`` is the text of the cap's rest."""

    name: str
    epsilon_nano: int
    delta_atto: int
    primary_limit: int
    secondary_limit: int
    primary_spent: int
    secondary_spent: int
    remaining: str
    revoked: bool
    revoked_reason: str | None


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """What an analyst can still spend: the smaller rest of the two scopes, in accountant units and as text."""

    primary: int
    secondary: int
    text: str


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
    """A stored summary or synthetic table; ``ready`` is False while its release is missing."""

    name: str
    kind: Kind
    owner: str
    charge_id: int
    ready: bool
    at: str


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
