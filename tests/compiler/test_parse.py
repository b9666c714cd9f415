"""Text to a tree: what nests too deeply is told apart from what is no SQL."""

from __future__ import annotations

import pytest

from duckdp.compiler.parse import parse_scalar, parse_statement
from duckdp.errors import QueryError

NESTED = {
    "parentheses": lambda n: "(" * n + "x" + ")" * n,
    "functions": lambda n: "sqrt(" * n + "x" + ")" * n,
    "case": lambda n: "CASE WHEN x > 1 THEN " * n + "x" + " END" * n,
    "not": lambda n: "NOT " * n + "x",
    "sums": lambda n: "x" + " + 1" * n,
}


@pytest.mark.parametrize("depth", [42, 60, 94, 140, 200, 2000])
@pytest.mark.parametrize("what", NESTED)
def test_depth_is_read_or_refused_as_depth(what: str, depth: int) -> None:
    text = NESTED[what](depth)
    for read in (lambda: parse_scalar(text), lambda: parse_statement(f"SELECT {text} FROM t")):
        try:
            read()
        except QueryError as error:
            assert error.code == "Q104"
            assert "too deeply" in error.message or "nests deeper" in error.message
        else:
            assert depth < 150


@pytest.mark.parametrize("text", ["SELECT (", "SELECT 1 +", "", "SELECT CASE x", "SELECT )"])
def test_what_is_no_sql_stays_no_sql(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_statement(text)
    assert caught.value.code == "Q101"
