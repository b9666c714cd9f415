"""psycopg 2, pandas and polars at a server that runs: private answers, parameters, pages, tables of their own."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pandas as pd
import polars as pl
import psycopg
import pytest
import sqlalchemy as sa

from tests.serve.conftest import PASSWORD, Served

ASKED = "SELECT sex, count(*) AS n, avg(cost) AS c FROM visits GROUP BY sex ORDER BY sex"
DRIVERS = ("psycopg", "psycopg2")


def address(served: Served, driver: str) -> sa.URL:
    """As SQLAlchemy takes it, with what a question costs."""
    options = {"options": "-c dp.epsilon=0.125"}
    return sa.URL.create(f"postgresql+{driver}", "ana", PASSWORD, "127.0.0.1", served.port, "clinic", query=options)


@pytest.fixture
def engine(served: Served, request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    """An engine of one of the drivers; psycopg 2 is among what tests need (``.[test]``)."""
    pytest.importorskip(request.param)
    found = sa.create_engine(address(served, request.param))
    yield found
    found.dispose()


@pytest.mark.parametrize("engine", DRIVERS, indirect=True)
def test_pandas_reads_answers_and_keeps_frames(engine: sa.Engine) -> None:
    frame = pd.read_sql(ASKED, engine)
    assert list(frame["sex"]) == ["F", "M"] and frame["n"].dtype == "int64" and frame["c"].dtype == "float64"
    older = pd.read_sql(sa.text("SELECT count(*) AS n FROM visits WHERE age > :age"), engine, params={"age": 40})
    assert older.shape == (1, 1)
    made = pd.DataFrame({"a": [1, 2], "t": pd.to_datetime(["2024-01-01", "2024-02-29"]), "s": ["x", None]})
    made.to_sql("framed", engine, index=False, if_exists="replace")
    again = pd.read_sql_table("framed", engine)
    assert again["a"].tolist() == [1, 2] and again["t"].tolist() == made["t"].tolist()
    assert again["s"].isna().tolist() == [False, True]


@pytest.mark.parametrize("engine", DRIVERS, indirect=True)
def test_polars_reads_answers_and_keeps_frames(engine: sa.Engine) -> None:
    frame = pl.read_database(ASKED, engine)
    assert frame.schema == {"sex": pl.String, "n": pl.Int64, "c": pl.Float64}
    assert frame["sex"].to_list() == ["F", "M"]
    pl.DataFrame({"a": [1, 2]}).write_database("framed_too", engine, if_table_exists="replace")
    assert pl.read_database("SELECT * FROM framed_too ORDER BY a", engine)["a"].to_list() == [1, 2]


def test_polars_reads_from_a_connection(served: Served) -> None:
    with psycopg.connect(served.dsn(), autocommit=True) as con:
        con.execute("SET dp.epsilon = 0.125")
        assert pl.read_database(ASKED, con)["sex"].to_list() == ["F", "M"]


def test_psycopg_2_asks_copies_and_pages(served: Served) -> None:
    psycopg2: Any = pytest.importorskip("psycopg2")
    con = psycopg2.connect(served.dsn() + " options='-c dp.epsilon=0.125'")
    con.autocommit = True
    cursor = con.cursor()
    cursor.execute("SELECT count(*) FROM visits WHERE age > %s AND sex = ANY(%s)", (30, ["F"]))
    assert type(cursor.fetchone()[0]) is int and "epsilon=0.125" in con.notices[0]
    with pytest.raises(psycopg2.Error) as caught:
        cursor.execute("SELECT age FROM visits")
    assert caught.value.pgcode == "42501" and "Q301" in str(caught.value)
    written = io.StringIO()
    cursor.copy_expert("COPY (SELECT range AS i FROM range(3)) TO STDOUT CSV", written)
    assert written.getvalue() == "0\n1\n2\n"
    cursor.execute("CREATE OR REPLACE TABLE paged AS SELECT range AS i FROM range(250)")
    for copy in (
        lambda rows: cursor.copy_from(rows, "paged"),
        lambda rows: cursor.copy_expert("COPY paged FROM STDIN", rows),
    ):
        with pytest.raises(psycopg2.errors.FeatureNotSupported, match="Q201"):
            copy(io.StringIO("1\n2\n"))
    con.autocommit = False
    with con, con.cursor("named") as pages:
        pages.itersize = 100
        pages.execute("SELECT i FROM paged")
        assert sum(row[0] for row in pages) == sum(range(250))
    con.close()
