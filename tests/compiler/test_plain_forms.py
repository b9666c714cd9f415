"""DuckDB's shorter forms mean what they mean written out, and written out they are refused where they pair people."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator

import duckdb
import pytest

import duckdp
from duckdp.compiler import in_any_form, scalar_joins
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.plain_forms import plain_forms
from duckdp.compiler.query import Query
from duckdp.errors import QueryError
from tests.test_tpch import exact, own_answer


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    """Customers with orders: as many of each as count, within bounds and domains."""
    folder, rng = tmp_path_factory.mktemp("plain"), random.Random(3)
    with duckdb.connect(str(folder / "shop.duckdb")) as con:
        con.execute("CREATE TABLE customers (cid INTEGER, country VARCHAR, born INTEGER, news BOOLEAN)")
        con.execute("CREATE TABLE orders (cid INTEGER, day DATE, status VARCHAR, total INTEGER)")
        for cid in range(60):
            row = (cid, rng.choice(["CH", "DE", "FR"]), rng.randrange(1950, 2000), rng.random() < 0.5)
            con.execute("INSERT INTO customers VALUES (?, ?, ?, ?)", row)
            for i in range(rng.choice([0, 1, 2, 4])):
                day = dt.date(2023, 1, 1) + dt.timedelta(days=rng.randrange(90) * 4 + i)
                order = (cid, day, rng.choice(["paid", "sent", "back"]), rng.randrange(10, 900))
                con.execute("INSERT INTO orders VALUES (?, ?, ?, ?)", order)
    with duckdp.open(str(folder / "shop.duckdb"), ledger=str(folder / "ledger")) as curator:
        curator.protect(
            "customers",
            unit_key="cid",
            unique=["cid"],
            max_rows=1,
            row_cap=1000,
            bounds={"born": (1950, 2000)},
            domains={"country": ["CH", "DE", "FR"]},
            columns=["news"],
        )
        curator.protect(
            "orders",
            unit_key="cid",
            max_rows=4,
            max_groups=4,
            row_cap=1000,
            bounds={"day": (dt.date(2023, 1, 1), dt.date(2023, 12, 31)), "total": (0, 1000)},
            domains={"status": ["paid", "sent", "back"]},
        )
        curator.budget(epsilon=100, delta="1e-3")
        curator.grant("ana", epsilon=100, delta="1e-3")
        yield curator


MONTHS = ", ".join(f"(TIMESTAMP '2023-{i:02}-01')" for i in range(1, 13))
NONE = "SELECT count(*) FROM customers c WHERE (SELECT count(*) FROM orders o WHERE o.cid = c.cid) = 0"
FORMS = [
    (NONE, "SELECT count(*) FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.cid = c.cid)"),
    (
        "SELECT status, count(*) FROM (SELECT DISTINCT ON (cid) cid, status FROM orders ORDER BY cid, day DESC) "
        "GROUP BY 1",
        "SELECT status, count(*) FROM (SELECT cid, status FROM orders "
        "QUALIFY row_number() OVER (PARTITION BY cid ORDER BY day DESC) = 1) GROUP BY 1",
    ),
    (
        "SELECT count(*) FROM (SELECT cid FROM customers WHERE news INTERSECT SELECT cid FROM orders)",
        "SELECT count(*) FROM (SELECT DISTINCT cid FROM (SELECT cid FROM customers WHERE news) AS s "
        "WHERE cid IN (SELECT cid FROM orders))",
    ),
    (
        "SELECT count(*) FROM (SELECT cid FROM customers EXCEPT SELECT cid FROM orders WHERE total > 300)",
        "SELECT count(*) FROM (SELECT DISTINCT cid FROM (SELECT cid FROM customers) AS s "
        "WHERE cid NOT IN (SELECT cid FROM orders WHERE total > 300))",
    ),
    (
        "SELECT country, sum((SELECT count(*) FROM orders o WHERE o.cid = c.cid AND o.total > 100)) FROM customers c "
        "GROUP BY 1",
        "SELECT country, sum(coalesce(j.v, 0)) FROM customers c LEFT JOIN (SELECT o.cid AS k, count(*) AS v "
        "FROM orders o WHERE o.total > 100 GROUP BY o.cid) AS j ON j.k = c.cid GROUP BY 1",
    ),
    (
        "SELECT count(*) FROM customers c WHERE (SELECT max(o.total) FROM orders o WHERE c.cid = o.cid) > 500",
        "SELECT count(*) FROM customers c LEFT JOIN (SELECT o.cid AS k, max(o.total) AS v FROM orders o "
        "GROUP BY o.cid) AS j ON j.k = c.cid WHERE j.v > 500",
    ),
    (
        "SELECT m.m, count(o.day) FROM range(DATE '2023-01-01', DATE '2024-01-01', INTERVAL 1 MONTH) AS m(m) "
        "LEFT JOIN orders o ON date_trunc('month', o.day) = m.m GROUP BY 1",
        f"SELECT m.m, count(o.day) FROM (VALUES {MONTHS}) "
        "AS m(m) LEFT JOIN orders o ON date_trunc('month', o.day) = m.m GROUP BY 1",
    ),
    (
        "SELECT t.x, count(*) FROM orders o JOIN unnest([100, 400]) AS t(x) ON o.total > t.x GROUP BY 1",
        "SELECT t.x, count(*) FROM orders o JOIN (VALUES (100), (400)) AS t(x) ON o.total > t.x GROUP BY 1",
    ),
    (
        "SELECT g.i, count(*) FROM orders o JOIN generate_series(1, 9, 4) AS g(i) ON month(o.day) = g.i GROUP BY 1",
        "SELECT g.i, count(*) FROM orders o JOIN (VALUES (1), (5), (9)) AS g(i) ON month(o.day) = g.i GROUP BY 1",
    ),
    (
        "SELECT quarter(day) AS q, count(*) FROM orders WHERE q < 3 GROUP BY q",
        "SELECT quarter(day) AS q, count(*) FROM orders WHERE quarter(day) < 3 GROUP BY q",
    ),
    (
        "SELECT count(*) FROM orders WHERE (cid, day) IN (SELECT (cid, max(day)) FROM orders GROUP BY cid)",
        "SELECT count(*) FROM orders WHERE (cid, day) IN (SELECT cid, max(day) FROM orders GROUP BY cid)",
    ),
    (
        "SELECT count(*) FROM orders WHERE (cid, total) NOT IN (SELECT (cid, max(total)) FROM orders GROUP BY cid)",
        "",
    ),
    (  # ORDER BY and DISTINCT ON take a name of SELECT before a column, and places; within an expression a column
        "SELECT sum(total) FROM (SELECT DISTINCT ON (cid) cid, -total AS total FROM orders ORDER BY cid, total)",
        "",
    ),
    (
        "SELECT sum(t) FROM (SELECT DISTINCT ON (1) cid, total AS t FROM orders ORDER BY 1, 2 DESC)",
        "SELECT sum(t) FROM (SELECT DISTINCT ON (cid) cid, total AS t FROM orders ORDER BY cid, total DESC)",
    ),
    (
        "SELECT sum(total) FROM (SELECT DISTINCT ON (c) cid AS c, -total AS total FROM orders ORDER BY c, total + 1)",
        "",
    ),
    (
        "PIVOT (SELECT quarter(day) AS q, status FROM orders) ON status USING count(*) GROUP BY q",
        "",
    ),
    (
        "SELECT * FROM (SELECT quarter(day) AS q, status, total FROM orders) "
        "PIVOT (sum(total) FOR status IN ('paid', 'sent')) ORDER BY q",
        "",
    ),
]


def _told(rows: list[tuple[object, ...]]) -> list[str]:
    """Groups with something in them: those of declared domains are shown empty too."""
    return sorted(repr(row) for row in rows if any(row[1:]) or len(row) == 1)


@pytest.mark.parametrize(("short", "plain"), FORMS)
def test_short_forms_are_plain_ones(short: str, plain: str, owner: duckdp.Curator) -> None:
    """Before the noise both are DuckDB's own answer; its PIVOT is of what it finds."""
    found = exact(owner, short)
    assert _told(found) == _told(own_answer(owner, short))
    assert not plain or found == exact(owner, plain)


