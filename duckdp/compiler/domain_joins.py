"""Declared domains beside the rows: a key's values become their places there, 1, 2, ..., and rows outside are dropped.

A domain is a small relation that the rows are joined with, or a list in which each value is looked for; both give the
same place for the same value, as no value stands twice in a domain and both compare texts by their bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from duckdp.catalog.table import Kind, Scalar, Table
from duckdp.compiler.printing import SQL_TYPES, Parameters
from duckdp.compiler.query import Query
from duckdp.compiler.relations.relation import Relation, public_joins

MOST_SEARCHED = 64  # values of a list in which each is looked for


@dataclass(frozen=True, kw_only=True)
class DomainJoin:
    """A declared domain as a relation that the rows are joined with.

    Attributes:
        name: of the relation.
        values: SQL of the list of the domain's values but NULL.
        places: SQL of the list of their places, from 1; not of a list that is searched.
        other: SQL of the place of the label for values outside, or None.
        with_null: NULL is in the domain.
        searched: a value is looked for in the list, and nothing is joined.
    """

    name: str
    values: str
    places: str
    other: str | None
    with_null: bool
    searched: bool

    def relation(self, value: str) -> str:
        """The join, for a key printed as ``value``."""
        if self.searched:
            return ""
        kind = "LEFT JOIN" if self.other is not None or self.with_null else "JOIN"
        rows = f"(SELECT unnest({self.values}) AS value, unnest({self.places}) AS place)"
        return f" {kind} {rows} AS {self.name} ON {self.name}.value = {value}"

    def key(self, value: str) -> tuple[str, str]:
        """The key of a row, NULL for NULL, and the condition that keeps rows inside the domain ("": the join)."""
        place = f"{self.name}.place"
        if self.searched:  # places are 1, 2, ..., as in the list
            place = f"system.main.list_position({self.values}, {value})"
        if self.other is not None:
            shown = f"(CASE WHEN {place} IS NOT NULL THEN {place} WHEN {value} IS NOT NULL THEN {self.other} END)"
            return shown, "" if self.with_null else f"{value} IS NOT NULL"
        inside = f"{place} IS NOT NULL" if self.searched else ""  # the join itself leaves the others out
        return place, f"({place} IS NOT NULL OR {value} IS NULL)" if self.with_null else inside


def join_domain(i: int, query: Query, parameters: Parameters) -> DomainJoin | None:
    """The domain of key ``i``, when rows are matched with it; other keys are grouped by their values."""
    key = query.keys[i]
    if not key.listed:
        return None
    kind, domain = key.expr.kind, key.domain or ()
    values: list[Scalar] = [v for v in domain if v is not None]
    plain = [float(v) for v in values] if kind is Kind.NUMBER else values  # type: ignore[arg-type]
    size = "USMALLINT" if len(values) < 2**16 else "UINTEGER"  # narrow keys make the grouping faster
    listed = f"CAST({parameters.bind(plain)} AS {SQL_TYPES[kind]}[])"
    searched = len(values) <= MOST_SEARCHED and _joins_public(query.table)
    places = "" if searched else f"CAST({parameters.bind(list(range(1, len(values) + 1)))} AS {size}[])"
    return DomainJoin(
        name=f"d{i}",
        values=listed,
        places=places,
        other=None if key.other is None else f"CAST({values.index(key.other) + 1} AS {size})",
        with_null=None in domain,
        searched=searched,
    )


def _joins_public(table: Table) -> bool:
    """Whether rows are joined with several public tables.

    Then the order of joins matters: DuckDB knows nothing of a list that is one more relation to join. It would begin
    with it, or leave for last what makes rows few.
    """
    return isinstance(table, Relation) and public_joins(table) > 1
