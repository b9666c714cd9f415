"""What all commands share: errors on stderr with exit code 1, the options, the curator."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from duckdp.errors import DuckDPError

if TYPE_CHECKING:
    from duckdp.curator import Curator
    from duckdp.ledger import Ledger
    from duckdp.result import Result

F = TypeVar("F", bound=Callable[..., Any])


class Commands(click.Group):
    """Commands whose errors are one coded line on stderr and exit code 1, without a traceback, in the order added."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; say its error."""
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal without the sign "±" still gets its answer
        try:
            return super().invoke(ctx)
        except DuckDPError as error:
            from duckdp.shell.output import escape

            click.echo(escape(str(error)), err=True)
            ctx.exit(1)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names, in the order of use rather than of the alphabet."""
        return list(self.commands)


def source_argument(function: F) -> F:
    """SOURCE and --ledger."""
    where = click.option(
        "--ledger", "ledger_path", metavar="FILE", help="Budgets and charges; beside SOURCE by default."
    )
    return click.argument("source")(where(function))


def analyst_option(function: F) -> F:
    """--analyst."""
    return click.option("--analyst", required=True, metavar="NAME", help="Who asks.")(function)


def reason_option(*, required: bool) -> Callable[[F], F]:
    """--reason."""
    return click.option("--reason", required=required, metavar="TEXT", help="Why; kept in the ledger's log.")


def format_option(function: F) -> F:
    """--format."""
    kinds = click.Choice(["table", "csv", "json"])
    return click.option("--format", "style", type=kinds, default="table", show_default=True, help="How to print.")(
        function
    )


@contextmanager
def open_curator(source: str, ledger_path: str | None) -> Iterator[Curator]:
    """The curator of a source, closed at the end."""
    import duckdp

    curator = duckdp.open(source, ledger=ledger_path, progress=say_reading if sys.stderr.isatty() else None)
    try:
        yield curator
    finally:
        curator.close()


def say_reading(stage: str, share: float) -> None:
    """Show how far reading a new source is, on a line that the next one overwrites."""
    from duckdp.decoding import READING

    if stage == READING:
        click.echo(f"{stage}: {share:4.0%}, Ctrl-C ends it\r", nl=False, err=True)


@contextmanager
def open_ledger(source: str, ledger_path: str | None) -> Iterator[Ledger]:
    """The ledger alone: works while the source is locked or away."""
    from duckdp.ledger import Ledger

    ledger = Ledger.open(path_of_ledger(source, ledger_path), create=False)
    try:
        yield ledger
    finally:
        ledger.close()


def path_of_ledger(source: str, ledger_path: str | None) -> str:
    """--ledger, or the file beside the source."""
    from duckdp.ledger.files import default_ledger

    return default_ledger(source, ledger_path)


def is_terminal() -> bool:
    """Whether a person sits at the other end."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def print_result(result: Result, style: str) -> None:
    """Print an answer; what does not fit its format goes to stderr."""
    from duckdp.shell import render

    text, footer = render(result, style)
    click.echo(text)
    if footer:
        click.echo(footer, err=True)
