"""The tables of a ledger: the scripts that make them, and what they come to."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cache
from typing import Any

from duckdp.resources import read_sql

# script i leads from version i to version i + 1; published scripts never change
SCHEMAS = ("ledger.sql", "ledger_2.sql", "ledger_3.sql", "ledger_4.sql")
SEALED = 4  # the version from which on rows are sealed
UNMARKED = 3  # what rows name as the version that wrote them that are older than this mark


def run_scripts(connection: sqlite3.Connection, version: int) -> None:
    """Lead from a version to the present one, within the transaction that is open."""
    for name in SCHEMAS[version:]:
        for statement in _statements(name):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(SCHEMAS)}")


def defaults(table: str) -> dict[str, Any]:
    """Columns of a table, in order, with what each holds where nothing is said."""
    return _defaults(SCHEMAS, table)


def place_of_seal(table: str) -> int:
    """Which of its columns is the seal."""
    return _place_of_seal(SCHEMAS, table)


def described(rows_of: Callable[[str], Iterable[Any]]) -> list[tuple[str, ...]]:
    """Tables, indexes and triggers of a ledger, without comments; ``rows_of`` runs a query on it."""
    rows = rows_of("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema ORDER BY type, name")
    return [(*tuple(row)[:3], " ".join(re.sub(r"--[^\n]*", " ", row[3]).split())) for row in rows]


def expected() -> list[tuple[str, ...]]:
    """What :func:`described` gives of a ledger of the present version."""
    return _expected(SCHEMAS)


@cache
def _expected(scripts: tuple[str, ...]) -> list[tuple[str, ...]]:
    with closing(_model(scripts)) as model:
        return described(model.execute)


@cache
def _place_of_seal(scripts: tuple[str, ...], table: str) -> int:
    return list(_defaults(scripts, table)).index("seal")


@cache
def _defaults(scripts: tuple[str, ...], table: str) -> dict[str, Any]:
    with closing(_model(scripts)) as model:
        return {
            row[1]: model.execute(f"SELECT {row[4] if row[4] is not None else 'NULL'}").fetchone()[0]
            for row in model.execute(f"PRAGMA table_info({table})").fetchall()
        }


def _model(scripts: tuple[str, ...]) -> sqlite3.Connection:  # noqa: ARG001 - named by what it is cached for
    model = sqlite3.connect(":memory:", isolation_level=None)
    run_scripts(model, 0)
    return model


@cache
def _statements(name: str) -> tuple[str, ...]:
    """A script's statements: ``executescript`` would commit the transaction it runs in."""
    found, text = [], ""
    for line in read_sql(name).splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            found.append(text)
            text = ""
    return tuple(found)
