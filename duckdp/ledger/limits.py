"""What a charge must fit: limits of the analyst, of each of their teams and of the data set, for ever and by the month.

A charge is entered only if it fits all of them at once, in the transaction that adds it to all of them; so the sum of
what is counted to a limit never exceeds it, and each limit is a filter by itself (core/accountant.py).

Privacy:      of all analysts together: everything that is charged is (epsilon, delta)-DP with the data set's total.
              Of a team: everything that is charged to its members while they are members is, together,
              (epsilon, delta)-DP with the team's cap, whoever sees it and however its questions followed from its
              answers; so members who put together what these charges gave them learn no more than that.
Not covered:  by a team's cap: what a member was charged before joining or after leaving, what others share with
              members, and what the rest of a common limit shows of others' questions. The data set's total covers
              these too; a collusion of analysts is bounded by the sum of their own caps, whatever their teams.
Proof sketch: the charges counted to a limit are a subsequence of all charges, and their sum is checked against the
              limit before each of them is entered, with nothing between check and entry. Fix all that the observers
              know from elsewhere; then each question of the subsequence follows from its answers before, which is what
              the filter of core/accountant.py demands. Nothing is ever taken off a sum: leaving a team, a new month or
              a change of caps takes no charge back, and a charge keeps the teams that it had when it was entered.
Months:       what an analyst or team may spend in a calendar month (UTC) paces spending; the guarantee is the cap for
              ever, which a month never refills. Calendar months, because everybody knows without asking when the next
              begins; a window of 30 days that slides would tell when others' charges were made, and cost a sum over
              all of them. The month of the data set is the latest in which anything was charged or, if that is later,
              the clock's: a clock that goes back reopens none, one that runs ahead closes the month for good.
Reservations: headroom held for others is not free (:class:`Limit`). It is no charge: what is charged is checked against
              the limits as they stand, so losing one loses headroom and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from duckdp.core import accountant as accounting
from duckdp.core.types import AccountantKind
from duckdp.errors import InsufficientBudgetError
from duckdp.ledger import chain, directory
from duckdp.ledger.seals import Damage, Row
from duckdp.ledger.tx import Tx

Pair = tuple[int, int]


class Limit(NamedTuple):
    """One of the limits that a charge must fit, in the accountant's units.

    Attributes:
        scope: whose it is: "analyst", "data set", 'team "name"'.
        granted: as the owner declared it: epsilon in 1e-9, delta in 1e-18.
        limit: for all charges that are counted to it.
        spent: their sum.
        held: by live reservations, for their holders.
        month: whose charges are counted, "2026-11"; None: of all times.
    """

    scope: str
    granted: Pair
    limit: Pair
    spent: Pair
    held: Pair
    month: str | None = None

    @property
    def rest(self) -> Pair:
        """What is free; a month's limit may have been lowered below what was spent, any below what is held."""
        limit, spent, held = self.limit, self.spent, self.held
        return max(limit[0] - spent[0] - held[0], 0), max(limit[1] - spent[1] - held[1], 0)

    @property
    def replenishes(self) -> str | None:
        """When a month's limit begins anew, UTC."""
        return None if self.month is None else f"{_after(self.month)}-01 00:00 UTC"


def limits_on(tx: Tx, dataset: Row, analyst: Row, holding: Sequence[Row] = ()) -> list[Limit]:
    """All limits of an analyst's charges: those for ever first, for which waiting is no help, then the months'.

    Args:
        tx: the transaction.
        dataset: its row.
        analyst: the analyst's row.
        holding: reservations that are held for others.
    """
    name, month = analyst["name"], present_month(dataset)
    whose = [("analyst", analyst, _sum(row for row in holding if row["analyst"] == name))]
    for team in teams_of(tx, analyst):
        inside = members_of(team)
        whose.append((f'team "{team["name"]}"', team, _sum(row for row in holding if row["analyst"] in inside)))
    found = [_lasting(*one) for one in [*whose, ("data set", dataset, _sum(holding))]]
    return found + [
        month_limit(scope, row, month, held) for scope, row, held in whose if row["primary_month_limit"] is not None
    ]


def require(kind: AccountantKind, cost: Pair, limits: Sequence[Limit]) -> None:
    """Check a cost against all limits.

    Raises:
        InsufficientBudgetError: B101, of the tightest that does not cover it; of one for ever where there is one, since
            waiting for the next month is no help then.
    """
    short = [limit for limit in limits if cost[0] > (rest := limit.rest)[0] or cost[1] > rest[1]]
    if short:
        limit = min(short, key=lambda limit: (limit.month is not None, limit.rest))
        short_of = tuple(at for at, (wanted, left) in enumerate(zip(cost, limit.rest, strict=True)) if wanted > left)
        left = accounting.describe(kind, *limit.rest)
        raise InsufficientBudgetError(
            accounting.describe(kind, *cost),
            left if limit.rest[1] or 1 not in short_of else f"{left}, delta=0",
            limit.scope,
            of=" and ".join(("epsilon", "delta")[at] for at in short_of),
            month=limit.month,
            replenishes=limit.replenishes,
            held=accounting.describe(kind, *limit.held) if any(limit.held) else None,
        )