def test_a_count_of_nothing_is_not_null(owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalar_joins, "_COUNTS", ())
    assert exact(owner, f"{NONE} AND born > 0") != own_answer(owner, NONE)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT status, count(*) FROM (SELECT DISTINCT ON (status) status, total FROM orders ORDER BY day) GROUP BY 1",
        "SELECT count(*) FROM (SELECT country FROM customers INTERSECT SELECT status FROM orders)",
        "SELECT count(*) FROM (SELECT born FROM customers EXCEPT SELECT total FROM orders)",
        "SELECT avg((SELECT count(*) FROM orders o WHERE o.total = c.born)) FROM customers c",
        "SELECT avg((SELECT count(*) FROM customers d WHERE d.country = c.country)) FROM customers c",
        "SELECT avg((SELECT sum(o.total) FROM orders o WHERE o.cid = c.cid OR o.total = c.born)) FROM customers c",
        "SELECT c.cid, (SELECT sum(total) FROM orders o WHERE o.cid = c.cid) FROM customers c",
        "SELECT m.i FROM range(1, 3) AS m(i) LEFT JOIN orders o ON o.total = m.i WHERE o.total IS NULL",
        "SELECT g.i, count(*) FROM range(1, 3) AS g(i) LEFT JOIN orders o ON o.total = g.i GROUP BY 1",
        "PIVOT orders ON status USING sum(total)",
        "PIVOT orders ON status USING sum(total) GROUP BY cid",
        "PIVOT orders ON status USING list(total) GROUP BY day",
        "SELECT * FROM (SELECT cid, status, total FROM orders) PIVOT (sum(total) FOR status IN ('paid'))",
        "SELECT count(*) FROM (SELECT DISTINCT ON (cid) * FROM orders ORDER BY cid, 2)",
        "SELECT count(*) FROM (SELECT DISTINCT ON (cid) total AS cid FROM orders ORDER BY cid, day)",
        "SELECT total AS born, count(*) FROM orders WHERE cid = 3 GROUP BY 1",
    ],
)
def test_what_pairs_people_is_refused_written_out_too(text: str, owner: duckdp.Curator) -> None:
    with pytest.raises(QueryError) as caught:
        owner.session("ana").explain(text, epsilon=1, delta="1e-6")
    assert not caught.value.code.startswith("X")


