"""Charging: from a request to a durable charge, to its one release. All functions run within a transaction.

Privacy:      every answer that leaves belongs to a charge that was durable before the data was read, and the charges'
              sums never exceed the limits of the accountant, a privacy filter (core/accountant.py).
Assumes:      the loss of a request bounds what its release tells; the caller reads data only with a Charge in hand and
              lets a value leave only as the StoredRelease it gets back.
Proof sketch: deciding and entering a charge is one exclusive transaction, so the checked sums are the sums it is added
              to. A charge has one key, a key one charge per analyst (UNIQUE), a charge one release (PRIMARY KEY):
              and at most one release leaves. Where a release has several stages, what was drawn in one is stored
              (charge, number: PRIMARY KEY) before anything that depends on it is read; redeeming takes it as it stands.
Attempts:     that and when an attempt ended is seen, and an analyst may choose it (an interrupt, after watching the
              time). What follows a draw follows it when it is stored, so whoever sees it by the time that it takes can
              no longer exchange it; a draw that was not stored is gone, and redeeming draws that one stage anew. So
              none can be chosen but by the time of drawing and of storing themselves, which is not hidden; nor is how
              long the data took. Every attempt may read the data, so all count, interrupted ones too, and
              MAX_ATTEMPTS of them are the last.
"""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import dataclass, replace
from typing import Any

from duckdp.core import accountant as accounting
from duckdp.core.types import AccountantKind, Loss
from duckdp.errors import BudgetError, CatalogError, InsufficientBudgetError, InternalError
from duckdp.ledger import budgets, chain, holders, objects
from duckdp.ledger.holders import Claim
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import Charge, ChargeRequest, ChargeRow, StoredRelease

MAX_ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True)
class Pending:
    """Somebody else is answering the same question right now."""

    charge_id: int


def decide(tx: Tx, request: ChargeRequest, claim: Claim | None = None) -> Charge | StoredRelease | Pending:
    """Give back a stored release, redeem an abandoned charge, or enter a new one; it is held until the claim ends.

    Raises:
        BudgetError: B102, B103, B107 before anything stored is looked at; B101, B106.
        CatalogError: C103, C104 the plan is outdated; C111 the name is taken.
    """
    dataset, analyst = budgets.require_open(tx, request.analyst)
    request, row = _last_asked(tx, request)
    if row is None:
        _require_versions(dataset, request)
        return _enter(tx, request, dataset, analyst, claim)
    if (_loss(row), row["kind"]) != (request.loss, request.kind):
        raise InternalError(f"charge {row['id']} was another question with the same key.")
    if request.name is not None:
        _reserve(tx, request.analyst, request.name, row["kind"], row["id"])
    if row["state"] == "released":
        return release_of(tx, row)
    if is_worked_on(tx, dataset["id"], row) or row["attempt"] >= MAX_ATTEMPTS:  # the last holder died just now
        return Pending(charge_id=row["id"])
    return _redeem(tx, dataset["id"], row, claim)


def known(tx: Tx, request: ChargeRequest) -> StoredRelease | None:
    """What :func:`decide` would give back without writing anything: a stored release, under the name asked for if any.

    Raises:
        BudgetError: B102, B103, B107 before anything stored is looked at.
    """
    budgets.require_open(tx, request.analyst)
    row = find(tx, request.analyst, request.key)
    if row is None or row["state"] != "released" or (_loss(row), row["kind"]) != (request.loss, request.kind):
        return None
    if request.name is not None and objects.charge_of(tx, request.analyst, request.name) != row["id"]:
        return None
    return release_of(tx, row)


def still_pending(tx: Tx, pending: Pending) -> bool:
    """Is the charge still without a release, and worked on?"""
    row = tx.one("SELECT * FROM charge WHERE id = ?", pending.charge_id)
    return row is not None and is_worked_on(tx, tx.dataset_id(), row)