def least(limits: Sequence[Limit]) -> Pair:
    """The largest charge that fits all limits."""
    rests = [limit.rest for limit in limits]
    return min([rest[0] for rest in rests]), min([rest[1] for rest in rests])


def add(tx: Tx, dataset: Row, analyst: Row, cost: Pair) -> dict[str, object]:
    """Count a charge, the next one, to the data set, the analyst and each of their teams.

    Returns:
        For the chain: its month, and its teams if there are any.
    """
    month, teams = present_month(dataset), teams_of(tx, analyst)
    tx.change("analyst", analyst, ("name",), charges=analyst["charges"] + 1, **_after_cost(analyst, cost, month))
    for team in teams:
        tx.change("team", team, ("name",), **_after_cost(team, cost, month))
    tx.change_dataset(charges=dataset["charges"] + 1, month=month, **_sums_after(dataset, cost))
    return {"month": month, "teams": [team["name"] for team in teams]} if teams else {"month": month}


def teams_of(tx: Tx, analyst: Row) -> list[Row]:
    """The teams of which an analyst is a member, by name."""
    return [find_team(tx, name) for name in _names_in(analyst["teams"])]


def find_team(tx: Tx, name: str) -> Row:
    """A team that there is.

    Raises:
        Damage: it is lost.
    """
    row = tx.held("team", name=name)
    if row is None:
        raise Damage("a team is lost")
    return row


def look_up_team(tx: Tx, name: str) -> Row | None:
    """A team; None if it is proved that there is none."""
    return None if directory.find(tx, directory.team(name)) is None else find_team(tx, name)


def all_teams(tx: Tx) -> list[Row]:
    """The stored rows of all teams, by name."""
    return [find_team(tx, name.decode()) for name, _ in directory.listed(tx, directory.team())]


def members_of(team: Row) -> tuple[str, ...]:
    """The members of a team, by name."""
    return _names_in(team["members"])


@lru_cache(maxsize=256)
def _names_in(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def present_month(dataset: Row) -> str:
    """The month in which a charge would be counted now."""
    return max(str(dataset["month"]), chain.now()[:7])


def month_limit(scope: str, row: Row, month: str, held: Pair = (0, 0)) -> Limit:
    """What an analyst or a team that has such a cap may spend in a month."""
    spent = (row["primary_month_spent"], row["secondary_month_spent"]) if row["month"] == month else (0, 0)
    return Limit(
        scope=scope,
        granted=(row["month_epsilon_nano"], row["month_delta_atto"]),
        limit=(row["primary_month_limit"], row["secondary_month_limit"]),
        spent=spent,
        held=held,
        month=month,
    )


def _lasting(scope: str, row: Row, held: Pair) -> Limit:
    return Limit(
        scope=scope,
        granted=(row["epsilon_nano"], row["delta_atto"]),
        held=held,
        limit=(row["primary_limit"], row["secondary_limit"]),
        spent=(row["primary_spent"], row["secondary_spent"]),
    )


def _sums_after(row: Row, cost: Pair) -> dict[str, int]:
    return {
        "primary_spent": row["primary_spent"] + cost[0],
        "secondary_spent": row["secondary_spent"] + cost[1],
    }


def _after_cost(row: Row, cost: Pair, month: str) -> dict[str, Any]:
    """The sums of an analyst or a team after a cost, those of a month that has passed begun anew."""
    before = (row["primary_month_spent"], row["secondary_month_spent"]) if row["month"] == month else (0, 0)
    monthly = {"primary_month_spent": before[0] + cost[0], "secondary_month_spent": before[1] + cost[1]}
    return {**_sums_after(row, cost), "month": month, **monthly}


def _sum(holding: Iterable[Row]) -> Pair:
    primary = secondary = 0
    for row in holding:
        primary += row["primary_held"]
        secondary += row["secondary_held"]
    return primary, secondary


def _after(month: str) -> str:
    """The month after one, as text.

    >>> _after("2026-12"), _after("2026-01")
    ('2027-01', '2026-02')
    """
    year, number = divmod(int(month[:4]) * 12 + int(month[5:]), 12)
    return f"{year:04d}-{number + 1:02d}"
