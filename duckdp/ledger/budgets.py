"""The owner's side: totals, caps, and stopping everything or someone. All functions run within a transaction."""

from __future__ import annotations

from duckdp.core import accountant as accounting
from duckdp.core.types import DELTA_RULE, AccountantKind, Loss, Neighbours, show_decimal
from duckdp.errors import BudgetError, CatalogError, ParameterError
from duckdp.ledger import chain, directory
from duckdp.ledger.places import places_in
from duckdp.ledger.seals import Damage, Row
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import MAX_INTEGER, AnalystState, DataSetState, Remaining, check_name, check_reason

Pair = tuple[int, int]
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
) -> None:
    """See :meth:`duckdp.ledger.Ledger.set_budget`."""
    old = tx.dataset()
    limit = limits_of(accountant, epsilon_nano, delta_atto)
    values = (epsilon_nano, delta_atto, neighbours.value, accountant.value, *limit)
    if values == tuple(old[column] for column in chain.BUDGET_COLUMNS):
        return
    relation = (neighbours.value, accountant.value)
    if old["epsilon_nano"] is not None:
        if relation != (old["neighbours"], old["accountant"]) and started(tx):
            raise CatalogError(
                "C109",
                f'the data set was charged under neighbours="{old["neighbours"]}" and '
                f'accountant="{old["accountant"]}", which stay. Say these, or begin a data set of its own, '
                "open(..., ledger=...), whose budget adds to this one's.",
            )
        _allow_change(old, epsilon_nano, delta_atto, limit, raise_to=raise_to, reason=reason, what="data set")
    detail = dict(zip(chain.BUDGET_COLUMNS, values, strict=True))
    tx.change_dataset(**detail)
    chain.append(tx, "budget", detail=detail, reason=reason)
    if accountant.value != old["accountant"]:
        for row in _all(tx):
            if row["revoked"] is None:
                set_cap(tx, row["name"], row["epsilon_nano"], row["delta_atto"], accountant, "the accountant changed")


def grant(tx: Tx, analyst: str, *, epsilon_nano: int, delta_atto: int, raise_to: bool, reason: str | None) -> None:
    """See :meth:`duckdp.ledger.Ledger.grant`."""
    check_name(analyst, "analyst")
    dataset = tx.dataset()
    kind = kind_of(dataset)
    for name, units, total, decimals in (
        ("epsilon", epsilon_nano, dataset["epsilon_nano"], 9),
        ("delta", delta_atto, dataset["delta_atto"], 18),
    ):
        if units > total:
            rule = (
                f"is more than the data set's total {name}={show_decimal(total, decimals)}. Grant at most that, or "
                "raise the total first."
            )
            raise ParameterError("P107", name, show_decimal(units, decimals), rule)
    limit = limits_of(kind, epsilon_nano, delta_atto)
    old = look_up(tx, analyst)
    if old is not None:
        same = (epsilon_nano, delta_atto, *limit) == tuple(old[column] for column in chain.CAP_COLUMNS)
        if same and old["revoked"] is None:
            return
        if old["revoked"] is not None and not (raise_to and reason):
            raise _raising_needs(f'analyst "{analyst}", whose grant is revoked,')
        _allow_change(old, epsilon_nano, delta_atto, limit, raise_to=raise_to, reason=reason, what="analyst")
    set_cap(tx, analyst, epsilon_nano, delta_atto, kind, reason)


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
    """Nothing, if the ledger is no backup.

    Raises:
        BudgetError: B210.
    """
    dataset = tx.dataset()
    if dataset["backup"] is not None or dataset["frozen"] == OLD_BACKUP:
        raise chain.is_backup()


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
    """The analyst's row.

    Raises:
        BudgetError: B102.
    """
    row = look_up(tx, analyst)
    if row is None:
        raise BudgetError(
            "B102",
            f'analyst "{analyst}" has no grant. The data owner gives one: curator.grant("{analyst}", epsilon=...).',
        )
    return row


def look_up(tx: Tx, analyst: str) -> Row | None:
    """The analyst's row; None if it is proved that there is none."""
    row = tx.held("analyst", name=analyst)
    if row is None and directory.find(tx, directory.analyst(analyst)) is not None:
        raise Damage("a grant is lost")
    return row


def kind_of(dataset: Row) -> AccountantKind:
    """The data set's accountant.

    Raises:
        BudgetError: B107.
    """
    if dataset["accountant"] is None:
        raise BudgetError("B107", "no budget has been set. The data owner calls curator.budget(epsilon=...).")
    return AccountantKind(dataset["accountant"])


