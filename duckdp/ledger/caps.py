"""Caps of analysts and of teams within the total, and who is in which team. All functions run within a transaction.

A cap has a part for ever and, if the owner wants, one for each calendar month; what is counted to them is in limits.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from duckdp.core import accountant as accounting
from duckdp.core.types import DELTA_RULE, AccountantKind, Loss, show_decimal
from duckdp.errors import BudgetError, ParameterError
from duckdp.ledger import chain, directory
from duckdp.ledger.chain import MONTH_COLUMNS
from duckdp.ledger.limits import Pair, all_teams, look_up_team, members_of
from duckdp.ledger.seals import Damage, Row
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import MAX_INTEGER, Cap
from duckdp.ledger.words import check_analyst, check_name, check_reason

Holder = Literal["analyst", "team"]


def grant(tx: Tx, kind: AccountantKind, analyst: str, cap: Cap, *, raise_to: bool, reason: str | None) -> None:
    """See :meth:`duckdp.ledger.Ledger.grant`."""
    check_analyst(analyst)
    _require_within_total(tx, cap)
    old = look_up(tx, analyst)
    if old is not None:
        if _columns(kind, cap) == _present(old) and old["revoked"] is None:
            return
        if old["revoked"] is not None and not (raise_to and reason):
            raise raising_needs(f'analyst "{analyst}", whose grant is revoked,')
        _allow_change(old, kind, cap, raise_to=raise_to, reason=reason, what="analyst")
    _set(tx, "analyst", old, analyst, kind, cap, reason)


def set_team(
    tx: Tx,
    kind: AccountantKind,
    team: str,
    cap: Cap,
    members: Sequence[str] | None,
    *,
    raise_to: bool,
    reason: str | None,
) -> None:
    """See :meth:`duckdp.ledger.Ledger.set_team`."""
    check_name(team, "team")
    _require_within_total(tx, cap)
    old = look_up_team(tx, team)
    before = () if old is None else members_of(old)
    after = before if members is None else tuple(sorted({check_analyst(m, "member") for m in members}))
    for member in after:
        if look_up(tx, member) is None:
            raise no_grant(member)
    if old is not None:
        if _columns(kind, cap) == _present(old) and after == before:
            return
        _allow_change(old, kind, cap, raise_to=raise_to, reason=reason, what=f'team "{team}"')
        _allow_leaving(team, [member for member in before if member not in after], reason)
    _set(tx, "team", old, team, kind, cap, reason, members=after)
    for member in sorted(set(before) ^ set(after)):
        _change_teams(tx, member, team)


def _allow_leaving(team: str, leaving: Sequence[str], reason: str | None) -> None:
    if leaving and reason is None:
        who = ", ".join(f'"{member}"' for member in leaving)
        raise BudgetError(
            "B105",
            f'{who} would leave team "{team}", whose cap then limits them no more. Give a reason, kept in the '
            "log; what they spent stays with the team.",
        )


def _change_teams(tx: Tx, analyst: str, team: str) -> None:
    """Let an analyst join a team, or leave it."""
    row = look_up(tx, analyst)
    if row is None:
        raise Damage("a grant is lost")
    teams = set(json.loads(row["teams"])) ^ {team}
    tx.change("analyst", row, ("name",), teams=json.dumps(sorted(teams)))


def look_up(tx: Tx, analyst: str) -> Row | None:
    """The analyst's row; None if it is proved that there is none."""
    row = tx.held("analyst", name=analyst)
    if row is None and directory.find(tx, directory.analyst(analyst)) is not None:
        raise Damage("a grant is lost")
    return row


def all_analysts(tx: Tx) -> list[Row]:
    """The rows of all analysts, by name."""
    rows = [tx.get("analyst", name=name.decode()) for name, _ in directory.listed(tx, directory.analyst(""))]
    if None in rows:
        raise Damage("a grant is lost")
    return [row for row in rows if row is not None]


def set_cap(tx: Tx, analyst: str, cap: Cap, kind: AccountantKind, reason: str | None) -> None:
    """Give an analyst a cap, whatever it was before."""
    _set(tx, "analyst", look_up(tx, analyst), analyst, kind, cap, reason)


def recount(tx: Tx, kind: AccountantKind) -> None:
    """Turn all caps into limits of another accountant; nothing was charged yet."""
    why = "the accountant changed"
    for row in all_analysts(tx):
        if row["revoked"] is None:
            _set(tx, "analyst", row, row["name"], kind, _cap(row), why)
    for row in all_teams(tx):
        _set(tx, "team", row, row["name"], kind, _cap(row), why, members=members_of(row))


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


