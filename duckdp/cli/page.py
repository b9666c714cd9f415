"""The command of the owner's page: dashboard."""

from __future__ import annotations

import os

import click

from duckdp.cli.common import open_ledger, source_argument

DEFAULT = "dashboard.html"


@click.command()
@source_argument
@click.option("--out", metavar="FILE", help=f"A new file, which only you can read; {DEFAULT} by default.")
@click.option("--live", is_flag=True, help="Serve it on this machine instead, to whoever has its address.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of --live; a free one by default.")
@click.option(
    "--refresh",
    type=click.IntRange(0, 3600),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How often browsers ask --live again; 0: never.",
)
@click.option("--last", type=click.IntRange(1, 100_000), default=200, show_default=True, metavar="N")
def dashboard(
    source: str, ledger_path: str | None, out: str | None, live: bool, port: int, refresh: int, last: int
) -> None:
    """Your page: budgets over time, who asked what, what was refused and why, what was released. --last N entries.

    One HTML file that loads nothing, or with --live the same page beside a running server. It reads the ledger and the
    log of statements alone, so it works while the source is locked. What analysts asked is in it: it is for you.
    """
    from duckdp.dashboard.document import document
    from duckdp.dashboard.facts import Choice, Reader
    from duckdp.dashboard.live import Live, serve
    from duckdp.dashboard.reports import Reports
    from duckdp.process.new_file import write_new

    if live and out is not None:
        raise click.UsageError("Give --out or --live, not both.")
    name = os.path.basename(os.path.abspath(source))
    with open_ledger(source, ledger_path) as found:
        reader, reports = Reader(found), Reports(found)

        def make(choice: Choice) -> str:
            return document(reader.read(choice), name=name, choice=choice, report=reports, live=live)

        if live:
            server = Live(make, port=port, refresh=refresh)
            click.echo(f"{server.address}  (keep it to yourself; Ctrl-C ends it)")
            serve(server)
            return
        target = DEFAULT if out is None else out
        write_new(target, make(Choice(last=last)), private=True)
        click.echo(f"{target}: for you alone; it has the statements of all analysts")
