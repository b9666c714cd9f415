"""A join with the few groups that another question chose is the same after both are asked, by DuckDB."""

from __future__ import annotations

import itertools

import duckdb
import pytest

from duckdp.compiler.outer.series import series_limited
from duckdp.compiler.parse import parse_statement

COLUMNS = frozenset("kjx")
INNER = (
    "JOIN (SELECT k AS k__, count(*) AS n__ FROM t {where} GROUP BY {by} ORDER BY n__ DESC, 1 LIMIT {limit}) AS l "
    "ON {on}"
)
INNERS = [
    INNER.format(where=where, by=by, limit=limit, on=on)
    for where, by, limit, on in itertools.product(
        ("", "WHERE x > 3"), ("k", "1"), (3, 2), ("k = k__", "(k__ = k)", "l.k__ = k")
    )
]
OUTERS = (
    "SELECT k AS k, sum(x) AS s FROM t {join} GROUP BY k ORDER BY s DESC, k LIMIT 3",
    'SELECT j AS j, k AS k, count(*) AS "count(*)" FROM t {join} WHERE x > 1 GROUP BY k, j '
    "ORDER BY count(*) DESC, j, k",
    "SELECT j, k, max(x) AS m FROM t {join} GROUP BY 1, 2 HAVING count(*) > 1 ORDER BY m, j, 2 OFFSET 1",
    "WITH t AS (SELECT * FROM t WHERE x < 9) SELECT k AS k, sum(x) AS s FROM t {join} GROUP BY k ORDER BY k",
)
#: Where the same would not be the same, or need not be.
OTHERS = (
    OUTERS[0].format(join="LEFT " + INNERS[0]),
    OUTERS[0].format(join=INNERS[0]).replace("sum(x)", "sum(n__)"),
    OUTERS[0].format(join=INNERS[0]).replace("sum(x)", "sum(sum(x)) OVER ()"),
    OUTERS[0].format(join=INNERS[0]).replace("GROUP BY k ORDER", "GROUP BY k QUALIFY count(*) OVER () > 1 ORDER"),
    OUTERS[0].format(join=INNERS[0]).replace("ORDER BY s", "ORDER BY min(x)"),
    OUTERS[0].format(join=INNERS[0]).replace("SELECT k AS k, sum", "SELECT DISTINCT k AS k, sum"),
    OUTERS[0].format(join=INNERS[0]).replace("k = k__", "k <> k__"),
    OUTERS[0].format(join=INNERS[0]).replace("k = k__", "k = k__ AND x = n__"),
    OUTERS[0].format(join=INNERS[0]).replace("k = k__", "x = k__"),
    OUTERS[0].format(join=INNERS[0]).replace("GROUP BY k ORDER BY n__", "GROUP BY k, j ORDER BY n__"),
    OUTERS[0].format(join=INNERS[0]).replace("GROUP BY k ORDER BY n__", "GROUP BY k__ ORDER BY n__"),
    OUTERS[0].format(join=INNERS[0]).replace("GROUP BY k ORDER BY s", "GROUP BY ROLLUP (k) ORDER BY s"),
)


def rows(con: duckdb.DuckDBPyConnection, text: str) -> tuple[list[str], list[tuple[object, ...]]]:
    """Names and rows that DuckDB gives."""
    done = con.execute(text)
    return [name for name, *_ in done.description or ()], done.fetchall()


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect(":memory:")
    found.execute("SELECT setseed(0.5)")
    found.execute(
        "CREATE TABLE t AS SELECT CASE WHEN random() < 0.2 THEN NULL ELSE (4 * random())::INTEGER END AS k, "
        "(2 * random())::INTEGER AS j, (10 * random())::INTEGER AS x FROM range(60)"
    )
    return found


@pytest.mark.parametrize("outer", OUTERS)
def test_groups_are_those_of_the_join(con: duckdb.DuckDBPyConnection, outer: str) -> None:
    seen = 0
    for inner in INNERS:
        text = outer.format(join=inner)
        made = series_limited(parse_statement(text), COLUMNS)
        assert made is not None, text
        found = rows(con, text)
        assert rows(con, made.sql("duckdb")) == found, text
        seen += len(found[1])
    assert seen > 10


@pytest.mark.parametrize("text", OTHERS)
def test_other_joins_are_left_as_they_are(text: str) -> None:
    assert series_limited(parse_statement(text), COLUMNS) is None


#: An alias that a column has, too: DuckDB groups by the column, and a value of the key has several rows.
ALIASED = (
    "SELECT v.x // 4 AS g, sum(v.x) AS s FROM t AS v JOIN (SELECT x // 4 AS {a}, count(*) AS n FROM {t} GROUP BY {a} "
    "ORDER BY n DESC, 1 LIMIT 9) AS l ON v.x // 4 = l.{a} GROUP BY v.x // 4 ORDER BY g"
)


@pytest.mark.parametrize(
    ("alias", "table"), [("x", "t"), ("x", "(SELECT * FROM t)"), ("y", "(SELECT x, k AS y FROM t)")]
)
def test_an_alias_that_is_a_column_is_no_key(con: duckdb.DuckDBPyConnection, alias: str, table: str) -> None:
    text = ALIASED.format(a=alias, t=table)
    assert series_limited(parse_statement(text), COLUMNS) is None
    of_cte = "WITH u AS (SELECT k AS y FROM t) " + ALIASED.format(a="y", t="u")
    assert series_limited(parse_statement(of_cte), COLUMNS) is None
    plain = ALIASED.format(a="z", t=table)
    made = series_limited(parse_statement(plain), COLUMNS)
    assert made is not None and rows(con, made.sql("duckdb")) == rows(con, plain)
    if table == "t":  # the twin: taken for a key it is another question
        twin = series_limited(parse_statement(text), frozenset())
        assert twin is not None and rows(con, twin.sql("duckdb"))[1] != rows(con, text)[1]


def test_a_window_over_the_groups_would_be_another_one(con: duckdb.DuckDBPyConnection) -> None:
    """The twin: what is refused above gives other figures, and the comparison sees it."""
    text, plain = OTHERS[2], OUTERS[0].format(join=INNERS[0])
    made = series_limited(parse_statement(plain), COLUMNS)
    assert made is not None
    assert rows(con, made.sql("duckdb").replace("SUM(x)", "SUM(SUM(x)) OVER ()"))[1] != rows(con, text)[1]
