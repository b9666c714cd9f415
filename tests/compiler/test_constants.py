"""Rows that a statement writes out: what they mean, how often they repeat a unit, what is refused.

Generated statements with them are those of tests/compiler/test_relations.py.
"""

from __future__ import annotations

import random

import duckdb
import pytest

from duckdp.compiler.expression import ColumnRef
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.relations import joining_public, listing
from duckdp.compiler.relations.constant_rows import ConstantRows
from duckdp.compiler.relations.relation import Relation
from duckdp.compiler.select import read_select
from duckdp.errors import QueryError
from tests.relational import difference, largest_share, plan_of, random_data, tables, violation

USUAL, ROWS = tables(), tables(unit_key=None, unit_type=None, max_rows=1, max_groups=1)
WIDE = tables(max_rows=64, max_groups=64)
ONE = "(SELECT pid, max(day) AS day, max(dept) AS dept, max(score) AS score FROM visits GROUP BY pid) v"
MEANT = (
    "SELECT r.name, count(*) FROM visits v JOIN (VALUES ('a', 'North'), ('b', 'South')) AS r(code, name) "
    "ON v.dept = r.code GROUP BY r.name",
    "WITH r(code, w) AS (VALUES ('a', 1.5), ('b', 2), ('a', -0.25), (NULL, 9)) "
    "SELECT sum(cost * w), count(w) FROM visits v LEFT JOIN r ON v.dept = r.code",
    "WITH r AS (SELECT 'a' AS code, 1 AS n UNION ALL SELECT 'c', 2), s AS (SELECT code, n * 2 AS m FROM r WHERE n > 1) "
    "SELECT sum(m), count(*) FROM s JOIN visits ON dept = s.code",
    "SELECT r.k, count(v.cost) FROM (VALUES ('a'), ('b'), ('c')) r(k) LEFT JOIN visits v ON v.dept = r.k GROUP BY r.k",
    "SELECT count(*) FROM visits WHERE day IN (VALUES (1), (NULL), (2))",
    "SELECT count(*) FROM visits WHERE day NOT IN (SELECT 1 UNION ALL SELECT 2)",
    "SELECT count(*) FROM visits WHERE day NOT IN (SELECT 1 UNION SELECT NULL)",
    "SELECT count(*) FROM visits, (VALUES ('a'), ('b'), ('a')) r(x) WHERE x = dept",
    "SELECT count(*) FROM visits WHERE dept IN (SELECT 'a' UNION SELECT 'b' UNION SELECT 'a') OR day IN (SELECT 7)",
    "SELECT r.late, count(*) FROM visits v JOIN (VALUES (DATE '2024-01-31', TRUE), (DATE '2024-03-01', FALSE)) "
    "r(d, late) ON v.at >= r.d GROUP BY r.late",
    "SELECT count(*) FROM visits v SEMI JOIN (VALUES (1.25), (0.1), (-5)) r(x) ON v.score = r.x",
    "SELECT count(*) FROM visits v JOIN (VALUES (1, 2), (3, 4)) AS w ON v.day BETWEEN w.col0 AND w.col1",
    "SELECT sum(r.b // r.a) FROM visits v JOIN (VALUES (2, 7), (4, -9)) r(a, b) ON v.day = r.a",
)


@pytest.mark.parametrize("text", MEANT)
def test_they_mean_the_text(con: duckdb.DuckDBPyConnection, text: str) -> None:
    con.execute("CREATE SCHEMA reference")
    rng = random.Random(5)
    plan = plan_of(text, USUAL)
    assert violation(con, plan, rng, 1) is None
    assert largest_share(con, plan, rng, 2) <= 1
    for _ in range(2):
        assert difference(con, text, WIDE, random_data(rng, wild=False)) is None


def test_how_often_a_row_is_repeated() -> None:
    """The most constants that are alike where the condition says equal; NULL equals nothing, 1 and 1.0 are equal."""
    rows = "(VALUES (1, 'x', 0.5), (1.0, 'x', -0.0), (1, 'y', 0.0), (2, 'y', 0.00), (NULL, 'z', 0), (NULL, 'z', 3)) r"
    for on, most in (
        ("v.day = r.n", 3),
        ("v.day = r.n AND r.t = 'x'", 2),
        ("v.day = r.n AND r.t = 'x' AND r.z = 0.5", 1),
        ("v.dept = r.t", 2),
        ("v.day = r.z", 4),
        ("v.day + 1 = r.n", 3),
        ("v.day >= r.n", 6),
        ("v.day = r.n OR r.t = 'x'", 6),
    ):
        found = plan_of(f"SELECT count(*) FROM {ONE} JOIN {rows}(n, t, z) ON {on}", USUAL).query.table
        assert isinstance(found, Relation) and (found.rows, found.max_rows) == (most, most), on
    plan_of("SELECT count(*) FROM visits v JOIN (VALUES ('a', 1), ('b', 1)) r(k, n) ON v.dept = r.k", ROWS)
    with pytest.raises(QueryError, match="EXISTS or IN"):
        plan_of("SELECT count(*) FROM visits v JOIN (VALUES ('a'), ('a')) r(k) ON v.dept = r.k", ROWS)


