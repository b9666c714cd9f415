"""Text to a tree: what nests too deeply is told apart from what is no SQL."""

from __future__ import annotations

import pytest

from duckdp.compiler.parse import MAX_STATEMENT, parse_scalar, parse_statement
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


def test_a_statement_may_have_so_many_bytes_and_no_more() -> None:
    """Bytes, not characters: what is kept, hashed and parsed is bounded by them."""
    around = len("SELECT '' FROM t")
    for letter in ("x", "ä", "\U0001f600"):
        size = len(letter.encode())
        most = (MAX_STATEMENT - around) // size
        parse_statement(f"SELECT '{letter * most}' FROM t")
        with pytest.raises(QueryError, match="longer than") as caught:
            parse_statement(f"SELECT '{letter * (most + 1)}' FROM t")
        assert caught.value.code == "Q104"


CLAUSES = (
    "FROM t",
    "FROM t WHERE x > 2",
    "WHERE y > 1",
    "GROUP BY x",
    "HAVING y > 1",
    "ORDER BY 1",
    "LIMIT 1",
    "OFFSET 1",
    "UNION SELECT y",
    "EXCEPT SELECT y",
    "QUALIFY y > 1",
    "WINDOW w AS (PARTITION BY y)",
    "USING SAMPLE 10%",
    ", y",
    "AS z",
    "; SELECT 1",
    "INTO z",
)


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_predicate_has_no_clauses(clause: str) -> None:
    """What followed it would be left out: a predicate, or the view of an owner, would mean more than it says."""
    for text in (f"x > 1 {clause}", f"DISTINCT x > 1 {clause}"):
        with pytest.raises(QueryError) as caught:
            parse_scalar(text)
        assert caught.value.code in ("Q101", "Q102")
    with pytest.raises(QueryError):
        parse_scalar("DISTINCT x > 1")
    assert parse_scalar("x > 1").sql("duckdb") == "x > 1"


@pytest.mark.parametrize("number", ["0xFF", "1a", "12abc", "0b11", "3.5x", "1e5y", "0o17"])
def test_a_number_runs_into_no_name(number: str) -> None:
    """0xFF is 255 to DuckDB and 0, called xFF, to the parser: what would be answered is not what was asked."""
    for read in (lambda: parse_scalar(number), lambda: parse_statement(f"SELECT sum(age) + {number} FROM t")):
        with pytest.raises(QueryError) as caught:
            read()
        assert caught.value.code == "Q101"
