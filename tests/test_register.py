"""duckdp.register: the functions on the owner's own connections, with nothing written and nothing hidden."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import duckdp
from duckdp.errors import ParameterError

COUNT = "SELECT value FROM dp_noisy_count('visits', epsilon := 0.1)"


def test_on_a_connection_with_a_table_of_the_same_name(curator: duckdp.Curator) -> None:
    with duckdb.connect() as con:
        con.execute("CREATE TABLE visits AS SELECT 1 AS mine; CREATE VIEW dp_budget AS SELECT 'mine' AS mine")
        duckdp.register(con, curator, analyst="ana")
        assert con.execute("FROM visits").fetchall() == [(1,)]
        assert con.execute("FROM dp_budget").fetchall() == [("mine",)]
        assert con.execute("SELECT analyst FROM dp_budget()").fetchall() == [("ana",)]
        assert len(con.execute(COUNT).fetchall()) == 1


def test_stubs_and_views_where_the_names_are_free(curator: duckdp.Curator) -> None:
    with duckdb.connect() as con:
        duckdp.register(con, curator, analyst="ana")
        assert [r[:2] for r in con.execute("DESCRIBE visits").fetchall()] == [
            ("age", "INTEGER"),
            ("cost", "DOUBLE"),
            ("sex", "VARCHAR"),
            ("name", "VARCHAR"),
        ]
        with pytest.raises(
            duckdb.InvalidInputException, match=r"^Invalid Input Error: Q301: rows of visits are private"
        ):
            con.execute("FROM visits")
        assert con.execute("SELECT analyst FROM dp_budget").fetchall() == [("ana",)]


@pytest.mark.parametrize("read_only", [True, False])
def test_nothing_is_written_to_a_file(read_only: bool, curator: duckdp.Curator, tmp_path: Path) -> None:
    path = tmp_path / "theirs.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE a AS SELECT 1 AS x")
    before = path.read_bytes()
    with duckdb.connect(str(path), read_only=read_only) as con:
        duckdp.register(con, curator, analyst="ana")
        assert len(con.execute(COUNT).fetchall()) == 1
        con.execute(f"CREATE TEMP TABLE b AS {COUNT}")
    assert path.read_bytes() == before
    with duckdb.connect(str(path)) as con:
        assert con.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("a",)]
        assert not con.execute("FROM duckdb_functions() WHERE function_name LIKE '%dp\\_%' ESCAPE '\\'").fetchall()


def test_each_cursor_is_registered_for_the_same_analyst(curator: duckdp.Curator) -> None:
    curator.grant("bob", epsilon=1)
    with duckdb.connect() as con:
        duckdp.register(con, curator, analyst="ana")
        with con.cursor() as cursor:
            with pytest.raises(duckdb.CatalogException):
                cursor.execute(COUNT)  # temporary macros are this connection's
            duckdp.register(cursor, curator, analyst="ana")
            duckdp.register(cursor, curator, analyst="ana")
            assert cursor.execute(COUNT).fetchall() == con.execute(COUNT).fetchall()
            for who in (con, cursor, con.cursor()):
                with pytest.raises(ParameterError) as caught:
                    duckdp.register(who, curator, analyst="bob")
                assert caught.value.code == "P107"


def test_another_curator_is_refused(curator: duckdp.Curator, clinic_file: str) -> None:
    with duckdb.connect() as con, duckdp.open(clinic_file, ledger=curator.ledger.path) as second:
        duckdp.register(con, curator, analyst="ana")
        with pytest.raises(ParameterError, match="P107"):
            duckdp.register(con, second, analyst="ana")


def test_registered_through_a_cursor_that_closes(curator: duckdp.Curator) -> None:
    """DuckDB keeps a bare pointer to the functions: they must outlive the cursor that brought them."""
    import gc

    with duckdb.connect() as con:
        with con.cursor() as cursor:
            duckdp.register(cursor, curator, analyst="ana")
        gc.collect()
        duckdp.register(con, curator, analyst="ana")
        for _ in range(3):
            assert len(con.execute(COUNT).fetchall()) == 1


def test_many_instances_do_not_mix(curator: duckdp.Curator) -> None:
    curator.grant("bob", epsilon=5)
    with duckdb.connect() as first, duckdb.connect() as second:
        duckdp.register(first, curator, analyst="ana")
        duckdp.register(second, curator, analyst="bob")
        for con, name in ((first, "ana"), (second, "bob"), (first, "ana")):
            con.execute("SELECT dp_noisy_count('visits', epsilon := 0.1, fresh := true)").fetchall()
            assert con.execute("SELECT analyst FROM dp_budget()").fetchone() == (name,)
    assert [c.analyst for c in curator.ledger.charges()] == ["ana", "bob", "ana"]


def test_inside_the_owners_transaction(curator: duckdp.Curator) -> None:
    with duckdb.connect() as con:
        duckdp.register(con, curator, analyst="ana")
        con.begin()
        con.execute("CREATE TABLE t AS FROM dp_noisy_count('visits', epsilon := 0.1, fresh := true)")
        con.rollback()
        assert len(curator.ledger.charges()) == 1
        assert len(con.execute(COUNT).fetchall()) == 1
