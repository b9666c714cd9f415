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
from dataclasses import dataclass, replace
from typing import Any

from duckdp.core import accountant as accounting
from duckdp.core.types import Loss
from duckdp.errors import BudgetError, CatalogError, InternalError
from duckdp.ledger import budgets, chain, directory, holders, limits, objects, reservations
from duckdp.ledger.holders import Claim
from duckdp.ledger.seals import Damage, Row
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import Charge, ChargeRequest, Remaining, StoredRelease

MAX_ATTEMPTS = 3  # that may read the data under one charge; after them it is final


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
    request, row = last_asked(tx, request)
    if row is None:
        require_versions(dataset, request)
        return enter(tx, request, dataset, analyst, claim)
    require_same(row, request)
    if request.name is not None and _reserve(tx, request.analyst, request.name, row["kind"], row["id"]):
        chain.append(tx, "name", request.analyst, {"name": request.name, "charge": row["id"]})
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
    return is_worked_on(tx, tx.dataset_id(), by_id(tx, pending.charge_id))


def store(tx: Tx, charge: Charge, payload: str, left: Remaining | None = None) -> StoredRelease:
    """Store the release of a charge; if there is one already, that one stays and is returned.

    Args:
        tx: the transaction.
        charge: of the release.
        payload: what is released.
        left: what the analyst can still spend, to be told with it.

    Raises:
        BudgetError: B103, frozen or revoked meanwhile: nothing leaves.
    """
    budgets.require_open(tx, charge.analyst)
    row = _row_of(tx, charge)
    if row["state"] != "released":
        note_release(tx, row, payload)
    else:
        payload = _payload_of(tx, row)
    return _stored(row, payload, left)


def note_release(tx: Tx, row: Row, payload: str) -> None:
    """Store the release of a charge that has none."""
    digest = chain.digest(payload)
    tx.later("INSERT INTO release (charge, payload) VALUES (?, ?)", row["id"], payload)
    tx.change("charge", row, ("id",), state="released", released=digest)
    tx.let_go("charge", row["id"])
    chain.append(tx, "release", row["analyst"], {"charge": row["id"], "digest": digest})


def stages(tx: Tx, charge: Charge) -> list[str]:
    """The stored stages of a charge, in order.

    Raises:
        BudgetError: B103, frozen or revoked meanwhile.
    """
    budgets.require_open(tx, charge.analyst)
    return _stages_of(tx, _row_of(tx, charge))


def store_stage(tx: Tx, charge: Charge, number: int, payload: str) -> str:
    """Store a stage's noisy output, the next in order; one that is stored already stays and is returned.

    Raises:
        BudgetError: B103, frozen or revoked meanwhile: nothing is stored.
    """
    budgets.require_open(tx, charge.analyst)
    row = _row_of(tx, charge)
    if number < row["stages"]:
        return _stages_of(tx, row)[number]
    if number > row["stages"] or row["state"] == "released":
        raise InternalError(f"stage {number} of charge {charge.id} is not its next one.")
    digest = chain.digest(payload)
    tx.later("INSERT INTO stage (charge, number, payload) VALUES (?, ?, ?)", charge.id, number, payload)
    tx.change("charge", row, ("id",), stages=number + 1, staged=chain.digest(row["staged"], digest))
    chain.append(tx, "stage", charge.analyst, {"charge": charge.id, "number": number, "digest": digest})
    return payload


def finish(tx: Tx, charge_id: int, payload: str) -> StoredRelease:
    """Store what was made from a release by post-processing; what was stored first stays and is returned."""
    row = by_id(tx, charge_id) if 1 <= charge_id <= tx.dataset()["charges"] else None
    if row is None or row["state"] != "released":
        raise InternalError(f"charge {charge_id} has no release to finish.")
    if row["finished"] is None:
        digest = chain.digest(payload)
        tx.later("INSERT INTO finished (charge, payload) VALUES (?, ?)", charge_id, payload)
        row = tx.change("charge", row, ("id",), finished=digest)
        chain.append(tx, "finish", row["analyst"], {"charge": charge_id, "digest": digest})
    return release_of(tx, row)


def fail(tx: Tx, charge: Charge) -> None:
    """Note that this attempt ended without a release; an attempt that was overtaken changes nothing."""
    row = _row_of(tx, charge)
    if (row["state"], row["attempt"]) == ("open", charge.attempt):
        tx.change("charge", row, ("id",), state="failed")
        chain.append(tx, "fail", charge.analyst, {"charge": charge.id, "attempt": charge.attempt})


