"""A cursor of PEP 249, whose answer is a Result too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from duckdp.client.problems import InterfaceError, ProgrammingError
from duckdp.result import Result

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Described = tuple[str, str, None, None, None, None, None]


class Runs(Protocol):
    """A connection, as its cursors know it."""

    def run(self, sql: str, parameters: Sequence[object]) -> tuple[Result | None, int]:
        """A statement's answer, None where it gives no rows, and how many rows it gave or changed."""


class Cursor:
    """Runs statements of a connection, and holds the answer of the last one.

    Args:
        connection: whose statements.

    Attributes:
        arraysize: rows that ``fetchmany`` gives unless it is told.
    """

    def __init__(self, connection: Runs) -> None:
        self.connection = connection
        self.arraysize = 1
        self._result: Result | None = None
        self._rows: list[tuple[Any, ...]] = []
        self._at = 0
        self._count, self._closed = -1, False

    # ---- running ------------------------------------------------------------------------------------------------

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> Self:
        """Run a statement; a question of protected tables is charged what was SET (``dp.epsilon``).

        Args:
            sql: the statement; parameters are ``?``.
            parameters: their values, public.

        Raises:
            Error: what the server refused; ``code`` is duckdp's.
        """
        self._require_open()
        self._result, self._rows, self._at, self._count = None, [], 0, -1
        self._result, self._count = self.connection.run(sql, parameters)
        self._rows = self._result.rows() if self._result is not None else []
        return self

    def executemany(self, sql: str, parameters: Sequence[Sequence[object]]) -> Self:
        """Run a statement once for each row of parameters; answers are not kept."""
        for each in parameters:
            self.execute(sql, each)
        self._result, self._rows = None, []
        return self

    # ---- the answer -----------------------------------------------------------------------------------------------

    @property
    def result(self) -> Result:
        """The answer, with error bars, what it cost, and notes.

        Raises:
            ProgrammingError: the last statement gave no rows.
        """
        if self._result is None:
            raise ProgrammingError("the last statement gave no rows.")
        return self._result

    @property
    def description(self) -> list[Described] | None:
        """Name and type (DuckDB's name) of each column; None where there are none."""
        if self._result is None:
            return None
        return [(c.name, c.type, None, None, None, None, None) for c in self._result.columns]

    @property
    def rowcount(self) -> int:
        """Rows of the answer, or that a statement changed; -1 where that is not known."""
        return self._count

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, at most so many."""
        self._require_open()
        assert self.result is not None
        found = self._rows[self._at : self._at + (self.arraysize if size is None else size)]
        self._at += len(found)
        return found

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return self.fetchmany(len(self._rows))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def arrow(self, *, intervals: bool = True) -> pyarrow.Table:
        """The answer as an Arrow table; see ``Result.arrow``."""
        return self.result.arrow(intervals=intervals)

    def df(self, *, intervals: bool = True) -> pandas.DataFrame:
        """The answer as a pandas frame (pandas must be installed)."""
        return self.result.df(intervals=intervals)

    def pl(self, *, intervals: bool = True) -> polars.DataFrame:
        """The answer as a polars frame (polars must be installed)."""
        return self.result.pl(intervals=intervals)

    def __repr__(self) -> str:
        return f"<duckdp.client.Cursor of {self.connection!r}>" if self._result is None else str(self._result)

    def _repr_html_(self) -> str | None:
        return None if self._result is None else self._result._repr_html_()

    # ---- life -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the answer; the connection goes on."""
        self._result, self._rows, self._closed = None, [], True

    def setinputsizes(self, sizes: object) -> None:
        """Nothing; PEP 249 wants it."""

    def setoutputsize(self, size: object, column: object = None) -> None:
        """Nothing; PEP 249 wants it."""

    def _require_open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
