"""What the ledger asks of a connection, whatever keeps it: a file of SQLite, or a server of PostgreSQL.

The statements of the other modules run on both as they are written. Where the two differ, the connection to a server
has a method (:class:`Served`), and ``connections.py`` chooses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Protocol

from duckdp.errors import DuckDPError
from duckdp.ledger.anchor import Position


class Rows(Protocol):
    """What a statement gave: rows, or how many it changed."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""

    def fetchone(self) -> Any:
        """The next row, or None."""

    def fetchall(self) -> list[Any]:
        """All rows that were not had yet."""

    def close(self) -> None:
        """Want no more of them."""

    def __iter__(self) -> Iterator[Any]: ...


class Stored(Protocol):
    """A connection; rows are had by the number and by the name of a column."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Rows:
        """Run a statement whose parameters are marked ``?``."""

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Rows:
        """Run a statement once for each of several lists of parameters."""


class Failure(Exception):
    """A server refused a statement, or is gone; becomes an error of ours where the ledger's name is known.

    Attributes:
        state: SQLSTATE; "" where the server is gone.
        told: what is said of it, where more is known than the state.
    """

    def __init__(self, state: str = "", told: DuckDPError | None = None) -> None:
        super().__init__(state)
        self.state, self.told = state, told


class Served(ABC):
    """A connection to a ledger on a server.

    Attributes:
        path: the ledger's address, which holds no password.
        found: what was found, by key, for as long as nobody writes.
    """

    path: str
    found: dict[object, Any]

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""

    @property
    @abstractmethod
    def schema(self) -> str:
        """The schema that holds the ledger."""

    @property
    @abstractmethod
    def server_version(self) -> int:
        """The version of the server, such as 180003."""

    @abstractmethod
    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run a statement whose parameters are marked ``?``."""

    @abstractmethod
    def later(self, sql: str, parameters: Sequence[Any] = (), /) -> None:
        """Run a change together with what is sent next, at the latest with the commit, in order; its error comes then.

        Outside of a transaction at once.
        """

    @abstractmethod
    def settle(self) -> None:
        """Send what waits (:meth:`later`), so that its errors come now."""

    @abstractmethod
    def drop(self) -> None:
        """Forget what waits: it is undone before it was sent."""

    @abstractmethod
    def script(self, text: str) -> None:
        """Run several statements, none of which has parameters."""

    @abstractmethod
    def pages(self, sql: str, size: int) -> Generator[list[Any]]:
        """The rows of a query that may be many, some at a time; no page is empty."""

    @abstractmethod
    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Rows:
        """Run a statement once for each of several lists of parameters."""

    @abstractmethod
    def stream(self, sql: str) -> Rows:
        """The rows of a query that may be many, within the transaction that is open."""

    @abstractmethod
    def begin(self, *, writing: bool, row: str = "dataset") -> None:
        """Begin a transaction: a view of one state, or one that excludes all others that write."""

    @abstractmethod
    def commit(self, head: Position | None = None) -> None:
        """Commit durably; with ``head``, the end of the chain then, it is found out whether that was done."""

    @abstractmethod
    def undo(self) -> None:
        """End a transaction, if there is one; never fails."""

    @abstractmethod
    def remembered(self) -> dict[object, Any]:
        """What was found since the last commit of anybody."""

    @abstractmethod
    def is_altered(self) -> bool:
        """Whether tables, indexes and triggers are others than were made."""

    @abstractmethod
    def contradictions(self) -> Iterator[str]:
        """What the tables contradict of what the server guarantees of them, one text each."""

    @abstractmethod
    def size(self) -> int:
        """How many bytes the ledger takes."""

    @abstractmethod
    def close(self) -> None:
        """Close it; again is harmless."""


def stream(connection: Stored, sql: str) -> Rows:
    """The rows of a query that may be many: few of them are in memory at a time."""
    return connection.stream(sql) if isinstance(connection, Served) else connection.execute(sql)
