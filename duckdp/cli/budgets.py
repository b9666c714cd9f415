"""Commands on budgets. All but ``budget`` need the ledger alone, so they work while the source is locked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from duckdp.cli.common import open_curator, open_ledger, reason_option, source_argument

if TYPE_CHECKING:
    from duckdp.ledger import Ledger
    from duckdp.ledger.types import CapState

F = TypeVar("F", bound=Callable[..., Any])


def _month_options(function: F) -> F:
    """--per-month and --per-month-delta."""
    delta = click.option("--per-month-delta", metavar="X", help="The same of delta.")
    return click.option("--per-month", metavar="X", help="The most of it in a calendar month (UTC).")(delta(function))


@click.command()
@source_argument
@click.option("--epsilon", metavar="X", help="Total for all analysts, for ever.")
@click.option("--delta", default="0", metavar="X", help="For Gaussian noise, keys without a domain, and zcdp.")
@click.option("--neighbours", type=click.Choice(["add_remove", "replace"]), default="add_remove", show_default=True)
@click.option("--accountant", type=click.Choice(["basic", "zcdp"]), default="basic", show_default=True)
@click.option("--raise", "raise_to", is_flag=True, help="Allow a larger total than before; needs --reason.")
@click.option("--accountants", is_flag=True, help="Show too what all charges amount to by each accountant.")
@reason_option(required=False)
def budget(
    source: str,
    ledger_path: str | None,
    epsilon: str | None,
    delta: str,
    neighbours: str,
    accountant: str,
    raise_to: bool,
    accountants: bool,
    reason: str | None,
) -> None:
    """Set the total budget; without --epsilon, show it."""
    if epsilon is None:
        with open_ledger(source, ledger_path) as ledger:
            _show(ledger)
            if accountants:
                from duckdp.ledger.accountants import losses, tell

                click.echo(str(tell(losses(ledger), ledger.state().delta_atto or 0)))
        return
    with open_curator(source, ledger_path) as curator:
        curator.budget(
            epsilon=epsilon, delta=delta, neighbours=neighbours, accountant=accountant, raise_to=raise_to, reason=reason
        )
        _show(curator.ledger)


@click.command()
@source_argument
@click.argument("analyst")
@click.option("--epsilon", required=True, metavar="X", help="The analyst's cap within the total.")
@click.option("--delta", default="0", metavar="X")
@_month_options
@click.option("--raise", "raise_to", is_flag=True, help="Allow a larger cap than before; needs --reason.")
@reason_option(required=False)
def grant(
    source: str,
    ledger_path: str | None,
    analyst: str,
    epsilon: str,
    delta: str,
    per_month: str | None,
    per_month_delta: str | None,
    raise_to: bool,
    reason: str | None,
) -> None:
    """Let an analyst in, up to a cap."""
    from dataclasses import asdict

    from duckdp.ledger.types import read_cap

    cap = read_cap(epsilon, delta, per_month, per_month_delta)
    with open_ledger(source, ledger_path) as ledger:
        ledger.grant(analyst, **asdict(cap), raise_to=raise_to, reason=reason)
        click.echo(f"{analyst}: {ledger.remaining(analyst).sentence}")


@click.command()
@source_argument
@click.argument("name", required=False)
@click.option("--epsilon", metavar="X", help="The team's cap within the total.")
@click.option("--delta", default="0", metavar="X")
@_month_options
@click.option("--add", multiple=True, metavar="ANALYST", help="Who joins; again for more.")
@click.option("--remove", multiple=True, metavar="ANALYST", help="Who leaves; needs --reason.")
@click.option("--raise", "raise_to", is_flag=True, help="Allow a larger cap than before; needs --reason.")
@reason_option(required=False)
def team(
    source: str,
    ledger_path: str | None,
    name: str | None,
    epsilon: str | None,
    delta: str,
    per_month: str | None,
    per_month_delta: str | None,
    add: tuple[str, ...],
    remove: tuple[str, ...],
    raise_to: bool,
    reason: str | None,
) -> None:
    """Give some analysts a cap that they share; without NAME, show the teams.

    Without --epsilon the caps stay as they are.
    """
    from duckdp.ledger.types import read_cap

    with open_ledger(source, ledger_path) as ledger:
        if name is None:
            _show_teams(ledger)
            return
        known = next((found for found in ledger.teams() if found.name == name), None)
        if epsilon is None and known is None:
            raise click.UsageError("Missing option '--epsilon'.")
        cap = (
            known.cap if known is not None and epsilon is None else read_cap(epsilon, delta, per_month, per_month_delta)
        )
        members = sorted((set(known.members if known else ()) | set(add)) - set(remove))
        ledger.set_team(name, cap, members=members, raise_to=raise_to, reason=reason)
        _show_teams(ledger)


@click.command()
@source_argument
@click.argument("analyst")
@reason_option(required=False)
def revoke(source: str, ledger_path: str | None, analyst: str, reason: str | None) -> None:
    """Stop one analyst: no new charges until a new grant."""
    with open_ledger(source, ledger_path) as ledger:
        ledger.revoke(analyst, reason or "revoked by the owner")
    click.echo(f"{analyst} is stopped; a new grant with --raise and --reason lets them in again")


@click.command()
@source_argument
@reason_option(required=False)
def freeze(source: str, ledger_path: str | None, reason: str | None) -> None:
    """Stop everybody, at once and in every process."""
    with open_ledger(source, ledger_path) as ledger:
        ledger.freeze(reason or "frozen by the owner")
    click.echo("frozen: nothing is charged or answered until unfreeze")


@click.command()
@source_argument
@reason_option(required=True)
def unfreeze(source: str, ledger_path: str | None, reason: str) -> None:
    """Let analysts be charged again, after freeze."""
    with open_ledger(source, ledger_path) as ledger:
        ledger.unfreeze(reason)
    click.echo("no longer frozen")


@click.command()
@source_argument
@click.argument("name")
@click.option("--owner", required=True, metavar="ANALYST", help="Whose summary or synthetic table it is.")
@click.option("--to", required=True, metavar="ANALYST", help="Who may use it too.")
def share(source: str, ledger_path: str | None, name: str, owner: str, to: str) -> None:
    """Let another analyst use a stored summary or synthetic table."""
    with open_ledger(source, ledger_path) as ledger:
        ledger.share(name, owner, to)
    click.echo(f"{to} may use {owner}'s {name}")


def _show(ledger: object) -> None:
    from duckdp.core.types import Loss
    from duckdp.ledger import Ledger
    from duckdp.result import plain_result

    assert isinstance(ledger, Ledger)
    state = ledger.state()
    if state.neighbours is None or state.accountant is None or state.epsilon_nano is None:
        click.echo("no budget has been set; duckdp budget SOURCE --epsilon X sets it")
        return
    rows = [
        (
            "all",
            _granted(Loss, state.epsilon_nano, state.delta_atto),
            state.remaining or "",
            _state(state.frozen, "frozen"),
        )
    ]
    for found in ledger.analysts():
        rows += _cap_rows(found.name, found, _state(found.revoked, "revoked"))
    for team in ledger.teams():
        rows += _cap_rows(f"team {team.name}", team, "active")
    click.echo(f"neighbours: {state.neighbours.value}; accountant: {state.accountant.value}")
    click.echo(str(plain_result(["who", "granted", "left", "state"], rows)))


def _show_teams(ledger: Ledger) -> None:
    from duckdp.result import plain_result

    rows = [(*row[:3], ", ".join(team.members)) for team in ledger.teams() for row in _cap_rows(team.name, team, "")]
    if not rows:
        click.echo("there is no team; duckdp team SOURCE NAME --epsilon X --add ANALYST makes one")
        return
    click.echo(str(plain_result(["team", "granted", "left", "members"], rows)))


def _cap_rows(name: str, cap: CapState, state: str) -> list[tuple[str, str, str, str]]:
    """A cap, and its month's part if it has one."""
    from duckdp.core.types import Loss

    rows = [(name, _granted(Loss, cap.epsilon_nano, cap.delta_atto), cap.remaining, state)]
    if cap.month is not None:
        left = f"{cap.month.remaining} until {cap.month.replenishes}"
        rows.append((name, f"{cap.month.granted} a month", left, state))
    return rows


def _granted(loss: type, epsilon_nano: int, delta_atto: int | None) -> str:
    return str(loss(epsilon_nano=epsilon_nano, delta_atto=delta_atto or 0))


def _state(stopped: bool, word: str) -> str:
    return word if stopped else "active"
