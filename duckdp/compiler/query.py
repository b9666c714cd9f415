"""A validated question in our own types: what compiler/select.py gives and compiler/plan.py takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from duckdp.catalog.table import Scalar, Table
from duckdp.compiler.expression import Aggregate, Expr
from duckdp.errors import QueryError

MOST_KEYS = 64  # of one question: DuckDB groups by thousands for minutes, and in gigabytes, whatever rows there are

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Key:
    """One expression of GROUP BY.

    Attributes:
        name: of the output column.
        expr: of its value.
        domain: its complete public list of values, or None when keys must pass a threshold.
        other: the value that stands for those outside, or None: rows with such a key are left out.
        listed: rows are matched with the list; else the expression's facts say that they have no other value.
        complete: no row can have another value, but NULL.
        source: where the domain comes from, in words.
        of_one: each value is of one unit (relations/unit_keys.py): without a domain no group is ever shown.
    """

    name: str
    expr: Expr
    domain: tuple[Scalar, ...] | None
    other: Scalar = None
    listed: bool = False
    complete: bool = False
    source: str = ""
    of_one: bool = False


@dataclass(frozen=True, kw_only=True)
class Together:
    """Keys that are of one row of a public table: their groups are the combinations that its rows have.

    Attributes:
        places: of the keys, two or more, ascending.
        rows: the combinations, ascending: of each key the place of its value in its domain.
        source: name of the public table.
    """

    places: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]
    source: str


@dataclass(frozen=True, kw_only=True)
class Output:
    """One column of the result: an expression over aggregates and keys."""

    name: str
    expr: Expr


@dataclass(frozen=True, kw_only=True)
class Order:
    """One expression of ORDER BY."""

    expr: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, kw_only=True)
class Query:
    """A validated question: everything the plan needs, nothing of the text; ``told`` is noted beside its answers.

    With ``min_units`` a group is shown only if it has at least so many privacy units (compiler/least_units.py). Keys
    that are ``together`` have domains.
    """

    table: Table
    where: Expr | None
    keys: tuple[Key, ...]
    outputs: tuple[Output, ...]
    having: Expr | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    told: tuple[str, ...] = ()
    min_units: int | None = None
    together: tuple[Together, ...] = ()

    def groups_of(self, values: Sequence[Sequence[T]]) -> Iterator[tuple[T, ...]]:
        """The groups of keys with domains, in their order.

        Args:
            values: of each key a value for each place of its domain.
        """
        if not self.together:
            yield from product(*values)
            return
        parts = {t.places[0]: [tuple(zip(t.places, row, strict=True)) for row in t.rows] for t in self.together}
        within = {place for t in self.together for place in t.places}
        parts |= {i: [((i, at),) for at in range(len(own))] for i, own in enumerate(values) if i not in within}
        for picked in product(*(parts[place] for place in sorted(parts))):
            at = dict(pair for part in picked for pair in part)
            yield tuple(own[at[i]] for i, own in enumerate(values))

    @property
    def group_count(self) -> int | None:
        """How many groups there are; 1 without keys, None where a key has no domain."""
        if any(key.domain is None for key in self.keys):
            return None
        within = {place for t in self.together for place in t.places}
        alone = math.prod(len(key.domain or ()) for i, key in enumerate(self.keys) if i not in within)
        return alone * math.prod(len(t.rows) for t in self.together)

    @property
    def group_size(self) -> Aggregate | None:
        """How many privacy units a group has, where that decides whether it is shown; a row is one without a key."""
        if self.min_units is None:
            return None
        return Aggregate("count_rows" if self.table.unit_key is None else "count_units", None, None)


def group_count(keys: Sequence[Key]) -> int:
    """How many groups the domains of keys have; none of them is listed."""
    return math.prod(len(key.domain or ()) for key in keys)


def told_count(number: int) -> str:
    """A number of any size, for people: Python prints none of more than 4,300 digits."""
    return f"{number:,}" if number < 10**30 else "more than 10^30"


def require_few_keys(count: int) -> None:
    """Nothing, if one question may have so many keys.

    Raises:
        QueryError: Q403.
    """
    if count > MOST_KEYS:
        raise QueryError("Q403", f"{count:,} keys are more than the {MOST_KEYS} of one question. Group by fewer.")