def limits_of(kind: AccountantKind, epsilon_nano: int, delta_atto: int) -> Pair:
    """The accountant's limits for a declared budget, small enough to be stored and added exactly."""
    if type(epsilon_nano) is not int or not 0 < epsilon_nano <= MAX_INTEGER:
        raise ParameterError("P107", "epsilon_nano", epsilon_nano, "must be an integer above 0, epsilon in 1e-9.")
    if type(delta_atto) is not int:
        raise ParameterError("P107", "delta_atto", delta_atto, "must be an integer, delta in 1e-18.")
    if not 0 <= delta_atto < 10**18:
        raise ParameterError("P102", "delta", show_decimal(delta_atto, 18), DELTA_RULE)
    limit = accounting.limits(kind, epsilon_nano, delta_atto)
    if max(limit) > MAX_INTEGER:
        raise ParameterError("P107", "epsilon_nano", epsilon_nano, "is too large to be counted exactly.")
    return limit


def rest(row: Row) -> Pair:
    """What is left of a data set's or an analyst's limits."""
    return row["primary_limit"] - row["primary_spent"], row["secondary_limit"] - row["secondary_spent"]


def started(tx: Tx) -> bool:
    """Has anything ever been charged?"""
    return bool(tx.dataset()["charges"])


def remaining(tx: Tx, analyst: str) -> Remaining:
    """See :meth:`duckdp.ledger.Ledger.remaining`."""
    dataset = tx.dataset()
    kind, row = kind_of(dataset), find_analyst(tx, analyst)
    primary, secondary = (min(parts) for parts in zip(rest(dataset), rest(row), strict=True))
    return Remaining(primary=primary, secondary=secondary, text=accounting.describe(kind, primary, secondary))


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


def analysts(tx: Tx) -> list[AnalystState]:
    """See :meth:`duckdp.ledger.Ledger.analysts`."""
    rows = _all(tx)
    if not rows:
        return []
    kind = kind_of(tx.dataset())
    return [
        AnalystState(
            name=row["name"],
            epsilon_nano=row["epsilon_nano"],
            delta_atto=row["delta_atto"],
            primary_limit=row["primary_limit"],
            secondary_limit=row["secondary_limit"],
            primary_spent=row["primary_spent"],
            secondary_spent=row["secondary_spent"],
            remaining=accounting.describe(kind, *rest(row)),
            revoked=row["revoked"] is not None,
            revoked_reason=row["revoked"],
        )
        for row in rows
    ]


def _allow_change(
    old: Row,
    epsilon_nano: int,
    delta_atto: int,
    limit: Pair,
    *,
    raise_to: bool,
    reason: str | None,
    what: str,
) -> None:
    if (epsilon_nano > old["epsilon_nano"] or delta_atto > old["delta_atto"]) and not (raise_to and reason):
        raise _raising_needs(f"the {what}")
    if reason is not None:
        check_reason(reason)
    if limit[0] < old["primary_spent"] or limit[1] < old["secondary_spent"]:
        wanted = Loss(epsilon_nano=epsilon_nano, delta_atto=delta_atto)
        raise BudgetError(
            "B104",
            f"{wanted} is less than the {what} has already spent. Set at least what was spent, or stop with freeze or "
            "revoke.",
        )


def _raising_needs(what: str) -> BudgetError:
    return BudgetError(
        "B105", f"the budget of {what} is raised only with raise_to=True and reason=..., kept in the log."
    )


def _all(tx: Tx) -> list[Row]:
    """The rows of all analysts, by name."""
    rows = [tx.get("analyst", name=name.decode()) for name, _ in directory.listed(tx, directory.analyst(""))]
    if None in rows:
        raise Damage("a grant is lost")
    return [row for row in rows if row is not None]


def set_cap(tx: Tx, analyst: str, epsilon_nano: int, delta_atto: int, kind: AccountantKind, reason: str | None) -> None:
    """Give an analyst a cap, whatever it was before."""
    values = (epsilon_nano, delta_atto, *limits_of(kind, epsilon_nano, delta_atto))
    detail = dict(zip(chain.CAP_COLUMNS, values, strict=True))
    row = look_up(tx, analyst)
    if row is None:
        tx.insert("analyst", name=analyst, **detail)
        directory.enter(tx, directory.analyst(analyst), 0)
    else:
        tx.change("analyst", row, ("name",), **detail, revoked=None)
    chain.append(tx, "grant", analyst, detail, reason)
