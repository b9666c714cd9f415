"""Commands of the server: serve, user."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from duckdp.arguments import path_text
from duckdp.cli.common import F, open_curator, path_of_users, source_argument
from duckdp.errors import ParameterError

if TYPE_CHECKING:
    from duckdp.serve.users import Users


def users_option(function: F) -> F:
    """Give a command the option ``--users``."""
    told = "Who may log in; beside the ledger by default, or where that would be."
    return click.option("--users", "users_path", metavar="FILE", envvar="DUCKDP_USERS", help=told)(function)


def users_of(source: str, ledger_path: str | None, users_path: str | None) -> Users:
    """The users of a source's server.

    Raises:
        ParameterError: P107, neither the rows nor the ledger are in a file, and --users is missing.
    """
    from duckdp.serve.serving import users_beside
    from duckdp.serve.users import Users

    if users_path is None:
        return users_beside(path_of_users(source, ledger_path))
    return Users(path_text(users_path, "users"))


@click.command()
@source_argument
@users_option
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option("--port", default=5433, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--tls-cert", metavar="FILE", help="Certificate (PEM); other machines are let in by TLS alone.")
@click.option("--tls-key", metavar="FILE", help="Its key, where it is not in the same file.")
@click.option(
    "--connections", default=200, show_default=True, type=click.IntRange(1, 10_000), help="At most, at a time."
)
@click.option("--idle", metavar="MINUTES", type=click.FloatRange(0.01, 1e6), help="End connections that ask nothing.")
@click.option(
    "--grid",
    default=50,
    show_default=True,
    metavar="MS",
    type=click.IntRange(0, 10_000),
    help="First step of the times at which private answers leave; 0: when they are there.",
)
def serve(
    source: str,
    ledger_path: str | None,
    users_path: str | None,
    host: str,
    port: int,
    tls_cert: str | None,
    tls_key: str | None,
    connections: int,
    idle: float | None,
    grid: int,
) -> None:
    """Let analysts in by PostgreSQL's protocol: psql, drivers, BI tools, DuckDB's shell. Ctrl-C ends it.

    Each analyst (duckdp user add) gets a process of their own, which holds no private row.
    """
    from duckdp.serve.serving import serve as run
    from duckdp.serve.serving import tls_context

    tls = tls_context(tls_cert, tls_key)
    users = users_of(source, ledger_path, users_path)
    if not users.names():
        raise ParameterError("P107", "users", str(users.path), "is empty: nobody could log in. Run duckdp user add.")

    def listening(host: str, port: int) -> None:
        click.echo(f"serving {source}: psql -h {host} -p {port} -U NAME", err=True)

    with open_curator(source, ledger_path) as curator:
        run(
            lambda analyst: curator.session(analyst).desk,
            users,
            host=host,
            port=port,
            tls=tls,
            most=connections,
            idle=None if idle is None else idle * 60,
            grid=grid / 1000,
            listening=listening,
        )


@click.group()
def user() -> None:
    """Who may log in to the server; what they may ask is said by grants of the same name."""


@user.command()
@source_argument
@users_option
@click.argument("name")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input, one line.")
def add(source: str, ledger_path: str | None, users_path: str | None, name: str, password_stdin: bool) -> None:
    """Let somebody in by a password, or change it. What is kept does not show it."""
    if password_stdin:
        password = sys.stdin.readline().rstrip("\n")
    elif sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        raise ParameterError("P107", "password", "...", "is asked for on a terminal; else give --password-stdin.")
    users_of(source, ledger_path, users_path).add(name, password)


@user.command()
@source_argument
@users_option
@click.argument("name")
def remove(source: str, ledger_path: str | None, users_path: str | None, name: str) -> None:
    """Let somebody in no more. Their grant stays: revoke takes that."""
    users_of(source, ledger_path, users_path).remove(name)


@user.command("list")
@source_argument
@users_option
def list_users(source: str, ledger_path: str | None, users_path: str | None) -> None:
    """Print who may log in, a name in each line."""
    for name in users_of(source, ledger_path, users_path).names():
        click.echo(name)
