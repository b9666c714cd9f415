"""Commands that speak for one analyst: explain, query, shell."""

from __future__ import annotations

import sys
from typing import Any

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
