"""Synthetic tables served as tables: read, paged, joined, described; free, and the same rows each time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa

from tests.serve.conftest import PASSWORD, Served

Client = psycopg.Connection[tuple[object, ...]]


@pytest.fixture(scope="module")
def bought(served: Served) -> Iterator[Client]:
    """A connection of ana's, who has bought a table."""
    with psycopg.connect(served.dsn(), autocommit=True) as client:
        client.execute(
            "SELECT count(*) FROM dp_synthesize('visits', epsilon := 5, rows := 300, columns := ['age', 'sex', 'day'], "
            "method := 'tree', name := 'people')"
        )
        until = time.monotonic() + 60
        while "people" not in shown(client) and time.monotonic() < until:
            time.sleep(0.1)
        yield client


def shown(client: Client) -> dict[str, str]:
    """Tables that a client sees, and their comments."""
    text = (
        "SELECT c.relname, obj_description(c.oid, 'pg_class') FROM pg_catalog.pg_class c WHERE c.relkind = 'r' "
        "AND pg_catalog.pg_table_is_visible(c.oid)"
    )
    return {str(name): str(about) for name, about in client.execute(text.encode()).fetchall()}


def test_it_is_a_table_among_others(bought: Client, served: Served) -> None:
    assert shown(bought)["people"].startswith("synthetic: made by dp_synthesize(visits")
    with psycopg.connect(served.dsn("bob"), autocommit=True) as bob:
        assert "people" not in shown(bob)
        with pytest.raises(psycopg.Error):
            bob.execute("FROM people")
    address = sa.URL.create("postgresql+psycopg", "ana", PASSWORD, "127.0.0.1", served.port, "clinic")
    engine = sa.create_engine(address, connect_args={"connect_timeout": 60})
    found = {c["name"]: str(c["type"]) for c in sa.inspect(engine).get_columns("people")}
    assert found == {"age": "INTEGER", "sex": "TEXT", "day": "DATE"}
    engine.dispose()


def test_its_rows_are_read_like_any_others_and_are_free(bought: Client, served: Served) -> None:
    before = bought.execute("SELECT * FROM dp_budget()").fetchall()
    rows = bought.execute("SELECT * FROM people").fetchall()
    assert len(rows) == 300
    pages = [bought.execute("SELECT * FROM people LIMIT 70 OFFSET %s", [70 * i]).fetchall() for i in range(5)]
    assert [row for page in pages for row in page] == rows
    with psycopg.connect(served.dsn()) as again, again.cursor("rows") as cursor:
        cursor.itersize = 64
        assert list(cursor.execute("SELECT age, sex, day FROM people")) == rows
    text = 'COPY (SELECT "age", "sex" FROM "main"."people" WHERE ("age" > 30)) TO STDOUT (FORMAT "binary")'
    with bought.cursor().copy(text) as copied:  # as DuckDB's shell reads a table of a server
        copied.set_types(["int4", "text"])
        assert list(copied.rows()) == [(age, sex) for age, sex, _ in rows if age > 30]  # type: ignore[operator]
    joined = "SELECT count(*) FROM people AS a JOIN (VALUES ('F', 1)) AS v(sex, k) USING (sex) WHERE a.age IS NOT NULL"
    assert bought.execute(joined).fetchone() == (sum(row[1] == "F" for row in rows),)
    assert bought.execute("SELECT * FROM dp_budget()").fetchall() == before
    assert [row[:2] for row in bought.execute("DESCRIBE people")] == [
        ("age", "INTEGER"),
        ("sex", "VARCHAR"),
        ("day", "DATE"),
    ]


def test_its_report_is_a_function_away(bought: Client) -> None:
    text = "SELECT figure, columns, error FROM dp_table_report('people')"
    found = {(figure, columns): error for figure, columns, error in bought.execute(text).fetchall()}
    assert {("total variation of the histogram", name) for name in ("age", "sex", "day")} <= set(found)
    assert all(float(str(error)) > 0 for (figure, _), error in found.items() if "total variation" in str(figure))
    assert ("mean", "age") in found
    bought.execute(
        "SELECT count(*) FROM dp_smooth_summary('visits', ['age'], epsilon := 1, degree := 2, name := 'sums')"
    )
    with pytest.raises(psycopg.Error, match="P107"):
        bought.execute("FROM dp_table_report('sums')")
    with pytest.raises(psycopg.Error, match="C110"):
        bought.execute("FROM dp_table_report('nothing')")


def test_what_the_analyst_made_under_a_name_stays(bought: Client) -> None:
    bought.execute("CREATE TABLE folk AS SELECT 1 AS mine")
    bought.execute(
        "SELECT count(*) FROM dp_synthesize('visits', epsilon := 5, rows := 20, columns := ['sex'], name := 'folk')"
    )
    bought.execute(
        "SELECT count(*) FROM dp_synthesize('visits', epsilon := 5, rows := 30, columns := ['sex'], name := 'last')"
    )
    until = time.monotonic() + 60
    while "last" not in shown(bought) and time.monotonic() < until:
        time.sleep(0.1)
    assert bought.execute("FROM folk").fetchall() == [(1,)]
    assert bought.execute("SELECT count(*) FROM last").fetchone() == (30,)
