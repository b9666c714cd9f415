"""Commands on tables: suggest, protect, catalog, refresh."""

from __future__ import annotations

from typing import Any

import click

from duckdp.cli.common import open_curator, open_ledger, reason_option, source_argument


@click.command()
@source_argument
@click.argument("table", required=False)
@click.option(
    "--form", type=click.Choice(["cli", "python", "toml"]), default="python", show_default=True, help="As what."
)
def suggest(source: str, ledger_path: str | None, table: str | None, form: str) -> None:
    """Print declarations with the public figures left to fill in; reads the schema only.

    What it prints goes, filled in, to protect --file.
    """
    with open_curator(source, ledger_path) as curator:
        click.echo(curator.suggest(table, form=form))


@click.command()
@source_argument
@click.argument("table", required=False)
@click.option("--unit-key", metavar="COLUMN", help="Names a person; without it every row is one.")
@click.option("--unit", metavar="NAME", help="What the unit key names, where its name does not say so.")
@click.option("--null-unit", multiple=True, metavar="KEY", help="A key that names nobody, e.g. 0 or unknown.")
@click.option("--max-rows", metavar="N", help="Rows of a person that count, per group.")
@click.option("--max-groups", metavar="N", help="Groups of a person that count; max-rows by default.")
@click.option("--row-cap", metavar="N", help="Upper bound of the number of rows.")
@click.option("--expected-rows", metavar="N", help="Guess of the number of rows, for predicted errors.")
@click.option("--bound", multiple=True, metavar="COLUMN=LOWER:UPPER", help="Clamp interval, e.g. age=0:110.")
@click.option("--domain", multiple=True, metavar="COLUMN=A,B,...", help="Complete list of values, e.g. sex=F,M.")
@click.option("--column", multiple=True, metavar="COLUMN", help="A further column analysts may see.")
@click.option("--null", multiple=True, metavar="COLUMN=VALUE", help="What NULL is read as.")
@click.option("--other", multiple=True, metavar="COLUMN=LABEL", help="What values outside the domain are read as.")
@click.option(
    "--constraint", multiple=True, metavar="TEXT", help="What holds in every row: 'a <= b', 'a + b = c', 'a -> b'."
)
@click.option("--link", metavar="COLUMN -> TABLE.KEY", help="Rows are of the unit of the row that they name there.")
@click.option("--unique", multiple=True, metavar="COLUMN", help="A column in which no value stands twice.")
@click.option("--like", metavar="TABLE", help="Columns it declares by the same name and type are declared alike.")
@click.option("--remove", multiple=True, metavar="COLUMN", help="Take a column out of the declaration.")
@click.option("--replace", is_flag=True, help="Forget what was declared and is not named here.")
@click.option(
    "--file",
    "--from",
    "file",
    metavar="FILE",
    help="Declarations of one or several tables, in a form that suggest prints.",
)
@reason_option(required=False)
def protect(source: str, ledger_path: str | None, table: str | None, file: str | None, **given: Any) -> None:
    """Declare a table, or change what is named of a declared one. Every figure is public; none is read off the data.

    A column may be a pattern, by name or by type: --bound 'lab_*=0:100' --bound '*::DOUBLE=0:1'.

    \b
    duckdp protect clinic.duckdb visits --unit-key patient_id --max-rows 8 --row-cap 1000000
        --bound age=0:110 --domain sex=F,M
    duckdp protect clinic.duckdb visits --bound age=0:120 --reason "older patients"
    """  # noqa: D301 - \b is click's sign for "do not wrap"
    from duckdp.cli.forms import Told, read_file

    found = [Told(table=table)] if file is None else read_file(file, _parse)
    if table is not None and len(found) > 1:
        found = [t for t in found if str(t.table).lower() == table.lower()]
    if (len(found) != 1 and any(given[k] for k in given if k not in ("reason", "replace"))) or not found:
        raise click.UsageError("The file has several tables; name one of them, or give no further options.")
    replace, reason = given.pop("replace"), given.pop("reason")
    if file is None and not any(given.values()):
        raise click.UsageError("Missing option '--row-cap', or what else to declare or change.")
    with open_curator(source, ledger_path) as curator:
        wanted = {}
        for told in found:
            name = table or told.table
            if name is None:
                raise click.UsageError("Missing argument 'TABLE' (or table = ... in the file).")
            wanted[name] = _figures(curator, name, told, given)
            if "row_cap" not in wanted[name] and (replace or name.lower().split(".")[-1] not in curator.tables):
                raise click.UsageError("Missing option '--row-cap'.")
        for done in curator.protect_tables(wanted, keep=not replace, reason=reason):
            click.echo(str(done))


def _parse(arguments: list[str]) -> dict[str, Any]:
    """Options of a ``duckdp protect`` line in a file."""
    options = dict(protect.make_context("protect", arguments).params)
    if options["table"] is None or options["file"] is not None or options["replace"]:
        raise click.UsageError("a line of a file names a table and no file")
    return options


def _figures(curator: Any, name: str, told: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of protect from a file's part and the command line, which goes first."""
    from duckdp.cli.declared import declaration

    types = column_types(curator, name)
    declared = curator.tables.get(name.lower().split(".")[-1])
    key = None if declared is None else declared.unit_key
    figures: dict[str, Any] = told.figures
    for options in [*told.options, given]:
        figures = declaration(figures, options, types, key)
    return figures


@click.command()
@source_argument
@click.argument("table")
@reason_option(required=True)
def unprotect(source: str, ledger_path: str | None, table: str, reason: str) -> None:
    """Take a table out of protection; what was charged stays spent."""
    with open_ledger(source, ledger_path) as ledger:
        ledger.drop_table(table.lower(), reason)
    click.echo(f"{table} is no longer protected, and nobody can ask about it")


@click.command()
@source_argument
@click.argument("table")
@click.option("--column", "columns", multiple=True, help="A column that analysts may use; all by default.")
@reason_option(required=False)
def publish(source: str, ledger_path: str | None, table: str, columns: tuple[str, ...], reason: str | None) -> None:
    """Declare that a table's rows are no one's, so that private questions may join with it."""
    with open_curator(source, ledger_path) as curator:
        click.echo(str(curator.publish(table, columns=columns or None, reason=reason)))


@click.command()
@source_argument
@click.argument("table")
@reason_option(required=True)
def unpublish(source: str, ledger_path: str | None, table: str, reason: str) -> None:
    """Take a public table out of what analysts may use."""
    with open_curator(source, ledger_path) as curator:
        curator.unpublish(table, reason=reason)
    click.echo(f"{table} is no longer public, and no question can join with it")


@click.command()
@source_argument
def catalog(source: str, ledger_path: str | None) -> None:
    """What analysts may see: protected and public tables with their public figures."""
    from duckdp.catalog.table import describe_table

    with open_curator(source, ledger_path) as curator:
        if not curator.tables:
            click.echo("no table is protected; duckdp suggest SOURCE prints what to fill in")
        for table in (*curator.tables.values(), *curator.published.values()):
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
    """Types of a table's or view's columns by lower-case name."""
    from duckdp.vault.declare import resolve

    return {c.name.lower(): c.type for c in resolve(curator.engine, table).columns}
