"""What DuckDB does with the dp functions: one bind, one run, one charge per textual call.

The technique (a UDF inside ``query(...)``) is observed behaviour of DuckDB, not documented: if a version binds or runs
a call more or less often than this table says, a test here fails before anybody is overcharged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.front.binder import Binder

FRESH = "dp_noisy_count('visits', epsilon := 0.01, fresh := true)"

NUMBERS = count(30)

# usage -> (statements before, the statement, how often it charges)
USAGES: dict[str, tuple[list[str], str, int]] = {
    "table function": ([], f"FROM {FRESH}", 1),
    "scalar": ([], f"SELECT {FRESH}", 1),
    "one column of it": ([], f"SELECT low FROM {FRESH}", 1),
    "beside many rows": ([], f"SELECT {FRESH}, i FROM range(5000) AS r(i)", 1),
    "view created": ([], f"CREATE VIEW v AS FROM {FRESH}", 0),
    "view read": ([f"CREATE VIEW v AS FROM {FRESH}"], "FROM v", 1),
    "view read twice in one statement": ([f"CREATE VIEW v AS FROM {FRESH}"], "FROM v AS a, v AS b", 2),
    "CREATE TABLE AS": ([], f"CREATE TABLE t AS FROM {FRESH}", 1),
    "INSERT": (["CREATE TABLE t (value BIGINT)"], f"INSERT INTO t SELECT value FROM {FRESH}", 1),
    "INSERT VALUES": (["CREATE TABLE t (value BIGINT)"], f"INSERT INTO t VALUES ({FRESH})", 1),
    "UPDATE of many rows": (["CREATE TABLE t AS FROM range(10) AS r(i)"], f"UPDATE t SET i = {FRESH}", 1),
    "CTE read twice": ([], f"WITH q AS (FROM {FRESH}) SELECT a.value - b.value FROM q AS a, q AS b", 1),
    "CTE not materialized, read twice": ([], f"WITH q AS NOT MATERIALIZED (FROM {FRESH}) FROM q UNION ALL FROM q", 1),
    "UNION ALL of two": ([], f"FROM {FRESH} UNION ALL FROM {FRESH}", 2),
    "UNION of two": ([], f"SELECT {FRESH} UNION SELECT {FRESH}", 2),
    "two uses in one SELECT": ([], f"SELECT {FRESH} - {FRESH}", 2),
    "EXPLAIN": ([], f"EXPLAIN FROM {FRESH}", 0),
    "EXPLAIN ANALYZE": ([], f"EXPLAIN ANALYZE FROM {FRESH}", 1),
    "DESCRIBE": ([], f"DESCRIBE FROM {FRESH}", 0),
    "SUMMARIZE": ([], f"SUMMARIZE FROM {FRESH}", 1),
    "LIMIT 0": ([], f"FROM {FRESH} LIMIT 0", 0),
    "LIMIT 1": ([], f"FROM {FRESH} LIMIT 1", 1),
    "WHERE false": ([], f"FROM {FRESH} WHERE false", 0),
    "WHERE on the answer": ([], f"FROM {FRESH} WHERE value > 1e9", 1),
    "count(*) over it": ([], f"SELECT count(*) FROM {FRESH}", 1),
    "EXISTS": ([], f"SELECT EXISTS (FROM {FRESH})", 1),
    "CASE branch never taken": ([], f"SELECT CASE WHEN i > 9 THEN {FRESH} END FROM range(3) AS r(i)", 1),
    "CASE WHEN false": ([], f"SELECT CASE WHEN false THEN {FRESH} END", 1),
    "recursive CTE": (
        [],
        f"WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r, {FRESH} WHERE n < 4) FROM r",
        1,
    ),
    "ORDER BY": ([], f"SELECT i FROM range(3) AS r(i) ORDER BY (SELECT {FRESH})", 1),
    "PIVOT": ([], f"PIVOT (FROM {FRESH}) ON value USING sum(low)", 2),
    "prepared": ([], f"PREPARE p AS FROM {FRESH}", 0),
    "prepared, executed": ([f"PREPARE p AS FROM {FRESH}"], "EXECUTE p", 1),
    "prepared, executed again": ([f"PREPARE p AS FROM {FRESH}", "EXECUTE p"], "EXECUTE p", 1),
}
PARAMETERS = "PREPARE p AS FROM dp_noisy_count('visits', epsilon := $1, fresh := true)"
USAGES["prepared with a parameter"] = ([PARAMETERS], "EXECUTE p(0.01)", 1)
USAGES["prepared with a parameter, again"] = ([PARAMETERS, "EXECUTE p(0.01)"], "EXECUTE p(0.01)", 1)

#: What SQL clients ask on connecting, completing or drawing a tree of tables.
REFLECTION = (
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM information_schema.columns",
    "SELECT * FROM duckdb_tables()",
    "SELECT * FROM duckdb_views()",
    "SELECT * FROM duckdb_columns()",
    "SELECT * FROM duckdb_functions()",
    "PRAGMA table_info('visits')",
    "PRAGMA show_tables",
    "SHOW ALL TABLES",
    "DESCRIBE visits",
    "DESCRIBE dp_budget",
    "PRAGMA table_info('dp_ledger')",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM pg_catalog.pg_attribute",
    "SELECT * FROM pg_catalog.pg_views",
    "SELECT nspname FROM pg_catalog.pg_namespace",
    "SELECT typname FROM pg_catalog.pg_type",
    "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_class AS c "
    "JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid WHERE c.relkind IN ('r', 'v')",
)


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    folder = tmp_path_factory.mktemp("canary")
    rows = pa.table({"patient_id": [i % 20 for i in range(50)], "age": [20 + i for i in range(50)]})
    with duckdp.open({"visits": rows}, ledger=folder / "ledger") as owner:
        owner.protect("visits", unit_key="patient_id", max_rows=3, row_cap=1000, bounds={"age": (0, 110)})
        owner.budget(epsilon=1000)
        owner.grant("ana", epsilon=50)
        yield owner


@pytest.fixture(scope="module")
def instances(curator: duckdp.Curator) -> Iterator[dict[str, duckdb.DuckDBPyConnection]]:
    with duckdb.connect(":memory:") as con:
        yield {"front": curator.connect("ana"), "registered": con}


@pytest.fixture(params=["front", "registered"])
def analyst(
    request: pytest.FixtureRequest, curator: duckdp.Curator, instances: dict[str, duckdb.DuckDBPyConnection]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A new cursor of either instance, with nothing of the tests before in it."""
    with instances[request.param].cursor() as con:
        if request.param == "registered":
            duckdp.register(con, curator, analyst="ana")
        yield con
        con.execute("DROP VIEW IF EXISTS v; DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS t2")


