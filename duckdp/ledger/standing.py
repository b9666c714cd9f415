"""What is left: of the limits of an analyst, of caps, of teams. All functions run within a transaction."""

from __future__ import annotations

from typing import Any

from duckdp.core import accountant as accounting
from duckdp.core.types import AccountantKind, Loss
from duckdp.ledger import budgets, caps, reservations
from duckdp.ledger.limits import Limit, all_teams, least, limits_on, members_of, month_limit, present_month
from duckdp.ledger.seals import Row
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import AnalystState, LimitRow, Remaining, TeamState


def limits(tx: Tx, analyst: str, within: int | None = None) -> tuple[AccountantKind, list[Limit]]:
    """What an analyst's next charge must fit, outside of all reservations or within one.

    Raises:
        BudgetError: B102, B107, B109.
    """
    dataset = tx.dataset()
    kind, row = budgets.kind_of(dataset), budgets.find_analyst(tx, analyst)
    if within is None:
        return kind, limits_on(tx, dataset, row, reservations.live(tx))
    return kind, [reservations.as_limit(kind, reservations.find(tx, analyst, within)), *limits_on(tx, dataset, row)]


def remaining(tx: Tx, analyst: str, within: int | None = None) -> Remaining:
    """See :meth:`duckdp.ledger.Ledger.remaining`."""
    kind, found = limits(tx, analyst, within)
    primary, secondary = least(found)
    text = accounting.describe(kind, primary, secondary)
    sentence = f"{text} left"
    months = [limit for limit in found if limit.month is not None]
    if months and (lasting := least([limit for limit in found if limit.month is None])) != (primary, secondary):
        sentence += f" this month (until {months[0].replenishes}), {accounting.describe(kind, *lasting)} in all"
    return Remaining(primary=primary, secondary=secondary, text=text, sentence=sentence, accountant=kind)


def limit_rows(tx: Tx, analyst: str, within: int | None = None) -> list[LimitRow]:
    """See :meth:`duckdp.ledger.Ledger.limits`."""
    kind, found = limits(tx, analyst, within)
    return [_row(kind, limit) for limit in found if limit.scope != "data set"]


def analysts(tx: Tx) -> list[AnalystState]:
    """See :meth:`duckdp.ledger.Ledger.analysts`."""
    dataset = tx.dataset()
    return [
        AnalystState(
            **_capped(dataset, row),
            revoked=row["revoked"] is not None,
            revoked_reason=row["revoked"],
        )
        for row in caps.all_analysts(tx)
    ]


def teams(tx: Tx) -> list[TeamState]:
    """See :meth:`duckdp.ledger.Ledger.teams`."""
    dataset = tx.dataset()
    return [TeamState(**_capped(dataset, row), members=members_of(row)) for row in all_teams(tx)]


def _capped(dataset: Row, row: Row) -> dict[str, Any]:
    """What analysts and teams have in common."""
    kind = budgets.kind_of(dataset)
    same = (
        "name",
        "epsilon_nano",
        "delta_atto",
        "primary_limit",
        "secondary_limit",
        "primary_spent",
        "secondary_spent",
    )
    month = None if row["primary_month_limit"] is None else month_limit("", row, present_month(dataset))
    return {name: row[name] for name in same} | {
        "remaining": accounting.describe(kind, *budgets.rest(row)),
        "month": None if month is None else _row(kind, month),
    }


def _row(kind: AccountantKind, limit: Limit) -> LimitRow:
    return LimitRow(
        scope=limit.scope,
        month=limit.month,
        granted=Loss(epsilon_nano=limit.granted[0], delta_atto=limit.granted[1]),
        spent=accounting.describe_spent(kind, limit.spent, limit.granted[1]),
        remaining=accounting.describe(kind, *limit.rest),
        replenishes=limit.replenishes,
    )