def allow_change(
    old: Row, epsilon_nano: int, delta_atto: int, limit: Pair, *, raise_to: bool, reason: str | None, what: str
) -> None:
    """Whether a total or cap may be changed.

    Raises:
        BudgetError: B104 below what was spent, B105 raised without raise_to and a reason.
    """
    if (epsilon_nano > old["epsilon_nano"] or delta_atto > old["delta_atto"]) and not (raise_to and reason):
        raise raising_needs(f"the {what}")
    if reason is not None:
        check_reason(reason)
    if limit[0] < old["primary_spent"] or limit[1] < old["secondary_spent"]:
        wanted = Loss(epsilon_nano=epsilon_nano, delta_atto=delta_atto)
        if limit == (epsilon_nano, delta_atto) and limit[0] >= old["primary_spent"]:  # basic, and epsilon is enough
            spent = show_decimal(old["secondary_spent"], 18)
            raise BudgetError(
                "B104",
                f"delta={show_decimal(delta_atto, 18)} is less than the {spent} that the {what} has already spent. "
                f"Give delta={spent} at least, or stop with freeze or revoke.",
            )
        raise BudgetError(
            "B104",
            f"{wanted} is less than the {what} has already spent. Set at least what was spent, or stop with freeze or "
            "revoke.",
        )


def raising_needs(what: str) -> BudgetError:
    """The error for a budget that is raised in passing."""
    return BudgetError(
        "B105", f"the budget of {what} is raised only with raise_to=True and reason=..., kept in the log."
    )


def no_grant(analyst: str) -> BudgetError:
    """The error for an analyst who was never let in."""
    return BudgetError(
        "B102", f'analyst "{analyst}" has no grant. The data owner gives one: curator.grant("{analyst}", epsilon=...).'
    )


def _allow_change(old: Row, kind: AccountantKind, cap: Cap, *, raise_to: bool, reason: str | None, what: str) -> None:
    limit = limits_of(kind, cap.epsilon_nano, cap.delta_atto)
    allow_change(old, cap.epsilon_nano, cap.delta_atto, limit, raise_to=raise_to, reason=reason, what=what)
    if old["month_epsilon_nano"] is None or (raise_to and reason):
        return
    before = old["month_epsilon_nano"], old["month_delta_atto"]
    after = cap.month_epsilon_nano, cap.month_delta_atto
    if after[0] is None or after[1] is None or after[0] > before[0] or after[1] > before[1]:
        raise BudgetError(
            "B105",
            f"what the {what} may spend in a month is raised, or no longer limited, only with raise_to=True "
            f"and reason=..., kept in the log. It is {_monthly(*before)}: give per_month to keep it.",
        )


def _monthly(epsilon_nano: int, delta_atto: int) -> str:
    return f"{Loss(epsilon_nano=epsilon_nano, delta_atto=delta_atto)} a month"


def _require_within_total(tx: Tx, cap: Cap) -> None:
    dataset = tx.dataset()
    for name, units, total, decimals in (
        ("epsilon", cap.epsilon_nano, dataset["epsilon_nano"], 9),
        ("delta", cap.delta_atto, dataset["delta_atto"], 18),
    ):
        if units > total:
            rule = (
                f"is more than the data set's total {name}={show_decimal(total, decimals)}. Grant at most that, or "
                "raise the total first."
            )
            raise ParameterError("P107", name, show_decimal(units, decimals), rule)


def _columns(kind: AccountantKind, cap: Cap) -> dict[str, Any]:
    """A cap as it is stored, and as it stands in the chain: without a month's part where there is none."""
    values = (cap.epsilon_nano, cap.delta_atto, *limits_of(kind, cap.epsilon_nano, cap.delta_atto))
    columns = dict(zip(chain.CAP_COLUMNS, values, strict=True))
    if cap.month_epsilon_nano is None or cap.month_delta_atto is None:
        return columns
    monthly = (cap.month_epsilon_nano, cap.month_delta_atto)
    return columns | dict(zip(MONTH_COLUMNS, (*monthly, *limits_of(kind, *monthly)), strict=True))


def _present(row: Row) -> dict[str, Any]:
    columns = chain.CAP_COLUMNS if row["month_epsilon_nano"] is None else (*chain.CAP_COLUMNS, *MONTH_COLUMNS)
    return {column: row[column] for column in columns}


def _cap(row: Row) -> Cap:
    return Cap(
        epsilon_nano=row["epsilon_nano"],
        delta_atto=row["delta_atto"],
        month_epsilon_nano=row["month_epsilon_nano"],
        month_delta_atto=row["month_delta_atto"],
    )


def _set(
    tx: Tx,
    table: Holder,
    old: Row | None,
    name: str,
    kind: AccountantKind,
    cap: Cap,
    reason: str | None,
    *,
    members: tuple[str, ...] = (),
) -> None:
    columns = _columns(kind, cap)
    stored: dict[str, Any] = {**dict.fromkeys(MONTH_COLUMNS), **columns}
    detail = dict(columns)
    if table == "team":
        stored["members"], detail["members"] = json.dumps(members), list(members)
    elif old is not None:
        stored["revoked"] = None
    if old is None:
        tx.insert(table, name=name, **stored)
        directory.enter(tx, directory.analyst(name) if table == "analyst" else directory.team(name), 0)
    else:
        tx.change(table, old, ("name",), **stored)
    chain.append(tx, "grant" if table == "analyst" else "team", name, detail, reason)