@pytest.fixture
def spent(curator: duckdp.Curator) -> Callable[[], int]:
    """Charges since the test began."""
    before = len(curator.ledger.charges())
    return lambda: len(curator.ledger.charges()) - before


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often DuckDB called our functions."""
    calls = {"bind": 0, "ask": 0}
    for name, means in {"bind": "bind", "ask": "ask", "rows": "ask"}.items():  # few cells are asked for with their rows
        original = getattr(Binder, name)

        def wrapped(self: Binder, *args: object, _means: str = means, _original: Callable = original) -> object:
            calls[_means] += 1
            return _original(self, *args)

        monkeypatch.setattr(Binder, name, wrapped)
    return calls


@pytest.mark.parametrize("usage", USAGES)
def test_how_often_a_usage_charges(usage: str, analyst: duckdb.DuckDBPyConnection, curator: duckdp.Curator) -> None:
    before, statement, expected = USAGES[usage]
    for text in before:
        analyst.execute(text).fetchall()
    spent = len(curator.ledger.charges())
    analyst.execute(statement).fetchall()
    assert len(curator.ledger.charges()) - spent == expected


@pytest.mark.parametrize("call", [f"FROM {FRESH}", f"SELECT {FRESH}", f"CREATE TABLE t AS FROM {FRESH}"])
def test_one_bind_one_run_one_charge(
    call: str, analyst: duckdb.DuckDBPyConnection, counted: dict[str, int], spent: Callable[[], int]
) -> None:
    analyst.execute(call).fetchall()
    assert (counted, spent()) == ({"bind": 1, "ask": 1}, 1)


def test_equal_questions_are_one_charge(analyst: duckdb.DuckDBPyConnection, spent: Callable[[], int]) -> None:
    question = f"dp_noisy_count('visits', epsilon := 0.01, predicate := 'age > {next(NUMBERS)}')"
    for before, statement, _ in USAGES.values():
        analyst.execute("DROP VIEW IF EXISTS v; DROP TABLE IF EXISTS t")
        for text in (*before, statement):
            if "$1" not in text and "EXECUTE" not in text and "PREPARE" not in text:
                analyst.execute(text.replace(FRESH, question)).fetchall()
    assert spent() == 1


def test_copy_to_a_file(curator: duckdp.Curator, tmp_path: Path, spent: Callable[[], int]) -> None:
    with duckdb.connect(":memory:") as con:
        duckdp.register(con, curator, analyst="ana")
        con.execute(f"COPY (FROM {FRESH}) TO '{tmp_path / 'out.csv'}'")
    assert spent() == 1
    assert (tmp_path / "out.csv").read_text().startswith("value,standard_error,low,high,note\n")


def test_a_relation_charges_at_each_read(analyst: duckdb.DuckDBPyConnection, spent: Callable[[], int]) -> None:
    relation = analyst.sql(f"FROM {FRESH}")
    assert spent() == 0
    assert relation.columns == ["value", "standard_error", "low", "high", "note"]
    for read in (relation.fetchall, relation.fetchall, relation.arrow, lambda: str(relation)):
        charged = spent()
        read()
        assert spent() == charged + 1  # DuckDB binds a relation anew at each read


def test_cursors_of_a_front_speak_for_the_same_analyst(curator: duckdp.Curator, spent: Callable[[], int]) -> None:
    first = curator.connect("ana")
    for cursor in (first, first.cursor(), curator.connect("ana")):
        cursor.execute(f"SELECT {FRESH}").fetchall()
    assert spent() == 3


def test_executemany_charges_once_a_parameter(analyst: duckdb.DuckDBPyConnection, spent: Callable[[], int]) -> None:
    analyst.executemany("SELECT dp_noisy_count('visits', epsilon := ?, fresh := true)", [["0.01"], ["0.02"], ["0.01"]])
    assert spent() == 3


@pytest.mark.parametrize("statement", REFLECTION)
def test_looking_around_is_free(
    statement: str, analyst: duckdb.DuckDBPyConnection, counted: dict[str, int], spent: Callable[[], int]
) -> None:
    analyst.execute(statement).fetchall()
    assert (counted["ask"], spent()) == (0, 0)


def test_a_row_dependent_argument_is_refused_by_the_binder(
    analyst: duckdb.DuckDBPyConnection, spent: Callable[[], int]
) -> None:
    with pytest.raises(duckdb.BinderException, match=r"lateral|takes constants, no columns"):
        analyst.execute(
            "SELECT dp_noisy_count('visits', epsilon := 0.01, predicate := 'age > ' || i) FROM range(3) r(i)"
        )
    assert spent() == 0


def test_a_rollback_gives_no_charge_back(analyst: duckdb.DuckDBPyConnection, spent: Callable[[], int]) -> None:
    analyst.execute("BEGIN")
    analyst.execute(f"CREATE TABLE t AS FROM {FRESH}")
    analyst.execute("ROLLBACK")
    assert spent() == 1


REFUSALS = {
    "SELECT dp_noisy_count('nope', epsilon := 1)": 'C101: table "nope" is not protected here.',
    "SELECT dp_noisy_count('visits', epsilon := 99)": "B101: the query needs epsilon=99",
    "FROM dp_noisy_count('visits')": "P101: epsilon=None",
    "CREATE VIEW v AS FROM dp_query($$SELECT age FROM visits$$, epsilon := 1)": "Q301: ",
    "FROM dp_smooth_answer('it''s', 'age')": "C110: ",
}


@pytest.mark.parametrize("call", REFUSALS)
def test_a_refusal_charges_nothing_and_shows_its_code_alone(
    call: str, analyst: duckdb.DuckDBPyConnection, spent: Callable[[], int]
) -> None:
    with pytest.raises(duckdb.InvalidInputException) as caught:
        analyst.execute(call)
    assert str(caught.value).startswith(f"Invalid Input Error: {REFUSALS[call]}")
    assert "Python" not in str(caught.value)
    assert ".py" not in str(caught.value)
    assert spent() == 0
