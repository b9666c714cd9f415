"""The DuckDB instance of an analyst: who may ask it, and its end, that leaves nothing running."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import duckdb

from duckdp.errors import LedgerError
from duckdp.process.ending import close_busy
from duckdp.process.forks import Home, closed, keep

END_SECONDS = 10.0  # for a statement that was interrupted
_LOOK = 0.001  # seconds between two interrupts of what does not end


class Instance:
    """The DuckDB instance behind what is guarded, from its first connection to its end.

    Attributes:
        ended: an error inside DuckDB, or whoever owns it, has ended it.
    """

    def __init__(self) -> None:
        self.ended = False
        self._closing = False
        self._home = Home()
        self._connections: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
        self._asked: set[object] = set()  # one for each call that is under way

    def keep(self, found: Any) -> Any:
        """Note what lives in the instance: a connection ends with it, and nothing of it ends in a forked child."""
        keep(found)
        if isinstance(found, duckdb.DuckDBPyConnection):
            self._connections.add(found)
            if self._closing:  # perhaps after all others were closed
                found.close()
        return found

    def require(self) -> None:
        """Nothing, if it can be asked.

        Raises:
            LedgerError: B211, B212.
        """
        self._home.require("the connection")
        if self._closing:
            raise closed("the curator")

    @contextmanager
    def asked(self) -> Iterator[None]:
        """What is asked of it meanwhile is waited for by its end, which interrupts it until it has ended.

        An interrupt that comes before a statement has begun ends nothing, and DuckDB closes a connection whose
        statement begins at that moment: it would run on, and nobody could reach it any more.

        Raises:
            duckdb.ConnectionException: B211, B212; nothing can be asked.
        """
        call = object()
        try:
            self._asked.add(call)  # before the look at whether it is closing: one of the two sees the other
            if (refused := self.problem()) is not None:
                raise duckdb.ConnectionException(refused)
            yield
        finally:
            self._asked.discard(call)

    def problem(self) -> str | None:
        """Why nothing can be asked of it, if so."""
        try:
            self.require()
        except LedgerError as error:
            return str(error)
        return None

    def refuse(self) -> None:
        """Let nothing be asked of it any more; what fails from now on fails by that."""
        self._closing = True

    def interrupt(self) -> None:
        """Interrupt all of the instance's statements that are running."""
        for connection in list(self._connections):
            with suppress(duckdb.Error):  # closed
                connection.interrupt()

    def close(self) -> None:
        """Interrupt and close all connections; again is harmless, and in a forked child it is nothing.

        A statement that cannot be interrupted is left behind, and its instance with it.
        """
        if self._home.left:
            return
        self._closing = True
        self.interrupt()
        until = time.monotonic() + END_SECONDS
        while self._asked and time.monotonic() < until:
            time.sleep(_LOOK)
            self.interrupt()
        for connection in list(self._connections):
            close_busy(connection, self.interrupt, until)