def test_what_is_answered_as_it_stands_is_not_written_out(
    owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_any_form, "plain_forms", lambda *_: pytest.fail("it had a rule"))
    owner.session("ana").desk.read_whole("SELECT country, count(*) AS n FROM customers WHERE born > 1960 GROUP BY 1")


def test_a_column_comes_before_a_name_of_select(owner: duckdp.Curator) -> None:
    tables = owner.session("ana").desk.known()
    for name in ("born", "cid", "total"):
        text = f"SELECT born + 1 AS {name}, count(*) FROM customers WHERE {name} > 3 AND EXISTS (SELECT 1) GROUP BY 1"
        assert plain_forms(parse_statement(text), tables) is None


def test_names_that_stand_for_much_are_not_written_out_for_ever(owner: duckdp.Curator) -> None:
    tables = owner.session("ana").desk.known()
    long, often = ", ".join(["born"] * 300), ", ".join(["x"] * 300)
    text = f"SELECT greatest({long}) AS x, count(*) FROM customers WHERE least({often}) > 1 GROUP BY 1"
    assert plain_forms(parse_statement(text), tables) is None


def test_trees_are_left_as_they_are(owner: duckdp.Curator) -> None:
    """The parsed ones are shared."""
    tables = owner.session("ana").desk.known()
    for short, _ in FORMS:
        tree = parse_statement(short)
        before = repr(tree)
        assert plain_forms(tree, tables) is not None
        assert repr(tree) == before


@pytest.mark.parametrize("digit", ["²", "①", "٣", "1²", "१"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM generate_series(DATE '2023-01-01', DATE '2023-03-01', INTERVAL '{}' DAY) AS s(d) "
        "JOIN orders o ON o.day = s.d",
        "SELECT count(*) FROM range({}) AS s(i) JOIN orders o ON o.total = s.i",
        "SELECT avg(r) FROM (SELECT cid, sum(total) OVER (PARTITION BY cid ORDER BY day RANGE BETWEEN INTERVAL '{}' "
        "DAY PRECEDING AND CURRENT ROW) AS r FROM orders)",
        "SELECT status, count(*) FROM orders GROUP BY {}",
        "SELECT status, count(*) FROM orders GROUP BY status ORDER BY 2 LIMIT {}",
    ],
)
def test_digits_of_other_scripts_are_no_numbers(text: str, digit: str, owner: duckdp.Curator) -> None:
    """Python calls them digits, and fails to read some: a statement with one is refused, or read as DuckDB does."""
    with pytest.raises(QueryError):
        owner.session("ana").explain(text.format(digit), epsilon=1)


def test_a_value_without_an_alias_is_called_by_its_text(owner: duckdp.Curator) -> None:
    text = "SELECT country, avg((SELECT count(*) FROM orders o WHERE o.cid = c.cid)) FROM customers c GROUP BY 1"
    found = owner.session("ana").desk.read_whole(text)
    assert isinstance(found, Query)
    assert [o.name for o in found.outputs] == ["country", "avg((SELECT count(*) FROM orders AS o WHERE o.cid = c.cid))"]


@pytest.mark.parametrize(
    ("text", "way", "instead"),
    [
        (
            "SELECT avg(x) FROM (SELECT cid, arg_max(total, day) AS x FROM orders GROUP BY cid)",
            "DISTINCT ON (unit)",
            "SELECT avg(x) FROM (SELECT DISTINCT ON (cid) cid, total AS x FROM orders ORDER BY cid, day DESC)",
        ),
        ("SELECT sum(COLUMNS('t.*')) FROM orders", "sum(a), sum(b)", "SELECT sum(total) FROM orders"),
        (
            "SELECT make_date(year(day), month(day), 1) AS m, count(*) FROM orders GROUP BY 1",
            "date_trunc('month', x)",
            "SELECT date_trunc('month', day) AS m, count(*) FROM orders GROUP BY 1",
        ),
    ],
)
def test_what_is_refused_says_what_works(text: str, way: str, instead: str, owner: duckdp.Curator) -> None:
    with pytest.raises(QueryError) as caught:
        owner.session("ana").explain(text, epsilon=1)
    assert way in str(caught.value)
    owner.session("ana").explain(instead, epsilon=1, delta="1e-6")
