"""Every value is decoded once before any charge, so that a private read meets none that does not decode.

A private read fails, or gives what no row says, where a stored value cannot be decoded: bytes that are no UTF-8, a
timestamp of 2**62 milliseconds, a page that is cut short, a truth value that is neither 0 nor 1. One person's row would
then show in whether the read succeeds. So what analysts could ever be let to see is read in full, printed by the same
code as in private reads and hashed, with every shortcut of the optimizer off.

What has no rule (a list, a blob) is never part of a private read, and generated columns are refused (views.py):
neither is read here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import duckdb

from duckdp.catalog.table import Column, Kind, RawColumn, kind_of
from duckdp.catalog.values import unit_key_allowed
from duckdp.compiler.printing import Parameters, print_column, quote
from duckdp.core.watch import Tell
from duckdp.errors import CatalogError
from duckdp.process.attempt import attempt
from duckdp.vault.exhausted import ran_out
from duckdp.vault.source import BELIEVING, Source

TOGETHER = 16  # columns of one pass; further columns are another pass, over other parts of the files
READING = "reading the source"  # the stage that is told
_RULES = "1"  # changes when more than before would be refused


def read_in_full(con: duckdb.DuckDBPyConnection, source: Source, tell: Tell | None = None) -> None:
    """Decode all rows of all relations of a source.

    Args:
        con: a connection of the private instance, with no other work on the instance.
        source: attached there.
        tell: told (stage, share done) now and then; what it raises ends the work.

    Raises:
        CatalogError: C108, with the names of table and column and nothing of a value.
        KeyboardInterrupt: it was interrupted.
    """
    passes = [
        (relation, columns[i : i + TOGETHER])
        for relation in source.relations(con).values()
        if (columns := [c for c in source.columns(con, relation) if not c.generated and probes(c)])
        for i in range(0, len(columns), TOGETHER)
    ]
    row = con.execute("SELECT current_setting('disabled_optimizers')").fetchone()
    before = "" if row is None else str(row[0])
    con.execute(f"SET disabled_optimizers = '{','.join(BELIEVING)}'")
    con.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")
    for done, (relation, columns) in enumerate(passes):
        start, width = done / len(passes), 1 / len(passes)

        def told(share: float, start: float = start, width: float = width) -> None:
            if tell is not None:
                tell(READING, start + width * share)

        if not _decodes(con, relation, columns, told):
            alive = attempt(con, "SELECT 1")[1] is None  # else the engine has given up on the whole instance
            bad = next((c.name for c in columns if alive and not _decodes(con, relation, [c], told)), None)
            raise refusal(relation[2], bad)
    con.execute(f"SET disabled_optimizers = '{before}'")


def reading_mark(fingerprint: str) -> str:
    """What the ledger notes of a source read in full: for another engine, or more rules, it is read again."""
    return hashlib.sha256(f"{_RULES}\n{duckdb.__version__}\n{fingerprint}".encode()).hexdigest()


def _decodes(
    con: duckdb.DuckDBPyConnection,
    relation: tuple[str, str, str],
    columns: Sequence[RawColumn],
    told: Callable[[float], None],
) -> bool:
    items = [f"system.main.bit_xor(system.main.hash({probe}))" for c in columns for probe in probes(c)]
    flags = [f"base.{quote(c.name)}" for c in columns if kind_of(c.type) == (Kind.BOOLEAN, False)]
    # a byte that is neither 0 nor 1 is true, and yet a sum takes it for what it is
    wrong = " OR ".join(f"CAST({flag} AS UTINYINT) > 1" for flag in flags)
    if wrong:
        items.append(f"system.main.count(*) FILTER (WHERE {wrong})")
    place = ".".join(quote(part) for part in relation)
    rows, message = attempt(con, f"SELECT {', '.join(items)} FROM {place} AS base", told)
    if ran_out(message):
        raise too_large(relation[2])
    return message is None and not (flags and rows[0][-1])


def probes(raw: RawColumn) -> list[str]:
    """Expressions that decode a column as private reads do; none when they never read it."""
    name = f"base.{quote(raw.name)}"
    found = [name] if unit_key_allowed(raw.type) else []
    kind = kind_of(raw.type)
    if kind is not None:
        column = Column(name=raw.name, source=raw.name, type=raw.type, kind=kind[0], integral=kind[1])
        found = [print_column(column, Parameters(), "base")]
        if kind[0] is Kind.TEXT:  # the whole text, of which the column above is the beginning
            found.append(f"system.main.decode(system.main.encode(CAST({name} AS VARCHAR)))")
    return found


def too_large(table: str) -> CatalogError:
    """The error for a source whose reading took more memory, or disk, than there is."""
    rule = "could not be read in full: memory ran out, or the disk for what memory does not hold. Give more: "
    way = "memory= at the opening, room for temporary files, in Spark spark.duckdp.memory and memory of its processes."
    return CatalogError("C108", f'"{table}" {rule}{way}', table=table)


def ended_there(table: str) -> CatalogError:
    """The error for a source at whose reading the whole engine ended, as Java does where it has no memory."""
    rule = "could not be read in full: Spark ended at it, as where a damaged file asks for more memory than there is. "
    return CatalogError(
        "C108", f'"{table}" {rule}Write its files again, or open the others, in a new session.', table=table
    )


def refusal(table: str, column: str | None) -> CatalogError:
    """The error for a source with a value that does not decode; nothing of the value."""
    where = f'column "{column}" of "{table}"' if column is not None else f'"{table}"'
    return CatalogError(
        "C108",
        f"{where} cannot be read in full: the file is damaged, or holds a value that its type does not allow "
        "(as text that is not UTF-8, or a date outside the calendar). Write it again without that value.",
        table=table,
        column=column,
    )
