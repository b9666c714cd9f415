"""Analyst text never becomes SQL: not on the owner's registered connection, not on the private instance."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import duckdp
from duckdp.errors import DuckDPError
from tests.adversary.conftest import World, leaks

PAYLOADS = (
    "x'; DROP TABLE sentinel; --",
    'x"; DROP TABLE sentinel; --',
    "x'); DROP TABLE sentinel; --",
    "1; SET VARIABLE hit = 1",
    "$$; DROP TABLE sentinel; $$",
    "/* */ DROP TABLE sentinel",
    "-- \n; DROP TABLE sentinel",
    "\n;\nDROP TABLE sentinel;",
    "age > 40 OR (SELECT count(*) FROM sentinel) > 0",
    "age > 40 UNION SELECT 1 FROM sentinel",
    "${DROP TABLE sentinel}",
    "query('DROP TABLE sentinel')",
    "(SELECT __dp_bind('x', [], []))",
    "{{ sentinel }}",
    "x\\'; DROP TABLE sentinel; --",
    "x'' ; DROP TABLE sentinel; --",
    '"" OR true',
    "age > (DELETE FROM sentinel RETURNING 1)",
    "\u2019; DROP TABLE sentinel",
    "\ufeff; DROP TABLE sentinel",
    "\u202e; DROP TABLE sentinel",
    "E'\\x27; DROP TABLE sentinel'",
    "U&'\\0027; DROP TABLE x'",
    "%s; DROP TABLE sentinel",
    "getvariable('hit')",
    "age = age) OR (SELECT true FROM sentinel",
    "COPY sentinel TO 'made.csv'",
    "age > 40; CREATE TABLE made AS FROM sentinel",
    "[x for x in sentinel]",
    "\\0",
    "'" * 201,
    '"' * 201,
    "(" * 120,
)
CALLS = (
    "FROM dp_noisy_count({0}, epsilon := 0.001)",
    "FROM dp_noisy_count('visits', epsilon := {0})",
    "FROM dp_noisy_count('visits', epsilon := 0.001, predicate := {0})",
    "FROM dp_noisy_count('visits', epsilon := 0.001, unit := {0})",
    "FROM dp_noisy_count('visits', error := {0})",
    "FROM dp_median_smooth('visits', {0}, epsilon := 0.001)",
    "FROM dp_median_smooth('visits', 'age', epsilon := 0.001, predicate := {0}, quantile := {0})",
    "FROM dp_bounds({0}, {0}, epsilon := 0.001)",
    "FROM dp_bounds('visits', 'age', epsilon := 0.001, predicate := {0})",
    "FROM dp_groups_per_unit('visits', {0}, epsilon := 0.001)",
    "FROM dp_smooth_summary('visits', [{0}], epsilon := 0.001, name := {0})",
    "FROM dp_smooth_answer({0}, 'age')",
    "FROM dp_smooth_answer('mine', {0})",
    "FROM dp_smooth_answer('mine', 'age', statistic := {0})",
    "FROM dp_synthesize({0}, epsilon := 0.001)",
    "FROM dp_synthesize('mine', rows := {0})",
    "FROM dp_query({0}, epsilon := 0.001)",
    "FROM dp_query('SELECT count(*) FROM visits', epsilon := 0.001, mechanism := {0})",
    "FROM dp_explain({0}, epsilon := 0.001)",
)


@pytest.fixture(scope="module")
def theirs(shared: World) -> Iterator[duckdb.DuckDBPyConnection]:
    """The owner's connection: rows of their own, and the functions."""
    with duckdb.connect() as con:
        con.execute("CREATE TABLE sentinel AS SELECT 1 AS one; SET VARIABLE hit = 0")
        duckdp.register(con, shared.curator, analyst="ana")
        shared.curator.session("ana").smooth_summary("visits", ["age"], name="mine", epsilon=1, degree=2)
        yield con


def state(con: duckdb.DuckDBPyConnection, world: World) -> tuple[object, ...]:
    tables = con.execute("SELECT table_name, estimated_size FROM duckdb_tables() ORDER BY ALL").fetchall()
    hit = con.execute("SELECT getvariable('hit')").fetchall()
    functions = con.execute("SELECT count(*) FROM duckdb_functions()").fetchall()
    return tables, hit, functions, sorted(p.name for p in world.path.parent.iterdir() if "ledger" not in p.name)


def test_no_argument_becomes_sql(
    theirs: duckdb.DuckDBPyConnection, shared: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shared.path.parent)
    before = state(theirs, shared)
    for call in CALLS:
        for payload in PAYLOADS:
            try:
                theirs.execute(call.format("$x"), {"x": payload}).fetchall()
            except duckdb.Error as error:
                text = str(error)
                assert "Traceback" not in text
                assert ".py" not in text.replace(payload, "")
    assert state(theirs, shared) == before


