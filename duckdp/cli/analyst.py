"""Commands that speak for one analyst: explain, query, shell."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from duckdp.cli.ask import Declared, spec_of
from duckdp.cli.common import (
    analyst_option,
    format_option,
    is_terminal,
    open_curator,
    print_result,
    say_error,
    source_argument,
)

if TYPE_CHECKING:
    from duckdp.client.connection import Connection
    from duckdp.shell import Shell


@click.command(cls=Declared, function="dp_explain")
@source_argument
@click.argument("sql")
@analyst_option
def explain(source: str, ledger_path: str | None, sql: str, analyst: str, **words: Any) -> None:
    """Plan, cost and expected error of a statement; free, and touches no data."""
    given = spec_of("dp_explain").read_words({"statement": _text(sql), **words})
    with open_curator(source, ledger_path) as curator:
        click.echo(str(curator.session(analyst).explain(given.pop("statement"), **given)))


@click.command(cls=Declared, function="dp_query")
@source_argument
@click.argument("sql")
@analyst_option
@format_option
def query(source: str, ledger_path: str | None, sql: str, analyst: str, style: str, **words: Any) -> None:
    """Ask one statement as an analyst; SQL - reads it from standard input."""
    import duckdb

    from duckdp.errors import QueryError
    from duckdp.shell import explain_error
    from duckdp.shell.analyst import Analyst

    given = spec_of("dp_query").read_words({"statement": _text(sql), **words})
    with open_curator(source, ledger_path) as curator:
        session, statement = curator.session(analyst), given.pop("statement")
        try:
            if session.desk.names_protected(statement):
                result = session.sql(statement, **given)
            else:  # calls of dp functions: they take what is SET, and their cost is said as in the shell
                own = Analyst(curator, analyst, tell=lambda text: click.echo(text, err=True))
                if given.get("epsilon") is not None:
                    own.set_epsilon(str(given["epsilon"]))
                result = own.run(statement, most=None)
        except (QueryError, duckdb.Error) as failure:
            say_error(explain_error(failure))
            raise click.exceptions.Exit(1) from None
        print_result(result, style)


@click.command()
@source_argument
@click.option("--analyst", metavar="NAME", help="Who asks; at a server, the address says it.")
@click.option("--epsilon", metavar="X", help="What a statement costs unless it says otherwise.")
@click.option("--delta", metavar="X", help="Likewise.")
@format_option
def shell(
    source: str, ledger_path: str | None, analyst: str | None, epsilon: str | None, delta: str | None, style: str
) -> None:
    """SQL prompt of one analyst; reads standard input when that is not a terminal.

    SOURCE is the data (the owner's rehearsal), or a server: postgres://ana@localhost:5433/clinic.
    """
    from duckdp.client.connection import SCHEMES
    from duckdp.shell import Shell

    told = partial(click.echo, err=True)
    if source.partition("://")[0] in SCHEMES and "://" in source:
        with _connected(source) as (con, name):
            _ask(Shell.at(con, name, out=click.echo, err=told), epsilon, delta, style)
        return
    if analyst is None:
        raise click.UsageError("Missing option '--analyst'.")
    with open_curator(source, ledger_path) as curator:
        _ask(Shell(curator, analyst, out=click.echo, err=told), epsilon, delta, style)


def _ask(prompt: Shell, epsilon: str | None, delta: str | None, style: str) -> None:
    """Statements of a terminal or of standard input."""
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


@contextmanager
def _connected(address: str) -> Iterator[tuple[Connection, str]]:
    """A connection to a server, and who asks; the password is the address's, PGPASSWORD, or typed."""
    from duckdp.client.connection import connect, read_address
    from duckdp.client.problems import Error

    _, _, name, secret, _ = read_address(address)
    typed = None
    if not secret and "PGPASSWORD" not in os.environ and is_terminal():
        typed = click.prompt(f"Password of {name}", hide_input=True)
    try:
        con = connect(address, password=typed)
    except Error as error:
        say_error(error.args[0])
        raise click.exceptions.Exit(1) from None
    with con:
        yield con, name


def _text(sql: str) -> str:
    return sys.stdin.read() if sql == "-" else sql
