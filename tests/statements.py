"""Helpers of the tests of the log of statements: a clinic, what was issued and what came of it, what the log holds."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb

import duckdp
from duckdp.errors import DuckDPError
from duckdp.ledger import Ledger
from duckdp.ledger.statement_file import path_of
from duckdp.result import Result

Note = tuple[str, str, str, str]  # who, kind, text, outcome


def make_clinic(folder: Path, *analysts: str) -> str:
    """500 visits of 200 patients, a budget of 100, and analysts with 20 each; the path of the file."""
    path = str(folder / "clinic.duckdb")
    with duckdb.connect(path) as con:
        con.execute(
            "CREATE TABLE visits AS SELECT i % 200 AS patient_id, CAST(20 + i % 60 AS INTEGER) AS age "
            "FROM range(500) AS t(i)"
        )
    with duckdp.open(path) as curator:
        curator.protect("visits", unit_key="patient_id", max_rows=3, row_cap=10_000, bounds={"age": (0, 110)})
        curator.budget(epsilon=100)
        for analyst in analysts:
            curator.grant(analyst, epsilon=20)
    return path


def outcome_of(work: Callable[[], object]) -> tuple[str, str] | None:
    """(kind, outcome) as whoever asked sees it; None of what was charged and answered."""
    try:
        found = work()
    except DuckDPError as error:
        return "refused", error.code
    except duckdb.Error as error:
        return "refused", str(error).split(":", 2)[1].strip()
    if isinstance(found, Result):
        if found.source.startswith("stored release"):
            return "free", "stored"
        if found.source.startswith("charge"):
            return None
    return "free", "answered"


def logged(ledger: str) -> Counter[Note]:
    """What the log of a ledger holds."""
    with sqlite3.connect(path_of(ledger)) as con:
        return Counter(con.execute("SELECT who, kind, text, outcome FROM statement").fetchall())


def found(ledger: str) -> list[str]:
    """What a check of the log finds."""
    with Ledger.open(ledger, create=False) as opened:
        return opened.check_statements()[0]
