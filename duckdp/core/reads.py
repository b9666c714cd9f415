"""Private reads: SQL of our own for the private instance, and how what it gives for parts of the rows combines.

A part holds some privacy units with all of their rows (where a row is the unit: some of the rows); every unit is in one
part. One engine may run a read on the whole and another on parts, wherever they are: :meth:`PrivateQuery.combine` makes
of what the parts gave what the whole gives, to the last bit, whatever the number of parts and empty ones included. So
noise, sensitivities and proofs are those of the whole.

Why it holds: what a unit adds to a read follows from that unit's own rows and public figures (``printing.print_rows``,
``print_chosen``, ``emit``, ``sums.scan``), and reads add whole numbers, whose sums are the same in every order. A read
of another kind says so, and why. Who adds a read says which it is; ``tests/privacy/test_parts.py`` runs each of them on
parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from typing import Any, ClassVar

from duckdp.errors import InternalError

Row = tuple[Any, ...]
"""A row of cells, or a batch of rows as arrays, one per column: exact, and private."""


def one_row(rows: Iterable[Sequence[Any]], width: int) -> Sequence[Any]:
    """The one row of a read that gives one, with ``width`` cells: exact, and private.

    Raises:
        InternalError: something else came.
    """
    found = list(rows)
    if len(found) != 1 or len(found[0]) != width:
        raise InternalError("a private read gave something other than its one row")
    return found[0]


class Parts(ABC):
    """How the results of one read on parts combine to its result on the whole.

    Attributes:
        known: whether parts are enough.
    """

    known: ClassVar[bool] = True

    @abstractmethod
    def combine(self, parts: Sequence[Iterable[Row]]) -> Iterator[Row]:
        """The rows of the whole.

        Args:
            parts: the rows of each part, of an empty one too; at least one part. Exact and private.

        Raises:
            InternalError: they are not what such a read gives, or parts are not enough.
        """


@dataclass(frozen=True)
class Add(Parts):
    """One row of whole numbers, which add up; NULL where no part has a number."""

    def combine(self, parts: Sequence[Iterable[Row]]) -> Iterator[Row]:
        """One row; see :meth:`Parts.combine`."""
        rows = [tuple(part) for part in parts]
        if not rows or any(len(found) != 1 for found in rows):
            raise InternalError("a part of a private read is not one row")
        yield _added([row for (row,) in rows])


@dataclass(frozen=True)
class AddByKey(Parts):
    """Rows with keys, the first cells: whole numbers of equal keys add up. Of a number the sign of zero tells nothing.

    Attributes:
        keys: how many.
        ordered: rows come by ascending keys, NULL last, and are combined as they come: there may be many. Else they
            come in any order, and there are few: those of a public list.
    """

    keys: int
    ordered: bool = True

    def combine(self, parts: Sequence[Iterable[Row]]) -> Iterator[Row]:
        """A row for each key that any part has, by ascending keys; see :meth:`Parts.combine`."""
        if not parts:
            raise InternalError("a private read has no part")

        def order(row: Row) -> tuple[tuple[bool, Any], ...]:
            return tuple((value is None, 0 if value is None else value) for value in row[: self.keys])

        last: tuple[tuple[bool, Any], ...] | None = None
        sources = parts if self.ordered else [sorted(part, key=order) for part in parts]
        for place, equal in groupby(merge(*sources, key=order), key=order):
            if last is not None and place < last:
                raise InternalError("the rows of a private read are not in the order of their keys")
            last, rows = place, list(equal)
            keys = (value + 0.0 if isinstance(value, float) else value for value in rows[0][: self.keys])
            yield (*keys, *_added([row[self.keys :] for row in rows]))


@dataclass(frozen=True)
class AddInLists(Parts):
    """One row of lists, the first of keys: whole numbers at the places of equal keys add up; NULL: no list, no rows."""

    def combine(self, parts: Sequence[Iterable[Row]]) -> Iterator[Row]:
        """One row, by ascending keys; see :meth:`Parts.combine`."""
        rows = [tuple(part) for part in parts]
        if not rows or any(len(found) != 1 for found in rows) or len({len(row) for (row,) in rows}) != 1:
            raise InternalError("a part of a private read is not one row of lists")
        listed = [row for (row,) in rows if row[0] is not None]
        if not listed:
            yield (None,) * len(rows[0][0])
            return
        total: dict[Any, list[int]] = {}
        for row in listed:
            for key, *cells in zip(*row, strict=True):
                before = total.get(key)
                total[key] = cells if before is None else [a + b for a, b in zip(before, cells, strict=True)]
        keys = sorted(total)
        yield (keys, *(list(column) for column in zip(*(total[key] for key in keys), strict=True)))


@dataclass(frozen=True)
class Gather(Parts):
    """Rows that are added up or counted as they come, in any order: those of all parts together."""

    def combine(self, parts: Sequence[Iterable[Row]]) -> Iterator[Row]:
        """All rows or batches, part by part; see :meth:`Parts.combine`."""
        if not parts:
            raise InternalError("a private read has no part")
        for part in parts:
            yield from part


@dataclass(frozen=True)
class OfAllRows(Parts):
    """What parts do not tell: two tables with the same results on all of their parts may differ in it.

    Attributes:
        why: what it is of all rows together.
    """

    known: ClassVar[bool] = False
    why: str

    def combine(self, parts: Sequence[Iterable[Row]]) -> Iterator[Row]:  # noqa: ARG002 - whatever they are
        """Nothing: raises; see :meth:`Parts.combine`."""
        raise InternalError(f"parts of the rows do not tell {self.why}")


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Rows that several reads of one release start from: within the private instance, for as long as the release takes.

    Attributes:
        name: of the temporary table.
        sql: one SELECT, printed from plan objects, of private rows or of what is kept before it.
        parameters: values of $1, $2, ...
    """

    name: str
    sql: str
    parameters: tuple[Any, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PrivateQuery:
    """SQL of our own for the private instance.

    Attributes:
        sql: one SELECT, printed from plan objects.
        parameters: values of $1, $2, ...
        rows: the most rows that may cross; each of them is noised. None: streamed to something that keeps none of
            them (keys that must pass a threshold; the points of a large summary, added up as they come).
        arrays: rows cross in batches, each a tuple of NumPy arrays of DOUBLE or INTEGER, one per column, NULL as NaN.
        parts: how results of parts of the rows combine.
        kept: what may be copied once for all reads of a release; ``sql`` does without.
        rest: the same read of these copies; its parameters are the first of ``parameters``.
        rest_count: how many those are.
        few: the one relation that it reads, in plain steps, where that has so few rows by public figures that DuckDB's
            optimizer takes longer than it saves; None: it is to be optimized.
    """

    sql: str
    parameters: tuple[Any, ...] = ()
    rows: int | None = 1
    arrays: bool = False
    parts: Parts
    kept: tuple[Kept, ...] = ()
    rest: str = ""
    rest_count: int = 0
    few: tuple[str, str, str] | None = None

    def combine(self, parts: Sequence[Iterable[Row]]) -> Iterator[Row]:
        """What this read gives on the whole, from what it gave on each part; see :meth:`Parts.combine`."""
        return self.parts.combine(parts)


Read = Callable[[PrivateQuery], Iterable[Row]]
"""Runs a private read that has been paid for: exact rows, never logged, stored or raised."""


def _added(rows: Sequence[Row]) -> Row:
    """Sums of columns of whole numbers; NULL where there are none."""
    if len({len(row) for row in rows}) != 1:
        raise InternalError("the rows of a private read differ in length")
    return tuple(_sum([value for value in column if value is not None]) for column in zip(*rows, strict=True))


def _sum(values: Sequence[Any]) -> int | None:
    if any(type(value) is not int for value in values):
        raise InternalError("a private read adds up something other than whole numbers")
    return sum(values) if values else None
