"""Commands that read the past: ``ledger history`` and ``ledger export``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

import click

from duckdp.cli.common import format_option, open_ledger, print_result, source_argument

if TYPE_CHECKING:
    from duckdp.ledger.history import Entry

KINDS = click.Choice(["charge", "act", "free", "refused", "failed", "lost"])
_MEASURED = 500  # entries by which the columns' widths are set


@click.command()
@source_argument
@click.option("--analyst", metavar="NAME", help="Only what this one asked, and grants and revocations of theirs.")
@click.option("--since", metavar="TIME", help="Only then or later: 2026-11-22, or 2026-11-22T14:30 (UTC).")
@click.option("--kind", "kinds", type=KINDS, multiple=True, help="Only of this kind; may be given several times.")
@click.option("--last", type=int, default=100, show_default=True, metavar="N", help="At most so many.")
@format_option
def history(
    source: str,
    ledger_path: str | None,
    analyst: str | None,
    since: str | None,
    kinds: tuple[str, ...],
    last: int,
    style: str,
) -> None:
    """What happened, newest first: charges, what you did, and what was asked for free or refused.

    Charges and your acts are kept for ever; of the others the latest 100,000 or 32 MiB, and a process that serves
    analysts writes them about every second. An analyst's SQL on their own DuckDB instance is not among them.
    """
    from duckdp.faces.records import HISTORY, filtered, one_line, read_last
    from duckdp.result import plain_result

    with open_ledger(source, ledger_path) as found:
        entries = islice(filtered(found, analyst=analyst, since=since, kind=kinds or None), read_last(last))
        if style != "table":
            rows = [(e.at, e.who, e.kind, e.cost, e.outcome, one_line(e.text, 1000)) for e in entries]
            print_result(plain_result(HISTORY, rows), style)
            return
        first = list(islice(entries, _MEASURED))
        lines = _lines(first, entries)
        if sys.stdout.isatty() and len(first) + 2 > shutil.get_terminal_size().lines:
            click.echo_via_pager(f"{line}\n" for line in lines)
        else:
            for line in lines:
                click.echo(line)


@click.command()
@source_argument
@click.argument("target")
@click.option("--format", "form", type=click.Choice(["csv", "parquet"]), help="By default what TARGET ends in.")
def export(source: str, ledger_path: str | None, target: str, form: str | None) -> None:
    """Write the whole history, oldest first, to a new file: one row an entry.

    Columns: kind, at_utc, analyst, number, statement, outcome, charge; epsilon, delta, rho, delta_zcdp (its cost); of
    charges charge_kind, mechanism, parameters, question, data_version, catalog_version, attempt; of acts act,
    subject, reason, detail. In CSV, text that a spreadsheet would run gets a leading apostrophe.
    """
    from duckdp.faces.exporting import export_history

    with open_ledger(source, ledger_path) as found:
        count = export_history(found, target, form)
    click.echo(f"{target}: {count:,} entries")


def _lines(first: list[Entry], rest: Iterator[Entry]) -> Iterator[str]:
    """A table, line by line; its columns are as wide as the first entries need."""
    from duckdp.faces.records import HISTORY, one_line

    def cells(entry: Entry) -> list[str]:
        return [entry.at, entry.who, entry.kind, entry.cost, entry.outcome, one_line(entry.text)]

    shown = [cells(entry) for entry in first]
    widths = [max(map(len, column)) for column in zip(HISTORY, *shown, strict=True)]
    widths[-1] = min(widths[-1], 100)
    for row in chain([list(HISTORY), ["-" * w for w in widths]], shown, map(cells, rest)):
        yield "  ".join(one_line(c).ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
