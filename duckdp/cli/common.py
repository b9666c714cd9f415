"""What all commands share: errors on stderr with exit code 1, the options, the curator."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from duckdp.errors import DuckDPError

if TYPE_CHECKING:
    from duckdp.curator import Curator
    from duckdp.ledger import Ledger
    from duckdp.ledger.places import Where
    from duckdp.result import Result

F = TypeVar("F", bound=Callable[..., Any])


class Commands(click.Group):
    """Commands whose errors are one coded line on stderr and exit code 1, without a traceback, in the order added.

    Ctrl-C is exit code 130.
    """

    def main(self, *args: Any, **named: Any) -> Any:
        """Run the command line; Ctrl-C outside of a command ends it like one inside."""
        try:
            return super().main(*args, **named)
        except SystemExit as error:
            if isinstance(error.__context__, click.exceptions.Abort):
                raise SystemExit(130) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; say its error."""
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal without the sign "±" still gets its answer
        try:
            return super().invoke(ctx)
        except DuckDPError as error:
            text, code = str(error), 130 if error.code == "E102" else 1
        except KeyboardInterrupt:
            text, code = "E102: interrupted. What was done stays; run it again.", 130
        except (RuntimeError, OSError) as error:
            if (
                isinstance(error, (click.exceptions.Exit, click.exceptions.Abort))
                or getattr(error, "errno", None) == errno.EPIPE
            ):
                raise  # click's own, and whoever read our output is gone
            text, code = _told(error), 1
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            text, code = _told(error), 1
        say_error(text, _options_of(self))
        ctx.exit(code)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names, in the order of use rather than of the alphabet."""
        return list(self.commands)


def say_error(text: str, options: Collection[str] = ()) -> None:
    """An error on stderr, with the options and commands that are its ways out."""
    from duckdp.cli.wording import as_options, at_the_command_line
    from duckdp.shell.output import escape

    click.echo(escape(as_options(at_the_command_line(text), options)), err=True)


def _options_of(command: click.Command) -> set[str]:
    """The options of a command and all within it, without dashes, as Python would call them."""
    own = {o[2:].replace("-", "_") for p in command.params if isinstance(p, click.Option) for o in p.opts}
    within = command.commands.values() if isinstance(command, click.Group) else ()
    return own.union(*map(_options_of, within))


def _told(error: Exception) -> str:
    """What no code of ours foresaw, in a line; its text may quote data."""
    if isinstance(error, OSError) and error.strerror is not None:
        return f"P107: file={error.filename!r}: {error.strerror}."
    return f"X101: an internal invariant does not hold ({type(error).__name__})."


def source_argument(function: F) -> F:
    """SOURCE and --ledger; --anchor and --anchor-command, which :func:`anchor_given` reads, and --memory."""
    for option in (
        click.option(
            "--memory",
            metavar="SIZE",
            envvar="DUCKDP_MEMORY",
            expose_value=False,
            callback=_remember,
            help='What private reads may take, as "4GB"; more goes to the disk.',
        ),
        click.option(
            "--anchor-command",
            metavar="WORDS",
            envvar="DUCKDP_ANCHOR_COMMAND",
            expose_value=False,
            callback=_remember,
            help="The command that keeps the ledger's anchor; run without a shell.",
        ),
        click.option(
            "--anchor",
            metavar="FILE",
            envvar="DUCKDP_ANCHOR",
            expose_value=False,
            callback=_remember,
            help="The ledger's anchor on another disk.",
        ),
        click.option(
            "--ledger",
            "ledger_path",
            metavar="FILE",
            help="Budgets and charges; beside SOURCE by default. Or postgresql://...",
        ),
    ):
        function = option(function)
    return click.argument("source")(function)


def _remember(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[f"duckdp.{option.name}"] = value


def anchor_given() -> Where | None:
    """What --anchor or --anchor-command says.

    Raises:
        ParameterError: P107.
    """
    meta = click.get_current_context().meta
    file, words = meta.get("duckdp.anchor"), meta.get("duckdp.anchor_command")
    if file is not None and words is not None:
        raise click.UsageError("Give --anchor or --anchor-command, not both.")
    return file if words is None else words_in(words)


def words_in(text: str) -> list[str]:
    """A command line taken apart as a shell would, and nothing more.

    Raises:
        ParameterError: P107.
    """
    from duckdp.errors import ParameterError

    try:
        words = shlex.split(text)
    except ValueError:
        raise ParameterError("P107", "anchor_command", text, "has quotes that are not closed.") from None
    if not words or shutil.which(words[0]) is None:
        rule = 'must begin with a program that is found, for example "ssh keeper keep-anchor.sh /srv/clinic.anchor".'
        raise ParameterError("P107", "anchor_command", text, rule)
    return words


def analyst_option(function: F) -> F:
    """Give a command the option ``--analyst``."""
    return click.option("--analyst", required=True, metavar="NAME", help="Who asks.")(function)


def reason_option(*, required: bool) -> Callable[[F], F]:
    """Give a command the option ``--reason``, which the log keeps."""
    return click.option("--reason", required=required, metavar="TEXT", help="Why; kept in the ledger's log.")


def format_option(function: F) -> F:
    """Give a command the option ``--format``."""
    kinds = click.Choice(["table", "csv", "json", "markdown"])
    return click.option("--format", "style", type=kinds, default="table", show_default=True, help="How to print.")(
        function
    )


@contextmanager
def open_curator(source: str, ledger_path: str | None) -> Iterator[Curator]:
    """The curator of a source, closed at the end."""
    import duckdp

    tell = say_reading if sys.stderr.isatty() else None
    memory = click.get_current_context().meta.get("duckdp.memory")
    curator = duckdp.open(source, ledger=ledger_path, anchor=anchor_given(), memory=memory, progress=tell)
    try:
        yield curator
    finally:
        curator.close()


def say_reading(stage: str, share: float) -> None:
    """Show how far reading a new source is, on a line that the next one overwrites."""
    from duckdp.vault.decoding import READING

    if stage == READING:
        click.echo(f"{stage}: {share:4.0%}, Ctrl-C ends it\r", nl=False, err=True)


@contextmanager
def open_ledger(source: str, ledger_path: str | None) -> Iterator[Ledger]:
    """The ledger alone: works while the source is locked or away."""
    from duckdp.ledger import Ledger

    ledger = Ledger.open(path_of_ledger(source, ledger_path), create=False, anchor=anchor_given())
    try:
        yield ledger
    finally:
        ledger.close()


def path_of_ledger(source: str, ledger_path: str | None) -> str:
    """--ledger, or the file beside the source."""
    from duckdp.ledger.files import default_ledger

    return default_ledger(source, ledger_path)


def path_of_users(source: str, ledger_path: str | None) -> str:
    """What the file of users lies beside: the ledger, or, if that is on a server, where it would lie by default.

    Raises:
        ParameterError: P107, neither the rows nor the ledger are in a file.
    """
    from duckdp.errors import ParameterError
    from duckdp.ledger.addresses import is_address

    place = path_of_ledger(source, ledger_path)
    if not is_address(place):
        return place
    if source.startswith("spark://"):
        rule = "lies beside the ledger's file, or the data's, and both are on servers. Give it: --users FILE."
        raise ParameterError("P107", "users", None, rule)
    return f"{os.path.splitext(source)[0]}.ledger"


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
