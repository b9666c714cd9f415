"""Grouping expressions given as one text, as GROUP BY takes them."""

from __future__ import annotations

from sqlglot import exp

from duckdp.catalog.table import Table
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.query import Key
from duckdp.compiler.select import read_select
from duckdp.errors import QueryError


def read_keys(keys: str, table: Table) -> tuple[Key, ...]:
    """The keys of ``GROUP BY keys`` over a table.

    Args:
        keys: expressions with commas between them.
        table: protected.

    Raises:
        QueryError: Q101, no such list; and as of a GROUP BY.
    """
    text = f"SELECT {keys}"
    listed = parse_statement(f"{text}\n")
    others = [k for k, v in listed.args.items() if v and k != "expressions"]
    if not isinstance(listed, exp.Select) or others or not listed.expressions:
        raise QueryError("Q101", "this is not a list of grouping expressions.", sql=text)
    counted = exp.select(exp.Count(this=exp.Star())).from_(exp.Table(this=exp.to_identifier(table.name)))
    statement = counted.group_by(*listed.expressions, copy=False)
    return read_select(statement, {table.name.lower(): table}, text).keys