def test_numbers_that_are_one_as_float_are_not_told_apart(con: duckdb.DuckDBPyConnection) -> None:
    """What meets a FLOAT is compared as FLOAT, where more constants may be equal than as DOUBLE."""
    text = f"SELECT count(*) FROM {ONE} JOIN (VALUES (1.0), (1.00000000001)) r(x) ON CAST(v.day AS FLOAT) = r.x"
    found = plan_of(text, USUAL).query.table
    assert isinstance(found, Relation) and found.rows == 2
    assert violation(con, plan_of(text, USUAL), random.Random(1), 2) is None


def test_repeated_rows_of_a_unit_are_caught(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        f"SELECT count(*) FROM {ONE.replace('max(day)', 'least(max(day), 1)')} JOIN (VALUES (1), (1)) r(x) ON day = x"
    )
    assert violation(con, plan_of(text, USUAL), random.Random(1), 4) is None
    assert largest_share(con, plan_of(text, USUAL), random.Random(1), 4) <= 1
    monkeypatch.setattr(joining_public, "most_joined", lambda *_: 1)
    assert violation(con, plan_of(text, USUAL), random.Random(1), 8) == "a unit has more rows than is claimed"


def test_what_they_contain_is_part_of_the_question_and_names_are_not() -> None:
    def asked(rows: str) -> str:
        return plan_of(f"SELECT count(*) FROM visits v JOIN {rows} ON v.dept = r.code", USUAL).canonical()

    known = asked("(VALUES ('a', 1), ('b', 2)) r(code, n)")
    assert known == asked("(SELECT 'a' AS code, 1 AS z UNION ALL SELECT 'b', 2) r")
    others = ("('a', 1), ('c', 2)", "('a', 1), ('b', 3)", "('a', 1), ('b', NULL)", "('a', 1)", "('a', '1'), ('b', '2')")
    found = [asked(f"(VALUES {rows}) r(code, n)") for rows in others]
    assert len({known, *found}) == 1 + len(others)


def test_types_are_those_that_duckdb_gives(con: duckdb.DuckDBPyConnection) -> None:
    for constants in (["1", "2"], ["1", "2.50"], ["0.5", "-3"], ["1e3", "2"], ["3000000000", "1"], ["TRUE", "NULL"]):
        rows = ", ".join(f"({c})" for c in constants)
        found = listing.written(parse_statement(f"VALUES {rows}"))
        assert found is not None
        (_, expr), *_ = listing.Listing("", ()).view(parse_statement(f"VALUES {rows}"), found).columns
        (meant,) = con.execute(f"SELECT DISTINCT typeof(x) FROM (VALUES {rows}) r(x)").fetchall()
        assert isinstance(expr, ColumnRef)
        whole, theirs = expr.column.type.partition(","), str(meant[0]).partition(",")
        assert (whole[0].partition("(")[0], whole[2]) == (theirs[0].partition("(")[0], theirs[2]) or (
            {expr.column.type, meant[0]} <= {"TINYINT", "SMALLINT", "INTEGER", "BIGINT"}
        ), constants


def test_values_are_printed_by_us_and_bounded(con: duckdb.DuckDBPyConnection) -> None:
    hostile = "'); DROP TABLE visits; --"
    rows = "(VALUES (?, 1e300), ('b', -1e-300)) r(k, n)"
    text = f"SELECT r.k, count(*) FROM visits v LEFT JOIN {rows} ON v.dept = r.k GROUP BY 1"
    query = read_select(parse_statement(text), USUAL, text, (hostile,))
    assert set(query.keys[0].domain or ()) == {hostile, "b", None}
    plan = plan_of(text.replace("?", "'" + hostile.replace("'", "''") + "'"), USUAL)
    assert violation(con, plan, random.Random(2), 1) is None
    many = ", ".join(f"({i}, {i % 7})" for i in range(2400))
    large = plan_of(f"SELECT count(*) FROM visits v JOIN (VALUES {many}) r(n, k) ON v.day = r.n", USUAL)
    assert violation(con, large, random.Random(1), 1) is None
    assert isinstance(large.query.table, Relation) and large.query.table.max_rows == 2


