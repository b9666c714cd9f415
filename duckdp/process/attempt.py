"""Run a statement of our own over the owner's data, before any charge: told how far it is, ended at once by Ctrl-C.

Engine messages may quote rows, so they come back as a text to be judged, never as an exception whose context a
traceback or a debugger would show.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import duckdb

from duckdp.process.aside import beside

INTERRUPTED = ("Query interrupted", "INTERRUPT Error: Interrupted!")  # DuckDB's and the stream's, on Ctrl-C


def attempt(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    progress: Callable[[float], None] | None = None,
    values: Sequence[object] = (),
) -> tuple[list[tuple[Any, ...]], str | None]:
    """Execute a statement in a thread of its own, since the engine itself looks for Ctrl-C too seldom.

    Args:
        con: idle until this returns.
        sql: printed by duckdp.
        progress: told the share done, 0 to 1, now and then; what it raises ends the statement.
        values: of $1, $2, ...

    Returns:
        Its rows and None, or no rows and the engine's message, which must go nowhere.

    Raises:
        KeyboardInterrupt: it was interrupted.
    """

    def work() -> tuple[list[tuple[Any, ...]], str | None]:
        try:
            return con.execute(sql, list(values)).fetchall(), None
        except BaseException as error:  # noqa: BLE001 - judged by the caller
            return [], "Query interrupted" if isinstance(error, duckdb.InterruptException) else str(error)

    def tell() -> None:
        if progress is not None:
            progress(_share(con))

    rows, failed = beside(work, con.interrupt, tell)
    if failed in INTERRUPTED:
        raise KeyboardInterrupt
    return rows, failed


def _share(con: duckdb.DuckDBPyConnection) -> float:
    with contextlib.suppress(Exception):  # a statement that just ended has no progress
        return min(max(float(con.query_progress()) / 100, 0.0), 1.0)
    return 0.0