NAMES = (
    'a"b',
    "a'b",
    "a;b",
    'a""; DROP TABLE sentinel; --',
    "$$",
    "a\nb",
    "a -- b",
    "a /* b",
    "é\u202eü",
    "\ufeffa",
    " ",
    "value",
    "unnest",
    "asked",
    "problem",
    "asked.problem",
    "a" * 120,
    "SELECT",
    "*",
    "%s {0} $1 ?",
    "\\",
    "\t",
)


@pytest.mark.parametrize("name", NAMES)
def test_any_alias_is_an_identifier(name: str, theirs: duckdb.DuckDBPyConnection, shared: World) -> None:
    before = state(theirs, shared)
    quoted = name.replace('"', '""')
    statement = f'SELECT count(*) AS "{quoted}" FROM visits'
    done = theirs.execute("FROM dp_query($1, epsilon := 0.001)", [statement])
    names = [d[0] for d in done.description]
    assert names[0] == name
    errors = [f"{name}_{s}" for s in ("standard_error", "low", "high")]
    assert names[1:] in (errors, [*errors, "note"]) or name == "value"
    assert len(done.fetchall()) == 1
    assert shared.curator.session("ana").sql(statement, epsilon="0.001").names == [name]
    assert state(theirs, shared) == before


def test_a_refusal_is_one_literal_whatever_it_quotes(theirs: duckdb.DuckDBPyConnection) -> None:
    """What is refused when a call is bound becomes SQL: the refusal's own words, quotes and all, and nothing else."""
    for name in ("it's", "a' || getvariable('hit') || '", "a'))); --", "'", "''", "a\\' ", 'q"'):
        with pytest.raises(duckdb.Error) as caught:
            theirs.execute("FROM dp_noisy_count(?, epsilon := 0.001)", [name])
        assert "C101: " in str(caught.value) and name.strip() in str(caught.value)


@pytest.mark.parametrize("name", ["a\0b", "\0", "a\ud800"])
def test_what_is_no_text_is_refused(name: str, shared: World) -> None:
    charges = shared.charges()
    with pytest.raises(DuckDPError) as caught:
        shared.curator.session("ana").sql(f'SELECT count(*) AS "{name}" FROM visits', epsilon="0.001")
    assert caught.value.code in ("Q101", "Q104", "P107")
    assert shared.charges() == charges


STATEMENTS = (
    "INSERT INTO visits SELECT 1",
    "DELETE FROM visits",
    "UPDATE visits SET age = 1",
    "DROP TABLE visits",
    "TRUNCATE visits",
    "CREATE TABLE x AS SELECT count(*) FROM visits",
    "ALTER TABLE visits ADD COLUMN x INT",
    "COPY visits TO 'x.csv'",
    "WITH z AS (INSERT INTO visits SELECT 1 RETURNING *) SELECT count(*) FROM visits",
    "WITH z AS (DELETE FROM visits RETURNING *) SELECT count(*) FROM visits",
    "EXPLAIN ANALYZE SELECT count(*) FROM visits",
    "SELECT count(*) FROM visits; SELECT 1",
    "SELECT count(*) FROM visits; DROP TABLE visits",
    "MERGE INTO visits USING y ON true WHEN MATCHED THEN DELETE",
    "SELECT count(*) FROM (DELETE FROM visits RETURNING *)",
    "ATTACH 'visits' AS visits",
    "SELECT count(*) FROM visits, sentinel",
    "SELECT count(*) FROM visits WHERE EXISTS (FROM visits)",
    "CALL visits()",
    "SELECT count(*) FROM visits AS v(a, b)",
    "SELECT count(*) FROM src.main.visits",
    "SET VARIABLE x = (SELECT count(*) FROM visits)",
    "TABLE visits",
    "SELECT count(*) OVER () FROM visits",
    "SELECT count(*) FROM visits QUALIFY true",
    "VALUES ((SELECT count(*) FROM visits))",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_only_one_plain_select_reaches_the_gate(statement: str, shared: World) -> None:
    charges = shared.charges()
    session = shared.curator.session("ana")
    with pytest.raises(DuckDPError) as caught:
        session.sql(statement, epsilon="0.001")
    assert caught.value.code[0] == "Q"
    assert shared.charges() == charges


HIDDEN = (
    "PREPARE p AS SELECT count(*) FROM visits",
    "FROM query('SELECT count(*) FROM visits')",
    "FROM query_table('visits')",
    "SELECT * FROM query('FROM ' || 'vis' || 'its')",
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM visits'))",
    "CREATE MACRO m() AS TABLE FROM query_table('visits')",
    "DESCRIBE visits",
)


@pytest.mark.parametrize("statement", HIDDEN)
def test_a_name_the_parser_does_not_see_meets_the_stub(statement: str, shared: World) -> None:
    """It runs on the analyst's own instance, where the rows are not."""
    charges = shared.charges()
    session = shared.curator.session("ana")
    try:
        assert not leaks(str(session.sql(statement, epsilon=1).rows()))
    except DuckDPError as error:
        assert error.code in ("Q301", "Q105")
    assert shared.charges() == charges
