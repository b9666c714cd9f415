"""What the reads of one release share: rows copied once, in the private instance, for as long as the release takes.

The copies are temporary tables of one connection, which nothing else uses and which ends with the release: nobody else
reads them, and what ends the process ends them too. An attempt that goes on after a failure makes them anew, under the
same charge and by the same statements. They may be larger than memory: then they are where other intermediate results
of the private instance are (engine.py). A read gives what it gives without them, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import duckdb

from duckdp.core.reads import Kept, PrivateQuery


class SharedReads:
    """The connection of one release.

    Args:
        connect: gives a connection of the private instance, for this release alone.
    """

    def __init__(self, connect: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._connect = connect
        self._cursor: duckdb.DuckDBPyConnection | None = None
        self._made: list[Kept] = []

    @property
    def cursor(self) -> duckdb.DuckDBPyConnection:
        """The connection, opened when it is first wanted."""
        if self._cursor is None:
            self._cursor = self._connect()
        return self._cursor

    def prepare(self, query: PrivateQuery) -> tuple[str, list[Any]]:
        """A statement and its parameters that give what the read gives, of rows that are copied now or were before."""
        for place, kept in enumerate(query.kept):
            if self._made[place : place + 1] != [kept]:
                del self._made[place:]  # what was made of another copy is none of this one
                text = f"CREATE OR REPLACE TEMPORARY TABLE {kept.name} AS {kept.sql}"
                self.cursor.execute(text, list(kept.parameters))
                self._made.append(kept)
        return query.rest, list(query.parameters[: query.rest_count])

    def close(self) -> None:
        """End the connection, and the copies with it; again is harmless."""
        if self._cursor is not None:
            with suppress(duckdb.Error):
                self._cursor.close()