def store(tx: Tx, charge: Charge, payload: str) -> StoredRelease:
    """Store the release of a charge; if there is one already, that one stays and is returned.

    Raises:
        BudgetError: B103, frozen or revoked meanwhile: nothing leaves.
    """
    budgets.require_open(tx, charge.analyst)
    row = _row_of(tx, charge)
    if row["state"] != "released":
        tx.run("INSERT INTO release (charge, payload) VALUES (?, ?)", charge.id, payload)
        tx.run("UPDATE charge SET state = 'released' WHERE id = ?", charge.id)
        chain.append(tx, "release", charge.analyst, {"charge": charge.id, "digest": chain.digest(payload)})
    return release_of(tx, row)


def stages(tx: Tx, charge: Charge) -> list[str]:
    """The stored stages of a charge, in order.

    Raises:
        BudgetError: B103, frozen or revoked meanwhile.
    """
    budgets.require_open(tx, charge.analyst)
    _row_of(tx, charge)
    rows = tx.rows("SELECT number, payload FROM stage WHERE charge = ? ORDER BY number", charge.id)
    return [row["payload"] for row in rows]


def store_stage(tx: Tx, charge: Charge, number: int, payload: str) -> str:
    """Store a stage's noisy output, the next in order; one that is stored already stays and is returned.

    Raises:
        BudgetError: B103, frozen or revoked meanwhile: nothing is stored.
    """
    stored = stages(tx, charge)
    if number < len(stored):
        return stored[number]
    if number > len(stored) or _row_of(tx, charge)["state"] == "released":
        raise InternalError(f"stage {number} of charge {charge.id} is not its next one.")
    tx.run("INSERT INTO stage (charge, number, payload) VALUES (?, ?, ?)", charge.id, number, payload)
    detail = {"charge": charge.id, "number": number, "digest": chain.digest(payload)}
    chain.append(tx, "stage", charge.analyst, detail)
    return payload


def finish(tx: Tx, charge_id: int, payload: str) -> StoredRelease:
    """Store what was made from a release by post-processing; what was stored first stays and is returned."""
    row = tx.one("SELECT * FROM charge WHERE id = ? AND state = 'released'", charge_id)
    if row is None:
        raise InternalError(f"charge {charge_id} has no release to finish.")
    if tx.one("SELECT 1 FROM finished WHERE charge = ?", charge_id) is None:
        tx.run("INSERT INTO finished (charge, payload) VALUES (?, ?)", charge_id, payload)
        chain.append(tx, "finish", row["analyst"], {"charge": charge_id, "digest": chain.digest(payload)})
    return release_of(tx, row)


def fail(tx: Tx, charge: Charge) -> None:
    """Note that this attempt ended without a release; an attempt that was overtaken changes nothing."""
    _row_of(tx, charge)
    tx.run(
        "UPDATE charge SET state = 'failed' WHERE id = ? AND state = 'open' AND attempt = ?", charge.id, charge.attempt
    )


def write_off(tx: Tx, request: ChargeRequest) -> None:
    """Charge what will never have a release."""
    charge = _enter(tx, request, tx.dataset(), budgets.find_analyst(tx, request.analyst), None)
    holders.let_go(tx.dataset_id(), charge)
    fail(tx, charge)


def charges(tx: Tx, analyst: str | None) -> list[ChargeRow]:
    """See :meth:`duckdp.ledger.Ledger.charges`."""
    rows = tx.rows("SELECT * FROM charge WHERE ? IS NULL OR analyst = ? ORDER BY id", analyst, analyst)
    return [
        ChargeRow(loss=_loss(row), **{name: row[name] for name in ChargeRow.__dataclass_fields__ if name != "loss"})
        for row in rows
    ]


def release(tx: Tx, analyst: str, charge_id: int) -> StoredRelease:
    """See :meth:`duckdp.ledger.Ledger.release`."""
    budgets.require_open(tx, analyst)
    row = tx.one("SELECT * FROM charge WHERE id = ? AND analyst = ? AND state = 'released'", charge_id, analyst)
    if row is None:
        raise CatalogError(
            "C110", f"release {charge_id} is unknown or belongs to somebody else. dp_ledger() lists yours."
        )
    return release_of(tx, row)