def release(tx: Tx, analyst: str, charge_id: int) -> StoredRelease:
    """See :meth:`duckdp.ledger.Ledger.release`."""
    budgets.require_open(tx, analyst)
    known = type(charge_id) is int and 1 <= charge_id <= tx.dataset()["charges"]
    row = by_id(tx, charge_id) if known else None
    if row is None or row["analyst"] != analyst or row["state"] != "released":
        raise CatalogError(
            "C110", f"release {charge_id} is unknown or belongs to somebody else. dp_ledger() lists yours."
        )
    return release_of(tx, row)


def named(tx: Tx, analyst: str, name: str) -> StoredRelease:
    """See :meth:`duckdp.ledger.Ledger.object`."""
    return release_of(tx, by_id(tx, objects.find(tx, analyst, name).charge_id))


def find(tx: Tx, analyst: str, key: str) -> Row | None:
    """The charge of an analyst's question; None if it is proved that it was never asked."""
    charge_id = directory.find(tx, directory.charge(tx.dataset()["salt"], analyst, key))
    if charge_id is None:
        return None
    row = by_id(tx, charge_id)
    if (row["analyst"], row["key"]) != (analyst, key):
        raise Damage("a charge is entered as another one")
    return row


def by_id(tx: Tx, charge_id: int) -> Row:
    """A charge that there is."""
    row = tx.holding("charge", charge_id) or tx.get("charge", id=charge_id)
    if row is None:
        raise Damage("a charge is lost")
    return row


def release_of(tx: Tx, charge: Row) -> StoredRelease:
    """The stored release of a charge that has one, as it was finished if it was."""
    return _stored(charge, _payload_of(tx, charge))


def _payload_of(tx: Tx, charge: Row) -> str:
    table, digest = ("finished", charge["finished"]) if charge["finished"] else ("release", charge["released"])
    row = tx.one(f"SELECT payload FROM {table} WHERE charge = ?", charge["id"])
    if row is None or not chain.vouches(digest, row["payload"]):
        raise Damage("a release was altered or is lost")
    return str(row["payload"])


def is_worked_on(tx: Tx, dataset_id: str, charge: Row) -> bool:
    """Is the charge open, with a live holder?"""
    attempt = (charge["holder"], dataset_id, charge["id"], charge["attempt"])
    return charge["state"] == "open" and holders.working(*attempt, tx.thread, tx.path)


def is_final(tx: Tx, dataset_id: str, charge: Row) -> bool:
    """Has the charge no release, and no attempt left?"""
    unanswered = charge["state"] != "released" and charge["attempt"] >= MAX_ATTEMPTS
    return unanswered and not is_worked_on(tx, dataset_id, charge)


def last_asked(tx: Tx, request: ChargeRequest) -> tuple[ChargeRequest, Row | None]:
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


def _reserve(tx: Tx, analyst: str, name: str, kind: str, charge_id: int) -> bool:
    """Give a name to a charge's release, and take it from a charge that will have none; whether it is new to it.

    That is a final one, or one for an earlier version of the data, whose question cannot be asked again.

    Raises:
        CatalogError: C111.
    """
    dataset, held = tx.dataset(), objects.charge_of(tx, analyst, name)
    row = None if held is None else by_id(tx, held)
    if row is not None and held != charge_id:
        waits = row["state"] != "released" and not is_worked_on(tx, dataset["id"], row)
        if is_final(tx, dataset["id"], row) or (waits and row["data_version"] != dataset["data_version"]):
            objects.free(tx, analyst, name)
    return objects.reserve(tx, analyst, name, kind, charge_id)


def enter(tx: Tx, request: ChargeRequest, dataset: Row, analyst: Row, claim: Claim | None) -> Charge:
    """Enter a new charge, if it fits all limits.

    Raises:
        BudgetError: B101, B109. CatalogError: C111.
    """
    cost = accounting.cost(budgets.kind_of(dataset), request.loss)
    dataset = {**dataset, "month": limits.present_month(dataset)}  # no clock goes back between the check and the count
    require_budget(tx, request, cost, dataset, analyst)
    values, number = _values(request, dataset, cost), analyst["charges"] + 1
    charge, holder = hand_out(tx, dataset["id"], values, claim, attempt=1)
    row = tx.insert("charge", **values, holder=holder, number=number)
    tx.hold("charge", row, values["id"])  # most often what comes next is its release
    directory.enter(tx, directory.charge(dataset["salt"], request.analyst, request.key), values["id"])
    counted = limits.add(tx, dataset, analyst, cost)
    objects.note_charged(tx)
    detail = {"charge": values["id"], "digest": chain.digest(*values.values()), "holder": holder, **counted}
    if request.reservation is not None:
        detail["reservation"] = request.reservation
    if request.name is not None:
        _reserve(tx, request.analyst, request.name, request.kind, values["id"])
        detail["name"] = request.name
    if request.logged is not None:
        detail["statements"] = list(request.logged)
    chain.append(tx, "charge", request.analyst, detail)
    return charge


