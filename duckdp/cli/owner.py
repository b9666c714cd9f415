"""Commands on tables: suggest, protect, catalog, refresh."""

from __future__ import annotations

from typing import Any

import click

from duckdp.cli.common import open_curator, reason_option, source_argument


@click.command()
@source_argument
@click.argument("table", required=False)
def suggest(source: str, ledger_path: str | None, table: str | None) -> None:
    """Print ready protect calls with the bounds left to fill in; reads the schema only."""
    with open_curator(source, ledger_path) as curator:
        click.echo(curator.suggest(table))


@click.command()
@source_argument
@click.argument("table", required=False)
@click.option("--unit-key", metavar="COLUMN", help="Names a person; without it every row is one.")
@click.option("--max-rows", type=int, metavar="N", help="Rows of a person that count, per group.")
@click.option("--max-groups", type=int, metavar="N", help="Groups of a person that count; max-rows by default.")
@click.option("--row-cap", type=int, metavar="N", help="Upper bound of the number of rows.")
@click.option("--expected-rows", type=int, metavar="N", help="Guess of the number of rows, for predicted errors.")
@click.option("--bound", multiple=True, metavar="COLUMN=LOWER:UPPER", help="Clamp interval, e.g. age=0:110.")
@click.option("--domain", multiple=True, metavar="COLUMN=A,B,...", help="Complete list of values, e.g. sex=F,M.")
@click.option("--column", multiple=True, metavar="COLUMN", help="A further column analysts may see.")
@click.option("--null", multiple=True, metavar="COLUMN=VALUE", help="What NULL is read as.")
@click.option("--other", multiple=True, metavar="COLUMN=LABEL", help="What values outside the domain are read as.")
@click.option(
    "--from",
    "file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE.toml",
    help="TOML file with the same declarations: table, unit_key, ..., columns, [bounds], [domains], [nulls], [other].",
)
@reason_option(required=False)
def protect(source: str, ledger_path: str | None, table: str | None, file: str | None, **given: Any) -> None:
    """Declare a table. Every figure is public, and none is read off the data. May be repeated.

    \b
    duckdp protect clinic.duckdb visits --unit-key patient_id --max-rows 8 --row-cap 1000000
        --bound age=0:110 --domain sex=F,M
    """  # noqa: D301 - \b is click's sign for "do not wrap"
    from duckdp.catalog import describe_table
    from duckdp.cli.declared import declaration, read_file

    told = read_file(file) if file is not None else {}
    name = table or told.pop("table", None)
    told.pop("table", None)
    if name is None:
        raise click.UsageError("Missing argument 'TABLE' (or table = ... in the file).")
    with open_curator(source, ledger_path) as curator:
        types = column_types(curator, str(name))
        wanted = declaration(told, given, types)
        if "row_cap" not in wanted:
            raise click.UsageError("Missing option '--row-cap'.")
        click.echo(describe_table(curator.protect(str(name), **wanted)))


@click.command()
@source_argument
def catalog(source: str, ledger_path: str | None) -> None:
    """What analysts may see: protected tables with their public figures."""
    from duckdp.catalog import describe_table

    with open_curator(source, ledger_path) as curator:
        if not curator.tables:
            click.echo("no table is protected; duckdp suggest SOURCE prints what to fill in")
        for table in curator.tables.values():
            click.echo(describe_table(table))


@click.command()
@source_argument
@reason_option(required=True)
def refresh(source: str, ledger_path: str | None, reason: str) -> None:
    """Accept changed data: a new version under the same budget."""
    with open_curator(source, ledger_path) as curator:
        version = curator.refresh(reason=reason)
    click.echo(f"data version {version}, under the same budget")


def column_types(curator: Any, table: str) -> dict[str, str]:
    """Types of a base table's columns by lower-case name; empty for a view, whose text values are guessed at."""
    cursor = curator.engine.schema_cursor()
    relation = curator.engine.source.relations(cursor).get(table.lower())
    if relation is None:
        return {}
    return {c.name.lower(): c.type for c in curator.engine.source.columns(cursor, relation)}
