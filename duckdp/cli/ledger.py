"""Commands on the ledger file; the data itself is not opened."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

import click

from duckdp.cli.common import (
    anchor_given,
    format_option,
    open_ledger,
    path_of_ledger,
    print_result,
    reason_option,
    source_argument,
    words_in,
)
from duckdp.cli.history import export, history


class _ShowsByDefault(click.Group):
    """``ledger SOURCE`` means ``ledger show SOURCE``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ShowsByDefault)
def ledger() -> None:
    """Who was charged how much for what: ledger SOURCE.

    A SOURCE that is called like a subcommand is written ./NAME.
    """


@ledger.command()
@source_argument
@click.option("--analyst", metavar="NAME", help="Only this one's charges.")
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="At most so many, the newest.")
@click.option("--before", type=click.IntRange(1), metavar="CHARGE", help="Only earlier ones, to go back from a page.")
@format_option
def show(source: str, ledger_path: str | None, analyst: str | None, limit: int, before: int | None, style: str) -> None:
    """Charges, oldest first (the default); history and export give all of them."""
    from duckdp.result import plain_result
    from duckdp.shell.output import escape

    with open_ledger(source, ledger_path) as found:
        rows = [
            (c.id, c.at, c.analyst, c.kind, c.mechanism, str(c.loss), c.state, _short(escape(c.statement), style))
            for c in found.charges(analyst, limit=limit + 1, before=before)
        ]
    more, rows = len(rows) > limit, rows[-limit:]
    names = ["charge", "at", "analyst", "kind", "mechanism", "cost", "state", "statement"]
    result = plain_result(names, rows, ["BIGINT"] + ["VARCHAR"] * 7)
    if style != "table":
        print_result(result, style)
    else:
        _print_all(names, rows)
    if more:
        click.echo(f"there are earlier charges: --before {rows[0][0]}", err=True)


@ledger.command()
@source_argument
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most so many, the newest.")
@click.option("--before", type=click.IntRange(1), metavar="NUMBER", help="Only earlier ones, to go back from a page.")
@format_option
def log(source: str, ledger_path: str | None, limit: int, before: int | None, style: str) -> None:
    """What the owner did, newest first."""
    from duckdp.result import plain_result
    from duckdp.shell.output import escape

    with open_ledger(source, ledger_path) as found:
        events = found.log(limit + 1, before=before)
    more, events = len(events) > limit, events[:limit]
    names = ["at", "action", "subject", "reason", "changes"]
    changes = ["; ".join(json.loads(e.detail).get("changes", [])) for e in events]
    rows = [(e.at, e.kind, e.subject, escape(e.reason or ""), escape(c)) for e, c in zip(events, changes, strict=True)]
    print_result(plain_result(names, rows), style)
    if more:
        click.echo(f"there are earlier ones: --before {events[-1].number}", err=True)


@ledger.command()
@source_argument
def verify(source: str, ledger_path: str | None) -> None:
    """Check every row, every entry of the history and every index; others go on meanwhile, Ctrl-C ends it.

    Opening a ledger checks what everything else hangs on, and each row is checked when it is used. Only this finds
    damage that nothing has met yet: run it now and then, for example each night, and before an older backup goes.
    """
    with open_ledger(source, ledger_path) as found:
        checked = found.verify(_say_stage if sys.stderr.isatty() else lambda *_: None)
    click.echo(str(checked))


ledger.add_command(history)
ledger.add_command(export)


@ledger.command()
@source_argument
@click.argument("target")
def backup(source: str, ledger_path: str | None, target: str) -> None:
    """Write a complete copy to a new file; the copy answers nothing until ledger restore.

    A plain file copy may miss charges; this one does not.
    """
    with open_ledger(source, ledger_path) as found:
        found.backup(target)
    made = [target, f"{target}.anchor"]
    if os.path.lexists(log := f"{target}.statements"):
        made.append(log)
    click.echo(f"backup: {', '.join(made)}: keep them together. It answers nothing until ledger restore.")


