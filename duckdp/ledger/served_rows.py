"""Rows as the driver gives them, in the form in which SQLite's are had: by the number and by the name of a column."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import lru_cache
from typing import Any


class Row(tuple[Any, ...]):
    """A row, had by the number and by the name of a column."""

    __slots__ = ()
    _names: tuple[str, ...] = ()
    _places: dict[str, int] = {}  # noqa: RUF012 - of each class its own

    def keys(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return self._names

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, self._places[key] if type(key) is str else key)


@lru_cache(maxsize=512)
def _class_of(names: tuple[str, ...]) -> type[Row]:
    places = {name: place for place, name in enumerate(names)}
    return type("Row", (Row,), {"__slots__": (), "_names": names, "_places": places})


def rows_of(cursor: Any) -> Callable[[Sequence[Any]], Row]:
    """What makes rows of what a statement gave."""
    return _class_of(tuple(column.name for column in cursor.description or ()))


class Stream:
    """Rows that come page by page."""

    rowcount = -1

    def __init__(self, pages: Generator[list[Any]]) -> None:
        self._pages = pages
        self._rows = (row for page in pages for row in page)

    def fetchone(self) -> Any:
        """The next row, or None."""
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        """All rows that were not had yet."""
        return list(self._rows)

    def close(self) -> None:
        """Want no more of them."""
        self._rows.close()
        self._pages.close()

    def __iter__(self) -> Iterator[Any]:
        return self._rows
