"""Commands for whoever collects: randomized response of a column of a file. No curator, no ledger."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from duckdp.cli.common import format_option, print_result
from duckdp.errors import ParameterError
from duckdp.texts import sql_text

if TYPE_CHECKING:
    import duckdb

    from duckdp.mechanisms.randomized_response import Encoding

_COLUMN = click.option("--column", required=True, metavar="NAME", help="The column.")
_DOMAIN = click.option("--domain", multiple=True, required=True, metavar="VALUE", help="A value; once for each.")
_EPSILON = click.option("--epsilon", required=True, metavar="X", help="Of each report, 0.000001 to 100.")
_UNARY = click.option("--unary", is_flag=True, help="Reports are lists of values: for many values.")


@click.command()
@click.argument("source")
@click.argument("target")
@_COLUMN
@_DOMAIN
@_EPSILON
@_UNARY
def randomize(source: str, target: str, column: str, domain: tuple[str, ...], epsilon: str, unary: bool) -> None:
    """Write SOURCE to TARGET (Parquet, or CSV) with a column randomized: each row's value with noise of its own.

    Where the column is collected, once: to randomize a value again costs epsilon again.
    """
    import duckdb

    from duckdp.local import register
    from duckdp.local.reports import response_of

    response_of(domain, epsilon, _encoding(unary))
    kind = Path(target).suffix
    if kind not in ((".parquet",) if unary else (".parquet", ".csv")):
        raise ParameterError("P107", "target", target, "must end in .parquet, or in .csv where reports are no lists.")
    if Path(target).exists():
        raise _is_there(target)
    function, name = "dp_randomize_unary" if unary else "dp_randomize", _quoted(column)
    report = f"{function}({name}, [{', '.join(map(sql_text, domain))}], {sql_text(epsilon)})"
    try:
        folder = tempfile.TemporaryDirectory(prefix=".duckdp-", dir=Path(target).absolute().parent)
    except OSError:
        raise _not_written(target) from None
    with folder as own, duckdb.connect() as con:
        register(con)
        part = Path(own) / f"rows{kind}"
        try:
            made = f"SELECT * REPLACE ({report} AS {name}) FROM {_rows(source)}"
            con.execute(f"COPY ({made}) TO {sql_text(str(part))} (FORMAT {kind[1:]})")
        except duckdb.IOException as error:
            raise (_unreadable(source, column) if _is_of(error, source) else _not_written(target)) from None
        except duckdb.Error:
            raise _unreadable(source, column) from None
        _put(part, target)


@click.command()
@click.argument("source")
@_COLUMN
@_DOMAIN
@_EPSILON
@_UNARY
@format_option
def randomized_counts(source: str, column: str, domain: tuple[str, ...], epsilon: str, unary: bool, style: str) -> None:
    """How many of those who reported have each value, from a file of reports, with 95% intervals; free."""
    import duckdb

    from duckdp.local import randomized_counts as counts

    if unary and source.endswith(".csv"):
        rule = "must be a .parquet file where reports are lists. Write one: COPY (SELECT ...) TO 'reports.parquet'."
        raise ParameterError("P107", "source", source, rule)
    with duckdb.connect() as con:
        try:
            rows = con.execute(f"SELECT {_quoted(column)} FROM {_rows(source)}").fetchall()
        except duckdb.Error:
            raise _unreadable(source, column) from None
    reports = [report if unary else str(report) for (report,) in rows if report is not None]
    print_result(counts(reports, list(domain), epsilon=epsilon, encoding=_encoding(unary)), style)


def _encoding(unary: bool) -> Encoding:
    return "unary" if unary else "direct"


def _rows(source: str) -> str:
    if source.endswith(".csv"):
        return f"read_csv({sql_text(source)}, all_varchar = true)"
    return f"read_parquet({sql_text(source)})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _put(part: Path, target: str) -> None:
    """Copy a file to a name that nobody has: never over one that came meanwhile, whole or not at all."""
    try:
        with part.open("rb") as source, Path(target).open("xb") as out:
            try:
                shutil.copyfileobj(source, out)
            except BaseException:
                Path(target).unlink()
                raise
    except FileExistsError:
        raise _is_there(target) from None
    except OSError:
        raise _not_written(target) from None


def _is_of(error: duckdb.IOException, source: str) -> bool:
    """Whether a file could not be read, rather than written: the engine names it."""
    return source in str(error)


def _is_there(target: str) -> ParameterError:
    return ParameterError("P107", "target", target, "is there already. Name a file that is not.")


def _not_written(target: str) -> ParameterError:
    return ParameterError("P107", "target", target, "cannot be written. Name a file in another folder.")


def _unreadable(source: str, column: str) -> ParameterError:
    return ParameterError("P107", "source", source, f'must be a .parquet or .csv file with a column "{column}".')
