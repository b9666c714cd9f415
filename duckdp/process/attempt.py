"""Run a statement of our own over the owner's data, before any charge: told how far it is, ended at once by Ctrl-C.

Engine messages may quote rows, so they come back as a text to be judged, never as an exception whose context a
traceback or a debugger would show.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import duckdb

INTERRUPTED = ("Query interrupted", "INTERRUPT Error: Interrupted!")  # DuckDB's and the stream's, on Ctrl-C
T = TypeVar("T")
_AGAIN = 0.02  # seconds between two interrupts
_LOOK = 0.2  # seconds between two looks at how far a statement is


def attempt(
    con: duckdb.DuckDBPyConnection, sql: str, progress: Callable[[float], None] | None = None
) -> tuple[list[tuple[Any, ...]], str | None]:
    """Execute a statement in a thread of its own, since the engine itself looks for Ctrl-C too seldom.

    Args:
        con: idle until this returns.
        sql: printed by duckdp.
        progress: told the share done, 0 to 1, now and then; what it raises ends the statement.

    Returns:
        Its rows and None, or no rows and the engine's message, which must go nowhere.

    Raises:
        KeyboardInterrupt: it was interrupted.
    """
    rows: list[tuple[Any, ...]] = []
    failed: list[str] = []
    done = threading.Event()

    def work() -> None:
        try:
            rows.extend(con.execute(sql).fetchall())
        except BaseException as error:  # noqa: BLE001 - judged by the caller
            failed.append("Query interrupted" if isinstance(error, duckdb.InterruptException) else str(error))
        finally:
            done.set()

    worker = threading.Thread(target=work, name="duckdp-attempt", daemon=True)
    worker.start()
    try:
        while not done.wait(_LOOK):
            if progress is not None:
                progress(_share(con))
    except BaseException:
        while not done.wait(_AGAIN):  # an interrupt that meets no statement yet, or one's end, is lost
            con.interrupt()
        worker.join()
        raise
    worker.join()
    if failed and failed[0] in INTERRUPTED:
        raise KeyboardInterrupt
    return ([], failed[0]) if failed else (rows, None)


def aside(work: Callable[[], T], interrupt: Callable[[], object]) -> T:
    """Do work that may take long and hears no Ctrl-C: in a thread of its own where the main thread would wait for it.

    Args:
        work: done once.
        interrupt: ends it, from another thread.

    Returns:
        What ``work`` returns; whatever it raises is raised.

    Raises:
        KeyboardInterrupt: it was interrupted, and has ended.
    """
    if threading.current_thread() is not threading.main_thread():  # Ctrl-C goes to the main thread alone
        return work()
    found: list[T] = []
    failed: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)
        finally:
            done.set()

    worker = threading.Thread(target=run, name="duckdp-aside", daemon=True)
    try:
        worker.start()
        while not done.wait(_LOOK):
            pass
    except BaseException:
        while worker.is_alive():  # an interrupt that comes before the statement has begun ends nothing
            interrupt()
            worker.join(_LOOK)
        raise
    if failed:
        try:
            raise failed[0]
        finally:
            failed.clear()
    return found[0]


def _share(con: duckdb.DuckDBPyConnection) -> float:
    with contextlib.suppress(Exception):  # a statement that just ended has no progress
        return min(max(float(con.query_progress()) / 100, 0.0), 1.0)
    return 0.0
