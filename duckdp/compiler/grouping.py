"""Grouping expressions given as one text, as GROUP BY takes them."""

from __future__ import annotations

from sqlglot import exp

from duckdp.catalog.table import Table
from duckdp.compiler.parse import parse_list
from duckdp.compiler.query import Key, require_few_keys
from duckdp.compiler.select import read_select


def read_keys(keys: str, table: Table) -> tuple[Key, ...]:
    """The keys of ``GROUP BY keys`` over a table.

    Args:
        keys: expressions with commas between them.
        table: protected.

    Raises:
        QueryError: Q101, no such list; Q403, too long a one; and as of a GROUP BY.
    """
    listed = parse_list(keys)
    require_few_keys(len(listed))
    counted = exp.select(exp.Count(this=exp.Star())).from_(exp.Table(this=exp.to_identifier(table.name)))
    statement = counted.group_by(*listed, copy=False)
    return read_select(statement, {table.name.lower(): table}, keys).keys