@ledger.command()
@source_argument
@click.option("--statements", is_flag=True, help="The log of statements instead: begin it anew where it is damaged.")
@reason_option(required=True)
def repair(source: str, ledger_path: str | None, reason: str, *, statements: bool) -> None:
    """Write a missing or damaged anchor anew: you vouch that this ledger is the newest.

    With --anchor or --anchor-command it is there from now on, and the one that it was is not asked. With --statements,
    what is missing from the log of statements is accepted, and ledger verify no longer asks for it.
    """
    if statements:
        with open_ledger(source, ledger_path) as found:
            moved = found.repair_statements(reason)
        click.echo("what is missing from the log of statements is accepted" + (f"; it is at {moved}" if moved else ""))
        return
    from duckdp.ledger import Ledger

    Ledger.repair_anchor(path_of_ledger(source, ledger_path), reason, anchor=anchor_given())
    click.echo("the anchor is in place")


@ledger.command()
@source_argument
@click.option("--to", metavar="FILE", help="A file on another disk; LEDGER.anchor is the file beside the ledger.")
@click.option("--to-command", metavar="WORDS", help="A command, run without a shell.")
@reason_option(required=False)
def anchor(source: str, ledger_path: str | None, to: str | None, to_command: str | None, reason: str | None) -> None:
    """Where the anchor is; with --to or --to-command and --reason, where it is from now on."""
    if to is not None and to_command is not None:
        raise click.UsageError("Give --to or --to-command, not both.")
    if reason is None and (to is not None or to_command is not None):
        raise click.UsageError("Missing option '--reason'.")
    with open_ledger(source, ledger_path) as found:
        new = words_in(to_command) if to_command is not None else to
        if new is not None:
            found.move_anchor(new, reason=reason or "")
        click.echo(f"the anchor is {found.state().anchor}")


@ledger.command()
@source_argument
@click.argument("address")
@click.option("--to", metavar="FILE", help="Where the anchor is from now on: a file.")
@click.option("--to-command", metavar="WORDS", help="The same: a command, run without a shell.")
@reason_option(required=True)
def move(
    source: str, ledger_path: str | None, address: str, to: str | None, to_command: str | None, reason: str
) -> None:
    """Move the ledger from its file to a server: postgresql://user@host/database?schema=name.

    The file is closed for good and stays as a record; from now on say --ledger ADDRESS. If it fails, say it again.
    """
    from duckdp.ledger.addresses import canonical

    if to is not None and to_command is not None:
        raise click.UsageError("Give --to or --to-command, not both.")
    with open_ledger(source, ledger_path) as found:
        found.move(address, reason=reason, anchor=words_in(to_command) if to_command is not None else to)
        path = found.path
    click.echo(f"moved; {path} is closed for good. From now on: --ledger '{canonical(address)}'")


@ledger.command()
@source_argument
@click.option("--nothing-lost", is_flag=True, help="You vouch that nothing was charged after the backup.")
@reason_option(required=True)
def restore(source: str, ledger_path: str | None, reason: str, *, nothing_lost: bool) -> None:
    """Put a backup into service: its original is gone for good, and --reason says how.

    What was left of the budget is charged as lost, since any of it may have been spent after the backup; raise the
    total by what surely was not: budget --raise --reason.
    """
    with open_ledger(source, ledger_path) as found:
        found.put_into_service(reason=reason, nothing_lost=nothing_lost)
        state = found.state()
    click.echo(f"in service; {state.remaining} left" if state.remaining else "in service; no budget has been set")


def _say_stage(stage: str, share: float) -> None:
    click.echo(f"{stage}: {share:4.0%}, Ctrl-C ends it\r", nl=False, err=True)


def _short(text: str, style: str) -> str:
    return text if style != "table" else " ".join(text.split())[:80]


def _print_all(names: list[str], rows: Sequence[tuple[object, ...]]) -> None:
    """A table of every line; a Result shows the first ones only."""
    from duckdp.result import MOST_SHOWN, plain_result

    types = ["BIGINT"] + ["VARCHAR"] * (len(names) - 1)
    for first in range(0, max(len(rows), 1), MOST_SHOWN):
        click.echo(str(plain_result(names, rows[first : first + MOST_SHOWN], types)))