def named(tx: Tx, analyst: str, name: str) -> StoredRelease:
    """See :meth:`duckdp.ledger.Ledger.object`."""
    row = tx.one("SELECT * FROM charge WHERE id = ?", objects.find(tx, analyst, name).charge_id)
    if row is None:
        raise InternalError(f'the object "{name}" has no charge.')
    return release_of(tx, row)


def find(tx: Tx, analyst: str, key: str) -> sqlite3.Row | None:
    """The charge of an analyst's question, if it was asked before."""
    return tx.one("SELECT * FROM charge WHERE analyst = ? AND key = ?", analyst, key)


def release_of(tx: Tx, charge: sqlite3.Row) -> StoredRelease:
    """The stored release of a charge that has one, as it was finished if it was."""
    row = tx.one("SELECT payload FROM finished WHERE charge = ?", charge["id"]) or tx.one(
        "SELECT payload FROM release WHERE charge = ?", charge["id"]
    )
    if row is None:
        raise InternalError(f"charge {charge['id']} has no release.")
    return StoredRelease(
        charge_id=charge["id"], analyst=charge["analyst"], key=charge["key"], payload=row["payload"], at=charge["at"]
    )


def is_worked_on(tx: Tx, dataset_id: str, charge: sqlite3.Row) -> bool:
    """Is the charge open, with a live holder?"""
    attempt = (charge["holder"], dataset_id, charge["id"], charge["attempt"])
    return charge["state"] == "open" and holders.working(*attempt, tx.thread, tx.path)


def is_final(tx: Tx, dataset_id: str, charge: sqlite3.Row) -> bool:
    """Has the charge no release, and no attempt left?"""
    unanswered = charge["state"] != "released" and charge["attempt"] >= MAX_ATTEMPTS
    return unanswered and not is_worked_on(tx, dataset_id, charge)


def _last_asked(tx: Tx, request: ChargeRequest) -> tuple[ChargeRequest, sqlite3.Row | None]:
    """The request with the key of its last charge, and that charge; with a new key past a final one, if wanted.

    Raises:
        BudgetError: B106.
    """
    dataset_id, row = tx.dataset_id(), find(tx, request.analyst, request.key)
    while row is not None and is_final(tx, dataset_id, row):
        key = hashlib.sha256(f"{request.key} again".encode()).hexdigest()
        request, before, row = replace(request, key=key), row, find(tx, request.analyst, key)
        if row is None and not request.again:
            raise BudgetError(
                "B106",
                f"charge {before['id']} is final: {MAX_ATTEMPTS} attempts ended without a release. "
                "It stays spent; the same call with fresh := true pays for a new one.",
            )
    return request, row


def _reserve(tx: Tx, analyst: str, name: str, kind: str, charge_id: int) -> None:
    """Give a name to a charge's release, and take it from a charge that will have none.

    That is a final one, or one for an earlier version of the data, whose question cannot be asked again.

    Raises:
        CatalogError: C111.
    """
    dataset, held = tx.dataset(), objects.charge_of(tx, analyst, name)
    row = None if held is None else tx.one("SELECT * FROM charge WHERE id = ?", held)
    if row is not None and held != charge_id:
        waits = row["state"] != "released" and not is_worked_on(tx, dataset["id"], row)
        if is_final(tx, dataset["id"], row) or (waits and row["data_version"] != dataset["data_version"]):
            objects.free(tx, analyst, name)
    objects.reserve(tx, analyst, name, kind, charge_id)


