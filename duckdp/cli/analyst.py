"""Commands that speak for one analyst: explain, query, shell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from duckdp.cli.common import (
    analyst_option,
    format_option,
    is_terminal,
    open_curator,
    print_result,
    say_error,
    source_argument,
)  # fmt: skip

MECHANISM = click.Choice(["auto", "laplace", "gaussian"])
F = TypeVar("F", bound=Callable[..., Any])


def terms_options(command: F) -> F:
    """The options that say what a statement may cost."""
    for option in (
        click.option("--mechanism", type=MECHANISM, default="auto", show_default=True),
        click.option(
            "--error", type=float, metavar="X", help="In place of epsilon: the widest acceptable 95% half-width."
        ),
        click.option("--delta", default="0", metavar="X", help="For Gaussian noise and keys without a domain."),
        click.option("--epsilon", metavar="X", help="What the whole statement costs."),
    ):
        command = option(command)
    return command


@click.command()
@source_argument
@click.argument("sql")
@analyst_option
@terms_options
def explain(
    source: str, ledger_path: str | None, sql: str, analyst: str, epsilon: str | None, delta: str, error: float | None,
    mechanism: str,
) -> None:  # fmt: skip
    """Plan, cost and expected error of a statement; free, and touches no data."""
    with open_curator(source, ledger_path) as curator:
        session = curator.session(analyst)
        click.echo(str(session.explain(_text(sql), epsilon=epsilon, delta=delta, error=error, mechanism=mechanism)))  # type: ignore[arg-type]


@click.command()
@source_argument
@click.argument("sql")
@analyst_option
@terms_options
@click.option("--fresh", is_flag=True, help="Pay again for a new answer.")
@format_option
def query(
    source: str, ledger_path: str | None, sql: str, analyst: str, epsilon: str | None, delta: str, error: float | None,
    mechanism: str, fresh: bool, style: str,
) -> None:  # fmt: skip
    """Ask one statement as an analyst; SQL - reads it from standard input."""
    import duckdb

    from duckdp.errors import QueryError
    from duckdp.shell import explain_error

    text = _text(sql)
    with open_curator(source, ledger_path) as curator:
        session = curator.session(analyst)
        try:
            result = session.sql(
                text, epsilon=epsilon, delta=delta, error=error, mechanism=mechanism, fresh=fresh,  # type: ignore[arg-type]
            )  # fmt: skip
        except (QueryError, duckdb.Error) as failure:
            say_error(explain_error(failure))
            raise click.exceptions.Exit(1) from None
        print_result(result, style)


@click.command()
@source_argument
@analyst_option
@click.option("--epsilon", metavar="X", help="What a statement costs unless it says otherwise.")
@click.option("--delta", metavar="X", help="Likewise.")
@format_option
def shell(
    source: str, ledger_path: str | None, analyst: str, epsilon: str | None, delta: str | None, style: str
) -> None:
    """SQL prompt of one analyst; reads standard input when that is not a terminal."""
    from duckdp.shell import Shell

    with open_curator(source, ledger_path) as curator:
        prompt = Shell(curator, analyst, out=click.echo, err=lambda text: click.echo(text, err=True))
        prompt.mode = style
        if epsilon is not None:
            prompt.analyst.set_epsilon(epsilon)
        if delta is not None:
            prompt.analyst.set_delta(delta)
        if is_terminal():
            prompt.prompt()
        else:
            prompt.read(sys.stdin)
            if prompt.failed:
                raise click.exceptions.Exit(1)


def _text(sql: str) -> str:
    return sys.stdin.read() if sql == "-" else sql
