"""A statement over protected tables: one question of the gate's, or a query over answers of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from duckdp.catalog.table import Table
from duckdp.compiler.outer.apart import Apart, is_one_question, take_apart
from duckdp.compiler.query import Query
from duckdp.compiler.select import read_select
from duckdp.errors import QueryError


def read_whole(
    statement: exp.Expression, tables: Mapping[str, Table], text: str, parameters: Sequence[object] = ()
) -> Query | Apart:
    """Validate a statement: as one question if it can be, else in parts.

    Args:
        statement: tree from ``parse_statement``.
        tables: protected tables by lower-case name.
        text: the statement, for places in messages.
        parameters: values of ? and $1.

    Raises:
        QueryError: Q1xx to Q4xx, at the offending node; of a statement whose outermost SELECT reads private rows, what
            the gate says of it as one question.
    """
    refusal: QueryError | None = None
    found: Apart | None = None
    try:
        return read_select(statement, tables, text, parameters)
    except QueryError as error:
        refusal = error
    try:
        found = take_apart(statement, tables, text, parameters)
    except QueryError as error:
        if not is_one_question(statement, tables):
            refusal = error
    if found is None:
        raise refusal
    return found
