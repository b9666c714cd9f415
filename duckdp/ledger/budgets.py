"""The owner's side: the total, and stopping everything or someone. All functions run within a transaction.

Caps of analysts and teams: caps.py; what a charge must fit: limits.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from duckdp.core import accountant as accounting
from duckdp.core.types import AccountantKind, Neighbours
from duckdp.errors import BudgetError, CatalogError
from duckdp.ledger import caps, chain
from duckdp.ledger.limits import Pair
from duckdp.ledger.places import places_in
from duckdp.ledger.seals import Row
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import Cap, DataSetState
from duckdp.ledger.words import check_reason

_KINDS = {kind.value: kind for kind in AccountantKind}

#: The reason by which ledgers up to version 3 were frozen as backups.
OLD_BACKUP = "this is a backup; unfreeze it only to replace a lost original"


def set_budget(
    tx: Tx,
    *,
    epsilon_nano: int,
    delta_atto: int,
    neighbours: Neighbours,
    accountant: AccountantKind,
    raise_to: bool,
    reason: str | None,
) -> bool:
    """See :meth:`duckdp.ledger.Ledger.set_budget`; returns whether limits count in other units than before."""
    old = tx.dataset()
    limit = caps.limits_of(accountant, epsilon_nano, delta_atto)
    values = (epsilon_nano, delta_atto, neighbours.value, accountant.value, *limit)
    if values == tuple(old[column] for column in chain.BUDGET_COLUMNS):
        return False
    relation = (neighbours.value, accountant.value)
    if old["epsilon_nano"] is not None:
        if relation != (old["neighbours"], old["accountant"]) and started(tx):
            raise CatalogError(
                "C109",
                f'the data set was charged under neighbours="{old["neighbours"]}" and '
                f'accountant="{old["accountant"]}", which stay. Say these, or begin a data set of its own, '
                "open(..., ledger=...), whose budget adds to this one's.",
            )
        caps.allow_change(old, epsilon_nano, delta_atto, limit, raise_to=raise_to, reason=reason, what="data set")
    detail = dict(zip(chain.BUDGET_COLUMNS, values, strict=True))
    tx.change_dataset(**detail)
    chain.append(tx, "budget", detail=detail, reason=reason)
    if accountant.value == old["accountant"]:
        return False
    caps.recount(tx, accountant)
    return True


def grant(tx: Tx, analyst: str, cap: Cap, *, raise_to: bool, reason: str | None) -> None:
    """See :meth:`duckdp.ledger.Ledger.grant`."""
    caps.grant(tx, kind_of(tx.dataset()), analyst, cap, raise_to=raise_to, reason=reason)


def set_team(tx: Tx, team: str, cap: Cap, members: Sequence[str] | None, *, raise_to: bool, reason: str | None) -> None:
    """See :meth:`duckdp.ledger.Ledger.set_team`."""
    caps.set_team(tx, kind_of(tx.dataset()), team, cap, members, raise_to=raise_to, reason=reason)


def revoke(tx: Tx, analyst: str, reason: str) -> None:
    """See :meth:`duckdp.ledger.Ledger.revoke`."""
    row = find_analyst(tx, analyst)
    check_reason(reason)
    if row["revoked"] is None:
        tx.change("analyst", row, ("name",), revoked=reason)
        chain.append(tx, "revoke", analyst, reason=reason)


def freeze(tx: Tx, reason: str) -> None:
    """See :meth:`duckdp.ledger.Ledger.freeze`."""
    check_reason(reason)
    require_service(tx)
    if tx.dataset()["frozen"] is None:
        tx.change_dataset(frozen=reason)
        chain.append(tx, "freeze", reason=reason)


def unfreeze(tx: Tx, reason: str) -> None:
    """See :meth:`duckdp.ledger.Ledger.unfreeze`."""
    require_service(tx)
    thaw(tx, reason)


def require_service(tx: Tx) -> None:
    """Nothing, if the ledger is no backup and was not moved.

    Raises:
        BudgetError: B210. LedgerError: B215.
    """
    dataset = tx.dataset()
    if dataset["backup"] is not None or dataset["frozen"] == OLD_BACKUP:
        raise chain.is_backup(dataset["backup"])


def thaw(tx: Tx, reason: str) -> None:
    """Go on after a freeze, whatever its reason."""
    check_reason(reason)
    if tx.dataset()["frozen"] is not None:
        tx.change_dataset(frozen=None)
        chain.append(tx, "unfreeze", reason=reason)


def require_open(tx: Tx, analyst: str) -> tuple[Row, Row]:
    """The rows of the data set and the analyst, if the analyst may ask now; before anything stored is looked at.

    Raises:
        BudgetError: B210 a backup, B107 no budget, B103 frozen or revoked, B102 no grant.
    """
    require_service(tx)
    dataset = tx.dataset()
    kind_of(dataset)
    row = find_analyst(tx, analyst)
    if dataset["frozen"] is not None:
        raise BudgetError("B103", "the data set is frozen. The data owner goes on with curator.unfreeze(reason=...).")
    if row["revoked"] is not None:
        raise BudgetError(
            "B103",
            f'the grant of analyst "{analyst}" is revoked. The data owner lets them in again with curator.grant(..., '
            "raise_to=True, reason=...).",
        )
    return dataset, row


def find_analyst(tx: Tx, analyst: str) -> Row:
    """The stored row of an analyst.

    Raises:
        BudgetError: B102.
    """
    row = caps.look_up(tx, analyst)
    if row is None:
        raise caps.no_grant(analyst)
    return row


def kind_of(dataset: Row) -> AccountantKind:
    """Which accountant the data set has.

    Raises:
        BudgetError: B107.
    """
    if dataset["accountant"] is None:
        raise BudgetError("B107", "no budget has been set. The data owner calls curator.budget(epsilon=...).")
    return _KINDS[dataset["accountant"]]


def rest(row: Row) -> Pair:
    """What is left of a data set's or an analyst's limits."""
    return row["primary_limit"] - row["primary_spent"], row["secondary_limit"] - row["secondary_spent"]


def started(tx: Tx) -> bool:
    """Has anything ever been charged?"""
    return bool(tx.dataset()["charges"])


def state(tx: Tx) -> DataSetState:
    """See :meth:`duckdp.ledger.Ledger.state`."""
    row = tx.dataset()
    kind = AccountantKind(row["accountant"]) if row["accountant"] is not None else None
    return DataSetState(
        dataset_id=row["id"],
        neighbours=Neighbours(row["neighbours"]) if row["neighbours"] is not None else None,
        accountant=kind,
        epsilon_nano=row["epsilon_nano"],
        delta_atto=row["delta_atto"],
        primary_limit=row["primary_limit"],
        secondary_limit=row["secondary_limit"],
        primary_spent=row["primary_spent"],
        secondary_spent=row["secondary_spent"],
        remaining=accounting.describe(kind, *rest(row)) if kind is not None else None,
        frozen=row["frozen"] is not None,
        frozen_reason=row["frozen"],
        started=started(tx),
        data_version=row["data_version"],
        catalog_version=row["catalog_version"],
        source=row["source"],
        anchor=" and ".join(map(str, places_in(row["anchor"], "ledger"))),
        backup=row["backup"],
    )