def require_budget(tx: Tx, request: ChargeRequest, cost: limits.Pair, dataset: Row, analyst: Row) -> None:
    """Check a cost against the limits, and take it from the request's reservation if it has one.

    Raises:
        InsufficientBudgetError: B101. BudgetError: B109.
    """
    kind = budgets.kind_of(dataset)
    if request.reservation is None:
        limits.require(kind, cost, limits.limits_on(tx, dataset, analyst, reservations.live(tx, sweep=True)))
        return
    held = reservations.find(tx, request.analyst, request.reservation)
    limits.require(kind, cost, [reservations.as_limit(kind, held), *limits.limits_on(tx, dataset, analyst)])
    reservations.take(tx, held, cost)


def _values(request: ChargeRequest, dataset: Row, cost: tuple[int, int]) -> dict[str, Any]:
    """What never changes in the new charge, in the order of :data:`chain.CHARGE_COLUMNS`."""
    loss = request.loss
    values = (
        *(dataset["charges"] + 1, request.analyst, request.key, request.kind, request.mechanism, request.parameters),
        *(request.statement, loss.epsilon_nano, loss.delta_atto, loss.rho_pico, loss.delta_zcdp_atto),
        *(*cost, dataset["data_version"], dataset["catalog_version"], chain.now()),
    )
    return dict(zip(chain.CHARGE_COLUMNS, values, strict=True))


def _redeem(tx: Tx, dataset_id: str, row: Row, claim: Claim | None) -> Charge:
    attempt = row["attempt"] + 1
    charge, holder = hand_out(tx, dataset_id, row, claim, attempt=attempt)
    tx.change("charge", row, ("id",), attempt=attempt, state="open", holder=holder)
    chain.append(tx, "redeem", row["analyst"], {"charge": row["id"], "attempt": attempt, "holder": holder})
    return charge


def hand_out(tx: Tx, dataset_id: str, row: Row, claim: Claim | None, *, attempt: int) -> tuple[Charge, str]:
    """The charge, held before the commit, so that others see the charge and its holder at once; and who holds it."""
    charge = as_charge(row, attempt=attempt)
    return charge, holders.hold(tx.path, dataset_id, charge, tx.thread, claim)


def as_charge(row: Row, *, attempt: int) -> Charge:
    """A charge, held by nobody."""
    return Charge(
        id=row["id"],
        analyst=row["analyst"],
        key=row["key"],
        loss=_loss(row),
        data_version=row["data_version"],
        catalog_version=row["catalog_version"],
        attempt=attempt,
    )


def _row_of(tx: Tx, charge: Charge) -> Row:
    row = by_id(tx, charge.id) if 1 <= charge.id <= tx.dataset()["charges"] else None
    if row is None or (row["analyst"], row["key"], _loss(row)) != (charge.analyst, charge.key, charge.loss):
        raise InternalError(f"charge {charge.id} is not in this ledger.")
    return row


def _stages_of(tx: Tx, row: Row) -> list[str]:
    """The stored stages of a charge, as its row vouches for them."""
    stored = tx.rows("SELECT payload FROM stage WHERE charge = ? ORDER BY number", row["id"])
    payloads, staged = [str(found["payload"]) for found in stored], None
    for payload in payloads:
        staged = chain.digest(staged, chain.stored_digest(payload))
    if (len(payloads), staged) != (row["stages"], row["staged"]):
        raise Damage("a stage of a release was altered or is lost")
    return payloads


def _stored(charge: Row, payload: str, left: Remaining | None = None) -> StoredRelease:
    return StoredRelease(
        charge_id=charge["id"],
        analyst=charge["analyst"],
        key=charge["key"],
        payload=payload,
        at=charge["at"],
        left=left,
    )


def require_same(row: Row, request: ChargeRequest) -> None:
    """Equal keys are equal questions."""
    if (_loss(row), row["kind"]) != (request.loss, request.kind):
        raise InternalError(f"charge {row['id']} was another question with the same key.")


def require_versions(dataset: Row, request: ChargeRequest) -> None:
    """The request was planned for the present data and declarations.

    Raises:
        CatalogError: C103, C104.
    """
    if request.data_version not in (None, dataset["data_version"]):
        raise CatalogError("C104", "the data set has a new version since the query was planned. Run it again.")
    if request.catalog_version not in (None, dataset["catalog_version"]):
        raise CatalogError("C103", "the declarations changed since the query was planned. Run it again.")


def _loss(row: Row) -> Loss:
    return Loss(
        epsilon_nano=row["epsilon_nano"],
        delta_atto=row["delta_atto"],
        rho_pico=row["rho_pico"],
        delta_zcdp_atto=row["delta_zcdp_atto"],
    )
