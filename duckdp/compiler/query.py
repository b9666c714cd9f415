"""A validated question in our own types: what compiler/select.py gives and compiler/plan.py takes."""

from __future__ import annotations

from dataclasses import dataclass

from duckdp.catalog.table import Scalar, Table
from duckdp.compiler.expression import Aggregate, Expr


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

    With ``min_units`` a group is shown only if it has at least so many privacy units (compiler/least_units.py).
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

    @property
    def group_size(self) -> Aggregate | None:
        """How many privacy units a group has, where that decides whether it is shown; a row is one without a key."""
        if self.min_units is None:
            return None
        return Aggregate("count_rows" if self.table.unit_key is None else "count_units", None, None)