def _enter(
    tx: Tx, request: ChargeRequest, dataset: sqlite3.Row, analyst: sqlite3.Row, claim: Claim | None
) -> Charge:  # fmt: skip
    kind = budgets.kind_of(dataset)
    cost = accounting.cost(kind, request.loss)
    require_budget(kind, cost, dataset, analyst)
    values = _values(tx, request, dataset, cost)
    charge, holder = _hand_out(tx, dataset["id"], values, request.loss, claim, attempt=1)
    columns = [*values, "holder"]
    tx.run(
        f"INSERT INTO charge ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
        *values.values(),
        holder,
    )
    for table, where, subject in (("dataset", "one", 1), ("analyst", "name", request.analyst)):
        tx.run(
            f"UPDATE {table} SET primary_spent = primary_spent + ?, secondary_spent = secondary_spent + ? "
            f"WHERE {where} = ?",
            *cost,
            subject,
        )
    if request.name is not None:
        _reserve(tx, request.analyst, request.name, request.kind, values["id"])
    detail = {"charge": values["id"], "digest": chain.digest(*values.values())}
    chain.append(tx, "charge", request.analyst, detail)
    return charge


def require_budget(kind: AccountantKind, cost: tuple[int, int], dataset: sqlite3.Row, analyst: sqlite3.Row) -> None:
    """Check a cost against the analyst's cap and the data set's total.

    Raises:
        InsufficientBudgetError: B101.
    """
    for row, scope in ((analyst, "analyst"), (dataset, "data set")):
        left = budgets.rest(row)
        if cost[0] > left[0] or cost[1] > left[1]:
            raise InsufficientBudgetError(accounting.describe(kind, *cost), accounting.describe(kind, *left), scope)


def _values(tx: Tx, request: ChargeRequest, dataset: sqlite3.Row, cost: tuple[int, int]) -> dict[str, Any]:
    """What never changes in the new charge, in the order of :data:`chain.CHARGE_COLUMNS`."""
    last = tx.rows("SELECT coalesce(max(id), 0) FROM charge")[0][0]
    loss = request.loss
    values = (
        *(last + 1, request.analyst, request.key, request.kind, request.mechanism, request.parameters),
        *(request.statement, loss.epsilon_nano, loss.delta_atto, loss.rho_pico, loss.delta_zcdp_atto),
        *(*cost, dataset["data_version"], dataset["catalog_version"], chain.now()),
    )
    return dict(zip(chain.CHARGE_COLUMNS, values, strict=True))


def _redeem(tx: Tx, dataset_id: str, row: sqlite3.Row, claim: Claim | None) -> Charge:
    attempt = row["attempt"] + 1
    charge, holder = _hand_out(tx, dataset_id, dict(row), _loss(row), claim, attempt=attempt)
    tx.run("UPDATE charge SET attempt = ?, state = 'open', holder = ? WHERE id = ?", attempt, holder, row["id"])
    chain.append(tx, "redeem", row["analyst"], {"charge": row["id"], "attempt": attempt})
    return charge


def _hand_out(
    tx: Tx, dataset_id: str, row: dict[str, Any], loss: Loss, claim: Claim | None, *, attempt: int
) -> tuple[Charge, str]:
    """The charge, held before the commit, so that others see the charge and its holder at once; and who holds it."""
    charge = Charge(
        id=row["id"],
        analyst=row["analyst"],
        key=row["key"],
        loss=loss,
        data_version=row["data_version"],
        catalog_version=row["catalog_version"],
        attempt=attempt,
    )
    return charge, holders.hold(tx.path, dataset_id, charge, tx.thread, claim)


def _row_of(tx: Tx, charge: Charge) -> sqlite3.Row:
    row = find(tx, charge.analyst, charge.key)
    if row is None or row["id"] != charge.id or _loss(row) != charge.loss:
        raise InternalError(f"charge {charge.id} is not in this ledger.")
    return row


def _require_versions(dataset: sqlite3.Row, request: ChargeRequest) -> None:
    if request.data_version not in (None, dataset["data_version"]):
        raise CatalogError("C104", "the data set has a new version since the query was planned. Run it again.")
    if request.catalog_version not in (None, dataset["catalog_version"]):
        raise CatalogError("C103", "the declarations changed since the query was planned. Run it again.")


def _loss(row: sqlite3.Row) -> Loss:
    return Loss(
        epsilon_nano=row["epsilon_nano"],
        delta_atto=row["delta_atto"],
        rho_pico=row["rho_pico"],
        delta_zcdp_atto=row["delta_zcdp_atto"],
    )