@pytest.mark.parametrize(
    ("rows", "code", "words"),
    [
        ("(VALUES (random())) r(x)", "Q202", "random is outside"),
        ("(VALUES (1), ('a')) r(x)", "Q203", "a number in one and a text in another"),
        ("(VALUES (NULL), (NULL)) r(x)", "Q203", "NULL in each"),
        ("(VALUES (1), (2, 3)) r(x)", "Q203", "differ in length"),
        ("(VALUES (v.day)) r(x)", "Q203", "are constants here"),
        ("(VALUES (1 + 1)) r(x)", "Q203", "are constants here"),
        ("(VALUES ((SELECT max(day) FROM visits))) r(x)", "Q204", "question of its own"),
        ("(VALUES (count(*))) r(x)", "Q203", "are constants here"),
        ("(VALUES (1)) r(x, y)", "Q203", "by position"),
        ("(VALUES (1, 2)) r(x, X)", "Q203", "two columns here"),
        ("(VALUES (1), (2)) v(x)", "Q203", "twice"),
        ("(SELECT 1 AS x LIMIT 1) r", "Q204", "LIMIT"),
        ("(SELECT 1 AS x WHERE FALSE) r", "Q205", "names no table"),
        ("(VALUES ('" + "a" * 300 + "')) r(x)", "Q104", "longer than"),
        ("(VALUES (1e301)) r(x)", "Q104", "beyond"),
        ("(VALUES ('x'::DATE)) r(x)", "Q203", "date"),
    ],
)
def test_what_is_no_constant_is_refused(rows: str, code: str, words: str) -> None:
    with pytest.raises(QueryError, match=words) as caught:
        plan_of(f"SELECT count(*) FROM visits v JOIN {rows} ON v.day = r.x", USUAL)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM visits v JOIN (VALUES (1), (2)) r(pid) ON v.pid = r.pid",
        "SELECT count(*) FROM visits WHERE pid IN (VALUES (1))",
        "SELECT count(*) FROM visits WHERE pid IN (SELECT 1)",
        "SELECT pid, count(*) FROM (SELECT 1 AS pid, day FROM visits) GROUP BY pid, day + pid",
        "SELECT sum(x) FROM (SELECT pid, cost AS x FROM visits UNION ALL VALUES (1, 2)) t",
        "SELECT count(*) FROM (VALUES (1), (2)) r(x) SEMI JOIN visits v ON v.day = r.x",
        "SELECT count(*) FROM (VALUES (1), (2)) r(x) WHERE x IN (SELECT day FROM visits)",
        "SELECT count(*) FROM (VALUES (1), (2)) r(x) WHERE EXISTS (SELECT 1 FROM visits v WHERE v.day = r.x)",
        "SELECT r.x, count(*) FROM (VALUES (1), (2)) r(x) LEFT JOIN visits v ON v.day = r.x GROUP BY r.x",
        "SELECT count(*) FROM (VALUES (1), (2)) r(x) FULL JOIN visits v ON v.day = r.x",
        "SELECT count(*) FROM visits v JOIN labs l ON v.day = l.day JOIN (VALUES (1)) r(x) ON l.day = r.x",
        "WITH visits AS (SELECT 1 AS day) SELECT count(*) FROM visits JOIN labs ON labs.pid = visits.day",
        "SELECT count(*) FROM visits WHERE EXISTS (SELECT 1)",
    ],
)
def test_constants_are_no_way_to_a_unit(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        plan_of(text, USUAL)
    assert caught.value.code in ("Q203", "Q204", "Q205", "Q301", "Q303"), str(caught.value)


def test_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_CONSTANTS", 5)
    text = "SELECT count(*) FROM visits v JOIN (VALUES (1, 2), (3, 4){}) r(x, y) ON v.day = r.x"
    plan_of(text.format(""), USUAL)
    with pytest.raises(QueryError, match="more than 5 constants") as caught:
        plan_of(text.format(", (5, 6)"), USUAL)
    assert caught.value.code == "Q403"


def test_nothing_is_read_for_them() -> None:
    found = plan_of(MEANT[0], USUAL).query.table
    assert isinstance(found, Relation) and [t.name for t in found.bases] == ["visits"]
    assert any(isinstance(table, ConstantRows) for table in found.node.inputs)
