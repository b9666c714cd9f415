"""Further attacks of every kind in this folder, on new features of DuckDB too: none shows, writes or charges."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from duckdp.errors import DuckDPError
from tests.adversary.conftest import World, leaks
from tests.adversary.front_fuzz import NOT_FOR_SHOW
from tests.adversary.test_escapes import tree

FRONT = """
COPY (SELECT 1) TO ':memory:'
COPY (SELECT 1) TO '{folder}/cwd/:memory:' (FORMAT csv)
COPY (SELECT 1) TO '{folder}/cwd/:memory:.wal.checkpoint' (FORMAT json)
COPY (SELECT 1) TO '/dev/stdout' (FORMAT csv)
COPY (SELECT 1) TO '/proc/self/fd/1' (FORMAT csv)
COPY FROM DATABASE memory TO other
FROM read_duckdb('{file}')
FROM read_duckdb('{file}', table_name := 'visits')
FROM read_csv('{file}', all_varchar := true)
FROM read_csv_auto(['{file}', '/etc/passwd'])
FROM read_json_objects('{text}')
FROM read_ndjson('{text}')
FROM read_text(['{text}'])
FROM parquet_scan('{file}')
FROM parquet_kv_metadata('{file}')
FROM parquet_schema('{file}')
FROM sqlite_scan('{ledger}', 'charge')
FROM postgres_scan('host=localhost', 'public', 'x')
ATTACH '{ledger}' AS l (TYPE sqlite)
ATTACH 'host=localhost' AS p (TYPE postgres)
ATTACH '{file}' AS f (READ_ONLY, STORAGE_VERSION 'v1.0.0')
ATTACH 'https://example.org/x.duckdb' AS w
ATTACH ':memory:' AS m2; COPY (SELECT 1) TO 'm2.csv'
CONNECT 'quack:localhost:9555'
CALL enable_logging(storage = 'file', storage_config = {{'path': '{folder}/made'}})
CALL enable_logging(storage = 'stdout')
CALL enable_profiling(format = 'json', save_location = '{folder}/made.json')
SET VARIABLE x = (SELECT content FROM read_text('{text}'))
SET python_enable_replacements = true; FROM frame
SET SESSION enable_external_access = true
PRAGMA enable_external_access
RESET GLOBAL lock_configuration
SET allowed_paths = ['{file}']
SET allowed_configs = ['enable_external_access']
SET temp_directory = '{folder}/cwd'
SET max_temp_directory_size = '1TB'
PRAGMA temp_directory = '{folder}'
SET profile_output = '{folder}/made'
SET enable_profiling = 'query_tree'
SET http_proxy = 'localhost'
SET extension_directories = ['{folder}']
UPDATE EXTENSIONS
INSTALL sqlite FROM community
LOAD '/tmp/x.duckdb_extension'
CREATE SECRET (TYPE http, BEARER_TOKEN 'x', SCOPE 'https://example.org')
CREATE SECURE VIEW sv AS FROM visits; FROM sv
CREATE TRIGGER tr AFTER INSERT ON visits FOR EACH STATEMENT SELECT 1
CREATE MACRO stolen() AS TABLE FROM query('FROM visits'); FROM stolen()
CREATE MACRO leak(x) AS (SELECT max(name) FROM visits); SELECT leak(1)
CREATE TYPE t AS ENUM (SELECT name FROM visits)
CREATE TABLE g (a INT, b VARCHAR AS ((SELECT max(name) FROM visits)))
CREATE TABLE d (a VARCHAR DEFAULT (getenv('HOME'))); INSERT INTO d DEFAULT VALUES; FROM d
CREATE OR REPLACE VIEW visits AS SELECT 1; FROM dp_query('FROM visits', epsilon := 1)
WITH z AS (COPY (SELECT 1) TO 'made.csv') FROM z
WITH z AS (UPDATE visits SET age = 1 RETURNING *) FROM z
FROM query('COPY (SELECT 1) TO ''{folder}/made.csv''')
FROM query('ATTACH ''{file}''')
FROM query(getvariable('x'))
FROM query_table('"src"."main"."visits"')
FROM json_execute_serialized_sql('{{"statements": [{{"node": {{"type": "SELECT_NODE"}}}}]}}')
PRAGMA json_execute_serialized_sql('x')
SELECT json_deserialize_sql(json_serialize_sql('FROM read_text(''{text}'')'))
FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{text}'')'))
EXECUTE IMMEDIATE 'FROM visits'
PREPARE p AS FROM read_text($1); EXECUTE p('{text}')
FROM pandas_scan(0)
FROM arrow_scan(1, 2, 3)
FROM arrow_scan_dumb(1::UBIGINT::POINTER, 2::POINTER, 3::POINTER)
FROM python_map_function(1)
SELECT lead(1, -9223372036854775808) OVER ()
FROM seq_scan('visits')
FROM duckdb_table_sample('visits')
FROM pragma_collations()
SELECT current_query(), current_database(), current_schemas(true), current_setting('allowed_paths')
SELECT getvariable('dp_user'), current_connection_id(), txid_current()
SELECT __dp_bind(NULL, NULL, NULL)
SELECT __dp_bind('dp_speaker', NULL, NULL)
SELECT __dp_ask('x.' || repeat('a', 64))
SELECT __dp_rows('x.' || repeat('a', 64)), __dp_rows(repeat('x', 100000)), __dp_rows(NULL)
SELECT __dp_f64(repeat('x', 100000), -1), __dp_text('', 2147483647)
SELECT unnest(__dp_i64(NULL, NULL)), __dp_bool('a.b', 0)
FROM __dp_ask('x')
SELECT error('alice'), error(repeat('x', 100000))
SELECT write_log('x', scope := 'database', level := 'error', log_type := 'y')
FROM repeat_row('visits', num_rows := 2)
SUMMARIZE src.main.visits
DESCRIBE FROM visits; SHOW TABLES FROM src
EXPLAIN ANALYZE FROM dp_budget() WHERE (SELECT max(name) FROM visits) IS NULL
PIVOT (FROM visits) ON name USING count(*)
FROM visits ASOF JOIN (SELECT 1 AS age) USING (age)
FROM visits AS OF (VERSION => 1)
MERGE INTO visits USING (SELECT 1) ON true WHEN MATCHED THEN DELETE
TRUNCATE visits
EXPORT DATABASE ':memory:'
VACUUM visits
FORCE CHECKPOINT src
""".strip().splitlines()

GATE = (
    "SELECT any_value(name) FROM visits",
    "SELECT first(name ORDER BY cost DESC) FROM visits",
    "SELECT arg_max(name, cost) FROM visits",
    "SELECT mode(name) FROM visits",
    "SELECT list(name) FROM visits",
    "SELECT string_agg(name, ',') FROM visits",
    "SELECT histogram(name) FROM visits",
    "SELECT approx_top_k(name, 3) FROM visits",
    "SELECT bitstring_agg(age) FROM visits",
    "SELECT sum(cost) OVER () FROM visits",
    "SELECT sum(error(name)) FROM visits",
    "SELECT sum(CAST(name AS INTEGER)) FROM visits",
    "SELECT sum(1 / (age - 20)) FROM visits WHERE nextval('x') > 0",
    "SELECT count(*) FROM visits WHERE name = (SELECT 'x')",
    "SELECT count(*) FROM visits WHERE random() > 0.5",
    "SELECT count(*) FROM visits WHERE getvariable('x') = name",
    "SELECT count(*) FROM visits WHERE rowid < 10",
    "SELECT count(*) FROM visits WHERE file_row_number = 1",
    "SELECT count(*) FROM visits TABLESAMPLE 1 ROWS",
    "SELECT name, count(*) FROM visits GROUP BY 1, rowid",
    "SELECT count(*) FILTER (WHERE stats(age) IS NULL) FROM visits",
    "SELECT COLUMNS(*) FROM visits",
    "SELECT count(*), * EXCLUDE (age) FROM visits",
    "SELECT visits FROM visits",
    "SELECT struct_pack(v := visits) FROM visits",
    "SELECT count(*) FROM visits v1, visits v2",
    "SELECT count(*) FROM visits, LATERAL (SELECT name)",
    "FROM visits SELECT DISTINCT ON (name) count(*)",
    "SELECT count(*) FROM visits WHERE age IN (SELECT age FROM visits)",
    "SELECT count(*) FROM visits GROUP BY GROUPING SETS ((name), ())",
    "SELECT count(*) FROM visits WHERE name SIMILAR TO '(a|a)*b'",
    "SELECT try(sum(age)) FROM visits WHERE name GLOB '*'",
    "SELECT /*+ x */ name FROM visits",
    "SELECT count(*) FROM visits AS OF TIMESTAMP '2020-01-01'",
    'SELECT count(*) FROM "visits" WHERE "name" = $$a$$; --',
    "SELECT sum(age) FROM visits; ; SELECT 1",
    "SELECT count(*) FROM visits WHERE age = ARRAY[" + "ARRAY[" * 40 + "1" + "]" * 41,
    "SELECT count(*) FROM visits WHERE age > " + "DECIMAL(" * 40 + "1" + ")" * 40,
    'SELECT sum(age::"' + "STRUCT(a " * 40 + "INT" + ")" * 40 + '") FROM visits',
    "SELECT sum(age) FROM visits WHERE born > INTERVAL '" + "1" * 60_000 + "'",
    "SELECT sum(" + "(DATE " * 40 + "age" + ")" * 40 + ") FROM visits",
    "SELECT sum(" + "(VARCHAR * EXCLUDE (" * 30 + "age" + "))" * 30 + ") FROM visits",
    "SELECT sum(age) FROM visits WHERE " + "x[" * 400 + "1" + "]" * 400,
)


def test_the_lists_are_long_enough() -> None:
    assert len(FRONT) + len(GATE) >= 79 + 60
    assert len({*FRONT, *GATE}) == len(FRONT) + len(GATE)


@pytest.mark.parametrize("read", ["connection", "relation", "session"])
def test_no_further_statement_escapes_a_front(
    read: str, world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = world.path.parent
    (folder / "text.txt").write_text("alice_7f3\n")
    (folder / "cwd").mkdir()
    monkeypatch.chdir(folder / "cwd")
    before = tree(folder)
    places = {"file": world.path, "text": folder / "text.txt", "folder": folder, "ledger": world.ledger}
    con, session = world.curator.connect("ana"), world.curator.session("ana")
    runs: dict[str, Callable[[str], object]] = {
        "connection": lambda text: con.execute(text).fetchall(),
        "relation": lambda text: str(con.sql(text)),
        "session": lambda text: session.sql(text, epsilon=1).rows(),
    }
    for statement in FRONT:
        text = statement.format(**places)
        start = time.thread_time()
        try:
            shown = str(runs[read](text))
        except (duckdb.Error, DuckDPError) as error:
            shown = str(error)
        assert time.thread_time() - start < 3, text
        shown = shown.replace(text, "")
        for place in places.values():
            shown = shown.replace(str(place), "")
        assert not leaks(shown), (text, shown)
        found = NOT_FOR_SHOW.findall(shown)
        assert not [f for f in found if f not in text and "duckdb.org" not in f], (text, shown)
    assert tree(folder) == before
    assert world.charges() == 0
    assert not leaks("".join(capfd.readouterr()))
    assert len(world.curator.connect("ana").execute("FROM dp_noisy_count('visits', epsilon := 1)").fetchall()) == 1


@pytest.mark.parametrize("number", range(len(GATE)))
def test_no_further_statement_passes_the_gate(
    number: int, shared: World, refused: Callable[..., BaseException]
) -> None:
    charges, session, con = shared.charges(), shared.curator.session("ana"), shared.curator.connect("ana")
    for work in (
        lambda: session.sql(GATE[number], epsilon=1),
        lambda: session.explain(GATE[number], epsilon=1),
        lambda: con.execute("FROM dp_query($1, epsilon := 1)", [GATE[number]]).fetchall(),
        lambda: con.execute("FROM dp_explain($1, epsilon := 1)", [GATE[number]]).fetchall(),
    ):
        start = time.thread_time()
        refused(work, "Q1", "Q2", "Q3", "Q4")
        assert time.thread_time() - start < 3
    assert shared.charges() == charges


def test_the_folder_of_the_process_is_as_it_was(world: World) -> None:
    assert not [p for p in Path.cwd().iterdir() if p.name.startswith(":memory:")]
