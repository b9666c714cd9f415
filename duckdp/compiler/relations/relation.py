"""A relation that is made of protected tables is a table: what aggregates over its rows need not know the difference.

Everything that reads private rows starts from the columns, the unit and the public figures of a :class:`Table`, and
from the SELECT that gives its rows (``printing.print_rows``). A :class:`Relation` has the same, and its rows are
printed by a :class:`Node` of our own.

**Unit-local.** Every node gives, for all data D and units u, R(D without u) = R(D) without the rows of u, as multisets:
what it gives for a unit is one function of that unit's rows and of public figures. That covers the absence of others'
rows, ties, rounding and errors. Proof, once for all nodes: each is the union over units of a function of the unit's own
rows of its inputs, which gives nothing for no rows; so if the inputs are unit-local, both sides of the equation are the
same union without the term of u. What each printer does for it, its file says.

So the contributions of a unit are bounded once, at the end, on its own rows of the last relation (compiler/emit.py),
and sensitivities are those of that bounding (Wilson et al. 2020).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from duckdp.catalog.table import Column, Table
from duckdp.compiler.bound_values import Parameters
from duckdp.compiler.expression import Expr, columns
from duckdp.compiler.notation import pretty

MAX_NODES = 16  # of one relation: each is a pass over rows


class Node(ABC):
    """How rows of a relation come about."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[Table, ...]:
        """The tables and relations whose rows it takes."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What it is, as a part of a question's identity: the same whatever the analyst called its parts."""

    @abstractmethod
    def pruned(self, names: set[str]) -> Self:
        """The same without columns, of its own and below, that nobody needs for columns of these names."""

    def sides(self) -> tuple[tuple[Table, dict[str, Expr]], ...]:
        """Tables whose columns stand in it by names of its own, as expressions over them; () where that is not so.

        Each value is as :meth:`print` of that side left it, or NULL; a row has the unit of the sides' rows.
        """
        return ()

    def printed(self) -> dict[str, Column]:
        """Columns within whose bounds the values of their names are printed, as far as that is known."""
        return {}

    def passed(self) -> dict[str, tuple[Table, str]]:
        """Columns that are what a column of an input is, as that is printed: by name, of which input, and which."""
        return {}

    def without_unit(self) -> Self | None:
        """The same over rows whose unit is not looked up; None: it compares units, or its rows have their own."""
        return None

    @abstractmethod
    def print(self, columns: tuple[Column, ...], parameters: Parameters) -> str:
        """Its rows as a parenthesised SELECT: columns by their names, and the unit's key as ``__unit``, never NULL."""

    @abstractmethod
    def describe(self) -> list[str]:
        """What it makes of its inputs, for explain: a line each."""

    @abstractmethod
    def notes(self) -> list[str]:
        """What a reader of numbers from its rows must know."""


@dataclass(frozen=True, kw_only=True)
class Relation(Table):
    """Rows that a node gives, as a table.

    Its name, unit_key and null_units are shown only. ``max_rows`` and ``max_groups`` bound a unit's rows of this
    relation at the end; ``row_cap`` is a public upper bound of its rows.

    Attributes:
        node: what gives its rows.
        rows: the most rows that one unit can have in it, whatever the data; None: not known.
        apart: names of columns that no two rows of one unit have in common; None: not known.
        units: a public upper bound of the units that occur; None: that of the rows.
        once: names of columns in which no value stands twice.
        told_once: names of columns in which none would where no unit had more rows of a table than its ``max_rows``.
    """

    node: Node
    rows: int | None = None
    apart: tuple[str, ...] | None = None
    units: int | None = None
    once: tuple[str, ...] = ()
    told_once: tuple[str, ...] = ()

    @cached_property
    def bases(self) -> tuple[Table, ...]:
        """The protected tables that it reads."""
        return tuple(dict.fromkeys(base for table in self.node.inputs for base in table.bases))

    @cached_property
    def nodes(self) -> int:
        """How many nodes it is made of."""
        return 1 + sum(table.nodes for table in self.node.inputs if isinstance(table, Relation))

    @property
    def most_rows(self) -> int:
        """The most rows of one unit that public figures leave possible."""
        return self.row_cap if self.rows is None else self.rows

    @property
    def units_cap(self) -> int:
        """An upper bound of the units that occur."""
        return self.row_cap if self.units is None else self.units

    @cached_property
    def _declared(self) -> dict[str, Any]:
        figures = {"max_rows": self.max_rows, "max_groups": self.max_groups, "row_cap": self.row_cap}
        return {"relation": self.node.identity(), **figures}


def rows_of_unit(table: Table) -> int | None:
    """The most rows that one unit can have, whatever the data; None: not known."""
    if isinstance(table, Relation):
        return table.rows
    return 1 if table.unit_key is not None and table.unit_key in table.unique and table.link is None else None


def names_once(table: Table) -> frozenset[str]:
    """Names of columns in which no value stands twice, among rows with a unit.

    As they are read: a value that stands for NULL stands as often as NULL does, which what is unique may be.
    """
    if isinstance(table, Relation):
        return frozenset(table.once)
    return frozenset(c.name for c in table.columns if c.source in table.unique and c.null_value is None)


def names_told_once(table: Table) -> frozenset[str]:
    """Names of columns in which no value stands twice where units keep to ``max_rows``, which the data may not."""
    return names_once(table) | frozenset(table.told_once if isinstance(table, Relation) else ())


def is_public(table: Table, name: str) -> bool:
    """Whether a column of a table or relation is one of a public table, as it is printed there."""
    if not isinstance(table, Relation):
        return table.public is not None
    below = table.node.passed().get(name)
    return below is not None and is_public(*below)


def public_joins(table: Table) -> int:
    """How many times a relation takes the rows of public tables."""
    if not isinstance(table, Relation):
        return int(table.public is not None)
    return sum(public_joins(below) for below in table.node.inputs)


def pruned(table: Table, exprs: Sequence[Expr | None], names: Iterable[str] = ()) -> Table:
    """A table or relation without what expressions over it, and columns of these names, do not need."""
    if not isinstance(table, Relation):
        return table
    wanted = {c.name for c in columns(*exprs)} | set(names)
    kept = tuple(c for c in table.columns if c.name in wanted)
    return replace(table, columns=kept, node=table.node.pruned(wanted))


def describe_below(table: Table, where: Expr | None, word: str = "of") -> list[str]:
    """A table or relation that a node takes rows of, and which of them, for explain."""
    first, *more = table.node.describe() if isinstance(table, Relation) else [table.name]
    chosen = f" where {pretty(where)}" if where is not None else ""
    return [f"{word} {first}{chosen}", *(f"  {line}" for line in more)]
