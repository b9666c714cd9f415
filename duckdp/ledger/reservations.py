"""Reservations: headroom that is kept for one holder. All functions run within a transaction.

A reservation is no charge. Nothing is paid for it and nothing comes back from it: what is charged within it is charged
like everything else, and takes as much from what it holds. While it lives, nobody else's charge may take what it holds
of the analyst's, their teams' and the data set's limits. It lives until it is ended, or its holder (a process, and in
it the object) is gone, or the analyst's grant is revoked; then what it still held is free.
"""

from __future__ import annotations

from duckdp.core import accountant as accounting
from duckdp.core.types import AccountantKind, Loss
from duckdp.errors import BudgetError
from duckdp.ledger import budgets, caps, chain, holders
from duckdp.ledger import limits as limiting
from duckdp.ledger.limits import Limit, Pair
from duckdp.ledger.seals import Damage, Row
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import Charge, Reservation

MOST = 16  # live ones of an analyst: each charge looks at all
GONE = "its holder is gone"

_BASE = 2**61  # of the numbers under which reservations are held; charges are numbered from 1
_NO_THREAD = -1  # whichever thread asks, it is not the one that gave up in silence


def reserve(tx: Tx, analyst: str, epsilon_nano: int, delta_atto: int) -> Reservation:
    """See :meth:`duckdp.ledger.Ledger.reserve`."""
    dataset, row = budgets.require_open(tx, analyst)
    kind = budgets.kind_of(dataset)
    wanted = caps.limits_of(kind, epsilon_nano, delta_atto)
    holding = live(tx, sweep=True)
    limiting.require(kind, wanted, limiting.limits_on(tx, dataset, row, holding))
    if sum(held["analyst"] == analyst for held in holding) >= MOST:
        raise BudgetError("B109", f'analyst "{analyst}" has {MOST} reservations, the most there may be. End one first.')
    values: Row = {
        "id": dataset["reservations"] + 1,
        "analyst": analyst,
        "epsilon_nano": epsilon_nano,
        "delta_atto": delta_atto,
        "at": chain.now(),
    }
    token = _token(values["id"])
    holder = holders.hold(tx.path, dataset["id"], token, _NO_THREAD)
    tx.insert("reservation", **values, primary_held=wanted[0], secondary_held=wanted[1], holder=holder)
    tx.change_dataset(reservations=values["id"], reserved=tx.dataset()["reserved"] + 1)
    digest = chain.digest(*values.values(), *wanted, holder)
    detail = {"reservation": values["id"], "held": list(wanted), "digest": digest}
    chain.append(tx, "reserve", analyst, detail)
    return Reservation(id=values["id"], analyst=analyst, epsilon_nano=epsilon_nano, delta_atto=delta_atto, token=token)


def end(tx: Tx, reservation: Reservation, why: str = "ended") -> None:
    """Give up what a reservation still holds; again is harmless."""
    holders.let_go(tx.dataset_id(), reservation.token)
    row = tx.get("reservation", id=reservation.id)
    if row is not None and row["ended"] is None:
        _end(tx, row, why)


def end_all(tx: Tx, why: str) -> None:
    """End what is held, whoever holds it."""
    for row in live(tx, sweep=True):
        _end(tx, row, why)


def live(tx: Tx, *, sweep: bool = False) -> list[Row]:
    """The reservations that hold headroom now.

    Args:
        tx: the transaction.
        sweep: note of the others that they ended; in a transaction that may write.
    """
    dataset = tx.dataset()
    if not dataset["reserved"]:
        return []
    rows = [tx.checked("reservation", row) for row in tx.rows("SELECT * FROM reservation WHERE ended IS NULL")]
    if len(rows) != dataset["reserved"]:
        raise Damage("a reservation is lost")
    found = []
    for row in rows:
        analyst = budgets.find_analyst(tx, row["analyst"])
        if _is_alive(tx, dataset["id"], row) and analyst["revoked"] is None:
            found.append(row)
        elif sweep:
            _end(tx, row, GONE)
    return found


def find(tx: Tx, analyst: str, reservation: int) -> Row:
    """An analyst's live reservation that this process holds.

    Raises:
        BudgetError: B109.
    """
    row = tx.get("reservation", id=reservation)
    mine = row is not None and row["analyst"] == analyst and holders.is_mine(row["holder"])
    if row is None or not mine or row["ended"] is not None or not _is_alive(tx, tx.dataset_id(), row):
        raise BudgetError("B109", f"reservation {reservation} has ended, or is held elsewhere. Reserve again.")
    return row


def as_limit(kind: AccountantKind, row: Row) -> Limit:
    """A reservation as what charges within it must fit."""
    limit = accounting.limits(kind, row["epsilon_nano"], row["delta_atto"])
    return Limit(
        scope="reservation",
        granted=(row["epsilon_nano"], row["delta_atto"]),
        limit=limit,
        spent=(limit[0] - row["primary_held"], limit[1] - row["secondary_held"]),
        held=(0, 0),
    )


def take(tx: Tx, row: Row, cost: Pair) -> None:
    """Take a charge's cost from what a reservation holds."""
    left = {"primary_held": row["primary_held"] - cost[0], "secondary_held": row["secondary_held"] - cost[1]}
    tx.change("reservation", row, ("id",), **left)


def _end(tx: Tx, row: Row, why: str) -> None:
    tx.change("reservation", row, ("id",), ended=why)
    tx.change_dataset(reserved=tx.dataset()["reserved"] - 1)
    chain.append(tx, "unreserve", row["analyst"], {"reservation": row["id"], "why": why})


def _is_alive(tx: Tx, dataset_id: str, row: Row) -> bool:
    return holders.working(row["holder"], dataset_id, _BASE + row["id"], 1, 0, tx.path)


def _token(reservation_id: int) -> Charge:
    """What is held as charges are: as long as this object lives, under a number that is no charge's."""
    loss = Loss(epsilon_nano=0)
    return Charge(
        id=_BASE + reservation_id, analyst="", key="", loss=loss, data_version=0, catalog_version=0, attempt=1
    )
